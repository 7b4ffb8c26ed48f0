/* sections.c: makes rigid bodies, largest first, and sections of time from buffers and groups.
 *
 * Time is cut at every start and end. Of these stretches only those matter in which a maximal set of buffers is live:
 * from the last start before an end up to that end. Buffers that are live together in another stretch are live together
 * in one of these too. */
#include <stdlib.h>

#include "passes/8_memory/offsets/bodies.h"

typedef struct {
  uint64_t from, to; /* first start and last end */
  uint64_t height;
  size_t first, num; /* range of its buffers in `member` */
  uint32_t index;    /* index of its first buffer, which orders equal bodies */
} raw_body;

typedef struct {
  const msc_buffer *buffer;
  const msc_offsets_options *o;
  uint64_t align;
  uint32_t *member; /* buffers of the bodies, one body after the other */
  raw_body *raw;
  size_t num;
  uint64_t *time;       /* distinct, ascending */
  uint32_t *section_of; /* by time: number of sections that begin before it */
  size_t num_times;
} section_cutter;

static uint64_t round_up_to(uint64_t n, uint64_t align) { return (n + align - 1) / align * align; }

static bool is_live_buffer(const msc_buffer *b) { return b->bytes && b->lower < b->upper; }

/* ---- bodies ---- */

static void add_raw_body(section_cutter *c, size_t *at, size_t num, const uint32_t *buffer) {
  raw_body r = {.from = UINT64_MAX, .first = *at, .index = buffer[0]};
  uint64_t bytes = 0;
  for (size_t i = 0; i < num; i++) {
    const msc_buffer *b = &c->buffer[buffer[i]];
    bytes += b->bytes;
    c->member[(*at)++] = buffer[i];
    if (!is_live_buffer(b)) continue;
    if (b->lower < r.from) r.from = b->lower;
    if (b->upper > r.to) r.to = b->upper;
  }
  r.num = num;
  r.height = round_up_to(bytes, c->align);
  if (r.to) c->raw[c->num++] = r;
}

static int compare_u64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int compare_bodies_by_size(const void *a, const void *b) {
  const raw_body *x = a, *y = b;
  int c = compare_u64(y->height, x->height);
  if (!c) c = compare_u64(x->from, y->from);
  if (!c) c = compare_u64(x->to, y->to);
  return c ? c : compare_u64(x->index, y->index);
}

static void find_bodies(section_cutter *c, msc_arena *arena, size_t num, uint32_t *out_body_of) {
  bool *grouped = msc_new_array(arena, bool, num);
  size_t at = 0;
  c->member = msc_new_array(arena, uint32_t, num);
  c->raw = msc_new_array(arena, raw_body, num);
  for (size_t g = 0; g < c->o->num_groups; g++) {
    const msc_offsets_group *group = &c->o->group[g];
    for (size_t i = 0; i < group->num; i++) grouped[group->buffer[i]] = true;
    if (group->num) add_raw_body(c, &at, group->num, group->buffer);
  }
  for (uint32_t i = 0; i < num; i++)
    if (!grouped[i] && is_live_buffer(&c->buffer[i])) add_raw_body(c, &at, 1, &i);
  qsort(c->raw, c->num, sizeof *c->raw, compare_bodies_by_size);
  for (size_t i = 0; i < num; i++) out_body_of[i] = UINT32_MAX;
  for (size_t k = 0; k < c->num; k++)
    for (size_t i = 0; i < c->raw[k].num; i++) out_body_of[c->member[c->raw[k].first + i]] = (uint32_t)k;
}

/* ---- sections ---- */

static int compare_times(const void *a, const void *b) {
  return compare_u64(*(const uint64_t *)a, *(const uint64_t *)b);
}

static size_t time_index(const section_cutter *c, uint64_t t) {
  return (size_t)((const uint64_t *)bsearch(&t, c->time, c->num_times, sizeof t, compare_times) - c->time);
}

static size_t find_sections(section_cutter *c, msc_arena *arena, size_t num) {
  size_t n = 0;
  c->time = msc_new_array(arena, uint64_t, 2 * num);
  for (size_t i = 0; i < num; i++)
    if (is_live_buffer(&c->buffer[i])) c->time[n++] = c->buffer[i].lower, c->time[n++] = c->buffer[i].upper;
  qsort(c->time, n, sizeof *c->time, compare_times);
  for (size_t i = 0; i < n; i++)
    if (!i || c->time[i] != c->time[c->num_times - 1]) c->time[c->num_times++] = c->time[i];
  bool *starts = msc_new_array(arena, bool, c->num_times), *ends = msc_new_array(arena, bool, c->num_times);
  for (size_t i = 0; i < num; i++)
    if (is_live_buffer(&c->buffer[i]))
      starts[time_index(c, c->buffer[i].lower)] = ends[time_index(c, c->buffer[i].upper)] = true;
  c->section_of = msc_new_array(arena, uint32_t, c->num_times);
  uint32_t sections = 0;
  bool open = false;
  for (size_t t = 0; t < c->num_times; t++) {
    if (ends[t] && open) sections++, open = false;
    open |= starts[t];
    c->section_of[t] = sections;
  }
  return sections;
}

/* ---- units ---- */

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t r = a % b;
    a = b, b = r;
  }
  return a;
}

/* Cuts a body into parts; neighbours in a group with equal lifetimes are one part. Returns the number of parts;
 * unit: the common divisor so far. */
static uint32_t cut_parts(const section_cutter *c, const raw_body *r, uint64_t *unit, int64_t *low, msc_part *part) {
  uint64_t at = 0;
  uint32_t num = 0;
  for (size_t i = 0; i < r->num; i++) {
    uint32_t k = c->member[r->first + i];
    const msc_buffer *b = &c->buffer[k], *before = i ? &c->buffer[c->member[r->first + i - 1]] : NULL;
    low[k] = (int64_t)at;
    if (is_live_buffer(b)) {
      bool same = num && before && is_live_buffer(before) && before->lower == b->lower && before->upper == b->upper;
      uint64_t start = same ? (uint64_t)part[num - 1].low : at, end = at + b->bytes;
      if (same) num--;
      uint64_t size = r->num == 1 ? round_up_to(b->bytes, c->align) : end - start;
      part[num++] = (msc_part){c->section_of[time_index(c, b->lower)], c->section_of[time_index(c, b->upper)],
                               (int64_t)start, (int64_t)end, (int64_t)size};
    }
    at += b->bytes;
  }
  for (uint32_t i = 0; i < num; i++) {
    part[i].low = part[i].low / (int64_t)c->align * (int64_t)c->align;
    part[i].high = (int64_t)round_up_to((uint64_t)part[i].high, c->align);
    *unit = greatest_common_divisor(greatest_common_divisor(*unit, (uint64_t)part[i].low), (uint64_t)part[i].high);
  }
  return num;
}

static void make_bodies(msc_placing *z, const section_cutter *c, size_t num, int64_t *out_low) {
  msc_part *part = msc_new_array(z->arena, msc_part, num);
  msc_body *body = msc_new_array(z->arena, msc_body, c->num);
  uint64_t unit = 0;
  size_t at = 0;
  for (size_t k = 0; k < c->num; k++) {
    const raw_body *r = &c->raw[k];
    uint64_t fixed = c->o->fixed ? c->o->fixed[c->member[r->first]] : MSC_OFFSET_FREE;
    uint32_t n = cut_parts(c, r, &unit, out_low, part + at);
    body[k] = (msc_body){.part = part + at,
                         .num_parts = n,
                         .from = UINT32_MAX,
                         .height = (int64_t)r->height,
                         .fixed = fixed == MSC_OFFSET_FREE ? -1 : (int64_t)fixed};
    if (body[k].fixed > 0) unit = greatest_common_divisor(unit, fixed);
    unit = greatest_common_divisor(unit, r->height);
    at += n;
  }
  z->unit = (int64_t)unit;
  z->num = c->num;
  z->body = body;
  for (size_t i = 0; i < at; i++) part[i].low /= z->unit, part[i].high /= z->unit;
  for (size_t k = 0; k < c->num; k++) {
    body[k].height /= z->unit;
    if (body[k].fixed > 0) body[k].fixed /= z->unit;
    for (uint32_t i = 0; i < body[k].num_parts; i++) {
      if (body[k].part[i].from < body[k].from) body[k].from = body[k].part[i].from;
      if (body[k].part[i].to > body[k].to) body[k].to = body[k].part[i].to;
    }
  }
}

static void add_up_live_bytes(msc_placing *z) {
  int64_t *live = msc_new_array(z->arena, int64_t, z->num_sections + 1);
  for (size_t k = 0; k < z->num; k++) {
    const msc_body *b = &z->body[k];
    for (uint32_t i = 0; i < b->num_parts; i++)
      live[b->part[i].from] += b->part[i].size, live[b->part[i].to] -= b->part[i].size;
    int64_t least = b->height + (b->fixed > 0 ? b->fixed : 0);
    if (least > z->bound) z->bound = least;
  }
  int64_t bytes = 0;
  for (size_t s = 0; s < z->num_sections; s++) {
    bytes += live[s];
    live[s] = (bytes + z->unit - 1) / z->unit;
    if (live[s] > z->bound) z->bound = live[s];
  }
  z->live = live;
}

bool msc_placing_of(msc_placing *z, msc_arena *arena, size_t num, const msc_buffer *buffer,
                    const msc_offsets_options *o, uint32_t *out_body_of, int64_t *out_low) {
  section_cutter c = {.buffer = buffer, .o = o, .align = o->align ? o->align : 1};
  *z = (msc_placing){.arena = arena, .options = o, .height = INT64_MAX};
  find_bodies(&c, arena, num, out_body_of);
  if (!c.num) return false;
  z->num_sections = find_sections(&c, arena, num);
  make_bodies(z, &c, num, out_low);
  add_up_live_bytes(z);
  return true;
}
