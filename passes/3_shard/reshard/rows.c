/* rows.c: (shape, layout) -> ns to every other layout (see rows.h). */
#include "passes/3_shard/reshard/rows.h"

#include <string.h>

#include "passes/3_shard/reshard/rows_graph.h"

enum { MAX_DIGITS = ROWS_MAX_DIGITS, NUM_SLOTS = 64, MOST_KEPT = 1 << 28 };

static const msc_op_kind kinds[ROWS_NUM_VERBS] = {OP_shard,          OP_all_gather, OP_all_to_all,
                                                  OP_reduce_scatter, OP_all_reduce, OP_permute};

/* Times from one state to those that had a number at the time; INT64_MAX: not reached, -1: uneven. */
typedef struct {
  int64_t *ns; /* NULL: not asked */
  size_t num;
  bool partial; /* to partial ones too */
} row;

/* What times depend on: the bytes, and which sets of digits divide each dimension; dimensions in ascending
 * order of these. */
typedef struct shape {
  rows_graph *g;
  int64_t bytes, bucket;
  uint32_t divides[MSC_MAX_RANK]; /* bit s: the digits of set s together do */
  int64_t *ns;                    /* by digits that cut before, verb, group; -1: not computed */
  size_t num_fits, room_fits, room_rows;
  int64_t *fits; /* by state: INT64_MAX, or -1: uneven */
  row *row;
  struct shape *next;
} shape;

/* Dimensions and digits that change places. */
typedef struct turn {
  uint8_t dim[MSC_MAX_RANK], digit[MAX_DIGITS];
  size_t room;
  uint32_t *state; /* by state: what it becomes, + 1 */
  struct turn *next;
} turn;

typedef struct view {
  const msc_type *type;
  int64_t bucket;
  shape *of;
  uint8_t order[MSC_MAX_RANK]; /* by dimension: its place in the shape */
  turn *turns;
  struct view *next;
} view;

typedef struct {
  int64_t ns;
  uint32_t state;
} waiting;

struct shard_rows {
  msc_arena *arena;
  const msc_cost *cost;
  msc_subaxis digit[MAX_DIGITS];
  rows_digits digits;
  rows_graph *of_rank[MSC_MAX_RANK + 1];
  shape *shapes;
  view *of_type[NUM_SLOTS];
  size_t kept;       /* bytes of rows */
  int64_t *distance; /* by state, of the run at hand */
  uint32_t *left;    /* by shared targets: the run that took them last */
  uint32_t runs;
  size_t room_distance, room_left;
  waiting *heap;
  size_t num_heap, room_heap;
  uint32_t *at_once; /* states that are as near as the one at hand */
  size_t num_at_once, room_at_once;
};

static bool is_orderly(const msc_cluster *c) {
  for (int l = 1; l < c->num_levels; l++)
    if (c->level[l].latency_ns < c->level[l - 1].latency_ns || c->level[l].bytes_per_s > c->level[l - 1].bytes_per_s)
      return false;
  for (size_t i = 0; i < c->num_measures; i++)
    if (c->measure[i].verb == OP_permute) return false;
  return true;
}

shard_rows *shard_rows_new(msc_arena *arena, const msc_cost *cost, bool no_alltoall, int num,
                           const msc_subaxis *digit) {
  if (num > MAX_DIGITS) return NULL;
  shard_rows *r = msc_new(arena, shard_rows);
  r->arena = arena, r->cost = cost;
  r->digits = (rows_digits){.no_alltoall = no_alltoall, .orderly = is_orderly(cost->cluster), .num = num};
  for (int i = 0; i < num; i++) {
    r->digit[i] = digit[i];
    r->digits.size[i] = digit[i].size;
    r->digits.level[i] = msc_cost_level(cost, digit[i]);
  }
  r->digits.outermost = rows_level(&r->digits, (1u << num) - 1);
  return r;
}

static rows_graph *graph_of(shard_rows *r, int rank) {
  if (!r->of_rank[rank]) r->of_rank[rank] = rows_graph_new(r->arena, &r->digits, rank);
  return r->of_rank[rank];
}

/* ---- shapes ---- */

static uint32_t sets_that_divide(const shard_rows *r, int64_t size) {
  uint32_t sets = 0;
  for (unsigned s = 0; s < 1u << r->digits.num; s++)
    if (size % rows_size(&r->digits, s) == 0) sets |= 1u << s;
  return sets;
}

static shape *shape_of(shard_rows *r, int rank, const uint32_t *divides, int64_t bytes, int64_t bucket) {
  rows_graph *g = graph_of(r, rank);
  for (shape *s = r->shapes; s; s = s->next)
    if (s->g == g && s->bytes == bytes && s->bucket == bucket && !memcmp(s->divides, divides, sizeof s->divides))
      return s;
  shape *s = msc_new(r->arena, shape);
  size_t entries = (size_t)ROWS_NUM_VERBS << 2 * r->digits.num;
  *s = (shape){
      .g = g, .bytes = bytes, .bucket = bucket, .ns = msc_new_array(r->arena, int64_t, entries), .next = r->shapes};
  memcpy(s->divides, divides, sizeof s->divides);
  memset(s->ns, -1, entries * sizeof *s->ns);
  return r->shapes = s;
}

static view *view_of(shard_rows *r, const msc_type *type, int64_t bucket) {
  view **slot = &r->of_type[(size_t)((uint64_t)(uintptr_t)type * 0x9E3779B97F4A7C15u >> 40) % NUM_SLOTS];
  for (view *v = *slot; v; v = v->next)
    if (v->type == type && v->bucket == bucket) return v;
  view *v = msc_new(r->arena, view);
  uint32_t divides[MSC_MAX_RANK] = {0}, of_dim[MSC_MAX_RANK];
  for (int d = 0; d < type->rank; d++) of_dim[d] = sets_that_divide(r, type->dim[d]);
  for (int d = 0; d < type->rank; d++) {
    for (int e = 0; e < type->rank; e++) v->order[d] += of_dim[e] < of_dim[d] || (of_dim[e] == of_dim[d] && e < d);
    divides[v->order[d]] = of_dim[d];
  }
  v->type = type, v->bucket = bucket, v->next = *slot;
  v->of = shape_of(r, type->rank, divides, msc_type_bytes(type), bucket);
  return *slot = v;
}

static int64_t batch_ns(const shard_rows *r, shape *s, const rows_batch *b, unsigned used) {
  int n = r->digits.num;
  int64_t *known = &s->ns[((size_t)used * ROWS_NUM_VERBS + b->verb) << n | b->group];
  if (*known >= 0) return *known;
  int64_t local = s->bytes / rows_size(&r->digits, used), k = rows_size(&r->digits, b->group);
  msc_cost_transfer t = {.verb = kinds[b->verb], .ranks = k, .bytes = local, .level = rows_level(&r->digits, b->group)};
  if (b->verb == ROWS_GATHER) t.bytes = (k - 1) * local;
  if (b->verb == ROWS_TO_ALL || b->verb == ROWS_SCATTER) t.bytes = local - local / k;
  if (b->verb == ROWS_REDUCE) t.bytes = 2 * (local - local / k);
  return *known = b->verb == ROWS_SLICE ? 0 : msc_cost_shared(r->cost, &t, s->bucket);
}

/* Whether the states' parts divide the shape, for all that have a number. */
static void need_fits(shard_rows *r, shape *s) {
  rows_graph *g = s->g;
  if (s->room_fits < g->num) {
    s->fits = rows_grown(r->arena, s->fits, s->num_fits, g->room, sizeof *s->fits);
    s->room_fits = g->room;
  }
  for (; s->num_fits < g->num; s->num_fits++) {
    const rows_place *p = &g->state[s->num_fits];
    bool fits = true;
    for (int d = 0; d < g->rank; d++) {
      unsigned set = 0;
      for (int i = 0; i < p->num[d]; i++) set |= 1u << p->digit[d][i];
      fits &= s->divides[d] >> set & 1;
    }
    s->fits[s->num_fits] = fits ? INT64_MAX : -1;
  }
}

/* ---- turning ---- */

static void turn_place(const rows_digits *digits, int rank, const uint8_t *dim, const uint8_t *digit,
                       const rows_place *s, rows_place *out) {
  memset(out, 0, sizeof *out);
  for (int d = 0; d < rank; d++) {
    out->num[dim[d]] = s->num[d];
    for (int i = 0; i < s->num[d]; i++) out->digit[dim[d]][i] = digit[s->digit[d][i]];
  }
  for (int a = 0; a < digits->num; a++)
    if (s->partial >> a & 1) out->partial |= (uint8_t)(1u << digit[a]);
}

static uint64_t dim_key(const rows_place *s, int d) {
  uint64_t k = s->num[d];
  for (int i = 0; i < s->num[d]; i++) k = k << 4 | s->digit[d][i];
  return k;
}

/* The order of the dimensions in which like ones are sorted by their digits. */
static void sort_dims(const view *v, const uint8_t *digit, const rows_digits *digits, const rows_place *s,
                      uint8_t *out_dim) {
  rows_place p;
  int rank = v->type->rank;
  uint8_t same[MSC_MAX_RANK];
  for (int d = 0; d < rank; d++) same[d] = (uint8_t)d;
  turn_place(digits, rank, same, digit, s, &p);
  for (int d = 0; d < rank; d++) {
    out_dim[d] = 0;
    for (int e = 0; e < rank; e++) {
      uint32_t mine = v->of->divides[v->order[d]], theirs = v->of->divides[v->order[e]];
      uint64_t my_key = dim_key(&p, d), their_key = dim_key(&p, e);
      out_dim[d] += theirs != mine ? v->order[e] < v->order[d] : their_key != my_key ? their_key < my_key : e < d;
    }
  }
}

/* The next order of digits within those of one size and level; false after the last. */
static bool next_digits(const rows_digits *digits, uint8_t *digit) {
  for (int i = digits->num - 1; i >= 0; i--) { /* as an odometer over all orders, skipping what is none */
    for (;;) {
      if (++digit[i] >= digits->num) break;
      bool ok = digits->size[digit[i]] == digits->size[i] && digits->level[digit[i]] == digits->level[i];
      for (int k = 0; k < i; k++) ok &= digit[k] != digit[i];
      if (!ok) continue;
      for (int k = i + 1; k < digits->num; k++) {
        digit[k] = 0;
        for (bool taken = true; taken; digit[k] += taken) {
          taken = digits->size[digit[k]] != digits->size[k] || digits->level[digit[k]] != digits->level[k];
          for (int e = 0; e < k; e++) taken |= digit[e] == digit[k];
        }
      }
      return true;
    }
  }
  return false;
}

static turn *turn_of(shard_rows *r, view *v, const uint8_t *dim, const uint8_t *digit) {
  for (turn *t = v->turns; t; t = t->next)
    if (!memcmp(t->dim, dim, sizeof t->dim) && !memcmp(t->digit, digit, sizeof t->digit)) return t;
  turn *t = msc_new(r->arena, turn);
  memcpy(t->dim, dim, sizeof t->dim);
  memcpy(t->digit, digit, sizeof t->digit);
  t->next = v->turns;
  return v->turns = t;
}

static uint32_t turned(shard_rows *r, const view *v, turn *t, uint32_t state) {
  rows_graph *g = v->of->g;
  if (state >= t->room) {
    t->state = rows_grown(r->arena, t->state, t->room, g->room, sizeof *t->state);
    t->room = g->room;
  }
  if (!t->state[state]) {
    rows_place p;
    turn_place(&r->digits, g->rank, t->dim, t->digit, &g->state[state], &p);
    uint32_t to = rows_state(g, &p);
    t->state[state] = to + 1;
  }
  return t->state[state] - 1;
}

/* The turn that makes the least of a state. */
static turn *turn_to_least(shard_rows *r, view *v, uint32_t state) {
  rows_graph *g = v->of->g;
  rows_place s = g->state[state], p, best;
  uint8_t digit[MAX_DIGITS] = {0}, dim[MSC_MAX_RANK] = {0}, best_digit[MAX_DIGITS], best_dim[MSC_MAX_RANK];
  bool any = false;
  for (int a = 0; a < r->digits.num; a++) digit[a] = (uint8_t)a;
  do {
    sort_dims(v, digit, &r->digits, &s, dim);
    turn_place(&r->digits, g->rank, dim, digit, &s, &p);
    if (any && memcmp(&p, &best, sizeof p) >= 0) continue;
    best = p, any = true;
    memcpy(best_digit, digit, sizeof digit);
    memcpy(best_dim, dim, sizeof dim);
  } while (next_digits(&r->digits, digit));
  return turn_of(r, v, best_dim, best_digit);
}

/* ---- one row ---- */

static void push(shard_rows *r, int64_t ns, uint32_t state) {
  if (r->num_heap == r->room_heap) {
    r->heap = rows_grown(r->arena, r->heap, r->num_heap, 2 * r->room_heap + 256, sizeof *r->heap);
    r->room_heap = 2 * r->room_heap + 256;
  }
  size_t at = r->num_heap++;
  for (; at > 0 && ns < r->heap[(at - 1) / 2].ns; at = (at - 1) / 2) r->heap[at] = r->heap[(at - 1) / 2];
  r->heap[at] = (waiting){ns, state};
}

static uint32_t pop(shard_rows *r, int64_t *out_ns) {
  waiting top = r->heap[0], last = r->heap[--r->num_heap];
  size_t at = 0;
  *out_ns = top.ns;
  for (size_t child; (child = 2 * at + 1) < r->num_heap; at = child) {
    if (child + 1 < r->num_heap && r->heap[child + 1].ns < r->heap[child].ns) child++;
    if (r->heap[child].ns >= last.ns) break;
    r->heap[at] = r->heap[child];
  }
  r->heap[at] = last;
  return top.state;
}

static void reach(shard_rows *r, int64_t now, int64_t ns, uint32_t state) {
  if (ns > now) {
    push(r, ns, state);
    return;
  }
  if (r->num_at_once == r->room_at_once) {
    r->at_once = rows_grown(r->arena, r->at_once, r->num_at_once, 2 * r->room_at_once + 256, sizeof *r->at_once);
    r->room_at_once = 2 * r->room_at_once + 256;
  }
  r->at_once[r->num_at_once++] = state;
}

/* Room for what has a number by now; states that are new are not reached yet. */
static void need_room(shard_rows *r, shape *s, size_t known) {
  rows_graph *g = s->g;
  if (r->room_distance < g->num) {
    r->distance = rows_grown(r->arena, r->distance, known, g->room, sizeof *r->distance);
    r->room_distance = g->room;
  }
  if (r->room_left <= g->num_shared) {
    size_t room = 2 * g->num_shared + 64;
    r->left = rows_grown(r->arena, r->left, r->room_left, room, sizeof *r->left);
    r->room_left = room;
  }
  need_fits(r, s);
  memcpy(r->distance + known, s->fits + known, (g->num - known) * sizeof *r->distance);
}

/* Targets that were taken before, or are farther than being whole, are no nearer this way: slices of what is
 * whole are free. */
static void leave(shard_rows *r, shape *s, uint32_t state, int64_t ns, int64_t *bound) {
  rows_graph *g = s->g;
  const rows_leaving *l = &g->leaving[state];
  int64_t *distance = r->distance;
  const uint32_t *targets = g->to;
  for (const rows_batch *b = g->batch + l->first, *end = g->batch + l->end; b < end; b++) {
    int64_t there = ns + batch_ns(r, s, b, l->used);
    if (there > *bound) continue;
    if (b->shared) {
      if (r->left[b->shared] == r->runs) continue;
      r->left[b->shared] = r->runs;
    }
    for (const uint32_t *to = targets + b->first, *last = targets + b->end; to < last; to++) {
      if (there >= distance[*to]) continue;
      distance[*to] = there;
      reach(r, ns, there, *to);
    }
  }
}

/* Distances of all states, or of all that are not partial. */
static void run(shard_rows *r, shape *s, uint32_t from, bool partial) {
  rows_graph *g = s->g;
  rows_place nothing;
  memset(&nothing, 0, sizeof nothing);
  uint32_t whole = rows_state(g, &nothing);
  int64_t ns = 0, no_bound = INT64_MAX;
  need_room(r, s, 0);
  size_t known = g->num;
  r->distance[from] = 0;
  r->num_heap = r->num_at_once = 0;
  r->runs++;
  reach(r, 0, 0, from);
  while (r->num_heap || r->num_at_once) {
    uint32_t u = r->num_at_once ? r->at_once[--r->num_at_once] : pop(r, &ns);
    if (ns > r->distance[u]) continue;
    rows_need_edges(g, u);
    if (known < g->num || r->room_left <= g->num_shared) {
      need_room(r, s, known);
      known = g->num;
    }
    leave(r, s, u, ns, partial ? &no_bound : &r->distance[whole]);
  }
}

static row row_of(shard_rows *r, shape *s, uint32_t from, bool partial) {
  if (from >= s->room_rows) {
    s->row = rows_grown(r->arena, s->row, s->room_rows, s->g->room, sizeof *s->row);
    s->room_rows = s->g->room;
  }
  row *known = &s->row[from];
  if (known->ns && (known->partial || !partial)) return *known;
  run(r, s, from, partial);
  row made = {r->distance, s->g->num, partial};
  size_t bytes = made.num * sizeof *made.ns;
  if (r->kept + bytes > MOST_KEPT) return made;
  made.ns = msc_arena_copy(r->arena, made.ns, bytes);
  r->kept += bytes;
  return *known = made;
}

/* ---- layouts ---- */

/* The digits of the layout's, in order; false: others. */
static bool put_digits(const shard_rows *r, int num, const msc_subaxis *s, uint8_t *out_digit, uint8_t *out_num) {
  *out_num = 0;
  for (int i = 0; i < num; i++)
    for (uint32_t pre = s[i].pre; pre < s[i].pre * s[i].size;) {
      int a = 0;
      while (a < r->digits.num && !(r->digit[a].axis == s[i].axis && r->digit[a].pre == pre)) a++;
      if (a == r->digits.num || pre * r->digit[a].size > s[i].pre * s[i].size) return false;
      out_digit[(*out_num)++] = (uint8_t)a;
      pre *= r->digit[a].size;
    }
  return true;
}

int shard_rows_state(shard_rows *r, const msc_layout *l) {
  uint8_t partial[MAX_DIGITS], num;
  rows_place s;
  memset(&s, 0, sizeof s);
  for (int d = 0; d < l->rank; d++)
    if (!put_digits(r, l->first[d + 1] - l->first[d], l->sub + l->first[d], s.digit[d], &s.num[d]))
      return SHARD_NO_STATE;
  if (!put_digits(r, l->num_partial, l->sub + l->first[l->rank], partial, &num)) return SHARD_NO_STATE;
  for (int i = 0; i < num; i++) s.partial |= (uint8_t)(1u << partial[i]);
  return (int)rows_state(graph_of(r, l->rank), &s);
}

bool shard_rows_costs(shard_rows *r, const msc_type *type, int64_t bucket, int from, int num, const int *to,
                      int64_t *out_ns) {
  view *v = view_of(r, type, bucket);
  rows_graph *g = v->of->g;
  turn *t = turn_to_least(r, v, (uint32_t)from);
  bool partial = false;
  uint32_t least = turned(r, v, t, (uint32_t)from);
  for (int i = 0; i < num; i++) {
    partial |= g->state[to[i]].partial != 0;
    turned(r, v, t, (uint32_t)to[i]);
  }
  need_fits(r, v->of);
  MSC_TRY(v->of->fits[least] >= 0);
  row known = row_of(r, v->of, least, partial);
  for (int i = 0; i < num; i++) {
    uint32_t at = turned(r, v, t, (uint32_t)to[i]);
    if (v->of->fits[at] < 0) out_ns[i] = SHARD_UNEVEN;
    else out_ns[i] = at < known.num && known.ns[at] < INT64_MAX ? known.ns[at] : -1;
  }
  return true;
}
