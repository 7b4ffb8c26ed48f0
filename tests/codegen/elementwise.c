/* elementwise.c: compares kernels of elementwise ops, broadcasts and casts with the interpreter: every element type,
 * and for some types every odd shape. */
#include "tests/codegen/kernels.h"

static const char *const floats[] = {"f32", "f64", "f16", "bf16"};
static const char *const numbers[] = {"f32", "f64", "f16", "bf16", "i8",   "i16",
                                      "i32", "i64", "ui8", "ui16", "ui32", "ui64"};
static const char *const all[] = {"f32", "f64", "f16", "bf16", "i1",   "i8",  "i16",
                                  "i32", "i64", "ui8", "ui16", "ui32", "ui64"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* All shapes for the common types, one for the others: a kernel takes milliseconds to compile. */
static bool is_wanted(const char *dtype, size_t shape, size_t only) {
  return shape == only || !strcmp(dtype, "f32") || !strcmp(dtype, "i16");
}

static const char *typed(kernel_run *k, const char *shapes, const char *dtype) {
  char *out = msc_arena_alloc(msc_context_arena(k->ctx), 200), *p = out;
  for (; *shapes; shapes++) p += *shapes == '$' ? sprintf(p, "%s", dtype) : sprintf(p, "%c", *shapes);
  return out;
}

static void test_unary(void **state) {
  static const char *const of_floats[] = {"tanh",  "erf",   "sigmoid", "silu", "exp",  "sin",  "cos",   "floor", "ceil",
                                          "round", "trunc", "tan",     "atan", "sinh", "cosh", "expm1", "exp2"},
                           *const of_numbers[] = {"neg", "relu", "abs", "sign"}, *const positive[] = {"log",   "sqrt",
                                                                                                      "rsqrt", "log2",
                                                                                                      "log10", "log1p"};
  static const char *const shapes[] = {"$", "1x$", "7x$", "17x$", "1000x$", "0x$", "3x5x$"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t s = 0; s < COUNT(shapes); s++) {
    for (size_t t = 0; t < COUNT(floats); t++) {
      const char *in = typed(k, shapes[s], floats[t]);
      if (!is_wanted(floats[t], s, 3)) continue;
      for (size_t i = 0; i < COUNT(of_floats); i++) kernels_add_op(k, of_floats[i], in, "", 1, -6, 6);
      for (size_t i = 0; i < COUNT(positive); i++) kernels_add_op(k, positive[i], in, "", 1, 0.01, 50);
      kernels_add_op(k, "asin", in, "", 1, -1, 1), kernels_add_op(k, "acos", in, "", 1, -1, 1);
      kernels_add_op(k, "gelu", in, "form=erf", 1, -6, 6)->reordered = true; /* 1 + erf cancels */
      kernels_add_op(k, "gelu", in, "form=tanh", 1, -6, 6)->reordered = true;
    }
    for (size_t t = 0; t < COUNT(numbers); t++)
      for (size_t i = 0; i < COUNT(of_numbers) && is_wanted(numbers[t], s, 3); i++)
        kernels_add_op(k, of_numbers[i], typed(k, shapes[s], numbers[t]), "", 1, -60, 60);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_binary(void **state) {
  static const char *const ops[] = {"add", "sub", "mul", "max", "min", "div"};
  static const char *const shapes[] = {"$ $",      "17x$ 17x$",     "3x17x$ 17x$", "3x1x$ 1x17x$",
                                       "1000x$ $", "2x3x4x$ 3x1x$", "0x5x$ 5x$",   "5x70x$ 5x1x$"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t s = 0; s < COUNT(shapes); s++) {
    for (size_t t = 0; t < COUNT(numbers); t++)
      for (size_t i = 0; i < COUNT(ops) && is_wanted(numbers[t], s, 2) && (t < 8 || i % 3 == t % 3); i++)
        kernels_add_op(k, ops[i], typed(k, shapes[s], numbers[t]), "", 1, 1, 60);
    for (size_t t = 0; t < COUNT(floats) && s < 3; t++)
      kernels_add_op(k, "pow", typed(k, shapes[s], floats[t]), "", 1, 0.2, 3);
    kernels_add_op(k, "max", typed(k, shapes[s], "i1"), "", 1, 0, 1);
    kernels_add_op(k, "min", typed(k, shapes[s], "i1"), "", 1, 0, 1);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_bits(void **state) {
  static const char *const ops[] = {"bitwise_and", "bitwise_or", "bitwise_xor"}, *const moves[] = {"shift_left",
                                                                                                   "shift_right"};
  static const char *const ints[] = {"i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(ints); t++) {
    double least = t < 4 ? -100 : 0;
    for (size_t i = 0; i < COUNT(ops); i++)
      kernels_add_op(k, ops[i], typed(k, "3x17x$ 17x$", ints[t]), "", 1, least, 100);
    for (size_t i = 0; i < COUNT(moves); i++) /* by more places than there are, too */
      kernels_add_op(k, moves[i], typed(k, "3x17x$ 17x$", ints[t]), "", 1, least, 100),
          kernels_add_op(k, moves[i], typed(k, "99x$ $", ints[t]), "", 1, 1, 6);
    kernels_add_op(k, "bitwise_not", typed(k, "77x$", ints[t]), "", 1, least, 100);
  }
  for (size_t i = 0; i < COUNT(ops); i++) kernels_add_op(k, ops[i], "77xi1 77xi1", "", 1, 0, 1);
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_compare_and_select(void **state) {
  static const char *const predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(all); t++) {
    for (size_t p = t % 2; p < COUNT(predicates); p += 2)
      kernels_add_op(k, "compare", typed(k, "3x17x$ 17x$", all[t]),
                     msc_arena_printf(msc_context_arena(k->ctx), "predicate=%s", predicates[p]), 1, -3, 3);
    kernels_add_op(k, "select", typed(k, "3x17xi1 17x$ 3x1x$", all[t]), "", 1, -9, 9);
    kernels_add_op(k, "broadcast_to", typed(k, "3x1x$", all[t]), "shape=2,3,19", 1, -9, 9);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_cast(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t a = 0; a < COUNT(all); a++)
    for (size_t b = 0; b < COUNT(all); b++) {
      const char *to = msc_arena_printf(msc_context_arena(k->ctx), "dtype=%s", all[b]);
      if (a % 2 && b % 3) continue; /* every type on both sides, not every pair */
      kernels_add_op(k, "cast", typed(k, "77x$", all[a]), to, 1, -3, 3);
      kernels_add_op(k, "cast", typed(k, "77x$", all[a]), to, 1, -70000, 70000);
    }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_division_by_zero_is_told(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  kernel_case *c = kernels_add_op(k, "div", "17xi32 17xi32", "", 1, 0, 1);
  c->faults = MSC_FAULT_DIVISION;
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unary), cmocka_unit_test(test_binary),
      cmocka_unit_test(test_bits),  cmocka_unit_test(test_compare_and_select),
      cmocka_unit_test(test_cast),  cmocka_unit_test(test_division_by_zero_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
