/* autodiff: func "forward" with a loss and an optimizer -> the same with the gradients of its trained parameters as
 * further results, listed in the attribute `gradients`.
 *
 * A walk forward marks what depends on a trained parameter; a walk backward builds gradients of just those values.
 * Behind it stop_gradient has done its work and is removed from all functions, also from those that are not trained. */
#include "ir/fact.h"
#include "ir/formula.h"
#include "ir/grad/backward_walk.h"
#include "passes/2_train/train.h"
#include "passes/7_lower/target.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_op *ret;
  msc_optimizer_groups groups;
  msc_reverse walk;
  msc_letter_map *map;
} autodiff;

/* ---- an op in the way ---- */

/* Adds notes with the path from the op back to a parameter: at each op its first operand that depends on one. */
static void add_path_notes(const autodiff *a, const msc_op *op) {
  msc_context *ctx = a->pass->ctx;
  for (int steps = 0; op; steps++) {
    const msc_value *v = NULL;
    for (size_t i = 0; i < op->num_in && !v; i++)
      if (a->walk.active[op->in[i].value->id]) v = op->in[i].value;
    if (!v) return;
    if (!v->def) {
      msc_note(ctx, a->f->loc, "%sparameter '%s'", steps > 8 ? "... from " : "from ", msc_name_of_arg(a->f, v->index));
      return;
    }
    op = v->def;
    if (steps < 8)
      msc_note(ctx, op->loc, "through %s%s%s", msc_kind_name(op->kind), op->name ? " " : "", op->name ? op->name : "");
  }
}

static bool report_not_differentiable(const autodiff *a, const msc_op *op) {
  msc_op_error(op, MSC_E_GRADIENT,
               "%s: the loss depends on a trainable parameter through this op, which has no gradient",
               msc_kind_name(op->kind));
  add_path_notes(a, op);
  return false;
}

static bool report_op_without_gradient(void *user, const msc_op *op) { return report_not_differentiable(user, op); }

/* ---- the walk ---- */

/* The host computes the gradients of what it computes, too. */
static void leave_to_host(const msc_op *forward, msc_op *first, const msc_op *last) {
  for (msc_op *op = msc_runs_on_host(forward) ? first : NULL; op; op = op == last ? NULL : op->next)
    if (!msc_is_constant_op(op))
      msc_op_set(op, MSC_FACT(primitive_target), *msc_op_attr(forward, MSC_FACT(primitive_target)));
}

static bool map_letters_of_op(void *user, msc_op *forward, msc_op *first, msc_op *last, msc_value *const *dresult,
                              msc_value *const *doperand) {
  const autodiff *a = user;
  leave_to_host(forward, first, last);
  return msc_map_letters(a->map, forward, first, last, dresult, doperand);
}

/* Builds the gradient of the loss itself: 1, or what replica_objective set, times a dynamic loss_scale. */
static msc_value *build_loss_gradient(autodiff *a, const msc_value *loss) {
  msc_builder b = {.func = a->f, .block = a->f->body, .before = a->ret, .loc = loss->def ? loss->def->loc : a->f->loc};
  msc_value *v = msc_build_scalar(&b, loss->type->dtype, msc_loss_seed(a->f)), *scale = msc_dynamic_scale(a->f);
  if (v && scale) v = times(&b, v, cast(&b, scale, loss->type->dtype));
  if (v) v->id = a->walk.next_id++;
  return v;
}

static bool build_all_gradients(autodiff *a, msc_value *loss) {
  msc_op *last = a->ret->prev;
  MSC_TRY((a->walk.grad[loss->id] = build_loss_gradient(a, loss)));
  return msc_reverse_walk(&a->walk, last);
}

static void mark_trained_values(autodiff *a) {
  for (size_t g = 0; g < a->groups.num; g++)
    for (size_t i = 0; i < a->groups.group[g].num_args; i++)
      a->walk.active[a->f->body->args[a->groups.group[g].arg[i]]->id] = true;
  msc_mark_active(&a->walk, a->ret);
}

/* ---- results ---- */

static bool is_trained(const autodiff *a, size_t arg) { return a->walk.active[a->f->body->args[arg]->id]; }

static bool warn_of_unused_parameters(const autodiff *a) {
  size_t num = 0;
  for (size_t i = 0; i < a->f->body->num_args; i++) num += is_trained(a, i) && a->walk.grad[a->f->body->args[i]->id];
  if (!num) return msc_error(a->pass->ctx, MSC_E_GRADIENT, a->f->loc, "the loss depends on no trainable parameter");
  for (size_t i = 0; i < a->f->body->num_args; i++)
    if (is_trained(a, i) && !a->walk.grad[a->f->body->args[i]->id])
      msc_warning(a->pass->ctx, MSC_E_GRADIENT, a->f->loc,
                  "parameter '%s' does not influence the loss; it stays as it is", msc_name_of_arg(a->f, i));
  return true;
}

/* Appends the gradients to the results, in the order of the arguments; a parameter without one is not updated. */
static bool add_gradient_results(autodiff *a) {
  msc_context *ctx = a->pass->ctx;
  const msc_block *b = a->f->body;
  msc_value **results = msc_new_array(a->pass->scratch, msc_value *, a->ret->num_in + b->num_args);
  int64_t *args = msc_new_array(a->pass->scratch, int64_t, b->num_args + 1);
  const char **names = msc_new_array(a->pass->scratch, const char *, b->num_args + 1);
  size_t num = a->ret->num_in, num_grads = 0;
  MSC_TRY(warn_of_unused_parameters(a));
  for (size_t i = 0; i < num; i++) results[i] = a->ret->in[i].value;
  for (size_t i = 0; i < b->num_args; i++) {
    msc_value *grad = is_trained(a, i) ? a->walk.grad[b->args[i]->id] : NULL;
    if (!grad) continue;
    results[num + num_grads] = grad;
    names[num_grads] = msc_arena_printf(a->pass->scratch, "%s.grad", msc_name_of_arg(a->f, i));
    args[num_grads++] = (int64_t)i;
  }
  if (num + num_grads > UINT16_MAX)
    return msc_error(ctx, MSC_E_UNSUPPORTED, a->f->loc,
                     "more than %d parameters and outputs together: not supported yet", UINT16_MAX);
  msc_set_operands(a->ret, num + num_grads, results);
  msc_add_result_names(a->f, num_grads, names);
  msc_func_put(a->f, msc_fact_gradients(ctx, num_grads, args));
  msc_stat(a->pass, "gradients", (int64_t)num_grads);
  return true;
}

/* Removes the ops stop_gradient, except those with a layout given by the user: they say where that layout holds. */
static void remove_stop_gradients(msc_pass_ctx *pass, msc_func *f) {
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind != OP_stop_gradient || msc_has_user_constraint(op)) continue;
    msc_replace_uses(&op->out[0], op->in[0].value);
    msc_op_erase(op);
    msc_stat(pass, "stop_gradient removed", 1);
  }
}

static bool add_gradients(msc_pass_ctx *pass, msc_func *f) {
  autodiff a = {.pass = pass, .f = f};
  a.ret = a.f->body->last;
  msc_value *loss = msc_loss_of(a.f);
  const msc_op *quotient = msc_loss_quotient(a.f);
  if (quotient) loss = quotient->in[0].value;
  if (!loss || !msc_read_optimizer(a.f, pass->scratch, &a.groups)) return false;
  msc_numbering n = msc_number(a.f->body);
  a.walk = (msc_reverse){.f = a.f,
                         .arena = pass->scratch,
                         .before = a.ret,
                         .next_id = n.num_values,
                         .built = map_letters_of_op,
                         .refuse = report_op_without_gradient,
                         .user = &a};
  a.walk.active = msc_new_array(pass->scratch, bool, n.num_values);
  a.walk.grad = msc_new_array(pass->scratch, msc_value *, n.num_values);
  a.map = msc_letter_map_new(pass->ctx, pass->scratch);
  mark_trained_values(&a);
  bool ok = build_all_gradients(&a, loss) && add_gradient_results(&a);
  msc_letter_map_free(a.map);
  return ok;
}

bool pass_autodiff(msc_pass_ctx *pass, msc_module *m) {
  msc_func *trained = msc_training_func(m);
  if (trained && !msc_func_attr(trained, MSC_FACT(gradients))) MSC_TRY(add_gradients(pass, trained));
  for (msc_func *f = m->first; f; f = f->next) remove_stop_gradients(pass, f);
  return true;
}
