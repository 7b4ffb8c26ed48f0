/* fuzz_parquet: any bytes as a Parquet file, its first and last rows decoded, as floats and as whole numbers. */
#include <stdlib.h>

#include "runtime/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const mscrt_wanted wanted[] = {{.name = "none", .dtype = MSCRT_F32, .rank = 2, .shape = {2, 3}},
                                      {.name = "x", .dtype = MSCRT_I32, .rank = 1, .shape = {2}}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  for (int i = 0; i < 3; i++) {
    mscrt_blob b;
    mscrt_array a;
    mscrt_records *r = NULL;
    mscrt_status *s = mscrt_blob_of(data, bytes, &b);
    if (!s) s = mscrt_parquet_open(&b, &wanted[i & 1], i == 2 ? "y,1" : NULL, &a, &r);
    void *room = s ? NULL : malloc((size_t)a.dim[1] * 8);
    for (int64_t k = 0; !s && room && k < 4 && k < a.dim[0]; k++)
      mscrt_status_free(r->decode(r, k & 1 ? a.dim[0] - 1 - k : k, room));
    free(room);
    mscrt_blob_close(&b);
    mscrt_status_free(s);
    if (r) r->free(r);
  }
  return 0;
}
