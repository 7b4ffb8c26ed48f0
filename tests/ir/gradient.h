/* gradient.h: turns a function of a single op into the function of its gradients. */
#ifndef MSC_TESTS_IR_GRADIENT_H
#define MSC_TESTS_IR_GRADIENT_H

#include "ir/grad/op_gradients.h"
#include "ir/op_table.h"
#include "passes/2_train/train.h"

typedef struct {
  msc_func *func; /* arguments: the op's operands, then the gradients of its float results */
  msc_op *op;
  size_t *of; /* result i of the function is the gradient of operand of[i] */
} gradient_func;

static inline bool has_gradient(const msc_op *op) {
  msc_grad_fn *grad = msc_info(op)->grad;
  return grad ? grad != grad_none && grad != grad_zero : msc_info(op)->expand != NULL;
}

/* Changes the function of one op: gradient ops, with `forward` and `letters`, stand behind the op, and their values are
 * returned instead of the op's.  False when no gradient flows. */
static inline bool gradients_of(msc_op *op, gradient_func *out) {
  msc_context *ctx = msc_op_ctx(op);
  msc_arena *arena = msc_context_arena(ctx);
  msc_func *f = op->block->func;
  size_t num = 0;
  msc_value **dresult = msc_new_array(arena, msc_value *, op->num_out),
            **doperand = msc_new_array(arena, msc_value *, op->num_in);
  bool *wanted = msc_new_array(arena, bool, op->num_in);
  msc_op_erase(f->body->last);
  for (size_t i = 0; i < op->num_out; i++)
    if (msc_is_float(op->out[i].type->dtype)) dresult[i] = msc_add_arg(f->body, op->out[i].type, NULL), num++;
  if (!has_gradient(op) || num == 0) return false;
  for (size_t i = 0; i < op->num_in; i++) wanted[i] = msc_is_float(op->in[i].value->type->dtype);
  msc_grad_ctx g = {{.func = f, .loc = f->loc, .forward = op}, dresult, wanted, doperand};
  MSC_TRY(msc_info(op)->grad ? msc_info(op)->grad(&g, op) : grad_composite(&g, op));
  msc_number(f->body);
  msc_letter_map *map = msc_letter_map_new(ctx, arena);
  bool ok = !op->next || msc_map_letters(map, op, op->next, f->body->last, dresult, doperand);
  msc_letter_map_free(map);
  num = 0;
  *out = (gradient_func){f, op, NULL};
  out->of = msc_new_array(arena, size_t, op->num_in);
  for (size_t i = 0; i < op->num_in; i++)
    if (doperand[i]) out->of[num] = i, doperand[num++] = doperand[i];
  msc_append_return(f, num, doperand, NULL);
  return ok && num > 0;
}

#endif
