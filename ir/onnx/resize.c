/* resize.c: a node that resizes its input in; its ops out: a product with a constant matrix for each dimension, or a
 * gather if every element is one of the input's. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

enum { MAX_TAPS = 4096, MAX_MATRIX = 1 << 24 };

typedef struct {
  const char *mode, *place, *nearest; /* mode, coordinate_transformation_mode, nearest_mode */
  double a, outside;                  /* of cubics; beyond the region */
  bool exclude, antialias;
} resize_modes;

/* The place in the input of element o of the result, which has `out` elements for `in`, `scale` times as many. */
static double place_in_input(const resize_modes *r, int64_t o, int64_t in, int64_t out, double scale,
                             const double *roi) {
  double width = scale * (double)in, x = (double)o, last = (double)in - 1;
  if (!strcmp(r->place, "asymmetric")) return x / scale;
  if (!strcmp(r->place, "align_corners")) return width == 1 ? 0 : x * last / (width - 1);
  if (!strcmp(r->place, "pytorch_half_pixel")) return width == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
  if (!strcmp(r->place, "tf_crop_and_resize"))
    return roi[0] * last + (width == 1 ? (roi[1] - roi[0]) * last / 2 : x * (roi[1] - roi[0]) * last / (width - 1));
  double middle = (x + 0.5) / scale - 0.5;
  if (!strcmp(r->place, "half_pixel_symmetric")) middle += (double)in / 2 * (1 - (double)out / width);
  return middle;
}

static double cubic(double a, double x) {
  x = fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The element nearest to x. */
static int64_t nearest(const resize_modes *r, double x) {
  double down = floor(x), rest = x - down;
  if (rest == 0) return (int64_t)x;
  bool up = !strcmp(r->nearest, "ceil") || (!strcmp(r->nearest, "round_prefer_ceil") ? rest >= 0.5 : rest > 0.5);
  if (!strcmp(r->nearest, "floor")) up = false;
  return (int64_t)down + up;
}

static int64_t inside(int64_t i, int64_t num) { return i < 0 ? 0 : i >= num ? num - 1 : i; }

/* Fills column o of a matrix [in,out]: the weights of the input's elements in element o of the result. */
static void weigh_elements(const resize_modes *r, double *matrix, int64_t o, int64_t in, int64_t out, double x,
                           double scale) {
  double first = ceil(x) - 1, rest = x - first, reach = r->mode[0] == 'c' ? 2 : 1, sum = 0;
  double shrink = r->antialias && scale < 1 ? scale : 1;
  int64_t from = (int64_t)floor(-reach / shrink) + 1, to = 1 - from;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = from; i <= to; i++) {
      double d = ((double)i - rest) * shrink, w = reach == 2 ? cubic(r->a, d) : fmax(0, 1 - fabs(d));
      int64_t at = (int64_t)first + i;
      if (r->exclude && (at < 0 || at >= in)) continue;
      if (pass) matrix[inside(at, in) * out + o] += w / sum;
      else sum += w;
    }
}

/* Resizes one dimension of x; *outside receives the elements of the result that are beyond the region, if any may
 * be. */
static msc_value *resize_dim(onnx_node *n, const resize_modes *r, msc_value *x, int d, int64_t out, double scale,
                             const double *roi, msc_value **outside) {
  int64_t in = x->type->dim[d], dim[MSC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  bool beyond = false, same = in == out;
  double *at = msc_new_array(n->scratch, double, out + 1), *mask = msc_new_array(n->scratch, double, out + 1);
  for (int64_t o = 0; o < out; o++) {
    at[o] = place_in_input(r, o, in, out, scale, roi);
    if (!(fabs(at[o]) < 1e15)) return onnx_refuse(n, "a scale is out of range"), NULL;
    mask[o] = !strcmp(r->place, "tf_crop_and_resize") && (at[o] < 0 || at[o] > (double)in - 1);
    beyond |= mask[o] != 0, same &= at[o] == (double)o;
  }
  if (beyond) {
    dim[d] = out;
    msc_value *m = onnx_dense(n->b, MSC_I1, x->type->rank, dim, mask);
    *outside = *outside ? msc_compute(n->b, "logical_or(a, b)", *outside, m) : m;
  }
  if (same) return x;
  if (r->mode[0] == 'n') {
    for (int64_t o = 0; o < out; o++) at[o] = (double)inside(nearest(r, at[o]), in);
    return gather(n->b, x, onnx_dense(n->b, MSC_I64, 1, &out, at), d);
  }
  if ((double)in * (double)out > MAX_MATRIX || 1 / scale > MAX_TAPS)
    return onnx_refuse(n, "from %" PRId64 " to %" PRId64 " elements is not supported", in, out), NULL;
  double *matrix = msc_new_array(n->scratch, double, in *out + 1);
  for (int64_t o = 0; o < out; o++) weigh_elements(r, matrix, o, in, out, at[o], scale);
  int last = x->type->rank - 1;
  msc_value *w = onnx_dense(n->b, x->type->dtype, 2, (int64_t[]){in, out}, matrix);
  return onnx_move_dim(n->b, onnx_matmul(n->b, onnx_move_dim(n->b, x, d, last), w), last, d);
}

/* Scales of all dimensions, from those of some, or from sizes. */
static bool scales_of(onnx_node *n, const msc_type *x, size_t at_scales, size_t at_sizes, int num, const int *axis,
                      double *scale, int64_t *size) {
  size_t k = 0;
  for (int d = 0; d < x->rank; d++) scale[d] = 1, size[d] = x->dim[d];
  const double *v = onnx_has(n, at_scales) ? onnx_const_floats(n, at_scales, &k) : NULL;
  if (onnx_has(n, at_scales) && !v) return false;
  if (k) {
    if (k != (size_t)num) return onnx_refuse(n, "says %zu scales for %d dimensions", k, num);
    for (int i = 0; i < num; i++) {
      scale[axis[i]] = v[i];
      double out = floor(v[i] * (double)x->dim[axis[i]]);
      if (!(v[i] > 0 && out >= 0 && out < 1e9)) return onnx_refuse(n, "scale %g is out of range", v[i]);
      size[axis[i]] = (int64_t)out;
    }
    return true;
  }
  const int64_t *s = onnx_const_ints(n, at_sizes, &k);
  const char *policy = onnx_text(n, "keep_aspect_ratio_policy", "stretch");
  bool larger = !strcmp(policy, "not_smaller"), keeps = larger || !strcmp(policy, "not_larger");
  double common = 0;
  if (!s) return false;
  if (k != (size_t)num) return onnx_refuse(n, "says %zu sizes for %d dimensions", k, num);
  for (int i = 0; i < num; i++) {
    if (s[i] < 1 || s[i] > 1000000000) return onnx_refuse(n, "size %" PRId64 " is out of range", s[i]);
    size[axis[i]] = s[i], scale[axis[i]] = (double)s[i] / (double)x->dim[axis[i]];
    if (!i || (larger ? scale[axis[i]] > common : scale[axis[i]] < common)) common = scale[axis[i]];
  }
  for (int i = 0; keeps && i < num; i++) {
    scale[axis[i]] = common;
    size[axis[i]] = (int64_t)floor(common * (double)x->dim[axis[i]] + 0.5);
  }
  return true;
}

static bool resize_by(onnx_node *n, const resize_modes *r, msc_value *in, const double *scale, const int64_t *size,
                      const double *roi) {
  msc_value *outside = NULL, *x = r->mode[0] == 'n' || msc_is_float(in->type->dtype) ? in : cast(n->b, in, MSC_F32);
  if (r->mode[0] != 'n') x = widen(n->b, x);
  for (int d = 0; d < in->type->rank && x; d++)
    if (size[d] != in->type->dim[d] || scale[d] != 1 || !strcmp(r->place, "tf_crop_and_resize"))
      x = resize_dim(n, r, x, d, size[d], scale[d], roi + 2 * d, &outside);
  if (x && outside) x = choose(n->b, outside, like(n->b, x, r->outside), x);
  return onnx_set(n, 0, x ? cast(n->b, x, in->type->dtype) : NULL);
}

bool onnx_build_resize(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  bool old = n->opset < 11;
  resize_modes r = {.mode = onnx_text(n, "mode", "nearest"),
                    .place = onnx_text(n, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
                    .nearest = onnx_text(n, "nearest_mode", old ? "floor" : "round_prefer_floor"),
                    .a = onnx_float(n, "cubic_coeff_a", -0.75),
                    .outside = onnx_float(n, "extrapolation_value", 0),
                    .exclude = onnx_int(n, "exclude_outside", 0) != 0,
                    .antialias = onnx_int(n, "antialias", 0) != 0};
  int64_t axes[MSC_MAX_RANK], size[MSC_MAX_RANK];
  double scale[MSC_MAX_RANK], roi[2 * MSC_MAX_RANK];
  int axis[MSC_MAX_RANK], num = onnx_ints(n, "axes", axes, MSC_MAX_RANK);
  if (!x || num == -2) return false;
  if (!onnx_is_one_of(r.mode, "nearest linear cubic")) return onnx_refuse(n, "mode '%s' is unknown", r.mode);
  if (!onnx_is_one_of(r.nearest, "round_prefer_floor round_prefer_ceil floor ceil"))
    return onnx_refuse(n, "nearest_mode '%s' is unknown", r.nearest);
  if (!onnx_is_one_of(r.place,
                 "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric "
                 "tf_crop_and_resize"))
    return onnx_refuse(n, "coordinate_transformation_mode '%s' is unknown", r.place);
  for (int i = 0; i < num; i++) MSC_TRY(onnx_axis(n, axes[i], x->type->rank, &axis[i]));
  for (int d = 0; num < 0 && d < x->type->rank; d++) axis[d] = d;
  if (num < 0) num = x->type->rank;
  for (int d = 0; d < x->type->rank; d++) roi[2 * d] = 0, roi[2 * d + 1] = 1;
  if (!strcmp(r.place, "tf_crop_and_resize")) {
    size_t k;
    const double *v = onnx_const_floats(n, 1, &k);
    if (!v || k != 2 * (size_t)num) return v && onnx_refuse(n, "roi has %zu entries, not %d", k, 2 * num);
    for (int i = 0; i < num; i++) roi[2 * axis[i]] = v[i], roi[2 * axis[i] + 1] = v[num + i];
  }
  MSC_TRY(scales_of(n, x->type, old ? 1 : 2, 3, num, axis, scale, size));
  return resize_by(n, &r, x, scale, size, roi);
}

bool onnx_build_upsample(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  resize_modes r = {.mode = onnx_text(n, "mode", "nearest"), .place = "asymmetric", .nearest = "floor"};
  double scale[MSC_MAX_RANK], roi[2 * MSC_MAX_RANK] = {0};
  int64_t size[MSC_MAX_RANK];
  int axis[MSC_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  if (!x) return false;
  if (!strcmp(r.mode, "bilinear")) r.mode = "linear";
  if (!onnx_is_one_of(r.mode, "nearest linear")) return onnx_refuse(n, "mode '%s' is unknown", r.mode);
  if (n->opset >= 9) {
    MSC_TRY(scales_of(n, x->type, 1, 9, x->type->rank, axis, scale, size));
    return resize_by(n, &r, x, scale, size, roi);
  }
  const onnx_attr *scales = onnx_attr_of(n, "scales", ONNX_FLOATS);
  if (!scales || scales->type != ONNX_FLOATS || scales->num != (size_t)x->type->rank)
    return onnx_refuse(n, "its scales are not as many as dimensions");
  for (int d = 0; d < x->type->rank; d++) {
    scale[d] = (double)scales->floats[d];
    double out = floor(scale[d] * (double)x->type->dim[d]);
    if (!(out >= 1 && out < 1e9)) return onnx_refuse(n, "scale %g is out of range", scale[d]);
    size[d] = (int64_t)out;
  }
  return resize_by(n, &r, x, scale, size, roi);
}
