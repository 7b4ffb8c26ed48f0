/* windows.c: a convolution of a plan, or the gradient of its weights, in; its result out, one item of ir/abi/windows.h
 * at a time.  The elements that the windows of an item read are copied with their padding, so that a row of a panel is
 * a few contiguous runs of them; the kernels of matrix products do the rest.  No image is unfolded in memory.
 * Terms that are multiplied in pairs of bf16 are rounded in that copy; then two rows become one. */
#include "runtime/kernels/windows.h"

#include <string.h>

#include "runtime/kernels/pairs.h"

typedef struct {
  const mscrt_record *r;
  msc_windows v;
  msc_windows_cut cut;
  const mscrt_pair_loops *pairs;
  float *seen, *panels, *room, *tile;
} item;

typedef float four __attribute__((vector_size(16), aligned(4)));
typedef float sixteen __attribute__((vector_size(64), aligned(4)));

static void add_floats(float *restrict sum, const float *restrict more, int64_t num) {
  int64_t i = 0;
  for (; i + 16 <= num; i += 16) *(sixteen *)(sum + i) += *(const sixteen *)(more + i);
  for (; i < num; i++) sum[i] += more[i];
}

/* Clears rows first .. end - 1 of a panel. */
static void clear_rows(const msc_windows *v, float *panel, int64_t first, int64_t end) {
  if (end > first) memset(panel + first * v->width, 0, sizeof *panel * (size_t)((end - first) * v->width));
}

/* Multiplies rows of `terms` terms by panels. Rows of pairs of terms follow each other, with zeros behind their terms,
 * as in panels; step_a: of others. */
static void multiply(const item *t, const float *a, int64_t step_a, float *panels, float *c, int64_t step_c,
                     int64_t rows, int64_t columns, int64_t terms) {
  int64_t filled = t->v.narrow ? 2 * msc_windows_units(&t->v, terms) : terms;
  mscrt_multiply_rows(t->r, a, t->v.narrow ? filled : step_a, panels, c, step_c, rows, columns, filled, false);
}

/* ---- y ---- */

/* A stretch: the windows of one image that an item computes; `line`: where the lines that they see begin among those
 * copied. */
typedef struct {
  int64_t image, first, last, line;
} stretch;

static stretch first_stretch(const item *t, int64_t image, int64_t window, int64_t windows) {
  const msc_windows *v = &t->v;
  int64_t of_image = v->y[0] * v->y[1];
  return (stretch){image + window / of_image, window % of_image,
                   mscrt_smaller(window % of_image + windows, of_image) - 1, 0};
}

static int64_t lines_seen(const item *t, const stretch *s) {
  const msc_windows *v = &t->v;
  return (s->last / v->y[1] - s->first / v->y[1]) * v->step[0] + msc_windows_reach(v, 0) + 1;
}

/* Moves to the next image; `left`: how many windows of the item are in no stretch yet. */
static void next_stretch(const item *t, stretch *s, int64_t left) {
  *s = (stretch){s->image + 1, 0, mscrt_smaller(left, t->v.y[0] * t->v.y[1]) - 1, s->line + lines_seen(t, s)};
}

/* Copies what a stretch sees of some channels: elements of a line by their remainder of the step, so that those which
 * neighbouring windows see lie side by side. */
static void copy_seen(const item *t, const float *x, const stretch *s, int64_t channel, int64_t channels) {
  const msc_windows *v = &t->v;
  int64_t first = s->first / v->y[1] * v->step[0] - v->padding[0], lines = lines_seen(t, s),
          each = t->cut.line / v->step[1];
  for (int64_t c = 0; c < channels; c++)
    for (int64_t i = 0; i < lines; i++) {
      float *to = t->seen + c * t->cut.channel + (s->line + i) * t->cut.line;
      int64_t at = first + i;
      bool inside = at >= 0 && at < v->x[0];
      const float *line = x + (((s->image * v->c + channel + c) * v->x[0]) + (inside ? at : 0)) * v->x[1];
      for (int64_t p = 0; p < v->step[1]; p++)
        mscrt_copy_line(to + p * each, line, inside ? v->x[1] : 0, inside ? p - v->padding[1] : 0, v->step[1], each);
      if (v->narrow) t->pairs->round(to, t->cut.line);
    }
}

/* A run: neighbouring windows of a line, as columns of a panel and positions in what the first of them sees. */
typedef struct {
  int32_t to, from, num;
} run;

/* Lists the runs of a panel; *s is the stretch of its first window, and becomes that of the next panel's. */
static int list_runs(const item *t, stretch *s, int64_t *window, int64_t *left, int64_t columns, run *out) {
  const msc_windows *v = &t->v;
  int num = 0;
  for (int64_t at = 0; at < columns;) {
    if (*window > s->last) next_stretch(t, s, *left), *window = 0;
    int64_t line = *window / v->y[1], in_line = *window % v->y[1],
            n = mscrt_smaller(mscrt_smaller(v->y[1] - in_line, s->last - *window + 1), columns - at);
    int64_t seen = s->line + (line - s->first / v->y[1]) * v->step[0];
    out[num++] = (run){(int32_t)at, (int32_t)(seen * t->cut.line + in_line), (int32_t)n};
    at += n, *window += n, *left -= n;
  }
  return num;
}

/* Copies a run in whole vectors of four. What is written too much is overwritten by the next run, or lies in slack
 * behind the panel. */
static inline void copy_fours(float *to, const float *from, int32_t num) {
  for (int32_t i = 0; i < num; i += 4) memcpy(to + i, from + i, sizeof(four));
}

/* Copies what the windows of a panel see through one element of the kernel. */
static inline void copy_runs(float *to, const float *from, const run *runs, int num) {
  if (num == 1 && runs[0].num == 32) memcpy(to, from + runs[0].from, 128);
  else if (num == 2 && runs[0].num == 16 && runs[1].num == 16)
    memcpy(to, from + runs[0].from, 64), memcpy(to + 16, from + runs[1].from, 64);
  else
    for (int i = 0; i < num; i++) copy_fours(to + runs[i].to, from + runs[i].from, runs[i].num);
}

static void pack_panel(const item *t, float *to, int64_t channels, const run *runs, int num) {
  const msc_windows *v = &t->v;
  int64_t each = t->cut.line / v->step[1], term = 0;
  float row[MSC_WINDOWS_MAX_WIDTH + MSC_WINDOWS_SLACK] = {0};
  for (int64_t c = 0; c < channels; c++)
    for (int64_t k = 0; k < v->kernel[0]; k++)
      for (int64_t l = 0; l < v->kernel[1]; l++, term++) {
        int64_t along = l * v->dilation[1];
        const float *from = t->seen + c * t->cut.channel + k * v->dilation[0] * t->cut.line +
                            along % v->step[1] * each + along / v->step[1];
        copy_runs(v->narrow ? row : to + term * v->width, from, runs, num);
        if (v->narrow) t->pairs->put(to + term / 2 * v->width, row, v->width, term % 2);
      }
  if (v->narrow) clear_rows(v, to, (term + 1) / 2, msc_windows_units(v, term));
}

/* Packs windows of some channels. */
static void pack_windows(const item *t, const float *x, int64_t image, int64_t window, int64_t windows, int64_t channel,
                         int64_t channels) {
  const msc_windows *v = &t->v;
  run runs[MSC_WINDOWS_MAX_WIDTH];
  stretch s = first_stretch(t, image, window, windows);
  int64_t left = windows - (s.last - s.first + 1), units = msc_windows_units(v, channels * msc_windows_taps(v));
  for (stretch e = s;;) {
    copy_seen(t, x, &e, channel, channels);
    if (!left) break;
    next_stretch(t, &e, left);
    left -= e.last + 1;
  }
  int64_t at = s.first;
  left = windows;
  for (int64_t p = 0; p * v->width < windows; p++) {
    int num = list_runs(t, &s, &at, &left, mscrt_smaller(v->width, windows - p * v->width), runs);
    pack_panel(t, t->panels + p * v->width * units, channels, runs, num);
  }
}

/* Rounds the weights of some rows and channels to bf16. */
static void narrow_weights(const item *t, const float *w, int64_t row, int64_t rows, int64_t channel,
                           int64_t channels) {
  int64_t terms = channels * msc_windows_taps(&t->v), filled = 2 * msc_windows_units(&t->v, terms);
  for (int64_t r = 0; r < rows; r++)
    t->pairs->narrow(w + ((row + r) * t->v.c + channel) * msc_windows_taps(&t->v), terms, filled,
                     (uint16_t *)(void *)t->room + r * filled);
}

/* Copies results from the tile to their images. */
static void spread_tile(const item *t, float *y, int64_t image, int64_t window, int64_t windows, int64_t row,
                        int64_t rows) {
  int64_t of_image = t->v.y[0] * t->v.y[1];
  for (int64_t at = 0, n; at < windows; at += n) {
    int64_t i = image + (window + at) / of_image, in_image = (window + at) % of_image;
    n = mscrt_smaller(of_image - in_image, windows - at);
    for (int64_t r = 0; r < rows; r++)
      memcpy(y + (i * t->v.o + row + r) * of_image + in_image, t->tile + r * windows + at, sizeof *y * (size_t)n);
  }
}

static void convolve(const item *t, const float *x, const float *w, float *y, int64_t unit) {
  const msc_windows *v = &t->v;
  const msc_windows_cut *u = &t->cut;
  int64_t of_image = v->y[0] * v->y[1], taps = msc_windows_taps(v);
  int64_t row = unit % u->parts_o * u->rows, rows = mscrt_smaller(u->rows, v->o - row),
          window = unit / u->parts_o % u->parts * u->columns, image = unit / (u->parts_o * u->parts) * u->images,
          windows = mscrt_smaller(u->columns, u->images * of_image - window);
  float *c = u->tile ? t->tile : y + (image * v->o + row) * of_image + window;
  for (int64_t channel = 0; channel < v->c; channel += u->terms) {
    int64_t channels = mscrt_smaller(u->terms, v->c - channel);
    float *part = channel ? c + rows * windows : c;
    pack_windows(t, x, image, window, windows, channel, channels);
    if (v->narrow) narrow_weights(t, w, row, rows, channel, channels);
    multiply(t, v->narrow ? t->room : w + (row * v->c + channel) * taps, v->c * taps, t->panels, part,
             u->tile ? windows : of_image, rows, windows, channels * taps);
    if (channel) add_floats(c, part, rows * windows);
  }
  if (u->tile) spread_tile(t, y, image, window, windows, row, rows);
}

/* ---- the weights' gradient ---- */

/* A group: windows of some images, or of lines of one image. */
typedef struct {
  int64_t image, images, line, lines, windows;
} group;

/* The first line of x that a group's windows see in each image. */
static int64_t first_line_seen(const item *t, const group *g) {
  int64_t first = g->line * t->v.step[0] - t->v.padding[0];
  return first < 0 ? 0 : mscrt_smaller(first, t->v.x[0]);
}

static int64_t lines_of_group(const item *t, const group *g) {
  int64_t end = (g->line + g->lines - 1) * t->v.step[0] + msc_windows_reach(&t->v, 0) - t->v.padding[0] + 1,
          lines = mscrt_smaller(end, t->v.x[0]) - first_line_seen(t, g);
  return lines < 0 ? 0 : lines;
}

/* Transposes the lines of x that a group sees, so that the channels of a pixel are contiguous. */
static void transpose_seen(const item *t, const float *x, const group *g, int64_t channel, int64_t channels) {
  const msc_windows *v = &t->v;
  int64_t of_image = v->x[0] * v->x[1], first = first_line_seen(t, g) * v->x[1],
          pixels = lines_of_group(t, g) * v->x[1];
  for (int64_t i = 0; i < g->images && pixels; i++) {
    const float *from = x + ((g->image + i) * v->c + channel) * of_image + first;
    t->r->pack((void *[]){(void *)(uintptr_t)from, t->seen + i * pixels * v->width}, 0, 1,
               (int64_t[]){channels, pixels, of_image}, NULL);
    if (v->narrow) t->pairs->round(t->seen + i * pixels * v->width, pixels * v->width);
  }
}

/* Copies pixels first, first + step, ... of a transposed line of `size`; those outside of it are 0. */
static void copy_pixels(const msc_windows *v, float *to, const float *line, int64_t size, int64_t first, int64_t num) {
  size_t bytes = sizeof *to * (size_t)v->width;
  for (int64_t i = 0, at = first; i < num; i++, at += v->step[1]) {
    if (at < 0 || at >= size) memset(to + i * v->width, 0, bytes);
    else if (v->width == 32) memcpy(to + i * 32, line + at * 32, 128);
    else memcpy(to + i * v->width, line + at * v->width, bytes);
  }
}

/* Likewise, as terms of pairs from number `term` on. */
static void pair_pixels(const item *t, const float *line, int64_t size, int64_t first, int64_t term) {
  static const float nothing[MSC_WINDOWS_MAX_WIDTH];
  const msc_windows *v = &t->v;
  for (int64_t i = 0, at = first; i < v->y[1]; i++, term++, at += v->step[1])
    t->pairs->put(t->panels + term / 2 * v->width, at < 0 || at >= size ? nothing : line + at * v->width, v->width,
                  term % 2);
}

/* Fills the panel for element (k, l) of the kernel. If panels share lines, the lines that only elements (k + 1, l) and
 * further see follow behind it. */
static void fill_panel(const item *t, const group *g, int64_t k, int64_t l) {
  const msc_windows *v = &t->v;
  int64_t shared = msc_windows_share_lines(v, &t->cut) ? msc_windows_reach(v, 0) : 0, lines = g->lines + shared,
          first = first_line_seen(t, g), num = lines_of_group(t, g), term = 0;
  for (int64_t i = 0; i < g->images; i++)
    for (int64_t j = 0; j < lines; j++, term += v->y[1]) {
      int64_t at = (g->line + j) * v->step[0] + k * v->dilation[0] - v->padding[0] - first,
              before = l * v->dilation[1] - v->padding[1];
      bool inside = at >= 0 && at < num;
      const float *line = t->seen + (i * num + (inside ? at : 0)) * v->x[1] * v->width;
      if (v->narrow) pair_pixels(t, line, inside ? v->x[1] : 0, before, term);
      else copy_pixels(v, t->panels + term * v->width, line, inside ? v->x[1] : 0, before, v->y[1]);
    }
  if (v->narrow) clear_rows(v, t->panels, (term + 1) / 2, shared * v->y[1] / 2 + msc_windows_units(v, g->windows));
}

static void gather_rows(const item *t, const float *dy, const group *g, int64_t row, int64_t rows) {
  int64_t of_image = t->v.y[0] * t->v.y[1];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < g->images; i++)
      memcpy(t->room + (r * g->images + i) * of_image, dy + ((g->image + i) * t->v.o + row + r) * of_image,
             sizeof *dy * (size_t)of_image);
}

/* Likewise, rounded to bf16. */
static void narrow_rows(const item *t, const float *dy, const group *g, int64_t row, int64_t rows) {
  int64_t of_image = t->v.y[0] * t->v.y[1], each = g->lines * t->v.y[1],
          filled = 2 * msc_windows_units(&t->v, g->windows);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < g->images; i++)
      t->pairs->narrow(dy + ((g->image + i) * t->v.o + row + r) * of_image + g->line * t->v.y[1], each,
                       i + 1 < g->images ? each : filled - i * each,
                       (uint16_t *)(void *)t->room + r * filled + i * each);
}

static void add_group(const item *t, const float *x, const float *dy, const group *g, int64_t channel, int64_t row) {
  const msc_windows *v = &t->v;
  const msc_windows_cut *u = &t->cut;
  int64_t channels = mscrt_smaller(u->columns, v->c - channel), rows = mscrt_smaller(u->rows, v->o - row),
          of_image = v->y[0] * v->y[1], taps = msc_windows_taps(v);
  const float *a = t->room;
  float *more = t->tile + taps * u->rows * u->columns;
  bool first = !g->image && !g->line, share = msc_windows_share_lines(v, u);
  transpose_seen(t, x, g, channel, channels);
  if (v->narrow) narrow_rows(t, dy, g, row, rows);
  else if (u->room) gather_rows(t, dy, g, row, rows);
  else a = dy + (g->image * v->o + row) * of_image + g->line * v->y[1];
  for (int64_t l = 0; l < v->kernel[1]; l++)
    for (int64_t k = 0; k < v->kernel[0]; k++) {
      float *sum = t->tile + (k * v->kernel[1] + l) * u->rows * u->columns;
      if (!share || !k) fill_panel(t, g, k, l);
      int64_t above = share ? k * v->dilation[0] * v->y[1] : 0; /* windows */
      multiply(t, a, u->room ? g->windows : of_image, t->panels + (v->narrow ? above / 2 : above) * v->width,
               first ? sum : more, channels, rows, channels, g->windows);
      if (!first) add_floats(sum, more, rows * channels);
    }
}

static void differentiate_weights(const item *t, const float *x, const float *dy, float *dw, int64_t unit) {
  const msc_windows *v = &t->v;
  const msc_windows_cut *u = &t->cut;
  int64_t row = unit % u->parts_o * u->rows, channel = unit / u->parts_o * u->columns;
  int64_t channels = mscrt_smaller(u->columns, v->c - channel), rows = mscrt_smaller(u->rows, v->o - row),
          taps = msc_windows_taps(v);
  for (int64_t image = 0; image < v->n; image += u->images)
    for (int64_t line = 0; line < v->y[0]; line += u->lines) {
      group g = {image, mscrt_smaller(u->images, v->n - image), line, mscrt_smaller(u->lines, v->y[0] - line), 0};
      g.windows = g.images * g.lines * v->y[1];
      add_group(t, x, dy, &g, channel, row);
    }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t i = 0; i < taps; i++)
        dw[((row + r) * v->c + channel + c) * taps + i] = t->tile[i * u->rows * u->columns + r * channels + c];
}

void mscrt_run_windows(const mscrt_record *r, void *const *buffers, int64_t unit, void *room) {
  const mscrt_graph *g = r->graph;
  item t = {
      .r = r, .v = mscrt_windows_of(g), .cut = mscrt_windows_cut(g), .pairs = mscrt_pair_loops_here(), .seen = room};
  if (msc_windows_are_apart(&t.v)) {
    mscrt_run_channels(r, buffers, unit, room);
    return;
  }
  if (t.v.groups > 1) {
    mscrt_run_groups(r, buffers, unit, room);
    return;
  }
  if (msc_windows_are_tiles(&t.v)) {
    mscrt_run_winograd(r, buffers, unit, room);
    return;
  }
  if (msc_windows_lie_side_by_side(&t.v)) {
    mscrt_run_small_images(r, buffers, unit, room);
    return;
  }
  t.panels = t.seen + msc_windows_aligned(t.cut.seen);
  t.room = t.panels + msc_windows_aligned(t.cut.panels);
  t.tile = t.room + msc_windows_aligned(t.cut.room);
  if (g->kind == PLAN_GRAPH_KIND_CONV_WEIGHT) differentiate_weights(&t, buffers[0], buffers[1], buffers[2], unit);
  else convolve(&t, buffers[0], buffers[1], buffers[2], unit);
}
