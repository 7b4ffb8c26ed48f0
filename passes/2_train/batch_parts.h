/* batch_parts.h: computes an op separately for each of several parts of the batch, as one op on all parts side by side.
 *
 * A value "by parts" has r, the number of parts, as dimension 0, followed by the dimensions that the value has for one
 * part: [n,c] of n samples is [r,n/r,c], and the mean over its samples is [r,c]. */
#ifndef MSC_PASSES_2_TRAIN_BATCH_PARTS_H
#define MSC_PASSES_2_TRAIN_BATCH_PARTS_H

#include "passes/2_train/batch.h"

/* The value by parts, of a value with the fact OWN, or of one that was computed by parts on request. */
typedef struct {
  msc_value *value; /* by parts */
  int64_t r;
} msc_own;

typedef struct {
  msc_batch_reading facts;
  msc_own *own;       /* by value id */
  size_t num_own;
  msc_op **replaced;  /* ops replaced by ops on parts */
  size_t num_replaced, room;
} msc_parts;

/* Builds op by parts in front of it; its results and operands have facts. Results with a batch dimension are joined
 * again and replace those of op; of the other results every part has its own (OWN). Returns NULL, or the reason why
 * this is impossible, as the end of a message. */
const char *msc_compute_by_parts(msc_parts *p, msc_op *op, int64_t r);
/* Builds the mean over the parts of v (a value with the fact OWN), before op; NULL after a report. */
msc_value *msc_mean_of_parts(msc_parts *p, const msc_value *v, msc_op *before);
/* Erases replaced ops without users. */
void msc_drop_replaced(msc_parts *p);

#endif
