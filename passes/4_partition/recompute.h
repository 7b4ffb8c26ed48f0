/* recompute.h: chooses what the backward recomputes where the user has not said it: marks `recompute` on forward
 * ops. */
#ifndef MSC_PASSES_4_PARTITION_RECOMPUTE_H
#define MSC_PASSES_4_PARTITION_RECOMPUTE_H

#include "passes/pass.h"

/* Marks ops so that the values that the backward reads need about `saving` bytes less at the peak, for the least
 * time; if less can be saved, as much as possible. Ops with a mark of the user keep it. forward: by op id. only: the
 * number of pieces per group, a power of two, of which the first group has `shift` fewer; 0: tries all. Returns the
 * recompute time in ns. */
int64_t recompute_choose(msc_pass_ctx *pass, msc_func *f, const bool *forward, int64_t saving, size_t only,
                         size_t shift);

/* Marks ops so that every block with a `memory_limit` keeps at most that many bytes per micro-batch for the
 * backward, on any rank: nothing of the block is recomputed, or what is cheap, or everything except its results.
 * False, after reports, if a limit is too small. */
bool recompute_limit_blocks(msc_pass_ctx *pass, msc_func *f, const bool *forward);

#endif
