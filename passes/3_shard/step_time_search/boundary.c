/* boundary.c: a model with strategies and layouts of the user -> bits in `closed` of letters that get no further
 * digits: all of ops that read only arguments which the user cut, and the batch of ops behind one whose batch the user
 * keeps whole (see shard_keep_boundaries in model.h). */
#include <string.h>

#include "passes/3_shard/step_time_search/model.h"

typedef enum { UNKNOWN, WHOLE, CUT } batch_state;

/* What the user's strategies before this op say about its batch: CUT if they cut it on some path to the op, else WHOLE
 * if they keep it whole on some path. */
static batch_state batch_before(const batch_state *of_op, const msc_op *op) {
  batch_state seen = UNKNOWN;
  for (size_t i = 0; i < op->num_in; i++) {
    batch_state before = op->in[i].value->def ? of_op[op->in[i].value->def->id] : UNKNOWN;
    seen = before > seen ? before : seen;
  }
  return seen;
}

/* The letters of a product that no parameter of it has: if only these are cut, every rank holds whole parameters. 0:
 * the op is no product, or reads no parameter. */
static uint32_t letters_of_data(const shard_graph *g, const shard_op *o) {
  uint32_t all = (1u << o->rule.num_letters) - 1, data = all;
  if (msc_info(o->op)->cost != MSC_COST_FLOPS) return 0;
  for (int t = 0; t < o->rule.num_in; t++) {
    const msc_value *v = o->op->in[t].value;
    if (v->def && v->def->kind == OP_cast) v = v->def->in[0].value;
    if (v->def || msc_arg_role(g->func, v->index) != MSC_ROLE_PARAMETER) continue;
    for (int d = 0; d < o->rule.tensor[t].rank; d++)
      for (int k = 0; k < o->rule.tensor[t].dim[d].num; k++) data &= ~(1u << o->rule.tensor[t].dim[d].letter[k]);
  }
  return data == all ? 0 : data;
}

/* Are all operands arguments that the user cut? */
static bool reads_cut_arguments(const shard_graph *g, const msc_op *op) {
  bool any = false;
  for (size_t t = 0; t < op->num_in; t++) {
    const msc_value *v = op->in[t].value;
    const msc_layout *l = v->def ? NULL : g->arg_layout[v->index];
    if (v->type->rank && (!l || msc_layout_is_replicated(l))) return false;
    any |= v->type->rank > 0;
  }
  return any;
}

void shard_keep_boundaries(shard_model *m) {
  const shard_graph *g = m->g;
  const int8_t *batch = shard_batch_letters(g);
  batch_state *of_op = msc_new_array(g->arena, batch_state, g->num_ops + 1);
  for (size_t i = 0; i < g->num_ops; i++) {
    int k = g->op[i].group;
    const shard_group *group = k < 0 ? NULL : &g->group[k];
    if (!group || g->op[i].op->forward) continue;
    int l = batch[k];
    /* an op on arguments that the user cut gets no further digits, although cutting an argument further costs nothing
     */
    if (group->leader == g->op[i].op && reads_cut_arguments(g, group->leader))
      m->var[m->of_op[i].var].closed |= (1u << g->op[i].rule.num_letters) - 1;
    of_op[i] = batch_before(of_op, g->op[i].op);
    if (group->leader != g->op[i].op) continue;
    if (l >= 0 && group->by == MSC_DECIDER_USER) of_op[i] = group->digits.num[l] ? CUT : WHOLE;
    if (l < 0 || of_op[i] != WHOLE) continue;
    shard_variable *v = &m->var[m->of_op[i].var];
    v->closed |= 1u << l | letters_of_data(g, &g->op[i]);
    v->most_parts = msc_info(group->leader)->cost == MSC_COST_FLOPS;
  }
}
