/* allocate.h: the memory that an order of ops needs. */
#ifndef MSC_PASSES_ALLOCATE_H
#define MSC_PASSES_ALLOCATE_H

#include "passes/pass.h"

/* The bytes of the scratch arena that pass allocate would make for the ops of the function in their present order.
 * Numbers the ops anew.  With a capacity: the bytes of the first arena found that is no larger, if any is. */
uint64_t msc_scratch_of(msc_pass_ctx *pass, msc_func *f, uint64_t capacity);

#endif
