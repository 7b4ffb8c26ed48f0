/* fuzz_safetensors: any bytes as a safetensors file; what is accepted is covered exactly, found by
 * name, and readable. */
#include "tests/fuzz/array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  mscrt_blob b;
  mscrt_safetensors t = {0};
  uint64_t sum = 0;
  mscrt_status *s = mscrt_blob_of(data, bytes, &b);
  if (!s) s = mscrt_safetensors_parse(&b, &t);
  for (size_t i = 0; !s && i < t.num; i++) {
    if (mscrt_safetensors_find(&t, t.tensor[i].name) != &t.tensor[i]) abort();
    if (t.tensor[i].array.at + t.tensor[i].array.bytes > bytes) abort();
    if (t.tensor[i].known) read_samples(&b, &t.tensor[i].array);
    sum += t.tensor[i].array.bytes;
  }
  if (!s && sum > bytes - 8) abort();
  mscrt_safetensors_free(&t);
  mscrt_status_free(s);
  mscrt_blob_close(&b);
  return 0;
}
