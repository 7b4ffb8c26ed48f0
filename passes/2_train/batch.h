/* batch.h: what the batch is to each value of a function, if its samples were seen part by part. */
#ifndef MSC_PASSES_2_TRAIN_BATCH_H
#define MSC_PASSES_2_TRAIN_BATCH_H

#include "ir/ir.h"

typedef enum {
  MSC_BATCH_SAME,  /* every part has this value */
  MSC_BATCH_PART,  /* every part has its share of a dimension */
  MSC_BATCH_MEAN,  /* the mean over the parts of what each has */
  MSC_BATCH_SUM,   /* their sum */
  MSC_BATCH_MIXED, /* neither */
} msc_batch_meaning;

typedef struct {
  uint8_t meaning, dim; /* dim: the batch's, of PART */
  const msc_op *mixer;  /* of MIXED: the op that mixes samples */
} msc_batch_fact;

/* The batch dimension of an argument that is an input; -1: it has none. */
int msc_batch_dim(const msc_func *f, size_t arg);
/* Are all slices of v along this dimension alike, so that any part of it is as good as another? */
bool msc_batch_is_uniform(const msc_value *v, int dim);
/* By value id (numbers f's values).  per_part: batch_norm in training and ops marked cross_batch take their statistics of one
 * part alone.  NULL after a report. */
const msc_batch_fact *msc_batch_facts(msc_func *f, msc_arena *arena, bool per_part);
/* By input: does its batch divide into so many parts?  Reports each that does not; `whose` ends the message. */
bool msc_batch_divides(const msc_func *f, int64_t parts, const char *whose);

#endif
