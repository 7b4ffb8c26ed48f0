/* match_gradient.h: is a value the gradient of an op?  The pattern is what the op's own gradient function builds, so
 * there is no second copy of its formula. */
#ifndef MSC_PASSES_MATCH_GRADIENT_H
#define MSC_PASSES_MATCH_GRADIENT_H

#include "ir/ir.h"

typedef struct {
  msc_value *x, *y; /* the op's operand and result, as far as the gradient reads them; else NULL */
} msc_gradient_match;

/* Does `last` compute the gradient of the operand of an op `kind`, given `dy`, that of its result?  word: the op's
 * attribute `form`, or NULL. */
bool msc_match_gradient(msc_op *last, const msc_value *dy, msc_op_kind kind, const char *form,
                        msc_gradient_match *out_match);

#endif
