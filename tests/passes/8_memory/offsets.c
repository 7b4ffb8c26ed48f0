/* offsets.c: checks the memory planner on random problems with a checker of its own, and small ones against all plans;
 * alignment, groups, fixed offsets and known plans; and that the order of input makes no difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/8_memory/offsets/offsets.h"

enum { MOST = 100 };

static uint64_t random_state;

static uint64_t draw(uint64_t below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 33) % below;
}

static bool together(const msc_buffer *a, const msc_buffer *b) {
  return a->lower < b->upper && b->lower < a->upper && a->bytes && b->bytes;
}

static uint64_t live_at(size_t num, const msc_buffer *b, uint64_t time) {
  uint64_t sum = 0;
  for (size_t i = 0; i < num; i++)
    if (b[i].lower <= time && time < b[i].upper) sum += b[i].bytes;
  return sum;
}

static void check(size_t num, const msc_buffer *b, const uint64_t *offset, const msc_offsets_result *r) {
  for (size_t i = 0; i < num; i++) {
    assert_true(offset[i] + b[i].bytes <= r->bytes);
    assert_true(live_at(num, b, b[i].lower) <= r->bound);
    for (size_t k = 0; k < i; k++) {
      bool apart = offset[i] + b[i].bytes <= offset[k] || offset[k] + b[k].bytes <= offset[i];
      if (together(&b[i], &b[k]) && !apart) fail_msg("buffers %zu and %zu share bytes while both live", k, i);
    }
  }
  assert_true(r->bytes >= r->bound);
}

/* Makes a problem whose buffers tile a rectangle of `height`: it is cut again and again, along time or along space. */
static size_t tiling(size_t num, uint64_t height, msc_buffer *b, uint64_t *low) {
  b[0] = (msc_buffer){0, 1000, height};
  low[0] = 0;
  size_t n = 1;
  while (n < num) {
    size_t k = draw(n);
    for (int tries = 0; tries < 4; tries++) {
      size_t other = draw(n);
      if (b[other].bytes * (b[other].upper - b[other].lower) > b[k].bytes * (b[k].upper - b[k].lower)) k = other;
    }
    b[n] = b[k], low[n] = low[k];
    if (draw(2) && b[k].upper - b[k].lower > 3)
      b[k].upper = b[n].lower = b[k].lower + 1 + draw(b[k].upper - b[k].lower - 1);
    else if (b[k].bytes > 2) b[k].bytes = 1 + draw(b[k].bytes - 1), b[n].bytes -= b[k].bytes, low[n] += b[k].bytes;
    else continue;
    n++;
  }
  return n;
}

/* ---- plans ---- */

static void test_random(void **state) {
  for (int round = 0; round < 300; round++) {
    msc_context *ctx = *state;
    msc_buffer b[MOST];
    uint64_t offset[MOST];
    size_t num = draw(60) + 1;
    for (size_t i = 0; i < num; i++) {
      uint64_t lower = draw(40);
      b[i] = (msc_buffer){lower, lower + 1 + draw(12), draw(5) ? draw(5000) : 0};
    }
    msc_arena *arena = msc_arena_new(ctx);
    msc_offsets_result r =
        msc_find_offsets(arena, num, b, &(msc_offsets_options){.align = 64, .node_limit = 500}, offset);
    check(num, b, offset, &r);
    for (size_t i = 0; i < num; i++) assert_int_equal(offset[i] % 64, 0);
    assert_true(r.bytes <= r.bound + r.bound / 3);
    msc_arena_free(arena);
  }
}

/* Lifetimes are half open: what ends at 1 makes room for what starts at 1. */
static void test_half_open(void **state) {
  msc_buffer b[] = {{0, 1, 100}, {1, 2, 128}, {0, 2, 1}};
  uint64_t offset[3];
  msc_offsets_result r = msc_find_offsets(msc_context_arena(*state), 3, b, &(msc_offsets_options){.align = 64}, offset);
  assert_int_equal(r.bytes, 192);
  assert_int_equal(r.bound, 192);
  assert_true(r.proven);
  assert_int_equal(msc_find_offsets(msc_context_arena(*state), 3, b, NULL, offset).bytes, 129);
}

static void test_nothing(void **state) {
  msc_buffer empty = {3, 5, 0};
  uint64_t offset = 7;
  assert_int_equal(msc_find_offsets(msc_context_arena(*state), 0, NULL, NULL, NULL).bytes, 0);
  assert_int_equal(msc_find_offsets(msc_context_arena(*state), 1, &empty, NULL, &offset).bytes, 0);
  assert_int_equal(offset, 0);
}

/* ---- the smallest ---- */

/* Of all plans in which `order`s of buffers are stacked, each on what it overlaps; the best plan is one of them. */
static void stack_rest(size_t num, const msc_buffer *b, uint64_t *offset, unsigned placed, uint64_t height,
                       uint64_t *best) {
  if (height >= *best) return;
  if (placed + 1 == 1u << num) *best = height;
  for (size_t i = 0; i < num; i++) {
    if (placed >> i & 1) continue;
    uint64_t top = 0;
    for (size_t k = 0; k < num; k++)
      if (placed >> k & 1 && together(&b[i], &b[k]) && offset[k] + b[k].bytes > top) top = offset[k] + b[k].bytes;
    offset[i] = top;
    stack_rest(num, b, offset, placed | 1u << i, top + b[i].bytes > height ? top + b[i].bytes : height, best);
  }
}

/* A problem that needs 11 for the 10 that are live at once, of the kind that random numbers rarely make. */
static const msc_buffer tricky[8] = {{1, 4, 1}, {0, 1, 5}, {0, 2, 5}, {1, 4, 2},
                                     {2, 4, 2}, {3, 6, 4}, {1, 3, 2}, {4, 5, 5}};

static void test_smallest(void **state) {
  random_state = 11;
  int gaps = 0;
  for (int round = 0; round < 400; round++) {
    msc_buffer b[8];
    uint64_t offset[8], best = UINT64_MAX;
    size_t num = round % 2 ? 8 : 4 + draw(5);
    for (size_t i = 0; i < num; i++) {
      uint64_t lower = draw(8);
      b[i] = round % 2 ? (msc_buffer){tricky[i].lower, tricky[i].upper, tricky[i].bytes * 3 + draw(2)}
                       : (msc_buffer){lower, lower + 1 + draw(4), 1 + draw(9)};
    }
    stack_rest(num, b, offset, 0, 0, &best);
    msc_arena *arena = msc_arena_new(*state);
    msc_offsets_result r = msc_find_offsets(arena, num, b, NULL, offset);
    check(num, b, offset, &r);
    assert_int_equal(r.bytes, best);
    assert_true(r.proven);
    gaps += best > r.bound;
    msc_arena_free(arena);
  }
  assert_true(gaps > 20); /* problems that need more than their bound were among them */
}

static void test_tilings(void **state) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    msc_buffer b[MOST];
    uint64_t offset[MOST], low[MOST];
    random_state = seed;
    size_t num = tiling(90, 1024, b, low);
    msc_arena *arena = msc_arena_new(*state);
    msc_offsets_result r = msc_find_offsets(arena, num, b, NULL, offset);
    check(num, b, offset, &r);
    assert_int_equal(r.bytes, 1024);
    msc_arena_free(arena);
  }
}

static void test_capacity(void **state) {
  msc_buffer b[MOST];
  uint64_t offset[MOST], low[MOST];
  random_state = 3;
  size_t num = tiling(60, 1000, b, low);
  msc_offsets_result r =
      msc_find_offsets(msc_context_arena(*state), num, b, &(msc_offsets_options){.capacity = 1 << 20}, offset);
  assert_true(r.nodes < num); /* the first order will do */
  check(num, b, offset, &r);
  r = msc_find_offsets(msc_context_arena(*state), num, b, &(msc_offsets_options){.capacity = 999}, offset);
  assert_int_equal(r.bytes, 1000);
  assert_true(r.proven);
}

static int by_size(const void *a, const void *b) {
  const msc_buffer *x = a, *y = b;
  return x->bytes < y->bytes   ? 1
         : x->bytes > y->bytes ? -1
         : x->lower > y->lower ? 1
         : x->lower < y->lower ? -1
                               : (x->upper > y->upper) - (x->upper < y->upper);
}

/* Largest first, each into the tightest gap (Pisarchyk and Lee 2020). */
static uint64_t greedy(size_t num, const msc_buffer *all) {
  msc_buffer b[MOST];
  uint64_t offset[MOST], height = 0;
  memcpy(b, all, num * sizeof *b);
  qsort(b, num, sizeof *b, by_size);
  for (size_t i = 0; i < num; i++) {
    uint64_t best = UINT64_MAX, room = UINT64_MAX;
    for (size_t k = 0; k <= i; k++) { /* gaps begin at 0 and where something ends */
      uint64_t x = k < i ? offset[k] + b[k].bytes : 0, next = UINT64_MAX;
      bool is_free = k == i || together(&b[i], &b[k]);
      for (size_t j = 0; j < i && is_free; j++) {
        if (!together(&b[i], &b[j])) continue;
        is_free = offset[j] + b[j].bytes <= x || offset[j] >= x + b[i].bytes;
        if (offset[j] >= x && offset[j] < next) next = offset[j];
      }
      if (!is_free || (best != UINT64_MAX && next - x > room) || (next - x == room && x > best)) continue;
      best = x, room = next - x;
    }
    offset[i] = best;
    if (best + b[i].bytes > height) height = best + b[i].bytes;
  }
  return height;
}

static void test_never_above_greedy(void **state) {
  for (int round = 0; round < 200; round++) {
    msc_buffer b[MOST];
    uint64_t offset[MOST];
    size_t num = 2 + draw(MOST - 2);
    for (size_t i = 0; i < num; i++) {
      uint64_t lower = draw(60);
      b[i] = (msc_buffer){lower, lower + 1 + draw(20), 1 + draw(draw(2) ? 5000 : 50)};
    }
    msc_arena *arena = msc_arena_new(*state);
    msc_offsets_result r = msc_find_offsets(arena, num, b, &(msc_offsets_options){.node_limit = 1}, offset);
    check(num, b, offset, &r);
    assert_true(r.bytes <= greedy(num, b));
    msc_arena_free(arena);
  }
}

/* ---- constraints ---- */

static uint32_t taken_by(const uint64_t *low, const msc_buffer *b, size_t num, size_t of) {
  for (size_t i = 0; i < num; i++)
    if (low[i] == low[of] + b[of].bytes && together(&b[i], &b[of])) return (uint32_t)i;
  return UINT32_MAX;
}

/* In a tiling, buffers on top of each other become groups and some offsets are fixed: a plan that fits still exists. */
static void test_groups_and_fixed(void **state) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    msc_buffer b[MOST];
    uint64_t offset[MOST], low[MOST], fixed[MOST];
    uint32_t member[MOST];
    msc_offsets_group group[MOST];
    bool grouped[MOST] = {false};
    random_state = seed;
    size_t num = tiling(10 + draw(50), 1024, b, low), num_groups = 0, used = 0;
    for (size_t i = 0; i < num; i++) fixed[i] = draw(8) ? MSC_OFFSET_FREE : low[i];
    for (size_t i = 0; i < num; i++) {
      size_t first = used;
      for (uint32_t k = (uint32_t)i;
           k != UINT32_MAX && !grouped[k] && (used == first || fixed[k] == MSC_OFFSET_FREE) && draw(3);
           k = taken_by(low, b, num, k))
        grouped[member[used++] = k] = true;
      if (used > first) group[num_groups++] = (msc_offsets_group){used - first, member + first};
    }
    msc_arena *arena = msc_arena_new(*state);
    msc_offsets_options o = {.num_groups = num_groups, .group = group, .fixed = fixed, .node_limit = 3000};
    msc_offsets_result r = msc_find_offsets(arena, num, b, &o, offset);
    check(num, b, offset, &r);
    for (size_t g = 0; g < num_groups; g++)
      for (size_t i = 1; i < group[g].num; i++)
        assert_int_equal(offset[group[g].buffer[i]], offset[group[g].buffer[i - 1]] + b[group[g].buffer[i - 1]].bytes);
    for (size_t i = 0; i < num; i++)
      if (fixed[i] != MSC_OFFSET_FREE) assert_int_equal(offset[i], fixed[i]);
    o.candidate = low;
    r = msc_find_offsets(arena, num, b, &o, offset);
    check(num, b, offset, &r);
    assert_int_equal(r.bytes, 1024);
    msc_arena_free(arena);
  }
}

/* Members keep no room for each other's alignment, and their neighbours keep off all of them. */
static void test_group(void **state) {
  msc_buffer b[] = {{0, 4, 100}, {2, 4, 30}, {1, 2, 64}, {0, 1, 0}, {3, 4, 64}};
  uint32_t member[] = {0, 3, 1};
  msc_offsets_group group = {3, member};
  uint64_t offset[5];
  msc_offsets_result r = msc_find_offsets(
      msc_context_arena(*state), 5, b, &(msc_offsets_options){.align = 64, .num_groups = 1, .group = &group}, offset);
  assert_int_equal(offset[1], offset[0] + 100);
  assert_int_equal(offset[3], offset[0] + 100);
  assert_int_equal(offset[0] % 64 + offset[2] % 64 + offset[4] % 64, 0);
  check(5, b, offset, &r);
  assert_int_equal(r.bytes, 192 + 64);
}

/* A part of a problem needs no more than the whole did, even with no time to look. */
static void test_contained(void **state) {
  for (int round = 0; round < 100; round++) {
    msc_buffer b[MOST], part[MOST];
    uint64_t offset[MOST], known[MOST], low[MOST];
    size_t num = tiling(20 + draw(60), 512, b, low), n = 0;
    for (size_t i = 0; i < num; i++)
      if (draw(10))
        known[n] = low[i] * 3 + 1, part[n++] = (msc_buffer){b[i].lower, b[i].upper, b[i].bytes * 3 - draw(2)};
    msc_arena *arena = msc_arena_new(*state);
    msc_offsets_result r =
        msc_find_offsets(arena, n, part, &(msc_offsets_options){.candidate = known, .node_limit = 1}, offset);
    check(n, part, offset, &r);
    assert_true(r.bytes <= 512 * 3 + 1);
    known[0] = known[1] = UINT64_MAX; /* no plan: as if it were not there */
    r = msc_find_offsets(arena, n, part, &(msc_offsets_options){.candidate = known, .node_limit = 1}, offset);
    check(n, part, offset, &r);
    msc_arena_free(arena);
  }
}

static void test_order_of_input(void **state) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    msc_buffer a[MOST], b[MOST];
    uint64_t offset_a[MOST], offset_b[MOST], low[MOST];
    uint32_t to[MOST];
    random_state = seed;
    size_t num = tiling(80, 1 << 20, a, low); /* large enough that no two are equal */
    for (size_t i = 0; i < num; i++) to[i] = (uint32_t)i;
    for (size_t i = num - 1; i; i--) {
      size_t k = draw(i + 1);
      uint32_t t = to[i];
      to[i] = to[k], to[k] = t;
    }
    for (size_t i = 0; i < num; i++) b[to[i]] = a[i];
    msc_arena *arena = msc_arena_new(*state);
    msc_offsets_result x = msc_find_offsets(arena, num, a, NULL, offset_a),
                       y = msc_find_offsets(arena, num, b, NULL, offset_b);
    assert_int_equal(x.bytes, y.bytes);
    assert_int_equal(x.nodes, y.nodes);
    for (size_t i = 0; i < num; i++) assert_int_equal(offset_a[i], offset_b[to[i]]);
    msc_arena_free(arena);
  }
}

static int open_context(void **state) { return !(*state = msc_context_new(NULL, NULL)); }

static int close_context(void **state) {
  msc_context_free(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                     cmocka_unit_test(test_half_open),
                                     cmocka_unit_test(test_nothing),
                                     cmocka_unit_test(test_smallest),
                                     cmocka_unit_test(test_tilings),
                                     cmocka_unit_test(test_capacity),
                                     cmocka_unit_test(test_group),
                                     cmocka_unit_test(test_never_above_greedy),
                                     cmocka_unit_test(test_groups_and_fixed),
                                     cmocka_unit_test(test_contained),
                                     cmocka_unit_test(test_order_of_input)};
  return cmocka_run_group_tests_name("passes/8_memory/offsets", tests, open_context, close_context);
}
