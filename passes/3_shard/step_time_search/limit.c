/* limit.c: a limit on memory -> the best strategy that stays within it, found by charging for memory (see state.h). */
#include <string.h>

#include "passes/3_shard/step_time_search/answers.h"
#include "passes/3_shard/step_time_search/minimum.h"
#include "passes/3_shard/step_time_search/splice.h"
#include "passes/3_shard/step_time_search/state.h"
#include "passes/3_shard/step_time_search/minimum_within.h"

enum { MAX_POINTS = 1 << 18, MAX_STEPS = 64 };

static const int64_t MAX_CHARGE = (int64_t)1 << 36; /* ns per GiB: 64 ns per byte */

/* ---- strategies ---- */

typedef struct {
  shard_cost cost;
  msc_assignment *digits; /* by variable */
  int *state;             /* by variable; of an exact search */
} strategy;

static strategy new_strategy(const shard_time_search *t, msc_arena *a) {
  return (strategy){SHARD_NO_STRATEGY, msc_new_array(a, msc_assignment, t->m.num_vars),
                    msc_new_array(a, int, t->m.num_vars)};
}

static void copy_strategy(const shard_time_search *t, strategy *to, const strategy *from) {
  to->cost = from->cost;
  memcpy(to->digits, from->digits, t->m.num_vars * sizeof *to->digits);
  memcpy(to->state, from->state, t->m.num_vars * sizeof *to->state);
}

static const int64_t **bytes_of_states(const shard_time_search *t, msc_arena *a) {
  const int64_t **bytes = msc_new_array(a, const int64_t *, t->m.num_vars);
  for (size_t v = 0; v < t->m.num_vars; v++) bytes[v] = shard_class_of(t->full, (int)v)->bytes;
  return bytes;
}

/* Reads the digits, cost and bytes of the states that a strategy has; p: the problem without a charge. */
static void read_states(shard_time_search *t, const shard_problem *p, strategy *s) {
  s->cost = (shard_cost){0};
  for (size_t v = 0; v < t->m.num_vars; v++) {
    const shard_class *c = shard_class_of(t->full, (int)v);
    shard_state_digits(t->full, (int)v, s->state[v], &s->digits[v]);
    s->cost.bytes += c->bytes[s->state[v]];
    s->cost.parameter_bytes += c->parameter_bytes[s->state[v]];
  }
  for (size_t i = 0; i < p->num_tables; i++) {
    const shard_table *of = &p->table[i];
    s->cost.ns += of->cost[of->b < 0 ? s->state[of->a] : s->state[of->a] * p->num_states[of->b] + s->state[of->b]];
  }
  s->cost.charged = s->cost.ns;
}

/* ---- the smallest strategy, and the best between two ---- */

/* A copy of a table in which all entries are 0 but the impossible ones; equal tables share a copy. */
static const int64_t *only_impossible(msc_arena *a, const shard_problem *p, size_t table, const int64_t **known,
                                      size_t *num_known) {
  const shard_table *t = &p->table[table];
  for (size_t k = 0; k < *num_known; k++)
    if (known[2 * k] == t->cost) return known[2 * k + 1];
  size_t size = (size_t)p->num_states[t->a] * (size_t)p->num_states[t->b];
  int64_t *copy = msc_new_array(a, int64_t, size);
  for (size_t i = 0; i < size; i++) copy[i] = t->cost[i] >= SHARD_IMPOSSIBLE ? SHARD_IMPOSSIBLE : 0;
  known[2 * *num_known] = t->cost, known[2 * (*num_known)++ + 1] = copy;
  return copy;
}

/* Finds the strategy that keeps the fewest bytes of all; no strategy keeps less than *out_bound. False: too large. */
static bool find_least_memory(shard_time_search *t, strategy *out, int64_t *out_bound) {
  shard_problem p, bytes;
  int64_t least;
  MSC_TRY(shard_all_strategies(t));
  shard_space_charge(t->full, 0);
  MSC_TRY(shard_space_problem(t->full, &p));
  msc_arena *a = msc_arena_new(t->g.ctx);
  shard_table *table = msc_arena_copy(a, p.table, p.num_tables * sizeof *table);
  const int64_t **known = msc_new_array(a, const int64_t *, 2 * p.num_tables);
  size_t num_known = 0;
  for (size_t i = 0; i < p.num_tables; i++)
    table[i].cost =
        table[i].b < 0 ? shard_class_of(t->full, table[i].a)->bytes : only_impossible(a, &p, i, known, &num_known);
  bytes = p;
  bytes.table = table;
  shard_minimum(a, &bytes, t->max_work, out->state, &least, out_bound, NULL);
  msc_arena_free(a);
  read_states(t, &p, out);
  return true;
}

/* Writes the strategy that keeps the fewest bytes, which an earlier search has stored or a new one finds. False: a
 * strategy that keeps less may exist; or the space is too large, and nothing was written. */
static bool get_least_memory(shard_time_search *t, strategy *out) {
  shard_answer known = {.digits = out->digits, .state = out->state};
  if (!shard_recall(t, SHARD_LEAST_MEMORY, 0, &known)) {
    MSC_TRY(find_least_memory(t, out, &known.bound));
    known.cost = out->cost;
    shard_remember(t, SHARD_LEAST_MEMORY, 0, &known);
  }
  out->cost = known.cost;
  return known.bound == known.cost.bytes;
}

/* Replaces *best by the best strategy within the limit, unless the search for it takes too much work. It begins just
 * above the bound of the charge and goes up to *best in growing steps, since few partial strategies are so good. */
static void search_within_limit(shard_time_search *t, strategy *best) {
  shard_problem plain, charged;
  shard_within found = SHARD_GAVE_UP;
  if (!shard_all_strategies(t)) return;
  msc_arena *a = msc_arena_new(t->g.ctx);
  const int64_t **bytes = bytes_of_states(t, a);
  shard_space_charge(t->full, t->charge);
  bool ok = shard_space_problem(t->full, &charged);
  if (ok) shard_space_plain(t->full, &charged, &plain);
  for (int64_t step = (best->cost.ns - t->bound) / 16 + 1;
       ok && (found == SHARD_GAVE_UP || found == SHARD_NO_BETTER) && !shard_out_of_time(t); step *= 2) {
    int64_t upper = best->cost.ns - t->bound < step ? best->cost.ns : t->bound + step;
    shard_limited l = {&plain, &charged, bytes, t->limit, shard_charge_for(t->charge, t->limit), upper, MAX_POINTS};
    msc_arena *scratch = msc_arena_new(t->g.ctx);
    found = shard_eliminate_within(scratch, &l, best->state, &best->cost.ns);
    msc_arena_free(scratch);
    if (found == SHARD_NO_BETTER) t->bound = upper; /* nothing that fits is below */
    if (found == SHARD_GAVE_UP || upper == best->cost.ns) break;
  }
  if (found == SHARD_BETTER) {
    read_states(t, &plain, best);
    t->bound = best->cost.ns;
  }
  msc_arena_free(a);
}

/* ---- part of one strategy, part of another ---- */

/* The id of the op at which variable v stands in the program. */
static uint32_t position_in_program(const shard_time_search *t, int v) {
  const shard_variable *of = &t->m.var[v];
  if (of->group >= 0) return t->g.group[of->group].leader->id;
  return of->copied->def ? of->copied->def->id : of->member[1].op->id;
}

/* By variable: its place in the order of the program, from 0. */
static int *order_of_variables(const shard_time_search *t, msc_arena *a) {
  size_t vars = t->m.num_vars;
  int *rank = msc_new_array(a, int, vars), *at = msc_new_array(a, int, t->g.num_ops + 1);
  for (size_t v = 0; v < vars; v++) at[position_in_program(t, (int)v) + 1]++;
  for (size_t i = 0; i < t->g.num_ops; i++) at[i + 1] += at[i];
  for (size_t v = 0; v < vars; v++) rank[v] = at[position_in_program(t, (int)v)]++;
  return rank;
}

/* Replaces *best by a better strategy within the limit, if there is one, that takes the states of `faster` up to some
 * variable and those of `smaller` from there on, or the other way round. Under one charge all equal layers make the
 * same choice, and such a mix comes closer to the limit. */
static void mix_strategies(shard_time_search *t, const strategy *faster, const strategy *smaller, strategy *best) {
  shard_problem p;
  if (!shard_all_strategies(t)) return;
  shard_space_charge(t->full, 0);
  if (!shard_space_problem(t->full, &p)) return;
  msc_arena *a = msc_arena_new(t->g.ctx);
  const int *rank = order_of_variables(t, a);
  const int64_t **bytes = bytes_of_states(t, a);
  for (int round = 0; round < 2; round++) {
    shard_splice s = {&p, bytes, rank, round ? smaller->state : faster->state, round ? faster->state : smaller->state};
    int num = shard_best_splice(a, &s, t->limit, &best->cost.ns, &best->cost.bytes);
    if (num < 0) continue;
    for (size_t v = 0; v < t->m.num_vars; v++) best->state[v] = rank[v] < num ? s.first[v] : s.then[v];
    read_states(t, &p, best);
  }
  msc_arena_free(a);
}

/* ---- the charge ---- */

static bool fits_limit(const shard_time_search *t, const shard_cost *c) { return c->bytes <= t->limit; }

/* Does another mesh have a strategy that takes less time than any here can? A search piece by piece gives no bound,
 * only an estimate, which must then exceed that strategy's time by more than such a search has been seen to miss the
 * best. */
static bool is_beaten(const shard_time_search *t, bool exact) {
  return exact ? t->bound >= t->time_to_beat
               : t->time_to_beat < INT64_MAX / 2 && t->estimate > t->time_to_beat + t->time_to_beat / 32;
}

/* Copies the strategy that shard_solve_time found last. */
static void copy_found(const shard_time_search *t, strategy *out) {
  out->cost = t->found;
  memcpy(out->digits, t->best_digits, t->m.num_vars * sizeof *out->digits);
  memcpy(out->state, t->state, t->m.num_vars * sizeof *out->state);
}

/* Finds the best strategy under this charge, into t->found. Raises t->estimate to Lagrange's lower bound on the time of
 * strategies within the limit, which is true if the strategy found is the best. False: the problem is too large. */
static bool solve_charge(shard_time_search *t, bool exact, int64_t ns_per_gib) {
  MSC_TRY(shard_solve_time(t, exact, ns_per_gib));
  int64_t least = t->found.charged - shard_charge_for(ns_per_gib, t->limit);
  if (t->found.ns < SHARD_IMPOSSIBLE && least > t->estimate) t->estimate = least;
  return true;
}

/* Calls solve_charge and copies the strategy that it found. */
static bool solve_charge_into(shard_time_search *t, bool exact, int64_t ns_per_gib, strategy *out) {
  MSC_TRY(solve_charge(t, exact, ns_per_gib));
  copy_found(t, out);
  return true;
}

/* The charge, in ns per GiB, at which both cost the same, at most MAX_CHARGE; 0: there is none. */
static int64_t charge_between(const shard_cost *faster, const shard_cost *smaller) {
  if (smaller->ns <= faster->ns || faster->bytes <= smaller->bytes) return 0;
  __int128 charge = ((__int128)(smaller->ns - faster->ns) << 30) / (faster->bytes - smaller->bytes);
  return charge < MAX_CHARGE ? (int64_t)charge : MAX_CHARGE;
}

static int64_t charged_cost(const shard_cost *c, int64_t ns_per_gib) {
  return c->ns + shard_charge_for(ns_per_gib, c->bytes);
}

/* Narrows two strategies, one above the limit and one within, to the two next to the limit. The charge at which both
 * cost the same yields a third strategy, which replaces one of them, until it costs no less: then Lagrange's bound is
 * the highest there is. *best becomes the best strategy within the limit. */
static bool narrow_bracket(shard_time_search *t, bool exact, strategy *faster, strategy *smaller, strategy *best,
                           strategy *next) {
  for (int step = 0; step < MAX_STEPS && !is_beaten(t, exact) && !shard_out_of_time(t); step++) {
    int64_t charge = charge_between(&faster->cost, &smaller->cost);
    if (charge == 0 || charge == MAX_CHARGE) return true;
    MSC_TRY(solve_charge_into(t, exact, charge, next));
    /* a charge is rounded for every variable */
    bool less = charged_cost(&next->cost, charge) + (int64_t)t->m.num_vars < charged_cost(&faster->cost, charge);
    copy_strategy(t, fits_limit(t, &next->cost) ? smaller : faster, next);
    if (fits_limit(t, &next->cost) && next->cost.ns < best->cost.ns) copy_strategy(t, best, next);
    if (!less) return true;
  }
  return true;
}

/* Takes one strategy, `faster` or `smaller`, that was found under the charge `guess`, and finds the other one. Then
 * `smaller` is within the limit, or the smallest that exists if none is; `faster` exceeds it, if any strategy does. */
static bool bracket_limit(shard_time_search *t, bool exact, int64_t guess, strategy *faster, strategy *smaller,
                          strategy *least) {
  if (smaller->cost.ns < SHARD_IMPOSSIBLE) return solve_charge_into(t, exact, 0, faster);
  if (guess == MAX_CHARGE) copy_strategy(t, smaller, faster);
  else MSC_TRY(solve_charge_into(t, exact, MAX_CHARGE, smaller));
  if (fits_limit(t, &smaller->cost)) return true;
  if (get_least_memory(t, least)) copy_strategy(t, smaller, least); /* even MAX_CHARGE left time some weight */
  return true;
}

/* Does the work of shard_solve_within_limit; allocates the strategies in arena a. */
static bool solve_within(shard_time_search *t, bool exact, msc_arena *a) {
  int64_t guess = exact ? t->charge : 0;
  t->charge = 0, t->estimate = 0;
  MSC_TRY(solve_charge(t, exact, guess));
  if (is_beaten(t, exact) || (!guess && fits_limit(t, &t->found))) return true; /* mostly: memory does not matter */
  strategy faster = new_strategy(t, a), smaller = new_strategy(t, a), best = new_strategy(t, a),
           other = new_strategy(t, a);
  t->limited |= !fits_limit(t, &t->found);
  copy_found(t, fits_limit(t, &t->found) ? &smaller : &faster);
  MSC_TRY(bracket_limit(t, exact, guess, &faster, &smaller, &other));
  copy_strategy(t, &best, fits_limit(t, &faster.cost) ? &faster : &smaller);
  bool open = !fits_limit(t, &faster.cost) && fits_limit(t, &smaller.cost);
  if (open) MSC_TRY(narrow_bracket(t, exact, &faster, &smaller, &best, &other));
  if (open && exact && !is_beaten(t, exact)) {
    if (t->bound < best.cost.ns) mix_strategies(t, &faster, &smaller, &best);
    if (t->bound < best.cost.ns) search_within_limit(t, &best);
  }
  t->found = best.cost;
  memcpy(t->best_digits, best.digits, t->m.num_vars * sizeof *best.digits);
  return true;
}

bool shard_solve_within_limit(shard_time_search *t, bool exact) {
  msc_arena *a = msc_arena_new(t->g.ctx);
  bool ok = solve_within(t, exact, a);
  msc_arena_free(a);
  return ok;
}
