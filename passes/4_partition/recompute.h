/* recompute.h: what is to be computed again where nobody said it: marks `recompute` on ops of the forward. */
#ifndef MSC_PASSES_4_PARTITION_RECOMPUTE_H
#define MSC_PASSES_4_PARTITION_RECOMPUTE_H

#include "passes/pass.h"

/* So that the values that the backward reads need about `saving` bytes less at the peak, for the least time; as much as
 * there is to save, if that is less.  Ops with a mark of the user's keep it.  `forward`: by op id; `only`: pieces of
 * one group, a power of two, the first has `shift` less; or 0: what is best.  Returns the time it costs, in ns. */
int64_t recompute_choose(msc_pass_ctx *pass, msc_func *f, const bool *forward, int64_t saving, size_t only,
                         size_t shift);

/* So that of every block with `memory_limit` no more bytes are kept for the backward of a micro-batch, by any rank:
 * nothing of it is computed again, or all that is cheap, or all but what it hands on.  False after reports: a limit
 * is too small. */
bool recompute_limit_blocks(msc_pass_ctx *pass, msc_func *f, const bool *forward);

#endif
