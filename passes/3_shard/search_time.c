/* search_time.c: a function whose ops are free or fixed -> digits of every letter, so that a step takes the least time on the
 * described cluster (see search_time.h). */
#include "passes/3_shard/search_time.h"

#include <string.h>
#include <time.h>

#include "passes/3_shard/mesh_shape.h"
#include "passes/3_shard/minimum.h"
#include "passes/3_shard/space.h"
#include "passes/3_shard/splice.h"
#include "passes/3_shard/within.h"
#include "passes/config.h"

enum { MAX_POINTS = 1 << 18, MAX_STATES = 4096, MAX_ENTRIES = 1 << 28, MAX_SWEEPS = 6, MAX_ENTRIES_OF_SHAPE = 1 << 26 };

typedef struct {
  int64_t ns, bytes, parameter_bytes; /* kept over the step: of it parameters with state and gradient */
  int64_t charged;                    /* ns, and what memory is charged */
} strategy_cost;

static const strategy_cost nothing = {SHARD_IMPOSSIBLE, INT64_MAX, 0, INT64_MAX};
static const int64_t MAX_CHARGE = (int64_t)1 << 36; /* ns per GiB: 64 ns per byte */

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  shard_graph g;
  shard_model m;
  msc_cost cost;
  shard_space_options o;
  int64_t bucket;
  msc_assignment *given, *chosen; /* by variable: before the search; of the best found */
  strategy_cost found;            /* the best */
  int64_t limit;                  /* bytes per rank */
  bool yields;                    /* where nothing stays within the limit, what is smallest will do */
  int64_t bound;                  /* no strategy within the limit takes less; 0: not known */
  double deadline_s;              /* of --time-limit; 0: none */
  msc_arena *full_arena;          /* of the space of all strategies on the mesh as it is; NULL: not opened */
  shard_space *full;              /* NULL: it is too large, or time is up */
  int *state, *over, *under;      /* by variable, states of it: of the last solution; of the cheapest beyond the limit, and within */
  double work;
  size_t max_entries;             /* of a table of one elimination */
} timing;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool is_time_up(const timing *t) { return shard_time_is_up(t->deadline_s); }

/* ---- one exact solution ---- */

/* The best strategy of a space, and what none costs less than. */
static bool solve_space(timing *t, shard_space *space, msc_arena *a, msc_assignment *out_digits, strategy_cost *out_cost,
                        int64_t *out_bound) {
  shard_problem p;
  shard_effort effort = {0};
  strategy_cost cost = {0};
  int *state = t->state;
  MSC_TRY(shard_space_problem(space, &p));
  shard_minimum(a, &p, t->max_entries, state, &cost.charged, out_bound, &effort);
  cost.ns = cost.charged;
  for (size_t v = 0; v < t->m.num_vars; v++) {
    const shard_class *c = shard_class_of(space, (int)v);
    shard_state_digits(space, (int)v, state[v], &out_digits[v]);
    cost.ns -= shard_charge(space, c->bytes[state[v]]);
    cost.bytes += c->bytes[state[v]];
    cost.parameter_bytes += c->parameter_bytes[state[v]];
  }
  *out_cost = cost;
  t->work += effort.entries;
  return true;
}

/* The best way to place the free pieces while the variables' fixed digits stay; false: too large.  Digits of all variables. */
static bool solve(timing *t, uint32_t free_pieces, msc_assignment *out_digits, strategy_cost *out_cost) {
  msc_arena *a = msc_arena_new(t->g.ctx);
  shard_space *space;
  int64_t bound = 0;
  t->o.free_pieces = free_pieces;
  bool ok = shard_space_of(&t->m, &t->o, a, &space) && solve_space(t, space, a, out_digits, out_cost, &bound) && bound == out_cost->charged;
  msc_arena_free(a);
  return ok;
}

static void fix_all(timing *t, const msc_assignment *digits) {
  for (size_t v = 0; v < t->m.num_vars; v++) t->m.var[v].fixed = digits[v];
}

static void keep_if_better(timing *t, const msc_assignment *digits, strategy_cost cost) {
  if (cost.charged >= t->found.charged) return;
  t->found = cost;
  memcpy(t->chosen, digits, t->m.num_vars * sizeof *digits);
}

static void close_full(timing *t) {
  if (t->full_arena) msc_arena_free(t->full_arena);
  t->full_arena = NULL, t->full = NULL;
}

/* All strategies on this mesh, their tables shared by all that is asked about them; NULL: too many. */
static shard_space *open_full(timing *t) {
  if (t->full_arena) return t->full;
  t->full_arena = msc_arena_new(t->g.ctx);
  fix_all(t, t->given);
  t->o.free_pieces = UINT32_MAX;
  t->o.deadline_s = t->deadline_s;
  if (!shard_space_of(&t->m, &t->o, t->full_arena, &t->full)) t->full = NULL;
  t->o.deadline_s = 0;
  return t->full;
}

/* False: too large.  A bound may be known all the same. */
static bool search_exactly(timing *t, int64_t ns_per_gib) {
  msc_assignment *digits = msc_new_array(t->g.arena, msc_assignment, t->m.num_vars);
  strategy_cost cost;
  int64_t bound = 0;
  MSC_TRY(open_full(t));
  msc_arena *a = msc_arena_new(t->g.ctx);
  shard_space_charge(t->full, ns_per_gib);
  bool ok = solve_space(t, t->full, a, digits, &cost, &bound);
  msc_arena_free(a);
  if (ok && !ns_per_gib && bound < SHARD_IMPOSSIBLE) t->bound = bound;
  if (!ok || bound < cost.charged) return false;
  keep_if_better(t, digits, cost);
  return true;
}

/* ---- digit by digit ---- */

/* Takes pieces off every letter that was not given with them. */
static void release(timing *t, uint32_t pieces) {
  uint32_t atoms = 0;
  for (int p = 0; p < t->o.num_pieces; p++)
    for (int i = 0; i < t->o.piece[p].num && pieces >> p & 1; i++) atoms |= 1u << (t->o.piece[p].first + i);
  for (size_t v = 0; v < t->m.num_vars; v++) {
    msc_assignment *a = &t->m.var[v].fixed, *given = &t->given[v];
    a->pass = (a->pass & ~atoms) | given->pass;
    for (int l = 0; l < t->m.var[v].rule->num_letters; l++) {
      int num = 0;
      for (int k = 0; k < a->num[l]; k++) {
        bool stays = !(atoms >> a->atom[l][k] & 1);
        for (int i = 0; i < given->num[l]; i++) stays |= given->atom[l][i] == a->atom[l][k];
        if (stays) a->atom[l][num++] = a->atom[l][k];
      }
      a->num[l] = (uint8_t)num;
    }
  }
}

/* Frees the pieces for all variables while every other digit stays; false: nothing better. */
static bool improve(timing *t, uint32_t pieces, msc_assignment *digits) {
  int64_t before = t->found.charged;
  strategy_cost cost;
  fix_all(t, t->chosen);
  release(t, pieces);
  if (!solve(t, pieces, digits, &cost)) return false;
  keep_if_better(t, digits, cost);
  return t->found.charged < before;
}

/* Pieces by the speed of their links, minor ones first. */
static void order_pieces(const timing *t, int *out_order) {
  int level[SHARD_MAX_PIECES];
  for (int p = 0; p < t->o.num_pieces; p++) {
    const msc_subaxis *first = &t->g.atoms.atom[t->o.piece[p].first];
    level[p] = msc_cost_level(&t->cost, (msc_subaxis){first->axis, first->pre, (uint32_t)t->o.piece[p].size});
    int at = p;
    for (; at > 0 && level[out_order[at - 1]] >= level[p]; at--) out_order[at] = out_order[at - 1];
    out_order[at] = p;
  }
}

/* One piece at a time, the fastest link first; then each again while the others stay, and pairs, until nothing improves. */
static bool search_by_pieces(timing *t) {
  msc_assignment *digits = msc_new_array(t->g.arena, msc_assignment, t->m.num_vars);
  int order[SHARD_MAX_PIECES], n = t->o.num_pieces;
  strategy_cost cost = nothing;
  order_pieces(t, order);
  fix_all(t, t->given);
  for (int i = 0; i < n || (n == 0 && i == 0); i++) {
    MSC_TRY(solve(t, n ? 1u << order[i] : 0, digits, &cost));
    fix_all(t, digits);
  }
  keep_if_better(t, digits, cost);
  bool better = true;
  for (int round = 0; round < MAX_SWEEPS && better && !is_time_up(t); round++) {
    better = false;
    for (int i = 0; i < n && !is_time_up(t); i++) better |= improve(t, 1u << order[i], digits);
    for (int i = 0; i < n && !better; i++)
      for (int k = 0; k < i && !is_time_up(t); k++) better |= improve(t, 1u << order[i] | 1u << order[k], digits);
  }
  return true;
}

/* ---- within the memory ---- */

static bool run_search(timing *t, bool exact, int64_t ns_per_gib) {
  t->found = nothing;
  t->o.ns_per_gib = ns_per_gib;
  bool ok = exact ? search_exactly(t, ns_per_gib) : search_by_pieces(t);
  t->o.ns_per_gib = 0;
  return ok;
}

/* The same tables with nothing but what is impossible; one copy of each. */
static const int64_t *only_impossible(msc_arena *a, const shard_problem *p, size_t table, const int64_t **known, size_t *num_known) {
  const shard_table *t = &p->table[table];
  for (size_t k = 0; k < *num_known; k++)
    if (known[2 * k] == t->cost) return known[2 * k + 1];
  size_t size = (size_t)p->num_states[t->a] * (size_t)p->num_states[t->b];
  int64_t *copy = msc_new_array(a, int64_t, size);
  for (size_t i = 0; i < size; i++) copy[i] = t->cost[i] >= SHARD_IMPOSSIBLE ? SHARD_IMPOSSIBLE : 0;
  known[2 * *num_known] = t->cost, known[2 * (*num_known)++ + 1] = copy;
  return copy;
}

/* The strategy that keeps the fewest bytes of all; false: too large.  Changes nothing but the result. */
static bool least_memory(timing *t, msc_assignment *out_digits, strategy_cost *out_cost) {
  shard_problem p, bytes;
  int64_t bound = 0;
  MSC_TRY(open_full(t));
  shard_space_charge(t->full, 0);
  MSC_TRY(shard_space_problem(t->full, &p));
  msc_arena *a = msc_arena_new(t->g.ctx);
  int *state = msc_new_array(a, int, t->m.num_vars);
  shard_table *table = msc_arena_copy(a, p.table, p.num_tables * sizeof *table);
  const int64_t **known = msc_new_array(a, const int64_t *, 2 * p.num_tables);
  size_t num_known = 0;
  for (size_t i = 0; i < p.num_tables; i++)
    table[i].cost = table[i].b < 0 ? shard_class_of(t->full, table[i].a)->bytes : only_impossible(a, &p, i, known, &num_known);
  bytes = p;
  bytes.table = table;
  shard_minimum(a, &bytes, MAX_ENTRIES, state, &out_cost->bytes, &bound, NULL);
  out_cost->ns = out_cost->parameter_bytes = 0;
  for (size_t v = 0; v < t->m.num_vars; v++) {
    shard_state_digits(t->full, (int)v, state[v], &out_digits[v]);
    out_cost->parameter_bytes += shard_class_of(t->full, (int)v)->parameter_bytes[state[v]];
  }
  for (size_t i = 0; i < p.num_tables; i++) {
    const shard_table *of = &p.table[i];
    out_cost->ns += of->cost[of->b < 0 ? state[of->a] : state[of->a] * p.num_states[of->b] + state[of->b]];
  }
  out_cost->charged = out_cost->ns;
  msc_arena_free(a);
  return bound == out_cost->bytes;
}

/* The best strategy that fits, given one that does and a charge whose bound is close, unless that is too much to look at.  What
 * is left between bound and candidate is searched from below in growing steps: few partial strategies are that good. */
static void settle_within_limit(timing *t, strategy_cost *best, int64_t charge, msc_assignment *digits) {
  shard_problem plain, charged;
  shard_within found = SHARD_GAVE_UP;
  if (!open_full(t)) return;
  msc_arena *a = msc_arena_new(t->g.ctx);
  int *state = msc_new_array(a, int, t->m.num_vars);
  const int64_t **bytes = msc_new_array(a, const int64_t *, t->m.num_vars);
  shard_space_charge(t->full, charge);
  bool ok = shard_space_problem(t->full, &charged);
  if (ok) shard_space_plain(t->full, &charged, &plain);
  for (size_t v = 0; v < t->m.num_vars; v++) bytes[v] = shard_class_of(t->full, (int)v)->bytes;
  for (int64_t step = (best->ns - t->bound) / 16 + 1; ok && (found == SHARD_GAVE_UP || found == SHARD_NO_BETTER) && !is_time_up(t);
       step *= 2) {
    int64_t upper = best->ns - t->bound < step ? best->ns : t->bound + step;
    shard_limited l = {&plain, &charged, bytes, t->limit, shard_charge_for(charge, t->limit), upper, MAX_POINTS};
    msc_arena *scratch = msc_arena_new(t->g.ctx);
    found = shard_eliminate_within(scratch, &l, state, &best->ns);
    msc_arena_free(scratch);
    if (found == SHARD_NO_BETTER) t->bound = upper; /* nothing that fits is below */
    if (found == SHARD_GAVE_UP || upper == best->ns) break;
  }
  if (found == SHARD_BETTER) {
    best->bytes = best->parameter_bytes = 0;
    for (size_t v = 0; v < t->m.num_vars; v++) {
      shard_state_digits(t->full, (int)v, state[v], &digits[v]);
      best->bytes += bytes[v][state[v]];
      best->parameter_bytes += shard_class_of(t->full, (int)v)->parameter_bytes[state[v]];
    }
    t->bound = best->ns;
  }
  msc_arena_free(a);
}

/* ---- part of one strategy, part of another ---- */

static uint32_t place_of(const timing *t, int v) {
  const shard_variable *of = &t->m.var[v];
  return of->group < 0 ? of->copied->def->id : t->g.group[of->group].leader->id;
}

static int *ranks_of(const timing *t, msc_arena *a) {
  size_t vars = t->m.num_vars;
  int *rank = msc_new_array(a, int, vars), *at = msc_new_array(a, int, t->g.num_ops + 1);
  for (size_t v = 0; v < vars; v++) at[place_of(t, (int)v) + 1]++;
  for (size_t i = 0; i < t->g.num_ops; i++) at[i + 1] += at[i];
  for (size_t v = 0; v < vars; v++) rank[v] = at[place_of(t, (int)v)]++;
  return rank;
}

/* Of equal layers all take the same: as many as fit may take what is faster, and the rest what is smaller. */
static void splice_strategies(timing *t, strategy_cost *best, msc_assignment *digits) {
  shard_problem p;
  if (!open_full(t)) return;
  shard_space_charge(t->full, 0);
  if (!shard_space_problem(t->full, &p)) return;
  msc_arena *a = msc_arena_new(t->g.ctx);
  size_t vars = t->m.num_vars;
  const int *rank = ranks_of(t, a);
  const int64_t **bytes = msc_new_array(a, const int64_t *, vars);
  for (size_t v = 0; v < vars; v++) bytes[v] = shard_class_of(t->full, (int)v)->bytes;
  for (int turn = 0; turn < 2; turn++) {
    shard_splice s = {&p, bytes, rank, turn ? t->under : t->over, turn ? t->over : t->under};
    int num = shard_best_splice(a, &s, t->limit, &best->ns, &best->bytes);
    if (num < 0) continue;
    best->parameter_bytes = 0;
    for (size_t v = 0; v < vars; v++) {
      int state = rank[v] < num ? s.first[v] : s.then[v];
      shard_state_digits(t->full, (int)v, state, &digits[v]);
      best->parameter_bytes += shard_class_of(t->full, (int)v)->parameter_bytes[state];
    }
  }
  msc_arena_free(a);
}

/* ---- within the memory, exactly ---- */

/* What memory costs is raised until the strategy fits: of any charge, the least total minus the charge for the limit is a
 * bound (Lagrange), and a strategy that fits is a candidate.  Leaves the best candidate, or the smallest strategy. */
static bool search_within_limit(timing *t, bool exact) {
  MSC_TRY(run_search(t, exact, 0));
  if (t->found.bytes <= t->limit) return true;
  MSC_TRY(run_search(t, exact, MAX_CHARGE));
  msc_assignment *digits = msc_arena_copy(t->g.arena, t->chosen, t->m.num_vars * sizeof *digits);
  strategy_cost best = t->found, least;
  int64_t low = 0, high = MAX_CHARGE, closest = 0;
  if (best.bytes > t->limit) { /* time still counted too much */
    low = high;
    if (least_memory(t, digits, &least)) best = least;
  }
  while (best.bytes <= t->limit && high - low > low / 64 + 1 && !is_time_up(t)) {
    int64_t charge = low ? low + (high - low) / 2 : high / 16;
    MSC_TRY(run_search(t, exact, charge));
    int64_t bound = t->found.charged - shard_charge_for(charge, t->limit) - 1;
    if (exact && bound > t->bound) t->bound = bound, closest = charge;
    if (t->found.bytes > t->limit) low = charge;
    else high = charge;
    memcpy(t->found.bytes > t->limit ? t->over : t->under, t->state, t->m.num_vars * sizeof *t->state);
    if (t->found.bytes > t->limit || t->found.ns >= best.ns) continue;
    best = t->found;
    memcpy(digits, t->chosen, t->m.num_vars * sizeof *digits);
  }
  if (exact && best.bytes <= t->limit && t->bound < best.ns && low > 0 && high < MAX_CHARGE) splice_strategies(t, &best, digits);
  if (exact && best.bytes <= t->limit && t->bound < best.ns) settle_within_limit(t, &best, closest, digits);
  memcpy(t->chosen, digits, t->m.num_vars * sizeof *digits);
  t->found = best;
  return true;
}

static bool is_possible(const timing *t) { return t->found.ns < SHARD_IMPOSSIBLE && t->found.bytes <= t->limit; }

/* The limit is as high as it must be. */
static bool yields_to(timing *t, strategy_cost least) {
  if (!t->yields || least.ns >= SHARD_IMPOSSIBLE || least.bytes <= t->limit) return false;
  t->limit = least.bytes;
  return true;
}

static bool nothing_fits(const timing *t, strategy_cost least) {
  if (least.ns >= SHARD_IMPOSSIBLE) return msc_error(t->g.ctx, MSC_E_INFEASIBLE, t->f->loc, "no sequence of layout changes connects the given strategies");
  const msc_loc *loc = msc_config_loc(t->pass->config, MSC_KEY_memory_limit);
  msc_error(t->g.ctx, MSC_E_INFEASIBLE, loc ? loc : t->f->loc,
            "no strategy stays within %" PRId64 " bytes per rank: the smallest keeps %" PRId64 ", of them %" PRId64
            " for parameters with optimizer state and gradients and %" PRId64
            " for what the backward reads again; what comes and goes within a step needs room besides",
            t->limit, least.bytes, least.parameter_bytes, least.bytes - least.parameter_bytes);
  if (!loc) msc_note(t->g.ctx, NULL, "the limit is the memory of the described device, %s; the key memory_limit sets another", msc_pass_cluster(t->pass)->device);
  return false;
}

/* ---- storing ---- */

static void store_groups(timing *t) {
  for (size_t v = 0; v < t->m.num_vars; v++) {
    if (t->m.var[v].group < 0) continue;
    shard_group *group = &t->g.group[t->m.var[v].group];
    uint32_t all = (1u << group->rule.num_letters) - 1;
    group->digits = t->chosen[v];
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
  msc_op_set(op, "by", msc_str(t->g.ctx, "copy")); /* no op of the model's */
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

/* It is cut in a way of its own; explain.c puts it back. */
static void detach(msc_op *sum) {
  msc_context *ctx = sum->block->func->module->ctx;
  if (sum->forward->name) msc_op_set(sum, "owner", msc_str(ctx, sum->forward->name));
  if (sum->letters) msc_op_set(sum, "owner_letters", msc_str(ctx, sum->letters));
  sum->forward = NULL;
  sum->letters = NULL;
}

static void store_copies(timing *t) {
  for (size_t i = 0; i < t->m.num_vars; i++) {
    const shard_variable *v = &t->m.var[i];
    if (v->group >= 0) continue;
    msc_assignment a = t->chosen[i], of_def;
    for (size_t k = 1; k < v->num_members; k++) {
      msc_op *sum = t->g.op[v->member[k].op->id].op;
      detach(sum);
      set_digits(t, sum, &a, v->copied->type->rank);
      set_pass(t, sum, a.pass);
    }
    shard_end def = t->m.of_op[v->copied->def->id];
    const shard_member *member = &t->m.var[def.var].member[def.member];
    shard_op o = t->g.op[v->copied->def->id];
    of_def = t->chosen[def.var];
    of_def.pass = 0;
    const msc_layout *have = shard_layout(&t->g, &o, &of_def, (size_t)(member->op->num_in) + v->copied->index);
    a.pass = 0;
    const msc_layout *want = msc_rule_layout(t->g.ctx, t->g.mesh, &t->g.atoms, v->rule, &a, 0);
    if (!same_cut(have, want)) insert_copy(t, v, &a);
  }
}

/* ---- the search ---- */

/* Atoms, pieces and prices of the mesh as it is now. */
static bool look_at_mesh(timing *t) {
  close_full(t);
  msc_cost_of(msc_pass_cluster(t->pass), t->g.mesh, &t->cost);
  t->o.max_states = MAX_STATES;
  t->o.zero = shard_zero_of(t->pass->config);
  if (shard_price_mesh(&t->m, &t->cost, !msc_config_bool(t->pass->config, MSC_KEY_enable_alltoall), t->bucket, &t->o)) return true;
  return msc_error(t->g.ctx, MSC_E_UNSUPPORTED, t->f->loc, "strategies cut the mesh into more than %d pieces", SHARD_MAX_PIECES);
}

/* What was found is `best`'s, or better. */
typedef struct {
  strategy_cost cost;
  msc_assignment *chosen;
} candidate;

static void keep_candidate(timing *t, candidate *best) {
  if (!is_possible(t) || (best->chosen && t->found.ns >= best->cost.ns)) return;
  best->cost = t->found;
  best->chosen = msc_arena_copy(t->g.arena, t->chosen, t->m.num_vars * sizeof *t->chosen);
}

/* On the mesh as it is, in full where that is asked for and possible.  Where time is short, digit by digit first.  False: the
 * network is too large even for that. */
static bool search_mesh(timing *t, bool exact, strategy_cost *out_least) {
  candidate best = {nothing, NULL};
  bool found = false, proven = false;
  MSC_TRY(look_at_mesh(t));
  t->bound = 0;
  if (exact && t->deadline_s > 0) {
    found = search_within_limit(t, false);
    if (found) keep_candidate(t, &best), *out_least = t->found;
  }
  if (exact && !is_time_up(t)) {
    proven = search_within_limit(t, true);
    if (proven) keep_candidate(t, &best), *out_least = t->found;
  }
  if (!proven && !found) {
    MSC_TRY(search_within_limit(t, false));
    keep_candidate(t, &best), *out_least = t->found;
  }
  if (best.chosen) memcpy(t->chosen, best.chosen, t->m.num_vars * sizeof *best.chosen);
  t->found = best.cost;
  if (t->bound > t->found.ns) t->bound = t->found.ns;
  close_full(t);
  return true;
}

static void warn_of_gap(const timing *t) {
  if (t->bound >= t->found.ns || t->yields) return; /* it was said before */
  const char *why = t->deadline_s > 0 ? "time is up" : "the exact search would take too long";
  if (t->bound > 0)
    msc_warning(t->g.ctx, MSC_E_SEARCH, t->f->loc, "%s: the best strategy found takes %.3f ms; none takes less than %.3f ms", why,
                (double)t->found.ns / 1e6, (double)t->bound / 1e6);
  else
    msc_warning(t->g.ctx, MSC_E_SEARCH, t->f->loc,
                "%s: the best strategy found takes %.3f ms, with digits placed one after the other as in recursive_programming", why,
                (double)t->found.ns / 1e6);
}

static bool search_given_mesh(timing *t) {
  strategy_cost least = nothing;
  bool exact = msc_config_search_mode(t->pass->config) == MSC_DYNAMIC_PROGRAMMING;
  if (!search_mesh(t, exact, &least))
    return msc_num_errors(t->g.ctx)
               ? false
               : msc_error(t->g.ctx, MSC_E_UNSUPPORTED, t->f->loc, "the network is too large for this search on this mesh");
  if (!is_possible(t)) return yields_to(t, least) ? search_given_mesh(t) : nothing_fits(t, least);
  if (exact) warn_of_gap(t);
  return true;
}

/* ---- the mesh ---- */

/* Nothing was said about the mesh: no axis, no digit of one. */
static bool is_free_mesh(const timing *t) {
  bool is_free = msc_func_attr(t->f, "free_mesh") != NULL;
  for (size_t v = 0; v < t->m.num_vars && is_free; v++)
    for (int l = 0; l < t->m.var[v].rule->num_letters; l++) is_free &= !t->given[v].num[l];
  for (size_t i = 0; i < t->f->body->num_args && is_free; i++) {
    const msc_layout *l = t->g.given[i];
    is_free = !l || msc_layout_is_replicated(l);
  }
  return is_free && msc_mesh_size(t->g.mesh) > 1;
}

static void set_mesh(timing *t, const shard_mesh_shape *s) {
  static const char *const names[SHARD_MESH_AXES] = {"x", "y", "z"};
  msc_mesh *mesh = &t->f->module->mesh;
  mesh->num_axes = s->num;
  for (int a = 0; a < s->num; a++) mesh->axis[a] = (msc_axis){msc_intern(t->g.ctx, names[a]), s->size[a]};
  msc_atoms_of(mesh, 0, NULL, &t->g.atoms);
}

/* Every shape, until time is up. */
static bool search_all_meshes(timing *t) {
  shard_mesh_shape *shape = msc_new_array(t->g.arena, shard_mesh_shape, SHARD_MAX_SHAPES);
  int num = shard_mesh_shapes(msc_pass_cluster(t->pass), msc_mesh_size(t->g.mesh), shape), best = -1;
  bool exact = msc_config_search_mode(t->pass->config) == MSC_DYNAMIC_PROGRAMMING;
  candidate of_best = {nothing, NULL};
  strategy_cost least = nothing, of_shape;
  int64_t bound = INT64_MAX;
  t->max_entries = MAX_ENTRIES_OF_SHAPE;
  for (int i = 0; i < num; i++) {
    if (best >= 0 && is_time_up(t)) bound = 0;
    if (best >= 0 && is_time_up(t)) break;
    fix_all(t, t->given);
    set_mesh(t, &shape[i]);
    of_shape = nothing;
    if (!search_mesh(t, exact, &of_shape)) {
      if (msc_num_errors(t->g.ctx)) return false;
      continue;
    }
    if (of_shape.bytes < least.bytes) least = of_shape;
    if (is_possible(t) && t->found.ns < of_best.cost.ns) best = i;
    if (is_possible(t)) bound = t->bound < bound ? t->bound : bound;
    keep_candidate(t, &of_best);
  }
  msc_stat(t->pass, "meshes", num);
  if (best < 0) return yields_to(t, least) ? search_all_meshes(t) : nothing_fits(t, least);
  fix_all(t, t->given);
  set_mesh(t, &shape[best]);
  t->found = of_best.cost, t->bound = bound;
  t->chosen = of_best.chosen;
  if (exact) warn_of_gap(t);
  return look_at_mesh(t);
}

bool shard_search_time(msc_pass_ctx *pass, msc_func *f) {
  timing t = {.pass = pass, .f = f, .found = nothing, .max_entries = MAX_ENTRIES};
  MSC_TRY(shard_graph_of(pass, f, &t.g));
  shard_model_of(&t.g, &t.m);
  t.bucket = shard_bucket_of(t.g.func);
  t.limit = msc_memory_limit(pass->config, msc_pass_cluster(pass));
  const msc_attr_value *room = msc_func_attr(f, "search_room");
  if (room) t.limit = room->i ? room->i : INT64_MAX, t.yields = room->i > 0;
  if (pass->options && pass->options->time_limit_s > 0) t.deadline_s = now_s() + pass->options->time_limit_s;
  t.given = msc_new_array(t.g.arena, msc_assignment, t.m.num_vars);
  t.chosen = msc_new_array(t.g.arena, msc_assignment, t.m.num_vars);
  t.state = msc_new_array(t.g.arena, int, t.m.num_vars);
  t.over = msc_new_array(t.g.arena, int, t.m.num_vars);
  t.under = msc_new_array(t.g.arena, int, t.m.num_vars);
  for (size_t v = 0; v < t.m.num_vars; v++) t.given[v] = t.m.var[v].fixed;
  MSC_TRY(is_free_mesh(&t) ? search_all_meshes(&t) : search_given_mesh(&t));
  msc_drop_attr(f->attrs, &f->num_attrs, "free_mesh");
  if (room) msc_func_set(f, "kept_bytes", msc_int(t.found.bytes));
  store_groups(&t);
  store_copies(&t);
  msc_func_set(f, "searched", msc_bool(true));
  msc_func_set(f, "step_ns", msc_int(t.found.ns));
  msc_func_set(f, "least_step_ns", msc_int(t.bound));
  msc_stat(pass, "variables", (int64_t)t.m.num_vars);
  msc_stat(pass, "work", (int64_t)t.work);
  msc_stat(pass, "ns", t.found.ns);
  msc_stat(pass, "ns at least", t.bound);
  msc_stat(pass, "bytes kept", t.found.bytes);
  return true;
}
