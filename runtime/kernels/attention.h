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

/* What is done between products, for one width of vectors; the bits do not depend on which.
 *
 * weigh makes weights of scores: exp(scale score + mask - the largest of its row so far).  most and total, of each
 *   row, are brought up to date; what was summed of a row before, `size` elements of sums, is scaled to the new one.
 * differentiate makes weights of scores, exp(scale score + mask - stats), and of `other` gradients of scores; along: of
 *   each row the sum of dy y.
 * multiply sums the products of rows of a and b.
 * divide makes rows of y of rows of sums, which lie one behind the other, and their totals.
 * log makes stats of rows: the largest score and the logarithm of the total.
 * copy makes rows of `width` elements, one behind the other, of rows of `columns`; the rest is 0. */
typedef struct {
  void (*weigh)(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size);
  void (*differentiate)(const mscrt_scores *b, const float *stats, const float *along);
  void (*multiply)(const float *a, int64_t step_a, const float *b, int64_t step_b, int64_t rows, int64_t size,
                   float *out_sums);
  void (*divide)(const float *sums, const float *total, int64_t rows, int64_t size, float *y, int64_t step);
  void (*log)(const float *most, const float *total, int64_t rows, float *stats, int64_t step);
  void (*copy)(const float *from, int64_t step, int64_t rows, int64_t columns, int64_t width, float *to);
} mscrt_score_loops;

/* Those for the widest vectors of this CPU. */
const mscrt_score_loops *mscrt_score_loops_here(void);

#endif
