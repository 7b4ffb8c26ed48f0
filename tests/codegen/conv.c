/* conv.c: compares kernels of convolutions, pools and their gradients with the interpreter. */
#include "tests/codegen/kernels.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct {
  const char *op, *in, *attrs, *dtypes;
} cases[] = {
  {"conv2d", "2x3x7x9x$ 4x3x3x3x$", "padding=1,1,1,1", "f32 f64 f16 bf16"},
  {"conv2d", "1x3x19x40x$ 2x3x5x3x$", "stride=2,3 padding=2,0,1,2 dilation=2,1", "f32 f64"},
  {"conv2d", "2x4x6x6x$ 6x2x3x3x$", "groups=2 padding=0,1,1,1", "f64"},
  {"conv2d", "2x6x6x17x$ 6x1x3x3x$", "groups=6 padding=1,1,1,1", "f32"},
  {"conv2d", "2x6x8x8x$ 12x1x1x1x$", "groups=6 stride=2,2", "f64"},
  {"conv2d", "3x5x6x6x$ 7x5x1x1x$", "", "f32 f16"},
  {"conv2d", "1x1x3x3x$ 1x1x3x3x$", "", "f64"},
  {"conv2d", "0x2x4x4x$ 3x2x3x3x$", "", "f32"},
  {"conv2d", "2x0x4x4x$ 3x0x3x3x$", "", "f32"},
  {"conv2d_transpose", "2x4x7x9x$ 4x3x3x3x$", "size=7,9 padding=1,1,1,1", "f32 f64 bf16"},
  {"conv2d_transpose", "1x2x8x14x$ 2x3x5x3x$", "size=19,40 stride=2,3 padding=2,2,1,2 dilation=2,1", "f32"},
  {"conv2d_transpose", "2x6x5x4x$ 6x2x3x3x$", "size=6,4 groups=2 padding=1,0,1,1", "f64"},
  {"conv2d_transpose", "2x6x4x4x$ 6x1x3x3x$", "size=8,8 stride=2,2 groups=6 padding=1,0,1,0", "f32"},
  {"conv2d_transpose", "2x12x4x4x$ 12x1x1x1x$", "size=8,8 groups=6 stride=2,2", "f64"},
  {"conv2d_weight_grad", "2x3x7x9x$ 2x4x7x9x$", "kernel=3,3 padding=1,1,1,1", "f32 f64 f16"},
  {"conv2d_weight_grad", "1x3x19x40x$ 1x2x8x14x$", "kernel=5,3 stride=2,3 padding=2,2,1,2 dilation=2,1", "f32"},
  {"conv2d_weight_grad", "2x4x6x6x$ 2x6x5x6x$", "kernel=3,3 groups=2 padding=0,1,1,1", "f64"},
  {"conv2d_weight_grad", "2x6x8x8x$ 2x12x4x4x$", "kernel=1,1 groups=6 stride=2,2", "f64"},
  {"unfold", "2x3x7x19x$", "kernel=3,3 padding=1,1,1,1", "f32 f64"},
  {"unfold", "2x3x7x19x$", "kernel=3,2 stride=2,3 dilation=1,2 padding=1,0,0,2 images_last=true", "f32"},
  {"unfold", "2x3x7x19x$", "kernel=3,2 dilation=1,2 padding=1,0,0,2 turned=true", "f32 f64"},
  {"unfold", "2x3x7x19x$", "kernel=2,5 stride=2,1 padding=1,0,3,4 turned=true images_last=true", "f32"},
  {"fold", "2x3x3x3x7x19x$", "size=7,19 padding=1,1,1,1", "f32 f64"},
  {"fold", "2x3x3x2x3x7x$", "size=7,19 stride=2,3 dilation=1,2 padding=1,0,0,2", "f32"},
  {"fold", "2x3x2x5x4x9x$", "size=11,19 stride=3,2 padding=1,0,2,1", "f32 f64"},
  {"fold", "1x2x4x1x3x8x$", "size=9,24 stride=2,3 padding=0,0,0,0", "f32"},
  {"max_pool", "2x3x9x8x$", "kernel=3,2 dilation=1,2", "f32"}, /* loops, before the runtime's kernel has the name */
  {"max_pool", "2x3x8x20x$", "kernel=3,3 stride=2,2 padding=1,1,1,1", "f32 f64 f16 i32 i8 ui8 i64"},
  {"max_pool", "2x3x8x9x$", "kernel=2,3 dilation=2,1", "f32"},
  {"max_pool", "2x3x8x9x$", "kernel=1,1 stride=2,2", "f32"},
  {"max_pool_index", "2x3x8x20x$", "kernel=3,3 stride=2,2 padding=1,1,1,1", "f32 f64 i32"},
  {"max_pool_index", "2x3x8x9x$", "kernel=4,1 padding=2,1,0,0", "f32"},
  {"max_pool_grad", "2x3x4x10xi32 2x3x4x10x$", "kernel=3,3 size=8,20 stride=2,2 padding=1,1,1,1", "f32 f64"},
  {"max_pool_grad", "2x3x6x7xi32 2x3x6x7x$", "kernel=3,3 size=8,9", "f32"},
  {"max_pool_grad", "2x3x4x9xi32 2x3x4x9x$", "kernel=2,5 size=11,19 stride=3,2 padding=1,0,2,1", "f32"},
  {"max_pool_grad", "1x3x3x8xi32 1x3x3x8x$", "kernel=4,1 size=8,24 stride=2,3", "f32 f64"},
  {"avg_pool", "2x3x8x20x$", "kernel=3,2 stride=2,2 padding=1,1,0,1", "f32 f64 f16"},
  {"avg_pool", "2x3x8x20x$", "kernel=3,3 stride=2,2 padding=1,1,1,1 count_include_pad=false", "f32 f64"},
  {"avg_pool", "2x3x8x9x$", "kernel=3,2 count_include_pad=false", "f32"},
  {"avg_pool_grad", "2x3x4x10x$", "kernel=3,3 size=8,20 stride=2,2 padding=1,1,1,1", "f32 f64"},
  {"avg_pool_grad", "2x3x4x9x$", "kernel=2,5 size=11,19 stride=3,2 padding=1,0,2,1", "f32"},
  {"avg_pool_grad", "2x3x6x7x$", "kernel=3,3 size=8,9", "f32"},
};

static const char *typed(kernel_run *k, const char *shapes, const char *dtype, size_t n) {
  char *out = msc_arena_alloc(msc_context_arena(k->ctx), 200), *p = out;
  for (; *shapes; shapes++) p += *shapes == '$' ? sprintf(p, "%.*s", (int)n, dtype) : sprintf(p, "%c", *shapes);
  return out;
}

static void test_windows(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++)
    for (const char *d = cases[i].dtypes; *d; d += strcspn(d, " "), d += *d == ' ') {
      bool counts = !strcmp(cases[i].op, "max_pool_grad"), is_unsigned = *d == 'u';
      kernels_add_op(k, cases[i].op, typed(k, cases[i].in, d, strcspn(d, " ")), cases[i].attrs, 1,
                     counts || is_unsigned ? 0 : -9, 9)
          ->reordered = true;
    }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

/* NaN is the largest; of equal ones the first is found. */
static void prepare_special(kernel_run *k, kernel_case *c) {
  (void)k;
  for (int64_t i = 0; i < msc_type_elems(c->in[0].type); i++)
    msc_tensor_set(&c->in[0], i, i % 7 == 0 ? (double)NAN : i % 5 == 0 ? -(double)INFINITY : (double)(i % 3));
}

static void test_special(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (int i = 0; i < 2; i++) {
    msc_op *op = one_op(msc_module_new(k->ctx), i ? "max_pool_index" : "max_pool", "1x2x6x20xf32",
                        "kernel=2,3 stride=2,1 padding=0,0,1,1", 1);
    kernels_add_with(k, "special", op->block->func, false, 0, 1, prepare_special);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

/* A plan that says other sizes than its buffers have is refused before the runtime's pools touch anything. */
static void test_pool_calls(void **state) {
  (void)state;
  int64_t d[MSC_POOLING_DIMS] = {MSC_POOLING_BACK, 3, 2, 1, 1, 8, 4, 3, 2, 1, 1, 20, 10};
  uint64_t bytes[3] = {6 * 4 * 10 * 4, 6 * 4 * 10 * 4, 6 * 8 * 20 * 4};
  assert_true(mscrt_builtin_fits(MSC_BUILTIN_POOLING, 3, bytes, MSC_POOLING_DIMS, d, 6));
  assert_false(mscrt_builtin_fits(MSC_BUILTIN_POOLING, 3, bytes, MSC_POOLING_DIMS, d, 7));
  assert_false(mscrt_builtin_fits(MSC_BUILTIN_POOLING, 2, bytes, MSC_POOLING_DIMS, d, 6));
  for (int i = 0; i < MSC_POOLING_DIMS; i++) {
    static const int64_t bad[] = {-1, INT64_MAX};
    int64_t before = d[i];
    for (int k = 0; k < 2; k++) {
      d[i] = bad[k];
      assert_false(mscrt_builtin_fits(MSC_BUILTIN_POOLING, 3, bytes, MSC_POOLING_DIMS, d, 6));
    }
    d[i] = before;
  }
}

/* A pool and its positions see the same windows: one kernel; what goes on with the pooled values may join it. */
static void test_fused(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  msc_op *pool = one_op(msc_module_new(k->ctx), "max_pool", "2x3x8x20xf32", "kernel=3,3 stride=2,2 padding=1,1,1,1", 1);
  msc_builder b = {.func = pool->block->func, .block = pool->block, .before = pool->block->last, .loc = pool->loc};
  msc_op *index =
      msc_build_with(&b, OP_max_pool_index, 1, (msc_value *[]){pool->in[0].value}, 1, pool->num_attrs, pool->attrs);
  msc_value *relu = msc_build(&b, OP_relu, 1, (msc_value *[]){&pool->out[0]});
  msc_set_operands(pool->block->last, 2, (msc_value *[]){relu, &index->out[0]});
  kernels_add(k, "pool, position and relu", pool->block->func, true, -9, 9);
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows), cmocka_unit_test(test_special),
                                     cmocka_unit_test(test_fused), cmocka_unit_test(test_pool_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
