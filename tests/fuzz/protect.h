/* protect.h: what fuzz targets of models do with bytes: reads them in a context of its own, with a bound on memory, and
 * aborts where msc says that the fault is its own. */
#ifndef MSC_TESTS_FUZZ_PROTECT_H
#define MSC_TESTS_FUZZ_PROTECT_H

#include <stdlib.h>

#include "ir/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct {
  const uint8_t *data;
  size_t bytes;
} input;

static void run_protected(bool (*run)(msc_context *ctx, void *arg), void *arg) {
  enum { MAX_MEMORY = 256 << 20 };
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_context_limit(ctx, MAX_MEMORY);
  msc_protect(ctx, run, arg);
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next)
    if (d->code == MSC_E_INTERNAL) abort();
  msc_context_free(ctx);
}

#endif
