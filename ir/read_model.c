/* read_model.c: the bytes of a model of any kind in, a verified module out. */
#include <string.h>

#include "ir/ir.h"

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n >= k && !strcmp(text + n - k, end);
}

/* True for a text whose first function is a func.func; msc's own functions are msc.func. */
static bool is_stablehlo(const char *text, size_t bytes) {
  const char *own = memmem(text, bytes, "msc.func", 8), *theirs = memmem(text, bytes, "func.func ", 10);
  return theirs && (!own || own > theirs);
}

msc_module *msc_read_model(msc_context *ctx, const msc_model_bytes *b) {
  const msc_loc here = {.file = msc_intern(ctx, b->name)};
  if (ends_with(b->name, ".fbs") || (b->bytes >= 8 && !memcmp((const char *)b->data + 4, "MSC", 3)))
    return msc_read_fbs(ctx, b->name, b->data, b->bytes, b->num_dims, b->dim, b->mesh);
  /* an ONNX file begins with the number of its version, field 1; no text does */
  if (ends_with(b->name, ".onnx") || (b->bytes && *(const char *)b->data == 8)) return msc_read_onnx(ctx, b);
  if (b->num_dims)
    return msc_error(ctx, MSC_E_SHAPE, msc_loc_of(ctx, &here), "--dim: a text states all of its sizes"), NULL;
  if (ends_with(b->name, ".stablehlo") || is_stablehlo(b->data, b->bytes))
    return msc_read_stablehlo(ctx, b->name, b->data, b->bytes);
  msc_module *m = msc_parse(ctx, b->name, b->data, b->bytes);
  return m && msc_verify(m) ? m : NULL;
}
