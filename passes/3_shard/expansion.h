/* expansion.h: composites under a choice of layouts. */
#ifndef MSC_PASSES_3_SHARD_EXPANSION_H
#define MSC_PASSES_3_SHARD_EXPANSION_H

#include "passes/3_shard/reshard/prices.h"
#include "passes/time_model.h"
#include "passes/pass.h"

/* Sets the layouts of all values of an expansion (msc_expansion_of), and `in_layout` of its ops, from the layouts of
 * its arguments; does nothing when an argument has none. False after reporting. */
bool shard_lay_expansion(msc_pass_ctx *pass, msc_func *f, const msc_layout *const *in_layout);

/* The costs of composites on one mesh. They are remembered: equal ops with operands in equal layouts are computed
 * once. */
typedef struct shard_expansions shard_expansions;

/* Makes an empty memory of costs in `arena`; `cost` and `prices` must live as long. */
shard_expansions *shard_expansions_new(msc_context *ctx, msc_arena *arena, const msc_cost *cost, shard_prices *prices);
/* Returns the time of the expansion of `op` with the operands in these layouts: that of its changes of layout and,
 * with_work, that of its products and memory traffic. SHARD_IMPOSSIBLE: a change of layout has no plan. */
int64_t shard_expansion_ns(shard_expansions *x, const msc_op *op, const msc_layout *const *in_layout, bool with_work);

#endif
