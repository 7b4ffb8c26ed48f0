/* pass.c: checks the pass driver: which passes run, what is reported after each, dumps, reproducers, comparing
 * modules. */
#include "passes/pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char plain[] =
  "module {\n  \"msc.func\"() ({\n  ^bb0(%x: tensor<4xf32>):\n"
  "    %0 = \"msc.neg\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
  "    %1 = \"msc.exp\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
  "    \"msc.return\"(%1) : (tensor<4xf32>) -> ()\n  }) {sym_name = \"f\"} : () -> ()\n}\n";
/* No pass changes it; run, it divides by zero. */
static const char faulty[] =
  "module {\n  \"msc.func\"() ({\n  ^bb0(%x: tensor<i32>):\n"
  "    %0 = \"msc.constant\"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>\n"
  "    %1 = \"msc.div\"(%x, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>\n"
  "    \"msc.return\"(%1) : (tensor<i32>) -> ()\n  }) {sym_name = \"f\"} : () -> ()\n}\n";

typedef struct {
  char names[256], stats[256], reproducer[2048];
  int num, num_changed;
  const char *input;
  bool case_is_input;
} told;

static void after(void *user, const msc_pass_report *r) {
  told *t = user;
  strcat(strcat(t->names, r->pass->name), " ");
  for (const msc_pass_stat *s = r->stats; s; s = s->next)
    if (s->count) strcat(strcat(t->stats, s->what), " ");
  t->num_changed += r->changed;
  assert_int_equal(r->number, ++t->num);
}

static void reproducer(void *user, const msc_pass_info *pass, const char *text, size_t bytes) {
  (void)pass;
  memcpy(((told *)user)->reproducer, text, bytes);
}

static bool run(const char *text, msc_pass_options options, told *t, msc_context **out_ctx) {
  *out_ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_parse(*out_ctx, "in.mlir", text, strlen(text));
  assert_non_null(m);
  *t = (told){0};
  options.user = t;
  options.after = after;
  return msc_run_passes(*out_ctx, m, &options);
}

static const char *first_error(const msc_context *ctx) { return msc_diags(ctx) ? msc_diags(ctx)->text : ""; }

static void named_passes_run_in_their_order(void **state) {
  (void)state;
  msc_context *ctx;
  told t;
  assert_true(run(plain, (msc_pass_options){.passes = "dce,cse,dce", .want_text = true}, &t, &ctx));
  assert_string_equal(t.names, "dce cse dce ");
  assert_string_equal(t.stats, "ops removed ");
  assert_int_equal(t.num_changed, 1);
  msc_context_free(ctx);
}

static void a_range_runs_in_pipeline_order(void **state) {
  (void)state;
  msc_context *ctx;
  told t;
  assert_true(run(plain, (msc_pass_options){.from = "fold", .until = "dce", .verify = MSC_VERIFY_NUMERICS}, &t, &ctx));
  assert_string_equal(t.names, "fold crop cse dce ");
  msc_context_free(ctx);
  assert_false(run(plain, (msc_pass_options){.from = "dce", .until = "fold"}, &t, &ctx));
  assert_string_equal(first_error(ctx), "pass 'dce' comes after 'fold'");
  msc_context_free(ctx);
}

static void unknown_names_are_reported_with_the_nearest(void **state) {
  (void)state;
  msc_context *ctx;
  told t;
  assert_false(run(plain, (msc_pass_options){.passes = "foldd,dce,qqqqqq"}, &t, &ctx));
  assert_int_equal(t.num, 0);
  assert_string_equal(first_error(ctx), "unknown pass 'foldd'; did you mean 'fold'?");
  assert_string_equal(msc_diags(ctx)->next->text, "unknown pass 'qqqqqq'");
  msc_context_free(ctx);
}

static void dumps_are_of_passes_that_changed_something(void **state) {
  (void)state;
  msc_context *ctx;
  told t;
  char folder[] = "/tmp/msc-pass-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  assert_true(run(plain, (msc_pass_options){.passes = "cse,dce", .dump_dir = folder}, &t, &ctx));
  msc_context_free(ctx);
  const struct { const char *name; bool there; } files[] = {{"000-input", true}, {"001-cse", false}, {"002-dce", true}};
  for (size_t i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s.mlir", folder, files[i].name);
    assert_int_equal(unlink(path) == 0, files[i].there);
  }
  assert_int_equal(rmdir(folder), 0);
  assert_false(run(plain, (msc_pass_options){.passes = "dce", .dump_dir = folder}, &t, &ctx));
  assert_int_equal(msc_diags(ctx)->code, MSC_E_FILE);
  msc_context_free(ctx);
}

static void a_bug_leaves_a_reproducer(void **state) {
  (void)state;
  msc_context *ctx;
  told t;
  assert_false(
      run(faulty,
          (msc_pass_options){
              .passes = "dce", .verify = MSC_VERIFY_NUMERICS, .flags = "--check-numerics", .reproducer = reproducer},
          &t, &ctx));
  const char *run_line = "// RUN: msc opt --passes=dce --check-numerics %s\n";
  assert_memory_equal(t.reproducer, run_line, strlen(run_line));
  assert_string_equal(t.reproducer + strlen(run_line), faulty);
  bool internal = false;
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next) internal |= d->code == MSC_E_INTERNAL;
  assert_true(internal);
  msc_context_free(ctx);
}

static void last_case(void *user, const msc_pass_info *pass, const char *line, const char *text, size_t bytes) {
  told *t = user;
  (void)pass;
  if (!line) return;
  snprintf(t->reproducer, sizeof t->reproducer, "%s", line);
  t->case_is_input = bytes > 0 && t->input && !strncmp(text, t->input, bytes);
}

/* Their text takes longer than most passes. */
static void large_modules_have_no_case_of_their_own(void **state) {
  (void)state;
  for (int ops = 800; ops <= 1200; ops += 400) {
    char *text = malloc((size_t)ops * 80 + 500), *at = text;
    at += sprintf(at, "module {\n  \"msc.func\"() ({\n  ^bb0(%%x: tensor<f32>):\n");
    for (int i = 0; i < ops; i++)
      at += sprintf(at, "    %%%d = \"msc.exp\"(%%%s%.*d) : (tensor<f32>) -> tensor<f32>\n", i, i ? "" : "x", i ? 1 : 0,
                    i ? i - 1 : 0);
    sprintf(at, "    \"msc.return\"(%%%d) : (tensor<f32>) -> ()\n  }) {sym_name = \"f\"} : () -> ()\n}\n", ops - 1);
    msc_context *ctx = msc_context_new(NULL, NULL);
    msc_module *m = msc_parse(ctx, "in.mlir", text, strlen(text));
    told t = {.input = text};
    assert_true(msc_run_passes(ctx, m, &(msc_pass_options){.passes = "fold,cse,dce", .user = &t, .before = last_case}));
    assert_string_equal(t.reproducer, ops < 1000 ? "// RUN: msc opt --passes=dce %s\n" : "");
    assert_int_equal(t.case_is_input, ops < 1000);
    msc_context_free(ctx);
    free(text);
  }
}

/* What differs between two texts, "" for nothing. */
/* A fact that 7_lower takes away still stands behind the last pass that the target runs of it. */
static void facts_are_checked_where_the_target_ends_a_stage(void **state) {
  (void)state;
  static const char *const targets[] = {"cuda", "cpu"}, *const last[] = {"order", "tile"};
  for (int i = 0; i < 2; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "module attributes {msc.target = \"%s\"} {\n  \"msc.func\"() ({\n  ^bb0(%%x: tensor<4xf32>):\n"
             "    %%0 = \"msc.exp\"(%%x) {pinned = true} : (tensor<4xf32>) -> tensor<4xf32>\n"
             "    \"msc.return\"(%%0) : (tensor<4xf32>) -> ()\n  }) {sym_name = \"f\"} : () -> ()\n}\n",
             targets[i]);
    msc_context *ctx;
    told t;
    msc_pass_options options = {.from = "order", .until = "tile", .verify = MSC_VERIFY_IR};
    assert_false(run(text, options, &t, &ctx));
    assert_string_equal(first_error(ctx), "exp: pinned still stands behind 7_lower");
    assert_string_equal(t.names, i ? "order " : "");
    msc_context_free(ctx);
    options.passes = last[i]; /* a list may leave out who takes it away */
    assert_true(run(text, options, &t, &ctx));
    msc_context_free(ctx);
  }
}

static void expect_difference(const char *a, const char *b, const char *difference) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_parse(ctx, "a", a, strlen(a)), *n = msc_parse(ctx, "b", b, strlen(b));
  assert_true(m && n);
  const char *why = msc_find_difference(m, n, msc_context_arena(ctx));
  assert_string_equal(why ? why : "", difference);
  msc_context_free(ctx);
}

/* plain with one piece replaced */
static const char *edited(char *out, const char *from, const char *to) {
  const char *at = strstr(plain, from);
  assert_non_null(at);
  sprintf(out, "%.*s%s%s", (int)(at - plain), plain, to, at + strlen(from));
  return out;
}

/* A layout is printed as its text, which reads as the same layout; another one is not. */
static void layouts_are_the_same_as_their_texts(void **state) {
  (void)state;
  static const char text[] =
      "module attributes {msc.mesh = #msc.mesh<\"x=2,y=2\">} {\n  \"msc.func\"() ({\n  ^bb0(%x: tensor<4x4xf32>):\n"
      "    \"msc.return\"(%x) {in_layout = [\"[{x},{}]\"]} : (tensor<4x4xf32>) -> ()\n"
      "  }) {sym_name = \"f\"} : () -> ()\n}\n";
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_parse(ctx, "a", text, strlen(text)), *n = msc_parse(ctx, "a", text, strlen(text));
  msc_arena *arena = msc_context_arena(ctx);
  msc_op *ret = n->first->body->last;
  const msc_layout *l = msc_wanted_layout(ret, 0), *other = msc_layout_replicated(ctx, 2);
  assert_non_null(l);
  assert_null(msc_wanted_layout(ret, 1));
  msc_op_put(ret, msc_fact_in_layout(ctx, 1, &l));
  assert_ptr_equal(msc_wanted_layout(ret, 0), l);
  assert_string_equal(msc_print_text(m, arena, &(size_t){0}), msc_print_text(n, arena, &(size_t){0}));
  assert_null(msc_find_difference(m, n, arena));
  assert_null(msc_find_difference(n, m, arena));
  msc_op_put(ret, msc_fact_in_layout(ctx, 1, &other));
  assert_string_equal(msc_find_difference(m, n, arena), "function 'f': op 0 (return): attributes differ");
  msc_context_free(ctx);
}

static void modules_are_compared_in_everything(void **state) {
  (void)state;
  char text[2048];
  expect_difference(plain, plain, "");
  expect_difference(plain, edited(text, "\"msc.exp\"(%x)", "\"msc.exp\"(%0)"),
                    "function 'f': op 1 (exp): operands differ");
  expect_difference(plain, edited(text, "\"msc.exp\"", "\"msc.log\""), "function 'f': op 1 (exp): kinds differ");
  expect_difference(plain, edited(text, "\"msc.exp\"(%x)", "\"msc.exp\"(%x) {recompute = true}"),
                    "function 'f': op 1 (exp): attributes differ");
  expect_difference(plain, edited(text, "(%1) : (tensor<4xf32>)", "(%1, %1) : (tensor<4xf32>, tensor<4xf32>)"),
                    "function 'f': op 2 (return): operand or result counts differ");
  expect_difference(plain, edited(text, "\"f\"}", "\"g\"}"), "functions 'f' and 'g'");
  expect_difference(plain, edited(text, "\"f\"}", "\"f\", ties = [1]}"), "function 'f': attributes differ");
  expect_difference(plain, edited(text, "tensor<4xf32>\n    \"", "tensor<4xf32> loc(\"e\")\n    \""),
                    "function 'f': op 1 (exp): names differ");
  expect_difference(plain, edited(text, "module {", "module attributes {msc.mesh = #msc.mesh<\"d=2\">} {"),
                    "meshes differ");
}

/* What is kept under a key is found again, and nothing else. */
static void passes_find_what_they_kept(void **state) {
  (void)state;
  static const char keys[100];
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *arena = msc_context_arena(ctx);
  msc_pass_memory *memory = msc_pass_memory_new(arena), *other = msc_pass_memory_new(arena);
  assert_ptr_equal(msc_pass_memory_arena(memory), arena);
  for (int i = 0; i < 100; i++) {
    void **at = msc_kept_at(memory, &keys[i]);
    assert_null(*at);
    *at = (void *)&keys[99 - i];
  }
  for (int i = 0; i < 100; i++) {
    assert_ptr_equal(*msc_kept_at(memory, &keys[i]), &keys[99 - i]);
    assert_null(*msc_kept_at(other, &keys[i]));
  }
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(named_passes_run_in_their_order),
      cmocka_unit_test(a_range_runs_in_pipeline_order),
      cmocka_unit_test(unknown_names_are_reported_with_the_nearest),
      cmocka_unit_test(dumps_are_of_passes_that_changed_something),
      cmocka_unit_test(a_bug_leaves_a_reproducer),
      cmocka_unit_test(large_modules_have_no_case_of_their_own),
      cmocka_unit_test(facts_are_checked_where_the_target_ends_a_stage),
      cmocka_unit_test(modules_are_compared_in_everything),
      cmocka_unit_test(layouts_are_the_same_as_their_texts),
      cmocka_unit_test(passes_find_what_they_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
