/* split_at_peak.c: places very many bodies hardly above the bound by splitting time at peaks.
 *
 * What is live at the peak lies in one stack: what lives longest on both sides at the bottom, so that the gaps that
 * open with time are few and wide. The other bodies never meet across the peak: each side is a problem of its own, in
 * the gaps. Where the stack is a good part of a problem, both sides take the lowest gaps directly, larger bodies first,
 * and of similar size (5 %) in order of time. */
#include <math.h>
#include <stdlib.h>

#include "passes/8_memory/offsets/bodies.h"

#define ALIKE 1.05

typedef struct {
  int32_t group; /* 0: the stack, then the sides */
  double rank;   /* higher ranks are placed first */
  uint32_t from, body;
} turn;

static int compare_turns(const void *a, const void *b) {
  const turn *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->body < y->body ? -1 : x->body > y->body;
}

/* ---- a range of time ---- */

/* The bodies in sections [from, to) that have no offset yet. */
typedef struct {
  uint32_t from, to;
  turn *order;
  size_t num;
} range;

enum { MARKS = 256 };

typedef struct {
  msc_placing *z;
  int64_t *offset;
  int64_t taken[MARKS]; /* at MARKS sections: below this offset nothing is free */
} peak_placer;

/* The first mark at section s or later. */
static uint32_t mark_at(const peak_placer *p, uint32_t s) {
  return (uint32_t)(((uint64_t)s * MARKS + p->z->num_sections - 1) / p->z->num_sections);
}

static int64_t first_free(const peak_placer *p, const msc_body *b) {
  int64_t most = 0;
  for (uint32_t m = mark_at(p, b->from); m < mark_at(p, b->to); m++)
    if (p->taken[m] > most) most = p->taken[m];
  return most;
}

static void raise_marks(peak_placer *p, const msc_body *b, int64_t low) {
  for (uint32_t m = mark_at(p, b->from); m < mark_at(p, b->to); m++)
    if (low <= p->taken[m] && low + b->height > p->taken[m]) p->taken[m] = low + b->height;
}

static const msc_body *body_of_turn_at(const peak_placer *p, const turn *t) { return &p->z->body[t->body]; }

/* The section where most is live; of sections nearly as high, one that leaves bodies on both sides. */
static uint32_t balanced_peak(const msc_placing *z, const range *r) {
  uint32_t peak = msc_placing_peak(z, r->from, r->to), quarter = (r->to - r->from) / 4,
           middle = msc_placing_peak(z, r->from + quarter, r->to - quarter);
  return z->live[middle] >= z->live[peak] - z->live[peak] / 16 ? middle : peak;
}

static void rank_around_peak(const peak_placer *p, range *r, uint32_t peak, size_t *out_num, size_t *out_before) {
  *out_num = *out_before = 0;
  for (size_t i = 0; i < r->num; i++) {
    turn *t = &r->order[i];
    const msc_body *b = body_of_turn_at(p, t);
    uint32_t before = peak - b->from, after = b->to - peak;
    t->group = b->to <= peak ? 1 : b->from > peak ? 2 : 0;
    t->rank = t->group ? floor(log((double)b->height) / log(ALIKE)) : before < after ? before : after;
    *out_num += t->group == 0, *out_before += t->group == 1;
  }
  qsort(r->order, r->num, sizeof *r->order, compare_turns);
}

static bool place_in_turn(peak_placer *p, msc_gap_scan *s, const range *r) {
  for (size_t k = 0; k < r->num; k++) {
    const msc_body *b = body_of_turn_at(p, &r->order[k]);
    int64_t low = p->offset[r->order[k].body] = msc_gap_scan_find(s, b, first_free(p, b));
    msc_gap_scan_add(s, b, low);
    raise_marks(p, b, low);
    if (k % 256 == 255 && p->z->deadline > 0 && msc_placing_limit_reached(p->z)) return false;
  }
  return true;
}

enum { FEW = 64, SHARE = 4 };

static bool place_range(peak_placer *p, const msc_gap_scan *above, range r, int depth) {
  uint32_t peak = balanced_peak(p->z, &r);
  size_t across, before;
  msc_gap_scan s = msc_gap_scan_in_sections(above, r.from, r.to);
  rank_around_peak(p, &r, peak, &across, &before);
  if (!place_in_turn(p, &s, &(range){r.from, r.to, r.order, across})) return false;
  range side[2] = {{r.from, peak, r.order + across, before},
                   {peak + 1, r.to, r.order + across + before, r.num - across - before}};
  for (int i = 0; i < 2; i++) {
    if (!side[i].num) continue;
    bool whole = depth > 60 || side[i].num < FEW || (across > r.num / SHARE);
    msc_gap_scan own = whole ? msc_gap_scan_in_sections(&s, side[i].from, side[i].to) : s;
    if (!(whole ? place_in_turn(p, &own, &side[i]) : place_range(p, &s, side[i], depth + 1))) return false;
  }
  return true;
}

void msc_place_split_at_peak(msc_placing *z) {
  peak_placer p = {.z = z, .offset = msc_new_array(z->arena, int64_t, z->num)};
  range all = {0, (uint32_t)z->num_sections, msc_new_array(z->arena, turn, z->num), z->num};
  if (!msc_placing_is_plain(z)) return;
  for (uint32_t i = 0; i < z->num; i++) all.order[i] = (turn){.from = z->body[i].from, .body = i};
  msc_gap_scan none = {.arena = z->arena};
  if (place_range(&p, &none, all, 0)) msc_placing_keep(z, p.offset);
}
