/* outward_from_peak.c: places very many bodies hardly above the bound, if few of them are live at once.
 *
 * Only around peaks must no memory be wasted. The bodies nearest to the highest peak, the core, are few and are placed
 * exactly. Then come the bodies before and behind it in rounds, ever further away: less is live there, so each body
 * takes the lowest gap, larger bodies first, and of similar size the nearer first. A round that becomes too high is
 * tried with other ideas of similar size, and at last split at its own peak, beside what is already placed. */
#include <math.h>
#include <stdlib.h>

#include "passes/8_memory/offsets/bodies.h"

enum { CORE = 350, FIRST = 200, NODES = 15000, BESIDE = 900, AT_PEAK = 8, DEEPEST = 3, MISSES = 8 };

typedef struct {
  uint32_t from, body;
  uint32_t away; /* distance from the peak, in sections */
  int32_t kind;  /* size class; smaller numbers are placed first */
} turn;

typedef struct {
  turn *t;
  size_t num;
} some;

typedef struct {
  msc_placing *z;
  int64_t *offset;
  int64_t goal; /* the bound, or the height that could not be avoided so far */
  int misses;   /* rounds that solve_exactly could not bring to the goal; after MISSES it is not tried again */
} growth;

static int compare_distance(const turn *x, const turn *y) {
  if (x->away != y->away) return x->away < y->away ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->body < y->body ? -1 : x->body > y->body;
}

static int compare_nearest_first(const void *a, const void *b) { return compare_distance(a, b); }

static int compare_largest_first(const void *a, const void *b) {
  const turn *x = a, *y = b;
  return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : compare_distance(x, y);
}

static const msc_body *body_of_turn(const growth *g, const turn *t) { return &g->z->body[t->body]; }

static bool is_past_deadline(const growth *g) { return g->z->deadline > 0 && msc_placing_limit_reached(g->z); }

static msc_part sections_spanned(const growth *g, some s) {
  msc_part h = {.from = UINT32_MAX};
  for (size_t i = 0; i < s.num; i++) {
    const msc_body *b = body_of_turn(g, &s.t[i]);
    if (b->from < h.from) h.from = b->from;
    if (b->to > h.to) h.to = b->to;
  }
  return h;
}

/* ---- greedily ---- */

/* Places the bodies of r one after the other in the lowest gap. Returns their height; INT64_MAX: past the deadline. */
static int64_t fill_gaps_by_size(growth *g, msc_gap_scan s, some r, double alike) {
  int64_t height = 0;
  for (size_t i = 0; i < r.num; i++)
    r.t[i].kind = -(int32_t)floor(log2((double)body_of_turn(g, &r.t[i])->height) * alike);
  qsort(r.t, r.num, sizeof *r.t, compare_largest_first);
  for (size_t i = 0; i < r.num; i++) {
    const msc_body *b = body_of_turn(g, &r.t[i]);
    int64_t low = g->offset[r.t[i].body] = msc_gap_scan_find(&s, b, 0);
    msc_gap_scan_add(&s, b, low);
    if (low + b->height > height) height = low + b->height;
    if (i % 256 == 255 && is_past_deadline(g)) return INT64_MAX;
  }
  return height;
}

/* ---- exactly ---- */

/* Places the bodies of r with the exact search, beside what is placed already. Returns the height; INT64_MAX: not
 * tried. */
static int64_t solve_exactly(growth *g, const msc_gap_scan *beside, some r) {
  msc_placing *z = g->z;
  size_t num = r.num + msc_gap_scan_list(beside, NULL);
  if (num > BESIDE || g->misses >= MISSES) return INT64_MAX;
  msc_part *part = msc_new_array(z->arena, msc_part, num), h = sections_spanned(g, r);
  msc_buffer *b = msc_new_array(z->arena, msc_buffer, num);
  uint64_t *offset = msc_new_array(z->arena, uint64_t, num), *fixed = msc_new_array(z->arena, uint64_t, num);
  msc_gap_scan_list(beside, part);
  for (size_t i = 0; i < num; i++) {
    const msc_body *k = i < r.num ? body_of_turn(g, &r.t[i]) : NULL;
    const msc_part *p = k ? k->part : &part[i - r.num];
    b[i] = (msc_buffer){p->from > h.from ? p->from : h.from, p->to < h.to ? p->to : h.to, (uint64_t)(p->high - p->low)};
    fixed[i] = k ? MSC_OFFSET_FREE : (uint64_t)p->low;
  }
  msc_offsets_result p = msc_find_offsets(z->arena, num, b,
                                          &(msc_offsets_options){.capacity = (uint64_t)g->goal,
                                                                 .node_limit = NODES,
                                                                 .time_limit_s = msc_placing_seconds_left(z) / MISSES,
                                                                 .fixed = fixed},
                                          offset);
  for (size_t i = 0; i < r.num; i++) g->offset[r.t[i].body] = (int64_t)offset[i];
  g->misses += (int64_t)p.bytes > g->goal;
  return (int64_t)p.bytes;
}

/* ---- rounds ---- */

static int64_t place_from_peak(growth *g, const msc_gap_scan *beside, some r, int depth);

/* The ways to place the bodies of a round: 0 to EXACT - 1 greedily, each with another idea of similar size; EXACT with
 * the exact search; DIVIDED split at the round's own peak. */
enum { EXACT = 5, DIVIDED, WAYS };

static int64_t try_round_method(growth *g, const msc_gap_scan *beside, some r, int way, int depth) {
  static const double alike[EXACT] = {4, 2, 1, 8, 3};
  if (way < EXACT) return fill_gaps_by_size(g, msc_gap_scan_in_sections(beside, 0, UINT32_MAX), r, alike[way]);
  if (way == EXACT) return solve_exactly(g, beside, r);
  return r.num > FIRST && depth < DEEPEST && g->misses < MISSES ? place_from_peak(g, beside, r, depth + 1) : INT64_MAX;
}

/* Tries the methods until one is not above the goal and keeps the best, whose height becomes the goal. */
static void place_round(growth *g, msc_gap_scan *placed, some r, int depth) {
  msc_part h = sections_spanned(g, r);
  msc_gap_scan beside = msc_gap_scan_in_sections(placed, h.from, h.to);
  int64_t *best = msc_new_array(g->z->arena, int64_t, r.num), least = INT64_MAX, goal = g->goal;
  for (int way = 0; way < WAYS && least > goal && !is_past_deadline(g); way++) {
    int64_t height = try_round_method(g, &beside, r, way, depth);
    g->goal = goal;
    if (height >= least) continue;
    least = height;
    qsort(r.t, r.num, sizeof *r.t, compare_nearest_first);
    for (size_t i = 0; i < r.num; i++) best[i] = g->offset[r.t[i].body];
  }
  if (least > g->goal) g->goal = least;
  qsort(r.t, r.num, sizeof *r.t, compare_nearest_first);
  for (size_t i = 0; i < r.num; i++)
    msc_gap_scan_add(placed, body_of_turn(g, &r.t[i]), g->offset[r.t[i].body] = best[i]);
}

/* Places the bodies of r outward from their peak. Returns the height, at least the goal. */
static int64_t place_from_peak(growth *g, const msc_gap_scan *beside, some r, int depth) {
  msc_gap_scan placed = msc_gap_scan_in_sections(beside, 0, UINT32_MAX);
  msc_part h = sections_spanned(g, r);
  uint32_t peak = msc_placing_peak(g->z, h.from, h.to);
  size_t at_peak = 0, core = r.num < 2 * CORE ? r.num / 2 : CORE;
  turn *t = msc_new_array(g->z->arena, turn, 2 * r.num);
  some side[2] = {{t, 0}, {t + r.num, 0}};
  for (size_t i = 0; i < r.num; i++) {
    r.t[i].away = msc_placing_distance(peak, body_of_turn(g, &r.t[i]));
    at_peak += r.t[i].away == 0;
  }
  if (depth == 0 && at_peak > CORE) return INT64_MAX; /* the core would be too large to be placed exactly */
  qsort(r.t, r.num, sizeof *r.t, compare_nearest_first);
  place_round(g, &placed, (some){r.t, core}, depth);
  for (size_t i = core; i < r.num; i++) {
    some *s = &side[r.t[i].from > peak];
    s->t[s->num++] = r.t[i];
  }
  size_t most = AT_PEAK * at_peak > CORE ? AT_PEAK * at_peak : CORE;
  for (int k = 0; k < 2; k++)
    for (size_t i = 0, size = FIRST; i < side[k].num;
         i += size, size = size + size / 2 < most ? size + size / 2 : most) {
      place_round(g, &placed, (some){side[k].t + i, i + size < side[k].num ? size : side[k].num - i}, depth);
      if (is_past_deadline(g)) return INT64_MAX;
    }
  return g->goal;
}

void msc_place_outward_from_peak(msc_placing *z) {
  growth g = {z, msc_new_array(z->arena, int64_t, z->num), z->goal, 0};
  some all = {msc_new_array(z->arena, turn, z->num), z->num};
  msc_gap_scan none = {.arena = z->arena};
  if (!msc_placing_is_plain(z)) return;
  for (uint32_t i = 0; i < z->num; i++) all.t[i] = (turn){z->body[i].from, i, 0, 0};
  if (place_from_peak(&g, &none, all, 0) < INT64_MAX) msc_placing_keep(z, g.offset);
}
