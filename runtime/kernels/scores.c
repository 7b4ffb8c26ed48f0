/* scores.c: rows of a block of attention's scores -> weights, or weights and gradients of scores (attention.h).
 * Sixteen partial sums of each row are added in one order, whatever the width of vectors. */
#pragma GCC optimize("O3")
#include <math.h>
#include <string.h>

#include "runtime/kernels/attention.h"

enum { LANES = MSC_ATTENTION_LANES, STEP = MSC_ATTENTION_KEYS };
typedef mscrt_lanes lanes;
typedef int32_t bits __attribute__((vector_size(4 * LANES), aligned(4)));

#define INLINE static inline __attribute__((always_inline))

/* Replaces x, which is 0 or less but for rounding, by exp(x), to 2 units of the last place; less than the smallest
 * normal number is 0. */
INLINE void exponentiate(lanes *x) {
  const float log2_e = 1.44269504f, round = 12582912.0f /* 1.5 * 2^23 */, ln2_high = 0.693359375f,
              ln2_low = -2.12194440e-4f;
  lanes v = *x, shifted = v * log2_e + round, n = shifted - round, r = v - n * ln2_high - n * ln2_low;
  lanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  bits power = ((bits)shifted << 23) + 0x3f800000, tiny = (bits)(v < -87.3f);
  *x = (lanes)((bits)(p * (lanes)power) & ~tiny);
}

INLINE float exponential(float x) {
  lanes v = {x};
  exponentiate(&v);
  return v[0];
}

INLINE float sum_of_lanes(const lanes *x) {
  float s[LANES];
  memcpy(s, x, sizeof s);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++) s[i] += s[i + half];
  return s[0];
}

INLINE int64_t whole_lanes(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* The number of keys of the block that row i sees, from the first. */
INLINE int64_t keys_seen(const mscrt_scores *b, int64_t i) {
  int64_t seen = b->row + i - b->key + 1;
  return !b->causal || seen > b->keys ? b->keys : seen < 0 ? 0 : seen;
}

/* Scales and masks `num` scores; behind them, up to whole lanes, is -infinity. */
INLINE void scale_row(const mscrt_scores *b, float *s, const float *mask, int64_t num) {
  if (!mask)
    for (int64_t c = 0; c < num; c++) s[c] *= b->scale;
  else if (b->mask_key)
    for (int64_t c = 0; c < num; c++) s[c] = s[c] * b->scale + mask[c];
  else
    for (int64_t c = 0; c < num; c++) s[c] = s[c] * b->scale + mask[0];
  for (int64_t c = num; c < whole_lanes(num); c++) s[c] = -INFINITY;
}

INLINE float largest_of(const float *s, int64_t num) {
  lanes most = *(const lanes *)s;
  float of_lane[LANES];
  for (int64_t c = LANES; c < num; c += LANES) {
    lanes x = *(const lanes *)(s + c);
    bits larger = (bits)(x > most);
    most = (lanes)(((bits)x & larger) | ((bits)most & ~larger));
  }
  memcpy(of_lane, &most, sizeof most);
  for (int i = 1; i < LANES; i++)
    if (of_lane[i] > of_lane[0]) of_lane[0] = of_lane[i];
  return of_lane[0];
}

INLINE void weigh_rows(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size) {
  for (int64_t i = 0; i < b->rows; i++) {
    float *s = b->scores + i * STEP, largest, base, factor;
    int64_t num = keys_seen(b, i);
    lanes sum = {0};
    memset(s + num, 0, sizeof *s * (size_t)(b->keys - num));
    if (!num) continue;
    scale_row(b, s, b->mask ? b->mask + i * b->mask_row : NULL, num);
    largest = largest_of(s, num);
    if (!(largest > most[i])) largest = most[i];
    base = largest == -INFINITY ? 0 : largest; /* all are hidden so far */
    for (int64_t c = 0; c < num; c += LANES) {
      lanes x = *(const lanes *)(s + c) - base;
      exponentiate(&x);
      *(lanes *)(s + c) = x;
      sum += x;
    }
    factor = largest == most[i] ? 1 : exponential(most[i] - base);
    total[i] = total[i] * factor + sum_of_lanes(&sum);
    most[i] = largest;
    for (int64_t c = 0; c < num && b->keep; c++) s[c] *= b->keep[i * b->keep_row + c];
    for (int64_t c = 0; c < size && factor != 1; c++) sums[i * size + c] *= factor;
  }
}

INLINE void differentiate_rows(const mscrt_scores *b, const float *stats, const float *along) {
  for (int64_t i = 0; i < b->rows; i++) {
    float *s = b->scores + i * STEP, *d = b->other + i * STEP;
    const float *keep = b->keep ? b->keep + i * b->keep_row : NULL;
    int64_t num = keys_seen(b, i);
    scale_row(b, s, b->mask ? b->mask + i * b->mask_row : NULL, num);
    for (int64_t c = 0; c < num && keep; c++) d[c] *= keep[c];
    for (int64_t c = 0; c < num; c += LANES) {
      lanes x = *(const lanes *)(s + c) - stats[i], g = *(const lanes *)(d + c);
      exponentiate(&x);
      *(lanes *)(s + c) = x;
      *(lanes *)(d + c) = x * (g - along[i]) * b->scale;
    }
    for (int64_t c = 0; c < num && keep; c++) s[c] *= keep[c];
    memset(s + num, 0, sizeof *s * (size_t)(b->keys - num));
    memset(d + num, 0, sizeof *d * (size_t)(b->keys - num));
  }
}

/* Compiles the code once for each of several widths of vectors. */
#define FOR_WIDTH(NAME, ATTRIBUTE)                                                                                  \
  ATTRIBUTE static void weigh_##NAME(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size) { \
    weigh_rows(b, most, total, sums, size);                                                                         \
  }                                                                                                                 \
  ATTRIBUTE static void differentiate_##NAME(const mscrt_scores *b, const float *stats, const float *along) {       \
    differentiate_rows(b, stats, along);                                                                            \
  }
FOR_WIDTH(anywhere, )
#ifdef __x86_64__
FOR_WIDTH(avx2, __attribute__((target("avx2,fma"))))
FOR_WIDTH(avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma"))))

static int width_here(void) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw"))
    return 64;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 32 : 16;
}
#endif

void mscrt_weigh_scores(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size) {
#ifdef __x86_64__
  int width = width_here();
  if (width == 64) weigh_avx512(b, most, total, sums, size);
  else if (width == 32) weigh_avx2(b, most, total, sums, size);
  else
#endif
    weigh_anywhere(b, most, total, sums, size);
}

void mscrt_differentiate_scores(const mscrt_scores *b, const float *stats, const float *along) {
#ifdef __x86_64__
  int width = width_here();
  if (width == 64) differentiate_avx512(b, stats, along);
  else if (width == 32) differentiate_avx2(b, stats, along);
  else
#endif
    differentiate_anywhere(b, stats, along);
}
