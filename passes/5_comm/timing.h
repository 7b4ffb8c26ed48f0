/* timing.h: the times of ops and collectives on one rank, which does one op after the other. */
#ifndef MSC_PASSES_5_COMM_TIMING_H
#define MSC_PASSES_5_COMM_TIMING_H

#include "passes/5_comm/grouping.h"
#include "passes/time_model.h"

/* The time of one op on this rank's part; 0 for collectives and for ops that compute nothing. */
int64_t comm_work_ns(const msc_cost *cost, const msc_op *op, msc_arena *arena);

/* The digits over which a collective communicates, as those of a layout [{...}]; NULL if comm_fusion joins no ops
 * of its kind (msc_verb_fuses). Equal layouts are one pointer. */
const msc_layout *comm_digits_of(const msc_op *op, size_t i);
/* The bytes of value i on a device: before sending, or of all_gather the bytes of the result. */
int64_t comm_bytes_of(const msc_op *op, size_t i);
/* The line through the cost model's times for `few` and for `many` bytes. */
comm_link comm_link_of(const msc_cost *cost, msc_verb verb, const msc_layout *digits, int64_t few, int64_t many);

#endif
