/* instr.c: makes instructions, coordinates, reductions and values of a region, for the files that expand ops. An equal
 * request is answered by the same instruction. Recursion is as deep as the region, at most MSC_NEST_OPS. */
#include <string.h>

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

/* An integer that the launch supplies, as i64. */
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

/* A float that the launch supplies; 0, 1 and -1 are part of the code. */
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

/* Makes the launch report `fault` where `ok` is false. */
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

/* The coordinate c * factor + add. */
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

uint16_t msc_nest_coord_of_axis(msc_nester *n, int axis) {
  msc_coord c = {0};
  if (axis >= 0) c.a.coef[axis] = 1;
  return msc_nest_coord(n, &c);
}

uint16_t msc_nest_coord_of_dim(msc_nester *n, int v, int d) {
  return msc_nest_coord_of_axis(n, msc_nest_axis(n, v, d));
}

msc_view msc_nest_view_of(msc_nester *n, int v) {
  msc_view view = {0};
  for (int d = 0; d < n->value[v].value->type->rank; d++) view.at[d] = msc_nest_coord_of_dim(n, v, d);
  return view;
}

/* The view of operand w of a value that is viewed through `view`: dimensions are aligned from the right, and size 1 is
 * broadcast. */
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

/* ---- reductions ---- */

bool msc_nest_coord_varies(const msc_nester *n, const msc_coord *c, uint16_t axes) {
  return (msc_affine_axes(&c->a) | n->instr[c->instr].axes) & axes;
}

/* The part of a condition that does not vary along these axes; 0: none. */
static uint16_t guard_without(msc_nester *n, uint16_t condition, uint16_t axes) {
  const msc_instr *in = &n->instr[condition];
  if (!(in->axes & axes)) return condition;
  return in->code == NEST_AND ? msc_nest_and(n, guard_without(n, in->arg[0], axes), guard_without(n, in->arg[1], axes))
                              : 0;
}

/* Positions on the reduced axes are different inside the reduction, so no condition that depends on them is kept
 * inside. Accesses that such a condition keeps in range vary along the same axes, so they stay outside too. */
msc_inside msc_nest_open_reduction(msc_nester *n, uint16_t over, const msc_view *view, int rank, unsigned but) {
  msc_inside outer = n->inside;
  for (int d = 0; d < rank; d++)
    if (!(but >> d & 1) && msc_nest_coord_varies(n, &n->coord[view->at[d]], over))
      msc_nest_refuse(n, "a reduced dimension is also one of the result's");
  if (n->failed) return outer;
  n->inside = (msc_inside){.guard = guard_without(n, outer.guard, over), .open = outer.open | over};
  return outer;
}

void msc_nest_close_reduction(msc_nester *n, msc_inside outer) { n->inside = outer; }

/* Reduces x over the axes, except those along which x is constant, which need no loop. */
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

/* ---- values ---- */

uint16_t msc_nest_load(msc_nester *n, int v, const msc_type *t, const msc_view *view) {
  uint16_t extra;
  msc_affine at = msc_nest_offset(n, t, view, &extra);
  return msc_nest_add(n,
                      (msc_instr){.code = NEST_LOAD,
                                  .dtype = (uint8_t)msc_compute_dtype(t->dtype),
                                  .buffer = (uint8_t)n->value[v].buffer,
                                  .arg = {extra, n->inside.guard}},
                      &at, 0);
}

uint16_t msc_nest_eval(msc_nester *n, int v, const msc_view *view) {
  if (n->failed) return 0;
  if (!n->value[v].def) return msc_nest_load(n, v, n->value[v].value->type, view);
  for (int i = 0; i < n->num_memo; i++) {
    const msc_memo *m = &n->memo[i];
    if (m->value == v && m->guard == n->inside.guard && !memcmp(&m->view, view, sizeof *view)) return m->instr;
  }
  uint16_t instr = n->expand(n, v, view);
  if (n->failed) return 0;
  if (n->num_memo == MAX_MEMO) return msc_nest_refuse(n, "more than %d values looked at", MAX_MEMO);
  n->memo[n->num_memo++] = (msc_memo){.value = (uint16_t)v, .guard = n->inside.guard, .instr = instr, .view = *view};
  return instr;
}

/* Evaluates v where `ok` holds. */
uint16_t msc_nest_eval_where(msc_nester *n, uint16_t ok, int v, const msc_view *view) {
  msc_inside outer = n->inside;
  n->inside.guard = msc_nest_and(n, outer.guard, ok);
  uint16_t x = msc_nest_eval(n, v, view);
  n->inside = outer;
  return x;
}
