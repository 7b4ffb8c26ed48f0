/* train.h: what the passes of this folder share.  README.md says what each leaves behind. */
#ifndef MSC_PASSES_2_TRAIN_TRAIN_H
#define MSC_PASSES_2_TRAIN_TRAIN_H

#include "ir/ir.h"
#include "passes/config/config.h"

/* ---- groups.c: the attribute `optimizer` of a function, checked ---- */

/* Parameters that one optimizer updates. */
typedef struct {
  msc_op_kind update;           /* OP_sgd, OP_momentum, OP_adam, OP_adamw, OP_lamb_moments */
  const msc_attr_value *values; /* the group's dictionary */
  size_t num_args;
  uint32_t *arg;                /* their argument numbers, ascending */
} msc_optimizer_group;

typedef struct {
  size_t num;
  msc_optimizer_group *group;
  double clip_norm; /* of all gradients together, as every group says; 0: none */
} msc_optimizer_groups;

/* Reports every fault of the attribute. */
bool msc_read_optimizer(msc_func *f, msc_arena *arena, msc_optimizer_groups *out_groups);
/* The function to be trained: "forward" with a loss and an optimizer; NULL: there is none. */
msc_func *msc_training_func(const msc_module *m);
/* The value that is the loss; NULL after a report. */
msc_value *msc_loss_of(msc_func *f);
/* The gradient that the loss itself gets: attribute `loss_seed`, 1 when it is absent. */
double msc_loss_seed(const msc_func *f);
/* Name of an argument for messages and for what is made for it. */
const char *msc_arg_name(const msc_func *f, size_t arg);
/* `name`, longer as long as an argument has it. */
const char *msc_free_arg_name(const msc_func *f, msc_arena *arena, const char *name);
/* Appends to the attribute `results` the names of results that were added. */
void msc_add_result_names(msc_func *f, size_t num, const char *const *names);

/* ---- norm.c ---- */

/* v, cast where its elements are of another type; NULL for NULL, or after a report. */
msc_value *msc_value_in(msc_builder *b, msc_value *v, msc_dtype dtype);
/* In f64; NULL after a report. */
msc_value *msc_sum_of_squares(msc_builder *b, msc_value *v);
/* Gradients (NULL: none) whose norm together is above `limit` are multiplied to have it. */
bool msc_clip_gradients(msc_builder *b, double limit, size_t num, msc_value **gradient);

/* ---- loss_scale.c ---- */

/* The argument that is a dynamic loss_scale, which the loss's own gradient is multiplied by; its count of finite steps
 * is the next one.  NULL: there is none. */
msc_value *msc_dynamic_scale(const msc_func *f);
/* Gradients (NULL: none) divided by the loss_scale, if there is one. */
bool msc_unscale_gradients(msc_builder *b, size_t num, msc_value **gradient);
/* *out_ok: an i1, whether all elements of all gradients are finite, alike on all ranks; NULL without
 * a dynamic loss_scale. */
bool msc_gradients_finite(msc_builder *b, size_t num, msc_value *const *gradient, msc_value **out_ok);
/* New values of the dynamic loss_scale's two arguments. */
bool msc_next_scale(msc_builder *b, const msc_loss_scale *s, msc_value *ok, msc_value **new_value);

/* ---- hybrid.c, draws.c ---- */

/* Is this argument a parameter of which every rank has one of its own? */
bool msc_is_layerwise(const msc_func *f, size_t arg);
/* f is one rank's program, full_batch: every rank gets the same inputs.  Sets `whole_layout` of its random ops: of the
 * tensor, by whose elements their numbers go, which part is this rank's.  Absent: all ranks draw the same. */
bool msc_place_draws(msc_func *f, msc_arena *arena, bool full_batch);

/* ---- letters.c: which letter of the forward op a letter of a gradient op is ---- */

typedef struct msc_letter_map msc_letter_map;

msc_letter_map *msc_letter_map_new(msc_context *ctx, msc_arena *arena);
/* Sets `letters` of the ops from `first` to `last`, which are the gradient of `forward`.  `doperand` as in grad.h. */
bool msc_map_letters(msc_letter_map *map, const msc_op *forward, msc_op *first, msc_op *last, msc_value *const *dresult,
                     msc_value *const *doperand);
void msc_letter_map_free(msc_letter_map *map);

#endif
