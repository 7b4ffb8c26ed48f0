/* splice.h: two assignments -> the cheapest assignment that has the states of the first up to some variable, in a given
 * order, and those of the second from there on. */
#ifndef MSC_PASSES_3_SHARD_SPLICE_H
#define MSC_PASSES_3_SHARD_SPLICE_H

#include "passes/3_shard/step_time_search/eliminate.h"

typedef struct {
  const shard_problem *p;
  const int64_t *const *bytes; /* by variable and state */
  const int *rank;             /* by variable: its place in the order, from 0 */
  const int *first, *then;     /* states of the two */
} shard_splice;

/* How many variables have the states of the first assignment in the cheapest splice that keeps at most `limit` bytes
 * and costs less than *ns; writes its cost and bytes. -1: there is none. */
int shard_best_splice(msc_arena *arena, const shard_splice *s, int64_t limit, int64_t *ns, int64_t *out_bytes);

#endif
