/* answers.h: remembers the strategy that was found for a mesh and a charge on memory: the searches of one compilation
 * ask for the same ones again, within other limits. */
#ifndef MSC_PASSES_3_SHARD_ANSWERS_H
#define MSC_PASSES_3_SHARD_ANSWERS_H

#include "passes/3_shard/step_time_search/state.h"

/* Makes an empty memory in `arena`. All searches that use it must have equal modules and one configuration. */
shard_answers *shard_answers_new(msc_arena *arena);

/* What was asked: for the best strategy piece by piece, or of all at once; or for the one that keeps the least. */
typedef enum { SHARD_BY_PIECES, SHARD_AT_ONCE, SHARD_LEAST_MEMORY } shard_question;

/* An answer: a strategy, by variable. */
typedef struct {
  msc_assignment *digits; /* by variable, as `state`: the caller's arrays, which shard_recall fills */
  int *state;
  shard_cost cost;
  int64_t bound;   /* no strategy costs less; not piece by piece */
  bool leaves_out; /* uneven cuts */
} shard_answer;

/* The answer for this mesh and charge; false: it is not known. */
bool shard_recall(shard_timing *t, shard_question q, int64_t ns_per_gib, shard_answer *out);
void shard_remember(shard_timing *t, shard_question q, int64_t ns_per_gib, const shard_answer *answer);

#endif
