/* list_scheduling.c: checks orders for compute and links: near the bound on random graphs, optimal on small ones,
 * within the memory limit, and fast on large ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "passes/8_memory/list_scheduling.h"

static uint64_t seed;

static uint32_t below(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % n;
}

/* Each piece waits for up to `most` of the `near` before it; every `every`th is a link's.  A value per piece, used
 * by who waits. */
static msc_streams random_graph(msc_arena *a, size_t num, uint32_t most, uint32_t near, uint32_t every, int links) {
  msc_streams s = {.num = num, .num_values = num, .limit = UINT64_MAX};
  uint8_t *stream = msc_new_array(a, uint8_t, num);
  uint64_t *ns = msc_new_array(a, uint64_t, num), *bytes = msc_new_array(a, uint64_t, num);
  uint32_t *first = msc_new_array(a, uint32_t, num + 1), *before = msc_new_array(a, uint32_t, num * most),
           *maker = msc_new_array(a, uint32_t, num);
  uint32_t *first_use = msc_new_array(a, uint32_t, num + 1), *use = msc_new_array(a, uint32_t, num * most);
  for (uint32_t i = 0; i < num; i++) {
    stream[i] = below(every) == 0 ? (uint8_t)(1 + below((uint32_t)links)) : 0;
    ns[i] = 10 + below(90), bytes[i] = 1 + below(100), maker[i] = i;
    first[i + 1] = first[i];
    for (uint32_t k = 0, n = i ? below(most + 1) : 0; k < n; k++) {
      uint32_t b = i - 1 - below(i < near ? i : near);
      bool known = false;
      for (uint32_t j = first[i]; j < first[i + 1]; j++) known |= before[j] == b;
      if (!known) before[first[i + 1]++] = b;
    }
  }
  uint32_t *at = msc_new_array(a, uint32_t, num + 1);
  for (uint32_t k = 0; k < first[num]; k++) first_use[before[k] + 1]++;
  for (uint32_t v = 0; v < num; v++) at[v + 1] = first_use[v + 1] += first_use[v];
  for (uint32_t i = 0; i < num; i++)
    for (uint32_t k = first[i]; k < first[i + 1]; k++) use[at[before[k]]++] = i;
  s.stream = stream, s.ns = ns, s.first = first, s.before = before, s.bytes = bytes, s.maker = maker,
  s.first_use = first_use, s.use = use;
  return s;
}

static void expect_an_order(const msc_streams *s, const uint32_t *order) {
  bool *done = calloc(s->num, 1);
  for (size_t p = 0; p < s->num; p++) {
    assert_in_range(order[p], 0, s->num - 1);
    assert_false(done[order[p]]);
    for (uint32_t k = s->first[order[p]]; k < s->first[order[p] + 1]; k++) assert_true(done[s->before[k]]);
    done[order[p]] = true;
  }
  free(done);
}

/* CPU time of this process: other processes may use the cores. */
static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void near_the_bound(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  double worst = 0, sum = 0, program = 0;
  size_t above = 0, num = 0;
  for (uint64_t i = 0; i < 200; i++) {
    msc_arena *a = msc_arena_new(ctx);
    seed = i;
    msc_streams s = random_graph(a, 50, 1 + below(3), 5 + below(45), 2 + below(3), 1);
    uint32_t order[50];
    for (uint32_t k = 0; k < 50; k++) order[k] = k;
    msc_streams_time was = msc_streams_measure(a, &s, order, NULL), t = msc_streams_order(a, &s, order);
    double share = (double)t.ns / (double)msc_streams_bound(a, &s);
    expect_an_order(&s, order);
    assert_true(t.ns <= was.ns);
    if (share > worst) worst = share;
    above += share > 1.05;
    sum += share, program += (double)was.ns / (double)msc_streams_bound(a, &s);
    num++;
    msc_arena_free(a);
  }
  print_message("against the bound: mean %.4f, worst %.4f, %zu above 1.05; program order %.4f\n", sum / (double)num,
                worst, above, program / (double)num);
  assert_true(above == 0 && sum / (double)num < 1.002);
  msc_context_free(ctx);
}

/* ---- against all orders ---- */

typedef struct {
  msc_arena *a;
  const msc_streams *s;
  uint32_t order[9];
  bool listed[9];
  uint64_t best;
} brute;

static void try_all(brute *b, size_t place) {
  if (place == b->s->num) {
    uint64_t ns = msc_streams_measure(b->a, b->s, b->order, NULL).ns;
    if (ns < b->best) b->best = ns;
    return;
  }
  for (uint32_t i = 0; i < b->s->num; i++) {
    bool ready = !b->listed[i];
    for (uint32_t k = b->s->first[i]; k < b->s->first[i + 1]; k++) ready &= b->listed[b->s->before[k]];
    if (!ready) continue;
    b->order[place] = i;
    b->listed[i] = true;
    try_all(b, place + 1);
    b->listed[i] = false;
  }
}

static void the_best_of_all_orders(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  size_t above = 0, num = 0;
  for (uint64_t i = 0; i < 120; i++) {
    msc_arena *a = msc_arena_new(ctx);
    seed = i + 1000;
    msc_streams s = random_graph(a, 4 + below(6), 2 + below(2), 9, 2 + below(2), 1 + (int)(i % 2));
    brute b = {.a = a, .s = &s, .best = UINT64_MAX};
    uint32_t order[9];
    msc_streams_time t = msc_streams_order(a, &s, order);
    try_all(&b, 0);
    above += t.ns > b.best;
    num++;
    msc_arena_free(a);
  }
  if (above) fail_msg("%zu of %zu orders are not the best", above, num);
  msc_context_free(ctx);
}

/* ---- memory ---- */

/* A tight limit is kept where program order keeps it; a loose one costs no time. */
static void within_memory(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  uint64_t kept = 0, gained = 0;
  for (uint64_t i = 0; i < 40; i++) {
    msc_arena *a = msc_arena_new(ctx);
    seed = i + 5000;
    msc_streams s = random_graph(a, 60, 2, 20, 3, 1);
    uint32_t order[60];
    for (uint32_t k = 0; k < 60; k++) order[k] = k;
    msc_streams_time was = msc_streams_measure(a, &s, order, NULL), loose = msc_streams_order(a, &s, order);
    for (uint64_t part = 0; part <= 4; part++) {
      s.limit = part == 4 ? loose.peak : was.peak * (4 + part) / 4;
      msc_streams_time t = msc_streams_order(a, &s, order);
      assert_true(t.peak <= (s.limit > was.peak ? s.limit : was.peak) && t.ns <= was.ns);
      assert_int_equal(t.peak, msc_streams_measure(a, &s, order, NULL).peak);
      if (part == 0) kept++, gained += t.ns < was.ns;
    }
    msc_arena_free(a);
  }

  assert_true(gained > kept / 4);
  msc_context_free(ctx);
}

/* a, x(a), b, c, d(x): the sum x runs beside b and c; the operand of x lives as long. */
static void what_lives_beside_a_link(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_arena_new(ctx);
  const uint8_t stream[] = {0, 1, 0, 0, 0};
  const uint64_t ns[] = {10, 25, 10, 20, 5}, bytes[] = {100, 100, 8, 8, 1};
  const uint32_t first[] = {0, 0, 1, 1, 1, 2}, before[] = {0, 1}, maker[] = {0, 1, 2, 3, 4},
                 first_use[] = {0, 1, 2, 2, 2, 2}, use[] = {1, 4}, order[] = {0, 1, 2, 3, 4};
  const msc_streams s = {.num = 5,
                         .num_values = 5,
                         .stream = stream,
                         .ns = ns,
                         .first = first,
                         .before = before,
                         .bytes = bytes,
                         .maker = maker,
                         .first_use = first_use,
                         .use = use,
                         .limit = UINT64_MAX};
  uint32_t beside[5];
  msc_streams_time t = msc_streams_measure(a, &s, order, beside);
  assert_int_equal(t.ns, 45);
  assert_int_equal(t.exposed, 0);
  assert_int_equal(t.peak, 208);
  assert_int_equal(beside[1], 2);
  assert_int_equal(msc_streams_bound(a, &s), 45);
  msc_context_free(ctx);
}

/* ---- size ---- */

static void large_ones(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_arena_new(ctx);
  enum { LARGE = 100000 };
  seed = 7;
  msc_streams s = random_graph(a, LARGE, 3, 200, 6, 2);
  uint32_t *order = msc_new_array(a, uint32_t, LARGE), *again = msc_new_array(a, uint32_t, LARGE);
  double begin = cpu_s();
  msc_streams_time t = msc_streams_order(a, &s, order);
  double took = cpu_s() - begin;
  expect_an_order(&s, order);
  print_message("%d pieces in %.2f s, %.4f of the bound\n", LARGE, took,
                (double)t.ns / (double)msc_streams_bound(a, &s));
  s.limit = t.peak * 9 / 10;
  msc_streams_order(a, &s, order);
  msc_streams_order(a, &s, again);
  assert_memory_equal(order, again, LARGE * sizeof *order);
#ifndef __SANITIZE_ADDRESS__
  assert_true(took < 1);
#endif
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(near_the_bound), cmocka_unit_test(the_best_of_all_orders),
                                     cmocka_unit_test(within_memory), cmocka_unit_test(what_lives_beside_a_link),
                                     cmocka_unit_test(large_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
