/* segment_sum.c: updates, sorted by the rows that they are added to, in; the sums of these rows out
 * (MSC_BUILTIN_SEGMENTS of ir/abi/builtin.h). */
#pragma GCC optimize("O3", "no-math-errno", "fp-contract=off")
#include <string.h>

#include "runtime/kernels/builtin.h"
#include "runtime/kernels/vectors.h"

enum {
  STRIP = 256, /* columns of a row that are added at a time */
  DEPTH = 8,   /* sums that wait for their neighbour in a tree over MSC_SEGMENTS_MOST_BLOCKS */
  AHEAD = 8    /* places between the update that is added and the one that is fetched */
};

/* A call, with a field for each of its buffers and numbers. */
typedef struct {
  const char *indices, *order, *updates;
  char *y;
  int64_t n, inner, num, start, each; /* each: updates of a block */
  bool wide;
} segments_call;

static inline int64_t segment_row(const segments_call *c, int64_t place) {
  return (c->wide ? ((const int64_t *)c->indices)[place] : ((const int32_t *)c->indices)[place]) - c->start;
}

/* Returns the number of the update at a place; 0 instead of one out of bounds, which only a broken plan has. */
static inline int64_t update_at(const segments_call *c, int64_t place) {
  uint32_t at = (uint32_t)((const int32_t *)c->order)[place];
  return at < (uint64_t)c->num ? at : 0;
}

/* The first place with row `row` or a later one. */
static int64_t place_of_row(const segments_call *c, int64_t row) {
  int64_t low = 0, high = c->num;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (segment_row(c, middle) < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

static inline void fetch_update(const segments_call *c, int64_t place, int64_t row_bytes) {
  if (place >= c->num) return;
  const char *p = c->updates + update_at(c, place) * row_bytes;
  for (int64_t at = 0; at < row_bytes && at < 1024; at += 64) __builtin_prefetch(p + at, 0);
}

/* The size of the smallest subtree that holds both blocks, as the number of bits of a block in it. */
static inline int common_bits(int64_t a, int64_t b) { return a == b ? 0 : 64 - __builtin_clzll((uint64_t)(a ^ b)); }

#define INLINE static inline __attribute__((always_inline))
/* add_strip adds columns [at, at + n) of the updates at places [from, to), all of which belong to one row.  `sum` is a
 * stack of sums of neighbouring subtrees, the largest one first; `last` has the last block of each. The two sums on top
 * are added once the next block lies outside of the smallest subtree that holds both. */
#define SEGMENTS(T)                                                                                                   \
  INLINE void add_strip_##T(const segments_call *c, int64_t from, int64_t to, int64_t at, int64_t n, T *restrict y) { \
    T sum[DEPTH][STRIP];                                                                                              \
    int64_t last[DEPTH];                                                                                              \
    int depth = 0;                                                                                                    \
    for (int64_t k = from; k < to;) {                                                                                 \
      int64_t update = update_at(c, k), block = update / c->each;                                                     \
      while (depth > 1 && common_bits(last[depth - 2], last[depth - 1]) <= common_bits(last[depth - 1], block)) {     \
        for (int64_t i = 0; i < n; i++) sum[depth - 2][i] += sum[depth - 1][i];                                       \
        last[depth - 2] = last[depth - 1], depth--;                                                                   \
      }                                                                                                               \
      T *restrict s = sum[depth];                                                                                     \
      const T *first = (const T *)c->updates + update * c->inner + at;                                                \
      for (int64_t i = 0; i < n; i++) s[i] = first[i] + 0; /* of -0 alone it is 0, as beside other ranks' zeros */    \
      for (k++; k < to && (update = update_at(c, k)) / c->each == block; k++) {                                       \
        const T *more = (const T *)c->updates + update * c->inner + at;                                               \
        for (int64_t i = 0; i < n; i++) s[i] += more[i];                                                              \
      }                                                                                                               \
      last[depth++] = block;                                                                                          \
    }                                                                                                                 \
    for (; depth > 1; depth--)                                                                                        \
      for (int64_t i = 0; i < n; i++) sum[depth - 2][i] += sum[depth - 1][i];                                         \
    memcpy(y, sum[0], (size_t)n * sizeof *y);                                                                         \
  }                                                                                                                   \
  /* copy_update does what add_strip does with a row's only update. */                                                \
  INLINE void copy_update_##T(const segments_call *c, int64_t place, T *restrict y) {                                 \
    const T *only = (const T *)c->updates + update_at(c, place) * c->inner;                                           \
    for (int64_t i = 0; i < c->inner; i++) y[i] = only[i] + 0;                                                        \
  }                                                                                                                   \
  INLINE void add_rows_##T(const segments_call *c, int64_t begin, int64_t end) {                                      \
    const int64_t row_bytes = c->inner * (int64_t)sizeof(T);                                                          \
    for (int64_t row = begin, from = place_of_row(c, begin), to; row < end; row++, from = to) {                       \
      int64_t next = from < c->num ? segment_row(c, from) : end;                                                      \
      next = next < row ? row : next < end ? next : end;                                                              \
      memset(c->y + row * row_bytes, 0, (size_t)((next - row) * row_bytes));                                          \
      row = next, to = from;                                                                                          \
      if (row == end) break;                                                                                          \
      while (to < c->num && segment_row(c, to) == row) fetch_update(c, to++ + AHEAD, row_bytes);                      \
      T *y = (T *)(c->y + row * row_bytes);                                                                           \
      if (to == from + 1) {                                                                                           \
        copy_update_##T(c, from, y);                                                                                  \
        continue;                                                                                                     \
      }                                                                                                               \
      for (int64_t at = 0; at < c->inner; at += STRIP)                                                                \
        add_strip_##T(c, from, to, at, c->inner - at < STRIP ? c->inner - at : STRIP, y + at);                        \
    }                                                                                                                 \
  }
SEGMENTS(float)
SEGMENTS(double)

#define ADD_ROWS(T, NAME, ATTRIBUTE) \
  ATTRIBUTE static void NAME(const segments_call *c, int64_t begin, int64_t end) { add_rows_##T(c, begin, end); }
ADD_ROWS(float, add_floats, )
ADD_ROWS(double, add_doubles, )
#ifdef __x86_64__
ADD_ROWS(float, add_floats_avx2, __attribute__((target("avx2"))))
ADD_ROWS(double, add_doubles_avx2, __attribute__((target("avx2"))))
#endif

void mscrt_run_segments(void *const *b, int64_t begin, int64_t end, const int64_t *d, const double *scalars) {
  segments_call c = {.indices = b[0],
                     .order = b[1],
                     .updates = b[2],
                     .y = b[3],
                     .n = d[MSC_SEGMENTS_N],
                     .inner = d[MSC_SEGMENTS_INNER],
                     .num = d[MSC_SEGMENTS_NUM],
                     .start = d[MSC_SEGMENTS_START],
                     .each = d[MSC_SEGMENTS_NUM] / d[MSC_SEGMENTS_BLOCKS],
                     .wide = d[MSC_SEGMENTS_INDEX_DTYPE] == MSCRT_I64};
  bool is_double = d[MSC_SEGMENTS_DTYPE] == MSCRT_F64;
  (void)scalars;
  if (!begin && c.num &&
      (segment_row(&c, 0) + c.start < 0 || segment_row(&c, c.num - 1) + c.start >= d[MSC_SEGMENTS_WHOLE]))
    *(int32_t *)b[4] = 1;
  if (!c.each) c.each = 1;
#ifdef __x86_64__
  if (mscrt_vector_lanes(8) == 8) {
    (is_double ? add_doubles_avx2 : add_floats_avx2)(&c, begin, end);
    return;
  }
#endif
  (is_double ? add_doubles : add_floats)(&c, begin, end);
}

static bool holds(uint64_t bytes, int64_t rows, int64_t inner, int64_t each) {
  int64_t need;
  return !__builtin_mul_overflow(rows, inner, &need) && !__builtin_mul_overflow(need, each, &need) &&
         (uint64_t)need <= bytes;
}

bool mscrt_segments_fit(uint32_t num, const uint64_t *bytes, const int64_t *d, int64_t items) {
  int64_t dtype = d[MSC_SEGMENTS_DTYPE], index = d[MSC_SEGMENTS_INDEX_DTYPE], n = d[MSC_SEGMENTS_N],
          inner = d[MSC_SEGMENTS_INNER], places = d[MSC_SEGMENTS_NUM], each = dtype == MSCRT_F64 ? 8 : 4;
  if ((dtype != MSCRT_F32 && dtype != MSCRT_F64) || (index != MSCRT_I32 && index != MSCRT_I64) || n < 0 || inner < 0 ||
      places < 0 || places > INT32_MAX || d[MSC_SEGMENTS_BLOCKS] < 1 ||
      d[MSC_SEGMENTS_BLOCKS] > MSC_SEGMENTS_MOST_BLOCKS || places % d[MSC_SEGMENTS_BLOCKS] || num != 5 || items != n ||
      bytes[4] < 4)
    return false;
  return holds(bytes[0], places, 1, index == MSCRT_I64 ? 8 : 4) && holds(bytes[1], places, 1, 4) &&
         holds(bytes[2], places, inner, each) && holds(bytes[3], n, inner, each);
}
