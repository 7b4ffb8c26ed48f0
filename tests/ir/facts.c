/* facts.c: at the end of a stage what fact.def says is needed is there, or a report at its place says what is
 * missing; values have the kinds of their rows, and facts of a sort go together. */
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
  msc_func_put(f, msc_fact_scratch(0));
  expect_report(ctx, m, "8_memory", "gemm: place is missing behind 8_memory");
  msc_op_set(gemm, MSC_FACT(place), none);
  expect_report(ctx, m, "8_memory", NULL);
  msc_context_free(ctx);
}

static void expect_wrong(msc_context *ctx, const char *fact, msc_attr_value v, const char *expected) {
  const char *wrong = msc_fact_wrong(msc_context_arena(ctx), msc_fact_row_of(fact), &v);
  if (!expected) assert_null(wrong);
  else assert_string_equal(wrong, expected);
}

/* A dictionary that is a fact holds only what fact.def says, of the kinds that it says. */
static void members_are_declared(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_attr good[] = {msc_fact_dim(1), msc_fact_value(ctx, "x")}, misspelt[] = {msc_named(ctx, "valeu", msc_int(1))},
           other[] = {msc_fact_slots(ctx, 0, NULL)}, wrong[] = {msc_named(ctx, MSC_FACT(dim), msc_str(ctx, "1"))};
  const msc_attr *entry[] = {good, misspelt, other, wrong};
  static const char *const expected[] = {NULL, "has no member 'valeu'; did you mean 'value'?", "has no member 'slots'",
                                         "member 'dim' must be an integer"};
  for (int i = 0; i < 4; i++) {
    msc_attr_value v = {.kind = MSC_ATTR_DICT, .dict = {i ? 1 : 2, entry[i]}};
    expect_wrong(ctx, MSC_FACT(conflicts), msc_list(ctx, 1, &v), expected[i]);
  }
  expect_wrong(ctx, MSC_FACT(conflicts), msc_int(1), "must be a list");
  expect_wrong(ctx, MSC_FACT(msc_home), msc_str(ctx, "dsk"), "must be device, cpu or disk");
  expect_wrong(ctx, MSC_FACT(by), msc_str(ctx, "usre"), "must be user, default, propagation, search or copy");
  expect_wrong(ctx, MSC_FACT(program), msc_str(ctx, "trian"), "must be train, forward or prepare");
  expect_wrong(ctx, MSC_FACT(section), msc_str(ctx, "BF"), "must be F, B, W, U, P or FB");
  expect_wrong(ctx, MSC_FACT(msc_class), msc_str(ctx, "BF"), "must be FB, FW or BW");
  expect_wrong(ctx, MSC_FACT(in_layout), msc_int(1), NULL); /* what a user wrote is pass annotations' to check */
  msc_context_free(ctx);
}

/* Facts of a sort are found, copied and dropped together, and no others. */
static void a_sort_is_treated_alike(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_parse(ctx, "m", text, strlen(text));
  msc_op *op = m->first->body->first, *other = op->next;
  assert_false(msc_op_has_sort(op, MSC_SORT_CONSTRAINT));
  msc_op_put(op, msc_fact_max_bytes(7));
  msc_op_put(op, msc_fact_priority(1));
  msc_op_put(op, msc_fact_pipeline_stage(2));
  assert_true(msc_op_has_sort(op, MSC_SORT_CONSTRAINT));
  assert_false(msc_op_has_sort(op, MSC_SORT_STRATEGY));
  msc_op_copy_sort(other, op, MSC_SORT_BUDGET);
  assert_int_equal(msc_op_int(other, MSC_FACT(max_bytes)), 7);
  assert_int_equal(msc_op_int(other, MSC_FACT(priority)), 1);
  assert_null(msc_op_attr(other, MSC_FACT(pipeline_stage)));
  msc_op_unset_sort(op, MSC_SORT_CONSTRAINT);
  assert_null(msc_op_attr(op, MSC_FACT(max_bytes)));
  assert_int_equal(msc_op_int(op, MSC_FACT(priority)), 1);
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_stage_leaves_is_there),
                                     cmocka_unit_test(members_are_declared), cmocka_unit_test(a_sort_is_treated_alike)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
