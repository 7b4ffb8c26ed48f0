/* fuzz_buffers: any bytes as a list of buffers are refused with a reason, or get a plan in which nothing live
 * at once overlaps. */
#include <stdlib.h>
#include <string.h>

#include "passes/8_memory/offsets/buffer_file.h"
#include "tests/fuzz/protect.h"

static bool run(msc_context *ctx, void *arg) {
  const input *in = arg;
  msc_buffer_file f;
  if (!msc_buffers_read(ctx, "fuzz.csv", (const char *)in->data, in->bytes, &f))
    return msc_num_errors(ctx) > 0 || (abort(), false);
  if (msc_num_errors(ctx) || f.num > in->bytes) abort();
  uint64_t *offset = msc_new_array(msc_context_arena(ctx), uint64_t, f.num);
  msc_offsets_result r =
      msc_find_offsets(msc_context_arena(ctx), f.num, f.buffer, &(msc_offsets_options){.node_limit = 2000}, offset);
  if (r.bytes < r.bound) abort();
  for (size_t i = 0; i < f.num; i++) {
    const msc_buffer *a = &f.buffer[i];
    if (a->lower >= a->upper || !*f.id[i] || offset[i] + a->bytes > r.bytes) abort();
    for (size_t k = 0; k < i; k++) {
      const msc_buffer *b = &f.buffer[k];
      if (!strcmp(f.id[i], f.id[k])) abort();
      if (a->lower < b->upper && b->lower < a->upper && offset[i] < offset[k] + b->bytes &&
          offset[k] < offset[i] + a->bytes)
        abort();
    }
  }
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  run_protected(run, &(input){data, bytes});
  return 0;
}
