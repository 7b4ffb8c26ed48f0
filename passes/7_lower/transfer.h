/* transfer.h: what a lowered collective moves, for the cost model. */
#ifndef MSC_PASSES_TRANSFER_H
#define MSC_PASSES_TRANSFER_H

#include "ir/comm.h"
#include "passes/cost.h"

/* Digits of the group that a change of layout moves data in: those that cut, or are partial, on one side only or
 * elsewhere.  Returns how many. */
int msc_moved_digits(msc_context *ctx, const msc_mesh *mesh, const msc_layout *from, const msc_layout *to,
                     msc_subaxis *out_digit);
/* Bytes one device receives of value i of a `comm`; the figures of the redistribution planner, for its verbs.  from
 * NULL: it works in a group, not between layouts. */
int64_t msc_received_bytes(const msc_op *comm, size_t i, const msc_layout *from, const msc_layout *to);
/* All values of a `comm`; the same ranks meet for each.  ranks 1: nothing leaves a device.  False after a report. */
bool msc_transfer_of(const msc_cost *cost, const msc_op *comm, msc_arena *scratch, msc_cost_transfer *out_transfer);

#endif
