/* transfer.h: what a lowered collective moves, for the cost model. */
#ifndef MSC_PASSES_TRANSFER_H
#define MSC_PASSES_TRANSFER_H

#include "ir/comm.h"
#include "passes/time_model.h"

/* Digits of the group in which a change of layout moves data: those that cut, or are partial, in only one of the
 * layouts or at another place.  Returns their number. */
int msc_moved_digits(msc_context *ctx, const msc_mesh *mesh, const msc_layout *from, const msc_layout *to,
                     msc_subaxis *out_digit);
/* Bytes that one device receives for value i of a `comm`, as the redistribution planner counts them.  from NULL: the
 * comm works in a group, not between layouts. */
int64_t msc_received_bytes(const msc_op *comm, size_t i, const msc_layout *from, const msc_layout *to);
/* The digits of the group that a `comm` works in; their number, -1 after an error was reported. */
int msc_transfer_digits(const msc_mesh *mesh, const msc_op *comm, msc_arena *scratch, msc_subaxis *out_digit);
/* The transfer of all values of a `comm`, which share a group of ranks.  ranks 1: nothing leaves a device.  False: an
 * error was reported. */
bool msc_transfer_of(const msc_cost *cost, const msc_op *comm, msc_arena *scratch, msc_cost_transfer *out_transfer);

#endif
