/* attention.h: attention on a CPU, block of scores by block, computed by the kernels of matrix products. */
#ifndef MSCRT_ATTENTION_H
#define MSCRT_ATTENTION_H

#include "runtime/context.h"

/* Elements that are computed together. */
typedef float mscrt_lanes __attribute__((vector_size(4 * MSC_ATTENTION_LANES), aligned(4)));

/* Runs one work item of the call, of attention or its gradient, with a worker's memory. */
void mscrt_run_attention(const mscrt_record *r, void *const *buffers, int64_t unit, void *room);

/* A block of scores: `rows` rows of `keys` scores, each row MSC_ATTENTION_KEYS elements behind the one before.  The
 * first stands for positions `row` and `key`.  mask and keep: of the first score; NULL: none. */
typedef struct {
  float *scores, *other; /* other: of the gradient, the products of dy and values, which become gradients of scores */
  int64_t rows, keys, row, key;
  bool causal;
  float scale;
  const float *mask, *keep;
  int64_t mask_row, mask_key, keep_row; /* elements from row to row, from key to key */
} mscrt_scores;

/* Makes weights of scores: exp(scale score + mask - the largest of its row so far).  most and total, of each row, are
 * brought up to date; what was summed of a row before, `size` elements of sums, is scaled to the new largest. */
void mscrt_weigh_scores(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size);
/* Makes weights of scores, exp(scale score + mask - stats), and of `other` gradients of scores; along: of each row the
 * sum of dy y. */
void mscrt_differentiate_scores(const mscrt_scores *b, const float *stats, const float *along);

#endif
