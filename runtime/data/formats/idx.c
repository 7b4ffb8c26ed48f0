/* idx.c: reads the idx format of MNIST: 0 0 type rank, rank sizes (32 bits, big-endian), then the elements,
 * big-endian. */
#include "runtime/data/data.h"

static bool idx_dtype(uint8_t code, mscrt_dtype *out_dtype) {
  switch (code) {
    case 0x08: *out_dtype = MSCRT_U8; return true;
    case 0x09: *out_dtype = MSCRT_I8; return true;
    case 0x0b: *out_dtype = MSCRT_I16; return true;
    case 0x0c: *out_dtype = MSCRT_I32; return true;
    case 0x0d: *out_dtype = MSCRT_F32; return true;
    case 0x0e: *out_dtype = MSCRT_F64; return true;
    default: return false;
  }
}

bool mscrt_is_idx(const uint8_t *head, size_t bytes) {
  mscrt_dtype d;
  return bytes >= 4 && head[0] == 0 && head[1] == 0 && idx_dtype(head[2], &d) && head[3] >= 1 &&
         head[3] <= MSCRT_MAX_RANK;
}

mscrt_status *mscrt_idx_parse(const mscrt_blob *b, mscrt_array *out_array) {
  uint8_t head[4 + 4 * MSCRT_MAX_RANK];
  mscrt_array a = {.big_endian = true};
  MSCRT_CHECK(mscrt_blob_read(b, 0, head, 4));
  if (head[0] || head[1] || !idx_dtype(head[2], &a.dtype))
    return mscrt_bad_file(b, "not an idx file: it starts with %02x %02x %02x", head[0], head[1], head[2]);
  if (head[3] < 1 || head[3] > MSCRT_MAX_RANK)
    return mscrt_bad_file(b, "idx: rank %d is not in 1 .. %d", head[3], MSCRT_MAX_RANK);
  a.rank = head[3];
  a.at = 4 + 4 * (uint64_t)a.rank;
  MSCRT_CHECK(mscrt_blob_read(b, 4, head + 4, (size_t)a.at - 4));
  for (int d = 0; d < a.rank; d++) {
    const uint8_t *p = head + 4 + 4 * d;
    a.dim[d] = (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
  }
  char shape[MSCRT_SHAPE_TEXT];
  mscrt_shape_text(a.rank, a.dim, shape);
  if (!mscrt_shape_bytes(a.rank, a.dim, mscrt_dtype_bytes(a.dtype), &a.bytes))
    return mscrt_bad_file(b, "idx: shape %s is too large", shape);
  MSCRT_CHECK(mscrt_array_fills(b, "idx", &a));
  *out_array = a;
  return NULL;
}
