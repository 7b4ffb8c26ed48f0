/* attention.c: describes attention and its gradient to cuDNN.  cuDNN recognizes exactly this graph of operations and
 * runs it as one kernel, which keeps no matrix of scores in memory.
 *
 *   forward    p = exp(scores - maximum) / sum,  y = (p keep) v,  stats = maximum + log(sum)
 *   backward   p = exp(scores - stats),  dv = (p keep)^T dy,  ds = scale p (keep dy v^T - sum of dy y),
 *              dq = ds k,  dk = ds^T q
 *
 * scores = scale q k^T + mask, with the lowest float for positions that a position does not attend to.  mask is there
 * if the model has one, keep if weights are dropped.  cuDNN could draw keep itself, but from other counters: the
 * numbers would depend on how the heads are cut, and a CPU would drop other weights. */
#include <float.h>

#include "runtime/cuda/cudnn.h"

enum { F32 = MSCRT_CUDNN_DATA_FLOAT };

/* Operand numbers; 0 for mask or keep: there is none. */
typedef struct {
  uint32_t mask, keep, y, stats, dy, dq, dk, dv;
} places;

enum { Q, K, V };

static places forward_operands(const mscrt_graph *g) {
  uint32_t dropped = g->kind == PLAN_GRAPH_KIND_DROPPED_ATTENTION, masked = g->kind == PLAN_GRAPH_KIND_MASKED_ATTENTION,
           extra = dropped + masked;
  return (places){.mask = 3 * masked, .keep = 3 * dropped, .y = 3 + extra, .stats = 4 + extra};
}

static places backward_operands(const mscrt_graph *g) {
  uint32_t dropped = g->kind == PLAN_GRAPH_KIND_DROPPED_ATTENTION_GRAD,
           masked = g->kind == PLAN_GRAPH_KIND_MASKED_ATTENTION_GRAD, extra = dropped + masked;
  return (places){.y = 3,
                  .stats = 4,
                  .dy = 5,
                  .mask = 6 * masked,
                  .keep = 6 * dropped,
                  .dq = 6 + extra,
                  .dk = 7 + extra,
                  .dv = 8 + extra};
}

/* The sizes of [b,h,s,t] and [b,h,s,1]. */
typedef struct {
  int64_t scores[4], rows[4];
} sizes;

static sizes attention_sizes(const mscrt_graph *g) {
  const int64_t *q = g->operand[0].dim, *k = g->operand[1].dim;
  return (sizes){{q[0], q[1], q[2], k[2]}, {q[0], q[1], q[2], 1}};
}

static dnn_descriptor virtual_tensor(mscrt_dnn_builder *b, unsigned type, const int64_t dim[4]) {
  return mscrt_dnn_virtual(b, type, dim, false);
}

/* Adds scale x. */
static dnn_descriptor scale_scores(mscrt_dnn_builder *b, const sizes *z, dnn_descriptor x, dnn_descriptor scale,
                                   unsigned type) {
  dnn_descriptor y = virtual_tensor(b, type, z->scores);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_MUL, F32, x, scale, NULL, y);
  return y;
}

/* Adds scale x + mask, or scale x if there is no mask. */
static dnn_descriptor build_scores(mscrt_dnn_builder *b, const sizes *z, const places *at, dnn_descriptor product,
                                   dnn_descriptor scale) {
  dnn_descriptor scores = scale_scores(b, z, product, scale, F32);
  if (!at->mask) return scores;
  dnn_descriptor y = virtual_tensor(b, F32, z->scores);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_ADD, F32, scores, mscrt_dnn_operand(b, at->mask), NULL, y);
  return y;
}

/* Adds a select that replaces scores of later positions, for causal attention, by the lowest float, whose exponential
 * is 0. */
static dnn_descriptor hide_future(mscrt_dnn_builder *b, const sizes *z, dnn_descriptor scores) {
  if (!b->g->causal) return scores;
  dnn_descriptor lowest = mscrt_dnn_number(b, -FLT_MAX), row = virtual_tensor(b, MSCRT_CUDNN_DATA_INT32, z->scores),
                 column = virtual_tensor(b, MSCRT_CUDNN_DATA_INT32, z->scores);
  dnn_descriptor sees = virtual_tensor(b, MSCRT_CUDNN_DATA_BOOLEAN, z->scores), y = virtual_tensor(b, F32, z->scores);
  mscrt_dnn_index(b, scores, 2, row);
  mscrt_dnn_index(b, scores, 3, column);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_CMP_GE, MSCRT_CUDNN_DATA_BOOLEAN, row, column, NULL, sees);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_BINARY_SELECT, F32, scores, lowest, sees, y);
  return y;
}

/* Adds x keep, of a type; returns x if there is no keep. */
static dnn_descriptor apply_keep(mscrt_dnn_builder *b, const sizes *z, dnn_descriptor x, dnn_descriptor keep,
                                 unsigned type) {
  if (!keep) return x;
  dnn_descriptor y = virtual_tensor(b, type, z->scores);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_MUL, F32, x, keep, NULL, y);
  return y;
}

void mscrt_dnn_attention(mscrt_dnn_builder *b) {
  places at = forward_operands(b->g);
  unsigned narrow = mscrt_dnn_type(b->g->operand[Q].dtype);
  sizes z = attention_sizes(b->g);
  dnn_descriptor product = virtual_tensor(b, F32, z.scores), scale = mscrt_dnn_number(b, b->g->scale);
  mscrt_dnn_matmul(b, mscrt_dnn_operand(b, Q), mscrt_dnn_transpose(b, K), product);
  dnn_descriptor scores = hide_future(b, &z, build_scores(b, &z, &at, product, scale));
  dnn_descriptor most = virtual_tensor(b, F32, z.rows), below = virtual_tensor(b, F32, z.scores),
                 e = virtual_tensor(b, F32, z.scores), sum = virtual_tensor(b, F32, z.rows),
                 log = virtual_tensor(b, F32, z.rows);
  dnn_descriptor keep = at.keep ? mscrt_dnn_operand(b, at.keep) : NULL,
                 p = virtual_tensor(b, keep ? F32 : narrow, z.scores);
  mscrt_dnn_reduce(b, MSCRT_CUDNN_REDUCE_TENSOR_MAX, scores, most);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_SUB, F32, scores, most, NULL, below);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_EXP, F32, below, NULL, NULL, e);
  mscrt_dnn_reduce(b, MSCRT_CUDNN_REDUCE_TENSOR_ADD, e, sum);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_LOG, F32, sum, NULL, NULL, log);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_ADD, F32, most, log, NULL, mscrt_dnn_operand(b, at.stats));
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_DIV, F32, e, sum, NULL, p);
  mscrt_dnn_matmul(b, apply_keep(b, &z, p, keep, narrow), mscrt_dnn_operand(b, V), mscrt_dnn_operand(b, at.y));
}

/* Adds the sums of dy y, which cuDNN wants in memory. */
static dnn_descriptor sum_dy_y(mscrt_dnn_builder *b, const sizes *z, const places *at, dnn_descriptor dy) {
  dnn_descriptor product = virtual_tensor(b, F32, b->g->operand[at->y].dim), sum = virtual_tensor(b, F32, z->rows),
                 kept = mscrt_dnn_workspace(b, z->rows, false);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_MUL, F32, dy, mscrt_dnn_operand(b, at->y), NULL, product);
  mscrt_dnn_reduce(b, MSCRT_CUDNN_REDUCE_TENSOR_ADD, product, sum);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_MUL, F32, sum, mscrt_dnn_number(b, 1), NULL, kept);
  return kept;
}

static dnn_descriptor transpose_scores(mscrt_dnn_builder *b, const sizes *z, dnn_descriptor x) {
  const int64_t dim[] = {z->scores[0], z->scores[1], z->scores[3], z->scores[2]};
  dnn_descriptor y = mscrt_dnn_virtual(b, mscrt_dnn_type(b->g->operand[Q].dtype), dim, true);
  mscrt_dnn_view(b, x, y);
  return y;
}

/* Adds a product, the gradient of keys or values, and its sum over the heads that share them. */
static void add_kv_gradient(mscrt_dnn_builder *b, dnn_descriptor x, dnn_descriptor w, uint32_t i) {
  const int64_t *to = b->g->operand[i].dim, of_heads[] = {to[0], b->g->operand[Q].dim[1], to[2], to[3]};
  dnn_descriptor y = mscrt_dnn_operand(b, i), all = of_heads[1] == to[1] ? y : virtual_tensor(b, F32, of_heads);
  mscrt_dnn_matmul(b, x, w, all);
  if (all != y) mscrt_dnn_reduce(b, MSCRT_CUDNN_REDUCE_TENSOR_ADD, all, y);
}

/* Adds dq: a product with all of ds if the plan is deterministic; else blocks of keys add their parts to it in f32, in
 * the order in which they finish. */
static void add_q_gradient(mscrt_dnn_builder *b, const places *at, dnn_descriptor ds, dnn_descriptor k) {
  if (b->g->deterministic) {
    mscrt_dnn_matmul(b, ds, k, mscrt_dnn_operand(b, at->dq));
    return;
  }
  dnn_descriptor sum = mscrt_dnn_workspace(b, b->g->operand[at->dq].dim, true);
  mscrt_dnn_matmul(b, ds, k, sum);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_IDENTITY, F32, sum, NULL, NULL, mscrt_dnn_operand(b, at->dq));
}

void mscrt_dnn_attention_grad(mscrt_dnn_builder *b) {
  places at = backward_operands(b->g);
  sizes z = attention_sizes(b->g);
  dnn_descriptor q = mscrt_dnn_operand(b, Q), k_columns = mscrt_dnn_transpose(b, K), dy = mscrt_dnn_operand(b, at.dy),
                 scale = mscrt_dnn_number(b, b->g->scale);
  dnn_descriptor keep = at.keep ? mscrt_dnn_operand(b, at.keep) : NULL, sum = sum_dy_y(b, &z, &at, dy),
                 product = virtual_tensor(b, F32, z.scores), below = virtual_tensor(b, F32, z.scores),
                 p = virtual_tensor(b, F32, z.scores);
  mscrt_dnn_matmul(b, q, k_columns, product);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_SUB, F32, build_scores(b, &z, &at, product, scale),
                      mscrt_dnn_operand(b, at.stats), NULL, below);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_EXP, F32, hide_future(b, &z, below), NULL, NULL, p);
  add_kv_gradient(b, transpose_scores(b, &z, apply_keep(b, &z, p, keep, F32)), dy, at.dv);

  dnn_descriptor dp = virtual_tensor(b, F32, z.scores), less = virtual_tensor(b, F32, z.scores),
                 slope = virtual_tensor(b, F32, z.scores), k = mscrt_dnn_virtual_like(b, K);
  mscrt_dnn_matmul(b, dy, mscrt_dnn_transpose(b, V), dp);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_SUB, F32, apply_keep(b, &z, dp, keep, F32), sum, NULL, less);
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_MUL, F32, less, p, NULL, slope);
  dnn_descriptor ds = scale_scores(b, &z, slope, scale, mscrt_dnn_type(b->g->operand[Q].dtype));
  add_kv_gradient(b, transpose_scores(b, &z, ds), q, at.dk);
  mscrt_dnn_view(b, k_columns, k);
  add_q_gradient(b, &at, ds, k);
}
