/* state.h: what the searches for the least time of a step share: the model on one mesh, and the best strategy found.
 *
 *   step_time_search/solve.c  all strategies at once, or piece by piece of the mesh, for one charge on memory
 *   step_time_search/limit.c  charges, until the best strategy within the memory is known
 *   step_time_search/store.c  the best strategy becomes attributes and copies
 *   step_time_search.c the meshes, and what is said where nothing fits */
#ifndef MSC_PASSES_3_SHARD_TIME_STATE_H
#define MSC_PASSES_3_SHARD_TIME_STATE_H

#include "passes/3_shard/step_time_search/space.h"
#include "passes/pass.h"

typedef struct shard_answers shard_answers; /* answers.h */

typedef struct {
  int64_t ns, bytes, parameter_bytes; /* kept over the step: of it parameters with state and gradient */
  int64_t charged;                    /* ns, and what memory is charged */
} shard_cost;

static const shard_cost SHARD_NO_STRATEGY = {SHARD_IMPOSSIBLE, INT64_MAX, 0, INT64_MAX};

/* Which strategies the bound covers, if not all strategies on all meshes that are open to choice. */
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
  msc_assignment *given, *chosen; /* by variable: before the search; of the best found */
  int *state;                     /* by variable: the state of the last exact solution */
  shard_cost found;               /* the best */
  bool follows;                   /* what propagation decided stays, the rest is placed digit by digit */
  int64_t limit;                  /* bytes per rank */
  bool limited;                   /* what takes least keeps more */
  bool yields;                    /* where nothing stays within the limit, what is smallest will do */
  int64_t bound;                  /* no strategy within the limit takes less, of those compared; 0: not known */
  int64_t estimate;               /* of the bound, from what was found */
  shard_compared compared;
  /* ns of a strategy on another mesh: what is no better need not be known; INT64_MAX: none */
  int64_t beaten;
  int64_t charge;        /* ns per GiB at which the bound came out highest; 0: memory was no matter */
  double deadline_s;     /* of --time-limit; 0: none */
  msc_arena *full_arena; /* of the space of all strategies on the mesh as it is; NULL: not opened */
  shard_space *full;     /* NULL: it is too large, or time is up */
  /* all at once were too wide to solve exactly, or there are uneven cuts of few devices that were no states */
  bool is_incomplete;
  shard_answers *answers; /* shared with other searches; or NULL */
  double work;
  size_t max_work; /* of one elimination */
} shard_timing;

static inline bool shard_out_of_time(const shard_timing *t) { return shard_time_is_up(t->deadline_s); }

/* ---- step_time_search/solve.c ---- */

/* Finds the best strategy when a GiB of memory kept is charged so many ns, into found and chosen; exact: of all
 * strategies, with a bound, else piece by piece. False: too large. */
bool shard_solve_time(shard_timing *t, bool exact, int64_t ns_per_gib);
/* The space of all strategies on this mesh, made once; NULL: there are too many. */
shard_space *shard_all_strategies(shard_timing *t);
void shard_forget_strategies(shard_timing *t);
/* Fixes the digits of all variables. */
void shard_fix_digits(shard_timing *t, const msc_assignment *digits);

/* ---- step_time_search/limit.c ---- */

/* Finds the best strategy within the limit, or the smallest one where none is. False: too large. */
bool shard_solve_within_limit(shard_timing *t, bool exact);

/* ---- step_time_search/store.c ---- */

/* Writes the strategy into attributes. Without copies, every user brings a value into its own layout. */
void shard_store_strategy(shard_timing *t, bool with_copies);

#endif
