/* check_numerics.c: checks --check-numerics: equal programs pass, and every kind of wrong one is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ir/interp/interp.h"

static msc_module *parse(msc_context *ctx, const char *mesh, const char *body, const char *arg_attrs) {
  msc_arena *a = msc_context_arena(ctx);
  const char *text =
      msc_arena_printf(a, "module attributes {%s} {\n\"msc.func\"() ({\n%s}) {sym_name = \"f\"%s} : () -> ()\n}\n",
                       mesh, body, arg_attrs);
  msc_module *m = msc_parse(ctx, "test", text, strlen(text));
  if (!m) fail_msg("%s\n%s", msc_diags(ctx)->text, text);
  return m;
}

/* Message NULL: the check passes. */
static void expect(const char *mesh, const char *before, const char *after, const char *arg_attrs,
                   const char *message) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *f = parse(ctx, mesh, before, arg_attrs), *g = parse(ctx, mesh, after, arg_attrs);
  bool ok = msc_check_numerics(f, g, 7, 1e-6);
  if (ok != !message)
    fail_msg("expected %s, got %s", message ? message : "no difference", ok ? "no difference" : msc_diags(ctx)->text);
  if (message && !strstr(msc_diags(ctx)->text, message))
    fail_msg("expected \"%s\", got \"%s\"", message, msc_diags(ctx)->text);
  msc_context_free(ctx);
}

static const char NO_MESH[] = "";
static const char MESH[] = "msc.mesh = #msc.mesh<\"x=2\">";

static void one_device(void **state) {
  (void)state;
  static const char square[] =
      "^bb0(%0: tensor<4xf32>):\n  %1 = \"msc.mul\"(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
      "  \"msc.return\"(%1) : (tensor<4xf32>) -> ()\n";
  static const char abs_square[] =
      "^bb0(%0: tensor<4xf32>):\n  %1 = \"msc.abs\"(%0) : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  %2 = \"msc.mul\"(%1, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n  \"msc.return\"(%2) : "
      "(tensor<4xf32>) -> ()\n";
  static const char abs_times[] =
      "^bb0(%0: tensor<4xf32>):\n  %1 = \"msc.abs\"(%0) : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  %2 = \"msc.mul\"(%1, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n  \"msc.return\"(%2) : "
      "(tensor<4xf32>) -> ()\n";
  expect(NO_MESH, square, abs_square, "", NULL);
  expect(NO_MESH, square, abs_times, "", "of result 0 is");
}

/* Indexes are drawn within every table; a dropped result is no difference, a renamed one is followed. */
static void results_by_name(void **state) {
  (void)state;
  static const char both[] =
      "^bb0(%0: tensor<3x2xf32>, %1: tensor<5xi32>):\n"
      "  %2 = \"msc.gather\"(%0, %1) : (tensor<3x2xf32>, tensor<5xi32>) -> tensor<5x2xf32>\n"
      "  %3 = \"msc.neg\"(%2) : (tensor<5x2xf32>) -> tensor<5x2xf32>\n"
      "  \"msc.return\"(%2, %3) : (tensor<5x2xf32>, tensor<5x2xf32>) -> ()\n";
  static const char second[] =
      "^bb0(%0: tensor<3x2xf32>, %1: tensor<5xi32>):\n"
      "  %2 = \"msc.neg\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>\n"
      "  %3 = \"msc.gather\"(%2, %1) : (tensor<3x2xf32>, tensor<5xi32>) -> tensor<5x2xf32>\n"
      "  \"msc.return\"(%3) : (tensor<5x2xf32>) -> ()\n";
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *f = parse(ctx, NO_MESH, both, ", results = [\"a\", \"b\"]"),
             *g = parse(ctx, NO_MESH, second, ", results = [\"b\"]");
  assert_true(msc_check_numerics(f, g, 7, 1e-6));
  msc_func_set(msc_find_func(g, "f"), "results", msc_list(ctx, 1, (msc_attr_value[]){msc_str(ctx, "a")}));
  assert_false(msc_check_numerics(f, g, 7, 1e-6));
  msc_context_free(ctx);
}

static const char PRODUCT[] =
    "^bb0(%0: tensor<2x4xf64>, %1: tensor<4x2xf64>):\n"
    "  %2 = \"msc.matmul\"(%0, %1) : (tensor<2x4xf64>, tensor<4x2xf64>) -> tensor<2x2xf64>\n"
    "  %3 = \"msc.relu\"(%2) : (tensor<2x2xf64>) -> tensor<2x2xf64>\n  \"msc.return\"(%3) : (tensor<2x2xf64>) -> ()\n";

#define WHOLE   "tensor<2x2xf64, #msc.layout<\"[{},{}]\">>"
#define PARTIAL "tensor<2x2xf64, #msc.layout<\"[{},{}] partial={x}\">>"
#define A       "tensor<2x4xf64, #msc.layout<\"[{},{x}]\">>"
#define B       "tensor<4x2xf64, #msc.layout<\"[{x},{}]\">>"

static void all_ranks(void **state) {
  (void)state;
  static const char right[] =
      "^bb0(%0: " A ", %1: " B "):\n  %2 = \"msc.matmul\"(%0, %1) : (" A ", " B ") -> " PARTIAL
      "\n"
      "  %3 = \"msc.all_reduce\"(%2) : (" PARTIAL ") -> " WHOLE "\n  %4 = \"msc.relu\"(%3) : (" WHOLE ") -> " WHOLE
      "\n  \"msc.return\"(%4) : (" WHOLE ") -> ()\n";
  static const char forgotten[] =
      "^bb0(%0: " A ", %1: " B "):\n  %2 = \"msc.matmul\"(%0, %1) : (" A ", " B ") -> " PARTIAL
      "\n"
      "  %3 = \"msc.relu\"(%2) : (" PARTIAL ") -> " PARTIAL "\n  \"msc.return\"(%3) : (" PARTIAL ") -> ()\n";
  static const char waiting[] = /* sharded, not partitioned: runs as on one device */
      "^bb0(%0: " A ", %1: " B "):\n  %2 = \"msc.matmul\"(%0, %1) : (" A ", " B ") -> " PARTIAL
      "\n"
      "  %3 = \"msc.relu\"(%2) {in_layout = [\"[{},{}]\"]} : (" PARTIAL ") -> " WHOLE "\n  \"msc.return\"(%3) : (" WHOLE
      ") -> ()\n";
  expect(MESH, PRODUCT, right, "", NULL);
  expect(MESH, PRODUCT, waiting, "", NULL);
  expect(MESH, PRODUCT, forgotten, "", "check-numerics: f on all ranks: element");
}

static void manual(void **state) {
  (void)state;
  static const char before[] =
      "^bb0(%0: tensor<4xf32>):\n  %1 = \"msc.all_reduce\"(%0) {axes = \"{x}\"} : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  \"msc.return\"(%1) : (tensor<4xf32>) -> ()\n";
  static const char same[] =
      "^bb0(%0: tensor<4xf32>):\n  %1 = \"msc.reduce_scatter\"(%0) {axes = \"{x}\"} : (tensor<4xf32>) -> "
      "tensor<2xf32>\n"
      "  %2 = \"msc.all_gather\"(%1) {axes = \"{x}\"} : (tensor<2xf32>) -> tensor<4xf32>\n  \"msc.return\"(%2) : "
      "(tensor<4xf32>) -> ()\n";
  static const char other[] =
      "^bb0(%0: tensor<4xf32>):\n  %1 = \"msc.broadcast\"(%0) {axes = \"{x}\"} : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  \"msc.return\"(%1) : (tensor<4xf32>) -> ()\n";
  expect(MESH, before, same, "", NULL);
  expect(MESH, before, other, "", "check-numerics: f by ranks: element");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_device), cmocka_unit_test(results_by_name),
                                     cmocka_unit_test(all_ranks), cmocka_unit_test(manual)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
