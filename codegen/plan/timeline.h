/* timeline.h: calls with their times in; when each of them runs in a step, on every stage, and what it waits for, out.
 *
 * A stage has three streams, in each of which calls run one after the other: kernels and products; collectives; and
 * transfers between the device and host memory or disk.  A collective or transfer starts when all calls before it have
 * run and its stream is free; a call waits for those whose memory it touches, as in the runtime (ir/abi/hazard.h).  The
 * stages of a pipeline run in parallel, and a message arrives after the time of its link.  Mailboxes are made as deep
 * as messages are under way at once, so that no sender waits; as the simulation ends, so does the plan.  Exposed time
 * is time in which only a link works. */
#ifndef MSC_CODEGEN_TIMELINE_H
#define MSC_CODEGEN_TIMELINE_H

#include "codegen/plan/plan.h"

typedef enum {
  MSC_BUSY_CALL,        /* the stage works */
  MSC_BUSY_LINK,        /* a collective is under way, whatever the stage does */
  MSC_WAITS_COLLECTIVE, /* nothing but this collective works */
  MSC_WAITS_MESSAGE,    /* nothing but the link of this message works */
  MSC_WAITS_STAGE,      /* another stage has not sent this message yet: a bubble */
  MSC_BUSY_TRANSFER,    /* a transfer is under way, whatever the stage does */
  MSC_WAITS_TRANSFER,   /* nothing but this transfer works */
  MSC_BEGINS_SECTION    /* the stage works, but on none of the calls yet */
} msc_activity;

/* An activity of `stage` in its `step`-th step, from begin to end in nanoseconds. The call has number `index` in its
 * section, which MSC_BEGINS_SECTION leaves 0; `micro` is the first micro-batch of the entry. */
typedef struct {
  msc_activity activity;
  uint32_t stage, step, section, index, micro;
  const msc_plan_call *call;
  uint64_t begin, end;
} msc_timeline_event;

typedef void msc_timeline_fn(void *user, const msc_timeline_event *e);

/* Who receives the events of the simulation. The events of a stage follow each other without a gap, except before its
 * next step. MSC_BUSY_LINK and MSC_BUSY_TRANSFER run beside the other events. */
typedef struct {
  msc_timeline_fn *event; /* NULL: nobody watches */
  void *user;
} msc_timeline_watch;

enum { MSC_TIMELINE_STEPS = 4 }; /* until all are alike */

/* Predicts a program: the time that a step adds to those before it, and the part of it that is exposed on the worst
 * stage. Makes mailboxes as deep as needed. Steps are simulated until they are alike. False after reporting that stages
 * wait for each other, which is a bug. */
bool msc_timeline_run(msc_plan *p, const msc_plan_program *g, const msc_timeline_watch *watch, uint64_t *out_step_ns,
                      uint64_t *out_exposed_ns);

#endif
