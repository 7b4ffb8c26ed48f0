/* flash.c: flash_attention or its gradient in; its expansion, for machines without a library for it, out.  In products
 * the positions of heads that share keys and values are joined into one dimension (rows). */
#include <math.h>

#include "ir/formula.h"
#include "ir/op_table.h"

typedef struct {
  int64_t batch, heads, groups, rows /* of a group: its heads' positions */, positions, keys;
  double scale;
} attention_sizes;

static attention_sizes sizes_of(const msc_op *op, msc_value *const *in) {
  const int64_t *q = in[0]->type->dim, *k = in[1]->type->dim;
  double scale = msc_op_float(op, "scale");
  if (scale == 0) scale = q[3] ? 1 / sqrt((double)q[3]) : 1;
  return (attention_sizes){q[0], q[1], k[1], k[1] ? q[1] / k[1] * q[2] : 0, q[2], k[2], scale};
}

/* [b,h,s,n] <-> [b,g,rows,n] */
static msc_value *by_group(msc_builder *b, const attention_sizes *z, msc_value *x) {
  return x ? reshape(b, x, 4, (int64_t[]){z->batch, z->groups, z->rows, x->type->dim[3]}) : NULL;
}
static msc_value *by_head(msc_builder *b, const attention_sizes *z, msc_value *x) {
  return x ? reshape(b, x, 4, (int64_t[]){z->batch, z->heads, z->positions, x->type->dim[3]}) : NULL;
}

/* Applies the mask, which is operand i if there is one: -infinity where a position is hidden, or numbers that are
 * added. */
static msc_value *apply_mask(msc_builder *b, const msc_op *op, msc_value *const *in, size_t i, msc_value *scores) {
  if (!scores || !msc_op_bool(op, "masked")) return scores;
  return in[i]->type->dtype == MSC_I1 ? choose(b, in[i], scores, number(b, scores, -INFINITY))
                                      : plus(b, scores, cast(b, in[i], scores->type->dtype));
}

/* scale q k^T [b,h,s,t] in f32 or f64, -infinity where a position is not seen. */
static msc_value *scores_of(msc_builder *b, const msc_op *op, const attention_sizes *z, msc_value *const *in,
                            size_t mask) {
  msc_value *scores = by_head(b, z, matrix_product(b, by_group(b, z, in[0]), false, in[1], true));
  if (scores) scores = cast(b, scores, widen_dtype(scores->type->dtype));
  scores = apply_mask(b, op, in, mask, times(b, scores, number(b, scores, z->scale)));
  if (!scores || !msc_op_bool(op, "causal")) return scores;
  msc_value *row = reshape(b, count_up(b, MSC_I32, z->positions), 2, (int64_t[]){z->positions, 1});
  msc_value *seen = compare(b, "ge", row, count_up(b, MSC_I32, z->keys));
  return choose(b, seen, scores, number(b, scores, -INFINITY));
}

/* x times operand i, the factors of dropout; x if there is none. */
static msc_value *apply_keep_mask(msc_builder *b, const msc_op *op, msc_value *const *in, size_t i, msc_value *x) {
  return x && op->num_in > i && !msc_op_bool(op, "masked") ? times(b, x, cast(b, in[i], x->type->dtype)) : x;
}

/* stats = max + log(sum of exp(scores - max)) */
bool expand_flash_attention(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  attention_sizes z = sizes_of(op, in);
  const int64_t last = 3, stats_dim[] = {z.batch, z.heads, z.positions};
  msc_value *scores = scores_of(b, op, &z, in, 3), *most = reduce_along(b, MSC_MAX, scores, last);
  msc_value *e = msc_compute(b, "exp(a - b)", scores, most), *sum = e ? sum_over(b, e, 1, &last, true) : NULL;
  msc_value *weights = by_group(b, &z, cast(b, apply_keep_mask(b, op, in, 3, over(b, e, sum)), in[2]->type->dtype));
  msc_value *y = matrix_product(b, weights, false, in[2], false), *stats = msc_compute(b, "a + log(b)", most, sum);
  out_result[0] = by_head(b, &z, y);
  out_result[1] = stats ? cast(b, reshape(b, stats, 3, stats_dim), MSC_F32) : NULL;
  return out_result[0] && out_result[1];
}

/* p = exp(scores - stats); dv = (p keep)^T dy; ds = p (keep dy v^T - sum of dy y); dq = scale ds k; dk = scale ds^T
 * q */
bool expand_flash_attention_grad(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  attention_sizes z = sizes_of(op, in);
  msc_dtype narrow = in[0]->type->dtype, dtype = widen_dtype(narrow);
  const int64_t last = 3, column[] = {z.batch, z.heads, z.positions, 1};
  msc_value *scores = scores_of(b, op, &z, in, 6), *stats = reshape(b, cast(b, in[4], dtype), 4, column);
  msc_value *p = msc_compute(b, "exp(a - b)", scores, stats), *dy = by_group(b, &z, in[5]);
  msc_value *wide_dy = cast(b, in[5], dtype), *part = times(b, wide_dy, cast(b, in[3], dtype));
  msc_value *sum = part ? sum_over(b, part, 1, &last, true) : NULL;
  msc_value *dp = by_head(b, &z, matrix_product(b, dy, false, in[2], true));
  msc_value *ds = dp ? times(b, p, minus(b, apply_keep_mask(b, op, in, 6, cast(b, dp, dtype)), sum)) : NULL;
  ds = ds ? by_group(b, &z, cast(b, times(b, ds, number(b, ds, z.scale)), narrow)) : NULL;
  out_result[0] = by_head(b, &z, matrix_product(b, ds, false, in[1], false));
  out_result[1] = matrix_product(b, ds, true, by_group(b, &z, in[0]), false);
  out_result[2] =
      p ? matrix_product(b, by_group(b, &z, cast(b, apply_keep_mask(b, op, in, 6, p), narrow)), true, dy, false) : NULL;
  return out_result[0] && out_result[1] && out_result[2];
}
