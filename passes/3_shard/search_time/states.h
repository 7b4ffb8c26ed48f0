/* states.h: the states of one variable: a way to put the pieces of the mesh on its letters each. */
#ifndef MSC_PASSES_3_SHARD_STATES_H
#define MSC_PASSES_3_SHARD_STATES_H

#include "passes/3_shard/search_time/space.h"

typedef struct {
  int num; /* one at least; more than options' max_states: the rest was not looked at */
  shard_state *state;
  bool irregular; /* fixed digits that states do not describe: they stay as they are */
  bool left_out;  /* there are uneven cuts besides */
} shard_states;

/* The user said into how many parts the variable's letters are cut, and left open by which digits. */
bool shard_is_tuple(const shard_graph *g, const shard_variable *v);
/* Free pieces go wherever the rules of the variable's ops allow; what is given stays.  In `arena`. */
shard_states shard_states_of(const shard_graph *g, const shard_space_options *o, const shard_variable *v,
                             msc_arena *arena);
/* The digits of a state, and of an irregular variable, whose states say only which sums pass. */
void shard_put_state(const shard_space_options *o, const shard_state *state, msc_assignment *out);
void shard_put_fixed(const shard_space_options *o, const shard_variable *v, const shard_state *state,
                     msc_assignment *out);

#endif
