/* minimum_within.h: exact minimum of a sum of tables among the assignments whose second sum, of bytes, stays within a
 * limit.
 *
 * Elimination for the costs with a charge per byte gives every partial assignment a lower bound on the cost of any
 * assignment that fits and contains it.  Partial assignments whose bound is not below `upper`, the cost of a known
 * assignment that fits, are dropped; of the others only those are kept that no other beats in both sums. */
#ifndef MSC_PASSES_3_SHARD_WITHIN_H
#define MSC_PASSES_3_SHARD_WITHIN_H

#include "passes/3_shard/step_time_search/eliminate.h"

typedef struct {
  const shard_problem *plain;   /* costs without the charge */
  const shard_problem *charged; /* the same variables and tables; tables of one variable include the charge */
  const int64_t *const *bytes;  /* by variable and state */
  int64_t limit;                /* on the sum of bytes */
  int64_t limit_charge;         /* what the limit itself is charged */
  int64_t upper;                /* only an assignment of lower plain cost is looked for */
  size_t max_points;            /* limit on partial assignments kept, and on sums computed, in hundreds */
} shard_limited;

typedef enum { SHARD_NO_BETTER, SHARD_BETTER, SHARD_GAVE_UP } shard_within;

/* BETTER: out_state is the best assignment that fits.  NO_BETTER: none that fits costs less than `upper`.  GAVE_UP: the
 * limit on points was reached. */
shard_within shard_eliminate_within(msc_arena *arena, const shard_limited *l, int *out_state, int64_t *out_cost);

#endif
