/* comm.c: collectives of manual functions and the gradients of their results in; ops that compute those of their
 * operands out.  The objective is the sum of the losses of all ranks. */
#include <string.h>

#include "ir/grad/grad.h"
#include "ir/op_table.h"

static msc_context *ctx_of(const msc_grad_ctx *g) { return g->b.func->module->ctx; }

static msc_value *with_attrs(msc_grad_ctx *g, msc_op_kind kind, msc_value *x, size_t num, const msc_attr *attrs) {
  msc_op *op = msc_build_with(&g->b, kind, 1, &x, 1, num, attrs);
  return op ? &op->out[0] : NULL;
}

/* `kind` over the same group as op, with up to two more attributes. */
static msc_value *in_group(msc_grad_ctx *g, const msc_op *op, msc_op_kind kind, msc_value *x, size_t num,
                           const msc_attr *more) {
  msc_attr attrs[4];
  size_t n = 0;
  const msc_attr_value *axes = msc_op_attr(op, "axes");
  if (axes) attrs[n++] = msc_named(ctx_of(g), "axes", *axes);
  for (size_t i = 0; i < num; i++) attrs[n++] = more[i];
  return with_attrs(g, kind, x, n, attrs);
}

static bool give(msc_grad_ctx *g, msc_value *dx) {
  g->doperand[0] = dx;
  return dx != NULL;
}

/* Collectives are put together after the gradients are there. */
static bool is_alone(const msc_op *op) {
  return op->num_in == 1 ||
         msc_op_error(op, MSC_E_GRADIENT, "%s: of several values at once it has no gradient; write one for each",
                      msc_kind_name(op->kind));
}

/* x == 0 as a number of x's type, and as an i1. */
static msc_value *is_zero(msc_grad_ctx *g, msc_value *x, msc_value **out_number) {
  msc_context *ctx = ctx_of(g);
  msc_attr as_x = msc_named(ctx, "dtype", msc_str(ctx, msc_dtype_name(x->type->dtype))),
           equal = msc_named(ctx, "predicate", msc_str(ctx, "eq"));
  msc_op *compare = msc_build_with(&g->b, OP_compare, 2, (msc_value *[]){x, msc_build_scalar(&g->b, x->type->dtype, 0)},
                                   1, 1, &equal);
  msc_value *hit = compare ? &compare->out[0] : NULL;
  *out_number = with_attrs(g, OP_cast, hit, 1, &as_x);
  return hit;
}

/* dx = total times the product of the others, as grad_reduce_prod has it: of no zero what x divides out, of one what
 * all others are. */
static msc_value *times_others(msc_grad_ctx *g, const msc_op *op, msc_value *total) {
  msc_context *ctx = ctx_of(g);
  msc_value *x = op->in[0].value, *number, *hit = is_zero(g, x, &number),
            *zero = msc_build_scalar(&g->b, x->type->dtype, 0), *one = msc_build_scalar(&g->b, x->type->dtype, 1);
  msc_attr prod = msc_named(ctx, "reduction", msc_str(ctx, "prod")),
           equal = msc_named(ctx, "predicate", msc_str(ctx, "eq"));
  msc_value *filled = msc_build(&g->b, OP_select, 3, (msc_value *[]){hit, one, x}),
            *zeros = in_group(g, op, OP_all_reduce, number, 0, NULL);
  msc_value *rest =
      msc_build(&g->b, OP_mul, 2, (msc_value *[]){total, in_group(g, op, OP_all_reduce, filled, 1, &prod)});
  msc_op *none = msc_build_with(&g->b, OP_compare, 2, (msc_value *[]){zeros, zero}, 1, 1, &equal),
         *single = msc_build_with(&g->b, OP_compare, 2, (msc_value *[]){zeros, one}, 1, 1, &equal);
  if (!none || !single || !rest) return NULL;
  msc_value *usual =
      msc_build(&g->b, OP_div, 2,
                (msc_value *[]){msc_build(&g->b, OP_select, 3, (msc_value *[]){&none->out[0], rest, zero}), filled});
  return msc_build(
      &g->b, OP_select, 3,
      (msc_value *[]){hit, msc_build(&g->b, OP_select, 3, (msc_value *[]){&single->out[0], rest, zero}), usual});
}

/* sum: dx = sum of dy over the group.  max, min: those that equal the extremum share that.  prod: times the others. */
bool grad_all_reduce(msc_grad_ctx *g, msc_op *op) {
  MSC_TRY(is_alone(op));
  msc_reduction reduction = msc_op_reduction(op);
  msc_value *x = op->in[0].value, *total = in_group(g, op, OP_all_reduce, g->dresult[0], 0, NULL);
  if (reduction == MSC_SUM) return give(g, total);
  if (reduction == MSC_PROD) return give(g, times_others(g, op, total));
  msc_context *ctx = ctx_of(g);
  msc_attr as_x = msc_named(ctx, "dtype", msc_str(ctx, msc_dtype_name(x->type->dtype))),
           equal = msc_named(ctx, "predicate", msc_str(ctx, "eq"));
  msc_op *compare = msc_build_with(&g->b, OP_compare, 2, (msc_value *[]){x, &op->out[0]}, 1, 1, &equal);
  msc_value *hit = compare ? &compare->out[0] : NULL;
  msc_value *ties = in_group(g, op, OP_all_reduce, with_attrs(g, OP_cast, hit, 1, &as_x), 0, NULL),
            *zero = msc_build_scalar(&g->b, x->type->dtype, 0);
  msc_value *share = msc_build(&g->b, OP_div, 2, (msc_value *[]){total, ties});
  return give(g, msc_build(&g->b, OP_select, 3, (msc_value *[]){hit, share, zero}));
}

/* What cuts the result cuts its gradient, which the verb's inverse takes back to the operand's. */
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
    if (from[i] && to[i]) attrs[num++] = msc_named(ctx_of(g), to[i], msc_int(msc_op_int(op, from[i])));
  return give(g, in_group(g, op, msc_verb_kind(row->inverse), g->dresult[0], num, attrs));
}

/* Every pair the other way round: who sent nothing receives zeros. */
bool grad_permute(msc_grad_ctx *g, msc_op *op) {
  msc_context *ctx = ctx_of(g);
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
  return give(g, in_group(g, op, OP_permute, g->dresult[0], 1, &attr));
}

/* The sum of all goes to the root; the others' operands were not looked at: a permute of the root to itself leaves them
 * zeros. */
bool grad_broadcast(msc_grad_ctx *g, msc_op *op) {
  int64_t root = msc_op_int(op, "root");
  msc_attr attr = msc_named(ctx_of(g), "pairs", msc_ints(ctx_of(g), 2, (int64_t[]){root, root}));
  return give(g, in_group(g, op, OP_permute, in_group(g, op, OP_all_reduce, g->dresult[0], 0, NULL), 1, &attr));
}

/* y = recv(send(x)): the receiver sends dy back. */
static bool grad_transfer(msc_grad_ctx *g, msc_op *op, msc_op_kind kind) {
  msc_context *ctx = ctx_of(g);
  msc_attr attrs[] = {msc_named(ctx, "from", msc_int(msc_op_int(op, "to"))),
                      msc_named(ctx, "to", msc_int(msc_op_int(op, "from"))),
                      msc_named(ctx, "channel", msc_int(msc_op_int(op, "channel")))};
  return give(g, in_group(g, op, kind, g->dresult[0], 3, attrs));
}

bool grad_send(msc_grad_ctx *g, msc_op *op) { return grad_transfer(g, op, OP_recv); }
bool grad_recv(msc_grad_ctx *g, msc_op *op) { return grad_transfer(g, op, OP_send); }
