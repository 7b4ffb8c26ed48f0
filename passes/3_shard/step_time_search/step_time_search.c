/* step_time_search.c: a function whose ops are free or fixed -> digits of every letter, so that a step takes the least
 * time on the described cluster (see step_time_search.h). */
#include "passes/3_shard/step_time_search/step_time_search.h"

#include <string.h>

#include "ir/abi/clock.h"
#include "passes/3_shard/step_time_search/answers.h"
#include "passes/3_shard/step_time_search/mesh_shape.h"
#include "passes/3_shard/step_time_search/state.h"
#include "passes/3_shard/step_time_search/op_cost.h"
#include "passes/config/config.h"

enum { MAX_STATES = 4096, MAX_WORK = 1 << 28, MAX_WORK_OF_SHAPE = 1 << 27 };
enum { FEW_STATES = 128, LITTLE_WORK = 1 << 20 }; /* where only what propagation left is placed */

static bool fits_limits(const shard_timing *t) { return t->found.ns < SHARD_IMPOSSIBLE && t->found.bytes <= t->limit; }

/* Raises the limit to the least that any strategy needs, where the search may exceed it. False: it may not, or need
 * not. */
static bool yields_to(shard_timing *t, shard_cost least) {
  if (!t->yields || least.ns >= SHARD_IMPOSSIBLE || least.bytes <= t->limit) return false;
  t->limit = least.bytes;
  return true;
}

static bool nothing_fits(const shard_timing *t, shard_cost least) {
  if (least.ns >= SHARD_IMPOSSIBLE)
    return msc_error(t->g.ctx, MSC_E_INFEASIBLE, t->f->loc,
                     "no sequence of layout changes connects the given strategies");
  const msc_loc *loc = msc_config_loc(t->pass->config, MSC_KEY_memory_limit);
  msc_error(t->g.ctx, MSC_E_INFEASIBLE, loc ? loc : t->f->loc,
            "no strategy stays within %" PRId64 " bytes per rank: the smallest keeps %" PRId64 ", of them %" PRId64
            " for parameters with optimizer state and gradients and %" PRId64
            " for what the backward reads again; what comes and goes within a step needs room besides",
            t->limit, least.bytes, least.parameter_bytes, least.bytes - least.parameter_bytes);
  if (!loc)
    msc_note(t->g.ctx, NULL, "the limit is the memory of the described device, %s; the key memory_limit sets another",
             msc_pass_cluster(t->pass)->device);
  return false;
}

/* ---- the search ---- */

static bool gives_uneven_parts(const shard_timing *t) {
  for (size_t v = 0; v < t->m.num_vars; v++)
    for (int l = 0; l < t->m.var[v].rule->num_letters; l++)
      if (t->m.var[v].rule->letter[l].size % shard_parts(&t->g.atoms, t->given[v].num[l], t->given[v].atom[l]))
        return true;
  return false;
}

/* Reads the atoms, pieces and prices of the present mesh. */
static bool look_at_mesh(shard_timing *t) {
  shard_forget_strategies(t);
  msc_cost_of(msc_pass_cluster(t->pass), t->g.mesh, &t->cost);
  t->o.max_states = t->follows ? FEW_STATES : MAX_STATES;
  t->o.any_parts = t->follows, t->o.any_copies = t->follows || gives_uneven_parts(t);
  t->compared.whole_axes = false;
  t->o.zero = shard_zero_of(t->pass->config);
  if (shard_price_mesh(&t->m, &t->cost, !msc_config_bool(t->pass->config, MSC_KEY_enable_alltoall), t->bucket,
                       t->follows, &t->o)) {
    for (int p = 0; p < t->o.num_pieces; p++) t->compared.whole_axes |= shard_count_primes(t->o.piece[p].size) > 1;
    return true;
  }
  return msc_error(t->g.ctx, MSC_E_UNSUPPORTED, t->f->loc, "strategies cut the mesh into more than %d pieces",
                   SHARD_MAX_PIECES);
}

/* The best strategy of those searched so far. */
typedef struct {
  msc_arena *arena;
  shard_cost cost;
  msc_assignment *chosen; /* NULL: none fits */
} candidate;

static void keep_candidate(shard_timing *t, candidate *best) {
  if (!fits_limits(t) || (best->chosen && t->found.ns >= best->cost.ns)) return;
  best->cost = t->found;
  if (!best->chosen) best->chosen = msc_new_array(best->arena, msc_assignment, t->m.num_vars);
  memcpy(best->chosen, t->chosen, t->m.num_vars * sizeof *t->chosen);
}

/* Searches the present mesh in one way and keeps the result in *best if it is better. False: too large. */
static bool search_in(shard_timing *t, bool all_at_once, candidate *best, shard_cost *out_least) {
  MSC_TRY(shard_solve_within_limit(t, all_at_once));
  keep_candidate(t, best);
  if (t->found.bytes < out_least->bytes) *out_least = t->found;
  return true;
}

/* Searches the present mesh. With `exact` all strategies at once where possible; where that cannot be solved exactly,
 * or leaves out uneven cuts, piece by piece as well; where time is short, piece by piece first. False: the network is
 * too large even for that. */
static bool search_mesh(shard_timing *t, bool exact, shard_cost *out_least) {
  candidate best = {msc_arena_new(t->g.ctx), SHARD_NO_STRATEGY, NULL};
  bool by_digits = !exact || t->deadline_s > 0, found = false, looked = look_at_mesh(t);
  t->bound = 0, t->is_incomplete = false;
  if (looked && by_digits) found = search_in(t, false, &best, out_least);
  if (looked && exact && !shard_out_of_time(t)) found |= search_in(t, true, &best, out_least);
  if (looked && !by_digits && (!found || t->is_incomplete)) found |= search_in(t, false, &best, out_least);
  if (found && best.chosen) memcpy(t->chosen, best.chosen, t->m.num_vars * sizeof *best.chosen);
  msc_arena_free(best.arena);
  if (!found) return false;
  t->found = best.cost;
  if (t->bound > t->found.ns) t->bound = t->found.ns;
  shard_forget_strategies(t);
  return true;
}

/* The strategies that the bound covers, as text; NULL: all of them. */
static const char *name_compared(const shard_timing *t) {
  const shard_compared *c = &t->compared;
  const char *text = c->even_only ? "even parts" : NULL,
             *parts[2] = {c->whole_axes ? "whole axes" : NULL, c->some_meshes ? "the meshes that were tried" : NULL};
  for (int i = 0; i < 2; i++)
    if (parts[i]) text = text ? msc_arena_printf(t->g.arena, "%s and %s", text, parts[i]) : parts[i];
  return text;
}

static void warn_of_gap(const shard_timing *t) {
  if (t->bound >= t->found.ns || t->yields) return; /* it was said before */
  const char *why = t->deadline_s > 0 ? "time is up" : "the exact search would take too long";
  const char *of = name_compared(t);
  if (t->bound > 0)
    msc_warning(t->g.ctx, MSC_E_SEARCH, t->f->loc,
                "%s: the best strategy found takes %.3f ms; none%s%s takes less than %.3f ms", why,
                (double)t->found.ns / 1e6, of ? " of strategies with " : "", of ? of : "", (double)t->bound / 1e6);
  else
    msc_warning(
        t->g.ctx, MSC_E_SEARCH, t->f->loc,
        "%s: the best strategy found takes %.3f ms, with digits placed one after the other as in recursive_programming",
        why, (double)t->found.ns / 1e6);
}

static bool search_given_mesh(shard_timing *t) {
  shard_cost least = SHARD_NO_STRATEGY;
  bool exact = t->follows || msc_config_search_mode(t->pass->config) == MSC_DYNAMIC_PROGRAMMING;
  if (!search_mesh(t, exact, &least))
    return msc_num_errors(t->g.ctx) ? false
                                    : msc_error(t->g.ctx, MSC_E_UNSUPPORTED, t->f->loc,
                                                "the network is too large for this search on this mesh");
  if (!fits_limits(t)) return yields_to(t, least) ? search_given_mesh(t) : nothing_fits(t, least);
  if (exact && !t->follows) warn_of_gap(t);
  return true;
}

/* Searches what propagation left free: it follows from what is decided. Gathering the results at the end does not
 * decide anything, but is paid for. */
static bool search_what_follows(shard_timing *t) {
  size_t all = t->m.num_flows;
  t->m.num_flows = t->m.num_inner_flows;
  MSC_TRY(search_given_mesh(t));
  if (all == t->m.num_inner_flows) return true;
  t->m.num_flows = all, t->m.kind = NULL; /* flows are sorted anew */
  memcpy(t->given, t->chosen, t->m.num_vars * sizeof *t->chosen);
  for (size_t v = 0; v < t->m.num_vars; v++) t->m.var[v].closed = UINT32_MAX, t->m.var[v].may_pass = false;
  return search_given_mesh(t);
}

/* ---- the mesh ---- */

/* Is the shape of the mesh open: has nobody used an axis of it, or a digit of one? */
static bool is_free_mesh(const shard_timing *t) {
  bool is_free = msc_func_attr(t->f, MSC_FACT(free_mesh)) != NULL;
  for (size_t v = 0; v < t->m.num_vars && is_free; v++)
    for (int l = 0; l < t->m.var[v].rule->num_letters; l++) is_free &= !t->given[v].num[l];
  for (size_t i = 0; i < t->f->body->num_args && is_free; i++) {
    const msc_layout *l = t->g.given[i];
    is_free = !l || msc_layout_is_replicated(l);
  }
  return is_free && msc_mesh_size(t->g.mesh) > 1;
}

static void name_mesh_axes(shard_timing *t, const shard_mesh_shape *s) {
  static const char *const names[SHARD_MESH_AXES] = {"x", "y", "z"};
  msc_mesh *mesh = &t->f->module->mesh;
  mesh->num_axes = s->num;
  for (int a = 0; a < s->num; a++) mesh->axis[a] = (msc_axis){msc_intern(t->g.ctx, names[a]), s->size[a]};
  msc_atoms_of(mesh, 0, NULL, &t->g.atoms);
}

/* Searches every shape of the mesh, until time is up. */
static bool search_all_meshes(shard_timing *t) {
  shard_mesh_shape *shape = msc_new_array(t->g.arena, shard_mesh_shape, SHARD_MAX_SHAPES);
  int num = shard_mesh_shapes(msc_pass_cluster(t->pass), msc_mesh_size(t->g.mesh), shape), best = -1;
  bool exact = msc_config_search_mode(t->pass->config) == MSC_DYNAMIC_PROGRAMMING;
  candidate of_best = {t->g.arena, SHARD_NO_STRATEGY, NULL};
  shard_cost least = SHARD_NO_STRATEGY, of_shape;
  int64_t bound = INT64_MAX, charge = 0;
  t->max_work = MAX_WORK_OF_SHAPE;
  for (int i = 0; i < num; i++) {
    if (best >= 0 && shard_out_of_time(t)) bound = 0;
    if (best >= 0 && shard_out_of_time(t)) break;
    shard_fix_digits(t, t->given);
    name_mesh_axes(t, &shape[i]);
    of_shape = SHARD_NO_STRATEGY;
    t->charge = charge;
    t->beaten = best >= 0 ? of_best.cost.ns : INT64_MAX;
    if (!search_mesh(t, exact, &of_shape)) {
      if (msc_num_errors(t->g.ctx)) return false;
      continue;
    }
    if (of_shape.bytes < least.bytes) least = of_shape;
    if (fits_limits(t) && t->found.ns < of_best.cost.ns) best = i, charge = t->charge;
    if (fits_limits(t)) bound = t->bound < bound ? t->bound : bound;
    keep_candidate(t, &of_best);
  }
  t->compared.some_meshes = !shard_are_all_shapes(msc_mesh_size(t->g.mesh));
  msc_stat(t->pass, "meshes", num);
  if (best < 0) return yields_to(t, least) ? search_all_meshes(t) : nothing_fits(t, least);
  shard_fix_digits(t, t->given);
  name_mesh_axes(t, &shape[best]);
  t->found = of_best.cost, t->bound = bound;
  t->chosen = of_best.chosen;
  MSC_TRY(look_at_mesh(t));
  t->compared.whole_axes = shard_count_primes(msc_mesh_size(t->g.mesh)) > SHARD_MESH_AXES;
  if (exact) warn_of_gap(t);
  return true;
}

/* Prices and answers of searches before, if the run remembers any; else NULL. */
static void recall_searches(shard_timing *t) {
  static const char prices, answers; /* their addresses are keys */
  const msc_pass_options *o = t->pass->options;
  void **at;
  if (o && o->of_cluster) {
    at = msc_kept_at(o->of_cluster, &prices);
    if (!*at) *at = shard_price_book_new(t->pass->ctx, msc_pass_memory_arena(o->of_cluster));
    t->o.book = *at;
  }
  if (o && o->of_text) {
    at = msc_kept_at(o->of_text, &answers);
    if (!*at) *at = shard_answers_new(msc_pass_memory_arena(o->of_text));
    t->answers = *at;
  }
}

bool shard_search_time(msc_pass_ctx *pass, msc_func *f) {
  shard_timing t = {.pass = pass, .f = f, .found = SHARD_NO_STRATEGY, .max_work = MAX_WORK, .beaten = INT64_MAX};
  MSC_TRY(shard_graph_of(pass, f, &t.g));
  shard_model_of(&t.g, &t.m);
  t.follows = !shard_searches_time(pass->config);
  t.bucket = shard_bucket_of(t.g.func);
  t.limit = msc_memory_limit(pass->config, msc_pass_cluster(pass));
  const msc_attr_value *room = msc_func_attr(f, MSC_FACT(search_room));
  if (room) t.limit = room->i ? room->i : INT64_MAX, t.yields = room->i > 0;
  if (pass->options && pass->options->time_limit_s > 0)
    t.deadline_s = msc_clock_seconds() + pass->options->time_limit_s;
  recall_searches(&t);
  t.given = msc_new_array(t.g.arena, msc_assignment, t.m.num_vars);
  t.chosen = msc_new_array(t.g.arena, msc_assignment, t.m.num_vars);
  t.state = msc_new_array(t.g.arena, int, t.m.num_vars);
  if (t.follows) t.limit = INT64_MAX, t.max_work = LITTLE_WORK, shard_keep_boundaries(&t.m);
  for (size_t v = 0; v < t.m.num_vars; v++) t.given[v] = t.m.var[v].fixed;
  bool is_whole = msc_config_parallel_mode(pass->config) == MSC_AUTO_PARALLEL;
  bool is_cut = is_whole || msc_mesh_size(t.g.mesh) > 1; /* else nothing is asked for or can be chosen */
  if (!is_cut) memcpy(t.chosen, t.given, t.m.num_vars * sizeof *t.chosen);
  if (is_cut)
    MSC_TRY(t.follows ? search_what_follows(&t) : is_free_mesh(&t) ? search_all_meshes(&t) : search_given_mesh(&t));
  if (t.follows) t.bound = 0; /* it would speak of what goes with propagation only */
  msc_drop_attr(f->attrs, &f->num_attrs, MSC_FACT(free_mesh));
  if (room)
    msc_func_put(f, msc_fact_kept_bytes(t.found.bytes)), msc_func_put(f, msc_fact_limited(t.limited || t.charge > 0));
  shard_store_strategy(&t, is_whole);
  if (!is_whole) return true;
  msc_func_put(f, msc_fact_searched(true));
  msc_func_put(f, msc_fact_step_ns(t.found.ns));
  msc_func_put(f, msc_fact_least_step_ns(t.bound));
  int64_t devices = msc_mesh_size(t.g.mesh) * msc_config_int(pass->config, MSC_KEY_pipeline_stages);
  msc_func_put(f, msc_fact_least_plan_ns(shard_least_ns(&t.m, &t.cost, devices)));
  msc_drop_attr(f->attrs, &f->num_attrs, MSC_FACT(compared));
  if (t.bound && name_compared(&t)) msc_func_put(f, msc_fact_compared(t.g.ctx, name_compared(&t)));
  msc_stat(pass, "variables", (int64_t)t.m.num_vars);
  msc_stat(pass, "work", (int64_t)t.work);
  msc_stat(pass, "ns", t.found.ns);
  msc_stat(pass, "ns at least", t.bound);
  if (name_compared(&t))
    msc_stat(pass, "not compared", t.compared.even_only + 2 * t.compared.some_meshes + 4 * t.compared.whole_axes);
  msc_stat(pass, "bytes kept", t.found.bytes);
  return true;
}
