/* reshard_ranks.h: what msc reshard says of single ranks: from and to as device matrices, lists of ranks, whom
 * a rank needs. */
#ifndef MSC_TOOLS_RESHARD_RANKS_H
#define MSC_TOOLS_RESHARD_RANKS_H

#include <jansson.h>

#include "tools/cli.h"

/* One side of a redistribution: position i of the mesh is rank[i]. */
typedef struct {
  msc_mesh mesh;
  const msc_layout *layout;
  int64_t num_ranks, *rank;
} reshard_side;

/* --from-device-matrix and its three like; both sides on a mesh of the larger number of devices.
 * `shape` is --shape's. */
bool reshard_read_grids(cli *c, const char *shape, reshard_side *from, reshard_side *to);
/* --ranks, or --from-ranks and --to-ranks; without them position i is rank i. */
bool reshard_read_ranks(cli *c, reshard_side *from, reshard_side *to);
bool reshard_same_ranks(const reshard_side *from, const reshard_side *to);
/* The fewest ranks of `from` that hold, together with what rank at position `at` of `to` holds itself, all it shall
 * hold; NULL: it has no such position.  *out_elems: elements that it receives. */
json_t *reshard_needed(cli *c, const msc_type *t, const reshard_side *from, const reshard_side *to, int64_t at,
                       int64_t *out_elems);
/* Finds the position of --rank in `to`; false after a report. */
bool reshard_find_rank(cli *c, const reshard_side *to, int64_t *out_at);
/* The ranks from which the rank at this position gets its part in one step, itself included if it keeps some of it. */
json_t *reshard_step_ranks(cli *c, const msc_type *t, const reshard_side *on, const msc_layout *from,
                           const msc_layout *to, int64_t at);

#endif
