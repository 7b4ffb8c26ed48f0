/* accumulate: func train over one micro-batch, with layouts -> `accumulate` between what runs for every micro-batch and what
 * runs once per step: in front of the updates and what serves them alone, and of the loss.
 *
 * The sum over micro-batches is taken in the layout that the gradient has, partial or not, so what the update wants beyond that
 * is one collective per step; from zero 2 on in the layout that the update wants, for less memory and one collective per micro-batch.  A cast that widens the gradient for its sum over the replicas comes before it. */
#include <string.h>

#include "passes/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  int64_t count;
  bool cuts;       /* sums are cut as updates are */
  bool *per_micro; /* by value id: depends on the batch */
  bool *per_step;  /* by op id: serves updates alone */
  msc_value **sum; /* by value id */
} accumulating;

static void mark_values(accumulating *a) {
  for (size_t i = 0; i < a->f->body->num_args; i++) {
    msc_role role = msc_arg_role(a->f, i);
    a->per_micro[a->f->body->args[i]->id] = role <= MSC_ROLE_MASK || role == MSC_ROLE_MICRO;
  }
  for (const msc_op *op = a->f->body->first; op; op = op->next) {
    bool any = false;
    for (size_t i = 0; i < op->num_in; i++) any |= a->per_micro[op->in[i].value->id];
    for (size_t i = 0; i < op->num_out; i++) a->per_micro[op->out[i].id] = any;
  }
}

static bool widens(const msc_op *op) { return op->kind == OP_cast && op->out[0].type->dtype == MSC_F32 && msc_dtype_bytes(op->in[0].value->type->dtype) < 4; }

/* Gradient ops know their forward op; what has none and is used by updates only came with the optimizer. */
static bool serves_updates(const accumulating *a, const msc_op *op) {
  if (msc_info(op)->flags & MSC_UPDATE) return true;
  if (op->forward || msc_info(op)->flags & MSC_TERMINATOR || widens(op)) return false;
  bool any = false;
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next) {
      if (!a->per_step[u->user->id]) return false;
      any = true;
    }
  return any;
}

static msc_value *sum_of(accumulating *a, msc_value *v, const msc_layout *want, bool mean) {
  if (a->sum[v->id]) return a->sum[v->id];
  msc_builder b = {.func = a->f, .block = a->f->body, .before = v->def->next, .loc = v->def->loc, .name = v->def->name};
  msc_attr attrs[2] = {msc_named(a->pass->ctx, "count", msc_int(a->count)), msc_named(a->pass->ctx, "mean", msc_bool(true))};
  msc_op *op = msc_build_with(&b, OP_accumulate, 1, &v, 1, mean ? 2 : 1, attrs);
  if (!op) return NULL;
  op->out[0].type = v->type;
  if (want && want != v->type->layout) {
    msc_attr_value text = msc_str(a->pass->ctx, msc_layout_print(a->pass->scratch, &a->f->module->mesh, want));
    msc_op_set(op, "in_layout", msc_list(a->pass->ctx, 1, &text));
    op->out[0].type = msc_type_with_layout(a->pass->ctx, v->type, want);
  }
  msc_stat(a->pass, "sums over micro-batches", 1);
  return a->sum[v->id] = &op->out[0];
}

static bool serve(accumulating *a, msc_op *op, size_t operand, bool mean) {
  msc_value *v = op->in[operand].value;
  bool is_new = v->def && v->def->kind == OP_accumulate;
  if (is_new || !v->def || !a->per_micro[v->id] || a->per_step[v->def->id]) return true;
  const msc_attr_value *wants = a->cuts ? msc_op_attr(op, "in_layout") : NULL;
  const msc_layout *want = NULL;
  if (wants && v->type->layout && v->type->rank) MSC_TRY(msc_layout_parse(a->pass->ctx, &a->f->module->mesh, op->loc, wants->list.v[operand].s, &want));
  msc_value *sum = sum_of(a, v, want, mean);
  if (sum) msc_set_operand(op, operand, sum);
  return sum != NULL;
}

bool pass_accumulate(msc_pass_ctx *pass, msc_module *m) {
  accumulating a = {.pass = pass, .f = msc_find_func(m, "train")};
  const msc_attr_value *micro = a.f ? msc_func_attr(a.f, "micro") : NULL, *loss = a.f ? msc_func_attr(a.f, "loss") : NULL;
  if (!micro || !loss || msc_func_attr(a.f, "accumulated")) return true;
  a.count = micro->i;
  a.cuts = msc_config_zero(pass->config) >= 2;
  msc_numbering n = msc_number(a.f->body);
  a.per_micro = msc_new_array(pass->scratch, bool, n.num_values);
  a.per_step = msc_new_array(pass->scratch, bool, n.num_ops);
  a.sum = msc_new_array(pass->scratch, msc_value *, n.num_values);
  mark_values(&a);
  for (msc_op *op = a.f->body->last; op; op = op->prev) a.per_step[op->id] = serves_updates(&a, op);
  for (msc_op *op = a.f->body->first; op; op = op->next)
    for (size_t i = 0; i < op->num_in && op->kind != OP_accumulate && a.per_step[op->id]; i++) MSC_TRY(serve(&a, op, i, false));
  MSC_TRY(serve(&a, a.f->body->last, (size_t)loss->i, msc_func_attr(a.f, "micro_mean") != NULL));
  msc_func_set(a.f, "accumulated", msc_bool(true));
  return true;
}
