/* match_gradient.h: recognizes the gradient of an op.  The pattern is what the op's own gradient function builds, so
 * there is no second copy of its formula. */
#ifndef MSC_PASSES_MATCH_GRADIENT_H
#define MSC_PASSES_MATCH_GRADIENT_H

#include "ir/ir.h"

typedef struct {
  msc_value *x, *y; /* the op's operand and result, if the gradient reads them; else NULL */
} msc_gradient_match;

/* True if `last` computes the gradient of the operand of an op of this kind, where `dy` is the gradient of its result.
 * attr: the op's attribute, or NULL. */
bool msc_match_gradient(msc_op *last, const msc_value *dy, msc_op_kind kind, const msc_attr *attr,
                        msc_gradient_match *out_match);

#endif
