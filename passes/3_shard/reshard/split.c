/* split.c: a type and two layouts, one of which has parts of chosen sizes, in; the plan out.
 *
 * Such parts nest in the whole dimension only, so there is little to search: one collective if one can make the change,
 * exchanges among them, which may also finish sums; else the way through the whole tensor. */
#include <string.h>

#include "passes/3_shard/reshard/graph.h"

typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  const msc_mesh *mesh;
  const msc_reshard_options *options;
  const msc_type *type;
  msc_reshard_plan *plan;
} split_planner;

static int64_t local_bytes(const split_planner *s, const msc_layout *l) {
  return msc_local_bytes(msc_type_with_layout(s->ctx, s->type, l));
}

static void *pull_memory(void *arena, size_t bytes) { return msc_arena_alloc(arena, bytes); }

/* The most bytes that a device receives, and the most peers that one has. */
static int64_t worst_received(const split_planner *s, const msc_layout *from, const msc_layout *to,
                              int64_t *out_peers) {
  msc_box_mesh mesh = msc_mesh_sizes(s->mesh);
  msc_box_layout a = msc_layout_cuts(from), b = msc_layout_cuts(to);
  int64_t worst = 0;
  *out_peers = 0;
  for (int64_t r = 0; r < msc_box_mesh_size(&mesh); r++) {
    msc_arena *scratch = msc_arena_new(s->ctx);
    msc_pull pull;
    if (msc_pull_of(&mesh, &a, &b, s->type->dim, r, pull_memory, scratch, &pull) == MSC_PULL_OK) {
      int64_t elems = msc_pull_received(&pull, s->type->rank, r), peers = pull.num_pieces * pull.num_terms;
      if (elems > worst) worst = elems;
      if (peers > *out_peers) *out_peers = peers;
    }
    msc_arena_free(scratch);
  }
  return worst * msc_dtype_bytes(s->type->dtype);
}

static int64_t partial_terms(const msc_layout *l) { return msc_group_size(l->num_partial, l->sub + l->first[l->rank]); }

/* The time of a step. Parts of chosen sizes use all digits of a dimension, so the slowest link counts. */
static int64_t step_ns(const split_planner *s, msc_verb verb, int64_t ranks, int64_t bytes) {
  double alpha = 0, rate = 0;
  int level = 0;
  for (int i = 0; i < s->options->num_links; i++) {
    const msc_link *l = &s->options->link[i];
    if (l->alpha_ns > alpha) alpha = l->alpha_ns;
    if (rate == 0 || l->bytes_per_ns < rate) rate = l->bytes_per_ns;
    if (l->level > level) level = l->level;
  }
  const msc_cost_transfer t = {.verb = verb, .level = level, .ranks = ranks, .bytes = bytes, .peers = ranks - 1};
  return bytes ? msc_reshard_step_ns(s->options, alpha, rate, &t) : 0;
}

static void add_split_step(split_planner *s, msc_verb verb, const msc_layout *from, const msc_layout *to) {
  int64_t peers = 0, in = local_bytes(s, from), out = local_bytes(s, to), k = partial_terms(from) / partial_terms(to);
  int64_t bytes = verb == MSC_SHARD || verb == MSC_ALL_REDUCE ? msc_verb_received(verb, in, out, k)
                                                              : worst_received(s, from, to, &peers);
  msc_reshard_step *step = &s->plan->step[s->plan->num_steps++];
  *step = (msc_reshard_step){.verb = verb, .to = to, .bytes = bytes, .peak_bytes = verb == MSC_SHARD ? in : in + out};
  if (s->options->time) step->ns = step_ns(s, verb, verb == MSC_ALL_REDUCE ? k : peers + 1, bytes);
  s->plan->bytes += step->bytes;
  s->plan->ns += step->ns;
  if (step->peak_bytes > s->plan->peak_bytes) s->plan->peak_bytes = step->peak_bytes;
}

const msc_layout *msc_reshard_finished(msc_context *ctx, const msc_mesh *mesh, const msc_layout *l, bool keep_cuts) {
  msc_layout raw = *l;
  raw.num_partial = 0;
  if (!keep_cuts) memset(raw.first, 0, sizeof raw.first);
  return msc_layout_of(ctx, mesh, &raw);
}

static bool try_verb(split_planner *s, msc_verb verb, const msc_layout *from, const msc_layout *to) {
  if (msc_relayout_wrong(s->mesh, s->type, verb, from, to)) return false;
  add_split_step(s, verb, from, to);
  return true;
}

/* The first verb that makes the whole change: a slice, else in the order of the rows of ir/verb.def. False: none
 * does. */
static bool plan_one_step(split_planner *s, const msc_layout *from, const msc_layout *to) {
  if (try_verb(s, MSC_SHARD, from, to)) return true;
  for (int v = 0; v < MSC_NUM_PLAN_VERBS; v++) {
    if (v == MSC_ALL_TO_ALL || (v == MSC_EXCHANGE && s->options->no_alltoall)) continue;
    if (msc_verb_is((msc_verb)v, MSC_VERB_RELAYOUT) && try_verb(s, (msc_verb)v, from, to)) return true;
  }
  return false;
}

bool msc_reshard_split_plan(msc_context *ctx, msc_arena *arena, const msc_mesh *mesh,
                            const msc_reshard_options *options, const msc_type *type, const msc_layout *from,
                            const msc_layout *to, msc_reshard_plan *out_plan) {
  split_planner s = {ctx, arena, mesh, options, msc_type_with_layout(ctx, type, NULL), out_plan};
  const msc_layout *via[4] = {from, msc_reshard_finished(ctx, mesh, from, true),
                              msc_reshard_finished(ctx, mesh, from, false), to};
  memset(out_plan, 0, sizeof *out_plan);
  out_plan->lower_bound = -1;
  out_plan->peak_bytes = local_bytes(&s, from);
  out_plan->step = msc_new_array(arena, msc_reshard_step, 3);
  bool ok = from == to || plan_one_step(&s, from, to);
  for (int i = 1; i < 4 && !ok && !to->num_partial; i++) {
    if (via[i] != via[i - 1] && !plan_one_step(&s, via[i - 1], via[i])) return false;
    ok = i == 3;
  }
  if (ok && !from->num_partial && !to->num_partial) {
    out_plan->lower_bound = from == to ? 0 : worst_received(&s, from, to, &(int64_t){0});
    out_plan->proven = !options->time && out_plan->bytes == out_plan->lower_bound;
  }
  if (ok && options->peak && out_plan->peak_bytes > options->peak) {
    out_plan->needed_peak = out_plan->peak_bytes;
    return false;
  }
  return ok;
}
