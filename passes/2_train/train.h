/* train.h: shared by the passes of this folder. README.md lists what each leaves behind. */
#ifndef MSC_PASSES_2_TRAIN_TRAIN_H
#define MSC_PASSES_2_TRAIN_TRAIN_H

#include "ir/ir.h"
#include "passes/config/config.h"

/* ---- optimizer_groups.c: the attribute `optimizer` of a function, checked ---- */

/* The parameters that one optimizer updates. */
typedef struct {
  msc_op_kind update, apply;    /* the ops of an update: the second is the first, or makes a step of its result */
  msc_op_kind lazy;             /* the op for tables that are only looked up; OP_return: that of the others */
  const msc_attr_value *values; /* the group's dictionary */
  size_t num_args;
  uint32_t *arg;                /* argument numbers, ascending */
} msc_optimizer_group;

typedef struct {
  size_t num;
  msc_optimizer_group *group;
  double clip_norm; /* bound of the norm of all gradients together, the same in every group; 0: none */
} msc_optimizer_groups;

/* Reads the attribute `optimizer` and reports every fault. */
bool msc_read_optimizer(msc_func *f, msc_arena *arena, msc_optimizer_groups *out_groups);
/* The function to be trained: "forward" with a loss and an optimizer; NULL: there is none. */
msc_func *msc_training_func(const msc_module *m);
/* What a step runs until it is split into sections: func train, or forward of a model that does not train; or NULL. */
msc_func *msc_step_func(const msc_module *m);
/* The value that is the loss; NULL after a report. */
msc_value *msc_loss_of(msc_func *f);
/* The quotient that is the loss, if attribute `micro_quotient` says so, else NULL. Gradients are those of its first
 * operand until the optimizer divides them by its second one. */
const msc_op *msc_loss_quotient(msc_func *f);
/* The gradient of the loss: attribute `loss_seed`, 1 if absent. */
double msc_loss_seed(const msc_func *f);
/* Returns `name`, made longer until no argument has it. */
const char *msc_free_arg_name(const msc_func *f, msc_arena *arena, const char *name);
/* Appends the names of added results to the attribute `results`. */
void msc_add_result_names(msc_func *f, size_t num, const char *const *names);

/* ---- gradient_norm.c ---- */

/* Builds the sum of the squares of v, in f64; NULL after a report. */
msc_value *msc_sum_of_squares(msc_builder *b, msc_value *v);
/* In a program of one rank: builds the sum of v over all ranks. In any other that is v. */
msc_value *msc_sum_over_ranks(msc_builder *b, msc_value *v);
/* Does each rank have only a part of the parameter, and so of its gradient? */
bool msc_is_cut(const msc_func *f, size_t arg);
/* Multiplies the gradients, by argument (NULL: none), by a common factor if their norm together is above `limit`. */
bool msc_clip_gradients(msc_builder *b, double limit, size_t num, msc_value **gradient);

/* ---- lookup_gradients.c ---- */

/* Which rows of a table the rows of its gradient belong to. */
typedef struct {
  msc_value *indices; /* [n], the numbers of the table's rows, in the order of look-ups and samples; NULL: not lazy */
  msc_value *places;  /* [n], i32: the row of the gradient for each of them. NULL: there are n rows in that order, or
                         n / k, each of which belongs to k consecutive numbers */
} msc_row_numbers;

/* For each table whose group updates it lazily: replaces its gradient in grad, which is a sum of rows, by these rows,
 * and writes into `out` which rows of the table they belong to. Both arrays are by argument. Reports a table that other
 * ops than look-ups read, if its group names it. */
typedef struct msc_pass_ctx msc_pass_ctx;
bool msc_keep_rows_apart(msc_builder *b, msc_pass_ctx *pass, const msc_optimizer_groups *groups, msc_value **grad,
                         msc_row_numbers *out);
/* True for an optimizer's step of only those rows of a table that it is given. */
bool msc_is_lazy_update(const msc_op *op);

/* ---- loss_scale.c ---- */

/* The argument that is a dynamic loss_scale; the next argument counts its finite steps. NULL: there is none. */
msc_value *msc_dynamic_scale(const msc_func *f);
/* Divides the gradients (NULL: none) by the loss_scale, if there is one. */
bool msc_unscale_gradients(msc_builder *b, size_t num, msc_value **gradient);
/* Builds *out_ok, an i1 that tells whether all elements of all gradients are finite and is the same on all ranks; NULL
 * without a dynamic loss_scale. */
bool msc_gradients_finite(msc_builder *b, size_t num, msc_value *const *gradient, msc_value **out_ok);
/* Sets the new values of the two arguments of a dynamic loss_scale. */
bool msc_next_scale(msc_builder *b, const msc_loss_scale *s, msc_value *ok, msc_value **new_value);

/* ---- hybrid.c, random_layout.c ---- */

/* True if the argument is a parameter of which every rank has one of its own. */
bool msc_is_layerwise(const msc_func *f, size_t arg);
/* For f, the program of one rank: sets `whole_layout` of its random ops, which says which part of a whole tensor
 * this rank draws. Absent: all ranks draw the same. full_batch: every rank gets the same inputs. */
bool msc_place_draws(msc_func *f, msc_arena *arena, bool full_batch);

/* ---- gradient_letters.c: which letter of the forward op a letter of a gradient op is ---- */

typedef struct msc_letter_map msc_letter_map;

msc_letter_map *msc_letter_map_new(msc_context *ctx, msc_arena *arena);
/* Sets `letters` of the ops from `first` to `last`, which are the gradient of `forward`.  `doperand` as in
 * op_gradients.h. */
bool msc_map_letters(msc_letter_map *map, const msc_op *forward, msc_op *first, msc_op *last, msc_value *const *dresult,
                     msc_value *const *doperand);
void msc_letter_map_free(msc_letter_map *map);

#endif
