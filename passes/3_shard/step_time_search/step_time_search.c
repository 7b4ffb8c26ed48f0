/* step_time_search.c: a function some of whose letters have digits -> digits of every letter, with which a step takes
 * the least time on the described cluster (see step_time_search.h). */
#include "passes/3_shard/step_time_search/step_time_search.h"

#include <string.h>

#include "ir/abi/clock.h"
#include "passes/3_shard/step_time_search/answers.h"
#include "passes/3_shard/step_time_search/mesh_shape.h"
#include "passes/3_shard/step_time_search/state.h"
#include "passes/3_shard/step_time_search/op_cost.h"
#include "passes/config/config.h"

enum { MAX_STATES = 4096, MAX_WORK = 1 << 28, MAX_WORK_OF_SHAPE = 1 << 27 };
enum { FEW_STATES = 128, LITTLE_WORK = 1 << 20 }; /* for search_after_propagation */

static bool fits_limits(const shard_time_search *t) {
  return t->found.ns < SHARD_IMPOSSIBLE && t->found.bytes <= t->limit;
}

/* Raises the limit to the bytes of the smallest strategy found, if the search may exceed the limit. False: it may not,
 * or there is no strategy, or the limit is large enough. */
static bool raise_limit(shard_time_search *t, shard_cost least) {
  if (!t->may_exceed_limit || least.ns >= SHARD_IMPOSSIBLE || least.bytes <= t->limit) return false;
  t->limit = least.bytes;
  return true;
}

static bool report_nothing_fits(const shard_time_search *t, shard_cost least) {
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

static bool has_uneven_fixed_parts(const shard_time_search *t) {
  for (size_t v = 0; v < t->m.num_vars; v++)
    for (int l = 0; l < t->m.var[v].rule->num_letters; l++)
      if (t->m.var[v].rule->letter[l].size %
          shard_parts(&t->g.atoms, t->initial_digits[v].num[l], t->initial_digits[v].atom[l]))
        return true;
  return false;
}

/* Computes the pieces and prices of the present mesh. False after a report. */
static bool price_present_mesh(shard_time_search *t) {
  shard_forget_strategies(t);
  msc_cost_of(msc_pass_cluster(t->pass), t->g.mesh, &t->cost);
  t->o.max_states = t->keeps_propagated ? FEW_STATES : MAX_STATES;
  t->o.any_parts = t->keeps_propagated, t->o.any_copies = t->keeps_propagated || has_uneven_fixed_parts(t);
  t->compared.whole_axes = false;
  t->o.zero = shard_zero_of(t->pass->config);
  if (shard_price_mesh(&t->m, &t->cost, !msc_config_bool(t->pass->config, MSC_KEY_enable_alltoall), t->bucket,
                       t->keeps_propagated, &t->o)) {
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
  msc_assignment *best_digits; /* NULL: none fits */
} candidate;

/* Keeps the strategy just found if it fits and takes less time. */
static void keep_candidate(shard_time_search *t, candidate *best) {
  if (!fits_limits(t) || (best->best_digits && t->found.ns >= best->cost.ns)) return;
  best->cost = t->found;
  if (!best->best_digits) best->best_digits = msc_new_array(best->arena, msc_assignment, t->m.num_vars);
  memcpy(best->best_digits, t->best_digits, t->m.num_vars * sizeof *t->best_digits);
}

/* Searches the present mesh, all strategies at once or piece by piece, and keeps the result in *best if it is better;
 * *out_least: the cost of the smallest strategy seen. False: too large. */
static bool search_in(shard_time_search *t, bool all_at_once, candidate *best, shard_cost *out_least) {
  MSC_TRY(shard_solve_within_limit(t, all_at_once));
  keep_candidate(t, best);
  if (t->found.bytes < out_least->bytes) *out_least = t->found;
  return true;
}

/* Searches the present mesh, into t->found, t->best_digits and t->bound. With `exact` it compares all strategies at
 * once, and also goes piece by piece if that is not solved exactly or leaves out uneven cuts; with a deadline it goes
 * piece by piece first. False: the network is too large for either, or a report was made. */
static bool search_mesh(shard_time_search *t, bool exact, shard_cost *out_least) {
  candidate best = {msc_arena_new(t->g.ctx), SHARD_NO_STRATEGY, NULL};
  bool by_digits = !exact || t->deadline_s > 0, found = false, looked = price_present_mesh(t);
  t->bound = 0, t->is_incomplete = false;
  if (looked && by_digits) found = search_in(t, false, &best, out_least);
  if (looked && exact && !shard_out_of_time(t)) found |= search_in(t, true, &best, out_least);
  if (looked && !by_digits && (!found || t->is_incomplete)) found |= search_in(t, false, &best, out_least);
  if (found && best.best_digits) memcpy(t->best_digits, best.best_digits, t->m.num_vars * sizeof *best.best_digits);
  msc_arena_free(best.arena);
  if (!found) return false;
  t->found = best.cost;
  if (t->bound > t->found.ns) t->bound = t->found.ns;
  shard_forget_strategies(t);
  return true;
}

/* The strategies that the bound covers, as text; NULL: all of them. */
static const char *name_compared(const shard_time_search *t) {
  const shard_compared *c = &t->compared;
  const char *text = c->even_only ? "even parts" : NULL,
             *parts[2] = {c->whole_axes ? "whole axes" : NULL, c->some_meshes ? "the meshes that were tried" : NULL};
  for (int i = 0; i < 2; i++)
    if (parts[i]) text = text ? msc_arena_printf(t->g.arena, "%s and %s", text, parts[i]) : parts[i];
  return text;
}

static void warn_of_gap(const shard_time_search *t) {
  if (t->bound >= t->found.ns || t->may_exceed_limit) return; /* the compilation's first search has warned already */
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

static bool search_given_mesh(shard_time_search *t) {
  shard_cost least = SHARD_NO_STRATEGY;
  bool exact = t->keeps_propagated || msc_config_search_mode(t->pass->config) == MSC_DYNAMIC_PROGRAMMING;
  if (!search_mesh(t, exact, &least))
    return msc_num_errors(t->g.ctx) ? false
                                    : msc_error(t->g.ctx, MSC_E_UNSUPPORTED, t->f->loc,
                                                "the network is too large for this search on this mesh");
  if (!fits_limits(t)) return raise_limit(t, least) ? search_given_mesh(t) : report_nothing_fits(t, least);
  if (exact && !t->keeps_propagated) warn_of_gap(t);
  return true;
}

/* Searches the letters that propagation left free. The flows to results that are returned whole take no part in that:
 * they are counted afterwards, in a search with all digits fixed. */
static bool search_after_propagation(shard_time_search *t) {
  size_t all = t->m.num_flows;
  t->m.num_flows = t->m.num_inner_flows;
  MSC_TRY(search_given_mesh(t));
  if (all == t->m.num_inner_flows) return true;
  t->m.num_flows = all, t->m.kind = NULL; /* so that space.c sorts the flows again */
  memcpy(t->initial_digits, t->best_digits, t->m.num_vars * sizeof *t->best_digits);
  for (size_t v = 0; v < t->m.num_vars; v++) t->m.var[v].closed = UINT32_MAX, t->m.var[v].may_pass = false;
  return search_given_mesh(t);
}

/* ---- the mesh ---- */

/* May the search choose the mesh: is none configured, and does no letter or argument use digits of the present one? */
static bool is_free_mesh(const shard_time_search *t) {
  bool is_free = msc_func_attr(t->f, MSC_FACT(free_mesh)) != NULL;
  for (size_t v = 0; v < t->m.num_vars && is_free; v++)
    for (int l = 0; l < t->m.var[v].rule->num_letters; l++) is_free &= !t->initial_digits[v].num[l];
  for (size_t i = 0; i < t->f->body->num_args && is_free; i++) {
    const msc_layout *l = t->g.arg_layout[i];
    is_free = !l || msc_layout_is_replicated(l);
  }
  return is_free && msc_mesh_size(t->g.mesh) > 1;
}

static void name_mesh_axes(shard_time_search *t, const shard_mesh_shape *s) {
  static const char *const names[SHARD_MESH_AXES] = {"x", "y", "z"};
  msc_mesh *mesh = &t->f->module->mesh;
  mesh->num_axes = s->num;
  for (int a = 0; a < s->num; a++) mesh->axis[a] = (msc_axis){msc_intern(t->g.ctx, names[a]), s->size[a]};
  msc_atoms_of(mesh, 0, NULL, &t->g.atoms);
}

/* Searches every shape of the mesh, until time is up. */
static bool search_all_meshes(shard_time_search *t) {
  shard_mesh_shape *shape = msc_new_array(t->g.arena, shard_mesh_shape, SHARD_MAX_SHAPES);
  int num = shard_mesh_shapes(msc_pass_cluster(t->pass), msc_mesh_size(t->g.mesh), shape), best = -1;
  bool exact = msc_config_search_mode(t->pass->config) == MSC_DYNAMIC_PROGRAMMING;
  candidate of_best = {t->g.arena, SHARD_NO_STRATEGY, NULL};
  shard_cost least = SHARD_NO_STRATEGY, of_shape;
  int64_t bound = INT64_MAX, charge = 0;
  t->max_work = MAX_WORK_OF_SHAPE;
  for (int i = 0; i < num; i++) {
    if (best >= 0 && shard_out_of_time(t)) {
      bound = 0;
      break;
    }
    shard_fix_digits(t, t->initial_digits);
    name_mesh_axes(t, &shape[i]);
    of_shape = SHARD_NO_STRATEGY;
    t->charge = charge;
    t->time_to_beat = best >= 0 ? of_best.cost.ns : INT64_MAX;
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
  if (best < 0) return raise_limit(t, least) ? search_all_meshes(t) : report_nothing_fits(t, least);
  shard_fix_digits(t, t->initial_digits);
  name_mesh_axes(t, &shape[best]);
  t->found = of_best.cost, t->bound = bound;
  t->best_digits = of_best.best_digits;
  MSC_TRY(price_present_mesh(t));
  t->compared.whole_axes = shard_count_primes(msc_mesh_size(t->g.mesh)) > SHARD_MESH_AXES;
  if (exact) warn_of_gap(t);
  return true;
}

/* Sets t->o.book and t->answers to those that earlier searches of the run filled, if the run keeps any; else NULL. */
static void recall_searches(shard_time_search *t) {
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
  shard_time_search t = {
      .pass = pass, .f = f, .found = SHARD_NO_STRATEGY, .max_work = MAX_WORK, .time_to_beat = INT64_MAX};
  MSC_TRY(shard_graph_of(pass, f, &t.g));
  const msc_attr_value *batch_cut = msc_func_attr(f, MSC_FACT(batch_cut));
  if (batch_cut) shard_cut_batches(&t.g, msc_new_array(t.g.arena, bool, t.g.num_groups));
  shard_model_of(&t.g, &t.m);
  t.keeps_propagated = !shard_searches_time(pass->config);
  t.bucket = shard_bucket_of(t.g.func);
  t.limit = msc_memory_limit(pass->config, msc_pass_cluster(pass));
  const msc_attr_value *room = msc_func_attr(f, MSC_FACT(search_room));
  if (room) t.limit = room->i ? room->i : INT64_MAX, t.may_exceed_limit = room->i > 0;
  if (pass->options && pass->options->time_limit_s > 0)
    t.deadline_s = msc_clock_seconds() + pass->options->time_limit_s;
  recall_searches(&t);
  if (batch_cut) t.answers = NULL; /* they are those to another question */
  t.initial_digits = msc_new_array(t.g.arena, msc_assignment, t.m.num_vars);
  t.best_digits = msc_new_array(t.g.arena, msc_assignment, t.m.num_vars);
  t.state = msc_new_array(t.g.arena, int, t.m.num_vars);
  if (t.keeps_propagated) t.limit = INT64_MAX, t.max_work = LITTLE_WORK, shard_keep_boundaries(&t.m);
  for (size_t v = 0; v < t.m.num_vars; v++) t.initial_digits[v] = t.m.var[v].fixed;
  bool is_whole = msc_config_parallel_mode(pass->config) == MSC_AUTO_PARALLEL;
  bool is_cut = is_whole || msc_mesh_size(t.g.mesh) > 1; /* false: there is nothing to choose */
  if (!is_cut) memcpy(t.best_digits, t.initial_digits, t.m.num_vars * sizeof *t.best_digits);
  if (is_cut)
    MSC_TRY(t.keeps_propagated ? search_after_propagation(&t)
            : is_free_mesh(&t) ? search_all_meshes(&t)
                               : search_given_mesh(&t));
  if (t.keeps_propagated) t.bound = 0; /* it holds only for strategies that keep what propagation decided */
  if (batch_cut) t.bound = batch_cut->i;
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
  if (batch_cut) return true;
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
