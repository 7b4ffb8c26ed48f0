/* offsets_of_many.c: places thousands of buffers of several kinds; each result may exceed its bound by no more than
 * when this test was written. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/8_memory/offsets/offsets.h"

enum { MANY = 10000, TIME = 2 * MANY };

static uint64_t random_state;
static size_t num_made; /* of a kind */

/* In [0, 1). */
static double draw(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 11) / 9007199254740992.0;
}

/* ---- kinds: each makes one buffer ---- */

static msc_buffer living(double from, double time, double bytes) {
  uint64_t lower = (uint64_t)(from * (TIME - 1)), upper = lower + 1 + (uint64_t)time;
  return (msc_buffer){lower, upper < TIME ? upper : TIME, 1 + (uint64_t)bytes};
}

static double exponential(double mean) { return -mean * log(1 - draw()); }
static double pareto(double shape) { return pow(1 - draw(), -1 / shape); }
static double normal(void) { return sqrt(-2 * log(1 - draw())) * cos(6.283185307179586 * draw()); }

static msc_buffer unordered(void) {
  double a = draw(), b = draw();
  return living(a < b ? a : b, fabs(a - b) * TIME, draw() * (1 << 20));
}
static msc_buffer long_lived(void) { return living(draw(), draw() * TIME / 10, draw() * (1 << 20)); }
static msc_buffer short_lived(void) { return living(draw(), exponential(20), draw() * (1 << 20)); }
static msc_buffer ten_sizes(void) { return living(draw(), exponential(60), 4096 * pow(1.7, floor(draw() * 10))); }
static msc_buffer heavy(void) { return living(draw(), 2 * pareto(1), 512 * fmin(pareto(1.1), 1 << 20)); }
static msc_buffer spread(void) { return living(draw(), exp(4 + 2 * normal()), exp(10 + 2 * normal())); }
static msc_buffer bursts(void) {
  return living(fmin(fmax((floor(draw() * 100) + 0.25 * normal()) / 100, 0), 0.9999), exponential(TIME / 500.0),
                64 * floor(draw() * 4096));
}
static msc_buffer few_at_once(void) {
  return (msc_buffer){2 * num_made, 2 * num_made + 2 + (uint64_t)(6 * draw() * draw()),
                      64 * (1 + (uint64_t)(draw() * 16384))};
}

/* What 33 micro-batches keep from forward to backward, each 50 activations of as many sizes. */
static msc_buffer of_a_pipeline(void) {
  enum { KEPT = 50, IN_FLIGHT = 33 };
  uint64_t batch = num_made / KEPT, i = num_made % KEPT, begin = 2 * KEPT * batch;
  return (msc_buffer){begin + i, begin + 2 * KEPT * IN_FLIGHT + 2 * KEPT - i, 1 + i * i * 7919 % 65536};
}

/* A step with a large vocabulary: nothing is to spare while the loss is computed, short-lived ones among large ones;
 * two large gradients begin where these end and stay.  Around it layers keep something until their backward, and much
 * comes and goes. */
static msc_buffer of_a_step(void) {
  enum { MIDDLE = TIME / 2, KEPT = 520 };
  static const struct {
    int32_t from, to, size; /* from the middle; in KiB */
  } loss[] = {{-MIDDLE, 5, 625}, {-105, 6, 64}, {-85, 4, 64},      {-9, -5, 250}, {-8, -4, 250}, {-7, -2, 125},
              {-6, 0, 125},      {-4, 1, 1000}, {-2, 2, 1000},     {-1, 4, 1000}, {0, 6, 1000},  {1, 8, 64},
              {2, MIDDLE, 1250}, {3, 10, 64},   {4, MIDDLE, 1250}, {5, 13, 64},   {6, 238, 128}, {7, 18, 64},
              {8, 180, 128},     {9, 21, 64},   {11, 23, 64}};
  static const uint32_t kept[] = {64, 20, 5, 2, 64, 5, 128};
  size_t num_loss = sizeof loss / sizeof *loss, k = num_made - num_loss;
  if (num_made < num_loss)
    return (msc_buffer){(uint64_t)(MIDDLE + loss[num_made].from), (uint64_t)(MIDDLE + loss[num_made].to),
                        (uint64_t)loss[num_made].size << 10};
  if (k < KEPT) return (msc_buffer){18 * k, TIME - 18 * k, (uint64_t)kept[k % 7] << 10};
  bool behind = draw() < 0.5;
  double at = draw() * 0.49, time = behind ? exponential(65) : fmin(exponential(8), 100);
  return living(behind ? 1 - at : at, time, (1 << 10) * floor(pow(2, 1 + floor(draw() * 7))) - 1);
}

/* ---- judging ---- */

static int by_lower(const void *a, const void *b) {
  const msc_buffer *const *x = a, *const *y = b;
  return ((*x)->lower > (*y)->lower) - ((*x)->lower < (*y)->lower);
}

/* A sweep over time, with what is live. */
static void check(const msc_buffer *b, const uint64_t *offset, uint64_t bytes) {
  static const msc_buffer *order[MANY], *live[MANY];
  size_t num_live = 0;
  for (size_t i = 0; i < MANY; i++) order[i] = &b[i];
  qsort(order, MANY, sizeof *order, by_lower);
  for (size_t i = 0; i < MANY; i++) {
    const msc_buffer *n = order[i];
    uint64_t low = offset[n - b], high = low + n->bytes;
    size_t kept = 0;
    assert_true(high <= bytes);
    for (size_t k = 0; k < num_live; k++) {
      if (live[k]->upper <= n->lower) continue;
      live[kept++] = live[k];
      uint64_t at = offset[live[k] - b];
      if (at < high && low < at + live[k]->bytes)
        fail_msg("buffers %zu and %zu share bytes while both live", (size_t)(n - b), (size_t)(live[k] - b));
    }
    live[kept] = n;
    num_live = kept + 1;
  }
}

static const struct {
  const char *name;
  msc_buffer (*make)(void);
  double most; /* times the bound */
} kinds[] = {
    {"unordered", unordered, 1.001},     {"long-lived", long_lived, 1.03},     {"short-lived", short_lived, 1.0005},
    {"of ten sizes", ten_sizes, 1.0005}, {"heavy-tailed", heavy, 1.0005},      {"spread", spread, 1.003},
    {"in bursts", bursts, 1.0005},       {"few at once", few_at_once, 1.0005}, {"of a pipeline", of_a_pipeline, 1.0005},
    {"of a step", of_a_step, 1.0005}};

static void test_kinds(void **state) {
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    msc_arena *arena = msc_arena_new(*state);
    msc_buffer *b = msc_new_array(arena, msc_buffer, MANY);
    uint64_t *offset = msc_new_array(arena, uint64_t, MANY);
    random_state = k + 1;
    for (num_made = 0; num_made < MANY; num_made++) b[num_made] = kinds[k].make();
    msc_offsets_result r = msc_find_offsets(arena, MANY, b, &(msc_offsets_options){.node_limit = 60000}, offset);
    check(b, offset, r.bytes);
    print_message("%s: %.6f times the bound\n", kinds[k].name, (double)r.bytes / (double)r.bound);
    if ((double)r.bytes > kinds[k].most * (double)r.bound)
      fail_msg("%s: %.5f times the bound, not %.5f", kinds[k].name, (double)r.bytes / (double)r.bound, kinds[k].most);
    msc_arena_free(arena);
  }
}

static int open_context(void **state) { return !(*state = msc_context_new(NULL, NULL)); }

static int close_context(void **state) {
  msc_context_free(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
  return cmocka_run_group_tests_name("passes/8_memory/offsets_of_many", tests, open_context, close_context);
}
