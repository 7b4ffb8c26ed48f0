/* sum_order.c: an op that leaves parts of a sum on ranks, in; the order of the parts out. */
#include "passes/sum_order.h"

#include <string.h>

const msc_op *msc_sum_of(const msc_value *v) {
  for (;;) {
    const msc_op *def = v->def;
    if (!def) return NULL;
    if (msc_keeps_elements(def)) v = def->in[0].value;
    else if (msc_op_verb(def) != MSC_NUM_VERBS && def->num_in == def->num_out) v = def->in[v - def->out].value;
    else return def;
  }
}

const msc_layout *msc_sum_order(msc_context *ctx, const msc_mesh *mesh, const msc_op *sum, const msc_layout *operand) {
  msc_layout raw = {.rank = 1};
  int num = 0;
  bool as_ranks = true;
  unsigned dims = operand ? msc_summed_dims(sum) : 0;
  for (int d = 0; dims && d < operand->rank; d++)
    for (int i = operand->first[d]; (dims >> d & 1) && i < operand->first[d + 1]; i++)
      raw.sub[num++] = operand->sub[i];
  for (int i = 0; i + 1 < num; i++)
    as_ranks &= raw.sub[i].axis < raw.sub[i + 1].axis ||
                (raw.sub[i].axis == raw.sub[i + 1].axis && raw.sub[i].pre < raw.sub[i + 1].pre);
  if (as_ranks) return NULL;
  raw.first[1] = (uint8_t)num;
  return msc_layout_of(ctx, mesh, &raw);
}
