/* model.h: the function as a search sees it: variables, each of which shares one choice of digits, and the values that
 * flow between them.
 *
 * A variable is a group of shard.h, or a *copy*: the place where a value with several user groups is brought into
 * another layout once for all of them.  What its users send back is added up in the copy's layout, where sums may stay
 * unfinished (`pass`), so forward and backward share one choice here too.  For an argument that several users send
 * gradients back to, as a tied parameter, there is such a place for their sum alone.  The gradient of an add is the
 * very value that comes in; it flows through the add all the same, in the add's layout: a network with residual
 * connections then has width 2, and what is paid on the way is paid once. */
#ifndef MSC_PASSES_3_SHARD_MODEL_H
#define MSC_PASSES_3_SHARD_MODEL_H

#include "passes/3_shard/shard.h"

/* A member: an op, with its letters as letters of its variable. */
typedef struct {
  const msc_op *op; /* NULL: the copy itself */
  const msc_rule *rule;
  int8_t to_variable[MSC_MAX_LETTERS]; /* own letter -> the variable's, or -1 */
  bool passes;                         /* partial sums go through it on the variable's pieces with PASS */
  /* operands of it, as bits, that fill memory over the step: each value counts once in a variable */
  uint64_t kept;
} shard_member;

typedef struct {
  int group;         /* of the shard graph, -1: a copy */
  msc_value *copied; /* of a copy; an argument: of the sum of its gradients */
  const msc_rule *rule;
  msc_assignment fixed; /* digits that stay where they are */
  uint32_t closed;      /* letters that get no further digits */
  bool may_pass;        /* some member passes partial sums */
  bool most_parts;      /* its work is cut into as many parts as can be */
  size_t num_members, room;
  shard_member *member;
} shard_variable;

/* A tensor of a member, operands first; var -1: an argument or result whose layout is given. */
typedef struct {
  int var, member, tensor;
  const msc_layout *layout;
} shard_end;

typedef struct {
  const msc_value *value;
  const msc_type *type; /* of the value, without a layout */
  shard_end from, to;
  bool is_gradient; /* of a parameter, on its way into the update: shares its bucket with others */
} shard_flow;

typedef struct {
  shard_graph *g;
  size_t num_vars, room_vars, num_flows, room_flows;
  size_t num_inner_flows; /* those before flows to results that a model returns whole */
  shard_variable *var;
  shard_flow *flow;
  int *copy_of;                /* by value id: its copy, or -1 */
  shard_end *of_op;            /* by op id: var and member; var -1: none */
  int *kind;                   /* by variable: equal for those alike in all but `fixed`; set by space.c, as are: */
  size_t *first_flow, *sorted; /* by variable: its part of the flows that end in it, or leave it for a given layout */
  size_t *earlier; /* by place in `sorted`: one plus that of the last flow before of the same value between the same */
} shard_model;

/* Builds the model, in the graph's arena. */
void shard_model_of(shard_graph *g, shard_model *out_model);

/* ---- step_time_search/boundary.c ---- */

/* Fixes letters as the user's layouts imply: ops that read only arguments which the user cut are cut like them. Where
 * the user keeps the batch whole, it stays whole in what follows, whose products are cut over all devices instead: a
 * network changes from data to model parallelism once, and never back. */
void shard_keep_boundaries(shard_model *m);

#endif
