/* op_gradients.h: a gradient function of op.def takes an op and the gradients of its results, appends ops that compute
 * the gradients of the wanted operands, and returns these. */
#ifndef MSC_IR_OP_GRADIENTS_H
#define MSC_IR_OP_GRADIENTS_H

#include "ir/ir.h"

struct msc_grad_ctx {
  msc_builder b;             /* where the gradient ops go */
  msc_value *const *dresult; /* per result: its gradient, shaped like it; NULL: nothing depends on it */
  const bool *wanted;        /* per operand */
  msc_value **doperand;      /* out, per operand: its gradient; NULL where not wanted or zero */
};

/* Builds the gradient of a composite op without a gradient function of its own: an op vjp. */
bool grad_composite(msc_grad_ctx *g, msc_op *op);

#endif
