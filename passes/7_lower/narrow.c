/* narrow: a wider copy of x, f32 of bf16, that forward and backward read -> one in each, so that x alone is kept in between.
 *
 * Where no product lies between the two, as between a loss and its gradient, they may become one kernel and share the copy. */
#include "passes/direction.h"
#include "passes/pass.h"

/* By op id: products before it. */
static const uint32_t *count_products(msc_arena *scratch, const msc_func *f) {
  uint32_t num = 0, *products = msc_new_array(scratch, uint32_t, f->body->last->id + 1);
  for (const msc_op *op = f->body->first; op; op = op->next) {
    products[op->id] = num;
    num += msc_info(op)->cost == MSC_COST_FLOPS;
  }
  return products;
}

static bool widens(const msc_op *op) { return op->kind == OP_cast && msc_type_bytes(op->out[0].type) > msc_type_bytes(op->in[0].value->type); }

/* The first of the backward's users, or NULL.  A return is nobody's. */
static msc_op *first_in_backward(const msc_value *v, const bool *forward) {
  msc_op *first = NULL;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (!forward[u->user->id] && (!first || u->user->id < first->id)) first = u->user;
  return first;
}

static void copy_for_backward(msc_func *f, msc_op *op, msc_op *first, const bool *forward) {
  msc_op *copy = msc_op_copy(f, op, &(msc_value *){op->in[0].value});
  copy->id = first->id;
  msc_insert_before(first, copy);
  for (msc_use *u = op->out[0].uses, *next; u; u = next) {
    next = u->next;
    if (!forward[u->user->id]) msc_set_operand(u->user, (size_t)(u - u->user->in), &copy->out[0]);
  }
}

static int64_t narrow(msc_arena *scratch, msc_func *f) {
  const bool *forward = msc_forward_ops(scratch, f);
  const uint32_t *products = count_products(scratch, f);
  int64_t num = 0;
  for (msc_op *op = f->body->first; op; op = op->next) {
    msc_op *first = forward[op->id] && widens(op) ? first_in_backward(&op->out[0], forward) : NULL;
    if (!first || products[first->id] == products[op->id]) continue;
    copy_for_backward(f, op, first, forward);
    num++;
  }
  return num;
}

bool pass_narrow(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) num += narrow(pass->scratch, f);
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "casts in the backward", num);
  return true;
}
