/* simplify.h: what passes that remove ops share: gradient ops that belonged to a removed op are told. */
#ifndef MSC_PASSES_1_SIMPLIFY_SIMPLIFY_H
#define MSC_PASSES_1_SIMPLIFY_SIMPLIFY_H

#include "ir/ir.h"

/* ---- erase.c ---- */

/* Ops of one function that are being erased. */
typedef struct {
  msc_func *func;
  const msc_op **kept; /* by op id: NULL not erased; else what does the same, or the op itself when nothing does */
  int64_t num;
} msc_erasing;

/* Numbers the function; ops made later may not be erased through this. */
msc_erasing msc_erase_begin(msc_func *f, msc_arena *arena);
/* Erases op, whose results have no uses; `same` computes the same, or NULL. */
void msc_erase(msc_erasing *e, msc_op *op, const msc_op *same);
/* Gradient ops of erased ops now belong to `same`, or to none. */
void msc_erase_end(msc_erasing *e);

#endif
