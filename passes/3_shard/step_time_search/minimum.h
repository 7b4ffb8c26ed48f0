/* minimum.h: exact minimum of a sum of tables over discrete variables with many states: bound, drop states, eliminate.
 *
 * Without the tables that close cycles the problem is a forest, which messages of one variable each solve.  Its least
 * sum is a lower bound, and so is, for each state, its least sum with that state.  States whose bound exceeds the best
 * known assignment are dropped, and elimination (eliminate.h) solves what remains.  In networks with residual
 * connections mostly one state of each variable remains, since a layout that only the shortcut prefers seldom pays. */
#ifndef MSC_PASSES_3_SHARD_MINIMUM_H
#define MSC_PASSES_3_SHARD_MINIMUM_H

#include "passes/3_shard/step_time_search/eliminate.h"

/* Writes the best assignment, a state of every variable, and its cost.  Costs must not be negative; state[] holds some
 * assignment before.  *out_bound: no assignment costs less; it equals the cost, unless elimination would take more than
 * `max_work` sums (eliminate.h).  Then the assignment is the best found by solving for many variables at a time with
 * the others fixed, and costs no more than the one before.  Where no assignment costs less than p->below it is any
 * one, and *out_bound is p->below or more.  out_effort may be NULL. */
void shard_minimum(msc_arena *arena, const shard_problem *p, size_t max_work, int *state, int64_t *out_cost,
                   int64_t *out_bound, shard_effort *out_effort);

/* Lists the states of every variable that may be part of an assignment which costs `most` or less; equal lists are the
 * same pointer. False: there is no such assignment. */
bool shard_list_remaining(msc_arena *arena, const shard_problem *p, int64_t most, int *out_num, const int **out_state);
/* The problem with these states only. */
void shard_restrict(msc_arena *arena, const shard_problem *p, const int *num, const int *const *state,
                    shard_problem *out_p);

#endif
