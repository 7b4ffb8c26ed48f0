/* states.h: the states of one variable: a way to put the pieces of the mesh on its letters each. */
#ifndef MSC_PASSES_3_SHARD_STATES_H
#define MSC_PASSES_3_SHARD_STATES_H

#include "passes/3_shard/step_time_search/space.h"

typedef struct {
  int num; /* one at least; more than options' max_states: the rest was not looked at */
  shard_state *state;
  bool irregular; /* fixed digits that states do not describe: they stay as they are */
  bool left_out;  /* there are uneven cuts besides */
} shard_states;

/* Did the user fix only the numbers of parts of the variable's letters (a strategy tuple), and leave open by which
 * digits? */
bool shard_is_tuple(const shard_graph *g, const shard_variable *v);
/* Lists all states of the variable: free pieces go wherever the rules of its ops allow, given ones stay. In `arena`. */
shard_states shard_states_of(const shard_graph *g, const shard_space_options *o, const shard_variable *v,
                             msc_arena *arena);
/* Writes the digits of a state. The states of an irregular variable only say which sums pass. */
void shard_put_state(const shard_space_options *o, const shard_state *state, msc_assignment *out);
void shard_put_fixed(const shard_space_options *o, const shard_variable *v, const shard_state *state,
                     msc_assignment *out);

#endif
