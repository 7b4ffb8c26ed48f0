/* gradient_norm.c: builds sums of squares, and clips gradients by their common norm (see train.h).
 *
 * Squares of f32 are exact in f64 and are summed there: the rounding that depends on the order of the sum does not
 * reach the bits of an f32. So the norm is the same however parameters are cut, and parts that several ranks hold count
 * once. */
#include "passes/2_train/train.h"

msc_value *msc_value_in(msc_builder *b, msc_value *v, msc_dtype dtype) {
  msc_context *ctx = b->func->module->ctx;
  if (!v || v->type->dtype == dtype) return v;
  msc_attr to = msc_named(ctx, "dtype", msc_str(ctx, msc_dtype_name(dtype)));
  msc_op *op = msc_build_with(b, OP_cast, 1, &v, 1, 1, &to);
  return op ? &op->out[0] : NULL;
}

msc_value *msc_sum_of_squares(msc_builder *b, msc_value *v) {
  int64_t dims[MSC_MAX_RANK];
  for (int d = 0; d < v->type->rank; d++) dims[d] = d;
  v = msc_value_in(b, v, MSC_F64);
  msc_value *square = v ? msc_build(b, OP_mul, 2, (msc_value *[]){v, v}) : NULL;
  if (!square || !v->type->rank) return square;
  msc_attr all = msc_named(b->func->module->ctx, "dims", msc_ints(b->func->module->ctx, (size_t)v->type->rank, dims));
  msc_op *sum = msc_build_with(b, OP_reduce_sum, 1, &square, 1, 1, &all);
  return sum ? &sum->out[0] : NULL;
}

/* min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_. */
static msc_value *build_clip_factor(msc_builder *b, msc_value *squares, double limit) {
  msc_value *norm = msc_build(b, OP_sqrt, 1, &squares);
  msc_value *above = norm ? msc_build(b, OP_add, 2, (msc_value *[]){norm, msc_build_scalar(b, MSC_F64, 1e-6)}) : NULL;
  msc_value *ratio =
      above ? msc_build(b, OP_div, 2, (msc_value *[]){msc_build_scalar(b, MSC_F64, limit), above}) : NULL;
  return ratio ? msc_build(b, OP_min, 2, (msc_value *[]){ratio, msc_build_scalar(b, MSC_F64, 1)}) : NULL;
}

bool msc_clip_gradients(msc_builder *b, double limit, size_t num, msc_value **gradient) {
  msc_value *sum = NULL;
  for (size_t i = 0; i < num; i++) {
    msc_value *squares = gradient[i] ? msc_sum_of_squares(b, gradient[i]) : NULL;
    if (gradient[i]) MSC_TRY(squares);
    if (squares) MSC_TRY((sum = sum ? msc_build(b, OP_add, 2, (msc_value *[]){sum, squares}) : squares));
  }
  msc_value *factor = sum ? build_clip_factor(b, sum, limit) : NULL;
  msc_value *of[MSC_NUM_DTYPES] = {NULL};
  for (size_t i = 0; i < num && sum; i++) {
    if (!gradient[i]) continue;
    msc_dtype dtype = gradient[i]->type->dtype;
    if (factor && !of[dtype]) of[dtype] = msc_value_in(b, factor, dtype);
    MSC_TRY(of[dtype]);
    MSC_TRY((gradient[i] = msc_build(b, OP_mul, 2, (msc_value *[]){gradient[i], of[dtype]})));
  }
  return true;
}
