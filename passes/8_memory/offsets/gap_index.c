/* gap_index.c: finds the gaps between placed bodies.
 *
 * Time is cut into chunks of sections. A chunk has two lists, sorted by offset: the entries that lie in it, and the
 * ranges that are taken at some time within it. A part of a body looks at the entries of its first and last chunk, and
 * at the taken ranges of those between, which it spans. Each list is read by a cursor: the body is raised until no
 * cursor finds an overlap, and no cursor ever goes back, so a query costs no more than the lengths of the lists,
 * whatever the shape of the body. */
#include <string.h>

#include "ir/table.h"
#include "passes/8_memory/offsets/bodies.h"

typedef struct {
  uint32_t from, to; /* sections */
  int64_t low, high;
} entry;

typedef struct {
  entry *v; /* by low */
  size_t num, room;
  int64_t tall; /* height of the tallest entry */
} list;

typedef struct {
  const entry *at, *end;
  uint32_t from, to; /* sections of the query */
  int64_t low, high; /* range of the part relative to the offset of the body */
  int64_t tall;
} cursor;

struct msc_gap_index {
  const msc_placing *z;
  size_t width, num_chunks; /* sections of a chunk */
  list *laid, *taken;       /* by chunk */
  cursor *cursor;
  size_t num_cursors, room;
  uint64_t steps;
};

enum { CHUNKS = 128, LEAST_WIDTH = 64 };

msc_gap_index *msc_gap_index_new(const msc_placing *z) {
  msc_gap_index *s = msc_new(z->arena, msc_gap_index);
  s->z = z;
  s->width = (z->num_sections + CHUNKS - 1) / CHUNKS;
  if (s->width < LEAST_WIDTH) s->width = LEAST_WIDTH;
  s->num_chunks = (z->num_sections + s->width - 1) / s->width;
  s->laid = msc_new_array(z->arena, list, s->num_chunks);
  s->taken = msc_new_array(z->arena, list, s->num_chunks);
  msc_gap_index_clear(s);
  return s;
}

uint64_t msc_gap_index_steps(const msc_gap_index *s) { return s->steps; }

void msc_gap_index_clear(msc_gap_index *s) {
  for (size_t i = 0; i < s->num_chunks; i++)
    s->laid[i].num = s->taken[i].num = 0, s->laid[i].tall = s->taken[i].tall = 0;
  for (size_t i = 0; i < s->z->num; i++)
    if (s->z->body[i].fixed >= 0) msc_gap_index_add(s, &s->z->body[i], s->z->body[i].fixed);
}

/* ---- adding ---- */

/* The first entry at offset `low` or above. */
static const entry *first_entry_from(const entry *at, const entry *end, int64_t low) {
  while (at < end) {
    const entry *m = at + (end - at) / 2;
    if (m->low < low) at = m + 1;
    else end = m;
  }
  return at;
}

static size_t index_from(const list *l, int64_t low) {
  return l->num ? (size_t)(first_entry_from(l->v, l->v + l->num, low) - l->v) : 0;
}

static void note_height(list *l, const entry *e) {
  if (e->high - e->low > l->tall) l->tall = e->high - e->low;
}

static void insert_entry(msc_arena *arena, list *l, size_t at, entry e) {
  msc_reserve(arena, l->v, l->room, l->num + 1);
  memmove(&l->v[at + 1], &l->v[at], (l->num - at) * sizeof *l->v);
  l->v[at] = e;
  l->num++;
  note_height(l, &e);
}

/* Adds the range of e to the taken ranges, merging those that touch it. */
static void add_taken_range(msc_arena *arena, list *l, entry e) {
  size_t a = index_from(l, e.low), b = a;
  if (a && l->v[a - 1].high >= e.low) a--;
  while (b < l->num && l->v[b].low <= e.high) b++;
  if (a == b) {
    insert_entry(arena, l, a, e);
    return;
  }
  if (l->v[a].low < e.low) e.low = l->v[a].low;
  if (l->v[b - 1].high > e.high) e.high = l->v[b - 1].high;
  l->v[a] = e;
  note_height(l, &e);
  memmove(&l->v[a + 1], &l->v[b], (l->num - b) * sizeof *l->v);
  l->num -= b - a - 1;
}

static bool spans_chunk(const entry *e, uint32_t from, uint32_t to) { return e->from <= from && e->to >= to; }

/* Adds an entry to a chunk. An entry that spans the chunk is merged with a neighbour that touches it and spans the
 * chunk as well. */
static void add_entry_to_chunk(msc_arena *arena, list *l, entry e, uint32_t from, uint32_t to) {
  size_t at = index_from(l, e.low);
  if (spans_chunk(&e, from, to)) {
    if (at && l->v[at - 1].high == e.low && spans_chunk(&l->v[at - 1], from, to)) {
      l->v[at - 1].high = e.high;
      note_height(l, &l->v[at - 1]);
      return;
    }
    if (at < l->num && l->v[at].low == e.high && spans_chunk(&l->v[at], from, to)) {
      l->v[at].low = e.low;
      note_height(l, &l->v[at]);
      return;
    }
  }
  insert_entry(arena, l, at, e);
}

void msc_gap_index_add(msc_gap_index *s, const msc_body *b, int64_t offset) {
  for (uint32_t i = 0; i < b->num_parts; i++) {
    entry e = {b->part[i].from, b->part[i].to, offset + b->part[i].low, offset + b->part[i].high};
    for (size_t c = e.from / s->width; c <= (e.to - 1) / s->width; c++) {
      uint32_t from = (uint32_t)(c * s->width), to = (uint32_t)((c + 1) * s->width);
      if (to > s->z->num_sections) to = (uint32_t)s->z->num_sections;
      add_entry_to_chunk(s->z->arena, &s->laid[c], e, from, to);
      add_taken_range(s->z->arena, &s->taken[c], (entry){from, to, e.low, e.high});
    }
  }
}

/* ---- queries ---- */

static void add_cursor(msc_gap_index *s, const list *l, const msc_part *p) {
  if (!l->num) return;
  msc_reserve(s->z->arena, s->cursor, s->room, s->num_cursors + 1);
  s->cursor[s->num_cursors++] = (cursor){l->v, l->v + l->num, p->from, p->to, p->low, p->high, l->tall};
}

static void set_cursors(msc_gap_index *s, const msc_body *b) {
  s->num_cursors = 0;
  for (uint32_t i = 0; i < b->num_parts; i++) {
    const msc_part *p = &b->part[i];
    size_t first = p->from / s->width, last = (p->to - 1) / s->width;
    for (size_t c = first; c <= last; c++) {
      bool whole = p->from <= c * s->width && p->to >= (c + 1) * s->width;
      add_cursor(s, whole ? &s->taken[c] : &s->laid[c], p);
    }
  }
}

/* The least offset from x on at which the part of this cursor overlaps nothing. */
static int64_t raise_over_cursor(msc_gap_index *s, cursor *c, int64_t x) {
  /* entries before this one end below */
  const entry *e = c->at = first_entry_from(c->at, c->end, x + c->low - c->tall);
  for (; e < c->end && e->low < x + c->high; e++)
    if (e->from < c->to && e->to > c->from && e->high - c->low > x) x = e->high - c->low;
  s->steps += (uint64_t)(e - c->at) + 1;
  while (c->at < c->end && c->at->high <= x + c->low) c->at++;
  return x;
}

static int64_t next_free_offset(msc_gap_index *s, int64_t x) {
  size_t agreed = 0;
  for (size_t i = 0; agreed < s->num_cursors; i = i + 1 < s->num_cursors ? i + 1 : 0) {
    int64_t y = raise_over_cursor(s, &s->cursor[i], x);
    agreed = y == x ? agreed + 1 : 1;
    x = y;
  }
  return x;
}

/* How far a body at x could be raised without an overlap; INT64_MAX: without end. */
static int64_t end_of_gap(msc_gap_index *s, int64_t x) {
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

int64_t msc_gap_index_find(msc_gap_index *s, const msc_body *b, bool tightest) {
  set_cursors(s, b);
  int64_t x = next_free_offset(s, 0), best = x, room = INT64_MAX;
  while (tightest) {
    int64_t end = end_of_gap(s, x);
    if (end == INT64_MAX) break;
    if (end - x < room) room = end - x, best = x;
    x = next_free_offset(s, end + 1);
  }
  return room == INT64_MAX ? x : best;
}

bool msc_gap_index_is_free(msc_gap_index *s, const msc_body *b, int64_t offset) {
  set_cursors(s, b);
  return next_free_offset(s, offset) == offset;
}
