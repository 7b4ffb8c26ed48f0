/* expand.c: a value of a region and where it is looked at, in; the instructions that compute it there, out.
 * Elementwise ops become arithmetic, ops that move data become other coordinates, values from outside become loads.
 * What is looked at twice in the same way is computed once.  Recursion is as deep as the region, at most
 * MSC_NEST_OPS. */
#include <string.h>

#include "ir/scalar.h"
#include "passes/7_lower/nest/expand.h"

/* ---- instructions ---- */

uint16_t msc_affine_axes(const msc_affine *a) {
  uint16_t axes = 0;
  for (int i = 0; i < MSC_NEST_AXES; i++)
    if (a->coef[i]) axes |= (uint16_t)(1u << i);
  return axes;
}

msc_dtype msc_compute_dtype(msc_dtype d) { return d == MSC_F16 || d == MSC_BF16 ? MSC_F32 : d; }

static bool same_instr(const msc_nester *n, int i, const msc_instr *in, const msc_affine *at, uint16_t over) {
  const msc_instr *o = &n->instr[i];
  return o->code == in->code && o->dtype == in->dtype && o->buffer == in->buffer && o->imm == in->imm &&
         !memcmp(o->arg, in->arg, sizeof o->arg) && !memcmp(&o->number, &in->number, sizeof o->number) &&
         n->over[i] == over && (in->code != NEST_REDUCE || n->blocks[i] == n->op_blocks) &&
         !memcmp(&n->at[i], at, sizeof *at);
}

uint16_t msc_nest_add(msc_nester *n, msc_instr in, const msc_affine *at, uint16_t over) {
  static const msc_affine zero;
  if (n->failed) return 0;
  if (!at) at = &zero;
  for (int i = 1; i < n->num_instrs; i++)
    if (same_instr(n, i, &in, at, over)) return (uint16_t)i;
  if (n->num_instrs == MSC_NEST_INSTRS) return msc_nest_refuse(n, "more than %d steps of arithmetic", MSC_NEST_INSTRS);
  in.axes = msc_affine_axes(at);
  for (int k = 0; k < 3; k++) in.axes |= n->instr[in.arg[k]].axes;
  in.axes &= (uint16_t)~over;
  int i = n->num_instrs++;
  n->instr[i] = in, n->at[i] = *at, n->over[i] = over, n->blocks[i] = in.code == NEST_REDUCE ? n->op_blocks : 0;
  return (uint16_t)i;
}

uint16_t msc_nest_op(msc_nester *n, msc_nest_code code, uint16_t a, uint16_t b) {
  return msc_nest_add(n, (msc_instr){.code = (uint8_t)code, .dtype = n->instr[a].dtype, .arg = {a, b}}, NULL, 0);
}

uint16_t msc_nest_number(msc_nester *n, msc_dtype dtype, double v) {
  return msc_nest_add(n, (msc_instr){.code = NEST_CONST, .dtype = (uint8_t)dtype, .number = v}, NULL, 0);
}

int msc_nest_dim_slot(msc_nester *n, int64_t v) {
  if (v == 0 || v == 1) return (int)v;
  for (int i = 0; i < n->num_dims; i++) {
    bool is_start = false;
    for (int s = 0; s < n->num_starts; s++) is_start |= n->start[s].index == (uint32_t)i;
    if (!is_start && n->dims[i] == v) return i + 2;
  }
  if (n->num_dims == MSC_NEST_DIMS) return msc_nest_refuse(n, "more than %d sizes and strides", MSC_NEST_DIMS);
  n->dims[n->num_dims] = v;
  return n->num_dims++ + 2;
}

/* An integer that the launch brings along, as i64. */
uint16_t msc_nest_dim(msc_nester *n, int64_t v) {
  int slot = msc_nest_dim_slot(n, v);
  if (slot < 2) return msc_nest_number(n, MSC_I64, slot);
  return msc_nest_add(n, (msc_instr){.code = NEST_DIM, .dtype = MSC_I64, .imm = (int8_t)(slot - 2)}, NULL, 0);
}

uint16_t msc_nest_start(msc_nester *n, int64_t number) {
  if (n->num_dims == MSC_NEST_DIMS || n->num_starts == 16)
    return msc_nest_refuse(n, "more than 16 offsets of this rank's parts");
  n->start[n->num_starts].index = (uint32_t)n->num_dims, n->start[n->num_starts++].number = number;
  n->dims[n->num_dims] = 0;
  return msc_nest_add(n, (msc_instr){.code = NEST_DIM, .dtype = MSC_I64, .imm = (int8_t)n->num_dims++}, NULL, 0);
}

/* A float that the launch brings along; 0, 1 and -1 are part of the code. */
uint16_t msc_nest_scalar(msc_nester *n, msc_dtype dtype, double v) {
  dtype = msc_compute_dtype(dtype);
  if (v == 0 || v == 1 || v == -1) return msc_nest_number(n, dtype, v);
  int i = 0;
  while (i < n->num_scalars && memcmp(&n->scalars[i], &v, sizeof v)) i++;
  if (i == MSC_NEST_SCALARS) return msc_nest_refuse(n, "more than %d constants", MSC_NEST_SCALARS);
  n->scalars[i] = v;
  if (i == n->num_scalars) n->num_scalars++;
  return msc_nest_add(n, (msc_instr){.code = NEST_SCALAR, .dtype = (uint8_t)dtype, .imm = (int8_t)i}, NULL, 0);
}

uint16_t msc_nest_compare(msc_nester *n, msc_nest_predicate p, uint16_t a, uint16_t b) {
  return msc_nest_add(n, (msc_instr){.code = NEST_COMPARE, .dtype = MSC_I1, .imm = (int8_t)p, .arg = {a, b}}, NULL, 0);
}

uint16_t msc_nest_select(msc_nester *n, uint16_t c, uint16_t a, uint16_t b) {
  return msc_nest_add(n, (msc_instr){.code = NEST_SELECT, .dtype = n->instr[a].dtype, .arg = {c, a, b}}, NULL, 0);
}

uint16_t msc_nest_cast(msc_nester *n, uint16_t a, msc_dtype dtype) {
  msc_dtype to = msc_compute_dtype(dtype);
  if (n->instr[a].dtype != to)
    a = msc_nest_add(n, (msc_instr){.code = NEST_CAST, .dtype = (uint8_t)to, .arg = {a}}, NULL, 0);
  if (to == dtype) return a;
  return msc_nest_add(n, (msc_instr){.code = NEST_ROUND, .dtype = MSC_F32, .imm = (int8_t)dtype, .arg = {a}}, NULL, 0);
}

uint16_t msc_nest_and(msc_nester *n, uint16_t a, uint16_t b) {
  return !a ? b : !b ? a : msc_nest_op(n, NEST_AND, a, b);
}

/* The launch reports `fault` where `ok` is false. */
void msc_nest_check(msc_nester *n, msc_kernel_fault fault, uint16_t ok) {
  msc_nest_add(n, (msc_instr){.code = NEST_CHECK, .dtype = MSC_I1, .imm = (int8_t)fault, .arg = {ok, n->inside.guard}},
               NULL, 0);
  n->checks = true;
}

/* ---- coordinates ---- */

uint16_t msc_nest_coord(msc_nester *n, const msc_coord *c) {
  int i = 0;
  while (i < n->num_coords && (n->coord[i].instr != c->instr || memcmp(&n->coord[i].a, &c->a, sizeof c->a))) i++;
  if (i < n->num_coords) return (uint16_t)i;
  if (i == MAX_COORDS) return msc_nest_refuse(n, "more than %d ways to look at its values", MAX_COORDS);
  n->coord[n->num_coords++] = *c;
  return (uint16_t)i;
}

uint16_t msc_nest_coord_of(msc_nester *n, uint16_t instr) { return msc_nest_coord(n, &(msc_coord){.instr = instr}); }

/* c * factor + add */
uint16_t msc_nest_move_coord(msc_nester *n, uint16_t c, int64_t factor, int64_t add) {
  msc_coord m = n->coord[c];
  for (int i = 0; i < MSC_NEST_AXES; i++) m.a.coef[i] *= factor;
  m.a.c0 = m.a.c0 * factor + add;
  if (m.instr && factor != 1) m.instr = msc_nest_op(n, NEST_MUL, m.instr, msc_nest_dim(n, factor));
  return msc_nest_coord(n, &m);
}

/* The coordinate as a number. */
uint16_t msc_nest_coord_value(msc_nester *n, uint16_t c) {
  const msc_coord *k = &n->coord[c];
  if (!msc_affine_axes(&k->a) && !k->a.c0 && k->instr) return k->instr;
  uint16_t v = msc_nest_add(n, (msc_instr){.code = NEST_INDEX, .dtype = MSC_I64}, &k->a, 0);
  return k->instr ? msc_nest_op(n, NEST_ADD, v, k->instr) : v;
}

uint16_t msc_nest_is_inside(msc_nester *n, uint16_t c, int64_t size) {
  return msc_nest_compare(n, NEST_BELOW, msc_nest_coord_value(n, c), msc_nest_dim(n, size));
}

uint16_t msc_nest_coord_of_dim(msc_nester *n, int v, int d) {
  msc_coord c = {0};
  int axis = msc_nest_axis(n, v, d);
  if (axis >= 0) c.a.coef[axis] = 1;
  return msc_nest_coord(n, &c);
}

msc_view msc_nest_view_of(msc_nester *n, int v) {
  msc_view view = {0};
  for (int d = 0; d < n->value[v].value->type->rank; d++) view.at[d] = msc_nest_coord_of_dim(n, v, d);
  return view;
}

/* Operand w of a value looked at through `view`: dimensions aligned from the right, size 1 stretches. */
msc_view msc_nest_stretch(const msc_nester *n, int v, const msc_view *view, int w) {
  const msc_type *t = n->value[v].value->type, *u = n->value[w].value->type;
  msc_view out = {0}; /* coordinate 0 is the constant 0 */
  for (int d = 0; d < u->rank; d++)
    if (u->dim[d] != 1) out.at[d] = view->at[t->rank - u->rank + d];
  return out;
}

msc_affine msc_nest_offset(msc_nester *n, const msc_type *t, const msc_view *view, uint16_t *out_instr) {
  msc_affine sum = {0};
  uint16_t extra = 0;
  int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; stride *= t->dim[d] ? t->dim[d] : 1, d--) {
    const msc_coord *c = &n->coord[view->at[d]];
    sum.c0 += c->a.c0 * stride;
    for (int i = 0; i < MSC_NEST_AXES; i++) sum.coef[i] += c->a.coef[i] * stride;
    if (!c->instr) continue;
    uint16_t term = stride == 1 ? c->instr : msc_nest_op(n, NEST_MUL, c->instr, msc_nest_dim(n, stride));
    extra = extra ? msc_nest_op(n, NEST_ADD, extra, term) : term;
  }
  *out_instr = extra;
  return sum;
}

static uint16_t load(msc_nester *n, int v, const msc_type *t, const msc_view *view) {
  uint16_t extra;
  msc_affine at = msc_nest_offset(n, t, view, &extra);
  return msc_nest_add(n,
                      (msc_instr){.code = NEST_LOAD,
                                  .dtype = (uint8_t)msc_compute_dtype(t->dtype),
                                  .buffer = (uint8_t)n->value[v].buffer,
                                  .arg = {extra, n->inside.guard}},
                      &at, 0);
}

/* ---- reductions ---- */

static bool varies(const msc_nester *n, const msc_coord *c, uint16_t axes) {
  return (msc_affine_axes(&c->a) | n->instr[c->instr].axes) & axes;
}

/* What of a condition is the same all along these axes; 0: nothing. */
static uint16_t guard_without(msc_nester *n, uint16_t condition, uint16_t axes) {
  const msc_instr *in = &n->instr[condition];
  if (!(in->axes & axes)) return condition;
  return in->code == NEST_AND ? msc_nest_and(n, guard_without(n, in->arg[0], axes), guard_without(n, in->arg[1], axes))
                              : 0;
}

/* Positions on these axes are others inside than outside, so nothing that knows one goes in.  What a part of the guard
 * that is left outside keeps in range varies as that part does, and so has stayed outside, too. */
msc_inside msc_nest_open_reduction(msc_nester *n, uint16_t over, const msc_view *view, int rank, unsigned but) {
  msc_inside outer = n->inside;
  for (int d = 0; d < rank; d++)
    if (!(but >> d & 1) && varies(n, &n->coord[view->at[d]], over))
      msc_nest_refuse(n, "a reduced dimension is also one of the result's");
  if (n->failed) return outer;
  n->inside = (msc_inside){.guard = guard_without(n, outer.guard, over), .open = outer.open | over};
  return outer;
}

void msc_nest_close_reduction(msc_nester *n, msc_inside outer) { n->inside = outer; }

/* Along an axis on which x is constant nothing needs to run. */
uint16_t msc_nest_reduce(msc_nester *n, int kind, uint16_t x, uint16_t over) {
  uint16_t idle = over & (uint16_t)~n->instr[x].axes;
  if (over & (uint16_t)~n->inside.open) return msc_nest_refuse(n, "a reduction that was not begun");
  if (idle && kind == MSC_PROD) return msc_nest_refuse(n, "a product of equal factors needs them one by one");
  for (int i = 0; i < MSC_NEST_AXES && kind == MSC_SUM; i++)
    if (idle >> i & 1)
      x = msc_nest_op(n, NEST_MUL, x, msc_nest_cast(n, msc_nest_dim(n, n->extent[i]), (msc_dtype)n->instr[x].dtype));
  over &= (uint16_t)~idle;
  if (!over) return x;
  return msc_nest_add(n, (msc_instr){.code = NEST_REDUCE, .dtype = n->instr[x].dtype, .imm = (int8_t)kind, .arg = {x}},
                      NULL, over);
}

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

static bool is_splat(const msc_attr_value *v) {
  return v->dense.bytes == (size_t)msc_dtype_bytes(v->dense.type->dtype);
}

static uint16_t constant(msc_nester *n, const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, "value");
  msc_dtype dtype = v->dense.type->dtype;
  if (!is_splat(v)) return msc_nest_refuse(n, "a constant of more than one value comes from memory");
  if (msc_is_float(dtype)) return msc_nest_scalar(n, dtype, float_number(v->dense.data, dtype));
  if (dtype == MSC_I1) return msc_nest_number(n, MSC_I1, *(const uint8_t *)v->dense.data != 0);
  return msc_nest_cast(n, msc_nest_dim(n, int_number(v->dense.data, dtype)), dtype);
}

bool msc_nest_is_splat(const msc_nester *n, int v, double *out_number) {
  const msc_op *def = n->value[v].def;
  if (!def || def->kind != OP_constant) return false;
  const msc_attr_value *a = msc_op_attr(def, "value");
  if (!is_splat(a) || !msc_is_float(a->dense.type->dtype)) return false;
  *out_number = float_number(a->dense.data, a->dense.type->dtype);
  return true;
}

/* ---- data movement ---- */

static uint16_t read_transpose(msc_nester *n, const msc_op *op, int x, const msc_view *view) {
  int64_t perm[MSC_MAX_RANK];
  msc_view at = {0};
  int rank = msc_op_ints(op, "perm", perm, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++) at.at[perm[d]] = view->at[d];
  return msc_nest_eval(n, x, &at);
}

/* Sum of the coordinates of dimensions [from, to) of t, row-major. */
static uint16_t join_coords(msc_nester *n, const msc_type *t, int from, int to, const msc_view *view) {
  msc_type part = {.rank = to - from};
  msc_view at = {0};
  msc_coord c = {0};
  for (int d = from; d < to; d++) part.dim[d - from] = t->dim[d], at.at[d - from] = view->at[d];
  c.a = msc_nest_offset(n, &part, &at, &c.instr);
  return msc_nest_coord(n, &c);
}

/* Groups of dimensions with equal products: one to one stays, many results from one operand dimension are summed up. */
static uint16_t read_reshape(msc_nester *n, int x, int y, const msc_view *view) {
  const msc_type *a = n->value[x].value->type, *b = n->value[y].value->type;
  if (!n->value[x].def) return load(n, x, b, view);
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

static uint16_t read_slice(msc_nester *n, const msc_op *op, int x, const msc_view *view) {
  int64_t start[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  msc_view at = {0};
  int rank = msc_op_ints(op, MSC_FACT(start), start, MSC_MAX_RANK);
  bool strides = msc_op_ints(op, "stride", stride, MSC_MAX_RANK) == rank;
  for (int d = 0; d < rank; d++) at.at[d] = msc_nest_move_coord(n, view->at[d], strides ? stride[d] : 1, start[d]);
  return msc_nest_eval(n, x, &at);
}

static uint16_t read_split(msc_nester *n, const msc_op *op, size_t result, int x, const msc_view *view) {
  int64_t dim = msc_op_int(op, "dim"), before = 0;
  msc_view at = *view;
  for (size_t i = 0; i < result; i++) before += op->out[i].type->dim[dim];
  at.at[dim] = msc_nest_move_coord(n, view->at[dim], 1, before);
  return msc_nest_eval(n, x, &at);
}

/* Evaluates v where `ok` holds. */
uint16_t msc_nest_eval_where(msc_nester *n, uint16_t ok, int v, const msc_view *view) {
  msc_inside outer = n->inside;
  n->inside.guard = msc_nest_and(n, outer.guard, ok);
  uint16_t x = msc_nest_eval(n, v, view);
  n->inside = outer;
  return x;
}

static uint16_t read_concat(msc_nester *n, const msc_op *op, const msc_view *view) {
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

static uint16_t read_pad(msc_nester *n, const msc_op *op, int x, const msc_view *view) {
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
  static const char *const name[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  int p = 0;
  while (p < 5 && strcmp(name[p], msc_op_str(op, "predicate"))) p++;
  return msc_nest_compare(n, (msc_nest_predicate)p, a, b);
}

/* x^2, x^3, 1/x and square roots are common and need no logarithm. */
static uint16_t power(msc_nester *n, int exponent, uint16_t a, uint16_t b) {
  double e;
  if (!msc_nest_is_splat(n, exponent, &e)) return msc_nest_op(n, NEST_POW, a, b);
  if (e == 1) return a;
  if (e == 2) return msc_nest_op(n, NEST_MUL, a, a);
  if (e == 3) return msc_nest_op(n, NEST_MUL, msc_nest_op(n, NEST_MUL, a, a), a);
  if (e == -1) return msc_nest_op(n, NEST_DIV, msc_nest_number(n, (msc_dtype)n->instr[a].dtype, 1), a);
  return msc_nest_op(n, NEST_POW, a, b);
}

static uint16_t quotient(msc_nester *n, uint16_t a, uint16_t b) {
  msc_dtype d = (msc_dtype)n->instr[a].dtype;
  if (!msc_is_float(d))
    msc_nest_check(n, MSC_FAULT_DIVISION, msc_nest_compare(n, NEST_NE, b, msc_nest_number(n, d, 0)));
  return msc_nest_op(n, NEST_DIV, a, b);
}

/* The formula of elements x of the values v. */
static uint16_t compute(msc_nester *n, const msc_formula *f, const int *v, const uint16_t *x) {
  static const uint8_t code[SCALAR_COUNT] = {
      [SCALAR_add] = NEST_ADD,   [SCALAR_sub] = NEST_SUB,         [SCALAR_mul] = NEST_MUL,    [SCALAR_max] = NEST_MAX,
      [SCALAR_min] = NEST_MIN,   [SCALAR_neg] = NEST_NEG,         [SCALAR_abs] = NEST_ABS,    [SCALAR_sign] = NEST_SIGN,
      [SCALAR_relu] = NEST_RELU, [SCALAR_exp] = NEST_EXP,         [SCALAR_log] = NEST_LOG,    [SCALAR_sqrt] = NEST_SQRT,
      [SCALAR_tanh] = NEST_TANH, [SCALAR_erf] = NEST_ERF,         [SCALAR_sin] = NEST_SIN,    [SCALAR_cos] = NEST_COS,
      [SCALAR_ceil] = NEST_CEIL, [SCALAR_nearest] = NEST_NEAREST, [SCALAR_floor] = NEST_FLOOR};
  uint16_t r[MSC_FORMULA_OPERANDS + MSC_FORMULA_STEPS], y = 0;
  memcpy(r, x, MSC_FORMULA_OPERANDS * sizeof *r);
  for (int i = 0; i < f->num; i++) {
    const msc_scalar_step *s = &f->step[i];
    uint16_t a = r[s->arg[0]], b = s->num_args > 1 ? r[s->arg[1]] : 0;
    switch (s->code) {
      case SCALAR_number: y = msc_nest_number(n, (msc_dtype)n->instr[x[0]].dtype, s->number); break;
      case SCALAR_select: y = msc_nest_select(n, a, b, r[s->arg[2]]); break;
      case SCALAR_div: y = quotient(n, a, b); break;
      case SCALAR_pow: y = power(n, v[s->arg[1]], a, b); break;
      default: y = msc_nest_op(n, (msc_nest_code)code[s->code], a, b);
    }
    r[MSC_FORMULA_OPERANDS + i] = y;
  }
  return y;
}

static uint16_t elementwise(msc_nester *n, const msc_op *op, int y, const msc_view *view) {
  uint16_t x[3] = {0};
  int v[3] = {0};
  for (int i = 0; i < op->num_in && i < 3; i++) {
    v[i] = msc_nest_find_value(n, op->in[i].value);
    if (op->in[i].value->type->rank > n->value[y].value->type->rank)
      return msc_nest_refuse(n, "%s has no loop form", msc_kind_name(op->kind));
    msc_view at = msc_nest_stretch(n, y, view, v[i]);
    x[i] = msc_nest_eval(n, v[i], &at);
  }
  if (n->failed) return 0;
  const msc_formula *f = msc_formula_of(op);
  if (f) return compute(n, f, v, x);
  switch (op->kind) {
    case OP_compare: return predicate(n, op, x[0], x[1]);
    case OP_cast: return msc_nest_cast(n, x[0], n->value[y].value->type->dtype);
    case OP_broadcast_to: return x[0];
    default: return msc_nest_refuse(n, "%s has no loop form", msc_kind_name(op->kind));
  }
}

/* ---- all ---- */

static uint16_t expand(msc_nester *n, int y, const msc_view *view) {
  const msc_op *op = n->value[y].def;
  const msc_type *t = n->value[y].value->type;
  int in[2] = {0};
  for (int i = 0; i < 2 && i < op->num_in; i++) in[i] = msc_nest_find_value(n, op->in[i].value);
  if (msc_info(op)->flags & MSC_UPDATE) return msc_nest_update(n, op, y, view);
  switch (msc_form_of(op)) {
    case MSC_FORM_RESHAPE: return read_reshape(n, in[0], y, view);
    case MSC_FORM_PRODUCT: return msc_nest_matmul(n, op, y, view);
    case MSC_FORM_WINDOW: return msc_nest_slide_windows(n, op, view);
    case MSC_FORM_REDUCE: return msc_nest_reduce_op(n, op, y, view);
    case MSC_FORM_SCATTER: /* no element of it by itself */
      return msc_nest_refuse(n, "%s is the end of a kernel", msc_kind_name(op->kind));
    default: break;
  }
  switch (op->kind) {
    case OP_constant: return constant(n, op);
    case OP_iota: return msc_nest_iota(n, op, t, view);
    case OP_transpose: return read_transpose(n, op, in[0], view);
    case OP_concat: return read_concat(n, op, view);
    case OP_split: return read_split(n, op, n->value[y].value->index, in[0], view);
    case OP_slice: return read_slice(n, op, in[0], view);
    case OP_pad: return read_pad(n, op, in[0], view);
    case OP_take_along: return msc_nest_take_along(n, op, in[0], in[1], view);
    case OP_gather_nd: return msc_nest_gather_nd(n, op, in[0], in[1], view);
    case OP_dropout: return msc_nest_dropout(n, op, in[0], view);
    case OP_gather: return msc_nest_gather(n, op, in[0], in[1], view);
    case OP_one_hot: return msc_nest_one_hot(n, op, in[0], t, view);
    case OP_softmax: case OP_log_softmax: return msc_nest_softmax(n, op, view);
    case OP_softmax_cross_entropy: return msc_nest_cross_entropy(n, op, view);
    case OP_softmax_cross_entropy_grad: return msc_nest_cross_entropy_grad(n, op, view);
    default: return elementwise(n, op, y, view);
  }
}

uint16_t msc_nest_eval(msc_nester *n, int v, const msc_view *view) {
  if (n->failed) return 0;
  if (!n->value[v].def) return load(n, v, n->value[v].value->type, view);
  for (int i = 0; i < n->num_memo; i++) {
    const msc_memo *m = &n->memo[i];
    if (m->value == v && m->guard == n->inside.guard && !memcmp(&m->view, view, sizeof *view)) return m->instr;
  }
  uint16_t instr = expand(n, v, view);
  if (n->failed) return 0;
  if (n->num_memo == MAX_MEMO) return msc_nest_refuse(n, "more than %d values looked at", MAX_MEMO);
  n->memo[n->num_memo++] = (msc_memo){.value = (uint16_t)v, .guard = n->inside.guard, .instr = instr, .view = *view};
  return instr;
}
