/* place: random buffers never overlap in time and space, stay near the bound, and do not depend on the order of input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "passes/8_memory/place.h"

static uint64_t random_state;

static uint64_t draw(uint64_t below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 33) % below;
}

static uint64_t rounded(uint64_t n) { return (n + MSC_ALIGN - 1) / MSC_ALIGN * MSC_ALIGN; }

static void check(size_t num, const msc_buffer *b, const uint64_t *offset, uint64_t total) {
  for (size_t i = 0; i < num; i++) {
    assert_int_equal(offset[i] % MSC_ALIGN, 0);
    assert_true(offset[i] + b[i].bytes <= total);
    for (size_t k = 0; k < i; k++) {
      bool together = b[i].lower < b[k].upper && b[k].lower < b[i].upper && b[i].bytes && b[k].bytes;
      bool apart = offset[i] + b[i].bytes <= offset[k] || offset[k] + b[k].bytes <= offset[i];
      if (together && !apart) fail_msg("buffers %zu and %zu share bytes while both live", k, i);
    }
  }
}

static void test_random(void **state) {
  enum { MOST = 60 };
  msc_context *ctx = *state;
  for (int round = 0; round < 500; round++) {
    msc_buffer b[MOST];
    uint64_t offset[MOST];
    size_t num = draw(MOST) + 1;
    for (size_t i = 0; i < num; i++) {
      uint64_t lower = draw(40);
      b[i] = (msc_buffer){lower, lower + 1 + draw(12), draw(5) ? draw(5000) : 0};
    }
    uint64_t total = msc_place(msc_context_arena(ctx), num, b, offset), bound = msc_place_bound(msc_context_arena(ctx), num, b);
    check(num, b, offset, total);
    assert_true(total >= bound);
    assert_true(total <= bound + bound / 2); /* the worst of these 500 is 1.39 */
  }
}

/* Lifetimes are half open: what ends at 1 makes room for what starts at 1. */
static void test_half_open(void **state) {
  msc_buffer b[] = {{0, 1, 100}, {1, 2, 128}, {0, 2, 1}};
  uint64_t offset[3];
  assert_int_equal(msc_place(msc_context_arena(*state), 3, b, offset), rounded(128) + MSC_ALIGN);
  assert_int_equal(msc_place_bound(msc_context_arena(*state), 3, b), 192);
}

static void test_order_of_input(void **state) {
  msc_context *ctx = *state;
  msc_buffer a[20], b[20];
  uint64_t offset_a[20], offset_b[20];
  random_state = 7;
  for (int i = 0; i < 20; i++) {
    uint64_t lower = draw(10);
    a[i] = b[19 - i] = (msc_buffer){lower, lower + 1 + draw(5), 64 * (draw(30) + 1)};
  }
  assert_int_equal(msc_place(msc_context_arena(ctx), 20, a, offset_a), msc_place(msc_context_arena(ctx), 20, b, offset_b));
}

static void test_nothing(void **state) {
  assert_int_equal(msc_place(msc_context_arena(*state), 0, NULL, NULL), 0);
  assert_int_equal(msc_place_bound(msc_context_arena(*state), 0, NULL), 0);
}

static int open_context(void **state) { return !(*state = msc_context_new(NULL, NULL)); }

static int close_context(void **state) {
  msc_context_free(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_half_open), cmocka_unit_test(test_order_of_input), cmocka_unit_test(test_nothing)};
  return cmocka_run_group_tests_name("passes/8_memory/place", tests, open_context, close_context);
}
