/* minimum_within.c: tables and bytes over variables -> the cheapest assignment within the limit (see
 * minimum_within.h). */
#include "passes/3_shard/step_time_search/minimum_within.h"

#include <stdlib.h>
#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/step_time_search/minimum.h"

/* A partial assignment that may become part of the best one: of one variable and those removed before it, or the union
 * of two such. */
typedef struct point {
  int64_t cost, bytes, charged;
  int var, state; /* var -1: two together */
  const struct point *a, *b;
} point;

typedef struct {
  size_t num, room;
  point *p;
} front;

/* One removal. */
typedef struct {
  const shard_step *s;
  int num_tables, num_inside;
  const shard_table **table; /* of the plain problem, consumed here; their charged twins at the same place */
  int *inside;               /* earlier steps whose tables are consumed here */
  int64_t *outside;          /* by assignment of the neighbours: least charged cost of all that is not inside */
  front *front;              /* likewise */
} stage;

typedef struct {
  msc_arena *arena;
  const shard_limited *l;
  const shard_step *step;
  stage *stage;
  int *stage_of; /* by variable */
  int *state;    /* by variable, of the assignment at hand */
  int64_t last;  /* charged costs above it cannot be better than `upper` */
  front out;     /* being made */
  size_t points, work;
} limiting;

static int states_of(const limiting *w, int var) { return w->l->plain->num_states[var]; }

/* ---- which step consumes what ---- */

static int first_stage(const limiting *w, int num, const int *var) {
  int first = w->stage_of[var[0]];
  for (int i = 1; i < num; i++)
    if (w->stage_of[var[i]] < first) first = w->stage_of[var[i]];
  return first;
}

static void distribute(limiting *w) {
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

static size_t assignment_offset(const limiting *w, const shard_step *s) {
  size_t at = 0;
  for (int i = 0; i < s->num; i++) at = at * (size_t)states_of(w, s->var[i]) + (size_t)w->state[s->var[i]];
  return at;
}

static int64_t read_entry(const limiting *w, const shard_problem *p, const shard_table *of) {
  const shard_table *t = &p->table[of - w->l->plain->table];
  size_t at = (size_t)w->state[t->a];
  return t->cost[t->b < 0 ? at : at * (size_t)states_of(w, t->b) + (size_t)w->state[t->b]];
}

static int64_t tables_at(const limiting *w, const shard_problem *p, const stage *g) {
  int64_t sum = 0;
  for (int i = 0; i < g->num_tables; i++) sum += read_entry(w, p, g->table[i]);
  return sum;
}

/* Steps to the next assignment of the step's neighbours; false after the last. */
static bool next_assignment(limiting *w, const shard_step *s) {
  for (int i = s->num; i-- > 0;) {
    if (++w->state[s->var[i]] < states_of(w, s->var[i])) return true;
    w->state[s->var[i]] = 0;
  }
  return false;
}

static void first_assignment(limiting *w, const shard_step *s) {
  for (int i = 0; i < s->num; i++) w->state[s->var[i]] = 0;
}

/* ---- from outside ---- */

static size_t count_assignments(const limiting *w, const shard_step *s) {
  size_t n = 1;
  for (int i = 0; i < s->num; i++) n *= (size_t)states_of(w, s->var[i]);
  return n;
}

static void look_inside(limiting *w, int i) {
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
    for (int x = 0; x < states_of(w, g->s->removed); x++) {
      w->state[g->s->removed] = x;
      w->work++;
      int64_t sum = around + tables_at(w, w->l->charged, g);
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

static void add_point(limiting *w, point p, int64_t outside) {
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

/* Takes the points made so far, without those that another is at least as good as in cost and in bytes. */
static front keep_undominated(limiting *w) {
  front *f = &w->out, kept = {0, 0, NULL};
  if (f->num) qsort(f->p, f->num, sizeof *f->p, by_bytes);
  for (size_t i = 0; i < f->num; i++)
    if (!kept.num || f->p[i].cost < f->p[kept.num - 1].cost) f->p[kept.num++] = f->p[i];
  kept.p = kept.num ? msc_arena_copy(w->arena, f->p, kept.num * sizeof *f->p) : NULL;
  w->points += kept.num;
  f->num = 0;
  return kept;
}

/* Joins every point of a with every point of b. `outside`: the least cost of all other variables. */
static front combine_fronts(limiting *w, const front *a, const front *b, int64_t outside) {
  for (size_t i = 0; i < a->num; i++)
    for (size_t k = 0; k < b->num; k++)
      add_point(w,
                (point){a->p[i].cost + b->p[k].cost, a->p[i].bytes + b->p[k].bytes, a->p[i].charged + b->p[k].charged,
                        -1, 0, &a->p[i], &b->p[k]},
                outside);
  w->work += a->num * b->num;
  return keep_undominated(w);
}

/* The points for one state of the removed variable, with the neighbours in their present states. */
static front fronts_of_state(limiting *w, const stage *g, int64_t outside) {
  int var = g->s->removed;
  point own = {tables_at(w, w->l->plain, g),
               w->l->bytes[var][w->state[var]],
               tables_at(w, w->l->charged, g),
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

static bool make_fronts(limiting *w, int i) {
  stage *g = &w->stage[i];
  size_t at = 0;
  g->front = msc_new_array(w->arena, front, count_assignments(w, g->s));
  first_assignment(w, g->s);
  do {
    int64_t outside = g->outside ? g->outside[at] : SHARD_IMPOSSIBLE;
    front all = {0, 0, NULL};
    if (outside < SHARD_IMPOSSIBLE && g->s->cost[at] + outside <= w->last) {
      point *sum = NULL;
      size_t num = 0, room = 0;
      for (int x = 0; x < states_of(w, g->s->removed); x++) {
        w->state[g->s->removed] = x;
        front f = fronts_of_state(w, g, outside);
        msc_reserve(w->arena, sum, room, num + f.num);
        if (f.num) memcpy(sum + num, f.p, f.num * sizeof *f.p);
        num += f.num;
      }
      for (size_t k = 0; k < num; k++) add_point(w, sum[k], outside);
      all = keep_undominated(w);
    }
    g->front[at++] = all;
    if (w->points > w->l->max_points || w->work / 100 > w->l->max_points) return false;
  } while (next_assignment(w, g->s));
  return true;
}

/* ---- the whole ---- */

static void read_back(limiting *w, const point *p, int *out_state) {
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
  limiting w = {.arena = arena, .l = l, .last = l->upper - 1 + l->limit_charge};
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
  distribute(&w);
  for (int i = vars; i-- > 0;) {
    if (!step[i].num) { /* nothing else is connected: what the other parts cost at least is around it */
      w.stage[i].outside = msc_new_array(arena, int64_t, 1);
      w.stage[i].outside[0] = total - step[i].cost[0];
    }
    look_inside(&w, i);
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

/* Leaves out the states that the bound excludes by themselves, then eliminates with points. */
shard_within shard_eliminate_within(msc_arena *arena, const shard_limited *l, int *out_state, int64_t *out_cost) {
  int vars = l->plain->num_vars;
  int *num = msc_new_array(arena, int, vars);
  const int **state = msc_new_array(arena, const int *, vars);
  const int64_t **bytes = msc_new_array(arena, const int64_t *, vars);
  shard_problem plain, charged;
  shard_limited few = *l;
  if (!shard_remaining(arena, l->charged, l->upper - 1 + l->limit_charge, num, state)) return SHARD_NO_BETTER;
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
