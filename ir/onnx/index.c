/* index.c: a node that reads or writes elements by index, or sorts them (gather, scatter, one_hot, topk ...), in; its
 * ops out. */
#include <string.h>

#include "ir/onnx/onnx.h"

/* Input i, indices into a dimension of this size, in which negative ones, counted from the end, are replaced. */
static msc_value *count_from_start(onnx_node *n, size_t i, int64_t size) {
  msc_value *k = onnx_in(n, i);
  if (!k) return NULL;
  if (k->type->dtype != MSC_I32 && k->type->dtype != MSC_I64)
    return onnx_refuse(n, "input %zu must hold i32 or i64 numbers", i), NULL;
  if (n->in[i]->data) {
    size_t num;
    const int64_t *v = onnx_const_ints(n, i, &num);
    bool negative = false;
    for (size_t j = 0; j < num; j++) negative |= v[j] < 0;
    if (!negative) return k;
  }
  msc_value *before = compare(n->b, MSC_LT, k, like(n->b, k, 0)), *wrapped = plus(n->b, k, like(n->b, k, (double)size));
  return choose(n->b, before, wrapped, k);
}

bool onnx_build_gather(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int axis;
  if (!x || !onnx_axis(n, onnx_int(n, "axis", 0), x->type->rank, &axis)) return false;
  msc_value *k = count_from_start(n, 1, x->type->dim[axis]);
  return onnx_set(n, 0, gather(n->b, x, k, axis));
}

/* The elements of the last dimension that indices name, whatever their shape; of a vector a matrix of one row. */
bool onnx_build_array_feature_extractor(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  if (!x) return false;
  if (!x->type->rank) return onnx_refuse(n, "takes a tensor of at least one dimension");
  if (x->type->rank == 1) x = onnx_insert_dim(n->b, x, 0);
  int last = rank_of(x) - 1;
  msc_value *k = x ? count_from_start(n, 1, x->type->dim[last]) : NULL;
  int64_t num = k ? msc_type_elems(k->type) : 0;
  return onnx_set(n, 0, gather(n->b, x, k ? reshape(n->b, k, 1, &num) : NULL, last));
}

/* x cut to the sizes of `t` in all dimensions but one. */
static msc_value *slice_like(onnx_node *n, msc_value *x, const msc_type *t, int axis) {
  int64_t zero[MSC_MAX_RANK] = {0}, limit[MSC_MAX_RANK];
  if (x->type->rank != t->rank) return onnx_refuse(n, "ranks differ: %d and %d", x->type->rank, t->rank), NULL;
  for (int d = 0; d < t->rank; d++) {
    limit[d] = d == axis ? x->type->dim[d] : t->dim[d];
    if (limit[d] > x->type->dim[d]) return onnx_refuse(n, "indices are larger than the input in dimension %d", d), NULL;
  }
  return slice_of(n->b, x, zero, limit, NULL);
}

bool onnx_build_gather_elements(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int axis;
  if (!x || !onnx_axis(n, onnx_int(n, "axis", 0), x->type->rank, &axis)) return false;
  msc_value *k = count_from_start(n, 1, x->type->dim[axis]), *part = k ? slice_like(n, x, k->type, axis) : NULL;
  return onnx_set(n, 0, take_along(n->b, part, k, axis));
}

/* Input i, indices [batch.., *, m], to which the positions in the leading `batch` dimensions are added in front. */
static msc_value *place_numbers(onnx_node *n, const msc_type *x, size_t i, int batch) {
  msc_value *k = onnx_in(n, i);
  if (!k) return NULL;
  int rank = k->type->rank;
  if (rank < 1) return onnx_refuse(n, "indices have rank 0"), NULL;
  int64_t m = k->type->dim[rank - 1], one[MSC_MAX_RANK];
  if (m + batch > x->rank || batch >= rank)
    return onnx_refuse(n, "indices do not fit an input of rank %d", x->rank), NULL;
  msc_value *parts[MSC_MAX_RANK + 1];
  memcpy(one, k->type->dim, sizeof one);
  one[rank - 1] = 1;
  for (int d = 0; d < batch; d++) parts[d] = iota(n->b, k->type->dtype, rank, one, d);
  double size[MSC_MAX_RANK];
  for (int64_t d = 0; d < m; d++) size[d] = (double)x->dim[batch + d];
  msc_value *before = compare(n->b, MSC_LT, k, like(n->b, k, 0));
  msc_value *wrapped = plus(n->b, k, onnx_dense(n->b, k->type->dtype, 1, &m, size));
  parts[batch] = choose(n->b, before, wrapped, k);
  return batch ? join_along(n->b, rank - 1, (size_t)batch + 1, parts) : parts[0];
}

bool onnx_build_gather_nd(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t batch = onnx_int(n, "batch_dims", 0);
  if (!x) return false;
  if (batch < 0 || batch > x->type->rank) return onnx_refuse(n, "batch_dims is out of range");
  msc_value *k = place_numbers(n, x->type, 1, (int)batch);
  return onnx_set(n, 0, k ? msc_compute(n->b, "gather_nd(a, b)", x, k) : NULL);
}

/* ---- scatter: data and updates as rows of one element ---- */

typedef enum { SET, ADD, MUL, MAX, MIN } combine;

static bool combine_of(onnx_node *n, combine *out) {
  static const char *const words[] = {"none", "add", "mul", "max", "min"};
  const char *word = onnx_text(n, "reduction", "none");
  for (int i = 0; i < 5; i++)
    if (!strcmp(word, words[i])) return *out = (combine)i, true;
  return onnx_refuse(n, "reduction '%s' is unknown", word);
}

/* The numbers of the blocks of x that indices of m dimensions name: the sum of each coordinate times the number of
 * blocks per step of it. */
static msc_value *flat_index(onnx_node *n, msc_value *k, const msc_type *x, int64_t m) {
  double stride[MSC_MAX_RANK];
  double blocks = 1;
  for (int64_t d = m; d-- > 0;) stride[d] = blocks, blocks *= (double)x->dim[d];
  msc_value *wide_k = cast(n->b, k, MSC_I64), *s = onnx_dense(n->b, MSC_I64, 1, &m, stride);
  msc_value *terms = wide_k && s ? times(n->b, wide_k, s) : NULL;
  if (!terms) return NULL;
  int64_t last = terms->type->rank - 1;
  return m ? sum_over(n->b, terms, 1, &last, false) : NULL;
}

/* Combines rows with updates that may name a row several times: round j uses the j-th update of every row.  All pairs
 * of updates are compared, so there may not be many. */
static msc_value *combine_rows(onnx_node *n, combine how, msc_value *rows, msc_value *at, msc_value *updates) {
  int64_t num = at->type->dim[0], total = rows->type->dim[0], width = rows->type->dim[1];
  if ((double)num * (double)total * (double)width > 1e8)
    return onnx_refuse(n, "reduction of %" PRId64 " updates is not supported", num), NULL;
  msc_value *hit = compare(n->b, MSC_EQ, reshape(n->b, at, 2, (int64_t[]){num, 1}),
                           reshape(n->b, count_up(n->b, at->type->dtype, total), 2, (int64_t[]){1, total}));
  hit = hit ? reshape(n->b, hit, 3, (int64_t[]){num, total, 1}) : NULL;
  msc_value *u = reshape(n->b, updates, 3, (int64_t[]){num, 1, width});
  if (!hit || !u) return NULL;
  static const struct {
    msc_reduction over_updates;
    const char *formula;
  } of[] = {[MUL] = {MSC_PROD, "a * b"}, [MAX] = {MSC_MAX, "max(a, b)"}, [MIN] = {MSC_MIN, "min(a, b)"}};
  msc_value *unit = how == MUL ? like(n->b, rows, 1) : reshape(n->b, rows, 3, (int64_t[]){1, total, width});
  msc_value *all = choose(n->b, hit, u, unit);
  msc_value *best = reduce_by(n->b, of[how].over_updates, all, 1, (int64_t[]){0}, false);
  return msc_compute(n->b, of[how].formula, rows, best);
}

/* rows [total,width], at [num], updates [num,width] */
static msc_value *scatter_combined(onnx_node *n, combine how, msc_value *rows, msc_value *at, msc_value *updates) {
  if (!rows || !at || !updates) return NULL;
  if (!at->type->dim[0]) return rows;
  if (how == SET) return replace_rows(n->b, rows, at, updates, 0);
  if (how != ADD) return combine_rows(n, how, rows, at, updates);
  return plus(n->b, rows, sum_by_row(n->b, at, updates, rows->type->dim[0], 0));
}

bool onnx_build_scatter_nd(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *updates = onnx_in(n, 2);
  combine how;
  if (!x || !updates || !combine_of(n, &how)) return false;
  msc_value *k = place_numbers(n, x->type, 1, 0);
  if (!k) return false;
  int64_t m = k->type->dim[k->type->rank - 1], total = 1, width = 1;
  for (int d = 0; d < x->type->rank; d++) *(d < m ? &total : &width) *= x->type->dim[d];
  if (m == 0) return onnx_refuse(n, "indices of length 0 are not supported");
  int64_t num = msc_type_elems(k->type) / m;
  if (msc_type_elems(updates->type) != num * width) return onnx_refuse(n, "updates do not fit the indices");
  msc_value *at = flat_index(n, k, x->type, m);
  at = at ? reshape(n->b, at, 1, &num) : NULL;
  msc_value *rows = reshape(n->b, x, 2, (int64_t[]){total, width});
  msc_value *y = scatter_combined(n, how, rows, at, reshape(n->b, updates, 2, (int64_t[]){num, width}));
  return onnx_set(n, 0, y ? reshape(n->b, y, x->type->rank, x->type->dim) : NULL);
}

/* The number of each element that is updated, in x as one row. */
static msc_value *element_numbers(onnx_node *n, msc_value *k, const msc_type *x, int axis) {
  int64_t stride = 1;
  msc_value *sum = NULL;
  for (int d = x->rank - 1; d >= 0; stride *= x->dim[d--]) {
    msc_value *i = d == axis ? cast(n->b, k, MSC_I64) : iota(n->b, MSC_I64, k->type->rank, k->type->dim, d);
    msc_value *term = scale_by(n->b, i, (double)stride);
    sum = sum && term ? plus(n->b, sum, term) : term;
    if (!sum) return NULL;
  }
  return sum;
}

bool onnx_build_scatter_elements(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *updates = onnx_in(n, 2);
  combine how;
  int axis;
  if (!x || !updates || !combine_of(n, &how) || !onnx_axis(n, onnx_int(n, "axis", 0), x->type->rank, &axis))
    return false;
  msc_value *k = count_from_start(n, 1, x->type->dim[axis]);
  if (!k) return false;
  if (k->type->rank != x->type->rank || msc_type_elems(k->type) != msc_type_elems(updates->type))
    return onnx_refuse(n, "indices, updates and data do not fit each other");
  int64_t num = msc_type_elems(k->type), total = msc_type_elems(x->type);
  msc_value *at = element_numbers(n, k, x->type, axis);
  at = at ? reshape(n->b, at, 1, &num) : NULL;
  msc_value *rows = reshape(n->b, x, 2, (int64_t[]){total, 1});
  msc_value *y = scatter_combined(n, how, rows, at, reshape(n->b, updates, 2, (int64_t[]){num, 1}));
  return onnx_set(n, 0, y ? reshape(n->b, y, x->type->rank, x->type->dim) : NULL);
}

/* Builds the write of `update` into a cache [batch,..,length,..] from write_indices[batch] on along the axis; a
 * circular one goes on at the start. */
bool onnx_build_tensor_scatter(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *u = onnx_in(n, 1);
  int axis;
  const char *mode = onnx_text(n, "mode", "linear");
  if (!x || !u || !onnx_axis(n, onnx_int(n, "axis", -2), x->type->rank, &axis)) return false;
  if (u->type->rank != x->type->rank || axis == 0) return onnx_refuse(n, "update does not fit the cache");
  int64_t size = x->type->dim[axis], first[MSC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  msc_value *k = iota(n->b, MSC_I64, u->type->rank, u->type->dim, axis);
  if (onnx_has(n, 2)) {
    msc_value *from = cast(n->b, onnx_in(n, 2), MSC_I64);
    first[0] = u->type->dim[0];
    from = from ? reshape(n->b, from, u->type->rank, first) : NULL;
    k = k && from ? plus(n->b, k, from) : NULL;
  }
  if (k && !strcmp(mode, "circular")) k = msc_compute(n->b, "mod(a, b)", k, like(n->b, k, (double)size));
  int64_t num = msc_type_elems(u->type), total = msc_type_elems(x->type);
  msc_value *at = k ? element_numbers(n, k, x->type, axis) : NULL;
  at = at ? reshape(n->b, at, 1, &num) : NULL;
  msc_value *y = scatter_combined(n, SET, reshape(n->b, x, 2, (int64_t[]){total, 1}), at,
                                  reshape(n->b, u, 2, (int64_t[]){num, 1}));
  return onnx_set(n, 0, y ? reshape(n->b, y, x->type->rank, x->type->dim) : NULL);
}

bool onnx_build_one_hot(onnx_node *n) {
  msc_value *k = onnx_in(n, 0), *values = onnx_in(n, 2);
  double depth;
  int axis;
  if (!k || !values || !onnx_const_float(n, 1, &depth)) return false;
  if (!(depth >= 0 && depth < 1e9)) return onnx_refuse(n, "depth is out of range");
  if (values->type->rank != 1 || values->type->dim[0] != 2)
    return onnx_refuse(n, "values must be two numbers: off, on");
  int rank = k->type->rank;
  if (rank + 1 > MSC_MAX_RANK) return onnx_refuse(n, "rank %d is too large", rank);
  MSC_TRY(onnx_axis(n, onnx_int(n, "axis", -1), rank + 1, &axis));
  k = cast(n->b, k, MSC_I64);
  if (!k) return false;
  msc_value *negative = compare(n->b, MSC_LT, k, like(n->b, k, 0));
  k = choose(n->b, negative, plus(n->b, k, like(n->b, k, depth)), k);
  int64_t dim[MSC_MAX_RANK], to[MSC_MAX_RANK];
  for (int d = 0, s = 0; d <= rank; d++) {
    to[d] = d == axis ? (int64_t)depth : k ? k->type->dim[s] : 0;
    dim[d] = d == axis ? 1 : k ? k->type->dim[s++] : 0;
  }
  k = k ? reshape(n->b, k, rank + 1, dim) : NULL;
  msc_value *place = iota(n->b, MSC_I64, rank + 1, to, axis), *is = k ? compare(n->b, MSC_EQ, place, k) : NULL;
  msc_value *off = part_of(n->b, values, 0, 0, 1), *on = part_of(n->b, values, 0, 1, 2);
  if (!off || !on) return false;
  msc_value *yes = reshape(n->b, on, 0, NULL), *no = reshape(n->b, off, 0, NULL);
  return onnx_set(n, 0, is ? choose(n->b, is, yes, no) : NULL);
}

bool onnx_build_topk(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t k;
  int axis;
  if (n->opset < 10) k = onnx_int(n, "k", 0);
  else MSC_TRY(onnx_const_int(n, 1, &k));
  onnx_int(n, "sorted", 1); /* read, but results are always sorted */
  if (!x || !onnx_axis(n, onnx_int(n, "axis", -1), x->type->rank, &axis)) return false;
  msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(axis)), msc_dtype_attr(n->ctx, MSC_I64),
                      msc_named(n->ctx, "k", msc_int(k)),
                      msc_named(n->ctx, "largest", msc_bool(onnx_int(n, "largest", 1)))};
  msc_op *op = msc_build_with(n->b, OP_topk, 1, &x, 2, 4, attrs);
  return op && onnx_set(n, 0, &op->out[0]) && onnx_set(n, 1, &op->out[1]);
}

/* The place of the largest or smallest element of a dimension, i64. */
static msc_value *place_of_extreme(onnx_node *n, msc_value *x, int axis, msc_op_kind kind, bool keep) {
  msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(axis)), msc_dtype_attr(n->ctx, MSC_I64),
                      msc_named(n->ctx, "keep_dims", msc_bool(keep))};
  return with_attrs(n->b, kind, 1, &x, 3, attrs);
}

bool onnx_build_argmax(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  bool keep = onnx_int(n, "keepdims", 1) != 0, last = onnx_int(n, "select_last_index", 0) != 0;
  int axis;
  if (!x || !onnx_axis(n, onnx_int(n, "axis", 0), x->type->rank, &axis)) return false;
  int64_t size = x->type->dim[axis];
  msc_value *from = last ? onnx_reverse(n->b, x, axis) : x;
  msc_value *k = from ? place_of_extreme(n, from, axis, n->row->kind, keep) : NULL;
  return onnx_set(n, 0, k && last ? minus(n->b, like(n->b, k, (double)size - 1), k) : k);
}

bool onnx_build_hardmax(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = in;
  if (!in) return false;
  int axis;
  MSC_TRY(onnx_axis(n, onnx_int(n, "axis", n->opset < 13 ? 1 : -1), in->type->rank, &axis));
  if (n->opset < 13) { /* over all dimensions from axis on */
    int64_t dim[2] = {1, 1};
    for (int d = 0; d < in->type->rank; d++) dim[d >= axis] *= in->type->dim[d];
    x = reshape(n->b, in, 2, dim);
    axis = 1;
  }
  msc_value *k = x ? place_of_extreme(n, x, axis, n->row->kind, true) : NULL;
  msc_value *places = x ? iota(n->b, MSC_I64, x->type->rank, x->type->dim, axis) : NULL;
  msc_value *y = k && places ? cast(n->b, compare(n->b, MSC_EQ, places, k), in->type->dtype) : NULL;
  return onnx_set(n, 0, y ? reshape(n->b, y, in->type->rank, in->type->dim) : NULL);
}

bool onnx_build_cumulate(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t at;
  int axis;
  if (!x || !onnx_const_int(n, 1, &at) || !onnx_axis(n, at, x->type->rank, &axis)) return false;
  msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(axis)),
                      msc_named(n->ctx, "exclusive", msc_bool(onnx_int(n, "exclusive", 0))),
                      msc_named(n->ctx, "reverse", msc_bool(onnx_int(n, "reverse", 0)))};
  return onnx_set(n, 0, with_attrs(n->b, n->row->kind, 1, &x, 3, attrs));
}

/* Builds the reversal of the first length[b] elements along time. */
bool onnx_build_reverse_sequence(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *length = onnx_in(n, 1);
  int time, batch;
  if (!x || !length || !onnx_axis(n, onnx_int(n, "time_axis", 0), x->type->rank, &time) ||
      !onnx_axis(n, onnx_int(n, "batch_axis", 1), x->type->rank, &batch))
    return false;
  int64_t dim[MSC_MAX_RANK];
  for (int d = 0; d < x->type->rank; d++) dim[d] = d == batch ? x->type->dim[d] : 1;
  msc_value *len = cast(n->b, reshape(n->b, length, x->type->rank, dim), MSC_I64);
  msc_value *t = iota(n->b, MSC_I64, x->type->rank, x->type->dim, time);
  if (!len || !t) return false;
  msc_value *reversed = minus(n->b, minus(n->b, len, like(n->b, len, 1)), t);
  msc_value *k = choose(n->b, compare(n->b, MSC_LT, t, len), reversed, t);
  return onnx_set(n, 0, take_along(n->b, x, k, time));
}

/* ---- sizes that depend on elements: of constants only ---- */

bool onnx_build_compress(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  size_t num;
  const int64_t *keep = onnx_const_ints(n, 1, &num);
  if (!x || !keep) return false;
  int axis = 0;
  bool flat = !onnx_attr_of(n, "axis", ONNX_INT);
  if (!flat) MSC_TRY(onnx_axis(n, onnx_int(n, "axis", 0), x->type->rank, &axis));
  int64_t elems = msc_type_elems(x->type), count = 0;
  if (flat) x = reshape(n->b, x, 1, &elems);
  double *at = msc_new_array(n->scratch, double, num + 1);
  for (size_t i = 0; x && i < num && (int64_t)i < x->type->dim[axis]; i++)
    if (keep[i]) at[count++] = (double)i;
  msc_value *k = onnx_dense(n->b, MSC_I64, 1, &count, at);
  return onnx_set(n, 0, gather(n->b, x, k, axis));
}

bool onnx_build_non_zero(onnx_node *n) {
  size_t num;
  const double *v = onnx_const_floats(n, 0, &num);
  const msc_type *t = onnx_type(n, 0);
  if (!v || !t) return false;
  int64_t count = 0, k = 0;
  for (size_t i = 0; i < num; i++) count += v[i] != 0;
  int64_t *out = msc_new_array(n->scratch, int64_t, (size_t)(count + 1) * (size_t)(t->rank + 1));
  for (size_t i = 0; i < num; i++) {
    if (v[i] == 0) continue;
    int64_t rest = (int64_t)i;
    for (int d = t->rank - 1; d >= 0; d--) out[d * count + k] = rest % t->dim[d], rest /= t->dim[d];
    k++;
  }
  return onnx_set_constant(n, 0, msc_type_of(n->ctx, MSC_I64, 2, (int64_t[]){t->rank, count}, NULL), out);
}
