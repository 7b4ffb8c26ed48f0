/* timing.h: when values are there, on one rank that does one op after the other. */
#ifndef MSC_PASSES_5_COMM_TIMING_H
#define MSC_PASSES_5_COMM_TIMING_H

#include "passes/5_comm/grouping.h"
#include "passes/cost.h"

/* One op on its part of what it works on; 0 of what moves data between ranks or moves none. */
int64_t comm_work_ns(const msc_cost *cost, const msc_op *op, msc_arena *arena);

/* Digits that a collective works over, as those of a layout [{...}]; NULL: it is none of all_reduce, reduce_scatter,
 * all_gather.  Equal ones are one pointer. */
const msc_layout *comm_digits_of(const msc_op *op, size_t i);
/* Of value i: what a device holds that is to be sent; of all_gather what it has in the end. */
int64_t comm_bytes_of(const msc_op *op, size_t i);
/* The straight line through what the cost model says of so few and so many of those bytes. */
comm_link comm_link_of(const msc_cost *cost, msc_op_kind verb, const msc_layout *digits, int64_t few, int64_t many);

#endif
