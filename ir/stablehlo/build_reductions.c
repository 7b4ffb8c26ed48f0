/* build_reductions.c: a reduction of dimensions, or of windows that slide over two, in; its ops out. */
#include <math.h>
#include <string.h>

#include "ir/stablehlo/hlo.h"

/* ---- what is reduced, and from where ---- */

/* Builds argmax or argmin, as JAX writes it: a reduction of values and their places to the largest (smallest) value
 * and its first place. Its second operand counts along the dimension. */
static bool build_place_of_extremum(hlo_node *n, int64_t dim) {
  bool pairs = n->in[1]->type->rank == 0; /* x init, place init; the generic form: x, place, init, init */
  const msc_value *place = n->in[pairs ? 2 : 1];
  msc_op_kind kind = OP_argmax;
  msc_reduction value = MSC_MAX;
  const hlo_region *body = n->op->num_regions == 1 ? &n->op->region[0] : NULL;
  bool found = false;
  for (size_t i = 0; body && i < body->num_ops && !found; i++) {
    found = hlo_has_word(&body->op[i], "GT") || hlo_has_word(&body->op[i], "LT");
    if (hlo_has_word(&body->op[i], "LT")) kind = OP_argmin, value = MSC_MIN;
  }
  if (!found || !hlo_counts(place))
    return hlo_refuse(n, "of several operands only the place of the largest or smallest is read");
  msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(dim)), msc_dtype_attr(n->ctx, n->op->out_type[1]->dtype)};
  n->out[0] = reduce_by(n->b, value, n->in[0], 1, &dim, false);
  n->out[1] = with_attrs(n->b, kind, 1, n->in, 2, attrs);
  return n->out[0] && n->out[1];
}

bool hlo_build_reduce(hlo_node *n) {
  int64_t dims[MSC_MAX_RANK];
  hlo_combiner c;
  double init;
  int num = hlo_ints(n, "dimensions", dims, MSC_MAX_RANK);
  if (num < 0) return false;
  if (n->op->num_in == 4 && n->op->num_out == 2 && num == 1) return build_place_of_extremum(n, dims[0]);
  if (n->op->num_in != 2) return hlo_refuse(n, "takes one operand and where it begins");
  msc_value *x = n->in[0];
  if (!hlo_combiner_of(n->op, &c)) return hlo_refuse(n, "its region is no op that msc reduces by");
  if (!num) return hlo_set(n, binary(n->b, c.kind, n->in[1], x));
  msc_dtype dtype = x->type->dtype;
  if (c.logical != (dtype == MSC_I1)) return hlo_refuse(n, "reducing %s so is not read", msc_dtype_name(dtype));
  msc_op_kind kind = !c.logical               ? msc_reducing_kind(c.reduction)
                     : c.reduction == MSC_MAX ? OP_reduce_any
                                              : OP_reduce_all;
  msc_value *y = reduce(n->b, kind, x, num, dims, false);
  double unit = c.logical ? c.reduction == MSC_MIN : msc_reduction_unit(c.reduction, dtype);
  bool neutral = hlo_splat(n->in[1], &init) && init == unit;
  return hlo_set(n, neutral ? y : binary(n->b, c.kind, y, n->in[1]));
}

/* ---- divide: a sum over its count is a mean ---- */

/* The reduce_sum of which x is the result, possibly reshaped; NULL: x is none. */
static const msc_op *sum_behind(const msc_value *x) {
  while (x->def && x->def->kind == OP_reshape) x = x->def->in[0].value;
  return x->def && x->def->kind == OP_reduce_sum && msc_is_float(x->type->dtype) ? x->def : NULL;
}

/* Builds a sum divided by the number of its terms as a mean: a mean stays right when the batch is cut into parts, a
 * sum divided by a constant does not. */
bool hlo_build_divide(hlo_node *n) {
  int64_t dims[MSC_MAX_RANK];
  double by, count = 1;
  if (n->op->num_in != 2) return hlo_refuse(n, "takes two operands");
  const msc_op *sum = sum_behind(n->in[0]);
  int num = sum ? msc_op_ints(sum, "dims", dims, MSC_MAX_RANK) : 0;
  for (int i = 0; i < num; i++) count *= (double)sum->in[0].value->type->dim[dims[i]];
  if (!num || !hlo_splat(n->in[1], &by) || by != count) return hlo_set(n, over(n->b, n->in[0], n->in[1]));
  msc_value *mean = mean_over(n->b, sum->in[0].value, num, dims, msc_op_bool(sum, "keep_dims"));
  return hlo_set(n, mean ? reshape(n->b, mean, n->in[0]->type->rank, n->in[0]->type->dim) : NULL);
}

/* ---- windows ---- */

typedef struct {
  int64_t size[MSC_MAX_RANK], stride[MSC_MAX_RANK], dilation[MSC_MAX_RANK], base[MSC_MAX_RANK],
      padding[2 * MSC_MAX_RANK]; /* low and high of each dimension */
} windows;

static bool read_window_attr(hlo_node *n, const char *name, int64_t absent, int num, int64_t *out) {
  int found = hlo_ints(n, name, out, num);
  if (found < 0) return false;
  for (int i = 0; !found && i < num; i++) out[i] = absent;
  return !found || found == num || hlo_refuse(n, "'%s' has %d numbers, not %d", name, found, num);
}

/* True if windows are a running sum along *out_dim: each reaches from the first element to its own, or (*out_reverse)
 * from its own to the last. */
static bool is_running(const windows *w, const msc_type *t, int *out_dim, bool *out_reverse) {
  *out_dim = -1;
  for (int d = 0; d < t->rank; d++) {
    if (w->stride[d] != 1 || w->dilation[d] != 1) return false;
    if (w->size[d] == 1 && !w->padding[2 * d] && !w->padding[2 * d + 1]) continue;
    bool from_first = w->padding[2 * d] == t->dim[d] - 1 && !w->padding[2 * d + 1];
    bool to_last = w->padding[2 * d + 1] == t->dim[d] - 1 && !w->padding[2 * d];
    if (*out_dim >= 0 || w->size[d] != t->dim[d] || !(from_first || to_last)) return false;
    *out_dim = d, *out_reverse = to_last;
  }
  return *out_dim >= 0;
}

static msc_value *running_sum(hlo_node *n, int dim, bool reverse) {
  msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(dim)), msc_named(n->ctx, "reverse", msc_bool(reverse))};
  return with_attrs(n->b, OP_cumsum, 1, n->in, 2, attrs);
}

/* Chooses the permutation that puts the two dimensions over which windows slide last; if fewer slide, other dimensions
 * take their places. */
static bool choose_space(hlo_node *n, const windows *w, const msc_type *t, int64_t perm[4]) {
  int space[2], num = 0, k = 0;
  for (int d = 0; d < t->rank; d++) {
    bool slides = w->size[d] != 1 || w->stride[d] != 1 || w->padding[2 * d] || w->padding[2 * d + 1];
    if (slides && num == 2) return hlo_refuse(n, "windows over more than two dimensions are not read");
    if (slides) space[num++] = d;
  }
  for (int d = t->rank; d-- > 0 && num < 2;) {
    bool taken = num == 1 && space[0] == d;
    if (!taken) space[num++] = d;
  }
  for (int d = 0; d < t->rank; d++)
    if (d != space[0] && d != space[1]) perm[k++] = d;
  perm[2] = space[0], perm[3] = space[1];
  return true;
}

static msc_value *build_pool(hlo_node *n, const windows *w, msc_op_kind kind, msc_value *x, const int64_t *perm) {
  int64_t size[2], stride[2], dilation[2], padding[4], back[4];
  for (int i = 0; i < 2; i++) {
    int64_t d = perm[2 + i];
    size[i] = w->size[d], stride[i] = w->stride[d], dilation[i] = w->dilation[d];
    padding[2 * i] = w->padding[2 * d], padding[2 * i + 1] = w->padding[2 * d + 1];
  }
  for (int k = 0; k < 4; k++) back[perm[k]] = k;
  msc_attr attrs[] = {msc_named(n->ctx, "kernel", msc_ints(n->ctx, 2, size)),
                      msc_named(n->ctx, "stride", msc_ints(n->ctx, 2, stride)),
                      msc_named(n->ctx, "dilation", msc_ints(n->ctx, 2, dilation)),
                      msc_named(n->ctx, "padding", msc_ints(n->ctx, 4, padding))};
  x = transpose(n->b, x, perm);
  msc_value *y = x ? with_attrs(n->b, kind, 1, &x, 4, attrs) : NULL;
  if (kind == OP_avg_pool)
    y = scale_by(n->b, y,
                 (double)(size[0] * size[1])); /* a sum: the mean of all elements, with padding, times their number */
  return transpose(n->b, y, back);
}

/* Gives x dimensions of size 1 in front, so that it has four, and moves the windows' numbers along. */
static bool extend_to_rank_4(hlo_node *n, windows *w, msc_value **x) {
  int64_t shape[4] = {1, 1, 1, 1};
  int rank = (*x)->type->rank, more = 4 - rank;
  if (more < 0) return hlo_refuse(n, "windows over more than four dimensions are not read");
  for (int d = rank; d-- > 0;) {
    shape[d + more] = (*x)->type->dim[d];
    w->size[d + more] = w->size[d], w->stride[d + more] = w->stride[d], w->dilation[d + more] = w->dilation[d];
    w->padding[2 * (d + more)] = w->padding[2 * d], w->padding[2 * (d + more) + 1] = w->padding[2 * d + 1];
  }
  for (int d = 0; d < more; d++)
    w->size[d] = w->stride[d] = w->dilation[d] = 1, w->padding[2 * d] = w->padding[2 * d + 1] = 0;
  return (*x = reshape(n->b, *x, 4, shape)) != NULL;
}

bool hlo_build_reduce_window(hlo_node *n) {
  windows w;
  hlo_combiner c;
  int64_t perm[4];
  double init;
  bool reverse;
  int dim;
  if (n->op->num_in != 2) return hlo_refuse(n, "takes one operand and where it begins");
  const msc_type *t = n->in[0]->type;
  MSC_TRY(read_window_attr(n, "window_dimensions", 1, t->rank, w.size) &&
          read_window_attr(n, "window_strides", 1, t->rank, w.stride) &&
          read_window_attr(n, "window_dilations", 1, t->rank, w.dilation) &&
          read_window_attr(n, "base_dilations", 1, t->rank, w.base) &&
          read_window_attr(n, "padding", 0, 2 * t->rank, w.padding));
  for (int d = 0; d < t->rank; d++)
    if (w.base[d] != 1 || w.padding[2 * d] < 0 || w.padding[2 * d + 1] < 0)
      return hlo_refuse(n, "zeros between elements and negative padding are not read");
  if (!hlo_combiner_of(n->op, &c) || c.logical || c.reduction == MSC_PROD)
    return hlo_refuse(n, "only the largest, the smallest and the sum of windows are read");
  bool adds = c.reduction == MSC_SUM, negated = c.reduction == MSC_MIN;
  double usual = adds ? 0 : negated ? INFINITY : -INFINITY;
  if (!hlo_splat(n->in[1], &init)) return hlo_refuse(n, "begins with a value that is no constant");
  if (negated && msc_dtype_class_of(t->dtype) == MSC_CLASS_UINT)
    return hlo_refuse(n, "the smallest of unsigned numbers in windows is not read");
  if (adds && init == 0 && is_running(&w, t, &dim, &reverse)) return hlo_set(n, running_sum(n, dim, reverse));
  msc_value *x = n->in[0];
  MSC_TRY(extend_to_rank_4(n, &w, &x) && choose_space(n, &w, x->type, perm));
  if (negated) x = unary(n->b, OP_neg, x);
  msc_value *y = x ? build_pool(n, &w, adds ? OP_avg_pool : OP_max_pool, x, perm) : NULL;
  if (negated) y = unary(n->b, OP_neg, y);
  if (y && init != usual)
    y = combine_by(n->b, c.reduction, y, n->in[1]); /* the initial value is one more element of each window */
  return y && hlo_set(n, reshape(n->b, y, n->op->out_type[0]->rank, n->op->out_type[0]->dim));
}
