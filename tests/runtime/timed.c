/* timed.c: checks the timed device: calls take their predicted time, collectives run beside them, a wrong order of
 * calls is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/runtime/job.h"
#include "tests/runtime/make_plan.h" /* first: it makes the writers of plan files */

#include "runtime/context.h"

static KERNEL void k_nothing(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  (void)b, (void)begin, (void)end, (void)dims, (void)scalars;
}

#define MS 1000000
enum { RANKS = 4, ELEMS = 1 << 20, BYTES = 4 * ELEMS };

/* a = f(w); b = all_reduce(a) beside c = f(w); w = f(b, c).  One after the other it takes 33 ms, at best 21. */
enum { MAKE_A, REDUCE, MAKE_C, UPDATE, NUM_CALLS };
static const int64_t at_best = 21 * MS, in_turn = 33 * MS;

static mscrt_plan *open_plan(uint64_t persistent) {
  const call_text calls[NUM_CALLS] = {
    {.num_buffers = 2, .buffers = {IN(P, 0, BYTES), OUT(S, 0, BYTES)}, .predicted_ns = 6 * MS, .name = "a"},
    {.kind = PLAN_CALL_KIND_COLLECTIVE, .num_buffers = 2, .buffers = {IN(S, 0, BYTES), OUT(S, BYTES, BYTES)},
     .predicted_ns = 12 * MS, .name = "sum"},
    {.num_buffers = 2, .buffers = {IN(P, 0, BYTES), OUT(S, 2 * BYTES, BYTES)}, .predicted_ns = 12 * MS, .name = "c"},
    {.index = 1, .num_buffers = 3, .buffers = {IN(S, BYTES, BYTES), IN(S, 2 * BYTES, BYTES), OUT(P, 0, BYTES)},
     .predicted_ns = 3 * MS, .name = "update", .loc = "net.py:7"},
  };
  plan_text t = {.num_axes = 1,
                 .axes = {RANKS},
                 .num_layouts = 2,
                 .layouts = {"1:|0", "1:"},
                 .num_kernels = 2,
                 .kernel = {{"nothing", k_nothing, 2, 0, 0}, {"nothing3", k_nothing, 3, 0, 0}},
                 .num_collectives = 1,
                 .collective = {{MSC_ALL_REDUCE, MSCRT_F32, 1, {ELEMS}, 0, 1, MSC_SUM}},
                 .num_sections = 1,
                 .section = {{"train", 3 * BYTES, NUM_CALLS, calls}},
                 .persistent = persistent,
                 .num_parameters = 1,
                 .parameter = {{"w", MSCRT_F32, 1, {ELEMS}, 1, IN(P, 0, BYTES), "zeros", .loss = false}}};
  size_t size;
  mscrt_plan *plan;
  uint8_t *bytes = make_plan(&t, &size);
  mscrt_status *s = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan);
  free(bytes);
  if (s) fail_msg("%s", mscrt_status_text(s));
  return plan;
}

static mscrt_status *open_rank(const place *p, const mscrt_plan *plan, double scale, mscrt_overlap overlap,
                               mscrt_context **out_ctx) {
  mscrt_options o = {.struct_size = sizeof o,
                     .rank = p->rank,
                     .ranks = RANKS,
                     .address = p->address,
                     .threads = 1,
                     .timeout_ms = 20000,
                     .device = "timed",
                     .time_scale = scale,
                     .overlap = overlap,
                     .measure = true,
                     .events = 64};
  return mscrt_open(plan, &o, out_ctx);
}

static const mscrt_plan *the_plan;
static mscrt_overlap the_overlap;

/* Others may have the cores for a moment: until one step of all ranks is good. */
static int measure(const place *p) {
  mscrt_context *c;
  mscrt_status *s = open_rank(p, the_plan, 1, the_overlap, &c);
  bool beside = the_overlap != MSCRT_OVERLAP_NEVER;
  int64_t expected = beside ? at_best : in_turn, waits = beside ? 0 : 12 * MS, step = 0, exposed = 0, before[2] = {0};
  bool short_step = false;
  uint64_t late = 1, steps = 0;
  for (; steps < 100 && late && !s; steps++) {
    s = mscrt_run(c, "train", 1, NULL);
    int64_t now[2] = {mscrt_event_ns(c, MSCRT_EVENT_SECTION), mscrt_event_ns(c, MSCRT_EVENT_WAIT)};
    step = now[0] - before[0], exposed = now[1] - before[1];
    memcpy(before, now, sizeof now);
    short_step = short_step || step < expected || exposed < waits - MS;
    if (!s) s = mscrt_max(c, step >= expected + 2 * MS || exposed >= waits + 2 * MS, &late);
  }
  if (s) return say(p, s);
  bool right = !late && !short_step && (steps > 9 || mscrt_num_events(c) == 7 * steps);
  if (!right)
    dprintf(p->say, "step %d of %.3f ms, %.3f of it exposed, %zu events", (int)steps, (double)step / MS,
            (double)exposed / MS, mscrt_num_events(c));
  mscrt_close(c);
  return right ? 0 : 1;
}

static void collectives_go_on_beside_calls(void **state) {
  (void)state;
  mscrt_plan *plan = open_plan(BYTES);
  the_plan = plan;
  for (the_overlap = MSCRT_OVERLAP_IDLE; the_overlap <= MSCRT_OVERLAP_NEVER; the_overlap += 2) {
    job j;
    start_job(&j, RANKS, measure);
    expect_all_well(&j);
  }
  mscrt_plan_close(plan);
}

/* ---- faults ---- */

typedef struct {
  const char *what;
  void (*spoil)(mscrt_section *s);
} fault;

static void forget_the_wait(mscrt_section *s) { s->call[UPDATE].waits = (msc_waits){0, 0}; }

/* c is made where a is. */
static void overwrite_the_source(mscrt_section *s) {
  msc_span *span = (msc_span *)(uintptr_t)s->call[MAKE_C].span;
  span[1] = s->call[MAKE_A].span[1];
}

static const fault *the_fault;

static int fail_in_order(const place *p) {
  mscrt_context *c;
  mscrt_status *s = open_rank(p, the_plan, 0.1, MSCRT_OVERLAP_IDLE, &c);
  if (s) return say(p, s);
  the_fault->spoil(&c->section[0]);
  c->device->close(c);
  s = c->device->open(c);
  if (!s) s = c->device->ready(c);
  if (!s) s = mscrt_run(c, "train", 2, NULL);
  bool found = s && strstr(mscrt_status_text(s), the_fault->what);
  bool told = s && mscrt_status_code(s) == MSCRT_PEER; /* another rank was first */
  if (!found && !told) dprintf(p->say, "got '%s'", mscrt_status_text(s));
  mscrt_status_free(s);
  mscrt_close(c);
  return found ? 1 : told ? 0 : 2;
}

static void wrong_orders_are_found(void **state) {
  static const fault faults[] = {{"update at net.py:7 begins before its operands are there", forget_the_wait},
                                 {": sum ", overwrite_the_source}};
  (void)state;
  mscrt_plan *plan = open_plan(BYTES);
  the_plan = plan;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    job j;
    int found = 0;
    the_fault = &faults[i];
    start_job(&j, RANKS, fail_in_order);
    end_job(&j);
    for (int r = 0; r < RANKS; r++) {
      if (WEXITSTATUS(j.exit[r]) == 2) fail_msg("rank %d: %s", r, j.words[r]);
      found += WEXITSTATUS(j.exit[r]) == 1;
    }
    assert_true(found > 0);
  }
  mscrt_plan_close(plan);
}

/* ---- no memory, no values ---- */

static int need_nothing(const place *p) {
  mscrt_context *c;
  mscrt_tensor t;
  mscrt_status *s = open_rank(p, the_plan, 0.01, MSCRT_OVERLAP_IDLE, &c);
  if (!s) s = mscrt_run(c, "train", 3, NULL);
  if (s) return say(p, s);
  s = mscrt_local(c, "w", &t);
  int code = s && strstr(mscrt_status_text(s), "has no values") ? 0 : 1;
  mscrt_status_free(s);
  mscrt_close(c);
  return code;
}

/* A tebibyte for each rank; with the thread sanitizer, which leaves a process fewer addresses, a sixteenth. */
#ifdef __SANITIZE_THREAD__
enum { MANY_BITS = 36 };
#else
enum { MANY_BITS = 40 };
#endif

static void memory_is_not_needed(void **state) {
  (void)state;
  mscrt_plan *plan = open_plan((uint64_t)1 << MANY_BITS);
  the_plan = plan;
  job j;
  start_job(&j, RANKS, need_nothing);
  expect_all_well(&j);
  mscrt_plan_close(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(collectives_go_on_beside_calls),
                                     cmocka_unit_test(wrong_orders_are_found), cmocka_unit_test(memory_is_not_needed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
