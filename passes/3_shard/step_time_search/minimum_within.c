/* minimum_within.c: tables and bytes over variables -> the cheapest assignment within the limit (see
 * minimum_within.h). */
#include "passes/3_shard/step_time_search/minimum_within.h"

#include <stdlib.h>
#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/step_time_search/minimum.h"

/* A partial assignment that may become part of the best one: a state of one variable, or the union of two others. */
typedef struct point {
  int64_t cost, bytes, charged;
  int var, state;            /* var -1: a union */
  const struct point *a, *b; /* the two of a union */
} point;

/* Points of which none is at least as good as another in both cost and bytes. */
typedef struct {
  size_t num, room;
  point *p;
} front;

/* One removal of the elimination. */
typedef struct {
  const shard_step *s;
  int num_tables, num_inside;
  const shard_table **table; /* tables of the plain problem that it adds up; the charged ones have the same numbers */
  int *inside;               /* earlier removals whose tables it adds up */
  int64_t *outside;          /* by assignment of the neighbours: least charged cost of all tables not added up so far */
  front *front;              /* by assignment of the neighbours: partial assignments of the variables removed so far */
} stage;

typedef struct {
  msc_arena *arena;
  const shard_limited *l;
  const shard_step *step;
  stage *stage;
  int *stage_of;       /* by variable */
  int *state;          /* by variable: the present one in loops over assignments */
  int64_t last;        /* an assignment that fits and has a higher charged cost is no better than `upper` */
  front out;           /* points that add_point adds and keep_undominated takes */
  front of_states;     /* room of make_fronts: the points of all states of a variable */
  size_t points, work; /* kept so far; sums computed so far */
} limited_search;

static int num_states_of(const limited_search *w, int var) { return w->l->plain->num_states[var]; }

/* ---- which removal adds up which tables ---- */

/* The first of these variables' removals. */
static int first_stage(const limited_search *w, int num, const int *var) {
  int first = w->stage_of[var[0]];
  for (int i = 1; i < num; i++)
    if (w->stage_of[var[i]] < first) first = w->stage_of[var[i]];
  return first;
}

/* Assigns every table, and the table that each removal makes, to the first removal of one of its variables. */
static void assign_tables_to_stages(limited_search *w) {
  int vars = w->l->plain->num_vars;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < vars && round; i++) {
      stage *g = &w->stage[i];
      g->table = msc_new_array(w->arena, const shard_table *, g->num_tables);
      g->inside = msc_new_array(w->arena, int, g->num_inside);
      g->num_tables = g->num_inside = 0;
    }
    for (size_t t = 0; t < w->l->plain->num_tables; t++) {
      const shard_table *of = &w->l->plain->table[t];
      int var[2] = {of->a, of->b};
      stage *g = &w->stage[first_stage(w, of->b < 0 ? 1 : 2, var)];
      if (round) g->table[g->num_tables] = of;
      g->num_tables++;
    }
    for (int i = 0; i < vars; i++) {
      if (!w->step[i].num) continue;
      stage *g = &w->stage[first_stage(w, w->step[i].num, w->step[i].var)];
      if (round) g->inside[g->num_inside] = i;
      g->num_inside++;
    }
  }
}

/* ---- sums at an assignment ---- */

static size_t assignment_offset(const limited_search *w, const shard_step *s) {
  size_t at = 0;
  for (int i = 0; i < s->num; i++) at = at * (size_t)num_states_of(w, s->var[i]) + (size_t)w->state[s->var[i]];
  return at;
}

static int64_t read_entry(const limited_search *w, const shard_problem *p, const shard_table *of) {
  const shard_table *t = &p->table[of - w->l->plain->table];
  size_t at = (size_t)w->state[t->a];
  return t->cost[t->b < 0 ? at : at * (size_t)num_states_of(w, t->b) + (size_t)w->state[t->b]];
}

static int64_t sum_of_tables(const limited_search *w, const shard_problem *p, const stage *g) {
  int64_t sum = 0;
  for (int i = 0; i < g->num_tables; i++) sum += read_entry(w, p, g->table[i]);
  return sum;
}

/* Steps to the next assignment of the step's neighbours; false after the last. */
static bool next_assignment(limited_search *w, const shard_step *s) {
  for (int i = s->num; i-- > 0;) {
    if (++w->state[s->var[i]] < num_states_of(w, s->var[i])) return true;
    w->state[s->var[i]] = 0;
  }
  return false;
}

static void first_assignment(limited_search *w, const shard_step *s) {
  for (int i = 0; i < s->num; i++) w->state[s->var[i]] = 0;
}

/* ---- bounds ---- */

static size_t count_assignments(const limited_search *w, const shard_step *s) {
  size_t n = 1;
  for (int i = 0; i < s->num; i++) n *= (size_t)num_states_of(w, s->var[i]);
  return n;
}

/* Computes `outside` of every removal in `inside` of removal i, from that of removal i. */
static void bound_from_outside(limited_search *w, int i) {
  stage *g = &w->stage[i];
  for (int k = 0; k < g->num_inside; k++) {
    stage *in = &w->stage[g->inside[k]];
    size_t size = count_assignments(w, in->s);
    in->outside = msc_new_array(w->arena, int64_t, size);
    for (size_t e = 0; e < size; e++) in->outside[e] = SHARD_IMPOSSIBLE;
  }
  first_assignment(w, g->s);
  do {
    int64_t around = g->outside[assignment_offset(w, g->s)];
    if (around >= SHARD_IMPOSSIBLE) continue;
    for (int x = 0; x < num_states_of(w, g->s->removed); x++) {
      w->state[g->s->removed] = x;
      w->work++;
      int64_t sum = around + sum_of_tables(w, w->l->charged, g);
      for (int k = 0; k < g->num_inside; k++)
        sum += w->step[g->inside[k]].cost[assignment_offset(w, &w->step[g->inside[k]])];
      if (sum > w->last) continue;
      for (int k = 0; k < g->num_inside; k++) {
        const shard_step *s = &w->step[g->inside[k]];
        size_t at = assignment_offset(w, s);
        int64_t *o = &w->stage[g->inside[k]].outside[at];
        if (sum - s->cost[at] < *o) *o = sum - s->cost[at];
      }
    }
  } while (next_assignment(w, g->s));
}

/* ---- points ---- */

/* Adds a point to w->out, unless it exceeds the limit or its bound is no better than `upper`. */
static void add_point(limited_search *w, point p, int64_t outside) {
  if (p.bytes > w->l->limit || p.charged + outside > w->last) return;
  front *f = &w->out;
  msc_reserve(w->arena, f->p, f->room, f->num + 1);
  f->p[f->num++] = p;
}

static int by_bytes(const void *a, const void *b) {
  const point *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
  return x->state - y->state;
}

/* The front of the points in w->out, in ascending order of bytes; empties w->out. */
static front keep_undominated(limited_search *w) {
  front *f = &w->out, kept = {0, 0, NULL};
  if (f->num) qsort(f->p, f->num, sizeof *f->p, by_bytes);
  for (size_t i = 0; i < f->num; i++)
    if (!kept.num || f->p[i].cost < f->p[kept.num - 1].cost) f->p[kept.num++] = f->p[i];
  kept.p = kept.num ? msc_arena_copy(w->arena, f->p, kept.num * sizeof *f->p) : NULL;
  w->points += kept.num;
  f->num = 0;
  return kept;
}

/* The front of all unions of a point of a and a point of b. `outside`: the least charged cost of everything else. */
static front combine_fronts(limited_search *w, const front *a, const front *b, int64_t outside) {
  for (size_t i = 0; i < a->num; i++)
    for (size_t k = 0; k < b->num; k++)
      add_point(w,
                (point){a->p[i].cost + b->p[k].cost, a->p[i].bytes + b->p[k].bytes, a->p[i].charged + b->p[k].charged,
                        -1, 0, &a->p[i], &b->p[k]},
                outside);
  w->work += a->num * b->num;
  return keep_undominated(w);
}

/* The front for the present states of the removed variable and of its neighbours. */
static front make_front_of_state(limited_search *w, const stage *g, int64_t outside) {
  int var = g->s->removed;
  point own = {sum_of_tables(w, w->l->plain, g),
               w->l->bytes[var][w->state[var]],
               sum_of_tables(w, w->l->charged, g),
               var,
               w->state[var],
               NULL,
               NULL};
  front f = {1, 1, msc_arena_copy(w->arena, &own, sizeof own)};
  int64_t rest = 0;
  for (int k = 0; k < g->num_inside; k++)
    rest += w->step[g->inside[k]].cost[assignment_offset(w, &w->step[g->inside[k]])];
  if (own.charged + rest + outside > w->last) return (front){0, 0, NULL};
  for (int k = 0; k < g->num_inside && f.num; k++) {
    size_t at = assignment_offset(w, &w->step[g->inside[k]]);
    rest -= w->step[g->inside[k]].cost[at];
    f = combine_fronts(w, &f, &w->stage[g->inside[k]].front[at], outside + rest);
  }
  return f;
}

/* Makes the fronts of removal i for all assignments of its neighbours. False: too many points, or too much work. */
static bool make_fronts(limited_search *w, int i) {
  stage *g = &w->stage[i];
  size_t at = 0;
  g->front = msc_new_array(w->arena, front, count_assignments(w, g->s));
  first_assignment(w, g->s);
  do {
    int64_t outside = g->outside ? g->outside[at] : SHARD_IMPOSSIBLE;
    front all = {0, 0, NULL};
    if (outside < SHARD_IMPOSSIBLE && g->s->cost[at] + outside <= w->last) {
      front *sum = &w->of_states;
      sum->num = 0;
      for (int x = 0; x < num_states_of(w, g->s->removed); x++) {
        w->state[g->s->removed] = x;
        front f = make_front_of_state(w, g, outside);
        msc_reserve(w->arena, sum->p, sum->room, sum->num + f.num);
        if (f.num) memcpy(sum->p + sum->num, f.p, f.num * sizeof *f.p);
        sum->num += f.num;
      }
      for (size_t k = 0; k < sum->num; k++) add_point(w, sum->p[k], outside);
      all = keep_undominated(w);
    }
    g->front[at++] = all;
    if (w->points > w->l->max_points || w->work / 100 > w->l->max_points) return false;
  } while (next_assignment(w, g->s));
  return true;
}

/* ---- the whole problem ---- */

/* Writes the states of all variables in a point. */
static void read_back(limited_search *w, const point *p, int *out_state) {
  int vars = w->l->plain->num_vars, num = 0;
  const point **pending = msc_new_array(w->arena, const point *, 2 * vars + 2);
  pending[num++] = p;
  while (num) {
    p = pending[--num];
    if (p->var >= 0) out_state[p->var] = p->state;
    if (p->a) pending[num++] = p->a;
    if (p->b) pending[num++] = p->b;
  }
}

static shard_within search_fronts(msc_arena *arena, const shard_limited *l, int *out_state, int64_t *out_cost) {
  int vars = l->plain->num_vars;
  limited_search w = {.arena = arena, .l = l, .last = l->upper - 1 + l->limit_charge};
  shard_step *step = msc_new_array(arena, shard_step, vars);
  int64_t total;
  const double most_work = 100.0 * (double)l->max_points;
  if (shard_elimination_work(arena, l->charged, most_work) > most_work) return SHARD_GAVE_UP;
  w.state = msc_new_array(arena, int, vars);
  w.stage = msc_new_array(arena, stage, vars);
  w.stage_of = msc_new_array(arena, int, vars);
  if (!shard_eliminate_steps(arena, l->charged, (size_t)1 << 26, w.state, &total, NULL, step)) return SHARD_GAVE_UP;
  for (int i = 0; i < vars; i++) {
    w.stage[i].s = &step[i];
    w.stage_of[step[i].removed] = i;
  }
  w.step = step;
  assign_tables_to_stages(&w);
  for (int i = vars; i-- > 0;) {
    if (!step[i].num) { /* the last of a connected part: outside of it are the other parts */
      w.stage[i].outside = msc_new_array(arena, int64_t, 1);
      w.stage[i].outside[0] = total - step[i].cost[0];
    }
    bound_from_outside(&w, i);
  }
  front best = {0, 0, NULL};
  int64_t rest = total;
  for (int i = 0; i < vars; i++) {
    if (!make_fronts(&w, i)) return SHARD_GAVE_UP;
    if (step[i].num) continue;
    rest -= step[i].cost[0];
    best = best.p ? combine_fronts(&w, &best, &w.stage[i].front[0], rest) : w.stage[i].front[0];
    if (!best.num) return SHARD_NO_BETTER;
  }
  const point *p = &best.p[best.num - 1];          /* most bytes, least cost */
  if (p->cost >= l->upper) return SHARD_NO_BETTER; /* it is cheap only with the charge */
  read_back(&w, p, out_state);
  *out_cost = p->cost;
  return SHARD_BETTER;
}

/* Drops the states that shard_list_remaining excludes, then searches the fronts of the rest. */
shard_within shard_eliminate_within(msc_arena *arena, const shard_limited *l, int *out_state, int64_t *out_cost) {
  int vars = l->plain->num_vars;
  int *num = msc_new_array(arena, int, vars);
  const int **state = msc_new_array(arena, const int *, vars);
  const int64_t **bytes = msc_new_array(arena, const int64_t *, vars);
  shard_problem plain, charged;
  shard_limited few = *l;
  if (!shard_list_remaining(arena, l->charged, l->upper - 1 + l->limit_charge, num, state)) return SHARD_NO_BETTER;
  shard_restrict(arena, l->plain, num, state, &plain);
  shard_restrict(arena, l->charged, num, state, &charged);
  for (int v = 0; v < vars; v++) {
    int64_t *b = msc_new_array(arena, int64_t, num[v]);
    for (int s = 0; s < num[v]; s++) b[s] = l->bytes[v][state[v][s]];
    bytes[v] = b;
  }
  few.plain = &plain, few.charged = &charged, few.bytes = bytes;
  shard_within found = search_fronts(arena, &few, out_state, out_cost);
  for (int v = 0; v < vars && found == SHARD_BETTER; v++) out_state[v] = state[v][out_state[v]];
  return found;
}
