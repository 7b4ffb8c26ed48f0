/* formula.h: short words for building arithmetic: values in, a value out.  NULL, after a report, passes through.  Each
 * call emits an op, and C leaves open in which order the arguments of one call are evaluated: of two arguments that
 * emit, one has a name, so that a program does not depend on the compiler that compiled msc. */
#ifndef MSC_IR_FORMULA_H
#define MSC_IR_FORMULA_H

#include <math.h>

#include "ir/scalar.h"

static inline msc_context *formula_ctx(const msc_builder *b) { return b->func->module->ctx; }

static inline msc_value *unary(msc_builder *b, msc_op_kind kind, msc_value *x) { return msc_build(b, kind, 1, &x); }

static inline msc_value *binary(msc_builder *b, msc_op_kind kind, msc_value *x, msc_value *y) {
  return msc_build(b, kind, 2, (msc_value *[]){x, y});
}

/* Ends an expansion of one result. */
static inline bool give_result(msc_value *y, msc_value **out_result) { return (out_result[0] = y) != NULL; }

static inline msc_value *plus(msc_builder *b, msc_value *x, msc_value *y) { return binary(b, OP_add, x, y); }
static inline msc_value *minus(msc_builder *b, msc_value *x, msc_value *y) { return binary(b, OP_sub, x, y); }
static inline msc_value *times(msc_builder *b, msc_value *x, msc_value *y) { return binary(b, OP_mul, x, y); }
static inline msc_value *over(msc_builder *b, msc_value *x, msc_value *y) { return binary(b, OP_div, x, y); }

/* Builds the constant c, of x's element type. */
static inline msc_value *number(msc_builder *b, const msc_value *x, double c) {
  return x ? msc_build_scalar(b, x->type->dtype, c) : NULL;
}

static inline msc_value *scale_by(msc_builder *b, msc_value *x, double c) {
  return x ? times(b, x, number(b, x, c)) : NULL;
}

static inline msc_value *with_attrs(msc_builder *b, msc_op_kind kind, size_t num_in, msc_value *const *in,
                                    size_t num_attrs, const msc_attr *attrs) {
  msc_op *op = msc_build_with(b, kind, num_in, in, 1, num_attrs, attrs);
  return op ? &op->out[0] : NULL;
}

static inline msc_value *with_ints(msc_builder *b, msc_op_kind kind, msc_value *x, const char *name, int num,
                                   const int64_t *v) {
  msc_attr attr = msc_named(formula_ctx(b), name, msc_ints(formula_ctx(b), (size_t)num, v));
  return with_attrs(b, kind, 1, &x, 1, &attr);
}

static inline msc_value *with_attr(msc_builder *b, msc_op_kind kind, size_t num_in, msc_value *const *in,
                                   msc_attr attr) {
  return with_attrs(b, kind, num_in, in, 1, &attr);
}

static inline msc_value *cast(msc_builder *b, msc_value *x, msc_dtype dtype) {
  return !x || x->type->dtype == dtype ? x : with_attr(b, OP_cast, 1, &x, msc_dtype_attr(formula_ctx(b), dtype));
}

static inline msc_value *compare(msc_builder *b, msc_predicate predicate, msc_value *x, msc_value *y) {
  return with_attr(b, OP_compare, 2, (msc_value *[]){x, y}, msc_predicate_attr(formula_ctx(b), predicate));
}

static inline msc_value *gelu(msc_builder *b, msc_gelu_form form, msc_value *x) {
  return with_attr(b, OP_gelu, 1, &x, msc_gelu_form_attr(formula_ctx(b), form));
}

static inline msc_value *choose(msc_builder *b, msc_value *c, msc_value *x, msc_value *y) {
  return msc_build(b, OP_select, 3, (msc_value *[]){c, x, y});
}

static inline msc_value *reshape(msc_builder *b, msc_value *x, int rank, const int64_t *dim) {
  bool same = x && x->type->rank == rank;
  for (int d = 0; same && d < rank; d++) same = x->type->dim[d] == dim[d];
  return same ? x : with_ints(b, OP_reshape, x, "shape", rank, dim);
}

static inline msc_value *broadcast(msc_builder *b, msc_value *x, int rank, const int64_t *dim) {
  bool same = x && x->type->rank == rank;
  for (int d = 0; same && d < rank; d++) same = x->type->dim[d] == dim[d];
  return same ? x : with_ints(b, OP_broadcast_to, x, "shape", rank, dim);
}

static inline msc_value *transpose(msc_builder *b, msc_value *x, const int64_t *perm) {
  bool same = true;
  if (!x) return NULL;
  for (int d = 0; d < x->type->rank; d++) same &= perm[d] == d;
  return same ? x : with_ints(b, OP_transpose, x, "perm", x->type->rank, perm);
}

/* Builds a constant whose elements are `data`, which is not copied. */
static inline msc_value *constant_of(msc_builder *b, const msc_type *t, const void *data) {
  msc_attr_value v = {.kind = MSC_ATTR_DENSE, .dense = {t, data, (size_t)msc_type_bytes(t)}};
  msc_attr attr = msc_named(formula_ctx(b), "value", v);
  return with_attrs(b, OP_constant, 0, NULL, 1, &attr);
}

static inline msc_value *with_axis(msc_builder *b, msc_op_kind kind, msc_value *x, msc_value *indices, int64_t axis) {
  msc_attr attr = msc_named(formula_ctx(b), "axis", msc_int(axis));
  return x && indices ? with_attrs(b, kind, 2, (msc_value *[]){x, indices}, 1, &attr) : NULL;
}

static inline msc_value *gather(msc_builder *b, msc_value *x, msc_value *indices, int64_t axis) {
  return with_axis(b, OP_gather, x, indices, axis);
}

static inline msc_value *take_along(msc_builder *b, msc_value *x, msc_value *indices, int64_t axis) {
  return with_axis(b, OP_take_along, x, indices, axis);
}

/* Builds the elements start, start + stride .. below limit of each dimension; stride NULL: 1 everywhere. */
static inline msc_value *slice_of(msc_builder *b, msc_value *x, const int64_t *start, const int64_t *limit,
                               const int64_t *stride) {
  bool whole = true;
  if (!x) return NULL;
  msc_context *ctx = formula_ctx(b);
  size_t rank = (size_t)x->type->rank;
  for (size_t d = 0; d < rank; d++)
    whole &= start[d] == 0 && limit[d] == x->type->dim[d] && (!stride || stride[d] == 1);
  if (whole) return x;
  msc_attr attrs[3] = {msc_named(ctx, "start", msc_ints(ctx, rank, start)),
                       msc_named(ctx, "limit", msc_ints(ctx, rank, limit))};
  if (stride) attrs[2] = msc_named(ctx, "stride", msc_ints(ctx, rank, stride));
  return with_attrs(b, OP_slice, 1, &x, stride ? 3 : 2, attrs);
}

/* Builds elements [from, to) of one dimension. */
static inline msc_value *part_of(msc_builder *b, msc_value *x, int dim, int64_t from, int64_t to) {
  int64_t start[MSC_MAX_RANK] = {0}, limit[MSC_MAX_RANK];
  if (!x) return NULL;
  for (int d = 0; d < x->type->rank; d++) limit[d] = x->type->dim[d];
  start[dim] = from, limit[dim] = to;
  return slice_of(b, x, start, limit, NULL);
}

/* Puts `value` low[d] times before and high[d] times behind the elements of each dimension, and stride[d] - 1 times
 * between neighbours; stride NULL: 1 everywhere. */
static inline msc_value *pad_with(msc_builder *b, msc_value *x, const int64_t *low, const int64_t *high,
                             const int64_t *stride, double value) {
  bool whole = true;
  if (!x) return NULL;
  msc_context *ctx = formula_ctx(b);
  size_t rank = (size_t)x->type->rank, num = 2;
  for (size_t d = 0; d < rank; d++) whole &= !low[d] && !high[d] && (!stride || stride[d] == 1);
  if (whole) return x;
  msc_attr attrs[4] = {msc_named(ctx, "low", msc_ints(ctx, rank, low)),
                       msc_named(ctx, "high", msc_ints(ctx, rank, high))};
  if (stride) attrs[num++] = msc_named(ctx, "stride", msc_ints(ctx, rank, stride));
  if (value != 0 || signbit(value)) attrs[num++] = msc_named(ctx, "value", msc_float(value));
  return with_attrs(b, OP_pad, 1, &x, num, attrs);
}

/* Builds the product x y of two matrices, or of two stacks of as many matrices. */
static inline msc_value *matrix_product(msc_builder *b, msc_value *x, bool transpose_x, msc_value *y,
                                        bool transpose_y) {
  msc_attr attrs[2];
  size_t num = 0;
  if (!x || !y) return NULL;
  if (transpose_x) attrs[num++] = msc_named(formula_ctx(b), "transpose_a", msc_bool(true));
  if (transpose_y) attrs[num++] = msc_named(formula_ctx(b), "transpose_b", msc_bool(true));
  msc_op_kind kind = x->type->rank > 2 || y->type->rank > 2 ? OP_batch_matmul : OP_matmul;
  return with_attrs(b, kind, 2, (msc_value *[]){x, y}, num, attrs);
}

/* Builds a tensor of `rows` rows along `axis` that are zeros, with the updates added to its rows `indices`. */
static inline msc_value *sum_by_row(msc_builder *b, msc_value *indices, msc_value *updates, int64_t rows,
                                    int64_t axis) {
  msc_context *ctx = formula_ctx(b);
  msc_attr attrs[] = {msc_named(ctx, "rows", msc_int(rows)), msc_named(ctx, "axis", msc_int(axis))};
  return indices && updates ? with_attrs(b, OP_scatter_add, 2, (msc_value *[]){indices, updates}, axis ? 2 : 1, attrs)
                            : NULL;
}

/* Builds x with its rows `indices` along `axis` replaced by the updates. */
static inline msc_value *replace_rows(msc_builder *b, msc_value *x, msc_value *indices, msc_value *updates,
                                      int64_t axis) {
  msc_attr attr = msc_named(formula_ctx(b), "axis", msc_int(axis));
  msc_value *in[] = {x, indices, updates};
  return x && indices && updates ? with_attrs(b, OP_scatter_update, 3, in, axis != 0, &attr) : NULL;
}

/* Concatenates along one dimension. */
static inline msc_value *join_along(msc_builder *b, int dim, size_t num, msc_value *const *x) {
  msc_attr attr = msc_named(formula_ctx(b), "dim", msc_int(dim));
  return with_attrs(b, OP_concat, num, x, 1, &attr);
}

static inline msc_value *reduce(msc_builder *b, msc_op_kind kind, msc_value *x, int num, const int64_t *dims,
                                bool keep) {
  msc_context *ctx = formula_ctx(b);
  msc_attr attrs[] = {msc_named(ctx, "dims", msc_ints(ctx, (size_t)num, dims)),
                      msc_named(ctx, "keep_dims", msc_bool(true))};
  return with_attrs(b, kind, 1, &x, keep ? 2 : 1, attrs);
}

/* Reduces two tensors, element by element. */
static inline msc_value *combine_by(msc_builder *b, msc_reduction r, msc_value *x, msc_value *y) {
  return binary(b, msc_combining_kind(r), x, y);
}

/* Reduces dimensions; `keep`: they stay with size 1. */
static inline msc_value *reduce_by(msc_builder *b, msc_reduction r, msc_value *x, int num, const int64_t *dims,
                                   bool keep) {
  return x ? reduce(b, msc_reducing_kind(r), x, num, dims, keep) : NULL;
}

static inline msc_value *sum_over(msc_builder *b, msc_value *x, int num, const int64_t *dims, bool keep) {
  return reduce_by(b, MSC_SUM, x, num, dims, keep);
}

/* Sums x over the dimensions in which it was broadcast from a shape. */
static inline msc_value *sum_to(msc_builder *b, msc_value *x, int rank, const int64_t *dim) {
  int64_t dims[MSC_MAX_RANK] = {0};
  int num = 0, extra = x ? x->type->rank - rank : 0;
  for (int d = 0; x && d < x->type->rank; d++)
    if (x->type->dim[d] != 1 && (d < extra || x->type->dim[d] != dim[d - extra])) dims[num++] = d;
  return reshape(b, num ? sum_over(b, x, num, dims, extra == 0) : x, rank, dim);
}

static inline msc_value *mean_over(msc_builder *b, msc_value *x, int num, const int64_t *dims, bool keep) {
  return reduce(b, OP_reduce_mean, x, num, dims, keep);
}

/* Reduces over one dimension, which stays with size 1. */
static inline msc_value *reduce_along(msc_builder *b, msc_reduction r, msc_value *x, int64_t dim) {
  return reduce_by(b, r, x, 1, &dim, true);
}

static const int64_t msc_all_dims[MSC_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};

/* Builds the sum of all elements. */
static inline msc_value *sum_to_scalar(msc_builder *b, msc_value *x) {
  return x ? sum_over(b, x, x->type->rank, msc_all_dims, false) : NULL;
}

/* Builds the loss of `reduction`: the mean or sum of the samples' losses, or these as they are. */
static inline msc_value *reduce_loss(msc_builder *b, msc_loss_reduction reduction, msc_value *x) {
  if (!x || reduction == MSC_LOSS_NONE) return x;
  return reduction == MSC_LOSS_MEAN ? mean_over(b, x, x->type->rank, msc_all_dims, false) : sum_to_scalar(b, x);
}

/* Builds 0, 1, 2 .. along one dimension, the same along the others. */
static inline msc_value *iota(msc_builder *b, msc_dtype dtype, int rank, const int64_t *dim, int along_dim) {
  msc_context *ctx = formula_ctx(b);
  msc_attr attrs[] = {msc_named(ctx, "type", msc_type_attr(msc_type_of(ctx, dtype, rank, dim, NULL))),
                      msc_named(ctx, "dim", msc_int(along_dim))};
  return with_attrs(b, OP_iota, 0, NULL, along_dim ? 2 : 1, attrs);
}

static inline msc_value *count_up(msc_builder *b, msc_dtype dtype, int64_t n) {
  return iota(b, dtype, 1, &n, 0);
}

/* Returns the element type in which sums and statistics are computed. */
static inline msc_dtype widen_dtype(msc_dtype d) { return d == MSC_F16 || d == MSC_BF16 ? MSC_F32 : d; }

/* Returns the dimension that an axis attribute names; it may count from the end. */
static inline int axis_of(const msc_op *op, const char *name, int rank) {
  int64_t axis = msc_op_int(op, name);
  return (int)(axis < 0 ? axis + rank : axis);
}

#endif
