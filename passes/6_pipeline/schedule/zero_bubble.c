/* zero_bubble.c: zb-auto: from times, and bytes per stage, makes an order of F, B and W with little idle time. With
 * one chunk it starts from zb-h1 and zb-h2 if they fit, so it is never worse than they are; then list schedules,
 * then local search; it stops at the bound. With two chunks in a V (Qi et al. 2024, Pipeline Parallelism with
 * Controllable Memory) it takes the best list schedule. */
#include "passes/6_pipeline/schedule/zero_bubble.h"

#include <string.h>

#include "ir/abi/clock.h"

/* ---- time ---- */

/* A stack of the stages that may go on, each at most once. */
typedef struct {
  int *stage, num;
  int *is_in;
} ready_set;

static void add_ready_stage(ready_set *r, int stage) {
  if (r->is_in[stage]) return;
  r->is_in[stage] = 1;
  r->stage[r->num++] = stage;
}

/* Times a stage until its data is missing. */
static void time_stage(zb_problem *z, const uint8_t *work, int i, int *next, int64_t *first, int64_t *free_at,
                       ready_set *r) {
  const msc_section_cost *c = &z->cost[i];
  int m = z->micro_batches, last = z->stages - 1, at = next[0], f = next[1], b = next[2];
  int64_t *fe = z->forward_end + (int64_t)i * m, *be = z->backward_end + (int64_t)i * m, t = *free_at, ready;
  for (; at < z->length; at++) {
    if (work[at] == MSC_FORWARD) {
      if (i && fe[f - m] < 0) break;
      ready = i ? fe[f - m] + c[-1].hop : 0;
      if (ready > t) t = ready;
      if (!at) *first = t;
      fe[f++] = t += c->forward;
      if (i < last) add_ready_stage(r, i + 1);
    } else if (work[at] == MSC_BACKWARD) {
      if (f <= b || (i < last && be[b + m] < 0)) break;
      ready = i < last ? be[b + m] + c->hop : 0;
      if (ready > t) t = ready;
      be[b++] = t += c->backward;
      if (i) add_ready_stage(r, i - 1);
    } else {
      t += c->weight;
    }
  }
  next[0] = at, next[1] = f, next[2] = b, *free_at = t;
}

/* Times an order with one chunk; false if its stages wait for each other. */
static bool run_order(zb_problem *z, zb_plan *p) {
  int n = z->stages;
  size_t bytes = sizeof(int64_t) * (size_t)n * (size_t)z->micro_batches;
  int *next = z->at, *is_in = z->at + 4 * n;
  ready_set r = {z->at + 5 * n, 0, is_in};
  int64_t first[MSC_MAX_STAGES], free_at[MSC_MAX_STAGES];
  memset(z->forward_end, -1, bytes);
  memset(z->backward_end, -1, bytes);
  memset(z->at, 0, sizeof(int) * 6 * (size_t)n);
  memset(free_at, 0, sizeof *free_at * (size_t)n);
  z->budget -= (int64_t)n * z->length;
  for (int i = n - 1; i >= 0; i--) add_ready_stage(&r, i);
  while (r.num) {
    int i = r.stage[--r.num];
    is_in[i] = 0;
    time_stage(z, zb_string(z, p, i), i, next + 4 * i, &first[i], &free_at[i], &r);
  }
  p->makespan = 0;
  for (int i = 0; i < n; i++) {
    if (next[4 * i] < z->length) return false;
    if (free_at[i] - first[i] > p->makespan) p->makespan = free_at[i] - first[i];
  }
  return true;
}

/* ---- the search ---- */

/* Takes the order of a rule if it fits and is faster. */
static void try_rule(msc_orders *b, zb_problem *z, bool (*generator)(msc_orders *b), zb_plan *best, zb_plan *p) {
  bool fits = true;
  generator(b);
  for (int i = 0; i < z->stages; i++) {
    uint8_t *work = zb_string(z, p, i);
    for (int n = 0; n < z->length; n++) work[n] = (uint8_t)b->s->stage[i].entry[n].work;
    fits = fits && zb_fits(z, i, work);
  }
  if (fits && run_order(z, p) && p->makespan < best->makespan) zb_copy(z, best, p);
  msc_order_clear(b);
}

static bool start_problem(msc_orders *b, zb_problem *z) {
  const msc_schedule_options *o = b->o;
  for (int i = 0; i < o->stages; i++) {
    int64_t least = 0;
    for (int c = 0; c < o->chunks; c++) {
      const msc_section_cost *cost = &o->cost[msc_virtual_stage(b->s, i, c)];
      least += cost->kept > cost->kept_for_weight ? cost->kept : cost->kept_for_weight;
    }
    if (o->limit[i] < least)
      return msc_error(b->ctx, MSC_E_INFEASIBLE, b->loc,
                       "stage %d: one micro-batch takes %" PRId64 " bytes and the limit is %" PRId64, i, least,
                       o->limit[i]);
  }
  int64_t num = (int64_t)o->stages * o->chunks * o->micro_batches;
  *z = (zb_problem){.stages = o->stages,
                    .chunks = o->chunks,
                    .micro_batches = o->micro_batches,
                    .length = 3 * o->chunks * o->micro_batches,
                    .cost = o->cost,
                    .limit = o->limit,
                    .budget = o->nodes};
  z->forward_end = msc_new_array(b->scratch, int64_t, num);
  z->backward_end = msc_new_array(b->scratch, int64_t, num);
  z->at = msc_new_array(b->scratch, int, 6 * o->stages);
  z->bound = zb_bound(z, b->scratch);
  if (o->seconds > 0) z->until = msc_cpu_seconds() + o->seconds, z->budget = INT64_MAX;
  return true;
}

bool order_zb_auto(msc_orders *b) {
  zb_problem z;
  MSC_TRY(start_problem(b, &z));
  zb_plan best = zb_new_plan(b->scratch, &z), p = zb_new_plan(b->scratch, &z);
  bool is_v = z.chunks > 1;
  if (!is_v) try_rule(b, &z, order_zb_h1, &best, &p);
  if (!is_v) try_rule(b, &z, order_zb_h2, &best, &p);
  zb_sweep(&z, b->scratch, &best, &p);
  if (!is_v) zb_improve(&z, b->scratch, &best);
  for (int i = 0; i < z.stages; i++)
    for (int n = 0; n < z.length; n++) {
      int work = zb_string(&z, &best, i)[n];
      msc_order_put(b, i, (msc_work)(work % MSC_NUM_WORKS), work / MSC_NUM_WORKS);
    }
  b->s->bound = z.bound;
  return true;
}
