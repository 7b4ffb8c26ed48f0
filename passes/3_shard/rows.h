/* rows.h: the cheapest times from one layout of a value to many, for searches that ask for all of them.
 *
 * The planner's graph over a few digits that stay whole, built once for a mesh and a number of dimensions and kept as rows of
 * edges (verb, group); a shape adds the cost of each kind of edge, and a row of costs is one run of Dijkstra's algorithm.  It
 * knows every verb but exchange, and no digits finer than its own: what the planner emits is never dearer. */
#ifndef MSC_PASSES_3_SHARD_ROWS_H
#define MSC_PASSES_3_SHARD_ROWS_H

#include "passes/cost.h"

enum { SHARD_MAX_ROW_DIGITS = 5 };

typedef struct shard_rows shard_rows;

/* NULL: too many digits.  Lives in `arena`. */
shard_rows *shard_rows_new(msc_context *ctx, msc_arena *arena, const msc_cost *cost, bool no_alltoall, int num, const msc_subaxis *digit);
/* In ns, launch and latencies shared by `bucket`; -1: no plan.  False: a layout is cut otherwise, or unevenly. */
bool shard_rows_costs(shard_rows *r, const msc_type *type, int64_t bucket, const msc_layout *from, int num, const msc_layout *const *to, int64_t *out_ns);

#endif
