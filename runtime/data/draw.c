/* draw.c: a key and the number of a block in; uniform or normal random numbers out, four of that block and of each of
 * those behind it. They are made by sums, products, quotients and square roots in f64, which all CPUs round alike, so
 * they are the same for every width of vectors and every library of C. */
#pragma GCC optimize("tree-vectorize", "vect-cost-model=dynamic", "no-trapping-math", "fp-contract=off")
#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "ir/abi/philox.h"
#include "runtime/data/draw.h"

enum { LANES = MSCRT_DRAWN_BLOCKS };

static inline uint64_t bits_of(double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}

static inline double of_bits(uint64_t bits) {
  double v;
  memcpy(&v, &bits, 8);
  return v;
}

/* A word as the number in the middle of its place among 2^32 numbers from 0 to 2^32; exact. The word becomes the low
 * bits of 2^52, which is subtracted again: a conversion that SSE2 has. */
static inline double middle_of(uint32_t word) { return of_bits(0x4330000000000000 | word) - 0x1p52 + 0.5; }

/* ln(x / 2^32) of x between 0 and 2^32, none of the two. x = m 2^e with m between sqrt(1/2) and sqrt(2), and
 * ln m = 2 artanh((m - 1) / (m + 1)), by its series; ten terms leave out less than 2^-57 of it. */
static inline double log_of_share(double x) {
  uint64_t bits = bits_of(x), up = (bits & 0xfffffffffffff) > 0x6a09e667f3bcd; /* of sqrt(2) */
  double e = of_bits(0x4330000000000000 | ((bits >> 52) + up)) - (0x1p52 + 1023 + 32);
  double m = of_bits((bits & 0xfffffffffffff) | (1023 - up) << 52);
  double s = (m - 1) / (m + 1), z = s * s, series = 2.0 / 21;
  series = series * z + 2.0 / 19;
  series = series * z + 2.0 / 17;
  series = series * z + 2.0 / 15;
  series = series * z + 2.0 / 13;
  series = series * z + 2.0 / 11;
  series = series * z + 2.0 / 9;
  series = series * z + 2.0 / 7;
  series = series * z + 2.0 / 5;
  series = series * z + 2.0 / 3;
  return e * 0x1.62e42fefa39efp-1 + (2 * s + s * (z * series));
}

/* Cosine and sine of 2 pi x / 2^32, x between 0 and 2^32. What lies beyond the nearest quarter turn, which is exact, is
 * at most pi / 4; there the series leave out less than 2^-53 of the sine and of the cosine. */
static inline void turn(double x, double *out_cos, double *out_sin) {
  double quarters = x * 0x1p-30, shifted = quarters + 0x1.8p52;
  uint64_t nearest = bits_of(shifted);
  double a = (quarters - (shifted - 0x1.8p52)) * 0x1.921fb54442d18p0, z = a * a;
  double s = 1.0 / 355687428096000, c = 1.0 / 20922789888000;
  s = s * z - 1.0 / 1307674368000;
  c = c * z - 1.0 / 87178291200;
  s = s * z + 1.0 / 6227020800;
  c = c * z + 1.0 / 479001600;
  s = s * z - 1.0 / 39916800;
  c = c * z - 1.0 / 3628800;
  s = s * z + 1.0 / 362880;
  c = c * z + 1.0 / 40320;
  s = s * z - 1.0 / 5040;
  c = c * z - 1.0 / 720;
  s = s * z + 1.0 / 120;
  c = c * z + 1.0 / 24;
  s = a - a * z * (1.0 / 6 - z * s);
  c = 1 - z * (0.5 - z * c);
  /* odd quarters exchange them; the second and third turn the cosine's sign, the third and fourth the sine's */
  uint64_t odd = 0 - (nearest & 1), sine = bits_of(s), cosine = bits_of(c);
  *out_cos = of_bits(((cosine & ~odd) | (sine & odd)) ^ ((nearest + 1) & 2) << 62);
  *out_sin = of_bits(((sine & ~odd) | (cosine & odd)) ^ (nearest & 2) << 62);
}

/* Square roots, in place. The function of C may set errno, so that GCC makes no vectors of it. */
static inline void take_roots(double v[LANES]) {
#ifdef __x86_64__
  for (int i = 0; i < LANES; i += 2) _mm_storeu_pd(v + i, _mm_sqrt_pd(_mm_loadu_pd(v + i)));
#else
  for (int i = 0; i < LANES; i++) v[i] = sqrt(v[i]);
#endif
}

/* Word k of all blocks: r[k]. */
typedef uint32_t words[4][LANES];

#define FOR_WIDTH(width, ATTRIBUTE)                                                                             \
  ATTRIBUTE static void draw_words_##width(const uint32_t key[2], uint64_t block, words r) {                    \
    for (int i = 0; i < LANES; i++) {                                                                           \
      uint64_t number = block + (uint64_t)i;                                                                    \
      uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), 0, 0x696e6974 /* "init" */}, drawn[4]; \
      msc_philox(counter, key, drawn);                                                                          \
      for (int k = 0; k < 4; k++) r[k][i] = drawn[k];                                                           \
    }                                                                                                           \
  }                                                                                                             \
  ATTRIBUTE static void uniform_##width(double most, words r, double *out) {                                    \
    for (int i = 0; i < LANES; i++)                                                                             \
      for (int k = 0; k < 4; k++) out[4 * i + k] = most * (middle_of(r[k][i]) * 0x1p-31 - 1);                   \
  }                                                                                                             \
  ATTRIBUTE static void normal_##width(double deviation, words r, double *out) {                                \
    double radius[LANES], cosine[LANES], sine[LANES];                                                           \
    for (int k = 0; k < 4; k += 2) { /* Box and Muller: two uniform numbers become two normal ones */           \
      for (int i = 0; i < LANES; i++) radius[i] = -2 * log_of_share(middle_of(r[k][i]));                        \
      take_roots(radius);                                                                                       \
      for (int i = 0; i < LANES; i++) turn(middle_of(r[k + 1][i]), &cosine[i], &sine[i]);                       \
      for (int i = 0; i < LANES; i++) {                                                                         \
        out[4 * i + k] = deviation * radius[i] * cosine[i];                                                     \
        out[4 * i + k + 1] = deviation * radius[i] * sine[i];                                                   \
      }                                                                                                         \
    }                                                                                                           \
  }                                                                                                             \
  ATTRIBUTE static void draw_##width(bool normal, double scale, const uint32_t key[2], uint64_t block,          \
                                     double *out) {                                                             \
    words r;                                                                                                    \
    draw_words_##width(key, block, r);                                                                          \
    if (normal) normal_##width(scale, r, out);                                                                  \
    else uniform_##width(scale, r, out);                                                                        \
  }

FOR_WIDTH(least, )
#ifdef __x86_64__
FOR_WIDTH(avx2, __attribute__((target("avx2"))))
#endif

void mscrt_draw_blocks(bool normal, double scale, const uint32_t key[2], uint64_t block, double *out, bool plain) {
#ifdef __x86_64__
  if (!plain && __builtin_cpu_supports("avx2")) {
    draw_avx2(normal, scale, key, block, out);
    return;
  }
#endif
  (void)plain;
  draw_least(normal, scale, key, block, out);
}
