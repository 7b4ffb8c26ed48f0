/* fuzz_idx: any bytes, inflated when they say so, as an idx file. */
#include "tests/fuzz/array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  mscrt_blob b;
  mscrt_array a;
  mscrt_status *s = mscrt_blob_of(data, bytes, &b);
  if (!s && mscrt_is_gzip(data, bytes)) s = mscrt_blob_inflate(&b, 1 << 20);
  if (!s) s = mscrt_idx_parse(&b, &a);
  if (!s) read_samples(&b, &a);
  mscrt_status_free(s);
  mscrt_blob_close(&b);
  return 0;
}
