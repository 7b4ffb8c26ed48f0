/* place_orders.c: bodies in many orders -> plans: each body takes the lowest or the tightest gap that is left for it. */
#include <stdlib.h>
#include <string.h>

#include "passes/8_memory/placing.h"

typedef struct {
  double rank;
  uint32_t body;
} turn;

static int by_rank(const void *a, const void *b) {
  const turn *x = a, *y = b;
  if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
  return x->body < y->body ? -1 : x->body > y->body;
}

/* ---- ranks ---- */

static double largest_live(const msc_placing *z, const msc_body *b) {
  int64_t most = 0;
  for (uint32_t s = b->from; s < b->to; s++)
    if (z->live[s] > most) most = z->live[s];
  return (double)most;
}

static double sum_live(const int64_t *sum, const msc_body *b) { return (double)(sum[b->to] - sum[b->from]); }

/* Ranks count time in sections, not in the caller's clock: what matters is what else is live. */
static double rank_of(const msc_placing *z, int order, const msc_body *b, const int64_t *sum) {
  double size = (double)b->height, time = (double)(b->to - b->from);
  switch (order) {
    case 0: return size;
    case 1: return time;
    case 2: return size * time;
    case 3: return sum_live(sum, b);
    case 4: return largest_live(z, b);
    case 5: return size * time * time;
    case 6: return size * size * time;
    default: return -(double)b->from;
  }
}

void msc_place_rank(const msc_placing *z, int order, double *out_rank) {
  int64_t *sum = msc_new_array(z->arena, int64_t, z->num_sections + 1);
  for (size_t s = 0; s < z->num_sections; s++) sum[s + 1] = sum[s] + z->live[s] / (int64_t)z->num_sections;
  for (size_t i = 0; i < z->num; i++) out_rank[i] = rank_of(z, order, &z->body[i], sum);
}

/* ---- filling ---- */

/* False: it is not below the limit, or time is up. */
static bool fill(msc_placing *z, msc_shelf *s, const turn *order, bool tightest, int64_t limit, int64_t *out_offset) {
  msc_shelf_clear(s);
  for (size_t k = 0; k < z->num; k++) {
    uint32_t i = order[k].body;
    const msc_body *b = &z->body[i];
    out_offset[i] = b->fixed >= 0 ? b->fixed : msc_shelf_find(s, b, tightest);
    if (out_offset[i] + b->height >= limit) return false;
    if (b->fixed < 0) msc_shelf_put(s, b, out_offset[i]);
    if (k % 1024 == 1023 && z->height != INT64_MAX && msc_placing_spent(z)) return false;
  }
  return true;
}

void msc_place_orders(msc_placing *z) {
  msc_shelf *s = msc_shelf_new(z);
  turn *order = msc_new_array(z->arena, turn, z->num);
  int64_t *offset = msc_new_array(z->arena, int64_t, z->num);
  double *rank = msc_new_array(z->arena, double, z->num);
  for (int k = 0; k < MSC_NUM_ORDERS && !msc_placing_done(z); k++) {
    msc_place_rank(z, k, rank);
    for (uint32_t i = 0; i < z->num; i++) order[i] = (turn){rank[i], i};
    qsort(order, z->num, sizeof *order, by_rank);
    for (int tightest = 1; tightest >= 0 && !msc_placing_done(z); tightest--) {
      if (fill(z, s, order, tightest, z->height, offset)) msc_placing_keep(z, offset);
      z->nodes += z->num / 16;
      if (z->height != INT64_MAX && msc_placing_spent(z)) return;
    }
  }
}

/* ---- repair ---- */

enum { REPAIRS = 64 };

/* What stuck out of the goal takes its turn earlier: half way to the front. */
static bool move_up(const msc_placing *z, const int64_t *offset, turn *order) {
  bool moved = false;
  for (size_t k = 0; k < z->num; k++) {
    uint32_t i = order[k].body;
    bool out = offset[i] + z->body[i].height > z->goal;
    order[k].rank = -(double)k * (out ? 0.5 : 1);
    moved |= out && k;
  }
  qsort(order, z->num, sizeof *order, by_rank);
  return moved;
}

/* The best plan's bodies by offset, then again and again with what stuck out moved up. */
void msc_place_repair(msc_placing *z) {
  msc_shelf *s = msc_shelf_new(z);
  turn *order = msc_new_array(z->arena, turn, z->num);
  int64_t *offset = msc_new_array(z->arena, int64_t, z->num);
  memcpy(offset, z->best, z->num * sizeof *offset);
  for (uint32_t i = 0; i < z->num; i++) order[i] = (turn){-(double)offset[i], i};
  qsort(order, z->num, sizeof *order, by_rank);
  for (int k = 0; k < REPAIRS && !msc_placing_done(z) && !msc_placing_spent(z) && move_up(z, offset, order); k++) {
    if (!fill(z, s, order, k % 2, INT64_MAX, offset)) return;
    msc_placing_keep(z, offset);
    z->nodes += z->num / 16;
  }
}

/* ---- plans from elsewhere ---- */

static bool is_plan(const msc_placing *z, msc_shelf *s, const int64_t *offset) {
  for (size_t i = 0; i < z->num; i++) {
    const msc_body *b = &z->body[i];
    if (b->fixed >= 0 ? offset[i] != b->fixed : offset[i] < 0 || !msc_shelf_free(s, b, offset[i])) return false;
    if (b->fixed < 0) msc_shelf_put(s, b, offset[i]);
  }
  return true;
}

void msc_place_settle(msc_placing *z, const int64_t *offset) {
  msc_shelf *s = msc_shelf_new(z);
  if (!is_plan(z, s, offset)) return;
  msc_placing_keep(z, offset);
  turn *order = msc_new_array(z->arena, turn, z->num);
  int64_t *fallen = msc_new_array(z->arena, int64_t, z->num);
  for (uint32_t i = 0; i < z->num; i++) order[i] = (turn){-(double)offset[i], i};
  qsort(order, z->num, sizeof *order, by_rank);
  if (fill(z, s, order, false, z->height, fallen)) msc_placing_keep(z, fallen);
}
