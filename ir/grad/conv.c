/* conv.c: convolutions and pools and the gradients of their results in; ops that compute those of their operands
 * out. */
#include <string.h>

#include "ir/formula.h"
#include "ir/grad/op_gradients.h"
#include "ir/op_table.h"

/* Builds an op over the same windows as `op`; `sizes`: one more attribute, the sizes of t's dimensions 2 and 3. */
static msc_value *build_windowed(msc_grad_ctx *g, const msc_op *op, msc_op_kind kind, size_t num_in,
                                 msc_value *const *in, const char *sizes, const msc_type *t) {
  static const char *const names[] = {"kernel", "stride", "dilation", "padding", "groups"};
  msc_attr attrs[8];
  size_t num = 0;
  const msc_op_info *info = msc_op_info_of(formula_ctx(&g->b), kind);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const msc_attr_value *v = msc_op_attr(op, names[i]);
    bool known = false;
    for (int k = 0; k < info->num_attrs; k++) known |= !strcmp(info->attr[k].name, names[i]);
    if (v && known) attrs[num++] = msc_named(formula_ctx(&g->b), names[i], *v);
  }
  if (sizes) attrs[num++] = msc_named(formula_ctx(&g->b), sizes, msc_ints(formula_ctx(&g->b), 2, t->dim + 2));
  return with_attrs(&g->b, kind, num_in, in, num, attrs);
}

bool grad_conv2d(msc_grad_ctx *g, msc_op *op) {
  msc_value *x = op->in[0].value, *w = op->in[1].value, *dy = g->dresult[0];
  if (g->wanted[0])
    MSC_TRY(g->doperand[0] = build_windowed(g, op, OP_conv2d_transpose, 2, (msc_value *[]){dy, w}, "size", x->type));
  if (g->wanted[1])
    MSC_TRY(g->doperand[1] =
                build_windowed(g, op, OP_conv2d_weight_grad, 2, (msc_value *[]){x, dy}, "kernel", w->type));
  return true;
}

/* x = T(w) y: dy = conv2d of dx, dw as conv2d's with dx in the place of x. */
bool grad_conv2d_transpose(msc_grad_ctx *g, msc_op *op) {
  msc_value *y = op->in[0].value, *w = op->in[1].value, *dx = g->dresult[0];
  if (g->wanted[0]) MSC_TRY(g->doperand[0] = build_windowed(g, op, OP_conv2d, 2, (msc_value *[]){dx, w}, NULL, NULL));
  if (g->wanted[1])
    MSC_TRY(g->doperand[1] =
                build_windowed(g, op, OP_conv2d_weight_grad, 2, (msc_value *[]){dx, y}, "kernel", w->type));
  return true;
}

bool grad_max_pool(msc_grad_ctx *g, msc_op *op) {
  msc_value *x = op->in[0].value, *index = build_windowed(g, op, OP_max_pool_index, 1, &x, NULL, NULL);
  MSC_TRY(index);
  g->doperand[0] = build_windowed(g, op, OP_max_pool_grad, 2, (msc_value *[]){index, g->dresult[0]}, "size", x->type);
  return g->doperand[0] != NULL;
}

/* Divides dy by the share of each window that lies inside the image; that share is the average pool of an image of
 * ones. */
static msc_value *divide_by_share_inside(msc_grad_ctx *g, const msc_op *op) {
  const msc_type *x = op->in[0].value->type;
  int64_t shape[4] = {1, 1, x->dim[2], x->dim[3]};
  msc_value *one = msc_build_scalar(&g->b, x->dtype, 1),
            *ones = broadcast(&g->b, one, 4, shape);
  return over(&g->b, g->dresult[0], build_windowed(g, op, OP_avg_pool, 1, &ones, NULL, NULL));
}

bool grad_avg_pool(msc_grad_ctx *g, msc_op *op) {
  msc_value *dy = msc_op_bool(op, "count_include_pad") ? g->dresult[0] : divide_by_share_inside(g, op);
  MSC_TRY(dy);
  g->doperand[0] = build_windowed(g, op, OP_avg_pool_grad, 1, &dy, "size", op->in[0].value->type);
  return g->doperand[0] != NULL;
}
