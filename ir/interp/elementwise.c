/* elementwise.c: one number from one, two or three; and the arithmetic the other kernels use. */
#include <math.h>
#include <string.h>

#include "ir/interp/kernel.h"

/* ---- conversions ---- */

static msc_scalar convert(msc_dtype from, msc_dtype to, msc_scalar v) {
  if (msc_is_float(from)) return msc_scalar_of(to, v.f);
  if (msc_is_float(to)) return (msc_scalar){.f = msc_is_unsigned(from) ? (double)v.u : (double)v.i};
  return to == MSC_I1 ? (msc_scalar){.i = v.u != 0} : v; /* storing wraps */
}

void msc_run_cast(msc_eval *e) {
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index))
    msc_piece_put(e, 0, index, convert(e->in[0].dtype, e->out[0].dtype, msc_piece_get(e, 0, index)));
}

/* All micro-batches are like this one. */
void msc_run_accumulate(msc_eval *e) {
  int64_t index[MSC_MAX_RANK];
  double factor = msc_op_bool(e->op, "mean") ? 1 : (double)msc_op_int(e->op, "count");
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index))
    msc_piece_put(e, 0, index, (msc_scalar){.f = factor * msc_piece_get(e, 0, index).f});
}

/* ---- two numbers ---- */

static double float_of_two(msc_op_kind kind, double a, double b) {
  switch (kind) {
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul: return a * b;
    case OP_div: return a / b;
    case OP_max: return a != a || a > b ? a : b;
    case OP_min: return a != a || a < b ? a : b;
    default: return pow(a, b);
  }
}

static bool less(msc_dtype d, msc_scalar a, msc_scalar b) {
  if (msc_is_float(d)) return a.f < b.f;
  return msc_is_unsigned(d) ? a.u < b.u : a.i < b.i;
}

/* Division of integers; the caller has seen to b != 0.  The least number by -1 wraps to itself. */
static msc_scalar quotient(msc_dtype d, msc_scalar a, msc_scalar b) {
  if (msc_is_unsigned(d)) return (msc_scalar){.u = a.u / b.u};
  return b.i == -1 ? (msc_scalar){.u = 0 - a.u} : (msc_scalar){.i = a.i / b.i};
}

msc_scalar msc_arithmetic(msc_op_kind kind, msc_dtype d, msc_scalar a, msc_scalar b) {
  if (msc_is_float(d)) return (msc_scalar){.f = float_of_two(kind, a.f, b.f)};
  switch (kind) {
    case OP_add: return (msc_scalar){.u = a.u + b.u};
    case OP_sub: return (msc_scalar){.u = a.u - b.u};
    case OP_mul: return (msc_scalar){.u = a.u * b.u};
    case OP_max: return less(d, a, b) ? b : a;
    case OP_min: return less(d, b, a) ? b : a;
    default: return b.u ? quotient(d, a, b) : (msc_scalar){.u = 0};
  }
}

static const msc_op_kind reduction_kinds[] = {
    [MSC_SUM] = OP_add, [MSC_MAX] = OP_max, [MSC_MIN] = OP_min, [MSC_PROD] = OP_mul};

msc_scalar msc_reduce(msc_reduction r, msc_dtype d, msc_scalar a, msc_scalar b) {
  return msc_arithmetic(reduction_kinds[r], d, a, b);
}

msc_scalar msc_reduce_tree(msc_reduction r, msc_dtype d, int64_t num, const msc_scalar *term) {
  int64_t left = 1;
  if (num == 1) return term[0];
  while (2 * left < num) left *= 2;
  return msc_reduce(r, d, msc_reduce_tree(r, d, left, term), msc_reduce_tree(r, d, num - left, term + left));
}

void msc_run_binary(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  msc_op_kind kind = (msc_op_kind)e->op->kind;
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    msc_scalar a = msc_piece_get_stretched(e, 0, y->rank, index), b = msc_piece_get_stretched(e, 1, y->rank, index);
    if (kind == OP_div && !msc_is_float(y->dtype) && !b.u) msc_fault(e, "integer division by zero");
    msc_piece_put(e, 0, index, msc_arithmetic(kind, y->dtype, a, b));
  }
}

/* ---- one number ---- */

static double gelu(double x, bool exact) {
  if (exact) return 0.5 * x * (1 + erf(x * M_SQRT1_2));
  return 0.5 * x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
}

static double float_of_one(const msc_op *op, double x) {
  switch (op->kind) {
    case OP_neg: return -x;
    case OP_exp: return exp(x);
    case OP_log: return log(x);
    case OP_sqrt: return sqrt(x);
    case OP_rsqrt: return 1 / sqrt(x);
    case OP_tanh: return tanh(x);
    case OP_erf: return erf(x);
    case OP_sin: return sin(x);
    case OP_cos: return cos(x);
    case OP_floor: return floor(x);
    case OP_ceil: return ceil(x);
    case OP_round: return nearbyint(x);
    case OP_sigmoid: return 1 / (1 + exp(-x));
    case OP_relu: return x < 0 ? 0 : x;
    case OP_gelu: return gelu(x, strcmp(msc_op_str(op, "form"), "erf") == 0);
    case OP_silu: return x / (1 + exp(-x));
    case OP_abs: return fabs(x);
    default: return (x > 0) - (x < 0); /* sign */
  }
}

static msc_scalar int_of_one(msc_op_kind kind, msc_dtype d, msc_scalar x) {
  bool negative = !msc_is_unsigned(d) && x.i < 0;
  switch (kind) {
    case OP_neg: return (msc_scalar){.u = 0 - x.u};
    case OP_relu: return negative ? (msc_scalar){.u = 0} : x;
    case OP_abs: return negative ? (msc_scalar){.u = 0 - x.u} : x;
    default: return (msc_scalar){.i = negative ? -1 : x.u != 0}; /* sign */
  }
}

void msc_run_unary(msc_eval *e) {
  msc_dtype d = e->in[0].dtype;
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    msc_scalar x = msc_piece_get(e, 0, index);
    if (msc_is_float(d)) msc_piece_put(e, 0, index, (msc_scalar){.f = float_of_one(e->op, x.f)});
    else msc_piece_put(e, 0, index, int_of_one((msc_op_kind)e->op->kind, d, x));
  }
}

/* ---- comparisons ---- */

static bool equal(msc_dtype d, msc_scalar a, msc_scalar b) { return msc_is_float(d) ? a.f == b.f : a.u == b.u; }

static bool holds(const char *predicate, msc_dtype d, msc_scalar a, msc_scalar b) {
  bool eq = equal(d, a, b), lt = less(d, a, b), gt = less(d, b, a);
  switch (predicate[0]) {
    case 'e': return eq;
    case 'n': return !eq;
    case 'l': return lt || (predicate[1] == 'e' && eq);
    default: return gt || (predicate[1] == 'e' && eq);
  }
}

void msc_run_compare(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  const char *predicate = msc_op_str(e->op, "predicate");
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    msc_scalar a = msc_piece_get_stretched(e, 0, y->rank, index), b = msc_piece_get_stretched(e, 1, y->rank, index);
    msc_piece_put(e, 0, index, (msc_scalar){.i = holds(predicate, e->in[0].dtype, a, b)});
  }
}

void msc_run_select(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    msc_scalar c = msc_piece_get_stretched(e, 0, y->rank, index), a = msc_piece_get_stretched(e, 1, y->rank, index),
               b = msc_piece_get_stretched(e, 2, y->rank, index);
    msc_piece_put(e, 0, index, c.i ? a : b);
  }
}
