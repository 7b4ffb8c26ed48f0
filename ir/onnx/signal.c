/* signal.c: a Fourier transform, window or count of n-grams in; its ops out.  Transforms are products with matrices of
 * cosines and sines. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

enum { MAX_LENGTH = 4096, MAX_BINS = 1 << 16 };

/* cos or sin of 2 pi i k / length for rows i and columns k, times the weight of the row or column. */
static msc_value *angles(onnx_node *n, msc_dtype dtype, int64_t rows, int64_t columns, int64_t length, bool sine,
                         double scale, bool halves) {
  double *v = msc_new_array(n->scratch, double, rows *columns + 1);
  for (int64_t i = 0; i < rows; i++) {
    double w = halves && i && 2 * i != length ? 2 * scale : scale; /* of half a spectrum each bin stands for two */
    for (int64_t k = 0; k < columns; k++) {
      double a = 2 * M_PI * (double)((i * k) % length) / (double)length;
      v[i * columns + k] = w * (sine ? sin(a) : cos(a));
    }
  }
  return onnx_dense(n->b, dtype, 2, (int64_t[]){rows, columns}, v);
}

/* Part i of the last dimension, which is dropped; NULL where there is none. */
static msc_value *component(onnx_node *n, msc_value *x, int64_t i) {
  int last = x->type->rank - 1;
  if (i >= x->type->dim[last]) return NULL;
  msc_value *p = part_of(n->b, x, last, i, i + 1);
  return p ? reshape(n->b, p, last, p->type->dim) : NULL;
}

/* x [..,n,1 or 2], cut or filled up with zeros to `length`: [..,bins,2], of the inverse of half a spectrum
 * [..,length,1]. */
static msc_value *transform(onnx_node *n, msc_value *x, int64_t length, bool inverse, bool onesided) {
  int rank = rank_of(x), axis = rank - 2;
  if (!x || rank < 2 || length < 1 || length > MAX_LENGTH ||
      (x->type->dim[rank - 1] != 1 && x->type->dim[rank - 1] != 2))
    return x ? (onnx_refuse(n, "shape or length %" PRId64 " is not supported", length), NULL) : NULL;
  bool real = inverse && onesided;
  int64_t rows = real ? length / 2 + 1 : length, columns = onesided && !inverse ? length / 2 + 1 : length;
  int64_t zero[MSC_MAX_RANK] = {0}, high[MSC_MAX_RANK] = {0};
  if (x->type->dim[axis] > rows) x = part_of(n->b, x, axis, 0, rows);
  else high[axis] = rows - x->type->dim[axis], x = pad_with(n->b, x, zero, high, NULL, 0);
  if (!x) return NULL;
  msc_value *re = component(n, x, 0), *im = component(n, x, 1);
  double scale = inverse ? 1 / (double)length : 1;
  msc_value *c = angles(n, x->type->dtype, rows, columns, length, false, scale, real);
  msc_value *s = angles(n, x->type->dtype, rows, columns, length, true, inverse ? -scale : scale, real);
  msc_value *out[2] = {onnx_matmul(n->b, re, c), NULL};
  if (im && out[0]) out[0] = plus(n->b, out[0], onnx_matmul(n->b, im, s));
  if (!real) {
    out[1] = msc_compute(n->b, "-a", onnx_matmul(n->b, re, s));
    if (im && out[1]) out[1] = plus(n->b, out[1], onnx_matmul(n->b, im, c));
  }
  for (int i = 0; i < 2 - real; i++) {
    int64_t dim[MSC_MAX_RANK];
    if (!out[i]) return NULL;
    memcpy(dim, out[i]->type->dim, sizeof dim);
    dim[rank - 1] = 1;
    out[i] = reshape(n->b, out[i], rank, dim);
  }
  return real ? out[0] : join_along(n->b, rank - 1, 2, out);
}

bool onnx_build_dft(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in);
  bool inverse = onnx_int(n, "inverse", 0) != 0, onesided = onnx_int(n, "onesided", 0) != 0;
  int64_t at = n->opset < 20 ? onnx_int(n, "axis", 1) : -2, length;
  int axis;
  if (n->opset >= 20 && onnx_has(n, 2)) MSC_TRY(onnx_const_int(n, 2, &at));
  if (!x || !onnx_axis(n, at, x->type->rank, &axis)) return false;
  int last = x->type->rank - 1;
  if (axis == last) return onnx_refuse(n, "its axis is the dimension of real and imaginary parts");
  length = x->type->dim[axis];
  if (inverse && onesided) length = 2 * (length - 1);
  if (onnx_has(n, 1)) MSC_TRY(onnx_const_int(n, 1, &length));
  msc_value *y = transform(n, onnx_move_dim(n->b, x, axis, last - 1), length, inverse, onesided);
  return onnx_set(n, 0, y ? cast(n->b, onnx_move_dim(n->b, y, last - 1, axis), in->type->dtype) : NULL);
}

bool onnx_build_stft(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widen(n->b, in), *window = onnx_has(n, 2) ? onnx_in(n, 2) : NULL;
  int64_t step, length = window ? msc_type_elems(window->type) : 0;
  bool onesided = onnx_int(n, "onesided", 1) != 0;
  if (!x || !onnx_const_int(n, 1, &step) || (onnx_has(n, 3) && !onnx_const_int(n, 3, &length))) return false;
  if (x->type->rank == 2) x = reshape(n->b, x, 3, (int64_t[]){x->type->dim[0], x->type->dim[1], 1});
  if (x->type->rank != 3 || step < 1 || length < 1 || length > x->type->dim[1])
    return onnx_refuse(n, "rank, step or length is out of range");
  int64_t frames = (x->type->dim[1] - length) / step + 1, total = frames * length;
  if (length > MAX_LENGTH || total > 1 << 24) return onnx_refuse(n, "of %" PRId64 " frames is not supported", frames);
  double *at = msc_new_array(n->scratch, double, total + 1);
  for (int64_t i = 0; i < total; i++) at[i] = (double)(i / length * step + i % length);
  msc_value *places = onnx_dense(n->b, MSC_I64, 1, &total, at);
  msc_value *y = gather(n->b, x, places, 1);
  y = y ? reshape(n->b, y, 4, (int64_t[]){x->type->dim[0], frames, length, x->type->dim[2]}) : NULL;
  if (window && y) y = times(n->b, y, reshape(n->b, widen(n->b, window), 2, (int64_t[]){length, 1}));
  y = transform(n, y, length, false, onesided);
  return onnx_set(n, 0, y ? cast(n->b, y, in->type->dtype) : NULL);
}

static bool output_dtype(onnx_node *n, msc_dtype *out) {
  int64_t type = onnx_int(n, "output_datatype", 1);
  return (type >= 0 && type < 1000 && onnx_dtype((int)type, out)) ||
         onnx_refuse(n, "output_datatype is not one that msc has");
}

/* a - b cos(2 pi i / N) + c cos(4 pi i / N) */
bool onnx_build_window(onnx_node *n) {
  static const struct {
    const char *name;
    double a, b, c;
  } kinds[] = {
      {"HannWindow", 0.5, 0.5, 0}, {"HammingWindow", 25.0 / 46, 21.0 / 46, 0}, {"BlackmanWindow", 0.42, 0.5, 0.08}};
  int64_t size;
  msc_dtype dtype;
  bool periodic = onnx_int(n, "periodic", 1) != 0;
  if (!onnx_const_int(n, 0, &size) || !output_dtype(n, &dtype)) return false;
  if (size < 0 || size > 1 << 20) return onnx_refuse(n, "size %" PRId64 " is out of range", size);
  double *v = msc_new_array(n->scratch, double, size + 1), period = periodic ? (double)size : (double)size - 1;
  for (size_t k = 0; k < 3; k++)
    for (int64_t i = 0; !strcmp(n->row->name, kinds[k].name) && i < size; i++) {
      double t = period > 0 ? 2 * M_PI * (double)i / period : 0;
      v[i] = kinds[k].a - kinds[k].b * cos(t) + kinds[k].c * cos(2 * t);
    }
  return onnx_set(n, 0, onnx_dense(n->b, dtype, 1, &size, v));
}

/* Triangles over the bins of a spectrum, whose corners are equally far from each other in mel. */
bool onnx_build_mel_weights(onnx_node *n) {
  int64_t bins, length, rate;
  double low, high;
  msc_dtype dtype;
  if (!onnx_const_int(n, 0, &bins) || !onnx_const_int(n, 1, &length) || !onnx_const_int(n, 2, &rate) ||
      !onnx_const_float(n, 3, &low) || !onnx_const_float(n, 4, &high) || !output_dtype(n, &dtype))
    return false;
  int64_t rows = length / 2 + 1;
  if (bins < 1 || length < 1 || rate < 1 || low < 0 || high < low || bins > MAX_LENGTH || length > MAX_BINS ||
      high > (double)rate)
    return onnx_refuse(n, "a number is out of range");
  double from = 2595 * log10(1 + low / 700), step = (2595 * log10(1 + high / 700) - from) / (double)(bins + 2);
  double *v = msc_new_array(n->scratch, double, rows *bins + 1);
  int64_t *corner = msc_new_array(n->scratch, int64_t, bins + 2);
  for (int64_t i = 0; i < bins + 2; i++) {
    double hertz = 700 * (pow(10, (from + (double)i * step) / 2595) - 1);
    corner[i] = (int64_t)floor((double)(length + 1) * hertz / (double)rate);
    if (corner[i] >= rows) corner[i] = rows - 1;
  }
  for (int64_t m = 0; m < bins; m++) {
    int64_t a = corner[m], c = corner[m + 1], e = corner[m + 2];
    if (a == c) v[c * bins + m] = 1;
    for (int64_t j = a; j <= c && a < c; j++) v[j * bins + m] = (double)(j - a) / (double)(c - a);
    for (int64_t j = c; j < e; j++) v[j * bins + m] = (double)(e - j) / (double)(e - c);
  }
  return onnx_set(n, 0, onnx_dense(n->b, dtype, 2, (int64_t[]){rows, bins}, v));
}

/* ---- n-grams ---- */

/* The number of occurrences of each of `num` n-grams of length `length` in x [rows,size], with up to `skips` numbers
 * between two. */
static msc_value *occurrences(onnx_node *n, msc_value *x, const int64_t *pool, int64_t num, int64_t length,
                              int64_t skips) {
  int64_t rows = x->type->dim[0], size = x->type->dim[1];
  double *v = msc_new_array(n->scratch, double, num + 1);
  msc_value *sum = NULL;
  for (int64_t s = 0; s <= (length > 1 ? skips : 0); s++) {
    int64_t places = size - (length - 1) * (s + 1);
    msc_value *all = NULL;
    for (int64_t j = 0; j < length && places > 0; j++) {
      for (int64_t g = 0; g < num; g++) v[g] = (double)pool[g * length + j];
      msc_value *part = part_of(n->b, x, 1, j * (s + 1), j * (s + 1) + places);
      part = part ? reshape(n->b, part, 3, (int64_t[]){rows, places, 1}) : NULL;
      msc_value *is = part ? compare(n->b, MSC_EQ, part, onnx_dense(n->b, x->type->dtype, 1, &num, v)) : NULL;
      all = is ? onnx_both(n->b, all, is) : NULL;
      if (!all) return NULL;
    }
    if (!all) continue;
    msc_value *count = sum_over(n->b, cast(n->b, all, MSC_F32), 1, (int64_t[]){1}, false);
    sum = sum && count ? plus(n->b, sum, count) : count;
    if (!sum) return NULL;
  }
  return sum ? sum : broadcast(n->b, msc_build_scalar(n->b, MSC_F32, 0), 2, (int64_t[]){rows, num});
}

bool onnx_build_tf_idf(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *sum = NULL;
  const char *mode = onnx_text(n, "mode", "TF");
  int64_t least = onnx_int(n, "min_gram_length", 1), most = onnx_int(n, "max_gram_length", 1);
  int64_t skips = onnx_int(n, "max_skip_count", 0), width = 0, seen = 0;
  const onnx_attr *counts = onnx_attr_of(n, "ngram_counts", ONNX_INTS),
                  *where = onnx_attr_of(n, "ngram_indexes", ONNX_INTS),
                  *pool = onnx_attr_of(n, "pool_int64s", ONNX_INTS), *weights = onnx_attr_of(n, "weights", ONNX_FLOATS);
  if (!x || !counts || !where || !pool) return x && onnx_refuse(n, "has no pool of integers: texts are not supported");
  if (x->type->rank > 2 || x->type->rank < 1 || most > (int64_t)counts->num || least < 1 || skips < 0 || skips > 100)
    return onnx_refuse(n, "rank, length or skips is out of range");
  if (weights && weights->num != where->num) return onnx_refuse(n, "weights do not fit ngram_indexes");
  for (size_t i = 0; i < where->num; i++)
    if (where->ints[i] < 0 || where->ints[i] >= 1 << 16) return onnx_refuse(n, "ngram_indexes is out of range");
    else if (where->ints[i] >= width) width = where->ints[i] + 1;
  bool flat = x->type->rank == 1;
  msc_value *rows = reshape(n->b, x, 2, flat ? (int64_t[]){1, x->type->dim[0]} : x->type->dim);
  for (int64_t length = 1; length <= most && rows; length++) {
    int64_t begin = counts->ints[length - 1],
            end = length < (int64_t)counts->num ? counts->ints[length] : (int64_t)pool->num;
    if (begin < 0 || end < begin || end > (int64_t)pool->num || (end - begin) % length)
      return onnx_refuse(n, "ngram_counts does not fit its pool");
    int64_t num = (end - begin) / length;
    if (seen + num > (int64_t)where->num || (double)num * (double)width > 1 << 22)
      return onnx_refuse(n, "ngram_indexes does not fit its pool");
    if (num && length >= least) {
      double *v = msc_new_array(n->scratch, double, num *width + 1); /* to its place, with its weight */
      for (int64_t g = 0; g < num; g++)
        v[g * width + where->ints[seen + g]] = weights && mode[0] != 'T' ? (double)weights->floats[seen + g] : 1;
      msc_value *count = occurrences(n, rows, pool->ints + begin, num, length, skips);
      if (mode[0] == 'I' && count) count = cast(n->b, compare(n->b, MSC_GT, count, like(n->b, count, 0)), MSC_F32);
      msc_value *y = onnx_matmul(n->b, count, onnx_dense(n->b, MSC_F32, 2, (int64_t[]){num, width}, v));
      sum = sum && y ? plus(n->b, sum, y) : y;
      if (!sum) return false;
    }
    seen += num;
  }
  if (!sum || !strcmp(mode, "TFIDF")) return onnx_refuse(n, sum ? "mode TFIDF is not supported" : "its pool is empty");
  return onnx_set(n, 0, flat ? reshape(n->b, sum, 1, &width) : sum);
}
