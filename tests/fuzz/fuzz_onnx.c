/* fuzz_onnx: any bytes as an ONNX file are refused with an error, or make a module that verifies; writing that as a
 * model.fbs and reading it again succeeds, or is refused with an error. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/protect.h"

enum { MAX_BESIDE = 1 << 16 };

/* External data: the file itself. */
static const char *read_beside(void *user, const char *path, uint64_t offset, uint64_t bytes, const void **out_data) {
  const input *in = user;
  if (strlen(path) > MAX_BESIDE || offset > in->bytes || bytes > in->bytes - offset)
    return "ends before the tensor does";
  *out_data = in->data + offset;
  return NULL;
}

static bool run(msc_context *ctx, void *arg) {
  const input *in = arg;
  const msc_dim_size dim = {"N", 2};
  const msc_fixed_input fixed = {"shape", "2,3"};
  for (size_t round = 0; round < 2; round++) {
    msc_weights weights = {.file = msc_intern(ctx, "w.safetensors")};
    msc_model_bytes model = {.name = "fuzz.onnx",
                             .data = in->data,
                             .bytes = in->bytes,
                             .num_dims = round,
                             .dim = &dim,
                             .num_fixed = round,
                             .fixed = &fixed,
                             .weights = &weights,
                             .read_beside = read_beside,
                             .user = arg};
    msc_clear_diags(ctx);
    msc_module *m = msc_read_onnx(ctx, &model);
    if (!m && !msc_num_errors(ctx)) abort();
    if (!m) continue;
    if (!msc_verify(m)) abort();
    size_t size;
    const void *written = msc_write_fbs(m, msc_context_arena(ctx), &size);
    msc_module *again = written ? msc_read_fbs(ctx, "again.fbs", written, size, 0, NULL, NULL) : NULL;
    if (!again && !msc_num_errors(ctx)) abort();
    return true;
  }
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  input in = {data, bytes};
  run_protected(run, &in);
  return 0;
}
