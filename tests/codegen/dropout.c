/* dropout.c: checks random ops: the published numbers of Philox, kernels against the interpreter bit for bit, and
 * how many elements stay. */
#include "ir/abi/philox.h"
#include "tests/codegen/kernels.h"

/* Random123's known answers */
static void test_published_numbers(void **state) {
  (void)state;
  static const uint32_t ones[4] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, zeros[4] = {0};
  static const uint32_t of_zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                        of_ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  uint32_t out[4];
  msc_philox(zeros, zeros, out);
  assert_memory_equal(out, of_zeros, sizeof out);
  msc_philox(ones, ones, out);
  assert_memory_equal(out, of_ones, sizeof out);
}

static void draw_key(kernel_run *k, kernel_case *c) {
  for (int i = 1; i < 3; i++) *(int64_t *)c->in[i].data = (int64_t)(random_number(k) * 0x1p63);
}

static void add(kernel_run *k, const char *kind, const char *in, const char *attrs) {
  msc_module *m = msc_module_new(k->ctx);
  msc_op *op = one_op(m, kind, in, attrs, 1);
  assert_non_null(op);
  kernels_add_with(k, in, m->first, false, -5, 5, draw_key);
}

static void test_kernels(void **state) {
  (void)state;
  kernel_run *k = kernels_new(NULL);
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  for (int t = 0; t < 4; t++) {
    add(k, "dropout", msc_arena_printf(msc_context_arena(k->ctx), "1003x%s i64 i64", types[t]), "rate=0.3 salt=7");
    add(k, "dropout", msc_arena_printf(msc_context_arena(k->ctx), "3x5x17x%s i64 i64", types[t]),
        "rate=0.9 salt=4294967295");
    add(k, "uniform", msc_arena_printf(msc_context_arena(k->ctx), "1003x%s i64 i64", types[t]), "salt=7");
    add(k, "uniform", msc_arena_printf(msc_context_arena(k->ctx), "3x5x17x%s i64 i64", types[t]), "");
  }
  kernels_finish(k);
  for (size_t i = 0; i < k->num; i++) {
    const kernel_case *c = k->cases[i];
    fenced list[8] = {{0}};
    run_case(k, k->cases[i], 1, APART, list);
    if (memcmp(list[3].data, c->expected[0].data, list[3].bytes)) fail_msg("%s: not the interpreter's bits", c->what);
    for (int j = 0; list[j].map; j++) fenced_free(&list[j]);
  }
  kernels_check(k);
  kernels_free(k);
}

/* The rank that holds columns 2 and 3 of [36, 4] draws what belongs to these places: rows of its part are not rows
 * of the whole. */
static void test_columns_of_a_whole(void **state) {
  (void)state;
  kernel_run *k = kernels_new(NULL);
  msc_op *op = one_op(msc_module_new(k->ctx), "dropout", "36x2xf32 i64 i64", "rate=0.5 salt=7", 1);
  assert_non_null(op);
  msc_op_set(op, "starts", msc_ints(k->ctx, 2, (int64_t[]){-1, 0}));
  msc_op_set(op, "whole_shape", msc_ints(k->ctx, 2, (int64_t[]){36, 4}));
  kernel_case *c = msc_new(msc_context_arena(k->ctx), kernel_case);
  c->op = op;
  assert_true(msc_codegen_add(k->cg, op, &c->call));
  k->cases[k->num++] = c;
  kernels_finish(k);
  const msc_launch *l = &c->call.launch[0];
  _Alignas(64) float x[72], y[72];
  int64_t dims[MSC_NEST_DIMS], seed = 11, step = 3;
  void *value[] = {x, &seed, &step, y}, *all[8];
  for (int i = 0; i < 72; i++) x[i] = (float)(i + 1);
  memcpy(dims, l->dims, sizeof *dims * l->num_dims);
  assert_int_equal(l->num_starts, 1);
  dims[l->start[0].index] = 2;
  for (size_t i = 0; i < l->num_buffers; i++) all[i] = value[l->buffer[i]];
  if (k->gpu) launch_on_gpu(k, l, all, dims, 0);
  else kernels_code(k, l)(all, 0, (int64_t)l->extent, dims, l->scalars);
  for (int i = 0; i < 72; i++)
    assert_true(y[i] ==
                (msc_philox_element(11, i / 2 * 4 + 2 + i % 2, 3, 7) >= msc_dropout_threshold(0.5) ? 2 * x[i] : 0));
  kernels_free(k);
}

/* Of n elements (1 - rate) n stay, within five standard deviations, and other steps, ops and seeds choose others. */
static void test_share_that_stays(void **state) {
  (void)state;
  enum { N = 100000 };
  const double rate = 0.1;
  const uint32_t threshold = msc_dropout_threshold(rate);
  int same[3] = {0}, stay = 0;
  for (int64_t i = 0; i < N; i++) {
    bool here = msc_philox_element(1, i, 0, 1) >= threshold;
    stay += here;
    same[0] += here == (msc_philox_element(2, i, 0, 1) >= threshold);
    same[1] += here == (msc_philox_element(1, i, 1, 1) >= threshold);
    same[2] += here == (msc_philox_element(1, i, 0, 2) >= threshold);
  }
  double deviation = sqrt(N * rate * (1 - rate)), alike = 1 - 2 * rate * (1 - rate);
  assert_true(fabs(stay - N * (1 - rate)) < 5 * deviation);
  for (int k = 0; k < 3; k++) assert_true(fabs(same[k] - N * alike) < 5 * sqrt(N * alike * (1 - alike)));
  assert_int_equal(msc_dropout_threshold(0), 0);
  assert_int_equal(msc_dropout_threshold(1 - 1e-12), UINT32_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_published_numbers), cmocka_unit_test(test_kernels),
                                     cmocka_unit_test(test_columns_of_a_whole),
                                     cmocka_unit_test(test_share_that_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
