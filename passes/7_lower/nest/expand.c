/* expand.c: a value of a region and a view of it -> the instructions that compute the viewed element. Elementwise ops
 * become arithmetic, ops that move data become other coordinates. */
#include <math.h>
#include <string.h>

#include "ir/scalar.h"
#include "passes/7_lower/nest/expand.h"

/* ---- constants ---- */

static double half_number(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double v = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                            : ldexp(fraction, -24);
  return h >> 15 ? -v : v;
}

static double float_number(const void *data, msc_dtype dtype) {
  uint16_t h;
  uint32_t w;
  float f;
  double v;
  switch (dtype) {
    case MSC_F64: memcpy(&v, data, sizeof v); return v;
    case MSC_F32: memcpy(&f, data, sizeof f); return f;
    case MSC_F16: memcpy(&h, data, sizeof h); return half_number(h);
    default: memcpy(&h, data, sizeof h); w = (uint32_t)h << 16; memcpy(&f, &w, sizeof f); return f;
  }
}

static int64_t int_number(const void *data, msc_dtype dtype) {
  uint64_t v = 0;
  int bits = (int)msc_dtype_bytes(dtype) * 8;
  memcpy(&v, data, (size_t)bits / 8);
  if (msc_dtype_class_of(dtype) != MSC_CLASS_INT || bits == 64) return (int64_t)v;
  return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static bool holds_one_value(const msc_attr_value *v) {
  return v->dense.bytes == (size_t)msc_dtype_bytes(v->dense.type->dtype);
}

uint16_t loop_constant(msc_nester *n, const msc_value *result, const msc_view *view) {
  (void)view;
  const msc_attr_value *v = msc_op_attr(result->def, "value");
  msc_dtype dtype = v->dense.type->dtype;
  if (!holds_one_value(v)) return msc_nest_refuse(n, "a constant of more than one value comes from memory");
  if (msc_is_float(dtype)) return msc_nest_scalar(n, dtype, float_number(v->dense.data, dtype));
  if (dtype == MSC_I1) return msc_nest_number(n, MSC_I1, *(const uint8_t *)v->dense.data != 0);
  return msc_nest_cast(n, msc_nest_dim(n, int_number(v->dense.data, dtype)), dtype);
}

/* Is v a float constant with the same number everywhere? */
static bool read_splat(const msc_nester *n, int v, double *out_number) {
  const msc_op *def = n->value[v].def;
  if (!def || !msc_is_constant_op(def)) return false;
  const msc_attr_value *a = msc_op_attr(def, "value");
  if (!holds_one_value(a) || !msc_is_float(a->dense.type->dtype)) return false;
  *out_number = float_number(a->dense.data, a->dense.type->dtype);
  return true;
}

/* ---- data movement ---- */

uint16_t loop_transpose(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int64_t perm[MSC_MAX_RANK];
  msc_view at = {0};
  int rank = msc_op_ints(op, "perm", perm, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++) at.at[perm[d]] = view->at[d];
  return msc_nest_eval(n, msc_nest_find_value(n, op->in[0].value), &at);
}

/* The row-major element number of the coordinates of dimensions [from, to) of t. */
static uint16_t join_coords(msc_nester *n, const msc_type *t, int from, int to, const msc_view *view) {
  msc_type part = {.rank = to - from};
  msc_view at = {0};
  msc_coord c = {0};
  for (int d = from; d < to; d++) part.dim[d - from] = t->dim[d], at.at[d - from] = view->at[d];
  c.a = msc_nest_offset(n, &part, &at, &c.instr);
  return msc_nest_coord(n, &c);
}

/* Evaluates the operand of a reshape. Dimensions are grouped so that products of sizes are equal: a group of one to one
 * keeps its coordinate; many result dimensions of one operand dimension are combined into its coordinate. */
static uint16_t read_reshape(msc_nester *n, int x, int y, const msc_view *view) {
  const msc_type *a = n->value[x].value->type, *b = n->value[y].value->type;
  if (!n->value[x].def) return msc_nest_load(n, x, b, view);
  msc_view at = {0};
  for (int i = 0, j = 0; i < a->rank;) {
    if (a->dim[i] == 1) {
      i++;
      continue;
    }
    int from = j, in = i;
    int64_t want = a->dim[i++], have = 1;
    while (j < b->rank && have < want) have *= b->dim[j++];
    if (have != want)
      return msc_nest_refuse(n, "a reshape joins dimensions that are computed apart; between kernels it is free");
    at.at[in] = join_coords(n, b, from, j, view);
  }
  return msc_nest_eval(n, x, &at);
}

uint16_t loop_slice(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int64_t start[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  msc_view at = {0};
  int rank = msc_op_ints(op, MSC_FACT(start), start, MSC_MAX_RANK);
  bool strides = msc_op_ints(op, "stride", stride, MSC_MAX_RANK) == rank;
  for (int d = 0; d < rank; d++) at.at[d] = msc_nest_move_coord(n, view->at[d], strides ? stride[d] : 1, start[d]);
  return msc_nest_eval(n, msc_nest_find_value(n, op->in[0].value), &at);
}

uint16_t loop_split(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int64_t dim = msc_op_int(op, "dim"), before = 0;
  msc_view at = *view;
  for (size_t i = 0; i < result->index; i++) before += op->out[i].type->dim[dim];
  at.at[dim] = msc_nest_move_coord(n, view->at[dim], 1, before);
  return msc_nest_eval(n, msc_nest_find_value(n, op->in[0].value), &at);
}

uint16_t loop_concat(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int64_t dim = msc_op_int(op, "dim"), before = 0;
  uint16_t sum = 0;
  for (int i = 0; i < op->num_in; i++) {
    int x = msc_nest_find_value(n, op->in[i].value);
    int64_t size = op->in[i].value->type->dim[dim];
    msc_view at = *view;
    if (op->num_in == 1) return msc_nest_eval(n, x, view);
    at.at[dim] = size == 1 ? 0 : msc_nest_move_coord(n, view->at[dim], 1, -before);
    uint16_t ok = msc_nest_is_inside(n, msc_nest_move_coord(n, view->at[dim], 1, -before), size);
    uint16_t v = msc_nest_eval_where(n, ok, x, &at);
    sum = sum ? msc_nest_select(n, ok, v, sum) : v;
    before += size;
  }
  return sum;
}

uint16_t loop_pad(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value);
  const msc_type *t = n->value[x].value->type;
  int64_t low[MSC_MAX_RANK], high[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  msc_op_ints(op, "low", low, MSC_MAX_RANK), msc_op_ints(op, "high", high, MSC_MAX_RANK);
  bool strides = msc_op_ints(op, "stride", stride, MSC_MAX_RANK) == t->rank;
  msc_view at = *view;
  uint16_t ok = 0;
  for (int d = 0; d < t->rank; d++) {
    int64_t step = strides ? stride[d] : 1;
    if (!low[d] && !high[d] && (step == 1 || t->dim[d] <= 1)) continue;
    uint16_t c = msc_nest_move_coord(n, view->at[d], 1, -low[d]);
    if (step != 1 && t->dim[d] > 1) {
      uint16_t k = msc_nest_coord_value(n, c), s = msc_nest_dim(n, step);
      ok = msc_nest_and(n, ok, msc_nest_compare(n, NEST_BELOW, k, msc_nest_dim(n, (t->dim[d] - 1) * step + 1)));
      ok = msc_nest_and(n, ok,
                        msc_nest_compare(n, NEST_EQ, msc_nest_op(n, NEST_REM, k, s), msc_nest_number(n, MSC_I64, 0)));
      c = msc_nest_coord_of(n, msc_nest_op(n, NEST_DIV, k, s));
    } else {
      ok = msc_nest_and(n, ok, msc_nest_is_inside(n, c, t->dim[d]));
    }
    at.at[d] = t->dim[d] == 1 ? 0 : c;
  }
  if (!ok) return msc_nest_eval(n, x, view);
  uint16_t v = msc_nest_eval_where(n, ok, x, &at);
  double fill = msc_op_float(op, "value");
  return msc_nest_select(
      n, ok, v, msc_nest_cast(n, msc_nest_scalar(n, msc_is_float(t->dtype) ? t->dtype : MSC_F64, fill), t->dtype));
}

/* ---- elementwise ---- */

static uint16_t predicate(msc_nester *n, const msc_op *op, uint16_t a, uint16_t b) {
  static const msc_nest_predicate same[MSC_NUM_PREDICATES] = {NEST_EQ, NEST_NE, NEST_LT, NEST_LE, NEST_GT, NEST_GE};
  return msc_nest_compare(n, same[msc_op_predicate(op)], a, b);
}

/* a to the power b. The powers 2, 3, -1 and 1/2 are common and need no logarithm. */
static uint16_t power(msc_nester *n, int exponent, uint16_t a, uint16_t b) {
  double e;
  if (!read_splat(n, exponent, &e)) return msc_nest_op(n, NEST_POW, a, b);
  if (e == 1) return a;
  if (e == 2) return msc_nest_op(n, NEST_MUL, a, a);
  if (e == 3) return msc_nest_op(n, NEST_MUL, msc_nest_op(n, NEST_MUL, a, a), a);
  if (e == -1) return msc_nest_op(n, NEST_DIV, msc_nest_number(n, (msc_dtype)n->instr[a].dtype, 1), a);
  return msc_nest_op(n, NEST_POW, a, b);
}

static uint16_t divide_checked(msc_nester *n, uint16_t a, uint16_t b) {
  msc_dtype d = (msc_dtype)n->instr[a].dtype;
  if (!msc_is_float(d))
    msc_nest_check(n, MSC_FAULT_DIVISION, msc_nest_compare(n, NEST_NE, b, msc_nest_number(n, d, 0)));
  return msc_nest_op(n, NEST_DIV, a, b);
}

/* Computes a formula on elements x of the values v. */
static uint16_t compute(msc_nester *n, const msc_formula *f, const int *v, const uint16_t *x) {
  static const uint8_t code[SCALAR_COUNT] = {
      [SCALAR_add] = NEST_ADD,     [SCALAR_sub] = NEST_SUB,   [SCALAR_mul] = NEST_MUL,
      [SCALAR_max] = NEST_MAX,     [SCALAR_min] = NEST_MIN,   [SCALAR_neg] = NEST_NEG,
      [SCALAR_abs] = NEST_ABS,     [SCALAR_sign] = NEST_SIGN, [SCALAR_relu] = NEST_RELU,
      [SCALAR_exp] = NEST_EXP,     [SCALAR_log] = NEST_LOG,   [SCALAR_sqrt] = NEST_SQRT,
      [SCALAR_tanh] = NEST_TANH,   [SCALAR_erf] = NEST_ERF,   [SCALAR_sin] = NEST_SIN,
      [SCALAR_cos] = NEST_COS,     [SCALAR_ceil] = NEST_CEIL, [SCALAR_nearest] = NEST_NEAREST,
      [SCALAR_floor] = NEST_FLOOR, [SCALAR_and] = NEST_AND,   [SCALAR_or] = NEST_OR,
      [SCALAR_xor] = NEST_XOR,     [SCALAR_shl] = NEST_SHL,   [SCALAR_shr] = NEST_SHR,
      [SCALAR_atan] = NEST_ATAN,   [SCALAR_log2] = NEST_LOG2, [SCALAR_log10] = NEST_LOG10};
  uint16_t r[MSC_FORMULA_OPERANDS + MSC_FORMULA_STEPS], y = 0;
  memcpy(r, x, MSC_FORMULA_OPERANDS * sizeof *r);
  for (int i = 0; i < f->num; i++) {
    const msc_scalar_step *s = &f->step[i];
    uint16_t a = r[s->arg[0]], b = s->num_args > 1 ? r[s->arg[1]] : 0;
    switch (s->code) {
      case SCALAR_number: y = msc_nest_number(n, (msc_dtype)n->instr[x[0]].dtype, s->number); break;
      case SCALAR_less: y = msc_nest_compare(n, NEST_LT, a, b); break;
      case SCALAR_select: y = msc_nest_select(n, a, b, r[s->arg[2]]); break;
      case SCALAR_div: y = divide_checked(n, a, b); break;
      case SCALAR_pow: y = power(n, v[s->arg[1]], a, b); break;
      default: y = msc_nest_op(n, (msc_nest_code)code[s->code], a, b);
    }
    r[MSC_FORMULA_OPERANDS + i] = y;
  }
  return y;
}

/* True if instruction x, an element of a value of f16 or bf16 that is computed in f32, needs no rounding: it was loaded
 * or rounded, or is such a number with another sign; or it is a sum, which other ranks go on adding in f32. */
static bool is_rounded(const msc_nester *n, uint16_t x) {
  while (n->instr[x].code == NEST_NEG || n->instr[x].code == NEST_ABS || n->instr[x].code == NEST_RELU)
    x = n->instr[x].arg[0];
  const msc_instr *i = &n->instr[x];
  return i->code == NEST_LOAD || i->code == NEST_ROUND || i->code == NEST_CONST ||
         (i->code == NEST_REDUCE && i->imm == MSC_SUM);
}

/* Returns element x of v, rounded to the type of v. Kernels compute f16 and bf16 in f32; a comparison, or an op in a
 * wider type, must get the number that it would load if v were stored: else no element would be equal to the maximum of
 * all. */
static uint16_t round_to_type(msc_nester *n, const msc_value *v, uint16_t x) {
  bool half = msc_compute_dtype(v->type->dtype) != v->type->dtype;
  return half && !is_rounded(n, x) ? msc_nest_cast(n, x, v->type->dtype) : x;
}

/* Writes the numbers and elements of up to three operands at the place of the result y; false: the op is refused. */
static bool read_operands(msc_nester *n, const msc_op *op, int y, const msc_view *view, int v[3], uint16_t x[3]) {
  for (int i = 0; i < op->num_in && i < 3; i++) {
    v[i] = msc_nest_find_value(n, op->in[i].value);
    if (op->in[i].value->type->rank > n->value[y].value->type->rank)
      return msc_nest_refuse(n, "%s has no loop form", msc_kind_name(op->kind));
    msc_view at = msc_nest_stretch(n, y, view, v[i]);
    x[i] = msc_nest_eval(n, v[i], &at);
  }
  return !n->failed;
}

uint16_t loop_compare(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  uint16_t x[3] = {0};
  int v[3];
  if (!read_operands(n, op, msc_nest_find_value(n, result), view, v, x)) return 0;
  return predicate(n, op, round_to_type(n, op->in[0].value, x[0]), round_to_type(n, op->in[1].value, x[1]));
}

uint16_t loop_cast(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  uint16_t x[3] = {0};
  int v[3];
  if (!read_operands(n, op, msc_nest_find_value(n, result), view, v, x)) return 0;
  return msc_nest_cast(n, round_to_type(n, op->in[0].value, x[0]), result->type->dtype);
}

static uint16_t elementwise(msc_nester *n, const msc_op *op, int y, const msc_view *view) {
  uint16_t x[3] = {0};
  int v[3] = {0};
  if (!read_operands(n, op, y, view, v, x)) return 0;
  const msc_formula *f = msc_formula_of(op);
  if (f) return compute(n, f, v, x);
  if (msc_form_of(op) == MSC_FORM_STRETCH) return x[0];
  return msc_nest_refuse(n, "%s has no loop form", msc_kind_name(op->kind));
}

/* ---- all ---- */

static msc_loop_fn *const loop_of[OP_COUNT] = {
#define LOOP(op, join, read) [OP_##op] = read,
#include "passes/7_lower/nest/loop.def"
};

uint16_t msc_nest_expand(msc_nester *n, int y, const msc_view *view) {
  const msc_op *op = n->value[y].def;
  if (loop_of[op->kind]) return loop_of[op->kind](n, n->value[y].value, view);
  if (msc_info(op)->flags & MSC_UPDATE) return msc_nest_update(n, op, y, view);
  switch (msc_form_of(op)) {
    case MSC_FORM_RESHAPE: return read_reshape(n, msc_nest_find_value(n, op->in[0].value), y, view);
    case MSC_FORM_PRODUCT: return msc_nest_matmul(n, op, y, view);
    case MSC_FORM_REDUCE: return msc_nest_reduce_op(n, op, y, view);
    case MSC_FORM_SCATTER: /* no element of it by itself */
      return msc_nest_refuse(n, "%s is the end of a kernel", msc_kind_name(op->kind));
    default: return elementwise(n, op, y, view);
  }
}
