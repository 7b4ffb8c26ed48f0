/* fuzz_cluster: any bytes as a cluster description are refused, or give figures that every cost can
 * be computed from. */
#include <stdlib.h>

#include "passes/time_model.h"
#include "tests/fuzz/protect.h"

static bool run(msc_context *ctx, void *arg) {
  static const msc_verb verbs[] = {MSC_ALL_REDUCE, MSC_ALL_GATHER, MSC_REDUCE_SCATTER,
                                   MSC_ALL_TO_ALL, MSC_PERMUTE,    MSC_EXCHANGE};
  const input *in = arg;
  const msc_cluster *k = msc_cluster_read(ctx, "fuzz.json", (const char *)in->data, in->bytes);
  if (!k) return msc_num_errors(ctx) > 0 || (abort(), false);
  msc_mesh mesh = {.num_axes = 3, .axis = {{"x", 4}, {"y", 6}, {"z", 2}}};
  msc_cost cost;
  msc_cost_of(k, &mesh, &cost);
  for (int a = 0; a < 3; a++) {
    if (mesh.axis[a].size % msc_cost_inner_parts(&cost, a)) abort();
    int level = msc_cost_level(&cost, (msc_subaxis){(uint16_t)a, 1, (uint32_t)mesh.axis[a].size});
    if (level < 0 || level >= k->num_levels) abort();
    for (size_t v = 0; v < sizeof verbs / sizeof *verbs; v++)
      if (msc_cost_collective(&cost, &(msc_cost_transfer){verbs[v], level, mesh.axis[a].size, 4096, 3}) <= 0) abort();
  }
  if (msc_cost_kernel(&cost, MSC_F32, 1e9, 1e6, (msc_cost_grid){1, 1024}) <= 0) abort();
  return msc_cost_work(&cost, MSC_BF16, 1e9, 1e6) > 0 || (abort(), false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  run_protected(run, &(input){data, bytes});
  return 0;
}
