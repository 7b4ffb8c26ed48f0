/* balance.h: cuts the layers of a model into contiguous runs, one per virtual stage, so that a step takes the least
 * time.
 *
 * With p stages of v chunks, m micro-batches and t_i the time of stage i for one micro-batch (all its chunks), the
 * time of a step is
 *
 *   (sum of t_i + borders) / v + (m - 1 / v) * max t_i
 *
 * with v = 1 as in Zheng et al. 2022, eq. 2: stages of 3, 5, 4 and m = 8 take 47. That is exact for 1f1b and gpipe
 * where the t_i are equal, and close to them elsewhere. */
#ifndef MSC_PASSES_6_PIPELINE_BALANCE_H
#define MSC_PASSES_6_PIPELINE_BALANCE_H

#include "ir/ir.h"

typedef struct {
  int64_t time;   /* ns of forward and backward of one micro-batch */
  int64_t border; /* ns of a message after this layer, forward and back */
  int64_t fixed;  /* bytes of parameters, gradients, optimizer state */
  int64_t kept;   /* bytes for each micro-batch in flight */
} msc_layer;

typedef struct {
  int num_layers;
  const msc_layer *layer;
  int stages, chunks, micro_batches;
  const int *place;     /* stage of every virtual stage; NULL: round robin */
  /* by stage: number of buffers for kept values, each as large as the largest chunk needs; NULL: none */
  const int *in_flight;
  const int64_t *limit; /* bytes of every stage; NULL: none */
} msc_balance_options;

typedef struct {
  int *first;           /* first layer of every virtual stage, and num_layers at the end */
  int64_t *time;        /* of every stage */
  int64_t total;        /* ns of a step, rounded up */
  bool is_least;        /* proved to be the least: always with one chunk per stage, else if there are few ways to cut */
} msc_balance;

/* Allocates the result in the context's arena. Reports at `loc` and returns false if there are fewer layers than
 * virtual stages, or if no cuts found fit the limits; then it says how much more every stage would need. */
bool msc_balance_make(msc_context *ctx, const msc_loc *loc, const msc_balance_options *o, msc_balance *out_balance);

#endif
