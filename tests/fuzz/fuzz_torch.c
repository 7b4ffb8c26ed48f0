/* fuzz_torch: any bytes as a file of torch.save; tensors of what is accepted lie in the file and can be read. */
#include <stdlib.h>

#include "runtime/data/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  mscrt_blob b;
  mscrt_archive a = {0};
  if (bytes < 4 || data[0] != 'P' || data[1] != 'K') return 0; /* another format */
  mscrt_status *s = mscrt_blob_of(data, bytes, &b);
  if (!s) s = mscrt_archive_of_file(&b, &a);
  for (uint32_t i = 0; i < a.num && !s; i++) {
    const mscrt_stored *t = &a.tensor[i];
    uint64_t num = mscrt_stored_elems(t), elem = mscrt_dtype_bytes(t->dtype);
    if (num * elem > bytes) abort();
    void *room = malloc((size_t)(num * elem) + 1);
    mscrt_status *read = mscrt_archive_elements(&a, t, 0, num, room);
    if (read) abort();
    free(room);
  }
  mscrt_archive_close(&a);
  mscrt_status_free(s);
  return 0;
}
