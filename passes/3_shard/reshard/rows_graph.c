/* rows_graph.c: digits and a rank -> numbered states and the edges out of them (see rows_graph.h). */
#include "passes/3_shard/reshard/rows_graph.h"

#include <string.h>

enum { END = 15 };

struct rows_permute {
  uint32_t to;
  uint8_t moved;
};

int64_t rows_size(const rows_digits *d, unsigned set) {
  int64_t n = 1;
  for (int a = 0; a < d->num; a++)
    if (set >> a & 1) n *= d->size[a];
  return n;
}

int64_t rows_parts(const rows_digits *d, const rows_place *s, int dim) {
  int64_t n = 1;
  for (int i = 0; i < s->num[dim]; i++) n *= d->size[s->digit[dim][i]];
  return n;
}

int rows_level(const rows_digits *d, unsigned set) {
  int level = 0;
  for (int a = 0; a < d->num; a++)
    if (set >> a & 1 && d->level[a] > level) level = d->level[a];
  return level;
}

/* ---- states ---- */

static uint64_t key_of_place(int rank, const rows_place *s) {
  uint64_t k = 0; /* 13 groups of four bits at most */
  for (int d = 0; d < rank; d++) {
    for (int i = 0; i < s->num[d]; i++) k = k << 4 | (uint64_t)(s->digit[d][i] + 1);
    k = k << 4 | END;
  }
  return k | (uint64_t)s->partial << 56;
}

rows_graph *rows_graph_new(msc_arena *arena, const rows_digits *digits, int rank) {
  rows_graph *g = msc_new(arena, rows_graph);
  g->arena = g->numbers.arena = g->shared.index.arena = arena, g->digits = digits, g->rank = rank;
  return g;
}

/* Writes where each digit is, as a number: 16 times the parts before it plus its dimension; 14: partial; 15: whole. */
static void put_spots(const rows_digits *r, int rank, const rows_place *s, int64_t *out_spot) {
  for (int a = 0; a < r->num; a++) out_spot[a] = s->partial >> a & 1 ? 14 : 15;
  for (int d = 0; d < rank; d++) {
    int64_t before = 1;
    for (int i = 0; i < s->num[d]; i++) {
      out_spot[s->digit[d][i]] = before * 16 + d;
      before *= r->size[s->digit[d][i]];
    }
  }
}

uint32_t rows_state(rows_graph *g, const rows_place *s) {
  uint64_t key = key_of_place(g->rank, s), hash = msc_mix(0, key);
  MSC_INDEX_EACH(&g->numbers, hash, i) if (g->key[i] == key) return i;
  uint32_t n = (uint32_t)g->num;
  if (n == g->room) {
    g->room = g->room ? 2 * g->room : 64;
    g->state = msc_array_copy(g->arena, g->state, n, g->room, sizeof *g->state);
    g->key = msc_array_copy(g->arena, g->key, n, g->room, sizeof *g->key);
    g->leaving = msc_array_copy(g->arena, g->leaving, n, g->room, sizeof *g->leaving);
    g->spot = msc_array_copy(g->arena, g->spot, n, g->room, sizeof *g->spot);
  }
  msc_index_add(&g->numbers, hash, n);
  g->state[n] = *s;
  g->key[n] = key;
  put_spots(g->digits, g->rank, s, g->spot[n]);
  for (int d = 0; d < g->rank; d++)
    for (int i = 0; i < s->num[d]; i++) g->leaving[n].used |= (uint8_t)(1u << s->digit[d][i]);
  g->num++;
  return n;
}

uint8_t rows_moved(const rows_graph *g, uint32_t from, uint32_t to) {
  unsigned moved = 0;
  for (int a = 0; a < g->digits->num; a++) moved |= (unsigned)(g->spot[from][a] != g->spot[to][a]) << a;
  return (uint8_t)moved;
}

/* ---- edges ---- */

typedef struct {
  const rows_digits *r;
  rows_graph *g;
  rows_place from, s;
  uint32_t at;         /* the state `from` */
  uint8_t group, lose; /* digits that move; dimensions that lose some */
  uint32_t least;      /* the least number of the states that are a permute away, and of `from` */
} expansion;

static void add_target(rows_graph *g, uint32_t to) {
  msc_reserve(g->arena, g->to, g->room_to, g->num_to + 1);
  g->to[g->num_to++] = to;
}

static void add_own_state(expansion *x) {
  uint32_t to = rows_state(x->g, &x->s);
  add_target(x->g, to);
}

/* Finds or adds the shared targets with this key; `end` is 0 until they are added. The pointer is valid until the next
 * call. */
static struct rows_shared *find_shared_targets(rows_graph *g, uint64_t key) {
  struct rows_shared *t = msc_table_at(&g->shared, &key);
  if (!t->end) t->first = (uint32_t)g->num_to;
  return t;
}

static void add_batch(rows_graph *g, rows_batch b) {
  msc_reserve(g->arena, g->batch, g->room_batches, g->num_batches + 1);
  g->batch[g->num_batches++] = b;
}

/* Makes a batch of the targets added from `first` on. */
static void add_own_batch(expansion *x, int verb, uint8_t group, size_t first) {
  if (x->g->num_to > first)
    add_batch(x->g, (rows_batch){(uint8_t)verb, group, 0, (uint32_t)first, (uint32_t)x->g->num_to});
}

static void add_shared_batch(expansion *x, int verb, uint8_t group, const struct rows_shared *t) {
  uint32_t number = (uint32_t)(t - x->g->shared.item) + 1;
  add_batch(x->g, (rows_batch){(uint8_t)verb, group, number, t->first, t->end});
}

/* Appends the digits of `left` to dimensions from d on that lose none, in any order. Recursion depth: the number of
 * digits. */
static void append_digits(expansion *x, uint8_t left, int d) {
  if (!left) {
    add_own_state(x);
    return;
  }
  for (; d < x->g->rank; d++)
    for (int a = 0; a < x->r->num && !(x->lose >> d & 1); a++) {
      if (!(left >> a & 1)) continue;
      x->s.digit[d][x->s.num[d]++] = (uint8_t)a;
      append_digits(x, (uint8_t)(left & ~(1u << a)), d);
      x->s.num[d]--;
    }
}

/* Makes the edges that remove the group's digits from where they are: gathered, or appended to dimensions that lose
 * none. */
static void move_group(expansion *x) {
  rows_graph *g = x->g;
  size_t first = g->num_to;
  uint32_t rest = rows_state(g, &x->s);
  add_target(g, rest);
  add_own_batch(x, MSC_ALL_GATHER, x->group, first);
  if (x->r->no_alltoall) return;
  struct rows_shared *t = find_shared_targets(g, (uint64_t)rest << 16 | (uint64_t)x->group << 8 | x->lose);
  if (!t->end) append_digits(x, x->group, 0), t->end = (uint32_t)g->num_to;
  if (t->end > t->first) add_shared_batch(x, MSC_ALL_TO_ALL, x->group, t);
}

/* Chooses minor suffixes to remove, of dimensions from d on. */
static void take_suffixes(expansion *x, int d) {
  if (d == x->g->rank) {
    if (x->group) move_group(x);
    return;
  }
  take_suffixes(x, d + 1);
  int num = x->s.num[d];
  uint8_t group = x->group;
  x->lose |= (uint8_t)(1u << d);
  while (x->s.num[d] > 0) {
    x->group |= (uint8_t)(1u << x->s.digit[d][--x->s.num[d]]);
    take_suffixes(x, d + 1);
  }
  x->s.num[d] = (uint8_t)num;
  x->group = group;
  x->lose &= (uint8_t) ~(1u << d);
}

static void add_permute(expansion *x) {
  rows_graph *g = x->g;
  uint32_t to = rows_state(g, &x->s);
  uint8_t moved = rows_moved(g, x->at, to);
  if (to < x->least) x->least = to;
  msc_reserve(g->arena, g->permute, g->room_permutes, g->num_permutes + 1);
  g->permute[g->num_permutes++] = (struct rows_permute){to, moved};
}

/* Makes permutes to all states with as many parts per dimension, and as many partial terms, as x->from. */
static void permute_digits(expansion *x, int d, uint8_t left, int64_t parts) {
  const rows_place *from = &x->from;
  if (d == x->g->rank) {
    int64_t terms = rows_size(x->r, from->partial);
    for (unsigned p = left;; p = (p - 1) & left) {
      x->s.partial = (uint8_t)p;
      if (rows_size(x->r, p) == terms) add_permute(x);
      if (!p) break;
    }
    return;
  }
  if (parts == 1) {
    permute_digits(x, d + 1, left, d + 1 < x->g->rank ? rows_parts(x->r, from, d + 1) : 1);
    return;
  }
  for (int a = 0; a < x->r->num; a++) {
    if (!(left >> a & 1) || parts % x->r->size[a]) continue;
    x->s.digit[d][x->s.num[d]++] = (uint8_t)a;
    permute_digits(x, d, (uint8_t)(left & ~(1u << a)), parts / x->r->size[a]);
    x->s.num[d]--;
  }
}

/* Makes the permutes out of a state, in batches by the digits that move. A permute over the outermost links costs the
 * same from every state with the same parts, and no permute costs more, so all these states share its targets. */
static void expand_permutes(expansion *x) {
  rows_graph *g = x->g;
  bool far = false;
  x->least = UINT32_MAX;
  g->num_permutes = 0;
  memset(&x->s, 0, sizeof x->s);
  permute_digits(x, 0, (uint8_t)((1u << x->r->num) - 1), g->rank ? rows_parts(x->r, &x->from, 0) : 1);
  for (unsigned m = 1; m < 1u << x->r->num; m++) {
    bool outermost = x->r->orderly && rows_level(x->r, m) == x->r->outermost;
    size_t first = g->num_to, num = 0;
    for (size_t i = 0; i < g->num_permutes; i++) {
      if (g->permute[i].moved != m) continue;
      num++;
      if (!outermost) add_target(g, g->permute[i].to);
    }
    if (!outermost) add_own_batch(x, MSC_PERMUTE, (uint8_t)m, first);
    if (!outermost || !num || far) continue;
    far = true;
    struct rows_shared *t = find_shared_targets(g, (uint64_t)1 << 63 | x->least);
    for (size_t i = 0; !t->end && i < g->num_permutes; i++) add_target(g, g->permute[i].to);
    t->end = t->end ? t->end : (uint32_t)g->num_to;
    add_shared_batch(x, MSC_PERMUTE, (uint8_t)m, t);
  }
}

void rows_need_edges(rows_graph *g, uint32_t state) {
  if (g->leaving[state].end) return;
  expansion x = {.r = g->digits, .g = g, .from = g->state[state], .at = state};
  uint8_t all = (uint8_t)((1u << x.r->num) - 1), free = (uint8_t)(all & ~g->leaving[state].used & ~x.from.partial);
  size_t first = g->num_to;
  uint32_t first_batch = (uint32_t)g->num_batches;
  x.s = x.from;
  for (int a = 0; a < x.r->num; a++) {
    if (!(free >> a & 1)) continue;
    append_digits(&x, (uint8_t)(1u << a), 0);
    if (!x.r->free_partial) continue;
    x.s.partial |= (uint8_t)(1u << a);
    add_own_state(&x);
    x.s.partial = x.from.partial;
  }
  add_batch(g, (rows_batch){MSC_SHARD, 0, 0, (uint32_t)first, (uint32_t)g->num_to}); /* there is always one batch */
  take_suffixes(&x, 0);
  for (unsigned p = x.from.partial; p; p = (p - 1) & x.from.partial) {
    x.s.partial = (uint8_t)(x.from.partial & ~p);
    x.group = (uint8_t)p;
    first = g->num_to;
    add_own_state(&x);
    add_own_batch(&x, MSC_ALL_REDUCE, x.group, first);
    first = g->num_to;
    append_digits(&x, x.group, 0);
    add_own_batch(&x, MSC_REDUCE_SCATTER, x.group, first);
  }
  expand_permutes(&x);
  g->leaving[state].first = first_batch, g->leaving[state].end = (uint32_t)g->num_batches;
}
