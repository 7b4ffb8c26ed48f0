/* rounding.c: checks the conversion of f32 to f16 and bf16 in generated kernels and in the interpreter, bit for bit:
 * to nearest, ties to even, with the instruction of the machine and without. */
#include "tests/codegen/kernels.h"

static const struct {
  uint32_t f32;
  uint16_t bf16, f16;
} rows[] = {
    {0x3f800000, 0x3f80, 0x3c00}, /* 1 */
    {0x3f808000, 0x3f80, 0x3c04}, /* 1 + 2^-8: between two bf16, the even one is below */
    {0x3f818000, 0x3f82, 0x3c0c}, /* 1 + 3 2^-8: above */
    {0x3f808001, 0x3f81, 0x3c04}, /* just more than half */
    {0x3f801000, 0x3f80, 0x3c00}, /* 1 + 2^-11: the same for f16 */
    {0x3f803000, 0x3f80, 0x3c02},
    {0x3f801001, 0x3f80, 0x3c01},
    {0xbf818000, 0xbf82, 0xbc0c},
    {0x3fffffff, 0x4000, 0x4000}, /* carries into the exponent */
    {0x477fe000, 0x4780, 0x7bff}, /* 65504, the largest f16 */
    {0x477fefff, 0x4780, 0x7bff},
    {0x477ff000, 0x4780, 0x7c00}, /* 65520 is too large */
    {0x7f7fffff, 0x7f80, 0x7c00}, /* the largest f32 */
    {0x7f800000, 0x7f80, 0x7c00},
    {0xff800000, 0xff80, 0xfc00},
    {0x38800000, 0x3880, 0x0400}, /* 2^-14, the smallest normal f16 */
    {0x387fe000, 0x3880, 0x0400}, /* half between it and the one below */
    {0x33800000, 0x3380, 0x0001}, /* 2^-24, the smallest f16 */
    {0x33000000, 0x3300, 0x0000}, /* half of it */
    {0x33000001, 0x3300, 0x0001},
    {0x33c00000, 0x33c0, 0x0002},
    {0x00008000, 0x0000, 0x0000}, /* subnormal f32 */
    {0x00018000, 0x0002, 0x0000},
    {0x80000000, 0x8000, 0x8000},
};
enum { NUM_ROWS = sizeof rows / sizeof *rows, NUM_ELEMS = 3 * NUM_ROWS + 5 }; /* whole vectors, and what is left */

static uint32_t f32_at(int i) { return i < 3 * NUM_ROWS ? rows[i % NUM_ROWS].f32 : rows[i - 3 * NUM_ROWS].f32; }

static uint16_t narrow_at(int i, msc_dtype d) {
  int r = i < 3 * NUM_ROWS ? i % NUM_ROWS : i - 3 * NUM_ROWS;
  return d == MSC_BF16 ? rows[r].bf16 : rows[r].f16;
}

static void prepare(kernel_run *k, kernel_case *c) {
  (void)k;
  for (int i = 0; i < NUM_ELEMS; i++) ((uint32_t *)c->in[0].data)[i] = f32_at(i);
}

static kernel_case *add_cast(kernel_run *k, msc_dtype d) {
  msc_arena *a = msc_context_arena(k->ctx);
  msc_module *m = msc_module_new(k->ctx);
  assert_non_null(one_op(m, "cast", msc_arena_printf(a, "%dxf32", (int)NUM_ELEMS),
                         msc_arena_printf(a, "dtype=%s", msc_dtype_name(d)), 1));
  return kernels_add_with(k, msc_dtype_name(d), m->first, false, 0, 1, prepare);
}

static void expect_bits(const kernel_case *c, const uint16_t *got, const char *who) {
  for (int i = 0; i < NUM_ELEMS; i++) {
    uint16_t want = narrow_at(i, c->op->out[0].type->dtype);
    if (got[i] != want) fail_msg("%s, %s: %08x becomes %04x, not %04x", c->what, who, f32_at(i), got[i], want);
  }
}

static void check_on(const char *cpu) {
  static const msc_dtype types[] = {MSC_BF16, MSC_F16};
  kernel_run *k = kernels_new(cpu);
  for (int t = 0; t < 2; t++) add_cast(k, types[t]);
  kernels_finish(k);
  for (size_t i = 0; i < k->num; i++) {
    fenced list[80] = {{0}};
    run_case(k, k->cases[i], 0, APART, list);
    expect_bits(k->cases[i], k->cases[i]->expected[0].data, "interpreter");
    expect_bits(k->cases[i], (const uint16_t *)(const void *)list[1].data, cpu ? cpu : "this machine");
    for (int j = 0; list[j].map; j++) fenced_free(&list[j]);
  }
  kernels_free(k);
}

static void test_this_machine(void **state) {
  (void)state;
  check_on(NULL);
}

static void test_any_machine(void **state) {
  (void)state;
  if (on_gpu()) skip();
  check_on("x86-64");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_this_machine), cmocka_unit_test(test_any_machine)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
