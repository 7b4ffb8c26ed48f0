/* grouped_convolution.c: a convolution whose channels are in groups, or one of its gradients, in; its result out, one
 * item of msc_windows_cut_of_groups at a time. The elements that a group's windows read are copied with their padding,
 * the elements of a line sorted by their remainder of the step, so that neighbouring windows read contiguous elements;
 * for the gradient of the data, with zeros between them. */
#include <string.h>

#include "runtime/kernels/windows.h"

enum {
  LANES = MSC_WINDOWS_LANES,
  BLOCKS = 8, /* of places that are summed at once */
  TAPS = 5,   /* elements of the kernel that are: of 3 x 3 and 5 x 5 all but one in whole turns */
};

typedef float four __attribute__((vector_size(16), aligned(4)));

typedef struct {
  msc_windows v;
  msc_windows_cut cut;
  int64_t read, made;                      /* channels of a group that are read, and made */
  int64_t places[2], step[2], dilation[2]; /* sizes of the result; step and dilation in the copied lines */
  const float *from, *other;
  float *to, *seen, *room, *tile;
  int32_t *offset; /* of the elements of the kernel */
} item;

static int64_t num_blocks(const item *t) { return (t->places[1] + LANES - 1) / LANES; }

/* ---- the elements that windows read ---- */

static void copy_images(const item *t, int64_t image, int64_t group) {
  const msc_windows *v = &t->v;
  int64_t each = t->cut.line / v->step[1];
  for (int64_t c = 0; c < t->read; c++)
    for (int64_t i = 0; i < t->cut.lines; i++) {
      int64_t at = i - v->padding[0];
      bool inside = at >= 0 && at < v->x[0];
      const float *line = t->from + ((image * v->c + group * t->read + c) * v->x[0] + (inside ? at : 0)) * v->x[1];
      for (int64_t p = 0; p < v->step[1]; p++)
        mscrt_copy_line(t->seen + c * t->cut.channel + i * t->cut.line + p * each, line, inside ? v->x[1] : 0,
                        inside ? p - v->padding[1] : 0, v->step[1], each);
    }
}

/* Copies dy with zeros between its elements, where windows are several steps apart. */
static void spread_gradient(const item *t, int64_t image, int64_t group) {
  const msc_windows *v = &t->v;
  int64_t first[2];
  for (int d = 0; d < 2; d++) first[d] = msc_windows_reach(v, d) - v->padding[d];
  memset(t->seen, 0, sizeof *t->seen * (size_t)t->cut.seen);
  for (int64_t c = 0; c < t->read; c++)
    for (int64_t i = 0; i < v->y[0]; i++) {
      int64_t at_line = first[0] + i * v->step[0];
      const float *line = t->from + ((image * v->o + group * t->read + c) * v->y[0] + i) * v->y[1];
      if (at_line < 0 || at_line >= t->cut.lines) continue;
      for (int64_t j = 0; j < v->y[1]; j++) {
        int64_t at = first[1] + j * v->step[1];
        if (at >= 0 && at < t->cut.line) t->seen[c * t->cut.channel + at_line * t->cut.line + at] = line[j];
      }
    }
}

/* Lists the offsets of the kernel's elements from the first element that a place sees. */
static void list_offsets(const item *t) {
  const int64_t *kernel = t->v.kernel;
  for (int64_t k = 0, i = 0; k < kernel[0]; k++)
    for (int64_t l = 0; l < kernel[1]; l++, i++) {
      int64_t along = l * t->dilation[1];
      t->offset[i] = (int32_t)(k * t->dilation[0] * t->cut.line + along % t->step[1] * (t->cut.line / t->step[1]) +
                               along / t->step[1]);
    }
}

/* ---- y and dx ---- */

/* The weights between an output channel and the input channels of its group. */
typedef struct {
  const float *first;
  int64_t channel, step; /* step: from an element of the kernel to the next; of reversed ones -1 */
} weights;

static weights weights_of_channel(const item *t, int64_t group, int64_t channel) {
  int64_t taps = msc_windows_taps(&t->v), channels = t->v.c / t->v.groups;
  if (t->v.makes == MSC_WINDOWS_MAKE_X)
    return (weights){t->other + (group * t->read * channels + channel + 1) * taps - 1, channels * taps, -1};
  return (weights){t->other + (group * t->made + channel) * channels * taps, taps, 1};
}

/* Sums blocks of places, each from `at` on. */
static inline void sum_place_blocks(const item *t, const weights *w, const int64_t at[BLOCKS], four sum[BLOCKS]) {
  four all[BLOCKS] = {{0}};
  int64_t taps = msc_windows_taps(&t->v);
  for (int64_t channel = 0; channel < t->read; channel++) {
    const float *from = t->seen + channel * t->cut.channel, *weight = w->first + channel * w->channel;
    for (int64_t i = 0; i < taps; i++) {
      const float *seen = from + t->offset[i];
      float one = weight[w->step * i];
      four term = {one, one, one, one};
#pragma GCC unroll 8
      for (int k = 0; k < BLOCKS; k++) all[k] += term * *(const four *)(seen + at[k]);
    }
  }
  memcpy(sum, all, sizeof all);
}

static void make_channel(const item *t, const weights *w, float *to) {
  int64_t in_line = num_blocks(t), all = in_line * t->places[0];
  for (int64_t block = 0; block < all; block += BLOCKS) {
    int64_t at[BLOCKS];
    four sum[BLOCKS];
    for (int64_t i = 0; i < BLOCKS; i++) {
      int64_t b = mscrt_smaller(block + i, all - 1);
      at[i] = b / in_line * t->step[0] * t->cut.line + b % in_line * LANES;
    }
    sum_place_blocks(t, w, at, sum);
    for (int64_t i = 0; i < mscrt_smaller(BLOCKS, all - block); i++) {
      int64_t line = (block + i) / in_line, place = (block + i) % in_line * LANES;
      memcpy(to + line * t->places[1] + place, &sum[i],
             sizeof *to * (size_t)mscrt_smaller(LANES, t->places[1] - place));
    }
  }
}

static void make_groups(const item *t, int64_t unit) {
  int64_t image = unit / t->cut.parts_o, first = unit % t->cut.parts_o * t->cut.rows,
          end = mscrt_smaller(first + t->cut.rows, t->v.groups);
  for (int64_t group = first; group < end; group++) {
    if (t->v.makes == MSC_WINDOWS_MAKE_X) spread_gradient(t, image, group);
    else copy_images(t, image, group);
    for (int64_t c = 0; c < t->made; c++) {
      weights w = weights_of_channel(t, group, c);
      make_channel(t, &w, t->to + (image * t->v.groups * t->made + group * t->made + c) * t->places[0] * t->places[1]);
    }
  }
}

/* ---- the weights' gradient ---- */

/* Copies dy in whole blocks, with zeros behind its lines. */
static void copy_gradient(const item *t, const float *dy) {
  int64_t line = num_blocks(t) * LANES;
  for (int64_t i = 0; i < t->places[0]; i++)
    mscrt_copy_line(t->room + i * line, dy + i * t->places[1], t->places[1], 0, 1, line);
}

/* Adds the products of one image's places to the sums of some elements of the kernel. */
static inline void add_kernel_products(const item *t, const float *const seen[TAPS], four *sum, int64_t num) {
  int64_t line = num_blocks(t) * LANES;
  four all[TAPS] = {{0}};
  memcpy(all, sum, sizeof *sum * (size_t)num);
  for (int64_t i = 0; i < t->places[0]; i++)
    for (int64_t j = 0, at = i * t->step[0] * t->cut.line; j < line; j += LANES, at += LANES) {
      four one = *(const four *)(t->room + i * line + j);
#pragma GCC unroll 5
      for (int k = 0; k < TAPS; k++) all[k] += one * *(const four *)(seen[k] + at);
    }
  memcpy(sum, all, sizeof *sum * (size_t)num);
}

static void add_image(const item *t, int64_t image, int64_t group) {
  const msc_windows *v = &t->v;
  int64_t taps = msc_windows_taps(v);
  copy_images(t, image, group);
  for (int64_t o = 0; o < t->made; o++) {
    copy_gradient(t, t->other + (image * v->o + group * t->made + o) * t->places[0] * t->places[1]);
    for (int64_t c = 0; c < t->read; c++)
      for (int64_t first = 0; first < taps; first += TAPS) {
        const float *seen[TAPS];
        int64_t num = mscrt_smaller(TAPS, taps - first);
        for (int64_t i = 0; i < TAPS; i++)
          seen[i] = t->seen + c * t->cut.channel + t->offset[mscrt_smaller(first + i, taps - 1)];
        add_kernel_products(t, seen, (four *)t->tile + (o * t->read + c) * taps + first, num);
      }
  }
}

static void make_weights(const item *t, int64_t group) {
  int64_t num = t->made * t->read * msc_windows_taps(&t->v);
  memset(t->tile, 0, sizeof *t->tile * (size_t)(num * LANES));
  for (int64_t image = 0; image < t->v.n; image++) add_image(t, image, group);
  for (int64_t i = 0; i < num; i++) {
    four sum = ((four *)t->tile)[i];
    t->to[group * num + i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
}

void mscrt_run_groups(const mscrt_record *r, void *const *buffers, int64_t unit, void *room) {
  item t = {.v = mscrt_windows_of(r->graph), .from = buffers[0], .other = buffers[1], .to = buffers[2], .seen = room};
  const msc_windows *v = &t.v;
  bool data = v->makes == MSC_WINDOWS_MAKE_X;
  t.cut = msc_windows_cut_of_groups(v);
  t.read = msc_windows_channels_read(v) / v->groups, t.made = msc_windows_channels_made(v) / v->groups;
  for (int d = 0; d < 2; d++) {
    t.places[d] = data ? v->x[d] : v->y[d];
    t.step[d] = data ? 1 : v->step[d], t.dilation[d] = v->dilation[d];
  }
  t.offset = (int32_t *)(void *)(t.seen + msc_windows_aligned(t.cut.seen));
  t.room = (float *)(void *)t.offset + msc_windows_aligned(t.cut.panels);
  t.tile = t.room + msc_windows_aligned(t.cut.room);
  list_offsets(&t);
  if (v->makes == MSC_WINDOWS_MAKE_WEIGHTS) make_weights(&t, unit);
  else make_groups(&t, unit);
}
