/* flash.c: attention, masked, dropped or neither, and its vjp, cut along batch and heads alone -> flash_attention,
 * whose statistics the gradient takes.  What is dropped is not kept for the gradient: it is drawn again, from
 * the same counters. */
#include "passes/4_partition/flash.h"

#include <string.h>

#include "passes/7_lower/target.h"

/* ---- where it is possible ---- */

/* Whole but for batch and heads, both cut like q's. */
static bool is_cut_like(const msc_layout *l, const msc_layout *q) {
  if (!l || !q) return l == q;
  if (l->num_partial || l->first[2] != l->first[l->rank] || q->first[2] != q->first[q->rank] || msc_layout_has_split(l))
    return false;
  return !memcmp(l->first, q->first, 3) && !memcmp(l->sub, q->sub, l->first[2] * sizeof *l->sub);
}

/* The same of a mask: what it does not stretch over is cut like q's. */
static bool is_mask_cut_like(const msc_type *mask, const msc_layout *l, const msc_layout *q) {
  if (!l || !q) return l == q;
  if (l->num_partial || msc_layout_has_split(l)) return false;
  for (int d = 0; d < l->rank; d++) {
    int at = 4 - l->rank + d, num = l->first[d + 1] - l->first[d],
        wanted = at < 2 && mask->dim[d] > 1 ? q->first[at + 1] - q->first[at] : 0;
    if (num != wanted || (num && memcmp(l->sub + l->first[d], q->sub + q->first[at], (size_t)num * sizeof *l->sub)))
      return false;
  }
  return true;
}

/* f16 and bf16: f32 would lose what true f32 products keep. */
static bool is_narrow(const msc_op *op) { return msc_dtype_bytes(op->in[0].value->type->dtype) == 2; }

enum { EXTRA = 3 }; /* which operand the mask is, or what weights are multiplied by */

/* Attention, or its vjp: the name. */
static const char *name_of(const msc_op *op) {
  return op->kind == OP_vjp ? msc_op_str(op, "op") : msc_kind_name(op->kind);
}

/* Without dy. */
static size_t operands_of(const msc_op *op) { return op->num_in - (op->kind == OP_vjp); }

static bool is_masked(const msc_op *op) {
  return operands_of(op) > EXTRA && !strcmp(name_of(op), msc_kind_name(OP_attention));
}

static bool is_possible(const msc_op *op, const msc_layout *const *in_layout) {
  if (msc_target_of(op->block->func->module) != MSC_TARGET_CUDA || !is_narrow(op)) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (i == EXTRA && is_masked(op) ? !is_mask_cut_like(op->in[i].value->type, in_layout[i], in_layout[0])
                                    : !is_cut_like(in_layout[i], in_layout[0]))
      return false;
  for (size_t i = 0; i < op->num_out; i++)
    if (!is_cut_like(op->out[i].type->layout, in_layout[0])) return false;
  return true;
}

/* ---- the ops ---- */

static const msc_layout *without_last(const msc_op *op, const msc_layout *l) {
  if (!l) return NULL;
  msc_layout raw = {.rank = 3};
  memcpy(raw.first, l->first, 4);
  memcpy(raw.sub, l->sub, l->first[3] * sizeof *l->sub);
  return msc_layout_of(msc_op_ctx(op), &op->block->func->module->mesh, &raw);
}

/* `l` of all but statistics and the mask, which is the last one. */
static void want(msc_pass_ctx *pass, msc_op *op, const msc_layout *l, const msc_layout *mask) {
  msc_attr_value text[7];
  if (!l) return;
  for (size_t i = 0; i < op->num_in; i++) {
    bool is_mask = i + 1 == op->num_in && msc_op_bool(op, "masked");
    const msc_layout *of = is_mask ? mask : op->in[i].value->type->rank == 3 ? without_last(op, l) : l;
    text[i] = msc_str(pass->ctx, msc_layout_print(pass->scratch, &op->block->func->module->mesh, of));
  }
  msc_op_set(op, "in_layout", msc_list(pass->ctx, op->num_in, text));
}

/* With the attributes of `old`, in front of it; its results are untyped. */
static msc_op *new_op(msc_pass_ctx *pass, msc_op *old, msc_op_kind kind, size_t num_in, msc_value *const *in,
                      size_t num_out, const msc_layout *const *in_layout) {
  msc_op *op = msc_op_new(old->block->func, kind, num_in, in, num_out, old->loc);
  op->name = old->name, op->id = old->id;
  msc_op_set(op, "causal", msc_bool(msc_op_bool(old, "causal")));
  msc_op_set(op, "scale", msc_float(msc_op_float(old, "scale")));
  if (is_masked(old)) msc_op_set(op, "masked", msc_bool(true));
  msc_copy_marks(old, op);
  msc_insert_before(old, op);
  want(pass, op, in_layout[0], is_masked(old) ? in_layout[EXTRA] : NULL);
  return op;
}

static void set_layout(msc_op *op, size_t i, const msc_layout *l) {
  op->out[i].type = msc_type_with_layout(msc_op_ctx(op), op->out[i].type, l);
}

static bool replace_attention(msc_pass_ctx *pass, flash_memo *memo, msc_op *old, const msc_layout *const *in_layout) {
  msc_value *in[4];
  for (size_t i = 0; i < old->num_in; i++) in[i] = old->in[i].value;
  msc_op *op = new_op(pass, old, OP_flash_attention, old->num_in, in, 2, in_layout);
  if (!msc_infer(op)) return false;
  set_layout(op, 0, old->out[0].type->layout), set_layout(op, 1, without_last(op, in_layout[0]));
  msc_replace_uses(&old->out[0], &op->out[0]);
  msc_op_erase(old);
  msc_grow(pass->scratch, memo->op, memo->num);
  memo->op[memo->num++] = op;
  return true;
}

/* The attention whose gradient it is. */
static msc_op *forward_of(const flash_memo *memo, const msc_op *vjp) {
  size_t num = operands_of(vjp);
  for (size_t i = memo->num; i-- > 0;) {
    const msc_op *f = memo->op[i];
    bool same = msc_op_bool(f, "causal") == msc_op_bool(vjp, "causal") &&
                msc_op_float(f, "scale") == msc_op_float(vjp, "scale") && msc_op_bool(f, "masked") == is_masked(vjp);
    for (size_t k = 0; k < num && same; k++) same = f->num_in == num && f->in[k].value == vjp->in[k].value;
    if (same) return memo->op[i];
  }
  return NULL;
}

/* The same numbers once more, made in front of `before`: dropout of a constant, through casts.  What else there may
 * be is kept. */
static msc_value *drawn_again(msc_op *before, msc_value *keep) {
  msc_op *op = keep->def;
  if (!op || (op->kind != OP_cast && op->kind != OP_dropout)) return keep;
  msc_value *in[3];
  for (size_t i = 0; i < op->num_in; i++) in[i] = op->in[i].value;
  if (op->kind == OP_dropout && (!in[0]->def || in[0]->def->kind != OP_constant)) return keep;
  if (op->kind == OP_cast && (in[0] = drawn_again(before, in[0])) == op->in[0].value) return keep;
  msc_op *copy = msc_op_copy(before->block->func, op, in);
  msc_insert_before(before, copy);
  return &copy->out[0];
}

static bool replace_gradient(msc_pass_ctx *pass, const flash_memo *memo, msc_op *old,
                             const msc_layout *const *in_layout) {
  int64_t wrt[4];
  msc_op *forward = forward_of(memo, old);
  if (!forward) return false;
  size_t num_in = forward->num_in;
  msc_value *in[] = {old->in[0].value,
                     old->in[1].value,
                     old->in[2].value,
                     &forward->out[0],
                     &forward->out[1],
                     old->in[num_in].value,
                     NULL};
  if (num_in > EXTRA) in[6] = is_masked(old) ? old->in[EXTRA].value : drawn_again(old, old->in[EXTRA].value);
  msc_op *op = new_op(pass, old, OP_flash_attention_grad, num_in > EXTRA ? 7 : 6, in, 3, in_layout);
  if (!msc_infer(op)) return false;
  for (size_t i = 0; i < 3; i++) set_layout(op, i, in_layout[i]);
  int num = msc_op_ints(old, "wrt", wrt, 3);
  for (int i = 0; i < num; i++) msc_replace_uses(&old->out[i], &op->out[wrt[i]]);
  msc_op_erase(old);
  return true;
}

static bool is_attention(const msc_op *op) {
  return !strcmp(name_of(op), msc_kind_name(OP_attention)) || !strcmp(name_of(op), msc_kind_name(OP_dropped_attention));
}

static bool wants_extras_gradient(const msc_op *vjp) {
  int64_t wrt[4];
  int num = msc_op_ints(vjp, "wrt", wrt, 4);
  return num > 3 || (num > 0 && wrt[num - 1] >= EXTRA);
}

bool flash_takes(msc_pass_ctx *pass, flash_memo *memo, msc_op *op, const msc_layout *const *in_layout) {
  if (!is_attention(op) || !is_possible(op, in_layout)) return false;
  if (op->kind != OP_vjp) return replace_attention(pass, memo, op, in_layout);
  return !wants_extras_gradient(op) && replace_gradient(pass, memo, op, in_layout);
}
