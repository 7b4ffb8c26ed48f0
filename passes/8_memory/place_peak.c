/* place_peak.c: very many bodies without pattern -> a plan hardly above the bound.
 *
 * All that is live at the peak lies in one stack without a gap: what lives longest to both sides of it at the bottom, so that the
 * holes that open with time are few and wide.  The rest never meets across the peak: each side takes the lowest holes, larger ones
 * first, and of about the same size (5 %) in order of time, as tracks are filled. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/8_memory/placing.h"

enum { BLOCK = 256 };
#define ALIKE 1.05

typedef struct {
  int32_t group;     /* the stack first, then sides */
  double rank;       /* more comes first */
  uint32_t from, body;
} turn;

static int by_turn(const void *a, const void *b) {
  const turn *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->body < y->body ? -1 : x->body > y->body;
}

/* ---- what is placed, by offset ---- */

/* Room behind the last entry is never met: it ends before it begins. */
typedef struct {
  int num;
  int32_t from[BLOCK], to[BLOCK];
  int64_t low[BLOCK], high[BLOCK];
} block;

typedef struct {
  msc_arena *arena;
  size_t num, room;
  block **block;
} strata;

static block *new_block(msc_arena *a) {
  block *k = msc_new(a, block);
  for (int i = 0; i < BLOCK; i++) k->from[i] = INT32_MAX, k->to[i] = INT32_MIN;
  return k;
}

static void insert_block(strata *s, size_t at, block *k) {
  if (s->num == s->room) {
    block **old = s->block;
    s->room = s->room ? 2 * s->room : 64;
    s->block = msc_new_array(s->arena, block *, s->room);
    if (s->num) memcpy(s->block, old, s->num * sizeof *old);
  }
  memmove(s->block + at + 1, s->block + at, (s->num - at) * sizeof *s->block);
  s->block[at] = k;
  s->num++;
}

static void set(block *k, int at, int32_t from, int32_t to, int64_t low, int64_t high) { k->from[at] = from, k->to[at] = to, k->low[at] = low, k->high[at] = high; }

/* The upper half moves to a block of its own. */
static void halve(strata *s, size_t at) {
  block *k = s->block[at], *upper = new_block(s->arena);
  for (int i = BLOCK / 2; i < BLOCK; i++) {
    set(upper, upper->num++, k->from[i], k->to[i], k->low[i], k->high[i]);
    k->from[i] = INT32_MAX, k->to[i] = INT32_MIN;
  }
  k->num = BLOCK / 2;
  insert_block(s, at + 1, upper);
}

/* The last block that begins at `low` or below, or the first one. */
static size_t block_at(const strata *s, int64_t low) {
  size_t at = 0, end = s->num;
  while (end - at > 1) {
    size_t middle = (at + end) / 2;
    if (s->block[middle]->low[0] <= low) at = middle;
    else end = middle;
  }
  return at;
}

static void put(strata *s, const msc_body *b, int64_t low) {
  size_t at = block_at(s, low);
  if (!s->num) insert_block(s, 0, new_block(s->arena));
  if (s->block[at]->num == BLOCK) {
    halve(s, at);
    at += s->block[at + 1]->low[0] <= low;
  }
  block *k = s->block[at];
  int i = k->num++;
  for (; i && k->low[i - 1] > low; i--) set(k, i, k->from[i - 1], k->to[i - 1], k->low[i - 1], k->high[i - 1]);
  set(k, i, (int32_t)b->from, (int32_t)b->to, low, low + b->height);
}

enum { TOGETHER = 16 };

/* Raises *x over what b meets in the block; true when it found a hole below the block's end.  Without a branch per entry: whether
 * one of some entries leaves a hole is looked at when *x is above all of them, and then again one by one. */
static bool find_in(const block *k, int32_t from, int32_t to, int64_t height, int64_t *x) {
  for (int i = 0; i < BLOCK; i += TOGETHER) {
    int64_t raised = *x;
    int hole = 0;
    for (int n = i; n < i + TOGETHER; n++) {
      int meets = (k->from[n] < to) & (k->to[n] > from);
      hole |= meets & (k->low[n] - raised >= height);
      int64_t high = meets ? k->high[n] : 0;
      raised = high > raised ? high : raised;
    }
    for (int n = i; hole && n < i + TOGETHER; n++) {
      if (k->from[n] >= to || k->to[n] <= from) continue;
      if (k->low[n] - *x >= height) return true;
      if (k->high[n] > *x) *x = k->high[n];
    }
    *x = raised;
  }
  return false;
}

/* The lowest hole from x on, below which b meets something everywhere. */
static int64_t find(const strata *s, const msc_body *b, int64_t x) {
  for (size_t i = block_at(s, x - 1); i < s->num; i++)
    if (find_in(s->block[i], (int32_t)b->from, (int32_t)b->to, b->height, &x)) break;
  return x;
}

/* ---- the order ---- */

static uint32_t peak_of(const msc_placing *z) {
  uint32_t peak = 0;
  for (uint32_t s = 1; s < z->num_sections; s++)
    if (z->live[s] > z->live[peak]) peak = s;
  return peak;
}

static turn turn_of(const msc_body *b, uint32_t body, uint32_t peak) {
  if (b->to <= peak) return (turn){1, floor(log((double)b->height) / log(ALIKE)), b->from, body};
  if (b->from > peak) return (turn){2, floor(log((double)b->height) / log(ALIKE)), b->from, body};
  uint32_t before = peak - b->from, after = b->to - peak;
  return (turn){0, before < after ? before : after, b->from, body};
}

static bool is_plain(const msc_body *b) { return b->fixed < 0 && b->num_parts == 1 && b->part[0].low == 0 && b->part[0].high == b->height && b->to <= INT32_MAX; }

/* Up to where the stack has no hole so far from the peak. */
static int64_t solid_until(const turn *order, size_t num_stack, const int64_t *offset, uint32_t distance) {
  size_t at = 0, end = num_stack;
  while (at < end) {
    size_t middle = (at + end) / 2;
    if (order[middle].rank > distance) at = middle + 1;
    else end = middle;
  }
  return at < num_stack ? offset[order[at].body] : 0;
}

/* One side beside the stack, which are the first turns; false: it takes too long. */
static bool fill_side(msc_placing *z, uint32_t peak, const turn *order, size_t num_stack, size_t first, size_t end, int64_t *offset) {
  strata s = {.arena = z->arena};
  for (size_t k = 0; k < num_stack; k++) put(&s, &z->body[order[k].body], offset[order[k].body]);
  for (size_t k = first; k < end; k++) {
    const msc_body *b = &z->body[order[k].body];
    uint32_t distance = b->from > peak ? b->from - peak : peak - b->to;
    put(&s, b, offset[order[k].body] = find(&s, b, solid_until(order, num_stack, offset, distance)));
    if (k % 256 == 255 && z->deadline > 0 && msc_placing_spent(z)) return false;
  }
  return true;
}

void msc_place_around_peak(msc_placing *z) {
  uint32_t peak = peak_of(z);
  turn *order = msc_new_array(z->arena, turn, z->num);
  int64_t *offset = msc_new_array(z->arena, int64_t, z->num), top = 0;
  size_t num_stack = 0, num_before = 0;
  for (uint32_t i = 0; i < z->num; i++) {
    if (!is_plain(&z->body[i])) return;
    order[i] = turn_of(&z->body[i], i, peak);
    num_stack += order[i].group == 0, num_before += order[i].group == 1;
  }
  qsort(order, z->num, sizeof *order, by_turn);
  for (size_t k = 0; k < num_stack; k++) {
    offset[order[k].body] = top;
    top += z->body[order[k].body].height;
  }
  bool whole = fill_side(z, peak, order, num_stack, num_stack, num_stack + num_before, offset) && fill_side(z, peak, order, num_stack, num_stack + num_before, z->num, offset);
  if (whole) msc_placing_keep(z, offset);
}
