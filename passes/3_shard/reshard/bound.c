/* bound.c: a state in; lower bounds on the cost of any path from it to the target out.  The tighter they are, the
 * faster the search: where sizes divide and nothing is partial the bound on bytes equals the bytes of an exchange, so
 * the search visits only states on best paths. */
#include <string.h>

#include "passes/3_shard/reshard/graph.h"

enum { MOST_SIZES = 16 }; /* that parts of a dimension have */

/* ---- what a device needs and does not hold ---- */

/* Returns the number of bytes of its part of `to` that every device already holds in s.  It is 0 if in some dimension
 * neither list of atoms begins with the other: then some device has the lowest digit in the first atom that differs in
 * s and the highest one in `to`, and its two parts do not overlap. */
static int64_t held_everywhere(const reshard_problem *p, const reshard_state *s, const reshard_state *to) {
  int64_t bytes = p->elem_bytes;
  for (int d = 0; d < p->rank; d++) {
    bool finer = msc_reshard_starts_with(s, to, d);
    if (!finer && !msc_reshard_starts_with(to, s, d)) return 0;
    bytes *= p->type->dim[d] / msc_reshard_parts(p, finer ? s : to, d);
  }
  return bytes;
}

/* Does the first device lack the most of its part of `to`? True if in every dimension all devices hold all that they
 * need, or equal shares of it. */
static bool first_lacks_most(const reshard_problem *p, const reshard_state *s, const reshard_state *to) {
  for (int d = 0; d < p->rank; d++) {
    bool same = s->num[d] == to->num[d] && msc_reshard_starts_with(s, to, d);
    if (s->num[d] && !same && (to->num[d] || !msc_reshard_is_even(p, s, d))) return false;
  }
  return true;
}

/* ---- sizes that do not divide ---- */

/* msc_reshard_worst_lacks, remembered. */
static int64_t worst_lacks(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int64_t terms,
                           bool own) {
  const msc_layout *from = msc_reshard_layout(p, s), *into = msc_reshard_layout(p, to);
  /* the result depends only on the digits of the layouts, not on other axes of the mesh */
  const void **known = msc_memo_of(p->ctx, from, msc_type_with_layout(p->ctx, p->type, into));
  if (!*known) *known = (const void *)(uintptr_t)(msc_reshard_worst_lacks(p, s, to, terms, own) + 1);
  return (int64_t)(uintptr_t)*known - 1;
}

/* The pairs of sizes that parts of a device have before and after a gather. `block`: the largest part of the dimension
 * that is being cut. */
typedef struct {
  int num;
  int64_t block;
  struct {
    int64_t from, to;
  } at[MOST_SIZES];
} part_sizes;

static bool add_sizes(part_sizes *s, int64_t from, int64_t to) {
  for (int i = 0; i < s->num; i++)
    if (s->at[i].from == from && s->at[i].to == to) return true;
  if (s->num == MOST_SIZES) return false;
  s->at[s->num].from = from, s->at[s->num++].to = to;
  return true;
}

/* Drops pairs of sizes that no maximum needs: another pair is as small before the gather and as large after it. */
static void drop_dominated(part_sizes *s) {
  int kept = 0;
  for (int i = 0; i < s->num; i++) {
    bool needed = true;
    for (int k = 0; k < s->num && needed; k++)
      needed = k == i || s->at[k].from > s->at[i].from || s->at[k].to < s->at[i].to;
    if (needed) s->at[kept++] = s->at[i];
  }
  s->num = kept;
}

/* Cuts all parts into `parts` each: the sizes become full blocks, a rest and empty parts. `both`: of the sizes after
 * the gather too, else only before it. */
static bool cut_sizes(part_sizes *s, int64_t parts, bool both) {
  part_sizes old = *s;
  int64_t block = s->block = old.block / parts + (old.block % parts != 0);
  s->num = 0;
  for (int i = 0; i < old.num; i++) {
    int64_t n = old.at[i].from, full = block ? n / block : 0, rest = block ? n % block : 0;
    int64_t size[3] = {block, rest, 0};
    bool there[3] = {full > 0, rest > 0 && full < parts, full + (rest > 0) < parts};
    for (int k = 0; k < 3; k++)
      if (there[k] && !add_sizes(s, size[k], both ? size[k] : old.at[i].to)) return false;
  }
  return true;
}

/* Cuts the sizes by the digits of dimension d from atom `first` to `end`. */
static bool cut_by_atoms(const reshard_problem *p, const reshard_state *s, int d, int first, int end, bool both,
                         part_sizes *sizes) {
  int64_t cut[MSC_MAX_SUBAXES];
  int num = msc_reshard_cuts(p, s, d, first, end, cut);
  for (int i = 0; i < num; i++) MSC_TRY(cut_sizes(sizes, cut[i], both));
  return true;
}

/* A gather takes digits off minor ends and keeps runs, so dimensions are independent and parts have few sizes: it goes
 * over the pairs of sizes, not over devices. */
bool msc_reshard_gathered(const reshard_problem *p, const reshard_state *s, const reshard_state *to,
                          int64_t *out_bytes) {
  part_sizes all = {.num = 1, .at = {{1, 1}}};
  for (int d = 0; d < p->rank; d++) {
    part_sizes own = {.num = 1, .block = p->type->dim[d], .at = {{p->type->dim[d], p->type->dim[d]}}}, before = all;
    if (msc_reshard_is_even(p, s, d)) {
      own.at[0].from /= msc_reshard_parts(p, s, d), own.at[0].to /= msc_reshard_parts(p, to, d);
    } else if (!cut_by_atoms(p, s, d, 0, to->num[d], true, &own) ||
               !cut_by_atoms(p, s, d, to->num[d], s->num[d], false, &own)) {
      return false;
    }
    drop_dominated(&own);
    all.num = 0;
    for (int i = 0; i < before.num; i++)
      for (int k = 0; k < own.num; k++)
        if (!add_sizes(&all, before.at[i].from * own.at[k].from, before.at[i].to * own.at[k].to)) return false;
  }
  int64_t worst = 0;
  for (int i = 0; i < all.num; i++)
    worst = all.at[i].to - all.at[i].from > worst ? all.at[i].to - all.at[i].from : worst;
  *out_bytes = worst * p->elem_bytes;
  return true;
}

bool msc_reshard_terms(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int64_t *out_terms) {
  uint32_t lost = s->partial & ~to->partial, gained = to->partial & ~s->partial;
  int64_t terms = msc_reshard_atoms_size(p, lost);
  *out_terms = gained ? 1 : terms; /* as many digits become partial as cease to be: terms move, none are added */
  return !gained || terms == msc_reshard_atoms_size(p, gained);
}

bool msc_reshard_direct(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int64_t *out_bytes) {
  bool gained = to->partial & ~s->partial; /* then some device has none of the terms that it needs */
  int64_t terms;
  MSC_TRY(msc_reshard_terms(p, s, to, &terms));
  if (p->uneven && !gained && first_lacks_most(p, s, to)) {
    *out_bytes = (terms - 1) * msc_reshard_local(p, to) + msc_reshard_first_lacks(p, s, to);
    return true;
  }
  if (p->uneven) {
    *out_bytes = worst_lacks(p, s, to, terms, !gained);
    return true;
  }
  __int128 bytes = (__int128)terms * msc_reshard_local(p, to) - (gained ? 0 : held_everywhere(p, s, to));
  *out_bytes = bytes < INT64_MAX / 4 ? (int64_t)bytes : INT64_MAX / 4;
  return true;
}

int64_t msc_reshard_lower_bound(const reshard_problem *p) {
  int64_t bytes;
  if (p->from.partial || p->to.partial) return -1;
  msc_reshard_direct(p, &p->from, &p->to, &bytes);
  return bytes;
}

/* ---- bytes that any path receives ---- */

/* How a state differs from the target. */
typedef struct {
  /* some dimension has an atom where the target has another, or partial atoms must move: atoms must be taken off */
  bool contrary;
  bool blocked; /* a dimension lacks an atom that cuts another dimension */
  bool one_off; /* the only atom to take off is the last one of a dimension and has size 2 */
  int off;      /* this atom */
  bool covers;  /* false: there are too few free atoms to cut every dimension into the target's parts */
} relation;

static int count_kind(const reshard_problem *p, int num, const uint8_t *atom, int64_t size) {
  int n = 0;
  for (int i = 0; i < num; i++) n += p->size[atom[i]] == size;
  return n;
}

/* Are there enough atoms of each size for the larger of both cuts in every dimension?  So many atoms of size 2 as
 * `slack` may be missing. */
static bool can_cover(const reshard_problem *p, const reshard_state *s, int slack) {
  for (int a = 0; a < p->num_atoms; a++) {
    int needed = 0, there = 0;
    if (!p->prime[a]) return true;
    for (int b = 0; b < p->num_atoms; b++)
      there += p->size[b] == p->size[a] && (p->options->free_partial || !(p->to.partial >> b & 1));
    for (int d = 0; d < p->rank; d++) {
      int x = count_kind(p, s->num[d], s->atom[d], p->size[a]),
          y = count_kind(p, p->to.num[d], p->to.atom[d], p->size[a]);
      needed += x > y ? x : y;
    }
    if (needed > there + (p->size[a] == 2 ? slack : 0)) return false;
  }
  return true;
}

static relation relation_of(const reshard_problem *p, const reshard_state *s) {
  relation r = {.covers = true};
  const reshard_state *to = &p->to;
  uint32_t cuts = msc_reshard_used(p, s) & ~s->partial;
  int contrary = 0;
  for (int d = 0; d < p->rank; d++) {
    int same = 0;
    while (same < s->num[d] && same < to->num[d] && s->atom[d][same] == to->atom[d][same]) same++;
    if (same < s->num[d] && same < to->num[d]) {
      contrary++;
      r.off = s->atom[d][same];
      r.one_off = same == s->num[d] - 1 && p->size[r.off] == 2;
    } else {
      for (int i = same; i < to->num[d]; i++) r.blocked |= cuts >> to->atom[d][i] & 1;
    }
  }
  r.contrary = contrary > 0;
  r.one_off = r.one_off && contrary == 1;
  if ((to->partial & ~s->partial) && !p->options->free_partial) r.contrary = true, r.one_off = false;
  if (r.contrary) r.covers = can_cover(p, s, r.one_off ? 2 : 0);
  return r;
}

/* The number of partial terms of each element that any path to the target adds up; 1: none, or other digits may become
 * partial instead. */
static int64_t lost_terms(const reshard_problem *p, uint32_t partial) {
  int64_t terms = msc_reshard_atoms_size(p, partial) / p->to_terms;
  bool gains = p->to.partial & ~partial;
  return terms < 1 || (gains && p->options->free_partial) ? 1 : terms;
}

/* A lower bound on the cost of any path that adds k terms to one and spreads the sum. Proof: every step costs at
 * least as much as it lowers this number. Let e be the bytes of the finest possible part; a state with k terms has
 * parts of at least k e bytes.
 *
 *   - A sum by m that is left in parts costs at least (1 - 1/m) k e, as much as k falls; the last one leaves at most
 *     L/k of the target.
 *   - A step that turns a contrary or a blocked state into another costs at least e.
 *
 * The bound is reached only by paths with as many steps as given: from a contrary state, a sum left in the
 * finest parts, a permute into parts of the target's parts, and a gather. */
static reshard_cost sum_bound(const reshard_problem *p, int64_t terms, const relation *r) {
  int64_t finest = p->to_local / p->to_copies, extra;
  if (__builtin_mul_overflow(finest, terms - 2, &extra) || extra > INT64_MAX / 4) extra = INT64_MAX / 4;
  int64_t bytes = p->to_local + extra + (r->contrary ? finest : r->blocked ? finest / 2 : 0);
  int gathers = p->to_local > finest;
  if (!r->contrary) return msc_reshard_cost_of(bytes, 0, 1 + (terms > 2 && gathers));
  if (!r->covers) return msc_reshard_cost_of(bytes, 1, 1);
  return msc_reshard_cost_of(bytes, 0, r->one_off ? 2 : 2 + gathers);
}

/* Is some dimension of the target cut into parts that those of s do not divide, so that one permute, or one all_to_all
 * of the atom that is off, is not enough? */
static bool exceeds(const reshard_problem *p, const reshard_state *s, const relation *r) {
  for (int d = 0; d < p->rank; d++) {
    int64_t parts = msc_reshard_parts(p, s, d);
    if (r->one_off && s->num[d] && s->atom[d][s->num[d] - 1] == r->off) parts /= 2;
    if (msc_reshard_parts(p, &p->to, d) % parts) return true;
  }
  return r->one_off && !((msc_reshard_used(p, &p->to) & ~p->to.partial) >> r->off & 1) && exceeds(p, s, &(relation){0});
}

/* A lower bound on bytes, exchanges and steps of any path from s to the target. */
static reshard_cost bytes_bound(const reshard_problem *p, const reshard_state *s) {
  relation r = relation_of(p, s);
  int64_t terms = lost_terms(p, s->partial);
  uint32_t lost = s->partial & ~p->to.partial;
  if (lost && terms > 1) return sum_bound(p, terms, &r);
  if (lost) return msc_reshard_cost_of(p->to_local, 0, 1);
  if (!r.contrary) return msc_reshard_cost_of(p->to_local - held_everywhere(p, s, &p->to), 0, 1);
  return msc_reshard_cost_of(p->to_local, !r.covers, r.covers && exceeds(p, s, &r) ? 2 : 1);
}

int64_t msc_reshard_least_bytes(const reshard_problem *p) {
  if (p->uneven) return msc_reshard_lower_bound(p);
  return msc_reshard_only_sliced(p, &p->from, &p->to) ? 0 : (int64_t)(bytes_bound(p, &p->from) >> RESHARD_MINOR_BITS);
}

static bool is_finished(const reshard_problem *p, uint32_t partial) {
  return partial == p->to.partial || (p->options->free_partial && !(partial & ~p->to.partial));
}

/* A lower bound on the bytes of any path from a state with these partial atoms. */
static int64_t partial_bytes(const reshard_problem *p, uint32_t partial) {
  relation none = {0};
  int64_t terms = lost_terms(p, partial);
  if (terms > 1) return (int64_t)(sum_bound(p, terms, &none) >> RESHARD_MINOR_BITS);
  return partial & ~p->to.partial ? p->to_local : 0;
}

/* ---- bytes that must cross slow links ---- */

/* The digits of a dimension's index that slow atoms determine: each has `weight` parts before it, and its atom's
 * size. */
typedef struct {
  int num;
  struct {
    int64_t weight;
    int atom;
  } at[2 * RESHARD_ATOMS];
} fixed_digits;

static void add_fixed(const reshard_problem *p, const reshard_state *s, int d, uint32_t slow, fixed_digits *f) {
  int64_t weight = 1;
  for (int i = 0; i < s->num[d]; weight *= p->size[s->atom[d][i++]])
    if (slow >> s->atom[d][i] & 1) f->at[f->num].weight = weight, f->at[f->num++].atom = s->atom[d][i];
}

/* The size of dimension d divided by the size of the part that two unions of devices have in common; 0: some have
 * nothing in common. A node is a set of devices that differ in fast atoms only; its union is all that its devices hold
 * in s, or want in the target. */
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
        if (f.at[i].atom != f.at[j].atom) return 0; /* nodes whose two digits differ have nothing in common */
        shared = true;
      } else if (!(other % end == 0 || begin % other_end == 0)) {
        shared = true; /* the digits overlap in part: the bound does not count them */
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
  double fixed_ns = p->options->launch_ns + alpha_ns;
  if (p->options->shared_by) fixed_ns /= (double)p->options->shared_by;
  return msc_reshard_below_ns(p->options, fixed_ns + ns);
}

int64_t msc_reshard_least_cost(const reshard_problem *p, int64_t bytes) {
  if (!p->options->time) return bytes;
  return least_ns(p, p->fastest_alpha, p->fastest > 0 ? (double)bytes / p->fastest : 0);
}

/* The bound for uneven parts: the bytes that the first device lacks, or its whole part of the target if sums are
 * unfinished. */
static int64_t uneven_bytes(const reshard_problem *p, uint32_t partial, const int64_t *part, const int64_t *to_part) {
  uint32_t lost = partial & ~p->to.partial, gained = p->to.partial & ~partial;
  if (gained) return 0;
  return lost ? p->to_local : msc_reshard_lacks_of(p, part, to_part);
}

int64_t msc_reshard_uneven_ahead(const reshard_problem *p, uint32_t partial, const int64_t *part,
                                 const int64_t *to_part) {
  return msc_reshard_least_cost(p, uneven_bytes(p, partial, part, to_part));
}

static reshard_cost uneven_bound(const reshard_problem *p, const reshard_state *s) {
  int64_t part[MSC_MAX_RANK], to_part[MSC_MAX_RANK];
  msc_reshard_largest_parts(p, s, part);
  msc_reshard_largest_parts(p, &p->to, to_part);
  return msc_reshard_cost_of(uneven_bytes(p, s->partial, part, to_part), 0, 1);
}

reshard_cost msc_reshard_estimate(const reshard_problem *p, const reshard_state *s) {
  reshard_cost bound = p->uneven ? uneven_bound(p, s) : bytes_bound(p, s);
  if (!p->options->time) return bound;
  int64_t bytes = (int64_t)(bound >> RESHARD_MINOR_BITS), best = msc_reshard_least_cost(p, bytes);
  for (int i = 0; i < p->num_links; i++) {
    const reshard_links *l = &p->links[i];
    double slow = slow_bytes(p, s, l);
    if (slow <= 0) continue;
    int64_t ns =
        least_ns(p, l->alpha_ns, slow / l->rate + ((double)bytes > slow ? ((double)bytes - slow) / p->fastest : 0));
    if (ns > best) best = ns;
  }
  return msc_reshard_cost_of(best, 0, 1);
}

reshard_hope msc_reshard_hope(const reshard_problem *p, uint32_t partial, int64_t budget) {
  if (p->uneven) return HOPE_ANY;
  if (!is_finished(p, partial))
    return msc_reshard_least_cost(p, partial_bytes(p, partial)) <= budget ? HOPE_ANY : HOPE_NONE;
  return msc_reshard_least_cost(p, p->to_local) <= budget ? HOPE_ANY : HOPE_NESTED;
}
