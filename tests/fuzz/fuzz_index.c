/* fuzz_index: any bytes as a model.safetensors.index.json, whose files do not exist: only one without tensors is
 * accepted. */
#include <stdlib.h>

#include "runtime/data/foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  mscrt_blob b;
  mscrt_archive a = {0};
  mscrt_status *s = mscrt_blob_of(data, bytes, &b);
  if (!s) s = mscrt_archive_new("/nowhere", false, "index", &a);
  if (!s) s = mscrt_parse_index(&b, &a);
  if (!s && (a.num || a.num_files)) abort();
  mscrt_archive_close(&a);
  mscrt_status_free(s);
  mscrt_blob_close(&b);
  return 0;
}
