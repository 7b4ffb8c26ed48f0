/* table.c: compares arrays, tables and heaps of ir/table.h with plain searches through all items. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/table.h"

static uint64_t roll(uint64_t *seed, uint64_t n) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (*seed >> 33) % n;
}

static void reserve_keeps_items(void **s) {
  (void)s;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  int *v = NULL, room = 0;
  for (int n = 1; n < 3000; n = n * 3 / 2 + 1) {
    int before = room;
    msc_reserve(a, v, room, n);
    assert_true(room >= n);
    for (int i = 0; i < room; i++) assert_int_equal(v[i], i < before ? i : 0), v[i] = i;
  }
  int had = room, *same = v;
  msc_reserve(a, v, room, 7);
  assert_true(v == same && room == had);
  msc_context_free(ctx);
}

/* ---- the table of numbers ---- */

/* Numbers under few hashes, some removed again, in any order. */
static void index_finds_what_is_there(void **s) {
  (void)s;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (uint64_t hashes = 1; hashes < 4000; hashes *= 7) {
    msc_index x = {.arena = msc_arena_new(ctx)};
    bool there[600] = {false};
    uint64_t seed = hashes, hash[600];
    uint32_t num = 0;
    for (uint32_t i = 0; i < 600; i++) hash[i] = msc_mix(1, roll(&seed, hashes));
    for (int step = 0; step < 3000; step++) {
      uint32_t i = (uint32_t)roll(&seed, 600), found = 0;
      MSC_INDEX_EACH(&x, hash[i], k) {
        assert_true(there[k]);
        found += k == i;
      }
      assert_int_equal(found, there[i]);
      if (there[i]) msc_index_remove(&x, hash[i], i), num--;
      else msc_index_add(&x, hash[i], i), num++;
      there[i] = !there[i];
      assert_int_equal(x.num, num);
    }
    msc_arena_free(x.arena);
  }
  msc_context_free(ctx);
}

static void index_keeps_order(void **s) {
  (void)s;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_index x = {.arena = msc_context_arena(ctx)};
  for (uint32_t i = 0; i < 1000; i++) msc_index_add(&x, msc_mix(0, i % 3), i);
  uint32_t expected = 2;
  MSC_INDEX_EACH(&x, msc_mix(0, 2), i) {
    assert_int_equal(i, expected);
    expected += 3;
  }
  assert_int_equal(expected, 1001);
  msc_context_free(ctx);
}

/* ---- items by key ---- */

typedef struct {
  const void *p;
  int64_t i;
} pair;

typedef struct {
  pair key;
  int value;
} item;

static void table_is_a_map(void **s) {
  (void)s;
  msc_context *ctx = msc_context_new(NULL, NULL);
  MSC_TABLE(item) t = {.index.arena = msc_context_arena(ctx)};
  static char place[64];
  int value[64][64] = {{0}};
  uint32_t num = 0;
  uint64_t seed = 5;
  for (int step = 1; step < 5000; step++) {
    uint64_t a = roll(&seed, 64), b = roll(&seed, 64);
    pair key = {&place[a], (int64_t)b - 9};
    item *found = msc_table_find(&t, &key);
    assert_int_equal(found ? found->value : 0, value[a][b]);
    item *at = msc_table_at(&t, &key);
    assert_true(at->key.p == key.p && at->key.i == key.i && (!found || at == found));
    assert_int_equal(at->value, value[a][b]);
    num += !found;
    assert_true(found || at == &t.item[num - 1]);
    at->value = value[a][b] = step;
    assert_int_equal(msc_table_num(&t), num);
  }
  msc_context_free(ctx);
}

static void copies_are_of_whole_strings(void **s) {
  (void)s;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_copies t = {.index.arena = msc_context_arena(ctx)};
  char text[301] = {0}; /* zeros: only their number tells the first strings apart */
  for (uint32_t n = 0; n < 40; n++) assert_int_equal(msc_copy_of(&t, text, n), n);
  for (uint32_t n = 0; n < 300; n++) {
    text[n] = 1;
    assert_int_equal(msc_copy_of(&t, text, n + 1), 40 + n);
  }
  for (uint32_t n = 0; n < 300; n++) assert_int_equal(msc_copy_of(&t, text, n + 1), 40 + n);
  assert_int_equal(t.index.num, 340);
  assert_true(t.item[339].bytes == 300 && t.item[339].data != (const void *)text);
  assert_memory_equal(t.item[339].data, text, 300);
  msc_context_free(ctx);
}

/* ---- heap ---- */

typedef struct {
  int rank;
  int *place; /* by rank */
} runner;

static bool is_ahead(const int *shift, runner a, runner b) { return a.rank + *shift < b.rank + *shift; }
#define note_place(c, x, at) (*(x).place = (int)(at))
MSC_HEAP(runners, const int *, runner, is_ahead, note_place)

static void heap_sorts(void **s) {
  (void)s;
  int place[500], rank[500], shift = 3, num = 0, last = INT32_MIN;
  runner heap[500];
  uint64_t seed = 9;
  for (; num < 500; num++) {
    rank[num] = (int)roll(&seed, 200) + 1000;
    runners_push(&shift, heap, (size_t)num, (runner){rank[num], &place[num]});
  }
  for (int i = 0; i < 500; i += 7) {
    rank[i] -= 100 * (i % 5);
    runners_rise(&shift, heap, (size_t)place[i], (runner){rank[i], &place[i]});
  }
  for (int i = 0; i < 500; i++) assert_true(heap[place[i]].place == &place[i]);
  for (; num; num--) {
    runner r = runners_pop(&shift, heap, (size_t)num);
    assert_true(r.rank >= last && r.rank == rank[r.place - place]);
    last = r.rank;
    for (int i = 0; i < num - 1; i++) assert_true(*heap[i].place == i);
  }
}

/* Numbers of equal remainders are joined, in an order that makes long chains. */
static void sets_are_joined(void **state) {
  (void)state;
  enum { NUM = 1000, SETS = 7 };
  uint32_t parent[NUM];
  for (uint32_t i = 0; i < NUM; i++) parent[i] = i;
  for (uint32_t i = NUM - 1; i >= SETS; i--) parent[msc_set_root(parent, i)] = msc_set_root(parent, i - SETS);
  for (uint32_t i = 0; i < NUM; i++)
    for (uint32_t k = 0; k < NUM; k += 13)
      assert_int_equal(msc_set_root(parent, i) == msc_set_root(parent, k), i % SETS == k % SETS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reserve_keeps_items),         cmocka_unit_test(index_finds_what_is_there),
      cmocka_unit_test(index_keeps_order),           cmocka_unit_test(table_is_a_map),
      cmocka_unit_test(copies_are_of_whole_strings), cmocka_unit_test(heap_sorts),
      cmocka_unit_test(sets_are_joined),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
