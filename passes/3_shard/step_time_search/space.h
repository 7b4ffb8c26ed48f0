/* space.h: the states of every variable of a model, what they cost, and what flows cost between them.
 *
 * A piece of the mesh is a run of digits of one axis that a search assigns as a whole: an axis, unless something given
 * cuts it.  A state puts every piece on a letter or on none; where two pieces meet on a letter they are in mesh order.
 * Variables that are alike share their states, and flows between like ones their tables, so repeated
 * layers cost one. */
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
  uint8_t on[SHARD_MAX_PIECES]; /* letter of the variable, or SHARD_NONE */
  uint16_t pass;                /* pieces on which partial sums pass */
} shard_state;

/* The layouts of one tensor by state, as numbers of prices.h. */
typedef struct {
  int num_states, num_distinct;
  int *distinct;
  int *at; /* by state: which of them */
} shard_list;

/* A class: variables that are alike. */
typedef struct {
  const shard_variable *like;
  int num_states;
  shard_state *state;
  int64_t *ns; /* by state: work and flows within */
  /* by state: memory that stays over the step; of it parameters with state and gradient */
  int64_t *bytes, *parameter_bytes;
} shard_class;

typedef struct shard_space shard_space;

/* The costs of composites on one of the meshes that were looked at. */
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
  uint32_t free_pieces; /* those that may be placed; the others stay where `fixed` has them */
  int max_states;       /* of one variable */
  bool any_parts;       /* uneven ones too, wherever rules allow them */
  bool any_copies;      /* copies may be cut as unevenly as what they are made of */
  int64_t ns_per_gib;   /* what memory is charged */
  double deadline_s;    /* on the monotonic clock; 0: none */
  shard_zero zero;      /* state that ranks share */
} shard_space_options;

/* False when a variable has more states than allowed, or none, or time is up. */
bool shard_space_of(shard_model *m, const shard_space_options *o, msc_arena *arena, shard_space **out_space);
const shard_class *shard_class_of(const shard_space *s, int var);
/* Can some variable be cut unevenly in ways that are no states (states.h)? */
bool shard_space_leaves_out(const shard_space *s);
/* The digits of a state, and as atoms the pieces over which sums pass through it. */
void shard_state_digits(const shard_space *s, int var, int state, msc_assignment *out_digits);
/* The state of a variable that cuts least. Between such states a change of layout is always possible. */
int shard_plainest_state(const shard_space *s, int var);
/* The charge for so many bytes, in ns. */
int64_t shard_charge_for(int64_t ns_per_gib, int64_t bytes);
int64_t shard_charge(const shard_space *s, int64_t bytes);
/* Changes the charge on memory. */
void shard_space_charge(shard_space *s, int64_t ns_per_gib);
/* Tables of all variables and flows, for shard_eliminate.  False: time is up. */
bool shard_space_problem(shard_space *s, shard_problem *out_problem);
/* Makes the same problem without the charge on memory. */
void shard_space_plain(shard_space *s, const shard_problem *charged, shard_problem *out_problem);

/* Sets pieces, cost and prices: whole axes, cut where given digits and layouts begin or end; fine: and cut further, as
 * far as a mesh has axes.  `bucket`: gradients that travel together (prices.h).  False: more than SHARD_MAX_PIECES. */
bool shard_price_mesh(const shard_model *m, const msc_cost *cost, bool no_alltoall, int64_t bucket, bool fine,
                      shard_space_options *o);

#endif
