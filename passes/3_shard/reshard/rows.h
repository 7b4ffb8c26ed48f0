/* rows.h: least times from one layout of a value to all others that consist of a few digits of the mesh.  This engine
 * prices redistributions for the searches, and plans them where the planner's own search takes too much work.
 *
 * The graph of all states of these digits (rows_graph.h) is built once for a number of dimensions; a shape adds the
 * time of each kind of step, and a row of times is one run of Dijkstra's algorithm.  Layouts that become each other
 * when like dimensions or like digits change places share their row.  Exchanges are not in the graph: one may be the
 * last step into the layout asked for, from any state. */
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
/* Writes the times from layout `from` to each of `to`, in ns, with launch and latencies shared by `shared_by` values;
 * -1: no plan; SHARD_UNEVEN: the layout cuts the shape unevenly.  False: `from` does. */
bool shard_rows_costs(shard_rows *r, const msc_type *type, int64_t shared_by, int from, int num, const int *to,
                      int64_t *out_ns);

#endif
