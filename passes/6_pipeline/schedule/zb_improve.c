/* zb_improve.c: improves orders by local search. A move takes one work to another position in the string of its stage:
 * any position, or, on the chain of waits that ends at an idle gap, a work earlier or a W into the gap. First descent
 * from several list schedules, then annealing.
 *
 * Only works that start after the move are timed again, and only until a stage has waited so long that the order cannot
 * be better. */
#include <math.h>
#include <string.h>

#include "passes/6_pipeline/schedule/zero_bubble.h"

/* The current order with its times; `next_start` and `next_end` are those of the order being tried. */
typedef struct {
  zb_problem *z;
  zb_plan *p;
  int64_t *end[2], *next_end[2];    /* by work (F, B), stage and micro-batch */
  int64_t *start, *next_start;      /* by stage and index in its string */
  int *done;                        /* by stage and index: numbers of F and of B before it */
  int *from, *at, *forward, *backward; /* by stage, while trying: first index retimed, current index, F and B done */
  int64_t *span, *next_span;        /* by stage: span in the current order and in the one tried */
  int64_t *free_at, *rest;          /* by stage: current time, work left */
  int *waiting, num_waiting;
  bool *is_waiting;
  uint64_t random;
  double energy, limit;             /* energy of the current order; the most that a change may make it */
} improver;

static const double SPREAD = 0.2;      /* weight of the mean idle time in the energy, beside the makespan */
static const double HOT = 0.1, COLD = 0.001; /* temperatures, as parts of the length of a work */
/* The search counts the entries that it visits. A descent ends after ROUND_PER_WORK visits without a gain for each work
 * of a plan, or LONGEST_ROUND if that is less. The first round of annealing is as long, each further one half as long
 * again; PATIENCE rounds in a row without a gain end the search. */
enum { ROUND_PER_WORK = 1000, LONGEST_ROUND = 400000, PATIENCE = 8 };

static int64_t first_round(const zb_problem *z) {
  int64_t length = (int64_t)ROUND_PER_WORK * z->stages * z->length;
  return length < LONGEST_ROUND ? length : LONGEST_ROUND;
}

static uint32_t draw_below(improver *x, uint32_t below) {
  x->random ^= x->random << 13, x->random ^= x->random >> 7, x->random ^= x->random << 17;
  return (uint32_t)((x->random >> 32) % below);
}

static int64_t time_of_work(const improver *x, int i, int work) {
  const msc_section_cost *c = &x->z->cost[i];
  return work == MSC_FORWARD ? c->forward : work == MSC_BACKWARD ? c->backward : c->weight;
}

static int64_t *start_at(const improver *x, int i, int at) { return &x->start[(int64_t)i * x->z->length + at]; }
static int *done_at(const improver *x, int i, int at) { return &x->done[2 * ((int64_t)i * (x->z->length + 1) + at)]; }
static int64_t end_at(const improver *x, int i, int at) {
  return at < 0 ? 0 : *start_at(x, i, at) + time_of_work(x, i, zb_string(x->z, x->p, i)[at]);
}

/* ---- trying ---- */

static void mark_waiting(improver *x, int i) {
  if (x->is_waiting[i]) return;
  x->is_waiting[i] = true;
  x->waiting[x->num_waiting++] = i;
}

/* Times stage i until its data is missing; false if its span alone exceeds the limit. */
static bool retime_stage(improver *x, int i) {
  const zb_problem *z = x->z;
  const msc_section_cost *c = &z->cost[i];
  const uint8_t *work = zb_string(z, x->p, i);
  int m = z->micro_batches, last = z->stages - 1, at = x->at[i], f = x->forward[i], b = x->backward[i],
      f_above = i ? x->forward[i - 1] : m, b_below = i < last ? x->backward[i + 1] : m;
  int64_t *fe = x->next_end[0] + (int64_t)i * m, *be = x->next_end[1] + (int64_t)i * m, t = x->free_at[i],
          rest = x->rest[i];
  int64_t *start = x->next_start + (int64_t)i * z->length;
  for (; at < z->length; at++) {
    int64_t ready = 0, length = c->weight;
    if (work[at] == MSC_FORWARD) {
      if (f_above <= f) break;
      if (i) ready = fe[f - m] + c[-1].hop;
      length = c->forward;
    } else if (work[at] == MSC_BACKWARD) {
      if (f <= b || b_below <= b) break;
      if (i < last) ready = be[b + m] + c->hop;
      length = c->backward;
    }
    if (ready > t) {
      t = ready;
      if (at && (double)(t + rest - start[0]) > x->limit) return false;
    }
    start[at] = t;
    t += length, rest -= length;
    if (work[at] == MSC_FORWARD) fe[f++] = t;
    else if (work[at] == MSC_BACKWARD) be[b++] = t;
  }
  if (f > x->forward[i] && i < last) mark_waiting(x, i + 1);
  if (b > x->backward[i] && i) mark_waiting(x, i - 1);
  x->at[i] = at, x->forward[i] = f, x->backward[i] = b, x->free_at[i] = t, x->rest[i] = rest;
  return true;
}

/* The first index of stage i, at most `most`, whose work starts at `time` or later. */
static int first_index_from(const improver *x, int i, int64_t time, int most) {
  int low = 0, high = most;
  while (low < high) {
    int mid = (low + high) / 2;
    if (*start_at(x, i, mid) < time) low = mid + 1;
    else high = mid;
  }
  return low;
}

/* Rewinds every stage to `time`; stage `moved` to index `lowest` at the latest. */
static void rewind_to(improver *x, int64_t time, int moved, int lowest) {
  const zb_problem *z = x->z;
  for (int i = 0; i < z->stages; i++) {
    const msc_section_cost *c = &z->cost[i];
    int at = first_index_from(x, i, time, i == moved ? lowest : z->length), f = done_at(x, i, at)[0],
        b = done_at(x, i, at)[1], m = z->micro_batches;
    x->from[i] = x->at[i] = at, x->forward[i] = f, x->backward[i] = b;
    x->free_at[i] = end_at(x, i, at - 1);
    x->rest[i] = (m - f) * c->forward + (m - b) * c->backward + (m - (at - f - b)) * c->weight;
  }
}

/* Takes over the times of the tried order, or restores those of the current one. */
static void commit_or_restore(improver *x, bool is_kept) {
  const zb_problem *z = x->z;
  for (int i = 0; i < z->stages; i++) {
    int64_t base = (int64_t)i * z->length, ends = (int64_t)i * z->micro_batches;
    const int *done = done_at(x, i, x->from[i]);
    int64_t *starts[] = {x->start, x->next_start}, *forwards[] = {x->end[0], x->next_end[0]},
            *backwards[] = {x->end[1], x->next_end[1]};
    memcpy(starts[!is_kept] + base + x->from[i], starts[is_kept] + base + x->from[i],
           sizeof(int64_t) * (size_t)(x->at[i] - x->from[i]));
    memcpy(forwards[!is_kept] + ends + done[0], forwards[is_kept] + ends + done[0],
           sizeof(int64_t) * (size_t)(x->forward[i] - done[0]));
    memcpy(backwards[!is_kept] + ends + done[1], backwards[is_kept] + ends + done[1],
           sizeof(int64_t) * (size_t)(x->backward[i] - done[1]));
  }
}

static void update_done_counts(improver *x, int i, int from, int to) {
  const uint8_t *work = zb_string(x->z, x->p, i);
  for (int at = from; at < to; at++) {
    int *done = done_at(x, i, at);
    done[2] = done[0] + (work[at] == MSC_FORWARD);
    done[3] = done[1] + (work[at] == MSC_BACKWARD);
  }
}

/* Times the order after a change of stage i at indexes low .. high; true: accepted, false: the times are as before. */
static bool try_change(improver *x, int i, int low, int high) {
  zb_problem *z = x->z;
  bool ok = true;
  int64_t makespan = 0;
  double excess = 0;
  rewind_to(x, end_at(x, i, low - 1), i, low);
  x->num_waiting = 0;
  memset(x->is_waiting, 0, sizeof *x->is_waiting * (size_t)z->stages);
  for (int k = z->stages - 1; k >= 0; k--) mark_waiting(x, k);
  while (x->num_waiting && ok) {
    int k = x->waiting[--x->num_waiting];
    x->is_waiting[k] = false;
    ok = retime_stage(x, k);
  }
  for (int k = 0; k < z->stages; k++) {
    z->budget -= x->at[k] - x->from[k];
    ok = ok && x->at[k] == z->length;
    if (!ok) continue;
    const msc_section_cost *c = &z->cost[k];
    x->next_span[k] = x->free_at[k] - x->next_start[(int64_t)k * z->length];
    if (x->next_span[k] > makespan) makespan = x->next_span[k];
    double over = (double)(x->next_span[k] - z->micro_batches * (c->forward + c->backward + c->weight));
    excess += over * over;
  }
  double energy = (double)makespan + SPREAD * sqrt(excess / z->stages);
  ok = ok && energy <= x->limit;
  commit_or_restore(x, ok);
  if (!ok) return false;
  x->p->makespan = makespan, x->energy = energy;
  memcpy(x->span, x->next_span, sizeof *x->span * (size_t)z->stages);
  update_done_counts(x, i, low, high + 1);
  return true;
}

/* ---- moving ---- */

static void move_work(uint8_t *work, int from, int to) {
  uint8_t w = work[from];
  if (to > from) memmove(work + from, work + from + 1, (size_t)(to - from));
  else memmove(work + to + 1, work + to, (size_t)(from - to));
  work[to] = w;
}

/* True if the string stays within the limit and in order at indexes low .. high. */
static bool range_is_allowed(const improver *x, int i, int low, int high) {
  const msc_section_cost *c = &x->z->cost[i];
  const uint8_t *work = zb_string(x->z, x->p, i);
  int f = done_at(x, i, low)[0], b = done_at(x, i, low)[1], w = low - f - b;
  for (int at = low; at <= high; at++) {
    f += work[at] == MSC_FORWARD, b += work[at] == MSC_BACKWARD, w += work[at] == MSC_WEIGHT;
    if (b > f || w > b || (f - b) * c->kept + (b - w) * c->kept_for_weight > x->z->limit[i]) return false;
  }
  return true;
}

static void try_move(improver *x, int i, int from, int to) {
  uint8_t *work = zb_string(x->z, x->p, i);
  x->z->budget--;
  if (to < 0 || to >= x->z->length || work[from] == work[to]) return;
  int low = from < to ? from : to, high = from < to ? to : from;
  move_work(work, from, to);
  if (!range_is_allowed(x, i, low, high) || !try_change(x, i, low, high)) move_work(work, to, from);
}

static void move_anywhere(improver *x, int i) {
  int from = (int)draw_below(x, (uint32_t)x->z->length),
      by = 1 + (int)draw_below(x, draw_below(x, 4) ? 6 : (uint32_t)x->z->length / 2 + 1);
  try_move(x, i, from, draw_below(x, 2) ? from + by : from - by);
}

static int worst_stage(const improver *x) {
  int worst = 0;
  for (int i = 1; i < x->z->stages; i++)
    if (x->span[i] > x->span[worst]) worst = i;
  return worst;
}

/* An index before which stage i is idle: the first one from a random index on; -1: none. */
static int find_gap(improver *x, int i) {
  const msc_section_cost *c = &x->z->cost[i];
  const int64_t length[] = {c->forward, c->backward, c->weight}, *start = start_at(x, i, 0);
  const uint8_t *work = zb_string(x->z, x->p, i);
  int num = x->z->length, at = (int)draw_below(x, (uint32_t)num);
  for (int n = 0; n < num; n++, at = at + 1 < num ? at + 1 : 0)
    if (at && start[at] > start[at - 1] + length[work[at - 1]]) return at;
  return -1;
}

/* The index of the n-th (from 0) F or B in stage i. */
static int index_of_work(const improver *x, int i, int work, int n) {
  int low = 0, high = x->z->length;
  while (low + 1 < high) {
    int mid = (low + high) / 2;
    if (done_at(x, i, mid)[work] <= n) low = mid;
    else high = mid;
  }
  return low;
}

/* Moves a W of stage i before index `at`: the nearest on one side, or one further away. */
static void fill_gap(improver *x, int i, int at) {
  const uint8_t *work = zb_string(x->z, x->p, i);
  int step = draw_below(x, 3) ? 1 : -1, skip = draw_below(x, 3) ? 0 : (int)draw_below(x, 4),
      from = step > 0 ? at : at - 1;
  for (; from >= 0 && from < x->z->length; from += step)
    if (work[from] == MSC_WEIGHT && !skip--) break;
  if (from >= 0 && from < x->z->length) try_move(x, i, from, from < at ? at - 1 : at);
}

/* Follows the waits back from an idle gap and moves one work on the way. */
static void move_on_chain(improver *x, int i) {
  int at = find_gap(x, i);
  if (at < 0) return;
  if (draw_below(x, 2)) {
    fill_gap(x, i, at);
    return;
  }
  while (at > 0) {
    const uint8_t *work = zb_string(x->z, x->p, i);
    bool waits = *start_at(x, i, at) > end_at(x, i, at - 1);
    if (waits) {
      int from = work[at] == MSC_FORWARD ? i - 1 : i + 1;
      if (from < 0 || from >= x->z->stages) return;
      at = index_of_work(x, from, work[at], done_at(x, i, at)[work[at]]);
      i = from;
    } else if (draw_below(x, 3)) {
      at--;
    } else {
      try_move(x, i, at, at - 1 - (int)draw_below(x, 3));
      return;
    }
  }
}

static improver new_improver(zb_problem *z, msc_arena *scratch, zb_plan *p) {
  int64_t cells = (int64_t)z->stages * z->micro_batches, places = (int64_t)z->stages * z->length;
  int n = z->stages;
  improver x = {.z = z, .p = p, .random = 88172645463325252u};
  x.end[0] = z->forward_end, x.end[1] = z->backward_end;
  x.next_end[0] = msc_new_array(scratch, int64_t, cells);
  x.next_end[1] = msc_new_array(scratch, int64_t, cells);
  x.start = msc_new_array(scratch, int64_t, places);
  x.next_start = msc_new_array(scratch, int64_t, places);
  x.done = msc_new_array(scratch, int, 2 * (places + n));
  int **numbers[] = {&x.from, &x.at, &x.forward, &x.backward, &x.waiting};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = msc_new_array(scratch, int, n);
  int64_t **times[] = {&x.free_at, &x.rest, &x.span, &x.next_span};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) *times[i] = msc_new_array(scratch, int64_t, n);
  x.is_waiting = msc_new_array(scratch, bool, n);
  return x;
}

static void load_order(improver *x, const zb_plan *from) {
  zb_copy(x->z, x->p, from);
  for (int i = 0; i < x->z->stages; i++) {
    update_done_counts(x, i, 0, x->z->length);
    for (int at = 0; at < x->z->length; at++) *start_at(x, i, at) = 1; /* no entry has a time yet */
  }
  x->limit = 1e300;
  try_change(x, 0, 0, x->z->length - 1);
}

/* Tries twenty moves; each may raise the energy by `heat` times an exponentially distributed number. A move that
 * memory forbids counts against the budget too. */
static void try_moves(improver *x, double heat, zb_plan *best) {
  enum { LOOKED_AT = 8 };
  for (int n = 0; n < 20; n++) {
    x->z->budget -= LOOKED_AT;
    int i = draw_below(x, 2) ? worst_stage(x) : (int)draw_below(x, (uint32_t)x->z->stages);
    x->limit = x->energy - heat * log((draw_below(x, 1 << 30) + 1.0) / (1 << 30));
    if (draw_below(x, 2)) move_anywhere(x, i);
    else move_on_chain(x, i);
    if (x->p->makespan < best->makespan) zb_copy(x->z, best, x->p);
  }
}

/* Descends from a list schedule until a round brings no gain. */
static void descend(improver *x, const zb_plan *seed, zb_plan *best) {
  load_order(x, seed);
  double lowest = x->energy;
  int64_t round = first_round(x->z);
  for (int64_t left = x->z->budget - round; x->z->budget > left && !zb_is_over(x->z, best);) {
    try_moves(x, 0, best);
    if (x->energy >= lowest) continue;
    lowest = x->energy;
    left = x->z->budget - round;
  }
}

/* Anneals from the best order, hot at first, then colder (Kirkpatrick et al. 1983). */
static void anneal(improver *x, double length, zb_plan *best) {
  const msc_section_cost *c = x->z->cost;
  double unit = (double)(c->forward + c->backward + c->weight) / MSC_NUM_WORKS, passed;
  int64_t begin = x->z->budget;
  load_order(x, best);
  while ((passed = (double)(begin - x->z->budget) / length) < 1 && !zb_is_over(x->z, best))
    try_moves(x, unit * HOT * pow(COLD / HOT, passed), best);
}

void zb_improve(zb_problem *z, msc_arena *scratch, zb_plan *best) {
  zb_plan p = zb_new_plan(scratch, z);
  improver x = new_improver(z, scratch, &p);
  for (int n = 0; n < z->num_seeds && !zb_is_over(z, best); n++) descend(&x, &z->seed[n], best);
  double length = (double)first_round(z);
  for (int in_vain = 0; in_vain < PATIENCE && !zb_is_over(z, best); length *= 1.5) {
    int64_t before = best->makespan;
    anneal(&x, length, best);
    in_vain = best->makespan < before ? 0 : in_vain + 1;
  }
}
