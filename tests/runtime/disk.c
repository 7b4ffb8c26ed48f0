/* disk.c: values of any size, at any address, moved to a disk and back: the same bytes, none behind them written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/memory/memory.h"
#include "tests/runtime/expect.h"

enum { MOST = 140000, BLOCK = 8192, ROOM = MOST + 3 * MSCRT_DISK_PAGE };
static _Alignas(4096) uint8_t arena[ROOM], back[ROOM];

static void check_value(mscrt_pool *pool, const mscrt_disk *disk, uint64_t bytes, uint64_t from, uint64_t to) {
  mscrt_value_transfer m = {
      .disk = disk, .arena = arena + from, .offset = MSCRT_DISK_PAGE, .bytes = bytes, .stows = true};
  for (uint64_t i = 0; i < ROOM; i++) arena[i] = (uint8_t)(i * 31 + bytes + (i >> 8)), back[i] = 0xa5;
  assert_int_equal(mscrt_move_value(pool, &m), 0);
  m.arena = back + to, m.stows = false;
  assert_int_equal(mscrt_move_value(pool, &m), 0);
  assert_memory_equal(back + to, arena + from, bytes);
  for (uint64_t i = 0; i < ROOM; i++)
    if (i < to || i >= to + bytes) assert_int_equal(back[i], 0xa5);
}

static void values_move_there_and_back(void **state) {
  static const uint64_t sizes[] = {1, 100, 4096, 4100, 8192, 12288, 20000, MOST}, at[] = {0, 64, 512, 520, 4096};
  enum { PLACES = sizeof at / sizeof *at };
  mscrt_pool *pool = NULL;
  mscrt_disk disk;
  (void)state;
  expect_ok(mscrt_pool_new(MSCRT_DISK_DEPTH, false, NULL, NULL, &pool));
  expect_ok(mscrt_disk_open(".", ROOM, BLOCK, &disk));
  assert_true(disk.align <= MSCRT_DISK_PAGE);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t k = 0; k < PLACES; k++) check_value(pool, &disk, sizes[i], at[k], at[(k + i) % PLACES]);
  mscrt_disk_close(&disk);
  mscrt_pool_free(pool);
}

static void values_move_within_memory(void **state) {
  static const uint64_t sizes[] = {1, 63, 64, 100, 4100, MOST}, at[] = {0, 8, 64, 200};
  static _Alignas(64) uint8_t host[ROOM];
  mscrt_pool *pool = NULL;
  (void)state;
  expect_ok(mscrt_pool_new(2, false, NULL, NULL, &pool));
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++)
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
      uint64_t bytes = sizes[i / 2];
      mscrt_value_transfer m = {
          .arena = arena + at[k], .host = host + at[3 - k], .bytes = bytes, .stows = true, .past_caches = i % 2};
      for (uint64_t n = 0; n < ROOM; n++) arena[n] = (uint8_t)(n * 31 + bytes), host[n] = back[n] = 0xa5;
      assert_int_equal(mscrt_move_value(pool, &m), 0);
      m.arena = back + at[k], m.stows = false;
      assert_int_equal(mscrt_move_value(pool, &m), 0);
      assert_memory_equal(back + at[k], arena + at[k], bytes);
      for (uint64_t n = 0; n < ROOM; n++)
        if (n < at[3 - k] || n >= at[3 - k] + bytes) assert_int_equal(host[n], 0xa5);
    }
  mscrt_pool_free(pool);
}

static void folder_is_named(void **state) {
  mscrt_disk disk;
  (void)state;
  expect_text(mscrt_disk_open("no/such", ROOM, BLOCK, &disk), MSCRT_ENVIRONMENT,
              "can be made in no/such: No such file");
  mscrt_disk_close(&disk);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(values_move_there_and_back),
                                     cmocka_unit_test(values_move_within_memory), cmocka_unit_test(folder_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
