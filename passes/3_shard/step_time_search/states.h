/* states.h: a variable and the pieces of the mesh -> its states, the ways to put pieces on its letters. */
#ifndef MSC_PASSES_3_SHARD_STATES_H
#define MSC_PASSES_3_SHARD_STATES_H

#include "passes/3_shard/step_time_search/space.h"

typedef struct {
  int num; /* at least one; if it exceeds max_states of the options, the list is not complete */
  shard_state *state;
  bool irregular; /* the fixed digits are kept in all states: they are not whole pieces in the order of the mesh */
  bool left_out;  /* rules allow uneven cuts that are not in `state` */
} shard_states;

/* Did the user fix the numbers of parts of the variable's letters by a strategy tuple, which leaves the digits open? */
bool shard_is_tuple(const shard_graph *g, const shard_variable *v);
/* Lists all states of the variable, in `arena`: free pieces are on any letters that the rules of its ops allow, all
 * others where its fixed digits have them. */
shard_states shard_states_of(const shard_graph *g, const shard_space_options *o, const shard_variable *v,
                             msc_arena *arena);
/* Write the digits of a state: shard_put_fixed for a variable that is irregular, of which the state only says over
 * which pieces partial sums pass through; shard_put_state for all others. */
void shard_put_state(const shard_space_options *o, const shard_state *state, msc_assignment *out);
void shard_put_fixed(const shard_space_options *o, const shard_variable *v, const shard_state *state,
                     msc_assignment *out);

#endif
