/* zero_bubble.h: shared by the parts of zb-auto: the problem, and orders as one string of works per stage.
 * Micro-batches run in ascending order within each work, so the string is the whole order. */
#ifndef MSC_PASSES_6_PIPELINE_ZERO_BUBBLE_H
#define MSC_PASSES_6_PIPELINE_ZERO_BUBBLE_H

#include "passes/6_pipeline/schedule/order.h"

typedef struct {
  uint8_t *work;                /* by stage: `length` msc_work; those of the second chunk + MSC_NUM_WORKS */
  int64_t makespan;
} zb_plan;

enum { ZB_SEEDS = 6, ZB_CHUNKS = 2 /* most chunks per stage: down and up again */ };

typedef struct {
  int stages, chunks, micro_batches;
  int length;                   /* length of a string: 3 * chunks * micro_batches */
  const msc_section_cost *cost; /* of every virtual stage */
  const int64_t *limit;         /* bytes of every stage */
  int64_t bound;                /* no makespan is smaller */
  /* one chunk, by stage: what zb_bound leaves for idle time before the first B, less the makespan */
  int64_t *spare;
  int64_t budget;               /* entries that the search may still visit */
  double until;                 /* CPU time at which the search ends; 0: none */
  int64_t *forward_end, *backward_end; /* by virtual stage and micro-batch: scratch memory for timing an order */
  int *at;                      /* scratch memory: 6 numbers per stage */
  int num_seeds;
  zb_plan seed[ZB_SEEDS];       /* good list schedules that differ, best first */
} zb_problem;

/* ---- zero_bubble.c ---- */

zb_plan zb_new_plan(msc_arena *arena, const zb_problem *z);
void zb_copy(const zb_problem *z, zb_plan *to, const zb_plan *from);
uint8_t *zb_string(const zb_problem *z, const zb_plan *p, int stage);
/* True if the string of a stage stays within its limit. */
bool zb_fits(const zb_problem *z, int stage, const uint8_t *work);
/* True if nothing more can be gained, or the budget is spent. */
bool zb_is_over(const zb_problem *z, const zb_plan *best);

/* ---- zb_bound.c ---- */

/* A lower bound on the makespan. Also sets z->spare, which zb_warm_up reads. */
int64_t zb_bound(zb_problem *z, msc_arena *scratch);
/* The fewest F of every stage before its first B such that no stage waits for that B so long that it exceeds the
 * makespan; false if memory has no room for them. */
bool zb_warm_up(const zb_problem *z, int64_t makespan, int *out_warm_up);

/* ---- zb_greedy.c ---- */

/* Sweeps over list schedules and keeps the best order in `best`. p: scratch memory. */
void zb_sweep(zb_problem *z, msc_arena *scratch, zb_plan *best, zb_plan *p);

/* ---- zb_improve.c ---- */

/* For one chunk: moves works within their strings, starting from the seeds and from `best`, until the search is
 * over. */
void zb_improve(zb_problem *z, msc_arena *scratch, zb_plan *best);

#endif
