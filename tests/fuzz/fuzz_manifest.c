/* fuzz_manifest: any bytes as the manifest of a checkpoint, whose own checksum does not count here; shards of what is
 * accepted lie in their tensors and files and cover them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_tensor(const mscrt_archive *a, const mscrt_stored *t) {
  uint64_t elems = 0;
  for (uint32_t i = 0; i < t->num; i++) {
    const mscrt_shard *s = &a->shard[t->first + i];
    uint64_t num = (uint64_t)msc_box_elems(t->view_rank, &s->box);
    if (s->file >= a->num_files || s->at + num * mscrt_dtype_bytes(t->dtype) > a->file[s->file].bytes) abort();
    for (int d = 0; d < t->view_rank; d++)
      if (s->box.begin[d] + s->box.size[d] > t->view[d]) abort();
    elems += num;
  }
  if (elems != mscrt_stored_elems(t) || mscrt_archive_find(a, t->name) != t) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  mscrt_blob b;
  mscrt_archive a = {0};
  mscrt_status *s = mscrt_blob_of(data, bytes, &b);
  if (!s) s = mscrt_archive_new("folder", false, "checkpoint", &a);
  if (!s) s = mscrt_manifest_parse(&b, false, &a);
  if (!s) s = mscrt_archive_sort(&a);
  for (uint32_t i = 0; i < a.num && !s; i++) check_tensor(&a, &a.tensor[i]);
  for (uint32_t i = 0; i < a.num_files; i++)
    if (strchr(a.file[i].name, '/') || !strcmp(a.file[i].name, "..")) abort();
  mscrt_archive_close(&a);
  mscrt_status_free(s);
  mscrt_blob_close(&b);
  return 0;
}
