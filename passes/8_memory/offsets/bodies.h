/* bodies.h: inside the memory planner: bodies and sections of time, gap searches, and the methods that find
 * offsets. */
#ifndef MSC_PASSES_BODIES_H
#define MSC_PASSES_BODIES_H

#include "passes/8_memory/offsets/offsets.h"

/* The memory of a body that is in use during some sections. Offsets and heights count in units (placing.unit). */
typedef struct {
  uint32_t from, to; /* sections [from, to) */
  int64_t low, high; /* range relative to the offset of the body, rounded outward to alignment */
  int64_t size;      /* bytes of the buffers themselves */
} msc_part;

/* What gets one offset: a buffer, or a group. */
typedef struct {
  const msc_part *part;
  uint32_t num_parts;
  uint32_t from, to; /* the sections that its parts span */
  int64_t height;
  int64_t fixed; /* its offset, or -1 */
} msc_body;

typedef struct {
  msc_arena *arena;
  const msc_offsets_options *options;
  /* unit in bytes: all heights and fixed offsets are multiples of it, so offsets of plans in which every body rests
   * on another are, too */
  int64_t unit;
  size_t num, num_sections;
  const msc_body *body; /* largest first: the order does not depend on the order of input */
  const int64_t *live;  /* by section: sum of sizes */
  int64_t bound;        /* largest element of `live` */
  int64_t goal;         /* a plan of this height ends the search: the capacity or the bound */
  int64_t *best;        /* offsets by body of the smallest plan so far */
  int64_t height;       /* its height; INT64_MAX: none yet */
  bool proven;          /* true: no plan is smaller than `height` */
  uint64_t nodes, node_limit;
  double deadline; /* in msc_cpu_seconds(); 0: none */
} msc_placing;

/* ---- sections.c ---- */

/* Makes bodies and sections from buffers. out_body_of: by buffer, UINT32_MAX if it needs no place; out_low: its
 * offset in the body. False: there is nothing to place. */
bool msc_placing_of(msc_placing *z, msc_arena *arena, size_t num, const msc_buffer *buffer,
                    const msc_offsets_options *o, uint32_t *out_body_of, int64_t *out_low);

/* ---- offsets.c ---- */

bool msc_placing_goal_reached(const msc_placing *z); /* true if the goal is reached */
bool msc_placing_limit_reached(
    const msc_placing *z); /* true if a limit is reached: the best plan so far is the result */
/* the first section in [from, to) in which most is live */
uint32_t msc_placing_peak(const msc_placing *z, uint32_t from, uint32_t to);
/* number of sections between `section` and b; 0: b is live there */
uint32_t msc_placing_distance(uint32_t section, const msc_body *b);
/* seconds to the deadline, or 0 when there is none */
double msc_placing_seconds_left(const msc_placing *z);
bool msc_placing_is_plain(const msc_placing *z); /* true if no body is a group or fixed */
/* Keeps the plan if it is the smallest so far. */
void msc_placing_keep(msc_placing *z, const int64_t *offset);

/* ---- gap_index.c: placed bodies in chunks of time, to find the gaps between them ---- */

typedef struct msc_gap_index msc_gap_index;
msc_gap_index *msc_gap_index_new(const msc_placing *z);
uint64_t msc_gap_index_steps(const msc_gap_index *s); /* entries visited so far, a measure of the work done */
void msc_gap_index_clear(msc_gap_index *s);           /* removes all bodies that are not fixed */
void msc_gap_index_add(msc_gap_index *s, const msc_body *b, int64_t offset);
/* The offset of the lowest gap that holds b (first fit), or of the tightest one (best fit); above all bodies if no
 * gap does. */
int64_t msc_gap_index_find(msc_gap_index *s, const msc_body *b, bool tightest);
/* true if b would overlap nothing at this offset */
bool msc_gap_index_is_free(msc_gap_index *s, const msc_body *b, int64_t offset);

/* ---- skyline.c: the height of a stack by section, for bodies stacked without looking for gaps ---- */

typedef struct msc_skyline msc_skyline;
msc_skyline *msc_skyline_new(const msc_placing *z);
/* puts b on top of everything in its sections; returns its offset */
int64_t msc_skyline_drop(msc_skyline *y, const msc_body *b);

/* ---- gap_scan.c: placed bodies by offset alone, to find gaps among very many bodies of one part ---- */

typedef struct {
  msc_arena *arena;
  size_t num, room;
  struct msc_gap_block **block;
} msc_gap_scan; /* nothing is placed if all except the arena is 0 */
void msc_gap_scan_add(msc_gap_scan *s, const msc_body *b, int64_t low);
int64_t msc_gap_scan_find(const msc_gap_scan *s, const msc_body *b,
                          int64_t x); /* the lowest gap for b from offset x on */
/* returns the number of placed bodies; lists them in out unless it is NULL */
size_t msc_gap_scan_list(const msc_gap_scan *s, msc_part *out);
msc_gap_scan msc_gap_scan_in_sections(const msc_gap_scan *s, uint32_t from,
                                      uint32_t to); /* the bodies that lie in these sections */

/* ---- best_fit_sweep.c ---- */

/* For very many plain bodies: stacks the bodies that are live at the peak, then places the others as a best-fit
 * allocator does, ever further from the peak in time. thorough: tries several weights between the space left over and
 * how long neighbours stay. */
void msc_place_by_best_fit_sweep(msc_placing *z, bool thorough);

/* ---- split_at_peak.c ---- */

/* For very many plain bodies: stacks the bodies that are live at the peak, then places those before it and those after
 * it independently. */
void msc_place_split_at_peak(msc_placing *z);

/* ---- outward_from_peak.c ---- */

/* For very many plain bodies: places those around the peak exactly, then the rest outward. */
void msc_place_outward_from_peak(msc_placing *z);

/* ---- repair_windows.c ---- */

/* For very many plain bodies: where the best plan exceeds the goal in few places, places the bodies around these
 * places again. */
void msc_place_repair_windows(msc_placing *z);

/* ---- greedy_orders.c ---- */

/* Places bodies one by one, in several orders. */
void msc_place_greedily(msc_placing *z);
/* Places bodies in orders that start with those that exceed the goal in the best plan. */
void msc_place_from_best(msc_placing *z);
/* Keeps a given plan if it is valid, and then the plan in which every body has sunk to the lowest gap if that is
 * lower. */
void msc_place_known_plan(msc_placing *z, const int64_t *offset);
/* Ranks the bodies by heuristic `order`: higher ranks come first. */
enum { MSC_NUM_ORDERS = 8 };
void msc_place_rank_bodies(const msc_placing *z, int order, double *out_rank);

/* ---- exact_search.c ---- */

/* Finds, by branch and bound within the limits, a plan of at most z->goal if there is one, or a better one than
 * z->best. */
void msc_place_exactly(msc_placing *z);

#endif
