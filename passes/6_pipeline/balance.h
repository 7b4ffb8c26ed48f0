/* balance.h: layers of a model in order -> contiguous runs of them, one per virtual stage, so that a step is as short
 * as can be.
 *
 * With p stages of v chunks, m micro-batches, t_i the time of stage i for one micro-batch (all its chunks), a step
 * takes
 *   (sum of t_i + borders) / v + (m - 1 / v) * max t_i          (v = 1: Zheng et al. 2022, eq. 2; stages of 3, 5, 4 and
 * m = 8: 47) which is 1f1b and gpipe exactly where the t_i are equal, and close to them elsewhere. */
#ifndef MSC_PASSES_6_PIPELINE_BALANCE_H
#define MSC_PASSES_6_PIPELINE_BALANCE_H

#include "ir/ir.h"

typedef struct {
  int64_t time;   /* ns of forward and backward of one micro-batch */
  int64_t border; /* ns that a message after this layer takes, there and back */
  int64_t fixed;  /* bytes of parameters, gradients, optimizer state */
  int64_t kept;   /* bytes for each micro-batch in flight */
} msc_layer;

typedef struct {
  int num_layers;
  const msc_layer *layer;
  int stages, chunks, micro_batches;
  const int *place;     /* stage of every virtual stage; NULL: round robin */
  /* of every stage: buffers for what is kept, each as large as the largest chunk needs; NULL: none */
  const int *in_flight;
  const int64_t *limit; /* bytes of every stage; NULL: none */
} msc_balance_options;

typedef struct {
  int *first;           /* layer of every virtual stage, and num_layers at the end */
  int64_t *time;        /* of every stage */
  int64_t total;        /* ns of a step, rounded up */
  bool is_least;        /* proved: always with one chunk per stage, and where there are few ways to cut */
} msc_balance;

/* In the context's arena.  Reports at `loc` and returns false when there are fewer layers than virtual stages, or when
 * nothing found fits the limits; then it says how much more every stage would need. */
bool msc_balance_make(msc_context *ctx, const msc_loc *loc, const msc_balance_options *o, msc_balance *out_balance);

#endif
