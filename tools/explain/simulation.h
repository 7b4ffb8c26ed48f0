/* simulation.h: the simulation of a plan on a described cluster in; JSON out.
 *
 *   {"plan", "cluster", "ranks", "step_ms", "exposed_ms", "planned_step_ms", "memory_bytes",
 *    "stages": [{"stage", "ms": {"forward", "recompute", "backward", "optimizer", "launch", "messages", "bubble"},
 *                "exposed_ms": {AXES: n}, "link_ms": {AXES: n}, "received_bytes": {AXES: n}, "hidden_bytes": {AXES: n},
 *                "message_bytes", "persistent_bytes", "carried_bytes", "scratch_bytes"}]}
 *
 * Of each stage ms and exposed_ms, collectives by the axes that they are among, add up to step_ms.  link_ms: the time
 * that these collectives take, hidden_bytes: the part of their bytes that arrives while calls run.  planned_step_ms:
 * what the plan says, for the cluster that it was compiled for. */
#ifndef MSC_TOOLS_SIMULATION_H
#define MSC_TOOLS_SIMULATION_H

#include <jansson.h>

#include "codegen/plan/simulate.h"

static inline double simulation_ms(uint64_t ns) { return (double)ns / 1e6; }
/* The caller's to free. */
json_t *simulation_json(const char *plan, const msc_simulation *m);

#endif
