/* Every barrier of a row's kernel is needed, and one that is missing shows: without it, results depend on the
 * order of threads. */
#include "tests/codegen/kernels.h"

static const char barrier[] = "call void @llvm.nvvm.barrier0()";

static size_t count(const char *text) {
  size_t num = 0;
  for (const char *at = text; (at = strstr(at, barrier)); at += strlen(barrier)) num++;
  return num;
}

/* The text with barrier number `which` made a comment. */
static char *without(const char *text, size_t which) {
  char *copy = strdup(text), *at = copy;
  for (size_t i = 0; (at = strstr(at, barrier)) && i < which; i++) at += strlen(barrier);
  while (at > copy && at[-1] != '\n') at--; /* "tail call" too */
  *at = ';';
  return copy;
}

typedef struct {
  float x[4 * 4096], y[4 * 4096];
} rows;

/* The softmax of four rows, with threads in this order. */
static void run(kernel_run *k, const kernel_case *c, emulator *gpu, rows *r, emulator_order order) {
  const msc_launch *l = &c->call.launch[0];
  void *buffers[2] = {r->x, r->y};
  kernel_run with = *k;
  with.gpu = gpu;
  memset(r->y, 0, sizeof r->y);
  launch_on_gpu(&with, l, buffers, l->dims, order);
}

static bool is_caught(kernel_run *k, const kernel_case *c, size_t which, rows *r, const rows *right) {
  char *text = without(k->text, which), *why;
  emulator *gpu = emulator_open(text, strlen(text), &why);
  bool differs = false;
  if (!gpu) fail_msg("%s", why);
  for (int order = 0; order < EMULATOR_ORDERS && !differs; order++) {
    run(k, c, gpu, r, (emulator_order)order);
    differs = memcmp(r->y, right->y, sizeof r->y) != 0;
  }
  emulator_close(gpu);
  free(text);
  return differs;
}

static void test_missing_barriers_show(void **state) {
  static _Alignas(16) rows right, other;
  (void)state;
  setenv("MSC_TEST_TARGET", "cuda", 1);
  kernel_run *k = kernels_new(NULL);
  kernel_case *c = kernels_add_op(k, "softmax", "4x4096xf32", "", 1, -3, 3);
  kernels_finish(k);
  for (size_t i = 0; i < 4 * 4096; i++) right.x[i] = other.x[i] = (float)(6 * random_number(k) - 3);
  run(k, c, k->gpu, &right, EMULATOR_UP);
  for (int order = 1; order < EMULATOR_ORDERS; order++) {
    run(k, c, k->gpu, &other, (emulator_order)order);
    assert_memory_equal(other.y, right.y, sizeof right.y);
  }
  size_t num = count(k->text), caught = 0;
  for (size_t i = 0; i < num; i++) caught += is_caught(k, c, i, &other, &right);
  assert_int_equal(num, 4);    /* two for the largest of a row, two for its sum */
  assert_int_equal(caught, 3); /* before the first one nothing lies in shared memory that somebody might still read */
  kernels_free(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_missing_barriers_show)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
