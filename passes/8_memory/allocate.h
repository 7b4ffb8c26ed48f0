/* allocate.h: how much memory an order of ops needs. */
#ifndef MSC_PASSES_ALLOCATE_H
#define MSC_PASSES_ALLOCATE_H

#include "passes/pass.h"

/* Bytes of the arena that pass allocate would make for the function's values as its ops stand; the ops
 * are numbered anew. */
uint64_t msc_scratch_of(msc_pass_ctx *pass, msc_func *f);

#endif
