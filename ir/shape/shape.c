/* shape.c: operand types and attributes of an op in; result types, or one report at the op, out.
 * The functions are named in op.def and run after msc_check_row has accepted the op.  Operands of one op have equal
 * element types; none is cast silently.  Broadcasting is numpy's: dimensions are aligned from the right, and size 1
 * stretches. */
#include <string.h>

#include "ir/hypers.h"
#include "ir/ir.h"
#include "ir/op_table.h"
#include "ir/shape/shape.h"

/* ---- helpers ---- */

bool shape_wrong(const msc_op *op, const char *fmt, ...) {
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return msc_op_error(op, MSC_E_SHAPE, "%s: %s", msc_kind_name(op->kind), text);
}

const char *shape_operand_name(const msc_op *op, size_t i) {
  const msc_op_info *info = msc_info(op);
  size_t last = (size_t)info->num_operands - 1;
  return info->operand[i < last ? i : last].name;
}

const char *shape_text(const msc_op *op, const msc_type *t) {
  char text[MSC_MAX_RANK * 21 + 16];
  size_t n = 0;
  text[n++] = '[';
  for (int d = 0; d < t->rank; d++) n += (size_t)snprintf(text + n, sizeof text - n, "%s%" D, d ? "," : "", t->dim[d]);
  snprintf(text + n, sizeof text - n, "]%s", msc_dtype_name(t->dtype));
  return msc_arena_printf(msc_context_arena(msc_op_ctx(op)), "%s", text);
}

bool shape_set(msc_op *op, size_t i, msc_dtype dtype, int rank, const int64_t *dim) {
  int64_t bytes = msc_dtype_bytes(dtype);
  if (rank > MSC_MAX_RANK)
    return shape_wrong(op, "result would have rank %d, at most %d is possible", rank, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++) {
    if (dim[d] < 0) return shape_wrong(op, "result dimension %d would be %" D, d, dim[d]);
    if (__builtin_mul_overflow(bytes, dim[d], &bytes)) return shape_wrong(op, "result would have 2^63 bytes or more");
  }
  return msc_result(op, i, dtype, rank, dim);
}

bool shape_set_like(msc_op *op, size_t i, const msc_type *t) { return shape_set(op, i, t->dtype, t->rank, t->dim); }

bool shape_same_dtype(msc_op *op, size_t i, size_t j) {
  msc_dtype a = shape_in(op, i)->dtype, b = shape_in(op, j)->dtype;
  if (a == b) return true;
  return shape_wrong(op, "element types of '%s' and '%s' differ: %s and %s; cast one of them",
                     shape_operand_name(op, i), shape_operand_name(op, j), msc_dtype_name(a), msc_dtype_name(b));
}

bool shape_same_type(msc_op *op, size_t i, size_t j) {
  const msc_type *a = shape_in(op, i), *b = shape_in(op, j);
  MSC_TRY(shape_same_dtype(op, i, j));
  if (a->rank != b->rank)
    return shape_wrong(op, "'%s' has rank %d and '%s' rank %d; both must be the same shape", shape_operand_name(op, i),
                       a->rank, shape_operand_name(op, j), b->rank);
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d] != b->dim[d])
      return shape_wrong(op, "dimension %d of '%s' and '%s' differs: %" D " and %" D, d, shape_operand_name(op, i),
                         shape_operand_name(op, j), a->dim[d], b->dim[d]);
  return true;
}

bool shape_must_be_float(msc_op *op, size_t i) {
  msc_dtype t = shape_in(op, i)->dtype;
  if (msc_is_float(t)) return true;
  return shape_wrong(op, "'%s' must have floating-point elements, not %s", shape_operand_name(op, i),
                     msc_dtype_name(t));
}

bool shape_must_be_number(msc_op *op, size_t i) {
  if (shape_in(op, i)->dtype != MSC_I1) return true;
  return shape_wrong(op, "'%s' must have number elements, not i1; cast it or use select", shape_operand_name(op, i));
}

bool shape_must_be_index(msc_op *op, size_t i) {
  msc_dtype t = shape_in(op, i)->dtype;
  if (t == MSC_I32 || t == MSC_I64) return true;
  return shape_wrong(op, "'%s' must have i32 or i64 elements, not %s", shape_operand_name(op, i), msc_dtype_name(t));
}

bool shape_dim_attr(msc_op *op, const char *name, int rank, int64_t *out_dim) {
  *out_dim = msc_op_int(op, name);
  if (*out_dim >= 0 && *out_dim < rank) return true;
  return shape_wrong(op, "%s %" D " is not a dimension of a tensor of rank %d", name, *out_dim, rank);
}

bool shape_axis_attr(msc_op *op, const char *name, const msc_type *t, int *out_axis) {
  int64_t axis = msc_op_int(op, name);
  if (axis < -t->rank || axis >= t->rank)
    return shape_wrong(op, "%s %" D " is not a dimension of a tensor of rank %d", name, axis, t->rank);
  *out_axis = (int)(axis < 0 ? axis + t->rank : axis);
  return true;
}

/* Attribute `name` as exactly `num` integers. */
static bool ints_attr(msc_op *op, const char *name, int num, int64_t *out_v) {
  int n = msc_op_ints(op, name, out_v, num);
  if (n == num) return true;
  return shape_wrong(op, "%s must have one entry per dimension: %d, not %d", name, num, n);
}

/* Makes rank and dim the shape to which they and operand i broadcast. */
static bool broadcast_in(msc_op *op, size_t i, int *rank, int64_t *dim) {
  const msc_type *t = shape_in(op, i);
  int r = t->rank > *rank ? t->rank : *rank;
  int64_t out[MSC_MAX_RANK];
  for (int d = 0; d < r; d++) {
    int at = d - (r - t->rank), have = d - (r - *rank);
    int64_t a = have < 0 ? 1 : dim[have], b = at < 0 ? 1 : t->dim[at];
    if (a != b && a != 1 && b != 1)
      return shape_wrong(op,
                         "dimension %d of '%s' is %" D " where the other operands have %" D
                         "; sizes must be equal or 1, aligned from the right",
                         at, shape_operand_name(op, i), b, a);
    out[d] = a == 1 ? b : a;
  }
  *rank = r;
  memcpy(dim, out, sizeof *dim * (size_t)r);
  return true;
}

/* ---- sources ---- */

bool shape_constant(msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, "value");
  const msc_type *t = v->dense.type;
  int64_t bytes = msc_type_bytes(t);
  if (bytes < 0) return shape_wrong(op, "value would have 2^63 bytes or more");
  if (v->dense.bytes != (size_t)bytes && v->dense.bytes != (size_t)msc_dtype_bytes(t->dtype))
    return shape_wrong(op, "value has %zu bytes, its type %s needs %" D, v->dense.bytes, shape_text(op, t), bytes);
  return shape_set_like(op, 0, t);
}

bool shape_iota(msc_op *op) {
  const msc_type *t = msc_op_attr(op, "type")->type;
  int64_t dim;
  MSC_TRY(shape_dim_attr(op, "dim", t->rank, &dim));
  if (t->dtype == MSC_I1) return shape_wrong(op, "element type must be a number type, not i1");
  return shape_set_like(op, 0, t);
}

bool shape_stage_recv(msc_op *op) {
  const msc_type *t = msc_op_attr(op, "type")->type;
  MSC_TRY(shape_set_like(op, 0, t));
  op->out[0].type = t; /* with its layout */
  return true;
}

/* ---- elementwise ---- */

static bool broadcast_operands(msc_op *op, size_t first, msc_dtype dtype) {
  int rank = 0;
  int64_t dim[MSC_MAX_RANK];
  for (size_t i = first + 1; i < op->num_in; i++) MSC_TRY(shape_same_dtype(op, first, i));
  for (size_t i = 0; i < op->num_in; i++) MSC_TRY(broadcast_in(op, i, &rank, dim));
  return shape_set(op, 0, dtype, rank, dim);
}

bool shape_broadcast(msc_op *op, msc_dtype dtype) { return broadcast_operands(op, 0, dtype); }

bool shape_binary(msc_op *op) {
  MSC_TRY(op->kind == OP_max || op->kind == OP_min || shape_must_be_number(op, 0)); /* on i1 these are or and and */
  MSC_TRY(op->kind != OP_pow || shape_must_be_float(op, 0));
  return broadcast_operands(op, 0, shape_in(op, 0)->dtype);
}

bool shape_float_binary(msc_op *op) { return shape_must_be_float(op, 0) && shape_binary(op); }

/* Operands are integers, and i1 too for and, or and xor. */
bool shape_bitwise(msc_op *op) {
  msc_dtype dtype = shape_in(op, 0)->dtype;
  bool truth = dtype == MSC_I1 && op->num_in == 2 && msc_info(op)->flags & MSC_COMMUTES;
  if (msc_is_float(dtype) || (dtype == MSC_I1 && !truth))
    return shape_wrong(op, "'%s' must have integer elements, not %s", shape_operand_name(op, 0), msc_dtype_name(dtype));
  return broadcast_operands(op, 0, dtype);
}

bool shape_compare(msc_op *op) { return broadcast_operands(op, 0, MSC_I1); }

bool shape_select(msc_op *op) {
  if (shape_in(op, 0)->dtype != MSC_I1)
    return shape_wrong(op, "'c' must have i1 elements, not %s", msc_dtype_name(shape_in(op, 0)->dtype));
  return broadcast_operands(op, 1, shape_in(op, 1)->dtype);
}

bool shape_same(msc_op *op) { return shape_set_like(op, 0, shape_in(op, 0)); }

bool shape_unary(msc_op *op) {
  MSC_TRY((msc_info(op)->flags & MSC_COLLECTIVE) || shape_must_be_number(op, 0));
  return shape_set_like(op, 0, shape_in(op, 0));
}

bool shape_float_unary(msc_op *op) {
  MSC_TRY(shape_must_be_float(op, 0));
  return shape_set_like(op, 0, shape_in(op, 0));
}

bool shape_polygamma(msc_op *op) {
  int64_t n = msc_op_int(op, "n");
  if (n < 1 || n > MSC_POLYGAMMA_MOST)
    return shape_wrong(op, "'n' must be from 1 to %d, not %" D, MSC_POLYGAMMA_MOST, n);
  return shape_float_unary(op);
}

bool shape_cast(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  return shape_set(op, 0, msc_op_dtype(op), x->rank, x->dim);
}

/* ---- data movement ---- */

bool shape_broadcast_to(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t dim[MSC_MAX_RANK];
  int rank = msc_op_ints(op, MSC_FACT(shape), dim, MSC_MAX_RANK);
  if (rank > MSC_MAX_RANK || rank < x->rank)
    return shape_wrong(op, "shape has %d dimensions, the operand %d, at most %d are possible", rank, x->rank,
                       MSC_MAX_RANK);
  for (int d = 0; d < x->rank; d++) {
    int64_t want = dim[rank - x->rank + d];
    if (x->dim[d] != want && x->dim[d] != 1)
      return shape_wrong(op, "dimension %d of the operand is %" D " and cannot stretch to %" D, d, x->dim[d], want);
  }
  return shape_set(op, 0, x->dtype, rank, dim);
}

bool shape_reshape(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t dim[MSC_MAX_RANK], elems = msc_type_elems(x), known = 1;
  int rank = msc_op_ints(op, MSC_FACT(shape), dim, MSC_MAX_RANK), open = -1;
  if (rank > MSC_MAX_RANK)
    return shape_wrong(op, "shape has %d dimensions, at most %d are possible", rank, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++) {
    if (dim[d] < -1 || (dim[d] == -1 && open >= 0))
      return shape_wrong(op, "entry %d of shape is %" D "; sizes are 0 or more, and one entry may be -1", d, dim[d]);
    if (dim[d] == -1) open = d;
    else if (__builtin_mul_overflow(known, dim[d], &known))
      return shape_wrong(op, "shape would have 2^63 elements or more");
  }
  if (open >= 0) {
    if (known == 0 || elems % known)
      return shape_wrong(op, "%s does not divide by the known sizes of shape, %" D, shape_text(op, x), known);
    dim[open] = elems / known;
  } else if (known != elems) {
    return shape_wrong(op, "%s has %" D " elements and the new shape %" D, shape_text(op, x), elems, known);
  }
  return shape_set(op, 0, x->dtype, rank, dim);
}

bool shape_flatten(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t axis = msc_op_int(op, "axis"), dim[MSC_MAX_RANK + 1], rest = 1;
  if (axis < 0 || axis > x->rank) return shape_wrong(op, "axis %" D " is not in 0..%d", axis, x->rank);
  for (int d = 0; d < axis; d++) dim[d] = x->dim[d];
  for (int d = (int)axis; d < x->rank; d++)
    if (__builtin_mul_overflow(rest, x->dim[d], &rest))
      return shape_wrong(op, "dimension would have 2^63 elements or more");
  dim[axis] = rest;
  return shape_set(op, 0, x->dtype, (int)axis + 1, dim);
}

bool shape_transpose(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t perm[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  unsigned seen = 0;
  MSC_TRY(ints_attr(op, "perm", x->rank, perm));
  for (int d = 0; d < x->rank; d++) {
    if (perm[d] < 0 || perm[d] >= x->rank || (seen >> perm[d] & 1))
      return shape_wrong(op, "perm must name each of 0..%d once; entry %d is %" D, x->rank - 1, d, perm[d]);
    seen |= 1u << perm[d];
    dim[d] = x->dim[perm[d]];
  }
  return shape_set(op, 0, x->dtype, x->rank, dim);
}

bool shape_concat(msc_op *op) {
  if (!op->num_in) return shape_wrong(op, "needs at least one operand");
  const msc_type *x = shape_in(op, 0);
  int64_t at, dim[MSC_MAX_RANK];
  MSC_TRY(shape_dim_attr(op, "dim", x->rank, &at));
  memcpy(dim, x->dim, sizeof dim);
  for (size_t i = 1; i < op->num_in; i++) {
    const msc_type *t = shape_in(op, i);
    if (t->dtype != x->dtype || t->rank != x->rank)
      return shape_wrong(op, "operand %zu is %s and operand 0 %s; they may differ in dimension %" D " only", i,
                         shape_text(op, t), shape_text(op, x), at);
    for (int d = 0; d < x->rank; d++)
      if (d != at && t->dim[d] != x->dim[d])
        return shape_wrong(op,
                           "dimension %d of operand %zu is %" D " and of operand 0 %" D
                           "; they may differ in dimension %" D " only",
                           d, i, t->dim[d], x->dim[d], at);
    if (__builtin_add_overflow(dim[at], t->dim[at], &dim[at]))
      return shape_wrong(op, "dimension would have 2^63 elements or more");
  }
  return shape_set(op, 0, x->dtype, x->rank, dim);
}

bool shape_split(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t at, dim[MSC_MAX_RANK], left;
  MSC_TRY(shape_dim_attr(op, "dim", x->rank, &at));
  int64_t *size = msc_new_array(msc_context_arena(msc_op_ctx(op)), int64_t, op->num_out + 1);
  int num = msc_op_ints(op, "sizes", size, op->num_out);
  if (num != op->num_out) return shape_wrong(op, "sizes has %d entries for %d results", num, op->num_out);
  memcpy(dim, x->dim, sizeof dim);
  left = x->dim[at];
  for (int i = 0; i < num; i++) {
    if (size[i] < 0 || size[i] > left)
      return shape_wrong(op, "entry %d of sizes is %" D "; %" D " of the %" D " elements of dimension %" D " are left",
                         i, size[i], left, x->dim[at], at);
    left -= size[i];
    dim[at] = size[i];
    MSC_TRY(shape_set(op, (size_t)i, x->dtype, x->rank, dim));
  }
  return left == 0 ||
         shape_wrong(op, "sizes leave %" D " of the %" D " elements of dimension %" D " over", left, x->dim[at], at);
}

/* The optional attribute `stride`: 1 everywhere when absent. */
static bool stride_attr(msc_op *op, int rank, int64_t *out_stride) {
  for (int d = 0; d < rank; d++) out_stride[d] = 1;
  if (!msc_op_attr(op, "stride")) return true;
  MSC_TRY(ints_attr(op, "stride", rank, out_stride));
  for (int d = 0; d < rank; d++)
    if (out_stride[d] < 1)
      return shape_wrong(op, "entry %d of stride is %" D "; strides are at least 1", d, out_stride[d]);
  return true;
}

bool shape_slice(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t start[MSC_MAX_RANK], limit[MSC_MAX_RANK], stride[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  MSC_TRY(ints_attr(op, MSC_FACT(start), x->rank, start) && ints_attr(op, "limit", x->rank, limit) &&
          stride_attr(op, x->rank, stride));
  for (int d = 0; d < x->rank; d++) {
    if (start[d] < 0 || start[d] > limit[d] || limit[d] > x->dim[d])
      return shape_wrong(op, "start %" D " and limit %" D " of dimension %d are not within 0..%" D, start[d], limit[d],
                         d, x->dim[d]);
    int64_t span = limit[d] - start[d];
    dim[d] = span / stride[d] + (span % stride[d] != 0);
  }
  return shape_set(op, 0, x->dtype, x->rank, dim);
}

bool shape_pad(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t low[MSC_MAX_RANK], high[MSC_MAX_RANK], stride[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  MSC_TRY(ints_attr(op, "low", x->rank, low) && ints_attr(op, "high", x->rank, high) &&
          stride_attr(op, x->rank, stride));
  for (int d = 0; d < x->rank; d++) {
    if (low[d] < 0 || high[d] < 0)
      return shape_wrong(op, "low %" D " and high %" D " of dimension %d must not be negative", low[d], high[d], d);
    int64_t n = x->dim[d] ? x->dim[d] - 1 : 0;
    if (__builtin_mul_overflow(n, stride[d], &n) || __builtin_add_overflow(n, x->dim[d] ? 1 : 0, &n) ||
        __builtin_add_overflow(n, low[d], &n) || __builtin_add_overflow(n, high[d], &dim[d]))
      return shape_wrong(op, "dimension %d would have 2^63 elements or more", d);
  }
  return shape_set(op, 0, x->dtype, x->rank, dim);
}

/* ---- matrix products ---- */

/* Checks the last two dimensions of both operands and sets the result type: the `lead` sizes in dim, then m and n. */
static bool infer_product(msc_op *op, int lead, int64_t *dim) {
  const msc_type *a = shape_in(op, 0), *b = shape_in(op, 1);
  bool ta = msc_op_bool(op, "transpose_a"), tb = msc_op_bool(op, "transpose_b");
  const int64_t *am = a->dim + a->rank - 2, *bk = b->dim + b->rank - 2;
  MSC_TRY(shape_same_dtype(op, 0, 1) && shape_must_be_number(op, 0));
  if (am[!ta] != bk[tb])
    return shape_wrong(op, "inner sizes differ: %" D " (dimension %d of 'a' %s) and %" D " (dimension %d of 'b' %s)",
                       am[!ta], a->rank - 1 - ta, shape_text(op, a), bk[tb], b->rank - 2 + tb, shape_text(op, b));
  dim[lead] = am[ta];
  dim[lead + 1] = bk[!tb];
  return shape_set(op, 0, a->dtype, lead + 2, dim);
}

bool shape_matmul(msc_op *op) {
  const msc_type *a = shape_in(op, 0), *b = shape_in(op, 1);
  int64_t dim[2];
  if (a->rank != 2 || b->rank != 2)
    return shape_wrong(op, "operands must have rank 2, not %d and %d", a->rank, b->rank);
  return infer_product(op, 0, dim);
}

bool shape_batch_matmul(msc_op *op) {
  const msc_type *a = shape_in(op, 0), *b = shape_in(op, 1);
  int64_t dim[MSC_MAX_RANK];
  if (a->rank < 2 || b->rank < 2)
    return shape_wrong(op, "operands must have rank 2 or more, not %d and %d", a->rank, b->rank);
  int lead = (a->rank > b->rank ? a->rank : b->rank) - 2;
  for (int d = 0; d < lead; d++) {
    int da = d - lead + a->rank - 2, db = d - lead + b->rank - 2;
    int64_t na = da < 0 ? 1 : a->dim[da], nb = db < 0 ? 1 : b->dim[db];
    if (na != nb && na != 1 && nb != 1)
      return shape_wrong(op,
                         "leading sizes differ: %" D " (dimension %d of 'a') and %" D
                         " (dimension %d of 'b'); they must be equal or 1",
                         na, da, nb, db);
    dim[d] = na == 1 ? nb : na;
  }
  return infer_product(op, lead, dim);
}

/* x[*,k], dy[*,n] -> [k,n] */
bool shape_weight_grad(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *dy = shape_in(op, 1);
  MSC_TRY(shape_same_dtype(op, 0, 1) && shape_must_be_number(op, 0));
  if (x->rank < 2 || x->rank != dy->rank)
    return shape_wrong(op, "operands must have the same rank of 2 or more, not %d and %d", x->rank, dy->rank);
  for (int d = 0; d + 1 < x->rank; d++)
    if (x->dim[d] != dy->dim[d])
      return shape_wrong(op, "dimension %d differs: %" D " of 'x' and %" D " of 'dy'", d, x->dim[d], dy->dim[d]);
  return shape_set(op, 0, x->dtype, 2, (int64_t[]){x->dim[x->rank - 1], dy->dim[x->rank - 1]});
}

/* ---- reductions, rows, losses ---- */

bool shape_reduce(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t dims[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK), rank = 0;
  unsigned gone = 0;
  MSC_TRY((op->kind != OP_reduce_sum && op->kind != OP_reduce_prod) || shape_must_be_number(op, 0));
  MSC_TRY(op->kind != OP_reduce_mean || shape_must_be_float(op, 0));
  if (num > x->rank) return shape_wrong(op, "dims has %d entries, the operand %d dimensions", num, x->rank);
  for (int i = 0; i < num; i++) {
    if (dims[i] < 0 || dims[i] >= x->rank || (gone >> dims[i] & 1))
      return shape_wrong(op, "dims must name dimensions of 0..%d once; entry %d is %" D, x->rank - 1, i, dims[i]);
    gone |= 1u << dims[i];
  }
  for (int d = 0; d < x->rank; d++)
    if (!(gone >> d & 1)) dim[rank++] = x->dim[d];
    else if (msc_op_bool(op, "keep_dims")) dim[rank++] = 1;
  return shape_set(op, 0, x->dtype, rank, dim);
}

bool shape_softmax(msc_op *op) {
  int axis;
  MSC_TRY(shape_must_be_float(op, 0) && shape_axis_attr(op, "axis", shape_in(op, 0), &axis));
  return shape_set_like(op, 0, shape_in(op, 0));
}

bool shape_ignore_index(msc_op *op) {
  const msc_type *labels = shape_in(op, 1);
  if (!msc_op_attr(op, "ignore_index")) return true;
  int64_t ignored = msc_op_int(op, "ignore_index");
  if (msc_is_float(labels->dtype)) return shape_wrong(op, "ignore_index needs labels that are class numbers");
  int64_t most = labels->dtype == MSC_I32 ? INT32_MAX : INT64_C(1) << 53;
  if (ignored > most || ignored < -most - 1)
    return shape_wrong(op, "ignore_index %" D " is not in %" D "..%" D, ignored, -most - 1, most);
  return true;
}

/* Labels are class numbers, one per row of logits, or probabilities shaped like logits. */
static bool check_labels(msc_op *op) {
  const msc_type *logits = shape_in(op, 0), *labels = shape_in(op, 1);
  MSC_TRY(shape_must_be_float(op, 0) && shape_ignore_index(op));
  if (logits->rank < 1) return shape_wrong(op, "'logits' must have rank 1 or more");
  if (msc_is_float(labels->dtype)) return shape_same_type(op, 0, 1);
  MSC_TRY(shape_must_be_index(op, 1));
  if (labels->rank != logits->rank - 1)
    return shape_wrong(op, "class labels %s must have one dimension less than logits %s", shape_text(op, labels),
                       shape_text(op, logits));
  for (int d = 0; d < labels->rank; d++)
    if (labels->dim[d] != logits->dim[d])
      return shape_wrong(op, "dimension %d of 'logits' and 'labels' differs: %" D " and %" D, d, logits->dim[d],
                         labels->dim[d]);
  return true;
}

static bool reduces_to_scalar(const msc_op *op) { return msc_op_loss_reduction(op) != MSC_LOSS_NONE; }

bool shape_cross_entropy(msc_op *op) {
  const msc_type *logits = shape_in(op, 0);
  double smoothing = msc_op_float(op, "label_smoothing");
  MSC_TRY(check_labels(op));
  if (!(smoothing >= 0 && smoothing <= 1)) return shape_wrong(op, "label_smoothing %g is not in 0..1", smoothing);
  return shape_set(op, 0, logits->dtype, reduces_to_scalar(op) ? 0 : logits->rank - 1, logits->dim);
}

bool shape_cross_entropy_grad(msc_op *op) {
  const msc_type *logits = shape_in(op, 0), *dloss = shape_in(op, 2);
  MSC_TRY(check_labels(op) && shape_same_dtype(op, 0, 2));
  if (msc_counts_kept_rows(op))
    return shape_wrong(op, "with ignore_index the reduction is sum or none; divide 'dloss' by the number of rows kept");
  int rank = reduces_to_scalar(op) ? 0 : logits->rank - 1;
  if (dloss->rank != rank)
    return shape_wrong(op, "'dloss' %s must have rank %d for reduction \"%s\"", shape_text(op, dloss), rank,
                       msc_op_str(op, "reduction"));
  for (int d = 0; d < rank; d++)
    if (dloss->dim[d] != logits->dim[d])
      return shape_wrong(op, "dimension %d of 'logits' and 'dloss' differs: %" D " and %" D, d, logits->dim[d],
                         dloss->dim[d]);
  return shape_set_like(op, 0, logits);
}

/* ---- optimizers ---- */

/* The operands of an update that are no tensors: the step, whether it is done, the learning rate. */
static const struct {
  const char *name;
  msc_dtype dtype;
} numbers_of_step[] = {{"t", MSC_F32}, {"ok", MSC_I1}, {"rate", MSC_F64}};

/* Checks operand i if it is such a number; t may be a pair instead: see pass bias_correction; and rate a list of all
 * hyper-parameters. */
static bool check_number_of_step(msc_op *op, size_t i, bool *out_is_number) {
  const msc_type *t = shape_in(op, i);
  const char *name = shape_operand_name(op, i);
  *out_is_number = false;
  for (size_t k = 0; k < sizeof numbers_of_step / sizeof *numbers_of_step; k++) {
    if (strcmp(name, numbers_of_step[k].name)) continue;
    *out_is_number = true;
    int64_t num = !strcmp(name, "t") ? 2 : !strcmp(name, "rate") ? msc_num_hypers(msc_info(op)) : 0;
    bool is_list = t->rank == 1 && t->dim[0] == num;
    if (t->rank && !is_list) return shape_wrong(op, "'%s' must have rank 0, not %d", name, t->rank);
    if (t->dtype != numbers_of_step[k].dtype)
      return shape_wrong(op, "'%s' must be %s, not %s", name, msc_dtype_name(numbers_of_step[k].dtype),
                         msc_dtype_name(t->dtype));
  }
  return true;
}

/* Operands are shaped like w, except the numbers of the step, and trust: one number of w's element type. */
bool shape_update(msc_op *op) {
  bool is_number;
  MSC_TRY(shape_must_be_float(op, 0));
  for (size_t i = 1; i < op->num_in; i++) {
    MSC_TRY(check_number_of_step(op, i, &is_number));
    if (is_number) continue;
    if (strcmp(shape_operand_name(op, i), "trust")) {
      MSC_TRY(shape_same_type(op, 0, i));
    } else {
      if (shape_in(op, i)->rank) return shape_wrong(op, "'trust' must have rank 0, not %d", shape_in(op, i)->rank);
      MSC_TRY(shape_same_dtype(op, 0, i));
    }
  }
  for (size_t i = 0; i < op->num_out; i++) MSC_TRY(shape_set_like(op, i, shape_in(op, 0)));
  return true;
}

/* Checks the operands that only a lazy update has: indices, order and the rows g. */
static bool check_numbered_rows(msc_op *op) {
  const msc_type *w = shape_in(op, 0), *indices = msc_named_value(op, "indices")->type,
                 *order = msc_named_value(op, "order")->type, *g = msc_named_value(op, "g")->type;
  if (w->dtype != MSC_F32 && w->dtype != MSC_F64)
    return shape_wrong(op, "'w' must be f32 or f64, not %s", msc_dtype_name(w->dtype));
  if (w->rank < 1) return shape_wrong(op, "'w' must have rank 1 or more");
  MSC_TRY(shape_must_be_index(op, (size_t)msc_operand_called(op, "indices")));
  if (order->dtype != MSC_I32) return shape_wrong(op, "'order' must be i32, not %s", msc_dtype_name(order->dtype));
  if (indices->rank != 1 || order->rank != 1 || order->dim[0] != indices->dim[0])
    return shape_wrong(op, "'indices' and 'order' must be lists of one length");
  bool is_rows = g->dtype == w->dtype && g->rank == w->rank;
  for (int d = 1; is_rows && d < w->rank; d++) is_rows = g->dim[d] == w->dim[d];
  if (!is_rows) return shape_wrong(op, "'g' must be rows like those of 'w'");
  return true;
}

/* Checks a lazy update: m and v have w's type; indices and order are lists [n], g has rows like w's. */
bool shape_lazy_update(msc_op *op) {
  bool is_number;
  MSC_TRY(shape_must_be_float(op, 0) && check_numbered_rows(op));
  for (size_t i = 1; i < op->num_in; i++) {
    const char *name = shape_operand_name(op, i);
    if (!strcmp(name, "m") || !strcmp(name, "v")) MSC_TRY(shape_same_type(op, 0, i));
    MSC_TRY(check_number_of_step(op, i, &is_number));
  }
  for (size_t i = 0; i < op->num_out; i++) MSC_TRY(shape_set_like(op, i, shape_in(op, 0)));
  return true;
}

bool shape_lamb_moments(msc_op *op) { return shape_update(op); }

bool shape_stow(msc_op *op) { return shape_same_type(op, 0, 1) && shape_set_like(op, 0, shape_in(op, 0)); }

bool shape_accumulate(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t dim[MSC_MAX_RANK];
  MSC_TRY(shape_must_be_number(op, 0));
  if (!msc_op_bool(op, "rows")) return shape_set_like(op, 0, x);
  if (!x->rank) return shape_wrong(op, "'rows' needs an operand of rank 1 or more");
  memcpy(dim, x->dim, sizeof dim);
  if (__builtin_mul_overflow(dim[0], msc_op_int(op, MSC_FACT(count)), &dim[0]))
    return shape_wrong(op, "the rows of all micro-batches are too many");
  return shape_set(op, 0, x->dtype, x->rank, dim);
}

bool shape_put_rows(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *rows = shape_in(op, 1), *number = shape_in(op, 2);
  bool fits = x->dtype == rows->dtype && x->rank == rows->rank && x->rank &&
              (rows->dim[0] ? x->dim[0] % rows->dim[0] == 0 : x->dim[0] == 0);
  for (int d = 1; fits && d < x->rank; d++) fits = x->dim[d] == rows->dim[d];
  if (!fits) return shape_wrong(op, "'x' must have a multiple of the rows of 'rows', of one shape");
  if (number->rank || number->dtype != MSC_I64) return shape_wrong(op, "'number' must be one i64");
  return shape_set_like(op, 0, x);
}

bool shape_admit(msc_op *op) {
  if (op->num_in != op->num_out) return shape_wrong(op, "%d results for %d operands", op->num_out, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    MSC_TRY(shape_must_be_index(op, i));
    MSC_TRY(shape_set(op, i, MSC_I32, shape_in(op, i)->rank, shape_in(op, i)->dim));
  }
  return true;
}

/* ---- structure ---- */

bool shape_fused(msc_op *op) {
  const msc_block *b = op->body;
  if (!b || !b->last || b->last->kind != OP_yield) return shape_wrong(op, "needs a region that ends with yield");
  if (b->num_args != op->num_in)
    return shape_wrong(op, "region has %zu arguments for %d operands", b->num_args, op->num_in);
  for (size_t i = 0; i < b->num_args; i++)
    if (b->args[i]->type != shape_in(op, i))
      return shape_wrong(op, "region argument %zu is %s and its operand %s", i, shape_text(op, b->args[i]->type),
                         shape_text(op, shape_in(op, i)));
  if (b->last->num_in != op->num_out)
    return shape_wrong(op, "region yields %d values for %d results", b->last->num_in, op->num_out);
  for (size_t i = 0; i < op->num_out; i++) MSC_TRY(shape_set_like(op, i, shape_in(b->last, i)));
  return true;
}

bool shape_none(msc_op *op) {
  (void)op;
  return true;
}
