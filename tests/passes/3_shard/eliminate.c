/* eliminate.c: checks elimination on random graphs of tables against trying every assignment, also within a limit on
 * a second sum; tables above the size limit are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/3_shard/step_time_search/minimum.h"
#include "passes/3_shard/step_time_search/splice.h"
#include "passes/3_shard/step_time_search/minimum_within.h"

enum { MOST_VARS = 7, MOST_STATES = 4, MOST_TABLES = 20 };

static uint64_t random_state = 3;

static uint64_t draw(uint64_t below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 33) % below;
}

static int64_t cost_of(const shard_problem *p, const int *at) {
  int64_t sum = 0;
  for (size_t i = 0; i < p->num_tables; i++) {
    const shard_table *t = &p->table[i];
    sum += t->b < 0 ? t->cost[at[t->a]] : t->cost[at[t->a] * p->num_states[t->b] + at[t->b]];
  }
  return sum;
}

static int64_t least(const shard_problem *p, int *at, int var) {
  if (var == p->num_vars) return cost_of(p, at);
  int64_t best = INT64_MAX;
  for (at[var] = 0; at[var] < p->num_states[var]; at[var]++) {
    int64_t c = least(p, at, var + 1);
    if (c < best) best = c;
  }
  return best;
}

static void test_brute_force(void **state) {
  msc_context *ctx = *state;
  for (int round = 0; round < 400; round++) {
    msc_arena *arena = msc_arena_new(ctx);
    int num_states[MOST_VARS], at[MOST_VARS], chosen[MOST_VARS];
    int64_t cost[MOST_TABLES][MOST_STATES * MOST_STATES], found;
    shard_table table[MOST_TABLES];
    shard_problem p = {.num_vars = 1 + (int)draw(MOST_VARS),
                       .num_states = num_states,
                       .num_tables = draw(MOST_TABLES),
                       .table = table};
    for (int v = 0; v < p.num_vars; v++) num_states[v] = 1 + (int)draw(MOST_STATES);
    for (size_t i = 0; i < p.num_tables; i++) {
      int a = (int)draw((uint64_t)p.num_vars), b = (int)draw((uint64_t)p.num_vars);
      for (int k = 0; k < MOST_STATES * MOST_STATES; k++) cost[i][k] = (int64_t)draw(100);
      table[i] = (shard_table){a, a == b ? -1 : b, cost[i]};
    }
    shard_step step[MOST_VARS];
    double work = 0;
    assert_true(shard_eliminate_steps(arena, &p, 1 << 20, chosen, &found, NULL, step));
    assert_int_equal(found, cost_of(&p, chosen));
    for (int i = 0; i < p.num_vars; i++) {
      double sums = num_states[step[i].removed];
      for (int k = 0; k < step[i].num; k++) sums *= num_states[step[i].var[k]];
      work += sums;
    }
    assert_true(shard_elimination_work(arena, &p, 1e9) == work);
    assert_true(shard_elimination_work(arena, &p, work - 1) > work - 1);
    assert_int_equal(found, least(&p, at, 0));
    msc_arena_free(arena);
  }
}

/* With p->below around the least cost: the least where it is less, else an assignment of no use and a bound that says
 * so. */
static void check_below(msc_arena *arena, const shard_problem *p, int64_t best) {
  shard_problem limited = *p;
  int chosen[MOST_VARS] = {0};
  int64_t found, bound;
  limited.below = best - 3 + (int64_t)draw(7);
  if (limited.below <= 0 || best >= SHARD_IMPOSSIBLE) return;
  shard_minimum(arena, &limited, 1 << 20, chosen, &found, &bound, NULL);
  if (found < SHARD_IMPOSSIBLE) assert_int_equal(found, cost_of(p, chosen));
  assert_true(bound <= best);
  if (best < limited.below) assert_true(found == best && bound == best);
  else assert_true(found >= limited.below && bound >= limited.below);
}

/* Parallel tables, cycles, impossible entries: as by trying everything, whatever the bound leaves out. */
static void test_minimum(void **state) {
  msc_context *ctx = *state;
  int impossible = 0;
  for (int round = 0; round < 2000; round++) {
    msc_arena *arena = msc_arena_new(ctx);
    int num_states[MOST_VARS], at[MOST_VARS], chosen[MOST_VARS] = {0};
    int64_t cost[MOST_TABLES][MOST_STATES * MOST_STATES], found, bound;
    shard_table table[MOST_TABLES];
    shard_problem p = {.num_vars = 1 + (int)draw(MOST_VARS),
                       .num_states = num_states,
                       .num_tables = draw(MOST_TABLES),
                       .table = table};
    for (int v = 0; v < p.num_vars; v++) num_states[v] = 1 + (int)draw(MOST_STATES);
    for (size_t i = 0; i < p.num_tables; i++) {
      int a = (int)draw((uint64_t)p.num_vars), b = (int)draw((uint64_t)p.num_vars), like = (int)draw(3);
      for (int k = 0; k < MOST_STATES * MOST_STATES; k++)
        cost[i][k] = draw(12) ? (int64_t)draw(1 + 50 * (uint64_t)like) : SHARD_IMPOSSIBLE;
      bool again = i > 0 && !draw(3) && num_states[a] == num_states[table[i - 1].a] && b != a && table[i - 1].b >= 0 &&
                   num_states[b] == num_states[table[i - 1].b];
      table[i] = (shard_table){a, a == b ? -1 : b, again ? table[i - 1].cost : cost[i]};
    }
    shard_minimum(arena, &p, 1 << 20, chosen, &found, &bound, NULL);
    int64_t best = least(&p, at, 0);
    check_below(arena, &p, best);
    assert_int_equal(bound, found);
    if (best >= SHARD_IMPOSSIBLE) {
      assert_true(found >= SHARD_IMPOSSIBLE);
      impossible++;
    } else {
      assert_int_equal(found, best);
      assert_int_equal(found, cost_of(&p, chosen));
    }
    for (int v = 0; v < p.num_vars; v++) chosen[v] = (int)draw((uint64_t)num_states[v]);
    int64_t start = cost_of(&p, chosen);
    /* hardly a table: a bound and a candidate all the same */
    shard_minimum(arena, &p, 8, chosen, &found, &bound, NULL);
    assert_true(found <= start || best >= SHARD_IMPOSSIBLE);
    assert_true(bound <= best || best >= SHARD_IMPOSSIBLE);
    assert_true(found >= best || best >= SHARD_IMPOSSIBLE);
    if (found < SHARD_IMPOSSIBLE) assert_int_equal(found, cost_of(&p, chosen));
    msc_arena_free(arena);
  }
  assert_true(impossible > 20 && impossible < 1000);
}

/* The least with the held variables where they are. */
static int64_t least_around(const shard_problem *p, const int *held, const int *start, int *at, int v) {
  if (v == p->num_vars) return cost_of(p, at);
  int64_t best = INT64_MAX;
  for (int s = 0; s < p->num_states[v]; s++) {
    if (held[v] && s != start[v]) continue;
    at[v] = s;
    int64_t c = least_around(p, held, start, at, v + 1);
    best = c < best ? c : best;
  }
  return best;
}

/* If tables must be small, some variables are held and the rest is the best beside them; with enough memory none is
 * held. */
static void test_holding(void **state) {
  msc_context *ctx = *state;
  int held_some = 0;
  for (int round = 0; round < 500; round++) {
    msc_arena *arena = msc_arena_new(ctx);
    int num_states[MOST_VARS], at[MOST_VARS], start[MOST_VARS], now[MOST_VARS], held[MOST_VARS] = {0};
    int64_t cost[MOST_TABLES][MOST_STATES * MOST_STATES];
    shard_table table[MOST_TABLES];
    shard_problem p = {.num_vars = 1 + (int)draw(MOST_VARS),
                       .num_states = num_states,
                       .num_tables = draw(MOST_TABLES),
                       .table = table};
    for (int v = 0; v < p.num_vars; v++)
      now[v] = start[v] = (int)draw((uint64_t)(num_states[v] = 1 + (int)draw(MOST_STATES)));
    for (size_t i = 0; i < p.num_tables; i++) {
      int a = (int)draw((uint64_t)p.num_vars), b = (int)draw((uint64_t)p.num_vars);
      for (int k = 0; k < MOST_STATES * MOST_STATES; k++) cost[i][k] = (int64_t)draw(100);
      table[i] = (shard_table){a, a == b ? -1 : b, cost[i]};
    }
    size_t room = draw(2) ? 1 << 20 : 1 + draw(30);
    assert_true(shard_eliminate_holding(arena, &p, room, held, now));
    assert_int_equal(cost_of(&p, now), least_around(&p, held, start, at, 0));
    for (int v = 0; v < p.num_vars; v++) {
      if (held[v]) assert_int_equal(now[v], start[v]);
      held_some += held[v];
      assert_true(!held[v] || room < 1 << 20);
    }
    msc_arena_free(arena);
  }
  assert_true(held_some > 100);
}

/* A value that 400 others touch: its tables are added up. */
static void test_star(void **state) {
  enum { LEAVES = 400 };
  int num_states[LEAVES + 1], chosen[LEAVES + 1];
  int64_t cost[4] = {5, 1, 0, 3}, found;
  shard_table table[LEAVES];
  for (int v = 0; v <= LEAVES; v++) num_states[v] = 2;
  for (int i = 0; i < LEAVES; i++) table[i] = (shard_table){LEAVES, i, cost};
  shard_problem p = {.num_vars = LEAVES + 1, .num_states = num_states, .num_tables = LEAVES, .table = table};
  assert_true(shard_eliminate(msc_context_arena(*state), &p, 1 << 20, chosen, &found, NULL));
  assert_int_equal(found, 0);
  assert_int_equal(chosen[LEAVES], 1);
}

static int64_t bytes_of(const shard_problem *p, const int64_t *const *bytes, const int *at) {
  int64_t sum = 0;
  for (int v = 0; v < p->num_vars; v++) sum += bytes[v][at[v]];
  return sum;
}

static int64_t least_within(const shard_problem *p, const int64_t *const *bytes, int64_t limit, int *at, int var) {
  if (var == p->num_vars) return bytes_of(p, bytes, at) <= limit ? cost_of(p, at) : INT64_MAX;
  int64_t best = INT64_MAX;
  for (at[var] = 0; at[var] < p->num_states[var]; at[var]++) {
    int64_t c = least_within(p, bytes, limit, at, var + 1);
    if (c < best) best = c;
  }
  return best;
}

/* Any charge, any limit, any candidate above the best: the same minimum as by trying everything. */
static void test_within(void **state) {
  msc_context *ctx = *state;
  int better = 0, no_better = 0;
  for (int round = 0; round < 400; round++) {
    msc_arena *arena = msc_arena_new(ctx);
    int num_states[MOST_VARS], at[MOST_VARS], chosen[MOST_VARS];
    int64_t cost[MOST_TABLES + MOST_VARS][MOST_STATES * MOST_STATES], own[MOST_VARS][MOST_STATES],
        byte[MOST_VARS][MOST_STATES], with[MOST_VARS][MOST_STATES], found;
    const int64_t *bytes[MOST_VARS];
    shard_table table[MOST_TABLES + MOST_VARS], charged_table[MOST_TABLES + MOST_VARS];
    shard_problem p = {.num_vars = 1 + (int)draw(MOST_VARS), .num_states = num_states, .table = table}, charged;
    int64_t charge = (int64_t)draw(5), limit = 0;
    for (int v = 0; v < p.num_vars; v++) {
      num_states[v] = 1 + (int)draw(MOST_STATES);
      for (int x = 0; x < MOST_STATES; x++) {
        own[v][x] = (int64_t)draw(30), byte[v][x] = (int64_t)draw(20);
        with[v][x] = own[v][x] + charge * byte[v][x];
      }
      bytes[v] = byte[v];
      limit += 4 + (int64_t)draw(12);
      table[v] = (shard_table){v, -1, own[v]};
      charged_table[v] = (shard_table){v, -1, with[v]};
    }
    p.num_tables = (size_t)p.num_vars;
    for (size_t i = 0, n = draw(MOST_TABLES); i < n && p.num_vars > 1; i++) {
      int a = (int)draw((uint64_t)p.num_vars), b = (int)draw((uint64_t)p.num_vars);
      for (int k = 0; k < MOST_STATES * MOST_STATES; k++) cost[i][k] = (int64_t)draw(100);
      if (a != b) charged_table[p.num_tables] = table[p.num_tables] = (shard_table){a, b, cost[i]}, p.num_tables++;
    }
    charged = p;
    charged.table = charged_table;
    int64_t best = least_within(&p, bytes, limit, at, 0), upper = best == INT64_MAX ? 10000 : best + (int64_t)draw(40);
    shard_limited l = {&p, &charged, bytes, limit, charge * limit, upper, 1 << 20};
    shard_within w = shard_eliminate_within(arena, &l, chosen, &found);
    assert_int_equal(w, best < upper ? SHARD_BETTER : SHARD_NO_BETTER);
    if (w == SHARD_BETTER) {
      assert_int_equal(found, best);
      assert_int_equal(cost_of(&p, chosen), best);
      assert_true(bytes_of(&p, bytes, chosen) <= limit);
      better++;
    } else {
      no_better++;
    }
    msc_arena_free(arena);
  }
  assert_true(better > 50 && no_better > 5);
}

/* As by pricing every splice one by one. */
static void test_splice(void **state) {
  int some = 0;
  for (int round = 0; round < 300; round++) {
    msc_arena *arena = msc_arena_new(*state);
    int num_states[MOST_VARS], rank[MOST_VARS], first[MOST_VARS], then[MOST_VARS], at[MOST_VARS], best = -1;
    int64_t cost[MOST_TABLES][MOST_STATES * MOST_STATES], byte[MOST_VARS][MOST_STATES], ns = 1000, kept = 0,
                                                                                        least_ns = 1000;
    const int64_t *bytes[MOST_VARS];
    shard_table table[MOST_TABLES];
    shard_problem p = {.num_vars = 1 + (int)draw(MOST_VARS),
                       .num_states = num_states,
                       .num_tables = draw(MOST_TABLES),
                       .table = table};
    for (int v = 0; v < p.num_vars; v++) {
      num_states[v] = 1 + (int)draw(MOST_STATES);
      first[v] = (int)draw((uint64_t)num_states[v]), then[v] = (int)draw((uint64_t)num_states[v]);
      rank[v] = v;
      int other = (int)draw((uint64_t)v + 1);
      rank[v] = rank[other], rank[other] = v;
      for (int x = 0; x < MOST_STATES; x++) byte[v][x] = (int64_t)draw(20);
      bytes[v] = byte[v];
    }
    for (size_t i = 0; i < p.num_tables; i++) {
      int a = (int)draw((uint64_t)p.num_vars), b = (int)draw((uint64_t)p.num_vars);
      for (int k = 0; k < MOST_STATES * MOST_STATES; k++) cost[i][k] = (int64_t)draw(100);
      table[i] = (shard_table){a, a == b ? -1 : b, cost[i]};
    }
    int64_t limit = 12 * p.num_vars;
    for (int n = 0; n <= p.num_vars; n++) {
      for (int v = 0; v < p.num_vars; v++) at[v] = rank[v] < n ? first[v] : then[v];
      if (bytes_of(&p, bytes, at) <= limit && cost_of(&p, at) < least_ns) least_ns = cost_of(&p, at), best = n;
    }
    shard_splice s = {&p, bytes, rank, first, then};
    assert_int_equal(shard_best_splice(arena, &s, limit, &ns, &kept), best);
    if (best >= 0) assert_int_equal(ns, least_ns);
    for (int v = 0; v < p.num_vars; v++) at[v] = rank[v] < best ? first[v] : then[v];
    if (best >= 0) assert_int_equal(kept, bytes_of(&p, bytes, at));
    some += best > 0 && best < p.num_vars;
    msc_arena_free(arena);
  }
  assert_true(some > 20);
}

static void test_limit(void **state) {
  int num_states[] = {4, 4}, chosen[2];
  int64_t cost[16] = {0}, found;
  shard_table table = {0, 1, cost};
  shard_problem p = {.num_vars = 2, .num_states = num_states, .num_tables = 1, .table = &table};
  assert_false(shard_eliminate(msc_context_arena(*state), &p, 19, chosen, &found, NULL));
  assert_true(shard_eliminate(msc_context_arena(*state), &p, 20, chosen, &found, NULL));
}

static int open_context(void **state) { return !(*state = msc_context_new(NULL, NULL)); }

static int close_context(void **state) {
  msc_context_free(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_brute_force), cmocka_unit_test(test_limit),
                                     cmocka_unit_test(test_minimum),     cmocka_unit_test(test_holding),
                                     cmocka_unit_test(test_star),        cmocka_unit_test(test_splice),
                                     cmocka_unit_test(test_within)};
  return cmocka_run_group_tests_name("passes/3_shard/eliminate", tests, open_context, close_context);
}
