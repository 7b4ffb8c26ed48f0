/* window.c: convolutions and pools of one, two or three dimensions in; ops of two dimensions, which msc has, out. A
 * node of one dimension gets a second one of size 1; of three dimensions the first is computed plane by plane. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

enum { MAX_SPACE = 3, LARGEST = 1 << 30, MAX_PLANES = 1024 };

/* One dimension: x elements, y windows. */
typedef struct {
  int64_t x, y, kernel, stride, dilation, low, high;
} window;

typedef struct {
  int num;
  window dim[MAX_SPACE];
} windows;

static int64_t reach_of_window(const window *w) { return (w->kernel - 1) * w->dilation + 1; }

bool onnx_sizes(onnx_node *n, const char *name, int num, int64_t fill, int64_t *out) {
  int k = onnx_ints(n, name, out, 2 * MAX_SPACE);
  if (k == -2) return false;
  for (int i = 0; k < 0 && i < num; i++) out[i] = fill;
  if (k >= 0 && k != num) return onnx_refuse(n, "attribute '%s' has %d entries, not %d", name, k, num);
  for (int i = 0; i < num; i++)
    if (out[i] < 0 || out[i] > LARGEST) return onnx_refuse(n, "attribute '%s' is out of range", name);
  return true;
}

/* Reads the windows of a node from its attributes; `kernel`: the kernel's sizes from the weights, NULL: from
 * kernel_shape. Counts the windows, except those of a transposed convolution. */
static bool windows_of(onnx_node *n, const msc_type *x, const int64_t *kernel, bool transposed, windows *out) {
  int64_t k[2 * MAX_SPACE], stride[2 * MAX_SPACE], dilation[2 * MAX_SPACE], pads[2 * MAX_SPACE];
  int num = x->rank - 2;
  if (num < 1 || num > MAX_SPACE) return onnx_refuse(n, "takes 1 to 3 dimensions behind the first two, not %d", num);
  MSC_TRY(onnx_sizes(n, "kernel_shape", num, 0, k) && onnx_sizes(n, "strides", num, 1, stride) &&
          onnx_sizes(n, "dilations", num, 1, dilation) && onnx_sizes(n, "pads", 2 * num, 0, pads));
  const char *automatic = onnx_text(n, "auto_pad", "NOTSET");
  bool ceil = onnx_int(n, "ceil_mode", 0) != 0, same = !strncmp(automatic, "SAME_", 5);
  if (!same && strcmp(automatic, "NOTSET") && strcmp(automatic, "VALID"))
    return onnx_refuse(n, "auto_pad '%s' is unknown", automatic);
  out->num = num;
  for (int i = 0; i < num; i++) {
    window *w = &out->dim[i];
    *w = (window){x->dim[2 + i], 0, kernel ? kernel[i] : k[i], stride[i], dilation[i], pads[i], pads[num + i]};
    if (w->kernel < 1 || w->stride < 1 || w->dilation < 1 || w->kernel > LARGEST || reach_of_window(w) > LARGEST)
      return onnx_refuse(n, "kernel, stride or dilation is out of range");
    if (!strcmp(automatic, "VALID")) w->low = w->high = 0;
    if (transposed) continue;
    if (same) {
      w->y = (w->x + w->stride - 1) / w->stride;
      int64_t total = (w->y - 1) * w->stride + reach_of_window(w) - w->x;
      total = total < 0 ? 0 : total;
      w->low = !strcmp(automatic, "SAME_LOWER") ? total - total / 2 : total / 2, w->high = total - w->low;
      continue;
    }
    int64_t room = w->x + w->low + w->high - reach_of_window(w);
    if (room < 0) return onnx_refuse(n, "its window is larger than its input in dimension %d", 2 + i);
    w->y = (ceil ? (room + w->stride - 1) / w->stride : room / w->stride) + 1;
    if (ceil && (w->y - 1) * w->stride >= w->x + w->low) w->y--; /* no window lies wholly in the padding behind */
  }
  return true;
}

/* The padding behind that makes y windows. */
static int64_t high_for(const window *w) {
  int64_t high = (w->y - 1) * w->stride + reach_of_window(w) - w->x - w->low;
  return high < 0 ? 0 : high;
}

static size_t add_ints_attr(onnx_node *n, msc_attr *a, size_t k, const char *name, size_t num, const int64_t *v) {
  a[k] = msc_named(n->ctx, name, msc_ints(n->ctx, num, v));
  return k + 1;
}

/* Attributes of an op with windows over h and w. */
static size_t pair_attrs(onnx_node *n, const window *h, const window *w, bool kernel, msc_attr *a) {
  size_t k = add_ints_attr(n, a, 0, "stride", 2, (int64_t[]){h->stride, w->stride});
  k = add_ints_attr(n, a, k, "dilation", 2, (int64_t[]){h->dilation, w->dilation});
  k = add_ints_attr(n, a, k, "padding", 4, (int64_t[]){h->low, high_for(h), w->low, high_for(w)});
  return kernel ? add_ints_attr(n, a, k, "kernel", 2, (int64_t[]){h->kernel, w->kernel}) : k;
}

static const window still = {1, 1, 1, 1, 1, 0, 0};

/* Reshapes [n,c,w] to [n,c,1,w]. */
static msc_value *with_height(msc_builder *b, msc_value *x) {
  if (!x) return NULL;
  const int64_t *d = x->type->dim;
  return reshape(b, x, 4, (int64_t[]){d[0], d[1], 1, d[2]});
}

static msc_value *without_height(msc_builder *b, msc_value *x) {
  if (!x) return NULL;
  const int64_t *d = x->type->dim;
  return reshape(b, x, 3, (int64_t[]){d[0], d[1], d[3]});
}

/* ---- pools ---- */

static msc_value *pool_pair(onnx_node *n, msc_op_kind kind, msc_value *x, const window *h, const window *w) {
  msc_attr attrs[4];
  return x ? with_attrs(n->b, kind, 1, &x, pair_attrs(n, h, w, true, attrs), attrs) : NULL;
}

/* Builds a max_pool or an avg_pool: over three dimensions, first over the last two, then over the first. */
static msc_value *pool(onnx_node *n, msc_op_kind kind, msc_value *x, const windows *w) {
  if (!x) return NULL;
  const int64_t *d = x->type->dim;
  if (w->num == 1) return without_height(n->b, pool_pair(n, kind, with_height(n->b, x), &still, &w->dim[0]));
  if (w->num == 2) return pool_pair(n, kind, x, &w->dim[0], &w->dim[1]);
  msc_value *flat = reshape(n->b, x, 4, (int64_t[]){d[0], d[1] * d[2], d[3], d[4]});
  msc_value *y = pool_pair(n, kind, flat, &w->dim[1], &w->dim[2]);
  int64_t area = w->dim[1].y * w->dim[2].y;
  y = y ? reshape(n->b, y, 4, (int64_t[]){d[0], d[1], d[2], area}) : NULL;
  y = pool_pair(n, kind, y, &w->dim[0], &still);
  return y ? reshape(n->b, y, 5, (int64_t[]){d[0], d[1], w->dim[0].y, w->dim[1].y, w->dim[2].y}) : NULL;
}

/* Sets output Indices of MaxPool: the number of each largest element in the whole input. */
static bool set_pool_indices(onnx_node *n, msc_value *x, const windows *w, bool columns_first) {
  if (w->num > 2) return onnx_refuse(n, "Indices of three dimensions are not supported");
  const window *h = w->num == 2 ? &w->dim[0] : &still, *v = &w->dim[w->num - 1];
  msc_value *images = w->num == 1 ? with_height(n->b, x) : x;
  msc_value *in_window = cast(n->b, pool_pair(n, OP_max_pool_index, images, h, v), MSC_I64);
  if (!in_window) return false;
  const int64_t *d = images->type->dim;
  msc_value *k = like(n->b, in_window, (double)v->kernel), *at[4], *sum = NULL;
  for (int i = 0; i < 4; i++) at[i] = iota(n->b, MSC_I64, 4, in_window->type->dim, i);
  msc_value *row = over(n->b, in_window, k), *column = minus(n->b, in_window, times(n->b, row, k));
  const window *of[2] = {h, v};
  msc_value *inside[2] = {row, column};
  for (int i = 0; i < 2; i++) {
    msc_value *from =
        plus(n->b, scale_by(n->b, at[2 + i], (double)of[i]->stride), like(n->b, in_window, -(double)of[i]->low));
    at[2 + i] = plus(n->b, from, scale_by(n->b, inside[i], (double)of[i]->dilation));
  }
  double stride[4] = {(double)(d[1] * d[2] * d[3]), (double)(d[2] * d[3]), (double)d[3], 1};
  if (columns_first) stride[2] = 1, stride[3] = (double)d[2];
  for (int i = 0; i < 4; i++) {
    msc_value *term = scale_by(n->b, at[i], stride[i]);
    sum = sum ? plus(n->b, sum, term) : term;
  }
  return onnx_set(n, 1, w->num == 1 ? without_height(n->b, sum) : sum);
}

bool onnx_build_max_pool(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  windows w;
  bool columns_first = onnx_int(n, "storage_order", 0) != 0;
  if (!x || !windows_of(n, x->type, NULL, false, &w)) return false;
  if (onnx_wants(n, 1)) MSC_TRY(set_pool_indices(n, x, &w, columns_first));
  return onnx_set(n, 0, pool(n, OP_max_pool, x, &w));
}

/* The elements of window o that a mean counts: those inside, and with `pads` those in the file's padding. */
static double count_elements(const window *w, int64_t o, bool pads) {
  int64_t first = o * w->stride - w->low, low = pads ? -w->low : 0, high = w->x + (pads ? w->high : 0);
  int64_t from = first >= low ? 0 : (low - first + w->dilation - 1) / w->dilation;
  int64_t to = first >= high ? 0 : (high - first + w->dilation - 1) / w->dilation; /* the first one beyond */
  to = to < w->kernel ? to : w->kernel;
  return to > from ? (double)(to - from) : 0;
}

/* Corrects y, means over whole kernels, at the edges: multiplies by the kernel's size and divides by the number of
 * elements that count, dimension by dimension. */
static msc_value *divide_by_count(onnx_node *n, msc_value *y, const windows *w, bool pads) {
  for (int i = 0; i < w->num && y; i++) {
    const window *d = &w->dim[i];
    double *share = msc_new_array(n->scratch, double, d->y + 1);
    bool same = true;
    for (int64_t o = 0; o < d->y; o++) {
      double num = count_elements(d, o, pads);
      share[o] = num > 0 ? (double)d->kernel / num : 0;
      same &= share[o] == 1;
    }
    int64_t dim[MAX_SPACE] = {1, 1, 1};
    dim[i] = d->y;
    if (!same) y = times(n->b, y, onnx_dense(n->b, y->type->dtype, w->num, dim, share));
  }
  return y;
}

bool onnx_build_average_pool(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  windows w;
  bool pads = onnx_int(n, "count_include_pad", 0) != 0;
  if (!x || !windows_of(n, x->type, NULL, false, &w)) return false;
  return onnx_set(n, 0, divide_by_count(n, pool(n, OP_avg_pool, x, &w), &w, pads));
}

/* |x|^p. */
static msc_value *raise_to(onnx_node *n, msc_value *x, double p) {
  if (p == 1 || p == 2) return msc_compute(n->b, p == 1 ? "abs(a)" : "a * a", x);
  return msc_compute(n->b, "pow(abs(a), b)", x, like(n->b, x, p));
}

static msc_value *take_root(onnx_node *n, msc_value *x, double p) {
  if (p == 1) return x;
  if (!x || p == 2) return msc_compute(n->b, "sqrt(a)", x);
  return msc_compute(n->b, "pow(a, b)", x, like(n->b, x, 1 / p));
}

static double norm_order(onnx_node *n) { return n->opset < 2 ? onnx_float(n, "p", 2) : (double)onnx_int(n, "p", 2); }

bool onnx_build_lp_pool(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  windows w;
  double p = norm_order(n), size = 1;
  if (!x || !windows_of(n, x->type, NULL, false, &w)) return false;
  for (int i = 0; i < w.num; i++) size *= (double)w.dim[i].kernel;
  return onnx_set(n, 0, take_root(n, scale_by(n->b, pool(n, OP_avg_pool, raise_to(n, x, p), &w), size), p));
}

bool onnx_build_global_pool(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  if (!x) return false;
  if (n->row->kind != OP_constant) return onnx_set(n, 0, onnx_all_but(n->b, n->row->kind, x, 2));
  double p = norm_order(n);
  return onnx_set(n, 0, take_root(n, onnx_all_but(n->b, OP_reduce_sum, raise_to(n, x, p), 2), p));
}

/* x / (bias + alpha * mean of x^2 over `size` channels)^beta, where channels beyond the first and last are 0 */
bool onnx_build_lrn(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t size = onnx_int(n, "size", 1);
  double alpha = onnx_float(n, "alpha", 0.0001f), beta = onnx_float(n, "beta", 0.75), bias = onnx_float(n, "bias", 1);
  if (!x || x->type->rank < 2 || size < 1 || size > LARGEST) return x && onnx_refuse(n, "size or rank is out of range");
  int64_t rest = 1, c = x->type->dim[1];
  for (int d = 2; d < x->type->rank; d++) rest *= x->type->dim[d];
  window channels = {c, c, size, 1, 1, (size - 1) / 2, size / 2};
  msc_value *square = reshape(n->b, times(n->b, x, x), 4, (int64_t[]){x->type->dim[0], 1, c, rest});
  msc_value *mean = pool_pair(n, OP_avg_pool, square, &channels, &still);
  mean = mean ? reshape(n->b, mean, x->type->rank, x->type->dim) : NULL;
  msc_value *sum = mean ? plus(n->b, scale_by(n->b, mean, alpha), like(n->b, mean, bias)) : NULL;
  return onnx_set(n, 0, sum ? over(n->b, x, msc_compute(n->b, "pow(a, b)", sum, like(n->b, sum, beta))) : NULL);
}

/* Builds zeros with every element of x at the place that the index of a MaxPool names. */
bool onnx_build_max_unpool(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *at = onnx_in(n, 1);
  windows w;
  int64_t dim[MSC_MAX_RANK], want[MSC_MAX_RANK], high[MSC_MAX_RANK] = {0}, zero[MSC_MAX_RANK] = {0};
  int num = -1;
  if (!x || !at || !windows_of(n, x->type, NULL, true, &w) || !onnx_ints_of(n, 2, "", 1, want, MSC_MAX_RANK, &num))
    return false;
  int rank = x->type->rank;
  dim[0] = x->type->dim[0], dim[1] = x->type->dim[1];
  for (int i = 0; i < w.num; i++)
    dim[2 + i] = (w.dim[i].x - 1) * w.dim[i].stride + w.dim[i].kernel - w.dim[i].low - w.dim[i].high;
  if (num >= 0 && num != rank) return onnx_refuse(n, "output_shape has %d entries, not %d", num, rank);
  for (int d = 0; d < rank; d++) high[d] = num < 0 ? 0 : want[d] - dim[d];
  int64_t elems = msc_type_elems(x->type), total = 1;
  for (int d = 0; d < rank; d++) {
    if (high[d] < 0 || dim[d] < 0) return onnx_refuse(n, "output_shape is too small");
    total *= dim[d];
  }
  at = reshape(n->b, at, 1, &elems), x = reshape(n->b, x, 1, &elems);
  msc_value *y = sum_by_row(n->b, at, x, total, 0);
  y = y ? reshape(n->b, y, rank, dim) : NULL;
  return onnx_set(n, 0, pad_with(n->b, y, zero, high, NULL, 0));
}

/* ---- convolutions ---- */

static msc_value *conv_pair(onnx_node *n, msc_value *x, msc_value *w, const window *h, const window *v,
                            int64_t groups) {
  msc_attr attrs[5];
  size_t k = pair_attrs(n, h, v, false, attrs);
  attrs[k++] = msc_named(n->ctx, "groups", msc_int(groups));
  return x && w ? with_attrs(n->b, OP_conv2d, 2, (msc_value *[]){x, w}, k, attrs) : NULL;
}

/* Slices of x along dimension 2, every `stride`-th from `from`, as images: [n,c,d,h,w] -> [n num,c,h,w]. */
static msc_value *as_images(onnx_node *n, msc_value *x, int64_t from, int64_t num, int64_t stride) {
  const int64_t *d = x->type->dim;
  int64_t zero[5] = {0, 0, from, 0, 0}, end[5] = {d[0], d[1], from + (num - 1) * stride + 1, d[3], d[4]};
  msc_value *s = slice_of(n->b, x, zero, end, (int64_t[]){1, 1, num == 1 ? 1 : stride, 1, 1});
  s = onnx_move_dim(n->b, s, 2, 1);
  return s ? reshape(n->b, s, 4, (int64_t[]){d[0] * num, d[1], d[3], d[4]}) : NULL;
}

static msc_value *as_volumes(onnx_node *n, msc_value *y, int64_t batch) {
  if (!y) return NULL;
  const int64_t *d = y->type->dim;
  msc_value *v = reshape(n->b, y, 5, (int64_t[]){batch, d[0] / batch, d[1], d[2], d[3]});
  return onnx_move_dim(n->b, v, 1, 2);
}

/* Plane k of weights [o,c,d,h,w]. */
static msc_value *plane(onnx_node *n, msc_value *w, int64_t k) {
  const int64_t *d = w->type->dim;
  msc_value *p = part_of(n->b, w, 2, k, k + 1);
  return p ? reshape(n->b, p, 4, (int64_t[]){d[0], d[1], d[3], d[4]}) : NULL;
}

/* A convolution of volumes: for every plane of the kernel a convolution of the images that it meets. */
static msc_value *conv_volumes(onnx_node *n, msc_value *x, msc_value *w, const windows *at, int64_t groups) {
  const window *d = &at->dim[0];
  if (d->kernel > MAX_PLANES) return onnx_refuse(n, "a kernel of %" PRId64 " planes is too large", d->kernel), NULL;
  msc_value *sum = NULL;
  msc_value *p = pad_with(n->b, x, (int64_t[]){0, 0, d->low, 0, 0}, (int64_t[]){0, 0, high_for(d), 0, 0}, NULL, 0);
  for (int64_t k = 0; k < d->kernel && p; k++) {
    msc_value *images = as_images(n, p, k * d->dilation, d->y, d->stride);
    msc_value *y = conv_pair(n, images, plane(n, w, k), &at->dim[1], &at->dim[2], groups);
    if (!y) return NULL;
    sum = sum ? plus(n->b, sum, y) : y;
  }
  return as_volumes(n, sum, x->type->dim[0]);
}

msc_value *onnx_add_bias(onnx_node *n, msc_value *y, size_t i) {
  if (!y || !onnx_has(n, i)) return y;
  msc_value *bias = onnx_in(n, i);
  int64_t dim[MSC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (bias) dim[1] = msc_type_elems(bias->type);
  return bias ? plus(n->b, y, reshape(n->b, bias, y->type->rank, dim)) : NULL;
}

bool onnx_build_conv(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *w = onnx_in(n, 1), *y;
  windows at;
  int64_t groups = onnx_int(n, "group", 1);
  if (!x || !w) return false;
  if (w->type->rank != x->type->rank)
    return onnx_refuse(n, "weights have rank %d, the input %d", w->type->rank, x->type->rank);
  if (!windows_of(n, x->type, w->type->dim + 2, false, &at)) return false;
  if (at.num == 1)
    y = without_height(n->b, conv_pair(n, with_height(n->b, x), with_height(n->b, w), &still, &at.dim[0], groups));
  else if (at.num == 2) y = conv_pair(n, x, w, &at.dim[0], &at.dim[1], groups);
  else y = conv_volumes(n, x, w, &at, groups);
  return onnx_set(n, 0, onnx_add_bias(n, y, 2));
}

static msc_value *transpose_pair(onnx_node *n, msc_value *x, msc_value *w, const window *h, const window *v,
                                 int64_t groups) {
  msc_attr attrs[5];
  size_t k = add_ints_attr(n, attrs, 0, "size", 2, (int64_t[]){h->y, v->y});
  k = add_ints_attr(n, attrs, k, "stride", 2, (int64_t[]){h->stride, v->stride});
  k = add_ints_attr(n, attrs, k, "dilation", 2, (int64_t[]){h->dilation, v->dilation});
  k = add_ints_attr(n, attrs, k, "padding", 4, (int64_t[]){h->low, h->high, v->low, v->high});
  attrs[k++] = msc_named(n->ctx, "groups", msc_int(groups));
  return x && w ? with_attrs(n->b, OP_conv2d_transpose, 2, (msc_value *[]){x, w}, k, attrs) : NULL;
}

/* Builds a transposed convolution of volumes as a sum over the planes of the kernel: each gives transposed
 * convolutions of two dimensions, whose results lie `stride` planes apart. */
static msc_value *transpose_volumes(onnx_node *n, msc_value *x, msc_value *w, const windows *at, int64_t groups) {
  const window *d = &at->dim[0];
  int64_t whole = (d->x - 1) * d->stride + reach_of_window(d), need = d->y + d->low;
  if (d->kernel > MAX_PLANES) return onnx_refuse(n, "a kernel of %" PRId64 " planes is too large", d->kernel), NULL;
  if (need > whole) whole = need;
  msc_value *sum = NULL;
  for (int64_t k = 0; k < d->kernel; k++) {
    msc_value *y = transpose_pair(n, as_images(n, x, 0, d->x, 1), plane(n, w, k), &at->dim[1], &at->dim[2], groups);
    y = as_volumes(n, y, x->type->dim[0]);
    if (!y) return NULL;
    int64_t low = k * d->dilation, high = whole - low - ((d->x - 1) * d->stride + 1);
    y = pad_with(n->b, y, (int64_t[]){0, 0, low, 0, 0}, (int64_t[]){0, 0, high, 0, 0},
                 (int64_t[]){1, 1, d->stride, 1, 1}, 0);
    sum = sum && y ? plus(n->b, sum, y) : y;
    if (!sum) return NULL;
  }
  return sum ? part_of(n->b, sum, 2, d->low, d->low + d->y) : NULL;
}

bool onnx_build_conv_transpose(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *w = onnx_in(n, 1), *y;
  windows at;
  int64_t groups = onnx_int(n, "group", 1), more[2 * MAX_SPACE], shape[2 * MAX_SPACE];
  if (!x || !w) return false;
  if (w->type->rank != x->type->rank)
    return onnx_refuse(n, "weights have rank %d, the input %d", w->type->rank, x->type->rank);
  if (!windows_of(n, x->type, w->type->dim + 2, true, &at) || !onnx_sizes(n, "output_padding", at.num, 0, more))
    return false;
  int num = onnx_ints(n, "output_shape", shape, 2 * MAX_SPACE);
  const char *automatic = onnx_text(n, "auto_pad", "NOTSET");
  bool same = !strncmp(automatic, "SAME_", 5);
  if (num == -2 || (num >= 0 && num < at.num)) return onnx_refuse(n, "output_shape has too few entries");
  for (int i = 0; i < at.num; i++) {
    window *d = &at.dim[i];
    int64_t whole = (d->x - 1) * d->stride + more[i] + reach_of_window(d);
    if (num >= 0 || same) {
      d->y = num >= 0 ? shape[num - at.num + i] : d->x * d->stride;
      int64_t total = whole - d->y;
      if (total < 0) more[i] -= total, total = 0;
      d->low = !strcmp(automatic, "SAME_UPPER") ? total / 2 : total - total / 2;
      if (num >= 0 && !same) d->low = total / 2;
      d->high = total - d->low;
    } else {
      d->y = whole - d->low - d->high;
    }
    if (d->y < 1) return onnx_refuse(n, "its result is empty in dimension %d", 2 + i);
  }
  if (at.num == 1) {
    msc_value *images = with_height(n->b, x);
    y = without_height(n->b, transpose_pair(n, images, with_height(n->b, w), &still, &at.dim[0], groups));
  } else if (at.num == 2) y = transpose_pair(n, x, w, &at.dim[0], &at.dim[1], groups);
  else y = transpose_volumes(n, x, w, &at, groups);
  return onnx_set(n, 0, onnx_add_bias(n, y, 2));
}

/* Columns [n, c * block, windows] added up at the places of their windows: for every element of the block, its columns
 * lie `stride` apart. */
bool onnx_build_col2im(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *sum = NULL;
  int64_t image[MAX_SPACE], block[MAX_SPACE], stride[2 * MAX_SPACE], dilation[2 * MAX_SPACE], pads[2 * MAX_SPACE];
  int num, num_block;
  if (!x || !onnx_ints_of(n, 1, "", 1, image, MAX_SPACE, &num) ||
      !onnx_ints_of(n, 2, "", 1, block, MAX_SPACE, &num_block))
    return false;
  if (num < 1 || num != num_block || x->type->rank != 3) return onnx_refuse(n, "its shapes do not fit each other");
  MSC_TRY(onnx_sizes(n, "strides", num, 1, stride) && onnx_sizes(n, "dilations", num, 1, dilation) &&
          onnx_sizes(n, "pads", 2 * num, 0, pads));
  int64_t dim[2 + 2 * MAX_SPACE] = {x->type->dim[0]}, kernel = 1, places = 1;
  for (int i = 0; i < num; i++) {
    if (image[i] < 1 || block[i] < 1 || block[i] > 4096 || image[i] > LARGEST || stride[i] < 1)
      return onnx_refuse(n, "image_shape, block_shape or strides is out of range");
    int64_t room = image[i] + pads[i] + pads[num + i] - ((block[i] - 1) * dilation[i] + 1);
    dim[2 + num + i] = room / stride[i] + 1, dim[2 + i] = block[i];
    kernel *= block[i], places *= dim[2 + num + i];
    if (room < 0 || kernel > 4096) return onnx_refuse(n, "block_shape is too large");
  }
  if (x->type->dim[1] % kernel || x->type->dim[2] != places) return onnx_refuse(n, "its shapes do not fit each other");
  dim[1] = x->type->dim[1] / kernel;
  x = reshape(n->b, x, 2 + 2 * num, dim);
  for (int64_t k = 0; k < kernel && x; k++) {
    int64_t rest = k, from[8] = {0}, to[8], low[8] = {0}, high[8] = {0}, step[8] = {1, 1, 1, 1, 1},
            to_dim[8] = {dim[0], dim[1]};
    memcpy(to, dim, sizeof to);
    for (int i = num - 1; i >= 0; rest /= block[i--]) {
      from[2 + i] = rest % block[i], to[2 + i] = from[2 + i] + 1;
      low[2 + i] = from[2 + i] * dilation[i], step[2 + i] = stride[i], to_dim[2 + i] = dim[2 + num + i];
      high[2 + i] = image[i] + pads[i] + pads[num + i] - low[2 + i] - ((to_dim[2 + i] - 1) * stride[i] + 1);
    }
    msc_value *part = slice_of(n->b, x, from, to, NULL);
    part = pad_with(n->b, part ? reshape(n->b, part, 2 + num, to_dim) : NULL, low, high, step, 0);
    sum = sum && part ? plus(n->b, sum, part) : part;
    if (!sum) return false;
  }
  for (int i = 0; i < num && sum; i++) sum = part_of(n->b, sum, 2 + i, pads[i], pads[i] + image[i]);
  return onnx_set(n, 0, sum);
}
