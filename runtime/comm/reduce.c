/* reduce.c: the arithmetic of reductions: combines the values of several ranks as a balanced tree of neighbours,
 * ((0+1)+(2+3))+(4+5). Sums of blocks inside a rank have the same form (msc_sum_blocks in ir/ir.h). */
#pragma GCC optimize("O3", "no-trapping-math")
#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "runtime/comm/comm.h"
#include "runtime/half.h"

#define BLOCK 512 /* elements combined at a time: a block of every type stays in the first-level cache */
#define LEVELS 12 /* depth of the tree, enough for MSCRT_MAX_LOCAL terms */
#define LINE   64

/* ---- two terms ---- */

/* The larger and the smaller value; NaN if either is NaN, as in numpy. */
#define TAKE_MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define TAKE_MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

/* `to` may be a or b: the loops carry nothing from one element to the next, which GCC is told. */
#define LOOP(VALUE)                                                   \
  _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) to[i] = VALUE; \
  break

#define COMBINE(name, T, ATTRIBUTE, ADD, MUL)                                                         \
  ATTRIBUTE static void combine_##name(msc_reduction red, const T *a, const T *b, T *to, int64_t n) { \
    switch (red) {                                                                                    \
      case MSC_MAX: LOOP(TAKE_MAX(a[i], b[i]));                                                       \
      case MSC_MIN: LOOP(TAKE_MIN(a[i], b[i]));                                                       \
      case MSC_PROD: LOOP((T)(MUL));                                                                  \
      default: LOOP((T)(ADD));                                                                        \
    }                                                                                                 \
  }

/* Integers wrap around; unsigned arithmetic has defined overflow. */
#define INTEGERS(name, T) COMBINE(name, T, , (uint64_t)a[i] + (uint64_t)b[i], (uint64_t)a[i] * (uint64_t)b[i])
INTEGERS(i8, int8_t)
INTEGERS(i16, int16_t)
INTEGERS(i32, int32_t)
INTEGERS(i64, int64_t)
INTEGERS(u8, uint8_t)
INTEGERS(u16, uint16_t)
INTEGERS(u32, uint32_t)
INTEGERS(u64, uint64_t)
/* Truth values: a sum is "any", a product "all". */
COMBINE(i1, uint8_t, , a[i] | b[i], a[i] & b[i])

/* The loops over floats, for one width of vectors. */
typedef struct {
  void (*combine_f32)(msc_reduction red, const float *a, const float *b, float *to, int64_t n);
  void (*combine_f64)(msc_reduction red, const double *a, const double *b, double *to, int64_t n);
  /* these write n elements, rounded up to 16 */
  void (*widen)(mscrt_dtype d, float *to, const uint16_t *from, int64_t n);
  void (*narrow)(mscrt_dtype d, uint16_t *to, const float *from, int64_t n);
} vectors;

#define FOR_WIDTH(width, ATTRIBUTE)                                                                 \
  COMBINE(f32_##width, float, ATTRIBUTE, a[i] + b[i], a[i] * b[i])                                  \
  COMBINE(f64_##width, double, ATTRIBUTE, a[i] + b[i], a[i] * b[i])                                 \
  ATTRIBUTE static void widen_##width(mscrt_dtype d, float *to, const uint16_t *from, int64_t n) {  \
    uint16_t rest[16] = {0};                                                                        \
    if (d == MSCRT_BF16) for (int64_t i = 0; i < n; i++) to[i] = msc_from_bf16(from[i]);            \
    else                                                                                            \
      for (int64_t at = 0; at < n; at += 16, from += 16) {                                          \
        if (n - at < 16) from = memcpy(rest, from, (size_t)(n - at) * 2);                           \
        for (int i = 0; i < 16; i++) to[at + i] = msc_from_f16(from[i]);                            \
      }                                                                                             \
  }                                                                                                 \
  ATTRIBUTE static void narrow_##width(mscrt_dtype d, uint16_t *to, const float *from, int64_t n) { \
    if (d == MSCRT_BF16) for (int64_t i = 0; i < n; i++) to[i] = msc_to_bf16(from[i]);              \
    else                                                                                            \
      for (int64_t at = 0; at < n; at += 16)                                                        \
        for (int i = 0; i < 16; i++) to[at + i] = msc_to_f16(from[at + i]);                         \
  }                                                                                                 \
  static const vectors by_##width = {combine_f32_##width, combine_f64_##width, widen_##width, narrow_##width};

FOR_WIDTH(least, )
#ifdef __x86_64__
FOR_WIDTH(avx2, __attribute__((target("avx2"))))
#endif

static const vectors *choose_vectors(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return &by_avx2;
#endif
  return &by_least;
}

static void combine_two(const vectors *v, mscrt_dtype d, msc_reduction red, const void *a, const void *b, void *to,
                        int64_t n) {
  switch (d) {
    case MSCRT_F64: v->combine_f64(red, a, b, to, n); break;
    case MSCRT_I1: combine_i1(red, a, b, to, n); break;
    case MSCRT_I8: combine_i8(red, a, b, to, n); break;
    case MSCRT_I16: combine_i16(red, a, b, to, n); break;
    case MSCRT_I32: combine_i32(red, a, b, to, n); break;
    case MSCRT_I64: combine_i64(red, a, b, to, n); break;
    case MSCRT_U8: combine_u8(red, a, b, to, n); break;
    case MSCRT_U16: combine_u16(red, a, b, to, n); break;
    case MSCRT_U32: combine_u32(red, a, b, to, n); break;
    case MSCRT_U64: combine_u64(red, a, b, to, n); break;
    default: v->combine_f32(red, a, b, to, n); break;
  }
}

/* ---- trees ---- */

/* Adds f16 and bf16 in f32. */
typedef struct {
  const vectors *v;
  mscrt_dtype dtype, inside;
  msc_reduction red;
  const void *const *src;
  int64_t at, n;
} combining;

/* Returns the block of a term: where it lies, or widened in `room`. */
static const void *find_term(const combining *c, int term, char *room) {
  const char *from = (const char *)c->src[term] + (size_t)c->at * mscrt_dtype_bytes(c->dtype);
  if (c->dtype == c->inside) return from;
  c->v->widen(c->dtype, (float *)(void *)room, (const uint16_t *)(const void *)from, c->n);
  return room;
}

/* Combines `num` terms from `first` on: the largest power of two below num, then the rest. Returns where the result
 * is: a single term, or in `to`; NULL: in `room`, which has a block for each level. */
static const void *combine_term_tree(const combining *c, int first, int num, char *room, void *to) {
  if (num == 1) return find_term(c, first, room);
  int left = 1;
  while (2 * left < num) left *= 2;
  const void *a = combine_term_tree(c, first, left, room, NULL),
             *b = combine_term_tree(c, first + left, num - left, room + BLOCK * 8, NULL);
  void *result = to ? to : room;
  combine_two(c->v, c->inside, c->red, a, b, result, c->n);
  return result;
}

/* memcpy with stores that do not fetch the lines of dst; until order_stores others may not see them. */
static void stream_bytes(void *dst, const void *src, size_t bytes) {
#ifdef __x86_64__
  char *to = dst;
  const char *from = src;
  size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
  if (bytes >= head + LINE) {
    memcpy(to, from, head);
    for (to += head, from += head, bytes -= head; bytes >= LINE; to += LINE, from += LINE, bytes -= LINE)
      for (int i = 0; i < LINE; i += 16)
        _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
  }
  memcpy(to, from, bytes);
#else
  memcpy(dst, src, bytes);
#endif
}

static void order_stores(void) {
#ifdef __x86_64__
  _mm_sfence();
#endif
}

void mscrt_copy_past_caches(void *dst, const void *src, size_t bytes) {
  stream_bytes(dst, src, bytes);
  order_stores();
}

static mscrt_dtype dtype_inside(mscrt_dtype d) { return d == MSCRT_F16 || d == MSCRT_BF16 ? MSCRT_F32 : d; }

/* Stores a block of results of the inner type, `at` elements behind the begin of each destination. */
static void store_block(const vectors *v, mscrt_dtype d, const void *from, int num_dst, void *const *dst, int64_t at,
                        int64_t n, bool past_caches) {
  _Alignas(64) uint16_t narrow[BLOCK];
  size_t elem = mscrt_dtype_bytes(d);
  if (d != dtype_inside(d)) {
    v->narrow(d, narrow, from, n);
    from = narrow;
  }
  for (int i = 0; i < num_dst; i++) {
    char *to = (char *)dst[i] + (size_t)at * elem;
    if (past_caches) stream_bytes(to, from, (size_t)n * elem);
    else if (to != from) memcpy(to, from, (size_t)n * elem);
  }
}

void mscrt_combine_for_all(mscrt_dtype dtype, msc_reduction red, int num, const void *const *src, int num_dst,
                           void *const *dst, int64_t elems, bool past_caches) {
  bool in_place = dtype == dtype_inside(dtype) && num_dst == 1 && !past_caches;
  size_t elem = mscrt_dtype_bytes(dtype);
  _Alignas(64) char room[LEVELS * BLOCK * 8];
  combining c = {choose_vectors(), dtype, dtype_inside(dtype), red, src, 0, 0};
  for (; c.at < elems; c.at += BLOCK) {
    c.n = elems - c.at < BLOCK ? elems - c.at : BLOCK;
    const void *from = combine_term_tree(&c, 0, num, room, in_place ? (char *)dst[0] + (size_t)c.at * elem : NULL);
    store_block(c.v, dtype, from, num_dst, dst, c.at, c.n, past_caches);
  }
  if (past_caches) order_stores();
}

void mscrt_combine_inside(mscrt_dtype dtype, msc_reduction red, int num, const void *const *src, void *out,
                          int64_t elems) {
  size_t elem = mscrt_dtype_bytes(dtype_inside(dtype));
  _Alignas(64) char room[LEVELS * BLOCK * 8];
  combining c = {choose_vectors(), dtype, dtype_inside(dtype), red, src, 0, 0};
  for (; c.at < elems; c.at += BLOCK) {
    c.n = elems - c.at < BLOCK ? elems - c.at : BLOCK;
    const void *from = combine_term_tree(&c, 0, num, room, NULL);
    memcpy((char *)out + (size_t)c.at * elem, from, (size_t)c.n * elem);
  }
}

void mscrt_store_for_all(mscrt_dtype dtype, const void *inside, int num_dst, void *const *dst, int64_t elems) {
  size_t elem = mscrt_dtype_bytes(dtype_inside(dtype));
  const vectors *v = choose_vectors();
  for (int64_t at = 0; at < elems; at += BLOCK)
    store_block(v, dtype, (const char *)inside + (size_t)at * elem, num_dst, dst, at,
                elems - at < BLOCK ? elems - at : BLOCK, false);
}

void mscrt_combine(mscrt_dtype dtype, msc_reduction red, int num, const void *const *src, void *dst, int64_t elems) {
  mscrt_combine_for_all(dtype, red, num, src, 1, &dst, elems, false);
}

/* ---- identities ---- */

void mscrt_fill_identity(mscrt_dtype dtype, msc_reduction red, void *dst, int64_t elems) {
  size_t bytes = mscrt_dtype_bytes(dtype);
  uint64_t v = msc_reduction_identity_bits(red, (msc_dtype)dtype);
  for (int64_t i = 0; i < elems; i++) memcpy((char *)dst + (size_t)i * bytes, &v, bytes);
}
