/* roofline.h: plan.bin and a trace of `msc run` in; for every call the least time that it can take, and the time that
 * it took, as JSON out.
 *
 *   {"device": TEXT, "flops_per_s": n, "bytes_per_s": n,
 *    "calls": [{"section", "call", "op", "kind", "times", "bytes", "flops", "bound", "limit_ns", "predicted_ns",
 *               "measured_ns"}],
 *    "slow": [number in calls]}
 *
 * One object per call of a section that a training step runs (the first program), `times` of a step.  bound: what
 * takes longest of "memory", "arithmetic", "launch" and "links"; limit_ns: that time.  predicted_ns is the plan's.
 * measured_ns, with a trace: the median over ranks, micro-batches and all steps but the first.  slow: calls bound by
 * memory that take more than 10/9 of the limit. */
#ifndef MSC_TOOLS_ROOFLINE_H
#define MSC_TOOLS_ROOFLINE_H

#include <jansson.h>

#include "tools/cli.h"

/* The caller's to free; NULL after a report.  `trace` may be NULL; `cluster`: the machine, NULL: what the plan was
 * compiled for. */
json_t *cli_roofline(cli *c, const char *plan, const char *trace, const msc_cluster *cluster);

/* Prints the result of cli_roofline as text: calls of layers that are alike in one row, the longest first. */
void cli_print_roofline(cli *c, cli_output *out, const json_t *told);

#endif
