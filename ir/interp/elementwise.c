/* elementwise.c: an elementwise op and its operands on one rank in; its results out.  Also the arithmetic of single
 * elements that all kernels use. */
#include <math.h>

#include "ir/interp/kernel.h"

/* ---- conversions ---- */

static msc_scalar convert(msc_dtype from, msc_dtype to, msc_scalar v) {
  if (msc_is_float(from)) return msc_scalar_of(to, v.f);
  if (msc_is_float(to)) return (msc_scalar){.f = msc_is_unsigned(from) ? (double)v.u : (double)v.i};
  return to == MSC_I1 ? (msc_scalar){.i = v.u != 0} : v; /* storing wraps */
}

void eval_cast(msc_eval *e) {
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index))
    msc_piece_put(e, 0, index, convert(e->in[0].dtype, e->out[0].dtype, msc_piece_get(e, 0, index)));
}

/* Repeats each row as often as there are micro-batches: all are assumed to be equal to this one. */
static void repeat_rows(msc_eval *e) {
  int64_t index[MSC_MAX_RANK], count = msc_op_int(e->op, MSC_FACT(count));
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    int64_t row = index[0];
    index[0] = row / count;
    msc_scalar x = msc_piece_get(e, 0, index);
    index[0] = row;
    msc_piece_put(e, 0, index, x);
  }
}

/* Multiplies by the number of micro-batches, unless the op takes a mean: all micro-batches are assumed to be equal to
 * this one. */
void eval_accumulate(msc_eval *e) {
  if (msc_op_bool(e->op, "rows")) return repeat_rows(e);
  int64_t index[MSC_MAX_RANK];
  int64_t factor = msc_op_bool(e->op, "mean") ? 1 : msc_op_int(e->op, MSC_FACT(count));
  bool is_float = msc_is_float(e->out[0].dtype);
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    msc_scalar x = msc_piece_get(e, 0, index);
    msc_piece_put(e, 0, index,
                  is_float ? (msc_scalar){.f = (double)factor * x.f} : (msc_scalar){.u = (uint64_t)factor * x.u});
  }
}

/* ---- two numbers ---- */

static double float_of_two(msc_scalar_code code, double a, double b) {
  switch (code) {
    case SCALAR_add: return a + b;
    case SCALAR_sub: return a - b;
    case SCALAR_mul: return a * b;
    case SCALAR_div: return a / b;
    case SCALAR_max: return a != a || a > b ? a : b;
    case SCALAR_min: return a != a || a < b ? a : b;
    default: return pow(a, b);
  }
}

bool msc_scalar_less(msc_dtype d, msc_scalar a, msc_scalar b) {
  if (msc_is_float(d)) return a.f < b.f;
  return msc_is_unsigned(d) ? a.u < b.u : a.i < b.i;
}

/* Divides integers, where b is not 0.  The least number divided by -1 wraps to itself. */
static msc_scalar divide_ints(msc_dtype d, msc_scalar a, msc_scalar b) {
  if (msc_is_unsigned(d)) return (msc_scalar){.u = a.u / b.u};
  return b.i == -1 ? (msc_scalar){.u = 0 - a.u} : (msc_scalar){.i = a.i / b.i};
}

static msc_scalar shift_ints(msc_scalar_code code, msc_dtype d, msc_scalar a, msc_scalar b) {
  uint64_t bits = 8 * (uint64_t)msc_dtype_bytes(d);
  bool far = b.u >= bits; /* also true for a negative b */
  if (code == SCALAR_shl) return (msc_scalar){.u = far ? 0 : a.u << b.u};
  if (msc_is_unsigned(d)) return (msc_scalar){.u = far ? 0 : a.u >> b.u};
  int64_t ones = a.i < 0 ? -1 : 0;
  return (msc_scalar){.i = far ? ones : (int64_t)((a.u ^ (uint64_t)ones) >> b.u) ^ ones};
}

msc_scalar msc_arithmetic(msc_scalar_code code, msc_dtype d, msc_scalar a, msc_scalar b) {
  if (msc_is_float(d)) return (msc_scalar){.f = float_of_two(code, a.f, b.f)};
  switch (code) {
    case SCALAR_add: return (msc_scalar){.u = a.u + b.u};
    case SCALAR_sub: return (msc_scalar){.u = a.u - b.u};
    case SCALAR_mul: return (msc_scalar){.u = a.u * b.u};
    case SCALAR_max: return msc_scalar_less(d, a, b) ? b : a;
    case SCALAR_min: return msc_scalar_less(d, b, a) ? b : a;
    case SCALAR_and: return (msc_scalar){.u = a.u & b.u};
    case SCALAR_or: return (msc_scalar){.u = a.u | b.u};
    case SCALAR_xor: return (msc_scalar){.u = a.u ^ b.u};
    case SCALAR_shl:
    case SCALAR_shr: return shift_ints(code, d, a, b);
    default: return b.u ? divide_ints(d, a, b) : (msc_scalar){.u = 0};
  }
}

static const msc_scalar_code reduction_codes[] = {
    [MSC_SUM] = SCALAR_add, [MSC_MAX] = SCALAR_max, [MSC_MIN] = SCALAR_min, [MSC_PROD] = SCALAR_mul};
_Static_assert(sizeof reduction_codes / sizeof *reduction_codes == MSC_NUM_REDUCTIONS, "a code for each");

msc_scalar msc_reduce(msc_reduction r, msc_dtype d, msc_scalar a, msc_scalar b) {
  return msc_arithmetic(reduction_codes[r], d, a, b);
}

msc_scalar msc_reduce_tree(msc_reduction r, msc_dtype d, int64_t num, const msc_scalar *term) {
  int64_t left = 1;
  if (num == 1) return term[0];
  while (2 * left < num) left *= 2;
  return msc_reduce(r, d, msc_reduce_tree(r, d, left, term), msc_reduce_tree(r, d, num - left, term + left));
}

/* ---- one number ---- */

static double float_of_one(msc_scalar_code code, double x) {
  switch (code) {
    case SCALAR_neg: return -x;
    case SCALAR_exp: return exp(x);
    case SCALAR_log: return log(x);
    case SCALAR_log2: return log2(x);
    case SCALAR_log10: return log10(x);
    case SCALAR_sqrt: return sqrt(x);
    case SCALAR_tanh: return tanh(x);
    case SCALAR_erf: return erf(x);
    case SCALAR_sin: return sin(x);
    case SCALAR_cos: return cos(x);
    case SCALAR_atan: return atan(x);
    case SCALAR_floor: return floor(x);
    case SCALAR_ceil: return ceil(x);
    case SCALAR_nearest: return nearbyint(x);
    case SCALAR_relu: return x < 0 ? 0 : x;
    case SCALAR_abs: return fabs(x);
    default: return (x > 0) - (x < 0); /* sign */
  }
}

static msc_scalar int_of_one(msc_scalar_code code, msc_dtype d, msc_scalar x) {
  bool negative = !msc_is_unsigned(d) && x.i < 0;
  switch (code) {
    case SCALAR_neg: return (msc_scalar){.u = 0 - x.u};
    case SCALAR_relu: return negative ? (msc_scalar){.u = 0} : x;
    case SCALAR_abs: return negative ? (msc_scalar){.u = 0 - x.u} : x;
    default: return (msc_scalar){.i = negative ? -1 : x.u != 0}; /* sign */
  }
}

/* ---- formulas ---- */

static msc_scalar compute_step(msc_eval *e, const msc_scalar_step *s, msc_dtype d, const msc_scalar *v) {
  msc_scalar a = v[s->arg[0]], b = v[s->arg[1]];
  if (s->code == SCALAR_number) return msc_scalar_of(d, s->number);
  if (s->code == SCALAR_less) return (msc_scalar){.i = msc_scalar_less(d, a, b)};
  if (s->code == SCALAR_select) return a.i ? b : v[s->arg[2]];
  if (s->code == SCALAR_div && !msc_is_float(d) && !b.u) msc_fault(e, "integer division by zero");
  if (s->num_args == 2) return msc_arithmetic(s->code, d, a, b);
  return msc_is_float(d) ? (msc_scalar){.f = float_of_one(s->code, a.f)} : int_of_one(s->code, d, a);
}

/* Evaluates the op's formula for every element; operands broadcast. */
void eval_formula(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  const msc_formula *f = msc_formula_of(e->op);
  msc_scalar v[MSC_FORMULA_OPERANDS + MSC_FORMULA_STEPS] = {0};
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    for (size_t i = 0; i < e->op->num_in; i++) v[i] = msc_piece_get_stretched(e, i, y->rank, index);
    for (int i = 0; i < f->num; i++) v[MSC_FORMULA_OPERANDS + i] = compute_step(e, &f->step[i], y->dtype, v);
    msc_piece_put(e, 0, index, v[MSC_FORMULA_OPERANDS + f->num - 1]);
  }
}

/* ---- comparisons ---- */

static bool equal(msc_dtype d, msc_scalar a, msc_scalar b) { return msc_is_float(d) ? a.f == b.f : a.u == b.u; }

static bool predicate_holds(msc_predicate predicate, msc_dtype d, msc_scalar a, msc_scalar b) {
  bool eq = equal(d, a, b), lt = msc_scalar_less(d, a, b), gt = msc_scalar_less(d, b, a);
  switch (predicate) {
    case MSC_EQ: return eq;
    case MSC_NE: return !eq;
    case MSC_LT: return lt;
    case MSC_LE: return lt || eq;
    case MSC_GT: return gt;
    default: return gt || eq;
  }
}

void eval_compare(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  msc_predicate predicate = msc_op_predicate(e->op);
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    msc_scalar a = msc_piece_get_stretched(e, 0, y->rank, index), b = msc_piece_get_stretched(e, 1, y->rank, index);
    msc_piece_put(e, 0, index, (msc_scalar){.i = predicate_holds(predicate, e->in[0].dtype, a, b)});
  }
}
