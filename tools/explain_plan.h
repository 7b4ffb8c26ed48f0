/* explain_plan.h: why a plan is as it is: plan.bin in, JSON out that `msc explain` prints.
 *
 *   {"plan": NAME, "ranks": n, "mesh": "dp=2,tp=4", "predicted_step_ms": x,
 *    "search": {"step_ns", "at_least_ns"},    of the searches for the least time: what it found, what no strategy can better; 0: not known
 *    "ops": [{"op", "loc", "by", "chosen": WAY, "next": WAY or null, "next_costs_ns": n}],
 *    "collectives": [{"from_op", "from_loc", "to_op", "to_loc", "shape", "from", "to", "bytes", "ns", "lower_bound", "steps": [{"op", "to", "bytes", "ns"}]}],
 *    "warnings": [TEXT]}                      WAY: {"cuts", "layouts", "work_ns", "move_ns", "bytes"} */
#ifndef MSC_TOOLS_EXPLAIN_PLAN_H
#define MSC_TOOLS_EXPLAIN_PLAN_H

#include <jansson.h>

#include "tools/cli.h"

/* The caller's to free; NULL after reports. */
json_t *cli_explain_plan(cli *c, const char *path);

#endif
