/* fuzz_stablehlo: any bytes as a text of StableHLO are refused with an error, or make a module that verifies; writing
 * that as a model.fbs and reading it again succeeds, or is refused with an error. */
#include <stdlib.h>

#include "tests/fuzz/protect.h"

static bool run(msc_context *ctx, void *arg) {
  const input *in = arg;
  msc_module *m = msc_read_stablehlo(ctx, "fuzz.mlir", (const char *)in->data, in->bytes);
  if (!m && !msc_num_errors(ctx)) abort();
  if (!m) return false;
  if (!msc_verify(m)) abort();
  size_t size;
  const void *written = msc_write_fbs(m, msc_context_arena(ctx), &size);
  msc_module *again = written ? msc_read_fbs(ctx, "again.fbs", written, size, 0, NULL, NULL) : NULL;
  if (!again && !msc_num_errors(ctx)) abort();
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  input in = {data, bytes};
  run_protected(run, &in);
  return 0;
}
