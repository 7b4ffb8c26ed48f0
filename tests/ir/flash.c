/* flash.c: compares flash_attention and its gradient with attention and its vjp, in f64: causal or not, with
 * dropout, a mask or neither, with heads that share keys. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/interp/interp.h"

#define Q "tensor<2x4x5x8xf64>"
#define K "tensor<2x2x6x8xf64>"
#define V "tensor<2x2x6x3xf64>"
#define Y "tensor<2x4x5x3xf64>"
#define KEEP "tensor<2x4x5x6xf64>"
#define MASK "tensor<2x1x1x6xf64>"
#define SEEN "tensor<5x6xi1>"
enum { NUM_IN = 7, NUM_PAIRS = 4 };

/* The text with and without something more, which stands behind the other operands; flash: what its ops say besides. */
#define TEXT(attention, keep, of_keep, flash)                                                                          \
  "module {\n  \"msc.func\"() ({\n  ^bb0(%%q: " Q ", %%k: " K ", %%v: " V ", %%dy: " Y ", %%keep: " KEEP               \
  ", %%mask: " MASK ", %%seen: " SEEN                                                                                  \
  "):\n"                                                                                                               \
  "    %%0 = \"msc." attention "\"(%%q, %%k, %%v" keep ") {%s} : (" Q ", " K ", " V of_keep ") -> " Y                  \
  "\n"                                                                                                                 \
  "    %%1:3 = \"msc.vjp\"(%%q, %%k, %%v" keep ", %%dy) {%s, of = [0], op = \"" attention "\", wrt = [0, 1, 2]} : (" Q \
  ", " K ", " V of_keep ", " Y ") -> (" Q ", " K ", " V                                                                \
  ")\n"                                                                                                                \
  "    %%2:2 = \"msc.flash_attention\"(%%q, %%k, %%v" keep ") {%s" flash "} : (" Q ", " K ", " V of_keep ") -> (" Y    \
  ", tensor<2x4x5xf32>)\n"                                                                                             \
  "    %%3:3 = \"msc.flash_attention_grad\"(%%q, %%k, %%v, %%2#0, %%2#1, %%dy" keep ") {%s" flash "} : (" Q ", " K     \
  ", " V ", " Y ", tensor<2x4x5xf32>, " Y of_keep ") -> (" Q ", " K ", " V                                             \
  ")\n"                                                                                                                \
  "    \"msc.return\"(%%0, %%1#0, %%1#1, %%1#2, %%2#0, %%3#0, %%3#1, %%3#2) : (" Y ", " Q ", " K ", " V ", " Y ", " Q  \
  ", " K ", " V                                                                                                        \
  ") -> ()\n"                                                                                                          \
  "  }) {sym_name = \"main\"} : () -> ()\n}\n"
static const char *const texts[] = {TEXT("attention", "", "", ""), TEXT("dropped_attention", ", %%keep", ", " KEEP, ""),
                                    TEXT("attention", ", %%mask", ", " MASK, ", masked = true"),
                                    TEXT("attention", ", %%seen", ", " SEEN, ", masked = true")};

static void fill(msc_arena *arena, const msc_type *type, int seed, msc_tensor *out) {
  int64_t n = msc_type_elems(type);
  double *v = msc_new_array(arena, double, n);
  for (int64_t i = 0; i < n; i++) v[i] = sin((double)(i * 7 + seed * 13 + 1));
  *out = (msc_tensor){type, v};
  for (int64_t i = 0; i < n && type->dtype == MSC_I1; i++) ((uint8_t *)out->data)[i] = i % 6 <= i / 6 || i % 7 == 3;
}

/* Statistics are f32: so near is what follows from them. */
static void check(const char *text, const char *attrs) {
  char module[4096];
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *arena = msc_context_arena(ctx);
  msc_tensor in[NUM_IN], out[2 * NUM_PAIRS];
  snprintf(module, sizeof module, text, attrs, attrs, attrs, attrs);
  msc_module *m = msc_parse(ctx, "flash", module, strlen(module));
  assert_non_null(m);
  for (int i = 0; i < NUM_IN; i++) fill(arena, m->first->body->args[i]->type, i, &in[i]);
  assert_true(msc_interpret(m->first, arena, in, out));
  for (int p = 0; p < NUM_PAIRS; p++)
    for (int64_t i = 0; i < msc_type_elems(out[p].type); i++)
      assert_true(fabs(msc_tensor_get(&out[NUM_PAIRS + p], i) - msc_tensor_get(&out[p], i)) < 1e-6);
  msc_context_free(ctx);
}

static void same_gradients(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    check(texts[i], "causal = false");
    check(texts[i], "causal = true");
    check(texts[i], "causal = true, scale = 3.0e-01 : f64");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_gradients)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
