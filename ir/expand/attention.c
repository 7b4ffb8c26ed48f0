/* attention.c: an attention (plain, dropped, flash or flash's gradient), rotary or glu in; its expansion out. */
#include <math.h>
#include <string.h>

#include "ir/formula.h"
#include "ir/op_table.h"

/* ---- gated activations ---- */

/* Builds x after this activation. */
static msc_value *activate(msc_builder *b, msc_activation how, msc_value *x) {
  switch (how) {
    case MSC_GATE_SILU: return unary(b, OP_silu, x);
    case MSC_GATE_GELU: return gelu(b, MSC_GELU_ERF, x);
    case MSC_GATE_GELU_TANH: return gelu(b, MSC_GELU_TANH, x);
    case MSC_GATE_SIGMOID: return unary(b, OP_sigmoid, x);
    case MSC_GATE_RELU: return unary(b, OP_relu, x);
    case MSC_GATE_TANH: return unary(b, OP_tanh, x);
    default: return x;
  }
}

/* One half of the last dimension, after its activation, times the other half. */
bool expand_glu(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int last = in[0]->type->rank - 1;
  int64_t n = in[0]->type->dim[last];
  msc_value *first = part_of(b, in[0], last, 0, n / 2), *second = part_of(b, in[0], last, n / 2, n);
  bool gate_first = msc_op_bool(op, "gate_first");
  msc_value *gate = activate(b, msc_op_activation(op), gate_first ? first : second);
  return give_result(times(b, gate, gate_first ? second : first), out_result);
}

/* ---- rotary positions ---- */

/* The angle of position p and pair i is p base^(-2i / n): [s,1..,n/2], aligned with x [.., s, .., n]. */
static msc_value *rotary_angles(msc_builder *b, const msc_op *op, const msc_type *x, msc_dtype dtype) {
  int axis = axis_of(op, "axis", x->rank), rank = x->rank - axis;
  int64_t n = x->dim[x->rank - 1], dim[MSC_MAX_RANK];
  for (int d = 0; d < rank; d++) dim[d] = d == 0 ? x->dim[axis] : 1;
  msc_value *position = reshape(b, count_up(b, dtype, x->dim[axis]), rank, dim);
  msc_value *pair = count_up(b, dtype, n / 2);
  msc_value *frequency =
      msc_compute(b, "exp(a * b)", pair, number(b, pair, -2 * log(msc_op_float(op, "base")) / (double)n));
  return times(b, position, frequency);
}

/* Pairs (a, c) become (a cos - c sin, c cos + a sin): element i and i + n/2, or neighbours when they are
 * interleaved. */
bool expand_rotary(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  const msc_type *t = in[0]->type;
  bool neighbours = msc_op_bool(op, "interleaved");
  int last = t->rank - 1, split = neighbours ? t->rank : last; /* the dimension of two */
  int64_t n = t->dim[last], dim[MSC_MAX_RANK + 1], single[MSC_MAX_RANK];
  if (t->rank == MSC_MAX_RANK)
    return msc_op_error(op, MSC_E_UNSUPPORTED, "rotary: rank %d is not supported, %d at most", t->rank,
                        MSC_MAX_RANK - 1);
  memcpy(dim, t->dim, sizeof t->dim);
  memcpy(single, t->dim, sizeof single);
  dim[neighbours ? last : t->rank] = n / 2, dim[split] = 2;
  single[last] = n / 2;
  msc_dtype dtype = widen_dtype(t->dtype);
  msc_value *x = reshape(b, in[0], t->rank + 1, dim), *angle = rotary_angles(b, op, t, dtype);
  msc_value *a = cast(b, reshape(b, part_of(b, x, split, 0, 1), t->rank, single), dtype),
            *c = cast(b, reshape(b, part_of(b, x, split, 1, 2), t->rank, single), dtype);
  msc_value *cosine = msc_compute(b, "cos(a)", angle), *sine = msc_compute(b, "sin(a)", angle);
  msc_value *c_sine = times(b, c, sine), *turned_a = minus(b, times(b, a, cosine), c_sine);
  msc_value *a_sine = times(b, a, sine), *turned_c = plus(b, times(b, c, cosine), a_sine);
  dim[split] = 1;
  turned_a = reshape(b, cast(b, turned_a, t->dtype), t->rank + 1, dim);
  turned_c = reshape(b, cast(b, turned_c, t->dtype), t->rank + 1, dim);
  x = join_along(b, split, 2, (msc_value *[]){turned_a, turned_c});
  return give_result(reshape(b, x, t->rank, t->dim), out_result);
}

/* ---- attention ---- */

/* Builds the scores where `seen` is true, -infinity elsewhere. */
static msc_value *hide(msc_builder *b, msc_value *seen, msc_value *scores) {
  return scores ? choose(b, seen, scores, number(b, scores, -INFINITY)) : NULL;
}

/* Hides from position i all positions after it. */
static msc_value *hide_later(msc_builder *b, msc_value *scores, int64_t s, int64_t t) {
  msc_value *row = reshape(b, count_up(b, MSC_I32, s), 2, (int64_t[]){s, 1});
  return hide(b, compare(b, MSC_GE, row, count_up(b, MSC_I32, t)), scores);
}

/* Applies a mask to the scores. A mask of i1 is true where a position is seen; any other mask is added. */
static msc_value *apply_mask(msc_builder *b, msc_value *mask, msc_value *scores) {
  return mask->type->dtype == MSC_I1 || !scores ? hide(b, mask, scores)
                                                : plus(b, scores, cast(b, mask, scores->type->dtype));
}

/* softmax(scale q k^T + mask) [b,h,s,t], in f32 for f16 and bf16.  The positions of heads that share keys and values
 * are joined into one dimension, so that one product serves all of them. */
static msc_value *attention_weights(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value *mask) {
  const int64_t *q = in[0]->type->dim, *v = in[2]->type->dim;
  int64_t groups = v[1], members = q[1] / groups, t = v[2];
  double scale = msc_op_float(op, "scale");
  msc_value *scores =
      matrix_product(b, reshape(b, in[0], 4, (int64_t[]){q[0], groups, members * q[2], q[3]}), false, in[1], true);
  scores = cast(b, scores, widen_dtype(in[0]->type->dtype));
  if (scale == 0 && q[3]) scale = 1 / sqrt((double)q[3]);
  scores = reshape(b, scores, 4, (int64_t[]){q[0], q[1], q[2], t});
  if (scores) scores = times(b, scores, number(b, scores, scale));
  if (mask) scores = apply_mask(b, mask, scores);
  if (msc_op_bool(op, "causal")) scores = hide_later(b, scores, q[2], t);
  return msc_compute(b, "softmax(a)", scores);
}

/* Builds the product of the weights and v. */
static msc_value *weigh_values(msc_builder *b, msc_value *weights, msc_value *const *in) {
  const int64_t *q = in[0]->type->dim, *v = in[2]->type->dim;
  weights = reshape(b, cast(b, weights, in[0]->type->dtype), 4, (int64_t[]){q[0], v[1], q[1] / v[1] * q[2], v[2]});
  return reshape(b, matrix_product(b, weights, false, in[2], false), 4, (int64_t[]){q[0], q[1], q[2], v[3]});
}

bool expand_attention(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return give_result(weigh_values(b, attention_weights(b, op, in, op->num_in > 3 ? in[3] : NULL), in), out_result);
}

bool expand_dropped_attention(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *weights = attention_weights(b, op, in, op->num_in > 4 ? in[4] : NULL);
  if (weights) weights = times(b, weights, cast(b, in[3], weights->type->dtype));
  return give_result(weigh_values(b, weights, in), out_result);
}

/* ---- flash attention, for machines without a library for it ---- */

typedef struct {
  int64_t batch, heads, groups, rows /* rows of a group: the positions of all its heads */, positions, keys;
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

/* scale q k^T [b,h,s,t] in f32 or f64, -infinity where a position is not seen. */
static msc_value *scores_of(msc_builder *b, const msc_op *op, const attention_sizes *z, msc_value *const *in,
                            size_t mask) {
  msc_value *scores = by_head(b, z, matrix_product(b, by_group(b, z, in[0]), false, in[1], true));
  if (scores) scores = cast(b, scores, widen_dtype(scores->type->dtype));
  scores = times(b, scores, number(b, scores, z->scale));
  if (msc_op_bool(op, "masked")) scores = apply_mask(b, in[mask], scores);
  return scores && msc_op_bool(op, "causal") ? hide_later(b, scores, z->positions, z->keys) : scores;
}

/* Builds x times operand i, the factors of dropout; x itself if there is no such operand. */
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
