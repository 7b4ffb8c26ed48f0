/* build.c: values in; ops that several builders of nodes need out. */
#include <string.h>

#include "ir/onnx/onnx.h"

msc_value *onnx_move_dim(msc_builder *b, msc_value *x, int from, int to) {
  int64_t perm[MSC_MAX_RANK];
  int rank = rank_of(x), k = 0;
  for (int d = 0; d < rank; d++) {
    if (d == to) perm[d] = from;
    else {
      k += k == from;
      perm[d] = k++;
    }
  }
  return transpose(b, x, perm);
}

msc_value *onnx_insert_dim(msc_builder *b, msc_value *x, int dim) {
  int64_t to[MSC_MAX_RANK + 1];
  if (!x) return NULL;
  for (int d = 0; d <= x->type->rank; d++) to[d] = d == dim ? 1 : x->type->dim[d - (d > dim)];
  return reshape(b, x, x->type->rank + 1, to);
}

msc_value *onnx_drop_dim(msc_builder *b, msc_value *x, int dim) {
  int64_t to[MSC_MAX_RANK];
  int rank = 0;
  if (!x) return NULL;
  for (int d = 0; d < x->type->rank; d++)
    if (d != dim) to[rank++] = x->type->dim[d];
  return reshape(b, x, rank, to);
}

msc_value *onnx_dense(msc_builder *b, msc_dtype dtype, int rank, const int64_t *dim, const double *v) {
  msc_context *ctx = formula_ctx(b);
  const msc_type *type = msc_type_of(ctx, dtype, rank, dim, NULL);
  msc_tensor t = msc_tensor_new(msc_context_arena(ctx), type);
  for (int64_t i = 0; i < msc_type_elems(type); i++) msc_tensor_set(&t, i, v[i]);
  return constant_of(b, type, t.data);
}

msc_value *onnx_reverse(msc_builder *b, msc_value *x, int dim) {
  int64_t d = dim;
  return x ? with_ints(b, OP_reverse, x, "dims", 1, &d) : NULL;
}

msc_value *onnx_both(msc_builder *b, msc_value *x, msc_value *y) {
  return x && y ? msc_compute(b, "logical_and(a, b)", x, y) : x ? x : y;
}

msc_value *onnx_all_but(msc_builder *b, msc_op_kind kind, msc_value *x, int first) {
  int64_t dims[MSC_MAX_RANK];
  int num = 0;
  for (int d = first; d < rank_of(x); d++) dims[num++] = d;
  return x && num ? reduce(b, kind, x, num, dims, true) : x;
}

/* ---- products ---- */

/* Writes the dimensions before the last two of x and y, broadcast against each other; false: there are too many. */
static bool leading_dims(const msc_type *x, const msc_type *y, int *out_num, int64_t *out_dim) {
  int a = x->rank - 2, c = y->rank - 2, num = a > c ? a : c;
  for (int d = 0; d < num; d++) {
    int64_t p = d - (num - a) < 0 ? 1 : x->dim[d - (num - a)], q = d - (num - c) < 0 ? 1 : y->dim[d - (num - c)];
    out_dim[d] = p == 1 ? q : p;
  }
  *out_num = num;
  return num <= MSC_MAX_RANK - 2;
}

static msc_value *with_leading(msc_builder *b, msc_value *x, int num, const int64_t *dim) {
  int64_t to[MSC_MAX_RANK];
  if (!x) return NULL;
  memcpy(to, dim, (size_t)num * sizeof *to);
  to[num] = x->type->dim[x->type->rank - 2], to[num + 1] = x->type->dim[x->type->rank - 1];
  return broadcast(b, x, num + 2, to);
}

/* Builds a matrix product as a sum of elementwise products, for types without a product op (integers), and for an
 * inner dimension of 0. */
static msc_value *sum_products(msc_builder *b, msc_value *x, msc_value *y) {
  int64_t dim[MSC_MAX_RANK];
  int rank = x->type->rank;
  if (rank + 1 > MSC_MAX_RANK) return msc_compute(b, "batch_matmul(a, b)", x, y);
  memcpy(dim, x->type->dim, sizeof dim);
  dim[rank] = 1;
  msc_value *rows = reshape(b, x, rank + 1, dim);
  memcpy(dim, y->type->dim, sizeof dim);
  dim[rank] = dim[rank - 1], dim[rank - 1] = dim[rank - 2], dim[rank - 2] = 1;
  msc_value *columns = reshape(b, y, rank + 1, dim), *all = times(b, rows, columns);
  return all ? sum_over(b, all, 1, (int64_t[]){rank - 1}, false) : NULL;
}

/* Builds the product of a tensor of rows, of any rank, and one matrix as a single matrix product. */
static msc_value *multiply_rows(msc_builder *b, msc_value *x, msc_value *y) {
  int rank = x->type->rank;
  int64_t dim[MSC_MAX_RANK], rows = 1;
  for (int d = 0; d < rank - 1; d++) rows *= (dim[d] = x->type->dim[d]);
  dim[rank - 1] = y->type->dim[1];
  msc_value *p = matrix_product(b, reshape(b, x, 2, (int64_t[]){rows, x->type->dim[rank - 1]}), false, y, false);
  return p ? reshape(b, p, rank, dim) : NULL;
}

msc_value *onnx_matmul(msc_builder *b, msc_value *x, msc_value *y) {
  if (!x || !y) return NULL;
  bool row = x->type->rank == 1, column = y->type->rank == 1;
  if (row) x = reshape(b, x, 2, (int64_t[]){1, x->type->dim[0]});
  if (column) y = reshape(b, y, 2, (int64_t[]){y->type->dim[0], 1});
  int64_t dim[MSC_MAX_RANK];
  int num;
  bool flat = y->type->rank == 2 && msc_is_float(x->type->dtype);
  if (!flat && leading_dims(x->type, y->type, &num, dim)) {
    x = with_leading(b, x, num, dim);
    y = with_leading(b, y, num, dim);
  }
  if (!x || !y) return NULL;
  bool fits = x->type->dim[x->type->rank - 1] == y->type->dim[y->type->rank - 2];
  msc_value *p = flat                                    ? multiply_rows(b, x, y)
                 : fits && !msc_is_float(x->type->dtype) ? sum_products(b, x, y)
                                                         : msc_compute(b, "batch_matmul(a, b)", x, y);
  if (!p || (!row && !column)) return p;
  int rank = p->type->rank, k = 0;
  for (int d = 0; d < rank; d++)
    if (!(row && d == rank - 2) && !(column && d == rank - 1)) dim[k++] = p->type->dim[d];
  return reshape(b, p, k, dim);
}
