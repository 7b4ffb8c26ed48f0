/* zb_bound.c: a lower bound on the makespan of every order within the limits. It counts the work of a stage and its
 * waits: for its first B, while only F can run; for its last B, while only B and W can run; the product of bytes and
 * time; and the way to a later stage and back with the work which that stage must do meanwhile. */
#include "passes/6_pipeline/schedule/zero_bubble.h"

/* Facts about one stage. */
typedef struct {
  int64_t work;
  /* from the end of F of one micro-batch to the start of its B: down to the last stage and back */
  int64_t gap;
  int64_t in_flight; /* micro-batches whose F can be done before their B */
  int64_t left;      /* W that can be left when the last B ends: one micro-batch is in flight before it */
  int64_t before;    /* idle time before the first B: until then only F can run, as many as fit */
  int64_t after;     /* idle time between the last F and its B */
} facts;

/* Idle time between the last F and its B: with n micro-batches in flight and q W left when the last F starts, at
 * most n - 1 B and n - 1 + q W can run in between. */
static int64_t idle_after(const zb_problem *z, int i, const facts *f) {
  const msc_section_cost *c = &z->cost[i];
  int64_t fill = 0, m = z->micro_batches;
  for (int64_t n = 1; n <= f->in_flight; n++) {
    int64_t left = c->kept_for_weight > 0 ? msc_min(m - n, (z->limit[i] - n * c->kept) / c->kept_for_weight) : m - n;
    fill = msc_max(fill, (n - 1) * (c->backward + c->weight) + left * c->weight);
  }
  return msc_max(0, f->gap - fill);
}

static facts *collect_facts(const zb_problem *z, msc_arena *scratch) {
  facts *all = msc_new_array(scratch, facts, z->stages);
  int64_t m = z->micro_batches;
  for (int i = z->stages - 1; i >= 0; i--) {
    const msc_section_cost *c = &z->cost[i];
    facts *f = &all[i];
    f->work = m * (c->forward + c->backward + c->weight);
    f->gap = i < z->stages - 1 ? f[1].gap + c[1].forward + c[1].backward + 2 * c->hop : 0;
    f->in_flight = c->kept > 0 ? msc_min(m, z->limit[i] / c->kept) : m;
    f->left = c->kept_for_weight > 0 ? msc_min(m, 1 + (z->limit[i] - c->kept) / c->kept_for_weight) : m;
    f->before = msc_max(0, f->gap - (f->in_flight - 1) * c->forward);
    f->after = idle_after(z, i, f);
  }
  return all;
}

/* The idle time of a stage. The waits before the first B and behind the last F are distinct if not all F fit before
 * the first B. */
static int64_t idle_time(const zb_problem *z, const facts *f) {
  return f->in_flight < z->micro_batches ? f->before + f->after : msc_max(f->before, f->after);
}

/* The least makespan by bytes times time: the micro-batches need at least this area. */
static int64_t bound_by_area(const zb_problem *z, int i, const facts *f) {
  const msc_section_cost *c = &z->cost[i];
  double area =
      (double)(c->forward + f->gap + c->backward) * (double)c->kept + (double)c->weight * (double)c->kept_for_weight;
  return z->limit[i] > 0 ? (int64_t)(area * z->micro_batches / (double)z->limit[i] * (1 - 1e-12)) : 0;
}

/* Sets for every stage the number of F before its first B: the stage may not wait for that B longer than the
 * makespan allows, nor can it start before that B is done on the next stage. */
bool zb_warm_up(const zb_problem *z, int64_t makespan, int *out_warm_up) {
  int64_t start = 0; /* start of the first B, counted from the first F of the stage */
  for (int i = z->stages - 1; i >= 0; i--) {
    const msc_section_cost *c = &z->cost[i];
    int64_t num = 1, wait = makespan + z->spare[i];
    if (wait < 0) return false;
    if (i < z->stages - 1) start += c->forward + c[1].backward + 2 * c->hop;
    if (start > wait + c->forward) num = c->forward > 0 ? (start - wait + c->forward - 1) / c->forward : INT64_MAX;
    if (num > z->micro_batches || (c->kept > 0 && num > z->limit[i] / c->kept)) return false;
    start = msc_max(start, num * c->forward);
    out_warm_up[i] = (int)num;
  }
  return true;
}

/* The least makespan that leaves time for the warm-up. */
static int64_t bound_by_warm_up(const zb_problem *z, int64_t low, int64_t longest_gap, int *warm_up) {
  if (zb_warm_up(z, low, warm_up)) return low;
  int64_t high = low + longest_gap + 1;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (zb_warm_up(z, middle, warm_up)) high = middle;
    else low = middle;
  }
  return high;
}

/* A bound by pairs of stages: stage i starts; stage k starts when the first F has reached it, ends its last B, and
 * that B goes back to i, which has one W left. */
static int64_t bound_by_pairs(const zb_problem *z, const facts *f) {
  int64_t bound = 0;
  for (int i = 0; i < z->stages; i++) {
    int64_t way = 0;
    for (int k = i + 1; k < z->stages; k++) {
      way += z->cost[k - 1].forward + z->cost[k - 1].backward + 2 * z->cost[k - 1].hop;
      bound = msc_max(bound, way + f[k].work + idle_time(z, &f[k]) - f[k].left * z->cost[k].weight + z->cost[i].weight);
    }
  }
  return bound;
}

/* With two chunks the bound is the work of the stages. */
static int64_t bound_of_v(const zb_problem *z) {
  int64_t bound = 0;
  for (int i = 0; i < z->stages; i++) {
    const msc_section_cost *down = &z->cost[i], *up = &z->cost[2 * z->stages - 1 - i];
    bound = msc_max(bound, z->micro_batches * (down->forward + down->backward + down->weight + up->forward +
                                               up->backward + up->weight));
  }
  return bound;
}

int64_t zb_bound(zb_problem *z, msc_arena *scratch) {
  if (z->chunks > 1) return bound_of_v(z);
  facts *f = collect_facts(z, scratch);
  int64_t bound = bound_by_pairs(z, f);
  z->spare = msc_new_array(scratch, int64_t, z->stages);
  for (int i = 0; i < z->stages; i++) {
    bound = msc_max(bound, msc_max(f[i].work + idle_time(z, &f[i]), bound_by_area(z, i, &f[i])));
    z->spare[i] = -f[i].work - (f[i].in_flight < z->micro_batches ? f[i].after : 0);
  }
  return bound_by_warm_up(z, bound, f[0].gap, msc_new_array(scratch, int, z->stages));
}
