/* space.h: the states of every variable of a model, their costs, and the costs of flows between them.
 *
 * A piece of the mesh is a run of digits of one axis that a search assigns as a whole: an axis, unless digits of the
 * user or of propagation cut it.  A state puts every piece on a letter or on none; several pieces on one letter are in
 * mesh order.  Variables that are alike share their states, and flows between such variables their tables, so repeated
 * layers cost as much as one. */
#ifndef MSC_PASSES_3_SHARD_SPACE_H
#define MSC_PASSES_3_SHARD_SPACE_H

#include "passes/3_shard/step_time_search/eliminate.h"
#include "passes/3_shard/expansion.h"
#include "passes/3_shard/step_time_search/model.h"
#include "passes/3_shard/reshard/prices.h"

enum { SHARD_MAX_PIECES = 15, SHARD_NONE = 0xff };

typedef struct {
  uint8_t first, num; /* atoms of the graph */
  int64_t size;
} shard_piece;

typedef struct {
  uint8_t on[SHARD_MAX_PIECES]; /* by piece: a letter of the variable, or SHARD_NONE */
  uint16_t pass;                /* bits of pieces over which partial sums pass through unfinished */
} shard_state;

/* The layouts of one tensor by state, as numbers of prices.h: distinct[at[state]]. */
typedef struct {
  int num_states, num_distinct;
  int *distinct;
  int *at;
} shard_list;

/* A class: variables that are alike. */
typedef struct {
  const shard_variable *like;
  int num_states;
  shard_state *state;
  int64_t *ns; /* by state: kernels, and flows that concern this variable only */
  /* by state: bytes kept over the step, and those of them of parameters with state and gradient */
  int64_t *bytes, *parameter_bytes;
} shard_class;

typedef struct shard_space shard_space;

/* The costs of composites on one of the meshes searched. */
typedef struct {
  const shard_prices *prices; /* of that mesh */
  shard_expansions *expansions;
} shard_mesh_expansions;

typedef struct {
  const msc_cost *cost;
  shard_price_book *book; /* NULL: shard_price_mesh makes one for this search */
  shard_prices *prices;
  shard_expansions *expansions;
  size_t num_meshes;
  shard_mesh_expansions *of_mesh;
  int num_pieces;
  shard_piece piece[SHARD_MAX_PIECES];
  uint32_t free_pieces; /* bits of pieces that may be placed; the others stay where `fixed` has them */
  int max_states;       /* of one variable */
  bool any_parts;       /* all uneven parts that rules allow are states */
  bool any_copies;      /* the same for copies only */
  int64_t ns_per_gib;   /* the charge on memory kept over the step */
  double deadline_s;    /* on the monotonic clock; 0: none */
  shard_zero zero;      /* the parallel optimizer, which cuts state that ranks hold alike */
} shard_space_options;

/* Lists the states of all variables, with their costs. False: a variable has more than max_states, or time is up. */
bool shard_space_of(shard_model *m, const shard_space_options *o, msc_arena *arena, shard_space **out_space);
const shard_class *shard_class_of(const shard_space *s, int var);
/* Can some variable be cut unevenly in a way that is no state (states.h)? */
bool shard_space_leaves_out(const shard_space *s);
/* Writes the digits of a state, and in `pass` the atoms over which partial sums pass through. */
void shard_state_digits(const shard_space *s, int var, int state, msc_assignment *out_digits);
/* The state of a variable that has the fewest pieces placed. Between such states a change of layout is always
 * possible. */
int shard_plainest_state(const shard_space *s, int var);
/* The charge for so many bytes, in ns. */
int64_t shard_charge_for(int64_t ns_per_gib, int64_t bytes);
int64_t shard_charge(const shard_space *s, int64_t bytes);
/* Sets the charge on memory for the next shard_space_problem. */
void shard_space_charge(shard_space *s, int64_t ns_per_gib);
/* Writes the tables of all variables, the first num_vars of them, and of flows.  False: time is up. */
bool shard_space_problem(shard_space *s, shard_problem *out_problem);
/* Makes the same problem without the charge on memory. */
void shard_space_plain(shard_space *s, const shard_problem *charged, shard_problem *out_problem);

/* Sets the pieces, cost and prices of *o.  Pieces are axes, cut where fixed digits and layouts begin or end; with
 * `fine` they are cut further, into up to SHARD_MESH_AXES.  `bucket`: how many gradients one collective carries
 * (prices.h). False: more than SHARD_MAX_PIECES. */
bool shard_price_mesh(const shard_model *m, const msc_cost *cost, bool no_alltoall, int64_t bucket, bool fine,
                      shard_space_options *o);

#endif
