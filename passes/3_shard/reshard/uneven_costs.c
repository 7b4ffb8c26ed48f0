/* uneven_costs.c: a change of layout whose parts are uneven in; its least time, without the path, out.
 *
 * Searches ask for the times between all layouts of a value.  What leaves a state costs the same in every question, so
 * the edges out of a state are made and priced once for a type and its atoms, and each question is an A* over them.  In
 * a dimension that does not divide, a question allows only the cuts of its own source and target (graph.c). */
#include <stdlib.h>
#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/reshard/graph.h"

enum { MOST_EDGES = 1 << 22, MOST_WORK = 500000 }; /* edges that are kept; edges that one question looks at */

typedef struct {
  int64_t ns;
  uint32_t to;
} priced_edge;

/* A state and the edges out of it. */
typedef struct {
  reshard_state state;
  uint32_t uneven;            /* dimensions that do not divide into its parts */
  int64_t part[MSC_MAX_RANK]; /* sizes of its largest part */
  priced_edge *edge;          /* cheapest first; NULL: not made yet */
  int num_edges;
} priced_state;

/* What question number `asked` found out about a state; not valid for another question. */
typedef struct {
  int64_t ns, ahead; /* time of the best path to the state so far; a lower bound from it to the target */
  uint32_t asked;
  bool allowed;
} finding;

/* The states of one type and its atoms. */
typedef struct {
  reshard_problem p; /* source and target are not set */
  size_t num, room;
  priced_state *state;
  finding *found; /* by state; apart from the states, since a question looks at many */
  reshard_key *key;
  msc_index numbers; /* of states, by key */
} priced_graph;

typedef struct {
  int64_t ns;
  uint32_t state;
} queued_state;

#define IS_NEARER(c, a, b) ((void)(c), (a).ns != (b).ns ? (a).ns < (b).ns : (a).state < (b).state)
MSC_HEAP(queued_state, const void *, queued_state, IS_NEARER, MSC_STAYS)

struct reshard_uneven_costs {
  msc_arena *arena;
  uint32_t num;
  priced_graph **graph;
  msc_index graphs; /* by type and atoms */
  size_t num_edges; /* of all graphs */
  uint32_t questions;
  size_t num_made, room_made, num_heap, room_heap;
  priced_edge *made; /* out of the state whose edges are being made */
  queued_state *heap;
};

reshard_uneven_costs *msc_reshard_uneven_costs_new(msc_arena *arena) {
  reshard_uneven_costs *c = msc_new(arena, reshard_uneven_costs);
  c->arena = c->graphs.arena = arena;
  return c;
}

/* ---- graphs ---- */

static bool has_same_atoms(const reshard_problem *a, const reshard_problem *b) {
  bool same = a->type == b->type && a->num_atoms == b->num_atoms;
  for (int i = 0; i < a->num_atoms && same; i++)
    same = a->num_digits[i] == b->num_digits[i] &&
           !memcmp(a->digit[i], b->digit[i], (size_t)a->num_digits[i] * sizeof *a->digit[i]);
  return same;
}

static priced_graph *find_graph(reshard_uneven_costs *c, const reshard_problem *p) {
  uint64_t hash = msc_mix_pointer(0, p->type);
  for (int i = 0; i < p->num_atoms; i++)
    hash = msc_mix(msc_mix(msc_mix(hash, p->digit[i][0].axis), p->digit[i][0].pre), (uint64_t)p->size[i]);
  MSC_INDEX_EACH(&c->graphs, hash, i) if (has_same_atoms(&c->graph[i]->p, p)) return c->graph[i];
  priced_graph *g = msc_new(c->arena, priced_graph);
  g->p = *p;
  g->p.any_cut = true;
  g->numbers.arena = c->arena;
  msc_index_add(&c->graphs, hash, c->num);
  msc_grow(c->arena, c->graph, c->num);
  c->graph[c->num++] = g;
  return g;
}

static uint32_t number_state(reshard_uneven_costs *c, priced_graph *g, const reshard_state *s) {
  reshard_key key = msc_reshard_key(&g->p, s);
  uint64_t hash = msc_reshard_hash(key);
  MSC_INDEX_EACH(&g->numbers, hash, i) if (g->key[i] == key) return i;
  size_t room = g->room, same = room; /* states, findings and keys have the same room */
  msc_reserve(c->arena, g->key, room, g->num + 1);
  msc_reserve(c->arena, g->found, same, g->num + 1);
  msc_reserve(c->arena, g->state, g->room, g->num + 1);
  msc_index_add(&g->numbers, hash, (uint32_t)g->num);
  g->key[g->num] = key;
  priced_state *made = &g->state[g->num];
  made->state = *s;
  msc_reshard_largest_parts(&g->p, s, made->part);
  for (int d = 0; d < g->p.rank; d++) made->uneven |= (uint32_t)!msc_reshard_is_even(&g->p, s, d) << d;
  return (uint32_t)g->num++;
}

typedef struct {
  reshard_uneven_costs *costs;
  priced_graph *graph;
} edge_maker;

static void add_edge(void *user, const reshard_state *to, const reshard_edge *edge) {
  const edge_maker *m = user;
  reshard_uneven_costs *c = m->costs;
  msc_reserve(c->arena, c->made, c->room_made, c->num_made + 1);
  c->made[c->num_made++] = (priced_edge){edge->ns, number_state(c, m->graph, to)};
}

static int compare_edges(const void *a, const void *b) {
  const priced_edge *x = a, *y = b;
  return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns) : (x->to > y->to) - (x->to < y->to);
}

/* Makes the edges out of a state, all but exchanges. */
static void make_edges(reshard_uneven_costs *c, priced_graph *g, uint32_t state) {
  edge_maker m = {c, g};
  const reshard_wanted all = {.budget = INT64_MAX, .movable = (1u << g->p.num_atoms) - 1, .no_exchange = true};
  reshard_state from = g->state[state].state;
  c->num_made = 0;
  msc_reshard_expand(&g->p, &from, &all, add_edge, &m);
  qsort(c->made, c->num_made, sizeof *c->made, compare_edges);
  g->state[state].edge = msc_arena_copy(c->arena, c->made, (c->num_made + 1) * sizeof *c->made);
  g->state[state].num_edges = (int)c->num_made;
  c->num_edges += c->num_made;
}

/* ---- one question ---- */

typedef struct {
  reshard_uneven_costs *costs;
  const reshard_problem *p;
  priced_graph *graph;
  uint32_t target;
  int64_t best; /* the least time into the target by the paths found so far; INT64_MAX: none */
  int64_t work;
} question;

/* May a path of this question lead through the state? */
static bool allows_cuts(const question *q, const priced_state *s) {
  for (uint32_t m = s->uneven; m; m &= m - 1)
    if (!msc_reshard_allows_cut(q->p, &s->state, __builtin_ctz(m))) return false;
  return true;
}

/* What this question knows of a state. */
static finding *look_at(const question *q, uint32_t state) {
  finding *f = &q->graph->found[state];
  if (f->asked == q->costs->questions) return f;
  const priced_state *s = &q->graph->state[state];
  f->asked = q->costs->questions, f->ns = INT64_MAX, f->allowed = allows_cuts(q, s);
  if (!f->allowed) return f;
  bool sliced = msc_reshard_only_sliced(q->p, &s->state, &q->p->to);
  f->ahead = sliced ? 0 : msc_reshard_uneven_ahead(q->p, s->state.partial, s->part, q->graph->state[q->target].part);
  return f;
}

static void reach_state(question *q, uint32_t state, int64_t ns) {
  reshard_uneven_costs *c = q->costs;
  finding *f = look_at(q, state);
  if (!f->allowed || ns >= f->ns || ns + f->ahead >= q->best) return;
  f->ns = ns;
  if (state == q->target) q->best = ns;
  msc_reserve(c->arena, c->heap, c->room_heap, c->num_heap + 1);
  queued_state_push(NULL, c->heap, c->num_heap++, (queued_state){ns + f->ahead, state});
}

/* Tries the exchange into the target from a state that was reached. */
static void try_exchange(question *q, uint32_t state) {
  int64_t ns = q->graph->found[state].ns;
  reshard_edge e;
  if (msc_reshard_exchange(q->p, &q->graph->state[state].state, &q->p->to, q->best - 1 - ns, &e))
    reach_state(q, q->target, ns + e.ns);
}

/* Reaches what lies one step from a state. */
static void leave_state(question *q, uint32_t state) {
  if (!q->graph->state[state].edge) make_edges(q->costs, q->graph, state);
  const priced_state *s = &q->graph->state[state];
  int64_t ns = q->graph->found[state].ns;
  const priced_edge *e = s->edge;
  for (int i = 0; i < s->num_edges && e[i].ns < q->best - ns; i++, q->work++) reach_state(q, e[i].to, ns + e[i].ns);
}

/* False: it takes too much work. */
static bool answer(question *q, uint32_t source) {
  reshard_uneven_costs *c = q->costs;
  bool exchanges = !q->p->options->no_alltoall, from_source = msc_reshard_exchanges_first(q->p);
  int64_t exchange = INT64_MAX; /* at least that from the source takes, while it is not priced */
  if (exchanges && from_source && !msc_reshard_least_exchange(q->p, &q->p->from, &q->p->to, &exchange))
    exchange = INT64_MAX;
  reach_state(q, source, 0);
  while (c->num_heap || exchange < q->best) {
    if (exchange < q->best && (!c->num_heap || c->heap[0].ns > exchange)) {
      try_exchange(q, source);
      exchange = INT64_MAX;
      continue;
    }
    queued_state next = queued_state_pop(NULL, c->heap, c->num_heap--);
    const finding *f = &q->graph->found[next.state];
    if (next.ns >= q->best) break;
    if (next.ns != f->ns + f->ahead) continue; /* a shorter path was found since */
    if (q->work > MOST_WORK || c->num_edges > MOST_EDGES) return false;
    if (exchanges && !from_source) try_exchange(q, next.state);
    leave_state(q, next.state);
  }
  return true;
}

bool msc_reshard_uneven_ns(reshard_uneven_costs *costs, const reshard_problem *p, int64_t *out_ns) {
  const msc_reshard_options *o = p->options;
  if (!p->uneven || !o->time || o->peak || o->free_partial || o->sums_at_once) return false;
  question q = {.costs = costs, .p = p, .graph = find_graph(costs, p), .best = INT64_MAX};
  costs->questions++;
  costs->num_heap = 0;
  q.target = number_state(costs, q.graph, &p->to);
  MSC_TRY(answer(&q, number_state(costs, q.graph, &p->from)));
  *out_ns = q.best < INT64_MAX ? q.best : -1;
  return true;
}
