/* fuzz_pickle: any bytes as the .metadata of a distributed checkpoint of PyTorch, whose files do not exist: only
 * tensors without elements are accepted. */
#include <stdlib.h>

#include "runtime/data/foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  mscrt_blob b;
  mscrt_archive a = {0};
  mscrt_status *s = mscrt_blob_of(data, bytes, &b);
  if (!s) s = mscrt_archive_new("/nowhere", false, "checkpoint", &a);
  if (!s) s = mscrt_parse_dcp(&b, &a);
  if (!s) s = mscrt_archive_sort(&a);
  for (uint32_t i = 0; i < a.num && !s; i++)
    if (a.tensor[i].num || (a.tensor[i].known && mscrt_stored_elems(&a.tensor[i]))) abort();
  mscrt_archive_close(&a);
  mscrt_status_free(s);
  mscrt_blob_close(&b);
  return 0;
}
