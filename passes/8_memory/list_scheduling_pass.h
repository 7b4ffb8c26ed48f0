/* list_scheduling_pass.h: one pass of list scheduling over the pieces of list_scheduling.h. */
#ifndef MSC_PASSES_LIST_SCHEDULING_PASS_H
#define MSC_PASSES_LIST_SCHEDULING_PASS_H

#include "passes/8_memory/list_scheduling.h"

typedef struct msc_stream_pass msc_stream_pass;

/* Makes the working memory for any number of passes over one problem; a backward pass goes from the last piece to
 * the first. */
msc_stream_pass *msc_stream_pass_new(msc_arena *scratch, const msc_streams *s, bool backward);
/* Takes at every moment the ready piece with the least key; of equal ones the first in program order (backward: the
 * last). Returns when each piece ends, counted from the start of the pass; out_order (may be NULL): the order in
 * which they were taken. */
const uint64_t *msc_stream_pass_run(msc_stream_pass *z, const int64_t *key, uint32_t *out_order);

#endif
