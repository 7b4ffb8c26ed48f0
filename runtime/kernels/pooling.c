/* pooling.c: the largest elements of windows, where they were, and gradients that go back there (MSC_BUILTIN_POOLING of
 * ir/abi/builtin.h).  Planes of f32 in, planes out; elements of a window count row by row, NaN is the largest. */
#pragma GCC optimize("O3")
#include <math.h>
#include <string.h>

#include "runtime/kernels/builtin.h"
#include "runtime/kernels/vectors.h"

enum { STRIP = 256 }; /* windows of a row that are looked at together */

typedef struct {
  int64_t kernel, stride, dilation, low, x, y;
} window;

static window window_of(const int64_t *d, int dim) {
  const int64_t *w = d + (dim ? MSC_POOLING_W : MSC_POOLING_H);
  return (window){w[MSC_POOLING_KERNEL], w[MSC_POOLING_STRIDE], w[MSC_POOLING_DILATION],
                  w[MSC_POOLING_LOW],    w[MSC_POOLING_X],      w[MSC_POOLING_Y]};
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* The first window whose element k is at position `at` or behind it. */
static int64_t first_at(const window *w, int64_t k, int64_t at) {
  int64_t distance = at + w->low - k * w->dilation;
  return distance <= 0 ? 0 : (distance + w->stride - 1) / w->stride;
}

/* ---- the largest ---- */

/* Replaces best[i] and its number by x[i * stride] and `number` where that is larger. */
static inline __attribute__((always_inline)) void take_larger(int64_t n, const float *x, int64_t stride, int32_t number,
                                                              float *best, int32_t *at) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i * stride], b = best[i];
    bool larger = (v > b) | ((v != v) & (b == b));
    best[i] = larger ? v : b;
    at[i] = larger ? number : at[i];
  }
}

typedef void take_row(int64_t n, const float *x, int64_t stride, int32_t number, float *best, int32_t *at);

/* Compiles the code once for each of several widths of vectors. */
#define TAKE_ROW(NAME, ATTRIBUTE)                                                                                   \
  ATTRIBUTE static void NAME(int64_t n, const float *x, int64_t stride, int32_t number, float *best, int32_t *at) { \
    if (stride == 1) take_larger(n, x, 1, number, best, at);                                                        \
    else if (stride == 2) take_larger(n, x, 2, number, best, at);                                                   \
    else take_larger(n, x, stride, number, best, at);                                                               \
  }
TAKE_ROW(take_row_anywhere, )
#ifdef __x86_64__
TAKE_ROW(take_row_avx2, __attribute__((target("avx2"))))
#endif

static take_row *find_take_row(void) {
#ifdef __x86_64__
  if (mscrt_vector_lanes(8) == 8) return take_row_avx2;
#endif
  return take_row_anywhere;
}

/* Computes windows [from, to) of row `o`: the largest element of each and its number; 0 for a window beyond the
 * edges. */
static void pool_strip(take_row *take, const window *h, const window *w, const float *x, int64_t o, int64_t from,
                       int64_t to, float *best, int32_t *at) {
  int64_t row = o * h->stride - h->low, first = row < 0 ? (-row + h->dilation - 1) / h->dilation : 0;
  bool any = first < h->kernel && row + first * h->dilation < h->x;
  for (int64_t i = from; i < to; i++) {
    int64_t column = i * w->stride - w->low, k = column < 0 ? (-column + w->dilation - 1) / w->dilation : 0;
    bool inside = any && k < w->kernel && column + k * w->dilation < w->x;
    best[i - from] = -INFINITY;
    at[i - from] = inside ? (int32_t)(first * w->kernel + k) : 0;
  }
  for (int64_t kh = first; kh < h->kernel && row + kh * h->dilation < h->x; kh++)
    for (int64_t kw = 0; kw < w->kernel; kw++) {
      int64_t begin = larger(from, first_at(w, kw, 0)), end = mscrt_smaller(to, first_at(w, kw, w->x));
      const float *line = x + (row + kh * h->dilation) * w->x + kw * w->dilation - w->low;
      if (begin < end)
        take(end - begin, line + begin * w->stride, w->stride, (int32_t)(kh * w->kernel + kw), best + begin - from,
             at + begin - from);
    }
}

static void pool_plane(const int64_t *d, const float *x, void *y) {
  window h = window_of(d, 0), w = window_of(d, 1);
  take_row *take = find_take_row();
  float best[STRIP];
  int32_t at[STRIP];
  for (int64_t o = 0; o < h.y; o++)
    for (int64_t from = 0; from < w.y; from += STRIP) {
      int64_t to = mscrt_smaller(from + STRIP, w.y);
      pool_strip(take, &h, &w, x, o, from, to, best, at);
      memcpy((char *)y + (o * w.y + from) * 4, d[MSC_POOLING_KIND] == MSC_POOLING_MAX ? (void *)best : (void *)at,
             (size_t)(to - from) * 4);
    }
}

/* ---- the gradient ---- */

/* Adds the gradients of all windows of a plane, from the last window to the first, so that the terms of an element have
 * the order of their numbers. */
static void unpool_plane(const int64_t *d, const int32_t *index, const float *dy, float *dx) {
  window h = window_of(d, 0), w = window_of(d, 1);
  memset(dx, 0, (size_t)(h.x * w.x) * sizeof *dx);
  for (int64_t o = h.y; o-- > 0;)
    for (int64_t i = w.y; i-- > 0;) {
      int64_t k = index[o * w.y + i];
      if (k < 0 || k >= h.kernel * w.kernel) continue;
      int64_t kh = (int64_t)((uint32_t)k / (uint32_t)w.kernel), row = o * h.stride - h.low + kh * h.dilation,
              column = i * w.stride - w.low + (k - kh * w.kernel) * w.dilation;
      if (row >= 0 && row < h.x && column >= 0 && column < w.x) dx[row * w.x + column] += dy[o * w.y + i];
    }
}

void mscrt_run_pool(void *const *b, int64_t begin, int64_t end, const int64_t *d, const double *scalars) {
  int64_t of_x = d[MSC_POOLING_H + MSC_POOLING_X] * d[MSC_POOLING_W + MSC_POOLING_X],
          of_y = d[MSC_POOLING_H + MSC_POOLING_Y] * d[MSC_POOLING_W + MSC_POOLING_Y];
  (void)scalars;
  for (int64_t item = begin; item < end; item++) {
    if (d[MSC_POOLING_KIND] == MSC_POOLING_BACK)
      unpool_plane(d, (const int32_t *)b[0] + item * of_y, (const float *)b[1] + item * of_y,
                   (float *)b[2] + item * of_x);
    else pool_plane(d, (const float *)b[0] + item * of_x, (char *)b[1] + item * of_y * 4);
  }
}

/* ---- checking a call ---- */

static bool is_size(int64_t n) { return n > 0 && n <= INT32_MAX; }

static bool window_fits(const int64_t *w) {
  return is_size(w[MSC_POOLING_KERNEL]) && is_size(w[MSC_POOLING_STRIDE]) && is_size(w[MSC_POOLING_DILATION]) &&
         w[MSC_POOLING_LOW] >= 0 && w[MSC_POOLING_LOW] <= INT32_MAX && is_size(w[MSC_POOLING_X]) &&
         is_size(w[MSC_POOLING_Y]);
}

bool mscrt_pool_fits(uint32_t num, const uint64_t *bytes, const int64_t *d, int64_t items) {
  const int64_t *h = d + MSC_POOLING_H, *w = d + MSC_POOLING_W;
  int64_t of_x, of_y;
  bool back = d[MSC_POOLING_KIND] == MSC_POOLING_BACK;
  if (d[MSC_POOLING_KIND] < 0 || d[MSC_POOLING_KIND] >= MSC_NUM_POOLINGS || num != (back ? 3u : 2u) ||
      !window_fits(h) || !window_fits(w) || h[MSC_POOLING_KERNEL] * w[MSC_POOLING_KERNEL] > INT32_MAX)
    return false;
  if (__builtin_mul_overflow(h[MSC_POOLING_X] * w[MSC_POOLING_X], items, &of_x) ||
      __builtin_mul_overflow(h[MSC_POOLING_Y] * w[MSC_POOLING_Y], items, &of_y) || of_x > INT64_MAX / 4 ||
      of_y > INT64_MAX / 4)
    return false;
  uint64_t need[3] = {(uint64_t)(back ? of_y : of_x) * 4, (uint64_t)of_y * 4, (uint64_t)of_x * 4};
  for (uint32_t i = 0; i < num; i++)
    if (bytes[i] < need[i]) return false;
  return true;
}
