/* embed_products.c: a file name in; the kernels of matrix products, for every level of CPU that has them, as C rows
 * PRODUCT(level, part, dtype, bytes, the bytes of an ELF relocatable) out. */
#include <stdio.h>

#include "codegen/emit/emit.h"

static bool write_product(msc_context *ctx, FILE *out, int level, msc_product_part part, msc_dtype dtype) {
  static const char *const dtypes[] = {
      [MSC_F32] = "MSC_F32", [MSC_F16] = "MSC_F16", [MSC_BF16] = "MSC_BF16", [MSC_F64] = "MSC_F64"};
  static const char *const parts[] = {
#define X(name) #name,
      MSC_PRODUCT_PARTS(X)
#undef X
  };
  LLVMMemoryBufferRef object = msc_product_assemble(ctx, level, part, dtype);
  if (!object) return false;
  const uint8_t *at = (const uint8_t *)LLVMGetBufferStart(object);
  size_t bytes = LLVMGetBufferSize(object);
  fprintf(out, "PRODUCT(%d, %s, %s, %zu", level, parts[part], dtypes[dtype], bytes);
  for (size_t i = 0; i < bytes; i++) fprintf(out, "%s%u", i % 32 ? "," : ",\n  ", at[i]);
  fputs(")\n", out);
  LLVMDisposeMemoryBuffer(object);
  return true;
}

static bool write_products(msc_context *ctx, void *out) {
  static const msc_dtype dtypes[] = {MSC_F32, MSC_F64, MSC_F16, MSC_BF16};
  for (int level = 3; level <= 4; level++)
    for (int part = 0; part < MSC_NUM_PRODUCT_PARTS; part++)
      for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        if (msc_product_has(level, (msc_product_part)part, dtypes[d]))
          MSC_TRY(write_product(ctx, out, level, (msc_product_part)part, dtypes[d]));
  return true;
}

int main(int num, char **arg) {
  FILE *out = num == 2 ? fopen(arg[1], "w") : NULL;
  msc_context *ctx = msc_context_new(NULL, NULL);
  bool ok = out && ctx && msc_protect(ctx, write_products, out);
  for (const msc_diag *d = ctx ? msc_diags(ctx) : NULL; d; d = d->next)
    fprintf(stderr, "embed_products: %s\n", d->text);
  ok = (!out || fclose(out) == 0) && ok;
  if (ctx) msc_context_free(ctx);
  return ok ? 0 : 1;
}
