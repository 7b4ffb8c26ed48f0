/* choose.c: checks which target entry computes each op, and the reasons why those earlier in the list declined. */
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
    {"matmul", "4x5xf64 5x6xf64", "", 1, MSC_BY_KERNEL,
     "generated tiles: it needs fused multiply-add; library: f64 is not among its element types"},
    {"matmul", "4x5xi32 5x6xi32", "", 4, MSC_BY_KERNEL,
     "generated tiles: i32 is not among its element types; library: i32 is not among its element types"},
    {"matmul", "4x5xbf16 5x6xbf16", "", 3, MSC_BY_PRODUCT, ""},
    {"matmul", "4x5xbf16 5x6xbf16", "", 2, MSC_BY_KERNEL,
     "generated tiles: it needs fused multiply-add; library: bf16 is not among its element types"},
    {"matmul", "4x0xf32 0x6xf32", "", 4, MSC_BY_KERNEL,
     "generated tiles: nothing to multiply; library: nothing to multiply"},
    {"reshape", "4x5xf32", "shape=20", 4, MSC_BY_ALIAS, ""},
    {"softmax", "4x5xf32", "", 4, MSC_BY_KERNEL, ""},
    {"conv2d", "2x4x8x8xf32 6x4x3x3xf32", "", 3, MSC_BY_WINDOWS, ""},
    {"conv2d", "2x4x3x3xf32 6x4x3x3xf32", "", 3, MSC_BY_PRODUCT,
     "generated tiles of windows: images are rows of a product"},
    {"conv2d_transpose", "2x16x6x6xf32 16x5x3x3xf32", "size=8,8", 3, MSC_BY_WINDOWS, ""},
    {"conv2d_transpose", "2x15x6x6xf32 15x5x3x3xf32", "size=8,8", 3, MSC_BY_PRODUCT,
     "generated tiles of windows: its images are large, or have few channels"},
    {"conv2d_transpose", "2x16x9x9xf32 16x16x3x3xf32", "size=9,9 padding=1,1,1,1", 3, MSC_BY_WINDOWS, ""},
    {"conv2d", "2x4x8x8xf32 6x2x3x3xf32", "groups=2", 3, MSC_BY_WINDOWS, ""},
    {"conv2d", "2x4x8x8xf64 6x2x3x3xf64", "groups=2", 3, MSC_BY_KERNEL,
     "generated tiles of windows: it has f32 only; generated tiles: products of single groups are small"},
    {"conv2d_transpose", "2x6x6x6xf32 6x2x3x3xf32", "size=8,8 groups=2", 3, MSC_BY_WINDOWS, ""},
    {"flash_attention", "2x4x8x64xf32 2x2x8x64xf32 2x2x8x64xf32", "", 3, MSC_BY_BLOCKS, ""},
    {"flash_attention", "2x4x8x64xf32 2x2x8x64xf32 2x2x8x64xf32", "", 2, MSC_BY_PRODUCT,
     "generated tiles of blocks of scores: it needs fused multiply-add"},
    {"flash_attention", "2x4x8x64xf64 2x2x8x64xf64 2x2x8x64xf64", "", 3, MSC_BY_PRODUCT,
     "generated tiles of blocks of scores: it has f32 only"},
    {"flash_attention", "2x4x8x64xf32 2x2x8x64xf32 2x2x8x1024xf32", "", 3, MSC_BY_PRODUCT,
     "generated tiles of blocks of scores: its sizes are out of range"},
    {"all_reduce", "4x5xf32", "", 4, MSC_BY_COLLECTIVE, ""},
};

/* On a GPU, whose library may compute attention and convolutions where it is `allowed`. */
static const struct {
  const char *op, *in, *attrs;
  bool allowed;
  msc_choice by;
  const char *declined;
} gpu_cases[] = {
    {"flash_attention", "2x4x8x64xbf16 2x2x8x64xbf16 2x2x8x64xbf16", "", true, MSC_BY_LIBRARY, ""},
    {"flash_attention", "2x4x8x64xbf16 2x2x8x64xbf16 2x2x8x64xbf16", "", false, MSC_BY_PRODUCT,
     "library: library_attention is false"},
    {"flash_attention", "2x4x8x64xf32 2x2x8x64xf32 2x2x8x64xf32", "", true, MSC_BY_PRODUCT,
     "library: f32 is not among its element types"},
    {"flash_attention", "2x4x8x20xf16 2x4x8x20xf16 2x4x8x64xf16", "", true, MSC_BY_PRODUCT,
     "library: elements of a head are not a multiple of 8 up to 128"},
    {"flash_attention", "2x4x8x64xf16 2x4x8x64xf16 2x4x8x136xf16", "", true, MSC_BY_PRODUCT,
     "library: elements of a head are not a multiple of 8 up to 128"},
    {"conv2d", "2x4x8x8xf32 6x2x3x3xf32", "groups=2", true, MSC_BY_LIBRARY, ""},
    {"conv2d", "2x4x8x8xf32 6x4x3x3xf32", "", false, MSC_BY_PRODUCT, "library: library_convolution is false"},
    {"conv2d", "2x4x8x8xf32 6x4x3x3xf32", "padding=1,0,1,1", true, MSC_BY_PRODUCT,
     "library: padding differs between the two sides"},
    {"conv2d", "2x4x8x8xf64 6x4x3x3xf64", "", true, MSC_BY_PRODUCT, "library: f64 is not among its element types"},
    {"conv2d", "2x4x8x8xbf16 6x4x3x3xbf16", "padding=1,0,0,0", true, MSC_BY_KERNEL,
     "library: padding differs between the two sides; generated tiles: bf16 is not among its element types"},
};

static void test_choices_on_a_gpu(void **state) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  (void)state;
  for (size_t i = 0; i < sizeof gpu_cases / sizeof *gpu_cases; i++) {
    msc_op *op = one_op(msc_module_new(ctx), gpu_cases[i].op, gpu_cases[i].in, gpu_cases[i].attrs, 1);
    assert_non_null(op);
    msc_chosen chosen = msc_choose(msc_context_arena(ctx), op,
                                   &(msc_choices){&msc_target_cuda, 1, gpu_cases[i].allowed, gpu_cases[i].allowed});
    assert_int_equal(chosen.by, gpu_cases[i].by);
    assert_string_equal(chosen.declined, gpu_cases[i].declined);
  }
  msc_context_free(ctx);
}

static void test_choices(void **state) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    msc_op *op = one_op(msc_module_new(ctx), cases[i].op, cases[i].in, cases[i].attrs, 1);
    assert_non_null(op);
    msc_chosen chosen =
        msc_choose(msc_context_arena(ctx), op, &(msc_choices){&msc_target_cpu, cases[i].level, true, true});
    assert_int_equal(chosen.by, cases[i].by);
    assert_string_equal(chosen.declined, cases[i].declined);
  }
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices), cmocka_unit_test(test_choices_on_a_gpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
