/* direction.h: which ops of func train are forward: the loss, or whatever else is kept of the forward, depends on them. */
#ifndef MSC_PASSES_DIRECTION_H
#define MSC_PASSES_DIRECTION_H

#include "ir/ir.h"

/* By op id, after numbering f: forward, or else backward, or an update. */
bool *msc_forward_ops(msc_arena *arena, msc_func *f);

#endif
