/* expand_rows.c: ops with reductions inside -> instructions. A reduced dimension becomes an axis of its own; values
 * that vary along it and along the result's axes share its loop. */
#include <math.h>
#include <string.h>

#include "passes/7_lower/nest/expand.h"

static msc_dtype dtype_of_instr(const msc_nester *n, uint16_t x) { return (msc_dtype)n->instr[x].dtype; }

/* Sums over a dimension that may be cut, in the order that the op's `blocks` says. */
static uint16_t reduce_in_order(msc_nester *n, const msc_op *op, int kind, uint16_t x, uint16_t over) {
  const msc_attr_value *blocks = kind == MSC_SUM ? msc_op_attr(op, MSC_FACT(blocks)) : NULL;
  n->op_blocks = (uint8_t)(blocks && blocks->i > 0 && blocks->i <= MSC_MAX_SUM_BLOCKS ? blocks->i : 0);
  uint16_t y = msc_nest_reduce(n, kind, x, over);
  n->op_blocks = 0;
  return y;
}

/* Makes dimensions `dims` of the view of v run along axes of their own; returns the mask of these. */
static uint16_t own_axes(msc_nester *n, int v, unsigned dims, msc_view *view) {
  uint16_t over = 0;
  for (int d = 0; d < n->value[v].value->type->rank; d++) {
    if (!(dims >> d & 1)) continue;
    int axis = msc_nest_axis(n, v, d);
    if (axis >= 0) over |= (uint16_t)(1u << axis);
    view->at[d] = msc_nest_coord_of_dim(n, v, d);
  }
  return over;
}

static int64_t count_reduced(const msc_op *op, int64_t local) {
  const msc_attr_value *count = msc_op_attr(op, MSC_FACT(count));
  return count ? count->i : local;
}

/* x / count, where count is a scalar of the launch, so that all batch sizes share a kernel. */
static uint16_t divide_by(msc_nester *n, uint16_t x, int64_t count) {
  return msc_nest_op(n, NEST_DIV, x, msc_nest_scalar(n, dtype_of_instr(n, x), (double)count));
}

uint16_t msc_nest_reduce_op(msc_nester *n, const msc_op *op, int y, const msc_view *view) {
  int x = msc_nest_find_value(n, op->in[0].value);
  const msc_type *t = n->value[x].value->type;
  int64_t dims[MSC_MAX_RANK], local = 1;
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  bool keep = msc_op_bool(op, "keep_dims");
  unsigned gone = 0;
  msc_view at = {0};
  (void)y;
  for (int i = 0; i < num; i++) gone |= 1u << dims[i], local *= t->dim[dims[i]];
  for (int d = 0, from = 0; d < t->rank; d++) {
    if (!(gone >> d & 1)) at.at[d] = view->at[from++];
    else from += keep;
  }
  uint16_t over = own_axes(n, x, gone, &at);
  msc_inside outer = msc_nest_open_reduction(n, over, &at, t->rank, gone);
  uint16_t v = msc_nest_eval(n, x, &at);
  if (n->failed) return 0;
  msc_reduction kind = msc_info(op)->facts.reduction;
  v = reduce_in_order(n, op, kind, v, over);
  msc_nest_close_reduction(n, outer);
  return msc_info(op)->facts.mean ? divide_by(n, v, count_reduced(op, local)) : v;
}

/* The loop over the inner dimension of product y, which is dimension d of operand a; -1: size 1. In z * z that
 * dimension may be in one loop with the result's columns; then the product has a loop of its own. */
static int inner_axis(msc_nester *n, int a, int d, int y, const msc_view *view) {
  int axis = msc_nest_axis(n, a, d);
  for (int i = 0; axis >= 0 && i < n->value[y].value->type->rank; i++)
    if (msc_nest_coord_varies(n, &n->coord[view->at[i]], (uint16_t)(1u << axis)))
      return msc_nest_own_axis(n, y, 0, n->value[a].value->type->dim[d]);
  return axis;
}

uint16_t msc_nest_matmul(msc_nester *n, const msc_op *op, int y, const msc_view *view) {
  int a = msc_nest_find_value(n, op->in[0].value), b = msc_nest_find_value(n, op->in[1].value);
  int ra = n->value[a].value->type->rank, rb = n->value[b].value->type->rank, ry = n->value[y].value->type->rank;
  bool ta = msc_op_bool(op, "transpose_a"), tb = msc_op_bool(op, "transpose_b");
  msc_view at_a = {0}, at_b = {0};
  if (n->value[a].def || n->value[b].def)
    return msc_nest_refuse(n, "operands of a product would be computed again for every row or column");
  for (int i = 3; i <= ry; i++) {
    if (i <= ra && n->value[a].value->type->dim[ra - i] != 1) at_a.at[ra - i] = view->at[ry - i];
    if (i <= rb && n->value[b].value->type->dim[rb - i] != 1) at_b.at[rb - i] = view->at[ry - i];
  }
  at_a.at[ra - 2 + ta] = view->at[ry - 2];
  at_b.at[rb - 1 - tb] = view->at[ry - 1];
  int inner = inner_axis(n, a, ra - 1 - ta, y, view);
  uint16_t over = inner < 0 ? 0 : (uint16_t)(1u << inner);
  at_b.at[rb - 2 + tb] = at_a.at[ra - 1 - ta] = msc_nest_coord_of_axis(n, inner);
  msc_inside outer = msc_nest_open_reduction(n, over, view, ry, 0);
  uint16_t u = msc_nest_eval(n, a, &at_a), v = msc_nest_eval(n, b, &at_b);
  if (n->failed) return 0;
  uint16_t sum = msc_nest_reduce(n, MSC_SUM, msc_nest_op(n, NEST_MUL, u, v), over);
  msc_nest_close_reduction(n, outer);
  return sum;
}

/* ---- softmax and its losses: m = max x, s = sum exp(x - m) ---- */

/* The instructions of a softmax; m, s and shift are named as in the formulas above. */
typedef struct {
  uint16_t x;     /* the element of x at the view */
  uint16_t inner; /* the element of x at each position of the reduced axis */
  uint16_t shift; /* x - m */
  uint16_t m, s, over;
  msc_view along;
  msc_inside inside; /* the reductions over the axis */
} rows;

/* The number of a column of x; in 32 bits, which compare faster, where they suffice. */
static uint16_t column_number(msc_nester *n, uint16_t column, const msc_type *x) {
  uint16_t v = msc_nest_coord_value(n, column);
  return x->dim[x->rank - 1] <= INT32_MAX ? msc_nest_cast(n, v, MSC_I32) : v;
}

/* x as a loss reads it through `view`: minus infinity in columns that are padding. */
static uint16_t read_scores(msc_nester *n, const msc_op *op, int x, const msc_view *view) {
  const msc_type *t = n->value[x].value->type;
  const msc_attr_value *classes = msc_op_attr(op, MSC_FACT(classes));
  uint16_t v = msc_nest_eval(n, x, view);
  if (n->failed || !classes) return v;
  uint16_t column = column_number(n, view->at[t->rank - 1], t);
  uint16_t is_class =
      msc_nest_compare(n, NEST_LT, column, msc_nest_number(n, dtype_of_instr(n, column), (double)classes->i));
  return msc_nest_select(n, is_class, v, msc_nest_number(n, dtype_of_instr(n, v), -(double)INFINITY));
}

static rows reduce_rows(msc_nester *n, const msc_op *op, int x, int axis, const msc_view *view) {
  rows r = {.along = *view};
  r.over = own_axes(n, x, 1u << axis, &r.along);
  msc_inside outer = msc_nest_open_reduction(n, r.over, view, n->value[x].value->type->rank, 1u << axis);
  r.inside = n->inside;
  r.inner = read_scores(n, op, x, &r.along);
  if (n->failed) return r;
  r.m = msc_nest_reduce(n, NEST_LOOSE_MAX, r.inner, r.over);
  r.shift = msc_nest_op(n, NEST_SUB, r.inner, r.m);
  r.s = msc_nest_reduce(n, MSC_SUM, msc_nest_op(n, NEST_EXP, r.shift, 0), r.over);
  msc_nest_close_reduction(n, outer);
  return r;
}

/* Opens a further reduction over the axis; the result is for msc_nest_close_reduction. */
static msc_inside open_again(msc_nester *n, const rows *r) {
  msc_inside outer = n->inside;
  n->inside = r->inside;
  return outer;
}

/* x - max(x); *out_sum: the sum of its exponentials. */
static uint16_t subtract_largest(msc_nester *n, const msc_op *op, const msc_view *view, uint16_t *out_sum) {
  int x = msc_nest_find_value(n, op->in[0].value), axis = (int)msc_op_int(op, "axis");
  if (axis < 0) axis += n->value[x].value->type->rank;
  rows r = reduce_rows(n, op, x, axis, view);
  *out_sum = r.s;
  return n->failed ? 0 : msc_nest_op(n, NEST_SUB, msc_nest_eval(n, x, view), r.m);
}

uint16_t loop_softmax(msc_nester *n, const msc_value *result, const msc_view *view) {
  uint16_t sum, shift = subtract_largest(n, result->def, view, &sum);
  return n->failed ? 0 : msc_nest_op(n, NEST_DIV, msc_nest_op(n, NEST_EXP, shift, 0), sum);
}

uint16_t loop_log_softmax(msc_nester *n, const msc_value *result, const msc_view *view) {
  uint16_t sum, shift = subtract_largest(n, result->def, view, &sum);
  return n->failed ? 0 : msc_nest_op(n, NEST_SUB, shift, msc_nest_op(n, NEST_LOG, sum, 0));
}

/* Loads x[label]; `ok`: the label is in this rank's part. */
static uint16_t read_label(msc_nester *n, int x, const msc_view *view, uint16_t row, uint16_t ok) {
  msc_view at = *view;
  at.at[n->value[x].value->type->rank - 1] = msc_nest_coord_of(n, row);
  return msc_nest_eval_where(n, ok, x, &at);
}

/* Finds x[label] as a sum over the row, which a GPU's threads read in any case: so none of them reads an element that
 * another's result may lie on. */
static uint16_t find_label(msc_nester *n, const rows *r, uint16_t column, uint16_t row) {
  uint16_t is_it = msc_nest_compare(n, NEST_EQ, msc_nest_cast(n, row, dtype_of_instr(n, column)), column);
  msc_inside outer = open_again(n, r);
  uint16_t hit = msc_nest_reduce(
      n, MSC_SUM, msc_nest_select(n, is_it, r->inner, msc_nest_number(n, dtype_of_instr(n, r->inner), 0)), r->over);
  msc_nest_close_reduction(n, outer);
  return hit;
}

/* The class that the row's label names; 0 where the label is ignored. *out_keep: it is not ignored; 0: no label is. */
static uint16_t read_class(msc_nester *n, const msc_op *op, int labels, const msc_view *view, uint16_t *out_keep) {
  uint16_t label = msc_nest_eval(n, labels, view);
  *out_keep = 0;
  if (n->failed || !msc_op_attr(op, "ignore_index")) return label;
  msc_dtype d = dtype_of_instr(n, label);
  uint16_t ignored = msc_nest_number(n, d, (double)msc_op_int(op, "ignore_index"));
  *out_keep = msc_nest_compare(n, NEST_NE, label, ignored);
  return msc_nest_select(n, *out_keep, label, msc_nest_number(n, d, 0));
}

static uint16_t where_kept(msc_nester *n, uint16_t keep, uint16_t v) {
  return keep ? msc_nest_select(n, keep, v, msc_nest_number(n, dtype_of_instr(n, v), 0)) : v;
}

/* The loss of a row.  Class numbers: log s + m - x[label].  Probabilities: sum of label (log s + m - x), as two sums of
 * terms that are not negative. */
static uint16_t compute_loss(msc_nester *n, const msc_op *op, int x, int labels, const msc_view *view) {
  const msc_type *t = n->value[x].value->type;
  rows r = reduce_rows(n, op, x, t->rank - 1, view);
  if (n->failed) return 0;
  uint16_t log_s = msc_nest_op(n, NEST_LOG, r.s, 0);
  if (msc_is_float(n->value[labels].value->type->dtype)) {
    msc_inside outer = open_again(n, &r);
    uint16_t label = msc_nest_eval(n, labels, &r.along);
    uint16_t apart =
        msc_nest_reduce(n, MSC_SUM, msc_nest_op(n, NEST_MUL, label, msc_nest_op(n, NEST_SUB, r.m, r.inner)), r.over);
    uint16_t all = msc_nest_reduce(n, MSC_SUM, label, r.over);
    msc_nest_close_reduction(n, outer);
    return msc_nest_op(n, NEST_ADD, msc_nest_op(n, NEST_MUL, log_s, all), apart);
  }
  uint16_t keep, ok, row = msc_nest_row(n, op, read_class(n, op, labels, view, &keep), t->dim[t->rank - 1], &ok);
  uint16_t hit = n->target->finds_labels ? find_label(n, &r, column_number(n, r.along.at[t->rank - 1], t), row)
                                         : read_label(n, x, view, row, ok);
  return where_kept(n, keep, msc_nest_op(n, NEST_ADD, log_s, msc_nest_op(n, NEST_SUB, r.m, hit)));
}

uint16_t loop_cross_entropy(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), labels = msc_nest_find_value(n, op->in[1].value);
  const msc_type *t = n->value[x].value->type;
  msc_loss_reduction how = msc_op_loss_reduction(op);
  bool each = how == MSC_LOSS_NONE;
  unsigned dims = each ? 0 : (1u << (t->rank - 1)) - 1;
  int64_t count = 1;
  msc_view at = *view;
  uint16_t over = own_axes(n, x, dims, &at);
  at.at[t->rank - 1] = msc_nest_coord_of_dim(n, x, t->rank - 1);
  msc_inside outer = msc_nest_open_reduction(n, over, view, each ? t->rank - 1 : 0, 0);
  uint16_t loss = compute_loss(n, op, x, labels, &at);
  if (n->failed) return 0;
  if (!each) loss = reduce_in_order(n, op, MSC_SUM, loss, over);
  msc_nest_close_reduction(n, outer);
  for (int d = 0; d < t->rank - 1; d++) count *= t->dim[d];
  return how == MSC_LOSS_MEAN ? divide_by(n, loss, count_reduced(op, count)) : loss;
}

/* (softmax(x) sum(labels) - labels) dloss, / rows for mean */
uint16_t loop_cross_entropy_grad(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), labels = msc_nest_find_value(n, op->in[1].value);
  const msc_type *t = n->value[x].value->type;
  msc_loss_reduction how = msc_op_loss_reduction(op);
  msc_view scalar = {0};
  rows r = reduce_rows(n, op, x, t->rank - 1, view);
  uint16_t dloss = msc_nest_eval(n, msc_nest_find_value(n, op->in[2].value), how == MSC_LOSS_NONE ? view : &scalar);
  if (n->failed) return 0;
  uint16_t shift = msc_nest_op(n, NEST_SUB, read_scores(n, op, x, view), r.m), label, keep = 0;
  uint16_t p = msc_nest_op(n, NEST_DIV, msc_nest_op(n, NEST_EXP, shift, 0), r.s);
  if (msc_is_float(n->value[labels].value->type->dtype)) {
    label = msc_nest_eval(n, labels, view);
    msc_inside outer = open_again(n, &r);
    uint16_t all = msc_nest_reduce(n, MSC_SUM, msc_nest_eval(n, labels, &r.along), r.over);
    msc_nest_close_reduction(n, outer);
    p = msc_nest_op(n, NEST_MUL, p, all);
  } else {
    uint16_t ok, row = msc_nest_row(n, op, read_class(n, op, labels, view, &keep), t->dim[t->rank - 1], &ok);
    uint16_t column = column_number(n, view->at[t->rank - 1], t);
    uint16_t hit = msc_nest_compare(n, NEST_EQ, msc_nest_cast(n, row, dtype_of_instr(n, column)), column);
    msc_dtype d = dtype_of_instr(n, p);
    label = msc_nest_select(n, hit, msc_nest_number(n, d, 1), msc_nest_number(n, d, 0));
  }
  int64_t count = 1;
  for (int d = 0; d < t->rank - 1; d++) count *= t->dim[d];
  if (how == MSC_LOSS_MEAN) dloss = divide_by(n, dloss, count_reduced(op, count));
  return where_kept(n, keep, msc_nest_op(n, NEST_MUL, msc_nest_op(n, NEST_SUB, p, label), dloss));
}
