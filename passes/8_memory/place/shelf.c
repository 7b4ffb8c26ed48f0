/* shelf.c: bodies at offsets in -> the gaps between them.
 *
 * Time is cut into chunks of sections.  A chunk lists what lies in it by offset, and the bytes that are taken at any
 * time within it.  A body's part asks the lists of its first and last chunk and, of those between, which it fills, what
 * is taken.  Each list is a cursor: the body is raised until no cursor objects, and no cursor ever goes back, so a
 * query costs no more than the lists are long, whatever the body's shape. */
#include <string.h>

#include "passes/8_memory/place/placing.h"

typedef struct {
  uint32_t from, to; /* sections */
  int64_t low, high;
} entry;

typedef struct {
  entry *v; /* by low */
  size_t num, room;
  int64_t tall; /* none is taller */
} list;

typedef struct {
  const entry *at, *end;
  uint32_t from, to; /* sections asked about */
  int64_t low, high; /* of the part, behind the body's offset */
  int64_t tall;
} cursor;

struct msc_shelf {
  const msc_placing *z;
  size_t width, num_chunks; /* sections of a chunk */
  list *laid, *taken;       /* by chunk */
  cursor *cursor;
  size_t num_cursors, room;
  uint64_t steps;
};

enum { CHUNKS = 128, LEAST_WIDTH = 64 };

msc_shelf *msc_shelf_new(const msc_placing *z) {
  msc_shelf *s = msc_new(z->arena, msc_shelf);
  s->z = z;
  s->width = (z->num_sections + CHUNKS - 1) / CHUNKS;
  if (s->width < LEAST_WIDTH) s->width = LEAST_WIDTH;
  s->num_chunks = (z->num_sections + s->width - 1) / s->width;
  s->laid = msc_new_array(z->arena, list, s->num_chunks);
  s->taken = msc_new_array(z->arena, list, s->num_chunks);
  msc_shelf_clear(s);
  return s;
}

uint64_t msc_shelf_steps(const msc_shelf *s) { return s->steps; }

void msc_shelf_clear(msc_shelf *s) {
  for (size_t i = 0; i < s->num_chunks; i++)
    s->laid[i].num = s->taken[i].num = 0, s->laid[i].tall = s->taken[i].tall = 0;
  for (size_t i = 0; i < s->z->num; i++)
    if (s->z->body[i].fixed >= 0) msc_shelf_put(s, &s->z->body[i], s->z->body[i].fixed);
}

/* ---- laying down ---- */

static void make_room(msc_arena *arena, void *p, size_t *room, size_t num, size_t bytes) {
  void **v = p;
  if (num < *room) return;
  size_t more = *room ? 2 * *room : 32;
  void *wider = msc_arena_alloc(arena, more * bytes);
  if (num) memcpy(wider, *v, num * bytes);
  *v = wider;
  *room = more;
}

/* The first entry that lies at `low` or above. */
static const entry *first_of(const entry *at, const entry *end, int64_t low) {
  while (at < end) {
    const entry *m = at + (end - at) / 2;
    if (m->low < low) at = m + 1;
    else end = m;
  }
  return at;
}

static size_t first_above(const list *l, int64_t low) {
  return l->num ? (size_t)(first_of(l->v, l->v + l->num, low) - l->v) : 0;
}

static void note_height(list *l, const entry *e) {
  if (e->high - e->low > l->tall) l->tall = e->high - e->low;
}

static void insert(msc_arena *arena, list *l, size_t at, entry e) {
  make_room(arena, &l->v, &l->room, l->num, sizeof *l->v);
  memmove(&l->v[at + 1], &l->v[at], (l->num - at) * sizeof *l->v);
  l->v[at] = e;
  l->num++;
  note_height(l, &e);
}

/* The bytes of e are taken: what touches it becomes one with it. */
static void take(msc_arena *arena, list *l, entry e) {
  size_t a = first_above(l, e.low), b = a;
  if (a && l->v[a - 1].high >= e.low) a--;
  while (b < l->num && l->v[b].low <= e.high) b++;
  if (a == b) {
    insert(arena, l, a, e);
    return;
  }
  if (l->v[a].low < e.low) e.low = l->v[a].low;
  if (l->v[b - 1].high > e.high) e.high = l->v[b - 1].high;
  l->v[a] = e;
  note_height(l, &e);
  memmove(&l->v[a + 1], &l->v[b], (l->num - b) * sizeof *l->v);
  l->num -= b - a - 1;
}

static bool fills(const entry *e, uint32_t from, uint32_t to) { return e->from <= from && e->to >= to; }

/* What fills the chunk and touches its neighbour, which does too, is one with it. */
static void lay(msc_arena *arena, list *l, entry e, uint32_t from, uint32_t to) {
  size_t at = first_above(l, e.low);
  if (fills(&e, from, to)) {
    if (at && l->v[at - 1].high == e.low && fills(&l->v[at - 1], from, to)) {
      l->v[at - 1].high = e.high;
      note_height(l, &l->v[at - 1]);
      return;
    }
    if (at < l->num && l->v[at].low == e.high && fills(&l->v[at], from, to)) {
      l->v[at].low = e.low;
      note_height(l, &l->v[at]);
      return;
    }
  }
  insert(arena, l, at, e);
}

void msc_shelf_put(msc_shelf *s, const msc_body *b, int64_t offset) {
  for (uint32_t i = 0; i < b->num_parts; i++) {
    entry e = {b->part[i].from, b->part[i].to, offset + b->part[i].low, offset + b->part[i].high};
    for (size_t c = e.from / s->width; c <= (e.to - 1) / s->width; c++) {
      uint32_t from = (uint32_t)(c * s->width), to = (uint32_t)((c + 1) * s->width);
      if (to > s->z->num_sections) to = (uint32_t)s->z->num_sections;
      lay(s->z->arena, &s->laid[c], e, from, to);
      take(s->z->arena, &s->taken[c], (entry){from, to, e.low, e.high});
    }
  }
}

/* ---- asking ---- */

static void ask(msc_shelf *s, const list *l, const msc_part *p) {
  if (!l->num) return;
  make_room(s->z->arena, &s->cursor, &s->room, s->num_cursors, sizeof *s->cursor);
  s->cursor[s->num_cursors++] = (cursor){l->v, l->v + l->num, p->from, p->to, p->low, p->high, l->tall};
}

static void ask_all(msc_shelf *s, const msc_body *b) {
  s->num_cursors = 0;
  for (uint32_t i = 0; i < b->num_parts; i++) {
    const msc_part *p = &b->part[i];
    size_t first = p->from / s->width, last = (p->to - 1) / s->width;
    for (size_t c = first; c <= last; c++) {
      bool whole = p->from <= c * s->width && p->to >= (c + 1) * s->width;
      ask(s, whole ? &s->taken[c] : &s->laid[c], p);
    }
  }
}

/* The least offset from x on that this cursor does not object to. */
static int64_t raised(msc_shelf *s, cursor *c, int64_t x) {
  const entry *e = c->at = first_of(c->at, c->end, x + c->low - c->tall); /* those before end below */
  for (; e < c->end && e->low < x + c->high; e++)
    if (e->from < c->to && e->to > c->from && e->high - c->low > x) x = e->high - c->low;
  s->steps += (uint64_t)(e - c->at) + 1;
  while (c->at < c->end && c->at->high <= x + c->low) c->at++;
  return x;
}

static int64_t next_gap(msc_shelf *s, int64_t x) {
  size_t agreed = 0;
  for (size_t i = 0; agreed < s->num_cursors; i = i + 1 < s->num_cursors ? i + 1 : 0) {
    int64_t y = raised(s, &s->cursor[i], x);
    agreed = y == x ? agreed + 1 : 1;
    x = y;
  }
  return x;
}

/* Where the gap at x ends for a body there: INT64_MAX, or the offset to which it could be raised. */
static int64_t room_above(msc_shelf *s, int64_t x) {
  int64_t most = INT64_MAX;
  for (size_t i = 0; i < s->num_cursors; i++) {
    const cursor *c = &s->cursor[i];
    for (const entry *e = c->at; e < c->end && e->low - c->high < most; e++, s->steps++) {
      if (e->from >= c->to || e->to <= c->from || e->low < x + c->high) continue;
      most = e->low - c->high;
      break;
    }
  }
  return most;
}

int64_t msc_shelf_find(msc_shelf *s, const msc_body *b, bool tightest) {
  ask_all(s, b);
  int64_t x = next_gap(s, 0), best = x, room = INT64_MAX;
  while (tightest) {
    int64_t end = room_above(s, x);
    if (end == INT64_MAX) break;
    if (end - x < room) room = end - x, best = x;
    x = next_gap(s, end + 1);
  }
  return room == INT64_MAX ? x : best;
}

bool msc_shelf_free(msc_shelf *s, const msc_body *b, int64_t offset) {
  ask_all(s, b);
  return next_gap(s, offset) == offset;
}
