/* rows.h: least times from one layout of a value to others, over the digits of a mesh that stay whole: the one engine
 * that prices redistributions for the searches, and that plans them where the planner's own search is not enough.
 *
 * The graph of all states of a few digits (rows_graph.h) is built once for a number of dimensions; a shape adds the
 * cost of each kind of step, and a row of times is one run of Dijkstra's algorithm.  Layouts that turn into one another
 * when like dimensions or like digits change places share their row.  Exchanges are not in the graph: one may end the
 * way into a layout that is asked for, from any state. */
#ifndef MSC_PASSES_3_SHARD_ROWS_H
#define MSC_PASSES_3_SHARD_ROWS_H

#include "passes/3_shard/reshard/graph.h"

typedef struct shard_rows shard_rows;

/* Steps cost what the options for time say; `exchanges`: they may be steps.  NULL: too many digits.  Options must
 * outlive it; it lives in `arena`. */
shard_rows *shard_rows_new(msc_context *ctx, msc_arena *arena, const msc_mesh *mesh, const msc_reshard_options *options,
                           bool exchanges, int num, const msc_subaxis *digit);

enum { SHARD_NO_STATE = -1, SHARD_UNEVEN = -2 };

/* A small number for a layout among those of its rank; SHARD_NO_STATE: the layout uses digits that the engine does not
 * have. */
int shard_rows_state(shard_rows *r, const msc_layout *l);
/* In ns, launch and latencies shared by `shared_by` values; -1: no plan; SHARD_UNEVEN: for a layout that cuts the shape
 * unevenly.  False: the first does. */
bool shard_rows_costs(shard_rows *r, const msc_type *type, int64_t shared_by, int from, int num, const int *to,
                      int64_t *out_ns);

#endif
