/* tables.c: builds the tables that the exact search minimises, as the search does, and checks that their least sum is
 * what the search reports.
 *
 *   tables MODEL.mlir MESH CLUSTER
 *
 * writes them instead, for an integer program (ilp.slow.py): the variables, with states and per state ns and bytes, and
 * the tables, each with its variables and entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "passes/3_shard/step_time_search/minimum.h"
#include "passes/3_shard/step_time_search/space.h"
#include "passes/config/config.h"

static const char network[] =
    "module {\n"
    "  \"msc.func\"() ({\n"
    "  ^bb0(%x: tensor<512x768xf32>, %y: tensor<512xi32>, %w: tensor<768x384xf32>, %v: tensor<384x384xf32>):\n"
    "    %0 = \"msc.matmul\"(%x, %w) : (tensor<512x768xf32>, tensor<768x384xf32>) -> tensor<512x384xf32> loc(\"in\")\n"
    "    %1 = \"msc.matmul\"(%0, %v) : (tensor<512x384xf32>, tensor<384x384xf32>) -> tensor<512x384xf32> loc(\"up\")\n"
    "    %2 = \"msc.add\"(%0, %1) : (tensor<512x384xf32>, tensor<512x384xf32>) -> tensor<512x384xf32> loc(\"add\")\n"
    "    %3 = \"msc.softmax_cross_entropy\"(%2, %y) : (tensor<512x384xf32>, tensor<512xi32>) -> tensor<f32> "
    "loc(\"loss\")\n"
    "    \"msc.return\"(%3) : (tensor<f32>) -> ()\n"
    "  }) {arg_attrs = [{msc.name = \"x\", msc.role = \"data\"}, {msc.name = \"y\", msc.role = \"label\"}, {msc.name = "
    "\"w\", msc.role = \"parameter\"}, {msc.name = \"v\", msc.role = \"parameter\"}],\n"
    "      loss = 0 : i64, optimizer = {kind = \"adam\", lr = 0.001 : f32}, results = [\"loss\"], sym_name = "
    "\"forward\"} : () -> ()\n"
    "}\n";

typedef struct {
  msc_config *config;
  msc_pass_options options;
  msc_pass_ctx pass;
  msc_cost cost;
  shard_graph g;
  shard_model m;
  shard_space *space;
  shard_problem p;
} tables;

static bool build_tables(msc_context *ctx, msc_module *m, const char *mesh, const char *cluster, tables *t) {
  msc_arena *a = msc_context_arena(ctx);
  t->config = msc_config_new(ctx);
  MSC_TRY(msc_config_set(t->config, "parallel_mode=auto_parallel") &&
          msc_config_set(t->config, "search_mode=dynamic_programming"));
  MSC_TRY(msc_config_set(t->config, msc_arena_printf(a, "mesh=%s", mesh)) && msc_config_check(t->config));
  t->options =
      (msc_pass_options){.until = "propagate", .config = t->config, .cluster = msc_cluster_named(ctx, cluster)};
  MSC_TRY(msc_run_passes(ctx, m, &t->options));
  t->pass = (msc_pass_ctx){
      .ctx = ctx, .scratch = a, .config = t->config, .options = &t->options, .info = msc_find_pass("search")};
  MSC_TRY(shard_graph_of(&t->pass, msc_find_func(m, "train"), &t->g));
  shard_model_of(&t->g, &t->m);
  msc_cost_of(t->options.cluster, t->g.mesh, &t->cost);
  shard_space_options o = {.free_pieces = UINT32_MAX, .max_states = 4096};
  MSC_TRY(shard_price_mesh(&t->m, &t->cost, false, shard_bucket_of(t->g.func), false, &o));
  return shard_space_of(&t->m, &o, a, &t->space) && shard_space_problem(t->space, &t->p);
}

static void after(void *user, const msc_pass_report *r) {
  for (const msc_pass_stat *s = r->stats; s; s = s->next)
    if (!strcmp(s->what, "ns")) *(int64_t *)user = s->count;
}

static bool compare(msc_context *ctx, void *arg) {
  (void)arg;
  tables t;
  int64_t least, bound, found = -1;
  msc_module *m = msc_parse(ctx, "network", network, strlen(network));
  assert_true(build_tables(ctx, m, "{\"a\": 2, \"b\": 4}", "h100", &t));
  shard_minimum(msc_context_arena(ctx), &t.p, 1 << 20, msc_new_array(msc_context_arena(ctx), int, t.p.num_vars), &least,
                &bound, NULL);
  msc_pass_options o = {.from = "search",
                        .until = "search",
                        .config = t.config,
                        .cluster = t.options.cluster,
                        .user = &found,
                        .after = after};
  assert_true(msc_run_passes(ctx, m, &o));
  assert_int_equal(least, found);
  assert_int_equal(least, bound);
  return true;
}

static void test_same_as_search(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  assert_true(msc_protect(ctx, compare, NULL));
  msc_context_free(ctx);
}

static void write_costs(size_t num, const int64_t *cost) {
  for (size_t i = 0; i < num; i++) printf(" %" PRId64, cost[i] < SHARD_IMPOSSIBLE ? cost[i] : -1);
  putchar('\n');
}

static bool write_tables(msc_context *ctx, void *arg) {
  char **argv = arg;
  static char text[1 << 24];
  tables t;
  FILE *f = fopen(argv[1], "r");
  size_t bytes = f ? fread(text, 1, sizeof text, f) : 0;
  msc_module *m = bytes ? msc_parse(ctx, argv[1], text, bytes) : NULL;
  MSC_TRY(m && build_tables(ctx, m, argv[2], argv[3], &t));
  size_t pairs = 0;
  for (size_t i = 0; i < t.p.num_tables; i++) pairs += t.p.table[i].b >= 0;
  printf("%d %zu\n", t.p.num_vars, pairs);
  for (int v = 0; v < t.p.num_vars; v++) {
    printf("%d", t.p.num_states[v]);
    write_costs((size_t)t.p.num_states[v], shard_class_of(t.space, v)->ns);
    write_costs((size_t)t.p.num_states[v], shard_class_of(t.space, v)->bytes);
  }
  for (size_t i = 0; i < t.p.num_tables; i++) {
    const shard_table *of = &t.p.table[i];
    if (of->b < 0) continue;
    printf("%d %d", of->a, of->b);
    write_costs((size_t)t.p.num_states[of->a] * (size_t)t.p.num_states[of->b], of->cost);
  }
  return true;
}

int main(int argc, char **argv) {
  if (argc == 4) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    bool ok = msc_protect(ctx, write_tables, argv);
    msc_context_free(ctx);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_search)};
  return cmocka_run_group_tests_name("passes/3_shard/tables", tests, NULL, NULL);
}
