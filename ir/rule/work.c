/* work.c: an op, as it is or with letters of given sizes -> the arithmetic and the memory traffic of its kernel. */
#include <math.h>

#include "ir/conv.h"
#include "ir/ir.h"

double msc_rule_elems(const msc_rule *rule, size_t tensor, const msc_type *type, const int64_t *size) {
  const msc_tensor_letters *t = &rule->tensor[tensor];
  double n = 1;
  for (int d = 0; d < t->rank; d++) {
    double of_dim = t->dim[d].num ? 1 : (double)type->dim[d];
    for (int i = 0; i < t->dim[d].num; i++) {
      const msc_letter *l = &rule->letter[t->dim[d].letter[i]];
      of_dim *= (double)size[t->dim[d].letter[i]];
      if (l->halo && l->size != type->dim[d]) of_dim *= (double)type->dim[d] / (double)l->size;
    }
    n *= of_dim;
  }
  return n;
}

void msc_rule_sizes(const msc_rule *rule, const int64_t *parts, int64_t *out_size) {
  for (int l = 0; l < rule->num_letters; l++)
    out_size[l] = parts ? (rule->letter[l].size + parts[l] - 1) / parts[l] : rule->letter[l].size;
}

double msc_rule_flops(const msc_op *op, const msc_rule *rule, const int64_t *size) {
  if (msc_info(op)->cost != MSC_COST_FLOPS) return 0;
  bool windows = msc_is_windowed(op);
  double flops = windows ? 2 * msc_conv_work(op) : 2;
  for (int l = 0; l < rule->num_letters; l++) {
    int64_t whole = rule->letter[l].size;
    if (rule->letter[l].name == msc_info(op)->facts.one_of) continue;
    flops *= (double)size[l] / (windows && whole ? (double)whole : 1);
  }
  return flops;
}

/* The operations of a gemm, which has no letters. */
static double gemm_flops(const msc_op *gemm) {
  const msc_type *a = gemm->in[0].value->type;
  int64_t terms = a->dim[a->rank - 1 - msc_op_bool(gemm, "transpose_a")];
  return 2 * (double)terms * (double)msc_type_elems(gemm->out[0].type);
}

/* The operations of attention in one call: two products of each position with the positions that it attends to; five in
 * the gradient. */
static double attention_flops(const msc_op *op) {
  const int64_t *q = op->in[0].value->type->dim, *v = op->in[2].value->type->dim;
  double pairs = (double)q[0] * (double)q[1] * (double)q[2] * (double)v[2], e = (double)q[3], f = (double)v[3];
  return pairs * (op->kind == OP_flash_attention ? 2 * (e + f) : 2 * (3 * e + 2 * f)) *
         (msc_op_bool(op, "causal") ? 0.5 : 1);
}

double msc_op_flops(const msc_op *op, msc_arena *arena) {
  msc_rule rule;
  int64_t size[MSC_MAX_LETTERS];
  if (op->kind == OP_gemm) return gemm_flops(op);
  if (msc_form_of(op) == MSC_FORM_ATTENTION) return attention_flops(op);
  if (msc_info(op)->cost != MSC_COST_FLOPS || !msc_rule_of(op, arena, &rule)) return 0;
  msc_rule_sizes(&rule, NULL, size);
  return msc_rule_flops(op, &rule, size);
}

/* The number of parts that the work of the op is cut into: every axis that cuts a tensor cuts a letter of the op. */
static double num_work_parts(const msc_op *op) {
  const msc_mesh *mesh = &op->block->func->module->mesh;
  double parts = 1;
  for (int axis = 0; axis < mesh->num_axes; axis++) {
    double most = 1;
    for (size_t t = 0; t < (size_t)op->num_in + op->num_out; t++) {
      const msc_layout *l = (t < op->num_in ? op->in[t].value : &op->out[t - op->num_in])->type->layout;
      double here = 1;
      for (int i = 0; l && i < l->first[l->rank]; i++)
        if ((int)l->sub[i].axis == axis) here *= (double)l->sub[i].size;
      most = fmax(most, here);
    }
    parts *= most;
  }
  return parts;
}

double msc_rank_flops(const msc_op *op, msc_arena *arena) { return msc_op_flops(op, arena) / num_work_parts(op); }

msc_op_work msc_rule_work(const msc_op *op, const msc_rule *rule, const int64_t *size) {
  msc_op_work w = {.flops = msc_rule_flops(op, rule, size)};
  for (int t = 0; t < rule->num_tensors; t++) {
    const msc_type *type = t < op->num_in ? op->in[t].value->type : op->out[t - op->num_in].type;
    w.bytes += msc_rule_elems(rule, (size_t)t, type, size) * (double)msc_dtype_bytes(type->dtype);
  }
  return w;
}
