/* cluster.c: checks that every fault of a cluster description is reported at its place, that the shipped
 * descriptions are complete, and costs computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "passes/time_model.h"

static int fresh(void **state) { return (*state = msc_context_new(NULL, NULL)) == NULL; }

static int gone(void **state) {
  msc_context_free(*state);
  return 0;
}

typedef struct {
  const char *text;
  const msc_cluster *cluster;
} job;

static bool read_it(msc_context *ctx, void *arg) {
  job *j = arg;
  j->cluster = msc_cluster_read(ctx, "c.json", j->text, strlen(j->text));
  return j->cluster != NULL;
}

static bool shipped(msc_context *ctx, void *arg) {
  (void)arg;
  static const char *const names[] = {"a100", "cpu", "h100", "h200"};
  for (int i = 0; i < 4; i++) {
    const msc_cluster *c = msc_cluster_named(ctx, names[i]);
    assert_non_null(c);
    assert_ptr_equal(msc_cluster_named(ctx, names[i]), c); /* prices of one description are found again */
  }
  assert_null(msc_cluster_named(ctx, "h101"));
  assert_string_equal(msc_cluster_names(msc_context_arena(ctx)), "a100, cpu, h100, h200");
  return true;
}

static void test_shipped(void **state) {
  assert_true(msc_protect(*state, shipped, NULL));
  assert_int_equal(msc_num_errors(*state), 0);
}

/* Line, column and the beginning of each message. */
static void test_faults(void **state) {
  static const struct { unsigned line, col; const char *text; } expected[] = {
    {4, 2, "unknown key 'colour'"},
    {2, 53, "unknown key 'device.memory_byte'; did you mean 'memory_bytes'?"},
    {2, 2, "device.memory_bytes is missing"},
    {2, 73, "device.bytes_per_s is -1"},
    {2, 92, "device.launch_ns is 0"},
    {2, 116, "unknown key 'device.gpu.arches'; did you mean 'arch'?"},
    {2, 108, "device.gpu.arch is missing"},
    {2, 130, "device.gpu.multiprocessors is 0.5"},
    {2, 42, "unknown key 'device.flops_per_s.f33'"},
    {2, 26, "device.flops_per_s.f32 is missing"},
    {3, 26, "levels.0.latency_ns is 1.5; it must be a whole number"},
    {3, 45, "levels.0.bytes_per_s must be a number"},
    {3, 13, "levels.0.size is missing"},
    {3, 68, "levels.1.name is missing"},
    {3, 68, "levels.1.latency_ns is missing"},
    {3, 68, "levels.1.bytes_per_s is missing"},
    {4, 67, "unknown key 'products.0.colums'; did you mean 'columns'?"},
    {4, 29, "products.0.type is 'f31', which is no element type"},
    {4, 28, "products.0.columns is missing"},
  };
  job j = {
      "{\n"
      " \"device\": {\"name\": \"x\", \"flops_per_s\": {\"f33\": 0}, \"memory_byte\": 3.5, \"bytes_per_s\": -1, "
      "\"launch_ns\": 0, \"gpu\": {\"arches\": 90, \"multiprocessors\": 0.5, \"clock_hz\": 1, \"memory_clock_hz\": 1, "
      "\"cache_bytes\": 1, \"shared_bytes\": 1, \"threads\": 1, \"blocks\": 1}},\n"
      " \"levels\": [{\"name\": \"n\",\"latency_ns\": 1.5, \"bytes_per_s\": \"big\"}, {}],\n"
      " \"colour\": 1, \"products\": [{\"type\": \"f31\", \"rows\": 1, \"inner\": 1, \"colums\": 1, \"ns\": 1}]}\n",
      NULL};
  assert_false(msc_protect(*state, read_it, &j));
  size_t i = 0;
  for (const msc_diag *d = msc_diags(*state); d; d = d->next, i++) {
    assert_true(i < sizeof expected / sizeof *expected);
    assert_memory_equal(d->text, expected[i].text, strlen(expected[i].text));
    if (d->loc->line != expected[i].line || d->loc->col != expected[i].col)
      fail_msg("%s at %u:%u", d->text, d->loc->line, d->loc->col);
  }
  assert_int_equal(i, sizeof expected / sizeof *expected);
}

static const char small[] =
    "{\"device\":{\"name\":\"x\",\"flops_per_s\":{\"f32\":1e12,\"bf16\":4e12},\"memory_bytes\":1000,\"bytes_per_s\":"
    "1e11,\"launch_ns\":100},"
    "\"levels\":[{\"name\":\"node\",\"size\":8,\"latency_ns\":10,\"bytes_per_s\":1e10},"
    "{\"name\":\"fabric\",\"latency_ns\":1000,\"bytes_per_s\":4e9,\"shared_by\":4}],"
    "\"collectives\":[{\"op\":\"all_gather\",\"ranks\":3,\"bytes\":100,\"ns\":1000},{\"op\":\"all_gather\",\"ranks\":3,"
    "\"bytes\":10000,\"ns\":4000}],"
    "\"products\":[{\"type\":\"bf16\",\"rows\":1000,\"inner\":500,\"columns\":1000,\"ns\":400000},"
    "{\"type\":\"bf16\",\"rows\":50,\"inner\":100,\"columns\":100,\"ns\":1000}]}";

/* What large products and small collectives reach, apart from peak and launch. */
static bool achieved(msc_context *ctx, void *arg) {
  (void)arg;
  static const char text[] =
      "{\"device\":{\"name\":\"x\",\"flops_per_s\":{\"f32\":1e12,\"bf16\":4e12},"
      "\"product_flops_per_s\":{\"bf16\":2e12},\"memory_bytes\":1000,\"bytes_per_s\":1e11,"
      "\"launch_ns\":100,\"collective_ns\":40},"
      "\"levels\":[{\"name\":\"node\",\"latency_ns\":10,\"bytes_per_s\":1e10}]}";
  const msc_cluster *cluster = msc_cluster_read(ctx, "c.json", text, strlen(text));
  msc_mesh mesh;
  msc_cost c;
  assert_non_null(cluster);
  assert_true(msc_mesh_parse(ctx, NULL, "x=8", &mesh));
  msc_cost_of(cluster, &mesh, &c);
  assert_int_equal(msc_cost_product(&c, MSC_BF16, 1e6, 0), 500);
  assert_int_equal(msc_cost_product(&c, MSC_F32, 1e6, 0), 1000); /* nothing is said: the peak */
  assert_int_equal(msc_cost_work(&c, MSC_BF16, 1e6, 0), 250);    /* no product */
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_REDUCE_SCATTER, 0, 8, 700, 0}), 40 + 7 * 10 + 70);
  return true;
}

static void test_achieved(void **state) {
  assert_true(msc_protect(*state, achieved, NULL));
  assert_int_equal(msc_num_errors(*state), 0);
}

/* Measured collectives of a level are of that level alone; where there are some, those that name none do not count. */
static bool measured_by_level(msc_context *ctx, void *arg) {
  (void)arg;
  static const char text[] =
      "{\"device\":{\"name\":\"x\",\"flops_per_s\":{\"f32\":1e12},\"memory_bytes\":1000,\"bytes_per_s\":1e11,"
      "\"launch_ns\":100,\"section_ns\":7000},"
      "\"levels\":[{\"name\":\"node\",\"size\":4,\"latency_ns\":10,\"bytes_per_s\":1e10},"
      "{\"name\":\"fabric\",\"latency_ns\":1000,\"bytes_per_s\":1e9}],"
      "\"collectives\":[{\"op\":\"all_reduce\",\"ranks\":4,\"bytes\":1000,\"ns\":5000,\"level\":\"node\"},"
      "{\"op\":\"all_reduce\",\"ranks\":2,\"bytes\":1000,\"ns\":300},"
      "{\"op\":\"all_reduce\",\"ranks\":2,\"bytes\":100,\"ns\":200,\"level\":\"fabric\"},"
      "{\"op\":\"all_reduce\",\"ranks\":2,\"bytes\":10,\"ns\":100}]}";
  const msc_cluster *cluster = msc_cluster_read(ctx, "c.json", text, strlen(text));
  msc_mesh mesh;
  msc_cost c;
  assert_non_null(cluster);
  assert_int_equal(cluster->section_ns, 7000);
  assert_true(msc_mesh_parse(ctx, NULL, "x=4,y=4", &mesh));
  msc_cost_of(cluster, &mesh, &c);
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_ALL_REDUCE, 0, 4, 1500, 0}), 5000);
  /* not measured: two rounds of a tree, twice */
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_ALL_REDUCE, 1, 4, 1500, 0}), 100 + 4000 + 1500);
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_ALL_REDUCE, 0, 2, 1000, 0}), 300);
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_ALL_REDUCE, 1, 2, 1000, 0}), 2000);
  return true;
}

static void test_measured_by_level(void **state) {
  assert_true(msc_protect(*state, measured_by_level, NULL));
  assert_int_equal(msc_num_errors(*state), 0);
}

/* A measured collective that names a level that there is not is a mistake. */
static void test_no_such_level(void **state) {
  job j = {
      "{\"device\":{\"name\":\"x\",\"flops_per_s\":{\"f32\":1e12},\"memory_bytes\":1000,"
      "\"bytes_per_s\":1e11,\"launch_ns\":100},"
      "\"levels\":[{\"name\":\"node\",\"latency_ns\":10,\"bytes_per_s\":1e10}],"
      "\"collectives\":[{\"op\":\"all_reduce\",\"ranks\":4,\"bytes\":1,\"ns\":5,\"level\":\"nodes\"}]}",
      NULL};
  assert_false(msc_protect(*state, read_it, &j));
  assert_string_equal(msc_diags(*state)->text, "collectives.0.level is 'nodes', which is none of the levels");
}

/* A rate above the peak is a mistake. */
static void test_above_peak(void **state) {
  job j = {"{\"device\":{\"name\":\"x\",\"flops_per_s\":{\"f32\":1e12},\"product_flops_per_s\":{\"f64\":2e12},"
           "\"memory_bytes\":1000,\"bytes_per_s\":1e11,\"launch_ns\":100},"
           "\"levels\":[{\"name\":\"node\",\"latency_ns\":10,\"bytes_per_s\":1e10}]}",
           NULL};
  assert_false(msc_protect(*state, read_it, &j));
  assert_string_equal(msc_diags(*state)->text, "device.product_flops_per_s.f64 is 2e+12, which exceeds the peak 1e+12");
}

/* A kernel of few blocks or few threads does not keep a GPU busy. */
static bool grids(msc_context *ctx, void *arg) {
  static const char gpu[] =
      "{\"device\":{\"name\":\"x\",\"flops_per_s\":{\"f32\":1e12},\"memory_bytes\":1000,\"bytes_per_s\":1e12,"
      "\"launch_ns\":100,\"gpu\":{\"arch\":90,\"multiprocessors\":100,\"clock_hz\":1e9,\"memory_clock_hz\":1e9,"
      "\"cache_bytes\":1000,\"shared_bytes\":1000,\"threads\":2000,\"blocks\":4}},"
      "\"levels\":[{\"name\":\"node\",\"latency_ns\":10,\"bytes_per_s\":1e10}]}";
  const msc_cluster *cluster = msc_cluster_read(ctx, "c.json", gpu, strlen(gpu));
  msc_mesh mesh;
  msc_cost c;
  (void)arg;
  assert_non_null(cluster);
  assert_true(msc_mesh_parse(ctx, NULL, "x=1", &mesh));
  msc_cost_of(cluster, &mesh, &c);
  assert_int_equal(msc_cost_kernel(&c, MSC_F32, 1e6, 0, (msc_cost_grid){0}), 1000);
  assert_int_equal(msc_cost_kernel(&c, MSC_F32, 1e6, 0, (msc_cost_grid){1000, 100}), 1000);
  assert_int_equal(msc_cost_kernel(&c, MSC_F32, 1e6, 0, (msc_cost_grid){50, 100}), 2000);  /* half are idle */
  assert_int_equal(msc_cost_kernel(&c, MSC_F32, 1e6, 0, (msc_cost_grid){125, 100}), 1600); /* 25 have two blocks */
  /* 32,000 threads, each of which asks for 32 bytes in 1,000 ns, would be 1.024e12 bytes a second */
  assert_int_equal(msc_cost_kernel(&c, MSC_F32, 0, 1e6, (msc_cost_grid){10000, 80}), 1000);
  assert_int_equal(msc_cost_kernel(&c, MSC_F32, 0, 1024e3, (msc_cost_grid){1, 1000}), 32000000 / 1000);
  assert_int_equal(msc_cost_kernel(&c, MSC_F32, 0, 1024e3, (msc_cost_grid){10000, 40}), 2000); /* 4 blocks at once */
  return true;
}

static void test_grids(void **state) { assert_true(msc_protect(*state, grids, NULL)); }

/* The level of an axis. */
static int level_in(msc_context *ctx, const msc_cluster *cluster, const char *text, uint16_t axis) {
  msc_mesh mesh;
  msc_cost c;
  assert_true(msc_mesh_parse(ctx, NULL, text, &mesh));
  msc_cost_of(cluster, &mesh, &c);
  return msc_cost_level(&c, (msc_subaxis){axis, 1, (uint32_t)mesh.axis[axis].size});
}

static bool costs(msc_context *ctx, void *arg) {
  (void)arg;
  const msc_cluster *cluster = msc_cluster_read(ctx, "c.json", small, strlen(small));
  msc_mesh mesh;
  msc_cost c;
  assert_non_null(cluster);
  assert_true(msc_mesh_parse(ctx, NULL, "x=4,y=16,z=2", &mesh));
  msc_cost_of(cluster, &mesh, &c);
  assert_int_equal(msc_cost_work(&c, MSC_F32, 1e6, 1e5), 1000);   /* both take a microsecond */
  assert_int_equal(msc_cost_work(&c, MSC_BF16, 8e6, 1e5), 2000);
  assert_int_equal(msc_cost_work(&c, MSC_F64, 0, 8), 100);        /* a launch */
  assert_int_equal(msc_cost_product(&c, MSC_BF16, 1e6, 0), 1000);  /* as measured */
  assert_int_equal(msc_cost_product(&c, MSC_BF16, 1e9, 0), 400000);
  assert_int_equal(msc_cost_product(&c, MSC_BF16, 31622776.6, 0), 20000); /* half way, log-log */
  assert_int_equal(msc_cost_product(&c, MSC_BF16, 1e6, 1e6), 10000);      /* memory is slower */
  assert_int_equal(msc_cost_product(&c, MSC_BF16, 5e5, 0), 500);         /* in proportion */
  assert_int_equal(msc_cost_product(&c, MSC_BF16, 4e12, 0), 1600000000);
  assert_int_equal(msc_cost_product(&c, MSC_F32, 1e6, 0), 1000);         /* no product of f32 was measured: the peak */
  assert_int_equal(msc_cost_level(&c, (msc_subaxis){2, 1, 2}), 0);
  assert_int_equal(msc_cost_level(&c, (msc_subaxis){1, 1, 16}), 1); /* 32 ranks */
  assert_int_equal(msc_cost_level(&c, (msc_subaxis){1, 4, 4}), 0);  /* its minor 4: 8 ranks with z */
  assert_int_equal(level_in(ctx, cluster, "x=6", 0), 0); /* all ranks fit one node, whatever divides it */
  assert_int_equal(level_in(ctx, cluster, "x=2,y=3", 0), 0);
  assert_int_equal(level_in(ctx, cluster, "x=3,y=3", 1), 1); /* the third three is on both nodes */
  assert_int_equal(msc_cost_inner_parts(&c, 1), 4);
  assert_int_equal(msc_cost_inner_parts(&c, 0), 1);
  assert_int_equal(msc_cost_inner_parts(&c, 2), 1);
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_REDUCE_SCATTER, 0, 8, 700, 0}), 100 + 7 * 10 + 70);
  /* two rounds of a tree, twice */
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_ALL_REDUCE, 1, 4, 1000, 0}), 100 + 4 * 1000 + 1000);
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_PERMUTE, 0, 8, 100, 0}), 100 + 10 + 10);
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_EXCHANGE, 0, 8, 100, 3}), 100 + 30 + 10);
  assert_int_equal(msc_cost_shared(&c, &(msc_cost_transfer){MSC_REDUCE_SCATTER, 0, 8, 700, 0}, 17), 10 + 70);
  /* 3000 bytes gathered: 1000 * 4^(log 30 / log 100) */
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_ALL_GATHER, 1, 3, 2000, 0}), 2784);
  /* of 1000 at the smallest size */
  assert_int_equal(msc_cost_shared(&c, &(msc_cost_transfer){MSC_ALL_GATHER, 1, 3, 2000, 0}, 4), 2784 - 750);
  assert_int_equal(msc_cost_collective(&c, &(msc_cost_transfer){MSC_ALL_GATHER, 1, 1, 2000, 0}), 0);
  return true;
}

static void test_costs(void **state) { assert_true(msc_protect(*state, costs, NULL)); }

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_shipped, fresh, gone),
    cmocka_unit_test_setup_teardown(test_faults, fresh, gone),
    cmocka_unit_test_setup_teardown(test_achieved, fresh, gone),
    cmocka_unit_test_setup_teardown(test_measured_by_level, fresh, gone),
    cmocka_unit_test_setup_teardown(test_no_such_level, fresh, gone),
    cmocka_unit_test_setup_teardown(test_above_peak, fresh, gone),
    cmocka_unit_test_setup_teardown(test_grids, fresh, gone),
    cmocka_unit_test_setup_teardown(test_costs, fresh, gone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
