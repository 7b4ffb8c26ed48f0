/* eliminate.c: tables over variables -> the assignment of least total cost.
 *
 * Bucket elimination (Dechter 1999): take the variable whose removal leaves the smallest table, add up every table that
 * mentions it, keep the minimum over its states for each state of its neighbours, and remember the table; afterwards
 * read the states back in reverse order.  Cost O(sum of table sizes): exponential only in the width, which is 2 on
 * networks with residual connections.  A removal of the same tables, in the same places among the neighbours, as an
 * earlier one reuses its result: of L equal layers one is computed, and the others cost a look-up and, along the chain
 * of the variables left between them, one product of a vector and a matrix each. */
#include <string.h>

#include "ir/abi/clock.h"
#include "ir/table.h"
#include "passes/3_shard/step_time_search/eliminate.h"

enum {
  MAX_SCOPE = SHARD_MAX_SCOPE,
  MAX_FACTORS = 120 /* impossible ones add up without overflow */,
  NUM_SLOTS = 4096,
  MIN_SHARE = 4,
  MAX_OWN = 32
};

static const double TOO_LARGE = 1e300;

typedef struct {
  int num;             /* variables */
  int var[MAX_SCOPE];  /* ascending, except that a table of the problem keeps its order */
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
  link *factors, *own; /* the factors that mention it and others; those of it alone */
  const int64_t *cost;
} step;

/* An entry of the heap: a variable and the size of the table that its removal makes. */
typedef struct {
  double size;
  int var;
} candidate;

typedef struct {
  msc_arena *arena;
  const shard_problem *p;
  link **of_var;   /* by variable: the factors that mention it and other variables; some may be gone */
  link **own;      /* by variable: the factors of it alone */
  double *size;    /* by variable: entries of its removal at present, times its states; negative: it is removed */
  int64_t *sum;    /* room for one number per state of any variable */
  candidate *heap; /* smallest first; entries whose size is not the variable's present one are skipped */
  size_t num_heap, room_heap;
  msc_copies removal;   /* keys of removals (write_key) */
  const int64_t **made; /* by number of a removal: its table, or NULL */
  shard_effort effort;
  double max_work, table_entries; /* limit on effort.entries; entries of the tables made so far */
} elimination;

/* ---- the heap ---- */

static bool is_less(candidate a, candidate b) { return a.size < b.size || (a.size == b.size && a.var < b.var); }

#define IS_FIRST(c, a, b) is_less(a, b)
MSC_HEAP(candidate, void *, candidate, IS_FIRST, MSC_STAYS)

static void push_candidate(elimination *e, candidate c) {
  msc_reserve(e->arena, e->heap, e->room_heap, e->num_heap + 1);
  candidate_push(NULL, e->heap, e->num_heap++, c);
}

static candidate pop_candidate(elimination *e) { return candidate_pop(NULL, e->heap, e->num_heap--); }

/* ---- neighbours ---- */

static int add_var(int *list, int num, int var) {
  int at = num;
  while (at > 0 && list[at - 1] > var) at--;
  if (at > 0 && list[at - 1] == var) return num;
  memmove(list + at + 1, list + at, (size_t)(num - at) * sizeof *list);
  list[at] = var;
  return num + 1;
}

/* Lists the neighbours of var, the other variables of its factors, and returns how many; -1: too many. Unlinks factors
 * that are gone. */
static int find_neighbours(elimination *e, int var, int *out_var) {
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

/* Pushes the variable with its present size onto the heap; older entries of it become invalid. */
static void update_size(elimination *e, int var) {
  int scope[MAX_SCOPE], num = find_neighbours(e, var, scope);
  double size = num < 0 ? TOO_LARGE : table_size(e->p, scope, num) * e->p->num_states[var];
  if (size == e->size[var]) return;
  e->size[var] = size;
  push_candidate(e, (candidate){size, var});
}

/* Fills in factor f and links it to its variables, by the `num` links at l. */
static void link_factor(elimination *e, factor *f, link *l, int num, const int *var, const int64_t *cost) {
  f->num = num;
  memcpy(f->var, var, (size_t)num * sizeof *var);
  f->cost = cost;
  for (int i = 0; i < num; i++) {
    link **list = num == 1 ? &e->own[var[i]] : &e->of_var[var[i]];
    l[i] = (link){f, *list};
    *list = &l[i];
  }
}

static void add_factor(elimination *e, int num, const int *var, const int64_t *cost) {
  link_factor(e, msc_new(e->arena, factor), msc_new_array(e->arena, link, num), num, var, cost);
}

/* ---- removing ---- */

/* A factor during a removal. */
typedef struct {
  const int64_t *cost;
  /* by neighbour: distance in `cost` from one of its states to the next; 0: the factor does not depend on it */
  size_t stride[MAX_SCOPE];
  size_t own; /* the distance for states of the removed variable */
} operand;

static operand operand_of(const elimination *e, const step *s, const factor *f) {
  operand o = {.cost = f->cost};
  size_t stride = 1;
  for (int i = f->num; i-- > 0; stride *= (size_t)e->p->num_states[f->var[i]]) {
    if (f->var[i] == s->removed) o.own = stride;
    for (int n = 0; n < s->num; n++)
      if (s->var[n] == f->var[i]) o.stride[n] = stride;
  }
  return o;
}

/* Lists the factors of a removal and returns how many; from *out_split on those that depend on the last neighbour. -1:
 * too many. */
static int list_operands(const elimination *e, const step *s, operand *out, int *out_split) {
  int num = 0, behind = MAX_FACTORS;
  for (int k = 0; k < 2; k++)
    for (const link *l = k ? s->own : s->factors; l; l = l->next) {
      operand o = operand_of(e, s, l->factor);
      if (num == behind) return -1;
      if (s->num && o.stride[s->num - 1]) out[--behind] = o;
      else out[num++] = o;
    }
  *out_split = num;
  memmove(out + num, out + behind, (size_t)(MAX_FACTORS - behind) * sizeof *out);
  return num + MAX_FACTORS - behind;
}

/* row[b] = min(row[b], c + sum of the operands' entries for state b of the last neighbour) */
__attribute__((optimize("O3"))) static void lower_row(int64_t *row, int states, int64_t c, int num,
                                                      const int64_t *const *p, const size_t *stride, int64_t *sum) {
  if (num == 1 && stride[0] == 1) {
    const int64_t *x = p[0];
    for (int b = 0; b < states; b++) row[b] = c + x[b] < row[b] ? c + x[b] : row[b];
    return;
  }
  if (num == 2 && stride[0] == 1 && stride[1] == 1) {
    const int64_t *x = p[0], *y = p[1];
    for (int b = 0; b < states; b++) row[b] = c + x[b] + y[b] < row[b] ? c + x[b] + y[b] : row[b];
    return;
  }
  for (int b = 0; b < states; b++) sum[b] = c;
  for (int k = 0; k < num; k++)
    for (int b = 0; b < states; b++) sum[b] += p[k][(size_t)b * stride[k]];
  for (int b = 0; b < states; b++) row[b] = sum[b] < row[b] ? sum[b] : row[b];
}

/* Writes, for one state (at) of each neighbour but the last, and every state of the last, the minimum over the removed
 * variable's states. */
static void fill_row(const elimination *e, const step *s, int num, int split, const operand *o, const int *at,
                     int64_t *row) {
  int last = s->num ? e->p->num_states[s->var[s->num - 1]] : 1;
  const int64_t *base[MAX_FACTORS], *p[MAX_FACTORS];
  size_t stride[MAX_FACTORS];
  for (int k = 0; k < num; k++) {
    base[k] = o[k].cost;
    for (int n = 0; n + 1 < s->num; n++) base[k] += (size_t)at[n] * o[k].stride[n];
    if (k >= split) stride[k - split] = o[k].stride[s->num - 1];
  }
  for (int b = 0; b < last; b++) row[b] = SHARD_IMPOSSIBLE;
  for (int x = 0; x < e->p->num_states[s->removed]; x++) {
    int64_t c = 0;
    for (int k = 0; k < split; k++) c += base[k][(size_t)x * o[k].own];
    if (c >= SHARD_IMPOSSIBLE) continue;
    for (int k = split; k < num; k++) p[k - split] = base[k] + (size_t)x * o[k].own;
    lower_row(row, last, c, num - split, p, stride, e->sum);
  }
}

/* A copy of an operand's table in which the entries for the last neighbour are contiguous; sets the operand's strides
 * to match. NULL, and nothing done: it depends on more than one other neighbour. */
static const int64_t *make_contiguous(const elimination *e, const step *s, operand *o) {
  int last = s->num - 1, states = e->p->num_states[s->var[last]], own = o->own ? e->p->num_states[s->removed] : 1;
  size_t size = (size_t)states * (size_t)own;
  int other = -1;
  for (int n = 0; n < last; n++)
    if (o->stride[n]) {
      if (other >= 0) return NULL;
      other = n;
    }
  int others = other < 0 ? 1 : e->p->num_states[s->var[other]];
  int64_t *t = msc_new_array(e->arena, int64_t, size * (size_t)others);
  for (int i = 0; i < others; i++)
    for (int x = 0; x < own; x++)
      for (int b = 0; b < states; b++)
        t[((size_t)i * (size_t)own + (size_t)x) * (size_t)states + (size_t)b] =
            o->cost[(other < 0 ? 0 : (size_t)i * o->stride[other]) + (size_t)x * o->own + (size_t)b * o->stride[last]];
  if (other >= 0) o->stride[other] = size;
  o->own = o->own ? (size_t)states : 0;
  o->stride[last] = 1;
  return t;
}

static const int64_t *make_removal_table(elimination *e, const step *s) {
  operand o[MAX_FACTORS];
  int split, num = list_operands(e, s, o, &split), at[MAX_SCOPE] = {0};
  if (num < 0) return NULL;
  for (int k = split; k < num; k++)
    if (o[k].stride[s->num - 1] != 1) {
      const int64_t *t = make_contiguous(e, s, &o[k]);
      if (t) o[k].cost = t;
    }
  size_t size = (size_t)table_size(e->p, s->var, s->num),
         last = s->num ? (size_t)e->p->num_states[s->var[s->num - 1]] : 1;
  int64_t *cost = msc_new_array(e->arena, int64_t, size);
  e->effort.entries += (double)size * e->p->num_states[s->removed];
  for (size_t row = 0; row < size; row += last) {
    fill_row(e, s, num, split, o, at, cost + row);
    for (int n = s->num - 1; n-- > 0;) {
      if (++at[n] < e->p->num_states[s->var[n]]) break;
      at[n] = 0;
    }
  }
  return cost;
}

/* ---- removals that repeat ---- */

static int neighbour_number(const step *s, int var) {
  for (int n = 0; n < s->num; n++)
    if (s->var[n] == var) return n;
  return MAX_SCOPE;
}

/* Writes the key of a removal: two words per factor, its table and which neighbours its variables are, then the numbers
 * of states. Returns how many words; 0: too many factors. */
static size_t write_key(const elimination *e, const step *s, uint64_t *word) {
  size_t num = 0;
  for (int k = 0; k < 2; k++)
    for (const link *l = k ? s->own : s->factors; l; l = l->next) {
      if (num == MAX_FACTORS) return 0;
      uint64_t cost = (uint64_t)(uintptr_t)l->factor->cost, places = 0;
      for (int i = 0; i < l->factor->num; i++) places = places << 4 | (uint64_t)neighbour_number(s, l->factor->var[i]);
      places = places << 4 | (uint64_t)l->factor->num;
      size_t at = num++; /* in ascending order: there are few */
      for (; at && (word[2 * at - 2] > cost || (word[2 * at - 2] == cost && word[2 * at - 1] > places)); at--)
        word[2 * at] = word[2 * at - 2], word[2 * at + 1] = word[2 * at - 1];
      word[2 * at] = cost, word[2 * at + 1] = places;
    }
  for (int n = 0; n < s->num; n++) word[2 * num + (size_t)n] = (uint64_t)e->p->num_states[s->var[n]];
  word[2 * num + (size_t)s->num] = (uint64_t)e->p->num_states[s->removed];
  return 2 * num + (size_t)s->num + 1;
}

/* Is the removal within the limits on work and on memory? Counts its table. An entry that is kept weighs as much as
 * MIN_SHARE sums. */
static bool has_room(elimination *e, const step *s) {
  double size = table_size(e->p, s->var, s->num);
  e->table_entries += size;
  return e->effort.entries + size * e->p->num_states[s->removed] <= e->max_work &&
         (size == 1 || e->table_entries <= e->max_work / MIN_SHARE);
}

static const int64_t *find_removal_table(elimination *e, const step *s) {
  uint64_t word[2 * MAX_FACTORS + MAX_SCOPE + 1];
  size_t num = write_key(e, s, word);
  if (num == 0) return NULL;
  uint32_t before = e->removal.index.num, k = msc_copy_of(&e->removal, word, num * sizeof *word);
  e->effort.removals++;
  if (k == before) msc_grow(e->arena, e->made, k);
  if (e->made[k]) e->effort.shared++;
  else if (has_room(e, s)) e->made[k] = make_removal_table(e, s);
  return e->made[k];
}

/* The list of a variable's own factors; more than MAX_OWN of them are first added up into one. */
static link *own_factors(elimination *e, int var) {
  int num = 0, states = e->p->num_states[var];
  for (const link *l = e->own[var]; l; l = l->next) num++;
  if (num <= MAX_OWN) return e->own[var];
  int64_t *sum = msc_new_array(e->arena, int64_t, states);
  for (const link *l = e->own[var]; l; l = l->next)
    for (int x = 0; x < states; x++) sum[x] += l->factor->cost[x];
  for (int x = 0; x < states; x++) sum[x] = sum[x] < SHARD_IMPOSSIBLE ? sum[x] : SHARD_IMPOSSIBLE;
  e->own[var] = NULL;
  add_factor(e, 1, &var, sum);
  return e->own[var];
}

/* Removes the variable of step s, and adds its least cost to *out_rest if it has no neighbours. False, with nothing
 * changed: too many factors depend on the variable, or limits are reached. */
static bool remove_variable(elimination *e, step *s, int64_t *out_rest) {
  s->num = find_neighbours(e, s->removed, s->var);
  s->factors = e->of_var[s->removed];
  s->own = own_factors(e, s->removed);
  const int64_t *cost = s->cost = find_removal_table(e, s);
  if (!cost) return false;
  if (s->num > e->effort.width) e->effort.width = s->num;
  for (const link *l = s->factors; l; l = l->next) l->factor->gone = true;
  e->size[s->removed] = -1;
  if (s->num == 0) {
    *out_rest = *out_rest + cost[0] < SHARD_IMPOSSIBLE ? *out_rest + cost[0] : SHARD_IMPOSSIBLE;
    return true;
  }
  add_factor(e, s->num, s->var, cost);
  for (int i = 0; i < s->num; i++) update_size(e, s->var[i]);
  return true;
}

/* The state of the removed variable that is best for the given states of its neighbours. */
static int best_state(const elimination *e, const step *s, const int *state_of) {
  int states = e->p->num_states[s->removed], best = 0;
  int64_t *sum = e->sum;
  memset(sum, 0, (size_t)states * sizeof *sum);
  for (int k = 0; k < 2; k++)
    for (const link *l = k ? s->own : s->factors; l; l = l->next) {
      operand o = operand_of(e, s, l->factor);
      for (int n = 0; n < s->num; n++) o.cost += (size_t)state_of[s->var[n]] * o.stride[n];
      for (int x = 0; x < states; x++) sum[x] += o.cost[(size_t)x * o.own];
    }
  for (int x = 1; x < states; x++)
    if (sum[x] < sum[best]) best = x;
  return best;
}

bool shard_time_is_up(double deadline_s) { return deadline_s > 0 && msc_clock_seconds() >= deadline_s; }

bool shard_eliminate(msc_arena *arena, const shard_problem *p, size_t max_work, int *out_state, int64_t *out_cost,
                     shard_effort *out_effort) {
  return shard_eliminate_steps(arena, p, max_work, out_state, out_cost, out_effort, NULL);
}

static void start_elimination(elimination *e, msc_arena *arena, const shard_problem *p, size_t max_work) {
  *e = (elimination){.arena = arena, .p = p, .max_work = (double)max_work};
  e->of_var = msc_new_array(arena, link *, p->num_vars);
  e->own = msc_new_array(arena, link *, p->num_vars);
  e->size = msc_new_array(arena, double, p->num_vars);
  e->removal.index.arena = arena;
  int most = 1;
  for (int v = 0; v < p->num_vars; v++) most = p->num_states[v] > most ? p->num_states[v] : most;
  e->sum = msc_new_array(arena, int64_t, most);
  factor *f = msc_new_array(arena, factor, p->num_tables);
  link *l = msc_new_array(arena, link, 2 * p->num_tables);
  for (size_t i = 0; i < p->num_tables; i++) {
    int var[2] = {p->table[i].a, p->table[i].b};
    link_factor(e, &f[i], &l[2 * i], var[1] < 0 ? 1 : 2, var, p->table[i].cost);
  }
  for (int v = 0; v < p->num_vars; v++) update_size(e, v);
}

/* Pops the variable whose removal takes the least work now; entries that are no longer valid are dropped. */
static candidate next_candidate(elimination *e) {
  candidate c = pop_candidate(e);
  while (c.size != e->size[c.var]) c = pop_candidate(e);
  return c;
}

bool shard_eliminate_steps(msc_arena *arena, const shard_problem *p, size_t max_work, int *out_state, int64_t *out_cost,
                           shard_effort *out_effort, shard_step *out_step) {
  elimination e;
  start_elimination(&e, arena, p, max_work);
  step *steps = msc_new_array(arena, step, p->num_vars);
  *out_cost = 0;
  for (int i = 0; i < p->num_vars; i++) {
    candidate c = next_candidate(&e);
    if (c.size > e.max_work || shard_time_is_up(p->deadline_s)) return false;
    steps[i].removed = c.var;
    if (!remove_variable(&e, &steps[i], out_cost)) return false;
  }
  for (int i = p->num_vars; i-- > 0;) out_state[steps[i].removed] = best_state(&e, &steps[i], out_state);
  for (int i = 0; i < p->num_vars && out_step; i++) {
    out_step[i] = (shard_step){.removed = steps[i].removed, .num = steps[i].num, .cost = steps[i].cost};
    memcpy(out_step[i].var, steps[i].var, (size_t)steps[i].num * sizeof *steps[i].var);
  }
  if (out_effort) *out_effort = e.effort;
  return true;
}

/* Simulates the removals without tables: their order depends only on numbers of states. */
double shard_elimination_work(msc_arena *arena, const shard_problem *p, double most) {
  elimination e;
  double work = 0;
  start_elimination(&e, arena, p, SIZE_MAX);
  for (int left = p->num_vars; left > 0 && work <= most; left--) {
    candidate c = next_candidate(&e);
    int scope[MAX_SCOPE], num = find_neighbours(&e, c.var, scope);
    work += c.size;
    if (num < 0) break;
    for (const link *l = e.of_var[c.var]; l; l = l->next) l->factor->gone = true;
    e.size[c.var] = -1;
    if (num) add_factor(&e, num, scope, NULL);
    for (int i = 0; i < num; i++) update_size(&e, scope[i]);
  }
  return work;
}

/* ---- elimination with some variables fixed ---- */

/* The entries of a factor's table for one state of its variable number `at`. */
static const int64_t *slice_of(const elimination *e, const factor *f, int at, int state) {
  size_t inner = 1, outer = 1, states = (size_t)e->p->num_states[f->var[at]];
  for (int i = 0; i < at; i++) outer *= (size_t)e->p->num_states[f->var[i]];
  for (int i = at + 1; i < f->num; i++) inner *= (size_t)e->p->num_states[f->var[i]];
  int64_t *cost = msc_new_array(e->arena, int64_t, outer * inner);
  for (size_t i = 0; i < outer; i++)
    memcpy(cost + i * inner, f->cost + (i * states + (size_t)state) * inner, inner * sizeof *cost);
  return cost;
}

/* Fixes a variable in this state: replaces its factors by their slices for the state. */
static void hold_variable(elimination *e, int var, int state) {
  e->size[var] = -1;
  for (const link *l = e->of_var[var]; l; l = l->next) {
    factor *f = l->factor;
    int at = 0, rest[MAX_SCOPE], num = 0;
    if (f->gone) continue;
    f->gone = true;
    for (int i = 0; i < f->num; i++)
      if (f->var[i] == var) at = i;
      else rest[num++] = f->var[i];
    add_factor(e, num, rest, slice_of(e, f, at, state));
    for (int i = 0; i < num; i++) update_size(e, rest[i]);
  }
}

/* The variable to fix when removals become too large: the one in the most tables, divided by how often it was fixed
 * before. */
static int choose_held_variable(const elimination *e, const int *times_held) {
  int worst = -1, most = 0;
  for (int v = 0; v < e->p->num_vars; v++) {
    int tables = 0;
    if (e->size[v] < 0) continue;
    for (const link *l = e->of_var[v]; l; l = l->next) tables += l->factor->gone ? 0 : 64;
    tables = tables / (1 + 2 * times_held[v]);
    if (worst < 0 || tables > most) worst = v, most = tables;
  }
  return worst;
}

bool shard_eliminate_holding(msc_arena *arena, const shard_problem *p, size_t max_table, int *times_held, int *state) {
  elimination e;
  start_elimination(&e, arena, p, SIZE_MAX);
  step *steps = msc_new_array(arena, step, p->num_vars);
  int num = 0;
  int64_t rest = 0;
  for (int left = p->num_vars; left > 0; left--) {
    candidate c = next_candidate(&e);
    if (shard_time_is_up(p->deadline_s)) return false;
    if (c.size > (double)max_table) {
      int held = choose_held_variable(&e, times_held);
      if (held != c.var) push_candidate(&e, c);
      hold_variable(&e, held, state[held]);
      times_held[held]++;
      continue;
    }
    steps[num].removed = c.var;
    if (remove_variable(&e, &steps[num], &rest)) num++;
    else hold_variable(&e, c.var, state[c.var]);
  }
  while (num-- > 0) state[steps[num].removed] = best_state(&e, &steps[num], state);
  return true;
}
