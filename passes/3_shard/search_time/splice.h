/* splice.h: two assignments in, the best that begins as one and goes on as the other out. */
#ifndef MSC_PASSES_3_SHARD_SPLICE_H
#define MSC_PASSES_3_SHARD_SPLICE_H

#include "passes/3_shard/search_time/eliminate.h"

typedef struct {
  const shard_problem *p;
  const int64_t *const *bytes;  /* by variable and state */
  const int *rank;              /* by variable: its place in the order, from 0 */
  const int *first, *then;      /* states of the two */
} shard_splice;

/* How many variables have the first one's states in the cheapest that keeps `limit` bytes at most and costs less than
 * *ns, whose cost and bytes are written; -1: none. */
int shard_best_splice(msc_arena *arena, const shard_splice *s, int64_t limit, int64_t *ns, int64_t *out_bytes);

#endif
