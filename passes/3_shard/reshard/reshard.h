/* reshard.h: the redistribution planner.  In: a type and two layouts; out: the cheapest sequence of collectives that
 * changes one into the other, and its cost.  The searches of strategies and the pass redistribute use the same planner,
 * so that the prices of the one are those of the collectives that the other inserts.
 *
 *   msc_reshard *r = msc_reshard_new(ctx, &module->mesh, NULL);
 *   msc_reshard_plan p;
 *   if (msc_reshard_plan_of(r, type, from, to, &p))
 *     for (int i = 0; i < p.num_steps; i++) emit(p.step[i].verb, p.step[i].to); */
#ifndef MSC_PASSES_3_SHARD_RESHARD_H
#define MSC_PASSES_3_SHARD_RESHARD_H

#include "ir/ir.h"

/* The link between devices along a part of the mesh.  A group is as slow as the slowest of its links. */
typedef struct {
  msc_subaxis part;    /* an axis, or some digits of one: 2 nodes of 8 are {axis, 1, 2} and {axis, 2, 8} */
  double alpha_ns;     /* of one round between neighbours */
  double bytes_per_ns; /* the same number as GB/s */
  int level;           /* of the cluster; 0: the innermost */
} msc_link;

typedef struct {
  /* least time instead of least bytes: launch + rounds * alpha + bytes / rate of each step */
  bool time;
  /* time only; a digit with several links is as slow as the slowest, one without is free */
  int num_links;
  msc_link link[MSC_MAX_SUBAXES];
  double launch_ns; /* time only: of each step with traffic */
  /* time only: a step that this cluster has a measured time of takes that time; NULL: nothing is measured */
  const struct msc_cluster *measured;
  /* time only: how many values one collective carries (5_comm), which share launch and latencies where
   * msc_verb_fuses; 0: one */
  int64_t shared_by;
  int64_t peak;      /* limit of one device's local bytes in + out of any step; 0: none */
  bool no_alltoall;  /* neither all_to_all nor exchange */
  bool sums_at_once; /* all partial digits of a sum are reduced in one step, in the order of its terms */
  bool free_partial; /* a replicated value may become partial: zeros (the identity) except on digit 0 */
  /* the most digits that the search tells apart; of more, some stay together and the plan is not proven. 0: 7, or 4
   * with time */
  int max_atoms;
} msc_reshard_options;

typedef struct {
  msc_verb verb; /* MSC_SHARD (the plan's "slice"), MSC_ALL_GATHER, ... */
  const msc_layout *to;
  int64_t bytes;      /* received by the worst device */
  int64_t ns;         /* time only */
  int64_t peak_bytes; /* local in + out; of a slice: in */
} msc_reshard_step;

typedef struct {
  int num_steps;
  msc_reshard_step *step; /* in the planner's arena */
  int64_t bytes, ns;      /* sums over the steps */
  int64_t lower_bound;    /* no plan moves fewer bytes; -1: not known, because of partial values */
  int64_t peak_bytes;     /* largest of the steps; without steps the local bytes */
  bool proven;            /* no cheaper plan exists */
  int64_t needed_peak;    /* when nothing fits: the smallest limit that would do */
} msc_reshard_plan;

typedef struct msc_reshard msc_reshard;

/* Lives in the context's own arena and remembers costs.  NULL options: least bytes, no limit. */
msc_reshard *msc_reshard_new(msc_context *ctx, const msc_mesh *mesh, const msc_reshard_options *options);
/* False when nothing fits the limit (needed_peak is set then), or when no plan exists at all: `to` is partial where
 * `from` is not and free_partial is off (needed_peak 0).  Reports nothing. */
bool msc_reshard_plan_of(msc_reshard *r, const msc_type *type, const msc_layout *from, const msc_layout *to,
                         msc_reshard_plan *out_plan);
/* Bytes, or ns with `time`, of that plan; -1 when there is none.  Remembered. */
int64_t msc_reshard_cost(msc_reshard *r, const msc_type *type, const msc_layout *from, const msc_layout *to);

#endif
