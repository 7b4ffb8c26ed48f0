/* eliminate.c: tables over variables -> the assignment of least total cost.
 *
 * Bucket elimination (Dechter 1999): take the variable whose removal leaves the smallest table, add up every table that
 * mentions it, keep the minimum over its states for each state of its neighbours, and remember the table; afterwards
 * read the states back in reverse order.  Cost O(sum of table sizes): exponential only in the width, which is 2 on
 * networks with residual connections. */
#include <string.h>

#include "passes/3_shard/eliminate.h"

enum { MAX_SCOPE = 12 };

static const double TOO_LARGE = 1e300;

typedef struct {
  int num;             /* variables */
  int var[MAX_SCOPE];  /* ascending, but for the two of a given table */
  const int64_t *cost; /* mixed radix, first variable major */
  bool gone;           /* a variable of it was removed */
} factor;

typedef struct link {
  factor *factor;
  struct link *next;
} link;

typedef struct {
  int num, var[MAX_SCOPE]; /* neighbours at the time of removal */
  int removed;
  link *factors; /* that mentioned it */
} step;

/* A variable with the size of the table that its removal makes. */
typedef struct {
  double size;
  int var;
} candidate;

typedef struct {
  msc_arena *arena;
  const shard_problem *p;
  link **of_var;   /* by variable: the factors of more than one variable that mention it, and some that are gone */
  int64_t **own;   /* by variable: sum of the factors of it alone; NULL: none */
  double *size;    /* by variable: of its removal, as of now; negative: removed */
  int64_t *sum;    /* of the states of one variable */
  candidate *heap; /* least first; entries whose size is no longer the variable's are skipped */
  size_t num_heap;
} elimination;

/* ---- the heap ---- */

static bool is_less(candidate a, candidate b) { return a.size < b.size || (a.size == b.size && a.var < b.var); }

static void push(elimination *e, candidate c) {
  size_t at = e->num_heap++;
  for (; at > 0 && is_less(c, e->heap[(at - 1) / 2]); at = (at - 1) / 2) e->heap[at] = e->heap[(at - 1) / 2];
  e->heap[at] = c;
}

static candidate pop(elimination *e) {
  candidate top = e->heap[0], last = e->heap[--e->num_heap];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < e->num_heap; at = child) {
    if (child + 1 < e->num_heap && is_less(e->heap[child + 1], e->heap[child])) child++;
    if (!is_less(e->heap[child], last)) break;
    e->heap[at] = e->heap[child];
  }
  e->heap[at] = last;
  return top;
}

/* ---- neighbours ---- */

static int add_var(int *list, int num, int var) {
  int at = num;
  while (at > 0 && list[at - 1] > var) at--;
  if (at > 0 && list[at - 1] == var) return num;
  memmove(list + at + 1, list + at, (size_t)(num - at) * sizeof *list);
  list[at] = var;
  return num + 1;
}

/* Neighbours of var; -1 when there are too many.  Unlinks factors that are gone. */
static int scope_of(elimination *e, int var, int *out_var) {
  int num = 0, buffer[MAX_SCOPE + 1];
  for (link **l = &e->of_var[var]; *l;) {
    const factor *f = (*l)->factor;
    if (f->gone) {
      *l = (*l)->next;
      continue;
    }
    for (int i = 0; i < f->num; i++) {
      if (f->var[i] != var) num = add_var(buffer, num, f->var[i]);
      if (num > MAX_SCOPE - 1) return -1;
    }
    l = &(*l)->next;
  }
  memcpy(out_var, buffer, (size_t)num * sizeof *buffer);
  return num;
}

static double table_size(const shard_problem *p, const int *var, int num) {
  double size = 1;
  for (int i = 0; i < num; i++) size *= p->num_states[var[i]];
  return size;
}

/* Puts the variable's size as it is now into the heap. */
static void weigh(elimination *e, int var) {
  int scope[MAX_SCOPE], num = scope_of(e, var, scope);
  double size = num < 0 ? TOO_LARGE : table_size(e->p, scope, num) * e->p->num_states[var];
  if (size == e->size[var]) return;
  e->size[var] = size;
  push(e, (candidate){size, var});
}

/* A factor of one variable is added to that variable's own; others are listed at every variable they mention. */
static void insert(elimination *e, int num, const int *var, const int64_t *cost) {
  if (num == 1) {
    int states = e->p->num_states[var[0]];
    if (!e->own[var[0]]) e->own[var[0]] = msc_new_array(e->arena, int64_t, states);
    for (int i = 0; i < states; i++) e->own[var[0]][i] += cost[i];
    return;
  }
  factor *f = msc_new(e->arena, factor);
  f->num = num;
  memcpy(f->var, var, (size_t)num * sizeof *var);
  f->cost = cost;
  for (int i = 0; i < num; i++) {
    link *l = msc_new(e->arena, link);
    *l = (link){f, e->of_var[var[i]]};
    e->of_var[var[i]] = l;
  }
}

/* ---- removing ---- */

/* Where f's entry for state 0 of `var` is when its other variables have the given states; and how far the next one is. */
static size_t entry(const elimination *e, const factor *f, int var, const int *state_of, size_t *out_stride) {
  size_t at = 0;
  *out_stride = 0;
  for (int i = 0; i < f->num; i++) {
    size_t states = (size_t)e->p->num_states[f->var[i]];
    at *= states, *out_stride *= states;
    if (f->var[i] == var) *out_stride += 1;
    else at += (size_t)state_of[f->var[i]];
  }
  return at;
}

/* Minimum over the removed variable's states; its arg-min through out_best. */
static int64_t minimum(const elimination *e, const step *s, const int *state_of, int *out_best) {
  int states = e->p->num_states[s->removed];
  int64_t *sum = e->sum;
  if (e->own[s->removed]) memcpy(sum, e->own[s->removed], (size_t)states * sizeof *sum);
  else memset(sum, 0, (size_t)states * sizeof *sum);
  for (const link *l = s->factors; l; l = l->next) {
    size_t stride;
    const int64_t *cost = l->factor->cost + entry(e, l->factor, s->removed, state_of, &stride);
    for (int x = 0; x < states; x++) sum[x] += cost[(size_t)x * stride];
  }
  int best = 0;
  for (int x = 1; x < states; x++)
    if (sum[x] < sum[best]) best = x;
  *out_best = best;
  return sum[best];
}

static int64_t remove_variable(elimination *e, step *s, int *state_of) {
  s->num = scope_of(e, s->removed, s->var);
  s->factors = e->of_var[s->removed];
  size_t size = (size_t)table_size(e->p, s->var, s->num);
  int64_t *cost = msc_new_array(e->arena, int64_t, size);
  int best;
  for (int i = 0; i < s->num; i++) state_of[s->var[i]] = 0;
  for (size_t at = 0; at < size; at++) {
    size_t rest = at;
    for (int i = s->num; i-- > 0; rest /= (size_t)e->p->num_states[s->var[i]])
      state_of[s->var[i]] = (int)(rest % (size_t)e->p->num_states[s->var[i]]);
    cost[at] = minimum(e, s, state_of, &best);
  }
  for (const link *l = s->factors; l; l = l->next) l->factor->gone = true;
  e->size[s->removed] = -1;
  if (s->num == 0) return cost[0];
  insert(e, s->num, s->var, cost);
  for (int i = 0; i < s->num; i++) weigh(e, s->var[i]);
  return 0;
}

bool shard_eliminate(msc_arena *arena, const shard_problem *p, size_t max_entries, int *out_state, int64_t *out_cost) {
  elimination e = {.arena = arena, .p = p};
  e.of_var = msc_new_array(arena, link *, p->num_vars);
  e.own = msc_new_array(arena, int64_t *, p->num_vars);
  e.size = msc_new_array(arena, double, p->num_vars);
  int most = 1;
  for (int v = 0; v < p->num_vars; v++) most = p->num_states[v] > most ? p->num_states[v] : most;
  e.sum = msc_new_array(arena, int64_t, most);
  e.heap = msc_new_array(arena, candidate, (size_t)p->num_vars * MAX_SCOPE);
  for (size_t i = 0; i < p->num_tables; i++) {
    int var[2] = {p->table[i].a, p->table[i].b};
    insert(&e, var[1] < 0 ? 1 : 2, var, p->table[i].cost);
  }
  for (int v = 0; v < p->num_vars; v++) weigh(&e, v);
  step *steps = msc_new_array(arena, step, p->num_vars);
  *out_cost = 0;
  for (int i = 0; i < p->num_vars; i++) {
    candidate c = pop(&e);
    while (c.size != e.size[c.var]) c = pop(&e); /* weighed again since, or removed */
    if (c.size > (double)max_entries) return false;
    steps[i].removed = c.var;
    *out_cost += remove_variable(&e, &steps[i], out_state);
  }
  for (int i = p->num_vars; i-- > 0;) {
    int best = 0;
    minimum(&e, &steps[i], out_state, &best);
    out_state[steps[i].removed] = best;
  }
  return true;
}
