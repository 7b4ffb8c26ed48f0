/* place_peak.c: very many bodies -> a plan hardly above the bound, by dividing time at peaks.
 *
 * All that is live at the peak lies in one stack: what lives longest to both sides of it at the bottom, so that the holes that
 * open with time are few and wide.  The rest never meets across the peak: each side is a problem of its own, in the holes.  Where
 * a stack is a good part of a problem, both sides take the lowest holes at once, larger bodies first, and of about the same size
 * (5 %) in order of time, as tracks are filled. */
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
  int64_t top; /* of all of them, or above */
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

static void set(block *k, int at, int32_t from, int32_t to, int64_t low, int64_t high) {
  k->from[at] = from, k->to[at] = to, k->low[at] = low, k->high[at] = high;
  if (high > k->top) k->top = high;
}

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

/* The lowest hole from x on. */
static int64_t find(const strata *s, const msc_body *b, int64_t x) {
  for (size_t i = 0; i < s->num; i++)
    if (s->block[i]->top > x && find_in(s->block[i], (int32_t)b->from, (int32_t)b->to, b->height, &x)) break;
  return x;
}

/* ---- a range of time ---- */

/* Bodies that lie in sections [from, to) and have no offset yet, beside what has one there. */
typedef struct {
  uint32_t from, to;
  turn *order;
  size_t num;
} range;

enum { MARKS = 256 };

typedef struct {
  msc_placing *z;
  int64_t *offset;
  int64_t taken[MARKS]; /* at some sections: below this nothing is free */
} placing;

/* The first mark at section s or later. */
static uint32_t mark_at(const placing *p, uint32_t s) { return (uint32_t)(((uint64_t)s * MARKS + p->z->num_sections - 1) / p->z->num_sections); }

static int64_t first_free(const placing *p, const msc_body *b) {
  int64_t most = 0;
  for (uint32_t m = mark_at(p, b->from); m < mark_at(p, b->to); m++)
    if (p->taken[m] > most) most = p->taken[m];
  return most;
}

static void take(placing *p, const msc_body *b, int64_t low) {
  for (uint32_t m = mark_at(p, b->from); m < mark_at(p, b->to); m++)
    if (low <= p->taken[m] && low + b->height > p->taken[m]) p->taken[m] = low + b->height;
}

static const msc_body *body_of(const placing *p, const turn *t) { return &p->z->body[t->body]; }

static uint32_t highest(const msc_placing *z, uint32_t from, uint32_t to) {
  uint32_t peak = from;
  for (uint32_t s = from; s < to; s++)
    if (z->live[s] > z->live[peak]) peak = s;
  return peak;
}

/* Where most is live; of places that are nearly as high one that leaves something to both sides. */
static uint32_t peak_of(const msc_placing *z, const range *r) {
  uint32_t peak = highest(z, r->from, r->to), quarter = (r->to - r->from) / 4, middle = highest(z, r->from + quarter, r->to - quarter);
  return z->live[middle] >= z->live[peak] - z->live[peak] / 16 ? middle : peak;
}

/* What of s lies in the range. */
static strata part_of(const strata *s, const range *r) {
  strata part = {.arena = s->arena};
  for (size_t i = 0; i < s->num; i++) {
    const block *k = s->block[i];
    for (int n = 0; n < k->num; n++) {
      if (k->from[n] >= (int32_t)r->to || k->to[n] <= (int32_t)r->from) continue;
      if (!part.num || part.block[part.num - 1]->num == BLOCK / 2) insert_block(&part, part.num, new_block(part.arena));
      block *last = part.block[part.num - 1];
      set(last, last->num++, k->from[n], k->to[n], k->low[n], k->high[n]);
    }
  }
  return part;
}

static void rank_across(const placing *p, range *r, uint32_t peak, size_t *out_num, size_t *out_before) {
  *out_num = *out_before = 0;
  for (size_t i = 0; i < r->num; i++) {
    turn *t = &r->order[i];
    const msc_body *b = body_of(p, t);
    uint32_t before = peak - b->from, after = b->to - peak;
    t->group = b->to <= peak ? 1 : b->from > peak ? 2 : 0;
    t->rank = t->group ? floor(log((double)b->height) / log(ALIKE)) : before < after ? before : after;
    *out_num += t->group == 0, *out_before += t->group == 1;
  }
  qsort(r->order, r->num, sizeof *r->order, by_turn);
}

static bool place_turns(placing *p, strata *s, const range *r) {
  for (size_t k = 0; k < r->num; k++) {
    const msc_body *b = body_of(p, &r->order[k]);
    int64_t low = p->offset[r->order[k].body] = find(s, b, first_free(p, b));
    put(s, b, low);
    take(p, b, low);
    if (k % 256 == 255 && p->z->deadline > 0 && msc_placing_spent(p->z)) return false;
  }
  return true;
}

enum { FEW = 64, SHARE = 4 };

static bool place_range(placing *p, const strata *above, range r, int depth) {
  uint32_t peak = peak_of(p->z, &r);
  size_t across, before;
  strata s = part_of(above, &r);
  rank_across(p, &r, peak, &across, &before);
  if (!place_turns(p, &s, &(range){r.from, r.to, r.order, across})) return false;
  range side[2] = {{r.from, peak, r.order + across, before}, {peak + 1, r.to, r.order + across + before, r.num - across - before}};
  for (int i = 0; i < 2; i++) {
    if (!side[i].num) continue;
    bool whole = depth > 60 || side[i].num < FEW || (across > r.num / SHARE);
    strata own = whole ? part_of(&s, &side[i]) : s;
    if (!(whole ? place_turns(p, &own, &side[i]) : place_range(p, &s, side[i], depth + 1))) return false;
  }
  return true;
}

static bool is_plain(const msc_body *b) { return b->fixed < 0 && b->num_parts == 1 && b->part[0].low == 0 && b->part[0].high == b->height && b->to <= INT32_MAX; }

void msc_place_around_peak(msc_placing *z) {
  placing p = {.z = z, .offset = msc_new_array(z->arena, int64_t, z->num)};
  range all = {0, (uint32_t)z->num_sections, msc_new_array(z->arena, turn, z->num), z->num};
  for (uint32_t i = 0; i < z->num; i++) {
    if (!is_plain(&z->body[i])) return;
    all.order[i] = (turn){.from = z->body[i].from, .body = i};
  }
  strata none = {.arena = z->arena};
  if (place_range(&p, &none, all, 0)) msc_placing_keep(z, p.offset);
}
