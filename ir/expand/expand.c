/* expand.c: a composite op in; its expansion, as a function or in its place, out.  Also the expansions of softmax,
 * losses and argmax. */
#include <string.h>

#include "ir/fact.h"
#include "ir/formula.h"
#include "ir/op_table.h"

static bool check_expansion(const msc_op *op, msc_value *const *result) {
  for (size_t i = 0; i < op->num_out; i++) {
    const msc_type *want = msc_type_with_layout(msc_op_ctx(op), op->out[i].type, NULL);
    if (result[i] && result[i]->type == want) continue;
    msc_op_error(op, MSC_E_INTERNAL, "%s: the expansion computes another result %zu than the op",
                 msc_kind_name(op->kind), i);
    return false;
  }
  return true;
}

void msc_drop_unused(msc_func *f) {
  for (msc_op *op = f->body->last, *prev; op; op = prev) {
    prev = op->prev;
    if (msc_is_unused(op)) msc_op_erase(op);
  }
}

msc_func *msc_expansion_of(const msc_op *op) {
  msc_context *ctx = msc_op_ctx(op);
  msc_arena *arena = msc_context_arena(ctx);
  msc_func *f = msc_func_new(op->block->func->module, msc_kind_name(op->kind));
  msc_func_remove(f);
  f->loc = op->loc;
  for (size_t i = 0; i < op->num_in; i++)
    msc_add_arg(f->body, msc_type_with_layout(ctx, op->in[i].value->type, NULL), NULL);
  msc_value **result = msc_new_array(arena, msc_value *, op->num_out + 1);
  msc_builder b = {.func = f, .block = f->body, .loc = op->loc, .name = op->name};
  if (!msc_info(op)->expand(&b, op, f->body->args, result) || !check_expansion(op, result)) return NULL;
  msc_append_return(f, op->num_out, result, op->loc);
  msc_drop_unused(f);
  return f;
}

/* Copies the marks of an op, which the user gave it, to a part of its expansion. */
void msc_copy_marks(const msc_op *op, msc_op *part) { msc_op_copy_sort(part, op, MSC_SORT_EXPANSION); }

void msc_expand_in_place(msc_op *op, msc_func *f) {
  msc_op *ret = f->body->last;
  for (size_t i = 0; i < op->num_in; i++) msc_replace_uses(f->body->args[i], op->in[i].value);
  for (size_t i = 0; i < op->num_out; i++) msc_replace_uses(&op->out[i], ret->in[i].value);
  msc_op_erase(ret);
  msc_drop_unused(f);
  while (f->body->first) {
    msc_op *o = f->body->first;
    msc_op_unlink(o);
    o->id = op->id;
    msc_copy_marks(op, o);
    msc_insert_before(op, o);
  }
  msc_op_erase(op);
}

/* True if the layout cuts a letter of the tensor that may be cut only in the expansion. */
static bool cuts_expanding_letter(const msc_rule *rule, size_t tensor, const msc_layout *l) {
  for (int d = 0; l && d < rule->tensor[tensor].rank; d++)
    for (int i = 0; i < rule->tensor[tensor].dim[d].num && l->first[d + 1] > l->first[d]; i++)
      if (rule->letter[rule->tensor[tensor].dim[d].letter[i]].expands) return true;
  return false;
}

/* True if the loss has no kernel and is always expanded into simpler losses: with label smoothing, or as a mean over
 * the rows that are not ignored. */
static bool is_composed_loss(const msc_op *op) {
  return op->kind == OP_softmax_cross_entropy && (msc_counts_kept_rows(op) || msc_op_float(op, "label_smoothing") != 0);
}

bool msc_has_no_kernel(const msc_op *op) {
  return msc_info(op)->expand && (msc_info(op)->flags & MSC_COMPOSITE || is_composed_loss(op));
}

bool msc_must_expand(const msc_op *op, const msc_layout *const *in_layout) {
  if (!msc_info(op)->expand || msc_has_no_kernel(op)) return msc_info(op)->expand != NULL;
  bool cut = false;
  for (size_t i = 0; i < op->num_in; i++) cut |= (in_layout ? in_layout[i] : op->in[i].value->type->layout) != NULL;
  if (!cut) return false;
  msc_arena *arena = msc_arena_new(msc_op_ctx(op));
  msc_rule rule;
  cut = false;
  if (msc_rule_of(op, arena, &rule))
    for (size_t i = 0; i < op->num_in && !cut; i++)
      cut = cuts_expanding_letter(&rule, i, in_layout ? in_layout[i] : op->in[i].value->type->layout);
  msc_arena_free(arena);
  return cut;
}

/* ---- softmax ---- */

/* x minus its maximum along dimension c: the argument of exp. */
static msc_value *subtract_max(msc_builder *b, msc_value *x, int64_t c) {
  return minus(b, x, reduce_along(b, MSC_MAX, x, c));
}

static msc_value *sum_along(msc_builder *b, msc_value *x, int64_t c) { return reduce_along(b, MSC_SUM, x, c); }

bool expand_softmax(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_dtype dtype = in[0]->type->dtype;
  int c = axis_of(op, "axis", in[0]->type->rank);
  msc_value *shift = subtract_max(b, cast(b, in[0], widen_dtype(dtype)), c), *e = msc_compute(b, "exp(a)", shift),
            *sum = sum_along(b, e, c);
  out_result[0] =
      cast(b, op->kind == OP_log_softmax ? msc_compute(b, "a - log(b)", shift, sum) : over(b, e, sum), dtype);
  return out_result[0] != NULL;
}

/* ---- softmax cross entropy; logits [*,c], labels [*] or [*,c] ---- */

/* Builds truth values, true for rows whose label is not ignored; NULL: no row is ignored. */
static msc_value *kept_rows(msc_builder *b, const msc_op *op, msc_value *labels) {
  if (!msc_op_attr(op, "ignore_index")) return NULL;
  return compare(b, MSC_NE, labels, number(b, labels, (double)msc_op_int(op, "ignore_index")));
}

/* Builds x with 0 in ignored rows; keep NULL: none is ignored. */
static msc_value *zero_ignored(msc_builder *b, msc_value *keep, msc_value *x) {
  return keep && x ? choose(b, keep, x, number(b, x, 0)) : x;
}

/* Reduces the losses of all rows as the op's attribute says. */
static msc_value *reduce_kept_rows(msc_builder *b, const msc_op *op, msc_value *keep, msc_value *rows) {
  if (!msc_counts_kept_rows(op) || !rows) return reduce_loss(b, msc_op_loss_reduction(op), rows);
  msc_value *num = sum_to_scalar(b, cast(b, keep, MSC_I32)), *sum = sum_to_scalar(b, rows);
  return over(b, sum, cast(b, num, rows->type->dtype));
}

/* Builds the labels, checked: a lookup into zeros reports at run time a label that names no class. */
static msc_value *check_labels(msc_builder *b, msc_value *labels, int64_t num_classes) {
  msc_value *zeros = broadcast(b, msc_build_scalar(b, labels->type->dtype, 0), 1, &num_classes);
  return msc_compute(b, "a + gather(b, a)", labels, zeros);
}

/* Builds [*,c], true where the class is the row's label. Ignored rows have label 0. */
static msc_value *compare_with_classes(msc_builder *b, msc_value *keep, msc_value *labels, const msc_type *logits) {
  int64_t dim[MSC_MAX_RANK], n = logits->dim[logits->rank - 1];
  memcpy(dim, logits->dim, sizeof dim);
  dim[logits->rank - 1] = 1;
  labels = check_labels(b, zero_ignored(b, keep, labels), n);
  if (!labels) return NULL;
  msc_value *classes = count_up(b, labels->type->dtype, n);
  return compare(b, MSC_EQ, reshape(b, labels, logits->rank, dim), classes);
}

/* Builds x without its last dimension, which has size 1. */
static msc_value *without_last(msc_builder *b, msc_value *x) {
  return x ? reshape(b, x, x->type->rank - 1, x->type->dim) : NULL;
}

/* Builds x with a dimension of size 1 behind its last one. */
static msc_value *with_last(msc_builder *b, msc_value *x) {
  int64_t dim[MSC_MAX_RANK];
  for (int d = 0; d < x->type->rank; d++) dim[d] = x->type->dim[d];
  dim[x->type->rank] = 1;
  return reshape(b, x, x->type->rank + 1, dim);
}

/* Builds the loss without label smoothing. */
static msc_value *plain_loss(msc_builder *b, const msc_op *op, msc_value *logits, msc_value *labels,
                             msc_loss_reduction reduction) {
  msc_context *ctx = formula_ctx(b);
  msc_attr attrs[2] = {msc_loss_reduction_attr(ctx, reduction)};
  size_t num = 1;
  if (msc_op_attr(op, "ignore_index")) attrs[num++] = msc_named(ctx, "ignore_index", *msc_op_attr(op, "ignore_index"));
  return with_attrs(b, OP_softmax_cross_entropy, 2, (msc_value *[]){logits, labels}, num, attrs);
}

/* With label_smoothing s the loss of a row is 1 - s of the plain one and s of the mean of -log_softmax(logits). */
static msc_value *smooth_loss(msc_builder *b, const msc_op *op, msc_value *logits, msc_value *labels, msc_value *keep) {
  double s = msc_op_float(op, "label_smoothing");
  int64_t c = logits->type->rank - 1;
  msc_value *rows = scale_by(b, plain_loss(b, op, logits, labels, MSC_LOSS_NONE), 1 - s),
            *all = scale_by(b, mean_over(b, msc_compute(b, "log_softmax(a)", logits), 1, &c, false), s);
  return reduce_kept_rows(b, op, keep, minus(b, rows, zero_ignored(b, keep, all)));
}

/* Builds a loss without a kernel: a smoothed loss, or a mean over the rows that are not ignored. The latter is the sum
 * over these rows, for which there are kernels, divided by their number. */
static msc_value *compose_loss(msc_builder *b, const msc_op *op, msc_value *logits, msc_value *labels) {
  msc_value *keep = kept_rows(b, op, labels);
  logits = cast(b, logits, widen_dtype(logits->type->dtype));
  if (logits && msc_is_float(labels->type->dtype)) labels = cast(b, labels, logits->type->dtype);
  if (!logits || msc_op_float(op, "label_smoothing") != 0)
    return logits ? smooth_loss(b, op, logits, labels, keep) : NULL;
  return reduce_kept_rows(b, op, keep, plain_loss(b, op, logits, labels, MSC_LOSS_SUM));
}

bool expand_cross_entropy(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int64_t c = in[0]->type->rank - 1;
  if (is_composed_loss(op))
    return give_result(cast(b, compose_loss(b, op, in[0], in[1]), in[0]->type->dtype), out_result);
  msc_value *keep = kept_rows(b, op, in[1]),
            *shift = subtract_max(b, cast(b, in[0], widen_dtype(in[0]->type->dtype)), c), *loss;
  msc_value *log_sum = msc_compute(b, "log(a)", sum_along(b, msc_compute(b, "exp(a)", shift), c));
  if (msc_is_float(in[1]->type->dtype)) { /* log_sum * sum(labels) - sum(labels * shift) */
    msc_value *labels = cast(b, in[1], widen_dtype(in[1]->type->dtype));
    msc_value *labelled = sum_along(b, times(b, labels, shift), c);
    loss = minus(b, times(b, log_sum, sum_along(b, labels, c)), labelled);
  } else {
    msc_value *zero = number(b, shift, 0),
              *picked = choose(b, compare_with_classes(b, keep, in[1], in[0]->type), shift, zero);
    loss = minus(b, log_sum, sum_along(b, picked, c));
  }
  loss = zero_ignored(b, keep, without_last(b, loss));
  /* The loss is rounded before it is reduced, so that a sum over cut rows is the last op: by the rule it may stay
   * partial. */
  return give_result(reduce_loss(b, msc_op_loss_reduction(op), cast(b, loss, in[0]->type->dtype)), out_result);
}

/* Builds the gradient of each row's loss: [] if all rows have the same, else [*,1]. */
static msc_value *row_gradient(msc_builder *b, const msc_op *op, msc_value *dloss, const msc_type *logits) {
  int64_t dim[MSC_MAX_RANK], rows = 1;
  for (int d = 0; d < logits->rank; d++) dim[d] = d < logits->rank - 1 ? logits->dim[d] : 1, rows *= dim[d];
  switch (msc_op_loss_reduction(op)) {
    case MSC_LOSS_MEAN: return over(b, dloss, number(b, dloss, (double)rows));
    case MSC_LOSS_NONE: return reshape(b, dloss, logits->rank, dim);
    default: return dloss;
  }
}

bool expand_cross_entropy_grad(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_dtype dtype = in[0]->type->dtype;
  msc_value *dloss = cast(b, in[2], widen_dtype(dtype)), *keep = kept_rows(b, op, in[1]), *label;
  int64_t c = in[0]->type->rank - 1;
  msc_value *e = msc_compute(b, "exp(a)", subtract_max(b, cast(b, in[0], widen_dtype(dtype)), c)),
            *p = over(b, e, sum_along(b, e, c));
  if (msc_is_float(in[1]->type->dtype)) {
    label = cast(b, in[1], widen_dtype(dtype));
    p = times(b, p, sum_along(b, label, c));
  } else {
    label = cast(b, compare_with_classes(b, keep, in[1], in[0]->type), widen_dtype(dtype));
  }
  msc_value *of_row = row_gradient(b, op, dloss, in[0]->type), *slope = times(b, minus(b, p, label), of_row);
  slope = zero_ignored(b, keep ? with_last(b, keep) : NULL, slope);
  return give_result(cast(b, slope, dtype), out_result);
}

/* The loss of a row is -log_probabilities[label]. */
bool expand_nll_loss(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = cast(b, in[0], widen_dtype(in[0]->type->dtype)), *keep = kept_rows(b, op, in[1]);
  msc_value *zero = number(b, x, 0),
            *picked = x ? choose(b, compare_with_classes(b, keep, in[1], in[0]->type), x, zero) : NULL;
  msc_value *loss = msc_compute(b, "-a", sum_along(b, picked, in[0]->type->rank - 1));
  loss = zero_ignored(b, keep, without_last(b, loss));
  return give_result(cast(b, reduce_kept_rows(b, op, keep, loss), in[0]->type->dtype), out_result);
}

/* ---- argmax, argmin ---- */

/* The result is the least position of an element that equals the extremum; a NaN, if there is one, is the extremum. */
bool expand_argmax(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  const msc_type *x = in[0]->type;
  int axis = axis_of(op, "axis", x->rank);
  int64_t dim[MSC_MAX_RANK] = {x->dim[axis], 1, 1, 1, 1, 1, 1, 1}, gone = axis;
  msc_value *most = reduce_along(b, op->kind == OP_argmax ? MSC_MAX : MSC_MIN, in[0], axis);
  msc_value *hit = most ? compare(b, MSC_EQ, in[0], most) : NULL,
            *place = count_up(b, op->out[0].type->dtype, x->dim[axis]);
  if (!hit || !place) return false;
  if (msc_is_float(x->dtype)) hit = msc_compute(b, "max(a, b)", hit, compare(b, MSC_NE, in[0], in[0]));
  place = reshape(b, place, x->rank - axis, dim);
  msc_value *found = hit && place ? choose(b, hit, place, number(b, place, (double)x->dim[axis])) : NULL;
  return give_result(reduce_by(b, MSC_MIN, found, 1, &gone, msc_op_bool(op, "keep_dims")), out_result);
}

/* ---- losses of elements ---- */

static bool give_loss(msc_builder *b, const msc_op *op, msc_value *loss, msc_value **out_result) {
  return give_result(reduce_loss(b, msc_op_loss_reduction(op), loss), out_result);
}

bool expand_absolute_error(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return give_loss(b, op, msc_compute(b, "abs(a - b)", in[0], in[1]), out_result);
}

bool expand_squared_error(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *error = minus(b, in[0], in[1]);
  return give_loss(b, op, times(b, error, error), out_result);
}

/* -z log(sigmoid(x)) - (1 - z) log(1 - sigmoid(x)) = softplus(x) - x z, with the large terms subtracted first. */
bool expand_sigmoid_cross_entropy(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *loss = msc_compute(b, "(max(a, 0) - a * b) + log1p(exp(-abs(a)))", in[0], in[1]);
  return give_loss(b, op, loss, out_result);
}
