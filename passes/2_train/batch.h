/* batch.h: what the batch is to each value of a function, if its samples are seen part by part. */
#ifndef MSC_PASSES_2_TRAIN_BATCH_H
#define MSC_PASSES_2_TRAIN_BATCH_H

#include "ir/ir.h"

typedef enum {
  MSC_BATCH_SAME,  /* the same value for every part */
  MSC_BATCH_PART,  /* every part has its share of a dimension */
  MSC_BATCH_MEAN,  /* the mean over the parts */
  MSC_BATCH_SUM,   /* the sum over the parts */
  MSC_BATCH_TOTAL, /* of all parts together: made of means and sums of data, not linearly, as max(1, number of labels);
                      where all samples are seen also what pairs them */
  MSC_BATCH_MIXED, /* none of these */
  MSC_BATCH_OWN,   /* every part has a value of its own, kept elsewhere: see batch_parts.h */
} msc_batch_meaning;

typedef struct {
  uint8_t meaning, dim; /* dim: for PART, the batch dimension */
  bool is_of_data;      /* depends on no parameter; false: may depend on one */
  const msc_op *mixer;  /* for MIXED and TOTAL: the op that mixes samples */
  /* for PART: `dim` holds this many runs of all samples, one behind the other. [t,n,c] reshaped to [tn,c] has t runs */
  int64_t outer;
} msc_batch_fact;

static inline msc_batch_fact msc_batch_part(int dim, int64_t outer) {
  return (msc_batch_fact){.meaning = MSC_BATCH_PART, .dim = (uint8_t)dim, .outer = outer};
}

/* The dimension of a tensor that holds the samples, and its runs of all samples as in msc_batch_fact; dim -1: none. */
typedef struct {
  int dim;
  int64_t outer;
} msc_batch_place;

/* The letters of a rule that the batch is cut along, and how many runs of all samples each has. */
typedef struct {
  uint32_t letters;
  int64_t outer[MSC_MAX_LETTERS];
} msc_batch_letters;

/* Which samples an op is assumed to see if it reduces the batch or mixes samples. */
typedef enum {
  MSC_BATCH_WHOLE,  /* all samples */
  MSC_BATCH_MARKED, /* one part if it is marked cross_batch, or is a batch_norm in training; else all samples */
  /* not decided: a result without the batch dimension counts as the same for all parts */
  MSC_BATCH_ANYHOW,
} msc_batch_view;

/* A walk over the ops of f in program order. Facts are by value id; the values of f keep the ids they get here. */
typedef struct {
  msc_func *f;
  msc_arena *arena;
  msc_batch_view view;
  msc_batch_fact *fact;
  size_t num, room;
} msc_batch_reading;

/* Numbers the values of f and sets the facts of its inputs. */
void msc_batch_begin(msc_batch_reading *r, msc_func *f, msc_arena *arena, msc_batch_view view);
/* Sets the facts of the results of op from those of its operands, none of which is OWN. False after a report. */
bool msc_batch_read(msc_batch_reading *r, const msc_op *op);
msc_batch_fact *msc_batch_of(const msc_batch_reading *r, const msc_value *v);
/* Adds the fact of a value made after msc_batch_begin. */
void msc_batch_add(msc_batch_reading *r, msc_value *v, msc_batch_fact fact);

/* True if op divides a sum over samples by their number, in the view of all samples: the result is their mean. */
bool msc_batch_divides_sum(const msc_batch_reading *r, const msc_op *op);

/* True for a value that the whole batch has of data: a mean or sum over it that no parameter touches, or what is made
 * of those. */
bool msc_batch_is_total(const msc_batch_fact *f);

/* The batch dimension of an argument that is an input; -1: none. */
int msc_batch_dim(const msc_func *f, size_t arg);
/* True if v, whose samples lie at `place`, has equal values for all of them, so that any part can stand for another. */
bool msc_batch_is_uniform(const msc_value *v, msc_batch_place place);
/* Writes, for each operand of the op that makes v, the place of the samples that lie at `place` of v; dim -1: every
 * sample uses the whole operand. False: the places are not known. Works for the ops that msc_batch_is_uniform looks
 * through. */
bool msc_batch_sources(const msc_value *v, msc_batch_place place, msc_arena *arena, msc_batch_place *out_operand);
/* Adds the letter that carries the samples at a place of a tensor of the rule. False: no letter does, or `b` has that
 * letter with another number of runs. */
bool msc_batch_add_letter(msc_batch_letters *b, const msc_rule *rule, size_t tensor, msc_batch_place place);
/* Returns the first place of a tensor, from dimension `from` on, that has one of the letters; dim -1: none has. */
msc_batch_place msc_batch_place_of(const msc_batch_letters *b, const msc_rule *rule, size_t tensor, int from);
/* True if the op is marked to see one part alone. */
bool msc_sees_part(const msc_op *op);
/* The facts of all values of f, by id (numbers the values). NULL after a report. */
const msc_batch_fact *msc_batch_facts(msc_func *f, msc_arena *arena, msc_batch_view view);
/* Multiplies by `factor` every sum over the parts that an op uses as a mean beside means, as in the loss mean(e) +
 * sum(p): that makes it the mean over the parts. The values of f still have the ids of `fact`. False after a report. */
bool msc_batch_make_means(const msc_batch_fact *fact, msc_func *f, double factor);
/* True if the batch of every input divides into so many parts. Reports each that does not; `whose` ends the message. */
bool msc_batch_divides(const msc_func *f, int64_t parts, const char *whose);

/* ---- loss_quotient.c ---- */

typedef struct msc_pass_ctx msc_pass_ctx;
/* Rewrites a loss that has means over rows that are not ignored, or other quotients of sums over the batch: into one
 * quotient of two sums or, where its terms do not allow that, into quotients by what `micro` micro-batches have
 * together. Leaves every other loss as it is. False after a report. */
bool msc_make_loss_quotient(msc_pass_ctx *pass, msc_func *f, int64_t micro);
/* Sets *out_divisor to what the batch of a function with a loss has of the divisor, a sum over its samples, of a loss
 * that is a mean of some samples, or with weights, and builds it if no op has it; NULL: the loss is no such mean. False
 * after a report. */
bool msc_build_loss_divisor(msc_pass_ctx *pass, msc_func *f, msc_value **out_divisor);
/* True if the parallel mode allows quotients of sums and the loss is one: a sum over the batch that depends on
 * parameters, divided by what the whole batch has of data. `fact`: by value id, in the view MSC_BATCH_MARKED; values
 * that were made later have ids from num_facts on. */
bool msc_is_loss_quotient(msc_pass_ctx *pass, msc_func *f, const msc_batch_fact *fact, size_t num_facts);

#endif
