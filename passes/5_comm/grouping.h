/* grouping.h: values in the order in which they are ready, and what must be sent of each -> which are sent together.
 *
 *   size_t *end = msc_new_array(arena, size_t, num);
 *   size_t groups = comm_group_optimal(arena, num, item, &link, end);
 *   // group g is item[end[g - 1]] .. item[end[g] - 1]
 *
 * Groups are runs of neighbours: what is ready first leaves first. */
#ifndef MSC_PASSES_5_COMM_GROUPING_H
#define MSC_PASSES_5_COMM_GROUPING_H

#include "ir/ir.h"

typedef struct {
  int64_t ready_ns, bytes;
} comm_item;

/* Transfers go one after the other; each takes start_ns + ns_per_byte * bytes. */
typedef struct {
  double start_ns, ns_per_byte;
} comm_link;

/* A group is closed when its bytes reach its cap: the first the first, ..., all others the last.  No value is split. */
size_t comm_group_by_bytes(size_t num, const comm_item *item, size_t num_caps, const int64_t *cap, size_t *out_end);
/* cut[k]: how many values of all lie before group k + 1; number[i]: how many of all lie before item i. */
size_t comm_group_by_index(size_t num, const size_t *number, size_t num_cuts, const int64_t *cut, size_t *out_end);
/* The last transfer ends as early as it can; among such groupings one of few groups. */
size_t comm_group_optimal(msc_arena *arena, size_t num, const comm_item *item, const comm_link *link, size_t *out_end);

/* When the last transfer ends. */
double comm_finish_ns(const comm_item *item, size_t num_groups, const size_t *end, const comm_link *link);

#endif
