/* index.c: shape functions of ops with indices, of sorting ops and of random ops: an op in; its result types out (see
 * shape.c). */
#include <string.h>

#include "ir/ir.h"
#include "ir/layout/layout.h"
#include "ir/op_table.h"
#include "ir/shape/shape.h"

/* ---- indexed ---- */

/* Copies dimensions [from, to) of t behind the n already in dim; false beyond the possible rank. */
static bool push_dims(int64_t *dim, int *n, const msc_type *t, int from, int to) {
  for (int d = from; d < to; d++) {
    if (*n == MSC_MAX_RANK) return false;
    dim[(*n)++] = t->dim[d];
  }
  return true;
}

/* Checks that the parts of an aligned table, its fact manual_split, have `rows` rows together. */
static bool check_rows(msc_op *op, int64_t rows) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(manual_split));
  int64_t sum = 0;
  if (!v || !msc_op_bool(op, MSC_FACT(aligned))) return true;
  if (v->kind != MSC_ATTR_LIST || v->list.num < 2)
    return shape_wrong(op, "manual_split must be a list with the rows of each part");
  for (size_t i = 0; i < v->list.num; i++) {
    if (v->list.v[i].kind != MSC_ATTR_INT || v->list.v[i].i < 1)
      return shape_wrong(op, "manual_split: part %zu must have at least 1 row", i);
    if (__builtin_add_overflow(sum, v->list.v[i].i, &sum))
      return shape_wrong(op, "manual_split: the parts have 2^63 rows or more");
  }
  return sum == rows ||
         shape_wrong(op, "manual_split: the parts have %" D " rows together, the table has %" D, sum, rows);
}

/* table [pre, v, post], indices [*] -> [pre, *, post], as numpy.take does. */
bool shape_gather(msc_op *op) {
  const msc_type *table = shape_in(op, 0), *indices = shape_in(op, 1);
  int64_t axis, dim[MSC_MAX_RANK];
  int n = 0;
  MSC_TRY(shape_must_be_index(op, 1) && shape_dim_attr(op, "axis", table->rank, &axis));
  if (!push_dims(dim, &n, table, 0, (int)axis) || !push_dims(dim, &n, indices, 0, indices->rank) ||
      !push_dims(dim, &n, table, (int)axis + 1, table->rank))
    return shape_wrong(op, "result would have rank %d, at most %d is possible", table->rank + indices->rank - 1,
                       MSC_MAX_RANK);
  return check_rows(op, table->dim[axis]) && shape_set(op, 0, table->dtype, n, dim);
}

/* indices [*], updates [pre, *, post] -> [pre, rows, post]. */
bool shape_scatter_add(msc_op *op) {
  const msc_type *indices = shape_in(op, 0), *updates = shape_in(op, 1);
  int64_t axis = msc_op_int(op, "axis"), rows = msc_op_int(op, "rows"), dim[MSC_MAX_RANK];
  int n = 0, r = indices->rank;
  MSC_TRY(shape_must_be_index(op, 0) && shape_must_be_number(op, 1));
  if (rows < 0) return shape_wrong(op, "rows %" D " must not be negative", rows);
  if (axis < 0 || axis + r > updates->rank)
    return shape_wrong(op, "axis %" D ": updates of rank %d have no room for the %d dimensions of indices there", axis,
                       updates->rank, r);
  if (updates->rank - r + 1 > MSC_MAX_RANK)
    return shape_wrong(op, "result would have rank %d, at most %d is possible", updates->rank - r + 1, MSC_MAX_RANK);
  for (int d = 0; d < r; d++)
    if (indices->dim[d] != updates->dim[axis + d])
      return shape_wrong(op,
                         "dimension %d of indices is %" D " and dimension %" D " of updates %" D "; they must agree", d,
                         indices->dim[d], axis + d, updates->dim[axis + d]);
  push_dims(dim, &n, updates, 0, (int)axis);
  dim[n++] = rows;
  push_dims(dim, &n, updates, (int)axis + r, updates->rank);
  return shape_set(op, 0, updates->dtype, n, dim);
}

/* indices and order [n], updates [n, *] -> [rows, *]. */
bool shape_segment_sum(msc_op *op) {
  const msc_type *indices = shape_in(op, 0), *order = shape_in(op, 1), *updates = shape_in(op, 2);
  int64_t rows = msc_op_int(op, "rows"), blocks = msc_op_int(op, "blocks"), dim[MSC_MAX_RANK];
  int n = 1;
  MSC_TRY(shape_must_be_index(op, 0) && shape_must_be_index(op, 1) && shape_must_be_float(op, 2));
  if (rows < 0) return shape_wrong(op, "rows %" D " must not be negative", rows);
  if (msc_op_int(op, "tile") < 0) return shape_wrong(op, "tile %" D " must not be negative", msc_op_int(op, "tile"));
  if (indices->rank != 1 || order->rank != 1 || updates->rank < 1 || indices->dim[0] != order->dim[0] ||
      indices->dim[0] != updates->dim[0])
    return shape_wrong(op, "indices and order have an entry for each of the updates");
  if (blocks < 1 || blocks > MSC_MAX_SUM_BLOCKS || (blocks & (blocks - 1)) || updates->dim[0] % blocks)
    return shape_wrong(op, "%" D " updates do not divide into %" D " blocks", updates->dim[0], blocks);
  dim[0] = rows;
  push_dims(dim, &n, updates, 1, updates->rank);
  return shape_set(op, 0, updates->dtype, n, dim);
}

/* Checks that operands i and j have equal shapes except in dimension `axis` (-1: everywhere). */
static bool check_same_but_axis(msc_op *op, size_t i, size_t j, int axis) {
  const msc_type *a = shape_in(op, i), *b = shape_in(op, j);
  if (a->rank != b->rank)
    return shape_wrong(op, "'%s' has rank %d and '%s' rank %d; they must be equal", shape_operand_name(op, i), a->rank,
                       shape_operand_name(op, j), b->rank);
  for (int d = 0; d < a->rank; d++)
    if (d != axis && a->dim[d] != b->dim[d])
      return shape_wrong(op, "dimension %d of '%s' and '%s' differs: %" D " and %" D, d, shape_operand_name(op, i),
                         shape_operand_name(op, j), a->dim[d], b->dim[d]);
  return true;
}

bool shape_take_along(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *indices = shape_in(op, 1);
  int axis;
  MSC_TRY(shape_must_be_index(op, 1) && shape_axis_attr(op, "axis", x, &axis) && check_same_but_axis(op, 0, 1, axis));
  return shape_set(op, 0, x->dtype, x->rank, indices->dim);
}

bool shape_add_along(msc_op *op) {
  const msc_type *updates = shape_in(op, 1);
  int64_t rows = msc_op_int(op, "rows"), dim[MSC_MAX_RANK];
  int axis;
  MSC_TRY(shape_must_be_index(op, 0) && shape_must_be_number(op, 1) && shape_axis_attr(op, "axis", updates, &axis) &&
          check_same_but_axis(op, 0, 1, -1));
  if (rows < 0) return shape_wrong(op, "rows %" D " must not be negative", rows);
  memcpy(dim, updates->dim, sizeof dim);
  dim[axis] = rows;
  return shape_set(op, 0, updates->dtype, updates->rank, dim);
}

/* Reads the size of the last dimension of operand i, the number of dimensions that one index names: 1 to `rank`. */
static bool index_depth(msc_op *op, size_t i, int rank, int *out_depth) {
  const msc_type *indices = shape_in(op, i);
  MSC_TRY(shape_must_be_index(op, i));
  if (indices->rank < 1) return shape_wrong(op, "'indices' must have rank 1 or more");
  int64_t depth = indices->dim[indices->rank - 1];
  if (depth < 1 || depth > rank)
    return shape_wrong(op, "the last dimension of 'indices' is %" D ", not one of 1..%d, the rank of the tensor", depth,
                       rank);
  *out_depth = (int)depth;
  return true;
}

bool shape_gather_nd(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *indices = shape_in(op, 1);
  int64_t dim[MSC_MAX_RANK];
  int depth, n = 0;
  MSC_TRY(index_depth(op, 1, x->rank, &depth));
  if (!push_dims(dim, &n, indices, 0, indices->rank - 1) || !push_dims(dim, &n, x, depth, x->rank))
    return shape_wrong(op, "result would have rank %d, at most %d is possible", indices->rank - 1 + x->rank - depth,
                       MSC_MAX_RANK);
  return shape_set(op, 0, x->dtype, n, dim);
}

bool shape_scatter_nd_add(msc_op *op) {
  const msc_type *indices = shape_in(op, 0), *updates = shape_in(op, 1);
  int64_t dim[MSC_MAX_RANK];
  int rank = msc_op_ints(op, MSC_FACT(shape), dim, MSC_MAX_RANK), depth, lead = indices->rank - 1;
  if (rank > MSC_MAX_RANK)
    return shape_wrong(op, "shape has %d dimensions, at most %d are possible", rank, MSC_MAX_RANK);
  MSC_TRY(index_depth(op, 0, rank, &depth) && shape_must_be_number(op, 1));
  if (updates->rank != lead + rank - depth)
    return shape_wrong(op, "'updates' has rank %d, not %d", updates->rank, lead + rank - depth);
  for (int d = 0; d < updates->rank; d++) {
    int64_t want = d < lead ? indices->dim[d] : dim[depth + d - lead];
    if (updates->dim[d] != want)
      return shape_wrong(op, "dimension %d of 'updates' is %" D ", not %" D, d, updates->dim[d], want);
  }
  return shape_set(op, 0, updates->dtype, rank, dim);
}

bool shape_scatter_update(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *indices = shape_in(op, 1), *updates = shape_in(op, 2);
  int64_t axis;
  MSC_TRY(shape_must_be_index(op, 1) && shape_same_dtype(op, 0, 2) && shape_dim_attr(op, "axis", x->rank, &axis));
  int r = indices->rank;
  if (updates->rank != x->rank - 1 + r)
    return shape_wrong(op, "'updates' has rank %d, not %d", updates->rank, x->rank - 1 + r);
  for (int d = 0; d < updates->rank; d++) {
    int64_t want = d < axis ? x->dim[d] : d < axis + r ? indices->dim[d - axis] : x->dim[d - r + 1];
    if (updates->dim[d] != want)
      return shape_wrong(op, "dimension %d of 'updates' is %" D ", not %" D, d, updates->dim[d], want);
  }
  return shape_set_like(op, 0, x);
}

bool shape_one_hot(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t depth = msc_op_int(op, "depth"), dim[MSC_MAX_RANK + 1];
  MSC_TRY(shape_must_be_index(op, 0));
  if (depth < 0) return shape_wrong(op, "depth %" D " must not be negative", depth);
  memcpy(dim, x->dim, sizeof x->dim);
  dim[x->rank] = depth;
  return shape_set(op, 0, msc_op_dtype(op), x->rank + 1, dim);
}

/* ---- along one dimension ---- */

/* Reads attribute `dtype`, i32 or i64, as the element type of indices below n. False after a report: they do not
 * fit. */
static bool index_dtype_attr(msc_op *op, int64_t n, msc_dtype *out_dtype) {
  *out_dtype = msc_op_dtype(op);
  return *out_dtype == MSC_I64 || n <= INT32_MAX ||
         shape_wrong(op, "indices below %" D " do not fit dtype \"i32\"; take \"i64\"", n);
}

static bool set_sorted_types(msc_op *op, int axis, int64_t k) {
  const msc_type *x = shape_in(op, 0);
  int64_t dim[MSC_MAX_RANK];
  msc_dtype dtype;
  MSC_TRY(index_dtype_attr(op, x->dim[axis], &dtype));
  memcpy(dim, x->dim, sizeof dim);
  dim[axis] = k;
  return shape_set(op, 0, x->dtype, x->rank, dim) && shape_set(op, 1, dtype, x->rank, dim);
}

bool shape_sort(msc_op *op) {
  int axis;
  MSC_TRY(shape_axis_attr(op, "axis", shape_in(op, 0), &axis));
  return set_sorted_types(op, axis, shape_in(op, 0)->dim[axis]);
}

bool shape_topk(msc_op *op) {
  int64_t k = msc_op_int(op, "k");
  int axis;
  MSC_TRY(shape_axis_attr(op, "axis", shape_in(op, 0), &axis));
  if (k < 0 || k > shape_in(op, 0)->dim[axis])
    return shape_wrong(op, "k %" D " is not in 0..%" D, k, shape_in(op, 0)->dim[axis]);
  return set_sorted_types(op, axis, k);
}

bool shape_argmax(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t dim[MSC_MAX_RANK];
  int axis, rank = 0;
  msc_dtype dtype;
  MSC_TRY(shape_must_be_number(op, 0) && shape_axis_attr(op, "axis", x, &axis) &&
          index_dtype_attr(op, x->dim[axis], &dtype));
  if (!x->dim[axis]) return shape_wrong(op, "dimension %d has no elements", axis);
  for (int d = 0; d < x->rank; d++)
    if (d != axis) dim[rank++] = x->dim[d];
    else if (msc_op_bool(op, "keep_dims")) dim[rank++] = 1;
  return shape_set(op, 0, dtype, rank, dim);
}

bool shape_unique(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  msc_dtype dtype;
  if (x->rank != 1) return shape_wrong(op, "'x' must have rank 1, not %d; flatten it", x->rank);
  MSC_TRY(index_dtype_attr(op, x->dim[0], &dtype));
  return shape_set_like(op, 0, x) && shape_set(op, 1, dtype, 1, x->dim) && shape_set(op, 2, dtype, 0, NULL);
}

/* Every operand is shaped like the result. */
bool shape_cumulate(msc_op *op) {
  int axis;
  MSC_TRY(shape_axis_attr(op, "axis", shape_in(op, 0), &axis) && shape_must_be_number(op, 0));
  if (op->num_in > 1) MSC_TRY(shape_must_be_float(op, 0) && shape_same_type(op, 0, 1));
  return shape_set_like(op, 0, shape_in(op, 0));
}

bool shape_logcumsumexp(msc_op *op) {
  int axis;
  MSC_TRY(shape_axis_attr(op, "axis", shape_in(op, 0), &axis) && shape_must_be_float(op, 0));
  return shape_set_like(op, 0, shape_in(op, 0));
}

/* ---- random ---- */

/* Checks the operands `seed` and `step`, i64 scalars from number `first` on, of which both are there or none. */
static bool check_key(msc_op *op, size_t first) {
  if (op->num_in == first + 1) return shape_wrong(op, "'seed' is given without 'step'");
  for (size_t i = first; i < op->num_in; i++) {
    const msc_type *t = shape_in(op, i);
    if (t->rank || t->dtype != MSC_I64)
      return shape_wrong(op, "'%s' must be one i64, not %s", i > first ? "step" : "seed", shape_text(op, t));
  }
  int64_t salt = msc_op_int(op, "salt");
  return (salt >= 0 && salt <= UINT32_MAX) || shape_wrong(op, "salt %" D " is not in 0..2^32-1", salt);
}

bool shape_uniform(msc_op *op) {
  return shape_must_be_float(op, 0) && check_key(op, 1) && shape_set_like(op, 0, shape_in(op, 0));
}

bool shape_dropout(msc_op *op) {
  double rate = msc_op_float(op, "rate");
  MSC_TRY(shape_must_be_float(op, 0) && check_key(op, 1));
  if (!(rate >= 0 && rate < 1)) return shape_wrong(op, "rate %g must be at least 0 and below 1", rate);
  return shape_set_like(op, 0, shape_in(op, 0));
}
