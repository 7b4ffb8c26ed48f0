/* minimum_within.h: the least cost among the assignments that stay within a limit on a second sum, exactly.
 *
 * Each state of a variable also has bytes.  Given a charge per byte, a strategy that fits (`upper`) and what
 * elimination found for the charged costs, every partial assignment has a bound on what it can still become; those
 * whose bound is not below `upper` are dropped, and of the rest only those are kept that no other beats
 * in both sums. */
#ifndef MSC_PASSES_3_SHARD_WITHIN_H
#define MSC_PASSES_3_SHARD_WITHIN_H

#include "passes/3_shard/step_time_search/eliminate.h"

typedef struct {
  const shard_problem *plain;   /* without charge */
  const shard_problem *charged; /* the same variables and tables, tables of one variable with the charge */
  const int64_t *const *bytes;  /* by variable and state */
  int64_t limit;                /* on the sum of bytes */
  int64_t limit_charge;         /* what the limit itself is charged */
  int64_t upper;                /* plain cost of an assignment that fits; a better one is looked for */
  size_t max_points;            /* partial assignments kept, and steps of work in hundreds */
} shard_limited;

typedef enum { SHARD_NO_BETTER, SHARD_BETTER, SHARD_GAVE_UP } shard_within;

/* BETTER: the best that fits is in out_state.  NO_BETTER: `upper` is the best. */
shard_within shard_eliminate_within(msc_arena *arena, const shard_limited *l, int *out_state, int64_t *out_cost);

#endif
