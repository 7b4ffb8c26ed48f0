/* flash.c: attention (plain, masked or with dropout, not both) and its vjp, cut along batch and heads only ->
 * flash_attention and its gradient, which reads the statistics of the forward.  The dropout mask is not kept for the
 * gradient: it is drawn again from the same counters. */
#include "passes/4_partition/flash.h"

#include <string.h>

#include "passes/7_lower/choose.h"

/* ---- where it is possible ---- */

/* True if the layout cuts batch and heads as q's does and nothing else. */
static bool is_cut_as_query(const msc_layout *l, const msc_layout *q) {
  if (!l || !q) return l == q;
  if (l->num_partial || l->first[2] != l->first[l->rank] || q->first[2] != q->first[q->rank] || msc_layout_has_split(l))
    return false;
  return !memcmp(l->first, q->first, 3) && !memcmp(l->sub, q->sub, l->first[2] * sizeof *l->sub);
}

/* True if the mask's batch and head dimensions that are not broadcast are cut as q's are, and its other dimensions
 * are whole. */
static bool is_mask_cut_as_query(const msc_type *mask, const msc_layout *l, const msc_layout *q) {
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

/* True if the target may have a kernel for the op. A GPU's library has f16 and bf16; it would compute f32 with less
 * precision than f32 products have. A CPU's blocks of scores are f32, and pay where there are many of them. */
static bool may_have_kernel(const msc_pass_ctx *pass, const msc_op *op) {
  enum { FEW = 128 };
  const msc_target *target = msc_target_of(op->block->func->module);
  const msc_type *q = op->in[0].value->type, *k = op->in[1].value->type;
  if (msc_has_kernel(target, OP_flash_attention, MSC_BY_LIBRARY)) return msc_dtype_bytes(q->dtype) == 2;
  return msc_has_kernel(target, OP_flash_attention, MSC_BY_BLOCKS) && q->dtype == MSC_F32 && q->dim[2] >= FEW &&
         k->dim[2] >= FEW && msc_choices_of(pass, op->block->func->module).attention;
}

enum { EXTRA = 3 }; /* index of the operand that is the mask, or the factors that weights are multiplied by */

/* The name of the op, or of a vjp the name of its forward op. */
static const char *attention_kind_name(const msc_op *op) {
  return op->kind == OP_vjp ? msc_op_str(op, "op") : msc_kind_name(op->kind);
}

/* The number of operands without dy. */
static size_t num_attention_operands(const msc_op *op) { return op->num_in - (op->kind == OP_vjp); }

static bool is_masked(const msc_op *op) {
  return num_attention_operands(op) > EXTRA && !strcmp(attention_kind_name(op), msc_kind_name(OP_attention));
}

static bool is_supported_flash(const msc_pass_ctx *pass, const msc_op *op, const msc_layout *const *in_layout) {
  if (!may_have_kernel(pass, op) || num_attention_operands(op) > EXTRA + 1) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (i == EXTRA && is_masked(op) ? !is_mask_cut_as_query(op->in[i].value->type, in_layout[i], in_layout[0])
                                    : !is_cut_as_query(in_layout[i], in_layout[0]))
      return false;
  for (size_t i = 0; i < op->num_out; i++)
    if (!is_cut_as_query(op->out[i].type->layout, in_layout[0])) return false;
  return true;
}

/* ---- the ops ---- */

static const msc_layout *layout_without_last_dim(const msc_op *op, const msc_layout *l) {
  if (!l) return NULL;
  msc_layout raw = {.rank = 3};
  memcpy(raw.first, l->first, 4);
  memcpy(raw.sub, l->sub, l->first[3] * sizeof *l->sub);
  return msc_layout_of(msc_op_ctx(op), &op->block->func->module->mesh, &raw);
}

/* Wants every operand in layout l, except statistics (l without the last dimension) and the mask, which is last. */
static void set_wanted_layouts(msc_pass_ctx *pass, msc_op *op, const msc_layout *l, const msc_layout *mask) {
  const msc_layout *want[7];
  if (!l) return;
  for (size_t i = 0; i < op->num_in; i++) {
    bool is_mask = i + 1 == op->num_in && msc_op_bool(op, "masked");
    want[i] = is_mask ? mask : op->in[i].value->type->rank == 3 ? layout_without_last_dim(op, l) : l;
  }
  msc_op_put(op, msc_fact_in_layout(pass->ctx, op->num_in, want));
}

/* Builds an op in front of `old`, with its attributes; the results have no types yet. */
static msc_op *build_flash_op(msc_pass_ctx *pass, msc_op *old, msc_op_kind kind, size_t num_in, msc_value *const *in,
                              size_t num_out, const msc_layout *const *in_layout) {
  msc_op *op = msc_op_new(old->block->func, kind, num_in, in, num_out, old->loc);
  op->name = old->name, op->id = old->id;
  msc_op_set(op, "causal", msc_bool(msc_op_bool(old, "causal")));
  msc_op_set(op, "scale", msc_float(msc_op_float(old, "scale")));
  if (is_masked(old)) msc_op_set(op, "masked", msc_bool(true));
  msc_copy_marks(old, op);
  msc_insert_before(old, op);
  set_wanted_layouts(pass, op, in_layout[0], is_masked(old) ? in_layout[EXTRA] : NULL);
  return op;
}

static void set_result_layout(msc_op *op, size_t i, const msc_layout *l) {
  op->out[i].type = msc_type_with_layout(msc_op_ctx(op), op->out[i].type, l);
}

static bool replace_attention(msc_pass_ctx *pass, flash_memo *memo, msc_op *old, const msc_layout *const *in_layout) {
  msc_value *in[4];
  for (size_t i = 0; i < old->num_in; i++) in[i] = old->in[i].value;
  msc_op *op = build_flash_op(pass, old, OP_flash_attention, old->num_in, in, 2, in_layout);
  if (!msc_infer(op)) return false;
  set_result_layout(op, 0, old->out[0].type->layout),
      set_result_layout(op, 1, layout_without_last_dim(op, in_layout[0]));
  msc_replace_uses(&old->out[0], &op->out[0]);
  msc_op_erase(old);
  msc_grow(pass->scratch, memo->op, memo->num);
  memo->op[memo->num++] = op;
  return true;
}

/* The flash_attention whose gradient `vjp` is; NULL if there is none. */
static msc_op *find_forward_flash(const flash_memo *memo, const msc_op *vjp) {
  size_t num = num_attention_operands(vjp);
  for (size_t i = memo->num; i-- > 0;) {
    const msc_op *f = memo->op[i];
    bool same = msc_op_bool(f, "causal") == msc_op_bool(vjp, "causal") &&
                msc_op_float(f, "scale") == msc_op_float(vjp, "scale") && msc_op_bool(f, "masked") == is_masked(vjp);
    for (size_t k = 0; k < num && same; k++) same = f->num_in == num && f->in[k].value == vjp->in[k].value;
    if (same) return memo->op[i];
  }
  return NULL;
}

/* Draws the dropout mask again in front of `before`: a dropout of a constant, through casts. Returns `keep` itself
 * if it is anything else. */
static msc_value *draw_mask_again(msc_op *before, msc_value *keep) {
  msc_op *op = keep->def;
  if (!op || (op->kind != OP_cast && op->kind != OP_dropout)) return keep;
  msc_value *in[3];
  for (size_t i = 0; i < op->num_in; i++) in[i] = op->in[i].value;
  if (op->kind == OP_dropout && (!in[0]->def || !msc_is_constant_op(in[0]->def))) return keep;
  if (op->kind == OP_cast && (in[0] = draw_mask_again(before, in[0])) == op->in[0].value) return keep;
  msc_op *copy = msc_op_copy(before->block->func, op, in);
  msc_insert_before(before, copy);
  return &copy->out[0];
}

static bool replace_gradient(msc_pass_ctx *pass, const flash_memo *memo, msc_op *old,
                             const msc_layout *const *in_layout) {
  int64_t wrt[4];
  msc_op *forward = find_forward_flash(memo, old);
  if (!forward) return false;
  size_t num_in = forward->num_in;
  msc_value *in[] = {old->in[0].value,
                     old->in[1].value,
                     old->in[2].value,
                     &forward->out[0],
                     &forward->out[1],
                     old->in[num_in].value,
                     NULL};
  if (num_in > EXTRA) in[6] = is_masked(old) ? old->in[EXTRA].value : draw_mask_again(old, old->in[EXTRA].value);
  msc_op *op = build_flash_op(pass, old, OP_flash_attention_grad, num_in > EXTRA ? 7 : 6, in, 3, in_layout);
  if (!msc_infer(op)) return false;
  for (size_t i = 0; i < 3; i++) set_result_layout(op, i, in_layout[i]);
  int num = msc_op_ints(old, "wrt", wrt, 3);
  for (int i = 0; i < num; i++) msc_replace_uses(&old->out[i], &op->out[wrt[i]]);
  msc_op_erase(old);
  return true;
}

static bool is_attention_or_vjp(const msc_op *op) {
  return !strcmp(attention_kind_name(op), msc_kind_name(OP_attention)) ||
         !strcmp(attention_kind_name(op), msc_kind_name(OP_dropped_attention));
}

static bool wants_gradient_of_extra(const msc_op *vjp) {
  int64_t wrt[4];
  int num = msc_op_ints(vjp, "wrt", wrt, 4);
  return num > 3 || (num > 0 && wrt[num - 1] >= EXTRA);
}

bool flash_replace(msc_pass_ctx *pass, flash_memo *memo, msc_op *op, const msc_layout *const *in_layout) {
  if (!is_attention_or_vjp(op) || !is_supported_flash(pass, op, in_layout)) return false;
  if (op->kind != OP_vjp) return replace_attention(pass, memo, op, in_layout);
  return !wants_gradient_of_extra(op) && replace_gradient(pass, memo, op, in_layout);
}
