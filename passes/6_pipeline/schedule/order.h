/* order.h: what the generators of schedules share: the lists while they grow. */
#ifndef MSC_PASSES_6_PIPELINE_ORDER_H
#define MSC_PASSES_6_PIPELINE_ORDER_H

#include "passes/6_pipeline/schedule/schedule.h"

typedef struct {
  msc_context *ctx;
  msc_arena *scratch;
  const msc_loc *loc;            /* of what asked for the schedule */
  const msc_schedule_options *o; /* everything given: no NULL in it */
  msc_schedule *s;               /* its lists have room for every entry */
  int *next;                     /* of every stage, chunk and work: the micro-batch whose turn it is */
} msc_orders;

/* The next micro-batch of this work goes to the end of the stage's list. */
void msc_order_put(msc_orders *b, int stage, msc_work work, int chunk);
/* Empties all lists. */
void msc_order_clear(msc_orders *b);

#define SCHEDULE(name, text, split, generator, order) bool generator(msc_orders *b);
#include "passes/6_pipeline/schedule/schedule.def"
#undef SCHEDULE

#endif
