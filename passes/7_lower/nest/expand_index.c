/* expand_index.c: the part of nest/expand.c that looks elements up by index, or compares with one. */

#include "passes/7_lower/nest/expand.h"

/* The row of this rank's part that an index names, and whether the index lies in the part; checks it against the
 * whole. */
uint16_t msc_nest_row(msc_nester *n, const msc_op *op, uint16_t index, int64_t rows, uint16_t *out_ok) {
  const msc_attr_value *start = msc_op_attr(op, MSC_FACT(start)), *whole = msc_op_attr(op, MSC_FACT(whole));
  uint16_t row = msc_nest_cast(n, index, MSC_I64);
  if (whole) msc_nest_check(n, MSC_FAULT_INDEX, msc_nest_compare(n, NEST_BELOW, row, msc_nest_dim(n, whole->i)));
  if (start) row = msc_nest_op(n, NEST_SUB, row, msc_nest_start(n, start->i));
  const msc_attr_value *part = msc_op_attr(op, MSC_FACT(part));
  uint16_t limit = part ? msc_nest_op(n, NEST_SUB, msc_nest_number(n, MSC_I64, 0), msc_nest_start(n, part->i))
                        : msc_nest_dim(n, rows);
  *out_ok = msc_nest_compare(n, NEST_BELOW, row, limit);
  if (!whole) msc_nest_check(n, MSC_FAULT_INDEX, *out_ok);
  return row;
}

/* Evaluates x at the view, which is valid where `ok` holds; zeros elsewhere. */
static uint16_t read_or_zero(msc_nester *n, uint16_t ok, int x, const msc_view *at) {
  uint16_t v = msc_nest_eval_where(n, ok, x, at);
  if (!n->value[x].def) return v; /* loads give 0 elsewhere */
  return msc_nest_select(n, ok, v, msc_nest_number(n, (msc_dtype)n->instr[v].dtype, 0));
}

uint16_t loop_gather(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int table = msc_nest_find_value(n, op->in[0].value), indices = msc_nest_find_value(n, op->in[1].value);
  int axis = (int)msc_op_int(op, "axis"), r = n->value[indices].value->type->rank;
  const msc_type *t = n->value[table].value->type;
  msc_view at_index = {0}, at = {0};
  uint16_t ok;
  for (int d = 0; d < r; d++) at_index.at[d] = view->at[axis + d];
  uint16_t row = msc_nest_row(n, op, msc_nest_eval(n, indices, &at_index), t->dim[axis], &ok);
  for (int d = 0; d < t->rank; d++)
    at.at[d] = d == axis ? msc_nest_coord_of(n, row) : view->at[d < axis ? d : d - 1 + r];
  return read_or_zero(n, ok, table, &at);
}

uint16_t loop_take_along(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), indices = msc_nest_find_value(n, op->in[1].value);
  const msc_type *t = n->value[x].value->type;
  int64_t axis = msc_op_int(op, "axis");
  msc_view at = *view;
  uint16_t ok;
  if (axis < 0) axis += t->rank;
  uint16_t row = msc_nest_row(n, op, msc_nest_eval(n, indices, view), t->dim[axis], &ok);
  at.at[axis] = msc_nest_coord_of(n, row);
  return read_or_zero(n, ok, x, &at);
}

/* Index number k of those that indices [*, m] hold at the view's first coordinates; only the first one is cut between
 * ranks. */
static uint16_t find_named_row(msc_nester *n, const msc_op *op, int indices, const msc_view *view, int k, int64_t size,
                               uint16_t *out_ok) {
  int lead = n->value[indices].value->type->rank - 1;
  msc_view at = {0};
  for (int d = 0; d < lead; d++) at.at[d] = view->at[d];
  at.at[lead] = msc_nest_coord(n, &(msc_coord){.a = {.c0 = k}});
  uint16_t index = msc_nest_eval(n, indices, &at);
  if (k == 0) return msc_nest_row(n, op, index, size, out_ok);
  uint16_t row = msc_nest_cast(n, index, MSC_I64);
  *out_ok = msc_nest_compare(n, NEST_BELOW, row, msc_nest_dim(n, size));
  msc_nest_check(n, MSC_FAULT_INDEX, *out_ok);
  return row;
}

uint16_t msc_nest_named_offset(msc_nester *n, const msc_op *op, int indices, const msc_view *view, const msc_type *t,
                               uint16_t *out_ok) {
  const msc_type *i = n->value[indices].value->type;
  int depth = (int)i->dim[i->rank - 1];
  uint16_t sum = 0, ok;
  *out_ok = 0;
  for (int k = 0; k < depth && !n->failed; k++) {
    uint16_t row = find_named_row(n, op, indices, view, k, t->dim[k], &ok);
    sum = sum ? msc_nest_op(n, NEST_ADD, msc_nest_op(n, NEST_MUL, sum, msc_nest_dim(n, t->dim[k])), row) : row;
    *out_ok = msc_nest_and(n, *out_ok, ok);
  }
  return sum;
}

uint16_t loop_gather_nd(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), indices = msc_nest_find_value(n, op->in[1].value);
  const msc_type *t = n->value[x].value->type, *i = n->value[indices].value->type;
  int lead = i->rank - 1, depth = (int)i->dim[lead];
  msc_view at = {0};
  uint16_t all = 0, ok;
  for (int d = 0; d < t->rank && !n->failed; d++) {
    at.at[d] = d < depth ? msc_nest_coord_of(n, find_named_row(n, op, indices, view, d, t->dim[d], &ok))
                         : view->at[lead + d - depth];
    if (d < depth) all = msc_nest_and(n, all, ok);
  }
  return read_or_zero(n, all, x, &at);
}

uint16_t loop_one_hot(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  const msc_type *t = result->type;
  const msc_attr_value *start = msc_op_attr(op, MSC_FACT(start));
  uint16_t row = msc_nest_cast(n, msc_nest_eval(n, msc_nest_find_value(n, op->in[0].value), view), MSC_I64);
  if (start) row = msc_nest_op(n, NEST_SUB, row, msc_nest_start(n, start->i));
  uint16_t hit = msc_nest_compare(n, NEST_EQ, row, msc_nest_coord_value(n, view->at[t->rank - 1]));
  msc_dtype number = msc_is_float(t->dtype) ? t->dtype : MSC_F64;
  uint16_t on = msc_nest_scalar(n, number, msc_op_float(op, "on")),
           off = msc_nest_scalar(n, number, msc_op_float(op, "off"));
  return msc_nest_select(n, hit, msc_nest_cast(n, on, t->dtype), msc_nest_cast(n, off, t->dtype));
}

uint16_t loop_iota(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  const msc_type *t = result->type;
  const msc_attr_value *start = msc_op_attr(op, MSC_FACT(start));
  uint16_t v = msc_nest_coord_value(n, view->at[msc_op_int(op, "dim")]);
  if (start) v = msc_nest_op(n, NEST_ADD, v, msc_nest_start(n, start->i));
  return msc_nest_cast(n, v, t->dtype);
}
