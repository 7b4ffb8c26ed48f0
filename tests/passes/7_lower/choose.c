/* Who computes an op, and why those before in its list did not take it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "passes/7_lower/choose.h"
#include "tests/ir/one_op.h"

static const struct {
  const char *op, *in, *attrs;
  int level;
  msc_choice by;
  const char *declined;
} cases[] = {
    {"matmul", "4x5xf32 5x6xf32", "", 3, MSC_BY_PRODUCT, ""},
    {"matmul", "4x5xf32 5x6xf32", "", 2, MSC_BY_LIBRARY, "generated tiles: it needs fused multiply-add"},
    {"batch_matmul", "2x4x5xf32 2x5x6xf32", "", 3, MSC_BY_PRODUCT, ""},
    {"matmul", "4x5xf64 5x6xf64", "", 4, MSC_BY_PRODUCT, ""},
    {"matmul", "4x5xf64 5x6xf64", "", 1, MSC_BY_KERNEL, "generated tiles: it needs fused multiply-add; library: f64 is not among its element types"},
    {"matmul", "4x5xi32 5x6xi32", "", 4, MSC_BY_KERNEL, "generated tiles: i32 is not among its element types; library: i32 is not among its element types"},
    {"matmul", "4x5xbf16 5x6xbf16", "", 3, MSC_BY_KERNEL, "generated tiles: bf16 is not among its element types; library: bf16 needs AVX-512"},
    {"matmul", "4x5xbf16 5x6xbf16", "", 4, MSC_BY_LIBRARY, "generated tiles: bf16 is not among its element types"},
    {"matmul", "4x0xf32 0x6xf32", "", 4, MSC_BY_KERNEL, "generated tiles: nothing to multiply; library: nothing to multiply"},
    {"reshape", "4x5xf32", "shape=20", 4, MSC_BY_ALIAS, ""},
    {"softmax", "4x5xf32", "", 4, MSC_BY_KERNEL, ""},
    {"all_reduce", "4x5xf32", "", 4, MSC_BY_COLLECTIVE, ""},
};

static void test_choices(void **state) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    msc_op *op = one_op(msc_module_new(ctx), cases[i].op, cases[i].in, cases[i].attrs, 1);
    assert_non_null(op);
    msc_chosen chosen = msc_choose(msc_context_arena(ctx), op, MSC_TARGET_CPU, cases[i].level);
    assert_int_equal(chosen.by, cases[i].by);
    assert_string_equal(chosen.declined, cases[i].declined);
  }
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
