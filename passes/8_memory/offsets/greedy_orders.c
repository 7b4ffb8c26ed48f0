/* greedy_orders.c: places bodies one by one in many orders; each takes the lowest gap (first fit) or the tightest
 * gap (best fit) left for it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/8_memory/offsets/bodies.h"

typedef struct {
  double rank;
  uint32_t body;
} turn;

static int compare_ranks(const void *a, const void *b) {
  const turn *x = a, *y = b;
  if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
  return x->body < y->body ? -1 : x->body > y->body;
}

/* ---- filling ---- */

enum { LONG = 64, SEVERAL = 1500, MANY = 4096, STEPS_OF_NODE = 256 };

typedef struct {
  msc_placing *z;
  msc_gap_index *shelf;
  turn *order;
  int64_t *offset;
  uint64_t steps; /* steps of the gap index that z->nodes already counts */
} greedy_filler;

static greedy_filler start_filling(msc_placing *z) {
  return (greedy_filler){z, msc_gap_index_new(z), msc_new_array(z->arena, turn, z->num),
                         msc_new_array(z->arena, int64_t, z->num), 0};
}

static void count_nodes(greedy_filler *f) {
  uint64_t more = (msc_gap_index_steps(f->shelf) - f->steps) / STEPS_OF_NODE;
  f->z->nodes += more;
  f->steps += more * STEPS_OF_NODE;
}

/* True if a plan exists and the limits are reached. Without a plan the search goes on: small problems always finish
 * their orders. */
static bool has_reached_limits(greedy_filler *f) {
  count_nodes(f);
  return f->z->height != INT64_MAX && msc_placing_limit_reached(f->z);
}

/* Places the bodies from turn `first` on. False: the plan would not be below the limit, or the limits are reached. */
static bool fill_in_order(greedy_filler *f, size_t first, bool tightest, int64_t limit) {
  const msc_placing *z = f->z;
  for (size_t k = first; k < z->num; k++) {
    uint32_t i = f->order[k].body;
    const msc_body *b = &z->body[i];
    f->offset[i] = b->fixed >= 0 ? b->fixed : msc_gap_index_find(f->shelf, b, tightest);
    if (f->offset[i] + b->height >= limit) return false;
    if (b->fixed < 0) msc_gap_index_add(f->shelf, b, f->offset[i]);
    if (z->num > MANY && k % 64 == 63 && has_reached_limits(f)) return false;
  }
  return true;
}

static void sort_by_rank(greedy_filler *f, int order) {
  double *rank = msc_new_array(f->z->arena, double, f->z->num);
  msc_place_rank_bodies(f->z, order, rank);
  for (uint32_t i = 0; i < f->z->num; i++) f->order[i] = (turn){rank[i], i};
  qsort(f->order, f->z->num, sizeof *f->order, compare_ranks);
}

/* Stacks long-lived bodies, longest first, and places the others in the gaps, largest first. Fast for any number of
 * bodies. */
static void stack_long_lived(greedy_filler *f) {
  msc_placing *z = f->z;
  msc_skyline *y = msc_skyline_new(z);
  size_t num_long = 0;
  for (size_t i = 0; i < z->num; i++)
    if (z->body[i].fixed >= 0) return;
  sort_by_rank(f, 1);
  msc_gap_index_clear(f->shelf);
  while (num_long < z->num && f->order[num_long].rank > (double)z->num_sections / LONG) num_long++;
  for (size_t k = 0; k < num_long; k++) f->offset[f->order[k].body] = msc_skyline_drop(y, &z->body[f->order[k].body]);
  for (size_t k = 0; k < num_long; k++)
    msc_gap_index_add(f->shelf, &z->body[f->order[k].body], f->offset[f->order[k].body]);
  for (size_t k = num_long; k < z->num; k++) f->order[k].rank = (double)z->body[f->order[k].body].height;
  qsort(f->order + num_long, z->num - num_long, sizeof *f->order, compare_ranks);
  if (fill_in_order(f, num_long, false, z->height)) msc_placing_keep(z, f->offset);
}

/* Sorts by size class, larger first; within a class bodies near the peak come first. peak_first: bodies live at the
 * peak come before all others. */
static void sort_outward(greedy_filler *f, uint32_t peak, double alike, bool peak_first) {
  msc_placing *z = f->z;
  for (uint32_t i = 0; i < z->num; i++) {
    const msc_body *b = &z->body[i];
    uint32_t away = msc_placing_distance(peak, b);
    double kind = floor(log2((double)b->height) * alike) + (peak_first && !away ? 64 * alike : 0);
    f->order[i] = (turn){kind * (double)z->num_sections - away, i};
  }
  qsort(f->order, z->num, sizeof *f->order, compare_ranks);
}

static void fill_outward(greedy_filler *f, double alike) {
  msc_placing *z = f->z;
  sort_outward(f, msc_placing_peak(z, 0, (uint32_t)z->num_sections), alike, false);
  msc_gap_index_clear(f->shelf);
  if (fill_in_order(f, 0, false, z->height)) msc_placing_keep(z, f->offset);
}

/* Moves every body that reaches above the goal to an earlier turn: to `part` of its distance from turn `front`,
 * before which nothing moves. False: none could move. */
static bool move_up_high_bodies(greedy_filler *f, double front, double part) {
  const msc_placing *z = f->z;
  bool moved = false;
  for (size_t k = 0; k < z->num; k++) {
    uint32_t i = f->order[k].body;
    bool out = (double)k > front && f->offset[i] + z->body[i].height > z->goal;
    f->order[k].rank = -(out ? front + ((double)k - front) * part : (double)k);
    moved |= out && (double)k > front + 0.5;
  }
  qsort(f->order, z->num, sizeof *f->order, compare_ranks);
  return moved;
}

static size_t num_at_peak(const msc_placing *z) {
  uint32_t peak = msc_placing_peak(z, 0, (uint32_t)z->num_sections);
  size_t num = 0;
  for (size_t i = 0; i < z->num; i++) num += msc_placing_distance(peak, &z->body[i]) == 0;
  return num;
}

static bool is_dense(const msc_placing *z) { return num_at_peak(z) >= z->num / 8; } /* then the gap index is slow */

/* Stacks what is live at the peak, then places the rest. What then reaches above the goal is often little:
 * short-lived bodies that start where those of the peak end and found no gap beside larger ones. They are moved to
 * earlier turns, round after round. */
static void fill_behind_peak(greedy_filler *f) {
  enum { ROUNDS = 12 };
  msc_placing *z = f->z;
  uint32_t peak = msc_placing_peak(z, 0, (uint32_t)z->num_sections);
  double front = (double)num_at_peak(z) - 0.5;
  sort_outward(f, peak, 4, true);
  for (int k = 0; k < ROUNDS && !msc_placing_goal_reached(z) && !has_reached_limits(f) &&
                  (k == 0 || move_up_high_bodies(f, front, 0.125));
       k++) {
    msc_gap_index_clear(f->shelf);
    if (!fill_in_order(f, 0, false, INT64_MAX)) return;
    msc_placing_keep(z, f->offset);
  }
}

/* The methods for very many bodies, in the order in which they are tried. */
typedef enum { SWEEP, LONG_FIRST, OUTWARD_4, PEAK, OUTWARD_2, OUTWARD_1, SWEEPS, CORE, WAYS } way;

static void run_method(greedy_filler *f, way w) {
  msc_placing *z = f->z;
  switch (w) {
    case SWEEP: msc_place_by_best_fit_sweep(z, false); break;
    case LONG_FIRST: stack_long_lived(f); break;
    case OUTWARD_4: fill_outward(f, 4); break;
    case PEAK: msc_place_split_at_peak(z); break;
    case OUTWARD_2: fill_outward(f, 2); break;
    case OUTWARD_1: fill_outward(f, 1); break;
    case SWEEPS: msc_place_by_best_fit_sweep(z, true); break;
    default: msc_place_outward_from_peak(z); break;
  }
}

/* Runs the methods. A plan that is better than the last may be good except in a few windows, so these are placed
 * again. */
static void place_many(greedy_filler *f) {
  msc_placing *z = f->z;
  bool dense = is_dense(z);
  for (way w = SWEEP; w < WAYS && !msc_placing_goal_reached(z) && !has_reached_limits(f); w++) {
    int64_t before = z->height;
    if (dense && (w == OUTWARD_4 || w == OUTWARD_2 || w == OUTWARD_1)) continue;
    run_method(f, w);
    if (z->height < before && !msc_placing_goal_reached(z)) msc_place_repair_windows(z);
  }
}

static void place_by_rank(greedy_filler *f) {
  const msc_placing *z = f->z;
  for (int k = 0; k < 2 * MSC_NUM_ORDERS && !msc_placing_goal_reached(z); k++) {
    bool tightest = k % 2;
    sort_by_rank(f, k / 2);
    msc_gap_index_clear(f->shelf);
    if (fill_in_order(f, 0, tightest, z->height)) msc_placing_keep(f->z, f->offset);
    if (k > 0 && has_reached_limits(f)) return;
  }
}

void msc_place_greedily(msc_placing *z) {
  greedy_filler f = start_filling(z);
  if (z->num > MANY) place_many(&f);
  place_by_rank(&f);
  if (z->num > SEVERAL && z->num <= MANY) place_many(&f);
  if (z->num > SEVERAL && !is_dense(z)) fill_behind_peak(&f);
}

/* ---- repair ---- */

enum { REPAIRS = 64 };

static void sort_by_offset(greedy_filler *f, const int64_t *offset) {
  for (uint32_t i = 0; i < f->z->num; i++) f->order[i] = (turn){-(double)offset[i], i};
  qsort(f->order, f->z->num, sizeof *f->order, compare_ranks);
}

/* Starts from the bodies of the best plan by offset and moves those that reach above the goal to earlier turns,
 * again and again. */
void msc_place_from_best(msc_placing *z) {
  greedy_filler f = start_filling(z);
  memcpy(f.offset, z->best, z->num * sizeof *z->best);
  sort_by_offset(&f, z->best);
  for (int k = 0;
       k < REPAIRS && !msc_placing_goal_reached(z) && !has_reached_limits(&f) && move_up_high_bodies(&f, 0, 0.5); k++) {
    msc_gap_index_clear(f.shelf);
    if (!fill_in_order(&f, 0, k % 2, INT64_MAX)) return;
    msc_placing_keep(z, f.offset);
  }
}

/* ---- plans from elsewhere ---- */

static bool is_valid_plan(const msc_placing *z, msc_gap_index *s, const int64_t *offset) {
  for (size_t i = 0; i < z->num; i++) {
    const msc_body *b = &z->body[i];
    if (b->fixed >= 0 ? offset[i] != b->fixed : offset[i] < 0 || !msc_gap_index_is_free(s, b, offset[i])) return false;
    if (b->fixed < 0) msc_gap_index_add(s, b, offset[i]);
  }
  return true;
}

void msc_place_known_plan(msc_placing *z, const int64_t *offset) {
  greedy_filler f = start_filling(z);
  if (!is_valid_plan(z, f.shelf, offset)) return;
  msc_placing_keep(z, offset);
  sort_by_offset(&f, offset);
  msc_gap_index_clear(f.shelf);
  if (fill_in_order(&f, 0, false, z->height)) msc_placing_keep(z, f.offset);
}
