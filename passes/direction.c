/* direction.c: function -> which of its ops are forward, which backward; which values are one
 * micro-batch's (see direction.h). */
#include "passes/direction.h"

#include <string.h>

/* The op accumulate that sums the loss over micro-batches; a collective, a cast and others may stand between it and the
 * result. */
const msc_op *msc_sum_of_loss(const msc_func *f) {
  const msc_attr_value *loss = msc_func_attr(f, MSC_FACT(loss));
  const msc_op *op = loss && (size_t)loss->i < f->body->last->num_in ? f->body->last->in[loss->i].value->def : NULL;
  while (op && op->kind != OP_accumulate) op = op->num_in ? op->in[0].value->def : NULL;
  return op;
}

/* True if the use adds a gradient to a sum over micro-batches, where the other sum is that of the loss, or makes a copy
 * of an updated parameter. */
static bool ends_backward(const msc_func *f, const msc_use *u) {
  size_t i = (size_t)(u - u->user->in);
  const msc_attr_value *ties = msc_func_attr(f, MSC_FACT(ties));
  if (u->user != f->body->last || !ties || i >= ties->list.num || ties->list.v[i].i < 0) return false;
  size_t arg = (size_t)ties->list.v[i].i;
  msc_role role = msc_arg_role(f, arg);
  bool sum = role == MSC_ROLE_SUM && msc_fact_read(f, section, MSC_SECTION_F) == MSC_SECTION_FB;
  return role == MSC_ROLE_COPY || (sum && !msc_arg_attr(f, arg, MSC_FACT(msc_loss)));
}

bool msc_is_early_sum(const msc_op *op) { return op && op->kind == OP_accumulate && msc_op_bool(op, "early"); }

bool *msc_forward_ops(msc_arena *arena, msc_func *f) {
  bool *forward = msc_new_array(arena, bool, msc_number(f->body).num_ops);
  const msc_op *loss = msc_sum_of_loss(f);
  for (msc_op *op = f->body->last; op; op = op->prev) {
    bool is_late = op->kind == OP_accumulate && !msc_is_early_sum(op);
    bool ends = msc_info(op)->flags & MSC_UPDATE || (is_late && op != loss);
    forward[op->id] = op == f->body->last;
    for (size_t i = 0; i < op->num_out && !ends; i++)
      for (const msc_use *u = op->out[i].uses; u; u = u->next)
        forward[op->id] |= forward[u->user->id] && !ends_backward(f, u);
  }
  return forward;
}

bool *msc_micro_values(msc_arena *arena, msc_func *f) {
  bool *micro = msc_new_array(arena, bool, msc_number(f->body).num_values);
  for (size_t i = 0; i < f->body->num_args; i++) {
    msc_role role = msc_arg_role(f, i);
    micro[f->body->args[i]->id] = role <= MSC_ROLE_MASK || role == MSC_ROLE_MICRO;
  }
  for (const msc_op *op = f->body->first; op; op = op->next) {
    bool any = false;
    for (size_t i = 0; i < op->num_in; i++) any |= micro[op->in[i].value->id];
    if (op->kind == OP_accumulate || msc_info(op)->flags & MSC_UPDATE) any = false;
    for (size_t i = 0; i < op->num_out; i++) micro[op->out[i].id] = any;
  }
  return micro;
}
