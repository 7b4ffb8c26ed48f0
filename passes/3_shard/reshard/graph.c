/* graph.c: a state in; the states one collective away, and the bytes that each costs, out.  L: bytes of a device's part
 * before the step; k: devices of a group.
 *
 *   slice           append free atoms at the minor end of any dimension      0
 *   all_gather      remove minor suffixes of any dimensions                  (k-1) L
 *   all_to_all      suffixes of some dimensions join other dimensions        (k-1)/k L
 *   reduce_scatter  partial atoms join minor ends                            (k-1)/k L
 *   all_reduce      partial atoms become free                                2 (k-1)/k L
 *   permute         same parts per dimension, same number of partial terms   L
 *   exchange        into the target, point to point                          what the worst device lacks
 */
#include <string.h>

#include "passes/3_shard/reshard/graph.h"
#include "passes/time_model.h"

static const int64_t MOST_NS = (int64_t)1e17; /* some years: sums of several do not overflow */

/* ---- edges ---- */

static bool same_dim(const reshard_state *a, const reshard_state *b, int d) {
  return a->num[d] == b->num[d] && msc_reshard_starts_with(a, b, d);
}

bool msc_reshard_allows_cut(const reshard_problem *p, const reshard_state *s, int d) {
  return msc_reshard_is_even(p, s, d) || p->any_cut ||
         (p->uneven && (msc_reshard_starts_with(&p->from, s, d) || msc_reshard_starts_with(&p->to, s, d)));
}

/* By atom: the dimension that it cuts, and into how many parts the atoms before it cut that dimension. */
typedef struct {
  int8_t dim[RESHARD_ATOMS];
  int64_t before[RESHARD_ATOMS];
} places;

static places find_atom_places(const reshard_problem *p, const reshard_state *s) {
  places at;
  memset(at.dim, -1, sizeof at.dim);
  for (int d = 0; d < p->rank; d++) {
    int64_t before = 1;
    for (int i = 0; i < s->num[d]; before *= p->size[s->atom[d][i++]])
      at.dim[s->atom[d][i]] = (int8_t)d, at.before[s->atom[d][i]] = before;
  }
  return at;
}

typedef struct {
  const reshard_problem *p;
  const reshard_state *from;
  reshard_state s;             /* the neighbour being made */
  int64_t parts[MSC_MAX_RANK]; /* by dimension: the number of parts that s cuts it into */
  int64_t local, budget;
  uint32_t gains; /* dimensions that may get atoms */
  reshard_edge edge;
  bool nested;                   /* only states that do not contradict the target can be on a path within the budget */
  uint32_t movable;              /* by permutes */
  uint32_t twins[RESHARD_ATOMS]; /* lower atoms of the same class that `from` does not tell apart either */
  places places;                 /* of the atoms in `from` */
  reshard_emit *emit;
  void *user;
} expansion;

static double slowest_alpha(const reshard_problem *p, uint32_t atoms) {
  double alpha = 0;
  for (uint32_t m = atoms; m; m &= m - 1)
    if (p->alpha_ns[__builtin_ctz(m)] > alpha) alpha = p->alpha_ns[__builtin_ctz(m)];
  return alpha;
}

int64_t msc_reshard_step_ns(const msc_reshard_options *o, double alpha_ns, double bytes_per_ns,
                            const msc_cost_transfer *t) {
  const msc_cost_link link = {o->measured, o->launch_ns, alpha_ns, bytes_per_ns};
  int64_t ns = msc_cost_over(&link, t, o->shared_by ? o->shared_by : 1);
  return ns < MOST_NS ? ns : MOST_NS;
}

/* The share of one value in the launch and latencies of a step that `shared_by` values take together. */
static double own_ns(const msc_reshard_options *o, msc_verb verb, double fixed_ns) {
  return o->shared_by && msc_verb_fuses(verb) ? fixed_ns / (double)o->shared_by : fixed_ns;
}

double msc_reshard_fixed_ns(const reshard_problem *p, msc_verb verb, uint32_t atoms, int64_t k) {
  double alpha = slowest_alpha(p, atoms);
  return own_ns(p->options, verb, p->options->launch_ns + (double)msc_verb_rounds(verb, k, k - 1) * alpha);
}

int64_t msc_reshard_ns(const reshard_problem *p, msc_verb verb, uint32_t atoms, int64_t k, int64_t bytes) {
  double rate = 0;
  int level = 0;
  for (uint32_t m = atoms; m; m &= m - 1) {
    double own = p->bytes_per_ns[__builtin_ctz(m)];
    if (p->level[__builtin_ctz(m)] > level) level = p->level[__builtin_ctz(m)];
    if (own > 0 && (rate == 0 || own < rate)) rate = own;
  }
  /* each rank of a permute sends to one other, however many digits move */
  int64_t ranks = verb == MSC_PERMUTE && p->options->measured ? msc_mesh_size(p->mesh) : k;
  const msc_cost_transfer t = {.verb = verb, .level = level, .ranks = ranks, .bytes = bytes, .peers = k - 1};
  return msc_reshard_step_ns(p->options, slowest_alpha(p, atoms), rate, &t);
}

/* Sets the cost of an edge over a group; false when it is over the budget. */
static bool price_edge(expansion *x, msc_verb verb, uint32_t atoms, int64_t k, int64_t bytes) {
  x->edge = (reshard_edge){verb, bytes, 0, atoms};
  if (x->p->options->time) x->edge.ns = msc_reshard_ns(x->p, verb, atoms, k, bytes);
  return (x->p->options->time ? x->edge.ns : bytes) <= x->budget;
}

void msc_reshard_price(const reshard_problem *p, msc_verb verb, const reshard_state *from, const reshard_state *to,
                       reshard_edge *out_edge) {
  expansion x = {.p = p, .budget = INT64_MAX};
  uint32_t atoms = msc_reshard_used(p, from) & ~msc_reshard_used(p, to);
  int64_t k = msc_reshard_atoms_size(p, atoms), local = msc_reshard_local(p, from);
  price_edge(&x, verb, atoms, k, msc_reshard_received(verb, k, local));
  *out_edge = x.edge;
}

int64_t msc_reshard_peak(const reshard_problem *p, msc_verb verb, const reshard_state *from, const reshard_state *to) {
  int64_t in = msc_reshard_local(p, from);
  return verb == MSC_SHARD ? in : in + msc_reshard_local(p, to);
}

static bool peak_allows(const expansion *x, int64_t out) {
  return !x->p->options->peak || x->local + out <= x->p->options->peak;
}

/* Does the change from a to b leave runs whole? Where a dimension does not divide, the parts of neighbouring digits of
 * one axis do not nest, so such digits are added or removed together. */
static bool keeps_runs(const reshard_problem *p, const reshard_state *a, const reshard_state *b) {
  for (int d = 0; d < p->rank; d++) {
    const reshard_state *longer = a->num[d] > b->num[d] ? a : b;
    int n = a->num[d] > b->num[d] ? b->num[d] : a->num[d];
    if (a->num[d] == b->num[d] || n == 0 || msc_reshard_is_even(p, longer, d)) continue;
    int before = longer->atom[d][n - 1], after = longer->atom[d][n];
    if (p->digit[before][p->num_digits[before] - 1].axis == p->digit[after][0].axis) return false;
  }
  return true;
}

static bool is_nested(const reshard_problem *p, const reshard_state *s, int d) {
  return msc_reshard_starts_with(s, &p->to, d) || msc_reshard_starts_with(&p->to, s, d);
}

/* Can an edge that appends atoms to x->s lead to a state on a path within the budget? */
static bool is_hopeful(expansion *x) {
  const reshard_problem *p = x->p;
  reshard_hope hope = msc_reshard_hope(p, x->s.partial, x->budget - (p->options->time ? x->edge.ns : x->edge.bytes));
  x->nested = hope == HOPE_NESTED;
  for (int d = 0; d < p->rank && x->nested; d++)
    if (!is_nested(p, &x->s, d)) return false;
  return hope != HOPE_NONE;
}

static void emit(expansion *x) {
  bool joins =
      msc_verb_row_of(x->edge.verb)->operand != MSC_AT_ANY; /* it is no exchange, which can do everything */
  if (x->p->uneven && joins && !keeps_runs(x->p, x->from, &x->s)) return;
  if (x->p->options->peak && x->p->uneven && !peak_allows(x, msc_reshard_local(x->p, &x->s))) return;
  x->emit(x->user, &x->s, &x->edge);
}

static void append_atom(expansion *x, int d, int atom) {
  x->s.atom[d][x->s.num[d]++] = (uint8_t)atom;
  x->parts[d] *= x->p->size[atom];
}

static void drop_atom(expansion *x, int d) { x->parts[d] /= x->p->size[x->s.atom[d][--x->s.num[d]]]; }

static bool is_append_allowed(const expansion *x, int d) {
  int last = x->s.num[d] - 1;
  if (x->nested && last < x->p->to.num[d] && x->s.atom[d][last] != x->p->to.atom[d][last]) return false;
  if (x->p->type->dim[d] % x->parts[d] == 0) return true;
  return x->edge.verb != MSC_ALL_TO_ALL && msc_reshard_allows_cut(x->p, &x->s, d);
}

static void emit_exchanged(expansion *x);

static void emit_arranged(expansion *x) {
  if (x->edge.verb == MSC_EXCHANGE) {
    emit_exchanged(x);
    x->edge.verb = MSC_EXCHANGE;
    return;
  }
  if (x->edge.verb == MSC_REDUCE_SCATTER && x->p->uneven) { /* padded to the largest part */
    uint32_t atoms = x->from->partial & ~x->s.partial;
    int64_t k = msc_reshard_atoms_size(x->p, atoms);
    if (!price_edge(x, MSC_REDUCE_SCATTER, atoms, k, (k - 1) * msc_reshard_local(x->p, &x->s))) return;
  }
  emit(x);
}

/* Appends the atoms to the minor ends of the dimensions x->gains, from first_dim on, in every way, and emits each.
 * Dimensions are filled one after the other, so that each result occurs once. */
static void append_in_every_order(expansion *x, uint32_t atoms, int first_dim) {
  if (!atoms) {
    emit_arranged(x);
    return;
  }
  for (int d = first_dim; d < x->p->rank; d++) {
    if (!(x->gains >> d & 1)) continue;
    for (uint32_t m = atoms; m; m &= m - 1) {
      int a = __builtin_ctz(m);
      if (x->twins[a] & atoms) continue;
      append_atom(x, d, a);
      if (is_append_allowed(x, d)) append_in_every_order(x, atoms & ~(1u << a), d);
      drop_atom(x, d);
    }
  }
}

/* Bytes that a gather over k ranks receives. Parts at the end of an uneven dimension are smaller or empty, and padding
 * is not sent. */
static int64_t gathered_bytes(const expansion *x, int64_t k) {
  int64_t padded = msc_reshard_received(MSC_ALL_GATHER, k, x->local), bytes;
  if (!x->p->uneven || !keeps_runs(x->p, x->from, &x->s)) return padded;
  return msc_reshard_gathered(x->p, x->from, &x->s, &bytes) && bytes < padded ? bytes : padded;
}

/* Tries all ways to remove minor suffixes of dimensions from d on: the atoms are gathered, or go to dimensions that
 * lose none. */
static void drop_suffixes(expansion *x, int d, uint32_t dropped, uint32_t losers) {
  const reshard_problem *p = x->p;
  if (d < p->rank) {
    drop_suffixes(x, d + 1, dropped, losers);
    int num = x->s.num[d];
    int64_t parts = x->parts[d];
    while (x->s.num[d]) {
      drop_atom(x, d);
      dropped |= 1u << x->s.atom[d][x->s.num[d]];
      drop_suffixes(x, d + 1, dropped, losers | 1u << d);
    }
    x->s.num[d] = (uint8_t)num;
    x->parts[d] = parts;
    return;
  }
  if (!dropped) return;
  int64_t k = msc_reshard_atoms_size(p, dropped);
  if (peak_allows(x, p->uneven ? 0 : x->local * k) && price_edge(x, MSC_ALL_GATHER, dropped, k, gathered_bytes(x, k)) &&
      is_hopeful(x))
    emit(x);
  x->gains = ((1u << p->rank) - 1) & ~losers;
  if (p->options->no_alltoall || !x->gains || !peak_allows(x, x->local)) return;
  for (int e = 0; e < p->rank; e++)
    if ((losers >> e & 1) && p->uneven && (!msc_reshard_is_even(p, x->from, e) || !msc_reshard_is_even(p, &x->s, e)))
      return;
  if (price_edge(x, MSC_ALL_TO_ALL, dropped, k, msc_reshard_received(MSC_ALL_TO_ALL, k, x->local)) && is_hopeful(x))
    append_in_every_order(x, dropped, 0);
}

/* Does `chosen`, a choice of atoms from `all`, contain an atom but not a lower one of the same class? Such choices
 * repeat others. */
static bool skips_twin(const expansion *x, uint32_t chosen, uint32_t all) {
  if (!x->p->has_classes) return false;
  for (uint32_t m = chosen; m; m &= m - 1)
    if (x->twins[__builtin_ctz(m)] & all & ~chosen) return true;
  return false;
}

static void emit_reductions(expansion *x) {
  const reshard_problem *p = x->p;
  x->s = *x->from;
  for (uint32_t m = x->from->partial; m; m = (m - 1) & x->from->partial) {
    if (skips_twin(x, m, x->from->partial)) continue;
    if (p->options->sums_at_once && m != (x->from->partial & ~p->to.partial)) continue;
    int64_t k = msc_reshard_atoms_size(p, m);
    x->s.partial = x->from->partial & ~m;
    if (peak_allows(x, x->local) &&
        price_edge(x, MSC_ALL_REDUCE, m, k, msc_reshard_received(MSC_ALL_REDUCE, k, x->local)) && is_hopeful(x))
      emit(x);
    x->gains = (1u << p->rank) - 1;
    if (!peak_allows(x, p->uneven ? 0 : x->local / k)) continue;
    if (price_edge(x, MSC_REDUCE_SCATTER, m, k,
                   p->uneven ? 0 : msc_reshard_received(MSC_REDUCE_SCATTER, k, x->local)) &&
        is_hopeful(x))
      append_in_every_order(x, m, 0);
  }
  x->s.partial = x->from->partial;
}

static void emit_slices(expansion *x) {
  const reshard_problem *p = x->p;
  uint32_t used = msc_reshard_used(p, x->from);
  if (p->options->peak && x->local > p->options->peak) return;
  x->edge = (reshard_edge){.verb = MSC_SHARD};
  if (!is_hopeful(x)) return;
  for (int a = 0; a < p->num_atoms; a++) {
    if ((used >> a & 1) || (x->twins[a] & ~used)) continue;
    for (int d = 0; d < p->rank; d++) {
      append_atom(x, d, a);
      if (is_append_allowed(x, d) && (!p->uneven || keeps_runs(p, x->from, &x->s))) x->emit(x->user, &x->s, &x->edge);
      drop_atom(x, d);
    }
    if (!p->options->free_partial || !(p->to.partial >> a & 1)) continue;
    x->s.partial |= 1u << a;
    x->emit(x->user, &x->s, &x->edge);
    x->s.partial = x->from->partial;
  }
}

/* The atoms that are in different places in a and b; `from`: the places in a. */
static uint32_t moved_atoms(const reshard_problem *p, const places *from, const reshard_state *a,
                            const reshard_state *b) {
  places to = find_atom_places(p, b);
  uint32_t moved = a->partial ^ b->partial;
  for (int i = 0; i < p->num_atoms; i++)
    if (from->dim[i] != to.dim[i] || (to.dim[i] >= 0 && from->before[i] != to.before[i])) moved |= 1u << i;
  return moved;
}

static void emit_permuted(expansion *x) {
  const reshard_problem *p = x->p;
  uint32_t moved = moved_atoms(p, &x->places, x->from, &x->s);
  if (!moved) return;
  for (int d = 0; d < p->rank && p->uneven; d++)
    if (!same_dim(x->from, &x->s, d) && !msc_reshard_is_even(p, &x->s, d)) return;
  if (price_edge(x, MSC_PERMUTE, moved, 2, x->local)) emit(x);
}

/* Fills dimensions from d on with the given atoms, so that each has as many parts as in the source. */
static void fill_dims(expansion *x, int d, uint32_t atoms, int64_t left) {
  const reshard_problem *p = x->p;
  const places *at_first = &x->places;
  if (d == p->rank) {
    emit_permuted(x);
    return;
  }
  if (left == 1) {
    if (d + 1 < p->rank) x->s.num[d + 1] = 0;
    fill_dims(x, d + 1, atoms, d + 1 < p->rank ? msc_reshard_parts(p, x->from, d + 1) : 1);
    return;
  }
  for (uint32_t m = atoms; m; m &= m - 1) {
    int a = __builtin_ctz(m), at = x->s.num[d];
    if (left % p->size[a] || (x->twins[a] & atoms) || (x->nested && at < p->to.num[d] && p->to.atom[d][at] != a))
      continue;
    if (!(x->movable >> a & 1) &&
        (at_first->dim[a] != d || at_first->before[a] * left != msc_reshard_parts(p, x->from, d)))
      continue;
    x->s.atom[d][x->s.num[d]++] = (uint8_t)a;
    fill_dims(x, d, atoms & ~(1u << a), left / p->size[a]);
    x->s.num[d]--;
  }
}

static void emit_permutes(expansion *x) {
  const reshard_problem *p = x->p;
  uint32_t all = (1u << p->num_atoms) - 1;
  int64_t terms = msc_reshard_atoms_size(p, x->from->partial);
  double least_ns = p->options->launch_ns + p->fastest_alpha + (p->fastest > 0 ? (double)x->local / p->fastest : 0);
  for (uint32_t partial = 0; partial <= (terms > 1 ? all : 0); partial++) {
    if (msc_reshard_atoms_size(p, partial) != terms || ((partial ^ x->from->partial) & ~x->movable)) continue;
    if (p->options->sums_at_once && partial != x->from->partial) continue;
    if (skips_twin(x, partial, all)) continue;
    x->s = *x->from;
    x->s.partial = partial;
    x->edge = (reshard_edge){MSC_PERMUTE, x->local, msc_reshard_below_ns(p->options, least_ns), 0};
    if (p->rank) x->s.num[0] = 0;
    reshard_hope hope = msc_reshard_hope(p, partial, x->budget - (p->options->time ? x->edge.ns : x->edge.bytes));
    x->nested = hope == HOPE_NESTED;
    if (hope != HOPE_NONE) fill_dims(x, 0, all & ~partial, p->rank ? msc_reshard_parts(p, x->from, 0) : 1);
  }
}

/* The most of `parts` equal blocks of a dimension that one of `to_parts` equal blocks overlaps. */
static int64_t even_pieces(int64_t parts, int64_t to_parts) {
  int64_t common = msc_gcd(parts, to_parts), block = to_parts / common, to_block = parts / common;
  return (block - 1 + to_block + block - 1) / block;
}

/* The most blocks of s that a block of `to` overlaps in dimension d. */
static int64_t pieces_in_dim(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int d) {
  int64_t n = p->type->dim[d], parts = msc_reshard_parts(p, s, d), to_parts = msc_reshard_parts(p, to, d), most = 1;
  if (n % parts == 0 && n % to_parts == 0) return even_pieces(parts, to_parts);
  int64_t block = (n + parts - 1) / parts, to_block = (n + to_parts - 1) / to_parts;
  for (int64_t i = 0; i < to_parts && to_block; i++) {
    int64_t begin = i * to_block, end = begin + to_block < n ? begin + to_block : n;
    if (begin < end && (end - 1) / block - begin / block + 1 > most) most = (end - 1) / block - begin / block + 1;
  }
  return most;
}

/* The atoms whose links an exchange uses.  If no atom becomes free, a device's peers have its digits of all atoms that
 * were free before (box.h). */
static uint32_t exchanged_atoms(const expansion *x) {
  uint32_t used = msc_reshard_used(x->p, x->from), moved = moved_atoms(x->p, &x->places, x->from, &x->s);
  return used & ~msc_reshard_used(x->p, &x->s) ? moved : moved & used;
}

/* Sets x->edge to the exchange into x->s with a lower bound on its cost; false: partial values forbid it, or it is over
 * the budget. */
static bool price_least_exchange(expansion *x, int64_t *out_peers) {
  const reshard_problem *p = x->p;
  int64_t terms, peers = 1;
  uint32_t atoms = exchanged_atoms(x);
  if (!msc_reshard_terms(p, x->from, &x->s, &terms)) return false;
  for (int d = 0; d < p->rank && p->options->time; d++) peers *= pieces_in_dim(p, x->from, &x->s, d);
  /* a lower bound on what some device lacks; to compute it exactly takes longer */
  int64_t least = p->uneven ? msc_reshard_first_lacks(p, x->from, &x->s) : msc_reshard_local(p, &x->s) - x->local;
  *out_peers = peers * terms;
  return price_edge(x, MSC_EXCHANGE, atoms, *out_peers + 1, least > 0 ? least : 0);
}

static bool price_exchange(expansion *x) {
  int64_t bytes, peers;
  return price_least_exchange(x, &peers) && msc_reshard_direct(x->p, x->from, &x->s, &bytes) &&
         price_edge(x, MSC_EXCHANGE, x->edge.atoms, peers + 1, bytes);
}

static void emit_exchanged(expansion *x) {
  if (price_exchange(x) && peak_allows(x, msc_reshard_local(x->p, &x->s))) emit(x);
}

static expansion start_exchange(const reshard_problem *p, const reshard_state *from, const reshard_state *to,
                                int64_t budget) {
  return (expansion){.p = p,
                     .from = from,
                     .s = *to,
                     .local = msc_reshard_local(p, from),
                     .budget = budget,
                     .places = find_atom_places(p, from)};
}

bool msc_reshard_least_exchange(const reshard_problem *p, const reshard_state *from, const reshard_state *to,
                                int64_t *out_cost) {
  expansion x = start_exchange(p, from, to, INT64_MAX);
  int64_t peers;
  bool ok = price_least_exchange(&x, &peers);
  *out_cost = p->options->time ? x.edge.ns : x.edge.bytes;
  return ok;
}

bool msc_reshard_exchange(const reshard_problem *p, const reshard_state *from, const reshard_state *to, int64_t budget,
                          reshard_edge *out_edge) {
  expansion x = start_exchange(p, from, to, budget);
  bool ok = price_exchange(&x);
  *out_edge = x.edge;
  return ok;
}

bool msc_reshard_exchanges_first(const reshard_problem *p) {
  return p->uneven && !p->options->no_alltoall && msc_mesh_size(p->mesh) > 256;
}

/* Emits the exchange into the target, and with unfinished sums, unless time counts, those into finer parts of it: these
 * are gathered afterwards, so that devices with the same part of the target share its additions. */
static void emit_exchanges(expansion *x) {
  const reshard_problem *p = x->p;
  bool is_first = msc_reshard_key(p, x->from) == msc_reshard_key(p, &p->from);
  if (p->options->no_alltoall || (msc_reshard_exchanges_first(p) && !is_first)) return;
  x->s = p->to;
  x->edge.verb = MSC_EXCHANGE;
  x->nested = false;
  emit_exchanged(x);
  if (p->uneven || p->options->time || !(x->from->partial & ~p->to.partial) || (p->to.partial & ~x->from->partial))
    return;
  uint32_t spare = ((1u << p->num_atoms) - 1) & ~msc_reshard_used(p, &p->to);
  x->gains = (1u << p->rank) - 1;
  for (int d = 0; d < p->rank; d++) x->parts[d] = msc_reshard_parts(p, &p->to, d);
  for (uint32_t m = spare; m; m = (m - 1) & spare) {
    if (skips_twin(x, m, spare)) continue;
    x->edge.verb = MSC_EXCHANGE;
    append_in_every_order(x, m, 0);
  }
}

static void find_twins(expansion *x) {
  uint32_t used = msc_reshard_used(x->p, x->from), partial = x->from->partial;
  for (int a = 0; a < x->p->num_atoms && x->p->has_classes; a++) {
    uint32_t alike = partial >> a & 1 ? partial : used >> a & 1 ? 0 : ~used;
    for (int b = 0; b < a; b++)
      if (x->p->class_of[a] == x->p->class_of[b] && (alike >> b & 1)) x->twins[a] |= 1u << b;
  }
}

void msc_reshard_expand(const reshard_problem *p, const reshard_state *s, const reshard_wanted *wanted,
                        reshard_emit *emit_to, void *user) {
  expansion x = {.p = p,
                 .from = s,
                 .s = *s,
                 .local = msc_reshard_local(p, s),
                 .budget = wanted->budget,
                 .movable = wanted->movable,
                 .emit = emit_to,
                 .user = user};
  for (int d = 0; d < p->rank; d++) x.parts[d] = msc_reshard_parts(p, s, d);
  x.places = find_atom_places(p, s);
  if (!wanted->twins) find_twins(&x);
  emit_slices(&x);
  if (wanted->only_slices) return;
  drop_suffixes(&x, 0, 0, 0);
  emit_reductions(&x);
  if (!wanted->no_exchange) emit_exchanges(&x);
  if (wanted->movable && peak_allows(&x, x.local)) emit_permutes(&x);
}
