/* depthwise_convolution.c: a convolution in which each channel is a group, or one of its gradients, in; its result out,
 * one item of msc_windows_cut_of_channels at a time. The lanes of vectors are channels: a few lines of the images are
 * transposed so that channels are the last dimension, with zeros for padding and for missing channels. An element is
 * the same sum for every width of vectors: lanes are never added, and products are rounded before they are added. */
#pragma GCC optimize("O3", "fp-contract=off")
#include <string.h>

#include "runtime/kernels/vectors.h"
#include "runtime/kernels/windows.h"

enum { BLOCKS = 8 /* places that are summed at once */, SUMS = MSC_WINDOWS_SUMS, WIDEST = 16 };

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef float sixteen __attribute__((vector_size(64), aligned(4), may_alias));

typedef struct {
  msc_windows v;
  msc_windows_cut cut;
  int64_t first, num; /* channels of the item */
  const float *from, *other;
  float *to, *seen, *room, *tile;
  int32_t *offset, *tap;
} item;

/* The places of a band of the result, in a grid: neighbouring places read elements `see` apart, and are written `make`
 * apart; [0] from line to line, [1] within a line. */
typedef struct {
  int64_t size[2], see[2], make[2];
  const float *seen;
  float *made;
} grid;

/* ---- channels as the last dimension ---- */

static inline void transpose_square(four *a, four *b, four *c, four *d) {
  four ab = __builtin_shufflevector(*a, *b, 0, 4, 1, 5),
       cd = __builtin_shufflevector(*c, *d, 0, 4, 1, 5),
       ef = __builtin_shufflevector(*a, *b, 2, 6, 3, 7),
       gh = __builtin_shufflevector(*c, *d, 2, 6, 3, 7);
  *a = __builtin_shufflevector(ab, cd, 0, 1, 4, 5),
  *b = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  *c = __builtin_shufflevector(ef, gh, 0, 1, 4, 5),
  *d = __builtin_shufflevector(ef, gh, 2, 3, 6, 7);
}

/* Reads `num` lines of `size` elements, `apart` from each other, to `size` vectors of so many lanes. Squares beside
 * each other come first: they fill lines of the cache. The last ones overlap those before. */
static void pack_lanes(float *to, int64_t lanes, const float *from, int64_t apart, int64_t num, int64_t size) {
  int64_t whole = size < 4 ? 0 : num / 4 * 4;
  for (int64_t i = 0; i < size && whole; i += 4)
    for (int64_t c = 0, at = mscrt_smaller(i, size - 4); c < whole; c += 4) {
      four v[4];
      for (int k = 0; k < 4; k++) v[k] = *(const four *)(from + (c + k) * apart + at);
      transpose_square(&v[0], &v[1], &v[2], &v[3]);
      for (int k = 0; k < 4; k++) *(four *)(to + (at + k) * lanes + c) = v[k];
    }
  for (int64_t c = whole; c < num; c++)
    for (int64_t i = 0; i < size; i++) to[i * lanes + c] = from[c * apart + i];
}

/* Writes `size` vectors of so many lanes to `num` lines, `apart` from each other. */
static void unpack_lanes(float *to, int64_t apart, int64_t num, const float *from, int64_t lanes, int64_t size) {
  int64_t whole = size < 4 ? 0 : num / 4 * 4;
  for (int64_t i = 0; i < size && whole; i += 4)
    for (int64_t c = 0, at = mscrt_smaller(i, size - 4); c < whole; c += 4) {
      four v[4];
      for (int k = 0; k < 4; k++) v[k] = *(const four *)(from + (at + k) * lanes + c);
      transpose_square(&v[0], &v[1], &v[2], &v[3]);
      for (int k = 0; k < 4; k++) *(four *)(to + (c + k) * apart + at) = v[k];
    }
  for (int64_t c = whole; c < num; c++)
    for (int64_t i = 0; i < size; i++) to[c * apart + i] = from[i * lanes + c];
}

/* Packs lines of an image, or of its gradient, from line `line` and column `column` on, which may lie outside. */
static void see_lines(const item *t, const float *from, const int64_t size[2], int64_t line, int64_t column) {
  int64_t lanes = t->cut.columns, begin = column < 0 ? -column : 0, end = mscrt_smaller(t->cut.line, size[1] - column);
  memset(t->seen, 0, sizeof *t->seen * (size_t)t->cut.seen);
  for (int64_t i = 0; i < t->cut.lines && begin < end; i++)
    if (line + i >= 0 && line + i < size[0])
      pack_lanes(t->seen + (i * t->cut.line + begin) * lanes, lanes, from + (line + i) * size[1] + column + begin,
                 size[0] * size[1], t->num, end - begin);
}

/* ---- sums ---- */

/* sum_places writes to each place of a grid the sum of the elements that it sees, times their weights. add_products
 * sums the products of each line of dy with the elements that it sees, and adds the sums of the lines to `sum`. */
#define KERNELS(V, suffix, attributes)                                                                             \
  attributes static void sum_places_##suffix(const item *t, const grid *g, int64_t taps) {                         \
    enum { LANES = sizeof(V) / sizeof(float) };                                                                    \
    int64_t all = g->size[0] * g->size[1], lanes = t->cut.columns, i = 0, j = 0;                                   \
    for (int64_t place = 0; place < all; place += BLOCKS) {                                                        \
      const float *at[BLOCKS];                                                                                     \
      float *to[BLOCKS];                                                                                           \
      for (int k = 0; k < BLOCKS; k++) {                                                                           \
        at[k] = g->seen + i * g->see[0] + j * g->see[1], to[k] = g->made + i * g->make[0] + j * g->make[1];        \
        if (place + k + 1 >= all) continue;                                                                        \
        if (++j == g->size[1]) j = 0, i++;                                                                         \
      }                                                                                                            \
      for (int64_t lane = 0; lane < lanes; lane += LANES) {                                                        \
        V sum[BLOCKS] = {{0}};                                                                                     \
        const float *weight = t->tile + lane;                                                                      \
        for (int64_t i_tap = 0; i_tap < taps; i_tap++) {                                                           \
          int64_t offset = t->offset[i_tap] + lane;                                                                \
          V one = *(const V *)(weight + t->tap[i_tap] * lanes);                                                    \
          _Pragma("GCC unroll 8") for (int k = 0; k < BLOCKS; k++) sum[k] += one * *(const V *)(at[k] + offset);   \
        }                                                                                                          \
        _Pragma("GCC unroll 8") for (int k = 0; k < BLOCKS; k++) * (V *)(to[k] + lane) = sum[k];                   \
      }                                                                                                            \
    }                                                                                                              \
  }                                                                                                                \
  attributes static void add_products_##suffix(const item *t, const grid *g, int64_t taps) {                       \
    enum { LANES = sizeof(V) / sizeof(float) };                                                                    \
    int64_t lanes = t->cut.columns;                                                                                \
    for (int64_t first = 0; first < taps; first += SUMS)                                                           \
      for (int64_t lane = 0; lane < lanes; lane += LANES)                                                          \
        for (int64_t i = 0; i < g->size[0]; i++) {                                                                 \
          V sum[SUMS] = {{0}};                                                                                     \
          const float *seen = g->seen + i * g->see[0] + lane, *dy = g->made + i * g->make[0] + lane;               \
          const int32_t *offset = t->offset + first;                                                               \
          for (int64_t j = 0; j < g->size[1]; j++, seen += g->see[1], dy += g->make[1]) {                          \
            V one = *(const V *)dy;                                                                                \
            _Pragma("GCC unroll 9") for (int k = 0; k < SUMS; k++) sum[k] += one * *(const V *)(seen + offset[k]); \
          }                                                                                                        \
          _Pragma("GCC unroll 9") for (int k = 0; k < SUMS; k++) * (V *)(t->tile + (first + k) * lanes + lane) +=  \
              sum[k];                                                                                              \
        }                                                                                                          \
  }

KERNELS(four, sse2, )
KERNELS(eight, avx2, __attribute__((target("avx2"))))
KERNELS(sixteen, avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw"))))

typedef void kernel(const item *t, const grid *g, int64_t taps);

/* The kernel for the lanes of the item, with vectors that are no longer than those that the plan is made for. */
static kernel *find_kernel(const item *t, kernel *sse2, kernel *avx2, kernel *avx512) {
  int64_t lanes = mscrt_vector_lanes(mscrt_smaller(t->cut.columns, msc_product_lanes(t->v.width)));
  return lanes == 16 ? avx512 : lanes == 8 ? avx2 : sse2;
}

static void sum_places(const item *t, const grid *g, int64_t taps) {
  find_kernel(t, sum_places_sse2, sum_places_avx2, sum_places_avx512)(t, g, taps);
}

/* ---- y and dx ---- */

/* Packs the weights of the item's channels. */
static void pack_weights(const item *t) {
  int64_t taps = msc_windows_taps(&t->v);
  memset(t->tile, 0, sizeof *t->tile * (size_t)(taps * t->cut.columns));
  pack_lanes(t->tile, t->cut.columns, t->other + t->first * taps, taps, t->num, taps);
}

/* Lists the elements of the kernel, and how far from the first element that a place reads each of them reads. */
static void list_taps(const item *t) {
  const msc_windows *v = &t->v;
  int64_t taps = msc_windows_taps(v);
  for (int64_t i = 0; i < taps + SUMS; i++) {
    int64_t tap = mscrt_smaller(i, taps - 1), k = tap / v->kernel[1], l = tap % v->kernel[1];
    t->offset[i] = (int32_t)((k * v->dilation[0] * t->cut.line + l * v->dilation[1]) * t->cut.columns);
    if (i < taps) t->tap[i] = (int32_t)tap;
  }
}

static void make_y(const item *t, int64_t image) {
  const msc_windows *v = &t->v;
  int64_t lanes = t->cut.columns, pixels = v->x[0] * v->x[1], places = v->y[0] * v->y[1];
  list_taps(t);
  for (int64_t line = 0; line < v->y[0]; line += t->cut.rows) {
    int64_t lines = mscrt_smaller(t->cut.rows, v->y[0] - line);
    see_lines(t, t->from + (image * v->c + t->first) * pixels, v->x, line * v->step[0] - v->padding[0], -v->padding[1]);
    grid g = {.size = {lines, v->y[1]},
              .see = {v->step[0] * t->cut.line * lanes, v->step[1] * lanes},
              .make = {v->y[1] * lanes, lanes},
              .seen = t->seen,
              .made = t->room};
    sum_places(t, &g, msc_windows_taps(v));
    unpack_lanes(t->to + (image * v->o + t->first) * places + line * v->y[1], places, t->num, t->room, lanes,
                 lines * v->y[1]);
  }
}

/* Lists the elements of the kernel through which places of x at offset `rest` from a whole step read dy, and where they
 * read it. Returns the number of elements. */
static int64_t list_taps_of_rest(const item *t, const int64_t rest[2]) {
  const msc_windows *v = &t->v;
  int64_t num = 0;
  for (int64_t tap = msc_windows_taps(v); tap-- > 0;) {
    int64_t at[2], in_kernel[2] = {tap / v->kernel[1], tap % v->kernel[1]};
    bool sees = true;
    for (int d = 0; d < 2; d++) {
      int64_t from = rest[d] + v->padding[d] - in_kernel[d] * v->dilation[d];
      sees = sees && from % v->step[d] == 0;
      at[d] = from / v->step[d] - msc_windows_first_seen(v, d);
    }
    if (!sees) continue;
    t->tap[num] = (int32_t)tap;
    t->offset[num++] = (int32_t)((at[0] * t->cut.line + at[1]) * t->cut.columns);
  }
  return num;
}

/* Computes dx of the item's channels of an image. Places of x that are a multiple of the step apart read dy through the
 * same elements of the kernel, so they are computed together. */
static void make_x(const item *t, int64_t image) {
  const msc_windows *v = &t->v;
  int64_t lanes = t->cut.columns, pixels = v->x[0] * v->x[1], places = v->y[0] * v->y[1];
  for (int64_t line = 0; line < v->x[0]; line += t->cut.rows) {
    int64_t lines = mscrt_smaller(t->cut.rows, v->x[0] - line), rest[2];
    see_lines(t, t->from + (image * v->o + t->first) * places, v->y, line / v->step[0] + msc_windows_first_seen(v, 0),
              msc_windows_first_seen(v, 1));
    for (rest[0] = 0; rest[0] < mscrt_smaller(v->step[0], lines); rest[0]++)
      for (rest[1] = 0; rest[1] < mscrt_smaller(v->step[1], v->x[1]); rest[1]++) {
        grid g = {.size = {(lines - rest[0] + v->step[0] - 1) / v->step[0],
                           (v->x[1] - rest[1] + v->step[1] - 1) / v->step[1]},
                  .see = {t->cut.line * lanes, lanes},
                  .make = {v->step[0] * v->x[1] * lanes, v->step[1] * lanes},
                  .seen = t->seen,
                  .made = t->room + (rest[0] * v->x[1] + rest[1]) * lanes};
        sum_places(t, &g, list_taps_of_rest(t, rest));
      }
    unpack_lanes(t->to + (image * v->c + t->first) * pixels + line * v->x[1], pixels, t->num, t->room, lanes,
                 lines * v->x[1]);
  }
}

/* ---- the weights' gradient ---- */

static void make_weights(const item *t) {
  const msc_windows *v = &t->v;
  int64_t lanes = t->cut.columns, taps = msc_windows_taps(v), pixels = v->x[0] * v->x[1], places = v->y[0] * v->y[1];
  list_taps(t);
  memset(t->tile, 0, sizeof *t->tile * (size_t)t->cut.tile);
  if (t->num < lanes) memset(t->room, 0, sizeof *t->room * (size_t)t->cut.room);
  for (int64_t image = 0; image < v->n; image++)
    for (int64_t line = 0; line < v->y[0]; line += t->cut.rows) {
      int64_t lines = mscrt_smaller(t->cut.rows, v->y[0] - line);
      see_lines(t, t->from + (image * v->c + t->first) * pixels, v->x, line * v->step[0] - v->padding[0],
                -v->padding[1]);
      pack_lanes(t->room, lanes, t->other + (image * v->o + t->first) * places + line * v->y[1], places, t->num,
                 lines * v->y[1]);
      grid g = {.size = {lines, v->y[1]},
                .see = {v->step[0] * t->cut.line * lanes, v->step[1] * lanes},
                .make = {v->y[1] * lanes, lanes},
                .seen = t->seen,
                .made = t->room};
      find_kernel(t, add_products_sse2, add_products_avx2, add_products_avx512)(t, &g, taps);
    }
  unpack_lanes(t->to + t->first * taps, taps, t->num, t->tile, lanes, taps);
}

void mscrt_run_channels(const mscrt_record *r, void *const *buffers, int64_t unit, void *room) {
  item t = {.v = mscrt_windows_of(r->graph), .from = buffers[0], .other = buffers[1], .to = buffers[2], .seen = room};
  t.cut = msc_windows_cut_of_channels(&t.v);
  t.first = unit % t.cut.parts * t.cut.columns, t.num = mscrt_smaller(t.cut.columns, t.v.groups - t.first);
  float *panels = t.seen + msc_windows_aligned(t.cut.seen);
  t.offset = (int32_t *)(void *)panels, t.tap = t.offset + msc_windows_taps(&t.v) + SUMS;
  t.room = panels + msc_windows_aligned(t.cut.panels);
  t.tile = t.room + msc_windows_aligned(t.cut.room);
  if (t.v.makes == MSC_WINDOWS_MAKE_WEIGHTS) {
    make_weights(&t);
    return;
  }
  pack_weights(&t);
  if (t.v.makes == MSC_WINDOWS_MAKE_X) make_x(&t, unit / t.cut.parts);
  else make_y(&t, unit / t.cut.parts);
}
