/* score_loops.h: the loops of attention between its products (attention.h), for vectors of VECTOR bytes: scores in;
 * weights, or weights and gradients of scores, out; rows copied, multiplied and divided.  scores.c includes it once for
 * each width, with TARGET, the attribute of functions that use such vectors, and NAME(word), the word with the width;
 * all three are undefined behind it.  Sixteen partial sums of each row are added in one order, whatever the width. */

#define INLINE TARGET static inline __attribute__((always_inline))
#define floats NAME(floats)
#define bits NAME(bits)

typedef float floats __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef int32_t bits __attribute__((vector_size(VECTOR), aligned(4), may_alias));

/* The vectors that hold LANES elements, and a loop over them. */
#define NUM_PARTS (4 * LANES / VECTOR)
#define EACH_PART(p) (int p = 0; p < NUM_PARTS; p++)
/* The part p of the LANES elements from `at` on. */
#define PART(at, p) (*(floats *)((at) + (p) * (VECTOR / 4)))
#define CONST_PART(at, p) (*(const floats *)((at) + (p) * (VECTOR / 4)))

/* Replaces x by exp(x), with an error of at most 2 units in the last place; results below the smallest normal number
 * become 0. x must not be above 0 by more than a rounding error. */
INLINE void NAME(exponentiate)(floats *x) {
  const float log2_e = 1.44269504f, round = 12582912.0f /* 1.5 * 2^23 */, ln2_high = 0.693359375f,
              ln2_low = -2.12194440e-4f;
  floats v = *x, shifted = v * log2_e + round, n = shifted - round, r = v - n * ln2_high - n * ln2_low;
  floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  bits power = ((bits)shifted << 23) + 0x3f800000, tiny = (bits)(v < -87.3f);
  *x = (floats)((bits)(p * (floats)power) & ~tiny);
}

INLINE float NAME(exponential)(float x) {
  floats v = {x};
  NAME(exponentiate)(&v);
  return v[0];
}

/* Sets elements of `most` to those of x that are larger. */
INLINE void NAME(take_larger)(floats *most, const floats *x) {
  bits larger = (bits)(*x > *most);
  *most = (floats)(((bits)*x & larger) | ((bits)*most & ~larger));
}

/* Sets the elements behind the first `left` of LANES, of which x is part p, to `to`. */
INLINE void NAME(set_behind)(floats *x, int p, int64_t left, float to) {
  bits lane = *(const bits *)(lane_number + p * (VECTOR / 4));
  bits kept = (bits)(lane < (int32_t)left), other = (bits)((floats){0} + to);
  *x = (floats)(((bits)*x & kept) | (other & ~kept));
}

/* Reads part p of the scores of a row of `num` from c on, scaled and masked; behind the row is -infinity. */
INLINE floats NAME(read_scores)(const mscrt_scores *b, const float *s, const float *mask, int64_t c, int64_t num,
                                int p) {
  floats x = CONST_PART(s + c, p) * b->scale;
  if (mask && !b->mask_key) x += mask[0];
  else if (mask && c + LANES <= num) x += CONST_PART(mask + c, p);
  else if (mask) {
    float added[LANES] = {0};
    memcpy(added, mask + c, sizeof *mask * (size_t)(num - c));
    x += CONST_PART(added, p);
  }
  if (c + LANES > num) NAME(set_behind)(&x, p, num - c, -INFINITY);
  return x;
}

TARGET static void NAME(weigh)(const mscrt_scores *b, float *most, float *total, float *sums, int64_t size) {
  for (int64_t i = 0; i < b->rows; i++) {
    float *s = b->scores + i * STEP, largest, base, factor = 1;
    const float *mask = b->mask ? b->mask + i * b->mask_row : NULL;
    int64_t num = keys_seen(b, i);
    floats sum[NUM_PARTS] = {{0}}, larger[NUM_PARTS];
    for EACH_PART(p) larger[p] = (floats){0} - INFINITY;
    clear_behind(b, s, whole_lanes(num));
    if (!num) continue;
    for (int64_t c = 0; c < num; c += LANES)
      for EACH_PART(p) {
        floats x = NAME(read_scores)(b, s, mask, c, num, p);
        NAME(take_larger)(&larger[p], &x);
        PART(s + c, p) = x;
      }
    largest = largest_of_lanes((const float *)larger);
    if (!(largest > most[i])) largest = most[i];
    base = largest == -INFINITY ? 0 : largest; /* all are hidden so far */
    for (int64_t c = 0; c < num; c += LANES)
      for EACH_PART(p) {
        floats x = CONST_PART(s + c, p) - base;
        NAME(exponentiate)(&x);
        PART(s + c, p) = x;
        sum[p] += x;
      }
    if (largest != most[i]) factor = most[i] == -INFINITY ? 0 : NAME(exponential)(most[i] - base);
    total[i] = total[i] * factor + sum_of_lanes((const float *)sum);
    most[i] = largest;
    for (int64_t c = 0; c < num && b->keep; c++) s[c] *= b->keep[i * b->keep_row + c];
    for (int64_t c = 0; c < size && factor != 1; c++) sums[i * size + c] *= factor;
  }
}

TARGET static void NAME(differentiate)(const mscrt_scores *b, const float *stats, const float *along) {
  for (int64_t i = 0; i < b->rows; i++) {
    float *s = b->scores + i * STEP, *d = b->other + i * STEP;
    const float *keep = b->keep ? b->keep + i * b->keep_row : NULL, *mask = b->mask ? b->mask + i * b->mask_row : NULL;
    int64_t num = keys_seen(b, i);
    for (int64_t c = 0; c < num && keep; c++) d[c] *= keep[c];
    for (int64_t c = 0; c < num; c += LANES)
      for EACH_PART(p) {
        floats x = NAME(read_scores)(b, s, mask, c, num, p) - stats[i];
        NAME(exponentiate)(&x);
        floats g = x * (CONST_PART(d + c, p) - along[i]) * b->scale;
        if (c + LANES > num) NAME(set_behind)(&x, p, num - c, 0), NAME(set_behind)(&g, p, num - c, 0);
        PART(s + c, p) = x;
        PART(d + c, p) = g;
      }
    for (int64_t c = 0; c < num && keep; c++) s[c] *= keep[c];
    clear_behind(b, s, whole_lanes(num));
    clear_behind(b, d, whole_lanes(num));
  }
}

TARGET static void NAME(multiply)(const float *a, int64_t step_a, const float *b, int64_t step_b, int64_t rows,
                                  int64_t size, float *out_sums) {
  for (int64_t i = 0; i < rows; i++, a += step_a, b += step_b) {
    floats sum[NUM_PARTS] = {{0}};
    int64_t c = 0;
    for (; c + LANES <= size; c += LANES)
      for EACH_PART(p) sum[p] += CONST_PART(a + c, p) * CONST_PART(b + c, p);
    if (c < size) { /* not one by one: whether such products are rounded before they are added depends on the width */
      float x[LANES] = {0}, y[LANES] = {0};
      memcpy(x, a + c, sizeof *a * (size_t)(size - c));
      memcpy(y, b + c, sizeof *b * (size_t)(size - c));
      for EACH_PART(p) sum[p] += CONST_PART(x, p) * CONST_PART(y, p);
    }
    out_sums[i] = sum_of_lanes((const float *)sum);
  }
}

TARGET static void NAME(divide)(const float *sums, const float *total, int64_t rows, int64_t size, float *y,
                                int64_t step) {
  for (int64_t i = 0; i < rows; i++, sums += size, y += step) {
    int64_t c = 0;
    for (; c + LANES <= size; c += LANES)
      for EACH_PART(p) PART(y + c, p) = CONST_PART(sums + c, p) / total[i];
    for (; c < size; c++) y[c] = sums[c] / total[i];
  }
}

TARGET static void NAME(log)(const float *most, const float *total, int64_t rows, float *stats, int64_t step) {
  for (int64_t i = 0; i < rows; i += LANES) {
    int num = rows - i < LANES ? (int)(rows - i) : LANES;
    float sums[LANES] = {0};
    double logs[LANES];
    memcpy(sums, total + i, sizeof *sums * (size_t)num);
    for (int k = 0; k < LANES; k++) logs[k] = logarithm(sums[k]);
    for (int k = 0; k < num; k++) stats[(i + k) * step] = (float)((double)most[i + k] + logs[k]);
  }
}

TARGET static void NAME(copy)(const float *from, int64_t step, int64_t rows, int64_t columns, int64_t width,
                              float *to) {
  int64_t whole = columns / LANES * LANES;
  for (int64_t i = 0; i < rows; i++, from += step, to += width) {
    for (int64_t c = 0; c < whole; c += LANES)
      for EACH_PART(p) PART(to + c, p) = CONST_PART(from + c, p);
    for (int64_t c = whole; c < width; c++) to[c] = c < columns ? from[c] : 0;
  }
}

static const mscrt_score_loops NAME(loops) = {NAME(weigh),  NAME(differentiate), NAME(multiply),
                                              NAME(divide), NAME(log),           NAME(copy)};

#undef NAME
#undef TARGET
#undef VECTOR
#undef INLINE
#undef floats
#undef bits
#undef NUM_PARTS
#undef EACH_PART
#undef PART
#undef CONST_PART
