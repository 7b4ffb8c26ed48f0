/* reshard_bound.c: a state in; what any way from it to the target must cost out.  The search is only as fast as these bounds
 * are tight: where sizes divide and nothing is partial the byte bound is what a direct exchange pays, so the search keeps to
 * the states that lie on a best path. */
#include <string.h>

#include "passes/3_shard/reshard_graph.h"

static bool starts_with(const reshard_state *longer, const reshard_state *shorter, int d) {
  return shorter->num[d] <= longer->num[d] && memcmp(longer->atom[d], shorter->atom[d], shorter->num[d]) == 0;
}

/* ---- what a device needs and does not hold ---- */

/* Bytes of its part of `to` that every device holds at least.  Where neither list of a dimension continues the other,
 * some device holds nothing: its first differing digit can be the lowest here and the highest there. */
static int64_t held_everywhere(const reshard_problem *p, const reshard_state *s, const reshard_state *to) {
  int64_t bytes = p->elem_bytes;
  for (int d = 0; d < p->rank; d++) {
    bool finer = starts_with(s, to, d);
    if (!finer && !starts_with(to, s, d)) return 0;
    bytes *= p->type->dim[d] / msc_reshard_parts(p, finer ? s : to, d);
  }
  return bytes;
}

/* From the boxes of all devices, for sizes that do not divide. */
static int64_t lacking_by_boxes(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int64_t terms, bool own) {
  msc_box_mesh mesh = msc_mesh_sizes(p->mesh);
  msc_box_layout cuts = msc_layout_cuts(msc_reshard_layout(p, s)), to_cuts = msc_layout_cuts(msc_reshard_layout(p, to));
  int64_t worst = 0;
  for (int64_t r = 0; r < msc_box_mesh_size(&mesh); r++) {
    msc_box a, b, both;
    msc_box_of(&mesh, &cuts, p->type->dim, r, &a);
    msc_box_of(&mesh, &to_cuts, p->type->dim, r, &b);
    int64_t elems = terms * msc_box_elems(p->rank, &b);
    if (own && msc_box_intersect(p->rank, &a, &b, &both)) elems -= msc_box_elems(p->rank, &both);
    if (elems > worst) worst = elems;
  }
  return worst * p->elem_bytes;
}

bool msc_reshard_direct(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int64_t *out_bytes, int64_t *out_terms) {
  uint32_t lost = s->partial & ~to->partial, gained = to->partial & ~s->partial;
  int64_t terms = msc_reshard_atoms_size(p, lost);
  if (gained && terms != msc_reshard_atoms_size(p, gained)) return false;
  if (gained) terms = 1; /* they only move, and some device has none of those it needs */
  *out_terms = terms;
  if (p->uneven) {
    *out_bytes = lacking_by_boxes(p, s, to, terms, !gained);
    return true;
  }
  __int128 bytes = (__int128)terms * msc_reshard_local(p, to) - (gained ? 0 : held_everywhere(p, s, to));
  *out_bytes = bytes < INT64_MAX / 4 ? (int64_t)bytes : INT64_MAX / 4;
  return true;
}

int64_t msc_reshard_lower_bound(const reshard_problem *p) {
  int64_t bytes, terms;
  if (p->from.partial || p->to.partial) return -1;
  msc_reshard_direct(p, &p->from, &p->to, &bytes, &terms);
  return bytes;
}

/* ---- bytes that any path receives ---- */

/* A value whose terms must be added or moved: every element arrives at least once.  And to bring k terms together takes
 * k-1 messages, to spread the sum to the m-1 other copies m-1 more: no device receives less than the average. */
static int64_t sum_bytes(int64_t local, int64_t terms, int64_t copies) {
  int64_t average = (int64_t)(((__int128)local * (terms + copies - 2) + copies - 1) / copies);
  return average > local ? average : local;
}

static bool is_finished(const reshard_problem *p, uint32_t partial) { return partial == p->to.partial; }

/* Terms can be made for nothing, so their number says nothing. */
static bool is_free(const reshard_problem *p, uint32_t partial) { return p->options->free_partial && (p->to.partial & ~partial); }

static int64_t partial_bytes(const reshard_problem *p, uint32_t partial) {
  int64_t terms = msc_reshard_atoms_size(p, partial) / p->to_terms;
  if (is_free(p, partial)) return 0;
  return sum_bytes(p->to_local, terms > 1 ? terms : 2, p->to_copies);
}

static int64_t bytes_from(const reshard_problem *p, const reshard_state *s) {
  if (!is_finished(p, s->partial)) return partial_bytes(p, s->partial);
  return p->to_local - held_everywhere(p, s, &p->to);
}

/* ---- bytes that must cross slow links ---- */

/* Positions in a dimension's index that slow atoms fix: `weight` parts before it, `size` of them. */
typedef struct {
  int num;
  struct { int64_t weight; int atom; } at[2 * RESHARD_ATOMS];
} fixed_digits;

static void add_fixed(const reshard_problem *p, const reshard_state *s, int d, uint32_t slow, fixed_digits *f) {
  int64_t weight = 1;
  for (int i = 0; i < s->num[d]; weight *= p->size[s->atom[d][i++]])
    if (slow >> s->atom[d][i] & 1) f->at[f->num].weight = weight, f->at[f->num++].atom = s->atom[d][i];
}

/* How many times smaller than the dimension what two nodes' unions have in common is; 0: some node has nothing in common.
 * A node is a set of devices that only differ in fast atoms, so its union is everything that the slow atoms leave. */
static double common_divisor(const reshard_problem *p, const reshard_state *s, int d, uint32_t slow, double *out_own) {
  fixed_digits f;
  f.num = 0;
  add_fixed(p, &p->to, d, slow, &f);
  int of_target = f.num;
  double both = 1;
  *out_own = 1;
  for (int i = 0; i < of_target; i++) both *= (double)p->size[f.at[i].atom];
  *out_own = both;
  add_fixed(p, s, d, slow, &f);
  for (int i = of_target; i < f.num; i++) {
    int64_t begin = f.at[i].weight, end = begin * p->size[f.at[i].atom];
    bool shared = false;
    for (int j = 0; j < of_target; j++) {
      int64_t other = f.at[j].weight, other_end = other * p->size[f.at[j].atom];
      if (begin == other && end == other_end) {
        if (f.at[i].atom != f.at[j].atom) return 0; /* a node with different digits */
        shared = true;
      } else if (!(other % end == 0 || begin % other_end == 0)) {
        shared = true; /* they overlap in part: count nothing */
      }
    }
    if (!shared) both *= (double)p->size[f.at[i].atom];
  }
  return both;
}

/* Bytes the average device of some node receives from other nodes. */
static double slow_bytes(const reshard_problem *p, const reshard_state *s, const reshard_links *l) {
  double needed = (double)p->total_bytes, common = needed, own;
  uint32_t lost = s->partial & ~p->to.partial & l->slow;
  if ((p->to.partial & ~s->partial) || p->uneven) return 0;
  for (int d = 0; d < p->rank; d++) {
    double both = common_divisor(p, s, d, l->slow, &own);
    needed /= own;
    common = both > 0 ? common / both : 0;
  }
  if (!lost) return (needed - common) / (double)l->devices;
  double terms = (double)msc_reshard_atoms_size(p, lost), copies = (double)l->to_copies;
  double average = needed * (terms + copies - 2) / copies;
  return (average > needed ? average : needed) / (double)l->devices;
}

/* ---- estimates ---- */

static int64_t least_ns(const reshard_problem *p, double alpha_ns, double ns) {
  return (int64_t)((p->options->launch_ns + alpha_ns + ns) * (1 - 1e-9)); /* below what rounding of the costs may give */
}

static int64_t least_cost(const reshard_problem *p, int64_t bytes) {
  if (!p->options->time) return bytes;
  return least_ns(p, p->fastest_alpha, p->fastest > 0 ? (double)bytes / p->fastest : 0);
}

int64_t msc_reshard_estimate(const reshard_problem *p, const reshard_state *s) {
  int64_t bytes = p->uneven ? 0 : bytes_from(p, s), best = least_cost(p, bytes);
  for (int i = 0; i < p->num_links && p->options->time; i++) {
    const reshard_links *l = &p->links[i];
    double slow = slow_bytes(p, s, l);
    if (slow <= 0) continue;
    int64_t ns = least_ns(p, l->alpha_ns, slow / l->rate + ((double)bytes > slow ? ((double)bytes - slow) / p->fastest : 0));
    if (ns > best) best = ns;
  }
  return best;
}

reshard_hope msc_reshard_hope(const reshard_problem *p, uint32_t partial, int64_t budget) {
  if (p->uneven || is_free(p, partial)) return HOPE_ANY;
  if (!is_finished(p, partial)) return least_cost(p, partial_bytes(p, partial)) <= budget ? HOPE_ANY : HOPE_NONE;
  return least_cost(p, p->to_local) <= budget ? HOPE_ANY : HOPE_NESTED;
}
