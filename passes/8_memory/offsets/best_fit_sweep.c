/* best_fit_sweep.c: places very many bodies by sweeping through time away from the peak, in O(n log n) however many are
 * live at once.
 *
 * What is live at the peak lies in one stack. On each side of it, bodies come and go as in an allocator: each takes a
 * tight free range (best fit), and free ranges that touch are merged. Unlike an allocator the sweep knows when bodies
 * go, and prefers neighbours that go at about the same time. So little is wasted where sizes recur, as in what the
 * micro-batches of a pipeline keep. */
#include <math.h>
#include <stdlib.h>

#include "passes/8_memory/offsets/bodies.h"

/* A range of memory, taken or free, and its neighbours. */
typedef struct range range;
struct range {
  int64_t low, size;
  uint32_t goes; /* time at which the body here goes */
  bool is_free;
  range *below, *above;
  uint32_t priority; /* in the treap of free ranges, ordered by size, then offset */
  range *less, *more;
};

typedef struct {
  uint32_t at, body;
} event;

/* Time on one side of the peak, counted away from it. */
typedef struct {
  bool backward;
  event *come, *go; /* `go` also has the bodies of the stack */
  size_t num_come, num_go;
} side;

typedef struct {
  msc_placing *z;
  double nearness; /* weight of neighbours that go together: shares of the body's size per share of all time */
  range *room, *unused, *spare; /* all ranges; first never used; free list of used ones (linked by `above`) */
  range **of;                   /* by body */
  range *root;                  /* root of the treap of free ranges */
  range *top;                   /* the uppermost range */
  int64_t height;               /* largest height so far */
  int64_t *offset;
} sweep;

/* ---- free ranges: a treap ---- */

static bool is_smaller_range(const range *a, const range *b) {
  return a->size != b->size ? a->size < b->size : a->low < b->low;
}

static void split_treap(range *t, const range *by, range **out_less, range **out_more) {
  if (!t) *out_less = *out_more = NULL;
  else if (is_smaller_range(t, by)) *out_less = t, split_treap(t->more, by, &t->more, out_more);
  else *out_more = t, split_treap(t->less, by, out_less, &t->less);
}

static range *join_treaps(range *less, range *more) {
  if (!less || !more) return less ? less : more;
  if (less->priority > more->priority) return less->more = join_treaps(less->more, more), less;
  return more->less = join_treaps(less, more->less), more;
}

static void add_free(sweep *s, range *r) {
  range **at = &s->root;
  r->is_free = true;
  r->priority = (uint32_t)((uint64_t)(r->low + 1) * 0x9e3779b97f4a7c15u >> 32);
  while (*at && (*at)->priority >= r->priority) at = is_smaller_range(*at, r) ? &(*at)->more : &(*at)->less;
  split_treap(*at, r, &r->less, &r->more);
  *at = r;
}

static void remove_free(sweep *s, range *r) {
  range **at = &s->root;
  while (*at != r) at = is_smaller_range(*at, r) ? &(*at)->more : &(*at)->less;
  *at = join_treaps(r->less, r->more);
  r->is_free = false;
}

static range *tightest_free_range(const sweep *s, int64_t size) {
  range *best = NULL;
  for (range *t = s->root; t;)
    if (t->size < size) t = t->more;
    else best = t, t = t->less;
  return best;
}

/* The free range after r in the order of the treap. */
static range *next_looser_range(const sweep *s, const range *r) {
  range *best = NULL;
  for (range *t = s->root; t;)
    if (!is_smaller_range(r, t)) t = t->more;
    else best = t, t = t->less;
  return best;
}

/* ---- choosing a range ---- */

static uint32_t time_between(uint32_t a, uint32_t b) { return a < b ? b - a : a - b; }

/* True if the body should lie at the upper end of r, because the neighbour above goes at a more similar time. */
static bool suits_above(const range *r, uint32_t goes) {
  return r->above && (!r->below || time_between(r->above->goes, goes) < time_between(r->below->goes, goes));
}

/* How badly a free range fits: the part of it left over, plus the time for which the body and its neighbour do not
 * stay together. */
static double fit_penalty(const sweep *s, const range *r, int64_t size, uint32_t goes) {
  const range *beside = suits_above(r, goes) ? r->above : r->below;
  double left = (double)(r->size - size) / (double)size;
  return left > 0 && beside ? left + s->nearness * time_between(beside->goes, goes) / (double)s->z->num_sections : left;
}

/* Chooses among the tightest free ranges the first that fits exactly, or else the one that fits best; NULL: none is
 * large enough. */
static range *choose_free_range(const sweep *s, int64_t size, uint32_t goes) {
  enum { FEW = 8 };
  range *best = NULL, *r = tightest_free_range(s, size);
  double least = INFINITY;
  for (int i = 0; i < FEW && r && least > 0; i++, r = next_looser_range(s, r)) {
    double b = fit_penalty(s, r, size, goes);
    if (b < least) least = b, best = r;
  }
  return best;
}

/* ---- allocating and releasing ---- */

/* Makes a range above `below` (NULL: the first one). */
static range *new_range(sweep *s, range *below, int64_t low, int64_t size) {
  range *r = s->spare ? s->spare : s->unused++;
  if (r == s->spare) s->spare = r->above;
  *r = (range){.low = low, .size = size, .below = below, .above = below ? below->above : NULL};
  if (below) below->above = r;
  if (r->above) r->above->below = r;
  else s->top = r;
  return r;
}

static void merge_with_above(sweep *s, range *r) {
  range *above = r->above;
  r->size += above->size;
  r->above = above->above;
  if (r->above) r->above->below = r;
  else s->top = r;
  above->above = s->spare, s->spare = above;
}

static void release_range(sweep *s, range *r) {
  if (r->above && r->above->is_free) remove_free(s, r->above), merge_with_above(s, r);
  if (r->below && r->below->is_free) remove_free(s, r = r->below), merge_with_above(s, r);
  add_free(s, r);
}

/* Takes the upper or lower end of free range r for a body; the rest stays free. */
static range *allocate_end(sweep *s, range *r, int64_t size, uint32_t goes) {
  int64_t left = r->size - size;
  bool upper = suits_above(r, goes);
  remove_free(s, r);
  if (!left) return r;
  range *n = new_range(s, r, r->low + (upper ? left : size), upper ? size : left);
  r->size -= n->size;
  add_free(s, upper ? r : n);
  return upper ? n : r;
}

/* Takes a range for a body; if none is free, the arena grows. */
static range *allocate_range(sweep *s, int64_t size, uint32_t goes) {
  range *r = choose_free_range(s, size, goes);
  if (r) r = allocate_end(s, r, size, goes);
  else if (s->top && s->top->is_free) remove_free(s, r = s->top), r->size = size;
  else r = new_range(s, s->top, s->top ? s->top->low + s->top->size : 0, size);
  r->goes = goes;
  if (r->low + size > s->height) s->height = r->low + size;
  return r;
}

/* ---- a side of the peak ---- */

static int compare_events(const void *a, const void *b) {
  const event *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->body < y->body ? -1 : x->body > y->body;
}

static uint32_t time_of_coming(const msc_placing *z, const msc_body *b, bool backward) {
  return backward ? (uint32_t)z->num_sections - b->to : b->from;
}
static uint32_t time_of_going(const msc_placing *z, const msc_body *b, bool backward) {
  return backward ? (uint32_t)z->num_sections - b->from : b->to;
}

static side side_of(const msc_placing *z, uint32_t peak, bool backward) {
  side d = {backward, msc_new_array(z->arena, event, z->num), msc_new_array(z->arena, event, z->num), 0, 0};
  for (uint32_t i = 0; i < z->num; i++) {
    const msc_body *b = &z->body[i];
    bool is_live = !msc_placing_distance(peak, b);
    if (!is_live && (b->from > peak) == backward) continue;
    d.go[d.num_go++] = (event){time_of_going(z, b, backward), i};
    if (!is_live) d.come[d.num_come++] = (event){time_of_coming(z, b, backward), i};
  }
  qsort(d.come, d.num_come, sizeof *d.come, compare_events);
  qsort(d.go, d.num_go, sizeof *d.go, compare_events);
  return d;
}

static void place_body_at_event(sweep *s, const side *d, uint32_t body) {
  const msc_body *b = &s->z->body[body];
  uint32_t goes = time_of_going(s->z, b, d->backward);
  range *r = s->of[body] = allocate_range(s, b->height, goes);
  s->offset[body] = r->low;
}

/* Places the stack, then the bodies of one side as they come. False: the height would reach the limit, or time is
 * up. */
static bool sweep_side(sweep *s, const side *d, size_t num, const event *stack, int64_t limit) {
  enum { EVENTS_OF_NODE = 1024 };
  msc_placing *z = s->z;
  size_t gone = 0;
  s->unused = s->room, s->spare = s->root = s->top = NULL;
  s->height = 0;
  for (size_t i = 0; i < num; i++) place_body_at_event(s, d, stack[i].body);
  for (size_t i = 0; i < d->num_come; i++) {
    for (; d->go[gone].at <= d->come[i].at; gone++) release_range(s, s->of[d->go[gone].body]);
    place_body_at_event(s, d, d->come[i].body);
    if (s->height >= limit) return false;
    if (i % EVENTS_OF_NODE || !i) continue;
    z->nodes++;
    if (z->height != INT64_MAX && msc_placing_limit_reached(z)) return false;
  }
  return true;
}

/* Sweeps one side with several weights and keeps the lowest offsets. False: none is lower than the best plan. */
static bool place_side(sweep *s, const side *d, size_t num, const event *stack, bool thorough, int64_t *out_offset) {
  static const double nearness[] = {1, 10, 100, 0};
  int64_t limit = s->z->height;
  for (size_t i = 0; i < (thorough ? 4 : 1) && limit > s->z->goal; i++) {
    s->nearness = nearness[i];
    if (!sweep_side(s, d, num, stack, limit)) continue;
    limit = s->height;
    for (size_t k = 0; k < d->num_go; k++) out_offset[d->go[k].body] = s->offset[d->go[k].body];
  }
  return limit < s->z->height;
}

/* ---- the whole ---- */

/* Orders of the bodies that are live at the peak, from the bottom up: those with the longest time come first, where the
 * time is the shorter one of before and after the peak, that after it, or that before it. */
enum { LESS, AFTER, BEFORE, ORDERS };

static uint32_t time_in_stack(int order, uint32_t peak, const msc_body *b) {
  uint32_t before = peak - b->from, after = b->to - peak;
  return order == AFTER || (order == LESS && after < before) ? after : before;
}

static size_t make_stack(const msc_placing *z, uint32_t peak, int order, event *out) {
  size_t num = 0;
  for (uint32_t i = 0; i < z->num; i++)
    if (!msc_placing_distance(peak, &z->body[i]))
      out[num++] = (event){UINT32_MAX - time_in_stack(order, peak, &z->body[i]), i};
  qsort(out, num, sizeof *out, compare_events);
  return num;
}

void msc_place_by_best_fit_sweep(msc_placing *z, bool thorough) {
  sweep s = {.z = z};
  uint32_t peak = msc_placing_peak(z, 0, (uint32_t)z->num_sections);
  if (!msc_placing_is_plain(z)) return;
  s.room = msc_new_array(z->arena, range, 2 * z->num + 1);
  s.of = msc_new_array(z->arena, range *, z->num);
  s.offset = msc_new_array(z->arena, int64_t, z->num);
  event *stack = msc_new_array(z->arena, event, z->num);
  int64_t *offset = msc_new_array(z->arena, int64_t, z->num);
  side after = side_of(z, peak, false), before = side_of(z, peak, true);
  for (int order = 0; order < ORDERS && !msc_placing_goal_reached(z); order++) {
    size_t num = make_stack(z, peak, order, stack);
    if (place_side(&s, &after, num, stack, thorough, offset) && place_side(&s, &before, num, stack, thorough, offset))
      msc_placing_keep(z, offset);
  }
}
