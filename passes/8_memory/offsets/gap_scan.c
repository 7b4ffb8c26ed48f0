/* gap_scan.c: finds the lowest gap for a body by a scan over all placed bodies in order of offset: fast where few of
 * them overlap it in time, and without a branch per body. */
#include <string.h>

#include "ir/table.h"
#include "passes/8_memory/offsets/bodies.h"

enum { BLOCK = 256 };

/* Unused entries overlap nothing: they end before they begin. */
struct msc_gap_block {
  int num;
  int32_t from[BLOCK], to[BLOCK];
  int64_t low[BLOCK], high[BLOCK];
  int64_t top; /* largest `high`, or more */
};

typedef struct msc_gap_block block;

static block *new_block(msc_arena *a) {
  block *k = msc_new(a, block);
  for (int i = 0; i < BLOCK; i++) k->from[i] = INT32_MAX, k->to[i] = INT32_MIN;
  return k;
}

static void insert_block(msc_gap_scan *s, size_t at, block *k) {
  msc_reserve(s->arena, s->block, s->room, s->num + 1);
  memmove(s->block + at + 1, s->block + at, (s->num - at) * sizeof *s->block);
  s->block[at] = k;
  s->num++;
}

static void set_block_entry(block *k, int at, int32_t from, int32_t to, int64_t low, int64_t high) {
  k->from[at] = from, k->to[at] = to, k->low[at] = low, k->high[at] = high;
  if (high > k->top) k->top = high;
}

/* Moves the upper half to a new block. */
static void split_block(msc_gap_scan *s, size_t at) {
  block *k = s->block[at], *upper = new_block(s->arena);
  for (int i = BLOCK / 2; i < BLOCK; i++) {
    set_block_entry(upper, upper->num++, k->from[i], k->to[i], k->low[i], k->high[i]);
    k->from[i] = INT32_MAX, k->to[i] = INT32_MIN;
  }
  k->num = BLOCK / 2;
  insert_block(s, at + 1, upper);
}

/* The last block whose first entry is at `low` or below, or the first block. */
static size_t find_block(const msc_gap_scan *s, int64_t low) {
  size_t at = 0, end = s->num;
  while (end - at > 1) {
    size_t middle = (at + end) / 2;
    if (s->block[middle]->low[0] <= low) at = middle;
    else end = middle;
  }
  return at;
}

void msc_gap_scan_add(msc_gap_scan *s, const msc_body *b, int64_t low) {
  size_t at = find_block(s, low);
  if (!s->num) insert_block(s, 0, new_block(s->arena));
  if (s->block[at]->num == BLOCK) {
    split_block(s, at);
    at += s->block[at + 1]->low[0] <= low;
  }
  block *k = s->block[at];
  int i = k->num++;
  for (; i && k->low[i - 1] > low; i--)
    set_block_entry(k, i, k->from[i - 1], k->to[i - 1], k->low[i - 1], k->high[i - 1]);
  set_block_entry(k, i, (int32_t)b->from, (int32_t)b->to, low, low + b->height);
}

enum { TOGETHER = 16 };

/* Raises *x over every entry that overlaps the body in time; true if it found a gap below the end of the block.
 * Works on TOGETHER entries at a time without a branch: only if one of them leaves a gap are they looked at one by
 * one. */
static bool find_gap_in_block(const block *k, int32_t from, int32_t to, int64_t height, int64_t *x) {
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

int64_t msc_gap_scan_find(const msc_gap_scan *s, const msc_body *b, int64_t x) {
  for (size_t i = 0; i < s->num; i++)
    if (s->block[i]->top > x && find_gap_in_block(s->block[i], (int32_t)b->from, (int32_t)b->to, b->height, &x)) break;
  return x;
}

msc_gap_scan msc_gap_scan_in_sections(const msc_gap_scan *s, uint32_t from, uint32_t to) {
  msc_gap_scan part = {.arena = s->arena};
  for (size_t i = 0; i < s->num; i++) {
    const block *k = s->block[i];
    for (int n = 0; n < k->num; n++) {
      if ((uint32_t)k->from[n] >= to || (uint32_t)k->to[n] <= from) continue;
      if (!part.num || part.block[part.num - 1]->num == BLOCK / 2) insert_block(&part, part.num, new_block(part.arena));
      block *last = part.block[part.num - 1];
      set_block_entry(last, last->num++, k->from[n], k->to[n], k->low[n], k->high[n]);
    }
  }
  return part;
}

size_t msc_gap_scan_list(const msc_gap_scan *s, msc_part *out) {
  size_t num = 0;
  for (size_t i = 0; i < s->num; i++)
    for (int n = 0; n < s->block[i]->num; n++, num++)
      if (out)
        out[num] = (msc_part){(uint32_t)s->block[i]->from[n], (uint32_t)s->block[i]->to[n], s->block[i]->low[n],
                              s->block[i]->high[n], 0};
  return num;
}
