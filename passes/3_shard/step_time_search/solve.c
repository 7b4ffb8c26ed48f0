/* solve.c: a mesh and a charge on memory -> the strategy of least time and charge, of all strategies at once or piece
 * by piece of the mesh (see state.h). */
#include <string.h>

#include "passes/3_shard/step_time_search/answers.h"
#include "passes/3_shard/step_time_search/mesh_shape.h"
#include "passes/3_shard/step_time_search/minimum.h"
#include "passes/3_shard/step_time_search/state.h"
#include "passes/3_shard/step_time_search/states.h"

enum { MAX_SWEEPS = 6 };

/* ---- one exact solution ---- */

/* Finds the best strategy of a space, into t->state; no strategy of it costs less than *out_bound. If none costs less
 * than `below` it is any one. False: time is up. */
static bool solve_space(shard_time_search *t, shard_space *space, int64_t below, msc_arena *a, shard_cost *out_cost,
                        int64_t *out_bound) {
  shard_problem p;
  shard_effort effort = {0};
  shard_cost cost = {0};
  int *state = t->state;
  MSC_TRY(shard_space_problem(space, &p));
  p.below = below;
  for (size_t v = 0; v < t->m.num_vars; v++) state[v] = shard_plainest_state(space, (int)v);
  shard_minimum(a, &p, t->max_work, state, &cost.charged, out_bound, &effort);
  cost.ns = cost.charged;
  for (size_t v = 0; v < t->m.num_vars; v++) {
    const shard_class *c = shard_class_of(space, (int)v);
    cost.ns -= shard_charge(space, c->bytes[state[v]]);
    cost.bytes += c->bytes[state[v]];
    cost.parameter_bytes += c->parameter_bytes[state[v]];
  }
  *out_cost = cost;
  t->work += effort.entries;
  return true;
}

static void read_digits(const shard_time_search *t, const shard_space *space, msc_assignment *out_digits) {
  for (size_t v = 0; v < t->m.num_vars; v++) shard_state_digits(space, (int)v, t->state[v], &out_digits[v]);
}

/* Finds the best letters for the free pieces while the fixed digits of all variables stay; writes the digits of all
 * variables if they cost less than `below`. False: too large. */
static bool solve_pieces(shard_time_search *t, uint32_t free_pieces, int64_t below, msc_assignment *out_digits,
                         shard_cost *out_cost) {
  msc_arena *a = msc_arena_new(t->g.ctx);
  shard_space *space;
  int64_t bound = 0;
  t->o.free_pieces = free_pieces;
  bool ok = shard_space_of(&t->m, &t->o, a, &space) && solve_space(t, space, below, a, out_cost, &bound);
  if (ok && out_cost->charged < below) read_digits(t, space, out_digits);
  msc_arena_free(a);
  return ok;
}

void shard_fix_digits(shard_time_search *t, const msc_assignment *digits) {
  for (size_t v = 0; v < t->m.num_vars; v++) t->m.var[v].fixed = digits[v];
}

static void keep_if_better(shard_time_search *t, const msc_assignment *digits, shard_cost cost) {
  if (cost.charged >= t->found.charged) return;
  t->found = cost;
  memcpy(t->best_digits, digits, t->m.num_vars * sizeof *digits);
}

void shard_forget_strategies(shard_time_search *t) {
  if (t->full_arena) msc_arena_free(t->full_arena);
  t->full_arena = NULL, t->full = NULL;
}

shard_space *shard_all_strategies(shard_time_search *t) {
  if (t->full_arena) return t->full;
  t->full_arena = msc_arena_new(t->g.ctx);
  shard_fix_digits(t, t->initial_digits);
  t->o.free_pieces = UINT32_MAX;
  t->o.deadline_s = t->deadline_s;
  if (!shard_space_of(&t->m, &t->o, t->full_arena, &t->full)) t->full = NULL;
  t->o.deadline_s = 0;
  return t->full;
}

/* Finds the best of all strategies under this charge, into t->best_digits, t->state and *out. False: too large. */
static bool solve_all(shard_time_search *t, int64_t ns_per_gib, shard_answer *out) {
  out->digits = t->best_digits, out->state = t->state;
  if (shard_recall(t, SHARD_AT_ONCE, ns_per_gib, out)) return true;
  MSC_TRY(shard_all_strategies(t));
  msc_arena *a = msc_arena_new(t->g.ctx);
  shard_space_charge(t->full, ns_per_gib);
  bool ok = solve_space(t, t->full, 0, a, &out->cost, &out->bound);
  if (ok) read_digits(t, t->full, t->best_digits);
  msc_arena_free(a);
  out->leaves_out = shard_space_leaves_out(t->full);
  if (ok) shard_remember(t, SHARD_AT_ONCE, ns_per_gib, out);
  return ok;
}

/* Searches all strategies at once, into t->found, and raises t->bound. False: too large. */
static bool search_all(shard_time_search *t, int64_t ns_per_gib) {
  shard_answer found = {0};
  MSC_TRY(solve_all(t, ns_per_gib, &found));
  /* Lagrange's bound: a strategy that fits is charged for at most `limit` bytes, so its time is at least this */
  int64_t least = found.bound - shard_charge_for(ns_per_gib, t->limit) - 1;
  if (!ns_per_gib) least = found.bound;
  if (found.bound < SHARD_IMPOSSIBLE && least > t->bound) t->bound = least, t->charge = ns_per_gib;
  t->compared.even_only |= found.leaves_out;
  bool few = shard_are_all_shapes(msc_mesh_size(t->g.mesh)); /* on many devices uneven cuts gain little */
  t->found = found.cost;
  t->is_incomplete |= (found.leaves_out && few) || found.bound < found.cost.charged;
  return true;
}

/* ---- piece by piece ---- */

/* Takes pieces off every letter, except where they were fixed before the search. A variable with a strategy tuple keeps
 * its digits, which say into how many parts its letters are cut; its states change them all the same (states.c). */
static void release_pieces(shard_time_search *t, uint32_t pieces) {
  uint32_t atoms = 0;
  for (int p = 0; p < t->o.num_pieces; p++)
    for (int i = 0; i < t->o.piece[p].num && pieces >> p & 1; i++) atoms |= 1u << (t->o.piece[p].first + i);
  for (size_t v = 0; v < t->m.num_vars; v++) {
    msc_assignment *a = &t->m.var[v].fixed, *given = &t->initial_digits[v];
    a->pass = (a->pass & ~atoms) | given->pass;
    for (int l = 0; l < t->m.var[v].rule->num_letters && !shard_is_tuple(&t->g, &t->m.var[v]); l++) {
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

/* The number of improvements so far, and for each piece or pair of pieces that number when it was last freed: without
 * an improvement in between, freeing it again changes nothing. */
typedef struct {
  int changes, freed[SHARD_MAX_PIECES][SHARD_MAX_PIECES];
} sweeps;

/* Searches again for the letters of one or two pieces in all variables, with every other digit fixed; false: the
 * strategy found is no better. */
static bool improve_pieces(shard_time_search *t, sweeps *s, int one, int other, msc_assignment *digits) {
  int64_t before = t->found.charged;
  uint32_t pieces = 1u << one | 1u << other;
  shard_cost cost;
  if (s->freed[one][other] == s->changes) return false;
  s->freed[one][other] = s->changes;
  shard_fix_digits(t, t->best_digits);
  release_pieces(t, pieces);
  if (!solve_pieces(t, pieces, before, digits, &cost)) return false;
  keep_if_better(t, digits, cost);
  bool better = t->found.charged < before;
  s->changes += better;
  return better;
}

/* Orders pieces by the speed of their links, the fastest first. */
static void order_pieces(const shard_time_search *t, int *out_order) {
  int level[SHARD_MAX_PIECES];
  for (int p = 0; p < t->o.num_pieces; p++) {
    const msc_subaxis *first = &t->g.atoms.atom[t->o.piece[p].first];
    level[p] = msc_cost_level(&t->cost, (msc_subaxis){first->axis, first->pre, (uint32_t)t->o.piece[p].size});
    int at = p;
    for (; at > 0 && level[out_order[at - 1]] >= level[p]; at--) out_order[at] = out_order[at - 1];
    out_order[at] = p;
  }
}

/* Places one piece at a time, that with the fastest links first; then improves each, and each pair, until nothing gets
 * better. False: too large. */
static bool place_pieces(shard_time_search *t, msc_assignment *digits) {
  int order[SHARD_MAX_PIECES], n = t->o.num_pieces;
  shard_cost cost = SHARD_NO_STRATEGY;
  order_pieces(t, order);
  shard_fix_digits(t, t->initial_digits);
  for (int i = 0; i < n || (n == 0 && i == 0); i++) {
    MSC_TRY(solve_pieces(t, n ? 1u << order[i] : 0, INT64_MAX, digits, &cost));
    shard_fix_digits(t, digits);
  }
  keep_if_better(t, digits, cost);
  sweeps s = {.changes = 1};
  bool better = true;
  for (int round = 0; round < MAX_SWEEPS && better && !shard_out_of_time(t); round++) {
    better = false;
    for (int i = 0; i < n && !shard_out_of_time(t); i++) better |= improve_pieces(t, &s, order[i], order[i], digits);
    for (int i = 0; i < n && !better; i++)
      for (int k = 0; k < i && !shard_out_of_time(t); k++) better |= improve_pieces(t, &s, order[i], order[k], digits);
  }
  return true;
}

/* Searches piece by piece, or takes the known answer, into t->found and t->best_digits. False: too large. */
static bool search_by_pieces(shard_time_search *t, int64_t ns_per_gib) {
  shard_answer answer = {.digits = t->best_digits, .state = t->state};
  if (shard_recall(t, SHARD_BY_PIECES, ns_per_gib, &answer)) return t->found = answer.cost, true;
  msc_arena *a = msc_arena_new(t->g.ctx);
  bool ok = place_pieces(t, msc_new_array(a, msc_assignment, t->m.num_vars));
  msc_arena_free(a);
  answer.cost = t->found;
  if (ok) shard_remember(t, SHARD_BY_PIECES, ns_per_gib, &answer);
  return ok;
}

/* ---- both ways ---- */

bool shard_solve_time(shard_time_search *t, bool exact, int64_t ns_per_gib) {
  t->found = SHARD_NO_STRATEGY;
  t->o.ns_per_gib = ns_per_gib;
  bool ok = exact ? search_all(t, ns_per_gib) : search_by_pieces(t, ns_per_gib);
  t->o.ns_per_gib = 0;
  return ok;
}
