/* rows.c: checks the times from one layout to many against the planner: equal where axes have prime sizes, never
 * more where the planner cuts them finer. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "passes/3_shard/reshard/prices.h"
#include "passes/3_shard/reshard/rows.h"

enum { MOST = 700 };

static int collect(msc_context *ctx, const msc_mesh *mesh, int rank, const msc_layout **out) {
  int num = 0, places = rank + 2, total = 1;
  for (int a = 0; a < mesh->num_axes; a++) total *= places;
  for (int code = 0; code < total; code++) {
    msc_layout raw;
    memset(&raw, 0, sizeof raw);
    raw.rank = (uint8_t)rank;
    int n = 0;
    for (int d = 0; d < rank + 1; d++) { /* the last: partial */
      for (int a = 0, rest = code; a < mesh->num_axes; a++, rest /= places)
        if (rest % places == d) raw.sub[n++] = (msc_subaxis){(uint16_t)a, 1, (uint32_t)mesh->axis[a].size};
      if (d < rank) raw.first[d + 1] = (uint8_t)n;
      else raw.num_partial = (uint8_t)(n - raw.first[rank]);
    }
    out[num++] = msc_layout_of(ctx, mesh, &raw);
  }
  return num;
}

typedef struct {
  const char *cluster, *mesh;
  int64_t dim[3];
  bool no_alltoall, prime; /* prime: the planner has no finer digits */
  int64_t shared_by;       /* values in a bucket */
} setting;

static bool compare(msc_context *ctx, void *arg) {
  const setting *s = arg;
  msc_mesh mesh;
  msc_cost cost;
  msc_reshard_options o;
  const msc_layout *layout[MOST];
  int64_t ns[MOST];
  int equal = 0, dearer = 0;
  assert_true(msc_mesh_parse(ctx, NULL, s->mesh, &mesh));
  msc_cost_of(msc_cluster_named(ctx, s->cluster), &mesh, &cost);
  shard_reshard_options(&cost, s->shared_by, &o);
  o.no_alltoall = s->no_alltoall;
  msc_reshard *planner = msc_reshard_new(ctx, &mesh, &o);
  const msc_type *type = msc_type_of(ctx, MSC_F32, 3, s->dim, NULL);
  msc_subaxis digit[MSC_MAX_AXES];
  for (int a = 0; a < mesh.num_axes; a++) digit[a] = (msc_subaxis){(uint16_t)a, 1, (uint32_t)mesh.axis[a].size};
  shard_rows *rows = shard_rows_new(ctx, msc_context_arena(ctx), &mesh, &o, true, mesh.num_axes, digit);
  int num = collect(ctx, &mesh, 3, layout);
  int state[MOST];
  for (int i = 0; i < num; i++) state[i] = shard_rows_state(rows, layout[i]);
  for (int i = 0; i < num; i++) {
    assert_true(shard_rows_costs(rows, type, s->shared_by, state[i], num, state, ns));
    for (int j = 0; j < num; j++) {
      int64_t best = msc_reshard_cost(planner, type, layout[i], layout[j]);
      if (best < 0 && ns[j] < 0) continue;
      if (best < 0 || (ns[j] >= 0 && ns[j] < best))
        fail_msg("%s -> %s: %" PRId64 " below the planner's %" PRId64,
                 msc_layout_print(msc_context_arena(ctx), &mesh, layout[i]),
                 msc_layout_print(msc_context_arena(ctx), &mesh, layout[j]), ns[j], best);
      if (ns[j] == best) equal++;
      else dearer++;
    }
  }
  print_message("%s on %s: %d equal, %d dearer\n", s->mesh, s->cluster, equal, dearer);
  if (s->prime) assert_int_equal(dearer, 0);
  return true;
}

static void test_against_planner(void **state) {
  (void)state;
  static const setting settings[] = {
      {"h100", "x=4,y=8", {64, 128, 256}, false, false, 1},  {"h100", "x=5,y=2,z=3", {60, 30, 90}, true, true, 1},
      {"h100", "x=5,y=2,z=3", {60, 30, 90}, false, true, 1}, {"cpu", "x=2,y=3", {36, 12, 66}, false, true, 1},
      {"h100", "x=2,y=2,z=2", {16, 64, 16}, true, true, 1},  {"a100", "x=2,y=2,z=2", {16384, 64, 16}, false, true, 1},
      {"h100", "x=5,y=2,z=3", {60, 30, 90}, true, true, 60}};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    assert_true(msc_protect(ctx, compare, (void *)(uintptr_t)&settings[i]));
    msc_context_free(ctx);
  }
}

/* One target at a time or all at once, uneven ones among them: the same prices. */
static bool ask_both_ways(msc_context *ctx, void *arg) {
  (void)arg;
  msc_mesh mesh;
  msc_cost cost;
  const msc_layout *layout[MOST];
  const msc_subaxis digit[] = {{0, 1, 4}, {1, 1, 2}};
  int64_t ns[MOST];
  int number[2][MOST], differ = 0;
  assert_true(msc_mesh_parse(ctx, NULL, "x=4,y=2", &mesh));
  msc_cost_of(msc_cluster_named(ctx, "a100"), &mesh, &cost);
  const msc_type *type = msc_type_of(ctx, MSC_F32, 3, (int64_t[]){64, 14, 6}, NULL);
  shard_prices *p[2];
  int num = collect(ctx, &mesh, 3, layout);
  for (int k = 0; k < 2; k++) {
    p[k] = shard_prices_new(ctx, msc_context_arena(ctx), &cost, false, 1);
    shard_prices_digits(p[k], false, 2, digit);
    for (int i = 0; i < num; i++) number[k][i] = shard_layout_number(p[k], layout[i]);
  }
  for (int i = 0; i < num; i++) {
    shard_price_row(p[0], type, false, number[0][i], num, number[0], ns);
    for (int j = 0; j < num; j++) differ += ns[j] != shard_price(p[1], type, false, number[1][i], number[1][j]);
  }
  assert_int_equal(differ, 0);
  return true;
}

static void test_asked_together(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  assert_true(msc_protect(ctx, ask_both_ways, NULL));
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_planner), cmocka_unit_test(test_asked_together)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
