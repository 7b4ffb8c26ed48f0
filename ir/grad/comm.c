/* comm.c: collectives of manual functions and the gradients of their results in; ops that compute those of their
 * operands out.  The objective is the sum of the losses of all ranks. */

#include "ir/formula.h"
#include "ir/grad/op_gradients.h"
#include "ir/op_table.h"

/* Builds op `kind` over the group of op, with up to two more attributes. */
static msc_value *in_group(msc_grad_ctx *g, const msc_op *op, msc_op_kind kind, msc_value *x, size_t num,
                           const msc_attr *more) {
  msc_attr attrs[4];
  size_t n = 0;
  const msc_attr_value *axes = msc_op_attr(op, "axes");
  if (axes) attrs[n++] = msc_named(formula_ctx(&g->b), "axes", *axes);
  for (size_t i = 0; i < num; i++) attrs[n++] = more[i];
  return with_attrs(&g->b, kind, 1, &x, n, attrs);
}

static bool set_gradient(msc_grad_ctx *g, msc_value *dx) {
  g->doperand[0] = dx;
  return dx != NULL;
}

/* True for a collective of one value. Collectives are joined only after gradients are built. */
static bool is_alone(const msc_op *op) {
  return op->num_in == 1 ||
         msc_op_error(op, MSC_E_GRADIENT, "%s: of several values at once it has no gradient; write one for each",
                      msc_kind_name(op->kind));
}

static msc_value *sum_in_group(msc_grad_ctx *g, const msc_op *op, msc_value *x) {
  return in_group(g, op, OP_all_reduce, x, 0, NULL);
}

/* Builds the gradient of a product over ranks: total times the product of the other ranks' x, computed as in
 * grad_reduce_prod. Without zeros this is the product of all divided by x; with one zero, the product of the rest, on
 * the rank that has the zero. */
static msc_value *times_others(msc_grad_ctx *g, const msc_op *op, msc_value *total) {
  msc_builder *b = &g->b;
  msc_value *x = op->in[0].value, *hit = compare(b, MSC_EQ, x, number(b, x, 0)), *as_x = cast(b, hit, x->type->dtype),
            *zero = number(b, x, 0), *one = number(b, x, 1), *filled = choose(b, hit, one, x),
            *zeros = sum_in_group(g, op, as_x);
  msc_attr prod = msc_named(formula_ctx(b), "reduction", msc_str(formula_ctx(b), msc_reduction_name(MSC_PROD)));
  msc_value *rest = times(b, total, in_group(g, op, OP_all_reduce, filled, 1, &prod)),
            *none = compare(b, MSC_EQ, zeros, zero), *single = compare(b, MSC_EQ, zeros, one),
            *usual = over(b, choose(b, none, rest, zero), filled);
  return choose(b, hit, choose(b, single, rest, zero), usual);
}

/* sum: dx is the sum of dy over the group.  max, min: the ranks whose x is the extremum share that sum.  prod: the sum
 * times the product of the other ranks' x. */
bool grad_all_reduce(msc_grad_ctx *g, msc_op *op) {
  MSC_TRY(is_alone(op));
  msc_reduction reduction = msc_op_reduction(op);
  msc_value *x = op->in[0].value, *total = sum_in_group(g, op, g->dresult[0]);
  if (reduction == MSC_SUM) return set_gradient(g, total);
  if (reduction == MSC_PROD) return set_gradient(g, times_others(g, op, total));
  msc_value *hit = compare(&g->b, MSC_EQ, x, &op->out[0]),
            *ties = sum_in_group(g, op, cast(&g->b, hit, x->type->dtype)), *zero = number(&g->b, x, 0),
            *share = over(&g->b, total, ties);
  return set_gradient(g, choose(&g->b, hit, share, zero));
}

/* Takes the gradient, which is cut like the result, back to the operand's layout, by the inverse verb. */
bool grad_relayout(msc_grad_ctx *g, msc_op *op) {
  MSC_TRY(is_alone(op));
  msc_verb verb = msc_op_verb(op);
  const msc_verb_row *row = msc_verb_row_of(verb), *back = msc_verb_row_of(row->inverse);
  if (msc_verb_reduces(verb) && msc_op_reduction(op) != MSC_SUM)
    return msc_op_error(op, MSC_E_GRADIENT, "%s: the reduction \"%s\" has no gradient", row->word,
                        msc_op_str(op, "reduction"));
  const char *from[2] = {msc_verb_dim_attr(row->result), msc_verb_dim_attr(row->operand)},
             *to[2] = {msc_verb_dim_attr(back->operand), msc_verb_dim_attr(back->result)};
  msc_attr attrs[2];
  size_t num = 0;
  for (int i = 0; i < 2; i++)
    if (from[i] && to[i]) attrs[num++] = msc_named(formula_ctx(&g->b), to[i], msc_int(msc_op_int(op, from[i])));
  return set_gradient(g, in_group(g, op, msc_verb_kind(row->inverse), g->dresult[0], num, attrs));
}

/* Reverses every pair; a rank that sent nothing receives zeros. */
bool grad_permute(msc_grad_ctx *g, msc_op *op) {
  msc_context *ctx = formula_ctx(&g->b);
  int num = msc_op_ints(op, "pairs", NULL, 0);
  if (num < 0) num = 0;
  int64_t *pair = msc_new_array(msc_context_arena(ctx), int64_t, num + 1);
  msc_op_ints(op, "pairs", pair, num);
  for (int i = 0; i + 1 < num; i += 2) {
    int64_t from = pair[i];
    pair[i] = pair[i + 1];
    pair[i + 1] = from;
  }
  msc_attr attr = msc_named(ctx, "pairs", msc_ints(ctx, (size_t)num, pair));
  return set_gradient(g, in_group(g, op, OP_permute, g->dresult[0], 1, &attr));
}

/* Sums all ranks' gradients to the root. The operands of other ranks were not used: a permute of the root to itself
 * leaves zeros for them. */
bool grad_broadcast(msc_grad_ctx *g, msc_op *op) {
  int64_t root = msc_op_int(op, "root");
  msc_attr attr = msc_named(formula_ctx(&g->b), "pairs", msc_ints(formula_ctx(&g->b), 2, (int64_t[]){root, root}));
  return set_gradient(g, in_group(g, op, OP_permute, sum_in_group(g, op, g->dresult[0]), 1, &attr));
}

/* y = recv(send(x)): the receiver sends dy back. */
static bool grad_transfer(msc_grad_ctx *g, msc_op *op, msc_op_kind kind) {
  msc_context *ctx = formula_ctx(&g->b);
  msc_attr attrs[] = {msc_named(ctx, "from", msc_int(msc_op_int(op, "to"))),
                      msc_named(ctx, "to", msc_int(msc_op_int(op, "from"))),
                      msc_named(ctx, "channel", msc_int(msc_op_int(op, "channel")))};
  return set_gradient(g, in_group(g, op, kind, g->dresult[0], 3, attrs));
}

bool grad_send(msc_grad_ctx *g, msc_op *op) { return grad_transfer(g, op, OP_recv); }
bool grad_recv(msc_grad_ctx *g, msc_op *op) { return grad_transfer(g, op, OP_send); }
