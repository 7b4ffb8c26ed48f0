/* unmerge.c: runs every op that computes on operands whose dimension 0 a reshape merged from two, for every such
 * choice of operands, and checks that the result of unmerge gives the same numbers. Sizes are chosen so that
 * dimensions can be confused, for instance as many positions as channels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "passes/config/config.h"
#include "passes/pass.h"
#include "tests/ir/instances.h"
#include "tests/ir/one_op.h"

/* Instances beside those of instances.h: ops that count dimensions from the first, or from the last near the merged
 * one. */
static const instance more[] = {
  {"batch_norm", "36x6xT 6xT 6xT 6xT 6xT", "", "d", 3, 0},
  {"batch_norm", "12x4xT 4xT 4xT 4xT 4xT", "", "d", 3, 0},
  {"batch_norm", "16x4x2x2xT 4xT 4xT 4xT 4xT", "", "d", 3, 0},
  {"batch_norm", "16x2x4xT 4xT 4xT 4xT 4xT", "axis=2", "d", 3, 0},
  {"batch_norm", "16x2x4xT 4xT 4xT 4xT 4xT", "axis=-1", "d", 3, 0},
  {"batch_norm", "12x4xT 4xT 4xT 4xT 4xT", "training=false", "d", 3, 0},
  {"group_norm", "16x4x2xT 4xT 4xT", "groups=2", "d", 1, 0},
  {"prelu", "16x4x2xT 4xT", "", "d", 1, 0},
  {"prelu", "12x6xT 6xT", "", "d", 1, 0},
  {"rotary", "12x4xT", "", "d", 1, 0},
  {"rotary", "12x3x4xT", "", "d", 1, 0},
  {"rotary", "12x4xT", "axis=0", "d", 1, 0},
  {"softmax", "16x4xT", "axis=-2", "d", 1, 0},
  {"layer_norm", "12x4x4xT 4x4xT 4x4xT", "axis=1", "d", 1, 0},
  {"cumsum", "16x4xT", "axis=1", "d", 1, 0},
  {"sort", "16x4x4xT", "axis=1", "d", 1, 0},
  {"argmax", "16x4x4xT", "axis=1", "d", 1, 0},
  {"flatten", "16x4x2xT", "", "d", 1, 0},
  {"softmax_cross_entropy", "16x4xT 16x4xT", "", "d", 1, 0},
  {"softmax_cross_entropy", "16x4xT 16x4xT", "reduction=none", "d", 1, 0},
};

static int letter_of(const msc_rule *rule, size_t tensor) {
  const msc_tensor_letters *t = &rule->tensor[tensor];
  return t->rank && t->dim[0].num == 1 ? t->dim[0].letter[0] : -1;
}

/* Argument i becomes [major, n / major, ...], and a reshape makes [n, ...] of it again. */
static void merge_arg(msc_op *op, size_t i, int64_t major) {
  msc_context *ctx = msc_op_ctx(op);
  msc_value *arg = op->in[i].value;
  const msc_type *t = arg->type;
  int64_t dim[MSC_MAX_RANK + 1] = {major, t->dim[0] / major};
  memcpy(dim + 2, t->dim + 1, sizeof *dim * (size_t)(t->rank - 1));
  arg->type = msc_type_of(ctx, t->dtype, t->rank + 1, dim, NULL);
  msc_op *merge = msc_op_new(op->block->func, OP_reshape, 1, &arg, 1, op->loc);
  msc_op_set(merge, "shape", msc_ints(ctx, (size_t)t->rank, t->dim));
  msc_insert_before(op, merge);
  assert_true(msc_infer(merge));
  msc_set_operand(op, i, &merge->out[0]);
}

/* True if the op of this kind now reads an argument itself, with all its dimensions. */
static bool is_apart(const msc_func *f, msc_op_kind kind) {
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (op->kind == kind || (kind == OP_matmul && op->kind == OP_batch_matmul))
      return op->in[0].value->def == NULL || op->in[op->num_in - 1].value->def == NULL;
  return false;
}

/* Builds the op with all operands merged that share the letter of operand `first`; false: nothing can be merged. */
static bool try_one(const instance *inst, size_t first, int64_t major, int *out_apart) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_config *config = msc_config_new(ctx);
  assert_true(msc_config_set(config, "device_num=2") && msc_config_set(config, "parallel_mode=auto_parallel"));
  msc_arena *a = msc_context_arena(ctx);
  msc_module *m = msc_module_new(ctx);
  msc_op *op = one_op(m, inst->op, with_dtype(a, inst->in, dtype_name(inst->dtypes[0])),
                      with_dtype(a, inst->attrs, dtype_name(inst->dtypes[0])), inst->num_out);
  assert_non_null(op);
  msc_rule rule;
  assert_true(msc_rule_of(op, a, &rule));
  int letter = first < op->num_in ? letter_of(&rule, first) : -1;
  bool any = letter >= 0 && major < rule.letter[letter].size && rule.letter[letter].size % major == 0;
  if (any) {
    msc_op_kind kind = op->kind;
    for (size_t i = 0; i < rule.num_in; i++)
      if (letter_of(&rule, i) == letter && op->in[i].value->type->rank < MSC_MAX_RANK) merge_arg(op, i, major);
    msc_pass_options options = {.passes = "unmerge,dce", .config = config, .verify = MSC_VERIFY_NUMERICS};
    if (!msc_run_passes(ctx, m, &options))
      fail_msg("%s(%s) {%s}, operand %zu as %d x ..: %s", inst->op, inst->in, inst->attrs, first, (int)major,
               msc_diags(ctx)->text);
    *out_apart += is_apart(m->first, kind);
  }
  msc_context_free(ctx);
  return any;
}

static void try_all(const instance *inst, int *out_tried, int *out_apart) {
  if (inst->max_int) return; /* operands that are indices: their random values do not follow elements */
  for (size_t first = 0; first < 4; first++)
    for (int64_t major = 2; major <= 12; major++) *out_tried += try_one(inst, first, major, out_apart);
}

static void same_numbers(void **state) {
  (void)state;
  int tried = 0, apart = 0;
  for (size_t i = 0; i < sizeof instances / sizeof *instances; i++) try_all(&instances[i], &tried, &apart);
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) try_all(&more[i], &tried, &apart);
  print_message("%d merged, %d of them taken apart\n", tried, apart);
  assert_true(tried > 300 && apart > 150);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
