/* arena.c: checks arenas: memory is zeroed and aligned, and a context frees all that it took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

typedef struct {
  size_t held; /* bytes now */
} counts;

static void *counting(void *user, void *ptr, size_t old_bytes, size_t bytes) {
  counts *c = user;
  c->held += bytes - old_bytes;
  if (bytes) return realloc(ptr, bytes);
  free(ptr);
  return NULL;
}

static bool is_zero(const unsigned char *p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (p[i]) return false;
  return true;
}

/* Pieces of all sizes, each zero and of its own; `total` bytes at least. */
static void fill(msc_context *ctx, size_t total) {
  msc_arena *a = msc_arena_new(ctx);
  for (size_t bytes = 1; msc_arena_bytes(a) < total; bytes = bytes % 100000 * 3 + 1) {
    unsigned char *p = msc_arena_alloc(a, bytes);
    assert_int_equal((uintptr_t)p % 16, 0);
    assert_true(is_zero(p, bytes));
    memset(p, 0xff, bytes);
  }
  msc_arena_free(a);
}

static void given_back(void **s) {
  (void)s;
  counts c = {0};
  msc_context *ctx = msc_context_new(counting, &c);
  for (size_t total = 1000; total < 20u << 20; total *= 7) fill(ctx, total);
  msc_context_free(ctx);
  assert_int_equal(c.held, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(given_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
