/* overlap.h: the time that a lowered function takes on the described cluster. */
#ifndef MSC_PASSES_OVERLAP_H
#define MSC_PASSES_OVERLAP_H

#include "passes/pass.h"

/* Nanoseconds from the first op to the last in their present order, with collectives running beside other ops.
 * Messages between stages count as 0. */
uint64_t msc_section_ns(msc_pass_ctx *pass, msc_func *f);
/* Nanoseconds of each op, by its id, as msc_number would give it; in pass->scratch. */
const uint64_t *msc_op_times(msc_pass_ctx *pass, msc_func *f);

#endif
