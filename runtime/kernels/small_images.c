/* small_images.c: a convolution of small images, or the gradient of its data, in; its result out, one item of
 * msc_windows_cut_of_small at a time.  Images are transposed, so that the same element of many images is contiguous,
 * and each place of the result is a few products of the weights with such elements; the sums are in a tile, which is
 * transposed back.
 *
 *   seen  [place, channel, images]        room  [line of the kernel, row, place in the line, channel]
 *   tile  [row, place, images]
 *
 * Where there are fewer images than columns, a row of the tile has neighbouring places of all images, and the elements
 * that these read are copied together, with zeros for padding: the same sums in the same order.
 *
 * Where terms are multiplied in pairs of bf16, pairs of channels take the place of channels. */
#include <string.h>

#include "runtime/kernels/pairs.h"
#include "runtime/kernels/windows.h"

typedef struct {
  const mscrt_record *r;
  msc_windows v;
  msc_windows_cut cut;
  const mscrt_pair_loops *pairs;
  int64_t read, made, pixels, places; /* channels and elements of an image that is read, of one that is made */
  int64_t units;                      /* elements of a panel's column that hold the channels that are read */
  bool lines;                         /* a line of the kernel sees neighbours */
  const float *from, *w;
  float *to, *seen, *panels, *room, *tile;
  int32_t *order; /* of places: those which see the same elements of the kernel stand together */
} item;

/* The position that element k of the kernel reads, for place i of the result; -1: beside the image. */
static int64_t place_seen(const msc_windows *v, int d, int64_t i, int64_t k) {
  int64_t at = v->makes == MSC_WINDOWS_MAKE_X ? i + v->padding[d] - k * v->dilation[d]
                                              : i * v->step[d] + k * v->dilation[d] - v->padding[d];
  if (v->makes != MSC_WINDOWS_MAKE_X) return at < v->x[d] ? at : -1;
  return at < 0 || at % v->step[d] || at / v->step[d] >= v->y[d] ? -1 : at / v->step[d];
}

/* The element of a line of the kernel that is number l in the order of memory. */
static int64_t element_of_line(const item *t, int64_t l) {
  return t->v.makes == MSC_WINDOWS_MAKE_X ? t->v.kernel[1] - 1 - l : l;
}

/* ---- weights ---- */

static void put_transposed_weights(const item *t, int64_t tap, int64_t rows, int64_t row, int64_t channel,
                                   int64_t channels, const float *transposed) {
  int64_t k = tap / t->v.kernel[1], l = element_of_line(t, tap % t->v.kernel[1]);
  int64_t at = ((k * rows + row) * t->v.kernel[1] + l) * t->read + channel;
  if (t->v.narrow) t->pairs->narrow(transposed, channels, channels, (uint16_t *)(void *)t->room + at);
  else memcpy(t->room + at, transposed, sizeof *transposed * (size_t)channels);
}

static void transpose_weights(const item *t, int64_t row, int64_t rows) {
  int64_t taps = msc_windows_taps(&t->v), width = t->v.width;
  for (int64_t channel = 0; channel < t->read; channel += width) {
    int64_t channels = mscrt_smaller(width, t->read - channel);
    if (t->v.makes == MSC_WINDOWS_MAKE_X) {
      mscrt_pack_lines(t->r, t->w + (channel * t->made + row) * taps, t->panels, channels, rows * taps, t->made * taps);
      for (int64_t i = 0; i < rows * taps; i++)
        put_transposed_weights(t, i % taps, rows, i / taps, channel, channels, t->panels + i * width);
    } else {
      for (int64_t r = 0; r < rows; r++) {
        mscrt_pack_lines(t->r, t->w + ((row + r) * t->read + channel) * taps, t->panels, channels, taps, taps);
        for (int64_t i = 0; i < taps; i++)
          put_transposed_weights(t, i, rows, r, channel, channels, t->panels + i * width);
      }
    }
  }
}

/* ---- images ---- */

/* A block: images that lie side by side, and how many places of each do. */
typedef struct {
  int64_t first, num, step; /* step: from an element that is seen to the next one's */
  int64_t together, groups; /* places side by side; groups of them */
} block;

static block block_from(const item *t, int64_t first, int64_t num) {
  int64_t width = t->v.width, together = mscrt_smaller(width / num, t->places);
  return (block){first, num, together > 1 ? num : width, together, (t->places + together - 1) / together};
}

static void transpose_images(const item *t, const block *b) {
  int64_t width = t->v.width;
  for (int64_t channel = 0, channels; channel < t->read; channel += channels) {
    channels = mscrt_smaller(t->cut.terms, t->read - channel);
    mscrt_pack_lines(t->r, t->from + (b->first * t->read + channel) * t->pixels, t->panels, b->num,
                     channels * t->pixels, t->read * t->pixels);
    if (t->v.narrow) t->pairs->round(t->panels, channels * t->pixels * width);
    for (int64_t c = 0; c < channels; c++) {
      int64_t unit = t->v.narrow ? (channel + c) / 2 : channel + c;
      for (int64_t p = 0; p < t->pixels; p++) {
        float *to = t->seen + (p * t->units + unit) * b->step;
        const float *from = t->panels + (c * t->pixels + p) * width;
        if (t->v.narrow) t->pairs->put(to, from, b->step, (channel + c) % 2);
        else memcpy(to, from, sizeof *to * (size_t)b->step);
      }
    }
  }
}

/* The address that element (k, l) of the kernel reads, for a place of the result; NULL: beside the image. */
static float *elements_seen(const item *t, const block *b, int64_t place, int64_t k, int64_t l) {
  const msc_windows *v = &t->v;
  int64_t made_line = msc_windows_size_made(v)[1], at_line = place_seen(v, 0, place / made_line, k),
          at = place_seen(v, 1, place % made_line, element_of_line(t, l));
  return at_line < 0 || at < 0 ? NULL : t->seen + (at_line * msc_windows_size_read(v)[1] + at) * t->units * b->step;
}

static const float *weights_at(const item *t, int64_t k, int64_t l, int64_t rows) {
  return t->room + (k * rows * t->v.kernel[1] + l) * t->units;
}

/* Computes one place for all rows: the elements that it sees of a line are contiguous already. */
static void make_place(const item *t, const block *b, int64_t place, int64_t rows) {
  int64_t width = t->v.width, line = t->v.kernel[1];
  float *sum = t->tile + place * width;
  bool any = false;
  for (int64_t k = 0; k < t->v.kernel[0]; k++)
    for (int64_t l = 0, num; l < line; l += num) {
      float *seen = elements_seen(t, b, place, k, l);
      num = 1;
      if (!seen) continue;
      while (t->lines && l + num < line && elements_seen(t, b, place, k, l + num)) num++;
      mscrt_multiply_rows(t->r, weights_at(t, k, l, rows), t->v.kernel[1] * t->read, seen, sum, t->places * width, rows,
                          b->num, num * t->read, any);
      any = true;
    }
  for (int64_t r = 0; r < rows && !any; r++) memset(sum + r * t->places * width, 0, sizeof *sum * (size_t)width);
}

/* Copies what one of several places sees; `from` NULL: zeros. */
static void copy_seen_elements(const item *t, const block *b, float *to, const float *from) {
  int64_t width = t->v.width, num = b->num;
  if (!from)
    for (int64_t c = 0; c < t->units; c++) memset(to + c * width, 0, sizeof *to * (size_t)num);
  else if (num % 8 == 0)
    for (int64_t c = 0; c < t->units; c++)
      for (int64_t i = 0; i < num; i += 8) memcpy(to + c * width + i, from + c * num + i, 8 * sizeof *to);
  else
    for (int64_t c = 0; c < t->units; c++)
      for (int64_t i = 0; i < num; i++) to[c * width + i] = from[c * num + i];
}

/* True if a place of the group reads an element inside the image by elements l .. l + num - 1 of line k of the
 * kernel. */
static bool sees_any(const item *t, const block *b, const int32_t *place, int64_t places, int64_t k, int64_t l,
                     int64_t num) {
  for (int64_t i = 0; i < places; i++)
    for (int64_t e = 0; e < num; e++)
      if (elements_seen(t, b, place[i], k, l + e)) return true;
  return false;
}

/* Computes a group of places for all rows: first copies the elements of a line that the places see side by side. */
static void make_group(const item *t, const block *b, int64_t group, int64_t rows) {
  int64_t width = t->v.width, line = t->v.kernel[1], num = t->lines ? line : 1, first = group * b->together,
          places = mscrt_smaller(b->together, t->places - first);
  const int32_t *place = t->order + first;
  float *sum = t->tile + group * width;
  bool any = false;
  for (int64_t k = 0; k < t->v.kernel[0]; k++)
    for (int64_t l = 0; l < line; l += num) {
      if (!sees_any(t, b, place, places, k, l, num)) continue;
      for (int64_t e = 0; e < num; e++)
        for (int64_t i = 0; i < places; i++)
          copy_seen_elements(t, b, t->panels + e * t->units * width + i * b->num,
                             elements_seen(t, b, place[i], k, l + e));
      mscrt_multiply_rows(t->r, weights_at(t, k, l, rows), t->v.kernel[1] * t->read, t->panels, sum, b->groups * width,
                          rows, places * b->num, num * t->read, any);
      any = true;
    }
  for (int64_t r = 0; r < rows && !any; r++) memset(sum + r * b->groups * width, 0, sizeof *sum * (size_t)width);
}

/* Transposes the tile back and stores it: the elements of an image become contiguous. */
static void store_places(const item *t, const block *b, int64_t row, int64_t rows) {
  int64_t width = t->v.width, all = rows * t->places;
  for (int64_t e = 0; e < all; e += width) {
    int64_t num = mscrt_smaller(width, all - e);
    mscrt_pack_lines(t->r, t->tile + e * width, t->panels, num, b->num, width);
    for (int64_t i = 0; i < b->num; i++)
      memcpy(t->to + ((b->first + i) * t->made + row) * t->places + e, t->panels + i * width,
             sizeof *t->to * (size_t)num);
  }
}

static void store_channel_groups(const item *t, const block *b, int64_t row, int64_t rows) {
  for (int64_t i = 0; i < b->num; i++)
    for (int64_t r = 0; r < rows; r++) {
      float *to = t->to + ((b->first + i) * t->made + row + r) * t->places;
      for (int64_t g = 0, p = 0; g < b->groups; g++)
        for (int64_t at = 0; at < b->together && p < t->places; at++, p++)
          to[t->order[p]] = t->tile[(r * b->groups + g) * t->v.width + at * b->num + i];
    }
}

static void make_block(const item *t, const block *b, int64_t row, int64_t rows) {
  transpose_images(t, b);
  for (int64_t g = 0; g < b->groups; g++) {
    if (b->together > 1) make_group(t, b, g, rows);
    else make_place(t, b, g, rows);
  }
  if (b->together > 1) store_channel_groups(t, b, row, rows);
  else store_places(t, b, row, rows);
}

/* ---- an item ---- */

/* Lists the places of a data's gradient so that those with equal remainders of the steps follow each other. */
static void list_places(const item *t) {
  const int64_t *size = msc_windows_size_made(&t->v), one[2] = {1, 1},
                *step = t->v.makes == MSC_WINDOWS_MAKE_X ? t->v.step : one;
  int64_t num = 0;
  for (int64_t p = 0; p < step[0]; p++)
    for (int64_t q = 0; q < step[1]; q++)
      for (int64_t i = p; i < size[0]; i += step[0])
        for (int64_t j = q; j < size[1]; j += step[1]) t->order[num++] = (int32_t)(i * size[1] + j);
}

static void convolve_small(item *t, int64_t unit) {
  const msc_windows_cut *u = &t->cut;
  int64_t row = unit % u->parts_o * u->rows, rows = mscrt_smaller(u->rows, t->made - row),
          first = unit / u->parts_o * u->images, end = mscrt_smaller(first + u->images, t->v.n);
  list_places(t);
  transpose_weights(t, row, rows);
  for (int64_t i = first; i < end; i += t->v.width) {
    block b = block_from(t, i, mscrt_smaller(t->v.width, end - i));
    make_block(t, &b, row, rows);
  }
}

void mscrt_run_small_images(const mscrt_record *r, void *const *buffers, int64_t unit, void *room) {
  const mscrt_graph *g = r->graph;
  item t = {.r = r,
            .v = mscrt_windows_of(g),
            .from = buffers[0],
            .w = buffers[1],
            .to = buffers[2],
            .seen = room,
            .pairs = mscrt_pair_loops_here()};
  const msc_windows *v = &t.v;
  const int64_t *from = msc_windows_size_read(v), *to = msc_windows_size_made(v);
  t.cut = msc_windows_cut_of_small(v);
  t.read = msc_windows_channels_read(v), t.made = msc_windows_channels_made(v);
  t.units = msc_windows_units(v, t.read);
  t.pixels = from[0] * from[1], t.places = to[0] * to[1];
  t.lines = v->dilation[1] == 1 && (v->makes == MSC_WINDOWS_MAKE_Y || v->step[1] == 1);
  t.panels = t.seen + msc_windows_aligned(t.cut.seen);
  t.room = t.panels + msc_windows_aligned(t.cut.panels);
  t.tile = t.room + msc_windows_aligned(t.cut.room);
  t.order = (int32_t *)(void *)(t.tile + t.cut.rows * t.places * v->width);
  convolve_small(&t, unit);
}
