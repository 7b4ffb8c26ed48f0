/* scale_sums: parts of a sum that each rank scales before they are added -> the whole sum, scaled: rounded as one rank
 * rounds it.
 *
 *   m = reduce_mean(x), partial; y = all_reduce(m)   ->   s = reduce_sum(x), partial; t = all_reduce(s); y = t / n
 *   p = g * 0.3, partial; y = all_reduce(p)          ->   t = all_reduce(g); y = t * 0.3; likewise any sum over ranks
 *
 * An op that does not round, such as a product with a power of two, is not moved; nor is one on f16 or bf16, where the
 * unscaled sum may overflow, or one with other users. */
#include <string.h>

#include "ir/formula.h"
#include "passes/7_lower/target.h"
#include "passes/pass.h"

static bool is_part_of_sum(const msc_value *v) {
  const msc_layout *l = v->type->layout;
  return l && l->num_partial && l->reduction == MSC_SUM && msc_is_float(v->type->dtype) &&
         msc_dtype_bytes(v->type->dtype) >= 4;
}

/* Does op only move the elements of its one operand, between ranks or in the tensor? */
static bool only_moves(const msc_op *op) {
  return op->num_in == 1 && op->num_out == 1 &&
         (msc_info(op)->flags & MSC_MOVES || msc_form_of(op) == MSC_FORM_RESHAPE || op->kind == OP_transpose);
}

/* The number that all elements of v are; NULL: v is no such constant. */
static const msc_attr_value *number_in(const msc_value *v) {
  const msc_attr_value *value = v->def && msc_is_constant_op(v->def) ? msc_op_attr(v->def, "value") : NULL;
  return value && value->dense.bytes == (size_t)msc_dtype_bytes(v->type->dtype) ? value : NULL;
}

/* The operand that op multiplies or divides by a number, or negates; NULL: it does none of this. */
static msc_value *scaled_operand(const msc_op *op) {
  size_t at = op->kind == OP_mul && number_in(op->in[0].value);
  bool by_number = (op->kind == OP_mul || op->kind == OP_div) && number_in(op->in[1 - at].value);
  if (!by_number && op->kind != OP_neg) return NULL;
  return op->in[at].value->type == op->out[0].type ? op->in[at].value : NULL;
}

/* Does an f32 or f64 have another fraction than a power of two? */
static bool has_fraction(const msc_attr_value *number) {
  uint32_t w;
  uint64_t v;
  if (number->dense.bytes == sizeof w) return memcpy(&w, number->dense.data, sizeof w), w << 9 != 0;
  return memcpy(&v, number->dense.data, sizeof v), v << 12 != 0;
}

static bool rounds(const msc_op *scaling) {
  if (scaling->kind == OP_neg) return false;
  size_t at = scaled_operand(scaling) == scaling->in[0].value;
  return has_fraction(number_in(scaling->in[at].value));
}

/* Is op a mean whose division rounds? */
static bool is_rounding_mean(const msc_op *op) {
  if (!op || (op->kind != OP_reduce_mean && op->kind != OP_softmax_cross_entropy) || !msc_takes_mean(op)) return false;
  int64_t n = msc_terms_of_mean(op, op->in[0].value->type);
  return (n & (n - 1)) != 0;
}

/* mean -> sum / n */
static bool split_mean(msc_pass_ctx *pass, msc_op *mean) {
  msc_value *sum = &mean->out[0];
  msc_builder b = {
      .func = mean->block->func, .block = mean->block, .before = mean->next, .loc = mean->loc, .name = mean->name};
  msc_value *count = number(&b, sum, (double)msc_terms_of_mean(mean, mean->in[0].value->type));
  MSC_TRY(count);
  count->type = msc_type_with_layout(pass->ctx, count->type, msc_layout_replicated(pass->ctx, 0));
  msc_value *quotient = over(&b, sum, count);
  MSC_TRY(quotient);
  quotient->type = sum->type;
  msc_copy_marks(mean, count->def);
  msc_copy_marks(mean, quotient->def);
  msc_replace_uses(sum, quotient);
  msc_set_operand(quotient->def, 0, sum);
  if (mean->kind == OP_reduce_mean) mean->kind = OP_reduce_sum;
  else msc_op_put(mean, msc_loss_reduction_attr(pass->ctx, MSC_LOSS_SUM));
  return true;
}

/* Builds a scalar with the number that all elements of v are equal to; returns v if it is a scalar already. */
static msc_value *build_number(msc_builder *b, msc_value *v) {
  if (!v->type->rank) return v;
  msc_attr value = msc_named(b->func->module->ctx, "value", *number_in(v));
  value.value.dense.type = msc_type_of(b->func->module->ctx, v->type->dtype, 0, NULL, NULL);
  msc_op *op = msc_build_with(b, OP_constant, 0, NULL, 1, 1, &value);
  if (!op) return NULL;
  op->out[0].type =
      msc_type_with_layout(b->func->module->ctx, op->out[0].type, msc_layout_replicated(b->func->module->ctx, 0));
  msc_copy_marks(v->def, op);
  return &op->out[0];
}

/* Exchanges op and the mover of its result: `mover` then moves op's operand, and op scales the mover's result. */
static bool scale_after(msc_pass_ctx *pass, msc_op *op, msc_op *mover) {
  msc_value *x = scaled_operand(op), *moved = &mover->out[0], *in[2];
  msc_builder b = {
      .func = op->block->func, .block = op->block, .before = mover->next, .loc = op->loc, .name = op->name};
  for (size_t i = 0; i < op->num_in; i++) {
    in[i] = op->in[i].value == x ? x : build_number(&b, op->in[i].value);
    MSC_TRY(in[i]);
  }
  msc_op *after = msc_op_copy(b.func, op, in);
  after->out[0].type = moved->type;
  msc_op_copy_attr(after, mover, MSC_FACT(stage));
  msc_insert_before(b.before, after);
  msc_replace_uses(moved, &after->out[0]);
  msc_set_operand(after, in[0] != x, moved);
  msc_set_operand(mover, 0, x);
  msc_op_erase(op);
  msc_stat(pass, "sums scaled when they are whole", 1);
  return true;
}

/* Moves the ops that scale the operand of `mover` behind it, back to the farthest one that rounds. */
static bool scale_moved(msc_pass_ctx *pass, msc_op *mover) {
  int scalings = 0, num = 0;
  const msc_value *v = mover->in[0].value;
  for (const msc_value *x; v->def && msc_has_one_use(v) && (x = scaled_operand(v->def)); v = x) {
    num++;
    if (rounds(v->def)) scalings = num;
  }
  if (msc_has_one_use(v) && is_rounding_mean(v->def)) {
    MSC_TRY(split_mean(pass, v->def));
    scalings = num + 1;
  }
  for (; scalings; scalings--) MSC_TRY(scale_after(pass, mover->in[0].value->def, mover));
  return true;
}

bool pass_scale_sums(msc_pass_ctx *pass, msc_module *m) {
  if (!msc_is_deterministic(m, pass->config)) return msc_not_asked_for(pass);
  for (msc_func *f = m->first; f; f = f->next) {
    for (msc_op *op = f->body->first; op; op = op->next)
      if (only_moves(op) && is_part_of_sum(op->in[0].value)) MSC_TRY(scale_moved(pass, op));
    msc_forget_erased(f);
  }
  return true;
}
