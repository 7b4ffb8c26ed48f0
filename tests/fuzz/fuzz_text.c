/* fuzz_text: any bytes as IR text are refused with a reason, or make a module whose text is read as the same text. */
#include <stdlib.h>
#include <string.h>

#include "passes/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct {
  const char *text;
  size_t bytes;
  char *first, *again; /* printed */
} input;

static bool run(msc_context *ctx, void *arg) {
  input *in = arg;
  msc_module *m = msc_parse(ctx, "fuzz.mlir", in->text, in->bytes);
  if (!m) return false;
  msc_check_module(m); /* what it finds is no fault of the parser's */
  msc_clear_diags(ctx);
  size_t num;
  in->first = msc_print_text(m, msc_context_arena(ctx), &num);
  msc_module *same = msc_parse(ctx, "fuzz.mlir", in->first, num);
  if (same) in->again = msc_print_text(same, msc_context_arena(ctx), NULL);
  return same;
}

static bool out_of_memory(const msc_context *ctx) {
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next)
    if (d->code == MSC_E_OUT_OF_MEMORY) return true;
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_context_limit(ctx, 64 << 20);
  input in = {(const char *)data, bytes, NULL, NULL};
  bool ok = msc_protect(ctx, run, &in);
  if (ok != (msc_num_errors(ctx) == 0)) abort();
  if (in.first && !out_of_memory(ctx) && (!in.again || strcmp(in.first, in.again) != 0)) abort();
  msc_context_free(ctx);
  return 0;
}
