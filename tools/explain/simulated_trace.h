/* simulated_trace.h: the events of a simulated step in; a trace for Chrome or Perfetto out. */
#ifndef MSC_TOOLS_SIMULATED_TRACE_H
#define MSC_TOOLS_SIMULATED_TRACE_H

#include <jansson.h>

#include "codegen/plan/simulate.h"
#include "tools/cli.h"
#include "tools/explain/explain_plan.h"

/* A trace under way: the plan, and a JSON array that is the caller's to free. */
typedef struct {
  plan_plan root;
  json_t *events;
} simulated_trace;

/* Adds an event; for msc_simulate, `user` is a simulated_trace. */
void simulated_trace_add(void *user, const msc_timeline_event *e, msc_time_kind kind);
/* Names the stages and writes the file; returns an exit code. */
int simulated_trace_write(cli *c, const char *path, json_t *events, uint32_t stages);

#endif
