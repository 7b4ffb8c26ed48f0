/* minimum.h: exact minimum of a sum of small tables, for large tables: bound, cut down, eliminate.
 *
 * Without the tables that close cycles the rest is a forest, solved by messages of one variable each.  Its least sum
 * bounds the whole from below, and so does every state's share of it: states that cannot be part of anything better
 * than what is known are left out, and elimination (eliminate.h) gets what remains.  Networks with residual connections
 * hardly pay for a layout that only the shortcut prefers: mostly one state of each variable remains. */
#ifndef MSC_PASSES_3_SHARD_MINIMUM_H
#define MSC_PASSES_3_SHARD_MINIMUM_H

#include "passes/3_shard/step_time_search/eliminate.h"

/* Costs are not negative.  Writes the state of every variable and their cost.  *out_bound: no assignment costs less;
 * equal to the cost unless more than `max_work` would have to be looked at (eliminate.h): then what is written is the
 * best assignment that was found by changing as many variables at a time as can be, and costs no more than state[] did
 * before.  out_effort may be NULL. */
void shard_minimum(msc_arena *arena, const shard_problem *p, size_t max_work, int *state, int64_t *out_cost,
                   int64_t *out_bound, shard_effort *out_effort);

/* Lists the states of every variable that may be part of an assignment which costs `most` or less; equal lists are the
 * same pointer. False: there is no such assignment. */
bool shard_remaining(msc_arena *arena, const shard_problem *p, int64_t most, int *out_num, const int **out_state);
/* The problem with these states only. */
void shard_restrict(msc_arena *arena, const shard_problem *p, const int *num, const int *const *state,
                    shard_problem *out_p);

#endif
