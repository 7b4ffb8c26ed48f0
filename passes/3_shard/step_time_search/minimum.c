/* minimum.c: tables over variables -> the assignment of least total cost (see minimum.h).
 *
 * Messages are stored with their minimum subtracted, equal ones once: along equal layers they soon repeat, and then
 * everything computed from them is found among the known results. */
#include "passes/3_shard/step_time_search/minimum.h"

#include <stdlib.h>
#include <string.h>

#include "ir/table.h"

enum { SMALL = 1 << 19 /* entries of all tables */, MAX_ROUNDS = 16, MAX_IDLE = 3, MAX_HELD_TABLE = 1 << 13 };

/* Costs by state, less their minimum, so that the least is 0. */
typedef struct {
  int num;
  const int64_t *cost;
} vector;

/* A pair of variables, with the sum of all tables between them. */
typedef struct {
  int a, b;
  const int64_t *cost;
  double weight;
  bool is_branch; /* of the forest */
} pair;

/* A stored result, and the pointers that it was computed from; equal pointers stand for equal contents. Unused ones are
 * NULL or an address that tells apart the functions that store results. */
typedef struct {
  const void *from[4];
  const void *result; /* NULL: not computed yet */
  int64_t number;
} known;

/* A variable as a node of the forest. */
typedef struct {
  int parent;                            /* -1: a root */
  const pair *up;                        /* to the parent */
  int first, num;                        /* children, side by side in `order` */
  const int64_t *own;                    /* all tables of it alone, or NULL */
  const vector *below;                   /* by state: own costs and the messages of children */
  const vector *to_parent, *from_parent; /* messages, by state of the parent and of this variable */
  const vector *all;                     /* by state: least cost of the whole forest, less its minimum */
} node;

typedef struct {
  msc_arena *arena;
  const shard_problem *p;
  size_t num_pairs;
  pair *pair;
  node *node;
  int *order;       /* parents first */
  msc_copies costs; /* of vectors */
  const vector **vector;
  MSC_TABLE(known) known;
  int64_t *sum;  /* room for one number per state of any variable */
  int64_t *side; /* room for one number per state and child of any variable, and two more per state */
  int64_t bound;
  double entries;
} relaxation;

static int64_t limit_cost(int64_t cost) { return cost < SHARD_IMPOSSIBLE ? cost : SHARD_IMPOSSIBLE; }

/* ---- stored results ---- */

static known *find_known(relaxation *r, const void *a, const void *b, const void *c, const void *d) {
  const void *from[4] = {a, b, c, d};
  return msc_table_at(&r->known, &from);
}

/* The vector of these costs less their minimum, which is added to *offset. Overwrites cost. */
static const vector *make_vector(relaxation *r, int num, int64_t *cost, int64_t *offset) {
  int64_t least = SHARD_IMPOSSIBLE;
  for (int i = 0; i < num; i++) least = cost[i] < least ? cost[i] : least;
  for (int i = 0; i < num; i++)
    if (cost[i] < SHARD_IMPOSSIBLE) cost[i] -= least;
  *offset = limit_cost(*offset + least);
  uint32_t before = r->costs.index.num, n = msc_copy_of(&r->costs, cost, (size_t)num * sizeof *cost);
  if (n == before) {
    const vector v = {num, r->costs.item[n].data};
    msc_grow(r->arena, r->vector, n);
    r->vector[n] = msc_arena_copy(r->arena, &v, sizeof v);
  }
  return r->vector[n];
}

/* ---- pairs ---- */

static size_t size_of_pair(const relaxation *r, const pair *p) {
  return (size_t)r->p->num_states[p->a] * (size_t)r->p->num_states[p->b];
}

/* The sum of two tables of a pair, entry by entry; `more` may have the two variables in the other order. */
static const int64_t *add_tables(relaxation *r, const pair *p, const int64_t *sum, const shard_table *more) {
  bool swapped = more->a != p->a;
  int rows = r->p->num_states[p->a], columns = r->p->num_states[p->b];
  known *k = find_known(r, sum, more->cost, &r->pair, swapped ? r : NULL);
  if (k->result) return k->result;
  int64_t *cost = msc_new_array(r->arena, int64_t, size_of_pair(r, p));
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      size_t at = (size_t)i * (size_t)columns + (size_t)j;
      cost[at] = limit_cost(sum[at] + more->cost[swapped ? (size_t)j * (size_t)rows + (size_t)i : at]);
    }
  return k->result = cost;
}

/* The weight of a pair in the choice of branches: its average cost, each entry counted up to a limit. */
static double weight_of(relaxation *r, const pair *p) {
  known *k = find_known(r, p->cost, &r->order, NULL, NULL);
  size_t size = size_of_pair(r, p);
  for (size_t i = 0; !k->result && i < size; i++) k->number += p->cost[i] < 1 << 30 ? p->cost[i] : 1 << 30;
  k->result = p->cost;
  return size ? (double)k->number / (double)size : 0;
}

static int lower_end(const shard_table *t) { return t->a < t->b ? t->a : t->b; }
static int upper_end(const shard_table *t) { return t->a < t->b ? t->b : t->a; }

/* Sorts tables by a variable of each; equal ones stay in their order. first: room for two numbers more than there are
 * variables. */
static void sort_tables(size_t num, const shard_table *const *in, int (*end)(const shard_table *), size_t vars,
                        size_t *first, const shard_table **out) {
  memset(first, 0, (vars + 2) * sizeof *first);
  for (size_t i = 0; i < num; i++) first[end(in[i]) + 2]++;
  for (size_t v = 0; v < vars; v++) first[v + 2] += first[v + 1];
  for (size_t i = 0; i < num; i++) out[first[end(in[i]) + 1]++] = in[i];
}

static void find_pairs(relaxation *r) {
  size_t num = 0, vars = (size_t)r->p->num_vars, *first = msc_new_array(r->arena, size_t, vars + 2);
  const shard_table **sorted = msc_new_array(r->arena, const shard_table *, r->p->num_tables),
                    **half = msc_new_array(r->arena, const shard_table *, r->p->num_tables);
  for (size_t i = 0; i < r->p->num_tables; i++)
    if (r->p->table[i].b >= 0) sorted[num++] = &r->p->table[i];
  sort_tables(num, sorted, upper_end, vars, first, half);
  sort_tables(num, half, lower_end, vars, first, sorted);
  r->pair = msc_new_array(r->arena, pair, num);
  for (size_t i = 0; i < num; i++) {
    const shard_table *t = sorted[i];
    pair *last = r->num_pairs ? &r->pair[r->num_pairs - 1] : NULL;
    if (last && ((last->a == t->a && last->b == t->b) || (last->a == t->b && last->b == t->a)))
      last->cost = add_tables(r, last, last->cost, t);
    else r->pair[r->num_pairs++] = (pair){.a = t->a, .b = t->b, .cost = t->cost};
  }
  for (size_t i = 0; i < r->num_pairs; i++) r->pair[i].weight = weight_of(r, &r->pair[i]);
}

static void add_up_own_tables(relaxation *r) {
  for (size_t i = 0; i < r->p->num_tables; i++) {
    const shard_table *t = &r->p->table[i];
    node *n = &r->node[t->a];
    if (t->b >= 0) continue;
    if (!n->own) {
      n->own = t->cost;
      continue;
    }
    int64_t *sum = msc_new_array(r->arena, int64_t, r->p->num_states[t->a]);
    for (int s = 0; s < r->p->num_states[t->a]; s++) sum[s] = limit_cost(n->own[s] + t->cost[s]);
    n->own = sum;
  }
}

/* ---- the forest ---- */

/* Pairs of one weight. */
typedef struct {
  uint64_t bits;
  double weight;
  size_t num; /* pairs; while they are sorted: the place of the next one of them */
} weight_class;

static int by_weight(const void *a, const void *b) {
  const weight_class *x = *(const weight_class *const *)a, *y = *(const weight_class *const *)b;
  return x->weight < y->weight ? 1 : x->weight > y->weight ? -1 : 0;
}

/* Lists pairs in descending weight, those of one weight in their order. There are few different weights. */
static pair **sort_by_weight(relaxation *r) {
  MSC_TABLE(weight_class) classes = {.index.arena = r->arena};
  pair **sorted = msc_new_array(r->arena, pair *, r->num_pairs);
  for (size_t i = 0; i < r->num_pairs; i++) {
    uint64_t bits;
    memcpy(&bits, &r->pair[i].weight, sizeof bits);
    weight_class *c = msc_table_at(&classes, &bits);
    c->weight = r->pair[i].weight, c->num++;
  }
  size_t num = msc_table_num(&classes), at = 0;
  weight_class **order = msc_new_array(r->arena, weight_class *, num);
  for (size_t i = 0; i < num; i++) order[i] = &classes.item[i];
  if (num) qsort(order, num, sizeof *order, by_weight);
  for (size_t i = 0, more; i < num; i++, at += more) more = order[i]->num, order[i]->num = at;
  for (size_t i = 0; i < r->num_pairs; i++) {
    uint64_t bits;
    memcpy(&bits, &r->pair[i].weight, sizeof bits);
    sorted[msc_table_find(&classes, &bits)->num++] = &r->pair[i];
  }
  return sorted;
}

/* Chooses the branches of the forest: pairs in descending weight, without those that close a cycle. */
static void choose_branches(relaxation *r) {
  pair **sorted = sort_by_weight(r);
  uint32_t *above = msc_new_array(r->arena, uint32_t, r->p->num_vars);
  for (int v = 0; v < r->p->num_vars; v++) above[v] = (uint32_t)v;
  for (size_t i = 0; i < r->num_pairs; i++) {
    uint32_t a = msc_set_root(above, (uint32_t)sorted[i]->a), b = msc_set_root(above, (uint32_t)sorted[i]->b);
    sorted[i]->is_branch = a != b;
    above[a] = b;
  }
}

/* Orders variables so that each comes after its parent and the children of one variable are neighbours. */
static void order_variables(relaxation *r) {
  int vars = r->p->num_vars, num = 0;
  size_t *first = msc_new_array(r->arena, size_t, vars + 2);
  const pair **at = msc_new_array(r->arena, const pair *, 2 * r->num_pairs);
  bool *seen = msc_new_array(r->arena, bool, vars);
  for (size_t i = 0; i < r->num_pairs; i++)
    if (r->pair[i].is_branch) first[r->pair[i].a + 2]++, first[r->pair[i].b + 2]++;
  for (int v = 0; v < vars; v++) first[v + 2] += first[v + 1];
  for (size_t i = 0; i < r->num_pairs; i++)
    if (r->pair[i].is_branch) at[first[r->pair[i].a + 1]++] = &r->pair[i], at[first[r->pair[i].b + 1]++] = &r->pair[i];
  r->order = msc_new_array(r->arena, int, vars);
  for (int root = 0; root < vars; root++) {
    if (seen[root]) continue;
    seen[root] = true;
    r->node[root].parent = -1;
    r->order[num++] = root;
    for (int i = num - 1; i < num; i++) {
      int v = r->order[i];
      r->node[v].first = num;
      for (size_t k = first[v]; k < first[v + 1]; k++) {
        int child = at[k]->a == v ? at[k]->b : at[k]->a;
        if (seen[child]) continue;
        seen[child] = true;
        r->node[child].parent = v, r->node[child].up = at[k];
        r->order[num++] = child;
      }
      r->node[v].num = num - r->node[v].first;
    }
  }
}

/* ---- messages ---- */

static void add_to(int64_t *sum, int num, const int64_t *cost) {
  for (int s = 0; cost && s < num; s++) sum[s] = limit_cost(sum[s] + cost[s]);
}

/* out[j] = min over i of x[i] + cost[i][j] */
static void min_plus_rows(int64_t *out, int rows, int columns, const int64_t *x, const int64_t *cost) {
  for (int j = 0; j < columns; j++) out[j] = SHARD_IMPOSSIBLE;
  for (int i = 0; i < rows; i++) {
    const int64_t *row = cost + (size_t)i * (size_t)columns;
    for (int j = 0; x[i] < SHARD_IMPOSSIBLE && j < columns; j++)
      out[j] = x[i] + row[j] < out[j] ? x[i] + row[j] : out[j];
  }
}

/* out[i] = min over j of x[j] + cost[i][j] */
static void min_plus_columns(int64_t *out, int rows, int columns, const int64_t *x, const int64_t *cost) {
  for (int i = 0; i < rows; i++) {
    const int64_t *row = cost + (size_t)i * (size_t)columns;
    int64_t least = SHARD_IMPOSSIBLE;
    for (int j = 0; j < columns; j++) least = x[j] + row[j] < least ? x[j] + row[j] : least;
    out[i] = least;
  }
}

/* The message of a pair to its end `to`: for each state of `to`, the least cost of the other end's side; x: that side's
 * costs by state of the other end. */
static const vector *make_message(relaxation *r, const pair *p, int to, const vector *x, int64_t *offset) {
  known *k = find_known(r, p->cost, x, to == p->a ? &r->node : NULL, r);
  if (!k->result) {
    int rows = r->p->num_states[p->a], columns = r->p->num_states[p->b];
    (to == p->b ? min_plus_rows : min_plus_columns)(r->sum, rows, columns, x->cost, p->cost);
    k->result = make_vector(r, r->p->num_states[to], r->sum, &k->number);
    r->entries += (double)rows * columns;
  }
  *offset = limit_cost(*offset + k->number);
  return k->result;
}

static void send_up(relaxation *r) {
  for (int i = r->p->num_vars; i-- > 0;) {
    node *n = &r->node[r->order[i]];
    int states = r->p->num_states[r->order[i]];
    memset(r->sum, 0, (size_t)states * sizeof *r->sum);
    add_to(r->sum, states, n->own);
    for (int k = 0; k < n->num; k++) add_to(r->sum, states, r->node[r->order[n->first + k]].to_parent->cost);
    n->below = make_vector(r, states, r->sum, &r->bound);
    if (n->parent >= 0) n->to_parent = make_message(r, n->up, n->parent, n->below, &r->bound);
  }
}

/* Sends each child the costs of everything but its own subtree, by the child's state. */
static void send_down(relaxation *r) {
  int64_t unused = 0;
  for (int i = 0; i < r->p->num_vars; i++) {
    int states = r->p->num_states[r->order[i]];
    node *n = &r->node[r->order[i]];
    int64_t *before = r->side, *behind = r->side + (size_t)(n->num + 1) * (size_t)states;
    memset(before, 0, (size_t)states * sizeof *before);
    memset(behind, 0, (size_t)states * sizeof *behind);
    add_to(before, states, n->own);
    if (n->from_parent) add_to(before, states, n->from_parent->cost);
    for (int k = 0; k < n->num; k++, before += states) {
      memcpy(before + states, before, (size_t)states * sizeof *before);
      add_to(before + states, states, r->node[r->order[n->first + k]].to_parent->cost);
    }
    n->all = make_vector(r, states, before, &unused);
    for (int k = n->num; k-- > 0;) {
      int c = r->order[n->first + k];
      before -= states;
      add_to(before, states, behind);
      r->node[c].from_parent = make_message(r, r->node[c].up, c, make_vector(r, states, before, &unused), &unused);
      add_to(behind, states, r->node[c].to_parent->cost);
    }
  }
}

/* ---- assignments ---- */

static int64_t cost_of(const shard_problem *p, const int *state) {
  int64_t sum = 0;
  for (size_t i = 0; i < p->num_tables; i++) {
    const shard_table *t = &p->table[i];
    sum = limit_cost(sum + t->cost[t->b < 0 ? (size_t)state[t->a]
                                            : (size_t)state[t->a] * (size_t)p->num_states[t->b] + (size_t)state[t->b]]);
  }
  return sum;
}

/* Writes the best assignment for the tables of the forest alone. */
static void read_forest(const relaxation *r, int *out_state) {
  for (int i = 0; i < r->p->num_vars; i++) {
    int v = r->order[i], best = 0;
    const node *n = &r->node[v];
    int64_t least = INT64_MAX;
    for (int s = 0; s < r->p->num_states[v]; s++) {
      int64_t cost = n->below->cost[s];
      if (n->parent >= 0) {
        int at = out_state[n->parent];
        cost += n->up->cost[n->up->a == v ? (size_t)s * (size_t)r->p->num_states[n->parent] + (size_t)at
                                          : (size_t)at * (size_t)r->p->num_states[v] + (size_t)s];
      }
      if (cost < least) least = cost, best = s;
    }
    out_state[v] = best;
  }
}

/* ---- states that remain ---- */

/* The states of a variable that remain, in ascending order; equal lists are stored once. */
typedef struct {
  int num;
  const int *state;
} list;

typedef struct {
  relaxation *r;
  list *of_var;
  msc_copies states; /* of lists */
  int *buffer;
} reduction;

/* Lists the states whose share of the bound is at most `slack`. */
static list list_remaining(reduction *d, const vector *all, int64_t slack) {
  int num = 0;
  for (int s = 0; s < all->num; s++)
    if (all->cost[s] <= slack) d->buffer[num++] = s;
  uint32_t n = msc_copy_of(&d->states, d->buffer, (size_t)num * sizeof *d->buffer);
  return (list){num, d->states.item[n].data};
}

static void list_all_remaining(reduction *d, int64_t slack) {
  const shard_problem *p = d->r->p;
  int most = 1;
  for (int v = 0; v < p->num_vars; v++) most = p->num_states[v] > most ? p->num_states[v] : most;
  d->buffer = msc_new_array(d->r->arena, int, most);
  d->of_var = msc_new_array(d->r->arena, list, p->num_vars);
  for (int v = 0; v < p->num_vars; v++) d->of_var[v] = list_remaining(d, d->r->node[v].all, slack);
}

/* The entries of a table for the states of two lists; the second is NULL for a table of one variable. */
static const int64_t *select_entries(relaxation *r, const shard_table *t, int num_a, const int *a, int num_b,
                                     const int *b) {
  known *k = find_known(r, t->cost, a, b, &r->side);
  if (k->result) return k->result;
  int columns = t->b < 0 ? 1 : num_b, width = t->b < 0 ? 1 : r->p->num_states[t->b];
  int64_t *cost = msc_new_array(r->arena, int64_t, (size_t)num_a * (size_t)columns);
  for (int i = 0; i < num_a; i++)
    for (int j = 0; j < columns; j++)
      cost[i * columns + j] = t->cost[(size_t)a[i] * (size_t)width + (size_t)(t->b < 0 ? 0 : b[j])];
  return k->result = cost;
}

static const int64_t *restrict_table(reduction *d, const shard_table *t) {
  const list *a = &d->of_var[t->a], *b = t->b < 0 ? NULL : &d->of_var[t->b];
  return select_entries(d->r, t, a->num, a->state, b ? b->num : 0, b ? b->state : NULL);
}

void shard_restrict(msc_arena *arena, const shard_problem *p, const int *num, const int *const *state,
                    shard_problem *out_p) {
  relaxation r = {.arena = arena, .p = p, .costs.index.arena = arena, .known.index.arena = arena};
  shard_table *table = msc_arena_copy(arena, p->table, p->num_tables * sizeof *table);
  for (size_t i = 0; i < p->num_tables; i++) {
    int a = p->table[i].a, b = p->table[i].b;
    table[i].cost = select_entries(&r, &p->table[i], num[a], state[a], b < 0 ? 0 : num[b], b < 0 ? NULL : state[b]);
  }
  *out_p = *p;
  out_p->num_states = num, out_p->table = table;
}

/* Makes the problem of the variables that have more than one state left, and returns the cost of the tables that
 * concern only the others. */
static int64_t reduce_problem(reduction *d, shard_problem *out_p) {
  const shard_problem *p = d->r->p;
  int *num_states = msc_new_array(d->r->arena, int, p->num_vars),
      *number = msc_new_array(d->r->arena, int, p->num_vars);
  shard_table *table = msc_new_array(d->r->arena, shard_table, p->num_tables);
  int64_t sum = 0;
  *out_p = (shard_problem){0, num_states, 0, table, p->deadline_s, 0};
  for (int v = 0; v < p->num_vars; v++) {
    number[v] = d->of_var[v].num > 1 ? out_p->num_vars : -1;
    if (number[v] >= 0) num_states[out_p->num_vars++] = d->of_var[v].num;
  }
  for (size_t i = 0; i < p->num_tables; i++) {
    int a = number[p->table[i].a], b = p->table[i].b < 0 ? -1 : number[p->table[i].b];
    const int64_t *cost = restrict_table(d, &p->table[i]);
    if (a < 0 && b < 0) sum = limit_cost(sum + cost[0]);
    else table[out_p->num_tables++] = (shard_table){a < 0 ? b : a, a < 0 ? -1 : b, cost};
  }
  return sum;
}

/* Are the remaining states so few that solving the problem at once takes less time than in steps of growing slack? */
static bool is_small(const reduction *d) {
  size_t entries = 0;
  for (size_t i = 0; i < d->r->p->num_tables; i++) {
    const shard_table *t = &d->r->p->table[i];
    entries += (size_t)d->of_var[t->a].num * (size_t)(t->b < 0 ? 1 : d->of_var[t->b].num);
  }
  return entries <= SMALL;
}

/* Solves the problem without the states whose share of the bound exceeds *slack; raises *slack to `most` first if that
 * makes little work. False: too large. */
static bool solve_within(relaxation *r, int64_t *slack, int64_t most, size_t max_work, int *out_state,
                         int64_t *out_cost, shard_effort *out_effort) {
  reduction d = {.r = r, .states.index.arena = r->arena};
  shard_problem p;
  int vars = r->p->num_vars;
  list_all_remaining(&d, most);
  if (is_small(&d)) *slack = most;
  if (*slack < most) list_all_remaining(&d, *slack);
  int64_t rest = reduce_problem(&d, &p);
  int *state = msc_new_array(r->arena, int, p.num_vars);
  msc_arena *a = msc_arena_beside(r->arena);
  bool ok = shard_eliminate(a, &p, max_work, state, out_cost, out_effort);
  msc_arena_free(a);
  if (!ok) return false;
  *out_cost = limit_cost(*out_cost + rest);
  for (int v = 0, k = 0; v < vars; v++) out_state[v] = d.of_var[v].state[d.of_var[v].num > 1 ? state[k++] : 0];
  return true;
}

/* ---- the whole problem ---- */

/* Chooses the forest, and computes its least sum (r->bound) and every state's share of it. */
static void solve_relaxation(relaxation *r) {
  size_t most = 1, sides = 1;
  r->node = msc_new_array(r->arena, node, r->p->num_vars);
  find_pairs(r);
  add_up_own_tables(r);
  choose_branches(r);
  order_variables(r);
  for (int v = 0; v < r->p->num_vars; v++) {
    size_t states = (size_t)r->p->num_states[v], side = (size_t)(r->node[v].num + 2) * states;
    most = states > most ? states : most;
    sides = side > sides ? side : sides;
  }
  r->sum = msc_new_array(r->arena, int64_t, most);
  r->side = msc_new_array(r->arena, int64_t, sides);
  send_up(r);
  send_down(r);
}

typedef struct {
  int *state;
  int64_t cost;
} assignment;

static void keep_cheaper(const relaxation *r, assignment *best, const int *state, int64_t cost) {
  if (cost > best->cost) return;
  best->cost = cost;
  memcpy(best->state, state, (size_t)r->p->num_vars * sizeof *state);
}

/* Improves an assignment: in each round elimination fixes other variables, until several rounds change nothing. */
static void improve(relaxation *r, assignment *of) {
  int vars = r->p->num_vars, *times_held = msc_new_array(r->arena, int, vars),
      *state = msc_new_array(r->arena, int, vars);
  for (int round = 0, idle = 0; round < MAX_ROUNDS && idle < MAX_IDLE; round++, idle++) {
    msc_arena *a = msc_arena_beside(r->arena);
    memcpy(state, of->state, (size_t)vars * sizeof *state);
    bool ok = shard_eliminate_holding(a, r->p, MAX_HELD_TABLE, times_held, state);
    msc_arena_free(a);
    if (!ok) return;
    int64_t before = of->cost;
    keep_cheaper(r, of, state, cost_of(r->p, state));
    if (of->cost < before) idle = -1;
  }
}

/* The cost from which on assignments are of no use. */
static int64_t least_useless(const shard_problem *p, const assignment *best) {
  return p->below && p->below < best->cost ? p->below : best->cost;
}

void shard_minimum(msc_arena *arena, const shard_problem *p, size_t max_work, int *state, int64_t *out_cost,
                   int64_t *out_bound, shard_effort *out_effort) {
  relaxation r = {.arena = arena, .p = p, .costs.index.arena = arena, .known.index.arena = arena};
  shard_effort effort = {0}, all = {0};
  assignment start = {state, cost_of(p, state)}, best = {msc_new_array(arena, int, p->num_vars), 0};
  int *other = msc_new_array(arena, int, p->num_vars);
  solve_relaxation(&r);
  read_forest(&r, best.state);
  best.cost = cost_of(p, best.state);
  *out_bound = r.bound;
  int64_t gap = least_useless(p, &best) - r.bound, slack = gap / 64 < r.bound / 256 ? gap / 64 : r.bound / 256;
  bool exact = false, useless = p->below && r.bound >= p->below;
  while (r.bound < SHARD_IMPOSSIBLE && !exact && !useless) {
    int64_t cost;
    if (slack > gap) slack = gap;
    if (!solve_within(&r, &slack, gap, max_work, other, &cost, &effort)) break;
    all.entries += effort.entries, all.removals += effort.removals, all.shared += effort.shared;
    all.width = effort.width > all.width ? effort.width : all.width;
    keep_cheaper(&r, &best, other, cost);
    gap = least_useless(p, &best) - r.bound;
    *out_bound = slack < gap ? r.bound + slack : r.bound + gap; /* nothing that is left out costs less */
    exact = slack >= gap;
    useless = p->below && *out_bound >= p->below;
    slack = 4 * slack + 1;
  }
  if (!exact && !useless && r.bound < SHARD_IMPOSSIBLE) {
    improve(&r, &best);
    improve(&r, &start);
    keep_cheaper(&r, &best, start.state, start.cost);
    if (*out_bound > best.cost) *out_bound = best.cost;
  }
  memcpy(state, best.state, (size_t)p->num_vars * sizeof *state);
  *out_cost = best.cost;
  all.entries += r.entries;
  if (out_effort) *out_effort = all;
}

bool shard_list_remaining(msc_arena *arena, const shard_problem *p, int64_t most, int *out_num, const int **out_state) {
  relaxation r = {.arena = arena, .p = p, .costs.index.arena = arena, .known.index.arena = arena};
  reduction d = {.r = &r, .states.index.arena = arena};
  solve_relaxation(&r);
  if (r.bound > most || r.bound >= SHARD_IMPOSSIBLE) return false;
  list_all_remaining(&d, most - r.bound);
  for (int v = 0; v < p->num_vars; v++) out_num[v] = d.of_var[v].num, out_state[v] = d.of_var[v].state;
  return true;
}
