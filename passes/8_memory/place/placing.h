/* placing.h: the memory planner's inside: rigid bodies in sections of time, and who looks for their offsets. */
#ifndef MSC_PASSES_PLACING_H
#define MSC_PASSES_PLACING_H

#include "passes/8_memory/place/place.h"

/* A stretch of one body's memory during some sections.  Offsets and heights count in units (placing.unit). */
typedef struct {
  uint32_t from, to;   /* sections [from, to) */
  int64_t low, high;   /* [low, high) behind the body's offset, as far as others must keep away */
  int64_t size;        /* of the buffers themselves, in bytes */
} msc_part;

/* What moves as one: a buffer, or a group. */
typedef struct {
  const msc_part *part;
  uint32_t num_parts;
  uint32_t from, to;   /* hull of its parts' sections */
  int64_t height;
  int64_t fixed;       /* its offset, or -1 */
} msc_body;

typedef struct {
  msc_arena *arena;
  const msc_place_options *options;
  /* bytes: all heights and fixed offsets are multiples, so all offsets of a plan in which everything rests are */
  int64_t unit;
  size_t num, num_sections;
  const msc_body *body;   /* largest first: the order does not depend on the order of input */
  const int64_t *live;    /* by section: sum of sizes */
  int64_t bound;          /* largest of them */
  int64_t goal;           /* a plan of this height ends the search: the capacity or the bound */
  int64_t *best;          /* offsets by body of the smallest plan so far */
  int64_t height;         /* its height; INT64_MAX: none yet */
  bool proven;            /* nothing is smaller than `height` */
  uint64_t nodes, node_limit;
  double deadline; /* of msc_cpu_seconds; 0: none */
} msc_placing;

/* ---- place/sections.c ---- */

/* Buffers into bodies and sections; false: there is nothing to place. */
bool msc_placing_of(msc_placing *z, msc_arena *arena, size_t num, const msc_buffer *buffer, const msc_place_options *o,
                    uint32_t *out_body_of, int64_t *out_low);

/* ---- place.c ---- */

bool msc_placing_done(const msc_placing *z);  /* the goal is reached */
bool msc_placing_spent(const msc_placing *z); /* limits are, so that what is there must do */
/* the first of the sections in which most is live */
uint32_t msc_placing_peak(const msc_placing *z, uint32_t from, uint32_t to);
/* sections between it and b's hull; 0: b is live there */
uint32_t msc_placing_away(uint32_t section, const msc_body *b);
/* seconds to the deadline, or 0 when there is none */
double msc_placing_left(const msc_placing *z);
bool msc_placing_is_plain(const msc_placing *z);                             /* no body is a group or fixed */
/* The height of these offsets by body. */
int64_t msc_placing_height(const msc_placing *z, const int64_t *offset);
/* Keeps them when they are the smallest so far. */
void msc_placing_keep(msc_placing *z, const int64_t *offset);

/* ---- place/shelf.c: what is placed, by stretch of time and offset ---- */

typedef struct msc_shelf msc_shelf;
msc_shelf *msc_shelf_new(const msc_placing *z);
uint64_t msc_shelf_steps(const msc_shelf *s); /* entries that were looked at: the work done */
void msc_shelf_clear(msc_shelf *s); /* all but what is fixed */
void msc_shelf_put(msc_shelf *s, const msc_body *b, int64_t offset);
/* The lowest gap that holds b, or the tightest one; where the sky begins when no gap does. */
int64_t msc_shelf_find(msc_shelf *s, const msc_body *b, bool tightest);
/* would it lie there without touching anything? */
bool msc_shelf_free(msc_shelf *s, const msc_body *b, int64_t offset);

/* ---- place/skyline.c: the same, but for what is stacked without looking for gaps ---- */

typedef struct msc_skyline msc_skyline;
msc_skyline *msc_skyline_new(const msc_placing *z);
int64_t msc_skyline_drop(msc_skyline *y, const msc_body *b); /* on all that lies under its hull; returns its offset */

/* ---- place/strata.c: the same for very many bodies of one part, by offset alone ---- */

typedef struct {
  msc_arena *arena;
  size_t num, room;
  struct msc_stratum **block;
} msc_strata; /* all but the arena 0: nothing is placed */
void msc_strata_put(msc_strata *s, const msc_body *b, int64_t low);
int64_t msc_strata_find(const msc_strata *s, const msc_body *b, int64_t x);  /* the lowest hole from x on */
/* how many there are, and where unless out is NULL */
size_t msc_strata_list(const msc_strata *s, msc_part *out);
msc_strata msc_strata_part(const msc_strata *s, uint32_t from, uint32_t to); /* what of it lies in these sections */

/* ---- place/sweep.c ---- */

/* A stack of what is live at the peak, the rest as an allocator does it, in time away from there; for very many plain
 * bodies.  `thorough`: in more ways of weighing what is left of a hole against when neighbours go. */
void msc_place_by_sweep(msc_placing *z, bool thorough);

/* ---- place/peak.c ---- */

/* A stack of what is live at the peak, the rest beside it; for very many plain bodies. */
void msc_place_around_peak(msc_placing *z);

/* ---- place/core.c ---- */

/* What is live around the peak exactly, then the rest; for the same. */
void msc_place_around_core(msc_placing *z);

/* ---- place/window.c ---- */

/* Where the best plan sticks out of the goal, in few places, what lies around them is placed anew; for very
 * many plain bodies. */
void msc_place_by_windows(msc_placing *z);

/* ---- place/orders.c ---- */

/* Bodies put on the shelf one by one, in several orders. */
void msc_place_orders(msc_placing *z);
/* And in orders learnt from what stuck out of the best plan. */
void msc_place_repair(msc_placing *z);
/* Keeps a plan from elsewhere, if it is one, or what becomes of it when everything falls as far as it can. */
void msc_place_settle(msc_placing *z, const int64_t *offset);
/* A number for each body: who comes first in heuristic `order`. */
enum { MSC_NUM_ORDERS = 8 };
void msc_place_rank(const msc_placing *z, int order, double *out_rank);

/* ---- place/search.c ---- */

/* Exact: finds a plan of at most z->goal if there is one, or something better than z->best, within the limits. */
void msc_place_search(msc_placing *z);

#endif
