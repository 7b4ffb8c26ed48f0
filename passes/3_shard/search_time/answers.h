/* answers.h: remembers the strategy that was found for a mesh and a charge on memory: the searches of one compilation
 * ask for the same ones again, within other limits. */
#ifndef MSC_PASSES_3_SHARD_ANSWERS_H
#define MSC_PASSES_3_SHARD_ANSWERS_H

#include "passes/3_shard/search_time/state.h"

/* Makes an empty memory in `arena`. All searches that use it must have equal modules and one configuration. */
shard_answers *shard_answers_new(msc_arena *arena);

/* An answer, without the digits and states of the variables. */
typedef struct {
  shard_cost cost;
  int64_t bound;   /* no strategy costs less; of all at once only */
  bool leaves_out; /* uneven cuts */
} shard_answer;

/* The answer for this mesh and charge, with digits and states put into t->chosen and t->state; false: it is not
 * known. */
bool shard_recall(shard_timing *t, bool exact, int64_t ns_per_gib, shard_answer *out);
/* Remembers the answer with t->chosen and t->state. */
void shard_remember(shard_timing *t, bool exact, int64_t ns_per_gib, const shard_answer *answer);

#endif
