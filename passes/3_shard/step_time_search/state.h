/* state.h: the state of a search for the least time of a step: the model on one mesh, and the best strategy found.
 *
 *   solve.c             searches all strategies at once, or piece by piece of the mesh, for one charge on memory
 *   limit.c             tries charges until the best strategy within the limit on memory is known
 *   store.c             writes the best strategy as attributes and copies
 *   step_time_search.c  goes over the meshes, and reports where nothing fits */
#ifndef MSC_PASSES_3_SHARD_TIME_STATE_H
#define MSC_PASSES_3_SHARD_TIME_STATE_H

#include "passes/3_shard/step_time_search/space.h"
#include "passes/pass.h"

typedef struct shard_answers shard_answers; /* answers.h */

typedef struct {
  int64_t ns;
  int64_t bytes, parameter_bytes; /* kept over the step; those of them of parameters with state and gradient */
  int64_t charged;                /* ns and the charge for bytes */
} shard_cost;

static const shard_cost SHARD_NO_STRATEGY = {SHARD_IMPOSSIBLE, INT64_MAX, 0, INT64_MAX};

/* Which strategies the bound covers; all false: all strategies on all meshes. */
typedef struct {
  bool even_only, some_meshes, whole_axes;
} shard_compared;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  shard_graph g;
  shard_model m;
  msc_cost cost;
  shard_space_options o;
  int64_t bucket;
  msc_assignment *initial_digits,
      *best_digits;      /* by variable: the digits before the search, and those of the best strategy found */
  int *state;            /* by variable: the state of the last exact solution */
  shard_cost found;      /* the cost of the best strategy found */
  bool keeps_propagated; /* digits that propagation decided stay; the mode sharding_propagation and others */
  int64_t limit;         /* bytes per rank that a strategy may keep over the step */
  bool limited;          /* the strategy of least time exceeds the limit */
  bool may_exceed_limit; /* where no strategy stays within the limit, the smallest one is taken */
  int64_t bound;         /* no strategy within the limit, of those compared, takes less time; 0: not known */
  int64_t
      estimate; /* a bound that is true if each strategy that it was computed from is the best for its charge */
  shard_compared compared;
  int64_t time_to_beat;   /* ns of the best strategy on another mesh, which this one must beat; INT64_MAX: none */
  int64_t charge;         /* ns per GiB at which the bound came out highest; 0: memory did not matter */
  double deadline_s;      /* of --time-limit; 0: none */
  msc_arena *full_arena;  /* of the space of all strategies on the present mesh; NULL: it was not made yet */
  shard_space *full;      /* NULL: it is too large, or time is up */
  bool is_incomplete;     /* the search of all at once was not solved exactly, or left out uneven cuts on few devices */
  shard_answers *answers; /* shared with other searches; or NULL */
  double work;            /* sums computed so far */
  size_t max_work;        /* limit on sums, of one elimination */
} shard_time_search;

static inline bool shard_out_of_time(const shard_time_search *t) { return shard_time_is_up(t->deadline_s); }

/* ---- step_time_search/solve.c ---- */

/* Finds the best strategy, into found and best_digits, when each GiB that it keeps costs ns_per_gib more. exact: the
 * search covers all strategies at once and raises the bound; else it decides piece by piece. False: the problem is too
 * large. */
bool shard_solve_time(shard_time_search *t, bool exact, int64_t ns_per_gib);
/* The space of all strategies on this mesh, made on the first call; NULL: there are too many. */
shard_space *shard_all_strategies(shard_time_search *t);
/* Frees the space of shard_all_strategies, so that the next call makes that of another mesh. */
void shard_forget_strategies(shard_time_search *t);
/* Fixes the digits of all variables to `digits`, by variable. */
void shard_fix_digits(shard_time_search *t, const msc_assignment *digits);

/* ---- step_time_search/limit.c ---- */

/* Finds the best strategy within the limit or, if none is, the smallest one. False: the problem is too large. */
bool shard_solve_within_limit(shard_time_search *t, bool exact);

/* ---- step_time_search/store.c ---- */

/* Writes the strategy into attributes. Without copies, every user brings a value into its own layout by itself. */
void shard_store_strategy(shard_time_search *t, bool with_copies);

#endif
