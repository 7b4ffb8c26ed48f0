/* evaluate: func train -> the same without the outputs of the model, and func forward with the loss and the outputs
 * only, of the batch that it is given, without dropout and with running statistics. Both have the layouts of training,
 * so that one plan trains and evaluates on the same parameters. */

#include "ir/interp/interp.h"
#include "passes/pass.h"

static const msc_attr_value *ties_of(const msc_func *f) { return msc_func_attr(f, MSC_FACT(ties)); }

/* True if result i is the new value of an argument. */
static bool is_new_state(const msc_func *f, size_t i) {
  const msc_attr_value *ties = ties_of(f);
  return ties && ties->kind == MSC_ATTR_LIST && i < ties->list.num && ties->list.v[i].i >= 0;
}

/* Copies entry i of a list attribute to entry `to`; an absent list stays absent. */
static void copy_entry(msc_attr_value *list, const msc_attr_value *old, size_t to, size_t i) {
  if (old && i < old->list.num) list[to] = old->list.v[i];
}

/* Keeps the results that are the loss, and the new values of arguments (`state`) or the outputs. */
static void keep_loss_and(msc_pass_ctx *pass, msc_func *f, bool state) {
  static const char *const lists[] = {MSC_FACT(results), MSC_FACT(ties)};
  msc_op *ret = f->body->last;
  const msc_attr_value *loss = msc_func_attr(f, MSC_FACT(loss)), *want = msc_op_attr(ret, MSC_FACT(in_layout));
  msc_value **value = msc_new_array(pass->scratch, msc_value *, ret->num_in);
  msc_attr_value *entry[3];
  for (int k = 0; k < 3; k++) entry[k] = msc_new_array(pass->scratch, msc_attr_value, ret->num_in);
  size_t num = 0, new_loss = 0;
  for (size_t i = 0; i < ret->num_in; i++) {
    bool is_loss = loss && (size_t)loss->i == i;
    if (!is_loss && is_new_state(f, i) != state) continue;
    if (is_loss) new_loss = num;
    for (int k = 0; k < 2; k++) copy_entry(entry[k], msc_func_attr(f, lists[k]), num, i);
    copy_entry(entry[2], want, num, i);
    value[num++] = ret->in[i].value;
  }
  for (int k = 0; k < 2; k++)
    if (msc_func_attr(f, lists[k])) msc_func_set(f, lists[k], msc_list(pass->ctx, num, entry[k]));
  if (want) msc_op_set(ret, MSC_FACT(in_layout), msc_list(pass->ctx, num, entry[2]));
  if (loss) msc_func_put(f, msc_fact_loss((int64_t)new_loss));
  msc_set_operands(ret, num, value);
}

/* Removes dropout and sums over micro-batches, and lets normalization use running statistics. */
static void leave_training(msc_func *f) {
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind == OP_batch_norm) msc_op_set(op, "training", msc_bool(false));
    if (op->kind != OP_dropout && op->kind != OP_accumulate) continue;
    msc_replace_uses(&op->out[0], op->in[0].value);
    msc_op_erase(op);
  }
}

/* Replaces sums of a number over micro-batches, which an evaluation does not have, by the number times their count. */
static bool add_up_numbers(msc_func *f) {
  for (msc_op *op = f->body->first; op; op = op->next) {
    const msc_attr_value *c = op->kind == OP_accumulate ? msc_constant_elements(op->in[0].value) : NULL;
    if (!c || op->out[0].type->rank) continue;
    msc_tensor t = {.type = op->in[0].value->type, .data = (void *)(uintptr_t)c->dense.data};
    msc_builder b = {.func = f, .block = f->body, .before = op, .loc = op->loc, .name = op->name};
    msc_value *sum =
        msc_build_scalar(&b, op->out[0].type->dtype, msc_tensor_get(&t, 0) * (double)msc_op_int(op, MSC_FACT(count)));
    MSC_TRY(sum);
    sum->type = op->out[0].type;
    msc_op_copy_attr(sum->def, op, MSC_FACT(stage));
    msc_replace_uses(&op->out[0], sum);
  }
  return true;
}

/* Removes arguments that are no longer read, as the state of the optimizer. */
static void drop_unused_arguments(msc_func *f) {
  size_t num = 0;
  for (size_t i = 0; i < f->body->num_args; i++) {
    msc_value *v = f->body->args[i];
    if (!msc_has_uses(v) && (msc_arg_role(f, i) == MSC_ROLE_STATE || msc_arg_role(f, i) == MSC_ROLE_MICRO)) continue;
    v->index = (uint32_t)num;
    f->body->args[num] = v;
    f->arg[num++] = f->arg[i];
  }
  f->body->num_args = num;
}

bool pass_evaluate(msc_pass_ctx *pass, msc_module *m) {
  msc_func *train = msc_program_func(m, MSC_PROGRAM_TRAIN);
  if (!train) return true;
  msc_func *forward = msc_func_clone(train, msc_program_kind_name(MSC_PROGRAM_FORWARD));
  MSC_TRY(add_up_numbers(train));
  keep_loss_and(pass, train, true);
  keep_loss_and(pass, forward, false);
  msc_drop_unused(train);
  leave_training(forward);
  msc_drop_unused(forward);
  drop_unused_arguments(forward);
  msc_drop_attr(forward->attrs, &forward->num_attrs, MSC_FACT(ties));
  return true;
}
