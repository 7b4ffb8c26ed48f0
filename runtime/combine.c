/* combine.c: the arithmetic of reductions: values of several ranks, in rank order, into one. */
#pragma GCC optimize("O3")
#include <math.h>
#include <string.h>

#include "runtime/comm.h"

#define BLOCK 1024 /* elements that are combined at a time: a block of all kinds stays in the first cache */

/* NaN wins, as in numpy. */
#define TAKE_MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define TAKE_MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

#define COMBINE(name, T, ADD, MUL)                                                                    \
  static void combine_##name(mscrt_reduction red, T *acc, const T *v, int64_t n) {                    \
    switch (red) {                                                                                    \
      case MSCRT_MAX: for (int64_t i = 0; i < n; i++) acc[i] = TAKE_MAX(acc[i], v[i]); break;         \
      case MSCRT_MIN: for (int64_t i = 0; i < n; i++) acc[i] = TAKE_MIN(acc[i], v[i]); break;         \
      case MSCRT_PROD: for (int64_t i = 0; i < n; i++) acc[i] = (T)(MUL); break;                      \
      default: for (int64_t i = 0; i < n; i++) acc[i] = (T)(ADD); break;                              \
    }                                                                                                 \
  }

#define FLOATS acc[i] + v[i], acc[i] * v[i]
/* Integers wrap around: unsigned arithmetic is the defined way to say so. */
#define WRAP (uint64_t)acc[i] + (uint64_t)v[i], (uint64_t)acc[i] * (uint64_t)v[i]
#define EXPAND(name, T, ...) COMBINE(name, T, __VA_ARGS__)
EXPAND(f32, float, FLOATS)
EXPAND(f64, double, FLOATS)
EXPAND(i8, int8_t, WRAP)
EXPAND(i16, int16_t, WRAP)
EXPAND(i32, int32_t, WRAP)
EXPAND(i64, int64_t, WRAP)
EXPAND(u8, uint8_t, WRAP)
EXPAND(u16, uint16_t, WRAP)
EXPAND(u32, uint32_t, WRAP)
EXPAND(u64, uint64_t, WRAP)
/* Truth values: a sum is "any", a product "all". */
EXPAND(i1, uint8_t, acc[i] | v[i], acc[i] & v[i])

static void combine_block(mscrt_dtype d, mscrt_reduction red, void *acc, const void *v, int64_t n) {
  switch (d) {
    case MSCRT_F64: combine_f64(red, acc, v, n); break;
    case MSCRT_I1: combine_i1(red, acc, v, n); break;
    case MSCRT_I8: combine_i8(red, acc, v, n); break;
    case MSCRT_I16: combine_i16(red, acc, v, n); break;
    case MSCRT_I32: combine_i32(red, acc, v, n); break;
    case MSCRT_I64: combine_i64(red, acc, v, n); break;
    case MSCRT_U8: combine_u8(red, acc, v, n); break;
    case MSCRT_U16: combine_u16(red, acc, v, n); break;
    case MSCRT_U32: combine_u32(red, acc, v, n); break;
    case MSCRT_U64: combine_u64(red, acc, v, n); break;
    default: combine_f32(red, acc, v, n); break;
  }
}

static void widen(mscrt_dtype d, float *to, const uint16_t *from, int64_t n) {
  if (d == MSCRT_BF16) for (int64_t i = 0; i < n; i++) to[i] = mscrt_from_bf16(from[i]);
  else for (int64_t i = 0; i < n; i++) to[i] = mscrt_from_f16(from[i]);
}

static void combine_halves(mscrt_dtype d, mscrt_reduction red, int num, const void *const *src, int64_t at, int64_t n, uint16_t *dst) {
  float acc[BLOCK], v[BLOCK];
  widen(d, acc, (const uint16_t *)src[0] + at, n);
  for (int t = 1; t < num; t++) {
    widen(d, v, (const uint16_t *)src[t] + at, n);
    combine_f32(red, acc, v, n);
  }
  if (d == MSCRT_BF16) for (int64_t i = 0; i < n; i++) dst[i] = mscrt_to_bf16(acc[i]);
  else for (int64_t i = 0; i < n; i++) dst[i] = mscrt_to_f16(acc[i]);
}

void mscrt_combine(mscrt_dtype dtype, mscrt_reduction red, int num, const void *const *src, void *dst, int64_t elems) {
  size_t bytes = mscrt_dtype_bytes(dtype);
  _Alignas(64) char acc[BLOCK * 8];
  for (int64_t at = 0; at < elems; at += BLOCK) {
    int64_t n = elems - at < BLOCK ? elems - at : BLOCK;
    size_t skip = (size_t)at * bytes;
    if (dtype == MSCRT_F16 || dtype == MSCRT_BF16) {
      combine_halves(dtype, red, num, src, at, n, (uint16_t *)dst + at);
      continue;
    }
    memcpy(acc, (const char *)src[0] + skip, (size_t)n * bytes);
    for (int t = 1; t < num; t++) combine_block(dtype, red, acc, (const char *)src[t] + skip, n);
    memcpy((char *)dst + skip, acc, (size_t)n * bytes);
  }
}

/* ---- identities ---- */

static uint64_t identity_bits(mscrt_dtype d, mscrt_reduction red) {
  static const uint64_t one[] = {0x3f800000, 0x3c00, 0x3f80, 0x3ff0000000000000}, infinite[] = {0x7f800000, 0x7c00, 0x7f80, 0x7ff0000000000000};
  size_t bits = 8 * mscrt_dtype_bytes(d);
  if (red == MSCRT_SUM) return 0;
  if (mscrt_is_float(d)) return red == MSCRT_PROD ? one[d] : red == MSCRT_MIN ? infinite[d] : infinite[d] | (uint64_t)1 << (bits - 1);
  if (red == MSCRT_PROD) return 1;
  if (d == MSCRT_I1) return red == MSCRT_MIN;
  bool is_signed = d >= MSCRT_I8 && d <= MSCRT_I64;
  uint64_t all = UINT64_MAX >> (64 - bits), sign = (uint64_t)1 << (bits - 1);
  if (red == MSCRT_MAX) return is_signed ? sign : 0;
  return is_signed ? all ^ sign : all;
}

void mscrt_fill_identity(mscrt_dtype dtype, mscrt_reduction red, void *dst, int64_t elems) {
  size_t bytes = mscrt_dtype_bytes(dtype);
  uint64_t v = identity_bits(dtype, red);
  for (int64_t i = 0; i < elems; i++) memcpy((char *)dst + (size_t)i * bytes, &v, bytes);
}
