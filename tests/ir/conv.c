/* conv.c: compares convolutions, pools and their gradients with values of PyTorch; shapes that do not fit are
 * refused with the reason. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ir/conv.h"
#include "ir/interp/interp.h"
#include "tests/ir/one_op.h"

static const struct {
  const char *op, *in, *attrs, *want;
} cases[] = {
#include "tests/ir/conv_cases.h"
};

static void fill(msc_tensor *t, size_t operand) {
  for (int64_t i = 0; i < msc_type_elems(t->type); i++)
    msc_tensor_set(t, i, (double)((7 * i + 3 * (int64_t)operand) % 11 - 5));
}

static void check_case(msc_module *m, size_t i) {
  msc_arena *a = msc_context_arena(m->ctx);
  static msc_tensor index; /* of the pool before, for its gradient */
  msc_op *op = one_op(m, cases[i].op, cases[i].in, cases[i].attrs, 1);
  msc_tensor in[2], out;
  assert_non_null(op);
  for (size_t k = 0; k < op->num_in; k++) {
    in[k] = msc_tensor_new(a, op->in[k].value->type);
    fill(&in[k], k);
  }
  if (op->kind == OP_max_pool_grad) in[0] = index;
  assert_true(msc_interpret(op->block->func, a, in, &out));
  if (op->kind == OP_max_pool_index) index = out;
  char *at = (char *)cases[i].want;
  for (int64_t k = 0; k < msc_type_elems(out.type); k++, at += *at == ',') {
    double got = msc_tensor_get(&out, k), want = strtod(at, &at);
    if (fabs(got - want) > 1e-12)
      fail_msg("%s(%s) %s: element %d is %g, not %g", cases[i].op, cases[i].in, cases[i].attrs, (int)k, got, want);
  }
  assert_int_equal(*at, 0);
}

static void test_values(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_module_new(ctx);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(m, i);
  msc_context_free(ctx);
}

static const struct {
  const char *op, *in, *attrs, *why;
} wrong[] = {
  {"conv2d", "1x2x4x4xf32 2x2x3xf32", "", "must be weights [o,c,h,w]"},
  {"conv2d", "1x2x4x4xi32 2x2x3x3xi32", "", "floating-point"},
  {"conv2d", "1x2x4x4xf32 2x3x3x3xf32", "", "the weights have 3 channels in each of 1 groups, the images 2 in all"},
  {"conv2d", "1x4x4x4xf32 3x2x3x3xf32", "groups=2", "3 output channels do not divide into 2 groups"},
  {"conv2d", "1x2x4x4xf32 2x2x5x3xf32", "", "a window of 5 elements 1 apart does not fit into height 4"},
  {"conv2d", "1x2x4x4xf32 2x2x3x3xf32", "stride=1", "stride must have 2 entries, not 1"},
  {"conv2d", "1x2x4x4xf32 2x2x3x3xf32", "stride=1,0", "stride 0 is not in 1.."},
  {"conv2d", "1x2x4x4xf32 2x2x3x3xf32", "padding=-1,0,0,0", "padding -1 is not in 0.."},
  {"conv2d", "1x2x4x4xf32 2x2x3x3xf32", "padding=4611686018427387904,0,0,0", "padding"},
  {"conv2d", "1x2x4x4xf32 2x2x3x3xf32", "groups=0", "groups 0 is not in 1.."},
  {"conv2d_transpose", "1x2x4x4xf32 2x2x3x3xf32", "size=7,6", "windows over size 7 are 5, not 4"},
  {"conv2d_transpose", "1x2x4x4xf32 3x2x3x3xf32", "size=6,6", "the weights have 3 output channels, the images 2"},
  {"conv2d_transpose", "1x2x4x4xf32 2x2x3x3xf32", "size=6", "size must have 2 entries"},
  {"conv2d_weight_grad", "1x2x4x4xf32 1x2x4x4xf32", "kernel=3,3", "windows over size 4 are 2, not 4"},
  {"conv2d_weight_grad", "1x2x4x4xf32 2x2x4x4xf32", "kernel=1,1", "operands have 1 and 2 images"},
  {"resize", "1x2x4x4xf32", "size=0,4", "nothing can be made of 4 elements, or of others 0"},
  {"resize", "1x2x4x4xf32", "size=1000000000,4", "from 4 to 1000000000 is too far"},
  {"resize", "1x2x4x4xf32", "size=4,4 mode=bicubic", "is not one of: nearest bilinear"},
  {"max_pool", "1x2x4x4xf32", "kernel=2,2 padding=2,0,0,0", "padding must be smaller than the window"},
  {"max_pool", "1x2x4xf32", "kernel=2,2", "must be images [n,c,h,w]"},
  {"max_pool", "1x2x4x4xf32", "kernel=2", "kernel must have 2 entries"},
  {"max_pool_grad", "1x2x4x4xf32 1x2x4x4xf32", "kernel=1,1 size=4,4", "'index' must have i32 elements"},
  {"max_pool_grad", "1x2x4x4xi32 1x2x4x3xf32", "kernel=1,1 size=4,4", "dimension 3 of the operands differs: 4 and 3"},
  {"avg_pool_grad", "1x2x4x4xf32", "kernel=2,2 size=4,4", "windows over size 4 are 3, not 4"},
};

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    msc_op *op = one_op(msc_module_new(ctx), wrong[i].op, wrong[i].in, wrong[i].attrs, 1);
    if (op) fail_msg("%s(%s) %s is accepted", wrong[i].op, wrong[i].in, wrong[i].attrs);
    if (!strstr(msc_diags(ctx)->text, wrong[i].why))
      fail_msg("%s(%s) %s: %s", wrong[i].op, wrong[i].in, wrong[i].attrs, msc_diags(ctx)->text);
    msc_context_free(ctx);
  }
}

/* Rows that windows of a part reach before and behind those that it stands over, the step of parts, and the numbers of
 * parts that are allowed, a mask. */
static void test_halos(void **state) {
  (void)state;
  static const struct {
    const char *op, *in, *attrs;
    int64_t lo, hi, step;
    unsigned parts;
  } halos[] = {
      {"conv2d", "1x1x8x1xf32 1x1x3x1xf32", "padding=1,1,0,0", 1, 1, 8, 0x1fe},
      {"conv2d", "1x1x8x1xf32 1x1x7x1xf32", "padding=3,3,0,0", 3, 3, 8, 0x1fe},
      {"conv2d", "1x1x8x1xf32 1x1x3x1xf32", "padding=2,2,0,0 dilation=2,1", 2, 2, 8, 0x1fe},
      {"conv2d", "1x1x8x1xf32 1x1x3x1xf32", "padding=0,2,0,0", 0, 2, 8, 0x1fe},
      {"conv2d", "1x1x8x1xf32 1x1x3x1xf32", "padding=1,0,0,0 stride=2,1", 1, 0, 8, 0x1e & ~(1u << 3)}, /* 3, 3 and 2 */
      {"conv2d", "1x1x8x1xf32 1x1x7x1xf32", "padding=3,2,0,0 stride=2,1", 3, 2, 8, 0x1e & ~(1u << 3)},
      {"conv2d", "1x1x8x1xf32 1x1x2x1xf32", "stride=2,1", 0, 0, 8, 0x1e & ~(1u << 3)},
      {"conv2d", "1x1x8x1xf32 1x1x1x1xf32", "stride=2,1", 0, 0, 8, 0x1e & ~(1u << 3)},
      {"conv2d", "1x1x8x1xf32 1x1x3x1xf32", "", 0, 2, 6, 0x7e},
      {"conv2d", "1x1x7x1xf32 1x1x3x1xf32", "padding=1,1,0,0 stride=2,1", 1, 0, 8, 0x1e & ~(1u << 1 | 1u << 3)},
      {"conv2d_transpose", "1x1x4x1xf32 1x1x7x1xf32", "size=8,1 padding=3,2,0,0 stride=2,1", 1, 2, 4,
       0x1e & ~(1u << 3)},
      {"conv2d_transpose", "1x1x6x1xf32 1x1x3x1xf32", "size=8,1", 2, 0, 8, 0x7e},
  };
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_module_new(ctx);
  for (size_t i = 0; i < sizeof halos / sizeof *halos; i++) {
    msc_op *op = one_op(m, halos[i].op, halos[i].in, halos[i].attrs, 1);
    msc_rule rule;
    int64_t lo, hi;
    unsigned parts = 0;
    assert_non_null(op);
    assert_true(msc_rule_of(op, msc_context_arena(ctx), &rule));
    const msc_letter *h = &rule.letter[msc_find_letter(&rule, 'h')];
    for (int64_t n = 1; n < 32; n++) parts |= msc_letter_allows(h, n) ? 1u << n : 0;
    assert_true(msc_halo_of(op, 0, 2, &lo, &hi));
    if (lo != halos[i].lo || hi != halos[i].hi || msc_halo_step(op, 2) != halos[i].step || parts != halos[i].parts)
      fail_msg("%s %s: %d and %d, step %d, parts %x", halos[i].in, halos[i].attrs, (int)lo, (int)hi,
               (int)msc_halo_step(op, 2), parts);
    assert_false(msc_halo_of(op, 1, 2, &lo, &hi));
  }
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_halos)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
