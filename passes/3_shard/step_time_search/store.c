/* store.c: the strategy that was chosen -> `sharding` and `by` on leaders, and inserted copies (see
 * step_time_search.h). */
#include "passes/3_shard/step_time_search/state.h"

static void store_group_digits(shard_time_search *t) {
  for (size_t v = 0; v < t->m.num_vars; v++) {
    if (t->m.var[v].group < 0) continue;
    shard_group *group = &t->g.group[t->m.var[v].group];
    uint32_t all = (1u << group->rule.num_letters) - 1;
    group->digits = t->best_digits[v];
    bool follows = group->by == MSC_DECIDER_PROPAGATION;
    if (!group->by || (group->closed != all && !follows)) group->by = MSC_DECIDER_SEARCH;
    group->closed = all;
  }
  shard_graph_store(&t->g);
}

static void set_digits(shard_time_search *t, msc_op *op, const msc_assignment *a, int rank) {
  msc_attr *attrs = NULL;
  size_t num = 0;
  for (int d = 0; d < rank; d++) {
    char name[2] = {(char)('A' + d), 0};
    msc_put_attr(t->g.ctx, &attrs, &num, name, msc_digits_attr(shard_digits(&t->g, a->num[d], a->atom[d], NULL)));
  }
  msc_op_put(op, msc_fact_sharding(num, attrs));
  msc_op_put(op, msc_fact_by(t->g.ctx, MSC_DECIDER_COPY));
}

static void set_pass(shard_time_search *t, msc_op *op, uint32_t mask) {
  uint8_t atom[MSC_MAX_SUBAXES];
  int num = 0;
  for (int a = 0; a < t->g.atoms.num; a++)
    if (mask >> a & 1) atom[num++] = (uint8_t)a;
  if (num) msc_op_put(op, msc_fact_pass(shard_digits(&t->g, num, atom, NULL)));
}

/* Inserts a broadcast_to to the same shape behind the copied value, with the digits a; all users outside the value's
 * own group read its result instead. */
static void insert_copy(shard_time_search *t, const shard_variable *v, const msc_assignment *a) {
  msc_value *from = v->copied;
  int own = t->g.op[from->def->id].group;
  msc_op *copy = msc_op_new(t->g.func, OP_broadcast_to, 1, &from, 1, from->def->loc);
  msc_op_put(copy, msc_fact_shape(t->g.ctx, (size_t)from->type->rank, from->type->dim));
  copy->name = from->def->name;
  msc_insert_after(from->def, copy);
  copy->out[0].type = from->type;
  copy->id = UINT32_MAX;
  for (const msc_use *u = from->uses, *next; u; u = next) {
    next = u->next;
    if (u->user != copy && u->user->id < t->g.num_ops && t->g.op[u->user->id].op == u->user &&
        t->g.op[u->user->id].group >= 0 && t->g.op[u->user->id].group != own)
      msc_set_operand(u->user, (size_t)(u - u->user->in), &copy->out[0]);
  }
  set_digits(t, copy, a, from->type->rank);
}

/* Takes a sum of gradients out of the group of its forward op, so that it can be cut otherwise; explain.c undoes this.
 */
static void make_independent(msc_op *sum) {
  msc_context *ctx = sum->block->func->module->ctx;
  if (sum->forward->name) msc_op_put(sum, msc_fact_owner(ctx, sum->forward->name));
  if (sum->letters) msc_op_put(sum, msc_fact_owner_letters(ctx, sum->letters));
  sum->forward = NULL;
  sum->letters = NULL;
}

static void store_copies(shard_time_search *t) {
  for (size_t i = 0; i < t->m.num_vars; i++) {
    const shard_variable *v = &t->m.var[i];
    if (v->group >= 0) continue;
    msc_assignment a = t->best_digits[i], of_def;
    for (size_t k = 1; k < v->num_members; k++) {
      msc_op *sum = t->g.op[v->member[k].op->id].op;
      make_independent(sum);
      set_digits(t, sum, &a, v->copied->type->rank);
      set_pass(t, sum, a.pass);
    }
    if (!v->copied->def) continue;
    shard_end def = t->m.of_op[v->copied->def->id];
    const shard_member *member = &t->m.var[def.var].member[def.member];
    shard_op o = t->g.op[v->copied->def->id];
    of_def = t->best_digits[def.var];
    of_def.pass = 0;
    const msc_layout *have = shard_layout(&t->g, &o, &of_def, (size_t)(member->op->num_in) + v->copied->index);
    a.pass = 0;
    const msc_layout *want = msc_rule_layout(t->g.ctx, t->g.mesh, &t->g.atoms, v->rule, &a, 0);
    if (have != want) insert_copy(t, v, &a);
  }
}

void shard_store_strategy(shard_time_search *t, bool with_copies) {
  store_group_digits(t);
  if (with_copies) store_copies(t);
}
