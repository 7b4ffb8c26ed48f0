/* streams_pass.h: one pass of list scheduling over the pieces of streams.h. */
#ifndef MSC_PASSES_STREAMS_PASS_H
#define MSC_PASSES_STREAMS_PASS_H

#include "passes/8_memory/streams.h"

typedef struct msc_stream_pass msc_stream_pass;

/* Working memory for any number of passes over one problem; backward ones go from the end to the start. */
msc_stream_pass *msc_stream_pass_new(msc_arena *scratch, const msc_streams *s, bool backward);
/* Takes the ready piece with the least key, of equal ones that which comes first in program order (backward: last).
 * Returns when each piece ends, counted from where the pass starts; out_order (may be NULL): as they were taken. */
const uint64_t *msc_stream_pass_run(msc_stream_pass *z, const int64_t *key, uint32_t *out_order);

#endif
