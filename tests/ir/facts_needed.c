/* facts_needed.c: at the end of a stage what fact.def says is needed is there, or a report at its place says what is
 * missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/fact.h"

static const char text[] =
    "module {\n  \"msc.func\"() ({\n  ^bb0(%x: tensor<4xf32>, %w: tensor<4x4xf32>, %m: tensor<2x4xf32>):\n"
    "    %0 = \"msc.neg\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
    "    %1 = \"msc.gemm\"(%m, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>\n"
    "    \"msc.return\"(%0, %1) : (tensor<4xf32>, tensor<2x4xf32>) -> ()\n"
    "  }) {sym_name = \"forward\"} : () -> ()\n}\n";

static void expect_report(msc_context *ctx, const msc_module *m, const char *stage, const char *expected) {
  msc_clear_diags(ctx);
  bool ok = msc_check_missing(m, stage);
  assert_int_equal(ok, expected == NULL);
  if (!expected) return;
  assert_int_equal(msc_diags(ctx)->code, MSC_E_INTERNAL);
  assert_string_equal(msc_diags(ctx)->text, expected);
}

static void what_a_stage_leaves_is_there(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_parse(ctx, "m", text, strlen(text));
  assert_non_null(m);
  msc_func *f = m->first;
  msc_op *gemm = f->body->first->next;
  msc_attr_value none = msc_list(ctx, 0, NULL);
  expect_report(ctx, m, "3_shard", NULL); /* it leaves nothing that all of them need */
  expect_report(ctx, m, "7_lower", "forward: result_layouts is missing behind 7_lower");
  msc_func_set(f, MSC_FACT(result_layouts), none);
  expect_report(ctx, m, "7_lower", "forward: result_shapes is missing behind 7_lower");
  msc_func_set(f, MSC_FACT(result_shapes), none);
  expect_report(ctx, m, "7_lower", NULL);
  expect_report(ctx, m, "8_memory", "forward: scratch is missing behind 8_memory");
  msc_func_set(f, MSC_FACT(scratch), msc_int(0));
  expect_report(ctx, m, "8_memory", "gemm: place is missing behind 8_memory");
  msc_op_set(gemm, MSC_FACT(place), none);
  expect_report(ctx, m, "8_memory", NULL);
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_stage_leaves_is_there)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
