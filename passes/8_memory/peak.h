/* peak.h: an allocated function -> the op at which most of its scratch is in use, and by what. */
#ifndef MSC_PASSES_PEAK_H
#define MSC_PASSES_PEAK_H

#include "ir/ir.h"

typedef struct {
  const msc_op *op;  /* whose result, or working memory, lies there */
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

const char *msc_peak_name(const msc_op *op); /* the user's name of it, or what it does */

bool msc_runs_in_tiles(const msc_op *op); /* its result is never whole in memory */
/* Of a numbered function, by op id: id of the op during which it still reads its operands.  In the arena. */
uint32_t *msc_ends_of_reads(msc_arena *arena, const msc_func *f);

#endif
