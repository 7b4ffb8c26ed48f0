/* eliminate.c: tables over variables -> the assignment of least total cost.
 *
 * Bucket elimination (Dechter 1999): take the variable whose removal leaves the smallest table, add up every table that
 * mentions it, keep the minimum over its states for each state of its neighbours, and remember the table; afterwards
 * read the states back in reverse order.  Cost O(sum of table sizes): exponential only in the width, which is 2 on
 * networks with residual connections. */
#include <string.h>

#include "passes/3_shard/eliminate.h"

enum { MAX_SCOPE = 12 };

typedef struct factor {
  int num;               /* variables */
  int var[MAX_SCOPE];    /* ascending */
  const int64_t *cost;   /* mixed radix, first variable major */
  struct factor *next;
} factor;

typedef struct {
  int num, var[MAX_SCOPE]; /* neighbours at the time of removal */
  int removed;
  factor *factors;         /* that mentioned it */
} step;

typedef struct {
  msc_arena *arena;
  const shard_problem *p;
  factor **of_var;  /* by variable: the tables that mention it */
  bool *gone;
} elimination;

static int add_var(int *list, int num, int var) {
  int at = num;
  while (at > 0 && list[at - 1] > var) at--;
  if (at > 0 && list[at - 1] == var) return num;
  memmove(list + at + 1, list + at, (size_t)(num - at) * sizeof *list);
  list[at] = var;
  return num + 1;
}

/* Neighbours of var; -1 when there are too many. */
static int scope_of(const elimination *e, int var, int *out_var) {
  int num = 0, buffer[MAX_SCOPE * 2];
  for (const factor *f = e->of_var[var]; f; f = f->next)
    for (int i = 0; i < f->num; i++) {
      if (f->var[i] == var) continue;
      num = add_var(buffer, num, f->var[i]);
      if (num > MAX_SCOPE - 1) return -1;
    }
  memcpy(out_var, buffer, (size_t)num * sizeof *buffer);
  return num;
}

static double table_size(const shard_problem *p, const int *var, int num) {
  double size = 1;
  for (int i = 0; i < num; i++) size *= p->num_states[var[i]];
  return size;
}

/* Value of f when the variables of its scope have the given states. */
static int64_t looked_up(const elimination *e, const factor *f, const int *state_of) {
  size_t at = 0;
  for (int i = 0; i < f->num; i++) at = at * (size_t)e->p->num_states[f->var[i]] + (size_t)state_of[f->var[i]];
  return f->cost[at];
}

/* Minimum over the removed variable's states; its arg-min through out_best. */
static int64_t minimum(const elimination *e, const step *s, int *state_of, int *out_best) {
  int64_t least = INT64_MAX;
  for (int x = 0; x < e->p->num_states[s->removed]; x++) {
    state_of[s->removed] = x;
    int64_t sum = 0;
    for (const factor *f = s->factors; f; f = f->next) sum += looked_up(e, f, state_of);
    if (sum < least) least = sum, *out_best = x;
  }
  return least;
}

/* A factor is listed at every variable it mentions. */
static void insert(elimination *e, int num, const int *var, const int64_t *cost) {
  for (int i = 0; i < num; i++) {
    factor *f = msc_new(e->arena, factor);
    f->num = num;
    memcpy(f->var, var, (size_t)num * sizeof *var);
    f->cost = cost;
    f->next = e->of_var[var[i]];
    e->of_var[var[i]] = f;
  }
}

static void forget(elimination *e, int var, const int64_t *cost) {
  for (factor **f = &e->of_var[var]; *f;)
    if ((*f)->cost == cost) *f = (*f)->next;
    else f = &(*f)->next;
}

static int cheapest_variable(const elimination *e, double *out_size) {
  int best = -1, scope[MAX_SCOPE];
  for (int v = 0; v < e->p->num_vars; v++) {
    if (e->gone[v]) continue;
    int num = scope_of(e, v, scope);
    double size = num < 0 ? 1e300 : table_size(e->p, scope, num) * e->p->num_states[v];
    if (best < 0 || size < *out_size) best = v, *out_size = size;
  }
  return best;
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
    for (int i = s->num; i-- > 0; rest /= (size_t)e->p->num_states[s->var[i]]) state_of[s->var[i]] = (int)(rest % (size_t)e->p->num_states[s->var[i]]);
    cost[at] = minimum(e, s, state_of, &best);
  }
  for (const factor *f = s->factors; f; f = f->next)
    for (int i = 0; i < f->num; i++)
      if (f->var[i] != s->removed) forget(e, f->var[i], f->cost);
  e->gone[s->removed] = true;
  if (s->num == 0) return cost[0];
  insert(e, s->num, s->var, cost);
  return 0;
}

bool shard_eliminate(msc_arena *arena, const shard_problem *p, size_t max_entries, int *out_state, int64_t *out_cost) {
  elimination e = {.arena = arena, .p = p};
  e.of_var = msc_new_array(arena, factor *, p->num_vars);
  e.gone = msc_new_array(arena, bool, p->num_vars);
  for (size_t i = 0; i < p->num_tables; i++) {
    int var[2] = {p->table[i].a, p->table[i].b};
    insert(&e, var[1] < 0 ? 1 : 2, var, p->table[i].cost);
  }
  step *steps = msc_new_array(arena, step, p->num_vars);
  *out_cost = 0;
  for (int i = 0; i < p->num_vars; i++) {
    double size = 0;
    steps[i].removed = cheapest_variable(&e, &size);
    if (size > (double)max_entries) return false;
    *out_cost += remove_variable(&e, &steps[i], out_state);
  }
  for (int i = p->num_vars; i-- > 0;) {
    int best = 0;
    minimum(&e, &steps[i], out_state, &best);
    out_state[steps[i].removed] = best;
  }
  return true;
}
