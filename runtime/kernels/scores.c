/* scores.c: the loops of attention between its products (score_loops.h) for each width of vectors, and which of them
 * this CPU runs. */
#pragma GCC optimize("O3")
#include <math.h>
#include <string.h>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/vectors.h"

enum { LANES = MSC_ATTENTION_LANES, STEP = MSC_ATTENTION_KEYS };

#define INLINE static inline __attribute__((always_inline))
typedef float four __attribute__((vector_size(16), aligned(4)));
static const int32_t lane_number[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The sum of LANES elements: those half as many apart are added, until one is left. */
INLINE float sum_of_lanes(const float *x) {
  const four *part = (const four *)x;
  four s = (part[0] + part[2]) + (part[1] + part[3]);
  return (s[0] + s[2]) + (s[1] + s[3]);
}

INLINE float larger_of(float most, float x) { return x > most ? x : most; }

INLINE float largest_of_lanes(const float *x) {
  float most[4];
  for (int i = 0; i < 4; i++) most[i] = larger_of(larger_of(x[i], x[i + 8]), larger_of(x[i + 4], x[i + 12]));
  return larger_of(larger_of(most[0], most[2]), larger_of(most[1], most[3]));
}

INLINE int64_t whole_lanes(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* The number of keys of the block that row i sees, from the first. */
INLINE int64_t keys_seen(const mscrt_scores *b, int64_t i) {
  int64_t seen = b->row + i - b->key + 1;
  return !b->causal || seen > b->keys ? b->keys : seen < 0 ? 0 : seen;
}

/* Clears the scores from `num`, a whole number of lanes, to the block's last; a row has room for whole lanes. */
INLINE void clear_behind(const mscrt_scores *b, float *s, int64_t num) {
  if (num < b->keys) memset(s + num, 0, sizeof *s * (size_t)(whole_lanes(b->keys) - num));
}

/* The natural logarithm of a normal number: of the mantissa the series of artanh. */
INLINE double logarithm(double x) {
  static const double parts[] = {1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1};
  int64_t as_bits, one = (int64_t)1 << 52;
  double m, sum = 0;
  memcpy(&as_bits, &x, sizeof as_bits);
  int32_t power = (int32_t)(as_bits >> 52) - 1023;
  as_bits = (as_bits & (one - 1)) | (int64_t)1023 << 52;
  memcpy(&m, &as_bits, sizeof m);
  double r = (m - 1) / (m + 1), square = r * r;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) sum = sum * square + parts[i];
  sum = 2 * r * sum + (double)power * 0.693147180559945309;
  return x == 0 ? -INFINITY : x > 0 && x < INFINITY ? sum : x;
}

#undef INLINE

#define NAME(word) word##_anywhere
#define TARGET
#define VECTOR 16
#include "runtime/kernels/score_loops.h"
#ifdef __x86_64__
#define NAME(word) word##_fma
#define TARGET __attribute__((target("avx2,fma")))
#define VECTOR 16
#include "runtime/kernels/score_loops.h"
#define NAME(word) word##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define VECTOR 32
#include "runtime/kernels/score_loops.h"
#define NAME(word) word##_avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma")))
#define VECTOR 64
#include "runtime/kernels/score_loops.h"
#endif

const mscrt_score_loops *mscrt_score_loops_of(int64_t most) {
#ifdef __x86_64__
  int64_t lanes = mscrt_vector_lanes(most);
  if (lanes > 4) return lanes == 16 ? &loops_avx512 : &loops_avx2;
  if (mscrt_vector_lanes(8) == 8) return &loops_fma;
#endif
  return &loops_anywhere;
}
