/* dtype.c: element types: sizes, half floats, and conversion of elements of a file to those of an input. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/abi/dtype.h"
#include "runtime/half.h"
#include "runtime/runtime.h"

static const struct {
  char name[5];
  uint8_t bytes, class;
} dtypes[] = {
#define X(name, text, bytes, class) {text, bytes, MSC_CLASS_##class},
    MSC_DTYPES(X)
#undef X
};

/* The public header has the rows of ir/abi/dtype.h once more. */
#define X(name, text, bytes, class) _Static_assert((int)MSCRT_##name == (int)MSC_##name, "the order of dtype.h");
MSC_DTYPES(X)
#undef X
_Static_assert((int)MSCRT_NUM_DTYPES == (int)MSC_NUM_DTYPES, "the rows of dtype.h");

static bool is_signed(mscrt_dtype d) { return dtypes[d].class == MSC_CLASS_INT; }

const char *mscrt_dtype_name(mscrt_dtype d) { return dtypes[d].name; }
size_t mscrt_dtype_bytes(mscrt_dtype d) { return dtypes[d].bytes; }
bool mscrt_is_float(mscrt_dtype d) { return dtypes[d].class == MSC_CLASS_FLOAT; }

/* ---- half floats ---- */

float mscrt_from_bf16(uint16_t v) { return msc_from_bf16(v); }
uint16_t mscrt_to_bf16(float v) { return msc_to_bf16(v); }
float mscrt_from_f16(uint16_t v) { return msc_from_f16(v); }
uint16_t mscrt_to_f16(float v) { return msc_to_f16(v); }

/* ---- conversion ---- */

bool mscrt_converts(mscrt_dtype from, mscrt_dtype to) { return !mscrt_is_float(from) || mscrt_is_float(to); }

/* An element of any type, exactly. */
typedef struct {
  bool is_float;
  double f;
  int64_t i;     /* for an unsigned 64-bit value its bits, with `high` set if they exceed INT64_MAX */
  bool high;
} wide;

static uint64_t load_bits(const uint8_t *p, size_t bytes, bool big_endian) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes; i++) v |= (uint64_t)p[big_endian ? bytes - 1 - i : i] << 8 * i;
  return v;
}

static wide load_wide(mscrt_dtype d, const uint8_t *p, bool big_endian) {
  size_t bytes = dtypes[d].bytes;
  uint64_t bits = load_bits(p, bytes, big_endian);
  wide w = {0};
  switch (d) {
    case MSCRT_F32:
      w.is_float = true;
      w.f = (double)msc_float_from_bits((uint32_t)bits);
      break;
    case MSCRT_F16: w.is_float = true; w.f = (double)mscrt_from_f16((uint16_t)bits); break;
    case MSCRT_BF16: w.is_float = true; w.f = (double)mscrt_from_bf16((uint16_t)bits); break;
    case MSCRT_F64: w.is_float = true; memcpy(&w.f, &bits, 8); break;
    default:
      if (is_signed(d) && bytes < 8) bits = (uint64_t)((int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
      w.i = (int64_t)bits;
      w.high = !is_signed(d) && w.i < 0;
  }
  return w;
}

static double as_double(const wide *w) {
  if (w->is_float) return w->f;
  return w->high ? (double)(uint64_t)w->i : (double)w->i;
}

static bool integer_fits(const wide *w, mscrt_dtype d) {
  int bits = d == MSCRT_I1 ? 1 : 8 * dtypes[d].bytes;
  if (!is_signed(d)) {
    if (!w->high && w->i < 0) return false;
    return bits == 64 || (uint64_t)w->i >> bits == 0;
  }
  if (w->high) return false;
  return bits == 64 || (w->i >= -((int64_t)1 << (bits - 1)) && w->i < (int64_t)1 << (bits - 1));
}

static bool store_wide(mscrt_dtype d, uint8_t *p, const wide *w) {
  float f = (float)as_double(w);
  double g = as_double(w);
  uint16_t h;
  switch (d) {
    case MSCRT_F32: memcpy(p, &f, 4); return true;
    case MSCRT_F64: memcpy(p, &g, 8); return true;
    case MSCRT_F16: h = mscrt_to_f16(f); memcpy(p, &h, 2); return true;
    case MSCRT_BF16: h = mscrt_to_bf16(f); memcpy(p, &h, 2); return true;
    default:
      if (!integer_fits(w, d)) return false;
      memcpy(p, &w->i, dtypes[d].bytes);
      return true;
  }
}

/* Converts pixels. They are divided, not multiplied by 1/255, which would round differently. */
static void bytes_to_f32(uint8_t *dst, int64_t stride, const uint8_t *src, float divisor, int64_t num) {
  uint8_t bytes[64] = {0}; /* always 64 at a time, so that the compiler vectorizes */
  float block[64];
  for (int64_t at = 0; at < num; at += 64) {
    int64_t n = num - at < 64 ? num - at : 64;
    memcpy(bytes, src + at, (size_t)n);
    for (int i = 0; i < 64; i++) block[i] = (float)bytes[i] / divisor;
    if (stride == 1) memcpy(dst + at * 4, block, (size_t)n * 4);
    else for (int64_t i = 0; i < n; i++) memcpy(dst + (at + i) * stride * 4, &block[i], 4);
  }
}

static void doubles_to_f32(uint8_t *dst, const uint8_t *src, int64_t num) {
  for (int64_t i = 0; i < num; i++) {
    double v;
    memcpy(&v, src + i * 8, 8);
    float f = (float)v;
    memcpy(dst + i * 4, &f, 4);
  }
}

int64_t mscrt_convert(mscrt_dtype to, void *dst, int64_t dst_stride, mscrt_dtype from, const void *src, bool big_endian,
                      bool scale, int64_t num) {
  uint8_t *d = dst;
  const uint8_t *s = src;
  size_t to_bytes = dtypes[to].bytes, from_bytes = dtypes[from].bytes;
  if (to == from && to != MSCRT_I1 && dst_stride == 1 && (!big_endian || to_bytes == 1)) {
    memcpy(d, s, (size_t)num * to_bytes);
    return MSCRT_CONVERTED;
  }
  if (to == MSCRT_F32 && from == MSCRT_U8) {
    bytes_to_f32(d, dst_stride, s, scale ? 255 : 1, num);
    return MSCRT_CONVERTED;
  }
  if (to == MSCRT_F32 && from == MSCRT_F64 && dst_stride == 1 && !big_endian) {
    doubles_to_f32(d, s, num);
    return MSCRT_CONVERTED;
  }
  scale = scale && from == MSCRT_U8 && mscrt_is_float(to);
  for (int64_t i = 0; i < num; i++) {
    wide w = load_wide(from, s + (size_t)i * from_bytes, big_endian);
    if (scale) w = (wide){.is_float = true, .f = to == MSCRT_F64 ? (double)w.i / 255.0 : (double)((float)w.i / 255.0f)};
    if (!store_wide(to, d + (size_t)(i * dst_stride) * to_bytes, &w)) return i;
  }
  return MSCRT_CONVERTED;
}

/* ---- shapes ---- */

const char *mscrt_shape_text(int rank, const int64_t *shape, char buffer[MSCRT_SHAPE_TEXT]) {
  int n = snprintf(buffer, MSCRT_SHAPE_TEXT, "[");
  for (int d = 0; d < rank && d < MSCRT_MAX_RANK; d++)
    n += snprintf(buffer + n, (size_t)(MSCRT_SHAPE_TEXT - n), "%s%" PRId64, d ? "," : "", shape[d]);
  snprintf(buffer + n, (size_t)(MSCRT_SHAPE_TEXT - n), "]");
  return buffer;
}

bool mscrt_shape_bytes(int rank, const int64_t *shape, size_t elem_bytes, uint64_t *out_bytes) {
  uint64_t n = elem_bytes;
  bool empty = false;
  for (int d = 0; d < rank; d++) {
    if (shape[d] < 0) return false;
    if (shape[d] == 0) empty = true;
    else if (__builtin_mul_overflow(n, (uint64_t)shape[d], &n) || n >> 62) return false;
  }
  *out_bytes = empty ? 0 : n;
  return true;
}
