/* outputs: function "forward" -> module attribute `msc.outputs`: of each result its name, the dimension that is the
 * batch (-1: none), and whether it depends on a label. */
#include "passes/2_train/batch.h"
#include "passes/pass.h"

/* True by value id for each value that depends on a label. */
static bool *find_label_readers(msc_arena *arena, const msc_func *f) {
  bool *reads = msc_new_array(arena, bool, msc_number(f->body).num_values + 1);
  for (size_t i = 0; i < f->body->num_args; i++)
    reads[f->body->args[i]->id] = msc_arg_role(f, i) == MSC_ROLE_LABEL;
  for (const msc_op *op = f->body->first; op; op = op->next) {
    bool any = false;
    for (size_t i = 0; i < op->num_in; i++) any |= reads[op->in[i].value->id];
    for (size_t i = 0; i < op->num_out; i++) reads[op->out[i].id] = any;
  }
  return reads;
}

bool pass_outputs(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_program_func(m, MSC_PROGRAM_FORWARD);
  const msc_attr_value *names = f ? msc_func_attr(f, MSC_FACT(results)) : NULL;
  if (!names || msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_outputs))) return true;
  const msc_op *ret = f->body->last;
  const msc_batch_fact *fact = msc_batch_facts(f, pass->scratch, MSC_BATCH_WHOLE);
  MSC_TRY(fact);
  const bool *labels = find_label_readers(pass->scratch, f);
  msc_attr_value *all = msc_new_array(pass->scratch, msc_attr_value, names->list.num);
  for (size_t i = 0; i < names->list.num; i++) {
    size_t id = ret->in[i].value->id;
    int batch_dim = fact[id].meaning == MSC_BATCH_PART && fact[id].outer == 1 ? fact[id].dim : -1;
    all[i] = msc_list(pass->ctx, 3, (msc_attr_value[]){names->list.v[i], msc_int(batch_dim), msc_bool(labels[id])});
  }
  msc_attrs_put(pass->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_outputs(pass->ctx, names->list.num, all));
  return true;
}
