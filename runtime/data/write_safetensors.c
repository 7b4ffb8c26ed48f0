/* write_safetensors.c: names, element types and shapes in; the header of a safetensors file out. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/json.h"

mscrt_status *mscrt_header_begin(mscrt_header *h) {
  *h = (mscrt_header){0};
  h->f = open_memstream(&h->text, &h->bytes);
  if (!h->f) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  fwrite((char[8]){0}, 1, 8, h->f);
  fputc('{', h->f);
  return NULL;
}

void mscrt_header_add(mscrt_header *h, const char *name, mscrt_dtype dtype, int rank, const int64_t *shape) {
  uint64_t bytes = 0;
  mscrt_shape_bytes(rank, shape, mscrt_dtype_bytes(dtype), &bytes);
  if (h->any) fputc(',', h->f);
  h->any = true;
  mscrt_json_put(h->f, name);
  fprintf(h->f, ":{\"dtype\":\"%s\",\"shape\":[", mscrt_safetensors_dtype(dtype));
  for (int d = 0; d < rank; d++) fprintf(h->f, "%s%" PRId64, d ? "," : "", shape[d]);
  fprintf(h->f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", h->at, h->at + bytes);
  h->at += bytes;
}

mscrt_status *mscrt_header_end(mscrt_header *h) {
  fputc('}', h->f);
  while (ftell(h->f) % 8) fputc(' ', h->f);
  bool bad = ferror(h->f) != 0;
  if (fclose(h->f) != 0 || bad || !h->text) {
    free(h->text);
    return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  }
  uint64_t length = h->bytes - 8;
  memcpy(h->text, &length, 8);
  return NULL;
}
