/* library.c: says whether a GPU's library computes an op, and predicts how long that takes. */
#include "passes/7_lower/gpu/library.h"

#include "ir/conv.h"
#include "passes/7_lower/target.h"

void msc_graph_mark(const msc_pass_ctx *pass, msc_op *op) {
  msc_op_put(op, msc_fact_library(true));
  if (!msc_is_deterministic(op->block->func->module, pass->config)) msc_op_put(op, msc_fact_any_order(true));
}

bool msc_is_graph(const msc_op *op) {
  bool is_convolution = msc_is_windowed(op) && msc_window_weights(op);
  return (msc_form_of(op) == MSC_FORM_ATTENTION || is_convolution) && msc_op_bool(op, MSC_FACT(library));
}

msc_attention msc_attention_of_op(const msc_op *op, int width) {
  const int64_t *q = op->in[0].value->type->dim, *k = op->in[1].value->type->dim, *v = op->in[2].value->type->dim;
  return msc_attention_of_dims(op->kind == OP_flash_attention_grad, q, k, v[3], width);
}

bool msc_windows_of_op(const msc_op *op, int width, msc_windows *out) {
  msc_conv c = msc_conv_of(op);
  msc_windows v = {.makes = op->kind == OP_conv2d_weight_grad ? MSC_WINDOWS_MAKE_WEIGHTS
                            : c.of_x_result                   ? MSC_WINDOWS_MAKE_X
                                                              : MSC_WINDOWS_MAKE_Y,
                   .n = c.n,
                   .c = c.c,
                   .o = c.o,
                   .groups = c.groups,
                   .width = width};
  for (int i = 0; i < 2; i++) {
    const msc_window *w = &c.dim[i];
    v.x[i] = w->x, v.y[i] = w->y, v.kernel[i] = w->kernel, v.step[i] = w->stride, v.dilation[i] = w->dilation,
    v.padding[i] = w->low;
    if (w->low < 0 || w->low > MSC_WINDOWS_MAX_STEP) return false;
  }
  v.narrow = msc_op_bool(op, MSC_FACT(narrow));
  *out = v;
  return msc_windows_fit(&v);
}

/* ---- predicted time ---- */

double msc_graph_bytes(const msc_op *op) {
  double bytes = 0;
  for (size_t i = 0; i < op->num_in; i++) bytes += (double)msc_type_bytes(op->in[i].value->type);
  for (size_t i = 0; i < op->num_out; i++) bytes += (double)msc_type_bytes(op->out[i].type);
  return bytes;
}

int64_t msc_graph_ns(const msc_op *op, const msc_cost *cost, msc_arena *arena) {
  msc_dtype dtype = msc_op_bool(op, MSC_FACT(narrow)) ? MSC_BF16 : op->out[0].type->dtype;
  return msc_cost_product(cost, dtype, msc_op_flops(op, arena), msc_graph_bytes(op));
}
