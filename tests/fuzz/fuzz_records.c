/* fuzz_records: any bytes as a table of numbers, a tar archive and a picture, every sample decoded. */
#include <stdlib.h>

#include "runtime/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const mscrt_wanted real = {.name = "x", .dtype = MSCRT_F32, .rank = 4, .shape = {2, 3, 4, 5}};
static const mscrt_wanted whole = {.name = "y", .dtype = MSCRT_I32, .rank = 1, .shape = {2}, .role = MSCRT_LABEL};

static void decode_all(mscrt_status *s, const mscrt_array *a, mscrt_records *r) {
  if (s) return mscrt_status_free(s);
  uint64_t line = 1;
  if (mscrt_shape_bytes(a->rank - 1, a->dim + 1, mscrt_dtype_bytes(a->dtype), &line) && line < 1 << 20) {
    void *room = malloc((size_t)line + 1);
    for (int64_t i = 0; i < a->dim[0] && i < 64; i++) mscrt_status_free(r->decode(r, i, room));
    free(room);
  }
  r->free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  for (int i = 0; i < 6; i++) {
    const mscrt_wanted *w = i & 1 ? &real : &whole;
    static const char *const names[] = {NULL, NULL, "a,1", "x", "cls", "npy"};
    mscrt_blob b;
    mscrt_array a;
    mscrt_records *r = NULL;
    mscrt_status *s = mscrt_blob_of(data, bytes, &b);
    if (!s) s = i < 4 ? mscrt_csv_open(&b, w, names[i], &a, &r) : mscrt_tar_open(&b, w, names[i], &a, &r);
    decode_all(s, &a, r);
    mscrt_blob_close(&b);
  }
  uint8_t out[4 * 5 * 3];
  mscrt_picture p = {4, 5, 3, true};
  mscrt_status_free(mscrt_picture_decode("fuzz", data, bytes, &p, out));
  return 0;
}
