/* graph.c: an op in; whether a GPU's library computes it, where its operands' elements lie, and how long it takes, out. */
#include "passes/7_lower/graph.h"

#include "ir/conv.h"
#include "passes/7_lower/target.h"

void msc_graph_mark(const msc_pass_ctx *pass, msc_op *op) {
  msc_op_set(op, "library", msc_bool(true));
  if (!msc_is_deterministic(op->block->func->module, pass->config)) msc_op_set(op, "any_order", msc_bool(true));
}

static bool is_attention(const msc_op *op) { return op->kind == OP_flash_attention || op->kind == OP_flash_attention_grad; }

bool msc_is_graph(const msc_op *op) {
  bool is_convolution = op->kind == OP_conv2d || op->kind == OP_biased_conv2d || op->kind == OP_conv2d_transpose || op->kind == OP_conv2d_weight_grad;
  return (is_attention(op) || is_convolution) && msc_op_bool(op, "library");
}

/* ---- where elements lie ---- */

static bool is_marked(const msc_op *op, msc_op_kind kind) { return op && op->kind == kind && msc_op_bool(op, "view"); }

static bool is_turned(const msc_op *op) { return is_marked(op, OP_transpose); }

bool msc_is_view(const msc_op *op) { return op->kind == OP_reshape || op->kind == OP_flatten || is_turned(op) || is_marked(op, OP_slice); }

bool msc_moves_nothing(const msc_op *op) { return is_turned(op) || is_marked(op, OP_slice) || is_marked(op, OP_concat); }

static void row_major(const msc_type *t, int64_t *out_stride) {
  int64_t stride = 1;
  for (int d = t->rank; d-- > 0;) {
    out_stride[d] = stride;
    stride *= t->dim[d];
  }
}

static const msc_use *used_by_view(const msc_value *v, msc_op_kind kind) {
  const msc_use *u = v->uses;
  while (u && !is_marked(u->user, kind)) u = u->next;
  return u;
}

static const msc_op *turned_by(const msc_value *v) {
  const msc_use *u = used_by_view(v, OP_transpose);
  return u ? u->user : NULL;
}

const msc_value *msc_view_whole(const msc_value *v, int64_t *out_shift) {
  int64_t stride[MSC_MAX_RANK], start[MSC_MAX_RANK], at = 0;
  if (is_turned(v->def)) return msc_view_whole(v->def->in[0].value, out_shift);
  *out_shift = 0;
  if (is_marked(v->def, OP_slice)) {
    row_major(v->def->in[0].value->type, stride);
    for (int d = msc_op_ints(v->def, "start", start, MSC_MAX_RANK); d-- > 0;) *out_shift += start[d] * stride[d];
    return v->def->in[0].value;
  }
  const msc_op *behind = turned_by(v);
  const msc_use *u = used_by_view(behind ? &behind->out[0] : v, OP_concat);
  if (!u) return v;
  int dim = (int)msc_op_int(u->user, "dim");
  for (const msc_use *before = u->user->in; before < u; before++) at += before->value->type->dim[dim];
  row_major(u->user->out[0].type, stride);
  *out_shift = at * stride[dim];
  return &u->user->out[0];
}

/* Of what v is a slice or a part of, if it is. */
static void strides_in_whole(const msc_value *v, int64_t *out_stride) {
  const msc_use *u = used_by_view(v, OP_concat);
  row_major(is_marked(v->def, OP_slice) ? v->def->in[0].value->type : u ? u->user->out[0].type : v->type, out_stride);
}

void msc_graph_strides(const msc_value *v, int64_t out_stride[MSC_MAX_RANK]) {
  int64_t perm[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  const msc_op *before = is_turned(v->def) ? v->def : NULL, *behind = before ? NULL : turned_by(v);
  strides_in_whole(before ? before->in[0].value : behind ? &behind->out[0] : v, stride);
  if (before || behind) msc_op_ints(before ? before : behind, "perm", perm, MSC_MAX_RANK);
  for (int d = 0; d < v->type->rank; d++) {
    if (behind) out_stride[perm[d]] = stride[d];
    else out_stride[d] = stride[before ? perm[d] : d];
  }
}

/* ---- how long it takes ---- */

/* Two products of a position with those it sees, five in the gradient. */
static double attention_flops(const msc_op *op) {
  const int64_t *q = op->in[0].value->type->dim, *v = op->in[2].value->type->dim;
  double pairs = (double)q[0] * (double)q[1] * (double)q[2] * (double)v[2], e = (double)q[3], f = (double)v[3];
  return pairs * (op->kind == OP_flash_attention ? 2 * (e + f) : 2 * (3 * e + 2 * f)) * (msc_op_bool(op, "causal") ? 0.5 : 1);
}

double msc_graph_flops(const msc_op *op) { return is_attention(op) ? attention_flops(op) : 2 * msc_conv_work(op); }

double msc_graph_bytes(const msc_op *op) {
  double bytes = 0;
  for (size_t i = 0; i < op->num_in; i++) bytes += (double)msc_type_bytes(op->in[i].value->type);
  for (size_t i = 0; i < op->num_out; i++) bytes += (double)msc_type_bytes(op->out[i].type);
  return bytes;
}

int64_t msc_graph_ns(const msc_op *op, const msc_cost *cost) { return msc_cost_work(cost, op->out[0].type->dtype, msc_graph_flops(op), msc_graph_bytes(op)); }
