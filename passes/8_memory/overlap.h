/* overlap.h: what a lowered function takes on the described cluster. */
#ifndef MSC_PASSES_OVERLAP_H
#define MSC_PASSES_OVERLAP_H

#include "passes/pass.h"

/* Nanoseconds from its first op to its last, in their order, with collectives beside others; messages take none. */
uint64_t msc_section_ns(msc_pass_ctx *pass, msc_func *f);

#endif
