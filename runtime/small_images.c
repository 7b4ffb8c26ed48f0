/* small_images.c: a convolution of small images, or the gradient of its data, in; its result out, an item of
 * msc_windows_cut_of_small after the other.  Images are turned, so that many lie side by side, and each place of the
 * result is a few products of the weights with what lies there; a tile keeps the sums and is turned back.
 *
 *   seen  [place, channel, images]        room  [line of the kernel, row, place in the line, channel]
 *   tile  [row, place, images]
 *
 * Of few images all windows lie side by side, with zeros beside the images: the same sums in the same order. */
#include <string.h>

#include "runtime/windows.h"

typedef struct {
  const mscrt_record *r;
  msc_windows v;
  msc_windows_cut cut;
  int64_t read, made, pixels, places; /* channels and elements of an image that is read, of one that is made */
  bool lines;                         /* a line of the kernel sees neighbours */
  const float *from, *w;
  float *to, *seen, *panels, *room, *tile;
} item;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Where element k of the kernel lies, of place i of the result; -1: beside the image. */
static int64_t place_seen(const msc_windows *v, int d, int64_t i, int64_t k) {
  int64_t at = v->makes == MSC_WINDOWS_MAKE_X ? i + v->padding[d] - k * v->dilation[d]
                                              : i * v->step[d] + k * v->dilation[d] - v->padding[d];
  if (v->makes != MSC_WINDOWS_MAKE_X) return at < v->x[d] ? at : -1;
  return at < 0 || at % v->step[d] || at / v->step[d] >= v->y[d] ? -1 : at / v->step[d];
}

/* Elements of a line of the kernel in the order in which what they see lies in memory. */
static int64_t element_of_line(const item *t, int64_t l) {
  return t->v.makes == MSC_WINDOWS_MAKE_X ? t->v.kernel[1] - 1 - l : l;
}

/* Matrix [columns, terms] with rows `step` apart -> [terms, width]. */
static void turn(const item *t, const float *from, float *to, int64_t columns, int64_t terms, int64_t step) {
  t->r->pack((void *[]){(void *)(uintptr_t)from, to}, 0, 1, (int64_t[]){columns, terms, step}, NULL);
}

/* Rows of c become rows of a times b, or are added to. */
static void multiply(const item *t, const float *a, float *b, float *c, int64_t step_c, int64_t rows, int64_t columns,
                     int64_t terms, bool add) {
  void *buffers[5] = {(void *)(uintptr_t)a, b, c, NULL, add ? c : NULL};
  int64_t dims[8] = {columns, terms, t->v.kernel[1] * t->read, step_c, 1, false, false, add ? step_c : 0};
  t->r->multiply(buffers, 0, rows, dims, NULL);
}

/* ---- weights ---- */

static void put_weights(const item *t, int64_t tap, int64_t rows, int64_t row, int64_t channel, int64_t channels,
                        const float *turned) {
  int64_t k = tap / t->v.kernel[1], l = element_of_line(t, tap % t->v.kernel[1]);
  memcpy(t->room + ((k * rows + row) * t->v.kernel[1] + l) * t->read + channel, turned,
         sizeof *turned * (size_t)channels);
}

static void turn_weights(const item *t, int64_t row, int64_t rows) {
  int64_t taps = msc_windows_taps(&t->v), width = t->v.width;
  for (int64_t channel = 0; channel < t->read; channel += width) {
    int64_t channels = least(width, t->read - channel);
    if (t->v.makes == MSC_WINDOWS_MAKE_X) {
      turn(t, t->w + (channel * t->made + row) * taps, t->panels, channels, rows * taps, t->made * taps);
      for (int64_t i = 0; i < rows * taps; i++)
        put_weights(t, i % taps, rows, i / taps, channel, channels, t->panels + i * width);
    } else {
      for (int64_t r = 0; r < rows; r++) {
        turn(t, t->w + ((row + r) * t->read + channel) * taps, t->panels, channels, taps, taps);
        for (int64_t i = 0; i < taps; i++) put_weights(t, i, rows, r, channel, channels, t->panels + i * width);
      }
    }
  }
}

/* ---- many images ---- */

static void turn_images(const item *t, int64_t image, int64_t images) {
  int64_t width = t->v.width;
  for (int64_t channel = 0, channels; channel < t->read; channel += channels) {
    channels = least(t->cut.terms, t->read - channel);
    turn(t, t->from + (image * t->read + channel) * t->pixels, t->panels, images, channels * t->pixels,
         t->read * t->pixels);
    for (int64_t c = 0; c < channels; c++)
      for (int64_t p = 0; p < t->pixels; p++)
        memcpy(t->seen + (p * t->read + channel + c) * width, t->panels + (c * t->pixels + p) * width,
               sizeof *t->seen * (size_t)width);
  }
}

/* Place (i, j) of the result, for all rows. */
static void make_place(const item *t, int64_t i, int64_t j, int64_t rows, int64_t images) {
  const msc_windows *v = &t->v;
  int64_t width = v->width, line = v->kernel[1], made_line = msc_windows_size_made(v)[1],
          read_line = msc_windows_size_read(v)[1];
  float *sum = t->tile + (i * made_line + j) * width;
  bool any = false;
  for (int64_t k = 0; k < v->kernel[0]; k++) {
    int64_t at_line = place_seen(v, 0, i, k);
    for (int64_t l = 0, num; l < line && at_line >= 0; l += num) {
      int64_t at = place_seen(v, 1, j, element_of_line(t, l));
      num = 1;
      if (at < 0) continue;
      while (t->lines && l + num < line && place_seen(v, 1, j, element_of_line(t, l + num)) >= 0) num++;
      multiply(t, t->room + (k * rows * line + l) * t->read, t->seen + (at_line * read_line + at) * t->read * width,
               sum, t->places * width, rows, images, num * t->read, any);
      any = true;
    }
  }
  for (int64_t r = 0; r < rows && !any; r++) memset(sum + r * t->places * width, 0, sizeof *sum * (size_t)width);
}

/* Turns the tile back: elements of an image lie side by side. */
static void store_images(const item *t, int64_t image, int64_t images, int64_t row, int64_t rows) {
  int64_t width = t->v.width, all = rows * t->places;
  for (int64_t e = 0; e < all; e += width) {
    int64_t num = least(width, all - e);
    turn(t, t->tile + e * width, t->panels, num, images, width);
    for (int64_t i = 0; i < images; i++)
      memcpy(t->to + ((image + i) * t->made + row) * t->places + e, t->panels + i * width,
             sizeof *t->to * (size_t)num);
  }
}

static void make_images(const item *t, int64_t image, int64_t images, int64_t row, int64_t rows) {
  const int64_t *size = msc_windows_size_made(&t->v);
  turn_images(t, image, images);
  for (int64_t i = 0; i < size[0]; i++)
    for (int64_t j = 0; j < size[1]; j++) make_place(t, i, j, rows, images);
  store_images(t, image, images, row, rows);
}

/* ---- few images ---- */

/* What elements l .. l + num - 1 of line k of the kernel see of windows begin .. begin + columns - 1. */
static void gather_windows(const item *t, int64_t begin, int64_t columns, int64_t k, int64_t l, int64_t num) {
  const msc_windows *v = &t->v;
  int64_t made_line = msc_windows_size_made(v)[1], read_line = msc_windows_size_read(v)[1];
  for (int64_t e = 0; e < num; e++) {
    float *to = t->seen + e * t->read * v->width;
    for (int64_t i = 0; i < columns; i++) {
      int64_t place = (begin + i) % t->places, at_line = place_seen(v, 0, place / made_line, k),
              at = place_seen(v, 1, place % made_line, element_of_line(t, l + e));
      bool inside = at_line >= 0 && at >= 0;
      const float *from =
          t->from + (begin + i) / t->places * t->read * t->pixels + (inside ? at_line * read_line + at : 0);
      for (int64_t c = 0; c < t->read; c++) to[c * v->width + i] = inside ? from[c * t->pixels] : 0;
    }
  }
}

/* Makes windows begin .. begin + columns - 1, counted over the images. */
static void make_windows(const item *t, int64_t begin, int64_t columns, int64_t row, int64_t rows) {
  const msc_windows *v = &t->v;
  int64_t line = v->kernel[1], num = t->lines ? line : 1;
  for (int64_t k = 0; k < v->kernel[0]; k++)
    for (int64_t l = 0; l < line; l += num) {
      gather_windows(t, begin, columns, k, l, num);
      multiply(t, t->room + (k * rows * line + l) * t->read, t->seen, t->tile, v->width, rows, columns, num * t->read,
               k || l);
    }
  for (int64_t i = 0; i < columns; i++)
    for (int64_t r = 0; r < rows; r++)
      t->to[((begin + i) / t->places * t->made + row + r) * t->places + (begin + i) % t->places] =
          t->tile[r * v->width + i];
}

/* ---- an item ---- */

static void convolve_small(item *t, int64_t unit) {
  enum { MANY = 8 };
  const msc_windows_cut *u = &t->cut;
  int64_t row = unit % u->parts_o * u->rows, rows = least(u->rows, t->made - row),
          image = unit / u->parts_o * u->images, images = least(u->images, t->v.n - image), width = t->v.width;
  turn_weights(t, row, rows);
  if (images < MANY) {
    for (int64_t i = image * t->places, end = (image + images) * t->places; i < end; i += width)
      make_windows(t, i, least(width, end - i), row, rows);
  } else {
    for (int64_t i = image; i < image + images; i += width)
      make_images(t, i, least(width, image + images - i), row, rows);
  }
}

void mscrt_run_small_images(const mscrt_record *r, void *const *buffers, int64_t unit, void *room) {
  const mscrt_graph *g = r->graph;
  item t = {.r = r, .v = mscrt_windows_of(g), .from = buffers[0], .w = buffers[1], .to = buffers[2], .seen = room};
  const msc_windows *v = &t.v;
  const int64_t *from = msc_windows_size_read(v), *to = msc_windows_size_made(v);
  t.cut = msc_windows_cut_of_small(v);
  t.read = msc_windows_channels_read(v), t.made = msc_windows_channels_made(v);
  t.pixels = from[0] * from[1], t.places = to[0] * to[1];
  t.lines = v->dilation[1] == 1 && (v->makes == MSC_WINDOWS_MAKE_Y || v->step[1] == 1);
  t.panels = t.seen + msc_windows_aligned(t.cut.seen);
  t.room = t.panels + msc_windows_aligned(t.cut.panels);
  t.tile = t.room + msc_windows_aligned(t.cut.room);
  convolve_small(&t, unit);
}
