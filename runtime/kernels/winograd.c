/* winograd.c: a convolution with windows of 3 x 3 in steps of 1, or one of its gradients, in; its result out, an item
 * of msc_windows_cut_of_tiles after the other, with 16 products where windows need 36 (Winograd, F(2 x 2, 3 x 3)). A
 * tile is 2 x 2 elements of y; with the tiles d of 4 x 4 elements that its windows see, and in one dimension
 *
 *   y  = A' (G w * B' d)        A' = | 1  1  1  0 |    B' = | 1  0 -1  0 |    G = |  1   0   0  |
 *   dw = G' (A dy * B' d)            | 0  1 -1 -1 |         | 0  1  1  0 |        | 1/2 1/2 1/2 |
 *                                                           | 0 -1  1  0 |        | 1/2 -1/2 1/2|
 *                                                           | 0  1  0 -1 |        |  0   0   1  |
 *
 * so that each of the 16 elements of a transformed tile is a product of matrices over all channels and tiles.
 * Transforming takes sums, differences and halves only, so results are as exact as those of plain windows
 * (tests/codegen/windows.c).  The order of sums depends neither on the number of images nor on the width of vectors. */
#pragma GCC optimize("O3")
#include <string.h>

#include "runtime/kernels/vectors.h"
#include "runtime/kernels/windows.h"

enum {
  STEP = MSC_WINOGRAD_STEP,
  SEEN = MSC_WINOGRAD_SEEN,
  ELEMS = MSC_WINOGRAD_ELEMS,
  TAPS = MSC_WINOGRAD_TAPS,
  LANES = MSC_WINOGRAD_LANES
};
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4)));

#define INLINE static inline __attribute__((always_inline))

typedef struct {
  const mscrt_record *r;
  msc_windows v;
  msc_windows_cut cut;
  int64_t read, made;                 /* channels of the operand, and of the result */
  int64_t from[2], to[2], padding[2]; /* sizes of the operand and result; element i sees elements from i - padding on */
  int64_t in_line, in_image;          /* tiles of a line, lines of tiles of an image */
  float *seen, *panels, *room, *tile; /* the worker's memory */
} item;

/* Lines of tiles, all of one image, and where their tiles lie among those of a block. */
typedef struct {
  int64_t image, line, lines, tile;
} stretch;

/* The lines of a block from `line` on, counted through all images, that lie in the same image as this one. */
static stretch stretch_at(const item *t, int64_t line, int64_t end, int64_t tile) {
  int64_t in_image = line % t->in_image;
  return (stretch){line / t->in_image, in_image, mscrt_smaller(t->in_image - in_image, end - line), tile};
}

INLINE lanes *lanes_at(const float *x) { return (lanes *)(uintptr_t)x; }

/* ---- tiles transformed: vectors of neighbouring tiles, or of channels ---- */

/* B' d of four lines. */
INLINE void transform_input(const lanes d[SEEN], lanes out[SEEN]) {
  out[0] = d[0] - d[2], out[1] = d[1] + d[2], out[2] = d[2] - d[1], out[3] = d[1] - d[3];
}

/* A' m: the places of y. */
INLINE void transform_output(const lanes m[SEEN], lanes out[STEP]) {
  out[0] = m[0] + m[1] + m[2], out[1] = m[1] - m[2] - m[3];
}

/* A dy. */
INLINE void transform_gradient(const lanes y[STEP], lanes out[SEEN]) {
  out[0] = y[0], out[1] = y[0] + y[1], out[2] = y[0] - y[1], out[3] = -y[1];
}

/* G w. */
INLINE void transform_weights_line(const lanes w[3], lanes out[SEEN]) {
  lanes ends = w[0] + w[2];
  out[0] = w[0], out[1] = (ends + w[1]) * 0.5f, out[2] = (ends - w[1]) * 0.5f, out[3] = w[2];
}

/* G' m. */
INLINE void transform_weights_gradient(const lanes m[SEEN], lanes out[3]) {
  lanes sum = (m[1] + m[2]) * 0.5f;
  out[0] = m[0] + sum, out[1] = (m[1] - m[2]) * 0.5f, out[2] = sum + m[3];
}

/* Elements first, first + 1, ... of a line, with zeros beside it, are divided into those of each place of a tile: of
 * place p, `num` elements from out + p * step on.  `room` holds a line. */
INLINE void divide_line(const float *line, int64_t size, int64_t first, float *room, float *out, int64_t step,
                        int64_t num) {
  mscrt_copy_line(room, line, size, first, 1, num * STEP);
  for (int64_t i = 0; i < num; i += LANES)
    for (int64_t p = 0; p < STEP; p++)
      for (int64_t k = 0; k < LANES; k++) out[p * step + i + k] = room[(i + k) * STEP + p];
}

/* The other way: the places of `num` tiles become a line. */
INLINE void join_line(const float *from, int64_t step, float *room, float *line, int64_t num, int64_t size) {
  for (int64_t i = 0; i < num; i += LANES)
    for (int64_t k = 0; k < LANES; k++)
      for (int64_t p = 0; p < STEP; p++) room[(i + k) * STEP + p] = from[p * step + i + k];
  memcpy(line, room, sizeof *line * (size_t)size);
}

/* ---- weights: room [element, row, channel that is read] ---- */

/* Transforms one row's weights for some channels: taps [9, width]. */
INLINE void put_weights(const item *t, const float *taps, int64_t row, int64_t rows, int64_t channel,
                        int64_t channels) {
  bool backwards = t->v.makes == MSC_WINDOWS_MAKE_X;
  int64_t width = t->v.width, step = msc_winograd_weights(&t->v);
  for (int64_t i = 0; i < channels; i += LANES) {
    lanes half[3][SEEN], w[3], out[SEEN];
    for (int k = 0; k < 3; k++) {
      for (int l = 0; l < 3; l++) w[l] = *lanes_at(taps + (backwards ? 8 - 3 * k - l : 3 * k + l) * width + i);
      transform_weights_line(w, half[k]);
    }
    for (int b = 0; b < SEEN; b++) {
      for (int k = 0; k < 3; k++) w[k] = half[k][b];
      transform_weights_line(w, out);
      for (int a = 0; a < SEEN; a++)
        *lanes_at(t->room + (a * SEEN + b) * msc_winograd_rows(rows, step) + row * step + channel + i) = out[a];
    }
  }
}

INLINE void transform_weights(const item *t, const float *w, int64_t row, int64_t rows) {
  int64_t width = t->v.width;
  for (int64_t channel = 0, channels; channel < t->read; channel += width) {
    channels = mscrt_smaller(width, t->read - channel);
    if (t->v.makes == MSC_WINDOWS_MAKE_X)
      mscrt_pack_lines(t->r, w + (channel * t->made + row) * TAPS, t->panels, channels, rows * TAPS, t->made * TAPS);
    for (int64_t r = 0; r < rows; r++) {
      float *taps = t->panels + (t->v.makes == MSC_WINDOWS_MAKE_X ? r * TAPS * width : 0);
      if (t->v.makes == MSC_WINDOWS_MAKE_Y)
        mscrt_pack_lines(t->r, w + ((row + r) * t->read + channel) * TAPS, taps, channels, TAPS, TAPS);
      put_weights(t, taps, r, rows, channel, channels);
    }
  }
}

/* ---- y, and the data's gradient: panels [element, panel of tiles, channel, width] ---- */

/* Transforms what the tiles of a stretch see of one channel to transformed [element, tiles of a block and slack].
 * `lines` holds lines of the image transformed along themselves, [element of the line, remainder of the line's number,
 * line, tile]. */
INLINE void transform_image(const item *t, const float *channel, const stretch *s, float *room, float *lines,
                            float *transformed) {
  int64_t num = t->in_line, places = msc_winograd_places(&t->v), all = msc_winograd_lines(&t->v, &t->cut),
          step = msc_winograd_row(&t->cut);
  float *divided = room + STEP * places;
  for (int64_t i = 0; i < STEP * (s->lines + 1); i++) {
    int64_t at = s->line * STEP + i - t->padding[0];
    bool inside = at >= 0 && at < t->from[0];
    divide_line(channel + (inside ? at : 0) * t->from[1], inside ? t->from[1] : 0, inside ? -t->padding[1] : 0, room,
                divided, places, num + 1);
    float *to = lines + (i % STEP) * all + i / STEP * num;
    for (int64_t j = 0; j < num; j += LANES) {
      lanes d[SEEN], out[SEEN];
      for (int k = 0; k < SEEN; k++) d[k] = *lanes_at(divided + k % STEP * places + k / STEP + j);
      transform_input(d, out);
      for (int b = 0; b < SEEN; b++) *lanes_at(to + b * STEP * all + j) = out[b];
    }
  }
  for (int b = 0; b < SEEN; b++)
    for (int64_t j = 0; j < s->lines * num; j += LANES) {
      lanes d[SEEN], out[SEEN];
      for (int k = 0; k < SEEN; k++) d[k] = *lanes_at(lines + (b * STEP + k % STEP) * all + k / STEP * num + j);
      transform_input(d, out);
      for (int a = 0; a < SEEN; a++) *lanes_at(transformed + (a * SEEN + b) * step + s->tile + j) = out[a];
    }
}

/* Transforms the elements that the tiles of a block see, and writes them to the block's panels. */
INLINE void transform_block(const item *t, const float *from, int64_t line, int64_t end, int64_t tiles) {
  int64_t width = t->v.width, step = msc_winograd_row(&t->cut), panels = (tiles + width - 1) / width,
          each = msc_winograd_panels(&t->v, t->cut.columns);
  float *transformed = t->seen, *lines = transformed + ELEMS * step,
        *room = lines + SEEN * STEP * msc_winograd_lines(&t->v, &t->cut);
  for (int64_t c = 0; c < t->read; c++) {
    for (int64_t at = line, tile = 0; at < end;) {
      stretch s = stretch_at(t, at, end, tile);
      transform_image(t, from + (s.image * t->read + c) * t->from[0] * t->from[1], &s, room, lines, transformed);
      at += s.lines, tile += s.lines * t->in_line;
    }
    for (int64_t e = 0; e < ELEMS; e++)
      for (int64_t p = 0; p < panels; p++)
        memcpy(t->panels + e * each + (p * t->read + c) * width, transformed + e * step + p * width,
               sizeof *transformed * (size_t)width);
  }
}

/* Transforms the products of a block back and stores them. */
INLINE void store_block(const item *t, float *to, int64_t line, int64_t end, int64_t row, int64_t rows) {
  int64_t step = msc_winograd_row(&t->cut), each = msc_winograd_rows(rows, step), tiles = (end - line) * t->in_line;
  float *back = t->tile + ELEMS * each, *room = back + STEP * STEP * step;
  for (int64_t r = 0; r < rows; r++) {
    const float *product = t->tile + r * step;
    for (int64_t j = 0; j < tiles; j += LANES) {
      lanes half[SEEN][STEP], m[SEEN], out[STEP];
      for (int a = 0; a < SEEN; a++) {
        for (int b = 0; b < SEEN; b++) m[b] = *lanes_at(product + (a * SEEN + b) * each + j);
        transform_output(m, half[a]);
      }
      for (int q = 0; q < STEP; q++) {
        for (int a = 0; a < SEEN; a++) m[a] = half[a][q];
        transform_output(m, out);
        for (int p = 0; p < STEP; p++) *lanes_at(back + (p * STEP + q) * step + j) = out[p];
      }
    }
    for (int64_t at = line, tile = 0; at < end; at++, tile += t->in_line) {
      int64_t first = at % t->in_image * STEP;
      float *image = to + (at / t->in_image * t->made + row + r) * t->to[0] * t->to[1];
      for (int64_t p = 0; p < STEP && first + p < t->to[0]; p++)
        join_line(back + p * STEP * step + tile, step, room, image + (first + p) * t->to[1], t->in_line, t->to[1]);
    }
  }
}

INLINE void convolve(const item *t, const float *from, const float *w, float *to, int64_t unit) {
  const msc_windows_cut *u = &t->cut;
  int64_t row = unit % u->parts_o * u->rows, rows = mscrt_smaller(u->rows, t->made - row),
          first = unit / u->parts_o * u->terms, end = mscrt_smaller(first + u->terms, t->v.n * t->in_image),
          step = msc_winograd_row(u), weights = msc_winograd_weights(&t->v);
  transform_weights(t, w, row, rows);
  for (int64_t line = first; line < end; line += u->lines) {
    int64_t stop = mscrt_smaller(line + u->lines, end), tiles = (stop - line) * t->in_line;
    transform_block(t, from, line, stop, tiles);
    for (int64_t e = 0; e < ELEMS; e++)
      mscrt_multiply_rows(t->r, t->room + e * msc_winograd_rows(rows, weights), weights,
                          t->panels + e * msc_winograd_panels(&t->v, u->columns),
                          t->tile + e * msc_winograd_rows(rows, step), step, rows, tiles, t->read, false);
    store_block(t, to, line, stop, row, rows);
  }
}

/* ---- the weights' gradient: panels [element, tile, width], room [element, row, tile] ---- */

/* Transforms the elements of x that the tiles of a stretch see, for `channels` channels from `channel` on, which become
 * the lanes of vectors, and writes them to t->panels. */
INLINE void transform_channels(const item *t, const float *x, const stretch *s, int64_t channel, int64_t channels) {
  int64_t width = t->v.width, size = t->from[0] * t->from[1], first = s->line * STEP - t->padding[0],
          end = mscrt_smaller(first + STEP * (s->lines + 1), t->from[0]), each = t->cut.columns * width + 16;
  float *nothing = t->seen, *pixels = t->seen + width;
  memset(nothing, 0, sizeof *nothing * (size_t)width);
  if (first < 0) first = 0;
  if (end > first)
    mscrt_pack_lines(t->r, x + (s->image * t->read + channel) * size + first * t->from[1], pixels, channels,
                     (end - first) * t->from[1], size);
  for (int64_t i = 0; i < s->lines * t->in_line; i++) {
    const float *pixel[ELEMS];
    for (int e = 0; e < ELEMS; e++) {
      int64_t h = (s->line + i / t->in_line) * STEP + e / SEEN - t->padding[0],
              w = i % t->in_line * STEP + e % SEEN - t->padding[1];
      pixel[e] = h < 0 || h >= t->from[0] || w < 0 || w >= t->from[1] ? nothing
                                                                      : pixels + ((h - first) * t->from[1] + w) * width;
    }
    float *to = t->panels + (s->tile + i) * width;
    for (int64_t j = 0; j < width; j += LANES) {
      lanes half[SEEN][SEEN], d[SEEN], out[SEEN];
      for (int a = 0; a < SEEN; a++) {
        for (int b = 0; b < SEEN; b++) d[b] = *lanes_at(pixel[a * SEEN + b] + j);
        transform_input(d, half[a]);
      }
      for (int b = 0; b < SEEN; b++) {
        for (int a = 0; a < SEEN; a++) d[a] = half[a][b];
        transform_input(d, out);
        for (int a = 0; a < SEEN; a++) *lanes_at(to + (a * SEEN + b) * each + j) = out[a];
      }
    }
  }
}

/* Transforms a stretch of y's gradient for one row. */
INLINE void transform_dy(const item *t, const float *dy, const stretch *s, float *divided, float *to) {
  int64_t num = t->in_line, places = msc_winograd_places(&t->v), line = msc_winograd_row(&t->cut);
  float *room = divided + STEP * STEP * line, *parts = room + STEP * places;
  for (int64_t i = 0; i < s->lines; i++)
    for (int64_t p = 0; p < STEP; p++) {
      int64_t at = (s->line + i) * STEP + p;
      bool inside = at < t->to[0];
      divide_line(dy + (inside ? at : 0) * t->to[1], inside ? t->to[1] : 0, 0, room, parts, places, num);
      for (int q = 0; q < STEP; q++)
        memcpy(divided + (p * STEP + q) * line + i * num, parts + q * places, sizeof *dy * (size_t)num);
    }
  for (int64_t j = 0; j < s->lines * num; j += LANES) {
    lanes half[STEP][SEEN], y[STEP], out[SEEN];
    for (int p = 0; p < STEP; p++) {
      for (int q = 0; q < STEP; q++) y[q] = *lanes_at(divided + (p * STEP + q) * line + j);
      transform_gradient(y, half[p]);
    }
    for (int b = 0; b < SEEN; b++) {
      for (int p = 0; p < STEP; p++) y[p] = half[p][b];
      transform_gradient(y, out);
      for (int a = 0; a < SEEN; a++) *lanes_at(to + (a * SEEN + b) * line + s->tile + j) = out[a];
    }
  }
}

/* Transforms the sums back; the taps of an element lie side by side. */
INLINE void store_gradient(const item *t, const float *sum, float *dw, int64_t row, int64_t rows, int64_t channel,
                           int64_t channels) {
  int64_t width = t->v.width;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < channels; j += LANES) {
      lanes half[SEEN][3], m[SEEN], out[3];
      for (int a = 0; a < SEEN; a++) {
        for (int b = 0; b < SEEN; b++)
          m[b] = *lanes_at(sum + (a * SEEN + b) * msc_winograd_rows(rows, width) + r * width + j);
        transform_weights_gradient(m, half[a]);
      }
      float *to = dw + ((row + r) * t->read + channel + j) * TAPS;
      for (int l = 0; l < 3; l++) {
        for (int a = 0; a < SEEN; a++) m[a] = half[a][l];
        transform_weights_gradient(m, out);
        for (int k = 0; k < 3; k++)
          for (int64_t i = 0; i < mscrt_smaller(LANES, channels - j); i++) to[i * TAPS + 3 * k + l] = out[k][i];
      }
    }
}

INLINE void differentiate_weights(const item *t, const float *x, const float *dy, float *dw, int64_t unit) {
  const msc_windows_cut *u = &t->cut;
  int64_t row = unit % u->parts_o * u->rows, rows = mscrt_smaller(u->rows, t->made - row), width = t->v.width,
          channel = unit / u->parts_o * width, channels = mscrt_smaller(width, t->read - channel),
          all = t->v.n * t->in_image, step = msc_winograd_row(u);
  float *sum = t->tile, *room = sum + ELEMS * msc_winograd_rows(rows, width);
  for (int64_t line = 0; line < all; line += u->lines) {
    int64_t stop = mscrt_smaller(line + u->lines, all), tiles = (stop - line) * t->in_line;
    for (int64_t at = line, tile = 0; at < stop;) {
      stretch s = stretch_at(t, at, stop, tile);
      transform_channels(t, x, &s, channel, channels);
      for (int64_t r = 0; r < rows; r++)
        transform_dy(t, dy + (s.image * t->made + row + r) * t->to[0] * t->to[1], &s, room, t->room + r * ELEMS * step);
      at += s.lines, tile += s.lines * t->in_line;
    }
    for (int64_t e = 0; e < ELEMS; e++)
      mscrt_multiply_rows(t->r, t->room + e * step, ELEMS * step, t->panels + e * (u->columns * width + 16),
                          sum + e * msc_winograd_rows(rows, width), width, rows, channels, tiles, line > 0);
  }
  store_gradient(t, sum, dw, row, rows, channel, channels);
}

/* ---- an item ---- */

INLINE void run_item(const item *t, void *const *buffers, int64_t unit) {
  if (t->v.makes == MSC_WINDOWS_MAKE_WEIGHTS) differentiate_weights(t, buffers[0], buffers[1], buffers[2], unit);
  else convolve(t, buffers[0], buffers[1], buffers[2], unit);
}

/* Compiles the code once for each of several widths of vectors. */
#define FOR_WIDTH(NAME, ATTRIBUTE) \
  ATTRIBUTE static void run_##NAME(const item *t, void *const *buffers, int64_t unit) { run_item(t, buffers, unit); }
FOR_WIDTH(anywhere, )
#ifdef __x86_64__
FOR_WIDTH(avx2, __attribute__((target("avx2"))))
FOR_WIDTH(avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw"))))
#endif

void mscrt_run_winograd(const mscrt_record *r, void *const *buffers, int64_t unit, void *room) {
  item t = {.r = r, .v = mscrt_windows_of(r->graph), .cut = mscrt_windows_cut(r->graph), .seen = room};
  bool data = t.v.makes == MSC_WINDOWS_MAKE_X;
  t.read = msc_windows_channels_read(&t.v), t.made = msc_windows_channels_made(&t.v);
  for (int d = 0; d < 2; d++) {
    t.from[d] = msc_windows_size_read(&t.v)[d], t.to[d] = msc_windows_size_made(&t.v)[d];
    t.padding[d] = data ? 2 - t.v.padding[d] : t.v.padding[d];
  }
  t.in_line = msc_winograd_tiles(&t.v, 1), t.in_image = msc_winograd_tiles(&t.v, 0);
  t.panels = t.seen + msc_windows_aligned(t.cut.seen);
  t.room = t.panels + msc_windows_aligned(t.cut.panels);
  t.tile = t.room + msc_windows_aligned(t.cut.room);
#ifdef __x86_64__
  int64_t most = mscrt_vector_lanes(msc_product_lanes(t.v.width));
  if (most >= 16) run_avx512(&t, buffers, unit);
  else if (most >= 8) run_avx2(&t, buffers, unit);
  else
#endif
    run_anywhere(&t, buffers, unit);
}
