/* The planner with time for bytes: links of digits, hierarchical ways, and rows of times, against brute force. */
#include <math.h>
#include "passes/3_shard/reshard/rows.h"
#include "tests/passes/3_shard/brute_force.h"

/* Scatter inside the node, reduce across, gather inside: 10 us a step, 3 rounds of 3 us or 4 of 20 us,
 * and the bytes. */
static void test_hierarchical_all_reduce(void **state) {
  (void)state;
  set_mesh("node=4,gpu=4");
  const msc_type *t = msc_type_of(ctx, MSC_F16, 2, (int64_t[]){8192, 8192}, NULL);
  msc_reshard *r = msc_reshard_new(
      ctx, &mesh,
      &(msc_reshard_options){
          .time = true, .launch_ns = 10e3, .num_links = 2, .link = {link_of(0, 20, 50), link_of(1, 3, 400)}});
  const msc_layout *from = layout_of("[{},{}] partial={node,gpu}"), *to = layout_of("[{},{}]");
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(r, t, from, to, &p));
  expect_works(t, from, to, &p);
  assert_string_equal(steps_text(&p), "reduce_scatter all_reduce all_gather");
  assert_string_equal(text_of(p.step[0].to), "[{gpu},{}] partial={node}");
  assert_int_equal(p.bytes, 251658240);
  assert_int_equal(p.peak_bytes, 167772160);
  assert_in_range(p.ns, 1637949 - 3, 1637949 + 3);
  assert_int_equal(msc_reshard_cost(r, t, from, to), p.ns);
}

/* One axis of two nodes with eight devices each: its minor digits are fast. */
static void test_links_of_digits(void **state) {
  (void)state;
  set_mesh("d=16");
  const msc_type *t = msc_type_of(ctx, MSC_F16, 2, (int64_t[]){8192, 8192}, NULL);
  msc_reshard *r = msc_reshard_new(
      ctx, &mesh,
      &(msc_reshard_options){
          .time = true, .launch_ns = 10e3, .num_links = 2, .link = {{{0, 1, 2}, 20e3, 50}, {{0, 2, 8}, 3e3, 400}}});
  const msc_layout *from = layout_of("[{},{}] partial={d}"), *to = layout_of("[{},{}]");
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(r, t, from, to, &p));
  assert_string_equal(steps_text(&p), "reduce_scatter all_reduce all_gather");
  assert_string_equal(text_of(p.step[0].to), "[{d:(2)8},{}] partial={d:(1)2}");
  assert_int_equal(msc_reshard_cost(r, t, from, to), p.ns);
  assert_int_equal(msc_reshard_cost(r, t, to, to), 0);
  assert_int_equal(msc_reshard_cost(r, t, to, layout_of("[{d},{}]")), 0);
}

/* Where an axis cuts: dimension and parts before it; partial; free. */
static int place_of(const msc_layout *l, uint32_t axis, int64_t *out_before) {
  *out_before = 1;
  for (int d = 0; d < l->rank; d++) {
    *out_before = 1;
    for (int i = l->first[d]; i < l->first[d + 1]; *out_before *= l->sub[i++].size)
      if (l->sub[i].axis == axis) return d;
  }
  *out_before = 1;
  for (int i = 0; i < l->num_partial; i++)
    if (l->sub[l->first[l->rank] + i].axis == axis) return MSC_MAX_RANK;
  return -1;
}

/* ns of an edge over the slowest of the axes that move; the axes of this mesh have one digit each. */
static int64_t count_ns(const msc_type *t, msc_verb verb, const msc_layout *from, const msc_layout *to,
                        const msc_reshard_options *o) {
  double latency = 0, rate = 1e30;
  int64_t k = 1, log = 0, rounds = 0;
  for (int a = 0; a < mesh.num_axes; a++) {
    int64_t before_from, before_to;
    int p = place_of(from, (uint32_t)a, &before_from), q = place_of(to, (uint32_t)a, &before_to);
    if (p == q && before_from == before_to) continue;
    if (o->link[a].alpha_ns > latency) latency = o->link[a].alpha_ns;
    if (o->link[a].bytes_per_ns < rate) rate = o->link[a].bytes_per_ns;
    k *= mesh.axis[a].size;
  }
  while ((int64_t)1 << log < k) log++;
  rounds = verb == MSC_PERMUTE ? 1 : verb == MSC_ALL_REDUCE ? 2 * log : k - 1;
  double fixed = o->launch_ns + (double)rounds * latency;
  if (o->shared_by && verb != MSC_PERMUTE && verb != MSC_ALL_TO_ALL) fixed /= (double)o->shared_by;
  return (int64_t)ceil(fixed + (double)count_bytes(t, verb, from, to) / rate);
}

/* Rows of times are what the plans cost one by one. */
static void expect_rows(const msc_type *t, msc_reshard *r, const msc_reshard_options *options, const msc_atoms *atoms) {
  int64_t row[MAX_STATES];
  int state[MAX_STATES];
  shard_rows *rows = shard_rows_new(ctx, arena, &mesh, options, true, atoms->num, atoms->atom);
  for (int u = 0; u < num_states; u++) state[u] = shard_rows_state(rows, states[u]);
  for (int u = 0; u < num_states; u += 7) {
    assert_true(shard_rows_costs(rows, t, options->shared_by, state[u], num_states, state, row));
    for (int v = 0; v < num_states; v++)
      if (row[v] != msc_reshard_cost(r, t, states[u], states[v]))
        fail_msg("%s -> %s: %ld ns in the row, %ld alone", text_of(states[u]), text_of(states[v]), (long)row[v],
                 (long)msc_reshard_cost(r, t, states[u], states[v]));
  }
}

/* The same brute force with time for bytes: bandwidth counts, then latency does, then that of what goes alone.  It has
 * no exchange, which may do better. */
static void test_all_pairs_in_time(void **state) {
  (void)state;
  static const msc_verb verbs[] = {MSC_ALL_GATHER, MSC_ALL_TO_ALL, MSC_REDUCE_SCATTER, MSC_ALL_REDUCE, MSC_PERMUTE};
  msc_reshard_options options = {.time = true, .launch_ns = 1e3, .num_links = 3};
  msc_atoms atoms;
  set_mesh("x=2,y=2,z=2");
  for (int a = 0; a < 3; a++) options.link[a] = link_of(a, a ? 3 : 20, a ? 40 : 5);
  num_states = 0;
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  list_states(&atoms, 0, (msc_layout){.rank = 2}, true);
  for (int round = 0; round < 3; round++) {
    const msc_type *t = msc_type_of(ctx, MSC_F32, 2, (int64_t[]){8, round ? 16 : 65536}, NULL);
    options.shared_by = round == 2 ? 50 : 0;
    msc_reshard *r = msc_reshard_new(ctx, &mesh, &options);
    for (int u = 0; u < num_states; u++)
      for (int v = 0; v < num_states; v++) {
        bool sliced = u != v && partial_terms(states[u]) == partial_terms(states[v]) &&
                      !msc_relayout_wrong(&mesh, t, MSC_SHARD, states[u], states[v]);
        edge[u][v] = u == v || sliced ? (price){0, 0, 0} : NEVER;
        for (size_t k = 0; k < sizeof verbs / sizeof *verbs && u != v; k++) {
          if (msc_relayout_wrong(&mesh, t, verbs[k], states[u], states[v])) continue;
          price c = {count_ns(t, verbs[k], states[u], states[v], &options), 0, 1};
          if (compare(c, edge[u][v]) < 0) edge[u][v] = c;
        }
        edge_peak[u][v] = 0;
      }
    brute_best(0);
    for (int i = 0; i < num_states * num_states; i += 5) {
      int u = i / num_states, v = i % num_states;
      msc_reshard_plan p;
      bool ok = msc_reshard_plan_of(r, t, states[u], states[v], &p);
      assert_int_equal(ok, best[u][v].bytes < NEVER.bytes);
      if (ok && price_of(&p).exchanges && p.ns < best[u][v].bytes) continue;
      if (ok && p.ns != best[u][v].bytes)
        fail_msg("%s -> %s: %ld ns, brute force %ld", text_of(states[u]), text_of(states[v]), (long)p.ns,
                 (long)best[u][v].bytes);
      if (ok) assert_int_equal(msc_reshard_cost(r, t, states[u], states[v]), p.ns);
    }
    expect_rows(t, r, &options, &atoms);
  }
}

/* Between all states of a type with a dimension that does not divide: the cost, which is found in another way, is the
 * plan's.  Counts the plans' steps. */
static void expect_costs_of_plans(const msc_type *t, const msc_reshard_options *options, int *exchanges, int *others) {
  msc_reshard *r = msc_reshard_new(ctx, &mesh, options);
  for (int i = 0; i < num_states * num_states; i++) {
    const msc_layout *from = states[i / num_states], *to = states[i % num_states];
    msc_reshard_plan p;
    bool ok = msc_reshard_plan_of(r, t, from, to, &p);
    int64_t ns = msc_reshard_cost(r, t, from, to);
    if (ns != (ok ? p.ns : -1))
      fail_msg("%s -> %s: costs %ld ns, the plan %ld", text_of(from), text_of(to), (long)ns, ok ? (long)p.ns : -1L);
    for (int k = 0; ok && k < p.num_steps; k++) *(p.step[k].verb == MSC_EXCHANGE ? exchanges : others) += 1;
  }
}

/* Of many devices a cost is found before exchanges are priced.  Axes of one size: what is cut by one of them cannot be
 * permuted into what is cut by another, where parts are uneven. */
static void test_uneven_costs(void **state) {
  (void)state;
  static const struct {
    const char *mesh;
    int64_t dim[2];
  } cases[] = {{"x=19,y=17", {640, 646}},
               {"x=19,y=17", {640000, 646}},
               {"x=2,y=2,z=2", {8192, 50257}},
               {"x=4,y=4,z=2", {4096, 50257}},
               {"x=16,y=4,z=8", {64, 50257}}};
  int exchanges = 0, others = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    set_mesh(cases[i].mesh);
    msc_reshard_options options = {.time = true, .launch_ns = 1e3, .num_links = mesh.num_axes};
    msc_atoms atoms = {.num = mesh.num_axes};
    for (int a = 0; a < mesh.num_axes; a++) {
      options.link[a] = link_of(a, a ? 3 : 20, a ? 40 : 5);
      atoms.atom[a] = (msc_subaxis){(uint16_t)a, 1, (uint32_t)mesh.axis[a].size};
    }
    num_states = 0;
    list_states(&atoms, 0, (msc_layout){.rank = 2}, true);
    expect_costs_of_plans(msc_type_of(ctx, MSC_F32, 2, cases[i].dim, NULL), &options, &exchanges, &others);
  }
  print_message("%d exchanges, %d other steps\n", exchanges, others);
  assert_true(exchanges > 0 && others > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_hierarchical_all_reduce, open_context, close_context),
      cmocka_unit_test_setup_teardown(test_links_of_digits, open_context, close_context),
      cmocka_unit_test_setup_teardown(test_all_pairs_in_time, open_context, close_context),
      cmocka_unit_test_setup_teardown(test_uneven_costs, open_context, close_context),
  };
  return cmocka_run_group_tests_name("passes/3_shard/reshard_time", tests, NULL, NULL);
}
