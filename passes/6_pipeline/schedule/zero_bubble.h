/* zero_bubble.h: what the parts of zb-auto share: the problem, and schedules as one string of works per stage.
 * Micro-batches run in ascending order within each work, so the string says everything. */
#ifndef MSC_PASSES_6_PIPELINE_ZERO_BUBBLE_H
#define MSC_PASSES_6_PIPELINE_ZERO_BUBBLE_H

#include "passes/6_pipeline/schedule/order.h"

typedef struct {
  uint8_t *work;                /* of every stage: `length` msc_work; those of the second chunk + MSC_NUM_WORKS */
  int64_t makespan;
} zb_plan;

enum { ZB_SEEDS = 6, ZB_CHUNKS = 2 /* per stage, at most: down and up again */ };

typedef struct {
  int stages, chunks, micro_batches;
  int length;                   /* of a string: 3 * chunks * micro_batches */
  const msc_section_cost *cost; /* of every virtual stage */
  const int64_t *limit;         /* bytes of every stage */
  int64_t bound;                /* no makespan is smaller */
  /* one chunk, of every stage: what zb_bound leaves of it for idle time before the first B, less the makespan */
  int64_t *spare;
  int64_t budget;               /* entries the search may still look at */
  double until;                 /* or the time at which it ends; 0: none */
  int64_t *forward_end, *backward_end; /* of every virtual stage and micro-batch: scratch of whoever runs the problem */
  int *at;                      /* scratch: 6 numbers of every stage */
  int num_seeds;
  zb_plan seed[ZB_SEEDS];       /* different good list schedules, best first */
} zb_problem;

/* ---- zero_bubble.c ---- */

zb_plan zb_new_plan(msc_arena *arena, const zb_problem *z);
void zb_copy(const zb_problem *z, zb_plan *to, const zb_plan *from);
uint8_t *zb_string(const zb_problem *z, const zb_plan *p, int stage);
/* Times an order with one chunk; false when its stages wait for each other. */
bool zb_run(zb_problem *z, zb_plan *p);
/* Does a stage's string stay within its limit? */
bool zb_fits(const zb_problem *z, int stage, const uint8_t *work);
/* Nothing more to gain, or nothing left to spend. */
bool zb_is_over(const zb_problem *z, const zb_plan *best);

/* ---- zb_bound.c ---- */

/* Also what zb_warm_up needs to know. */
int64_t zb_bound(zb_problem *z, msc_arena *scratch);
/* The fewest F of every stage before its first B with which no stage waits for that so long that it exceeds the
 * makespan; false when memory has no room for them. */
bool zb_warm_up(const zb_problem *z, int64_t makespan, int *out_warm_up);

/* ---- zb_greedy.c ---- */

/* Keeps in `best` what is better of it and of a sweep of list schedules.  `p` is scratch. */
void zb_sweep(zb_problem *z, msc_arena *scratch, zb_plan *best, zb_plan *p);

/* ---- zb_improve.c ---- */

/* One chunk: moves works within their strings, from the seeds and from `best`, until the search is over. */
void zb_improve(zb_problem *z, msc_arena *scratch, zb_plan *best);

#endif
