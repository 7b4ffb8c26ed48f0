/* pairs.c: see pairs.h.  Loops without branches, which become vectors. */
#pragma GCC optimize("O3")
#include "runtime/kernels/pairs.h"

#include <string.h>

#include "runtime/half.h"
#include "runtime/kernels/vectors.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void round_elements(float *x, int64_t num) {
  for (int64_t i = 0; i < num; i++) x[i] = msc_from_bf16(msc_to_bf16(x[i]));
}

INLINE void put_terms(float *restrict pairs, const float *restrict row, int64_t num, bool second) {
  if (second)
    for (int64_t i = 0; i < num; i++)
      pairs[i] = msc_float_from_bits(msc_bits_of_float(pairs[i]) | msc_bits_of_float(row[i]));
  else
    for (int64_t i = 0; i < num; i++) pairs[i] = msc_float_from_bits(msc_bits_of_float(row[i]) >> 16);
}

INLINE void narrow_row(const float *restrict row, int64_t num, int64_t filled, uint16_t *restrict to) {
  for (int64_t i = 0; i < num; i++) to[i] = msc_to_bf16(row[i]);
  memset(to + num, 0, sizeof *to * (size_t)(filled - num));
}

/* Compiles the code once for each of several widths of vectors. */
#define FOR_WIDTH(NAME, ATTRIBUTE)                                                                           \
  ATTRIBUTE static void round_##NAME(float *x, int64_t num) { round_elements(x, num); }                      \
  ATTRIBUTE static void put_##NAME(float *pairs, const float *row, int64_t num, bool second) {               \
    put_terms(pairs, row, num, second);                                                                      \
  }                                                                                                          \
  ATTRIBUTE static void narrow_##NAME(const float *row, int64_t num, int64_t filled, uint16_t *to) {         \
    narrow_row(row, num, filled, to);                                                                        \
  }                                                                                                          \
  static const mscrt_pair_loops loops_##NAME = {round_##NAME, put_##NAME, narrow_##NAME};
FOR_WIDTH(anywhere, )
#ifdef __x86_64__
FOR_WIDTH(avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512"))))
#endif

const mscrt_pair_loops *mscrt_pair_loops_here(void) {
#ifdef __x86_64__
  if (mscrt_vector_lanes(16) == 16) return &loops_avx512;
#endif
  return &loops_anywhere;
}
