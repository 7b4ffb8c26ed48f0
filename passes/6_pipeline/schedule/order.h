/* order.h: the lists that the generators of schedules append to. */
#ifndef MSC_PASSES_6_PIPELINE_ORDER_H
#define MSC_PASSES_6_PIPELINE_ORDER_H

#include "passes/6_pipeline/schedule/schedule.h"

typedef struct {
  msc_context *ctx;
  msc_arena *scratch;
  const msc_loc *loc;            /* where the schedule was asked for */
  const msc_schedule_options *o; /* complete: no NULL in it */
  msc_schedule *s;               /* its lists have room for every entry */
  int *next;                     /* by stage, chunk and work: the next micro-batch */
} msc_orders;

/* A row of schedule.def. */
typedef struct {
  const char *name;
  bool split; /* the backward is split into B and W */
  int chunks; /* the most chunks of a stage */
  bool (*generator)(msc_orders *b);
  const char *order;
} msc_schedule_row;

extern const msc_schedule_row msc_schedule_rows[]; /* by msc_schedule_kind; kinds.c */

/* Appends an entry to the list of the stage: this work of the chunk, for the micro-batch that is next there. */
void msc_order_put(msc_orders *b, int stage, msc_work work, int chunk);
/* Empties all lists. */
void msc_order_clear(msc_orders *b);

#define SCHEDULE(name, text, split, chunks, generator, order) bool generator(msc_orders *b);
#include "passes/6_pipeline/schedule/schedule.def"
#undef SCHEDULE

#endif
