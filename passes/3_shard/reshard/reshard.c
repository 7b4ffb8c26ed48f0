/* reshard.c: a type and two layouts in; the plan, or its stored cost, out. */
#include "passes/3_shard/reshard/reshard.h"

#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/reshard/graph.h"

/* A stored cost; the members above it are its key. */
typedef struct {
  const msc_type *type; /* without layout; one type stands for its multiples, see representative */
  const msc_layout *from, *to;
  int64_t cost;
} stored_cost;

struct msc_reshard {
  msc_context *ctx;
  msc_arena *arena;
  msc_mesh mesh;
  msc_reshard_options options;
  struct shard_rows *rows;
  reshard_uneven_costs *uneven;
  MSC_TABLE(stored_cost) memos;
};

msc_reshard *msc_reshard_new(msc_context *ctx, const msc_mesh *mesh, const msc_reshard_options *options) {
  msc_reshard *r = msc_new(msc_lasting_arena(ctx), msc_reshard);
  r->ctx = ctx;
  r->arena = r->memos.index.arena = msc_lasting_arena(ctx);
  r->mesh = *mesh;
  if (options) r->options = *options;
  r->uneven = msc_reshard_uneven_costs_new(r->arena);
  return r;
}

/* ---- the plan ---- */

static void add_step(msc_reshard_plan *plan, const reshard_problem *p, const reshard_state *before,
                     const reshard_state *after, reshard_edge edge) {
  msc_reshard_step *s = &plan->step[plan->num_steps++];
  *s = (msc_reshard_step){edge.verb, msc_reshard_layout(p, after), edge.bytes, edge.ns,
                          msc_reshard_peak(p, edge.verb, before, after)};
  plan->bytes += edge.bytes;
  plan->ns += edge.ns;
  if (plan->num_steps == 1 || s->peak_bytes > plan->peak_bytes) plan->peak_bytes = s->peak_bytes;
}

static void write_path(msc_reshard *r, const reshard_problem *p, const reshard_path *path, msc_reshard_plan *plan) {
  plan->step = msc_new_array(r->arena, msc_reshard_step, path->num);
  for (int i = 0; i < path->num; i++)
    add_step(plan, p, i ? &path->state[i - 1] : &p->from, &path->state[i], path->edge[i]);
  plan->lower_bound = msc_reshard_lower_bound(p);
}

/* Makes the plan that always exists: finish every sum, gather everything, slice. It serves layouts without common
 * atoms, or with too many, or between which the search finds no path; the two layouts of each step do have common
 * atoms. False: it exceeds the peak limit. */
static bool plan_through_whole(msc_reshard *r, const msc_type *type, const msc_layout *from, const msc_layout *to,
                               msc_reshard_plan *out_plan) {
  const msc_layout *via[4] = {from, msc_reshard_finished(r->ctx, &r->mesh, from, true),
                              msc_reshard_finished(r->ctx, &r->mesh, from, false), to};
  memset(out_plan, 0, sizeof *out_plan);
  out_plan->lower_bound = -1;
  out_plan->step = msc_new_array(r->arena, msc_reshard_step, 3);
  for (int i = 1; i < 4; i++) {
    reshard_problem p;
    if (via[i] == via[i - 1]) continue;
    if (!msc_reshard_problem_of(r->ctx, &r->mesh, &r->options, type, via[i - 1], via[i], &p)) return false;
    msc_verb verb = i == 1 ? MSC_ALL_REDUCE : i == 2 ? MSC_ALL_GATHER : MSC_SHARD;
    reshard_edge edge = {.verb = verb};
    if (verb != MSC_SHARD) msc_reshard_price(&p, verb, &p.from, &p.to, &edge);
    add_step(out_plan, &p, &p.from, &p.to, edge);
  }
  return !r->options.peak || out_plan->peak_bytes <= r->options.peak;
}

/* Would the change make values partial, which the options do not allow? */
static bool gains_partial(const msc_reshard *r, const reshard_problem *p) {
  int64_t from = msc_reshard_atoms_size(p, p->from.partial), to = msc_reshard_atoms_size(p, p->to.partial);
  return !r->options.free_partial && from % to != 0;
}

static bool search_for_plan(msc_reshard *r, const reshard_problem *p, msc_arena *scratch, bool cost_only,
                            msc_reshard_plan *out_plan) {
  reshard_path path;
  bool complete;
  memset(out_plan, 0, sizeof *out_plan);
  if (gains_partial(r, p)) return false;
  if (cost_only && msc_reshard_uneven_ns(r->uneven, p, &out_plan->ns)) return out_plan->ns >= 0;
  int64_t local = msc_reshard_local(p, &p->from);
  bool fits = !r->options.peak || local <= r->options.peak;
  if (!fits || !msc_reshard_search(p, scratch, cost_only, &path, &complete)) {
    if (r->options.peak) out_plan->needed_peak = msc_reshard_least_peak(p, scratch);
    return false;
  }
  if (cost_only) {
    for (int i = 0; i < path.num; i++) out_plan->bytes += path.edge[i].bytes, out_plan->ns += path.edge[i].ns;
    return true;
  }
  write_path(r, p, &path, out_plan);
  if (!path.num) out_plan->peak_bytes = local;
  out_plan->proven =
      (complete && !p->coarse && !p->uneven) || (!r->options.time && out_plan->bytes == msc_reshard_least_bytes(p));
  return true;
}

static bool make_plan(msc_reshard *r, const msc_type *type, const msc_layout *from, const msc_layout *to,
                      bool cost_only, msc_reshard_plan *out_plan) {
  reshard_problem p;
  if (msc_layout_has_split(from) || msc_layout_has_split(to))
    return msc_reshard_split_plan(r->ctx, r->arena, &r->mesh, &r->options, type, from, to, out_plan);
  if (!msc_reshard_problem_of(r->ctx, &r->mesh, &r->options, type, from, to, &p))
    return plan_through_whole(r, type, from, to, out_plan);
  p.rows = &r->rows, p.rows_arena = r->arena;
  msc_arena *scratch = msc_arena_new(r->ctx);
  bool ok = search_for_plan(r, &p, scratch, cost_only, out_plan);
  msc_arena_free(scratch);
  if (ok || r->options.peak || gains_partial(r, &p)) return ok;
  return plan_through_whole(r, type, from, to, out_plan);
}

bool msc_reshard_plan_of(msc_reshard *r, const msc_type *type, const msc_layout *from, const msc_layout *to,
                         msc_reshard_plan *out_plan) {
  return make_plan(r, type, from, to, false, out_plan);
}

/* ---- stored costs ---- */

typedef struct {
  const msc_type *type;
  const msc_layout *from, *to;
} cost_key;

/* The type under which costs of `type` are stored, a smaller one where costs are proportional: they are *out_scale
 * times the stored ones. Bytes are proportional to the tensor if every part of both layouts divides, and how a mesh of
 * n devices can cut a dimension depends on gcd(size, n) alone. A small tensor, whose size n * n does not divide, has
 * only itself. */
static const msc_type *representative(const msc_reshard *r, const msc_type *type, const msc_layout *from,
                                      const msc_layout *to, int64_t *out_scale) {
  int64_t devices = msc_mesh_size(&r->mesh), dim[MSC_MAX_RANK], elems = 1, scale = 1;
  *out_scale = 1;
  if (!msc_layout_fits(from, type) || !msc_layout_fits(to, type)) return msc_type_with_layout(r->ctx, type, NULL);
  if (r->options.time || r->options.peak || devices > 4096) return msc_type_with_layout(r->ctx, type, NULL);
  for (int d = 0; d < type->rank; d++) {
    int64_t want = msc_gcd(type->dim[d], devices * devices);
    dim[d] = want;
    elems *= want;
    if (want == 0 || __builtin_mul_overflow(scale, type->dim[d] / want, &scale))
      return msc_type_with_layout(r->ctx, type, NULL);
  }
  if (elems % (devices * devices)) return msc_type_with_layout(r->ctx, type, NULL);
  *out_scale = scale;
  return msc_type_of(r->ctx, type->dtype, type->rank, dim, NULL);
}

/* ---- renamed digits ---- */

/* New names of the atoms of two layouts: those of one size are numbered in order of appearance, since bytes do not
 * depend on which of several digits of one size is used where. So more pairs of layouts share a stored cost. */
typedef struct {
  msc_atoms atoms;
  int8_t name[MSC_MAX_SUBAXES]; /* by atom: the atom that stands for it; -1: none yet */
  uint32_t taken;               /* bits of atoms that stand for another */
} digit_names;

static void name_atom(digit_names *n, int atom) {
  for (int k = 0; n->name[atom] < 0 && k < n->atoms.num; k++)
    if (!(n->taken >> k & 1) && n->atoms.atom[k].size == n->atoms.atom[atom].size) {
      n->name[atom] = (int8_t)k;
      n->taken |= 1u << k;
    }
}

/* The next atom of digit s of a layout, major first, from position *pre on; -1 at its end. */
static int next_atom(const msc_atoms *atoms, msc_subaxis s, uint32_t *pre) {
  if (*pre >= s.pre * s.size) return -1;
  for (int a = 0; a < atoms->num; a++)
    if (atoms->atom[a].axis == s.axis && atoms->atom[a].pre == *pre) {
      *pre *= atoms->atom[a].size;
      return a;
    }
  return -1;
}

static void name_digits(digit_names *n, const msc_layout *l, int begin, int end) {
  for (int i = begin; i < end; i++) {
    uint32_t pre = l->sub[i].pre;
    for (int a; (a = next_atom(&n->atoms, l->sub[i], &pre)) >= 0;) name_atom(n, a);
  }
}

static const msc_layout *rename_layout(const msc_reshard *r, const digit_names *n, const msc_layout *l) {
  msc_layout raw;
  memset(&raw, 0, sizeof raw);
  raw.rank = l->rank;
  raw.reduction = l->reduction;
  int num = 0;
  for (int d = 0; d <= l->rank; d++) {
    int end = d < l->rank ? l->first[d + 1] : l->first[d] + l->num_partial, before = num;
    for (int i = l->first[d]; i < end; i++) {
      uint32_t pre = l->sub[i].pre;
      for (int a; (a = next_atom(&n->atoms, l->sub[i], &pre)) >= 0 && num < MSC_MAX_SUBAXES;)
        raw.sub[num++] = n->atoms.atom[n->name[a]];
    }
    if (d < l->rank) raw.first[d + 1] = (uint8_t)num;
    else raw.num_partial = (uint8_t)(num - before);
  }
  return msc_layout_of(r->ctx, &r->mesh, &raw);
}

static void rename_digits(const msc_reshard *r, const msc_type *type, const msc_layout **from, const msc_layout **to) {
  digit_names n = {.taken = 0};
  const msc_layout *both[2] = {*from, *to};
  if (r->options.time || !msc_layout_fits(*from, type) || !msc_layout_fits(*to, type) ||
      !msc_atoms_of(&r->mesh, 2, both, &n.atoms))
    return;
  if (n.atoms.num > msc_reshard_max_atoms(&r->options))
    return; /* the planner joins some, and which depends on the axes */
  memset(n.name, -1, sizeof n.name);
  for (int k = 0; k < 2; k++) name_digits(&n, both[k], 0, both[k]->first[both[k]->rank]);
  for (int k = 0; k < 2; k++)
    name_digits(&n, both[k], both[k]->first[both[k]->rank], both[k]->first[both[k]->rank] + both[k]->num_partial);
  *from = rename_layout(r, &n, both[0]);
  *to = rename_layout(r, &n, both[1]);
}

/* The cost of a change of layout whose digits were renamed, stored or computed. */
static int64_t renamed_cost(msc_reshard *r, cost_key q) {
  const stored_cost *known = msc_table_find(&r->memos, &q);
  if (known) return known->cost;
  msc_reshard_plan plan;
  int64_t cost = -1;
  if (make_plan(r, q.type, q.from, q.to, true, &plan)) cost = r->options.time ? plan.ns : plan.bytes;
  return msc_table_at(&r->memos, &q)->cost = cost;
}

int64_t msc_reshard_cost(msc_reshard *r, const msc_type *type, const msc_layout *from, const msc_layout *to) {
  if (from == to) return 0;
  int64_t scale, cost = 0;
  cost_key q = {representative(r, type, from, to, &scale), from, to}, other = q;
  const stored_cost *known = msc_table_find(&r->memos, &q);
  if (known) return known->cost < 0 ? -1 : known->cost * scale;
  rename_digits(r, type, &other.from, &other.to);
  if (other.from != other.to) cost = renamed_cost(r, other);
  msc_table_at(&r->memos, &q)->cost = cost;
  return cost < 0 ? -1 : cost * scale;
}
