/* choose_collectives.c: a problem in; its best path out: the collectives of least bytes, or least time.  Among equals a
 * reduce_scatter is preferred to an all_reduce here; graph.c computes their costs.
 *
 * A* over states; the estimate is a lower bound on the bytes that some device must still receive.  Paths are compared
 * by bytes (or ns), exchanges, steps with traffic, peak, and then the verb and the layout text (shorter first) of the
 * first step, of the second, and so on.  The first three add up along a path and are the cost of the search, which
 * finds every state and edge of every path of least cost; among those paths the rest decides afterwards. */
#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/reshard/graph.h"

typedef reshard_cost cost;

/* Limits on the work, counted in edges: of the search for the least cost, and of the choice among paths of that
 * cost. */
enum {
  EASY_WORK = 2000,
  MOST_WORK = 2000000,
  MOST_WORK_TIME = 500000,
  HASTY_WORK = 300000,
  TIE_WORK = 2000,
  SMALL_ATOMS = 3,
  MAX_SLICED = 1000,
  MAX_LINKS = 2000000
};

static int64_t major_of(cost c) { return (int64_t)(c >> RESHARD_MINOR_BITS); }

static const cost NO_COST = MSC_RESHARD_NO_COST;

typedef struct {
  int from, next; /* index of a node; of the next edge into the same node, -1: none */
  cost cost;
  reshard_edge edge;
} link;

typedef struct {
  reshard_key key;
  cost g, h;
  int links; /* into this node, with the least cost; -1: none */
  bool closed;
} node;

typedef struct {
  cost f;
  int node;
} entry;

/* A class: the states with the same numbers of parts of each dimension and of partial terms; a permute turns one into
 * another. */
typedef struct {
  int64_t parts[MSC_MAX_RANK], terms;
  cost least; /* of the members that were expanded */
} class;

typedef struct {
  const reshard_problem *p;
  msc_arena *arena;
  bool cost_only;
  node *node;
  int num_nodes, cap_nodes;
  msc_index numbers; /* of nodes, by key */
  entry *heap;
  int heap_num, heap_cap;
  link *link;
  int num_links, cap_links;
  class *class;
  int num_classes, cap_classes;
  int source, current, target;
  cost exchange;    /* lower bound on an exchange from the source that is not priced yet; NO_COST: there is none */
  cost limit;       /* paths that cost more are dropped */
  int64_t peak;     /* of a best path, once one is known: paths with a higher peak are dropped; 0: none is known */
  reshard_state at; /* the state of `current` */
  int64_t work, most_work;  /* edges relaxed so far; the number at which the search stops */
  int haste;                /* weight of the estimates: 1 finds the best path, more finds some path sooner */
  reshard_tallies *tallies; /* for better bounds; or NULL */
  bool proven;              /* no path costs less than the target's */
} search;

/* ---- tables ---- */

static int find_node(const search *s, reshard_key key) {
  MSC_INDEX_EACH(&s->numbers, msc_reshard_hash(key), i) if (s->node[i].key == key) return (int)i;
  return -1;
}

static int add_node(search *s, reshard_key key, cost h) {
  msc_reserve(s->arena, s->node, s->cap_nodes, s->num_nodes + 1);
  msc_index_add(&s->numbers, msc_reshard_hash(key), (uint32_t)s->num_nodes);
  s->node[s->num_nodes] = (node){.key = key, .g = NO_COST, .h = h, .links = -1};
  return s->num_nodes++;
}

/* Order of the heap: the least estimate first; of equal ones the state nearer to the target, so that the least cost is
 * known before other states of that cost are expanded. */
static bool comes_first(const search *s, entry a, entry b) {
  return a.f != b.f                               ? a.f < b.f
         : s->node[a.node].h != s->node[b.node].h ? s->node[a.node].h < s->node[b.node].h
                                                  : a.node > b.node;
}

MSC_HEAP(entry, const search *, entry, comes_first, MSC_STAYS)

static void push_entry(search *s, cost f, int node_index) {
  msc_reserve(s->arena, s->heap, s->heap_cap, s->heap_num + 1);
  entry_push(s, s->heap, (size_t)s->heap_num++, (entry){f, node_index});
}

static entry pop_entry(search *s) { return entry_pop(s, s->heap, (size_t)s->heap_num--); }

/* ---- the search ---- */

/* A lower bound on the cost of every path from this state to the target. */
static cost estimate(search *s, const reshard_state *state) {
  if (msc_reshard_only_sliced(s->p, state, &s->p->to)) return 0;
  cost bound = msc_reshard_estimate(s->p, state);
  cost better = s->tallies && bound <= s->limit ? msc_reshard_tally_bound(s->tallies, state, s->limit) : 0;
  return (better > bound ? better : bound) * (unsigned)s->haste;
}

/* The key of the state, in its canonical form if atoms have classes; `spare` is overwritten then. */
static reshard_key canonical_key(const reshard_problem *p, const reshard_state *state, reshard_state *spare) {
  if (!p->has_classes) return msc_reshard_key(p, state);
  *spare = *state;
  msc_reshard_canonical(p, spare);
  return msc_reshard_key(p, spare);
}

/* Enters an edge from the current state: a node for its end, a new least cost, or a further link of least cost. */
static void relax_edge(void *user, const reshard_state *state, const reshard_edge *edge) {
  search *s = user;
  cost c = edge->verb == MSC_SHARD
               ? 0
               : msc_reshard_cost_of(s->p->options->time ? edge->ns : edge->bytes, edge->verb == MSC_EXCHANGE, 1);
  cost g = s->node[s->current].g + c;
  s->work++;
  if (g > s->limit || (s->peak && msc_reshard_peak(s->p, edge->verb, &s->at, state) > s->peak)) return;
  reshard_state canonical;
  reshard_key key = canonical_key(s->p, state, &canonical);
  int i = find_node(s, key);
  if (i < 0) i = add_node(s, key, estimate(s, state));
  node *n = &s->node[i];
  if (g > n->g || g + n->h / (unsigned)s->haste > s->limit || (g == n->g && s->cost_only)) return;
  if (g < n->g) {
    n->g = g, n->links = -1, n->closed = false;
    push_entry(s, g + n->h, i);
    if (i == s->target) s->limit = g;
  }
  msc_reserve(s->arena, s->link, s->cap_links, s->num_links + 1);
  s->link[s->num_links] = (link){s->current, n->links, c, *edge};
  n->links = s->num_links++;
}

static class *find_class(search *s, const reshard_state *state) {
  class c = {.terms = msc_reshard_atoms_size(s->p, state->partial), .least = NO_COST};
  for (int d = 0; d < s->p->rank; d++) c.parts[d] = msc_reshard_parts(s->p, state, d);
  for (int i = 0; i < s->num_classes; i++)
    if (s->class[i].terms == c.terms && !memcmp(s->class[i].parts, c.parts, sizeof c.parts)) return &s->class[i];
  msc_reserve(s->arena, s->class, s->cap_classes, s->num_classes + 1);
  s->class[s->num_classes] = c;
  return &s->class[s->num_classes++];
}

/* The atoms that permutes out of a state may move. Without `time` a permute costs the same from every state of a class,
 * so only the cheapest members of the class need permutes. With `time` a permute costs what its slowest axis takes;
 * those that move a slowest axis are likewise needed from the cheapest members only.  That holds where each member can
 * be permuted into each: not if a dimension is cut unevenly, whose digits stay. */
static uint32_t permuted_atoms(search *s, const reshard_state *state, cost g) {
  const uint32_t all = (1u << s->p->num_atoms) - 1;
  if (s->p->uneven) return all;
  class *c = find_class(s, state);
  if (g > c->least) return s->p->options->time ? s->p->not_slowest : 0;
  c->least = g;
  return all;
}

/* The largest peak of all steps on the first path that reached the target. */
static int64_t peak_found(search *s) {
  int64_t peak = 1;
  reshard_state from, to;
  for (int n = s->target; s->node[n].links >= 0; n = s->link[s->node[n].links].from) {
    const link *l = &s->link[s->node[n].links];
    msc_reshard_state_of(s->p, s->node[l->from].key, &from);
    msc_reshard_state_of(s->p, s->node[n].key, &to);
    int64_t own = msc_reshard_peak(s->p, l->edge.verb, &from, &to);
    if (own > peak) peak = own;
  }
  return peak;
}

/* Prices the exchange from the first state to the target. Called once its lower bound is the least in the heap. */
static void relax_exchange(search *s) {
  const reshard_problem *p = s->p;
  reshard_edge edge;
  bool found = msc_reshard_exchange(p, &p->from, &p->to, major_of(s->limit), &edge);
  s->exchange = NO_COST;
  s->current = s->source, s->at = p->from;
  if (found) relax_edge(s, &p->to, &edge);
}

/* Sets s->exchange: the exchange from the first state to the target waits with a lower bound on its cost, since its
 * cost takes long to compute. */
static void bound_exchange(search *s) {
  int64_t least;
  if (msc_reshard_least_exchange(s->p, &s->p->from, &s->p->to, &least)) s->exchange = msc_reshard_cost_of(least, 1, 1);
}

static void run_astar(search *s) {
  bool puts_off = s->cost_only && msc_reshard_exchanges_first(s->p);
  s->exchange = NO_COST;
  if (puts_off) bound_exchange(s);
  while (s->heap_num || s->exchange < NO_COST) {
    if (s->exchange < NO_COST && (!s->heap_num || s->heap[0].f > s->exchange)) {
      relax_exchange(s);
      continue;
    }
    entry e = pop_entry(s);
    node *n = &s->node[e.node];
    if (n->closed || e.f != n->g + n->h) continue;
    if (e.f > s->limit && s->haste == 1) return;
    n->closed = true;
    if (e.node == s->target) {
      s->proven = s->haste == 1;
      /* searches with few atoms end before that */
      s->most_work = s->work + (s->p->num_atoms > SMALL_ATOMS ? TIE_WORK : MOST_WORK);
      if (s->cost_only || !s->proven) return;
      s->peak = peak_found(s);
      continue;
    }
    if (s->work > s->most_work || s->num_links > MAX_LINKS) return;
    msc_reshard_state_of(s->p, n->key, &s->at);
    s->current = e.node;
    cost g = n->g;
    reshard_wanted wanted = {
        .budget = major_of(s->limit - g), .movable = permuted_atoms(s, &s->at, g), .no_exchange = puts_off};
    msc_reshard_expand(s->p, &s->at, &wanted, relax_edge, s);
  }
}

/* ---- the choice among the paths of least cost ---- */

typedef struct {
  int from, to;
  reshard_edge edge;
  int64_t peak;
  int next; /* edge out of the same state */
} arc;

/* The states and edges of all paths of least cost; states are numbered so that edges go to higher numbers. */
typedef struct {
  search *s;
  int num, num_arcs, cap_arcs;
  int *node;   /* by state: its node in the search */
  int *number; /* by node: its state; -1: the node is on no path of least cost */
  reshard_state *state;
  arc *arc;
  int *first;    /* by state: the first arc out of it */
  int64_t *peak; /* by state: least peak of a path from the source */
  bool *is_good; /* by state: a path goes on from it to the target within the least peak */
} ways;

static void collect_nodes(ways *w) {
  search *s = w->s;
  int *stack = msc_new_array(s->arena, int, s->num_nodes), depth = 0;
  w->node = msc_new_array(s->arena, int, s->num_nodes);
  w->number = msc_new_array(s->arena, int, s->num_nodes);
  for (int i = 0; i < s->num_nodes; i++) w->number[i] = -1;
  stack[depth++] = s->target;
  w->number[s->target] = 0;
  while (depth) {
    int n = stack[--depth];
    w->node[w->num++] = n;
    for (int l = s->node[n].links; l >= 0; l = s->link[l].next) {
      int from = s->link[l].from;
      if (w->number[from] >= 0 || s->node[from].g + s->link[l].cost != s->node[n].g) continue;
      w->number[from] = 0;
      stack[depth++] = from;
    }
  }
}

/* A topological order of the states: costs grow along edges, and a slice, which costs nothing, uses one more atom. */
static bool comes_before(const ways *w, int a, int b) {
  const node *x = &w->s->node[a], *y = &w->s->node[b];
  if (x->g != y->g) return x->g < y->g;
  reshard_state p, q;
  msc_reshard_state_of(w->s->p, x->key, &p);
  msc_reshard_state_of(w->s->p, y->key, &q);
  int used_p = __builtin_popcount(msc_reshard_used(w->s->p, &p)),
      used_q = __builtin_popcount(msc_reshard_used(w->s->p, &q));
  return used_p != used_q ? used_p < used_q : x->key < y->key;
}

/* Sorts the nodes a[0 .. num - 1] by comes_before, by merging, as there may be thousands. `spare` has room for num. */
static void sort_nodes(ways *w, int *a, int *spare, int num) {
  if (num < 2) return;
  int half = num / 2, i = 0, j = half;
  sort_nodes(w, a, spare, half);
  sort_nodes(w, a + half, spare, num - half);
  for (int k = 0; k < num; k++) spare[k] = j >= num || (i < half && !comes_before(w, a[j], a[i])) ? a[i++] : a[j++];
  memcpy(a, spare, (size_t)num * sizeof *a);
}

static void collect_arcs(ways *w) {
  search *s = w->s;
  for (int i = 0; i < w->num; i++)
    w->number[w->node[i]] = i, msc_reshard_state_of(s->p, s->node[w->node[i]].key, &w->state[i]), w->first[i] = -1;
  for (int i = 0; i < w->num; i++)
    for (int l = s->node[w->node[i]].links; l >= 0; l = s->link[l].next) {
      const link *k = &s->link[l];
      int from = w->number[k->from];
      if (from < 0 || s->node[k->from].g + k->cost != s->node[w->node[i]].g) continue;
      msc_reserve(s->arena, w->arc, w->cap_arcs, w->num_arcs + 1);
      w->arc[w->num_arcs] =
          (arc){from, i, k->edge, msc_reshard_peak(s->p, k->edge.verb, &w->state[from], &w->state[i]), w->first[from]};
      w->first[from] = w->num_arcs++;
    }
}

/* Computes w->peak and w->is_good. */
static void keep_least_peak(ways *w) {
  int target = w->number[w->s->target];
  for (int i = 0; i < w->num; i++) w->peak[i] = INT64_MAX;
  w->peak[0] = 0;
  for (int i = 0; i < w->num; i++)
    for (int a = w->first[i]; a >= 0; a = w->arc[a].next) {
      int64_t peak = w->arc[a].peak > w->peak[i] ? w->arc[a].peak : w->peak[i];
      if (peak < w->peak[w->arc[a].to]) w->peak[w->arc[a].to] = peak;
    }
  w->is_good[target] = true;
  for (int i = w->num - 1; i >= 0; i--)
    for (int a = w->first[i]; a >= 0; a = w->arc[a].next)
      if (w->is_good[w->arc[a].to] && w->arc[a].peak <= w->peak[target]) w->is_good[i] = true;
}

static ways collect_ways(search *s) {
  ways w = {.s = s};
  collect_nodes(&w);
  sort_nodes(&w, w.node, msc_new_array(s->arena, int, w.num), w.num);
  w.state = msc_new_array(s->arena, reshard_state, w.num);
  w.first = msc_new_array(s->arena, int, w.num);
  w.peak = msc_new_array(s->arena, int64_t, w.num);
  w.is_good = msc_new_array(s->arena, bool, w.num);
  collect_arcs(&w);
  keep_least_peak(&w);
  return w;
}

static bool is_usable(const ways *w, const arc *a) {
  return w->is_good[a->to] && a->peak <= w->peak[w->number[w->s->target]];
}

static bool has_traffic_out(const ways *w, int i) {
  for (int a = w->first[i]; a >= 0; a = w->arc[a].next)
    if (w->arc[a].edge.verb != MSC_SHARD && is_usable(w, &w->arc[a])) return true;
  return false;
}

/* A position on a path: the number of a canonical state, and the key with the actual atoms. */
typedef struct {
  int state;
  reshard_key real;
} position;

typedef struct {
  ways *w;
  position at;
  bool slices;      /* only slices are taken, else only other verbs */
  position *sliced; /* positions that slices lead to, the start first */
  int num_sliced, cap_sliced;
  const char *best_text;
  reshard_edge best_edge;
  position best;
} step_choice;

/* The order in which equally good plans prefer verbs. */
static int preference(msc_verb verb) {
  static const int places[MSC_NUM_VERBS] = {[MSC_ALL_TO_ALL] = 1,
                                            [MSC_REDUCE_SCATTER] = 2,
                                            [MSC_ALL_REDUCE] = 3,
                                            [MSC_PERMUTE] = 4,
                                            [MSC_EXCHANGE] = 5}; /* all others come first */
  return places[verb];
}

/* Keeps the better of two equally good next steps: by verb, then the shorter text, which leaves more axes whole. */
static void offer_step(step_choice *t, position to, const reshard_edge *edge) {
  reshard_state real;
  msc_reshard_state_of(t->w->s->p, to.real, &real);
  const char *text = msc_reshard_text(t->w->s->p, t->w->s->arena, &real);
  if (t->best_text) {
    size_t len = strlen(text), best_len = strlen(t->best_text);
    int order = preference(edge->verb) - preference(t->best_edge.verb);
    if (order ? order > 0 : len != best_len ? len > best_len : strcmp(text, t->best_text) >= 0) return;
  }
  t->best_text = text, t->best_edge = *edge, t->best = to;
}

static bool is_edge(const ways *w, int from, int to, msc_verb verb) {
  for (int a = w->first[from]; a >= 0; a = w->arc[a].next)
    if (w->arc[a].to == to && w->arc[a].edge.verb == verb && is_usable(w, &w->arc[a])) return true;
  return false;
}

/* Receives the edges that leave t->at and ignores those on no path of least cost. Offers an edge as the next step or,
 * with t->slices, adds the state that it leads to to t->sliced. */
static void take_neighbour(void *user, const reshard_state *state, const reshard_edge *edge) {
  step_choice *t = user;
  const reshard_problem *p = t->w->s->p;
  reshard_state spare;
  if ((edge->verb == MSC_SHARD) != t->slices) return;
  int found = find_node(t->w->s, canonical_key(p, state, &spare));
  position to = {found < 0 ? -1 : t->w->number[found], msc_reshard_key(p, state)};
  if (to.state < 0 || !is_edge(t->w, t->at.state, to.state, edge->verb)) return;
  if (!t->slices) {
    offer_step(t, to, edge);
    return;
  }
  for (int i = 0; i < t->num_sliced; i++)
    if (t->sliced[i].real == to.real) return;
  if (t->num_sliced == MAX_SLICED) return;
  msc_reserve(t->w->s->arena, t->sliced, t->cap_sliced, t->num_sliced + 1);
  t->sliced[t->num_sliced++] = to;
}

static void expand_from(step_choice *t, position at, bool slices) {
  const search *s = t->w->s;
  reshard_wanted wanted = {.budget = major_of(s->limit - s->node[t->w->node[at.state]].g),
                           .movable = (1u << s->p->num_atoms) - 1,
                           .only_slices = slices,
                           .twins = true};
  reshard_state real;
  msc_reshard_state_of(s->p, at.real, &real);
  t->at = at, t->slices = slices;
  msc_reshard_expand(s->p, &real, &wanted, take_neighbour, t);
}

/* Offers every run of slices that starts at `at` as one step. A run ends at the target or at a state from which a path
 * of least cost goes on with another verb. */
static void offer_slices(step_choice *t, position at) {
  int target = t->w->number[t->w->s->target];
  msc_reserve(t->w->s->arena, t->sliced, t->cap_sliced, 0 + 1);
  t->sliced[0] = at, t->num_sliced = 1;
  int *stack = msc_new_array(t->w->s->arena, int, MAX_SLICED), depth = 1;
  while (depth) { /* depth first, so that ends are found even if MAX_SLICED stops it */
    int before = t->num_sliced;
    expand_from(t, t->sliced[stack[--depth]], true);
    for (int i = before; i < t->num_sliced; i++) stack[depth++] = i;
  }
  for (int i = 1; i < t->num_sliced; i++)
    if (t->sliced[i].state == target || has_traffic_out(t->w, t->sliced[i].state))
      offer_step(t, t->sliced[i], &(reshard_edge){.verb = MSC_SHARD});
}

/* Builds the path from the best step that each state offers. False: the path has a hole, since MAX_SLICED cut the list
 * of slices short. */
static bool choose_path(ways *w, reshard_path *path) {
  const reshard_problem *p = w->s->p;
  position at = {0, msc_reshard_key(p, &p->from)};
  path->state = msc_new_array(w->s->arena, reshard_state, 2 * w->num);
  path->edge = msc_new_array(w->s->arena, reshard_edge, 2 * w->num);
  while (at.state != w->number[w->s->target]) {
    step_choice t = {.w = w};
    if (!path->num || path->edge[path->num - 1].verb != MSC_SHARD) offer_slices(&t, at);
    if (!t.best_text) expand_from(&t, at, false);
    if (!t.best_text) return false;
    at = t.best;
    msc_reshard_state_of(p, at.real, &path->state[path->num]);
    path->edge[path->num++] = t.best_edge;
  }
  return true;
}

/* Follows the links back from the target: some path of least cost. */
static void trace_back(search *s, reshard_path *path) {
  int num = 0;
  for (int n = s->target; s->node[n].links >= 0; n = s->link[s->node[n].links].from) num++;
  path->state = msc_new_array(s->arena, reshard_state, num + 1);
  path->edge = msc_new_array(s->arena, reshard_edge, num + 1);
  path->num = num;
  for (int n = s->target; num-- > 0; n = s->link[s->node[n].links].from) {
    msc_reshard_state_of(s->p, s->node[n].key, &path->state[num]);
    path->edge[num] = s->link[s->node[n].links].edge;
  }
}

static void start_search(search *s, const reshard_problem *p, msc_arena *arena, int haste, int64_t most_work,
                         reshard_tallies *tallies, cost limit) {
  *s = (search){.p = p,
                .arena = arena,
                .numbers.arena = arena,
                .limit = limit,
                .haste = haste,
                .most_work = most_work,
                .tallies = tallies};
  reshard_state spare;
  s->target = add_node(s, canonical_key(p, &p->to, &spare), 0);
  reshard_key from = canonical_key(p, &p->from, &spare);
  int source = from == s->node[s->target].key ? s->target : add_node(s, from, estimate(s, &p->from));
  s->node[source].g = 0;
  s->source = source;
  push_entry(s, s->node[source].h, source);
}

bool msc_reshard_search(const reshard_problem *p, msc_arena *arena, bool cost_only, reshard_path *out_path,
                        bool *out_proven) {
  search s, hasty;
  memset(out_path, 0, sizeof *out_path);
  bool is_uneven_search = p->uneven && !p->options->peak; /* no tallies and no rows: one search does all */
  int64_t most_work = p->options->time ? MOST_WORK_TIME : MOST_WORK;
  start_search(&s, p, arena, 1, is_uneven_search ? most_work : EASY_WORK, NULL, NO_COST);
  s.cost_only = cost_only;
  run_astar(&s);
  bool by_rows = !s.proven && s.work > s.most_work && p->rows && !p->options->sums_at_once;
  struct shard_rows *rows = by_rows ? msc_reshard_rows_for(p->rows, p->rows_arena, p) : NULL;
  if (rows) return *out_proven = true, msc_reshard_rows_path(rows, p, arena, out_path);
  if (!s.proven && s.work > s.most_work && !is_uneven_search) {
    if (p->options->peak && s.node[s.target].g == NO_COST && msc_reshard_least_peak(p, arena) > p->options->peak)
      return false;
    cost limit = s.limit;
    start_search(&s, p, arena, 1, most_work, msc_reshard_tallies_new(p, arena), limit);
    s.cost_only = cost_only;
    run_astar(&s);
  }
  *out_proven = s.proven;
  if (!s.proven && s.work > s.most_work) { /* too large: a hasty search may find a better path */
    start_search(&hasty, p, arena, 3, HASTY_WORK, NULL, NO_COST);
    hasty.cost_only = cost_only;
    run_astar(&hasty);
    if (hasty.node[hasty.target].g < s.node[s.target].g) s = hasty;
  }
  if (s.node[s.target].g == NO_COST) return false;
  if (cost_only) {
    trace_back(&s, out_path);
    return true;
  }
  ways w = collect_ways(&s);
  return choose_path(&w, out_path);
}

/* ---- least peak ---- */

/* A lower bound on the peak of a path's last step with traffic: the target's bytes, and the fewest from which it can be
 * made. */
static cost least_arrival(const reshard_problem *p) {
  int64_t parts = p->to_copies * (p->options->free_partial ? p->to_terms : 1);
  return p->uneven || msc_reshard_only_sliced(p, &p->from, &p->to) ? 0 : (cost)(p->to_local + p->to_local / parts);
}

static void relax_peak(void *user, const reshard_state *state, const reshard_edge *edge) {
  search *s = user;
  reshard_state from;
  msc_reshard_state_of(s->p, s->node[s->current].key, &from);
  cost peak = (cost)msc_reshard_peak(s->p, edge->verb, &from, state);
  cost g = peak > s->node[s->current].g ? peak : s->node[s->current].g;
  if (g >= s->limit) return;
  reshard_state spare;
  s->work++;
  reshard_key key = canonical_key(s->p, state, &spare);
  int i = find_node(s, key);
  /* states of equal peak are visited in the order of their distance to the target */
  if (i < 0) i = add_node(s, key, s->p->uneven ? 0 : msc_reshard_estimate(s->p, state));
  if (g >= s->node[i].g) return;
  s->node[i].g = g;
  if (i == s->target) s->limit = g;
  cost least = least_arrival(s->p);
  push_entry(s, g > least ? g : least, i);
}

int64_t msc_reshard_least_peak(const reshard_problem *p, msc_arena *arena) {
  search s;
  reshard_problem free_of_limit = *p;
  msc_reshard_options options = *p->options;
  options.peak = 0;
  free_of_limit.options = &options;
  start_search(&s, &free_of_limit, arena, 1, MOST_WORK, NULL, NO_COST);
  s.heap[0].f = least_arrival(p);
  if (s.heap[0].node == s.target) return msc_reshard_local(p, &p->from);
  while (s.heap_num && s.work < MOST_WORK) {
    entry e = pop_entry(&s);
    cost g = s.node[e.node].g, least = least_arrival(p);
    if (e.f != (g > least ? g : least)) continue;
    if (e.node == s.target || e.f >= s.limit) break;
    reshard_state state;
    msc_reshard_state_of(p, s.node[e.node].key, &state);
    s.current = e.node;
    class *c = find_class(&s, &state);
    /* states come in ascending peak, and a permute has the peak of its class: only the first member of a class
     * needs it */
    bool first = c->least == NO_COST;
    c->least = 0;
    reshard_wanted wanted = {.budget = INT64_MAX, .movable = first ? (1u << p->num_atoms) - 1 : 0};
    msc_reshard_expand(&free_of_limit, &state, &wanted, relax_peak, &s);
  }
  return s.node[s.target].g == NO_COST ? 0 : (int64_t)s.node[s.target].g;
}
