/* layouts.c: a checkpoint of every layout is loaded by every other: ranks, replicas, cut matrices with even, uneven and
 * empty parts, stages, the parallel optimizer. All values are equal bit for bit, no rank reads a byte more than it
 * needs, and each element is saved once. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/compile.h"
#include "runtime/data/rank_slices.h"
#include "runtime/execute/execute.h"

#define MAX_RANKS 8

#define DP          "parallel_mode=data_parallel"
#define SEMI        "parallel_mode=semi_auto_parallel"
#define ALL_SHARDED "parallel_optimizer_config={\"parallel_optimizer_threshold\": 0}"

/* in_layout: of the operands of the last product; stages: of the pipeline */
static const struct {
  int ranks, stages;
  const char *in_layout, *setting[4];
} layouts[] = {
    {1, 1, "", {0}},
    {2, 1, "", {DP}},
    {3, 1, "", {DP}},
    {8, 1, "", {DP}},
    {2, 1, "", {DP, "zero=1", ALL_SHARDED}},
    {3, 1, "", {DP, "zero=1", ALL_SHARDED}},
    {4, 1, "", {DP, "zero=2", ALL_SHARDED}},
    {8, 1, "", {DP, "zero=3", ALL_SHARDED}},
    {6, 1, "", {DP, "zero=3", ALL_SHARDED}},
    {4, 1, "", {DP, "zero=1", ALL_SHARDED, "integrated_save=true"}},
    {2, 1, "\"[{},{}]\", \"[{},{d}]\"", {SEMI, "mesh={\"d\": 2}"}},
    {2, 1, "\"[{},{d}]\", \"[{d},{}]\"", {SEMI, "mesh={\"d\": 2}"}},
    {3, 1, "\"[{},{}]\", \"[{},{d}]\"", {SEMI, "mesh={\"d\": 3}"}},
    {3, 1, "\"[{},{d}/(1,3,2)]\", \"[{d}/(1,3,2),{}]\"", {SEMI, "mesh={\"d\": 3}"}},
    {4, 1, "\"[{},{x}]\", \"[{x},{y}]\"", {SEMI, "mesh={\"x\": 2, \"y\": 2}"}},
    {5, 1, "\"[{},{d}]\", \"[{d},{}]\"", {SEMI, "mesh={\"d\": 5}"}},
    {8, 1, "\"[{},{}]\", \"[{},{d}]\"", {SEMI, "mesh={\"d\": 8}"}},
    {8, 1, "\"[{x},{}]\", \"[{},{y}]\"", {SEMI, "mesh={\"x\": 2, \"y\": 4}", "zero=1", ALL_SHARDED}},
    {4, 1, "\"[{x},{y}]\", \"[{y},{}]\"", {SEMI, "mesh={\"x\": 2, \"y\": 2}", "zero=3", ALL_SHARDED}},
    {4, 1, "", {"parallel_mode=auto_parallel", "mesh={\"a\": 2, \"b\": 2}"}},
    {2, 2, "", {SEMI, "pipeline_stages=2"}},
    {4, 2, "", {SEMI, "pipeline_stages=2", "mesh={\"dp\": 2}"}},
    {8, 2, "", {SEMI, "pipeline_stages=2", "zero=1", ALL_SHARDED}},
    {3, 3, "", {SEMI, "pipeline_stages=3", "integrated_save=true"}},
};
enum { NUM = sizeof layouts / sizeof *layouts };

/* The product with w is split in three, for which a rank sees w with three dimensions; v is used by two stages. */
static const char model[] =
    "module {\n"
    "  \"msc.func\"() ({\n"
    "  ^bb0(%%x: tensor<24x10xf32>, %%y: tensor<24xi32>, %%w: tensor<10x18xf32>, %%b: tensor<18xf32>,"
    " %%v: tensor<6x6xf32>, %%u: tensor<6x11xf32>):\n"
    "    %%0 = \"msc.matmul\"(%%x, %%w) : (tensor<24x10xf32>, tensor<10x18xf32>) -> tensor<24x18xf32>\n"
    "    %%1 = \"msc.add\"(%%0, %%b) : (tensor<24x18xf32>, tensor<18xf32>) -> tensor<24x18xf32>\n"
    "    %%2:3 = \"msc.split\"(%%1) {dim = 1 : i64, sizes = [6, 6, 6]} : (tensor<24x18xf32>) -> (tensor<24x6xf32>,"
    " tensor<24x6xf32>, tensor<24x6xf32>)\n"
    "    %%3 = \"msc.mul\"(%%2#0, %%2#1)%s : (tensor<24x6xf32>, tensor<24x6xf32>) -> tensor<24x6xf32>\n"
    "    %%4 = \"msc.matmul\"(%%3, %%v)%s : (tensor<24x6xf32>, tensor<6x6xf32>) -> tensor<24x6xf32>\n"
    "    %%5 = \"msc.add\"(%%4, %%2#2) : (tensor<24x6xf32>, tensor<24x6xf32>) -> tensor<24x6xf32>\n"
    "    %%6 = \"msc.matmul\"(%%5, %%v) : (tensor<24x6xf32>, tensor<6x6xf32>) -> tensor<24x6xf32>\n"
    "    %%7 = \"msc.matmul\"(%%6, %%u)%s : (tensor<24x6xf32>, tensor<6x11xf32>) -> tensor<24x11xf32>\n"
    "    %%8 = \"msc.softmax_cross_entropy\"(%%7, %%y) : (tensor<24x11xf32>, tensor<24xi32>) -> tensor<f32>\n"
    "    \"msc.return\"(%%8) : (tensor<f32>) -> ()\n"
    "  }) {sym_name = \"forward\", loss = 0 : i64, results = [\"loss\"],\n"
    "      optimizer = {kind = \"adam\", lr = 0.01 : f64},\n"
    "      arg_attrs = [{msc.name = \"x\", msc.role = \"data\"}, {msc.name = \"y\", msc.role = \"label\"},\n"
    "                   {msc.name = \"w\", msc.role = \"parameter\", msc.init = \"normal:0.3\"},\n"
    "                   {msc.name = \"b\", msc.role = \"parameter\", msc.init = \"normal:0.3\"},\n"
    "                   {msc.name = \"v\", msc.role = \"parameter\", msc.init = \"normal:0.3\"},\n"
    "                   {msc.name = \"u\", msc.role = \"parameter\", msc.init = \"normal:0.3\"}]} : () -> ()\n"
    "}\n";

static mscrt_plan *plans[NUM];
static char folder[64];

/* ---- plans ---- */

static mscrt_plan *compile_layout(int i) {
  char text[4096], stage[3][128] = {""}, set[64];
  msc_context *ctx = msc_context_new(NULL, NULL);
  assert_non_null(ctx);
  msc_config *config = msc_config_new(ctx);
  snprintf(set, sizeof set, "device_num=%d", layouts[i].ranks);
  assert_true(msc_config_set(config, set));
  for (int k = 0; k < 4 && layouts[i].setting[k]; k++) assert_true(msc_config_set(config, layouts[i].setting[k]));
  if (*layouts[i].in_layout) snprintf(stage[2], sizeof stage[2], " {in_layout = [%s]}", layouts[i].in_layout);
  for (int s = 0; s < 3 && layouts[i].stages > 1; s++)
    snprintf(stage[s], sizeof stage[s], " {pipeline_stage = %d : i64}",
             s < layouts[i].stages ? s : layouts[i].stages - 1);
  snprintf(text, sizeof text, model, stage[0], stage[1], stage[2]);
  msc_target_words words = {0};
  msc_model_bytes bytes = {.name = "layouts.mlir", .data = text, .bytes = strlen(text)};
  msc_compile_options o = {.config = config, .verify = MSC_VERIFY_IR, .model = "layouts"};
  msc_compiled c = {0};
  if (!msc_config_check(config) || !msc_code_target_of(ctx, &words, &o.target) ||
      !msc_compile_model(ctx, &bytes, &o, &c) || msc_num_errors(ctx))
    fail_msg("layout %d: %s", i, msc_diags(ctx) ? msc_diags(ctx)->text : "?");
  mscrt_plan_options trust = {.struct_size = sizeof trust, .trust_native = true};
  mscrt_plan *p = NULL;
  assert_null(mscrt_plan_open(c.bytes, c.num_bytes, &trust, &p));
  msc_context_free(ctx);
  return p;
}

/* ---- values ---- */

/* Element `at` of a parameter: all differ, and are finite numbers of its type. */
static uint64_t value_of(const char *name, uint64_t at) {
  uint32_t key[2] = {(uint32_t)name[0] * 131u + (uint32_t)name[strlen(name) - 1], (uint32_t)strlen(name)}, out[4];
  uint32_t counter[4] = {(uint32_t)at, 0, 0, 7};
  mscrt_philox(counter, key, out);
  return out[0];
}

static void put_value(mscrt_dtype d, uint64_t v, void *out) {
  int64_t whole = (int64_t)(v % 100000);
  mscrt_convert(d, out, 1, MSCRT_I64, &whole, false, false, 1);
}

/* Element numbers of a box of the variable, in its own shape; checks or sets its values in the buffer. */
typedef struct {
  const mscrt_variable *v;
  uint8_t *data;
  bool check;
  int64_t wrong;
} visiting;

static void visit_run(void *user, int64_t in_buffer, int64_t element, int64_t num) {
  visiting *k = user;
  size_t bytes = mscrt_dtype_bytes(k->v->dtype);
  for (int64_t i = 0; i < num; i++) {
    uint8_t want[8], *at = k->data + (size_t)(in_buffer + i) * bytes;
    put_value(k->v->dtype, value_of(k->v->name, (uint64_t)(element + i)), want);
    if (!k->check) memcpy(at, want, bytes);
    else if (memcmp(at, want, bytes)) k->wrong++;
  }
}

static int64_t visit_rank(mscrt_context *c, bool check) {
  int64_t wrong = 0;
  for (uint32_t i = 0; i < c->plan->num_parameters; i++) {
    const mscrt_variable *v = &c->plan->parameter[i];
    msc_box box, buffer, whole = {0};
    if (v->stage != c->stage) continue;
    visiting k = {v, mscrt_address_of(c, v->ref, 0), check, 0};
    memcpy(whole.size, v->shape, sizeof whole.size);
    mscrt_variable_box(c->plan, v, c->o.rank, &box, &buffer);
    msc_box_runs(v->rank, &box, &buffer, &whole, visit_run, &k);
    wrong += k.wrong;
  }
  return wrong;
}

/* ---- ranks ---- */

typedef struct {
  int layout, from; /* from: -1: saves; else loads that one's */
  char address[48];
  int64_t wrong[MAX_RANKS];
  uint64_t read[MAX_RANKS], needed[MAX_RANKS];
  char failed[MAX_RANKS][400];
} job;

typedef struct {
  job *j;
  int rank;
} one_rank;

static void path_of(int layout, char out[128]) { snprintf(out, 128, "%s/%d", folder, layout); }

static void *run_rank(void *arg) {
  one_rank *r = arg;
  job *j = r->j;
  char path[128];
  mscrt_context *c = NULL;
  mscrt_options o = {.struct_size = sizeof o,
                     .rank = r->rank,
                     .ranks = layouts[j->layout].ranks,
                     .threads = 1,
                     .address = layouts[j->layout].ranks > 1 ? j->address : NULL,
                     .no_init = true,
                     .seed = 77,
                     .timeout_ms = 60000};
  path_of(j->from < 0 ? j->layout : j->from, path);
  mscrt_status *s = mscrt_open(plans[j->layout], &o, &c);
  if (!s && j->from < 0) {
    c->step = 5;
    visit_rank(c, false);
    s = mscrt_checkpoint(c, path);
  } else if (!s) {
    s = mscrt_resume(c, path);
    j->wrong[r->rank] = s ? 0 : visit_rank(c, true);
    if (!s && (c->step != 5 || c->o.seed != 77)) j->wrong[r->rank]++;
    mscrt_stats stats = {.struct_size = sizeof stats};
    mscrt_get_stats(c, &stats);
    j->read[r->rank] = stats.loaded_bytes;
    j->needed[r->rank] = stats.needed_bytes;
  }
  if (s) snprintf(j->failed[r->rank], sizeof *j->failed, "%s", mscrt_status_text(s));
  mscrt_status_free(s);
  mscrt_close(c);
  return NULL;
}

static void run_job(int layout, int from) {
  static int number;
  pthread_t thread[MAX_RANKS];
  one_rank rank[MAX_RANKS];
  job j = {.layout = layout, .from = from};
  snprintf(j.address, sizeof j.address, "@msc-layouts-%d-%d", getpid(), number++);
  for (int r = 0; r < layouts[layout].ranks; r++) rank[r] = (one_rank){&j, r};
  for (int r = 1; r < layouts[layout].ranks; r++)
    assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &rank[r]), 0);
  run_rank(&rank[0]);
  for (int r = 1; r < layouts[layout].ranks; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < layouts[layout].ranks; r++) {
    if (*j.failed[r]) fail_msg("layout %d from %d, rank %d: %s", layout, from, r, j.failed[r]);
    if (j.wrong[r]) fail_msg("layout %d from %d, rank %d: %d values differ", layout, from, r, (int)j.wrong[r]);
    if (j.read[r] != j.needed[r])
      fail_msg("layout %d from %d, rank %d: %d bytes read, %d needed", layout, from, r, (int)j.read[r],
               (int)j.needed[r]);
  }
}

/* ---- tests ---- */

static int make_all(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/msc-layouts-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  for (int i = 0; i < NUM; i++) {
    plans[i] = compile_layout(i);
    run_job(i, -1);
  }
  return 0;
}

static int drop_all(void **state) {
  char path[128];
  (void)state;
  for (int i = 0; i < NUM; i++) {
    path_of(i, path);
    mscrt_status_free(mscrt_remove_folder(path));
    mscrt_plan_close(plans[i]);
  }
  return rmdir(folder);
}

static void test_layouts_differ(void **state) {
  int seen_view = 0, stages = 0, empty = 0;
  (void)state;
  for (int i = 0; i < NUM; i++) {
    stages += plans[i]->num_stages > 1;
    for (uint32_t k = 0; k < plans[i]->num_parameters; k++) {
      const mscrt_variable *v = &plans[i]->parameter[k];
      msc_box box, buffer;
      seen_view += v->rank != v->model_rank;
      for (int r = 0; r < plans[i]->ranks; r++) {
        mscrt_variable_box(plans[i], v, r, &box, &buffer);
        empty += !msc_box_elems(v->rank, &box);
      }
    }
  }
  assert_true(seen_view > 0 && stages == 4 && empty > 0);
}

/* Every element is in one file, once, and the folder holds no more files than ranks. */
static void test_slices(void **state) {
  char path[128];
  (void)state;
  for (int i = 0; i < NUM; i++) {
    mscrt_archive a;
    uint64_t bytes = 0;
    path_of(i, path);
    assert_null(mscrt_archive_open(path, &a));
    assert_null(mscrt_archive_verify(&a));
    for (uint32_t k = 0; k < a.num; k++)
      bytes += mscrt_stored_elems(&a.tensor[k]) * mscrt_dtype_bytes(a.tensor[k].dtype);
    assert_int_equal(bytes, 4 * (3 * (10 * 18 + 18 + 36 + 66)) + 4); /* with two states each, and the step */
    bool merged = a.num_files == 1 && !strcmp(a.file[0].name, "model.safetensors");
    bool wants = strstr(mscrt_plan_config(plans[i]), "\"integrated_save\":{\"value\":true") ||
                 strstr(mscrt_plan_config(plans[i]), "\"integrated_save\": {\"value\": true");
    assert_int_equal(merged, wants);
    assert_in_range(a.num_files, 1, layouts[i].ranks);
    mscrt_archive_close(&a);
  }
}

static void test_pairs(void **state) {
  (void)state;
  for (int from = 0; from < NUM; from++)
    for (int to = 0; to < NUM; to++) run_job(to, from);
  printf("%d pairs of layouts\n", NUM * NUM);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_layouts_differ),
      cmocka_unit_test(test_slices),
      cmocka_unit_test(test_pairs),
  };
  return cmocka_run_group_tests(tests, make_all, drop_all);
}
