/* depend.h: which ops of a function must run before which. */
#ifndef MSC_PASSES_DEPEND_H
#define MSC_PASSES_DEPEND_H

#include "ir/ir.h"

/* Predecessors of op i (by op->id, program order) are before[first[i]] .. before[first[i+1]-1]: the ops that compute
 * its operands, its forward op if it is a gradient and, if it writes the new value of an argument, all others that
 * read the old one, also through views. */
typedef struct {
  size_t num_ops;
  msc_op **op;
  uint32_t *first, *before;
} msc_depend;

/* Numbers the function. */
msc_depend msc_depend_of(msc_arena *arena, msc_func *f);
static inline const uint32_t *msc_depend_begin(const msc_depend *d, uint32_t id) { return d->before + d->first[id]; }
static inline const uint32_t *msc_depend_end(const msc_depend *d, uint32_t id) { return d->before + d->first[id + 1]; }

#endif
