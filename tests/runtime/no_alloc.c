/* Steps do not allocate: an interposed allocator counts while they run.  What oneDNN allocates inside is its own affair. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/runtime/make_plan.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void) {
  puts("skipped: the sanitizer has an allocator of its own");
  return 0;
}
#else

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t num, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static atomic_bool counting;
static atomic_int count;

/* Only calls from this program count; a library's own do not. */
static void note(void *caller) {
  Dl_info info;
  if (!atomic_load(&counting)) return;
  atomic_store(&counting, false);
  bool ours = dladdr(caller, &info) && info.dli_fname && !strstr(info.dli_fname, "libdnnl") && !strstr(info.dli_fname, "libstdc++");
  atomic_fetch_add(&count, ours);
  atomic_store(&counting, true);
}

void *malloc(size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_malloc(bytes);
}

void *calloc(size_t num, size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_calloc(num, bytes);
}

void *realloc(void *memory, size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes) {
  note(__builtin_return_address(0));
  *out = __libc_memalign(align, bytes);
  return *out ? 0 : 12;
}

static KERNEL void k_copy(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  (void)dims, (void)scalars;
  for (int64_t i = begin; i < end; i++) ((float *)b[1])[i] = ((float *)b[0])[i];
}

static void expect_ok(mscrt_status *s) {
  if (s) fail_msg("%s\n%s", mscrt_status_text(s), mscrt_status_trail(s));
}

/* Reads batches with a thread, multiplies, copies, and makes a loss. */
enum { BATCH = 64, WIDE = 256 };

static void steps_do_not_allocate(void **state) {
  (void)state;
  uint64_t x = BATCH * WIDE * 4;
  call_text calls[] = {
    {.kind = PLAN_CALL_KIND_MATMUL, .num_buffers = 3, .buffers = {IN(I, 0, x), IN(P, 0, WIDE * WIDE * 4), OUT(S, 0, x)}},
    {.num_buffers = 2, .buffers = {IN(S, 0, x), OUT(S, x, x)}, .extent = BATCH * WIDE, .grain = 1000},
    {.kind = PLAN_CALL_KIND_COLLECTIVE, .num_buffers = 2, .buffers = {IN(S, x, x), OUT(S, 2 * x, x)}},
  };
  plan_text t = {.num_axes = 1, .axes = {1}, .num_layouts = 4, .layouts = {"2:", "2:0", "2:|0", "0:"}, .num_kernels = 1, .kernel = {{"copy", k_copy, 2, 0, 0}},
    .num_matmuls = 1, .matmul = {{.batch = 1, .m = BATCH, .n = WIDE, .k = WIDE, .tile_m = 16, .tile_n = 64}},
    .num_collectives = 1, .collective = {{MSCRT_ALL_REDUCE, 0, 2, {BATCH, WIDE}, 2, 0, 0}},
    .num_sections = 1, .section = {{"train", 3 * x, 3, calls}}, .persistent = WIDE * WIDE * 4, .input_stride = x,
    .num_parameters = 1, .parameter = {{"w", 0, 2, {WIDE, WIDE}, 0, IN(P, 0, WIDE * WIDE * 4), "normal:0.1", .loss = false}},
    .num_inputs = 1, .input = {{"x", 0, 2, {BATCH, WIDE}, 0, IN(I, 0, x), .loss = false}},
    .num_outputs = 1, .output = {{"loss", 0, 0, {0}, 3, IN(S, 2 * x, 4), .loss = true}}};
  static uint8_t file[12 + 200 * WIDE] = {0, 0, 8, 2, 0, 0, 0, 200, 0, 0, WIDE >> 8, 0};
  char path[] = "/tmp/msc-no-alloc-XXXXXX";
  FILE *f = fdopen(mkstemp(path), "wb");
  fwrite(file, 1, sizeof file, f);
  fclose(f);
  size_t size;
  uint8_t *bytes = make_plan(&t, &size);
  mscrt_plan *plan;
  mscrt_data *data;
  mscrt_context *ctx;
  double loss;
  expect_ok(mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan));
  expect_ok(mscrt_data_open(plan, 1, &(mscrt_source){"x", path}, NULL, &data));
  expect_ok(mscrt_open(plan, &(mscrt_options){.struct_size = sizeof(mscrt_options), .threads = 3}, &ctx));
  expect_ok(mscrt_set_data(ctx, data));
  expect_ok(mscrt_run(ctx, "train", 1, &loss));
  atomic_store(&counting, true);
  mscrt_status *s = mscrt_run(ctx, "train", 50, &loss);
  atomic_store(&counting, false);
  expect_ok(s);
  assert_int_equal(atomic_load(&count), 0);
  atomic_store(&counting, true);
  free(malloc(10));
  atomic_store(&counting, false);
  assert_int_equal(atomic_load(&count), 1);
  mscrt_close(ctx);
  mscrt_data_close(data);
  mscrt_plan_close(plan);
  free(bytes);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steps_do_not_allocate)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
