/* open_file.c: an open file in; the tensors in it, safetensors or of torch.save, out. */
#include <string.h>

#include "runtime/data/archive.h"
#include "runtime/data/foreign.h"

mscrt_status *mscrt_archive_of_file(mscrt_blob *b, mscrt_archive *a) {
  uint8_t head[4] = {0};
  bool of_torch = b->bytes >= sizeof head && !mscrt_blob_read(b, 0, head, sizeof head) && !memcmp(head, "PK\3\4", 4);
  mscrt_status *s = mscrt_archive_new(b->path, true, of_torch ? "file of torch.save" : "safetensors", a);
  const char *slash = strrchr(b->path, '/');
  if (!s) s = mscrt_archive_add_file(a, slash ? slash + 1 : b->path, 0);
  if (s) {
    mscrt_blob_close(b);
    return s;
  }
  a->file[0].blob = *b;
  a->file[0].open = true;
  *b = (mscrt_blob){.fd = -1};
  s = of_torch ? mscrt_parse_torch(a, 0) : mscrt_archive_add_safetensors(a, 0);
  return s ? s : mscrt_archive_sort(a);
}

mscrt_status *mscrt_archive_of_path(const char *path, mscrt_archive *a) {
  mscrt_blob b;
  *a = (mscrt_archive){0};
  MSCRT_CHECK(mscrt_blob_open(path, &b));
  mscrt_status *s = mscrt_archive_of_file(&b, a);
  if (s) mscrt_archive_close(a);
  return s;
}
