/* sum_order.h: the order in which the ranks' parts of a sum must be added so that N ranks add as one does: what is
 * adjacent in the sum first. */
#ifndef MSC_PASSES_SUM_ORDER_H
#define MSC_PASSES_SUM_ORDER_H

#include "ir/ir.h"

/* The op that computed the parts of the sum `v`: looks through what only moves or converts them, and through sums that
 * were made of some of them. NULL: an argument's. */
const msc_op *msc_sum_of(const msc_value *v);

/* The digits over which `sum` leaves parts when its first operand has the layout `operand`, major digit first, as
 * dimension 0 of a layout of rank 1; NULL: they are in the order of the mesh, as ranks are. */
const msc_layout *msc_sum_order(msc_context *ctx, const msc_mesh *mesh, const msc_op *sum, const msc_layout *operand);

#endif
