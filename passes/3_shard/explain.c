/* explain.c: decided strategies in; their costs and the runners-up out (see explain.h).
 *
 * The search's own model and tables are built once more, with every choice open.  A way's cost is its own table plus those to
 * its neighbours as they are; a copy (model.h) between them takes whatever place is then best for it. */
#include "passes/3_shard/explain.h"

#include <string.h>

#include "passes/3_shard/space.h"
#include "passes/config.h"
#include "passes/direction.h"

enum { MAX_WAYS = 4096 };

typedef struct {
  msc_pass_ctx *pass;
  shard_graph g;
  shard_model m;
  msc_cost cost;
  shard_space *space;
  shard_problem p;
  size_t *first, *at; /* tables by variable: p.table[at[first[v]] ... at[first[v + 1] - 1]] touch v */
  int *state;         /* by variable */
} explaining;

/* ---- the tables ---- */

static bool open_space(explaining *e) {
  shard_space_options o = {.free_pieces = UINT32_MAX, .max_states = MAX_WAYS, .zero = shard_zero_of(e->pass->config)};
  MSC_TRY(shard_price_mesh(&e->m, &e->cost, !msc_config_bool(e->pass->config, MSC_KEY_enable_alltoall), shard_bucket_of(e->g.func), &o));
  for (size_t v = 0; v < e->m.num_vars; v++) {
    memset(&e->m.var[v].fixed, 0, sizeof e->m.var[v].fixed);
    e->m.var[v].closed = 0;
  }
  return shard_space_of(&e->m, &o, e->g.arena, &e->space);
}

static void index_tables(explaining *e) {
  shard_space_problem(e->space, &e->p);
  size_t *room = msc_new_array(e->g.arena, size_t, e->m.num_vars + 2);
  for (size_t i = 0; i < e->p.num_tables; i++) {
    room[e->p.table[i].a + 2]++;
    if (e->p.table[i].b >= 0) room[e->p.table[i].b + 2]++;
  }
  for (size_t v = 0; v < e->m.num_vars; v++) room[v + 2] += room[v + 1];
  e->at = msc_new_array(e->g.arena, size_t, 2 * e->p.num_tables);
  e->first = room;
  for (size_t i = 0; i < e->p.num_tables; i++) {
    e->at[room[e->p.table[i].a + 1]++] = i;
    if (e->p.table[i].b >= 0) e->at[room[e->p.table[i].b + 1]++] = i;
  }
}

/* ---- where everything is ---- */

static bool same_digits(const msc_assignment *a, const msc_assignment *b, int num_letters) {
  for (int l = 0; l < num_letters; l++)
    if (a->num[l] != b->num[l] || memcmp(a->atom[l], b->atom[l], a->num[l]) != 0) return false;
  return true;
}

/* The state that is the group's choice; of several, which differ in the sums that pass, the cheapest by itself. -1: none. */
static int chosen_state(const explaining *e, int v) {
  const shard_group *group = &e->g.group[e->m.var[v].group];
  const shard_class *c = shard_class_of(e->space, v);
  int best = -1;
  for (int s = 0; s < c->num_states; s++) {
    msc_assignment a;
    shard_state_digits(e->space, v, s, &a);
    if (same_digits(&a, &group->digits, group->rule.num_letters) && (best < 0 || c->ns[s] < c->ns[best])) best = s;
  }
  return best;
}

static int64_t entry(const explaining *e, const shard_table *t, int a, int b) { return t->b < 0 ? t->cost[a] : t->cost[a * e->p.num_states[t->b] + b]; }

/* What variable v costs in a state, with `other` in a state of its own and the rest where it is.  Those of them that have no
 * state yet cost nothing. */
static int64_t cost_of(const explaining *e, int v, int state, int other, int state_of_other) {
  int64_t sum = 0;
  for (size_t i = e->first[v]; i < e->first[v + 1]; i++) {
    const shard_table *t = &e->p.table[e->at[i]];
    int a = t->a == v ? state : t->a == other ? state_of_other : e->state[t->a];
    int b = t->b < 0 ? 0 : t->b == v ? state : t->b == other ? state_of_other : e->state[t->b];
    if (a >= 0 && b >= 0) sum += entry(e, t, a, b);
  }
  return sum;
}

static int64_t best_of_copy(const explaining *e, int copy, int other, int state_of_other, int *out_state) {
  int64_t best = INT64_MAX;
  for (int s = 0; s < e->p.num_states[copy]; s++) {
    int64_t ns = cost_of(e, copy, s, other, state_of_other);
    if (ns < best) best = ns, *out_state = s;
  }
  return best;
}

static void place_all(explaining *e) {
  e->state = msc_new_array(e->g.arena, int, e->m.num_vars);
  for (size_t v = 0; v < e->m.num_vars; v++) e->state[v] = e->m.var[v].group < 0 ? -1 : chosen_state(e, (int)v);
  for (size_t v = 0; v < e->m.num_vars; v++) {
    int state = 0;
    if (e->m.var[v].group >= 0) continue;
    best_of_copy(e, (int)v, -1, -1, &state);
    e->state[v] = state;
  }
}

/* ---- ways ---- */

/* With the copies around it where they are then best. */
static int64_t around(const explaining *e, int v, int state) {
  int64_t sum = cost_of(e, v, state, -1, -1);
  for (size_t i = e->first[v]; i < e->first[v + 1]; i++) {
    const shard_table *t = &e->p.table[e->at[i]];
    int copy = t->b < 0 ? -1 : t->a == v ? t->b : t->a, unused;
    if (copy < 0 || e->m.var[copy].group >= 0) continue;
    bool seen = false;
    for (size_t k = e->first[v]; k < i && !seen; k++) seen = e->p.table[e->at[k]].a == copy || e->p.table[e->at[k]].b == copy;
    if (seen) continue;
    int64_t now = cost_of(e, copy, e->state[copy], v, state);
    sum += best_of_copy(e, copy, v, state, &unused) - now;
  }
  return sum;
}

static const char *cuts_text(const explaining *e, const msc_rule *rule, const msc_assignment *a) {
  const char *text = "";
  for (int l = 0; l < rule->num_letters; l++)
    if (a->num[l]) text = msc_arena_printf(e->pass->scratch, "%s%s%c %s", text, *text ? ", " : "", rule->letter[l].name, shard_digits_text(&e->g, a->num[l], a->atom[l]));
  return *text ? text : "whole";
}

static const char *layouts_text(explaining *e, int group, const msc_assignment *a) {
  const shard_op *o = &e->g.op[e->g.group[group].leader->id];
  msc_assignment digits = *a;
  const char *text = "";
  digits.pass = 0;
  for (int t = 0; t < o->rule.num_tensors; t++)
    text = msc_arena_printf(e->pass->scratch, "%s%s%s%s", text, t ? " " : "", t == o->rule.num_in ? "-> " : "",
                            msc_layout_print(e->pass->scratch, e->g.mesh, shard_layout(&e->g, o, &digits, (size_t)t)));
  return text;
}

static shard_way way_of(explaining *e, int v, int state) {
  const shard_class *c = shard_class_of(e->space, v);
  int group = e->m.var[v].group;
  msc_assignment a;
  shard_state_digits(e->space, v, state, &a);
  return (shard_way){.cuts = cuts_text(e, &e->g.group[group].rule, &a), .layouts = layouts_text(e, group, &a), .work_ns = c->ns[state],
                     .move_ns = around(e, v, state) - c->ns[state], .bytes = c->bytes[state]};
}

static void compare(explaining *e, int v, shard_reason *r) {
  int num = e->p.num_states[v], next = -1;
  int64_t least = SHARD_IMPOSSIBLE;
  msc_assignment chosen, other;
  shard_state_digits(e->space, v, e->state[v], &chosen);
  for (int s = 0; s < num; s++) {
    shard_state_digits(e->space, v, s, &other);
    if (same_digits(&chosen, &other, e->g.group[e->m.var[v].group].rule.num_letters)) continue;
    int64_t ns = around(e, v, s);
    if (ns < least) least = ns, next = s;
  }
  r->num_ways = num;
  r->chosen = way_of(e, v, e->state[v]);
  if (next >= 0) r->next = way_of(e, v, next);
}

/* ---- all of them ---- */

/* The rule of the op, and its letters as they are cut. */
static const char *letters_text(const explaining *e, const shard_group *group) {
  msc_arena *a = e->pass->scratch;
  const msc_rule *rule = &group->rule;
  const char *text = msc_rule_print(a, rule);
  text = msc_arena_printf(a, "%.*s", (int)strcspn(text, " "), text);
  for (int l = 0; l < rule->num_letters; l++) {
    const msc_letter *letter = &rule->letter[l];
    int64_t parts = shard_parts(&e->g.atoms, group->digits.num[l], group->digits.atom[l]);
    text = msc_arena_printf(a, "%s, %c %" PRId64, text, letter->name, letter->size);
    if (parts > 1) text = msc_arena_printf(a, "%s in %" PRId64 " parts", text, parts);
    if (parts > 1 && letter->role == MSC_RED) text = msc_arena_printf(a, "%s that are added up", text);
    if (letter->role == MSC_REP) text = msc_arena_printf(a, "%s that must stay whole", text);
  }
  return text;
}

/* The largest part of a letter by the mean one. */
static double imbalance_of(const explaining *e, const shard_group *group, int l) {
  const int64_t *split = group->split[l], size = group->rule.letter[l].size;
  int64_t parts = shard_parts(&e->g.atoms, group->digits.num[l], group->digits.atom[l]), most = (size + parts - 1) / parts;
  for (int64_t i = 0; split && i < parts; i++) most = split[i + 1] - split[i] > most ? split[i + 1] - split[i] : most;
  return size > 0 ? (double)most * (double)parts / (double)size : 1;
}

static void explain_group(explaining *e, int v, shard_reason *r) {
  const shard_group *group = &e->g.group[e->m.var[v].group];
  *r = (shard_reason){.op = group->leader, .by = group->by ? group->by : "search", .num_others = group->num_members - 1};
  r->letters = letters_text(e, group);
  r->imbalance = 1;
  for (int l = 0; l < group->rule.num_letters; l++) r->imbalance *= imbalance_of(e, group, l);
  if (e->space && e->state[v] >= 0) compare(e, v, r);
  else r->chosen = (shard_way){.cuts = cuts_text(e, &group->rule, &group->digits), .layouts = layouts_text(e, e->m.var[v].group, &group->digits)};
}

/* Where a search brings a value into a layout for several users stands an op that does nothing else. */
static bool is_copy(const msc_op *op) {
  return op->kind == OP_broadcast_to && op->in[0].value->type->rank == op->out[0].type->rank &&
         msc_type_elems(op->in[0].value->type) == msc_type_elems(op->out[0].type);
}

bool shard_explain(msc_pass_ctx *pass, msc_func *f, size_t *out_num, shard_reason **out_reason) {
  explaining e = {.pass = pass};
  MSC_TRY(shard_graph_of(pass, f, &e.g));
  msc_cost_of(msc_pass_cluster(pass), &f->module->mesh, &e.cost);
  shard_model_of(&e.g, &e.m);
  if (open_space(&e)) {
    index_tables(&e);
    place_all(&e);
  } else {
    e.space = NULL;
  }
  const bool *forward = msc_forward_ops(pass->scratch, f);
  *out_reason = msc_new_array(pass->scratch, shard_reason, e.m.num_vars);
  *out_num = 0;
  for (size_t v = 0; v < e.m.num_vars; v++) {
    int group = e.m.var[v].group;
    const msc_op *leader = group < 0 ? NULL : e.g.group[group].leader;
    if (!leader || !leader->name || !leader->num_in || !forward[leader->id] || is_copy(leader)) continue;
    explain_group(&e, (int)v, &(*out_reason)[(*out_num)++]);
  }
  return true;
}
