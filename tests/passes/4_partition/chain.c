/* chain.c: orders of a chain's backward, run and counted, against the least number of forwards that there is. */
#include "passes/4_partition/chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 60, CHECKPOINTS = 9 };

/* A checkpoint behind any of the steps, and the same for both sides. */
static void find_least(int64_t least[STEPS + 1][CHECKPOINTS + 1]) {
  for (int64_t n = 1; n <= STEPS; n++)
    for (int64_t c = 1; c <= CHECKPOINTS; c++) {
      least[n][c] = c == 1 ? n * (n - 1) / 2 : n == 1 ? 0 : INT64_MAX;
      for (int64_t k = 1; k < n && c > 1; k++) {
        int64_t one = k + least[n - k][c - 1] + least[k][c];
        if (one < least[n][c]) least[n][c] = one;
      }
    }
}

typedef struct {
  int64_t state, held, back, forwards, ran[STEPS], most;
  bool stored[STEPS];
} machine;

static void run(machine *m, const msc_chain_entry *e, int64_t checkpoints) {
  if (e->work == MSC_CHAIN_RESTORE || e->work == MSC_CHAIN_FREE) assert_true(m->stored[e->step]);
  else assert_int_equal(m->state, e->step);
  switch (e->work) {
    case MSC_CHAIN_FORWARD:
      m->state++, m->forwards++;
      if (++m->ran[e->step] > m->most) m->most = m->ran[e->step];
      break;
    case MSC_CHAIN_BACKWARD: assert_int_equal(e->step, --m->back); break;
    case MSC_CHAIN_STORE: m->stored[e->step] = true, m->held++; break;
    case MSC_CHAIN_RESTORE: m->state = e->step; break;
    case MSC_CHAIN_FREE: m->stored[e->step] = false, m->held--; break;
  }
  assert_true(m->held <= checkpoints);
}

static void orders_are_the_shortest(void **state) {
  (void)state;
  static int64_t least[STEPS + 1][CHECKPOINTS + 1];
  find_least(least);
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int64_t n = 1; n <= STEPS; n++)
    for (int64_t c = 1; c <= CHECKPOINTS; c++) {
      msc_chain chain = msc_chain_reverse(msc_context_arena(ctx), n, c);
      machine m = {.back = n};
      for (size_t i = 0; i < chain.num; i++) run(&m, &chain.entry[i], c);
      assert_int_equal(m.back, 0);
      assert_int_equal(m.held, 0);
      assert_int_equal(m.forwards, least[n][c]);
      assert_int_equal(chain.forwards, m.forwards);
      assert_int_equal(msc_chain_forwards(n, c), m.forwards);
      assert_int_equal(chain.repeats, m.most);
      assert_true(msc_chain_most(c, m.most) >= n && (m.most == 0 || msc_chain_most(c, m.most - 1) < n));
    }
  msc_context_free(ctx);
}

static void chains_are_binomial(void **state) {
  (void)state;
  assert_int_equal(msc_chain_most(3, 2), 10);
  assert_int_equal(msc_chain_most(1, 5), 6);
  assert_int_equal(msc_chain_most(10, 10), 184756);
  assert_int_equal(msc_chain_most(4096, 0), 1);
  assert_int_equal(msc_chain_most(4096, 4096), INT64_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(orders_are_the_shortest), cmocka_unit_test(chains_are_binomial)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
