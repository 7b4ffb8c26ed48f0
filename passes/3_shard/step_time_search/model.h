/* model.h: the function as a search sees it: variables, each of which gets one choice of digits, and the values that
 * flow between them.
 *
 * A variable is a group of shard.h, or a *copy*: a value that several groups use, brought into another layout once for
 * all of them.  The gradients of the copied value are added up in the copy's layout, where sums may stay unfinished
 * (`pass`), so forward and backward share one choice here too.  An argument whose gradients come from several users, as
 * a tied parameter, has a variable for their sum alone.  The gradient of an add's result is also that of its operands;
 * the model lets it flow through the add, in the add's layout, all the same: a network with residual connections then
 * has width 2, and each change of layout on the way counts once. */
#ifndef MSC_PASSES_3_SHARD_MODEL_H
#define MSC_PASSES_3_SHARD_MODEL_H

#include "passes/3_shard/shard.h"

/* A member: an op, with its letters as letters of its variable. */
typedef struct {
  const msc_op *op; /* NULL: the copy itself */
  const msc_rule *rule;
  int8_t to_variable[MSC_MAX_LETTERS]; /* own letter -> the variable's, or -1 */
  bool passes;                         /* partial sums over the digits in `pass` of a state go through it */
  bool per_step;                       /* only updates use its results: it runs once for all micro-batches of a step */
  uint64_t kept; /* bits of operands that stay in memory over the step; each value counts once in a variable */
} shard_member;

typedef struct {
  int group;         /* of the shard graph; -1: a copy, or the sum of an argument's gradients */
  msc_value *copied; /* group -1: the copied value, or the argument */
  const msc_rule *rule;
  msc_assignment fixed; /* digits that stay where they are */
  uint32_t closed;      /* letters that get no further digits */
  bool may_pass;        /* partial sums go through some member */
  bool most_parts;      /* only states that cut it into the most parts count */
  size_t num_members, room;
  shard_member *member;
} shard_variable;

/* A tensor of a member, operands first; var -1: an argument or result with this layout. */
typedef struct {
  int var, member, tensor;
  const msc_layout *layout;
} shard_end;

typedef struct {
  const msc_value *value;
  const msc_type *type; /* of the value, without a layout */
  shard_end from, to;
  bool is_gradient; /* of a parameter, on its way into the update: shares its bucket with others */
  bool per_step;    /* its user runs once for all micro-batches of a step */
} shard_flow;

typedef struct {
  shard_graph *g;
  size_t num_vars, room_vars, num_flows, room_flows;
  size_t num_inner_flows; /* without the flows to results that the model returns whole, which come last */
  int64_t num_micro;      /* micro-batches of a step; costs are those of one, with its share in what runs per step */
  shard_variable *var;
  shard_flow *flow;
  int *copy_of;     /* by value id: its copy, or -1 */
  shard_end *of_op; /* by op id: var and member; var -1: none */
  /* Set by space.c. */
  int *kind;                   /* by variable: equal for variables that differ at most in `fixed` */
  size_t *first_flow, *sorted; /* sorted[first_flow[v]] ..: the flows that end in v, or leave it for a given layout */
  size_t
      *earlier; /* by place in `sorted`: 1 + the place of the previous flow of the same value between the same ends */
} shard_model;

/* Builds the model, in the graph's arena. */
void shard_model_of(shard_graph *g, shard_model *out_model);

/* ---- step_time_search/boundary.c ---- */

/* Closes letters as the user's layouts imply. Ops that read only arguments which the user cut are cut like these. Where
 * the user keeps the batch whole, it stays whole in the ops that depend on it, and their products are cut over all
 * devices by other letters: a network changes from data to model parallelism once, and never back. */
void shard_keep_boundaries(shard_model *m);

#endif
