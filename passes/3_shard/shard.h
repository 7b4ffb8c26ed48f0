/* shard.h: a function as the passes of this folder see it: groups of ops that share one choice of mesh digits for each
 * letter of their rules.
 *
 * The passes of this folder talk through one op attribute, `sharding`: a dictionary letter -> digits, in IR text
 * {k = "{d:(2)4}", m = "{d:(1)2}"}; "{}" is whole, a letter that is absent is still free.  Only leaders carry it: a
 * forward op, or an op that belongs to none; gradient ops follow their forward op through their `letters`, update ops
 * the first user of their parameter.  `by` says who decided:
 *   strategies   annotations and the mode's default          by = user, default
 *   propagate    what follows without a choice               by = propagation
 *   search       the free letters, least time of a step      by = search
 *   layouts      layouts of all values; `in_layout` on every op says what it wants; sharding is dropped            */
#ifndef MSC_PASSES_SHARD_H
#define MSC_PASSES_SHARD_H

#include "ir/ir.h"
#include "passes/pass.h"

typedef struct {
  msc_op *leader;
  msc_rule rule;                         /* the leader's; a letter that some member must keep whole is REP */
  msc_assignment digits;                 /* chosen so far */
  uint32_t closed;                       /* bits of letters that get no further digits */
  const int64_t *split[MSC_MAX_LETTERS]; /* chosen borders of a letter's parts, or NULL: see shard_set_split */
  msc_decider by;
  size_t num_members; /* ops, the leader first */
  uint32_t *member;
} shard_group;

typedef struct {
  msc_op *op;
  msc_rule rule;
  int group;                        /* -1: no rule applies (return) */
  int8_t to_group[MSC_MAX_LETTERS]; /* own letter -> the group's, or -1 */
} shard_op;

typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  msc_func *func;
  const msc_mesh *mesh;
  msc_atoms atoms;
  size_t num_ops, num_groups, num_values;
  const msc_layout **arg_layout; /* by argument: the layout it must have, or NULL */
  shard_op *op;                  /* in program order; index = op->id */
  shard_group *group;
} shard_graph;

/* Numbers f and reads rules, ties and `sharding`.  The atoms are the prime digits of the mesh refined by the cuts in
 * use.  False after reporting. */
bool shard_graph_of(msc_pass_ctx *pass, msc_func *f, shard_graph *out_g);
/* Writes the groups' digits and `by` back to the leaders' attributes: all letters of groups with `by`. */
void shard_graph_store(shard_graph *g);
/* The digits of an op's letters when its group has the digits `of_group`, and the layout of one of its tensors then. */
msc_assignment shard_assignment(const shard_op *o, const msc_assignment *of_group);
const msc_layout *shard_layout(shard_graph *g, const shard_op *o, const msc_assignment *of_group, size_t tensor);
/* Do the rules of the group and of each of its members allow these digits? */
bool shard_allows(const shard_graph *g, int group, const msc_assignment *a);
/* Checks the digits that the user gave the group in `annotation`; false after a report. */
bool shard_check_digits(const shard_graph *g, int group, const char *annotation);
/* Does the mode search for the least time of a step? */
bool shard_searches_time(const msc_config *config);
/* Sets the borders of the letter's parts, whose digits are chosen, in every dimension of that size; NULL: parts are
 * equal again. */
void shard_set_split(shard_graph *g, int group, int letter, const int64_t *split);
/* The set of atoms, a bit for each, that lie in these digits of the mesh. */
uint32_t shard_atom_set(const msc_atoms *atoms, int num, const msc_subaxis *digit);
/* Product of the sizes of a list of atoms. */
int64_t shard_parts(const msc_atoms *atoms, int num, const uint8_t *atom);
/* A list of atoms as an attribute (with the sizes of parts, or NULL) and as text: "{d:(1)2,tp}". */
const msc_layout *shard_digits(const shard_graph *g, int num, const uint8_t *atom, const int64_t *split);
const char *shard_digits_text(const shard_graph *g, int num, const uint8_t *atom);
/* Returns the layout that attribute msc.layout demands of an argument; NULL: its first user decides. */
const msc_layout *shard_fixed_layout(const msc_func *f, size_t arg);
/* The function that is sharded: train, or forward of a model without training; NULL: none, or one rank's program. */
msc_func *shard_func(msc_module *m);
/* Did a search insert the op to bring a value into a layout for several users, or separate it from its group, as a sum
 * of gradients (step_time_search.h)? */
bool shard_is_copy(const msc_op *op);
/* By op id, in a numbered function: does the op only serve the optimizer, as the norms of lamb? Such an op has no
 * batch. */
const bool *shard_optimizer_ops(msc_arena *arena, const msc_func *f);
/* The use that gives an argument its layout: its update op's, else that of its first user in program order; NULL: no op
 * with a group uses it. */
const msc_use *shard_owner_of(const shard_graph *g, const msc_value *arg);
/* Does the cast widen the gradient of a parameter that the model reads narrowed? Sums over ranks pass through it
 * unfinished (gradient_fp32_sync; without that key such a cast belongs to the optimizer). */
bool shard_widens_gradient(const msc_op *op);
/* True if the op runs once per step, not for each micro-batch: an update, or what came with the optimizer, is used by
 * such ops alone and feeds no op accumulate. Gradient ops name a forward op. `per_step`: the answers for later ops, by
 * id. */
bool shard_runs_per_step(const msc_op *op, const bool *per_step);
/* "operand 1 (b)" or "result 0" for messages; operands are numbered first. */
const char *shard_tensor_text(const shard_graph *g, const msc_op *op, int tensor);
/* Operands that annotations have entries for: without the seed and the step that pass random adds. */
int shard_annotated_operands(const msc_op *op);
/* " because of its gradient" when the op alone could cut a dimension with these letters, else "". */
const char *shard_gradient_text(const shard_graph *g, const msc_op *op, const msc_dim_letters *dim);

/* ---- strategies.c ---- */

/* Takes unused digits whose sizes multiply to `parts`, whole axes before parts of axes, first ones first; false:
 * there are none. */
bool shard_take_parts(const shard_graph *g, int64_t parts, uint32_t *used, uint8_t *atom, uint8_t *num);

/* ---- batch_letters.c ---- */

/* By group: the letter of its leader that carries the batch of the inputs, or -1. */
const int8_t *shard_batch_letters(const shard_graph *g);
/* Cuts the batch over all digits of the mesh in every group that nobody decided and that is not the optimizer's; its
 * other letters stay whole. out_cut: by group. Returns shard_batch_letters. */
const int8_t *shard_cut_batches(shard_graph *g, bool *out_cut);

/* ---- pin.c ---- */

/* A result whose layout the user fixes by out_strategy or out_layout. */
typedef struct shard_pin {
  msc_op *op;
  size_t result;
  const msc_layout *layout;
  struct shard_pin *next;
} shard_pin;

/* Checks the annotation of the group's leader and adds the results that it fixes to the list; false after reports. */
bool shard_pin_results(shard_graph *g, int group, const char *annotation, shard_pin **list);
/* Inserts an op for each result of the list into the function, whose ids are not valid afterwards. */
void shard_insert_pins(shard_graph *g, const shard_pin *list);

/* ---- propagate.c ---- */

/* Spreads the digits of decided letters and of fixed arguments to every letter that follows without a choice.
 * *out_sweeps: how many sweeps that took. Where digits disagree, a group is left to the search that follows, or keeps
 * what came first; before a search the source of digits is recorded too (origins.h). */
int shard_propagate(msc_pass_ctx *pass, shard_graph *g, bool search_follows, int64_t *out_conflicts);

/* ---- layouts.c ---- */

/* Sets the layouts of the results of all ops, and `in_layout` of all ops. A partial argument stays partial through ops
 * that allow it. */
void shard_lay_ops(msc_pass_ctx *pass, shard_graph *g);
/* Sets the layouts of results only. Returns the layouts that operands are wanted in, by op id and operand; NULL for an
 * op without a group. */
const msc_layout ***shard_lay_results(msc_pass_ctx *pass, shard_graph *g);

/* ---- zero.c ---- */

/* The configuration of the parallel optimizer. */
typedef struct {
  int64_t stage;     /* 0: off */
  int64_t threshold; /* parameters of so many bytes stay whole */
  int64_t most;      /* ranks of a group; -1: all that hold the same */
} shard_zero;

shard_zero shard_zero_of(const msc_config *config);
/* Why the model, or the size of a parameter, keeps the parameter whole, in the words of msc.zero; NULL: they do not. */
const char *shard_reason_to_stay_whole(const msc_func *f, size_t arg, const shard_zero *z);
/* Among how many of the `repeats` ranks that hold the same part of an update's operand it will be cut: an estimate. */
int64_t shard_zero_ranks(const shard_zero *z, const msc_op *update, int operand, int64_t repeats);

/* ---- tuple_to_parts.c ---- */

/* Reads the number of parts of every letter from the leader's in_strategy. Checks that each number divides the letter's
 * size and that their product divides the number of devices. False after a report that names a legal strategy. */
bool shard_tuple_parts(const shard_graph *g, int group, int64_t *out_parts);
/* The order of the letters in the op's device matrix, major first: that of the rule, except that a product whose first
 * operand is stored transposed still has [..., m, k, n]. */
void shard_matrix_order(const msc_op *op, const msc_rule *rule, uint8_t *out_letter);

/* ---- manual_split.c ---- */

/* Turns the annotation manual_split of gathers into in_layout. Reports every fault. */
bool shard_manual_splits(shard_graph *g);

/* ---- layout_form.c ---- */

/* Reads the leader's in_layout and out_layout into out_layout, by tensor (operands first); a layout that is not given
 * is left as it is. False after reporting every entry that is wrong. */
bool shard_read_layouts(const shard_graph *g, int group, const msc_layout **out_layout);
/* Sets the group's digits so that its leader's tensors have these layouts (NULL: any), whose cuts are borders of the
 * atoms. False after a report. */
bool shard_take_layouts(shard_graph *g, int group, const msc_layout *const *layout);

#endif
