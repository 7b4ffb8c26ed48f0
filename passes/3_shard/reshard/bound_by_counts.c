/* bound_by_counts.c: a problem in; lower bounds on the cost from any state to the target out, found by a search over
 * tallies.
 *
 * A tally is the numbers of atoms of each kind (size and link) that cut each dimension, are partial, or are free: a
 * state in which atoms of one kind are not told apart.  There are few tallies, and the cost from one tally to another
 * is a lower bound on the cost between their states.  If a dimension of a state has an atom which the target has
 * elsewhere, the path must empty the dimension down to that atom, or rearrange atoms by a permute or an exchange.  So
 * for each dimension and number of atoms that may stay there is a table of the costs of paths that do one of the two.
 *
 * A table is a search backwards from the target, continued when it has not reached a tally yet. */
#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/reshard/graph.h"

enum { MAX_KINDS = 8, MAX_SLOTS = MSC_MAX_RANK + 2, MOST_TALLIES = 10000, MAX_TABLES = 24, MOST_STEPS = 10000 };

/* How many atoms of each kind are in each slot: the dimensions, then partial, then free. */
typedef struct {
  uint8_t at[MAX_KINDS][MAX_SLOTS];
} tally;

typedef struct {
  reshard_cost cost;
  int node;
} entry;

/* A table of distances to the target. Node 2 * tally + 1: over paths that empty the slot or rearrange atoms; node
 * 2 * tally: over all paths. */
typedef struct {
  int slot, most; /* no more than `most` atoms in the slot; slot -1: no such condition */
  reshard_cost *dist;
  bool *closed;
  entry *heap;
  int heap_num, heap_cap;
} table;

struct reshard_tallies {
  const reshard_problem *p;
  msc_arena *arena;
  int num_kinds, partial, free; /* the slots after the dimensions */
  int kind_of[RESHARD_ATOMS];
  int atom[MAX_KINDS], count[MAX_KINDS];                /* one atom of each kind, and how many there are */
  /* weight: by kind, the factor of its part of a tally's number; num: the number of tallies */
  int weight[MAX_KINDS], num;
  int choose[RESHARD_ATOMS + MAX_SLOTS][MAX_SLOTS + 1]; /* Pascal's triangle */
  bool equal_products;                                  /* different tallies may have the same parts */
  int *next_alike;                                      /* tallies with the same parts, in rings; made when needed */
  int64_t work;                                         /* steps looked at */
  int num_tables;
  table table[MAX_TABLES];
};

/* ---- numbers of tallies: the borders between slots are a choice of places, numbered by binomials ---- */

static int number_tally(const reshard_tallies *t, const tally *q) {
  int number = 0;
  for (int k = 0; k < t->num_kinds; k++) {
    int sum = 0, rank = 0;
    for (int s = 0; s < t->free; s++) {
      sum += q->at[k][s];
      rank += t->choose[sum + s][s + 1];
    }
    number += rank * t->weight[k];
  }
  return number;
}

static void tally_of_number(const reshard_tallies *t, int number, tally *out) {
  for (int k = t->num_kinds - 1; k >= 0; k--) {
    int rank = number / t->weight[k], above = t->count[k] + t->free;
    number %= t->weight[k];
    for (int s = t->free - 1; s >= 0; s--) {
      int border = above - 1;
      while (t->choose[border][s + 1] > rank) border--;
      rank -= t->choose[border][s + 1];
      out->at[k][s + 1] = (uint8_t)(above - border - 1);
      above = border;
    }
    out->at[k][0] = (uint8_t)above;
  }
}

static int64_t size_of_kind(const reshard_tallies *t, int kind) { return t->p->size[t->atom[kind]]; }

static int64_t slot_size(const reshard_tallies *t, const tally *q, int slot) {
  int64_t n = 1;
  for (int k = 0; k < t->num_kinds; k++)
    for (int i = 0; i < q->at[k][slot]; i++) n *= size_of_kind(t, k);
  return n;
}

static tally tally_of(const reshard_tallies *t, const reshard_state *s) {
  tally q;
  memset(&q, 0, sizeof q);
  uint32_t used = msc_reshard_used(t->p, s);
  for (int d = 0; d < t->p->rank; d++)
    for (int i = 0; i < s->num[d]; i++) q.at[t->kind_of[s->atom[d][i]]][d]++;
  for (int a = 0; a < t->p->num_atoms; a++)
    if (s->partial >> a & 1) q.at[t->kind_of[a]][t->partial]++;
    else if (!(used >> a & 1)) q.at[t->kind_of[a]][t->free]++;
  return q;
}

static bool same_kind(const reshard_problem *p, int a, int b) {
  return p->size[a] == p->size[b] && p->alpha_ns[a] == p->alpha_ns[b] && p->bytes_per_ns[a] == p->bytes_per_ns[b] &&
         p->level[a] == p->level[b];
}

static bool find_kinds(reshard_tallies *t) {
  for (int a = 0; a < t->p->num_atoms; a++) {
    int k = 0;
    while (k < t->num_kinds && !same_kind(t->p, t->atom[k], a)) k++;
    if (k == MAX_KINDS) return false;
    if (k == t->num_kinds) t->atom[t->num_kinds++] = a;
    for (int j = 0; j < k; j++) t->equal_products |= size_of_kind(t, j) == t->p->size[a];
    t->equal_products |= !t->p->prime[a];
    t->kind_of[a] = k;
    t->count[k]++;
  }
  return true;
}

reshard_tallies *msc_reshard_tallies_new(const reshard_problem *p, msc_arena *arena) {
  reshard_tallies *t = msc_new(arena, reshard_tallies);
  t->p = p, t->arena = arena, t->num = 1;
  t->partial = p->rank, t->free = p->rank + 1;
  if (p->uneven || !find_kinds(t)) return NULL;
  for (int n = 0; n < RESHARD_ATOMS + MAX_SLOTS; n++) {
    t->choose[n][0] = 1;
    for (int k = 1; k <= MAX_SLOTS && n; k++) t->choose[n][k] = t->choose[n - 1][k - 1] + t->choose[n - 1][k];
  }
  for (int k = 0; k < t->num_kinds; k++) {
    t->weight[k] = t->num;
    if (t->choose[t->count[k] + t->free][t->free] > MOST_TALLIES / t->num) return NULL;
    t->num *= t->choose[t->count[k] + t->free][t->free];
  }
  return t;
}

/* ---- the heap ---- */

#define COSTS_LESS(c, a, b) ((void)(c), (a).cost < (b).cost)
MSC_HEAP(entry, const void *, entry, COSTS_LESS, MSC_STAYS)

static void push_tally(const reshard_tallies *t, table *b, reshard_cost c, int node) {
  b->dist[node] = c;
  msc_reserve(t->arena, b->heap, b->heap_cap, b->heap_num + 1);
  entry_push(NULL, b->heap, (size_t)b->heap_num++, (entry){c, node});
}

static int pop_tally(table *b) { return entry_pop(NULL, b->heap, (size_t)b->heap_num--).node; }

/* ---- steps into a tally ---- */

/* A step backwards: x->q is the tally after it, and is changed in place into the one before it. Atoms that were taken
 * from a dimension and not yet added to another are counted in `hand`. */
typedef struct {
  reshard_tallies *t;
  table *b;
  tally q;
  int64_t parts[MSC_MAX_RANK];
  int64_t local; /* after the step */
  reshard_cost cost, limit;
  bool done;
  msc_verb verb;
  int64_t k;
  uint32_t atoms; /* one of each kind in the group */
  uint8_t hand[MAX_KINDS];
  uint32_t losers; /* dimensions that atoms were taken from */
} step;

static bool is_empty(const reshard_tallies *t, const table *b, const tally *q) {
  int n = 0;
  if (b->slot < 0) return true;
  for (int k = 0; k < t->num_kinds; k++) n += q->at[k][b->slot];
  return n <= b->most;
}

/* Lowers the distance of the tally before the step. `in`: the bytes of a part before the step. The bytes of it that the
 * source does not hold must have been received earlier; if that makes the path exceed the limit, it is dropped. */
static void relax_tally(step *x, int64_t in, reshard_cost c, bool done) {
  const reshard_problem *p = x->t->p;
  reshard_cost sum = x->cost + c;
  x->t->work++;
  if (sum > x->limit ||
      (in > p->from_local && sum + msc_reshard_cost_of(msc_reshard_least_cost(p, in - p->from_local), 0, 1) > x->limit))
    return;
  int node = 2 * number_tally(x->t, &x->q) + (done || is_empty(x->t, x->b, &x->q));
  if (sum < x->b->dist[node]) push_tally(x->t, x->b, sum, node);
}

static bool step_fits(const step *x, int64_t in, int64_t out) {
  return !x->t->p->options->peak || in + out <= x->t->p->options->peak;
}

static reshard_cost price_step(const step *x, uint32_t atoms, int64_t bytes) {
  const reshard_problem *p = x->t->p;
  return msc_reshard_cost_of(p->options->time ? msc_reshard_ns(p, x->verb, atoms, x->k, bytes) : bytes, 0, 1);
}

/* Prices the step between x->q and the tally that was made from it, and relaxes that tally. */
static void relax_step(step *x) {
  int64_t k = x->k, local = x->local, in = local;
  if (k == 1) return;
  if (msc_verb_gathers(x->verb)) in = local / k;
  if (msc_verb_scatters(x->verb) && __builtin_mul_overflow(local, k, &in)) return;
  int64_t bytes = msc_verb_received(x->verb, in, local, k);
  if (step_fits(x, in, local)) relax_tally(x, in, price_step(x, x->atoms, bytes), x->done);
}

/* Adds atoms to dimensions in every way, and relaxes each tally: all atoms in `hand`, or for all_gather any free ones.
 */
static void add_atoms(step *x, int kind, int d) {
  const reshard_tallies *t = x->t;
  if (kind == t->num_kinds) {
    relax_step(x);
    return;
  }
  uint8_t *pool = x->verb == MSC_ALL_GATHER ? &x->q.at[kind][t->free] : &x->hand[kind];
  if (d == t->p->rank) {
    if (x->verb == MSC_ALL_GATHER || !*pool) add_atoms(x, kind + 1, 0);
    return;
  }
  int64_t parts = x->parts[d], k = x->k, size = size_of_kind(t, kind);
  uint32_t atoms = x->atoms;
  int num = 0;
  add_atoms(x, kind, d + 1);
  while (*pool && !(x->losers >> d & 1) && t->p->type->dim[d] % (x->parts[d] * size) == 0) {
    (*pool)--, x->q.at[kind][d]++, num++;
    x->parts[d] *= size;
    if (x->verb == MSC_ALL_GATHER) x->k *= size, x->atoms |= 1u << t->atom[kind];
    add_atoms(x, kind, d + 1);
  }
  *pool = (uint8_t)(*pool + num), x->q.at[kind][d] = (uint8_t)(x->q.at[kind][d] - num);
  x->parts[d] = parts, x->k = k, x->atoms = atoms;
}

/* Removes atoms from dimensions in every way: into `hand`, or for reduce_scatter to the partial set. */
static void remove_atoms(step *x, int kind, int d) {
  const reshard_tallies *t = x->t;
  if (kind == t->num_kinds) {
    if (msc_verb_scatters(x->verb)) relax_step(x);
    else if (x->k > 1) add_atoms(x, 0, 0);
    return;
  }
  if (d == t->p->rank) {
    remove_atoms(x, kind + 1, 0);
    return;
  }
  uint8_t *to = msc_verb_scatters(x->verb) ? &x->q.at[kind][t->partial] : &x->hand[kind];
  int64_t parts = x->parts[d], k = x->k, size = size_of_kind(t, kind);
  uint32_t losers = x->losers, atoms = x->atoms;
  int num = 0;
  remove_atoms(x, kind, d + 1);
  while (x->q.at[kind][d]) {
    x->q.at[kind][d]--, (*to)++, num++;
    x->parts[d] /= size, x->k *= size;
    x->losers |= 1u << d, x->atoms |= 1u << t->atom[kind];
    remove_atoms(x, kind, d + 1);
  }
  *to = (uint8_t)(*to - num), x->q.at[kind][d] = (uint8_t)num;
  x->parts[d] = parts, x->k = k, x->losers = losers, x->atoms = atoms;
}

/* Makes free atoms partial in every way: the tallies before an all_reduce. */
static void unreduce(step *x, int kind) {
  const reshard_tallies *t = x->t;
  if (kind == t->num_kinds) {
    relax_step(x);
    return;
  }
  int num = 0;
  int64_t k = x->k;
  uint32_t atoms = x->atoms;
  unreduce(x, kind + 1);
  while (x->q.at[kind][t->free]) {
    x->q.at[kind][t->free]--, x->q.at[kind][t->partial]++, num++;
    x->k *= size_of_kind(t, kind), x->atoms |= 1u << t->atom[kind];
    unreduce(x, kind + 1);
  }
  x->q.at[kind][t->free] = (uint8_t)num, x->q.at[kind][t->partial] = (uint8_t)(x->q.at[kind][t->partial] - num);
  x->k = k, x->atoms = atoms;
}

static void move_one_atom(step *x, int kind, int from, int to, int64_t in) {
  x->q.at[kind][from]--, x->q.at[kind][to]++;
  relax_tally(x, in, 0, x->done);
  x->q.at[kind][from]++, x->q.at[kind][to]--;
}

/* Frees one atom of a dimension, or a partial one: the tallies before a slice. */
static void unslice(step *x) {
  const reshard_tallies *t = x->t;
  for (int k = 0; k < t->num_kinds; k++) {
    for (int d = 0; d < t->p->rank; d++)
      if (x->q.at[k][d] && step_fits(x, x->local * size_of_kind(t, k), 0))
        move_one_atom(x, k, d, t->free, x->local * size_of_kind(t, k));
    if (t->p->options->free_partial && x->q.at[k][t->partial] && step_fits(x, x->local, 0))
      move_one_atom(x, k, t->partial, t->free, x->local);
  }
}

static bool same_parts(const reshard_tallies *t, const tally *a, const tally *b) {
  for (int s = 0; s < t->free; s++)
    if (slot_size(t, a, s) != slot_size(t, b, s)) return false;
  return true;
}

/* Links tallies with the same parts into rings (next_alike). */
static void link_equal_parts(reshard_tallies *t) {
  int size = 64;
  while (size < 2 * t->num) size *= 2;
  int *first = msc_new_array(t->arena, int, size); /* tally + 1 */
  t->next_alike = msc_new_array(t->arena, int, t->num);
  for (int i = 0; i < t->num; i++) {
    tally q, other;
    uint64_t h = 0;
    memset(&q, 0, sizeof q), memset(&other, 0, sizeof other);
    tally_of_number(t, i, &q);
    for (int s = 0; s < t->free; s++) h = (h + (uint64_t)slot_size(t, &q, s)) * 0x9E3779B97F4A7C15u;
    int *slot = &first[(h >> 32) & (uint64_t)(size - 1)];
    for (; *slot; slot = slot == &first[size - 1] ? first : slot + 1) {
      tally_of_number(t, *slot - 1, &other);
      if (same_parts(t, &q, &other)) break;
    }
    t->next_alike[i] = *slot ? t->next_alike[*slot - 1] : i;
    if (*slot) t->next_alike[*slot - 1] = i;
    else *slot = i + 1;
  }
}

/* Relaxes permutes to all other tallies with the same parts, in which atoms of different kinds but equal products take
 * each other's places. */
static void permute_all(step *x) {
  const reshard_tallies *t = x->t;
  tally own = x->q;
  int number = number_tally(t, &own);
  for (int i = t->next_alike[number]; i != number; i = t->next_alike[i]) {
    uint32_t atoms = 0;
    tally_of_number(t, i, &x->q);
    for (int k = 0; k < t->num_kinds; k++)
      if (memcmp(own.at[k], x->q.at[k], sizeof own.at[k])) atoms |= 1u << t->atom[k];
    relax_tally(x, x->local, price_step(x, atoms, x->local), true);
  }
  x->q = own;
}

static void unpermute(step *x) {
  const reshard_problem *p = x->t->p;
  x->verb = MSC_PERMUTE, x->k = 2;
  if (!step_fits(x, x->local, x->local)) return;
  if (x->b->slot >= 0 && !x->done)
    relax_tally(x, x->local,
                msc_reshard_cost_of(p->options->time ? msc_reshard_least_cost(p, x->local) : x->local, 0, 1), true);
  if (x->t->equal_products) permute_all(x);
}

static void expand_tally(reshard_tallies *t, table *b, int node, reshard_cost limit) {
  step x = {
      .t = t, .b = b, .cost = b->dist[node], .limit = limit, .done = node & 1, .local = t->p->total_bytes, .k = 1};
  memset(&x.q, 0, sizeof x.q);
  tally_of_number(t, node / 2, &x.q);
  for (int d = 0; d < t->p->rank; d++) x.parts[d] = slot_size(t, &x.q, d), x.local /= x.parts[d];
  unslice(&x);
  x.verb = MSC_ALL_GATHER, add_atoms(&x, 0, 0);
  x.verb = MSC_REDUCE_SCATTER, remove_atoms(&x, 0, 0);
  x.verb = MSC_ALL_REDUCE, unreduce(&x, 0);
  x.verb = MSC_ALL_TO_ALL;
  if (!t->p->options->no_alltoall) remove_atoms(&x, 0, 0);
  unpermute(&x);
}

/* ---- tables ---- */

/* Pushes, for every tally, an exchange into the target as the last step, with a lower bound on its cost. If the slot is
 * not empty, some device holds nothing of its part of the target. */
static void push_exchanges(const reshard_tallies *t, table *b, reshard_cost limit) {
  const reshard_problem *p = t->p;
  int64_t finest = p->to_local / p->to_copies;
  if (p->options->no_alltoall) return;
  for (int i = 0; i < t->num; i++) {
    tally q;
    int64_t local = p->total_bytes;
    bool even = true;
    tally_of_number(t, i, &q);
    for (int d = 0; d < p->rank && even; d++) {
      int64_t parts = slot_size(t, &q, d);
      even = p->type->dim[d] % parts == 0;
      local /= parts;
    }
    int64_t terms = slot_size(t, &q, t->partial) / p->to_terms;
    if (!even || (terms == 0 && !p->options->free_partial)) continue;
    int64_t held = local < p->to_local ? local : p->to_local;
    bool empty = is_empty(t, b, &q);
    int64_t nested = terms <= 1 ? p->to_local - held : p->to_local + (terms - 2) * finest;
    int64_t other = terms <= 1 ? p->to_local : nested + finest;
    for (int done = b->slot < 0; done < 2; done++) {
      reshard_cost c = msc_reshard_cost_of(msc_reshard_least_cost(p, done && !empty ? other : nested), 1, 1);
      if (c <= limit && c < b->dist[2 * i + done]) push_tally(t, b, c, 2 * i + done);
    }
  }
}

static table *find_table(reshard_tallies *t, int slot, int most, reshard_cost limit) {
  for (int i = 0; i < t->num_tables; i++)
    if (t->table[i].slot == slot && t->table[i].most == most) return &t->table[i];
  if (t->num_tables == MAX_TABLES) return NULL;
  table *b = &t->table[t->num_tables++];
  tally to = tally_of(t, &t->p->to);
  b->slot = slot, b->most = most;
  b->dist = msc_new_array(t->arena, reshard_cost, 2 * t->num);
  b->closed = msc_new_array(t->arena, bool, 2 * t->num);
  for (int i = 0; i < 2 * t->num; i++) b->dist[i] = MSC_RESHARD_NO_COST;
  push_tally(t, b, 0, 2 * number_tally(t, &to) + is_empty(t, b, &to));
  push_exchanges(t, b, limit);
  return b;
}

/* A lower bound on the distance of a tally over paths that empty the slot or rearrange atoms: the distance itself, or
 * any number above the limit if it is above, or after much work the least that is still open. */
static reshard_cost find_distance(reshard_tallies *t, table *b, int number, reshard_cost limit) {
  int node = 2 * number + 1;
  if (t->equal_products && !t->next_alike) link_equal_parts(t);
  while (!b->closed[node] && b->heap_num) {
    if (b->heap[0].cost > limit || t->work > MOST_STEPS) return b->heap[0].cost;
    int next = pop_tally(b);
    if (b->closed[next]) continue;
    b->closed[next] = true;
    expand_tally(t, b, next, limit);
  }
  return b->closed[node] ? b->dist[node] : MSC_RESHARD_NO_COST;
}

reshard_cost msc_reshard_tally_bound(reshard_tallies *t, const reshard_state *s, reshard_cost limit) {
  const reshard_state *to = &t->p->to;
  tally q = tally_of(t, s);
  int number = number_tally(t, &q);
  reshard_cost best = find_distance(t, find_table(t, -1, 0, limit), number, limit);
  for (int d = 0; d < t->p->rank && best <= limit; d++) {
    int same = 0;
    while (same < s->num[d] && same < to->num[d] && s->atom[d][same] == to->atom[d][same]) same++;
    if (same == s->num[d] || same == to->num[d]) continue;
    table *b = find_table(t, d, same, limit);
    reshard_cost c = b ? find_distance(t, b, number, limit) : 0;
    if (c > best) best = c;
  }
  if ((to->partial & ~s->partial) && !t->p->options->free_partial && best <= limit) {
    table *b = find_table(t, t->partial, __builtin_popcount(s->partial & to->partial), limit);
    reshard_cost c = b ? find_distance(t, b, number, limit) : 0;
    if (c > best) best = c;
  }
  return best;
}
