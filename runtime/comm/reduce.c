/* reduce.c: the arithmetic of reductions: combines the values of several ranks as a balanced tree of neighbours,
 * ((0+1)+(2+3))+(4+5). Sums of blocks inside a rank have the same form (msc_sum_blocks in ir/ir.h). */
#pragma GCC optimize("O3")
#include <string.h>

#include "runtime/comm/comm.h"

#define BLOCK 512 /* elements combined at a time: a block of every type stays in the first-level cache */
#define LEVELS 12 /* depth of the tree, enough for MSCRT_MAX_LOCAL terms */

/* The larger and the smaller value; NaN if either is NaN, as in numpy. */
#define TAKE_MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define TAKE_MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

#define COMBINE(name, T, ADD, MUL)                                               \
  static void combine_##name(msc_reduction red, T *acc, const T *v, int64_t n) { \
    switch (red) {                                                               \
      case MSC_MAX:                                                              \
        for (int64_t i = 0; i < n; i++) acc[i] = TAKE_MAX(acc[i], v[i]);         \
        break;                                                                   \
      case MSC_MIN:                                                              \
        for (int64_t i = 0; i < n; i++) acc[i] = TAKE_MIN(acc[i], v[i]);         \
        break;                                                                   \
      case MSC_PROD:                                                             \
        for (int64_t i = 0; i < n; i++) acc[i] = (T)(MUL);                       \
        break;                                                                   \
      default:                                                                   \
        for (int64_t i = 0; i < n; i++) acc[i] = (T)(ADD);                       \
        break;                                                                   \
    }                                                                            \
  }

#define FLOATS acc[i] + v[i], acc[i] * v[i]
/* Integers wrap around; unsigned arithmetic has defined overflow. */
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

static void combine_block(mscrt_dtype d, msc_reduction red, void *acc, const void *v, int64_t n) {
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

static void widen_to_f32(mscrt_dtype d, float *to, const uint16_t *from, int64_t n) {
  if (d == MSCRT_BF16) for (int64_t i = 0; i < n; i++) to[i] = mscrt_from_bf16(from[i]);
  else for (int64_t i = 0; i < n; i++) to[i] = mscrt_from_f16(from[i]);
}

/* Adds f16 and bf16 in f32. */
typedef struct {
  mscrt_dtype dtype, inside;
  msc_reduction red;
  const void *const *src;
  int64_t at, n;
} combining;

static void load_term(const combining *c, int term, void *to) {
  const char *from = (const char *)c->src[term] + (size_t)c->at * mscrt_dtype_bytes(c->dtype);
  if (c->dtype == c->inside) memcpy(to, from, (size_t)c->n * mscrt_dtype_bytes(c->dtype));
  else widen_to_f32(c->dtype, to, (const uint16_t *)(const void *)from, c->n);
}

static void store_combined(const combining *c, const void *from, void *dst) {
  char *to = (char *)dst + (size_t)c->at * mscrt_dtype_bytes(c->dtype);
  if (c->dtype == c->inside) memcpy(to, from, (size_t)c->n * mscrt_dtype_bytes(c->dtype));
  else if (c->dtype == MSCRT_BF16)
    for (int64_t i = 0; i < c->n; i++) ((uint16_t *)(void *)to)[i] = mscrt_to_bf16(((const float *)from)[i]);
  else for (int64_t i = 0; i < c->n; i++) ((uint16_t *)(void *)to)[i] = mscrt_to_f16(((const float *)from)[i]);
}

/* Combines `num` terms from `first` on: the largest power of two below num, then the rest; `room` has a block for
 * each level. */
static void combine_term_tree(const combining *c, int first, int num, char *room) {
  if (num == 1) {
    load_term(c, first, room);
    return;
  }
  int left = 1;
  while (2 * left < num) left *= 2;
  combine_term_tree(c, first, left, room);
  bool direct = num - left == 1 && c->dtype == c->inside;
  const char *right =
      direct ? (const char *)c->src[first + left] + (size_t)c->at * mscrt_dtype_bytes(c->dtype) : room + BLOCK * 8;
  if (!direct) combine_term_tree(c, first + left, num - left, room + BLOCK * 8);
  combine_block(c->inside, c->red, room, right, c->n);
}

void mscrt_combine(mscrt_dtype dtype, msc_reduction red, int num, const void *const *src, void *dst, int64_t elems) {
  bool half = dtype == MSCRT_F16 || dtype == MSCRT_BF16;
  _Alignas(64) char room[LEVELS * BLOCK * 8];
  for (int64_t at = 0; at < elems; at += BLOCK) {
    combining c = {dtype, half ? MSCRT_F32 : dtype, red, src, at, elems - at < BLOCK ? elems - at : BLOCK};
    combine_term_tree(&c, 0, num, room);
    store_combined(&c, room, dst);
  }
}

/* ---- identities ---- */

static uint64_t identity_bits(mscrt_dtype d, msc_reduction red) {
  static const uint64_t one[] = {0x3f800000, 0x3c00, 0x3f80, 0x3ff0000000000000},
                        infinite[] = {0x7f800000, 0x7c00, 0x7f80, 0x7ff0000000000000};
  size_t bits = 8 * mscrt_dtype_bytes(d);
  if (red == MSC_SUM) return 0;
  if (mscrt_is_float(d))
    return red == MSC_PROD ? one[d] : red == MSC_MIN ? infinite[d] : infinite[d] | (uint64_t)1 << (bits - 1);
  if (red == MSC_PROD) return 1;
  if (d == MSCRT_I1) return red == MSC_MIN;
  bool is_signed = d >= MSCRT_I8 && d <= MSCRT_I64;
  uint64_t all = UINT64_MAX >> (64 - bits), sign = (uint64_t)1 << (bits - 1);
  if (red == MSC_MAX) return is_signed ? sign : 0;
  return is_signed ? all ^ sign : all;
}

void mscrt_fill_identity(mscrt_dtype dtype, msc_reduction red, void *dst, int64_t elems) {
  size_t bytes = mscrt_dtype_bytes(dtype);
  uint64_t v = identity_bits(dtype, red);
  for (int64_t i = 0; i < elems; i++) memcpy((char *)dst + (size_t)i * bytes, &v, bytes);
}
