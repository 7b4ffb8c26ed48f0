/* simulate.h: a plan.bin and a described cluster in; when its calls run, where the time of a step goes, and the memory
 * and traffic of every stage out.  Prices are those of the search (passes/time_model.h), the schedule is that of the
 * runtime (timeline.h). */
#ifndef MSC_CODEGEN_SIMULATE_H
#define MSC_CODEGEN_SIMULATE_H

#include "codegen/plan/timeline.h"

/* Where time goes. The kind of a call follows from the name of its op: *.grad, *.update, *.recompute, or else forward.
 * A call that takes no longer than a launch counts as MSC_TIME_LAUNCH, and so does what it takes to begin a section. */
typedef enum {
  MSC_TIME_FORWARD,
  MSC_TIME_RECOMPUTE,
  MSC_TIME_BACKWARD,
  MSC_TIME_OPTIMIZER,
  MSC_TIME_LAUNCH,
  MSC_TIME_MESSAGES, /* exposed: only the link between two stages works */
  MSC_TIME_OFFLOAD,  /* exposed: only a transfer between the device and a home away from it works */
  MSC_TIME_BUBBLE,   /* the stage waits for another one */
  MSC_NUM_TIMES
} msc_time_kind;

/* The traffic of one stage in one group of ranks, such as "{dp,tp:(1)2}": the time that its collectives take, the part
 * of it in which nothing else works, and the bytes that one rank receives in a step. */
typedef struct {
  const char *axes;
  uint64_t link_ns, exposed_ns, bytes;
} msc_group_traffic;

/* Returns the share of the group's collectives that runs beside calls; 1 if they take no time. */
double msc_hidden_share(const msc_group_traffic *g);

/* What a rank of the stage does in a step: time[] and the groups' exposed_ns add up to the step's time. */
typedef struct {
  uint64_t time[MSC_NUM_TIMES], message_bytes;
  size_t num_groups;
  msc_group_traffic *group;
  uint64_t transfers, transfer_ns, transfer_bytes, host_bytes, disk_bytes; /* of offloaded values */
  uint64_t flops; /* of a step */
  uint64_t persistent_bytes, carried_bytes, scratch_bytes; /* scratch: the largest section's */
} msc_simulated_stage;

typedef struct {
  const char *cluster; /* the device's name */
  uint64_t step_ns, exposed_ns, memory_bytes, predicted_ns; /* predicted: by the plan, on its own cluster */
  int64_t ranks;
  uint32_t num_stages;
  msc_simulated_stage *stage;
} msc_simulation;

const char *msc_time_name(msc_time_kind kind); /* "forward" */

/* Called with an event of the step and the kind that its time counts as; MSC_NUM_TIMES for exposed collectives and
 * links. */
typedef void msc_simulated_fn(void *user, const msc_timeline_event *e, msc_time_kind kind);

/* Simulates one step. `file` must have been verified. Results live in the context's arena. Events of the step, which
 * begins at time 0, go to `event` unless it is NULL; their calls have no op, because only the file has its name.
 * Returns false after a report. */
bool msc_simulate(msc_context *ctx, const void *file, const msc_cluster *cluster, msc_simulated_fn *event, void *user,
                  msc_simulation *out);

/* ---- memory_use.c ---- */

/* Returns, for each call of a section, the bytes of scratch whose values this call or a later one of the section still
 * needs. The array lives in the arena. */
const uint64_t *msc_scratch_in_use(msc_arena *arena, plan_section s);

#endif
