/* fuzz_strategy: any bytes as a strategy file are refused with a reason, or leave a graph that verifies. */
#include <stdlib.h>

#include "passes/3_shard/strategy/strategy_file.h"
#include "tests/fuzz/protect.h"

static const char model[] =
    "module attributes {msc.mesh = #msc.mesh<\"d=8\">} {\n  \"msc.func\"() ({\n  ^bb0(%x: tensor<16x8xf32>, %w: "
    "tensor<8x24xf32>):\n"
    "    %0 = \"msc.matmul\"(%x, %w) : (tensor<16x8xf32>, tensor<8x24xf32>) -> tensor<16x24xf32> "
    "loc(\"m\"(\"net.py\":1:1))\n"
    "    %1 = \"msc.relu\"(%0) : (tensor<16x24xf32>) -> tensor<16x24xf32> loc(\"r\"(\"net.py\":2:1))\n"
    "    \"msc.return\"(%1) : (tensor<16x24xf32>) -> ()\n  }) {sym_name = \"forward\", results = [\"y\"],\n"
    "      arg_attrs = [{msc.name = \"x\", msc.role = \"data\"}, {msc.name = \"w\", msc.role = \"parameter\", msc.init "
    "= \"zeros\"}]} : () -> ()\n}\n";

static bool run(msc_context *ctx, void *arg) {
  const input *in = arg;
  msc_module *m = msc_parse(ctx, "model.mlir", model, sizeof model - 1);
  if (!m) abort();
  msc_pass_options options = {0};
  msc_pass_ctx pass = {
      .ctx = ctx, .scratch = msc_arena_new(ctx), .options = &options, .info = msc_find_pass("strategies")};
  shard_graph g;
  if (!shard_graph_of(&pass, m->first, &g)) abort();
  bool ok = msc_strategy_read(&g, false, "fuzz.json", (const char *)in->data, in->bytes);
  if (ok != (msc_num_errors(ctx) == 0)) abort();
  return ok && (msc_verify(m) || (abort(), false));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  run_protected(run, &(input){data, bytes});
  return 0;
}
