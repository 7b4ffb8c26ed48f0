/* guard.c: checks the copies of the buffers of a call: each in memory of its own, overlapping ones together, copied
 * back where the call may write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/execute/sanitizer_copies.h"
#include "tests/runtime/expect.h"

static void buffers_are_copied_apart(void **state) {
  (void)state;
  char memory[64];
  for (int i = 0; i < 64; i++) memory[i] = (char)i;
  const plan_ref refs[] = {
      {0, 16, 0, 0, {0}}, {16, 8, 0, 1, {0}}, {20, 12, 0, 0, {0}}, {40, 8, 0, 1, {0}}, {0, 4, PLAN_SPACE_TILE, 0, {0}}};
  void *places[] = {memory, memory + 16, memory + 20, memory + 40, NULL};
  mscrt_record r = {.num_buffers = 5, .ref = refs, .buffers = places, .name = "call"};
  mscrt_context c = {0};
  mscrt_guard *g;
  expect_ok(mscrt_guard_open(&r, places, NULL, &g));
  char *const *copy = (char *const *)mscrt_guard_buffers(g);
  assert_null(copy[4]);
  assert_memory_equal(copy[0], memory, 16);
  assert_ptr_equal(copy[1] + 4, copy[2]); /* they overlap */
  assert_false(copy[1] >= copy[0] && copy[1] <= copy[0] + 16);
  copy[1][5] = 'a', copy[3][7] = 'b';
  expect_ok(mscrt_guard_close(g, &c, 0));
  assert_int_equal(memory[21], 'a');
  assert_int_equal(memory[47], 'b');
  expect_ok(mscrt_guard_open(&r, places, NULL, &g));
  ((char *const *)mscrt_guard_buffers(g))[0][3] = 'c';
  expect_text(mscrt_guard_close(g, &c, 7), MSCRT_INPUT, "step 8: call: it wrote to buffer 0, which it only reads");
  assert_int_equal(memory[3], 3);
}

static void epilogues_see_the_same_bytes(void **state) {
  (void)state;
  int32_t memory[4] = {1, 2, 3, 4};
  const plan_ref of_call[] = {{0, 8, 0, 1, {0}}}, of_epilogue[] = {{0, 8, 0, 0, {0}}, {8, 8, 0, 1, {0}}};
  void *places[] = {memory}, *behind[] = {memory, memory + 2};
  mscrt_record e = {.num_buffers = 2, .ref = of_epilogue}, r = {.num_buffers = 1, .ref = of_call, .epilogue = &e};
  mscrt_context c = {0};
  mscrt_guard *g;
  expect_ok(mscrt_guard_open(&r, places, behind, &g));
  ((int32_t *)mscrt_guard_buffers(g)[0])[1] = 9;
  assert_int_equal(((int32_t *)mscrt_guard_epilogue(g)[0])[1], 9);
  ((int32_t *)mscrt_guard_epilogue(g)[1])[0] = 8;
  expect_ok(mscrt_guard_close(g, &c, 0));
  assert_int_equal(memory[1], 9);
  assert_int_equal(memory[2], 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(buffers_are_copied_apart),
                                     cmocka_unit_test(epilogues_see_the_same_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
