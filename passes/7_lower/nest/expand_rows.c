/* expand_rows.c: ops with reductions inside, and optimizer steps -> instructions. A reduced dimension becomes an axis
 * of its own; values that vary along it and along the result's axes share its loop. */
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
  return op->kind == OP_reduce_mean ? divide_by(n, v, count_reduced(op, local)) : v;
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
  uint16_t over = own_axes(n, a, 1u << (ra - 1 - ta), &at_a);
  at_b.at[rb - 2 + tb] = at_a.at[ra - 1 - ta];
  msc_inside outer = msc_nest_open_reduction(n, over, view, ry, 0);
  uint16_t u = msc_nest_eval(n, a, &at_a), v = msc_nest_eval(n, b, &at_b);
  if (n->failed) return 0;
  uint16_t sum = msc_nest_reduce(n, MSC_SUM, msc_nest_op(n, NEST_MUL, u, v), over);
  msc_nest_close_reduction(n, outer);
  return sum;
}

/* ---- softmax and its losses: m = max x, s = sum exp(x - m) ---- */

typedef struct {
  uint16_t x;      /* where it is looked at */
  uint16_t inner;  /* along the axis */
  uint16_t shift;  /* x - m */
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

uint16_t loop_softmax(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), axis = (int)msc_op_int(op, "axis");
  if (axis < 0) axis += n->value[x].value->type->rank;
  rows r = reduce_rows(n, op, x, axis, view);
  if (n->failed) return 0;
  uint16_t shift = msc_nest_op(n, NEST_SUB, msc_nest_eval(n, x, view), r.m);
  if (op->kind == OP_log_softmax) return msc_nest_op(n, NEST_SUB, shift, msc_nest_op(n, NEST_LOG, r.s, 0));
  return msc_nest_op(n, NEST_DIV, msc_nest_op(n, NEST_EXP, shift, 0), r.s);
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
  const char *how = msc_op_str(op, "reduction");
  bool each = !strcmp(how, "none");
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
  return strcmp(how, "mean") ? loss : divide_by(n, loss, count_reduced(op, count));
}

/* (softmax(x) sum(labels) - labels) dloss, / rows for mean */
uint16_t loop_cross_entropy_grad(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), labels = msc_nest_find_value(n, op->in[1].value);
  const msc_type *t = n->value[x].value->type;
  const char *how = msc_op_str(op, "reduction");
  msc_view scalar = {0};
  rows r = reduce_rows(n, op, x, t->rank - 1, view);
  uint16_t dloss = msc_nest_eval(n, msc_nest_find_value(n, op->in[2].value), strcmp(how, "none") ? &scalar : view);
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
  if (!strcmp(how, "mean")) dloss = divide_by(n, dloss, count_reduced(op, count));
  return where_kept(n, keep, msc_nest_op(n, NEST_MUL, msc_nest_op(n, NEST_SUB, p, label), dloss));
}

/* ---- optimizers, PyTorch's formulas ---- */

typedef struct {
  msc_nester *n;
  const msc_op *op;
  msc_dtype dtype;
  uint16_t in[7];
  uint16_t bias[2]; /* 1 - beta1^t and 1 - beta2^t, where they are computed outside; else 0 */
} update;

static uint16_t read_rate(const update *u, const char *name) {
  return msc_nest_scalar(u->n, u->dtype, msc_op_float(u->op, name));
}
static uint16_t read_rate_f64(const update *u, const char *name) {
  return msc_nest_scalar(u->n, MSC_F64, msc_op_float(u->op, name));
}
/* The operand rate, where there is one, or the attribute lr, in f64. */
static uint16_t lr_f64(const update *u) {
  int i = msc_operand_called(u->op, "rate");
  return i < 0 ? read_rate_f64(u, "lr") : u->in[i];
}
/* The learning rate in the type of the arithmetic. */
static uint16_t lr_instr(const update *u) {
  int i = msc_operand_called(u->op, "rate");
  return i < 0 ? read_rate(u, "lr") : msc_nest_cast(u->n, u->in[i], u->dtype);
}
static uint16_t one_less(const update *u, const char *name) {
  return msc_nest_scalar(u->n, u->dtype, 1 - msc_op_float(u->op, name));
}
static bool has_attr(const update *u, const char *name) { return msc_op_float(u->op, name) != 0; }
static uint16_t mul_instr(const update *u, uint16_t a, uint16_t b) { return msc_nest_op(u->n, NEST_MUL, a, b); }
static uint16_t add_instr(const update *u, uint16_t a, uint16_t b) { return msc_nest_op(u->n, NEST_ADD, a, b); }
static uint16_t sub_instr(const update *u, uint16_t a, uint16_t b) { return msc_nest_op(u->n, NEST_SUB, a, b); }
static uint16_t div_instr(const update *u, uint16_t a, uint16_t b) { return msc_nest_op(u->n, NEST_DIV, a, b); }
static uint16_t sqrt_instr(const update *u, uint16_t a) { return msc_nest_op(u->n, NEST_SQRT, a, 0); }

/* g + weight_decay w */
static uint16_t add_decay(const update *u, uint16_t g, uint16_t w) {
  return has_attr(u, "weight_decay") ? add_instr(u, g, mul_instr(u, read_rate(u, "weight_decay"), w)) : g;
}

/* b m + (1 - b) x */
static uint16_t average(const update *u, const char *b, uint16_t m, uint16_t x) {
  return add_instr(u, mul_instr(u, read_rate(u, b), m), mul_instr(u, one_less(u, b), x));
}

/* 1 - b^t = 1 - exp(t log b), in f64, since nearly everything cancels at the first steps. If the operand t holds that
 * number already, loads it in the type of the arithmetic. */
static uint16_t correct_bias(const update *u, const char *b) {
  if (u->bias[0]) return u->bias[!strcmp(b, "beta2")];
  uint16_t t = msc_nest_cast(u->n, u->in[4], MSC_F64),
           log_b = msc_nest_scalar(u->n, MSC_F64, log(msc_op_float(u->op, b)));
  return sub_instr(u, msc_nest_number(u->n, MSC_F64, 1), msc_nest_op(u->n, NEST_EXP, mul_instr(u, t, log_b), 0));
}

static uint16_t expand_momentum(const update *u, size_t result) {
  uint16_t w = u->in[0], g = add_decay(u, u->in[2], w), old = mul_instr(u, read_rate(u, "momentum"), u->in[1]);
  uint16_t m = add_instr(u, old, has_attr(u, "dampening") ? mul_instr(u, one_less(u, "dampening"), g) : g);
  if (result == 1) return m;
  if (msc_op_bool(u->op, "nesterov")) m = add_instr(u, g, mul_instr(u, read_rate(u, "momentum"), m));
  return sub_instr(u, w, mul_instr(u, lr_instr(u), m));
}

/* 1 - lr weight_decay */
static uint16_t decay_factor(const update *u) {
  bool narrow = u->bias[0];
  if (msc_operand_called(u->op, "rate") < 0)
    return msc_nest_scalar(u->n, u->dtype, 1 - msc_op_float(u->op, "lr") * msc_op_float(u->op, "weight_decay"));
  uint16_t decay = narrow ? mul_instr(u, lr_instr(u), read_rate(u, "weight_decay"))
                          : mul_instr(u, lr_f64(u), read_rate_f64(u, "weight_decay"));
  return msc_nest_cast(u->n, sub_instr(u, msc_nest_number(u->n, narrow ? u->dtype : MSC_F64, 1), decay), u->dtype);
}

/* adam: weight_decay in the gradient; adamw: w (1 - lr weight_decay) first */
static uint16_t expand_adam(const update *u, size_t result) {
  bool apart = u->op->kind == OP_adamw;
  uint16_t w = u->in[0], g = apart ? u->in[3] : add_decay(u, u->in[3], w);
  uint16_t m = average(u, "beta1", u->in[1], g), v = average(u, "beta2", u->in[2], mul_instr(u, g, g));
  if (result == 1) return m;
  if (result == 2) return v;
  uint16_t lr = u->bias[0] ? lr_instr(u) : lr_f64(u);
  uint16_t step = msc_nest_cast(u->n, div_instr(u, lr, correct_bias(u, "beta1")), u->dtype);
  uint16_t scale = msc_nest_cast(u->n, sqrt_instr(u, correct_bias(u, "beta2")), u->dtype);
  if (apart && has_attr(u, "weight_decay")) w = mul_instr(u, w, decay_factor(u));
  return sub_instr(
      u, w,
      mul_instr(u, step, div_instr(u, m, add_instr(u, div_instr(u, sqrt_instr(u, v), scale), read_rate(u, "eps")))));
}

static uint16_t expand_lamb_moments(const update *u, size_t result) {
  uint16_t g = u->in[3], m = average(u, "beta1", u->in[1], g), v = average(u, "beta2", u->in[2], mul_instr(u, g, g));
  if (result == 1) return m;
  if (result == 2) return v;
  uint16_t bias1 = msc_nest_cast(u->n, correct_bias(u, "beta1"), u->dtype),
           bias2 = msc_nest_cast(u->n, correct_bias(u, "beta2"), u->dtype);
  uint16_t r =
      div_instr(u, div_instr(u, m, bias1), add_instr(u, sqrt_instr(u, div_instr(u, v, bias2)), read_rate(u, "eps")));
  return has_attr(u, "weight_decay") ? add_instr(u, r, mul_instr(u, read_rate(u, "weight_decay"), u->in[0])) : r;
}

static uint16_t expand_adagrad(const update *u, size_t result) {
  uint16_t w = u->in[0], g = add_decay(u, u->in[2], w), v = add_instr(u, u->in[1], mul_instr(u, g, g));
  if (result == 1) return v;
  uint16_t root = add_instr(u, sqrt_instr(u, v), read_rate(u, "eps"));
  return sub_instr(u, w, div_instr(u, mul_instr(u, lr_instr(u), g), root));
}

/* rmsprop, and rmsprop_momentum, whose m is operand 1 */
static uint16_t expand_rmsprop(const update *u, size_t result) {
  size_t at = u->op->kind == OP_rmsprop_momentum ? 2 : 1; /* of v, before the gradient */
  uint16_t w = u->in[0], g = add_decay(u, u->in[at + 1], w), v = average(u, "alpha", u->in[at], mul_instr(u, g, g));
  if (result == at) return v;
  uint16_t step = div_instr(u, g, add_instr(u, sqrt_instr(u, v), read_rate(u, "eps")));
  if (at == 2) step = add_instr(u, mul_instr(u, read_rate(u, "momentum"), u->in[1]), step);
  return result == 1 ? step : sub_instr(u, w, mul_instr(u, lr_instr(u), step));
}

static uint16_t expand_sgd(const update *u, size_t result) {
  (void)result; /* it has one */
  return sub_instr(u, u->in[0], mul_instr(u, lr_instr(u), add_decay(u, u->in[1], u->in[0])));
}

static uint16_t expand_assign(const update *u, size_t result) { return u->in[1 + result]; }

static uint16_t expand_lamb_apply(const update *u, size_t result) {
  (void)result;
  return sub_instr(u, u->in[0], mul_instr(u, mul_instr(u, lr_instr(u), u->in[2]), u->in[1]));
}

/* By op, the instructions that compute an element of a result. */
static uint16_t (*const update_of[OP_COUNT])(const update *u, size_t result) = {
#define UPDATE(op, expand) [OP_##op] = expand,
#include "passes/7_lower/nest/loop.def"
};

/* The operand whose new value is the result; -1: none. */
static int old_value(const msc_op *op, size_t result) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_operands; i++)
    if (info->operand[i].tied == (int)result) return i;
  return -1;
}

uint16_t msc_nest_update(msc_nester *n, const msc_op *op, int y, const msc_view *view) {
  update u = {.n = n, .op = op, .dtype = msc_compute_dtype(n->value[y].value->type->dtype)};
  size_t result = n->value[y].value->index;
  for (int i = 0; i < op->num_in && i < 7; i++) {
    int v = msc_nest_find_value(n, op->in[i].value);
    msc_view at = msc_nest_stretch(n, y, view, v);
    bool pair = i == msc_operand_called(op, "t") && n->value[v].value->type->rank;
    for (int k = 0; pair && k < 2; k++) {
      at.at[0] = msc_nest_coord(n, &(msc_coord){.a = {.c0 = k}});
      u.bias[k] = msc_nest_eval(n, v, &at);
    }
    if (!pair) u.in[i] = msc_nest_eval(n, v, &at);
  }
  if (n->failed) return 0;
  int ok = msc_operand_called(op, "ok"), old = old_value(op, result);
  uint16_t fresh = update_of[op->kind](&u, result);
  return ok >= 0 && old >= 0 ? msc_nest_select(n, u.in[ok], fresh, u.in[old]) : fresh;
}
