/* strata.c: bodies at offsets in -> the lowest hole for another, by a look at all of them in order of offset: quick
 * where few of them are ever met again, and without a branch per body. */
#include <string.h>

#include "passes/8_memory/place/placing.h"

enum { BLOCK = 256 };

/* Room behind the last entry is never met: it ends before it begins. */
struct msc_stratum {
  int num;
  int32_t from[BLOCK], to[BLOCK];
  int64_t low[BLOCK], high[BLOCK];
  int64_t top; /* of all of them, or above */
};

typedef struct msc_stratum block;

static block *new_block(msc_arena *a) {
  block *k = msc_new(a, block);
  for (int i = 0; i < BLOCK; i++) k->from[i] = INT32_MAX, k->to[i] = INT32_MIN;
  return k;
}

static void insert_block(msc_strata *s, size_t at, block *k) {
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
static void halve(msc_strata *s, size_t at) {
  block *k = s->block[at], *upper = new_block(s->arena);
  for (int i = BLOCK / 2; i < BLOCK; i++) {
    set(upper, upper->num++, k->from[i], k->to[i], k->low[i], k->high[i]);
    k->from[i] = INT32_MAX, k->to[i] = INT32_MIN;
  }
  k->num = BLOCK / 2;
  insert_block(s, at + 1, upper);
}

/* The last block that begins at `low` or below, or the first one. */
static size_t block_at(const msc_strata *s, int64_t low) {
  size_t at = 0, end = s->num;
  while (end - at > 1) {
    size_t middle = (at + end) / 2;
    if (s->block[middle]->low[0] <= low) at = middle;
    else end = middle;
  }
  return at;
}

void msc_strata_put(msc_strata *s, const msc_body *b, int64_t low) {
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

/* Raises *x over what b meets in the block; true when it found a hole below the block's end.  Without a branch per
 * entry: whether one of some entries leaves a hole is looked at when *x is above all of them, and then again
 * one by one. */
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
int64_t msc_strata_find(const msc_strata *s, const msc_body *b, int64_t x) {
  for (size_t i = 0; i < s->num; i++)
    if (s->block[i]->top > x && find_in(s->block[i], (int32_t)b->from, (int32_t)b->to, b->height, &x)) break;
  return x;
}

msc_strata msc_strata_part(const msc_strata *s, uint32_t from, uint32_t to) {
  msc_strata part = {.arena = s->arena};
  for (size_t i = 0; i < s->num; i++) {
    const block *k = s->block[i];
    for (int n = 0; n < k->num; n++) {
      if ((uint32_t)k->from[n] >= to || (uint32_t)k->to[n] <= from) continue;
      if (!part.num || part.block[part.num - 1]->num == BLOCK / 2) insert_block(&part, part.num, new_block(part.arena));
      block *last = part.block[part.num - 1];
      set(last, last->num++, k->from[n], k->to[n], k->low[n], k->high[n]);
    }
  }
  return part;
}

size_t msc_strata_list(const msc_strata *s, msc_part *out) {
  size_t num = 0;
  for (size_t i = 0; i < s->num; i++)
    for (int n = 0; n < s->block[i]->num; n++, num++)
      if (out)
        out[num] = (msc_part){(uint32_t)s->block[i]->from[n], (uint32_t)s->block[i]->to[n], s->block[i]->low[n],
                              s->block[i]->high[n], 0};
  return num;
}
