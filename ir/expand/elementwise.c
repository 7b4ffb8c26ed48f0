/* elementwise.c: expansions of elementwise composites: further activations, logic, remainder. */
#include <math.h>

#include "ir/formula.h"
#include "ir/op_table.h"

static bool give_result(msc_value *y, msc_value **out_result) { return (out_result[0] = y) != NULL; }

static msc_value *is_positive(msc_builder *b, msc_value *x) { return compare(b, "gt", x, number(b, x, 0)); }

/* x > 0 ? x : other */
static msc_value *positive_or(msc_builder *b, msc_value *x, msc_value *other) {
  return choose(b, is_positive(b, x), x, other);
}

bool expand_stop_gradient(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return (void)b, (void)op, give_result(in[0], out_result);
}

/* ---- activations; slopes at the kinks are PyTorch's, whose kinks belong to the left side ---- */

bool expand_leaky_relu(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return give_result(positive_or(b, in[0], scaled(b, in[0], msc_op_float(op, "slope"))), out_result);
}

/* alpha (exp(x) - 1) where x <= 0; exp sees no positive x, which would overflow in the branch not taken */
bool expand_elu(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = in[0], *zero = number(b, x, 0), *low = choose(b, is_positive(b, x), zero, x);
  return give_result(positive_or(b, x, scaled(b, msc_compute(b, "exp(a) + -1", low), msc_op_float(op, "alpha"))),
                     out_result);
}

/* One slope, or one per channel, which is dimension 1. */
bool expand_prelu(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  int rank = in[0]->type->rank;
  int64_t at[MSC_MAX_RANK];
  for (int d = 0; d < rank; d++) at[d] = d == 1 ? in[1]->type->dim[0] : 1;
  msc_value *slope = in[1]->type->dim[0] == 1 ? reshape(b, in[1], 0, at) : reshape(b, in[1], rank, at);
  return give_result(positive_or(b, in[0], times(b, in[0], slope)), out_result);
}

bool expand_softplus(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return (void)op, give_result(soft_plus(b, in[0]), out_result);
}

/* relu6(x + 3) / 6 */
static msc_value *hard_step(msc_builder *b, msc_value *x) {
  return msc_compute(b, "min(max(a + 3, 0), 6) * 0.16666666666666666", x);
}

bool expand_hard_sigmoid(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return (void)op, give_result(hard_step(b, in[0]), out_result);
}
bool expand_hard_swish(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return (void)op, give_result(times(b, in[0], hard_step(b, in[0])), out_result);
}

/* x tanh(softplus(x)) */
bool expand_mish(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return (void)op, give_result(msc_compute(b, "a * tanh(b)", in[0], soft_plus(b, in[0])), out_result);
}

/* Inside the bounds, the bounds included, the slope is 1. */
bool expand_clamp(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = in[0], *low = number(b, x, msc_op_float(op, "low")), *high = number(b, x, msc_op_float(op, "high"));
  msc_value *y = choose(b, compare(b, "lt", x, low), low, x);
  return give_result(choose(b, compare(b, "gt", y, high), high, y), out_result);
}

/* ---- logic ---- */

bool expand_logical(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  if (op->kind == OP_logical_not) return give_result(compare(b, "eq", in[0], number(b, in[0], 0)), out_result);
  if (op->kind == OP_logical_xor) return give_result(compare(b, "ne", in[0], in[1]), out_result);
  return give_result(msc_compute(b, op->kind == OP_logical_and ? "min(a, b)" : "max(a, b)", in[0], in[1]), out_result);
}

/* x - x is 0, or NaN */
bool expand_is_finite(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_value *zero = number(b, in[0], 0);
  return give_result(compare(b, "eq", minus(b, in[0], in[0]), zero), out_result);
}

bool expand_reduce_logical(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int64_t dims[MSC_MAX_RANK];
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  return give_result(reduce(b, op->kind == OP_reduce_any ? OP_reduce_max : OP_reduce_min, in[0], num, dims,
                            msc_op_bool(op, "keep_dims")),
                     out_result);
}

/* ---- remainder ---- */

/* a - floor(a / b) b: has b's sign.  Integers divide toward zero, so a remainder of the other sign is one b short. */
bool expand_mod(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_value *x = in[0], *y = in[1], *q = over(b, x, y);
  if (msc_is_float(x->type->dtype)) return give_result(msc_compute(b, "a - floor(b) * c", x, q, y), out_result);
  msc_value *rest = msc_compute(b, "a - b * c", x, q, y), *zero = number(b, x, 0);
  msc_value *below = compare(b, "lt", y, zero), *differs = compare(b, "ne", compare(b, "lt", rest, zero), below);
  msc_value *short_of = msc_compute(b, "min(a, b)", differs, compare(b, "ne", rest, zero));
  return give_result(choose(b, short_of, plus(b, rest, y), rest), out_result);
}
