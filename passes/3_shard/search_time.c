/* search_time.c: a function whose ops are free or fixed -> digits of every letter, so that a step takes the least time on the
 * described cluster (see search_time.h). */
#include "passes/3_shard/search_time.h"

#include <string.h>

#include "passes/3_shard/space.h"
#include "passes/config.h"

enum { MAX_STATES = 4096, MAX_ENTRIES = 1 << 28, BUCKET_BYTES = 64 << 20 };

typedef struct {
  msc_pass_ctx *pass;
  shard_graph g;
  shard_model m;
  msc_cost cost;
  shard_space_options o;
  shard_space *space;
  int *state;         /* by variable */
  int64_t ns;
} timing;

/* ---- solving ---- */

/* Gradients that travel in one bucket, on average. */
static int64_t bucket_of(const shard_graph *g) {
  int64_t num = 0, bytes = 0;
  for (size_t i = 0; i < g->num_ops; i++) {
    const msc_op *op = g->op[i].op;
    if (!(msc_info(op)->flags & MSC_UPDATE)) continue;
    num++;
    bytes += msc_type_bytes(op->in[0].value->type);
  }
  int64_t buckets = 1 + bytes / BUCKET_BYTES;
  return num > buckets ? num / buckets : 1;
}

static bool solve(timing *t) {
  shard_problem p;
  shard_effort effort;
  MSC_TRY(shard_space_of(&t->m, &t->o, t->g.arena, &t->space));
  shard_space_problem(t->space, &p);
  t->state = msc_new_array(t->g.arena, int, t->m.num_vars);
  MSC_TRY(shard_eliminate(t->g.arena, &p, MAX_ENTRIES, t->state, &t->ns, &effort));
  msc_stat(t->pass, "variables", p.num_vars);
  msc_stat(t->pass, "width", effort.width);
  msc_stat(t->pass, "removals worked out", (int64_t)(effort.removals - effort.shared));
  msc_stat(t->pass, "work", (int64_t)effort.entries);
  return true;
}

/* ---- storing ---- */

static void store_groups(timing *t) {
  for (size_t v = 0; v < t->m.num_vars; v++) {
    if (t->m.var[v].group < 0) continue;
    shard_group *group = &t->g.group[t->m.var[v].group];
    uint32_t all = (1u << group->rule.num_letters) - 1;
    shard_state_digits(t->space, (int)v, t->state[v], &group->digits);
    if (!group->by || group->closed != all) group->by = "search";
    group->closed = all;
  }
  shard_graph_store(&t->g);
}

static void set_digits(timing *t, msc_op *op, const msc_assignment *a, int rank) {
  msc_attr *attrs = NULL;
  size_t num = 0;
  for (int d = 0; d < rank; d++) {
    char name[2] = {(char)('A' + d), 0};
    msc_put_attr(t->g.ctx, &attrs, &num, name, msc_str(t->g.ctx, shard_digits_text(&t->g, a->num[d], a->atom[d])));
  }
  msc_op_set(op, "sharding", (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, attrs}});
  msc_op_set(op, "by", msc_str(t->g.ctx, "search"));
}

static void set_pass(timing *t, msc_op *op, uint32_t mask) {
  uint8_t atom[MSC_MAX_SUBAXES];
  int num = 0;
  for (int a = 0; a < t->g.atoms.num; a++)
    if (mask >> a & 1) atom[num++] = (uint8_t)a;
  if (num) msc_op_set(op, "pass", msc_str(t->g.ctx, shard_digits_text(&t->g, num, atom)));
}

static bool same_cut(const msc_layout *a, const msc_layout *b) { return a == b; }

/* An op that changes nothing behind the value, which everybody uses but its own group. */
static void insert_copy(timing *t, const shard_variable *v, const msc_assignment *a) {
  msc_value *from = v->copied;
  int own = t->g.op[from->def->id].group;
  msc_op *copy = msc_op_new(t->g.func, OP_broadcast_to, 1, &from, 1, from->def->loc);
  msc_op_set(copy, "shape", msc_ints(t->g.ctx, (size_t)from->type->rank, from->type->dim));
  copy->name = from->def->name;
  msc_insert_after(from->def, copy);
  copy->out[0].type = from->type;
  copy->id = UINT32_MAX;
  for (const msc_use *u = from->uses, *next; u; u = next) {
    next = u->next;
    if (u->user != copy && u->user->id < t->g.num_ops && t->g.op[u->user->id].op == u->user && t->g.op[u->user->id].group >= 0 && t->g.op[u->user->id].group != own)
      msc_set_operand(u->user, (size_t)(u - u->user->in), &copy->out[0]);
  }
  set_digits(t, copy, a, from->type->rank);
}

static void store_copies(timing *t) {
  for (size_t i = 0; i < t->m.num_vars; i++) {
    const shard_variable *v = &t->m.var[i];
    if (v->group >= 0) continue;
    msc_assignment a, of_def;
    shard_state_digits(t->space, (int)i, t->state[i], &a);
    for (size_t k = 1; k < v->num_members; k++) {
      msc_op *sum = t->g.op[v->member[k].op->id].op;
      sum->forward = NULL;
      sum->letters = NULL;
      set_digits(t, sum, &a, v->copied->type->rank);
      set_pass(t, sum, a.pass);
    }
    shard_end def = t->m.of_op[v->copied->def->id];
    const shard_member *member = &t->m.var[def.var].member[def.member];
    shard_op o = t->g.op[v->copied->def->id];
    shard_state_digits(t->space, def.var, t->state[def.var], &of_def);
    of_def.pass = 0;
    const msc_layout *have = shard_layout(&t->g, &o, &of_def, (size_t)(member->op->num_in) + v->copied->index);
    a.pass = 0;
    const msc_layout *want = msc_rule_layout(t->g.ctx, t->g.mesh, &t->g.atoms, v->rule, &a, 0);
    if (!same_cut(have, want)) insert_copy(t, v, &a);
  }
}

/* ---- the search ---- */

bool shard_search_time(msc_pass_ctx *pass, msc_func *f) {
  timing t = {.pass = pass};
  MSC_TRY(shard_graph_of(pass, f, &t.g));
  msc_cost_of(msc_pass_cluster(pass), &f->module->mesh, &t.cost);
  t.o.cost = &t.cost;
  t.o.max_states = MAX_STATES;
  t.o.free_pieces = UINT32_MAX;
  t.o.prices = shard_prices_new(pass->ctx, pass->scratch, &t.cost, !msc_config_bool(pass->config, MSC_KEY_enable_alltoall), bucket_of(&t.g));
  shard_model_of(&t.g, &t.m);
  if (!shard_pieces_of(&t.m, &t.o.num_pieces, t.o.piece)) return msc_error(pass->ctx, MSC_E_UNSUPPORTED, f->loc, "strategies cut the mesh into more than %d pieces", SHARD_MAX_PIECES);
  msc_subaxis digit[SHARD_MAX_PIECES];
  for (int i = 0; i < t.o.num_pieces; i++) {
    const msc_subaxis *first = &t.g.atoms.atom[t.o.piece[i].first];
    digit[i] = (msc_subaxis){first->axis, first->pre, (uint32_t)t.o.piece[i].size};
  }
  shard_prices_digits(t.o.prices, t.o.num_pieces, digit);
  if (!solve(&t)) return msc_error(pass->ctx, MSC_E_UNSUPPORTED, f->loc, "the network is too large for search_mode dynamic_programming on this mesh");
  if (t.ns >= SHARD_IMPOSSIBLE) return msc_error(pass->ctx, MSC_E_INFEASIBLE, f->loc, "no sequence of layout changes connects the given strategies");
  store_groups(&t);
  store_copies(&t);
  msc_func_set(f, "searched", msc_bool(true));
  msc_stat(pass, "ns", t.ns);
  return true;
}
