/* make_vjp.c: a composite op without a gradient function of its own in; op vjp, which stands for its gradient until it
 * is expanded (vjp.c), out. */
#include "ir/grad/op_gradients.h"

bool grad_composite(msc_grad_ctx *g, msc_op *op) {
  const msc_op_info *info = msc_info(op);
  msc_context *ctx = msc_op_ctx(op);
  msc_arena *arena = msc_context_arena(ctx);
  msc_value **in = msc_new_array(arena, msc_value *, op->num_in + op->num_out);
  int64_t *of = msc_new_array(arena, int64_t, op->num_out), *wrt = msc_new_array(arena, int64_t, op->num_in);
  msc_attr *attrs = msc_new_array(arena, msc_attr, info->num_attrs + 3);
  size_t num = op->num_in, num_of = 0, num_wrt = 0, num_attrs = 0;
  for (size_t i = 0; i < num; i++) in[i] = op->in[i].value;
  for (size_t i = 0; i < op->num_out; i++)
    if (g->dresult[i]) in[num + num_of] = g->dresult[i], of[num_of++] = (int64_t)i;
  for (size_t i = 0; i < num; i++)
    if (g->wanted[i]) wrt[num_wrt++] = (int64_t)i;
  attrs[num_attrs++] = msc_named(ctx, "op", msc_str(ctx, info->name));
  attrs[num_attrs++] = msc_named(ctx, "of", msc_ints(ctx, num_of, of));
  attrs[num_attrs++] = msc_named(ctx, "wrt", msc_ints(ctx, num_wrt, wrt));
  for (int i = 0; i < info->num_attrs; i++) {
    const msc_attr_value *v = msc_op_attr(op, info->attr[i].name);
    if (v) attrs[num_attrs++] = msc_named(ctx, info->attr[i].name, *v);
  }
  msc_op *vjp = msc_build_with(&g->b, OP_vjp, num + num_of, in, num_wrt, num_attrs, attrs);
  for (size_t i = 0; vjp && i < num_wrt; i++) g->doperand[wrt[i]] = &vjp->out[i];
  return vjp != NULL;
}
