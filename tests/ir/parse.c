/* parse.c: texts in; printed again unchanged, or every fault with its place and wording (tests/ir/parse/). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

typedef struct {
  const char *text;
  size_t bytes;
  const char *printed; /* NULL: faulty */
} job;

static bool run(msc_context *ctx, void *arg) {
  job *j = arg;
  msc_module *m = msc_parse(ctx, "t.mlir", j->text, j->bytes);
  if (m) j->printed = msc_print_text(m, msc_context_arena(ctx), NULL);
  return m;
}

/* The module printed, or the diagnostics as "! line:col: text [E0101]" lines; to be freed. */
static char *result_of_bytes(const char *text, size_t bytes) {
  char *out, *exact = malloc(bytes ? bytes : 1); /* nothing may be read behind the text */
  size_t n;
  FILE *f = open_memstream(&out, &n);
  memcpy(exact, text, bytes);
  msc_context *ctx = msc_context_new(NULL, NULL);
  job j = {exact, bytes, NULL};
  bool ok = msc_protect(ctx, run, &j);
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next)
    fprintf(f, "! %u:%u: %s [E%04d]\n", d->loc->line, d->loc->col, d->text, d->code);
  assert_true(ok == (msc_num_errors(ctx) == 0));
  if (ok) fputs(j.printed, f);
  fclose(f);
  msc_context_free(ctx);
  free(exact);
  return out;
}

static char *result(const char *text) { return result_of_bytes(text, strlen(text)); }

static char *whole_file(const char *name) {
  char *text = calloc(1, 1 << 16), path[128];
  snprintf(path, sizeof path, "tests/ir/parse/%s", name);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
  fclose(f);
  return text;
}

/* A file of cases: lines of input, then lines of diagnostics that begin with `!`, then a blank line. */
static void check_cases(const char *name, const char *before, const char *after) {
  char *cases = whole_file(name), *next;
  for (char *c = cases; *c; c = next) {
    char *faults = strstr(c, "\n!") + 1, *end = strstr(faults, "\n\n") + 1;
    next = end + 1;
    char text[4096], want[1024];
    snprintf(text, sizeof text, "%s%.*s%s", before, (int)(faults - c) - 1, c, after);
    snprintf(want, sizeof want, "%.*s", (int)(end - faults), faults);
    char *got = result(text);
    assert_string_equal(got, want);
    free(got);
  }
  free(cases);
}

#define HEAD "module {\n  \"msc.func\"() ({\n  ^bb0(%x: tensor<4x8xf32>, %i: tensor<4xi32>):\n"
#define TAIL "    \"msc.return\"() : () -> ()\n  }) {sym_name = \"f\"} : () -> ()\n}\n"
#define NEG HEAD "    %0 = \"msc.neg\"(%x) {a = "
#define NEG_END "} : (tensor<4x8xf32>) -> tensor<4x8xf32>\n" TAIL

static void faults_of_modules(void **s) { (void)s, check_cases("modules.txt", "", "\n"); }
static void faults_of_ops(void **s) { (void)s, check_cases("ops.txt", HEAD, "\n" TAIL); }

static void faults_of_values(void **s) {
  (void)s;
  check_cases("values.txt", NEG, NEG_END);
}

/* ---- texts that are good ---- */

static void expect(const char *text, const char *want) {
  char *got = result(text);
  assert_string_equal(got, want);
  free(got);
}

static void expect_inside(const char *before, const char *text, const char *after, const char *want) {
  char whole[4096], want_whole[4096];
  snprintf(whole, sizeof whole, "%s%s%s", before, text, after);
  snprintf(want_whole, sizeof want_whole, "%s%s%s", before, want, after);
  expect(whole, *want == '!' ? want : want_whole);
}

static void printed_unchanged(void **s) {
  (void)s;
  char *text = whole_file("whole.txt");
  expect(text, text);
  free(text);
  expect("module {\n}\n", "module {\n}\n");
  expect(HEAD TAIL, HEAD TAIL);
}

/* What may be written otherwise, and how it is then printed. */
static void other_spellings(void **s) {
  (void)s;
  static const char *const values[][2] = {
      {"1", "1 : i64"}, {"0x1F", "31 : i64"}, {"0xFF : i8", "-1 : i8"}, {"1 : i1", "true"}, {"-128 : i8", "-128 : i8"},
       {"18446744073709551615 : ui64", "18446744073709551615 : ui64"},
      {"1.0", "1.0e+00 : f64"}, {"0.1", "1.0e-01 : f64"}, {"0.1 : f32", "1.0e-01 : f32"}, {"3.14159274 : f32",
       "3.1415927e+00 : f32"}, {"0x7F800000 : f32", "0x7F800000 : f32"},
      {"0x3F80 : bf16", "1.0e+00 : bf16"}, {"0.333 : bf16", "3.32e-01 : bf16"}, {"65504.0 : f16", "6.55e+04 : f16"},
       {"123456789.125", "1.23456789125e+08 : f64"}, {"1.e-400", "0.0e+00 : f64"},
      {"[1 : i64, 2.5 : f64, 3 : i8]", "[1, 2.5e+00, 3 : i8]"}, {"[0x7FF0000000000000 : f64]",
       "[0x7FF0000000000000 : f64]"},
      {"{b, \"a b\" = 1, a}", "{a = true, \"a b\" = 1 : i64, b = true}"}, {"\"\\6D\\22\\C3\\A9\\FF\"",
       "\"m\\\"\xC3\xA9\\FF\""},
      {"dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>", "dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>"},
       {"dense<\"0x00FF\"> : tensor<2xi8>", "dense<[0, -1]> : tensor<2xi8>"},
      {"dense<\"0x05\"> : tensor<300xi8>", "dense<5> : tensor<300xi8>"}, {"dense<[[]]> : tensor<1x0xf16>",
       "dense<> : tensor<1x0xf16>"}, {"dense<[3]> : tensor<1xi8>", "dense<3> : tensor<1xi8>"},
      {"dense<0x7FC0> : tensor<bf16>", "dense<0x7FC0> : tensor<bf16>"}, {"dense<[1,0,true,false]> : tensor<4xi1>",
       "dense<[true, false, true, false]> : tensor<4xi1>"},
  };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) expect_inside(NEG, values[i][0], NEG_END, values[i][1]);
}

static void locations(void **s) {
  (void)s;
  static const char *const locs[][2] = {
      {" loc(unknown)", ""}, {" loc(\"\")", ""}, {" loc(fused<\"x\">[\"a\", \"f\":1:2])", " loc(\"a\")"},
       {" loc(\"a\"(\"b\"(\"c\"(\"f\":1:2))))", " loc(\"a/b\"(\"c\"(\"f\":1:2)))"},
      {" loc(callsite(callsite(\"f\":1:1 at \"g\":2:2) at \"h\":3:3))",
       " loc(callsite(\"f\":1:1 at callsite(\"g\":2:2 at \"h\":3:3)))"},
      {" loc(\"n\"(unknown))", " loc(\"n\")"},
  };
  for (size_t i = 0; i < sizeof locs / sizeof *locs; i++)
    expect_inside(HEAD "    %0 = \"msc.neg\"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>", locs[i][0], "\n" TAIL,
                  locs[i][1]);
}

static void generic_module(void **s) {
  (void)s;
  expect(
      "// a comment\n\"builtin.module\"() ({\n^bb0:\n \"msc.func\"() ({ ^bb0(%q : tensor<8xf32, "
      "#msc.layout<\"[{d}]\">> loc(\"a\")): \n"
      "}) {sym_name = \"f\", arg_attrs = [{msc.name = \"p.w\"}]} : () -> ()\n}) {msc.mesh = #msc.mesh<\"d=4\">, msc.a} "
      ": () -> () loc(unknown)\n// EXPECT\nno IR",
      "module attributes {msc.a = true, msc.mesh = #msc.mesh<\"d=4\">} {\n  \"msc.func\"() ({\n  ^bb0(%p.w: "
      "tensor<8xf32, #msc.layout<\"[{d}]\">>):\n"
      "  }) {arg_attrs = [{msc.name = \"p.w\"}],\n      sym_name = \"f\"} : () -> ()\n}\n");
  expect("module {\n  // EXPECT\n}\n// EXPECTED\n", "module {\n}\n"); /* only a whole line at its start ends the text */
}

/* Names that are no SSA names, or taken, are kept in the attributes. */
static void argument_names(void **s) {
  (void)s;
  expect(
      "module {\n \"msc.func\"() ({\n^bb0(%a: tensor<1xf32>, %b: tensor<2xf32>, %c: tensor<3xf32>, %7: tensor<f32>):\n"
      "%8 = \"msc.neg\"(%a) : (tensor<1xf32>) -> tensor<1xf32>\n}) {sym_name = \"f\", arg_attrs = [{msc.name = \"b\"}, "
      "{}, {msc.name = \"a b\"}, {}]} : () -> ()\n}\n",
      "module {\n  \"msc.func\"() ({\n  ^bb0(%b: tensor<1xf32>, %0: tensor<2xf32>, %1: tensor<3xf32>, %2: "
      "tensor<f32>):\n"
      "    %3 = \"msc.neg\"(%b) : (tensor<1xf32>) -> tensor<1xf32>\n  }) {arg_attrs = [{msc.name = \"b\"},\n           "
      "        {msc.name = \"b\"},\n"
      "                   {msc.name = \"a b\"},\n                   {}],\n      sym_name = \"f\"} : () -> ()\n}\n");
}

/* ---- hostile texts ---- */

static void odd_bytes(void **s) {
  (void)s;
  expect("", "! 1:1: expected a module, not the end of the text [E0101]\n");
  expect("module {\n \x01\n}\n", "! 2:2: a character that has no meaning here: '\\01' [E0101]\n");
  static const char nul[] = "module {\n  \"a\0b\"\n}\n";
  char *got = result_of_bytes(nul, sizeof nul - 1);
  assert_string_equal(got, "! 2:5: a string cannot hold a NUL byte: '\\00' [E0101]\n");
  free(got);
}

static void deep_and_long(void **s) {
  (void)s;
  char deep[141] = {0}, digits[2003] = "1.";
  memset(deep, '[', 70), memset(deep + 70, ']', 70), memset(digits + 2, '1', 2000);
  expect_inside(NEG, deep, NEG_END, "! 4:91: nested more than 64 deep [E0101]\n");
  expect_inside(NEG, digits, NEG_END, "! 4:29: a number of more than 1000 characters [E0101]\n");
}

static void deep_regions(void **s) {
  (void)s;
  char text[8192] = HEAD;
  for (int i = 0; i < 64; i++) sprintf(text + strlen(text), "\"msc.fused\"() ({\n");
  char *got = result(text);
  assert_non_null(strstr(got, "! 67:15: nested more than 64 deep [E0101]\n"));
  free(got);
}

/* An op whose name looks like a value is named by its value. */
static void forward_ops(void **s) {
  (void)s;
  static const char text[] = HEAD
      "    %0 = \"msc.exp\"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc(\"%1\")\n"
      "    %1 = \"msc.exp\"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc(\"a\")\n"
      "    %2 = \"msc.exp\"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc(\"a\")\n"
      "    %3 = \"msc.neg\"(%2) {forward = \"%0\"} : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
      "    %4 = \"msc.neg\"(%3) {forward = \"a\", letters = \"AB\"} : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
      "    %5 = \"msc.neg\"(%4) {forward = \"%2\"} : (tensor<4x8xf32>) -> tensor<4x8xf32>\n" TAIL;
  expect(text, text);
}

static void too_many_faults(void **s) {
  (void)s;
  char *text = calloc(1, 1 << 16);
  strcpy(text, HEAD);
  for (int i = 0; i < 1000; i++) strcat(text, "%a ?\n");
  char *got = result(text), *last = strstr(got, "104:4");
  assert_string_equal(last, "104:4: more than 100 syntax errors: reading stops here [E0101]\n");
  free(got);
  free(text);
}

/* Every prefix of a good text, and every byte of it overwritten: no crash, and a diagnosis or a module. */
static void damaged(void **s) {
  (void)s;
  char *text = whole_file("whole.txt");
  size_t n = strlen(text);
  for (size_t i = 0; i < n; i += 3) {
    free(result_of_bytes(text, i));
    char old = text[i];
    text[i] = "\"%}(0#\xff\0>"[i / 3 % 9];
    free(result_of_bytes(text, n));
    text[i] = old;
  }
  free(text);
}

/* Memory runs out at every point on the way: reported, nothing leaks. */
static void little_memory(void **s) {
  (void)s;
  char *text = whole_file("whole.txt");
  bool ok = false;
  for (size_t limit = 65536; !ok; limit += 65536) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    msc_context_limit(ctx, limit);
    job j = {text, strlen(text), NULL};
    ok = msc_protect(ctx, run, &j);
    if (!ok) assert_int_equal(msc_diags(ctx)->code, MSC_E_OUT_OF_MEMORY);
    msc_context_free(ctx);
  }
  free(text);
}

/* 10^5 ops; ten times as many take ten times as long. */
static void many_ops(void **s) {
  (void)s;
  size_t bytes;
  char *text, *got;
  FILE *f = open_memstream(&text, &bytes);
  fputs(
      "module {\n  \"msc.func\"() ({\n  ^bb0(%x: tensor<4x8xf32>):\n    %0 = \"msc.neg\"(%x) : (tensor<4x8xf32>) -> "
      "tensor<4x8xf32>\n",
      f);
  for (int i = 1; i < 100000; i++)
    fprintf(f, "    %%%d = \"msc.add\"(%%%d, %%%d) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>\n", i, i - 1,
            i / 2);
  fputs("  }) {sym_name = \"f\"} : () -> ()\n}\n", f);
  fclose(f);
  got = result(text);
  assert_true(strcmp(got, text) == 0);
  free(got);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(faults_of_modules), cmocka_unit_test(faults_of_ops),  cmocka_unit_test(faults_of_values),
          cmocka_unit_test(printed_unchanged),
      cmocka_unit_test(other_spellings),   cmocka_unit_test(locations),      cmocka_unit_test(generic_module),
            cmocka_unit_test(argument_names),
      cmocka_unit_test(odd_bytes),         cmocka_unit_test(deep_and_long),  cmocka_unit_test(deep_regions),
          cmocka_unit_test(forward_ops), cmocka_unit_test(too_many_faults),  cmocka_unit_test(damaged),
      cmocka_unit_test(little_memory),     cmocka_unit_test(many_ops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
