/* allocate.c: an interposed allocator counts calls while steps run, which must not allocate, and fails call n for
 * every n, which must end in a status. Allocations inside oneDNN and the C library are not counted. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

#define NOINLINE __attribute__((noinline)) /* the return address must be the caller's */

static atomic_bool watching;
static atomic_int count, fail_at; /* fail_at 0: never */

/* Only calls from this program count.  True: this one shall fail. */
static bool note(void *caller) {
  Dl_info info, self;
  if (!atomic_load(&watching)) return false;
  atomic_store(&watching, false);
  bool ours = dladdr(caller, &info) && dladdr((void *)(uintptr_t)note, &self) && info.dli_fbase == self.dli_fbase;
  int number = ours ? atomic_fetch_add(&count, 1) + 1 : 0;
  atomic_store(&watching, true);
  return number && number == atomic_load(&fail_at);
}

NOINLINE void *malloc(size_t bytes) { return note(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes); }
NOINLINE void *calloc(size_t num, size_t bytes) {
  return note(__builtin_return_address(0)) ? NULL : __libc_calloc(num, bytes);
}
NOINLINE void *realloc(void *memory, size_t bytes) {
  return note(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}
NOINLINE void *aligned_alloc(size_t align, size_t bytes) {
  return note(__builtin_return_address(0)) ? NULL : __libc_memalign(align, bytes);
}

NOINLINE int posix_memalign(void **out, size_t align, size_t bytes) {
  *out = note(__builtin_return_address(0)) ? NULL : __libc_memalign(align, bytes);
  return *out ? 0 : ENOMEM;
}

static void watch(int fail) {
  atomic_store(&count, 0);
  atomic_store(&fail_at, fail);
  atomic_store(&watching, true);
}

static int watched(void) {
  atomic_store(&watching, false);
  return atomic_load(&count);
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

static uint8_t *bytes;
static size_t size;
static char path[] = "/tmp/msc-no-alloc-XXXXXX", weights[64], checkpoint[64];

static int make_job(void **state) {
  uint64_t x = BATCH * WIDE * 4;
  call_text calls[] = {
    {.kind = PLAN_CALL_KIND_MATMUL, .num_buffers = 3, .buffers = {IN(I, 0, x), IN(P, 0, WIDE * WIDE * 4), OUT(S, 0,
     x)}},
    {.num_buffers = 2, .buffers = {IN(S, 0, x), OUT(S, x, x)}, .extent = BATCH * WIDE, .grain = 1000},
    {.kind = PLAN_CALL_KIND_COLLECTIVE, .num_buffers = 2, .buffers = {IN(S, x, x), OUT(S, 2 * x, x)}},
  };
  plan_text t = {.num_axes = 1,
                 .axes = {1},
                 .num_layouts = 4,
                 .layouts = {"2:", "2:0", "2:|0", "0:"},
                 .num_kernels = 1,
                 .kernel = {{"copy", k_copy, 2, 0, 0}},
                 .num_matmuls = 1,
                 .matmul = {{.batch = 1, .m = BATCH, .n = WIDE, .k = WIDE, .tile_m = 16, .tile_n = 64}},
                 .num_collectives = 1,
                 .collective = {{MSC_ALL_REDUCE, 0, 2, {BATCH, WIDE}, 2, 0, 0}},
                 .num_sections = 1,
                 .section = {{"train", 3 * x, 3, calls}},
                 .persistent = WIDE * WIDE * 4,
                 .input_stride = x,
                 .num_parameters = 1,
                 .parameter = {{"w", 0, 2, {WIDE, WIDE}, 0, IN(P, 0, WIDE * WIDE * 4), "normal:0.1", .loss = false}},
                 .num_inputs = 1,
                 .input = {{"x", 0, 2, {BATCH, WIDE}, 0, IN(I, 0, x), .loss = false}},
                 .num_outputs = 1,
                 .output = {{"loss", 0, 0, {0}, 3, IN(S, 2 * x, 4), .loss = true}}};
  static uint8_t file[12 + 200 * WIDE] = {0, 0, 8, 2, 0, 0, 0, 200, 0, 0, WIDE >> 8, 0};
  (void)state;
  FILE *f = fdopen(mkstemp(path), "wb");
  fwrite(file, 1, sizeof file, f);
  fclose(f);
  snprintf(weights, sizeof weights, "%s.w", path);
  snprintf(checkpoint, sizeof checkpoint, "%s.c", path);
  bytes = make_plan(&t, &size);
  return 0;
}

static int drop_job(void **state) {
  (void)state;
  free(bytes);
  unlink(weights);
  mscrt_status_free(mscrt_remove_folder(checkpoint));
  return unlink(path);
}

/* Batches read by a thread, a product, a kernel, a collective; weights and checkpoints out and in. */
static mscrt_status *whole_life(int steps, bool counted) {
  mscrt_plan *plan = NULL;
  mscrt_data *data = NULL;
  mscrt_context *ctx = NULL;
  double loss;
  mscrt_status *s = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan);
  if (!s) s = mscrt_data_open(plan, 1, &(mscrt_source){"x", path}, NULL, &data);
  if (!s) s = mscrt_open(plan, &(mscrt_options){.struct_size = sizeof(mscrt_options), .threads = 3}, &ctx);
  if (!s) s = mscrt_set_data(ctx, data);
  if (!s) s = mscrt_run(ctx, "train", 1, &loss);
  if (counted) watch(0);
  if (!s) s = mscrt_run(ctx, "train", steps, &loss);
  if (counted) watched();
  if (!s) s = mscrt_save(ctx, weights);
  if (!s) s = mscrt_load(ctx, weights);
  if (!s) s = mscrt_checkpoint(ctx, checkpoint);
  int64_t step;
  if (!s) s = mscrt_plan_check_checkpoint(plan, checkpoint, &step);
  mscrt_close(ctx);
  ctx = NULL;
  if (!s) s = mscrt_open(plan, &(mscrt_options){.struct_size = sizeof(mscrt_options), .threads = 3}, &ctx);
  if (!s) s = mscrt_resume(ctx, checkpoint);
  mscrt_close(ctx);
  mscrt_data_close(data);
  mscrt_plan_close(plan);
  return s;
}

static void steps_do_not_allocate(void **state) {
  (void)state;
  expect_ok(whole_life(50, true));
  assert_int_equal(atomic_load(&count), 0);
  watch(0);
  void *volatile memory = malloc(10);
  free(memory);
  assert_int_equal(watched(), 1);
}

static void every_failure_is_a_status(void **state) {
  (void)state;
  for (int n = 1;; n++) {
    watch(n);
    mscrt_status *s = whole_life(1, false);
    int calls = watched();
    if (!s && calls < n) {
      assert_true(n > 50);
      break;
    }
    if (s && mscrt_status_code(s) != MSCRT_NO_MEMORY) fail_msg("allocation %d: %s", n, mscrt_status_text(s));
    mscrt_status_free(s);
    assert_true(n < 10000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steps_do_not_allocate),
                                     cmocka_unit_test(every_failure_is_a_status)};
  return cmocka_run_group_tests(tests, make_job, drop_job);
}
#endif
