/* backward_walk.c: ops and the gradients of some of their results in; ops that compute the gradients of the values from
 * which those are computed out. */
#include "ir/grad/backward_walk.h"

#include "ir/formula.h"
#include "ir/grad/op_gradients.h"
#include "ir/op_table.h"

static bool passes_gradient(const msc_op *op) {
  msc_grad_fn *grad = msc_info(op)->grad;
  return grad != grad_none && grad != grad_zero;
}

void msc_mark_active(const msc_reverse *r, const msc_op *end) {
  for (const msc_op *op = r->f->body->first; op != end; op = op->next) {
    bool active = false;
    for (size_t i = 0; i < op->num_in && !active; i++) active = r->active[op->in[i].value->id];
    for (size_t i = 0; i < op->num_out && active && passes_gradient(op); i++)
      r->active[op->out[i].id] = msc_is_float(op->out[i].type->dtype);
  }
}

static void make_gradient_room(msc_reverse *r, size_t n) {
  if (n <= r->wide) return;
  r->wide = 2 * n;
  r->dresult = msc_new_array(r->arena, msc_value *, r->wide);
  r->doperand = msc_new_array(r->arena, msc_value *, r->wide);
  r->wanted = msc_new_array(r->arena, bool, r->wide);
}

/* Sets the fields dresult, doperand and wanted for op. False when no gradient reaches op or none of its operands wants
 * one. */
static bool collect_gradients(msc_reverse *r, const msc_op *op) {
  bool arrives = false, leaves = false;
  make_gradient_room(r, op->num_in > op->num_out ? op->num_in : op->num_out);
  for (size_t i = 0; i < op->num_out; i++) {
    r->dresult[i] = r->active[op->out[i].id] ? r->grad[op->out[i].id] : NULL;
    arrives |= r->dresult[i] != NULL;
  }
  for (size_t i = 0; i < op->num_in; i++) {
    r->doperand[i] = NULL;
    r->wanted[i] = r->active[op->in[i].value->id];
    leaves |= r->wanted[i];
  }
  return arrives && leaves;
}

/* Builds the sum of the gradients `old` (NULL: none) and `more` of v. The forward op of this sum is the one that
 * computes v: it has v's dimensions, which a user of v may not have. */
static msc_value *sum_of(const msc_builder *b, const msc_value *v, msc_value *old, msc_value *more) {
  msc_builder own = *b;
  if (own.forward && v->def) own.forward = v->def;
  return old ? plus(&own, old, more) : more;
}

/* Builds the gradient ops of op and adds the gradients of its operands to r->grad. */
static bool differentiate(msc_reverse *r, msc_op *op) {
  msc_block *block = r->f->body;
  msc_op *before = r->before ? r->before->prev : block->last;
  msc_builder b = {.func = r->f,
                   .block = block,
                   .before = r->before,
                   .loc = op->loc,
                   .name = op->name,
                   .forward = r->built ? op : NULL};
  if (op->name && r->built) b.name = msc_intern(r->f->module->ctx, msc_arena_printf(r->arena, "%s.grad", op->name));
  msc_grad_ctx g = {b, r->dresult, r->wanted, r->doperand};
  msc_grad_fn *grad = msc_info(op)->grad;
  MSC_TRY(grad ? grad(&g, op) : grad_composite(&g, op));
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (r->doperand[i]) MSC_TRY((r->grad[v->id] = sum_of(&b, v, r->grad[v->id], r->doperand[i])));
  }
  msc_op *first = before ? before->next : block->first, *last = r->before ? r->before->prev : block->last;
  if (first == r->before || last == before) return true;
  for (msc_op *o = first; o != r->before; o = o->next)
    for (size_t i = 0; i < o->num_out; i++) o->out[i].id = r->next_id++;
  return !r->built || r->built(r->user, op, first, last, r->dresult, r->doperand);
}

bool msc_reverse_walk(msc_reverse *r, msc_op *last) {
  for (msc_op *op = last; op; op = op->prev) {
    if (!collect_gradients(r, op)) continue;
    const msc_op_info *info = msc_info(op);
    if (!info->grad && !info->expand)
      return r->refuse ? r->refuse(r->user, op) : msc_op_error(op, MSC_E_GRADIENT, "%s: has no gradient", info->name);
    MSC_TRY(differentiate(r, op));
  }
  return true;
}
