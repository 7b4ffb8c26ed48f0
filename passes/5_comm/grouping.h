/* grouping.h: decides which values are sent together, given when each is ready and its bytes.
 *
 *   size_t *end = msc_new_array(arena, size_t, num);
 *   size_t groups = comm_group_optimal(arena, num, item, &link, end);
 *   // group g is item[end[g - 1]] .. item[end[g] - 1]
 *
 * A group is a run of neighbours: what is ready first is sent first. */
#ifndef MSC_PASSES_5_COMM_GROUPING_H
#define MSC_PASSES_5_COMM_GROUPING_H

#include "ir/ir.h"

typedef struct {
  int64_t ready_ns, bytes;
} comm_item;

/* Transfers are sent one after the other; each takes start_ns + ns_per_byte * bytes. */
typedef struct {
  double start_ns, ns_per_byte;
} comm_link;

/* Ends group k when its bytes reach cap[k], or the last cap if there are fewer. No value is split. */
size_t comm_group_by_bytes(size_t num, const comm_item *item, size_t num_caps, const int64_t *cap, size_t *out_end);
/* Ends groups at fixed indices. cut[k]: the number of values before group k + 1; number[i]: of values before item i. */
size_t comm_group_by_index(size_t num, const size_t *number, size_t num_cuts, const int64_t *cut, size_t *out_end);
/* Groups so that the last transfer ends as early as possible; of such groupings it chooses one of few groups. */
size_t comm_group_optimal(msc_arena *arena, size_t num, const comm_item *item, const comm_link *link, size_t *out_end);

#endif
