/* optimizer: func "forward" with the gradients of its parameters -> func "train": an update op per parameter; the
 * new values of parameters and optimizer state take the place of the gradients among the results. README.md lists
 * the attributes left behind. */
#include <stdlib.h>
#include <string.h>

#include "ir/alias.h"
#include "ir/fact.h"
#include "ir/formula.h"
#include "passes/2_train/train.h"
#include "passes/7_lower/target.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_op *ret;
  msc_builder b;
  size_t num_grads;
  msc_value **grad;           /* by argument: its gradient, or NULL */
  msc_value **new_value;      /* by argument, including those added here: its new value, or NULL */
  const char *first, *second; /* suffixes of the names of states: ".m", ".v" */
  msc_value *step;            /* number of this step, f32, from 1; NULL: no optimizer needs it */
  msc_value *ok;              /* i1: whether updates are made; NULL: always */
  msc_row_numbers *rows; /* by argument: of a table that is updated lazily, the rows that grad[] are of */
  /* f64 of the current group: the learning rate, or all hyper-parameters, of its update; the learning rate of the
   * second op of an update that has two. NULL: attributes have them */
  msc_value *rate, *last_rate;
} update_inserter;

static msc_context *context_of(const update_inserter *s) { return s->pass->ctx; }

/* ---- state ---- */

/* Adds an argument of role state that starts as zeros. owner: the parameter it belongs to; NULL: none. */
static msc_value *add_optimizer_state(update_inserter *s, const msc_type *type, const char *name, const char *owner) {
  msc_context *ctx = context_of(s);
  msc_value *v = msc_add_arg(s->f->body, type, name);
  msc_arg_put(s->f, v->index, msc_fact_msc_name(ctx, name));
  msc_arg_put(s->f, v->index, msc_fact_msc_role(ctx, MSC_ROLE_STATE));
  msc_arg_put(s->f, v->index, msc_fact_msc_init(ctx, "zeros"));
  if (owner) msc_arg_put(s->f, v->index, msc_fact_msc_owner(ctx, owner));
  return v;
}

static msc_value *add_parameter_state(update_inserter *s, const msc_value *w, const char *suffix) {
  const char *owner = msc_name_of_arg(s->f, w->index);
  msc_value *v = add_optimizer_state(s, w->type, msc_arena_printf(s->pass->scratch, "%s%s", owner, suffix), owner);
  const msc_attr_value *model_shape = msc_arg_attr(s->f, w->index, MSC_FACT(msc_model_shape));
  if (model_shape) msc_arg_set(s->f, v->index, MSC_FACT(msc_model_shape), *model_shape);
  return v;
}

static bool name_ends_with(const char *name, const char *suffix) {
  size_t n = strlen(name), m = strlen(suffix);
  return n >= m && !strcmp(name + n - m, suffix);
}

/* Returns `suffix`, made longer until no name of the user ends with it: then no name made with it exists. */
static const char *free_suffix(const update_inserter *s, const char *suffix) {
  for (size_t i = 0; i < s->f->body->num_args; i++)
    if (name_ends_with(msc_name_of_arg(s->f, i), suffix))
      return free_suffix(s, msc_arena_printf(s->pass->scratch, "%s_", suffix));
  return suffix;
}

/* Adds the step counter: an argument that grows by one each step. */
static bool add_step_counter(update_inserter *s) {
  const char *name = msc_free_arg_name(s->f, s->pass->scratch, "optimizer.step");
  msc_value *before = add_optimizer_state(s, msc_type_of(context_of(s), MSC_F32, 0, NULL, NULL), name, NULL);
  s->b.name = msc_intern(context_of(s), name);
  s->step = msc_compute(&s->b, "a + 1", before);
  msc_value *after =
      s->step && s->ok ? msc_build(&s->b, OP_assign, 3, (msc_value *[]){before, s->step, s->ok}) : s->step;
  s->new_value[before->index] = after;
  return after != NULL;
}

/* Counts the step of random ops, after every op that reads the old value. */
static bool add_random_step_counter(update_inserter *s) {
  const msc_attr_value *arg = msc_func_attr(s->f, MSC_FACT(random_step));
  if (!arg || arg->kind != MSC_ATTR_INT || arg->i < 0 || (uint64_t)arg->i >= s->f->body->num_args) return true;
  msc_value *before = s->f->body->args[arg->i];
  s->b.name = msc_intern(context_of(s), msc_name_of_arg(s->f, before->index));
  msc_value *after = msc_compute(&s->b, "a + 1", before);
  s->new_value[before->index] = after;
  return after != NULL;
}

/* ---- update ops ---- */

/* Collects the hyper-parameters of the group that are attributes of `kind`, in the types of its row. */
static size_t collect_hypers(const update_inserter *s, const msc_optimizer_group *group, msc_op_kind kind,
                             msc_attr *out_attrs) {
  const msc_op_info *info = msc_op_info_of(context_of(s), kind);
  size_t num = 0;
  for (int i = 0; i < info->num_attrs; i++) {
    const msc_attr_value *v = msc_find_attr(group->values->dict.a, group->values->dict.num, info->attr[i].name);
    if (!v) continue;
    msc_attr_value number = v->kind == MSC_ATTR_INT ? msc_float((double)v->i) : *v;
    out_attrs[num++] = msc_named(context_of(s), info->attr[i].name, number);
  }
  return num;
}

/* The place of an operand in the row of an op; -1: it has none of this name. */
static int operand_named(const update_inserter *s, msc_op_kind kind, const char *name) {
  const msc_op_info *info = msc_op_info_of(context_of(s), kind);
  for (int i = 0; i < info->num_operands; i++)
    if (!strcmp(info->operand[i].name, name)) return i;
  return -1;
}

/* True if the parameter is read by an op that runs on the host: then it lives there. */
static bool is_read_on_host(const msc_value *w) {
  const msc_use *u = w->uses;
  while (u && !msc_runs_on_host(u->user)) u = u->next;
  return u != NULL;
}

static msc_op *build_update_op(update_inserter *s, const msc_optimizer_group *group, msc_op_kind kind, size_t num_in,
                               msc_value *const *in) {
  msc_attr attrs[12];
  size_t num = collect_hypers(s, group, kind, attrs);
  bool is_last = kind == group->apply && kind != group->update;
  msc_value *all[10], *ok = s->ok, *rate = is_last ? s->last_rate : s->rate;
  bool takes_rate = rate && operand_named(s, kind, "rate") >= 0;
  memcpy(all, in, num_in * sizeof *in);
  if (takes_rate && !ok && !(ok = msc_build_scalar(&s->b, MSC_I1, 1))) return NULL;
  if (ok) all[num_in++] = ok;
  if (takes_rate) all[num_in++] = rate;
  const msc_op_info *info = msc_op_info_of(context_of(s), kind);
  msc_op *op = msc_build_with(&s->b, kind, num_in, all, (size_t)info->num_results, num, attrs);
  if (op && is_read_on_host(in[0])) msc_op_set(op, MSC_FACT(primitive_target), msc_str(context_of(s), "CPU"));
  for (int i = 0; op && i < info->num_operands; i++) /* results are the new values of operands tied to them */
    if (info->operand[i].tied >= 0) s->new_value[in[i]->index] = &op->out[info->operand[i].tied];
  return op;
}

/* The operands of a lazy update beside the gradient g: the numbers in order, and which rows of g are theirs. */
static bool sort_numbers(update_inserter *s, const msc_row_numbers *rows, const msc_value *g, msc_value **out_numbers,
                         msc_value **out_order) {
  msc_value *indices = rows->indices;
  int64_t n = indices->type->dim[0], alike = g->type->dim[0] ? n / g->type->dim[0] : 1;
  msc_op *op = msc_build_with(&s->b, OP_sort, 1, &indices, 2, 0, NULL);
  if (!op) return false;
  msc_value *order = &op->out[1];
  if (rows->places) order = gather(&s->b, rows->places, order, 0);
  else if (alike > 1) order = over(&s->b, order, number(&s->b, order, (double)alike));
  *out_numbers = &op->out[0], *out_order = order;
  return order != NULL;
}

/* Builds the op of the group for w, with the operands of its row: w, states of w, the gradient g, the step t. */
static msc_op *build_update(update_inserter *s, const msc_optimizer_group *group, msc_value *w, msc_value *g) {
  const msc_row_numbers *rows = &s->rows[w->index];
  msc_value *indices = rows->indices, *order = NULL, *in[8];
  msc_op_kind kind = indices ? group->lazy : group->update;
  const msc_op_info *info = msc_op_info_of(context_of(s), kind);
  size_t num = 0;
  if (indices && !sort_numbers(s, rows, g, &indices, &order)) return NULL;
  for (; num < (size_t)info->num_operands && !info->operand[num].optional; num++) {
    char name = info->operand[num].name[0];
    in[num] = name == 'w'   ? w
              : name == 'g' ? g
              : name == 'i' ? indices
              : name == 'o' ? order
              : name == 't' ? s->step
                            : add_parameter_state(s, w, name == 'm' ? s->first : s->second);
  }
  return build_update_op(s, group, kind, num, in);
}

/* |w| / |r|, 1 where one of them is zero. */
static msc_value *build_trust_ratio(update_inserter *s, msc_value *w, msc_value *r) {
  msc_value *w_squares = msc_sum_of_squares(&s->b, w), *r_squares = msc_sum_of_squares(&s->b, r);
  if (msc_is_cut(s->f, w->index))
    w_squares = msc_sum_over_ranks(&s->b, w_squares), r_squares = msc_sum_over_ranks(&s->b, r_squares);
  msc_value *w_norm = msc_compute(&s->b, "sqrt(a)", w_squares), *r_norm = msc_compute(&s->b, "sqrt(a)", r_squares),
            *smaller = msc_compute(&s->b, "min(a, b)", w_norm, r_norm), *ratio = over(&s->b, w_norm, r_norm),
            *both = compare(&s->b, MSC_GT, smaller, msc_build_scalar(&s->b, MSC_F64, 0)),
            *trust = choose(&s->b, both, ratio, msc_build_scalar(&s->b, MSC_F64, 1));
  return cast(&s->b, trust, w->type->dtype);
}

static bool update_parameter(update_inserter *s, const msc_optimizer_group *group, msc_value *w, msc_value *g) {
  s->b.name =
      msc_intern(context_of(s), msc_arena_printf(s->pass->scratch, "%s.update", msc_name_of_arg(s->f, w->index)));
  msc_op *op = build_update(s, group, w, g);
  if (!op || group->apply == group->update) return op != NULL;
  msc_value *r = &op->out[0], *trust = build_trust_ratio(s, w, r);
  return build_update_op(s, group, group->apply, 3, (msc_value *[]){w, r, trust}) != NULL;
}

/* Divides the gradients by the divisor of a loss that is a quotient, since they are those of its dividend. 4_partition
 * sums the divisor over the micro-batches, as it sums the gradients. */
static bool divide_gradients(update_inserter *s) {
  const msc_op *quotient = msc_loss_quotient(s->f);
  s->b.name = quotient ? quotient->name : NULL;
  for (size_t i = 0; quotient && i < s->num_grads; i++) {
    msc_value *g = s->grad[i];
    if (g) MSC_TRY((s->grad[i] = over(&s->b, g, cast(&s->b, quotient->in[1].value, g->type->dtype))));
  }
  return true;
}

/* Prepares the gradients for the updates: undoes the loss scale and clips them to the norm `clip_norm`. */
static bool prepare_gradients(update_inserter *s, double clip_norm) {
  MSC_TRY(divide_gradients(s));
  s->b.name = msc_intern(context_of(s), "loss_scale");
  MSC_TRY(msc_unscale_gradients(&s->b, s->num_grads, s->grad) &&
          msc_gradients_finite(&s->b, s->num_grads, s->grad, &s->ok));
  s->b.name = clip_norm > 0 ? msc_intern(context_of(s), "clip_norm") : NULL;
  return clip_norm <= 0 || msc_clip_gradients(&s->b, clip_norm, s->num_grads, s->grad);
}

static bool scale_next_step(update_inserter *s) {
  msc_loss_scale scale = msc_config_loss_scale(s->pass->config);
  s->b.name = msc_intern(context_of(s), "loss_scale");
  return msc_next_scale(&s->b, &scale, s->ok, s->new_value);
}

/* Adds the state that is a hyper-parameter of a group; it starts as `value`. NULL after a report. */
static msc_value *add_hyper(update_inserter *s, const char *hyper, size_t group, double value) {
  msc_arena *a = s->pass->scratch;
  const char *name =
      group ? msc_arena_printf(a, "optimizer.%s.%zu", hyper, group) : msc_arena_printf(a, "optimizer.%s", hyper);
  bool is_lr = !strcmp(hyper, "lr");
  if (strcmp(msc_free_arg_name(s->f, a, name), name)) { /* programs set it by this name */
    msc_error(context_of(s), MSC_E_CONFIG, s->f->loc, "'%s' is the name of %s, with %s: give the parameter another",
              name, is_lr ? "the learning rate" : "a number of the optimizer",
              is_lr ? "variable_lr" : "variable_hypers");
    return NULL;
  }
  msc_value *v = add_optimizer_state(s, msc_type_of(context_of(s), MSC_F64, 0, NULL, NULL), name, NULL);
  msc_arg_put(s->f, v->index, msc_fact_msc_init(context_of(s), msc_arena_printf(a, "constant:%.17g", value)));
  return v;
}

/* The hyper-parameter that `spec` describes, as the group or else its row says. */
static double hyper_of_group(const msc_optimizer_group *group, const msc_attr_spec *spec) {
  const msc_attr_value *v = msc_find_attr(group->values->dict.a, group->values->dict.num, spec->name);
  if (!v) return spec->has_default ? strtod(spec->default_text, NULL) : 0;
  return v->kind == MSC_ATTR_INT ? (double)v->i : v->f;
}

/* Builds the list of the hyper-parameters of an op of the group. */
static msc_value *list_hypers(update_inserter *s, const msc_optimizer_group *group, size_t number) {
  const msc_op_info *info = msc_op_info_of(context_of(s), group->update);
  msc_value *hyper[MSC_OP_ATTRS];
  size_t num = 0;
  s->b.name = msc_intern(context_of(s), "optimizer.hypers");
  for (int i = 0; i < info->num_attrs; i++) {
    if (info->attr[i].kind != MSC_ATTR_FLOAT) continue;
    msc_value *v = add_hyper(s, info->attr[i].name, number, hyper_of_group(group, &info->attr[i]));
    if (!v || !(hyper[num++] = reshape(&s->b, v, 1, (int64_t[]){1}))) return NULL;
  }
  return join_along(&s->b, 0, num, hyper);
}

/* Sets s->rate and s->last_rate to what changes from step to step: with variable_lr the learning rate, with
 * variable_hypers the list of all hyper-parameters of the group's op; where a step takes two ops, of the first, and the
 * learning rate is the second's. */
static bool add_rate(update_inserter *s, const msc_optimizer_group *group, size_t number) {
  bool all = msc_config_bool(s->pass->config, MSC_KEY_variable_hypers), two = group->apply != group->update;
  const msc_attr_spec lr = {.name = "lr"};
  s->rate = s->last_rate = NULL;
  if (!all && !msc_config_bool(s->pass->config, MSC_KEY_variable_lr)) return true;
  if (two || !all) MSC_TRY(s->last_rate = add_hyper(s, "lr", number, hyper_of_group(group, &lr)));
  if (all) MSC_TRY(s->rate = list_hypers(s, group, number));
  else if (!two) s->rate = s->last_rate;
  return true;
}

static bool update_all(update_inserter *s, const msc_optimizer_groups *groups) {
  /* new values are built in the order of their arguments */
  MSC_TRY(msc_keep_rows_apart(&s->b, s->pass, groups, s->grad, s->rows));
  MSC_TRY(prepare_gradients(s, groups->clip_norm) && scale_next_step(s));
  for (size_t g = 0; g < groups->num && !s->step; g++)
    if (operand_named(s, groups->group[g].update, "t") >= 0) MSC_TRY(add_step_counter(s));
  for (size_t g = 0; g < groups->num; g++) {
    const msc_optimizer_group *group = &groups->group[g];
    MSC_TRY(add_rate(s, group, g));
    for (size_t i = 0; i < group->num_args; i++) {
      uint32_t arg = group->arg[i];
      if (s->grad[arg]) MSC_TRY(update_parameter(s, group, s->f->body->args[arg], s->grad[arg]));
      msc_stat(s->pass, "parameters updated", s->grad[arg] != NULL);
    }
  }
  return true;
}

/* ---- results ---- */

/* Checks that no output is a trained parameter: an update writes its parameter in place, so the old value cannot be
 * an output of the step. */
static bool check_outputs_not_updated(const update_inserter *s, size_t num) {
  bool ok = true;
  for (size_t i = 0; i < num; i++) {
    const msc_value *v = msc_memory_of(s->ret->in[i].value).root;
    if (!v->def && s->grad[v->index])
      ok =
          msc_error(context_of(s), MSC_E_UNSUPPORTED, s->f->loc,
                    "output %zu is the trained parameter '%s' itself: not supported yet; a checkpoint holds its values",
                    i, msc_name_of_arg(s->f, v->index));
  }
  return ok;
}

/* Drops the names of results from `num` on. */
static void truncate_result_names(msc_func *f, size_t num) {
  const msc_attr_value *names = msc_func_attr(f, MSC_FACT(results));
  if (names && names->kind == MSC_ATTR_LIST && names->list.num > num)
    msc_func_put(f, msc_fact_results(f->module->ctx, num, names->list.v));
}

static void drop_func_attr(msc_func *f, const char *name) { msc_drop_attr(f->attrs, &f->num_attrs, name); }

/* Keeps the first `num` results; new values follow in the order of the arguments. */
static bool write_train_results(update_inserter *s, size_t num) {
  const msc_block *b = s->f->body;
  msc_context *ctx = context_of(s);
  msc_value **results = msc_new_array(s->pass->scratch, msc_value *, num + b->num_args);
  int64_t *ties = msc_new_array(s->pass->scratch, int64_t, num + b->num_args);
  const char **names = msc_new_array(s->pass->scratch, const char *, b->num_args + 1);
  size_t num_names = 0;
  const msc_attr_value *old = msc_func_attr(s->f, MSC_FACT(ties));
  for (size_t i = 0; i < num; i++) {
    results[i] = s->ret->in[i].value;
    ties[i] = old && old->kind == MSC_ATTR_LIST && i < old->list.num ? old->list.v[i].i : -1;
  }
  truncate_result_names(s->f, num);
  for (size_t i = 0; i < b->num_args; i++) {
    if (!s->new_value[i]) continue;
    results[num] = s->new_value[i];
    ties[num++] = (int64_t)i;
    names[num_names++] = msc_name_of_arg(s->f, i);
  }
  if (num > UINT16_MAX)
    return msc_error(ctx, MSC_E_UNSUPPORTED, s->f->loc,
                     "more than %d parameters, states and outputs together: not supported yet", UINT16_MAX);
  msc_set_operands(s->ret, num, results);
  msc_add_result_names(s->f, num_names, names);
  msc_func_put(s->f, msc_fact_ties(ctx, num, ties));
  drop_func_attr(s->f, MSC_FACT(gradients));
  drop_func_attr(s->f, MSC_FACT(loss_seed));
  drop_func_attr(s->f, MSC_FACT(loss_scale));
  drop_func_attr(s->f, MSC_FACT(replicas));
  drop_func_attr(s->f, MSC_FACT(random_step));
  drop_func_attr(s->f, MSC_FACT(optimizer));
  s->f->name = msc_intern(ctx, msc_program_kind_name(MSC_PROGRAM_TRAIN));
  return true;
}

/* Reads the attribute `gradients`: the argument numbers of the last results. */
static bool read_gradients(update_inserter *s, const msc_attr_value *gradients, size_t *out_num) {
  size_t num = gradients->kind == MSC_ATTR_LIST ? gradients->list.num : SIZE_MAX, num_args = s->f->body->num_args;
  bool ok = num <= s->ret->num_in;
  for (size_t i = 0; ok && i < num; i++) {
    const msc_attr_value *v = &gradients->list.v[i];
    ok = v->kind == MSC_ATTR_INT && v->i >= 0 && (uint64_t)v->i < num_args;
    if (ok) s->grad[v->i] = s->ret->in[s->ret->num_in - num + i].value;
    ok = ok && s->grad[v->i]->type == s->f->body->args[v->i]->type;
  }
  if (!ok)
    return msc_error(context_of(s), MSC_E_GRADIENT, s->f->loc,
                     "'gradients' must list the arguments whose gradients the last results are");
  *out_num = s->ret->num_in - num;
  return true;
}

/* Without gradient_fp32_sync the cast that widens a gradient belongs to the optimizer: sums before it are narrow. */
static void detach_widening_casts(const update_inserter *s) {
  for (size_t i = 0; i < s->num_grads; i++) {
    msc_op *op = s->grad[i] ? s->grad[i]->def : NULL;
    if (op && op->kind == OP_cast && op->forward) op->forward = NULL, op->letters = NULL;
  }
}

bool pass_optimizer(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_training_func(m);
  const msc_attr_value *gradients = f ? msc_func_attr(f, MSC_FACT(gradients)) : NULL;
  if (!gradients) return true;
  size_t num_args = f->body->num_args, num_results = 0;
  msc_optimizer_groups groups;
  update_inserter s = {.pass = pass, .f = f, .ret = f->body->last};
  s.b = (msc_builder){.func = f, .block = f->body, .before = s.ret, .loc = f->loc};
  s.first = free_suffix(&s, ".m");
  s.second = free_suffix(&s, ".v");
  s.num_grads = num_args;
  s.grad = msc_new_array(pass->scratch, msc_value *, num_args);
  s.rows = msc_new_array(pass->scratch, msc_row_numbers, num_args);
  MSC_TRY(msc_read_optimizer(f, pass->scratch, &groups));
  /* at most two states per parameter, the step, and hyper-parameters per group */
  s.new_value = msc_new_array(pass->scratch, msc_value *, 3 * num_args + 1 + groups.num * MSC_OP_ATTRS);
  MSC_TRY(read_gradients(&s, gradients, &num_results));
  if (!msc_config_bool(pass->config, MSC_KEY_gradient_fp32_sync)) detach_widening_casts(&s);
  return check_outputs_not_updated(&s, num_results) && update_all(&s, &groups) && add_random_step_counter(&s) &&
         write_train_results(&s, num_results);
}
