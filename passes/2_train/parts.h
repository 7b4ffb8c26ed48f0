/* parts.h: what an op computes of each of several parts of the batch by itself, as one op on all parts side by side.
 *
 * A value "by parts" has r, the number of parts, as dimension 0, and behind it the dimensions that the value has where
 * there is one part only: [n,c] of n samples is [r,n/r,c], and the mean over its samples is [r,c]. */
#ifndef MSC_PASSES_2_TRAIN_PARTS_H
#define MSC_PASSES_2_TRAIN_PARTS_H

#include "passes/2_train/batch.h"

/* Of a value of which every part has its own (fact OWN), or of which that was asked. */
typedef struct {
  msc_value *value; /* by parts */
  int64_t r;
} msc_own;

typedef struct {
  msc_batch_reading facts;
  msc_own *own;       /* by value id */
  size_t num_own;
  msc_op **replaced;  /* ops whose results stand elsewhere now */
  size_t num_replaced, room;
} msc_parts;

/* op, whose results and operands have facts, becomes an op by parts in front of it; what has the batch is put together
 * again and replaces its result, of the rest every part has its own.  NULL: done; else why not: the message's end. */
const char *msc_compute_by_parts(msc_parts *p, msc_op *op, int64_t r);
/* v of which every part has its own -> the mean over the parts, before op; NULL after a report. */
msc_value *msc_mean_of_parts(msc_parts *p, const msc_value *v, msc_op *before);
/* Ops without users that were replaced go. */
void msc_drop_replaced(msc_parts *p);

#endif
