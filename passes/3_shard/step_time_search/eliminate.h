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
  int64_t below;     /* of shard_minimum: only assignments that cost less are of use; 0: all are */
} shard_problem;

enum { SHARD_MAX_SCOPE = 12 };

/* One removal of a variable: for each assignment of its neighbours at the time, the first one major, the least cost of
 * the tables that it adds up. */
typedef struct {
  int removed, num, var[SHARD_MAX_SCOPE];
  const int64_t *cost;
} shard_step;

typedef struct {
  int width;               /* most neighbours at a removal */
  size_t removals, shared; /* removals of variables; those of them that reused an earlier table */
  double entries;          /* entries of the tables made, each times the removed variable's states: the work */
} shard_effort;

/* Has the deadline passed? A deadline of 0 never does. */
bool shard_time_is_up(double deadline_s);

/* Writes the state of every variable at the minimum, and the minimum; where states are equal, the lowest number. 
 * False: it would take more than `max_work` sums, or more than a quarter of that in stored entries, or time is up; the
 * caller then solves for fewer variables at a time.  out_effort may be NULL. */
bool shard_eliminate(msc_arena *arena, const shard_problem *p, size_t max_work, int *out_state, int64_t *out_cost,
                     shard_effort *out_effort);

/* Does the same, and also writes the removals in order, unless out_step is NULL. */
bool shard_eliminate_steps(msc_arena *arena, const shard_problem *p, size_t max_work, int *out_state, int64_t *out_cost,
                           shard_effort *out_effort, shard_step *out_step);

/* How many sums shard_eliminate would compute if no removal repeated another; counting stops above `most`. */
double shard_elimination_work(msc_arena *arena, const shard_problem *p, double most);

/* Improves the assignment state[] by elimination with some variables fixed in their states: where a removal would
 * compute more than `max_table` sums, the variable in the most tables is fixed, of equals the one fixed least often so
 * far (times_held, by variable, counts). The result is the best assignment in which the fixed variables keep their
 * states. False, and nothing written: time is up. */
bool shard_eliminate_holding(msc_arena *arena, const shard_problem *p, size_t max_table, int *times_held, int *state);

#endif
