/* norm.c: a norm in; its expansion out.  Statistics of f16 and bf16 are computed in f32.  The mean is subtracted before
 * the variance is computed, which then loses no digits to a large mean. */
#include "ir/formula.h"
#include "ir/op_table.h"

/* Writes the dimensions from `axis` on; returns how many. */
static int dims_from(int axis, int rank, int64_t *out_dims) {
  int num = 0;
  for (int d = axis; d < rank; d++) out_dims[num++] = d;
  return num;
}

/* Subtracts the mean over dims. */
static msc_value *subtract_mean(msc_builder *b, msc_value *x, int num, const int64_t *dims, msc_value **out_mean) {
  *out_mean = mean_over(b, x, num, dims, true);
  return minus(b, x, *out_mean);
}

static msc_value *mean_square(msc_builder *b, msc_value *x, int num, const int64_t *dims) {
  return mean_over(b, times(b, x, x), num, dims, true);
}

/* x / sqrt(variance + eps) */
static msc_value *normalize(msc_builder *b, msc_value *x, msc_value *variance, double eps) {
  return msc_compute(b, "a * rsqrt(b + c)", x, variance, number(b, variance, eps));
}

/* x gamma + beta, where gamma is operand 1 and beta operand 2, if num operands include them; `at`: the shape in which
 * they broadcast to x. */
static msc_value *scale_and_shift(msc_builder *b, msc_value *x, size_t num, msc_value *const *in, int rank,
                                  const int64_t *at) {
  if (num > 1 && x) x = times(b, x, reshape(b, cast(b, in[1], x->type->dtype), rank, at));
  if (num > 2 && x) x = plus(b, x, reshape(b, cast(b, in[2], x->type->dtype), rank, at));
  return x;
}

bool expand_layer_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  const msc_type *t = in[0]->type;
  int64_t dims[MSC_MAX_RANK];
  int axis = axis_of(op, "axis", t->rank), num = dims_from(axis, t->rank, dims);
  msc_value *x = cast(b, in[0], widen_dtype(t->dtype)), *mean;
  if (op->kind == OP_layer_norm) x = subtract_mean(b, x, num, dims, &mean);
  x = normalize(b, x, mean_square(b, x, num, dims), msc_op_float(op, "eps"));
  return give_result(cast(b, scale_and_shift(b, x, op->num_in, in, t->rank - axis, t->dim + axis), t->dtype),
                     out_result);
}

bool expand_rms_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return expand_layer_norm(b, op, in, out_result);
}

/* x / sqrt(max(sum x^2, eps)) over the dimensions from axis on */
bool expand_l2_normalize(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_dtype dtype = in[0]->type->dtype;
  int64_t dims[MSC_MAX_RANK];
  int rank = in[0]->type->rank, num = dims_from(axis_of(op, "axis", rank), rank, dims);
  msc_value *x = cast(b, in[0], widen_dtype(dtype)), *sum = sum_over(b, times(b, x, x), num, dims, true);
  sum = msc_compute(b, "max(a, b)", sum, number(b, sum, msc_op_float(op, "eps")));
  return give_result(cast(b, msc_compute(b, "a * rsqrt(b)", x, sum), dtype), out_result);
}

/* [n,c,..] as [n,g,c/g,..]: each group of channels of a sample has statistics of its own. */
bool expand_group_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  const msc_type *t = in[0]->type;
  int64_t groups = msc_op_int(op, "groups"), dim[MSC_MAX_RANK + 1], at[MSC_MAX_RANK + 1], dims[MSC_MAX_RANK];
  int rank = t->rank + 1, num;
  if (rank > MSC_MAX_RANK)
    return msc_op_error(op, MSC_E_UNSUPPORTED, "group_norm: rank %d is not supported, %d at most", t->rank,
                        MSC_MAX_RANK - 1);
  for (int d = 0; d < rank; d++)
    dim[d] = d == 1 ? groups : d == 2 ? t->dim[1] / groups : t->dim[d < 1 ? d : d - 1], at[d] = 1;
  at[1] = dim[1], at[2] = dim[2];
  num = dims_from(2, rank, dims);
  msc_value *x = reshape(b, cast(b, in[0], widen_dtype(t->dtype)), rank, dim), *mean;
  x = subtract_mean(b, x, num, dims, &mean);
  x = normalize(b, x, mean_square(b, x, num, dims), msc_op_float(op, "eps"));
  return give_result(
      cast(b, reshape(b, scale_and_shift(b, x, op->num_in, in, rank - 1, at + 1), t->rank, t->dim), t->dtype),
      out_result);
}

/* The running value: (1 - momentum) old + momentum new, of the type of old. */
static msc_value *update_running(msc_builder *b, const msc_op *op, msc_value *old, msc_value *new_value) {
  double momentum = msc_op_float(op, "momentum");
  new_value = cast(b, reshape(b, new_value, 1, old->type->dim), old->type->dtype);
  msc_value *fresh = times(b, new_value, number(b, old, momentum));
  return plus(b, times(b, old, number(b, old, 1 - momentum)), fresh);
}

/* In training: normalizes by statistics of this batch, and updates the running ones (the variance unbiased, as
 * PyTorch's). In evaluation: normalizes by the running ones. */
bool expand_batch_norm(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  const msc_type *t = in[0]->type;
  int axis = axis_of(op, "axis", t->rank), num = 0;
  int64_t dims[MSC_MAX_RANK], at[MSC_MAX_RANK], count = 1;
  for (int d = 0; d < t->rank; d++) {
    at[d] = d == axis ? t->dim[d] : 1;
    if (d != axis) dims[num++] = d, count *= t->dim[d];
  }
  msc_dtype dtype = widen_dtype(t->dtype);
  msc_value *x = cast(b, in[0], dtype), *mean, *variance;
  if (msc_op_bool(op, "training")) {
    x = subtract_mean(b, x, num, dims, &mean);
    variance = mean_square(b, x, num, dims);
    out_result[1] = mean ? update_running(b, op, in[3], mean) : NULL;
    msc_value *unbiased =
        variance ? times(b, variance, number(b, variance, count > 1 ? (double)count / (double)(count - 1) : 1)) : NULL;
    out_result[2] = unbiased ? update_running(b, op, in[4], unbiased) : NULL;
  } else {
    x = minus(b, x, reshape(b, cast(b, in[3], dtype), t->rank, at));
    variance = reshape(b, cast(b, in[4], dtype), t->rank, at);
    out_result[1] = in[3], out_result[2] = in[4];
  }
  x = normalize(b, x, variance, msc_op_float(op, "eps"));
  return give_result(cast(b, scale_and_shift(b, x, 3, in, t->rank, at), t->dtype), out_result);
}
