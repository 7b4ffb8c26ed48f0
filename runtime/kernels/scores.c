/* scores.c: the loops of attention between its products (attention.h), for the vectors that this CPU has: scores in;
 * weights, or weights and gradients of scores, out; rows copied, multiplied and divided.  Sixteen partial sums of each
 * row are added in one order, whatever the width of vectors. */
#pragma GCC optimize("O3")
#include <math.h>
#include <string.h>

#include "runtime/kernels/attention.h"

enum { LANES = MSC_ATTENTION_LANES, STEP = MSC_ATTENTION_KEYS };
typedef mscrt_lanes lanes;
typedef int32_t bits __attribute__((vector_size(4 * LANES), aligned(4)));

#define INLINE static inline __attribute__((always_inline))

/* Replaces x by exp(x), with an error of at most 2 units in the last place; results below the smallest normal number
 * become 0. x must not be above 0 by more than a rounding error. */
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

/* A vector whose lane i is lane i + half of x. Combining it with x, for half = 8, 4, 2 and 1, leaves the sum, or the
 * maximum, of all lanes in lane 0. */
#define UPPER(x, half)                                                                                            \
  __builtin_shufflevector(x, x, half, half + 1, half + 2, half + 3, half + 4, half + 5, half + 6, half + 7, half, \
                          half + 1, half + 2, half + 3, half + 4, half + 5, half + 6, half + 7)

INLINE float sum_of_lanes(const lanes *x) {
  lanes s = *x;
  s += UPPER(s, 8);
  s += UPPER(s, 4);
  s += UPPER(s, 2);
  s += UPPER(s, 1);
  return s[0];
}

/* Sets lanes of `most` to those of x that are larger. */
INLINE void take_larger(lanes *most, const lanes *x) {
  bits larger = (bits)(*x > *most);
  *most = (lanes)(((bits)*x & larger) | ((bits)*most & ~larger));
}

INLINE float largest_of_lanes(const lanes *x) {
  lanes most = *x, upper = UPPER(most, 8);
  take_larger(&most, &upper), upper = UPPER(most, 4);
  take_larger(&most, &upper), upper = UPPER(most, 2);
  take_larger(&most, &upper), upper = UPPER(most, 1);
  take_larger(&most, &upper);
  return most[0];
}

/* Sets the lanes behind the first `left` of x to `to`. */
INLINE void set_behind(lanes *x, int64_t left, float to) {
  const bits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  bits kept = (bits)(lane < (int32_t)left), other = (bits)((lanes){0} + to);
  *x = (lanes)(((bits)*x & kept) | (other & ~kept));
}

INLINE int64_t whole_lanes(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* The number of keys of the block that row i sees, from the first. */
INLINE int64_t keys_seen(const mscrt_scores *b, int64_t i) {
  int64_t seen = b->row + i - b->key + 1;
  return !b->causal || seen > b->keys ? b->keys : seen < 0 ? 0 : seen;
}

/* Reads the scores of a row of `num` from c on, scaled and masked; behind the row is -infinity. */
INLINE void read_scores(const mscrt_scores *b, const float *s, const float *mask, int64_t c, int64_t num, lanes *out) {
  lanes x = *(const lanes *)(s + c) * b->scale, added = {0};
  if (mask && !b->mask_key) x += mask[0];
  else if (mask && c + LANES <= num) x += *(const lanes *)(mask + c);
  else if (mask) {
    memcpy(&added, mask + c, sizeof *mask * (size_t)(num - c));
    x += added;
  }
  if (c + LANES > num) set_behind(&x, num - c, -INFINITY);
  *out = x;
}

/* Clears the scores from `num`, a whole number of lanes, to the block's last. */
INLINE void clear_behind(const mscrt_scores *b, float *s, int64_t num) {
  for (int64_t c = num; c < b->keys; c += LANES) *(lanes *)(s + c) = (lanes){0};
}

INLINE void weigh_rows(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size) {
  for (int64_t i = 0; i < b->rows; i++) {
    float *s = b->scores + i * STEP, largest, base, factor = 1;
    const float *mask = b->mask ? b->mask + i * b->mask_row : NULL;
    int64_t num = keys_seen(b, i);
    lanes sum = {0}, larger = (lanes){0} - INFINITY;
    clear_behind(b, s, whole_lanes(num));
    if (!num) continue;
    for (int64_t c = 0; c < num; c += LANES) {
      read_scores(b, s, mask, c, num, (lanes *)(s + c));
      take_larger(&larger, (const lanes *)(s + c));
    }
    largest = largest_of_lanes(&larger);
    if (!(largest > most[i])) largest = most[i];
    base = largest == -INFINITY ? 0 : largest; /* all are hidden so far */
    for (int64_t c = 0; c < num; c += LANES) {
      lanes x = *(const lanes *)(s + c) - base;
      exponentiate(&x);
      *(lanes *)(s + c) = x;
      sum += x;
    }
    if (largest != most[i]) factor = most[i] == -INFINITY ? 0 : exponential(most[i] - base);
    total[i] = total[i] * factor + sum_of_lanes(&sum);
    most[i] = largest;
    for (int64_t c = 0; c < num && b->keep; c++) s[c] *= b->keep[i * b->keep_row + c];
    for (int64_t c = 0; c < size && factor != 1; c++) sums[i * size + c] *= factor;
  }
}

INLINE void differentiate_rows(const mscrt_scores *b, const float *stats, const float *along) {
  for (int64_t i = 0; i < b->rows; i++) {
    float *s = b->scores + i * STEP, *d = b->other + i * STEP;
    const float *keep = b->keep ? b->keep + i * b->keep_row : NULL, *mask = b->mask ? b->mask + i * b->mask_row : NULL;
    int64_t num = keys_seen(b, i);
    for (int64_t c = 0; c < num && keep; c++) d[c] *= keep[c];
    for (int64_t c = 0; c < num; c += LANES) {
      lanes x, g = *(const lanes *)(d + c);
      read_scores(b, s, mask, c, num, &x);
      x -= stats[i];
      exponentiate(&x);
      g = x * (g - along[i]) * b->scale;
      if (c + LANES > num) set_behind(&x, num - c, 0), set_behind(&g, num - c, 0);
      *(lanes *)(s + c) = x;
      *(lanes *)(d + c) = g;
    }
    for (int64_t c = 0; c < num && keep; c++) s[c] *= keep[c];
    clear_behind(b, s, whole_lanes(num));
    clear_behind(b, d, whole_lanes(num));
  }
}

INLINE void multiply_rows(const float *a, int64_t step_a, const float *b, int64_t step_b, int64_t rows, int64_t size,
                          float *out_sums) {
  for (int64_t i = 0; i < rows; i++, a += step_a, b += step_b) {
    lanes sum = {0};
    float rest = 0;
    int64_t c = 0;
    for (; c + LANES <= size; c += LANES) sum += *(const lanes *)(a + c) * *(const lanes *)(b + c);
    for (; c < size; c++) rest += a[c] * b[c];
    out_sums[i] = sum_of_lanes(&sum) + rest;
  }
}

INLINE void divide_rows(const float *sums, const float *total, int64_t rows, int64_t size, float *y, int64_t step) {
  for (int64_t i = 0; i < rows; i++, sums += size, y += step) {
    int64_t c = 0;
    for (; c + LANES <= size; c += LANES) *(lanes *)(y + c) = *(const lanes *)(sums + c) / total[i];
    for (; c < size; c++) y[c] = sums[c] / total[i];
  }
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

INLINE void log_rows(const float *most, const float *total, int64_t rows, float *stats, int64_t step) {
  for (int64_t i = 0; i < rows; i += LANES) {
    int num = rows - i < LANES ? (int)(rows - i) : LANES;
    float sums[LANES] = {0};
    double logs[LANES];
    memcpy(sums, total + i, sizeof *sums * (size_t)num);
    for (int k = 0; k < LANES; k++) logs[k] = logarithm(sums[k]);
    for (int k = 0; k < num; k++) stats[(i + k) * step] = (float)((double)most[i + k] + logs[k]);
  }
}

INLINE void copy_rows(const float *from, int64_t step, int64_t rows, int64_t columns, int64_t width, float *to) {
  int64_t whole = columns / LANES * LANES;
  for (int64_t i = 0; i < rows; i++, from += step, to += width) {
    for (int64_t c = 0; c < whole; c += LANES) *(lanes *)(to + c) = *(const lanes *)(from + c);
    for (int64_t c = whole; c < width; c++) to[c] = c < columns ? from[c] : 0;
  }
}

/* Compiles the code once for each of several widths of vectors. */
#define FOR_WIDTH(NAME, ATTRIBUTE)                                                                                    \
  ATTRIBUTE static void weigh_##NAME(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size) {   \
    weigh_rows(b, most, total, sums, size);                                                                           \
  }                                                                                                                   \
  ATTRIBUTE static void differentiate_##NAME(const mscrt_scores *b, const float *stats, const float *along) {         \
    differentiate_rows(b, stats, along);                                                                              \
  }                                                                                                                   \
  ATTRIBUTE static void multiply_##NAME(const float *a, int64_t step_a, const float *b, int64_t step_b, int64_t rows, \
                                        int64_t size, float *out_sums) {                                              \
    multiply_rows(a, step_a, b, step_b, rows, size, out_sums);                                                        \
  }                                                                                                                   \
  ATTRIBUTE static void divide_##NAME(const float *sums, const float *total, int64_t rows, int64_t size, float *y,    \
                                      int64_t step) {                                                                 \
    divide_rows(sums, total, rows, size, y, step);                                                                    \
  }                                                                                                                   \
  ATTRIBUTE static void log_##NAME(const float *most, const float *total, int64_t rows, float *stats, int64_t step) { \
    log_rows(most, total, rows, stats, step);                                                                         \
  }                                                                                                                   \
  ATTRIBUTE static void copy_##NAME(const float *from, int64_t step, int64_t rows, int64_t columns, int64_t width,    \
                                    float *to) {                                                                      \
    copy_rows(from, step, rows, columns, width, to);                                                                  \
  }                                                                                                                   \
  static const mscrt_score_loops loops_##NAME = {weigh_##NAME,  differentiate_##NAME, multiply_##NAME,                \
                                                 divide_##NAME, log_##NAME,           copy_##NAME};
FOR_WIDTH(anywhere, )
#ifdef __x86_64__
FOR_WIDTH(avx2, __attribute__((target("avx2,fma"))))
FOR_WIDTH(avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma"))))
#endif

const mscrt_score_loops *mscrt_score_loops_here(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw"))
    return &loops_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &loops_avx2;
#endif
  return &loops_anywhere;
}
