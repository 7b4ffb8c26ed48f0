/* rows.h: the cheapest times from one layout of a value to many, for searches that ask for all of them.
 *
 * The planner's graph over a few digits that stay whole (rows_graph.h), built once for a mesh and a number of
 * dimensions; a shape adds the cost of each kind of edge, and a row of costs is one run of Dijkstra's algorithm.
 * Layouts that turn into one another when like dimensions or like digits change places share their row.  It knows every
 * verb but exchange, and no digits finer than its own: what the planner emits is never dearer. */
#ifndef MSC_PASSES_3_SHARD_ROWS_H
#define MSC_PASSES_3_SHARD_ROWS_H

#include "passes/cost.h"

typedef struct shard_rows shard_rows;

/* NULL: too many digits.  Lives in `arena`. */
shard_rows *shard_rows_new(msc_arena *arena, const msc_cost *cost, bool no_alltoall, int num, const msc_subaxis *digit);

enum { SHARD_NO_STATE = -1, SHARD_UNEVEN = -2 };

/* A small number for a layout among those of its rank; SHARD_NO_STATE: it is cut otherwise. */
int shard_rows_state(shard_rows *r, const msc_layout *l);
/* In ns, launch and latencies shared by `bucket`; -1: no plan; SHARD_UNEVEN: for a layout that cuts the shape unevenly.
 * False: the first does. */
bool shard_rows_costs(shard_rows *r, const msc_type *type, int64_t bucket, int from, int num, const int *to,
                      int64_t *out_ns);

#endif
