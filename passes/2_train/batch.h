/* batch.h: what the batch is to each value of a function, if its samples are seen part by part. */
#ifndef MSC_PASSES_2_TRAIN_BATCH_H
#define MSC_PASSES_2_TRAIN_BATCH_H

#include "ir/ir.h"

typedef enum {
  MSC_BATCH_SAME,  /* the same value for every part */
  MSC_BATCH_PART,  /* every part has its share of a dimension */
  MSC_BATCH_MEAN,  /* the mean over the parts */
  MSC_BATCH_SUM,   /* the sum over the parts */
  MSC_BATCH_MIXED, /* neither */
  MSC_BATCH_OWN,   /* every part has a value of its own, kept elsewhere: see batch_parts.h */
} msc_batch_meaning;

typedef struct {
  uint8_t meaning, dim; /* dim: the batch dimension of a PART */
  const msc_op *mixer;  /* for MIXED: the op that mixes samples */
  /* of a PART: dim is (outer, batch, ..), one behind the other so many runs of all samples. [t,n,c] as [tn,c]: t */
  int64_t outer;
} msc_batch_fact;

static inline msc_batch_fact msc_batch_part(int dim, int64_t outer) {
  return (msc_batch_fact){.meaning = MSC_BATCH_PART, .dim = (uint8_t)dim, .outer = outer};
}

/* Where the batch is in a tensor, as in the fact of a PART; dim -1: nowhere. */
typedef struct {
  int dim;
  int64_t outer;
} msc_batch_place;

/* The letters of a rule that the batch is cut along, and how many runs of all samples each has. */
typedef struct {
  uint32_t letters;
  int64_t outer[MSC_MAX_LETTERS];
} msc_batch_letters;

/* What an op that reduces the batch, or mixes samples, is taken to see. */
typedef enum {
  MSC_BATCH_WHOLE,  /* all samples */
  MSC_BATCH_MARKED, /* one part if it is marked cross_batch, or is a batch_norm in training; else all samples */
  /* either: a result without the batch dimension counts as the same for all parts */
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

/* The batch dimension of an argument that is an input; -1: none. */
int msc_batch_dim(const msc_func *f, size_t arg);
/* True if v is the same for all samples that this place of it is for, so that any part of it serves. */
bool msc_batch_is_uniform(const msc_value *v, msc_batch_place place);
/* Finds the places in the operands of what is at a place of the result v; nowhere: all elements serve every sample.
 * False: unknown. Defined for the ops that msc_batch_is_uniform looks through. */
bool msc_batch_sources(const msc_value *v, msc_batch_place place, msc_arena *arena, msc_batch_place *out_operand);
/* Adds the letter at a place of a tensor of the rule. False: there is none, or the samples go along it otherwise. */
bool msc_batch_add_letter(msc_batch_letters *b, const msc_rule *rule, size_t tensor, msc_batch_place place);
/* The first place of a tensor, from dimension `from` on, that has one of the letters. */
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
/* Makes the loss of f one quotient of two sums over the batch, if it has means over kept rows and can be one; else it
 * makes these means over all rows. False after a report. */
bool msc_make_loss_quotient(msc_pass_ctx *pass, msc_func *f);
/* True if the loss is a quotient of two sums over the batch, of which parameters touch the first only, and may be one
 * in this parallel mode. `fact`: by value id, MSC_BATCH_MARKED; values made since have no id below num_facts. */
bool msc_is_loss_quotient(msc_pass_ctx *pass, msc_func *f, const msc_batch_fact *fact, size_t num_facts);

#endif
