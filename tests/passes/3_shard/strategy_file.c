/* The strategy file: what is saved and loaded again gives the same module, on random graphs in all modes; every fault
 * of a file with its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "passes/3_shard/strategy/strategy_file.h"
#include "passes/config/config.h"
#include "passes/pass.h"
#include "tests/passes/random_graph.h"

static char path[] = "/tmp/msc-strategies-XXXXXX";

static int make_file(void **state) {
  (void)state;
  int fd = mkstemp(path);
  return fd < 0 ? -1 : close(fd);
}

static int drop_file(void **state) {
  (void)state;
  return unlink(path);
}

static void write_file(const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

/* Runs the passes from expand to layouts; false: refused. */
static bool sharded(msc_context *ctx, msc_module *m, int num_settings, const char *const *setting, bool load) {
  msc_config *config = msc_config_new(ctx);
  for (int i = 0; i < num_settings; i++) assert_true(msc_config_set(config, setting[i]));
  if (load)
    assert_true(
        msc_config_set(config, msc_arena_printf(msc_context_arena(ctx), "strategy_ckpt_load_file=\"%s\"", path)));
  assert_true(msc_config_check(config));
  msc_pass_options options = {.from = "fold", .until = "layouts", .verify = MSC_VERIFY_IR, .config = config};
  return msc_run_passes(ctx, m, &options);
}

static msc_func *main_func(const msc_module *m) {
  msc_func *f = msc_find_func(m, "train");
  return f ? f : msc_find_func(m, "forward");
}

/* ---- save and load ---- */

/* The module's text after `layouts`, and the strategy file, as memory of the C library; NULL: refused. */
static char *random_text(uint64_t seed, bool load, char **out_file) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  random_graph g;
  random_graph_make(&g, ctx, seed);
  char *text = NULL;
  if (sharded(ctx, g.m, g.num_settings, g.setting, load)) {
    for (const msc_diag *d = msc_diags(ctx); d; d = d->next)
      /* what was saved agrees with what was said */
      if (d->code == MSC_E_STRATEGY_FILE) fail_msg("seed %" PRIu64 ": %s", seed, d->text);
    text = strdup(msc_print_text(g.m, g.arena, &(size_t){0}));
    *out_file = strdup(msc_strategy_file(main_func(g.m), g.arena));
  } else if (load) {
    for (const msc_diag *d = msc_diags(ctx); d; d = d->next) print_error("seed %" PRIu64 ": %s\n", seed, d->text);
  }
  msc_context_free(ctx);
  return text;
}

static void same_layouts_again(void **state) {
  (void)state;
  int num = 0;
  for (uint64_t seed = 1; seed <= 80; seed++) {
    char *file = NULL, *again = NULL, *before = random_text(seed, false, &file);
    if (!before) continue;
    write_file(file);
    char *after = random_text(seed, true, &again);
    assert_non_null(after);
    assert_string_equal(after, before);
    assert_string_equal(again, file);
    free(before), free(after), free(file), free(again);
    num++;
  }
  assert_true(num > 60);
}

/* ---- faults ---- */

static const char model[] =
    "module {\n"
    "  \"msc.func\"() ({\n"
    "  ^bb0(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<4xf32>):\n"
    "    %0 = \"msc.matmul\"(%x, %w) {in_strategy = [[2, 2], [2, 1]]} : (tensor<8x16xf32>, tensor<16x4xf32>) -> "
    "tensor<8x4xf32> loc(\"dense\")\n"
    "    %1 = \"msc.add\"(%0, %b) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32> loc(\"dense\")\n"
    "    %2 = \"msc.relu\"(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32>\n"
    "    \"msc.return\"(%2) : (tensor<8x4xf32>) -> ()\n"
    "  }) {arg_attrs = [{msc.name = \"x\", msc.role = \"data\"}, {msc.name = \"w\", msc.role = \"parameter\"}, "
    "{msc.name = \"b\", msc.role = \"parameter\"}],\n"
    "      sym_name = \"forward\"} : () -> ()\n"
    "}\n";

static const char *const four[] = {"mesh={\"d\":4}", "parallel_mode=auto_parallel", "search_mode=sharding_propagation"};

static msc_module *parsed(msc_context *ctx) {
  msc_module *m = msc_parse(ctx, "model", model, sizeof model - 1);
  assert_non_null(m);
  return m;
}

static char *saved(void) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = parsed(ctx);
  assert_true(sharded(ctx, m, 3, four, false));
  char *text = strdup(msc_strategy_file(main_func(m), msc_context_arena(ctx)));
  msc_context_free(ctx);
  return text;
}

/* `text` with its first `old` replaced. */
static char *with(const char *text, const char *old, const char *new_text) {
  const char *at = strstr(text, old);
  if (!at) fail_msg("no %s in\n%s", old, text);
  char *out = calloc(1, strlen(text) + strlen(new_text) + 1);
  memcpy(out, text, (size_t)(at - text));
  strcat(strcat(out, new_text), at + strlen(old));
  return out;
}

/* Every message of loading the file, joined by newlines; "" when it loads. */
static char *complaints(int num_settings, const char *const *setting) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  bool ok = sharded(ctx, parsed(ctx), num_settings, setting, true);
  const char *text = "";
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next)
    if (d->severity == MSC_DIAG_ERROR)
      text = msc_arena_printf(msc_context_arena(ctx), "%s%s%s", text, *text ? "\n" : "", d->text);
  assert_int_equal(ok, !*text);
  char *copy = strdup(text);
  msc_context_free(ctx);
  return copy;
}

/* A hint that the file contradicts is not dropped without a word. */
static void hints_that_the_file_contradicts(void **state) {
  (void)state;
  static const struct { const char *hint, *warning; } cases[] = {
    {"in_strategy = [[2, 2], [2, 1]]", ""},
    {"in_strategy = [[4, 1], [1, 1]]",
     "in_strategy = [[4, 1], [1, 1]] of dense is not heeded: the strategy file decides, which says"},
    {"in_strategy = [[2, 2, 1], [2, 1]]", "in_strategy = [[2, 2, 1], [2, 1]] of dense is not heeded"},
    {"in_layout = [\"[{d},{}]\", \"[{},{}]\"]", "in_layout = [\"[{d},{}]\", \"[{},{}]\"] of dense is not heeded"},
    {"in_layout = [\"[{d:(1)2},{d:(2)2}]\", \"[{d:(2)2},{}]\"]", ""},
  };
  char *file = saved();
  write_file(file);
  free(file);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = with(model, "in_strategy = [[2, 2], [2, 1]]", cases[i].hint);
    msc_context *ctx = msc_context_new(NULL, NULL);
    msc_module *m = msc_parse(ctx, "model", text, strlen(text));
    assert_non_null(m);
    assert_true(sharded(ctx, m, 3, four, true));
    const msc_diag *d = msc_diags(ctx);
    if (*cases[i].warning ? !d || !strstr(d->text, cases[i].warning) : d != NULL)
      fail_msg("%s: %s", cases[i].hint, d ? d->text : "no warning");
    msc_context_free(ctx);
    free(text);
  }
}

static void file_is_as_documented(void **state) {
  (void)state;
  char *text = saved();
  static const char *const parts[] = {
      "\"version\": 1", "\"device_num\": 4", "\"mesh\": \"d=4\"", "\"dense\": {", "\"dense#2\": {", "\"%relu\": {",
      "\"by\": \"user\"", "\"by\": \"propagation\"",
          "\"in\": [\n     \"[{d:(1)2},{d:(2)2}]\",\n     \"[{d:(2)2},{}]\"\n    ]",
      "\"out\": [\n     \"[{d:(1)2},{}] partial={d:(2)2}\"\n    ]",
      "\"layout\": \"[{d:(2)2},{}]\",\n   \"device_matrix\": [\n    2,\n    2\n   ],\n   \"tensor_map\": [\n    0,\n   "
          " -1\n   ],\n   \"shape\": [\n    16,\n    4\n   ]"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(text, parts[i])) fail_msg("no %s in\n%s", parts[i], text);
  free(text);
}

static const struct { const char *old, *new_text, *complaint; } faults[] = {
    {"\"version\": 1", "\"version\": 2",
     "strategy file: an object with \"version\": 1, \"device_num\", \"ops\" and \"parameters\" is expected"},
    {"\"ops\"", "\"opps\"",
     "strategy file: an object with \"version\": 1, \"device_num\", \"ops\" and \"parameters\" is expected"},
    {"\"device_num\": 4", "\"device_num\": 8", "the strategy file is for 8 devices, device_num is 4"},
    {"\"d=4\"", "\"dp=2,tp=2\"", "the strategy file is for the mesh dp=2,tp=2, here it is d=4"},
    {"\"dense\": {", "\"dance\": {",
     "the model has an op dense that the strategy file does not name\nthe strategy file names an op dance that the "
     "model does not have"},
    {"\"w\": {", "\"v\": {",
     "the model has a parameter w that the strategy file does not name\nthe strategy file names a parameter v that the "
     "model does not have"},
    {"16,\n    4", "16,\n    5",
     "parameter w is tensor<16x4xf32> in the model and has the shape [16,5] in the strategy file"},
    {"\"shape\"", "\"size\"",
     "parameter w is tensor<16x4xf32> in the model and has the shape null in the strategy file"},
    {"\"dense#2\": {", "\"dense\": {", "strategy file: duplicate object key near '\"dense\"'"},
    {"\"ops\": {", "\"ops\": {,", "strategy file: string or '}' expected near ','"},
    {"\"[{d:(2)2},{}]\"\n", "\"[{d:(2)2}]\"\n",
     "strategy file: a layout of dense is [{d:(2)2}], its tensor has rank 2"},
    {"\"[{d:(2)2},{}]\"\n", "\"[{e},{}]\"\n", "layout \"[{e},{}]\": the mesh has no axis 'e'; did you mean 'd'?"},
    {"\"[{d:(2)2},{}]\"\n", "7\n", "strategy file: layout.in of dense must hold texts"},
    {",\n     \"[{d:(2)2},{}]\"\n", "\n",
     "strategy file: layout.in of dense must have one entry for each of its 2 operands"},
    {"\"[{d:(2)2},{}]\"\n", "\"[{},{}]\"\n",
     "in_layout: dimension 1 of operand 0 (a) and dimension 0 of operand 1 (b) are the same letter 'k' of matmul, but "
         "are cut by {d:(2)2} and {}"},
    {"\"by\": \"user\"", "\"by\": \"me\"",
     "strategy file: \"by\" of dense must be user, default, propagation or search"},
};

static void faults_are_named(void **state) {
  (void)state;
  char *text = saved();
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    char *changed = with(text, faults[i].old, faults[i].new_text);
    write_file(changed);
    char *told = complaints(3, four);
    assert_string_equal(told, faults[i].complaint);
    free(changed), free(told);
  }
  free(text);
}

/* Any prefix of a file is refused, with a message and no crash. */
static void truncated(void **state) {
  (void)state;
  char *text = saved();
  for (size_t n = strlen(text) - 3; n > 0; n = n * 9 / 10) {
    text[n] = 0;
    write_file(text);
    char *told = complaints(3, four);
    assert_true(*told);
    free(told);
  }
  free(text);
}

static void other_models(void **state) {
  (void)state;
  static const char *const eight[] = {"device_num=8", "parallel_mode=semi_auto_parallel"};
  char *text = saved();
  write_file(text);
  char *told = complaints(2, eight);
  assert_string_equal(told, "the strategy file is for 4 devices, device_num is 8");
  free(told);
  assert_int_equal(unlink(path), 0);
  told = complaints(3, four);
  assert_string_equal(told, "cannot read the strategy file: No such file or directory");
  free(told);
  write_file(text);
  told = complaints(3, four);
  assert_string_equal(told, "");
  free(told), free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_layouts_again),
                                     cmocka_unit_test(hints_that_the_file_contradicts),
                                     cmocka_unit_test(file_is_as_documented),
                                     cmocka_unit_test(faults_are_named),
                                     cmocka_unit_test(truncated),
                                     cmocka_unit_test(other_models)};
  return cmocka_run_group_tests(tests, make_file, drop_file);
}
