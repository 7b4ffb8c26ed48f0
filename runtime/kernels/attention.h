/* attention.h: attention on a CPU, one block of scores after the other, computed by the kernels of matrix products. */
#ifndef MSCRT_ATTENTION_H
#define MSCRT_ATTENTION_H

#include "runtime/context.h"

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

/* The loops between products, for one width of vectors; results have the same bits for every width where
 * the CPU has fused multiply-add.
 *
 * weigh replaces scores by weights: exp(scale score + mask - the largest of its row so far).  It updates most and total
 *   of each row, and scales the sums of a row so far, `size` elements, to the new largest score.
 * differentiate replaces scores by weights, exp(scale score + mask - stats), and `other` by gradients of scores; along:
 *   of each row the sum of dy y.
 * multiply sums the products of rows of a and b.
 * divide computes rows of y from rows of sums, which follow each other, and their totals.
 * log computes stats of rows: the largest score and the logarithm of the total.
 * copy copies rows of `columns` elements to rows of `width` elements, which follow each other; the rest is 0. */
typedef struct {
  void (*weigh)(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size);
  void (*differentiate)(const mscrt_scores *b, const float *stats, const float *along);
  void (*multiply)(const float *a, int64_t step_a, const float *b, int64_t step_b, int64_t rows, int64_t size,
                   float *out_sums);
  void (*divide)(const float *sums, const float *total, int64_t rows, int64_t size, float *y, int64_t step);
  void (*log)(const float *most, const float *total, int64_t rows, float *stats, int64_t step);
  void (*copy)(const float *from, int64_t step, int64_t rows, int64_t columns, int64_t width, float *to);
} mscrt_score_loops;

/* Returns the loops for the widest vectors of this CPU that have at most `most` elements. */
const mscrt_score_loops *mscrt_score_loops_of(int64_t most);

#endif
