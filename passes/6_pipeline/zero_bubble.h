/* zero_bubble.h: what the parts of zb-auto share: the problem, and schedules as one string of works per stage.  Micro-batches
 * run in ascending order within each work, so the string says everything. */
#ifndef MSC_PASSES_6_PIPELINE_ZERO_BUBBLE_H
#define MSC_PASSES_6_PIPELINE_ZERO_BUBBLE_H

#include "passes/6_pipeline/order.h"

typedef struct {
  int stages, micro_batches;
  int length;                   /* of a string: 3 * micro_batches */
  const msc_section_cost *cost; /* of every stage */
  const int64_t *limit;         /* bytes of every stage */
  int64_t bound;                /* no makespan is smaller */
  int64_t budget;               /* entries the search may still look at */
  double until;                 /* or the time at which it ends; 0: none */
  int64_t *forward_end, *backward_end; /* of every stage and micro-batch: scratch of whoever runs the problem */
  int64_t *span;                /* of every stage, from the last zb_run */
  int *at;                      /* scratch: 6 numbers of every stage */
} zb_problem;

typedef struct {
  uint8_t *work;                /* of every stage: `length` msc_work */
  int64_t makespan;
  double excess;                /* sum over stages of (span - work)^2: what is to be lessened where makespans are equal */
} zb_plan;

/* ---- zero_bubble.c ---- */

zb_plan zb_new_plan(msc_arena *arena, const zb_problem *z);
void zb_copy(const zb_problem *z, zb_plan *to, const zb_plan *from);
uint8_t *zb_string(const zb_problem *z, const zb_plan *p, int stage);
/* Times an order; false when its stages wait for each other. */
bool zb_run(zb_problem *z, zb_plan *p);
/* Does a stage's string stay within its limit? */
bool zb_fits(const zb_problem *z, int stage, const uint8_t *work);
/* Nothing more to gain, or nothing left to spend. */
bool zb_is_over(const zb_problem *z, const zb_plan *best);

/* ---- zb_bound.c ---- */

int64_t zb_bound(const zb_problem *z);

/* ---- zb_greedy.c ---- */

/* Keeps in `best` what is better of it and of a sweep of list schedules.  `p` is scratch. */
void zb_sweep(zb_problem *z, msc_arena *scratch, zb_plan *best, zb_plan *p);

/* ---- zb_improve.c ---- */

/* Moves works within their strings while that lessens the makespan of `best`, or leaves it and lessens the excess. */
void zb_improve(zb_problem *z, msc_arena *scratch, zb_plan *best);

#endif
