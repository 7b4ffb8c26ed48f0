/* norm.c: a normalisation, softmax or loss in; its ops out. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

/* Reshapes [c] so that it broadcasts along dimension 1 of a tensor of `rank`. */
static msc_value *per_channel(onnx_node *n, msc_value *v, int rank) {
  int64_t dim[MSC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (!v) return NULL;
  dim[1] = msc_type_elems(v->type);
  return reshape(n->b, v, rank, dim);
}

/* x - mean over the dimensions, the mean, and the variance, which are kept with size 1. */
static msc_value *subtract_mean(onnx_node *n, msc_value *x, int num, const int64_t *dims, msc_value **out_mean,
                                msc_value **out_variance) {
  *out_mean = x ? mean_over(n->b, x, num, dims, true) : NULL;
  msc_value *d = msc_compute(n->b, "a - b", x, *out_mean), *square = msc_compute(n->b, "a * a", d);
  *out_variance = square ? mean_over(n->b, square, num, dims, true) : NULL;
  return d;
}

static msc_value *normalized_by(onnx_node *n, msc_value *d, msc_value *variance, double eps, msc_value **out_scale) {
  if (!variance) return NULL;
  msc_value *r = msc_compute(n->b, "rsqrt(a + b)", variance, like(n->b, variance, eps));
  if (out_scale) *out_scale = r;
  return msc_compute(n->b, "a * b", d, r);
}

/* Scales and shifts y by a number per channel, in y's type. */
static msc_value *scale_and_shift(onnx_node *n, msc_value *y, msc_value *scale, msc_value *shift, int rank) {
  scale = widen(n->b, per_channel(n, scale, rank));
  shift = widen(n->b, per_channel(n, shift, rank));
  return msc_compute(n->b, "a * b + c", y, scale, shift);
}

bool onnx_build_batch_norm(onnx_node *n) {
  msc_value *in = onnx_in(n, 0);
  double eps = onnx_float(n, "epsilon", 1e-5f), momentum = onnx_float(n, "momentum", 0.9f);
  bool training = n->opset < 7 ? !onnx_int(n, "is_test", 0) && n->num_out > 1 : onnx_int(n, "training_mode", 0) != 0;
  if (n->opset < 9 && !onnx_int(n, "spatial", 1)) return onnx_refuse(n, "spatial = 0 is not supported");
  for (size_t i = 3; i < 5 && i < n->num_in; i++)
    if (n->in[i]) n->in[i]->is_frozen = true; /* statistics are not trained */
  msc_value *v[5] = {in};
  for (size_t i = 1; i < 5; i++) MSC_TRY((v[i] = onnx_in(n, i)));
  if (!in) return false;
  msc_dtype type = widen_dtype(in->type->dtype);
  for (int i = 0; i < 5; i++) v[i] = cast(n->b, v[i], type);
  msc_value *x = v[0], *mean = v[3], *var = v[4];
  int rank = x->type->rank;
  if (rank < 2) return onnx_refuse(n, "takes at least rank 2");
  if (!training) {
    msc_attr attrs[] = {msc_named(n->ctx, "training", msc_bool(false)), msc_named(n->ctx, "eps", msc_float(eps))};
    msc_op *op = msc_build_with(n->b, OP_batch_norm, 5, v, 3, 2, attrs);
    return onnx_set(n, 0, op ? cast(n->b, &op->out[0], in->type->dtype) : NULL);
  }
  int64_t dims[MSC_MAX_RANK];
  int num = 0;
  for (int d = 0; d < rank; d++)
    if (d != 1) dims[num++] = d;
  msc_value *d = subtract_mean(n, x, num, dims, &mean, &var), *y = normalized_by(n, d, var, eps, NULL);
  y = scale_and_shift(n, y, v[1], v[2], rank);
  msc_value *batch[2] = {mean, var};
  for (size_t i = 0; i < 2 && y; i++) {
    if (!onnx_wants(n, 1 + i)) continue;
    msc_value *old = scale_by(n->b, v[3 + i], momentum);
    msc_value *now = scale_by(n->b, reshape(n->b, batch[i], 1, v[3]->type->dim), 1 - momentum);
    MSC_TRY(onnx_set(n, 1 + i, cast(n->b, plus(n->b, old, now), n->in[3 + i]->type->dtype)));
  }
  return onnx_set(n, 0, y ? cast(n->b, y, in->type->dtype) : NULL);
}

/* (x - mean) / sqrt(variance + eps) over the dimensions; also the mean and 1 / sqrt, if the pointers are not NULL. */
static msc_value *normalize(onnx_node *n, msc_value *x, int num, const int64_t *dims, double eps, msc_value **out_mean,
                            msc_value **out_scale) {
  msc_value *mean, *var, *d = subtract_mean(n, x, num, dims, &mean, &var);
  if (out_mean) *out_mean = mean;
  return normalized_by(n, d, var, eps, out_scale);
}

bool onnx_build_instance_norm(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in), *scale = onnx_in(n, 1), *bias = onnx_in(n, 2);
  double eps = onnx_float(n, "epsilon", 1e-5f);
  int64_t dims[MSC_MAX_RANK];
  if (!x || !scale || !bias) return false;
  int num = 0;
  for (int d = 2; d < x->type->rank; d++) dims[num++] = d;
  msc_value *y = normalize(n, x, num, dims, eps, NULL, NULL);
  y = scale_and_shift(n, y, scale, bias, x->type->rank);
  return onnx_set(n, 0, y ? cast(n->b, y, in->type->dtype) : NULL);
}

/* True if v, a scale or bias or NULL, has exactly the shape of x's dimensions from `axis` on, and x's element type. */
static bool fits_tail(const msc_value *x, const msc_value *v, int axis) {
  if (!v) return true;
  if (v->type->rank != x->type->rank - axis || v->type->dtype != x->type->dtype) return false;
  for (int d = axis; d < x->type->rank; d++)
    if (v->type->dim[d - axis] != x->type->dim[d]) return false;
  return true;
}

bool onnx_build_layer_norm(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in), *mean, *inverse;
  double eps = onnx_float(n, "epsilon", 1e-5f);
  int axis;
  onnx_int(n, "stash_type", 1); /* read, but statistics are in f32 or f64 always */
  if (!x || !onnx_axis(n, onnx_int(n, "axis", -1), x->type->rank, &axis)) return false;
  msc_value *scale = onnx_in(n, 1), *bias = onnx_has(n, 2) ? onnx_in(n, 2) : NULL;
  if (!scale) return false;
  bool stats = onnx_wants(n, 1) || onnx_wants(n, 2);
  if (!stats && x == in && fits_tail(x, scale, axis) && fits_tail(x, bias, axis)) {
    msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(axis)), msc_named(n->ctx, "eps", msc_float(eps))};
    return onnx_set(n, 0, with_attrs(n->b, OP_layer_norm, bias ? 3 : 2, (msc_value *[]){x, scale, bias}, 2, attrs));
  }
  int64_t dims[MSC_MAX_RANK];
  int num = 0;
  for (int d = axis; d < x->type->rank; d++) dims[num++] = d;
  msc_value *y = normalize(n, x, num, dims, eps, &mean, &inverse);
  y = y ? times(n->b, y, cast(n->b, scale, x->type->dtype)) : NULL;
  y = y && bias ? plus(n->b, y, cast(n->b, bias, x->type->dtype)) : y;
  if (!y) return false;
  return onnx_set(n, 1, mean) && onnx_set(n, 2, inverse) && onnx_set(n, 0, cast(n->b, y, in->type->dtype));
}

bool onnx_build_rms_norm(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in), *scale = onnx_in(n, 1);
  double eps = onnx_float(n, "epsilon", 1e-5f);
  int axis;
  onnx_int(n, "stash_type", 1);
  if (!x || !scale || !onnx_axis(n, onnx_int(n, "axis", -1), x->type->rank, &axis)) return false;
  if (x == in && fits_tail(x, scale, axis)) {
    msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(axis)), msc_named(n->ctx, "eps", msc_float(eps))};
    return onnx_set(n, 0, with_attrs(n->b, OP_rms_norm, 2, (msc_value *[]){x, scale}, 2, attrs));
  }
  msc_value *square = onnx_all_but(n->b, OP_reduce_mean, times(n->b, x, x), axis);
  msc_value *y = normalized_by(n, x, square, eps, NULL);
  y = y ? cast(n->b, y, in->type->dtype) : NULL;
  y = y ? times(n->b, cast(n->b, y, scale->type->dtype), scale) : NULL;
  return onnx_set(n, 0, y ? cast(n->b, y, scale->type->dtype) : NULL);
}

bool onnx_build_group_norm(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in), *scale = onnx_in(n, 1), *bias = onnx_in(n, 2);
  double eps = onnx_float(n, "epsilon", 1e-5f);
  int64_t groups = onnx_int(n, "num_groups", 1);
  onnx_int(n, "stash_type", 1);
  if (!x || !scale || !bias) return false;
  int rank = x->type->rank;
  if (rank < 2 || groups < 1 || x->type->dim[1] % groups)
    return onnx_refuse(n, "num_groups does not divide the channels");
  int64_t c = x->type->dim[1], dim[3] = {x->type->dim[0], groups, -1}, last = 2, elems = msc_type_elems(x->type);
  dim[2] = dim[0] ? elems / dim[0] / groups : 0;
  msc_value *y = normalize(n, reshape(n->b, x, 3, dim), 1, &last, eps, NULL, NULL);
  y = y ? reshape(n->b, y, rank, x->type->dim) : NULL;
  msc_value *v[2] = {scale, bias};
  for (int i = 0; i < 2; i++) /* before opset 21 one for each group */
    if (v[i] && msc_type_elems(v[i]->type) == groups && groups != c) {
      msc_value *g = reshape(n->b, v[i], 2, (int64_t[]){groups, 1});
      g = broadcast(n->b, g, 2, (int64_t[]){groups, c / groups});
      v[i] = g ? reshape(n->b, g, 1, &c) : NULL;
    }
  y = scale_and_shift(n, y, v[0], v[1], rank);
  return onnx_set(n, 0, y ? cast(n->b, y, in->type->dtype) : NULL);
}

bool onnx_build_mean_variance_norm(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t axes[MSC_MAX_RANK] = {0, 2, 3}, dims[MSC_MAX_RANK];
  int num = onnx_ints(n, "axes", axes, MSC_MAX_RANK);
  if (!x || num == -2) return false;
  if (num < 0) num = 3;
  for (int i = 0; i < num; i++) {
    int axis;
    MSC_TRY(onnx_axis(n, axes[i], x->type->rank, &axis));
    dims[i] = axis;
  }
  msc_value *mean, *var, *d = subtract_mean(n, x, num, dims, &mean, &var);
  return onnx_set(n, 0, msc_compute(n->b, "a / (sqrt(b) + 0.000000001)", d, var));
}

bool onnx_build_lp_norm(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t p = onnx_int(n, "p", 2);
  int axis;
  if (!x || !onnx_axis(n, onnx_int(n, "axis", -1), x->type->rank, &axis)) return false;
  if (p != 1 && p != 2) return onnx_refuse(n, "p is 1 or 2");
  msc_value *w = widen(n->b, x), *a = msc_compute(n->b, p == 1 ? "abs(a)" : "a * a", w);
  msc_value *sum = a ? sum_over(n->b, a, 1, (int64_t[]){axis}, true) : NULL;
  msc_value *s = sum && p == 2 ? msc_compute(n->b, "sqrt(a)", sum) : sum;
  if (!s) return false;
  msc_value *none = compare(n->b, MSC_EQ, s, like(n->b, s, 0));
  return onnx_set(n, 0, cast(n->b, msc_compute(n->b, "a / select(b, 1, c)", w, none, s), x->type->dtype));
}

bool onnx_build_softmax(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = in;
  int axis;
  if (!in || !onnx_axis(n, onnx_int(n, "axis", n->opset < 13 ? 1 : -1), in->type->rank, &axis)) return false;
  bool flat = n->opset < 13 && axis != in->type->rank - 1; /* over all dimensions from axis on */
  if (flat) {
    int64_t dim[2] = {1, 1};
    for (int d = 0; d < in->type->rank; d++) dim[d >= axis] *= in->type->dim[d];
    x = reshape(n->b, in, 2, dim), axis = 1;
  }
  msc_attr attr = msc_named(n->ctx, "axis", msc_int(axis));
  x = x ? with_attrs(n->b, n->row->kind, 1, &x, 1, &attr) : NULL;
  return onnx_set(n, 0, x ? reshape(n->b, x, in->type->rank, in->type->dim) : NULL);
}

/* ---- losses ---- */

/* The weighted loss -log_probabilities[label]; ignored labels have weight 0.  Channels are dimension 1. */
static msc_value *nll(onnx_node *n, msc_value *logs, msc_value *labels, msc_value *weight) {
  const char *how = onnx_text(n, "reduction", "mean");
  const onnx_attr *ignore = onnx_attr_of(n, "ignore_index", ONNX_INT);
  if (!logs || !labels) return NULL;
  if (logs->type->rank < 2 || labels->type->rank != logs->type->rank - 1)
    return onnx_refuse(n, "labels have rank %d, scores %d", labels->type->rank, logs->type->rank), NULL;
  int rank = logs->type->rank;
  int64_t dim[MSC_MAX_RANK], c = logs->type->dim[1];
  memcpy(dim, labels->type->dim, sizeof dim);
  msc_value *at = cast(n->b, labels, MSC_I64), *kept = NULL;
  if (ignore && at) {
    kept = compare(n->b, MSC_NE, at, like(n->b, at, (double)ignore->i));
    at = choose(n->b, kept, at, like(n->b, at, 0));
  }
  for (int d = rank - 1; d > 1; d--) dim[d] = dim[d - 1];
  dim[1] = 1;
  msc_value *k = at ? reshape(n->b, at, rank, dim) : NULL;
  msc_value *picked = take_along(n->b, logs, k, 1);
  msc_value *loss = picked ? msc_compute(n->b, "-a", reshape(n->b, picked, rank - 1, labels->type->dim)) : NULL;
  if (!loss) return NULL;
  msc_value *w = NULL;
  if (weight) {
    if (weight->type->rank != 1 || weight->type->dim[0] != c)
      return onnx_refuse(n, "there must be %" PRId64 " weights", c), NULL;
    w = gather(n->b, weight, at, 0);
  }
  if (kept) {
    msc_value *one = w ? w : broadcast(n->b, like(n->b, loss, 1), rank - 1, labels->type->dim);
    w = one ? choose(n->b, kept, one, like(n->b, one, 0)) : NULL;
    if (!w) return NULL;
  }
  msc_value *weighted = w ? times(n->b, loss, w) : loss;
  if (kept && weighted) weighted = choose(n->b, kept, weighted, like(n->b, loss, 0)); /* also where it is infinite */
  msc_loss_reduction reduction;
  if (!msc_loss_reduction_parse(how, &reduction)) return onnx_refuse(n, "reduction '%s' is unknown", how), NULL;
  if (!w || reduction != MSC_LOSS_MEAN) return reduce_loss(n->b, reduction, weighted);
  msc_value *sum = reduce_loss(n->b, MSC_LOSS_SUM, weighted);
  return over(n->b, sum, reduce_loss(n->b, MSC_LOSS_SUM, w));
}

bool onnx_build_nll_loss(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *labels = onnx_in(n, 1), *weight = onnx_has(n, 2) ? onnx_in(n, 2) : NULL;
  return onnx_set(n, 0, nll(n, x, labels, weight));
}

bool onnx_build_cross_entropy(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *labels = onnx_in(n, 1), *weight = onnx_has(n, 2) ? onnx_in(n, 2) : NULL;
  msc_attr axis = msc_named(n->ctx, "axis", msc_int(1));
  msc_value *logs = x ? with_attrs(n->b, OP_log_softmax, 1, &x, 1, &axis) : NULL;
  return onnx_set(n, 0, nll(n, logs, labels, weight)) && onnx_set(n, 1, logs);
}
