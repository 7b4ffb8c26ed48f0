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
  MSC_BATCH_OWN,   /* every part has one of its own, which stands elsewhere: see parts.h */
} msc_batch_meaning;

typedef struct {
  uint8_t meaning, dim; /* dim: the batch's, of PART */
  const msc_op *mixer;  /* of MIXED: the op that mixes samples */
} msc_batch_fact;

/* What an op that reduces the batch, or sees it in another way, is taken to see. */
typedef enum {
  MSC_BATCH_WHOLE,  /* all samples */
  MSC_BATCH_MARKED, /* one part alone where it is marked cross_batch, or is batch_norm in training; else all samples */
  /* which of the two is not asked: a result without the batch dimension counts as the same for all parts */
  MSC_BATCH_ANYHOW,
} msc_batch_view;

/* A walk over f's ops in program order; facts are by value id, and f's values keep the ids they get here. */
typedef struct {
  msc_func *f;
  msc_arena *arena;
  msc_batch_view view;
  msc_batch_fact *fact;
  size_t num, room;
} msc_batch_reading;

/* Numbers f's values and reads its inputs. */
void msc_batch_begin(msc_batch_reading *r, msc_func *f, msc_arena *arena, msc_batch_view view);
/* The facts of op's results from those of its operands, none of which is OWN.  false after a report. */
bool msc_batch_read(msc_batch_reading *r, const msc_op *op);
msc_batch_fact *msc_batch_of(const msc_batch_reading *r, const msc_value *v);
/* What is known of a value that came since. */
void msc_batch_add(msc_batch_reading *r, msc_value *v, msc_batch_fact fact);

/* The batch dimension of an argument that is an input; -1: it has none. */
int msc_batch_dim(const msc_func *f, size_t arg);
/* Are all slices of v along this dimension alike, so that any part of it is as good as another? */
bool msc_batch_is_uniform(const msc_value *v, int dim);
/* Does every element of op's one result come from those of its operands at the same place, counted from the right? */
bool msc_is_elementwise(const msc_op *op);
/* The operand's dimension that the result's dimension dim is; -1: it has none, all its elements serve every slice; -2:
 * unknown.  Of what msc_batch_is_uniform looks through. */
int msc_batch_source(const msc_op *op, size_t operand, int dim);
/* Is the op marked to see one part alone? */
bool msc_sees_part(const msc_op *op);
/* The facts of all values of f, by id (numbers them).  NULL after a report. */
const msc_batch_fact *msc_batch_facts(msc_func *f, msc_arena *arena, msc_batch_view view);
/* Facts of f whose ids its values still have.  Where an op takes a sum over the parts for a mean, beside means, as the loss
 * mean(e) + sum(p) does: the sum times `factor`, which makes it the mean of what the parts have.  false after a report. */
bool msc_batch_make_means(const msc_batch_fact *fact, msc_func *f, double factor);
/* By input: does its batch divide into so many parts?  Reports each that does not; `whose` ends the message. */
bool msc_batch_divides(const msc_func *f, int64_t parts, const char *whose);

#endif
