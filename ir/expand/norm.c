/* norm.c: a norm in; its expansion, or the gradients of its operands, out.  Statistics of f16 and bf16 are computed in
 * f32.  The mean is subtracted before the variance is computed, which then loses no digits to a large mean.
 *
 * Of z = (x - mean) r, where r = 1 / sqrt(variance + eps), and a gradient g of z, the gradient of x is
 * r (g - mean(g) - z mean(g z)).  One pass over x and g gives both means; the gradient of the expansion would take
 * three passes that wait for each other. */
#include "ir/formula.h"
#include "ir/op_table.h"

/* How a norm sees its operands. */
typedef struct {
  int rank, num_over, at_rank;
  int64_t dim[MSC_MAX_RANK];  /* the shape of x */
  int64_t over[MSC_MAX_RANK]; /* dimensions that statistics are taken over */
  int64_t at[MSC_MAX_RANK];   /* the shape in which gamma and beta broadcast to x */
  bool centred;               /* the mean is subtracted */
} norm_view;

/* The values that a norm computes from x, which is cast to the type of statistics. */
typedef struct {
  msc_value *x, *mean, *variance, *r, *z;
} normalized;

static void take_over(norm_view *v, int from) {
  for (int d = from; d < v->rank; d++) v->over[v->num_over++] = d;
}

static bool view_rows(const msc_op *op, norm_view *out) {
  const msc_type *t = op->in[0].value->type;
  int axis = axis_of(op, "axis", t->rank);
  *out = (norm_view){.rank = t->rank, .at_rank = t->rank - axis, .centred = op->kind == OP_layer_norm};
  for (int d = 0; d < t->rank; d++) out->dim[d] = t->dim[d];
  for (int d = axis; d < t->rank; d++) out->at[d - axis] = t->dim[d];
  take_over(out, axis);
  return true;
}

/* [n,c,..] as [n,g,c/g,..]: each group of channels of a sample has statistics of its own. */
static bool view_groups(const msc_op *op, norm_view *out) {
  const msc_type *t = op->in[0].value->type;
  int64_t groups = msc_op_int(op, "groups");
  if (t->rank == MSC_MAX_RANK)
    return msc_op_error(op, MSC_E_UNSUPPORTED, "group_norm: rank %d is not supported, %d at most", t->rank,
                        MSC_MAX_RANK - 1);
  *out = (norm_view){.rank = t->rank + 1, .at_rank = t->rank, .centred = true};
  for (int d = 0; d < out->rank; d++)
    out->dim[d] = d == 1 ? groups : d == 2 ? t->dim[1] / groups : t->dim[d < 1 ? d : d - 1];
  for (int d = 1; d < out->rank; d++) out->at[d - 1] = d < 3 ? out->dim[d] : 1;
  take_over(out, 2);
  return true;
}

static bool view_channels(const msc_op *op, norm_view *out) {
  const msc_type *t = op->in[0].value->type;
  int axis = axis_of(op, "axis", t->rank);
  *out = (norm_view){.rank = t->rank, .at_rank = t->rank, .centred = true};
  for (int d = 0; d < t->rank; d++) {
    out->dim[d] = t->dim[d], out->at[d] = d == axis ? t->dim[d] : 1;
    if (d != axis) out->over[out->num_over++] = d;
  }
  return true;
}

/* Builds operand x as the norm sees it, in the type of statistics. */
static msc_value *seen(msc_builder *b, const norm_view *v, msc_value *x) {
  return reshape(b, cast(b, x, widen_dtype(x->type->dtype)), v->rank, v->dim);
}

static normalized subtract_mean(msc_builder *b, const norm_view *v, msc_value *x) {
  normalized n = {.x = x};
  if (v->centred) n.mean = mean_over(b, x, v->num_over, v->over, true), n.x = minus(b, x, n.mean);
  n.variance = mean_over(b, times(b, n.x, n.x), v->num_over, v->over, true);
  return n;
}

static void divide_by_deviation(msc_builder *b, const msc_op *op, normalized *n) {
  n->r = msc_compute(b, "rsqrt(a + b)", n->variance, number(b, n->variance, msc_op_float(op, "eps")));
  n->z = times(b, n->x, n->r);
}

static msc_value *parameter(msc_builder *b, const norm_view *v, msc_value *p, const msc_value *like) {
  return like ? reshape(b, cast(b, p, like->type->dtype), v->at_rank, v->at) : NULL;
}

/* z gamma + beta, where gamma is operand 1 and beta operand 2, if num operands include them; of x's shape and type. */
static bool give_norm(msc_builder *b, const norm_view *v, size_t num, msc_value *const *in, msc_value *z,
                      msc_value **out_result) {
  const msc_type *t = in[0]->type;
  if (num > 1) z = times(b, z, parameter(b, v, in[1], z));
  if (num > 2) z = plus(b, z, parameter(b, v, in[2], z));
  return give_result(cast(b, reshape(b, z, t->rank, t->dim), t->dtype), out_result);
}

static bool expand_by_own_statistics(msc_builder *b, const msc_op *op, const norm_view *v, msc_value *const *in,
                                     msc_value **out_result) {
  normalized n = subtract_mean(b, v, seen(b, v, in[0]));
  divide_by_deviation(b, op, &n);
  return give_norm(b, v, op->num_in, in, n.z, out_result);
}

bool expand_layer_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  norm_view v;
  return view_rows(op, &v) && expand_by_own_statistics(b, op, &v, in, out_result);
}

bool expand_rms_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return expand_layer_norm(b, op, in, out_result);
}

bool expand_group_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  norm_view v;
  return view_groups(op, &v) && expand_by_own_statistics(b, op, &v, in, out_result);
}

/* x / sqrt(max(sum x^2, eps)) over the dimensions from axis on */
bool expand_l2_normalize(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  norm_view v;
  msc_dtype dtype = in[0]->type->dtype;
  MSC_TRY(view_rows(op, &v));
  msc_value *x = seen(b, &v, in[0]), *sum = sum_over(b, times(b, x, x), v.num_over, v.over, true);
  sum = msc_compute(b, "max(a, b)", sum, number(b, sum, msc_op_float(op, "eps")));
  return give_result(cast(b, msc_compute(b, "a * rsqrt(b)", x, sum), dtype), out_result);
}

/* ---- batch norm ---- */

/* Builds the running value, (1 - momentum) old + momentum new, in the type of old. */
static msc_value *update_running(msc_builder *b, const msc_op *op, msc_value *old, msc_value *new_value) {
  double momentum = msc_op_float(op, "momentum");
  if (!new_value) return NULL;
  new_value = cast(b, reshape(b, new_value, 1, old->type->dim), old->type->dtype);
  msc_value *fresh = times(b, new_value, number(b, old, momentum));
  return plus(b, times(b, old, number(b, old, 1 - momentum)), fresh);
}

/* Returns the number of elements over which one mean is taken. */
static double count_of(const norm_view *v) {
  double count = 1;
  for (int i = 0; i < v->num_over; i++) count *= (double)v->dim[v->over[i]];
  return count;
}

/* In training: normalizes by statistics of this batch, and updates the running ones (the variance unbiased, as
 * PyTorch's). In evaluation: normalizes by the running ones. */
bool expand_batch_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  norm_view v;
  normalized n;
  MSC_TRY(view_channels(op, &v));
  msc_value *x = seen(b, &v, in[0]);
  if (msc_op_bool(op, "training")) {
    double count = count_of(&v);
    n = subtract_mean(b, &v, x);
    out_result[1] = update_running(b, op, in[3], n.mean);
    out_result[2] = update_running(b, op, in[4], scale_by(b, n.variance, count > 1 ? count / (count - 1) : 1));
  } else {
    n = (normalized){.x = minus(b, x, parameter(b, &v, in[3], x)), .variance = parameter(b, &v, in[4], x)};
    out_result[1] = in[3], out_result[2] = in[4];
  }
  divide_by_deviation(b, op, &n);
  return give_norm(b, &v, 3, in, n.z, out_result);
}

/* ---- gradients ---- */

/* Sets the gradient of operand i, a parameter, to sum, of the shape in which it broadcasts to x. */
static void give_parameter(msc_builder *b, const msc_op *op, size_t i, msc_value *sum, msc_value **out_gradient) {
  const msc_type *t = op->in[i].value->type;
  out_gradient[i] = cast(b, reshape(b, sum, t->rank, t->dim), t->dtype);
}

static bool give_gradient_of_x(msc_builder *b, const msc_op *op, msc_value *dx, msc_value **out_gradient) {
  const msc_type *t = op->in[0].value->type;
  out_gradient[0] = cast(b, reshape(b, dx, t->rank, t->dim), t->dtype);
  return out_gradient[0] != NULL;
}

/* Builds the gradients of a norm whose gamma varies along the dimensions that means are taken over: the gradients of
 * its parameters are sums across the other dimensions. */
static bool go_back(msc_builder *b, const msc_op *op, const norm_view *v, msc_value *const *in, msc_value *dy,
                    msc_value **out_gradient) {
  normalized n = subtract_mean(b, v, seen(b, v, in[0]));
  divide_by_deviation(b, op, &n);
  msc_value *g = seen(b, v, dy), *of_gamma = times(b, g, n.z);
  if (op->num_in > 1) give_parameter(b, op, 1, sum_to(b, of_gamma, v->at_rank, v->at), out_gradient);
  if (op->num_in > 2) give_parameter(b, op, 2, sum_to(b, g, v->at_rank, v->at), out_gradient);
  if (op->num_in > 1) g = times(b, g, parameter(b, v, in[1], g));
  msc_value *slope = mean_over(b, times(b, g, n.z), v->num_over, v->over, true),
            *centred = v->centred ? minus(b, g, mean_over(b, g, v->num_over, v->over, true)) : g;
  msc_value *dx = times(b, n.r, msc_compute(b, "a - b * c", centred, n.z, slope));
  return give_gradient_of_x(b, op, dx, out_gradient);
}

bool backward_layer_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value *dy,
                         msc_value **out_gradient) {
  norm_view v;
  return view_rows(op, &v) && go_back(b, op, &v, in, dy, out_gradient);
}

bool backward_group_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value *dy,
                         msc_value **out_gradient) {
  norm_view v;
  return view_groups(op, &v) && go_back(b, op, &v, in, dy, out_gradient);
}

/* The gradients of gamma and beta are the sums from which the gradient of x takes its means. With fixed statistics
 * there are no such means: then the gradient is that of the expansion. */
bool backward_batch_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value *dy,
                         msc_value **out_gradient) {
  norm_view v;
  if (!msc_op_bool(op, "training")) return true;
  MSC_TRY(view_channels(op, &v));
  normalized n = subtract_mean(b, &v, seen(b, &v, in[0]));
  divide_by_deviation(b, op, &n);
  msc_value *g = seen(b, &v, dy), *of_gamma = sum_over(b, times(b, g, n.z), v.num_over, v.over, true),
            *of_beta = sum_over(b, g, v.num_over, v.over, true), *count = number(b, g, count_of(&v));
  give_parameter(b, op, 1, of_gamma, out_gradient);
  give_parameter(b, op, 2, of_beta, out_gradient);
  msc_value *centred = msc_compute(b, "a - b / c", g, of_beta, count), *slope = over(b, of_gamma, count),
            *scale = times(b, n.r, parameter(b, &v, in[1], g));
  return give_gradient_of_x(b, op, times(b, scale, msc_compute(b, "a - b * c", centred, n.z, slope)), out_gradient);
}
