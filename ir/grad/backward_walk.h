/* backward_walk.h: reverse mode over the ops of one function: gradients of some values in; gradients of the values that
 * they are computed from out. */
#ifndef MSC_IR_BACKWARD_WALK_H
#define MSC_IR_BACKWARD_WALK_H

#include "ir/ir.h"

typedef struct {
  msc_func *f;
  msc_arena *arena;
  msc_op *before;   /* gradient ops are built before it; NULL: at the end */
  bool *active;     /* per value id: its gradient is wanted; see msc_mark_active */
  msc_value **grad; /* per value id: its gradient so far.  In: those of the values that the walk starts from */
  uint32_t next_id; /* id of the next value built */
  /* Called, unless NULL, after the gradient ops `first` to `last` of `forward` were built. They have it as their
   * forward op, except sums of the gradients that several users of a value send back: these have the op that made the
   * value. */
  bool (*built)(void *user, msc_op *forward, msc_op *first, msc_op *last, msc_value *const *dresult,
                msc_value *const *doperand);
  /* Called, unless NULL, for an op whose gradient is needed and that has none; false after a report. */
  bool (*refuse)(void *user, const msc_op *op);
  void *user;
  size_t wide; /* room in the arrays below, which are the walk's own */
  msc_value **dresult, **doperand;
  bool *wanted;
} msc_reverse;

/* Marks as active, with the values that are active already, all floats that depend on them, up to op `end`. */
void msc_mark_active(const msc_reverse *r, const msc_op *end);
/* Walks from `last` back to the function's first op.  A value with several users gets the sum of what they send back,
 * the last user's first. */
bool msc_reverse_walk(msc_reverse *r, msc_op *last);

#endif
