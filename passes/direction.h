/* direction.h: which ops of func train are forward: the loss, or whatever else is kept of the forward, depends on them;
 * and which values belong to one micro-batch. */
#ifndef MSC_PASSES_DIRECTION_H
#define MSC_PASSES_DIRECTION_H

#include "ir/ir.h"

/* By op id, after numbering f: true for ops of the forward, false for those of the backward and updates. It also takes
 * a section of one micro-batch, in which gradients go into sums. */
bool *msc_forward_ops(msc_arena *arena, msc_func *f);
/* The `accumulate` that the loss of all micro-batches comes from, or NULL. */
const msc_op *msc_sum_of_loss(const msc_func *f);
/* By value id, after numbering f: does the value depend on an input of the micro-batch, or on its number? Sums over
 * micro-batches and what updates make belong to the step. */
bool *msc_micro_values(msc_arena *arena, msc_func *f);
/* True for an `accumulate` that all micro-batches read: of data alone, it is complete before the first of them is
 * computed. NULL: false. */
bool msc_is_early_sum(const msc_op *op);

#endif
