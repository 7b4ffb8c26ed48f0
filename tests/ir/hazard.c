/* hazard.c: compares what calls wait for with the definition: every pair of a collective and a later call that touch
 * the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/abi/hazard.h"

enum { CALLS = 40, SPANS = 3 };

typedef struct {
  bool collective;
  msc_span span[SPANS];
} call;

static uint32_t seed;

static uint32_t below(uint32_t n) {
  seed = seed * 1664525 + 1013904223;
  return (seed >> 8) % n;
}

static call random_call(void) {
  call c = {.collective = below(3) == 0};
  bool lingering_source = below(2);
  for (int i = 0; i < SPANS; i++) {
    uint64_t begin = below(24);
    c.span[i] = (msc_span){begin, begin + 1 + below(4), below(2), i == SPANS - 1 || below(4) == 0, false};
    c.span[i].lingers = c.collective && c.span[i].written != lingering_source;
  }
  return c;
}

/* What has run, what was released before call i, as far as earlier waits of calls say. */
static msc_waits expected(const call *c, size_t i, uint32_t ran) {
  msc_waits w = {0, 0};
  uint32_t number = 0;
  for (size_t k = 0; k < i; k++) {
    if (!c[k].collective) continue;
    number++;
    for (int a = 0; a < SPANS; a++)
      for (int b = 0; b < SPANS; b++) {
        const msc_span *x = &c[k].span[a], *y = &c[i].span[b];
        if (x->space != y->space || x->begin >= y->end || y->begin >= x->end) continue;
        if ((x->written || y->written) && number > ran && !c[i].collective) w.run = number;
        if (y->written && x->lingers) w.release = number;
      }
  }
  return w;
}

static void waits_are_those_of_all_pairs(void **state) {
  (void)state;
  for (seed = 1; seed < 400000000; seed += 4000000) {
    uint32_t start = seed;
    call c[CALLS];
    msc_pending pending[CALLS * SPANS];
    msc_hazards h = {.pending = pending};
    uint32_t ran = 0, released = 0;
    for (size_t i = 0; i < CALLS; i++) c[i] = random_call();
    for (size_t i = 0; i < CALLS; i++) {
      msc_waits want = expected(c, i, ran), got = msc_hazards_next(&h, SPANS, c[i].span, c[i].collective);
      if (want.release <= released) want.release = 0;
      if (got.run != want.run && !(want.run <= want.release && got.run <= want.release))
        fail_msg("call %zu waits for %u instead of %u", i, got.run, want.run);
      if (got.release != want.release) fail_msg("call %zu releases %u instead of %u", i, got.release, want.release);
      if (c[i].collective) continue;
      if (got.release > released) released = got.release;
      if (got.run > ran) ran = got.run;
      if (got.release > ran) ran = got.release;
    }
    seed = start;
  }
}

static void what_is_over_is_forgotten(void **state) {
  (void)state;
  msc_pending pending[2];
  msc_hazards h = {.pending = pending};
  const msc_span source = {0, 64, 0, false, true}, result = {64, 128, 0, true, false},
                 reads = {100, 101, 0, false, false}, writes = {0, 8, 0, true, false};
  msc_hazards_next(&h, 1, &source, true);
  assert_int_equal(h.num_pending, 1);
  h.num_pending = 0, h.started = 0;
  msc_span both[2] = {source, result};
  msc_hazards_next(&h, 2, both, true);
  assert_int_equal(msc_hazards_next(&h, 1, &source, false).run, 0); /* two may read */
  assert_int_equal(msc_hazards_next(&h, 1, &reads, false).run, 1);
  assert_int_equal(h.num_pending, 1);
  assert_int_equal(msc_hazards_next(&h, 1, &writes, false).release, 1);
  assert_int_equal(h.num_pending, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(waits_are_those_of_all_pairs),
                                     cmocka_unit_test(what_is_over_is_forgotten)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
