/* move.c: a node that moves elements, or whose result is a shape, in; its ops or constants out. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

/* A constant tensor of i64. */
static bool set_ints(onnx_node *n, int rank, int64_t num, const int64_t *v) {
  const msc_type *t = msc_type_of(n->ctx, MSC_I64, rank, &num, NULL);
  return onnx_set_constant(n, 0, t, msc_arena_copy(n->scratch, v, (size_t)num * sizeof *v));
}

static int64_t within(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

bool onnx_build_shape(onnx_node *n) {
  const msc_type *t = onnx_type(n, 0);
  if (!t) return false;
  int64_t start = onnx_int(n, "start", 0), end = onnx_int(n, "end", t->rank);
  start = within(start < 0 ? start + t->rank : start, 0, t->rank);
  end = within(end < 0 ? end + t->rank : end, start, t->rank);
  return set_ints(n, 1, end - start, t->dim + start);
}

bool onnx_build_size(onnx_node *n) {
  const msc_type *t = onnx_type(n, 0);
  if (!t) return false;
  int64_t elems = msc_type_elems(t);
  return set_ints(n, 0, 1, &elems);
}

bool onnx_build_reshape(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t dim[MSC_MAX_RANK];
  int num;
  if (!x || !onnx_ints_of(n, 1, "shape", 5, dim, MSC_MAX_RANK, &num)) return false;
  if (num < 0) return onnx_refuse(n, "has no shape");
  bool keeps_zero = onnx_int(n, "allowzero", 0) != 0;
  int64_t known = 1, elems = msc_type_elems(x->type);
  int open = -1;
  for (int d = 0; d < num; d++) {
    if (dim[d] == 0 && !keeps_zero) {
      if (d >= x->type->rank)
        return onnx_refuse(n, "entry %d of the shape is 0, but the input has no dimension %d", d, d);
      dim[d] = x->type->dim[d];
    }
    if (dim[d] == -1 && open < 0) open = d;
    else if (dim[d] < 0 || __builtin_mul_overflow(known, dim[d], &known))
      return onnx_refuse(n, "entry %d of the shape is wrong", d);
  }
  if (open >= 0) dim[open] = known ? elems / known : 0;
  if (open >= 0 ? known * dim[open] != elems : known != elems)
    return onnx_refuse(n, "the shape has %" PRId64 " elements, the input %" PRId64, known, elems);
  return onnx_set(n, 0, reshape(n->b, x, num, dim));
}

bool onnx_build_flatten(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t dim[2] = {1, 1}, axis = onnx_int(n, "axis", 1);
  if (!x) return false;
  if (axis < 0) axis += x->type->rank;
  if (axis < 0 || axis > x->type->rank) return onnx_refuse(n, "axis %" PRId64 " is out of range", axis);
  for (int d = 0; d < x->type->rank; d++) dim[d >= axis] *= x->type->dim[d];
  return onnx_set(n, 0, reshape(n->b, x, 2, dim));
}

bool onnx_build_squeeze(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t axes[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  int num, k = 0;
  if (!x || !onnx_ints_of(n, 1, "axes", 13, axes, MSC_MAX_RANK, &num)) return false;
  unsigned gone = 0;
  for (int i = 0; i < num; i++) {
    int axis;
    MSC_TRY(onnx_axis(n, axes[i], x->type->rank, &axis));
    if (x->type->dim[axis] != 1)
      return onnx_refuse(n, "dimension %d has size %" PRId64 ", not 1", axis, x->type->dim[axis]);
    gone |= 1u << axis;
  }
  for (int d = 0; d < x->type->rank; d++)
    if (num >= 0 ? !(gone >> d & 1) : x->type->dim[d] != 1) dim[k++] = x->type->dim[d];
  return onnx_set(n, 0, reshape(n->b, x, k, dim));
}

bool onnx_build_unsqueeze(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t axes[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  int num, k = 0;
  if (!x || !onnx_ints_of(n, 1, "axes", 13, axes, MSC_MAX_RANK, &num)) return false;
  if (num < 0) num = 0;
  int rank = x->type->rank + num;
  if (rank > MSC_MAX_RANK)
    return onnx_refuse(n, "the result would have rank %d, at most %d is possible", rank, MSC_MAX_RANK);
  unsigned added = 0;
  for (int i = 0; i < num; i++) {
    int axis;
    MSC_TRY(onnx_axis(n, axes[i], rank, &axis));
    if (added >> axis & 1) return onnx_refuse(n, "axis %d is named twice", axis);
    added |= 1u << axis;
  }
  for (int d = 0; d < rank; d++) dim[d] = added >> d & 1 ? 1 : x->type->dim[k++];
  return onnx_set(n, 0, reshape(n->b, x, rank, dim));
}

bool onnx_build_transpose(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t perm[MSC_MAX_RANK];
  int num = onnx_ints(n, "perm", perm, MSC_MAX_RANK);
  if (!x || num == -2) return false;
  for (int d = 0; num < 0 && d < x->type->rank; d++) perm[d] = x->type->rank - 1 - d;
  if (num >= 0 && num != x->type->rank)
    return onnx_refuse(n, "perm has %d entries, the input rank %d", num, x->type->rank);
  for (int d = 0; d < num; d++)
    if (perm[d] < 0) perm[d] += x->type->rank;
  return onnx_set(n, 0, transpose(n->b, x, perm));
}

bool onnx_build_concat(onnx_node *n) {
  msc_value **in = msc_new_array(n->scratch, msc_value *, n->num_in + 1);
  int axis = 0;
  if (!n->num_in) return onnx_refuse(n, "has no inputs");
  size_t num = 0;
  for (size_t i = 0; i < n->num_in; i++) { /* an operand without elements along the axis adds nothing */
    const msc_type *t = onnx_type(n, i);
    if (!t || (!i && !onnx_axis(n, onnx_int(n, "axis", 1), t->rank, &axis))) return false;
    bool empty = axis < t->rank && !t->dim[axis] && (num || i + 1 < n->num_in);
    if (!empty) MSC_TRY((in[num++] = onnx_in(n, i)));
  }
  return onnx_set(n, 0, num == 1 ? in[0] : join_along(n->b, axis, num, in));
}

bool onnx_build_split(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t *size = msc_new_array(n->scratch, int64_t, n->num_out + 1), at = 0;
  int axis, num;
  if (!x || !onnx_axis(n, onnx_int(n, "axis", 0), x->type->rank, &axis)) return false;
  MSC_TRY(onnx_ints_of(n, 1, "split", 13, size, (int)n->num_out, &num));
  int64_t parts = onnx_int(n, "num_outputs", (int64_t)n->num_out), whole = x->type->dim[axis];
  if (num < 0 && (parts != (int64_t)n->num_out || !parts))
    return onnx_refuse(n, "num_outputs is %" PRId64 ", but it has %zu outputs", parts, n->num_out);
  if (num >= 0 && (size_t)num != n->num_out) return onnx_refuse(n, "says %d sizes for %zu outputs", num, n->num_out);
  int64_t each = num < 0 ? (whole + parts - 1) / parts : 0;
  for (size_t i = 0; i < n->num_out; i++) {
    int64_t next = num < 0 ? (at + each < whole ? at + each : whole) : at + size[i];
    if (next < at || next > whole)
      return onnx_refuse(n, "its sizes do not fit dimension %d of size %" PRId64, axis, whole);
    MSC_TRY(onnx_set(n, i, part_of(n->b, x, axis, at, next)));
    at = next;
  }
  return at == whole || onnx_refuse(n, "its sizes sum to %" PRId64 ", dimension %d has %" PRId64, at, axis, whole);
}

/* Converts start, end and step of one dimension to an ascending slice, whose result is then reversed if the step is
 * negative. */
static bool slice_dim(onnx_node *n, int64_t size, int64_t step, int64_t *start, int64_t *end, int64_t *stride,
                      bool *reversed) {
  if (step == 0) return onnx_refuse(n, "a step is 0");
  if (step == INT64_MIN) step = INT64_MIN + 1;
  *start = *start < 0 ? (*start < -size ? (step > 0 ? 0 : -1) : *start + size) : *start;
  *end = *end < 0 ? (*end < -size ? (step > 0 ? 0 : -1) : *end + size) : *end;
  *start = step > 0 ? within(*start, 0, size) : within(*start, -1, size - 1);
  *end = step > 0 ? within(*end, 0, size) : within(*end, -1, size - 1);
  *reversed = step < 0;
  int64_t s = step > 0 ? step : -step, span = step > 0 ? *end - *start : *start - *end;
  int64_t num = span > 0 ? (span - 1) / s + 1 : 0;
  if (num == 0) return *start = *end = 0, *stride = 1, *reversed = false, true;
  int64_t low = step > 0 ? *start : *start - (num - 1) * s;
  *start = low, *end = low + (num - 1) * s + 1, *stride = num == 1 ? 1 : s;
  return true;
}

bool onnx_build_slice(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t start[MSC_MAX_RANK], end[MSC_MAX_RANK], axes[MSC_MAX_RANK], steps[MSC_MAX_RANK];
  int64_t low[MSC_MAX_RANK], high[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  int num, num_end, num_axes, num_steps = -1;
  bool reversed[MSC_MAX_RANK] = {false};
  if (!x || !onnx_ints_of(n, 1, "starts", 10, start, MSC_MAX_RANK, &num) ||
      !onnx_ints_of(n, 2, "ends", 10, end, MSC_MAX_RANK, &num_end) ||
      !onnx_ints_of(n, 3, "axes", 10, axes, MSC_MAX_RANK, &num_axes))
    return false;
  if (n->opset >= 10) MSC_TRY(onnx_ints_of(n, 4, "steps", 10, steps, MSC_MAX_RANK, &num_steps));
  if (num < 0 || num != num_end || (num_axes >= 0 && num_axes != num) || (num_steps >= 0 && num_steps != num))
    return onnx_refuse(n, "starts, ends, axes and steps are not equally many");
  for (int d = 0; d < x->type->rank; d++) low[d] = 0, high[d] = x->type->dim[d], stride[d] = 1;
  for (int i = 0; i < num; i++) {
    int axis;
    MSC_TRY(onnx_axis(n, num_axes < 0 ? i : axes[i], x->type->rank, &axis));
    low[axis] = start[i], high[axis] = end[i];
    MSC_TRY(slice_dim(n, x->type->dim[axis], num_steps < 0 ? 1 : steps[i], &low[axis], &high[axis], &stride[axis],
                      &reversed[axis]));
  }
  msc_value *y = slice_of(n->b, x, low, high, stride);
  for (int d = 0; y && d < y->type->rank; d++)
    if (reversed[d] && y->type->dim[d] > 1) y = onnx_reverse(n->b, y, d);
  return onnx_set(n, 0, y);
}

/* The shape that a tensor of type t and `dim` broadcast to. */
static bool broadcast_shape(onnx_node *n, const msc_type *t, int num, const int64_t *dim, int *out_rank,
                            int64_t *out_dim) {
  int rank = t->rank > num ? t->rank : num;
  for (int d = 0; d < rank; d++) {
    int64_t a = d - (rank - t->rank) < 0 ? 1 : t->dim[d - (rank - t->rank)];
    int64_t c = d - (rank - num) < 0 ? 1 : dim[d - (rank - num)];
    if (a != c && a != 1 && c != 1) return onnx_refuse(n, "sizes %" PRId64 " and %" PRId64 " do not go together", a, c);
    out_dim[d] = a == 1 ? c : a;
  }
  *out_rank = rank;
  return true;
}

bool onnx_build_expand(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t dim[MSC_MAX_RANK], to[MSC_MAX_RANK];
  int num, rank = 0;
  if (!x || !onnx_ints_of(n, 1, "shape", 1, dim, MSC_MAX_RANK, &num)) return false;
  for (int d = 0; d < num; d++)
    if (dim[d] < 0) return onnx_refuse(n, "entry %d of the shape is %" PRId64, d, dim[d]);
  if (num < 0) return onnx_refuse(n, "has no shape");
  MSC_TRY(broadcast_shape(n, x->type, num, dim, &rank, to));
  return onnx_set(n, 0, broadcast(n->b, x, rank, to));
}

bool onnx_build_tile(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t repeats[MSC_MAX_RANK];
  int num;
  if (!x || !onnx_ints_of(n, 1, "repeats", 1, repeats, MSC_MAX_RANK, &num)) return false;
  if (num != x->type->rank) return onnx_refuse(n, "says %d repeats for rank %d", num, x->type->rank);
  return onnx_set(n, 0, num ? with_ints(n->b, OP_tile, x, "repeats", num, repeats) : x);
}

/* ---- padding ---- */

/* Adds `low` elements before and `high` behind those of one dimension of x; they repeat its ends, mirror it, or wrap
 * around. */
static msc_value *pad_by_mode(onnx_node *n, msc_value *x, int d, int64_t low, int64_t high, char mode) {
  int64_t size = x->type->dim[d];
  if (!low && !high) return x;
  if (size == 0 || (mode == 'r' && (low >= size || high >= size)))
    return onnx_refuse(n, "dimension %d of size %" PRId64 " is too small for its padding", d, size), NULL;
  int64_t total = low + size + high, *index = msc_new_array(n->scratch, int64_t, total + 1);
  double *v = msc_new_array(n->scratch, double, total + 1);
  for (int64_t i = 0; i < total; i++) {
    int64_t at = i - low;
    if (mode == 'e') at = within(at, 0, size - 1);
    else if (mode == 'r') at = at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
    else at = ((at % size) + size) % size;
    index[i] = at, v[i] = (double)at;
  }
  return gather(n->b, x, onnx_dense(n->b, MSC_I64, 1, &total, v), d);
}

/* Cuts x where padding is negative, and sets that padding to 0. */
static msc_value *cut_negative(onnx_node *n, msc_value *x, int64_t *low, int64_t *high) {
  int64_t from[MSC_MAX_RANK], to[MSC_MAX_RANK];
  for (int d = 0; d < x->type->rank; d++) {
    from[d] = low[d] < 0 ? -low[d] : 0, to[d] = x->type->dim[d] + (high[d] < 0 ? high[d] : 0);
    low[d] = low[d] < 0 ? 0 : low[d], high[d] = high[d] < 0 ? 0 : high[d];
    if (from[d] > to[d]) return onnx_refuse(n, "cuts more of dimension %d than there is", d), NULL;
  }
  return slice_of(n->b, x, from, to, NULL);
}

bool onnx_build_pad(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t pads[2 * MSC_MAX_RANK], axes[MSC_MAX_RANK], low[MSC_MAX_RANK] = {0}, high[MSC_MAX_RANK] = {0};
  int num, num_axes = -1;
  double value = 0;
  const char *mode = onnx_text(n, "mode", "constant");
  if (!x || !onnx_ints_of(n, 1, n->opset < 2 ? "paddings" : "pads", 11, pads, 2 * MSC_MAX_RANK, &num)) return false;
  if (n->opset >= 18) MSC_TRY(onnx_ints_of(n, 3, "axes", 18, axes, MSC_MAX_RANK, &num_axes));
  if (n->opset < 11) value = onnx_float(n, "value", 0);
  int dims = num_axes < 0 ? x->type->rank : num_axes;
  if (num != 2 * dims) return onnx_refuse(n, "says %d pads for %d dimensions", num, dims);
  for (int i = 0; i < dims; i++) {
    int axis;
    MSC_TRY(onnx_axis(n, num_axes < 0 ? i : axes[i], x->type->rank, &axis));
    low[axis] = pads[i], high[axis] = pads[dims + i];
    if (low[axis] > INT32_MAX || high[axis] > INT32_MAX || low[axis] < -INT32_MAX || high[axis] < -INT32_MAX)
      return onnx_refuse(n, "a pad of %" PRId64 " is too large", low[axis]);
  }
  if (!(x = cut_negative(n, x, low, high))) return false;
  if (strcmp(mode, "constant")) {
    if (strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
      return onnx_refuse(n, "mode '%s' is unknown", mode);
    for (int d = 0; d < x->type->rank; d++) MSC_TRY((x = pad_by_mode(n, x, d, low[d], high[d], mode[0])));
    return onnx_set(n, 0, x);
  }
  if (n->opset < 11 || !onnx_has(n, 2)) return onnx_set(n, 0, pad_with(n->b, x, low, high, NULL, value));
  if (n->in[2]->data)
    return onnx_const_float(n, 2, &value) && onnx_set(n, 0, pad_with(n->b, x, low, high, NULL, value));
  /* The value is known only when the plan runs: a mask selects it where padding is. */
  msc_value *zero = pad_with(n->b, x, low, high, NULL, 0), *fill = onnx_in(n, 2);
  msc_value *ones = broadcast(n->b, msc_build_scalar(n->b, MSC_I32, 1), x->type->rank, x->type->dim);
  msc_value *inside = pad_with(n->b, ones, low, high, NULL, 0);
  if (!inside || !fill) return false;
  msc_value *is_inside = compare(n->b, MSC_EQ, inside, like(n->b, inside, 1));
  return onnx_set(n, 0, choose(n->b, is_inside, zero, reshape(n->b, fill, 0, NULL)));
}

bool onnx_build_center_crop_pad(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t shape[MSC_MAX_RANK], axes[MSC_MAX_RANK], low[MSC_MAX_RANK] = {0}, high[MSC_MAX_RANK] = {0};
  int num, num_axes = onnx_ints(n, "axes", axes, MSC_MAX_RANK);
  if (!x || num_axes == -2 || !onnx_ints_of(n, 1, "shape", 1, shape, MSC_MAX_RANK, &num)) return false;
  if (num != (num_axes < 0 ? x->type->rank : num_axes)) return onnx_refuse(n, "shape and axes are not equally many");
  for (int i = 0; i < num; i++) {
    int axis;
    MSC_TRY(onnx_axis(n, num_axes < 0 ? i : axes[i], x->type->rank, &axis));
    int64_t have = x->type->dim[axis], more = shape[i] - have;
    if (shape[i] < 0 || shape[i] > INT32_MAX) return onnx_refuse(n, "entry %d of the shape is out of range", i);
    low[axis] = more >= 0 ? more / 2 : -(-more / 2), high[axis] = more - low[axis];
  }
  if (!(x = cut_negative(n, x, low, high))) return false;
  return onnx_set(n, 0, pad_with(n->b, x, low, high, NULL, 0));
}

/* ---- blocks ---- */

bool onnx_build_depth_to_space(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t s = onnx_int(n, "blocksize", 0);
  const char *mode = onnx_text(n, "mode", "DCR");
  if (!x) return false;
  const int64_t *d = x->type->dim;
  if (x->type->rank != 4 || s < 1 || s > 1 << 15 || d[1] % (s * s))
    return onnx_refuse(n, "blocksize does not fit its input");
  int64_t c = d[1] / (s * s);
  bool dcr = !strcmp(mode, "DCR");
  msc_value *six =
      reshape(n->b, x, 6, dcr ? (int64_t[]){d[0], s, s, c, d[2], d[3]} : (int64_t[]){d[0], c, s, s, d[2], d[3]});
  if (!six) return false;
  msc_value *t = transpose(n->b, six, dcr ? (int64_t[]){0, 3, 4, 1, 5, 2} : (int64_t[]){0, 1, 4, 2, 5, 3});
  return onnx_set(n, 0, t ? reshape(n->b, t, 4, (int64_t[]){d[0], c, d[2] * s, d[3] * s}) : NULL);
}

bool onnx_build_space_to_depth(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t s = onnx_int(n, "blocksize", 0);
  if (!x) return false;
  const int64_t *d = x->type->dim;
  if (x->type->rank != 4 || s < 1 || s > 1 << 15 || d[2] % s || d[3] % s)
    return onnx_refuse(n, "blocksize does not fit its input");
  msc_value *six = reshape(n->b, x, 6, (int64_t[]){d[0], d[1], d[2] / s, s, d[3] / s, s});
  msc_value *t = six ? transpose(n->b, six, (int64_t[]){0, 3, 5, 1, 2, 4}) : NULL;
  return onnx_set(n, 0, t ? reshape(n->b, t, 4, (int64_t[]){d[0], d[1] * s * s, d[2] / s, d[3] / s}) : NULL);
}

/* ---- made of nothing ---- */

bool onnx_build_constant_of_shape(onnx_node *n) {
  int64_t dim[MSC_MAX_RANK];
  int num;
  const onnx_attr *value = onnx_attr_of(n, "value", ONNX_TENSOR);
  onnx_tensor t = {.type = msc_type_of(n->ctx, MSC_F32, 0, NULL, NULL), .data = &(float){0}, .bytes = 4};
  MSC_TRY(onnx_ints_of(n, 0, "shape", 1, dim, MSC_MAX_RANK, &num));
  const char *wrong = value ? onnx_read_tensor(n->ctx, n->scratch, NULL, value->tensor, &t) : NULL;
  if (wrong) return onnx_refuse(n, "its value %s", wrong);
  if (msc_type_elems(t.type) != 1) return onnx_refuse(n, "its value must be one element");
  for (int d = 0; d < num; d++)
    if (dim[d] < 0) return onnx_refuse(n, "entry %d of the shape is %" PRId64, d, dim[d]);
  const void *data = msc_arena_copy(msc_context_arena(n->ctx), t.data, t.bytes);
  msc_value *element = constant_of(n->b, msc_type_of(n->ctx, t.type->dtype, 0, NULL, NULL), data);
  return onnx_set(n, 0, broadcast(n->b, element, num, dim));
}

bool onnx_build_range(onnx_node *n) {
  double start, limit, delta;
  const msc_type *t = onnx_type(n, 0);
  if (!t || !onnx_const_float(n, 0, &start) || !onnx_const_float(n, 1, &limit) || !onnx_const_float(n, 2, &delta))
    return false;
  double num = delta != 0 ? ceil((limit - start) / delta) : NAN;
  if (!(num < 1e15)) return onnx_refuse(n, "has no end");
  int64_t elems = num > 0 ? (int64_t)num : 0;
  msc_dtype with = msc_is_float(t->dtype) ? widen_dtype(t->dtype) : t->dtype;
  msc_value *i = iota(n->b, MSC_I64, 1, &elems, 0), *k = cast(n->b, i, with);
  if (!k) return false;
  msc_value *y = plus(n->b, scale_by(n->b, k, delta), like(n->b, k, start));
  return onnx_set(n, 0, cast(n->b, y, t->dtype));
}

/* column - row of each place of the last two dimensions */
static msc_value *diagonal_of(onnx_node *n, int64_t rows, int64_t columns) {
  msc_value *row = iota(n->b, MSC_I32, 2, (int64_t[]){rows, columns}, 0);
  return minus(n->b, iota(n->b, MSC_I32, 2, (int64_t[]){rows, columns}, 1), row);
}

bool onnx_build_eye_like(onnx_node *n) {
  const msc_type *t = onnx_type(n, 0);
  if (!t) return false;
  msc_dtype dtype = t->dtype;
  int64_t type = onnx_int(n, "dtype", -1), k = onnx_int(n, "k", 0);
  if (type >= 0 && (type > 1000 || !onnx_dtype((int)type, &dtype)))
    return onnx_refuse(n, "dtype is not one that msc has");
  if (t->rank != 2) return onnx_refuse(n, "takes a matrix, not rank %d", t->rank);
  msc_value *d = diagonal_of(n, t->dim[0], t->dim[1]);
  return onnx_set(n, 0, d ? cast(n->b, compare(n->b, MSC_EQ, d, like(n->b, d, (double)k)), dtype) : NULL);
}

bool onnx_build_trilu(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t k = 0;
  if (!x || (onnx_has(n, 1) && !onnx_const_int(n, 1, &k))) return false;
  int rank = x->type->rank;
  if (rank < 2) return onnx_refuse(n, "takes matrices, not rank %d", rank);
  k = within(k, -(INT64_C(1) << 30), INT64_C(1) << 30);
  msc_value *d = diagonal_of(n, x->type->dim[rank - 2], x->type->dim[rank - 1]);
  if (!d) return false;
  msc_value *keep = compare(n->b, onnx_int(n, "upper", 1) ? MSC_GE : MSC_LE, d, like(n->b, d, (double)k));
  return onnx_set(n, 0, choose(n->b, keep, x, like(n->b, x, 0)));
}
