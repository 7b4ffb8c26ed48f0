/* elementwise.c: an elementwise composite (activations, logic, quotients and remainders) in; its expansion out. */
#include <math.h>

#include "ir/formula.h"
#include "ir/op_table.h"

static msc_value *is_positive(msc_builder *b, msc_value *x) { return compare(b, MSC_GT, x, number(b, x, 0)); }

/* x > 0 ? x : other */
static msc_value *positive_or(msc_builder *b, msc_value *x, msc_value *other) {
  return choose(b, is_positive(b, x), x, other);
}

bool expand_stop_gradient(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return (void)b, (void)op, give_result(in[0], out_result);
}

/* ---- activations; a kink has the slope of its left side, as in PyTorch ---- */

bool expand_leaky_relu(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return give_result(positive_or(b, in[0], scale_by(b, in[0], msc_op_float(op, "slope"))), out_result);
}

/* alpha (exp(x) - 1) where x <= 0; a positive x, which would overflow in the branch not taken, is replaced by 0. */
bool expand_elu(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = in[0], *zero = number(b, x, 0), *low = choose(b, is_positive(b, x), zero, x);
  return give_result(positive_or(b, x, scale_by(b, msc_compute(b, "expm1(a)", low), msc_op_float(op, "alpha"))),
                     out_result);
}

/* One slope for all channels, or one per channel; channels are dimension 1. */
bool expand_prelu(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  int rank = in[0]->type->rank;
  int64_t at[MSC_MAX_RANK];
  for (int d = 0; d < rank; d++) at[d] = d == 1 ? in[1]->type->dim[0] : 1;
  msc_value *slope = in[1]->type->dim[0] == 1 ? reshape(b, in[1], 0, at) : reshape(b, in[1], rank, at);
  return give_result(positive_or(b, in[0], times(b, in[0], slope)), out_result);
}

/* log(1 + exp(x)), which overflows nowhere and is accurate far below zero. */
static msc_value *soft_plus(msc_builder *b, msc_value *x) {
  return msc_compute(b, "max(a, 0) + log1p(exp(-abs(a)))", x);
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

/* The slope is 1 inside the bounds and at them. */
bool expand_clamp(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = in[0], *low = number(b, x, msc_op_float(op, "low")), *high = number(b, x, msc_op_float(op, "high"));
  msc_value *y = choose(b, compare(b, MSC_LT, x, low), low, x);
  return give_result(choose(b, compare(b, MSC_GT, y, high), high, y), out_result);
}

/* ---- logic ---- */

bool expand_logical(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  if (op->kind == OP_logical_not) return give_result(compare(b, MSC_EQ, in[0], number(b, in[0], 0)), out_result);
  if (op->kind == OP_logical_xor) return give_result(compare(b, MSC_NE, in[0], in[1]), out_result);
  return give_result(msc_compute(b, op->kind == OP_logical_and ? "min(a, b)" : "max(a, b)", in[0], in[1]), out_result);
}

/* x - x is NaN if x is not finite. */
bool expand_is_finite(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_value *zero = number(b, in[0], 0);
  return give_result(compare(b, MSC_EQ, minus(b, in[0], in[0]), zero), out_result);
}

bool expand_reduce_logical(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int64_t dims[MSC_MAX_RANK];
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  return give_result(
      reduce_by(b, op->kind == OP_reduce_any ? MSC_MAX : MSC_MIN, in[0], num, dims, msc_op_bool(op, "keep_dims")),
      out_result);
}

bool expand_is_nan(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return (void)op, give_result(compare(b, MSC_NE, in[0], in[0]), out_result);
}

static msc_value *is_infinite(msc_builder *b, msc_value *x) {
  return compare(b, MSC_EQ, msc_compute(b, "abs(a)", x), number(b, x, INFINITY));
}

bool expand_is_inf(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return (void)op, give_result(is_infinite(b, in[0]), out_result);
}

/* ---- inverse hyperbolic functions; log(x) + log 2 does not overflow for large x ---- */

bool expand_asinh(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_value *x = cast(b, in[0], widen_dtype(in[0]->type->dtype)), *size = msc_compute(b, "abs(a)", x);
  msc_value *near = msc_compute(b, "log1p(a + a * a / (1 + sqrt(a * a + 1)))", size);
  msc_value *far = msc_compute(b, "log(a) + 0.6931471805599453", size);
  msc_value *y = msc_compute(b, "select(less(a, 1000000000), b, c)", size, near, far);
  return give_result(cast(b, msc_compute(b, "sign(a) * b", x, y), in[0]->type->dtype), out_result);
}

/* NaN below 1 */
bool expand_acosh(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_value *x = cast(b, in[0], widen_dtype(in[0]->type->dtype)), *t = msc_compute(b, "a - 1", x);
  msc_value *near = msc_compute(b, "log1p(a + sqrt(a * (a + 2)))", t);
  msc_value *far = msc_compute(b, "log(a) + 0.6931471805599453", x);
  msc_value *y = msc_compute(b, "select(less(a, 1000000000), b, c)", x, near, far);
  return give_result(cast(b, msc_compute(b, "select(less(a, 0), sqrt(a), b)", t, y), in[0]->type->dtype), out_result);
}

bool expand_atanh(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_value *x = cast(b, in[0], widen_dtype(in[0]->type->dtype)), *size = msc_compute(b, "abs(a)", x);
  msc_value *y = msc_compute(b, "log1p(2 * a / (1 - a))", size);
  return give_result(cast(b, msc_compute(b, "sign(a) * (0.5 * b)", x, y), in[0]->type->dtype), out_result);
}

/* Reduces the angle to the first eighth of the circle, where it is the atan of a number up to 1, and then rotates it;
 * where both operands are infinite it is an odd number of eighths. */
bool expand_atan2(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_dtype dtype = in[0]->type->dtype;
  msc_value *y = cast(b, in[0], widen_dtype(dtype)), *x = cast(b, in[1], widen_dtype(dtype));
  msc_value *up = msc_compute(b, "abs(a)", y), *along = msc_compute(b, "abs(a)", x);
  msc_value *equal = msc_compute(b, "select(less(0, a + b), 0.7853981633974483, a + b)", up, along);
  msc_value *flat = msc_compute(b, "select(less(a, b), atan(a / b), c)", up, along, equal);
  msc_value *angle = msc_compute(b, "select(less(b, a), 1.5707963267948966 - atan(b / a), c)", up, along, flat);
  msc_value *reflected = msc_compute(b, "select(less(a, 0), 3.141592653589793 - b, b)", x, angle);
  return give_result(cast(b, msc_compute(b, "select(less(a, 0), -b, b)", y, reflected), dtype), out_result);
}

/* ---- quotients and remainders ---- */

/* Returns the type in which quotients are computed: f64 for all floats, because in f32 a quotient just below a whole
 * number may be rounded up to it. */
static msc_dtype quotient_dtype(const msc_value *x) {
  msc_dtype dtype = x->type->dtype;
  return msc_is_float(dtype) ? MSC_F64 : dtype;
}

/* Builds, for integers, 1 where the quotient rounded toward zero is one more than the quotient rounded down, else 0. */
static msc_value *is_one_more(msc_builder *b, msc_value *rest, msc_value *y) {
  msc_value *zero = number(b, y, 0), *below = compare(b, MSC_LT, y, zero);
  msc_value *differs = compare(b, MSC_NE, compare(b, MSC_LT, rest, zero), below);
  return msc_compute(b, "min(a, b)", differs, compare(b, MSC_NE, rest, zero));
}

bool expand_floor_div(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_dtype dtype = in[0]->type->dtype;
  msc_value *x = cast(b, in[0], quotient_dtype(in[0])), *y = cast(b, in[1], quotient_dtype(in[0])), *q = over(b, x, y);
  if (msc_is_float(dtype)) return give_result(cast(b, msc_compute(b, "floor(a)", q), dtype), out_result);
  msc_value *rest = msc_compute(b, "a - b * c", x, q, y), *more = is_one_more(b, rest, y);
  return give_result(choose(b, more, msc_compute(b, "a - 1", q), q), out_result);
}

/* x - q y in f64, where q is the quotient x / y without its fraction.  The product q y is computed exactly, as the sum
 * of two numbers (Dekker 1971): the quotient may have been rounded to the whole number above it. */
static msc_value *rest_of(msc_builder *b, msc_value *x, msc_value *q, msc_value *y) {
  msc_value *product = times(b, q, y), *upper_q = msc_compute(b, "a * 134217729 - (a * 134217729 - a)", q),
            *upper_y = msc_compute(b, "a * 134217729 - (a * 134217729 - a)", y);
  msc_value *lower_q = minus(b, q, upper_q), *lower_y = minus(b, y, upper_y);
  msc_value *error = msc_compute(b, "a * b - c", upper_q, upper_y, product);
  error = msc_compute(b, "a + b * c", error, upper_q, lower_y);
  error = msc_compute(b, "a + b * c", error, lower_q, upper_y);
  error = msc_compute(b, "a + b * c", error, lower_q, lower_y);
  return msc_compute(b, "(a - b) - c", x, product, error);
}

bool expand_fmod(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_dtype dtype = in[0]->type->dtype;
  msc_value *x = cast(b, in[0], quotient_dtype(in[0])), *y = cast(b, in[1], quotient_dtype(in[0])), *q = over(b, x, y);
  if (!msc_is_float(dtype)) return give_result(msc_compute(b, "a - b * c", x, q, y), out_result);
  q = msc_compute(b, "trunc(a)", q);
  msc_value *rest = dtype == MSC_F64 ? rest_of(b, x, q, y) : msc_compute(b, "a - b * c", x, q, y);
  if (dtype == MSC_F64) rest = msc_compute(b, "select(less(a * b, 0), a + sign(b) * abs(c), a)", rest, x, y);
  msc_value *far = msc_compute(b, "a + (a - a)", x); /* the remainder of x by infinity: x if it is finite, else NaN */
  return give_result(cast(b, choose(b, is_infinite(b, y), far, rest), dtype), out_result);
}

/* a - floor(a / b) b, which has b's sign.  Integers divide toward zero, so b is added to a remainder of the other
 * sign. */
bool expand_mod(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  (void)op;
  msc_dtype dtype = in[0]->type->dtype;
  msc_value *x = cast(b, in[0], quotient_dtype(in[0])), *y = cast(b, in[1], quotient_dtype(in[0])), *q = over(b, x, y);
  if (!msc_is_float(dtype)) {
    msc_value *rest = msc_compute(b, "a - b * c", x, q, y), *more = is_one_more(b, rest, y);
    return give_result(choose(b, more, plus(b, rest, y), rest), out_result);
  }
  q = msc_compute(b, "floor(a)", q);
  msc_value *rest = dtype == MSC_F64 ? rest_of(b, x, q, y) : msc_compute(b, "a - b * c", x, q, y);
  if (dtype == MSC_F64) rest = msc_compute(b, "select(less(a * b, 0), a + b, a)", rest, y);
  msc_value *opposite = compare(b, MSC_LT, times(b, x, y), number(b, x, 0)); /* by infinity */
  msc_value *far = msc_compute(b, "b + (a - a)", x, choose(b, opposite, y, x));
  return give_result(cast(b, choose(b, is_infinite(b, y), far, rest), dtype), out_result);
}
