/* work.c: an op, as it is or with letters of given sizes -> the arithmetic and the memory traffic of its kernel. */
#include <math.h>

#include "ir/conv.h"
#include "ir/ir.h"

double msc_rule_elems(const msc_tensor_letters *t, const msc_type *type, const int64_t *size) {
  double n = 1;
  for (int d = 0; d < t->rank; d++) {
    double of_dim = t->dim[d].num ? 1 : (double)type->dim[d];
    for (int i = 0; i < t->dim[d].num; i++) of_dim *= (double)size[t->dim[d].letter[i]];
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
  for (int l = 0; l < rule->num_letters; l++) flops *= (double)size[l] / (windows ? (double)rule->letter[l].size : 1);
  return flops;
}

/* The operations of a gemm, which has no letters. */
static double gemm_flops(const msc_op *gemm) {
  const msc_type *a = gemm->in[0].value->type;
  int64_t terms = a->dim[a->rank - 1 - msc_op_bool(gemm, "transpose_a")];
  return 2 * (double)terms * (double)msc_type_elems(gemm->out[0].type);
}

double msc_op_flops(const msc_op *op, msc_arena *arena) {
  msc_rule rule;
  int64_t size[MSC_MAX_LETTERS];
  if (op->kind == OP_gemm) return gemm_flops(op);
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
    w.bytes += msc_rule_elems(&rule->tensor[t], type, size) * (double)msc_dtype_bytes(type->dtype);
  }
  return w;
}
