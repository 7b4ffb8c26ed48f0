/* explain.c: decided strategies in; their costs and the runners-up out (see explain.h).
 *
 * The search's model and tables are built again, with every choice open.  The cost of a way to cut an op is that of its
 * state plus those of the flows to its neighbours in their decided states; a copy (model.h) between them takes the
 * state that is then best. */
#include "passes/3_shard/explain/explain.h"

#include <string.h>

#include "passes/3_shard/step_time_search/minimum.h"
#include "passes/3_shard/step_time_search/space.h"
#include "passes/3_shard/step_time_search/states.h"
#include "passes/config/config.h"
#include "passes/direction.h"

enum { MAX_WAYS = 4096, MAX_WORK = 1 << 26, MOST_INSTEAD = 3, MOST_AROUND = 256 };

typedef struct {
  int *num;
  const int **state; /* by variable: the states that it may take */
} allowed_states;

typedef struct {
  msc_pass_ctx *pass;
  shard_graph g;
  shard_model m;
  msc_cost cost;
  shard_space *space;
  shard_problem p;
  size_t *first, *at; /* tables by variable: p.table[at[first[v]] ... at[first[v + 1] - 1]] touch v */
  int *state;         /* by variable: as decided */
  int *number;        /* by variable: its number among those that collect_neighbours found, + 1; 0: not found */
  allowed_states decided;
  shard_chains *chains;
  int *all_states; /* 0, 1, 2 ...: one array, because shard_restrict takes equal lists to be one pointer */
  int64_t work_ns; /* of all groups as decided */
  shard_figures figures;
} explainer;

/* ---- the tables ---- */

/* False if a letter has its digits in another order than the mesh: only a user can say so, a search has no such state.
 */
static bool is_in_mesh_order(const msc_assignment *a, int num_letters) {
  for (int l = 0; l < num_letters; l++)
    for (int k = 1; k < a->num[l]; k++)
      if (a->atom[l][k] < a->atom[l][k - 1]) return false;
  return true;
}

static bool same_digits(const msc_assignment *a, const msc_assignment *b, int num_letters) {
  for (int l = 0; l < num_letters; l++)
    if (a->num[l] != b->num[l] || memcmp(a->atom[l], b->atom[l], a->num[l]) != 0) return false;
  return true;
}

/* Is the decided choice of the variable one of the states that a search would offer for it? */
static bool is_searched_state(const explainer *e, const shard_space_options *o, const shard_variable *v) {
  shard_variable open = *v;
  memset(&open.fixed, 0, sizeof open.fixed);
  open.closed = 0;
  msc_arena *a = msc_arena_new(e->g.ctx);
  shard_states all = shard_states_of(&e->g, o, &open, a);
  bool found = false;
  for (int s = 0; s < all.num && !found; s++) {
    msc_assignment digits;
    shard_put_state(o, &all.state[s], &digits);
    found = same_digits(&digits, &v->fixed, v->rule->num_letters);
  }
  msc_arena_free(a);
  return found;
}

/* Builds the space with every choice open. A variable whose decided digits are no state of a search stays fixed, so
 * that all others can still be compared. */
static bool open_space(explainer *e) {
  shard_space_options o = {.free_pieces = UINT32_MAX, .max_states = MAX_WAYS, .zero = shard_zero_of(e->pass->config)};
  MSC_TRY(shard_price_mesh(&e->m, &e->cost, !msc_config_bool(e->pass->config, MSC_KEY_enable_alltoall),
                           shard_bucket_of(e->g.func), false, &o));
  for (size_t v = 0; v < e->m.num_vars; v++) {
    if (!is_searched_state(e, &o, &e->m.var[v])) continue;
    memset(&e->m.var[v].fixed, 0, sizeof e->m.var[v].fixed);
    e->m.var[v].closed = 0;
  }
  return shard_space_of(&e->m, &o, e->g.arena, &e->space);
}

static void index_tables(explainer *e) {
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

/* ---- the decided states ---- */

static int64_t table_entry(const explainer *e, const shard_table *t, int a, int b) {
  return t->b < 0 ? t->cost[a] : t->cost[a * e->p.num_states[t->b] + b];
}

/* The cost of variable v in this state, with all its neighbours in their decided states. */
static int64_t cost_of_state(const explainer *e, int v, int state) {
  int64_t sum = 0;
  for (size_t i = e->first[v]; i < e->first[v + 1]; i++) {
    const shard_table *t = &e->p.table[e->at[i]];
    sum += table_entry(e, t, t->a == v ? state : e->state[t->a], t->b < 0 ? 0 : t->b == v ? state : e->state[t->b]);
  }
  return sum;
}

/* ---- which states are allowed ---- */

/* Allows variable v only the states with its decided digits. There are several where states differ in the digits over
 * which sums pass through unfinished. */
static void allow_decided(explainer *e, allowed_states *w, size_t v) {
  const shard_group *group = &e->g.group[e->m.var[v].group];
  int num = 0, *state = msc_new_array(e->g.arena, int, e->p.num_states[v]);
  msc_assignment a;
  for (int s = 0; s < e->p.num_states[v]; s++) {
    shard_state_digits(e->space, (int)v, s, &a);
    if (same_digits(&a, &group->digits, group->rule.num_letters)) state[num++] = s;
  }
  w->num[v] = num, w->state[v] = num == 1 ? e->all_states + state[0] : state;
}

static allowed_states allow_everything(explainer *e) {
  allowed_states w = {msc_new_array(e->g.arena, int, e->m.num_vars),
                      msc_new_array(e->g.arena, const int *, e->m.num_vars)};
  for (size_t v = 0; v < e->m.num_vars; v++) w.num[v] = e->p.num_states[v], w.state[v] = e->all_states;
  return w;
}

/* Finds the least cost among the allowed states; false: there is none, or the search would take too much work. */
static bool least_step(explainer *e, const allowed_states *w, int *out_state, int64_t *out_ns) {
  shard_problem p;
  int64_t bound = 0;
  memset(out_state, 0, e->m.num_vars * sizeof *out_state);
  shard_restrict(e->g.arena, &e->p, w->num, w->state, &p);
  shard_minimum(e->g.arena, &p, MAX_WORK, out_state, out_ns, &bound, NULL);
  for (size_t v = 0; v < e->m.num_vars; v++) out_state[v] = w->state[v][out_state[v]];
  return bound == *out_ns && *out_ns < SHARD_IMPOSSIBLE;
}

/* Finds the decided state of every variable, and the best states of copies for these. False: the decided digits of some
 * variable are no state of the space. */
static bool find_decided_states(explainer *e) {
  int most = 1;
  int64_t ns;
  for (size_t v = 0; v < e->m.num_vars; v++) most = e->p.num_states[v] > most ? e->p.num_states[v] : most;
  e->all_states = msc_new_array(e->g.arena, int, most);
  for (int s = 0; s < most; s++) e->all_states[s] = s;
  e->decided = allow_everything(e);
  for (size_t v = 0; v < e->m.num_vars; v++) {
    if (e->m.var[v].group < 0) continue;
    allow_decided(e, &e->decided, v);
    if (!e->decided.num[v]) return false;
  }
  e->state = msc_new_array(e->g.arena, int, e->m.num_vars);
  e->number = msc_new_array(e->g.arena, int, e->m.num_vars);
  return least_step(e, &e->decided, e->state, &ns);
}

/* ---- one op, and what is around it ---- */

typedef struct {
  int num, *var; /* the op's variable first */
  int *num_states;
  const int **state;
  size_t num_tables;
  shard_table *table;
} surroundings;

/* Collects v and the variables connected to it that have several decided states, copies among them: they take their
 * best states when v changes. All other variables keep theirs. */
static void collect_neighbours(explainer *e, int v, surroundings *s) {
  msc_arena *a = e->g.arena;
  *s = (surroundings){1,
                      msc_new_array(a, int, MOST_AROUND),
                      msc_new_array(a, int, MOST_AROUND),
                      msc_new_array(a, const int *, MOST_AROUND),
                      0,
                      NULL};
  s->var[0] = v;
  e->number[v] = 1;
  for (int k = 0; k < s->num; k++)
    for (size_t i = e->first[s->var[k]]; i < e->first[s->var[k] + 1]; i++) {
      const shard_table *t = &e->p.table[e->at[i]];
      int other = t->b < 0 ? -1 : t->a == s->var[k] ? t->b : t->a;
      s->num_tables++;
      if (other < 0 || e->number[other] || e->decided.num[other] == 1 || s->num == MOST_AROUND) continue;
      s->var[s->num++] = other;
      e->number[other] = s->num;
    }
  for (int k = 0; k < s->num; k++)
    s->num_states[k] = e->decided.num[s->var[k]], s->state[k] = e->decided.state[s->var[k]];
}

/* The entries of table t for the allowed states of collected variables and the decided states of all others. */
static shard_table table_of_collected(explainer *e, const surroundings *s, const shard_table *t) {
  int a = e->number[t->a] - 1, b = t->b < 0 ? -1 : e->number[t->b] - 1;
  int rows = a < 0 ? 1 : s->num_states[a], columns = b < 0 ? 1 : s->num_states[b];
  int64_t *cost = msc_new_array(e->g.arena, int64_t, (size_t)rows * (size_t)columns);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      cost[i * columns + j] = table_entry(e, t, a < 0 ? e->state[t->a] : s->state[a][i],
                                          t->b < 0 ? 0
                                          : b < 0  ? e->state[t->b]
                                                   : s->state[b][j]);
  return (shard_table){a < 0 ? b : a, a < 0 ? -1 : b, cost};
}

/* The least cost of v and what look_around collects when v takes one of these states; *out_state: the state that it
 * takes. */
static int64_t least_cost_near(explainer *e, int v, int num, const int *states, int *out_state) {
  surroundings s;
  int64_t ns = 0, bound;
  collect_neighbours(e, v, &s);
  s.num_states[0] = num, s.state[0] = states;
  s.table = msc_new_array(e->g.arena, shard_table, s.num_tables);
  size_t tables = 0;
  for (int k = 0; k < s.num; k++)
    for (size_t i = e->first[s.var[k]]; i < e->first[s.var[k] + 1]; i++) {
      const shard_table *t = &e->p.table[e->at[i]];
      int other = t->b < 0 ? -1 : t->a == s.var[k] ? t->b : t->a;
      if (other >= 0 && e->number[other] && e->number[other] - 1 < k) continue; /* it was there */
      s.table[tables++] = table_of_collected(e, &s, t);
    }
  int *state = msc_new_array(e->g.arena, int, s.num);
  shard_problem p = {.num_vars = s.num, .num_states = s.num_states, .num_tables = tables, .table = s.table};
  shard_minimum(e->g.arena, &p, MAX_WORK, state, &ns, &bound, NULL);
  *out_state = states[state[0]];
  for (int k = 0; k < s.num; k++) e->number[s.var[k]] = 0;
  return ns;
}

/* ---- ways to cut one op ---- */

static const char *cuts_text(const explainer *e, const msc_rule *rule, const msc_assignment *a) {
  const char *text = "";
  for (int l = 0; l < rule->num_letters; l++)
    if (a->num[l])
      text = msc_arena_printf(e->pass->scratch, "%s%s%c %s", text, *text ? ", " : "", rule->letter[l].name,
                              shard_digits_text(&e->g, a->num[l], a->atom[l]));
  return *text ? text : "whole";
}

static const char *layouts_text(explainer *e, int group, const msc_assignment *a) {
  const shard_op *o = &e->g.op[e->g.group[group].leader->id];
  msc_assignment digits = *a;
  const char *text = "";
  digits.pass = 0;
  for (int t = 0; t < o->rule.num_tensors; t++)
    text = msc_arena_printf(e->pass->scratch, "%s%s%s%s", text, t ? " " : "", t == o->rule.num_in ? "-> " : "",
                            msc_layout_print(e->pass->scratch, e->g.mesh, shard_layout(&e->g, o, &digits, (size_t)t)));
  return text;
}

static shard_way make_way(explainer *e, int v, int state, int64_t move_ns) {
  const shard_class *c = shard_class_of(e->space, v);
  int group = e->m.var[v].group;
  msc_assignment a;
  shard_state_digits(e->space, v, state, &a);
  return (shard_way){.cuts = cuts_text(e, &e->g.group[group].rule, &a),
                     .layouts = layouts_text(e, group, &a),
                     .work_ns = c->ns[state],
                     .move_ns = move_ns,
                     .bytes = c->bytes[state]};
}

static int64_t decided_move_ns(const explainer *e, int v) {
  return cost_of_state(e, v, e->state[v]) - shard_class_of(e->space, v)->ns[e->state[v]];
}

/* Lists all states that cut the op differently from what was decided. */
static int other_states(const explainer *e, int v, int *out_state) {
  const shard_group *group = &e->g.group[e->m.var[v].group];
  msc_assignment a;
  int num = 0;
  for (int s = 0; s < e->p.num_states[v]; s++) {
    shard_state_digits(e->space, v, s, &a);
    if (!same_digits(&group->digits, &a, group->rule.num_letters)) out_state[num++] = s;
  }
  return num;
}

static void compare_states(explainer *e, int v, shard_reason *r) {
  int *other = msc_new_array(e->g.arena, int, e->p.num_states[v]), num = other_states(e, v, other), next, same;
  int64_t now_ns = decided_move_ns(e, v);
  r->num_ways = e->m.var[v].closed ? -1 : e->p.num_states[v];
  r->chosen = make_way(e, v, e->state[v], now_ns);
  if (!num) return;
  int64_t decided = least_cost_near(e, v, e->decided.num[v], e->decided.state[v], &same),
          ns = least_cost_near(e, v, num, other, &next);
  if (ns >= SHARD_IMPOSSIBLE) return;
  int64_t more = ns - decided - shard_class_of(e->space, v)->ns[next] + r->chosen.work_ns;
  r->next = make_way(e, v, next, now_ns + more);
}

/* ---- the whole step ---- */

/* Allows every variable all its states, except that ops decided by the user keep theirs unless all_free. */
static allowed_states allow_undecided(explainer *e, bool all_free) {
  allowed_states w = allow_everything(e);
  for (size_t v = 0; v < e->m.num_vars; v++) {
    int group = e->m.var[v].group;
    bool users = group >= 0 && e->g.group[group].by == MSC_DECIDER_USER;
    if (users && !all_free) w.num[v] = e->decided.num[v], w.state[v] = e->decided.state[v];
  }
  return w;
}

static int64_t work_of(const explainer *e, const int *state) {
  int64_t ns = 0;
  for (size_t v = 0; v < e->m.num_vars; v++)
    if (e->m.var[v].group >= 0) ns += shard_class_of(e->space, (int)v)->ns[state[v]];
  return ns;
}

static int64_t bytes_kept_in(const explainer *e, const int *state) {
  int64_t bytes = 0;
  for (size_t v = 0; v < e->m.num_vars; v++) bytes += shard_class_of(e->space, (int)v)->bytes[state[v]];
  return bytes;
}

static void compute_figures(explainer *e) {
  shard_figures *f = &e->figures;
  int *state = msc_new_array(e->g.arena, int, e->m.num_vars);
  for (size_t i = 0; i < e->p.num_tables; i++) {
    const shard_table *t = &e->p.table[i];
    f->step_ns += table_entry(e, t, e->state[t->a], t->b < 0 ? 0 : e->state[t->b]);
  }
  f->bytes = bytes_kept_in(e, e->state);
  e->work_ns = work_of(e, e->state);
  allowed_states w = allow_undecided(e, false);
  if (least_step(e, &w, state, &f->kept_ns)) f->kept_bytes = bytes_kept_in(e, state);
  else f->kept_ns = 0;
  w = allow_undecided(e, true);
  if (!least_step(e, &w, state, &f->free_ns)) f->free_ns = 0;
}

static const char *cuts_of_state(const explainer *e, int v, int state) {
  msc_assignment a;
  shard_state_digits(e->space, v, state, &a);
  return cuts_text(e, &e->g.group[e->m.var[v].group].rule, &a);
}

static void list_changes(explainer *e, int v, const int *state, shard_instead *i) {
  i->changed = msc_new_array(e->pass->scratch, const char *, e->m.num_vars);
  for (size_t u = 0; u < e->m.num_vars; u++) {
    const msc_op *leader = e->m.var[u].group < 0 ? NULL : e->g.group[e->m.var[u].group].leader;
    if (!leader || !leader->name || (int)u == v || state[u] == e->state[u]) continue;
    const char *cuts = cuts_of_state(e, (int)u, state[u]);
    if (strcmp(cuts, cuts_of_state(e, (int)u, e->state[u])) != 0)
      i->changed[i->num_changed++] = msc_arena_printf(e->pass->scratch, "%s: %s", leader->name, cuts);
  }
}

/* The time of layout changes around v if all variables have these states. */
static int64_t move_ns_in(explainer *e, int v, int *state) {
  int *decided = e->state;
  e->state = state;
  int64_t ns = decided_move_ns(e, v);
  e->state = decided;
  return ns;
}

/* The step of least time in which op v takes one of these states; false: there is none, or it would take too much
 * work. */
static bool find_step_with(explainer *e, int v, int num, const int *states, shard_instead *out) {
  int *state = msc_new_array(e->g.arena, int, e->m.num_vars);
  allowed_states w = allow_undecided(e, false);
  w.num[v] = num, w.state[v] = states;
  MSC_TRY(num > 0 && least_step(e, &w, state, &out->step_ns));
  out->way = make_way(e, v, state[v], 0);
  out->bytes = bytes_kept_in(e, state);
  out->work_ns = work_of(e, state) - e->work_ns;
  out->move_ns = out->step_ns - e->figures.step_ns - out->work_ns;
  out->way.move_ns = move_ns_in(e, v, state);
  list_changes(e, v, state, out);
  return true;
}

/* Removes from the list the states that cut v in this way. */
static void remove_cut_alike(const explainer *e, int v, const char *cuts, int *num, int *state) {
  int kept = 0;
  for (int i = 0; i < *num; i++)
    if (strcmp(cuts_of_state(e, v, state[i]), cuts) != 0) state[kept++] = state[i];
  *num = kept;
}

/* Fills in r->instead: whole steps in which v is cut otherwise, the best first, or only the way asked for (`cuts`). */
static void compare_whole_steps(explainer *e, int v, const char *cuts, shard_reason *r) {
  int num = e->p.num_states[v], asked = 0;
  int *state = msc_arena_copy(e->g.arena, e->all_states, (size_t)num * sizeof *state),
      *one = msc_new_array(e->g.arena, int, num);
  r->instead = msc_new_array(e->pass->scratch, shard_instead, MOST_INSTEAD + 1);
  for (int i = 0; cuts && i < num; i++)
    if (!strcmp(cuts_of_state(e, v, i), cuts)) one[asked++] = i;
  if (cuts && find_step_with(e, v, asked, one, &r->instead[0])) r->num_instead = 1;
  if (cuts) return;
  remove_cut_alike(e, v, r->chosen.cuts, &num, state);
  while (r->num_instead < MOST_INSTEAD && find_step_with(e, v, num, state, &r->instead[r->num_instead]))
    remove_cut_alike(e, v, r->instead[r->num_instead++].way.cuts, &num, state);
}

/* ---- one group ---- */

/* The op's rule and, for each letter, its size and number of parts, as text. */
static const char *letters_text(const explainer *e, const shard_group *group) {
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

/* The size of the letter's largest part divided by its mean part. */
static double imbalance_of(const explainer *e, const shard_group *group, int l) {
  const int64_t *split = group->split[l], size = group->rule.letter[l].size;
  int64_t parts = shard_parts(&e->g.atoms, group->digits.num[l], group->digits.atom[l]),
          most = (size + parts - 1) / parts;
  for (int64_t i = 0; split && i < parts; i++) most = split[i + 1] - split[i] > most ? split[i + 1] - split[i] : most;
  return size > 0 ? (double)most * (double)parts / (double)size : 1;
}

static void explain_group(explainer *e, int v, shard_reason *r) {
  int number = e->m.var[v].group;
  const shard_group *group = &e->g.group[number];
  *r = (shard_reason){.op = group->leader,
                      .by = msc_decider_name(group->by ? group->by : MSC_DECIDER_SEARCH),
                      .num_others = group->num_members - 1};
  r->letters = letters_text(e, group);
  r->imbalance = 1;
  for (int l = 0; l < group->rule.num_letters; l++) r->imbalance *= imbalance_of(e, group, l);
  if (e->space) compare_states(e, v, r);
  else
    r->chosen = (shard_way){.cuts = cuts_text(e, &group->rule, &group->digits),
                            .layouts = layouts_text(e, number, &group->digits)};
  r->own_order = !is_in_mesh_order(&group->digits, group->rule.num_letters);
  r->num_chains = shard_chains_to(e->chains, number, &r->chain);
  r->num_conflicts = shard_chains_conflicts(e->chains, number, &r->conflict);
}

/* ---- the program before the search ---- */

static const msc_op *find_named_before(const msc_op *end, const char *name) {
  for (const msc_op *op = end->block->first; op != end; op = op->next)
    if (op->name && !op->forward && !strcmp(op->name, name)) return op;
  return NULL;
}

/* Undoes what a search inserted, because the model will make variables for it again: removes the ops that bring a value
 * into one layout for several users, and returns sums of gradients to the groups of their ops. */
static void undo_copies(msc_func *f) {
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (!shard_is_copy(op)) continue;
    if (op->kind == OP_broadcast_to) {
      msc_replace_uses(&op->out[0], op->in[0].value);
      msc_op_erase(op);
      continue;
    }
    const msc_op *owner =
        msc_op_attr(op, MSC_FACT(owner)) ? find_named_before(op, msc_op_str(op, MSC_FACT(owner))) : NULL;
    if (!owner || !msc_op_attr(op, MSC_FACT(owner_letters))) continue;
    op->forward = owner;
    op->letters = msc_op_str(op, MSC_FACT(owner_letters));
  }
}

/* ---- all of them ---- */

/* Reports that the op cannot be cut in the way that was asked for. Returns false. */
static bool no_such_way(const explainer *e, int v, const char *cuts) {
  const msc_op *op = e->g.group[e->m.var[v].group].leader;
  int num = e->p.num_states[v];
  const char **ways = msc_new_array(e->g.arena, const char *, num);
  for (int s = 0; s < num; s++) ways[s] = cuts_of_state(e, v, s);
  const char *near = msc_nearest(cuts, ways, (size_t)num);
  return msc_error(e->g.ctx, MSC_E_STRATEGY, NULL, "%s cannot be cut '%s' on this mesh; %s'%s'", op->name, cuts,
                   near ? "did you mean " : "one way is ", near ? near : ways[num - 1]);
}

bool shard_explain(msc_pass_ctx *pass, msc_func *f, const char *op, const char *cuts, shard_explanation *out) {
  explainer e = {.pass = pass};
  undo_copies(f);
  MSC_TRY(shard_graph_of(pass, f, &e.g));
  msc_cost_of(msc_pass_cluster(pass), &f->module->mesh, &e.cost);
  shard_model_of(&e.g, &e.m);
  bool open = open_space(&e);
  if (open) index_tables(&e);
  if (open && find_decided_states(&e)) compute_figures(&e);
  else e.space = NULL;
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
    compare_whole_steps(&e, (int)v, cuts, r);
    if (cuts && !r->num_instead) return no_such_way(&e, (int)v, cuts);
  }
  out->figures = e.figures;
  return true;
}
