/* answers.h: stores the strategies that searches found, by mesh and charge on memory: the searches of one compilation
 * look for the same strategies again, within other limits. */
#ifndef MSC_PASSES_3_SHARD_ANSWERS_H
#define MSC_PASSES_3_SHARD_ANSWERS_H

#include "passes/3_shard/step_time_search/state.h"

/* Makes an empty store in `arena`. All searches that use it must have equal modules and one configuration. */
shard_answers *shard_answers_new(msc_arena *arena);

/* What was searched for: the best strategy, piece by piece or among all at once, or the one that keeps the fewest
 * bytes. */
typedef enum { SHARD_BY_PIECES, SHARD_AT_ONCE, SHARD_LEAST_MEMORY } shard_question;

/* An answer: a strategy, by variable. */
typedef struct {
  msc_assignment *digits; /* by variable, as `state`: the caller's arrays, which shard_recall fills */
  int *state;
  shard_cost cost;
  int64_t bound;   /* no strategy costs less; not of SHARD_BY_PIECES */
  bool leaves_out; /* some uneven cuts were not compared */
} shard_answer;

/* Writes the answer for t's mesh and this charge; false: it is not known. */
bool shard_recall(shard_time_search *t, shard_question q, int64_t ns_per_gib, shard_answer *out);
/* Stores a copy of the answer to a question for which shard_recall gave false. */
void shard_remember(shard_time_search *t, shard_question q, int64_t ns_per_gib, const shard_answer *answer);

#endif
