/* peak.h: the op of an allocated function at which most of the scratch arena is in use, and what uses it. */
#ifndef MSC_PASSES_PEAK_H
#define MSC_PASSES_PEAK_H

#include "ir/ir.h"

typedef struct {
  const msc_op *op;  /* the op whose result, or working memory, it is */
  bool work;
  uint64_t bytes;
} msc_peak_use;

typedef struct {
  const msc_func *func;
  const msc_op *at;      /* NULL: the function uses no scratch */
  uint64_t live, scratch; /* bytes in use there; bytes of the arena */
  size_t num;
  msc_peak_use *use;     /* largest first */
} msc_peak;

/* From the attributes that pass allocate left. */
msc_peak msc_peak_of(msc_arena *arena, msc_func *f);

const char *msc_peak_name(const msc_op *op); /* the name that the user gave the op, else its kind */

bool msc_runs_in_tiles(const msc_op *op); /* its result is never whole in memory */
/* By op id, for a function whose ops are numbered: the id of the op during which it still reads its operands.
 * Allocated in the arena. */
uint32_t *msc_ends_of_reads(msc_arena *arena, const msc_func *f);
/* The id of the op during which operand i is still read. What stow writes over it does not read. */
static inline uint32_t msc_end_of_read(const uint32_t *ends, const msc_op *op, size_t i) {
  return op->kind == OP_stow && i == 0 ? op->id : ends[op->id];
}

#endif
