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

bool msc_runs_in_tiles(const msc_op *op);        /* its result is never whole in memory */
uint32_t msc_end_of_reads(const msc_op *user);   /* id of the op during which `user` still reads its operands */

#endif
