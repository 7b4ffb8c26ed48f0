/* rows.c: a type and a layout -> ns to every other layout; a problem -> a path of least time (see rows.h). */
#include "passes/3_shard/reshard/rows.h"

#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/reshard/rows_graph.h"

enum { MAX_DIGITS = ROWS_MAX_DIGITS, NUM_PRICED = MSC_EXCHANGE, MOST_KEPT = 1 << 28 };

/* The times from one state to all states that had a number when the row was made; INT64_MAX: not reached, -1:
 * uneven. */
typedef struct {
  int64_t *ns; /* NULL: not computed yet */
  size_t num;
  bool partial;    /* times to partial states were computed too */
  uint32_t *order; /* states reached, nearest first; only with exchanges */
  size_t num_order;
  int64_t *with_exchange; /* by state: the least time if the last step may be an exchange; -1: not computed yet */
} row;

/* Everything that times depend on: the bytes and, by dimension, the sets of digits that divide it; dimensions are in
 * ascending order of these sets. */
typedef struct shape {
  rows_graph *g;
  int64_t bytes, shared_by;
  uint32_t divides[MSC_MAX_RANK]; /* bit s: the product of the digits in set s divides the dimension */
  msc_reshard_options options;
  reshard_problem p; /* of a type of this shape, with the digits as atoms */
  int64_t *ns;       /* of a step, by digits that cut before it, verb and group (batch_ns); -1: not computed yet */
  size_t num_fits, room_fits, room_rows;
  int64_t *fits; /* by state: INT64_MAX, or -1: its parts are uneven */
  row *row;
  struct shape *next;
} shape;

/* A permutation of like dimensions and of like digits. */
typedef struct permutation {
  uint8_t dim[MSC_MAX_RANK], digit[MAX_DIGITS];
  size_t room;
  uint32_t *state; /* by state: the state that it becomes, + 1; 0: not computed yet */
  struct permutation *next;
} permutation;

/* A type as a shape with its dimensions in another order. */
typedef struct {
  const msc_type *type;
  int64_t shared_by;
  shape *of;
  uint8_t order[MSC_MAX_RANK]; /* by dimension: its place in the shape */
  permutation *permutations;
} view;

typedef struct {
  int64_t ns;
  uint32_t state;
} queued_state;

#define IS_NEARER(c, a, b) ((void)(c), (a).ns < (b).ns)
MSC_HEAP(queued_state, const void *, queued_state, IS_NEARER, MSC_STAYS)

struct shard_rows {
  msc_context *ctx;
  msc_arena *arena;
  const msc_mesh *mesh;
  const msc_reshard_options *options;
  bool exchanges;
  msc_atoms digit;
  rows_digits digits;
  int64_t size[1 << MAX_DIGITS]; /* by set of digits */
  /* by set of digits that move: the fixed time of an exchange with one peer, and its bytes per ns */
  double alone_ns[1 << MAX_DIGITS], rate[1 << MAX_DIGITS];
  rows_graph *of_rank[MSC_MAX_RANK + 1];
  shape *shapes;
  MSC_TABLE(view) views;
  size_t kept;       /* bytes of rows */
  int64_t *distance; /* by state, in the present run of run_dijkstra */
  uint32_t *left;    /* by shared targets: the number of the run that relaxed them last */
  uint32_t runs;
  size_t room_distance, room_left;
  queued_state *heap;
  size_t num_heap, room_heap;
  uint32_t *at_once; /* states as near as the present one: they need no heap */
  size_t num_at_once, room_at_once;
  uint32_t *order; /* states of the present run, nearest first */
  size_t num_order, room_order;
  struct shard_rows *next;
};

/* ---- digits ---- */

/* Are links ordered, so that a slower rate comes with at least as great a latency? */
static bool is_orderly(const reshard_problem *p) {
  bool orderly = true;
  for (int i = 0; i < p->num_atoms; i++)
    for (int k = 0; k < i; k++)
      orderly &= (p->alpha_ns[i] - p->alpha_ns[k]) * (p->bytes_per_ns[k] - p->bytes_per_ns[i]) >= 0;
  return orderly;
}

/* How many other digits have a faster link than this one. */
static int count_faster_links(const reshard_problem *p, int digit) {
  int level = 0;
  for (int i = 0; i < p->num_atoms; i++)
    level += p->alpha_ns[i] < p->alpha_ns[digit] || p->bytes_per_ns[i] > p->bytes_per_ns[digit];
  return level;
}

/* Reads the digits and their links from the problem of a scalar: they are the same for all types. */
static void read_digits(shard_rows *r) {
  reshard_problem p;
  msc_reshard_problem_with(r->ctx, r->mesh, r->options, msc_type_of(r->ctx, MSC_I8, 0, NULL, NULL), &r->digit, &p);
  r->digits = (rows_digits){.no_alltoall = r->options->no_alltoall,
                            .free_partial = r->options->free_partial,
                            .orderly = is_orderly(&p),
                            .num = r->digit.num};
  for (int i = 0; i < r->digit.num; i++) r->digits.size[i] = p.size[i], r->digits.level[i] = count_faster_links(&p, i);
  r->digits.outermost = rows_level(&r->digits, (1u << r->digit.num) - 1);
  for (unsigned set = 0; set < 1u << r->digit.num; set++) {
    r->size[set] = rows_size(&r->digits, set);
    r->alone_ns[set] = msc_reshard_fixed_ns(&p, MSC_EXCHANGE, set, 2);
    for (int i = 0; i < r->digit.num; i++)
      if (set >> i & 1 && p.bytes_per_ns[i] > 0 && (r->rate[set] == 0 || p.bytes_per_ns[i] < r->rate[set]))
        r->rate[set] = p.bytes_per_ns[i];
  }
}

shard_rows *shard_rows_new(msc_context *ctx, msc_arena *arena, const msc_mesh *mesh, const msc_reshard_options *options,
                           bool exchanges, int num, const msc_subaxis *digit) {
  if (num > MAX_DIGITS) return NULL;
  shard_rows *r = msc_new(arena, shard_rows);
  r->ctx = ctx, r->arena = r->views.index.arena = arena, r->mesh = mesh, r->options = options;
  r->exchanges = exchanges && !options->no_alltoall;
  r->digit.num = num;
  memcpy(r->digit.atom, digit, (size_t)num * sizeof *digit);
  read_digits(r);
  return r;
}

shard_rows *msc_reshard_rows_for(shard_rows **known, msc_arena *arena, const reshard_problem *p) {
  msc_subaxis digit[MAX_DIGITS];
  if (p->num_atoms > MAX_DIGITS || p->options->peak || !p->options->time || p->uneven) return NULL;
  for (int a = 0; a < p->num_atoms; a++) {
    if (p->num_digits[a] > 1) return NULL;
    digit[a] = p->digit[a][0];
  }
  for (shard_rows *r = *known; r; r = r->next)
    if (r->digit.num == p->num_atoms && !memcmp(r->digit.atom, digit, (size_t)p->num_atoms * sizeof *digit)) return r;
  shard_rows *r = shard_rows_new(p->ctx, arena, p->mesh, p->options, true, p->num_atoms, digit);
  r->next = *known;
  return *known = r;
}

static rows_graph *graph_of_rank(shard_rows *r, int rank) {
  if (!r->of_rank[rank]) r->of_rank[rank] = rows_graph_new(r->arena, &r->digits, rank);
  return r->of_rank[rank];
}

/* ---- shapes ---- */

static uint32_t sets_that_divide(const shard_rows *r, int64_t size) {
  uint32_t sets = 0;
  for (unsigned s = 0; s < 1u << r->digits.num; s++)
    if (size % r->size[s] == 0) sets |= 1u << s;
  return sets;
}

static shape *find_shape(shard_rows *r, const msc_type *type, const uint32_t *divides, int64_t shared_by) {
  rows_graph *g = graph_of_rank(r, type->rank);
  int64_t bytes = msc_type_bytes(type);
  for (shape *s = r->shapes; s; s = s->next)
    if (s->g == g && s->bytes == bytes && s->shared_by == shared_by && !memcmp(s->divides, divides, sizeof s->divides))
      return s;
  shape *s = msc_new(r->arena, shape);
  size_t entries = (size_t)NUM_PRICED << 2 * r->digits.num;
  *s = (shape){.g = g,
               .bytes = bytes,
               .shared_by = shared_by,
               .options = *r->options,
               .ns = msc_new_array(r->arena, int64_t, entries),
               .next = r->shapes};
  s->options.shared_by = shared_by;
  msc_reshard_problem_with(r->ctx, r->mesh, &s->options, type, &r->digit, &s->p);
  memcpy(s->divides, divides, sizeof s->divides);
  memset(s->ns, -1, entries * sizeof *s->ns);
  return r->shapes = s;
}

static view *find_view(shard_rows *r, const msc_type *type, int64_t shared_by) {
  const struct {
    const msc_type *type;
    int64_t shared_by;
  } key = {type, shared_by};
  view *v = msc_table_at(&r->views, &key);
  if (v->of) return v;
  uint32_t divides[MSC_MAX_RANK] = {0}, of_dim[MSC_MAX_RANK];
  int64_t dim[MSC_MAX_RANK];
  for (int d = 0; d < type->rank; d++) of_dim[d] = sets_that_divide(r, type->dim[d]);
  for (int d = 0; d < type->rank; d++) {
    for (int e = 0; e < type->rank; e++) v->order[d] += of_dim[e] < of_dim[d] || (of_dim[e] == of_dim[d] && e < d);
    divides[v->order[d]] = of_dim[d];
    dim[v->order[d]] = type->dim[d];
  }
  v->of = find_shape(r, msc_type_of(r->ctx, type->dtype, type->rank, dim, NULL), divides, shared_by);
  return v;
}

/* The time of a step of the batch from a state cut by the digits `cut`. */
static int64_t batch_ns(const shard_rows *r, shape *s, const rows_batch *b, unsigned cut) {
  if (b->verb == MSC_SHARD) return 0;
  int64_t *known = &s->ns[((size_t)cut * NUM_PRICED + b->verb) << r->digits.num | b->group];
  if (*known >= 0) return *known;
  int64_t k = r->size[b->group], bytes = msc_reshard_received((msc_verb)b->verb, k, s->bytes / r->size[cut]);
  return *known = msc_reshard_ns(&s->p, (msc_verb)b->verb, b->group, k, bytes);
}

/* Computes `fits` for all states that have a number. */
static void update_fits(shard_rows *r, shape *s) {
  rows_graph *g = s->g;
  msc_reserve(r->arena, s->fits, s->room_fits, g->num);
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

/* ---- permutations of like dimensions and digits ---- */

static void permute_place(const rows_digits *digits, int rank, const uint8_t *dim, const uint8_t *digit,
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

/* Writes for each dimension its place when the dimensions that the same sets of digits divide are sorted by the digits
 * that cut them, renamed by `digit`. */
static void sort_dims(const view *v, const uint8_t *digit, const rows_digits *digits, const rows_place *s,
                      uint8_t *out_dim) {
  rows_place p;
  int rank = v->type->rank;
  uint8_t same[MSC_MAX_RANK];
  for (int d = 0; d < rank; d++) same[d] = (uint8_t)d;
  permute_place(digits, rank, same, digit, s, &p);
  for (int d = 0; d < rank; d++) {
    out_dim[d] = 0;
    for (int e = 0; e < rank; e++) {
      uint32_t mine = v->of->divides[v->order[d]], theirs = v->of->divides[v->order[e]];
      uint64_t my_key = dim_key(&p, d), their_key = dim_key(&p, e);
      out_dim[d] += theirs != mine ? v->order[e] < v->order[d] : their_key != my_key ? their_key < my_key : e < d;
    }
  }
}

/* Steps to the next permutation of digits of one size and level; false after the last. */
static bool next_digits(const rows_digits *digits, uint8_t *digit) {
  for (int i = digits->num - 1; i >= 0; i--) { /* counts like an odometer and skips numbers that are no permutation */
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

static permutation *find_permutation(shard_rows *r, view *v, const uint8_t *dim, const uint8_t *digit) {
  for (permutation *t = v->permutations; t; t = t->next)
    if (!memcmp(t->dim, dim, sizeof t->dim) && !memcmp(t->digit, digit, sizeof t->digit)) return t;
  permutation *t = msc_new(r->arena, permutation);
  memcpy(t->dim, dim, sizeof t->dim);
  memcpy(t->digit, digit, sizeof t->digit);
  t->next = v->permutations;
  return v->permutations = t;
}

static uint32_t permute_state(shard_rows *r, const view *v, permutation *t, uint32_t state) {
  rows_graph *g = v->of->g;
  msc_reserve(r->arena, t->state, t->room, state + 1);
  if (!t->state[state]) {
    rows_place p;
    permute_place(&r->digits, g->rank, t->dim, t->digit, &g->state[state], &p);
    uint32_t to = rows_state(g, &p);
    t->state[state] = to + 1;
  }
  return t->state[state] - 1;
}

/* The permutation that turns a state into the least, as bytes, of all states that it can become; these share the row of
 * the least one. */
static permutation *find_least_permutation(shard_rows *r, view *v, uint32_t state) {
  rows_graph *g = v->of->g;
  rows_place s = g->state[state], p, best;
  uint8_t digit[MAX_DIGITS] = {0}, dim[MSC_MAX_RANK] = {0}, best_digit[MAX_DIGITS], best_dim[MSC_MAX_RANK];
  bool any = false;
  for (int a = 0; a < r->digits.num; a++) digit[a] = (uint8_t)a;
  do {
    sort_dims(v, digit, &r->digits, &s, dim);
    permute_place(&r->digits, g->rank, dim, digit, &s, &p);
    if (any && memcmp(&p, &best, sizeof p) >= 0) continue;
    best = p, any = true;
    memcpy(best_digit, digit, sizeof digit);
    memcpy(best_dim, dim, sizeof dim);
  } while (next_digits(&r->digits, digit));
  return find_permutation(r, v, best_dim, best_digit);
}

/* ---- one row ---- */

/* Queues a state at distance ns; `now`: the distance of the present state. */
static void enqueue_state(shard_rows *r, int64_t now, int64_t ns, uint32_t state) {
  if (ns > now) {
    msc_reserve(r->arena, r->heap, r->room_heap, r->num_heap + 1);
    queued_state_push(NULL, r->heap, r->num_heap++, (queued_state){ns, state});
    return;
  }
  msc_reserve(r->arena, r->at_once, r->room_at_once, r->num_at_once + 1);
  r->at_once[r->num_at_once++] = state;
}

/* Makes room for all states that have a number now; those from `known` on are new and not reached yet. */
static void make_row_room(shard_rows *r, shape *s, size_t known) {
  rows_graph *g = s->g;
  msc_reserve(r->arena, r->distance, r->room_distance, g->num);
  msc_reserve(r->arena, r->left, r->room_left, g->shared.index.num + 1);
  update_fits(r, s);
  memcpy(r->distance + known, s->fits + known, (g->num - known) * sizeof *r->distance);
}

/* Lowers the distances of the targets of a state's edges. Shared targets that were relaxed from a nearer state are
 * skipped, and so are targets farther than *bound, the distance of the whole value, which any layout is a free slice
 * of. */
static void relax_edges(shard_rows *r, shape *s, uint32_t state, int64_t ns, const int64_t *bound) {
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
      enqueue_state(r, ns, there, *to);
    }
  }
}

/* Computes the distances of all states from `from`, or with partial = false of all that are not partial. */
static void run_dijkstra(shard_rows *r, shape *s, uint32_t from, bool partial) {
  rows_graph *g = s->g;
  rows_place nothing;
  memset(&nothing, 0, sizeof nothing);
  uint32_t whole = rows_state(g, &nothing);
  int64_t ns = 0, no_bound = INT64_MAX;
  make_row_room(r, s, 0);
  size_t known = g->num;
  r->distance[from] = 0;
  r->num_heap = r->num_at_once = r->num_order = 0;
  r->runs++;
  enqueue_state(r, 0, 0, from);
  while (r->num_heap || r->num_at_once) {
    queued_state next = {ns, 0};
    if (r->num_at_once) next.state = r->at_once[--r->num_at_once];
    else next = queued_state_pop(NULL, r->heap, r->num_heap--);
    ns = next.ns;
    if (ns > r->distance[next.state]) continue;
    if (r->exchanges) {
      msc_reserve(r->arena, r->order, r->room_order, r->num_order + 1);
      r->order[r->num_order++] = next.state;
    }
    rows_need_edges(g, next.state);
    if (known < g->num || r->room_left <= g->shared.index.num) {
      make_row_room(r, s, known);
      known = g->num;
    }
    relax_edges(r, s, next.state, ns, partial ? &no_bound : &r->distance[whole]);
  }
}

static row find_state_row(shard_rows *r, shape *s, uint32_t from, bool partial) {
  msc_reserve(r->arena, s->row, s->room_rows, from + 1);
  row *known = &s->row[from];
  if (known->ns && (known->partial || !partial)) return *known;
  run_dijkstra(r, s, from, partial);
  row made = {.ns = r->distance, .num = s->g->num, .partial = partial, .order = r->order, .num_order = r->num_order};
  size_t bytes = made.num * sizeof *made.ns, of_order = made.num_order * sizeof *made.order;
  if (r->kept + 2 * bytes + of_order > MOST_KEPT) return made;
  made.ns = msc_arena_copy(r->arena, made.ns, bytes);
  r->kept += bytes;
  if (r->exchanges) {
    made.order = msc_arena_copy(r->arena, made.order, of_order);
    made.with_exchange = msc_arena_alloc(r->arena, bytes);
    memset(made.with_exchange, -1, bytes);
    r->kept += bytes + of_order;
  }
  return *known = made;
}

/* ---- exchanges ---- */

static reshard_state problem_state(const rows_graph *g, uint32_t state) {
  const rows_place *p = &g->state[state];
  reshard_state s = {.partial = p->partial};
  for (int d = 0; d < g->rank; d++) {
    s.num[d] = p->num[d];
    memcpy(s.atom[d], p->digit[d], p->num[d]);
  }
  return s;
}

/* Does some dimension have a digit where that of the other state has another?  Then some device has nothing of its part
 * of the other state. */
static bool dimensions_contradict(const rows_graph *g, uint32_t u, uint32_t v) {
  const rows_place *a = &g->state[u], *b = &g->state[v];
  for (int d = 0; d < g->rank; d++)
    for (int i = 0; i < a->num[d] && i < b->num[d]; i++)
      if (a->digit[d][i] != b->digit[d][i]) return true;
  return false;
}

/* A lower bound on the time of an exchange from u into `to`: that with one peer, over the same links. */
static int64_t least_exchange(const shard_rows *r, const rows_graph *g, int64_t bytes, uint32_t u, uint32_t to) {
  unsigned from_partial = g->state[u].partial, to_partial = g->state[to].partial, moved = rows_moved(g, u, to),
           used = g->leaving[u].used | from_partial, used_then = g->leaving[to].used | to_partial,
           group = used & ~used_then ? moved : moved & used, lost = from_partial & ~to_partial;
  bool gained = to_partial & ~from_partial;
  int64_t local = bytes / r->size[g->leaving[u].used], to_local = bytes / r->size[g->leaving[to].used],
          held = local < to_local ? local : to_local;
  if (gained || dimensions_contradict(g, u, to)) held = 0;
  int64_t lacks = (lost && !gained ? r->size[lost] : 1) * to_local - held;
  return msc_cost_whole_ns((r->alone_ns[group] + (r->rate[group] > 0 ? (double)lacks / r->rate[group] : 0)) *
                           (1 - 1e-9)); /* measured tables hold no exchanges */
}

/* The least time into `to` by any path; only its last step may be an exchange. */
static int64_t price_with_exchange(const shard_rows *r, const shape *s, const row *w, uint32_t to) {
  int64_t best = w->ns[to], least = msc_reshard_least_cost(&s->p, 0);
  if (w->with_exchange && w->with_exchange[to] >= 0) return w->with_exchange[to];
  reshard_state target = problem_state(s->g, to);
  for (size_t i = 0; i < w->num_order; i++) {
    uint32_t u = w->order[i];
    int64_t ns = w->ns[u];
    if (ns >= best - least) break;
    if (u == to || ns + least_exchange(r, s->g, s->bytes, u, to) >= best) continue;
    reshard_state from = problem_state(s->g, u);
    reshard_edge e;
    if (msc_reshard_exchange(&s->p, &from, &target, INT64_MAX, &e) && ns + e.ns < best) best = ns + e.ns;
  }
  if (w->with_exchange) w->with_exchange[to] = best;
  return best;
}

/* ---- one path ---- */

/* The cost of a path, as a number to compare: ns, exchanges, steps with traffic, slices. */
typedef unsigned __int128 price;
enum { ONE_EXCHANGE = 1 << 12, ONE_STEP = 1 << 6, ONE_SLICE = 1, MINOR_BITS = 18 };

typedef struct {
  price cost;
  uint64_t rank;
  uint32_t state;
} queued_visit;

#define IS_CHEAPER(c, a, b) ((void)(c), (a).cost != (b).cost ? (a).cost < (b).cost : (a).rank < (b).rank)
MSC_HEAP(queued_visit, const void *, queued_visit, IS_CHEAPER, MSC_STAYS)

typedef struct {
  price cost;      /* of the best path to the state; NO_WAY: none is known */
  int64_t local;   /* bytes of a part; -1: it does not divide */
  uint32_t came;   /* the state before it on that path */
  rows_batch step; /* the batch of the edge between the two */
} visit;

static const price NO_WAY = ~(price)0;

typedef struct {
  shard_rows *r;
  const reshard_problem *p;
  rows_graph *g;
  msc_arena *arena;
  size_t num, room, num_order, room_order, num_heap, room_heap;
  visit *at; /* by state */
  uint32_t *order;
  queued_visit *heap;
} path_search;

/* Orders states of equal cost: the one comes first whose first differing digit is whole, else partial, else in the
 * lower dimension and place. */
static uint64_t rank_among_equals(const rows_graph *g, uint32_t state) {
  const rows_place *s = &g->state[state];
  uint64_t rank[MAX_DIGITS] = {0}, sum = 0;
  for (int d = 0; d < g->rank; d++)
    for (int i = 0; i < s->num[d]; i++) {
      int before = 0;
      for (int k = 0; k < i; k++) before += s->digit[d][k] < s->digit[d][i];
      rank[s->digit[d][i]] = (uint64_t)(2 + 8 * d + before);
    }
  for (int a = 0; a < g->digits->num; a++) sum = sum << 7 | (s->partial >> a & 1 ? 1 : rank[a]);
  return sum;
}

static void add_new_states(path_search *w) {
  msc_reserve(w->arena, w->at, w->room, w->g->num);
  for (; w->num < w->g->num; w->num++) {
    int64_t local = w->p->total_bytes;
    for (int d = 0; d < w->g->rank && local >= 0; d++) {
      int64_t parts = rows_parts(&w->r->digits, &w->g->state[w->num], d);
      local = w->p->type->dim[d] % parts ? -1 : local / parts;
    }
    w->at[w->num] = (visit){.cost = NO_WAY, .local = local};
  }
}

/* Records a better path to a state. */
static void improve_state(path_search *w, uint32_t state, price cost, uint32_t came, const rows_batch *step) {
  visit *p = &w->at[state];
  if (p->local < 0 || cost >= p->cost) return;
  p->cost = cost, p->came = came;
  if (step) p->step = *step;
  msc_reserve(w->arena, w->heap, w->room_heap, w->num_heap + 1);
  queued_visit_push(NULL, w->heap, w->num_heap++, (queued_visit){cost, rank_among_equals(w->g, state), state});
}

static price step_price(const path_search *w, const rows_batch *b, int64_t local, reshard_edge *out_edge) {
  int64_t k = w->r->size[b->group];
  *out_edge = (reshard_edge){.verb = (msc_verb)b->verb, .atoms = b->group};
  if (b->verb == MSC_SHARD) return ONE_SLICE;
  out_edge->bytes = msc_reshard_received((msc_verb)b->verb, k, local);
  out_edge->ns = msc_reshard_ns(w->p, out_edge->verb, b->group, k, out_edge->bytes);
  return ((price)out_edge->ns << MINOR_BITS) + ONE_STEP;
}

/* Runs Dijkstra's algorithm from `from` until `to` is reached. */
static void run_to(path_search *w, uint32_t from, uint32_t to) {
  add_new_states(w);
  improve_state(w, from, 0, UINT32_MAX, NULL);
  while (w->num_heap) {
    queued_visit s = queued_visit_pop(NULL, w->heap, w->num_heap--);
    if (s.cost > w->at[s.state].cost) continue;
    msc_reserve(w->arena, w->order, w->room_order, w->num_order + 1);
    w->order[w->num_order++] = s.state;
    if (s.state == to) return;
    rows_need_edges(w->g, s.state);
    add_new_states(w);
    for (uint32_t b = w->g->leaving[s.state].first; b < w->g->leaving[s.state].end; b++) {
      reshard_edge e;
      const rows_batch *batch = &w->g->batch[b];
      price there = s.cost + step_price(w, batch, w->at[s.state].local, &e);
      for (uint32_t i = batch->first; i < batch->end; i++) improve_state(w, w->g->to[i], there, s.state, batch);
    }
  }
}

/* Finds the best exchange into `to`, from a state that was reached, if a path with it is better than that without;
 * false: there is none. */
static bool find_last_exchange(const path_search *w, uint32_t to, uint32_t *out_from, reshard_edge *out_edge) {
  price best = w->at[to].cost, least = (price)msc_reshard_least_cost(w->p, 0) << MINOR_BITS;
  bool any = false;
  reshard_state target = problem_state(w->g, to);
  for (size_t i = 0; w->r->exchanges && i < w->num_order; i++) {
    uint32_t u = w->order[i];
    price cost = w->at[u].cost;
    if (cost + least >= best) break;
    price at_least = (price)least_exchange(w->r, w->g, w->p->total_bytes, u, to) << MINOR_BITS;
    if (u == to || cost + at_least + ONE_EXCHANGE + ONE_STEP >= best) continue;
    reshard_state from = problem_state(w->g, u);
    reshard_edge e;
    if (!msc_reshard_exchange(w->p, &from, &target, INT64_MAX, &e)) continue;
    cost += ((price)e.ns << MINOR_BITS) + ONE_EXCHANGE + ONE_STEP;
    if (cost < best) best = cost, any = true, *out_from = u, *out_edge = e;
  }
  return any;
}

/* Joins slices that follow each other into one step. */
static void join_slices(reshard_path *path) {
  int num = 0;
  for (int i = 0; i < path->num; i++) {
    if (num && path->edge[num - 1].verb == MSC_SHARD && path->edge[i].verb == MSC_SHARD) num--;
    path->state[num] = path->state[i];
    path->edge[num++] = path->edge[i];
  }
  path->num = num;
}

static uint32_t number_state(path_search *w, const reshard_state *s) {
  rows_place p;
  memset(&p, 0, sizeof p);
  p.partial = (uint8_t)s->partial;
  for (int d = 0; d < w->g->rank; d++) {
    p.num[d] = s->num[d];
    memcpy(p.digit[d], s->atom[d], s->num[d]);
  }
  return rows_state(w->g, &p);
}

bool msc_reshard_rows_path(shard_rows *r, const reshard_problem *p, msc_arena *arena, reshard_path *out_path) {
  path_search w = {.r = r, .p = p, .g = graph_of_rank(r, p->rank), .arena = arena};
  uint32_t from = number_state(&w, &p->from), to = number_state(&w, &p->to), last = to;
  reshard_edge exchange;
  int num = 0;
  run_to(&w, from, to);
  bool exchanged = find_last_exchange(&w, to, &last, &exchange);
  if (!exchanged && w.at[to].cost == NO_WAY) return false;
  for (uint32_t s = last; s != from; s = w.at[s].came) num++;
  out_path->num = num + exchanged;
  out_path->state = msc_new_array(arena, reshard_state, out_path->num + 1);
  out_path->edge = msc_new_array(arena, reshard_edge, out_path->num + 1);
  if (exchanged) out_path->state[num] = p->to, out_path->edge[num] = exchange;
  for (uint32_t s = last; s != from; s = w.at[s].came) {
    out_path->state[--num] = problem_state(w.g, s);
    step_price(&w, &w.at[s].step, w.at[w.at[s].came].local, &out_path->edge[num]);
  }
  join_slices(out_path);
  return true;
}

/* ---- layouts ---- */

/* Lists the engine's digits that make up s[0..num), in order; false: s has other digits. */
static bool list_digits(const shard_rows *r, int num, const msc_subaxis *s, uint8_t *out_digit, uint8_t *out_num) {
  *out_num = 0;
  for (int i = 0; i < num; i++)
    for (uint32_t pre = s[i].pre; pre < s[i].pre * s[i].size;) {
      int a = 0;
      while (a < r->digits.num && !(r->digit.atom[a].axis == s[i].axis && r->digit.atom[a].pre == pre)) a++;
      if (a == r->digits.num || pre * r->digit.atom[a].size > s[i].pre * s[i].size) return false;
      out_digit[(*out_num)++] = (uint8_t)a;
      pre *= r->digit.atom[a].size;
    }
  return true;
}

int shard_rows_state(shard_rows *r, const msc_layout *l) {
  uint8_t partial[MAX_DIGITS], num;
  rows_place s;
  memset(&s, 0, sizeof s);
  if (msc_layout_has_split(l)) return SHARD_NO_STATE;
  for (int d = 0; d < l->rank; d++)
    if (!list_digits(r, l->first[d + 1] - l->first[d], l->sub + l->first[d], s.digit[d], &s.num[d]))
      return SHARD_NO_STATE;
  if (!list_digits(r, l->num_partial, l->sub + l->first[l->rank], partial, &num)) return SHARD_NO_STATE;
  for (int i = 0; i < num; i++) s.partial |= (uint8_t)(1u << partial[i]);
  return (int)rows_state(graph_of_rank(r, l->rank), &s);
}

bool shard_rows_costs(shard_rows *r, const msc_type *type, int64_t shared_by, int from, int num, const int *to,
                      int64_t *out_ns) {
  view *v = find_view(r, type, shared_by);
  rows_graph *g = v->of->g;
  permutation *t = find_least_permutation(r, v, (uint32_t)from);
  bool partial = false;
  uint32_t least = permute_state(r, v, t, (uint32_t)from);
  for (int i = 0; i < num; i++) {
    partial |= g->state[to[i]].partial != 0;
    permute_state(r, v, t, (uint32_t)to[i]);
  }
  update_fits(r, v->of);
  MSC_TRY(v->of->fits[least] >= 0);
  row known = find_state_row(r, v->of, least, partial);
  for (int i = 0; i < num; i++) {
    uint32_t at = permute_state(r, v, t, (uint32_t)to[i]);
    int64_t ns = at < known.num ? known.ns[at] : INT64_MAX;
    if (r->exchanges && v->of->fits[at] >= 0 && at < known.num) ns = price_with_exchange(r, v->of, &known, at);
    if (v->of->fits[at] < 0) out_ns[i] = SHARD_UNEVEN;
    else out_ns[i] = ns < INT64_MAX ? ns : -1;
  }
  return true;
}
