/* graphs.c: an op of attention or convolution, which a GPU's library computes, or a CPU by kernels of products, in; its
 * graph in the plan, with a bound for its workspace, out. */
#include <math.h>
#include <string.h>

#include "codegen/plan/plan.h"
#include "ir/alias.h"
#include "ir/conv.h"
#include "passes/7_lower/gpu/library.h"

static void put_operand(msc_plan_graph *g, const msc_value *v) {
  msc_plan_operand *o = &g->operand[g->num_operands++];
  int64_t stride[MSC_MAX_RANK];
  msc_strides(v, stride);
  o->dtype = v->type->dtype;
  for (int d = 0; d < 4; d++) {
    o->shape[d] = d < v->type->rank ? (uint64_t)v->type->dim[d] : 1;
    o->stride[d] = d < v->type->rank ? (uint64_t)stride[d] : 1;
  }
}

static uint64_t align_to(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

/* Returns a bound for the workspace of attention, from what cuDNN 9.19 and 9.26 use on sm_80, sm_90 and sm_100. It has
 * gradients of all scores if the order of sums is fixed, else a copy of dq in f32; and for f32 the gradients that are
 * added up over heads with shared keys and values. */
static uint64_t attention_workspace(const msc_plan_graph *g) {
  enum { BLOCK = 128, SLACK = 1 << 20 };
  const uint64_t *q = g->operand[0].shape, *k = g->operand[1].shape, *v = g->operand[2].shape;
  uint64_t heads = q[0] * q[1], rows = align_to(q[2], BLOCK);
  if (g->num_operands < 9) return SLACK; /* forward */
  uint64_t sums = 4 * heads * rows, dq = 4 * heads * rows * q[3], keys = align_to(k[2], BLOCK);
  uint64_t shared = q[1] == k[1] ? 0 : 4 * heads * keys * (k[3] + v[3]);
  return sums + shared + (g->deterministic ? 2 * heads * rows * keys : 2 * dq) + SLACK;
}

/* Returns a bound for the copy that cuDNN makes of an operand. None is made of 16-bit elements whose channels are the
 * last dimension, except to pad their number to a multiple of 8. */
static uint64_t copied_bytes(const msc_plan_operand *o) {
  enum { CHANNELS = 8 };
  uint64_t bytes = (uint64_t)msc_dtype_bytes(o->dtype), c = o->shape[1];
  if (bytes != 2 || o->stride[1] != 1 || (o->stride[3] == 1 && o->shape[3] > 1))
    return bytes * o->shape[0] * o->stride[0];
  return c % CHANNELS ? bytes * o->shape[0] * o->shape[2] * o->shape[3] * align_to(c, CHANNELS) : 0;
}

/* Returns a bound for the workspace of a convolution: copies of operands with their dimensions in another order, of
 * which up to 1.4 times the operands' bytes were seen; and for gradients of weights parts of sums. */
static uint64_t convolution_workspace(const msc_plan_graph *g) {
  enum { SLACK = 32 << 20, PARTS = 4 };
  uint64_t bytes = 0;
  for (size_t i = 0; i < g->num_operands; i++) bytes += copied_bytes(&g->operand[i]);
  if (g->kind == PLAN_GRAPH_KIND_CONV_WEIGHT) {
    const uint64_t *w = g->operand[g->num_operands - 1].shape;
    bytes += (uint64_t)msc_dtype_bytes(MSC_F32) * PARTS * w[0] * w[1] * w[2] * w[3];
  }
  return bytes + bytes / 2 + SLACK;
}

static void set_attention_graph(msc_plan_graph *g, const msc_op *op) {
  int64_t e = op->in[0].value->type->dim[3];
  bool is_grad = op->kind == OP_flash_attention_grad, has_extra = op->num_in == (is_grad ? 7 : 4);
  g->kind = !has_extra                  ? PLAN_GRAPH_KIND_ATTENTION
            : msc_op_bool(op, "masked") ? PLAN_GRAPH_KIND_MASKED_ATTENTION
                                        : PLAN_GRAPH_KIND_DROPPED_ATTENTION;
  if (is_grad) g->kind++; /* the gradient's kind follows the kind of its op */
  g->causal = msc_op_bool(op, "causal");
  g->scale = msc_op_float(op, "scale");
  if (g->scale == 0) g->scale = 1 / sqrt((double)e);
  g->bytes = attention_workspace(g);
}

static void set_convolution(msc_plan_graph *g, const msc_op *op) {
  msc_conv c = msc_conv_of(op);
  g->relu = op->kind == OP_biased_conv2d && msc_op_bool(op, "relu");
  g->kind = op->kind == OP_conv2d             ? PLAN_GRAPH_KIND_CONV
            : op->kind == OP_biased_conv2d    ? PLAN_GRAPH_KIND_BIASED_CONV
            : op->kind == OP_conv2d_transpose ? PLAN_GRAPH_KIND_CONV_DATA
                                              : PLAN_GRAPH_KIND_CONV_WEIGHT;
  for (int i = 0; i < 2; i++)
    g->step[i] = (uint64_t)c.dim[i].stride, g->dilation[i] = (uint64_t)c.dim[i].dilation,
    g->padding[i] = (uint64_t)c.dim[i].low;
  g->bytes = convolution_workspace(g);
}

static bool plan_attention(msc_codegen *cg, const msc_op *op, msc_plan_graph *g, msc_product_kernels *kernels) {
  msc_attention a = msc_attention_of_op(op, 1);
  if (!msc_codegen_product(cg, MSC_F32, true, 1, kernels))
    return msc_op_error(op, MSC_E_INTERNAL, "%s: no kernels for its blocks", msc_kind_name(op->kind));
  a.width = kernels->width;
  msc_attention_cut u = msc_attention_cut_of(&a);
  g->bytes = (uint64_t)msc_attention_bytes(&u);
  return true;
}

static bool plan_windows(msc_codegen *cg, const msc_op *op, msc_plan_graph *g, msc_product_kernels *kernels) {
  msc_windows v;
  if (!msc_windows_of_op(op, 1, &v) || !msc_codegen_product(cg, MSC_F32, msc_windows_pack_transposed(&v), 1, kernels))
    return msc_op_error(op, MSC_E_INTERNAL, "%s: no kernels for its windows", msc_kind_name(op->kind));
  v.width = kernels->width;
  v.narrow = v.narrow && msc_codegen_pairs(cg, &kernels->multiply); /* what is packed stays f32 */
  g->pairs = v.narrow;
  msc_windows_cut u = msc_windows_cut_of(&v);
  g->bytes = (uint64_t)msc_windows_bytes(&u);
  return true;
}

bool msc_plan_graph_kernels(msc_codegen *cg, const msc_op *op, msc_plan_graph *g) {
  msc_product_kernels kernels;
  bool attends = msc_form_of(op) == MSC_FORM_ATTENTION;
  MSC_TRY((attends ? plan_attention : plan_windows)(cg, op, g, &kernels));
  g->on_cpu = true, g->pack = kernels.pack, g->multiply = kernels.multiply, g->width = (uint32_t)kernels.width;
  return true;
}

void msc_plan_graph_of(const msc_op *op, msc_plan_graph *out) {
  memset(out, 0, sizeof *out); /* clears the padding, too: equal graphs are found by their bytes */
  for (size_t i = 0; i < op->num_in; i++) put_operand(out, op->in[i].value);
  for (size_t i = 0; i < op->num_out; i++) put_operand(out, &op->out[i]);
  out->deterministic = !msc_op_bool(op, MSC_FACT(any_order));
  if (msc_form_of(op) == MSC_FORM_ATTENTION) set_attention_graph(out, op);
  else set_convolution(out, op);
}
