/* eliminate.h: exact minimum of a sum of small tables over discrete variables (min-sum bucket elimination). */
#ifndef MSC_PASSES_ELIMINATE_H
#define MSC_PASSES_ELIMINATE_H

#include "ir/ir.h"

/* A sum that reaches this is impossible; single entries are at most this large. */
#define SHARD_IMPOSSIBLE ((int64_t)1 << 56)

/* A table over one or two variables: cost[i * states of b + j] for state i of a and j of b; b < 0: a table of a alone.
 * Repeated parts of a network share tables: equal pointers between variables in the same order are computed once. */
typedef struct {
  int a, b;
  const int64_t *cost;
} shard_table;

typedef struct {
  int num_vars;
  const int *num_states;
  size_t num_tables;
  const shard_table *table;
  double deadline_s; /* on the monotonic clock; 0: none */
} shard_problem;

enum { SHARD_MAX_SCOPE = 12 };

/* One removal: the least cost of all variables removed so far that it depends on, by the states of its neighbours at
 * the time, of which the first is major. */
typedef struct {
  int removed, num, var[SHARD_MAX_SCOPE];
  const int64_t *cost;
} shard_step;

typedef struct {
  int width;               /* most neighbours at a removal */
  size_t removals, shared; /* of variables; of those, ones whose table was known */
  double entries;          /* of the tables made, times the states removed: the work */
} shard_effort;

/* Has the deadline passed? A deadline of 0 never does. */
bool shard_time_is_up(double deadline_s);

/* Writes the state of every variable at the minimum (the least state numbers among equals, last variables first) and
 * the minimum.  False when more than `max_work` sums would be looked at for all tables in between, or a quarter of that
 * kept, or time is up: the caller asks for less at a time.  out_effort may be NULL. */
bool shard_eliminate(msc_arena *arena, const shard_problem *p, size_t max_work, int *out_state, int64_t *out_cost,
                     shard_effort *out_effort);

/* Does the same, and returns the removals in order, unless out_step is NULL. */
bool shard_eliminate_steps(msc_arena *arena, const shard_problem *p, size_t max_work, int *out_state, int64_t *out_cost,
                           shard_effort *out_effort, shard_step *out_step);

/* How many sums shard_eliminate would compute if no removal repeated another; counting stops above `most`. */
double shard_elimination_work(msc_arena *arena, const shard_problem *p, double most);

/* Where a removal would compute more than `max_table` sums, a variable is fixed in its present state instead: the one
 * in the most tables that was fixed least often before (times_held counts). state[]: an assignment; it becomes the best
 * of all in which the fixed variables keep their states, so it costs no more than before. False, and nothing written:
 * time is up, or too many tables meet. */
bool shard_eliminate_holding(msc_arena *arena, const shard_problem *p, size_t max_table, int *times_held, int *state);

#endif
