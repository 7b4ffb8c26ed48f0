/* work.c: an op whose letters have given sizes -> the arithmetic and the memory traffic of its kernel. */
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
  for (int l = 0; l < rule->num_letters; l++)
    flops *= (double)size[l] / (windows ? (double)rule->letter[l].size : 1);
  return flops;
}

msc_op_work msc_rule_work(const msc_op *op, const msc_rule *rule, const int64_t *size) {
  msc_op_work w = {.flops = msc_rule_flops(op, rule, size)};
  for (int t = 0; t < rule->num_tensors; t++) {
    const msc_type *type = t < op->num_in ? op->in[t].value->type : op->out[t - op->num_in].type;
    w.bytes += msc_rule_elems(&rule->tensor[t], type, size) * (double)msc_dtype_bytes(type->dtype);
  }
  return w;
}
