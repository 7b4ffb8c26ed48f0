/* sample.c: a node that reads its input between elements, at computed places, in; its ops out, which gather the
 * neighbours of every place and weigh them. */
#include <string.h>

#include "ir/onnx/onnx.h"

enum { MAX_PLACES = 1 << 24 };

typedef struct {
  const char *mode, *padding;
  bool corners;
} sample_modes;

/* x mirrored at low and high until it is between them. */
static msc_value *mirror_into(msc_builder *b, msc_value *x, double low, double high) {
  double range = high - low;
  if (range <= 0) return like(b, x, low);
  msc_value *first = like(b, x, low), *both = like(b, x, 2 * range), *t = msc_compute(b, "a - b", x, first);
  t = msc_compute(b, "a - floor(a / b) * b", t, both);
  return msc_compute(b, "min(a, b - a) + c", t, both, first);
}

static msc_value *clamp_between(msc_builder *b, msc_value *x, double low, double high) {
  msc_value *first = like(b, x, low), *last = like(b, x, high);
  return msc_compute(b, "min(max(a, b), c)", x, first, last);
}

/* An integer place moved inside by the mode of padding; *weight becomes 0 where padding is zeros. */
static msc_value *clip_place(msc_builder *b, const sample_modes *s, msc_value *at, int64_t num, msc_value **weight) {
  double last = (double)num - 1;
  if (s->padding[0] == 'r') {
    at = mirror_into(b, at, s->corners ? 0 : -0.5, s->corners ? last : last + 0.5);
    at = msc_compute(b, "floor(a)", at);
  } else if (s->padding[0] == 'z') {
    msc_value *low = compare(b, MSC_GE, at, like(b, at, 0)), *high = compare(b, MSC_LE, at, like(b, at, last));
    *weight = choose(b, onnx_both(b, low, high), *weight, like(b, *weight, 0));
  }
  return clamp_between(b, at, 0, last);
}

/* Weights of the taps along one dimension, for the part `t` of the way to the next element. */
static int tap_weights(msc_builder *b, const sample_modes *s, msc_value *t, msc_value **out) {
  msc_value *one = like(b, t, 1);
  if (s->mode[0] == 'n') return out[0] = one, 1;
  if (strstr(s->mode, "linear")) return out[0] = minus(b, one, t), out[1] = t, 2;
  for (int i = 0; i < 4; i++) { /* of Keys' cubics with -0.75 */
    const double a = -0.75, shift = i - 1;
    msc_value *d = msc_compute(b, "abs(a - b)", t, like(b, t, shift));
    bool near = i == 1 || i == 2;
    msc_value *p =
        near ? minus(b, scale_by(b, d, a + 2), like(b, t, a + 3)) : minus(b, scale_by(b, d, a), like(b, t, 5 * a));
    if (near) p = plus(b, times(b, times(b, p, d), d), one);
    else {
      p = plus(b, times(b, p, d), like(b, t, 8 * a));
      p = minus(b, times(b, p, d), like(b, t, 4 * a));
    }
    out[i] = p;
  }
  return 4;
}

/* Finds the taps of one dimension of `size` elements at the places c, their numbers and weights; returns how many there
 * are, 0 after a report. */
static int find_taps(msc_builder *b, const sample_modes *s, msc_value *c, int64_t size, msc_value **out_index,
                     msc_value **out_weight) {
  double low = s->corners ? 0 : -0.5, high = s->corners ? (double)size - 1 : (double)size - 0.5;
  if (s->mode[0] == 'n') c = msc_compute(b, "round(a)", c);
  if (s->padding[0] == 'b') c = clamp_between(b, c, 0, (double)size - 1);
  if (s->padding[0] == 'r') c = mirror_into(b, c, low, high);
  c = clamp_between(b, c, -1e6, (double)size + 1e6); /* so that infinities and NaN name no element */
  msc_value *first = msc_compute(b, s->mode[0] == 'n' ? "round(a)" : "floor(a)", c);
  if (!first) return 0;
  int taps = tap_weights(b, s, minus(b, c, first), out_weight);
  for (int j = 0; j < taps; j++) {
    double shift = taps == 4 ? j - 1 : j;
    msc_value *at = clip_place(b, s, plus(b, first, like(b, first, shift)), size, &out_weight[j]);
    out_index[j] = cast(b, at, MSC_I32);
    if (!out_index[j] || !out_weight[j]) return 0;
  }
  return taps;
}

/* Combines, over all combinations of taps, the elements times their weights: x [n,c,elements] of `num` dimensions,
 * indices and weights [n,1,places], which may broadcast. */
static msc_value *combine_taps(onnx_node *n, msc_reduction how, msc_value *x, int num, const int *taps,
                               msc_value *index[][4], msc_value *weight[][4], const int64_t *dim) {
  int64_t combinations = 1;
  msc_value *sum = NULL;
  for (int i = 0; i < num; i++) combinations *= taps[i];
  for (int64_t k = 0; k < combinations; k++) {
    msc_value *at = NULL, *w = NULL;
    int64_t rest = k;
    for (int i = 0; i < num; i++) {
      int j = (int)(rest % taps[i]);
      rest /= taps[i];
      at = at ? plus(n->b, scale_by(n->b, at, (double)dim[i]), index[i][j]) : index[i][j];
      w = w ? times(n->b, w, weight[i][j]) : weight[i][j];
    }
    if (!at || !w) return NULL;
    int64_t to[3] = {x->type->dim[0], x->type->dim[1], at->type->dim[2]};
    msc_value *places = broadcast(n->b, at, 3, to);
    msc_value *v = take_along(n->b, x, places, 2);
    v = v ? times(n->b, v, w) : NULL;
    sum = sum && v ? combine_by(n->b, how, sum, v) : v;
    if (!sum) return NULL;
  }
  return sum;
}

bool onnx_build_grid_sample(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in), *grid = widen(n->b, onnx_in(n, 1));
  sample_modes s = {onnx_text(n, "mode", n->opset < 20 ? "bilinear" : "linear"), onnx_text(n, "padding_mode", "zeros"),
                    onnx_int(n, "align_corners", 0) != 0};
  if (!x || !grid) return false;
  if (!onnx_is_one_of(s.mode, "nearest linear bilinear cubic bicubic"))
    return onnx_refuse(n, "mode '%s' is unknown", s.mode);
  if (!onnx_is_one_of(s.padding, "zeros border reflection"))
    return onnx_refuse(n, "padding_mode '%s' is unknown", s.padding);
  int num = x->type->rank - 2, taps[3];
  if (num < 1 || num > 3 || grid->type->rank != num + 2 || grid->type->dim[num + 1] != num)
    return onnx_refuse(n, "its grid does not fit its input");
  int64_t places = 1, elements = 1, batch = x->type->dim[0], dim[MSC_MAX_RANK] = {batch, x->type->dim[1]};
  for (int i = 0; i < num; i++) places *= (dim[2 + i] = grid->type->dim[1 + i]), elements *= x->type->dim[2 + i];
  grid = reshape(n->b, grid, 3, (int64_t[]){batch, places, num});
  msc_value *index[3][4], *weight[3][4];
  for (int i = 0; i < num; i++) { /* coordinates come last dimension first */
    int64_t size = x->type->dim[2 + i];
    msc_value *c = part_of(n->b, grid, 2, num - 1 - i, num - i);
    c = c ? cast(n->b, reshape(n->b, c, 3, (int64_t[]){batch, 1, places}), x->type->dtype) : NULL;
    if (!c) return false;
    msc_value *up = plus(n->b, c, like(n->b, c, 1));
    c = s.corners ? scale_by(n->b, scale_by(n->b, up, 0.5), (double)size - 1)
                  : scale_by(n->b, minus(n->b, scale_by(n->b, up, (double)size), like(n->b, c, 1)), 0.5);
    taps[i] = find_taps(n->b, &s, c, size, index[i], weight[i]);
    if (!taps[i]) return false;
  }
  msc_value *flat = reshape(n->b, x, 3, (int64_t[]){batch, x->type->dim[1], elements});
  msc_value *y = combine_taps(n, MSC_SUM, flat, num, taps, index, weight, x->type->dim + 2);
  return onnx_set(n, 0, y ? cast(n->b, reshape(n->b, y, num + 2, dim), in->type->dtype) : NULL);
}

/* theta [n,d,d+1] times the places of a grid of `size`: [n,..,d] */
bool onnx_build_affine_grid(onnx_node *n) {
  msc_value *theta = onnx_in(n, 0);
  bool corners = onnx_int(n, "align_corners", 0) != 0;
  int64_t size[MSC_MAX_RANK], places = 1, dim[MSC_MAX_RANK];
  int num;
  if (!theta || !onnx_ints_of(n, 1, "size", 1, size, 5, &num)) return false;
  int d = num - 2;
  if (d < 2 || theta->type->rank != 3 || theta->type->dim[1] != d || theta->type->dim[2] != d + 1)
    return onnx_refuse(n, "theta does not fit size");
  dim[0] = theta->type->dim[0], dim[d + 1] = d;
  for (int i = 0; i < d; i++) {
    if (size[2 + i] < 1 || size[2 + i] > 1 << 20 || (places *= size[2 + i]) > MAX_PLACES)
      return onnx_refuse(n, "size is out of range");
    dim[1 + i] = size[2 + i];
  }
  double *v = msc_new_array(n->scratch, double, places *(d + 1));
  for (int64_t p = 0; p < places; p++) {
    int64_t rest = p;
    for (int i = d - 1; i >= 0; rest /= size[2 + i--]) {
      double k = (double)(rest % size[2 + i]), s = (double)size[2 + i];
      v[p * (d + 1) + d - 1 - i] = corners ? (s > 1 ? 2 * k / (s - 1) : 0) - 1 : (2 * k + 1) / s - 1;
    }
    v[p * (d + 1) + d] = 1;
  }
  msc_value *grid = onnx_dense(n->b, theta->type->dtype, 3, (int64_t[]){1, places, d + 1}, v);
  msc_value *y = onnx_matmul(n->b, grid, transpose(n->b, theta, (int64_t[]){0, 2, 1}));
  return onnx_set(n, 0, y ? reshape(n->b, y, d + 2, dim) : NULL);
}

/* A convolution whose window reads each of its elements where an offset moves it to.  All that windows read becomes
 * columns, [n,group,channels of a group * elements of a window,windows], which the weights multiply. */
bool onnx_build_deform_conv(onnx_node *n) {
  static const sample_modes zeros = {"linear", "zeros", true};
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in), *w = onnx_in(n, 1), *moved = onnx_in(n, 2);
  int64_t groups = onnx_int(n, "group", 1), parts = onnx_int(n, "offset_group", 1), kernel[2], stride[2], dilation[2],
          pads[4];
  if (!x || !w || !moved) return false;
  const int64_t *d = x->type->dim, *from = w->type->dim, *to = moved->type->dim;
  if (x->type->rank != 4 || w->type->rank != 4 || moved->type->rank != 4)
    return onnx_refuse(n, "takes two dimensions behind the first two, not %d", x->type->rank - 2);
  MSC_TRY(onnx_sizes(n, "kernel_shape", 2, 0, kernel) && onnx_sizes(n, "strides", 2, 1, stride) &&
          onnx_sizes(n, "dilations", 2, 1, dilation) && onnx_sizes(n, "pads", 4, 0, pads));
  int64_t batch = d[0], elems = from[2] * from[3], places = to[2] * to[3];
  bool fits = groups > 0 && groups <= from[0] && from[0] % groups == 0 && d[1] == from[1] * groups;
  fits = fits && parts > 0 && parts <= d[1] && d[1] % parts == 0 && to[0] == batch && to[1] == 2 * parts * elems;
  for (int i = 0; i < 2; i++) fits = fits && (!kernel[i] || kernel[i] == from[2 + i]);
  if (!fits) return onnx_refuse(n, "its input, weights and offsets do not fit each other");
  if (elems < 1 || places < 1 || !msc_type_elems(x->type) || elems > MAX_PLACES / places)
    return onnx_refuse(n, "its input or result is empty or too large");
  moved = cast(n->b, reshape(n->b, moved, 4, (int64_t[]){batch * parts, elems, 2, places}), x->type->dtype);
  msc_value *index[2][4], *weight[2][4];
  double *at = msc_new_array(n->scratch, double, elems > places ? elems : places);
  int taps[2];
  for (int i = 0; i < 2; i++) {
    for (int64_t k = 0; k < elems; k++) at[k] = (double)((i ? k % from[3] : k / from[3]) * dilation[i] - pads[i]);
    msc_value *element = onnx_dense(n->b, x->type->dtype, 3, (int64_t[]){1, elems, 1}, at);
    for (int64_t p = 0; p < places; p++) at[p] = (double)((i ? p % to[3] : p / to[3]) * stride[i]);
    msc_value *window = onnx_dense(n->b, x->type->dtype, 3, (int64_t[]){1, 1, places}, at);
    msc_value *by = part_of(n->b, moved, 2, i, i + 1);
    by = by ? reshape(n->b, by, 3, (int64_t[]){batch * parts, elems, places}) : NULL;
    msc_value *c = by ? plus(n->b, by, plus(n->b, window, element)) : NULL;
    c = c ? reshape(n->b, c, 3, (int64_t[]){batch * parts, 1, elems * places}) : NULL;
    if (!c || !(taps[i] = find_taps(n->b, &zeros, c, d[2 + i], index[i], weight[i]))) return false;
  }
  x = reshape(n->b, x, 3, (int64_t[]){batch * parts, d[1] / parts, d[2] * d[3]});
  x = combine_taps(n, MSC_SUM, x, 2, taps, index, weight, d + 2);
  if (x && onnx_has(n, 4)) {
    msc_value *mask = onnx_in(n, 4);
    if (!mask || msc_type_elems(mask->type) != batch * parts * elems * places)
      return mask && onnx_refuse(n, "its mask does not fit its offsets");
    mask = reshape(n->b, mask, 3, (int64_t[]){batch * parts, 1, elems * places});
    x = mask ? times(n->b, x, cast(n->b, mask, x->type->dtype)) : NULL;
  }
  x = x ? reshape(n->b, x, 4, (int64_t[]){batch, groups, from[1] * elems, places}) : NULL;
  w = cast(n->b, reshape(n->b, w, 4, (int64_t[]){1, groups, from[0] / groups, from[1] * elems}), x->type->dtype);
  msc_value *y = onnx_matmul(n->b, w, x);
  y = y ? reshape(n->b, y, 4, (int64_t[]){batch, from[0], to[2], to[3]}) : NULL;
  return onnx_set(n, 0, onnx_add_bias(n, cast(n->b, y, in->type->dtype), 3));
}

/* The places in one dimension that regions [r,4] read: `samples` in each of `bins` parts, [r,bins * samples].  A region
 * goes from its coordinate `first` to the one two behind. */
static msc_value *region_places(onnx_node *n, msc_value *regions, int first, int64_t bins, int64_t samples,
                                bool half_pixel) {
  double scale = onnx_float(n, "spatial_scale", 1), *at = msc_new_array(n->scratch, double, bins *samples + 1);
  int64_t num = bins * samples;
  for (int64_t i = 0; i < num; i++)
    at[i] = ((double)(i / samples) + ((double)(i % samples) + 0.5) / (double)samples) / (double)bins;
  msc_value *edge[2];
  for (int i = 0; i < 2; i++) {
    edge[i] = scale_by(n->b, part_of(n->b, regions, 1, first + 2 * i, first + 2 * i + 1), scale);
    if (half_pixel && edge[i]) edge[i] = minus(n->b, edge[i], like(n->b, edge[i], 0.5));
    if (!edge[i]) return NULL;
  }
  msc_value *width = minus(n->b, edge[1], edge[0]);
  if (!half_pixel) width = msc_compute(n->b, "max(a, b)", width, like(n->b, width, 1));
  return plus(n->b, edge[0], times(n->b, width, onnx_dense(n->b, width->type->dtype, 2, (int64_t[]){1, num}, at)));
}

/* Means, or largest products with their weights, over each of the bins that a region of an image is cut into. */
bool onnx_build_roi_align(onnx_node *n) {
  static const sample_modes inside = {"linear", "border", true};
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in), *regions = onnx_in(n, 1), *image = onnx_in(n, 2);
  const char *mode = onnx_text(n, "mode", "avg"), *at_pixel = n->opset < 16 ? "output_half_pixel" : "half_pixel";
  int64_t bins[2] = {onnx_int(n, "output_height", 1), onnx_int(n, "output_width", 1)},
          samples = onnx_int(n, "sampling_ratio", 0);
  at_pixel = onnx_text(n, "coordinate_transformation_mode", at_pixel);
  if (!x || !regions || !image) return false;
  if (!onnx_is_one_of(mode, "avg max")) return onnx_refuse(n, "mode '%s' is unknown", mode);
  if (!onnx_is_one_of(at_pixel, "half_pixel output_half_pixel"))
    return onnx_refuse(n, "coordinate_transformation_mode '%s' is unknown", at_pixel);
  if (x->type->rank != 4 || regions->type->rank != 2 || regions->type->dim[1] != 4 || image->type->rank != 1 ||
      image->type->dim[0] != regions->type->dim[0])
    return onnx_refuse(n, "its input, regions and batch indices do not fit each other");
  if (!msc_type_elems(x->type) || !msc_type_elems(regions->type)) return onnx_refuse(n, "its input is empty");
  if (samples < 1)
    return onnx_refuse(n, "a sampling_ratio of 0, where regions decide how many samples are read, is not supported");
  int64_t num = regions->type->dim[0], most = MAX_PLACES / (num + 1);
  for (int i = 0; i < 2; i++)
    if (bins[i] < 1 || bins[i] > most || samples > most || (most /= bins[i] * samples) < 1)
      return onnx_refuse(n, "its result is empty or too large");
  const int64_t *d = x->type->dim, rows = bins[0] * samples, columns = bins[1] * samples;
  int64_t at[2][3] = {{num, rows, 1}, {num, 1, columns}};
  msc_value *index[3][4], *weight[3][4], *at_image = cast(n->b, image, MSC_I32);
  int taps[3] = {1};
  regions = cast(n->b, regions, x->type->dtype);
  int64_t size[3] = {num, rows, columns}, flat[3] = {1, 1, num * rows * columns};
  for (int i = 0; i < 2; i++) {
    msc_value *c = region_places(n, regions, 1 - i, bins[i], samples, at_pixel[0] == 'h');
    c = c ? reshape(n->b, c, 3, at[i]) : NULL;
    if (!c || !(taps[1 + i] = find_taps(n->b, &inside, c, d[2 + i], index[1 + i], weight[1 + i]))) return false;
    msc_value *low = compare(n->b, MSC_GE, c, like(n->b, c, -1));
    msc_value *reads = onnx_both(n->b, low, compare(n->b, MSC_LE, c, like(n->b, c, (double)d[2 + i])));
    for (int k = 0; k < taps[1 + i]; k++) {
      msc_value *share = choose(n->b, reads, weight[1 + i][k], like(n->b, c, 0));
      weight[1 + i][k] = reshape(n->b, broadcast(n->b, share, 3, size), 3, flat);
      index[1 + i][k] = reshape(n->b, broadcast(n->b, index[1 + i][k], 3, size), 3, flat);
    }
  }
  at_image = reshape(n->b, at_image, 3, (int64_t[]){num, 1, 1});
  index[0][0] = reshape(n->b, broadcast(n->b, at_image, 3, size), 3, flat), weight[0][0] = like(n->b, x, 1);
  x = reshape(n->b, onnx_move_dim(n->b, x, 1, 0), 3, (int64_t[]){1, d[1], d[0] * d[2] * d[3]});
  bool mean = mode[0] == 'a';
  msc_value *y = combine_taps(n, mean ? MSC_SUM : MSC_MAX, x, 3, taps, index, weight, (int64_t[]){d[0], d[2], d[3]});
  y = y ? reshape(n->b, y, 6, (int64_t[]){d[1], num, bins[0], samples, bins[1], samples}) : NULL;
  y = y ? reduce(n->b, mean ? OP_reduce_mean : OP_reduce_max, y, 2, (int64_t[]){3, 5}, false) : NULL;
  return onnx_set(n, 0, cast(n->b, onnx_move_dim(n->b, y, 1, 0), in->type->dtype));
}
