/* place.c: offsets for buffers with lifetimes.  Largest first, each into the smallest gap among those live with it that
 * holds it (Pisarchyk and Lee 2020, greedy by size); also by first need and by lifetime; the smallest arena wins. */
#include <stdlib.h>

#include "passes/8_memory/place.h"

static uint64_t aligned(uint64_t n) { return (n + MSC_ALIGN - 1) / MSC_ALIGN * MSC_ALIGN; }

typedef struct {
  uint64_t at;
  int64_t bytes; /* negative: ends */
} event;

static int by_time(const void *a, const void *b) {
  const event *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* ends before starts: lifetimes are half open */
}

uint64_t msc_place_bound(msc_arena *arena, size_t num, const msc_buffer *buffer) {
  event *e = msc_new_array(arena, event, 2 * num);
  for (size_t i = 0; i < num; i++) {
    int64_t bytes = (int64_t)aligned(buffer[i].bytes);
    e[2 * i] = (event){buffer[i].lower, bytes};
    e[2 * i + 1] = (event){buffer[i].upper, -bytes};
  }
  qsort(e, 2 * num, sizeof *e, by_time);
  int64_t live = 0, most = 0;
  for (size_t i = 0; i < 2 * num; i++) {
    live += e[i].bytes;
    if (live > most) most = live;
  }
  return (uint64_t)most;
}

/* ---- orders ---- */

typedef struct {
  const msc_buffer *b;
  uint32_t index;
} item;

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int tie(const item *x, const item *y) {
  int c = compare(x->b->lower, y->b->lower);
  if (!c) c = compare(x->b->upper, y->b->upper);
  return c ? c : compare(x->index, y->index);
}

static int by_size(const void *a, const void *b) {
  const item *x = a, *y = b;
  int c = compare(y->b->bytes, x->b->bytes);
  return c ? c : tie(x, y);
}

static int by_area(const void *a, const void *b) {
  const item *x = a, *y = b;
  int c = compare(y->b->bytes * (y->b->upper - y->b->lower), x->b->bytes * (x->b->upper - x->b->lower));
  return c ? c : tie(x, y);
}

static int by_lifetime(const void *a, const void *b) {
  const item *x = a, *y = b;
  int c = compare(y->b->upper - y->b->lower, x->b->upper - x->b->lower);
  return c ? c : tie(x, y);
}

static int by_start(const void *a, const void *b) { return tie(a, b); }

/* ---- best fit ---- */

/* Placed buffers in order of offset. */
typedef struct {
  const msc_buffer **buffer;
  uint64_t *offset;
  size_t num;
} shelf;

static bool together(const msc_buffer *a, const msc_buffer *b) { return a->lower < b->upper && b->lower < a->upper; }

static uint64_t best_gap(const shelf *s, const msc_buffer *b) {
  uint64_t top = 0, best = UINT64_MAX, best_size = UINT64_MAX, need = aligned(b->bytes);
  for (size_t i = 0; i < s->num; i++) {
    if (!together(s->buffer[i], b)) continue;
    if (s->offset[i] >= top + need && s->offset[i] - top < best_size) best = top, best_size = s->offset[i] - top;
    uint64_t end = s->offset[i] + aligned(s->buffer[i]->bytes);
    if (end > top) top = end;
  }
  return best == UINT64_MAX ? top : best;
}

static void put(shelf *s, const msc_buffer *b, uint64_t offset) {
  size_t i = s->num++;
  for (; i && s->offset[i - 1] > offset; i--) s->buffer[i] = s->buffer[i - 1], s->offset[i] = s->offset[i - 1];
  s->buffer[i] = b;
  s->offset[i] = offset;
}

static uint64_t fill(shelf *s, size_t num, const item *order, uint64_t *out_offset) {
  uint64_t height = 0;
  s->num = 0;
  for (size_t i = 0; i < num; i++) {
    uint64_t offset = order[i].b->bytes ? best_gap(s, order[i].b) : 0;
    out_offset[order[i].index] = offset;
    if (!order[i].b->bytes) continue;
    put(s, order[i].b, offset);
    if (offset + aligned(order[i].b->bytes) > height) height = offset + aligned(order[i].b->bytes);
  }
  return height;
}

uint64_t msc_place(msc_arena *arena, size_t num, const msc_buffer *buffer, uint64_t *out_offset) {
  static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_lifetime, by_start};
  uint64_t bound = msc_place_bound(arena, num, buffer), best = UINT64_MAX;
  uint64_t *offset = msc_new_array(arena, uint64_t, num);
  item *order = msc_new_array(arena, item, num);
  shelf s = {msc_new_array(arena, const msc_buffer *, num), msc_new_array(arena, uint64_t, num), 0};
  for (size_t k = 0; k < sizeof orders / sizeof *orders && best > bound; k++) {
    for (size_t i = 0; i < num; i++) order[i] = (item){&buffer[i], (uint32_t)i};
    qsort(order, num, sizeof *order, orders[k]);
    uint64_t height = fill(&s, num, order, offset);
    if (height >= best) continue;
    best = height;
    for (size_t i = 0; i < num; i++) out_offset[i] = offset[i];
  }
  return num ? best : 0;
}
