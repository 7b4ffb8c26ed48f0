/* rows.c: (shape, layout) -> ns to every other layout (see rows.h). */
#include "passes/3_shard/rows.h"

#include <string.h>

#include "passes/3_shard/eliminate.h"

enum { MAX_DIGITS = SHARD_MAX_ROW_DIGITS, MASKS = 1 << MAX_DIGITS, NUM_SLOTS = 256, END = 15 };
enum { SLICE, GATHER, TO_ALL, SCATTER, REDUCE, PERMUTE, NUM_VERBS };

static const msc_op_kind kinds[NUM_VERBS] = {OP_shard, OP_all_gather, OP_all_to_all, OP_reduce_scatter, OP_all_reduce, OP_permute};

/* Digits by dimension, major first; those in neither a dimension nor `partial` are whole. */
typedef struct {
  uint8_t num[MSC_MAX_RANK], digit[MSC_MAX_RANK][MAX_DIGITS];
  uint8_t partial;
} place;

typedef struct {
  uint32_t to;
  uint8_t verb, group;
} edge;

typedef struct {
  int rank;
  size_t num, room, num_edges, room_edges;
  place *state;
  uint64_t *key;
  uint8_t *used;     /* by state: digits that cut a dimension */
  uint32_t *first, *end; /* by state: its edges; end 0: not made yet */
  edge *edge;
  uint32_t *slot;    /* open addressing, state + 1 */
  size_t mask;
  int64_t *distance; /* by state, of the run at hand */
  uint8_t *wanted;
  size_t room_distance;
} graph;

/* Costs of a shape. */
typedef struct shape {
  const msc_type *type;
  int64_t bucket;
  int8_t *fits;                            /* by state: 0 not asked, 1 yes, -1 no */
  size_t room;
  int64_t ns[NUM_VERBS][MASKS][MASKS];     /* verb, group, digits that cut before; -1: not computed */
  struct shape *next;
} shape;

struct shard_rows {
  msc_context *ctx;
  msc_arena *arena;
  const msc_cost *cost;
  bool no_alltoall;
  int num;
  msc_subaxis digit[MAX_DIGITS];
  int level[MAX_DIGITS];
  graph *of_rank[MSC_MAX_RANK + 1];
  shape *of_type[NUM_SLOTS];
  struct { int64_t ns; uint32_t state; } *heap;
  size_t num_heap, room_heap;
};

shard_rows *shard_rows_new(msc_context *ctx, msc_arena *arena, const msc_cost *cost, bool no_alltoall, int num, const msc_subaxis *digit) {
  if (num > MAX_DIGITS) return NULL;
  shard_rows *r = msc_new(arena, shard_rows);
  r->ctx = ctx, r->arena = arena, r->cost = cost, r->no_alltoall = no_alltoall, r->num = num;
  for (int i = 0; i < num; i++) {
    r->digit[i] = digit[i];
    r->level[i] = msc_cost_level(cost, digit[i]);
  }
  return r;
}

/* ---- states ---- */

static uint64_t key_of(int rank, const place *s) {
  uint64_t k = 0; /* 13 groups of four bits at most */
  for (int d = 0; d < rank; d++) {
    for (int i = 0; i < s->num[d]; i++) k = k << 4 | (uint64_t)(s->digit[d][i] + 1);
    k = k << 4 | END;
  }
  return k | (uint64_t)s->partial << 56;
}

static void *grown(msc_arena *a, const void *old, size_t num, size_t room, size_t bytes) {
  void *p = msc_arena_alloc(a, room * bytes);
  if (num) memcpy(p, old, num * bytes);
  return p;
}

static void rehash(shard_rows *r, graph *g) {
  g->mask = 4 * g->room - 1;
  g->slot = msc_new_array(r->arena, uint32_t, g->mask + 1);
  for (size_t i = 0; i < g->num; i++) {
    size_t at = (size_t)(g->key[i] * 0x9E3779B97F4A7C15u >> 20);
    while (g->slot[at & g->mask]) at++;
    g->slot[at & g->mask] = (uint32_t)i + 1;
  }
}

static uint32_t number_of(shard_rows *r, graph *g, const place *s) {
  uint64_t key = key_of(g->rank, s);
  size_t at = (size_t)(key * 0x9E3779B97F4A7C15u >> 20);
  for (; g->slot[at & g->mask]; at++)
    if (g->key[g->slot[at & g->mask] - 1] == key) return g->slot[at & g->mask] - 1;
  if (g->num == g->room) {
    g->room *= 2;
    g->state = grown(r->arena, g->state, g->num, g->room, sizeof *g->state);
    g->key = grown(r->arena, g->key, g->num, g->room, sizeof *g->key);
    g->used = grown(r->arena, g->used, g->num, g->room, sizeof *g->used);
    g->first = grown(r->arena, g->first, g->num, g->room, sizeof *g->first);
    g->end = grown(r->arena, g->end, g->num, g->room, sizeof *g->end);
    rehash(r, g);
    for (at = (size_t)(key * 0x9E3779B97F4A7C15u >> 20); g->slot[at & g->mask];) at++;
  }
  g->slot[at & g->mask] = (uint32_t)g->num + 1;
  g->state[g->num] = *s;
  g->key[g->num] = key;
  for (int d = 0; d < g->rank; d++)
    for (int i = 0; i < s->num[d]; i++) g->used[g->num] |= (uint8_t)(1u << s->digit[d][i]);
  return (uint32_t)g->num++;
}

/* ---- edges ---- */

typedef struct {
  shard_rows *r;
  graph *g;
  place from, s;
  uint8_t group, lose;  /* digits that move; dimensions that lose some */
} expansion;

static void add_edge(expansion *x, int verb, uint8_t group) {
  graph *g = x->g;
  if (g->num_edges == g->room_edges) {
    g->room_edges = g->room_edges ? 2 * g->room_edges : 4096;
    g->edge = grown(x->r->arena, g->edge, g->num_edges, g->room_edges, sizeof *g->edge);
  }
  uint32_t to = number_of(x->r, g, &x->s);
  g->edge[g->num_edges++] = (edge){to, (uint8_t)verb, group};
}

/* Appends the digits of `left` to dimensions from d on that lose none, in any order.  Depth is bounded by the digits. */
static void append_digits(expansion *x, int verb, uint8_t left, int d) {
  if (!left) {
    add_edge(x, verb, x->group);
    return;
  }
  for (; d < x->g->rank; d++)
    for (int a = 0; a < x->r->num && !(x->lose >> d & 1); a++) {
      if (!(left >> a & 1)) continue;
      x->s.digit[d][x->s.num[d]++] = (uint8_t)a;
      append_digits(x, verb, (uint8_t)(left & ~(1u << a)), d);
      x->s.num[d]--;
    }
}

/* Takes suffixes off dimensions from d on; what they held is gathered, or goes to the other dimensions. */
static void take_suffixes(expansion *x, int d) {
  if (d == x->g->rank) {
    if (!x->group) return;
    add_edge(x, GATHER, x->group);
    if (!x->r->no_alltoall) append_digits(x, TO_ALL, x->group, 0);
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

static int64_t size_of(const shard_rows *r, unsigned digits) {
  int64_t n = 1;
  for (int a = 0; a < r->num; a++)
    if (digits >> a & 1) n *= r->digit[a].size;
  return n;
}

/* Where a digit is: dimension, how many parts are before it; partial or whole. */
static int64_t spot(const shard_rows *r, int rank, const place *s, int digit) {
  for (int d = 0; d < rank; d++) {
    int64_t before = 1;
    for (int i = 0; i < s->num[d]; i++) {
      if (s->digit[d][i] == digit) return before * 16 + d;
      before *= r->digit[s->digit[d][i]].size;
    }
  }
  return s->partial >> digit & 1 ? 14 : 15;
}

static void add_permute(expansion *x) {
  uint8_t moved = 0;
  for (int a = 0; a < x->r->num; a++)
    if (spot(x->r, x->g->rank, &x->from, a) != spot(x->r, x->g->rank, &x->s, a)) moved |= (uint8_t)(1u << a);
  if (moved) add_edge(x, PERMUTE, moved);
}

/* All states with as many parts per dimension, and as many terms, as x->from: whole blocks change places. */
static void permute_digits(expansion *x, int d, uint8_t left, int64_t parts) {
  const place *from = &x->from;
  if (d == x->g->rank) {
    int64_t terms = size_of(x->r, from->partial);
    for (unsigned p = left;; p = (p - 1) & left) {
      x->s.partial = (uint8_t)p;
      if (size_of(x->r, p) == terms) add_permute(x);
      if (!p) break;
    }
    return;
  }
  if (parts == 1) {
    int64_t next = 1;
    for (int i = 0; d + 1 < x->g->rank && i < from->num[d + 1]; i++) next *= x->r->digit[from->digit[d + 1][i]].size;
    permute_digits(x, d + 1, left, next);
    return;
  }
  for (int a = 0; a < x->r->num; a++) {
    if (!(left >> a & 1) || parts % x->r->digit[a].size) continue;
    x->s.digit[d][x->s.num[d]++] = (uint8_t)a;
    permute_digits(x, d, (uint8_t)(left & ~(1u << a)), parts / x->r->digit[a].size);
    x->s.num[d]--;
  }
}

static void expand(shard_rows *r, graph *g, size_t state) {
  expansion x = {.r = r, .g = g, .from = g->state[state]};
  uint8_t all = (uint8_t)((1u << r->num) - 1), free = (uint8_t)(all & ~g->used[state] & ~x.from.partial);
  x.s = x.from;
  for (int a = 0; a < r->num; a++)
    if (free >> a & 1) append_digits(&x, SLICE, (uint8_t)(1u << a), 0);
  take_suffixes(&x, 0);
  for (unsigned p = x.from.partial; p; p = (p - 1) & x.from.partial) {
    x.s.partial = (uint8_t)(x.from.partial & ~p);
    x.group = (uint8_t)p;
    add_edge(&x, REDUCE, x.group);
    append_digits(&x, SCATTER, x.group, 0);
  }
  memset(&x.s, 0, sizeof x.s);
  int64_t parts = 1;
  for (int i = 0; g->rank && i < x.from.num[0]; i++) parts *= r->digit[x.from.digit[0][i]].size;
  permute_digits(&x, 0, all, parts);
}

static graph *graph_of(shard_rows *r, int rank) {
  graph *g = r->of_rank[rank];
  if (g) return g;
  r->of_rank[rank] = g = msc_new(r->arena, graph);
  g->rank = rank;
  g->room = 256;
  g->state = msc_new_array(r->arena, place, g->room);
  g->key = msc_new_array(r->arena, uint64_t, g->room);
  g->used = msc_new_array(r->arena, uint8_t, g->room);
  g->first = msc_new_array(r->arena, uint32_t, g->room);
  g->end = msc_new_array(r->arena, uint32_t, g->room);
  rehash(r, g);
  return g;
}

/* Edges are made when a state is first left. */
static void need_edges(shard_rows *r, graph *g, uint32_t state) {
  if (g->end[state]) return;
  uint32_t first = (uint32_t)g->num_edges;
  expand(r, g, state);
  g->first[state] = first, g->end[state] = (uint32_t)g->num_edges;
}

/* ---- costs of a shape ---- */

static shape *shape_of(shard_rows *r, const msc_type *type, int64_t bucket) {
  shape **slot = &r->of_type[(size_t)((uint64_t)(uintptr_t)type * 0x9E3779B97F4A7C15u >> 40) % NUM_SLOTS];
  for (shape *s = *slot; s; s = s->next)
    if (s->type == type && s->bucket == bucket) return s;
  shape *s = msc_new(r->arena, shape);
  s->type = type, s->bucket = bucket;
  memset(s->ns, -1, sizeof s->ns);
  s->next = *slot;
  return *slot = s;
}

/* Do the parts divide the shape? */
static bool fits(const shard_rows *r, const graph *g, shape *s, uint32_t state) {
  if (state >= s->room) {
    s->fits = grown(r->arena, s->fits, s->room, g->room, 1);
    s->room = g->room;
  }
  if (s->fits[state]) return s->fits[state] > 0;
  bool ok = true;
  for (int d = 0; d < g->rank; d++) {
    int64_t parts = 1;
    for (int k = 0; k < g->state[state].num[d]; k++) parts *= r->digit[g->state[state].digit[d][k]].size;
    ok &= s->type->dim[d] % parts == 0;
  }
  s->fits[state] = ok ? 1 : -1;
  return ok;
}

static int64_t edge_ns(const shard_rows *r, shape *s, int verb, unsigned group, unsigned used) {
  int64_t *known = &s->ns[verb][group][used];
  if (*known >= 0) return *known;
  int64_t local = msc_type_bytes(s->type) / size_of(r, used), k = size_of(r, group);
  msc_cost_transfer t = {.verb = kinds[verb], .ranks = k, .bytes = local};
  if (verb == GATHER) t.bytes = (k - 1) * local;
  if (verb == TO_ALL || verb == SCATTER) t.bytes = local - local / k;
  if (verb == REDUCE) t.bytes = 2 * (local - local / k);
  for (int a = 0; a < r->num; a++)
    if (group >> a & 1 && r->level[a] > t.level) t.level = r->level[a];
  return *known = verb == SLICE ? 0 : msc_cost_shared(r->cost, &t, s->bucket);
}

/* ---- one row ---- */

static void push(shard_rows *r, int64_t ns, uint32_t state) {
  if (r->num_heap == r->room_heap) {
    r->heap = grown(r->arena, r->heap, r->num_heap, 2 * r->room_heap + 1024, sizeof *r->heap);
    r->room_heap = 2 * r->room_heap + 1024;
  }
  size_t at = r->num_heap++;
  for (; at > 0 && ns < r->heap[(at - 1) / 2].ns; at = (at - 1) / 2) r->heap[at] = r->heap[(at - 1) / 2];
  r->heap[at].ns = ns, r->heap[at].state = state;
}

static uint32_t pop(shard_rows *r, int64_t *out_ns) {
  uint32_t top = r->heap[0].state, last = r->heap[--r->num_heap].state;
  int64_t ns = r->heap[r->num_heap].ns;
  *out_ns = r->heap[0].ns;
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < r->num_heap; at = child) {
    if (child + 1 < r->num_heap && r->heap[child + 1].ns < r->heap[child].ns) child++;
    if (r->heap[child].ns >= ns) break;
    r->heap[at] = r->heap[child];
  }
  r->heap[at].ns = ns, r->heap[at].state = last;
  return top;
}

static void make_distances(shard_rows *r, graph *g) {
  if (g->room_distance >= g->num) return;
  size_t room = 2 * g->room;
  g->distance = grown(r->arena, g->distance, g->room_distance, room, sizeof *g->distance);
  g->wanted = grown(r->arena, g->wanted, g->room_distance, room, 1);
  for (size_t i = g->room_distance; i < room; i++) g->distance[i] = INT64_MAX;
  g->room_distance = room;
}

/* Until every wanted state has its distance, or nothing is left. */
static void run(shard_rows *r, graph *g, shape *s, uint32_t from, int num_wanted) {
  g->distance[from] = 0;
  r->num_heap = 0;
  push(r, 0, from);
  while (r->num_heap && num_wanted > 0) {
    int64_t ns;
    uint32_t u = pop(r, &ns);
    if (ns > g->distance[u]) continue;
    num_wanted -= g->wanted[u];
    need_edges(r, g, u);
    make_distances(r, g);
    for (const edge *e = g->edge + g->first[u], *end = g->edge + g->end[u]; e < end; e++) {
      if (g->distance[e->to] <= ns || !fits(r, g, s, e->to)) continue;
      int64_t there = ns + edge_ns(r, s, e->verb, e->group, g->used[u]);
      if (there >= g->distance[e->to]) continue;
      g->distance[e->to] = there;
      push(r, there, e->to);
    }
  }
}

/* The digits of the layout's, in order; false: others. */
static bool put_digits(const shard_rows *r, int num, const msc_subaxis *s, uint8_t *out_digit, uint8_t *out_num) {
  *out_num = 0;
  for (int i = 0; i < num; i++)
    for (uint32_t pre = s[i].pre; pre < s[i].pre * s[i].size;) {
      int a = 0;
      while (a < r->num && !(r->digit[a].axis == s[i].axis && r->digit[a].pre == pre)) a++;
      if (a == r->num || pre * r->digit[a].size > s[i].pre * s[i].size) return false;
      out_digit[(*out_num)++] = (uint8_t)a;
      pre *= r->digit[a].size;
    }
  return true;
}

static bool place_of(const shard_rows *r, const msc_layout *l, place *out) {
  uint8_t partial[MAX_DIGITS], num;
  memset(out, 0, sizeof *out);
  for (int d = 0; d < l->rank; d++)
    if (!put_digits(r, l->first[d + 1] - l->first[d], l->sub + l->first[d], out->digit[d], &out->num[d])) return false;
  if (!put_digits(r, l->num_partial, l->sub + l->first[l->rank], partial, &num)) return false;
  for (int i = 0; i < num; i++) out->partial |= (uint8_t)(1u << partial[i]);
  return true;
}

/* Number of a layout's state; false: none that fits. */
static bool state_of(shard_rows *r, graph *g, shape *of, const msc_layout *l, uint32_t *out_state) {
  place s;
  MSC_TRY(place_of(r, l, &s));
  *out_state = number_of(r, g, &s);
  return fits(r, g, of, *out_state);
}

bool shard_rows_costs(shard_rows *r, const msc_type *type, int64_t bucket, const msc_layout *from, int num, const msc_layout *const *to, int64_t *out_ns) {
  graph *g = graph_of(r, type->rank);
  shape *of = shape_of(r, type, bucket);
  uint32_t begin, at;
  MSC_TRY(state_of(r, g, of, from, &begin));
  for (int i = 0; i < num; i++) MSC_TRY(state_of(r, g, of, to[i], &at));
  make_distances(r, g);
  for (size_t i = 0; i < g->num; i++) g->distance[i] = INT64_MAX;
  int wanted = 0;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < num; i++) {
      state_of(r, g, of, to[i], &at);
      wanted += !k && !g->wanted[at];
      g->wanted[at] = k == 0;
      if (k) out_ns[i] = g->distance[at] == INT64_MAX ? -1 : g->distance[at];
      if (!k && i == num - 1) run(r, g, of, begin, wanted);
    }
  return true;
}
