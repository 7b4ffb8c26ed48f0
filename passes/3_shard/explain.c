/* explain.c: decided strategies in; their costs and the runners-up out (see explain.h).
 *
 * The search's own model and tables are built once more, with every choice open.  A way's cost is its own table plus those to
 * its neighbours as they are; a copy (model.h) between them takes whatever place is then best for it. */
#include "passes/3_shard/explain.h"

#include <string.h>

#include "passes/3_shard/minimum.h"
#include "passes/3_shard/space.h"
#include "passes/config.h"
#include "passes/direction.h"

enum { MAX_WAYS = 4096, MAX_ENTRIES = 1 << 26, MOST_INSTEAD = 3 };

typedef struct {
  msc_pass_ctx *pass;
  shard_graph g;
  shard_model m;
  msc_cost cost;
  shard_space *space;
  shard_problem p;
  size_t *first, *at; /* tables by variable: p.table[at[first[v]] ... at[first[v + 1] - 1]] touch v */
  int *state;         /* by variable */
  shard_chains *chains;
  int *all_states; /* 0, 1, 2 ...: lists of states that are equal shall be the same */
  int64_t work_ns; /* of all groups as decided */
  shard_figures figures;
} explaining;

/* ---- the tables ---- */

/* The space knows digits in mesh order; others are the user's. */
static bool is_in_mesh_order(const msc_assignment *a, int num_letters) {
  for (int l = 0; l < num_letters; l++)
    for (int k = 1; k < a->num[l]; k++)
      if (a->atom[l][k] < a->atom[l][k - 1]) return false;
  return true;
}

static bool open_space(explaining *e) {
  shard_space_options o = {.free_pieces = UINT32_MAX, .max_states = MAX_WAYS, .zero = shard_zero_of(e->pass->config)};
  MSC_TRY(shard_price_mesh(&e->m, &e->cost, !msc_config_bool(e->pass->config, MSC_KEY_enable_alltoall), shard_bucket_of(e->g.func), &o));
  for (size_t v = 0; v < e->m.num_vars; v++) {
    if (!is_in_mesh_order(&e->m.var[v].fixed, e->m.var[v].rule->num_letters)) continue;
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

/* ---- the whole step ---- */

typedef struct {
  int *num;
  const int **state; /* by variable: the states that it may take */
} allowance;

/* The variable stays as decided; which sums pass there may be chosen. */
static void pin(explaining *e, allowance *w, size_t v) {
  const shard_group *group = &e->g.group[e->m.var[v].group];
  int num = 0, *state = msc_new_array(e->g.arena, int, e->p.num_states[v]);
  msc_assignment a;
  for (int s = 0; s < e->p.num_states[v]; s++) {
    shard_state_digits(e->space, (int)v, s, &a);
    if (same_digits(&a, &group->digits, group->rule.num_letters)) state[num++] = s;
  }
  w->num[v] = num, w->state[v] = num == 1 ? e->all_states + state[0] : state;
}

static allowance allow(explaining *e, bool all_free) {
  msc_arena *a = e->g.arena;
  allowance w = {msc_new_array(a, int, e->m.num_vars), msc_new_array(a, const int *, e->m.num_vars)};
  for (size_t v = 0; v < e->m.num_vars; v++) {
    int group = e->m.var[v].group;
    bool users = group >= 0 && e->g.group[group].by && !strcmp(e->g.group[group].by, "user");
    w.num[v] = e->p.num_states[v], w.state[v] = e->all_states;
    if (users && !all_free) pin(e, &w, v);
  }
  return w;
}

/* The least of what is allowed; false: it is too much to look at. */
static bool least_step(explaining *e, const allowance *w, int *out_state, int64_t *out_ns) {
  shard_problem p;
  int64_t bound = 0;
  shard_restrict(e->g.arena, &e->p, w->num, w->state, &p);
  shard_minimum(e->g.arena, &p, MAX_ENTRIES, out_state, out_ns, &bound, NULL);
  for (size_t v = 0; v < e->m.num_vars; v++) out_state[v] = w->state[v][out_state[v]];
  return bound == *out_ns && *out_ns < SHARD_IMPOSSIBLE;
}

static int64_t work_of(const explaining *e, const int *state) {
  int64_t ns = 0;
  for (size_t v = 0; v < e->m.num_vars; v++)
    if (e->m.var[v].group >= 0) ns += shard_class_of(e->space, (int)v)->ns[state[v]];
  return ns;
}

static int64_t bytes_of(const explaining *e, const int *state) {
  int64_t bytes = 0;
  for (size_t v = 0; v < e->m.num_vars; v++) bytes += shard_class_of(e->space, (int)v)->bytes[state[v]];
  return bytes;
}

static void set_figures(explaining *e) {
  size_t most = 1;
  bool known = true;
  for (size_t v = 0; v < e->m.num_vars; v++) {
    known = known && (e->m.var[v].group < 0 || e->state[v] >= 0);
    most = (size_t)e->p.num_states[v] > most ? (size_t)e->p.num_states[v] : most;
  }
  e->all_states = msc_new_array(e->g.arena, int, most);
  for (size_t s = 0; s < most; s++) e->all_states[s] = (int)s;
  if (!known) return;
  int *state = msc_new_array(e->g.arena, int, e->m.num_vars);
  allowance w = allow(e, false);
  if (least_step(e, &w, state, &e->figures.kept_ns)) e->figures.kept_bytes = bytes_of(e, state);
  else e->figures.kept_ns = 0;
  w = allow(e, true);
  if (!least_step(e, &w, state, &e->figures.free_ns)) e->figures.free_ns = 0;
  for (size_t v = 0; v < e->m.num_vars; v++)
    if (e->m.var[v].group >= 0) pin(e, &w, v);
  if (!least_step(e, &w, state, &e->figures.step_ns)) e->figures.step_ns = 0;
  e->work_ns = work_of(e, state);
  e->figures.bytes = bytes_of(e, state);
}

static const char *cuts_of_state(const explaining *e, int v, int state) {
  msc_assignment a;
  shard_state_digits(e->space, v, state, &a);
  return cuts_text(e, &e->g.group[e->m.var[v].group].rule, &a);
}

static void list_changes(explaining *e, int v, const int *state, shard_instead *i) {
  i->changed = msc_new_array(e->pass->scratch, const char *, e->m.num_vars);
  for (size_t u = 0; u < e->m.num_vars; u++) {
    const msc_op *leader = e->m.var[u].group < 0 ? NULL : e->g.group[e->m.var[u].group].leader;
    if (!leader || !leader->name || (int)u == v || state[u] == e->state[u]) continue;
    const char *cuts = cuts_of_state(e, (int)u, state[u]);
    if (strcmp(cuts, cuts_of_state(e, (int)u, e->state[u])) != 0)
      i->changed[i->num_changed++] = msc_arena_printf(e->pass->scratch, "%s: %s", leader->name, cuts);
  }
}

/* With the op in one of these states; false: that cannot be, or is too much to look at. */
static bool step_with(explaining *e, int v, int num, const int *states, shard_instead *out) {
  int *state = msc_new_array(e->g.arena, int, e->m.num_vars);
  allowance w = allow(e, false);
  w.num[v] = num, w.state[v] = states;
  MSC_TRY(num > 0 && least_step(e, &w, state, &out->step_ns));
  out->way = way_of(e, v, state[v]);
  out->bytes = bytes_of(e, state);
  out->work_ns = work_of(e, state) - e->work_ns;
  out->move_ns = out->step_ns - e->figures.step_ns - out->work_ns;
  list_changes(e, v, state, out);
  return true;
}

static void take_out(const explaining *e, int v, const char *cuts, int *num, int *state) {
  int kept = 0;
  for (int i = 0; i < *num; i++)
    if (strcmp(cuts_of_state(e, v, state[i]), cuts) != 0) state[kept++] = state[i];
  *num = kept;
}

/* The best ways but the one decided, then the one asked for. */
static void compare_whole(explaining *e, int v, const char *cuts, shard_reason *r) {
  int num = e->p.num_states[v], asked = 0;
  int *state = msc_arena_copy(e->g.arena, e->all_states, (size_t)num * sizeof *state), *one = msc_new_array(e->g.arena, int, num);
  r->instead = msc_new_array(e->pass->scratch, shard_instead, MOST_INSTEAD + 1);
  for (int i = 0; cuts && i < num; i++)
    if (!strcmp(cuts_of_state(e, v, i), cuts)) one[asked++] = i;
  if (cuts && step_with(e, v, asked, one, &r->instead[0])) r->num_instead = 1;
  if (cuts) return;
  take_out(e, v, r->chosen.cuts, &num, state);
  while (r->num_instead < MOST_INSTEAD && step_with(e, v, num, state, &r->instead[r->num_instead]))
    take_out(e, v, r->instead[r->num_instead++].way.cuts, &num, state);
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
  int number = e->m.var[v].group;
  const shard_group *group = &e->g.group[number];
  *r = (shard_reason){.op = group->leader, .by = group->by ? group->by : "search", .num_others = group->num_members - 1};
  r->letters = letters_text(e, group);
  r->imbalance = 1;
  for (int l = 0; l < group->rule.num_letters; l++) r->imbalance *= imbalance_of(e, group, l);
  if (e->space && e->state[v] >= 0) compare(e, v, r);
  else r->chosen = (shard_way){.cuts = cuts_text(e, &group->rule, &group->digits), .layouts = layouts_text(e, number, &group->digits)};
  r->own_order = !is_in_mesh_order(&group->digits, group->rule.num_letters);
  r->num_chains = shard_chains_to(e->chains, number, &r->chain);
  r->num_conflicts = shard_chains_conflicts(e->chains, number, &r->conflict);
}

/* ---- the program before the search ---- */

static const msc_op *named_before(const msc_op *end, const char *name) {
  for (const msc_op *op = end->block->first; op != end; op = op->next)
    if (op->name && !op->forward && !strcmp(op->name, name)) return op;
  return NULL;
}

/* Where a search brought a value into a layout for several users stands an op that does nothing else, and sums of what these send
 * back have left their op: the model has places of its own for both. */
static void undo_copies(msc_func *f) {
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    msc_op_unset(op, "in_strategy"); /* the digits that it became count */
    if (!msc_op_attr(op, "by") || strcmp(msc_op_str(op, "by"), "copy") != 0) continue;
    if (op->kind == OP_broadcast_to) {
      msc_replace_uses(&op->out[0], op->in[0].value);
      msc_op_erase(op);
      continue;
    }
    const msc_op *owner = msc_op_attr(op, "owner") ? named_before(op, msc_op_str(op, "owner")) : NULL;
    if (!owner || !msc_op_attr(op, "owner_letters")) continue;
    op->forward = owner;
    op->letters = msc_op_str(op, "owner_letters");
  }
}

/* ---- all of them ---- */

/* A way that was asked for and does not exist. */
static bool no_such_way(const explaining *e, int v, const char *cuts) {
  const msc_op *op = e->g.group[e->m.var[v].group].leader;
  int num = e->p.num_states[v];
  const char **ways = msc_new_array(e->g.arena, const char *, num);
  for (int s = 0; s < num; s++) ways[s] = cuts_of_state(e, v, s);
  const char *near = msc_nearest(cuts, ways, (size_t)num);
  return msc_error(e->g.ctx, MSC_E_STRATEGY, NULL, "%s cannot be cut '%s' on this mesh; %s'%s'", op->name, cuts,
                   near ? "did you mean " : "one way is ", near ? near : ways[num - 1]);
}

bool shard_explain(msc_pass_ctx *pass, msc_func *f, const char *op, const char *cuts, shard_explanation *out) {
  explaining e = {.pass = pass};
  undo_copies(f);
  MSC_TRY(shard_graph_of(pass, f, &e.g));
  msc_cost_of(msc_pass_cluster(pass), &f->module->mesh, &e.cost);
  shard_model_of(&e.g, &e.m);
  if (open_space(&e)) {
    index_tables(&e);
    place_all(&e);
    set_figures(&e);
  } else {
    e.space = NULL;
  }
  e.chains = shard_chains_of(&e.g);
  const bool *forward = msc_forward_ops(pass->scratch, f);
  out->reason = msc_new_array(pass->scratch, shard_reason, e.m.num_vars);
  out->num = 0;
  for (size_t v = 0; v < e.m.num_vars; v++) {
    int group = e.m.var[v].group;
    const msc_op *leader = group < 0 ? NULL : e.g.group[group].leader;
    if (!leader || !leader->name || !leader->num_in || !forward[leader->id]) continue;
    shard_reason *r = &out->reason[out->num++];
    explain_group(&e, (int)v, r);
    if (!op || strcmp(op, leader->name) != 0 || !e.figures.step_ns) continue;
    compare_whole(&e, (int)v, cuts, r);
    if (cuts && !r->num_instead) return no_such_way(&e, (int)v, cuts);
  }
  out->figures = e.figures;
  return true;
}
