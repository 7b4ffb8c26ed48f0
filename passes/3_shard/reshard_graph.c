/* reshard_graph.c: a state in; the states one collective away, and what each costs, out.  The rules are the edge table of
 * the redistribution chapter: L = local bytes before, k = size of the group.
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

#include "passes/3_shard/reshard_graph.h"

/* ---- states ---- */

/* 15; per dimension its atoms, then 15; then the partial set. */
reshard_key msc_reshard_key(const reshard_problem *p, const reshard_state *s) {
  reshard_key key = RESHARD_ATOMS;
  for (int d = 0; d < p->rank; d++) {
    for (int i = 0; i < s->num[d]; i++) key = key << 4 | s->atom[d][i];
    key = key << 4 | RESHARD_ATOMS;
  }
  return key << 16 | s->partial;
}

void msc_reshard_state_of(const reshard_problem *p, reshard_key key, reshard_state *out_state) {
  memset(out_state->num, 0, sizeof out_state->num);
  out_state->partial = (uint32_t)(key & 0xffff);
  key >>= 16;
  for (int d = p->rank - 1; d >= 0; d--) {
    uint8_t list[RESHARD_ATOMS];
    int num = 0;
    for (key >>= 4; (key & 15) != RESHARD_ATOMS; key >>= 4) list[num++] = (uint8_t)(key & 15);
    for (int i = 0; i < num; i++) out_state->atom[d][i] = list[num - 1 - i];
    out_state->num[d] = (uint8_t)num;
  }
}

int64_t msc_reshard_parts(const reshard_problem *p, const reshard_state *s, int dim) {
  int64_t parts = 1;
  for (int i = 0; i < s->num[dim]; i++) parts *= p->size[s->atom[dim][i]];
  return parts;
}

int64_t msc_reshard_atoms_size(const reshard_problem *p, uint32_t atoms) {
  int64_t n = 1;
  for (; atoms; atoms &= atoms - 1) n *= p->size[__builtin_ctz(atoms)];
  return n;
}

uint32_t msc_reshard_used(const reshard_problem *p, const reshard_state *s) {
  uint32_t used = s->partial;
  for (int d = 0; d < p->rank; d++)
    for (int i = 0; i < s->num[d]; i++) used |= 1u << s->atom[d][i];
  return used;
}

/* Largest part of a dimension: digits of one axis that are neighbours cut as one. */
static int64_t largest_part(const reshard_problem *p, const reshard_state *s, int d) {
  int64_t block = p->type->dim[d], run = 1;
  uint32_t axis = UINT32_MAX;
  for (int i = 0; i < s->num[d]; i++)
    for (int j = 0; j < p->num_digits[s->atom[d][i]]; j++) {
      msc_subaxis x = p->digit[s->atom[d][i]][j];
      if (x.axis != axis) block = (block + run - 1) / run, run = 1;
      axis = x.axis;
      run *= x.size;
    }
  return (block + run - 1) / run;
}

int64_t msc_reshard_local(const reshard_problem *p, const reshard_state *s) {
  int64_t bytes = p->uneven ? p->elem_bytes : p->total_bytes;
  for (int d = 0; d < p->rank; d++) {
    if (p->uneven) bytes *= largest_part(p, s, d);
    else bytes /= msc_reshard_parts(p, s, d);
  }
  return bytes;
}

static bool starts_with(const reshard_state *longer, const reshard_state *shorter, int d) {
  return shorter->num[d] <= longer->num[d] && memcmp(longer->atom[d], shorter->atom[d], shorter->num[d]) == 0;
}

static bool same_dim(const reshard_state *a, const reshard_state *b, int d) { return a->num[d] == b->num[d] && starts_with(a, b, d); }

static bool is_even(const reshard_problem *p, const reshard_state *s, int d) { return p->type->dim[d] % msc_reshard_parts(p, s, d) == 0; }

/* A dimension divides, or is on its way from or to one that does not. */
static bool dim_allowed(const reshard_problem *p, const reshard_state *s, int d) {
  return is_even(p, s, d) || (p->uneven && (starts_with(&p->from, s, d) || starts_with(&p->to, s, d)));
}

bool msc_reshard_only_sliced(const reshard_problem *p, const reshard_state *a, const reshard_state *b) {
  if (a->partial & ~b->partial) return false;
  for (int d = 0; d < p->rank; d++)
    if (!starts_with(b, a, d)) return false;
  return true;
}

/* ---- what a device needs and does not hold ---- */

typedef struct {
  int64_t terms;     /* values to be reduced per element; 1: none */
  bool own, exists;  /* does every device hold one of the terms it needs; can the partial sets change like this */
} term_change;

static term_change terms_of(const reshard_problem *p, const reshard_state *s, const reshard_state *to) {
  uint32_t lost = s->partial & ~to->partial, gained = to->partial & ~s->partial;
  int64_t terms = msc_reshard_atoms_size(p, lost);
  if (!gained) return (term_change){terms, true, true};
  return (term_change){1, false, terms == msc_reshard_atoms_size(p, gained)};
}

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

/* The same from the boxes of all devices, for sizes that do not divide. */
static int64_t lacking_by_boxes(const reshard_problem *p, const reshard_state *s, const reshard_state *to, term_change c) {
  msc_box_mesh mesh = msc_mesh_sizes(p->mesh);
  msc_box_layout cuts = msc_layout_cuts(msc_reshard_layout(p, s)), to_cuts = msc_layout_cuts(msc_reshard_layout(p, to));
  int64_t worst = 0;
  for (int64_t r = 0; r < msc_box_mesh_size(&mesh); r++) {
    msc_box a, b, both;
    msc_box_of(&mesh, &cuts, p->type->dim, r, &a);
    msc_box_of(&mesh, &to_cuts, p->type->dim, r, &b);
    int64_t elems = c.terms * msc_box_elems(p->rank, &b);
    if (c.own && msc_box_intersect(p->rank, &a, &b, &both)) elems -= msc_box_elems(p->rank, &both);
    if (elems > worst) worst = elems;
  }
  return worst * p->elem_bytes;
}

/* Bytes the worst device receives when everything comes directly. */
static int64_t lacking(const reshard_problem *p, const reshard_state *s, const reshard_state *to, term_change c) {
  if (p->uneven) return lacking_by_boxes(p, s, to, c);
  __int128 bytes = (__int128)c.terms * msc_reshard_local(p, to) - (c.own ? held_everywhere(p, s, to) : 0);
  return bytes < INT64_MAX / 4 ? (int64_t)bytes : INT64_MAX / 4;
}

int64_t msc_reshard_lower_bound(const reshard_problem *p) {
  return p->from.partial || p->to.partial ? -1 : lacking(p, &p->from, &p->to, terms_of(p, &p->from, &p->to));
}

int64_t msc_reshard_bound(const reshard_problem *p, const reshard_state *s) {
  term_change c = terms_of(p, s, &p->to);
  if (!c.own || p->uneven) return 0;
  if (c.terms == 1) return lacking(p, s, &p->to, c);
  /* Each element of each of the m copies is received at least once.  And to bring k terms together takes k-1 messages, to
   * spread the result to the m-1 others m-1 more: no device receives less than the average. */
  int64_t local = msc_reshard_local(p, &p->to), copies = msc_reshard_atoms_size(p, (1u << p->num_atoms) - 1 - msc_reshard_used(p, &p->to));
  int64_t average = (int64_t)(((__int128)local * (c.terms + copies - 2) + copies - 1) / copies);
  return average > local ? average : local;
}

/* ---- edges ---- */

typedef struct {
  const reshard_problem *p;
  const reshard_state *from;
  reshard_state s;             /* the neighbour being made */
  int64_t parts[MSC_MAX_RANK]; /* of s */
  int64_t local, budget;
  uint32_t gains;              /* dimensions that may get atoms */
  reshard_edge edge;
  reshard_emit *emit;
  void *user;
} expansion;

/* Rounds of messages one after another. */
static int64_t rounds(reshard_verb verb, int64_t k) {
  int64_t log = 0;
  while ((int64_t)1 << log < k) log++;
  if (verb == PERMUTE) return 1;
  return verb == ALL_REDUCE ? 2 * log : k - 1;
}

static int64_t ns_of(const reshard_problem *p, uint32_t atoms, int64_t num_rounds, int64_t bytes) {
  double latency = 0, rate = 0;
  for (uint32_t m = atoms; m; m &= m - 1) {
    int a = __builtin_ctz(m);
    if (p->latency_us[a] > latency) latency = p->latency_us[a];
    if (p->gb_per_s[a] > 0 && (rate == 0 || p->gb_per_s[a] < rate)) rate = p->gb_per_s[a];
  }
  return (int64_t)((p->options->launch_us + (double)num_rounds * latency) * 1e3 + (rate > 0 ? (double)bytes / rate : 0) + 0.5);
}

/* Sets the cost of an edge over a group; false when it is over the budget. */
static bool price(expansion *x, reshard_verb verb, uint32_t atoms, int64_t k, int64_t bytes) {
  x->edge = (reshard_edge){verb, bytes, 0};
  if (x->p->options->time) x->edge.ns = ns_of(x->p, atoms, rounds(verb, k), bytes);
  return (x->p->options->time ? x->edge.ns : bytes) <= x->budget;
}

static int64_t all_reduce_bytes(int64_t k, int64_t local) { return (int64_t)((2 * (__int128)(k - 1) * local + k - 1) / k); }

void msc_reshard_price(const reshard_problem *p, reshard_verb verb, const reshard_state *from, const reshard_state *to, reshard_edge *out_edge) {
  expansion x = {.p = p, .budget = INT64_MAX};
  uint32_t atoms = msc_reshard_used(p, from) & ~msc_reshard_used(p, to);
  int64_t k = msc_reshard_atoms_size(p, atoms), local = msc_reshard_local(p, from);
  price(&x, verb, atoms, k, verb == ALL_REDUCE ? all_reduce_bytes(k, local) : (k - 1) * local);
  *out_edge = x.edge;
}

int64_t msc_reshard_peak(const reshard_problem *p, reshard_verb verb, const reshard_state *from, const reshard_state *to) {
  int64_t in = msc_reshard_local(p, from);
  return verb == SLICE ? in : in + msc_reshard_local(p, to);
}

static bool peak_allows(const expansion *x, int64_t out) { return !x->p->options->peak || x->local + out <= x->p->options->peak; }

/* Where a dimension does not divide, parts of neighbouring digits of one axis do not nest: such a run joins or leaves as a
 * whole. */
static bool keeps_runs(const reshard_problem *p, const reshard_state *a, const reshard_state *b) {
  for (int d = 0; d < p->rank; d++) {
    const reshard_state *longer = a->num[d] > b->num[d] ? a : b;
    int n = a->num[d] > b->num[d] ? b->num[d] : a->num[d];
    if (a->num[d] == b->num[d] || n == 0 || is_even(p, longer, d)) continue;
    int before = longer->atom[d][n - 1], after = longer->atom[d][n];
    if (p->digit[before][p->num_digits[before] - 1].axis == p->digit[after][0].axis) return false;
  }
  return true;
}

static void emit(expansion *x) {
  if (x->p->uneven && x->edge.verb <= REDUCE_SCATTER && !keeps_runs(x->p, x->from, &x->s)) return;
  if (x->p->options->peak && x->p->uneven && !peak_allows(x, msc_reshard_local(x->p, &x->s))) return;
  x->emit(x->user, &x->s, &x->edge);
}

static void push(expansion *x, int d, int atom) {
  x->s.atom[d][x->s.num[d]++] = (uint8_t)atom;
  x->parts[d] *= x->p->size[atom];
}

static void pop(expansion *x, int d) { x->parts[d] /= x->p->size[x->s.atom[d][--x->s.num[d]]]; }

static bool pushed_allowed(const expansion *x, int d) {
  if (x->p->type->dim[d] % x->parts[d] == 0) return true;
  return x->edge.verb != ALL_TO_ALL && dim_allowed(x->p, &x->s, d);
}

static void emit_exchanged(expansion *x);

static void emit_arranged(expansion *x) {
  if (x->edge.verb == EXCHANGE) {
    emit_exchanged(x);
    x->edge.verb = EXCHANGE;
    return;
  }
  if (x->edge.verb == REDUCE_SCATTER && x->p->uneven) { /* padded to the largest part */
    uint32_t atoms = x->from->partial & ~x->s.partial;
    int64_t k = msc_reshard_atoms_size(x->p, atoms);
    if (!price(x, REDUCE_SCATTER, atoms, k, (k - 1) * msc_reshard_local(x->p, &x->s))) return;
  }
  emit(x);
}

/* Deals the atoms to the minor ends of the gaining dimensions in every order: dimension by dimension, so that each
 * result comes once. */
static void arrange(expansion *x, uint32_t atoms, int first_dim) {
  if (!atoms) {
    emit_arranged(x);
    return;
  }
  for (int d = first_dim; d < x->p->rank; d++) {
    if (!(x->gains >> d & 1)) continue;
    for (uint32_t m = atoms; m; m &= m - 1) {
      int a = __builtin_ctz(m);
      push(x, d, a);
      if (pushed_allowed(x, d)) arrange(x, atoms & ~(1u << a), d);
      pop(x, d);
    }
  }
}

/* All ways to drop minor suffixes: gathered, or moved to dimensions that drop nothing. */
static void drop_suffixes(expansion *x, int d, uint32_t dropped, uint32_t losers) {
  const reshard_problem *p = x->p;
  if (d < p->rank) {
    drop_suffixes(x, d + 1, dropped, losers);
    int num = x->s.num[d];
    int64_t parts = x->parts[d];
    while (x->s.num[d]) {
      pop(x, d);
      dropped |= 1u << x->s.atom[d][x->s.num[d]];
      drop_suffixes(x, d + 1, dropped, losers | 1u << d);
    }
    x->s.num[d] = (uint8_t)num;
    x->parts[d] = parts;
    return;
  }
  if (!dropped) return;
  int64_t k = msc_reshard_atoms_size(p, dropped);
  if (peak_allows(x, p->uneven ? 0 : x->local * k) && price(x, ALL_GATHER, dropped, k, (k - 1) * x->local)) emit(x);
  x->gains = ((1u << p->rank) - 1) & ~losers;
  if (p->options->no_alltoall || !x->gains || !peak_allows(x, x->local)) return;
  for (int e = 0; e < p->rank; e++)
    if ((losers >> e & 1) && p->uneven && (!is_even(p, x->from, e) || !is_even(p, &x->s, e))) return;
  if (price(x, ALL_TO_ALL, dropped, k, x->local - x->local / k)) arrange(x, dropped, 0);
}

static void reduce(expansion *x) {
  const reshard_problem *p = x->p;
  for (uint32_t m = x->from->partial; m; m = (m - 1) & x->from->partial) {
    int64_t k = msc_reshard_atoms_size(p, m);
    x->s.partial = x->from->partial & ~m;
    if (peak_allows(x, x->local) && price(x, ALL_REDUCE, m, k, all_reduce_bytes(k, x->local))) emit(x);
    x->gains = (1u << p->rank) - 1;
    if (!peak_allows(x, p->uneven ? 0 : x->local / k)) continue;
    if (price(x, REDUCE_SCATTER, m, k, p->uneven ? 0 : x->local - x->local / k)) arrange(x, m, 0);
  }
  x->s.partial = x->from->partial;
}

static void slice(expansion *x) {
  const reshard_problem *p = x->p;
  uint32_t used = msc_reshard_used(p, x->from);
  if (p->options->peak && x->local > p->options->peak) return;
  x->edge = (reshard_edge){SLICE, 0, 0};
  for (int a = 0; a < p->num_atoms; a++) {
    if (used >> a & 1) continue;
    for (int d = 0; d < p->rank; d++) {
      push(x, d, a);
      if (pushed_allowed(x, d) && (!p->uneven || keeps_runs(p, x->from, &x->s))) x->emit(x->user, &x->s, &x->edge);
      pop(x, d);
    }
    if (!p->options->free_partial || !(p->to.partial >> a & 1)) continue;
    x->s.partial |= 1u << a;
    x->emit(x->user, &x->s, &x->edge);
    x->s.partial = x->from->partial;
  }
}

/* Atoms that do not stay where they are. */
static uint32_t moved_atoms(const reshard_problem *p, const reshard_state *a, const reshard_state *b) {
  uint32_t moved = a->partial ^ b->partial;
  int64_t weight[RESHARD_ATOMS];
  int dim[RESHARD_ATOMS];
  for (int i = 0; i < p->num_atoms; i++) dim[i] = -1, weight[i] = 0;
  for (int d = 0; d < p->rank; d++) {
    int64_t w = 1;
    for (int i = 0; i < a->num[d]; w *= p->size[a->atom[d][i++]]) dim[a->atom[d][i]] = d, weight[a->atom[d][i]] = w;
  }
  uint32_t in_a = msc_reshard_used(p, a) & ~a->partial, in_b = msc_reshard_used(p, b) & ~b->partial;
  moved |= in_a ^ in_b;
  for (int d = 0; d < p->rank; d++) {
    int64_t w = 1;
    for (int i = 0; i < b->num[d]; w *= p->size[b->atom[d][i++]])
      if (dim[b->atom[d][i]] != d || weight[b->atom[d][i]] != w) moved |= 1u << b->atom[d][i];
  }
  return moved;
}

static void emit_permuted(expansion *x) {
  const reshard_problem *p = x->p;
  uint32_t moved = moved_atoms(p, x->from, &x->s);
  if (!moved) return;
  for (int d = 0; d < p->rank && p->uneven; d++)
    if (!same_dim(x->from, &x->s, d) && !is_even(p, &x->s, d)) return;
  if (price(x, PERMUTE, moved, 2, x->local)) emit(x);
}

/* Fills the dimensions from d on with free atoms to the parts that the source has. */
static void permute(expansion *x, int d, uint32_t atoms, int64_t left, int64_t terms) {
  const reshard_problem *p = x->p;
  if (d == p->rank) {
    for (uint32_t m = atoms;; m = (m - 1) & atoms) {
      x->s.partial = m;
      if (msc_reshard_atoms_size(p, m) == terms) emit_permuted(x);
      if (!m) return;
    }
  }
  if (left == 1) {
    if (d + 1 < p->rank) x->s.num[d + 1] = 0;
    permute(x, d + 1, atoms, d + 1 < p->rank ? msc_reshard_parts(p, x->from, d + 1) : 1, terms);
    return;
  }
  for (uint32_t m = atoms; m; m &= m - 1) {
    int a = __builtin_ctz(m);
    if (left % p->size[a]) continue;
    x->s.atom[d][x->s.num[d]++] = (uint8_t)a;
    permute(x, d, atoms & ~(1u << a), left / p->size[a], terms);
    x->s.num[d]--;
  }
}

/* Blocks of s that a block of `to` meets, at most. */
static int64_t pieces_in_dim(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int d) {
  int64_t n = p->type->dim[d], parts = msc_reshard_parts(p, s, d), to_parts = msc_reshard_parts(p, to, d), most = 1;
  int64_t block = (n + parts - 1) / parts, to_block = (n + to_parts - 1) / to_parts;
  for (int64_t i = 0; i < to_parts && to_block; i++) {
    int64_t begin = i * to_block, end = begin + to_block < n ? begin + to_block : n;
    if (begin < end && (end - 1) / block - begin / block + 1 > most) most = (end - 1) / block - begin / block + 1;
  }
  return most;
}

static void emit_exchanged(expansion *x) {
  const reshard_problem *p = x->p;
  term_change c = terms_of(p, x->from, &x->s);
  int64_t peers = c.terms;
  for (int d = 0; d < p->rank && p->options->time; d++) peers *= pieces_in_dim(p, x->from, &x->s, d);
  int64_t bytes = lacking(p, x->from, &x->s, c);
  if (c.exists && peak_allows(x, msc_reshard_local(p, &x->s)) && price(x, EXCHANGE, moved_atoms(p, x->from, &x->s), peers + 1, bytes)) emit(x);
}

/* Into the target.  A sum is also brought into parts of the target's parts, which are gathered afterwards: then devices that
 * would all compute the same sums share the work. */
static void exchange(expansion *x) {
  const reshard_problem *p = x->p;
  bool many = p->uneven && msc_mesh_size(p->mesh) > 256 && msc_reshard_key(p, x->from) != msc_reshard_key(p, &p->from);
  if (p->options->no_alltoall || many) return;
  x->s = p->to;
  x->edge.verb = EXCHANGE;
  emit_exchanged(x);
  if (p->uneven || !(x->from->partial & ~p->to.partial) || (p->to.partial & ~x->from->partial)) return;
  uint32_t spare = ((1u << p->num_atoms) - 1) & ~msc_reshard_used(p, &p->to);
  x->gains = (1u << p->rank) - 1;
  for (int d = 0; d < p->rank; d++) x->parts[d] = msc_reshard_parts(p, &p->to, d);
  for (uint32_t m = spare; m; m = (m - 1) & spare) {
    x->edge.verb = EXCHANGE;
    arrange(x, m, 0);
  }
}

void msc_reshard_expand(const reshard_problem *p, const reshard_state *s, int64_t budget, bool permutes, reshard_emit *emit_to, void *user) {
  expansion x = {.p = p, .from = s, .s = *s, .local = msc_reshard_local(p, s), .budget = budget, .emit = emit_to, .user = user};
  for (int d = 0; d < p->rank; d++) x.parts[d] = msc_reshard_parts(p, s, d);
  x.edge.verb = SLICE;
  slice(&x);
  drop_suffixes(&x, 0, 0, 0);
  x.edge.verb = REDUCE_SCATTER;
  reduce(&x);
  exchange(&x);
  if (!permutes || !peak_allows(&x, x.local)) return;
  x.s = *s;
  if (p->rank) x.s.num[0] = 0;
  permute(&x, 0, (1u << p->num_atoms) - 1, p->rank ? msc_reshard_parts(p, s, 0) : 1, msc_reshard_atoms_size(p, s->partial));
}
