/* gradient_norm.c: builds sums of squares, and clips gradients by their common norm (see train.h).
 *
 * Squares of f32 are exact in f64 and are summed there: the rounding that depends on the order of the sum does not
 * reach the bits of an f32. So the norm is the same however parameters are cut, and parts that several ranks hold count
 * once. */
#include "ir/formula.h"
#include "passes/2_train/train.h"

msc_value *msc_sum_of_squares(msc_builder *b, msc_value *v) {
  v = msc_compute(b, "a * a", cast(b, v, MSC_F64));
  return v && v->type->rank ? sum_to_scalar(b, v) : v;
}

msc_value *msc_sum_over_ranks(msc_builder *b, msc_value *v) {
  const msc_module *m = b->func->module;
  if (!v || !msc_func_attr(b->func, MSC_FACT(manual))) return v;
  msc_attr axes = msc_named(m->ctx, "axes", msc_digits_attr(msc_mesh_digits(m->ctx, &m->mesh)));
  return with_attrs(b, OP_all_reduce, 1, &v, 1, &axes);
}

bool msc_is_cut(const msc_func *f, size_t arg) { return msc_arg_attr(f, arg, MSC_FACT(msc_cut_dim)) != NULL; }

/* min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_. */
static msc_value *build_clip_factor(msc_builder *b, msc_value *squares, double limit) {
  msc_value *above = msc_compute(b, "sqrt(a) + 1e-6", squares);
  return msc_compute(b, "min(a / b, 1)", number(b, above, limit), above);
}

bool msc_clip_gradients(msc_builder *b, double limit, size_t num, msc_value **gradient) {
  msc_value *sum = NULL, *parts = NULL; /* of gradients that all ranks hold; of those that each has a part or one of */
  for (size_t i = 0; i < num; i++) {
    msc_value *squares = gradient[i] ? msc_sum_of_squares(b, gradient[i]) : NULL;
    msc_value **to = msc_is_cut(b->func, i) || msc_is_layerwise(b->func, i) ? &parts : &sum;
    if (gradient[i]) MSC_TRY(squares);
    if (squares) MSC_TRY((*to = *to ? plus(b, *to, squares) : squares));
  }
  if (parts) MSC_TRY((parts = msc_sum_over_ranks(b, parts)));
  if (parts) MSC_TRY((sum = sum ? plus(b, sum, parts) : parts));
  msc_value *factor = sum ? build_clip_factor(b, sum, limit) : NULL;
  msc_value *of[MSC_NUM_DTYPES] = {NULL};
  for (size_t i = 0; i < num && sum; i++) {
    if (!gradient[i]) continue;
    msc_dtype dtype = gradient[i]->type->dtype;
    if (factor && !of[dtype]) of[dtype] = cast(b, factor, dtype);
    MSC_TRY(of[dtype]);
    MSC_TRY((gradient[i] = times(b, gradient[i], of[dtype])));
  }
  return true;
}
