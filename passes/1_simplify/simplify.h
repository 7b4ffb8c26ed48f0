/* simplify.h: erasing and merging ops so that the gradient ops that belonged to them are updated. */
#ifndef MSC_PASSES_1_SIMPLIFY_SIMPLIFY_H
#define MSC_PASSES_1_SIMPLIFY_SIMPLIFY_H

#include "ir/ir.h"

/* ---- erase.c ---- */

/* The ops of one function erased so far. */
typedef struct {
  msc_func *func;
  /* by op id: NULL: not erased; else the op that computes the same, or the erased op itself if there is none */
  const msc_op **kept;
  int64_t num;
} msc_erasing;

/* Numbers the ops of the function. Ops made later may not be erased through the returned value. */
msc_erasing msc_erase_begin(msc_func *f, msc_arena *arena);
/* Erases op, whose results have no uses; `same` is an op that computes the same, or NULL. */
void msc_erase(msc_erasing *e, msc_op *op, const msc_op *same);
/* Lets gradient ops of erased ops belong to the op that computes the same, or to none. */
void msc_erase_end(msc_erasing *e);

/* ---- cse.c ---- */

/* Replaces pure ops by the first one that computes the same; `which`, by op id: only these; NULL: all.  Returns how
 * many are gone. */
int64_t msc_merge_equal_ops(msc_func *f, msc_arena *arena, const bool *which);

#endif
