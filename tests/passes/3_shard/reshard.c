/* The redistribution planner against a brute force that knows nothing of its search: states are all layouts of a small
 * mesh, an edge exists where the layout check allows the verb, and its bytes are counted from the pull lists
 * of all ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/passes/3_shard/brute_force.h"

static void expect_all_pairs(const char *mesh_text, int rank, const int64_t *dim, bool partials, int stride,
                             bool alltoall) {
  set_mesh(mesh_text);
  msc_atoms atoms;
  msc_layout raw = {.rank = (uint8_t)rank};
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  num_states = 0;
  list_states(&atoms, 0, raw, partials);
  const msc_type *t = msc_type_of(ctx, MSC_F32, rank, dim, NULL);
  brute_edges(t, alltoall, alltoall);
  brute_best(0);
  msc_reshard *r = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.no_alltoall = !alltoall});
  for (int i = 0; i < num_states * num_states; i += stride)
    expect_optimum(t, r, i / num_states, i % num_states, i % 7 == 0);
}

static void test_all_pairs(void **state) {
  (void)state;
  expect_all_pairs("x=2,y=3", 1, (int64_t[]){12}, true, 1, true);
  expect_all_pairs("x=2,y=3", 2, (int64_t[]){12, 6}, true, 1, true);
  expect_all_pairs("x=4,y=2", 1, (int64_t[]){16}, true, 1, true);
  expect_all_pairs("x=2,y=2,z=2", 1, (int64_t[]){8}, true, 1, true);
  expect_all_pairs("x=2,y=2,z=2", 2, (int64_t[]){8, 16}, true, 3, true);
  expect_all_pairs("x=2,y=2,z=2", 2, (int64_t[]){8, 16}, false, 1, false);
}

/* Against the best plan of collectives: an exchange is there if and only if it is cheaper. */
static void expect_no_dearer(const char *mesh_text, int rank, const int64_t *dim, int stride) {
  set_mesh(mesh_text);
  msc_atoms atoms;
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  num_states = 0;
  list_states(&atoms, 0, (msc_layout){.rank = (uint8_t)rank}, true);
  const msc_type *t = msc_type_of(ctx, MSC_F32, rank, dim, NULL);
  brute_edges(t, true, false);
  brute_best(0);
  msc_reshard *r = msc_reshard_new(ctx, &mesh, NULL);
  for (int i = 0; i < num_states * num_states; i += stride) {
    int u = i / num_states, v = i % num_states;
    msc_reshard_plan p;
    if (!msc_layout_fits(states[u], t) || !msc_layout_fits(states[v], t)) continue;
    if (!msc_reshard_plan_of(r, t, states[u], states[v], &p)) {
      assert_true(best[u][v].bytes >= NEVER.bytes);
      continue;
    }
    expect_works(t, states[u], states[v], &p);
    price own = price_of(&p);
    if (own.exchanges ? own.bytes >= best[u][v].bytes : own.bytes != best[u][v].bytes)
      fail_msg("%s -> %s: %ld bytes, %d exchanges; collectives %ld", text_of(states[u]), text_of(states[v]),
               (long)own.bytes, own.exchanges, (long)best[u][v].bytes);
  }
}

static bool slow_tests(void) {
  if (getenv("MSC_TEST_SLOW")) return true;
  printf("skipped: set MSC_TEST_SLOW to run it\n");
  return false;
}

static void test_all_pairs_of_rank_3(void **state) {
  (void)state;
  if (!slow_tests()) return;
  expect_all_pairs("x=2,y=3", 3, (int64_t[]){12, 6, 6}, true, 1, true);
  expect_all_pairs("x=4,y=2", 3, (int64_t[]){8, 8, 8}, true, 1, true);
  expect_all_pairs("x=2,y=2,z=2", 3, (int64_t[]){8, 16, 8}, true, 1, true);
  expect_all_pairs("x=2,y=3,z=2", 3, (int64_t[]){12, 24, 12}, true, 1, true);
  expect_all_pairs("x=4,y=3", 2, (int64_t[]){24, 12}, true, 1, true);
  expect_no_dearer("x=4,y=4", 2, (int64_t[]){32, 16}, 7);
  expect_no_dearer("x=4,y=4", 2, (int64_t[]){4, 16}, 7);
  expect_all_pairs("a=2,b=2,c=2,d=2", 1, (int64_t[]){16}, true, 1, true);
}

/* The least peak over all paths: the limit that is named when none fits. */
static int64_t brute_needed_peak(const msc_type *t, int u, int v) {
  int64_t peak[MAX_STATES];
  for (int i = 0; i < num_states; i++) peak[i] = INT64_MAX;
  peak[u] = u == v ? msc_local_bytes(msc_type_with_layout(ctx, t, states[u])) : 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int a = 0; a < num_states; a++)
      for (int b = 0; b < num_states && peak[a] < INT64_MAX; b++) {
        int64_t p = peak[a] > edge_peak[a][b] ? peak[a] : edge_peak[a][b];
        if (edge_peak[a][b] < INT64_MAX && a != b && p < peak[b]) peak[b] = p, changed = true;
      }
  }
  return peak[v];
}

/* With a limit the plan is the best of those that keep it.  An exchange into anything but the target (or parts of its
 * parts) is not looked for, which costs nothing without a limit; with one, collectives and that
 * exchange are compared. */
static void test_limits(void **state) {
  (void)state;
  set_mesh("x=2,y=2,z=2");
  msc_atoms atoms;
  num_states = 0;
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  list_states(&atoms, 0, (msc_layout){.rank = 2}, true);
  const msc_type *t = msc_type_of(ctx, MSC_F32, 2, (int64_t[]){8, 16}, NULL);
  brute_edges(t, false, false);
  for (int64_t limit = 64; limit <= 1024; limit += 96) {
    msc_reshard *r = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.peak = limit, .no_alltoall = true});
    brute_best(limit);
    for (int i = 0; i < num_states * num_states; i += 23) {
      int u = i / num_states, v = i % num_states;
      msc_reshard_plan p;
      if (u == v || edge_peak[u][v] <= 0) continue;
      bool ok = msc_reshard_plan_of(r, t, states[u], states[v], &p);
      assert_int_equal(ok, best[u][v].bytes < NEVER.bytes);
      if (ok) assert_int_equal(compare(price_of(&p), best[u][v]), 0);
      if (ok) assert_true(p.peak_bytes <= limit);
      int64_t needed = brute_needed_peak(t, u, v);
      if (!ok) assert_int_equal(p.needed_peak, needed == INT64_MAX ? 0 : needed);
    }
  }
}

/* ---- known cases ---- */

typedef struct {
  const char *mesh, *from, *to;
  int rank;
  int64_t dim[4];
  msc_dtype dtype; /* of the right size */
  int64_t bytes, lower_bound, peak, limit;
  const char *steps;
} known;

static const known cases[] = {
  {"x=8", "[{x},{}]", "[{},{}]", 2, {8192, 4096}, MSC_F16, 58720256, 58720256, 75497472, 0, "all_gather"},
  {"x=8", "[{},{}] partial={x}", "[{},{x}]", 2, {8192, 4096}, MSC_F16, 58720256, -1, 75497472, 0, "reduce_scatter"},
  {"d=2,t=8", "[{d},{t},{},{}]", "[{d},{},{t},{}]", 4, {16, 4096, 64, 128}, MSC_F16, 58720256, 58720256, 134217728, 0,
   "all_to_all"},
  {"x=4,y=2", "[{y},{},{x}]", "[{},{x,y},{}]", 3, {16, 16, 16}, MSC_F32, 1792, 1792, 4096, 0, "all_to_all"},
  {"x=4", "[{x},{},{},{}]", "[{x:(1)2},{},{},{x:(2)2}]", 4, {64, 32, 32, 640}, MSC_F16, 10485760, 10485760, 41943040, 0,
   "all_to_all"},
  {"x=4,y=4", "[{x},{}]", "[{y},{}]", 2, {4096, 1024}, MSC_F32, 4194304, 4194304, 8388608, 0, "permute"},
  {"x=2,y=4", "[{x},{}]", "[{y},{}]", 2, {4096, 1024}, MSC_F32, 4194304, 4194304, 8388608, 0, "shard permute"},
  {"x=2,y=4", "[{x,y},{}]", "[{y,x},{}]", 2, {4096, 1024}, MSC_F16, 1048576, 1048576, 2097152, 0, "permute"},
  {"x=8", "[{},{}] partial={x}", "[{},{}]", 2, {1024, 4096}, MSC_F32, 29360128, -1, 33554432, 0, "all_reduce"},
  {"x=8", "[{},{}] partial={x}", "[{},{}]", 2, {1024, 4096}, MSC_F32, 29360128, -1, 18874368, 25165824,
   "reduce_scatter all_gather"},
};

static void test_known_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const known *k = &cases[i];
    set_mesh(k->mesh);
    const msc_type *t = msc_type_of(ctx, k->dtype, k->rank, k->dim, NULL);
    msc_reshard *r = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.peak = k->limit});
    msc_reshard_plan p;
    assert_true(msc_reshard_plan_of(r, t, layout_of(k->from), layout_of(k->to), &p));
    expect_works(t, layout_of(k->from), layout_of(k->to), &p);
    assert_int_equal(p.bytes, k->bytes);
    assert_int_equal(p.lower_bound, k->lower_bound);
    assert_int_equal(p.peak_bytes, k->peak);
    assert_string_equal(steps_text(&p), k->steps);
    assert_true(p.proven);
  }
}

/* {"x": 4, ...} of the cases' mesh: [["x",4],["y",2]] */
static void set_json_mesh(json_t *j) {
  const char *text = "";
  size_t i;
  json_t *axis;
  json_array_foreach(j, i, axis) text =
      msc_arena_printf(arena, "%s%s%s=%d", text, i ? "," : "", json_string_value(json_array_get(axis, 0)),
                       (int)json_integer_value(json_array_get(axis, 1)));
  set_mesh(text);
}

static int64_t field(json_t *j, const char *name) {
  json_t *v = json_object_get(j, name);
  return json_is_integer(v) ? json_integer_value(v) : -1;
}

static void run_case(json_t *j) {
  static const msc_dtype of_bytes[] = {[1] = MSC_I8, [2] = MSC_F16, [4] = MSC_F32, [8] = MSC_F64};
  msc_reshard_options options = {0};
  json_t *shape = json_object_get(j, "shape"), *opts = json_object_get(j, "opts"), *ab = json_object_get(opts, "ab");
  int64_t dim[MSC_MAX_RANK];
  set_json_mesh(json_object_get(j, "mesh"));
  for (size_t i = 0; i < json_array_size(shape); i++) dim[i] = json_integer_value(json_array_get(shape, i));
  const msc_type *t = msc_type_of(ctx, of_bytes[field(j, "elem_bytes")], (int)json_array_size(shape), dim, NULL);
  options.peak = json_object_get(opts, "peak") ? field(opts, "peak") : 0;
  options.time = ab != NULL, options.launch_ns = 10e3, options.num_links = ab ? mesh.num_axes : 0;
  for (int a = 0; a < mesh.num_axes && ab; a++) {
    json_t *link = json_object_get(ab, mesh.axis[a].name);
    options.link[a] =
        link_of(a, json_number_value(json_array_get(link, 0)), json_number_value(json_array_get(link, 1)));
  }
  const msc_layout *from = layout_of(json_string_value(json_object_get(j, "src_text"))),
                   *to = layout_of(json_string_value(json_object_get(j, "dst_text")));
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, &options), t, from, to, &p));
  expect_works(t, from, to, &p);
  assert_true(p.bytes <= field(j, "optimal_wire_bytes_per_device"));
  assert_int_equal(p.lower_bound, field(j, "lower_bound_bytes_direct_exchange"));
  assert_true(p.peak_bytes <= field(j, "peak_bytes"));
  if (ab) assert_true((double)p.ns <= json_number_value(json_object_get(j, "time_us")) * 1e3 + 3);
}

static void test_cases_file(void **state) {
  (void)state;
  FILE *f = fopen("../shared/cases/reshard.jsonl", "r");
  char *line = NULL;
  size_t cap = 0;
  if (!f) {
    printf("skipped: no ../shared/cases/reshard.jsonl\n");
    return;
  }
  while (getline(&line, &cap, f) > 0) {
    json_t *j = json_loads(line, 0, NULL);
    assert_non_null(j);
    run_case(j);
    json_decref(j);
  }
  free(line);
  fclose(f);
}

/* ---- random layouts ---- */

static const msc_layout *random_layout(int rank, bool partials) {
  msc_atoms atoms;
  msc_layout raw = {.rank = (uint8_t)rank};
  int place[MSC_MAX_SUBAXES], num = 0;
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  for (int i = atoms.num - 1; i > 0; i--) {
    int j = roll(i + 1);
    msc_subaxis s = atoms.atom[i];
    atoms.atom[i] = atoms.atom[j], atoms.atom[j] = s;
  }
  for (int i = 0; i < atoms.num; i++) place[i] = roll(rank + 2);
  for (int d = 0; d <= rank; d++) {
    raw.first[d] = (uint8_t)num;
    for (int i = 0; i < atoms.num; i++)
      if (place[i] == d && (d < rank || partials)) raw.sub[num++] = atoms.atom[i];
  }
  raw.num_partial = (uint8_t)(num - raw.first[rank]);
  return msc_layout_of(ctx, &mesh, &raw);
}

/* No detour is cheaper than the plan. */
static void expect_triangles(const char *mesh_text, const msc_reshard_options *options, int num) {
  set_mesh(mesh_text);
  msc_reshard *r = msc_reshard_new(ctx, &mesh, options);
  const msc_type *t = msc_type_of(ctx, MSC_F32, 3, (int64_t[]){24, 48, 24}, NULL);
  for (int i = 0; i < num; i++) {
    const msc_layout *a = random_layout(3, true), *b = random_layout(3, roll(4) == 0),
                     *c = random_layout(3, roll(8) == 0);
    int64_t ab = msc_reshard_cost(r, t, a, b), bc = msc_reshard_cost(r, t, b, c), ac = msc_reshard_cost(r, t, a, c);
    if (ab < 0 || bc < 0) continue;
    if (ac < 0 || ac > ab + bc)
      fail_msg("%s -> %s: %ld, but %ld + %ld through %s", text_of(a), text_of(c), (long)ac, (long)ab, (long)bc,
               text_of(b));
  }
}

static void test_triangle_inequality(void **state) {
  (void)state;
  expect_triangles("x=4,y=2,z=3", NULL, 150);
  expect_triangles("x=4,y=2,z=3", &(msc_reshard_options){.free_partial = true}, 60);
}

static void test_many_triangles(void **state) {
  (void)state;
  if (!slow_tests()) return;
  expect_triangles("x=2,y=2,z=2", NULL, 50000);
  expect_triangles("x=2,y=3,z=2", NULL, 40000);
  expect_triangles("x=4,y=2,z=3", NULL, 10000);
}

/* The worst device's bytes that it needs and does not hold, from the boxes of all devices. */
static int64_t bound_of(const msc_type *t, const msc_layout *from, const msc_layout *to) {
  int64_t worst = 0;
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    msc_box a, b, both;
    msc_layout_box(&mesh, t, from, r, a.begin, a.size);
    msc_layout_box(&mesh, t, to, r, b.begin, b.size);
    int64_t n = msc_box_elems(t->rank, &b);
    if (msc_box_intersect(t->rank, &a, &b, &both)) n -= msc_box_elems(t->rank, &both);
    if (n > worst) worst = n;
  }
  return worst * msc_dtype_bytes(t->dtype);
}

/* Sizes that divide and sizes that do not: what is printed as bound is counted, and every step does what it says. */
static void test_random_plans(void **state) {
  (void)state;
  static const char *const meshes[] = {"x=4,y=2", "x=2,y=3", "x=2,y=2,z=3", "x=8"};
  for (int i = 0; i < 200; i++) {
    set_mesh(meshes[i % 4]);
    int64_t dim[3];
    for (int d = 0; d < 3; d++) dim[d] = i % 2 ? 1 + roll(11) : 24;
    const msc_type *t = msc_type_of(ctx, MSC_F32, roll(4), dim, NULL);
    const msc_layout *from = random_layout(t->rank, roll(2)), *to = random_layout(t->rank, false);
    msc_reshard *r = msc_reshard_new(ctx, &mesh, NULL);
    msc_reshard_plan p;
    assert_true(msc_reshard_plan_of(r, t, from, to, &p));
    if (i % 2 == 0) expect_works(t, from, to, &p);
    assert_int_equal(p.lower_bound, from->num_partial ? -1 : bound_of(t, from, to));
    if (i % 2 == 0) continue;
    fill(t, from);
    const msc_layout *at = from;
    for (int k = 0; k < p.num_steps; k++) {
      assert_null(msc_relayout_wrong(&mesh, t, p.step[k].verb, at, p.step[k].to));
      assert_true(p.step[k].bytes >=
                  (p.step[k].verb == MSC_ALL_REDUCE ? 0 : count_bytes(t, p.step[k].verb, at, p.step[k].to)));
      execute(t, at, p.step[k].to);
      at = p.step[k].to;
    }
    assert_ptr_equal(at, to);
    expect_values(t, from, to);
  }
}

/* ---- edges of what is possible ---- */

static void test_nothing_to_do(void **state) {
  (void)state;
  set_mesh("x=4");
  const msc_type *t = msc_type_of(ctx, MSC_F32, 1, (int64_t[]){8}, NULL);
  const msc_layout *l = layout_of("[{x}]");
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, NULL), t, l, l, &p));
  assert_int_equal(p.num_steps, 0);
  assert_int_equal(p.peak_bytes, 8);
  assert_int_equal(p.lower_bound, 0);
  assert_false(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.peak = 7}), t, l, l, &p));
  assert_int_equal(p.needed_peak, 8);
}

static void test_partial_from_nothing(void **state) {
  (void)state;
  set_mesh("x=4,y=2");
  const msc_type *t = msc_type_of(ctx, MSC_F32, 1, (int64_t[]){8}, NULL);
  const msc_layout *from = layout_of("[{x}]"), *to = layout_of("[{x}] partial={y}");
  msc_reshard_plan p;
  assert_false(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, NULL), t, from, to, &p));
  assert_int_equal(p.needed_peak, 0);
  assert_int_equal(msc_reshard_cost(msc_reshard_new(ctx, &mesh, NULL), t, from, to), -1);
  msc_reshard *free_edge = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.free_partial = true});
  assert_true(msc_reshard_plan_of(free_edge, t, from, to, &p));
  expect_works(t, from, to, &p);
  assert_string_equal(steps_text(&p), "shard");
  assert_int_equal(p.bytes, 0);
  assert_true(msc_reshard_plan_of(free_edge, t, layout_of("[{}]"), layout_of("[{x}] partial={y}"), &p));
  assert_string_equal(steps_text(&p), "shard");
}

/* Cuts of 6 into 2 and into 3 have no digits in common: everything is gathered first. */
static void test_no_common_digits(void **state) {
  (void)state;
  set_mesh("x=6,y=2");
  const msc_type *t = msc_type_of(ctx, MSC_F32, 1, (int64_t[]){12}, NULL);
  const msc_layout *from = layout_of("[{x:(1)2}] partial={y}"), *to = layout_of("[{x:(1)3}]");
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, NULL), t, from, to, &p));
  expect_works(t, from, to, &p);
  assert_string_equal(steps_text(&p), "all_reduce all_gather shard");
  assert_false(p.proven);
}

/* 65,536 devices: atoms are merged, the answer comes soon, and where it meets the bound it is known to be best. */
static void test_large_meshes(void **state) {
  (void)state;
  static const struct {
    const char *mesh, *from, *to;
    bool proven;
  } large[] = {
    {"a=16,b=16,c=16,d=16", "[{a,b},{c},{d}]", "[{d},{a,b},{c}]", true},
    {"d=65536", "[{d},{},{}]", "[{},{},{d}]", true},
    {"a=256,b=256", "[{a},{},{}] partial={b}", "[{},{b},{a}]", false},
    {"a=4,b=4,c=4,d=4,e=4,f=4,g=4,h=4", "[{a,b,c},{d,e},{f,g,h}]", "[{h,g,f},{e,d},{c,b,a}]", true},
  };
  const msc_type *t = msc_type_of(ctx, MSC_F32, 3, (int64_t[]){65536, 65536, 65536}, NULL);
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    set_mesh(large[i].mesh);
    const msc_layout *from = layout_of(large[i].from), *to = layout_of(large[i].to), *at = from;
    msc_reshard_plan p;
    assert_true(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, NULL), t, from, to, &p));
    for (int k = 0; k < p.num_steps; at = p.step[k++].to)
      assert_null(msc_relayout_wrong(&mesh, t, p.step[k].verb, at, p.step[k].to));
    assert_ptr_equal(at, to);
    assert_int_equal(p.proven, large[i].proven);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_all_pairs, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_all_pairs_of_rank_3, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_limits, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_known_cases, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_cases_file, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_triangle_inequality, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_many_triangles, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_random_plans, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_nothing_to_do, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_partial_from_nothing, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_no_common_digits, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_large_meshes, open_context, close_context),
  };
  return cmocka_run_group_tests_name("passes/3_shard/reshard", tests, NULL, NULL);
}
