/* explain_plan.h: why a plan is as it is: plan.bin in, JSON out that `msc explain` prints.
 *
 *   {"plan": NAME, "ranks": n, "mesh": "dp=2,tp=4", "predicted_step_ms": x,
 *    "search": {"step_ns", "at_least_ns", "compared"},
 *    "figures": {"step_ns", "bytes", "least_ns", "least_bytes", "free_ns"},
 *    "ops": [{"op", "loc", "by", "ways", "own_order", "inherited": [DIGITS],
 *             "chosen": WAY, "next": WAY or null, "next_costs_ns": n,
 *             "instead": [{"way": WAY, "step_ns", "bytes", "work_ns", "move_ns", "changed": [TEXT]}]}],
 *    "conflicts": [{"op", "value", "dim", "here": DIGITS, "there": DIGITS}],
 *    "collectives": [{"cause", "from_op", "from_loc", "to_op", "to_loc", "shape", "from", "to", "bytes", "ns",
 *                     "lower_bound", "steps": [{"op", "to", "bytes", "ns"}]}],
 *    "offload": [{"stage", "host_bytes", "disk_bytes", "transfers", "moved_bytes", "transfer_ms", "exposed_ms",
 *                 "hidden", "intensity", "efficiency"}],
 *    "servers": {"mode", "staleness" if there is a bound, "copies", "parameters": [NAME], "parameter_bytes",
 *                "state_bytes", "pushed_bytes"},
 *    "caches": [{"table", "rows", "table_rows", "device_bytes", "home", "home_bytes", "index_bytes", "numbers", "zipf",
 *                "hit_rate", "columns", "hit_rate_by_column"}],
 *    "products": [{"op", "batch", "m", "n", "k", "library": "preferred" or "measured", "why" if preferred}],
 *    "warnings": [TEXT]}
 *   WAY: {"cuts", "layouts", "work_ns", "move_ns", "bytes"}
 *   DIGITS: {"digits", "from", "loc", "left_out", "through": [NAME]}
 *
 * search: of the searches for the least time: what was found; at_least_ns, which no compared strategy can better (0:
 * not known); which were compared: "all", or some.  figures: by the same prices: the plan, the least with the user's
 * strategies, and the least without them and without a memory limit.  instead: of the op asked for: what the whole
 * step costs if it is cut like this.  conflicts: propagation met other digits there, and the search decided.  DIGITS
 * came from `from` through the ops `through`: the last ones, `left_out` ops before them are not listed. */
#ifndef MSC_TOOLS_EXPLAIN_PLAN_H
#define MSC_TOOLS_EXPLAIN_PLAN_H

#include <jansson.h>

#include "tools/cli.h"

/* ---- read_plan.c ---- */

/* The options of commands that take a plan or a model: how the model is compiled. */
#define CLI_MODEL_OPTIONS                                                                \
  {"target", CLI_TEXT, "cpu|cuda[:sm_90]", "of a model: what its plan would run on"},    \
      {"mcpu", CLI_TEXT, "CPU", "of a model: the CPU that code would be made for"}, {    \
    "dim", CLI_PAIRS, "NAME=SIZE", "of a model: size of a dimension that it leaves open" \
  }

typedef struct cli_plan {
  const struct cli_plan *next;
  const char *path;
  const void *data; /* the bytes of a plan.bin, verified */
  size_t bytes;
  bool of_model; /* it was compiled by this command */
} cli_plan;

/* Reads and verifies a plan; NULL after a report. A model, .fbs or IR text, is compiled as msc compile does, with the
 * same options and keys; without with_code it gets no code: times, sizes and decisions are the same. A file is read and
 * compiled once. The command must have CLI_MODEL_OPTIONS and --cluster. */
const cli_plan *cli_read_plan(cli *c, const char *path, bool with_code);

/* ---- explain_plan.c ---- */

/* The cluster that a verified plan was compiled for; NULL after a report. */
const msc_cluster *cli_cluster_of_plan(cli *c, const char *path, const void *plan);
/* Equal for names of layers that differ in numbers only: "layer3.mlp.up" and "layer4.mlp.up". */
const char *cli_name_of_alike(cli *c, const char *name);

/* Explains a plan; the caller frees the result, which is NULL after reports.  op (may be NULL): adds the cost of a step
 * in which this op is cut in other ways; cuts (may be NULL): only in this way. */
json_t *cli_explain_plan(cli *c, const char *path, const char *op, const char *cuts);

/* ---- explain_offload.c ---- */

/* Returns, of every stage that offloads: bytes that live elsewhere, transfers of a step and their bytes, the
 * predicted time of them and what of it nothing hides (hidden: the share that runs beside calls); floating-point
 * operations per byte moved, and the part of its peak that a device can reach at the most when every byte has to be
 * moved: intensity x bandwidth / (intensity x bandwidth + peak). `file` was verified; NULL: nothing is offloaded, or
 * after a report. */
json_t *cli_explain_offload(msc_context *ctx, const void *file, const msc_cluster *cluster);

/* ---- explain_servers.c ---- */

/* Returns the parameters that live on servers, their bytes and those of their state, and the bytes that a rank pushes
 * in a step. `file` must have been verified; NULL: there are none. */
json_t *cli_explain_servers(const void *file);

/* ---- explain_caches.c ---- */

/* Returns the tables of which the device holds some rows: their bytes on the device, in host memory or on disk, and of
 * the index; how many rows a step reads, and the share of them that is expected to be on the device if rows are drawn
 * by Zipf's law from all of the table (or, where a sample reads several rows, each from a part of its own). `file` must
 * have been verified; NULL: there are none. */
json_t *cli_explain_caches(const void *file);

/* ---- explain_products.c ---- */

/* Returns the products that a library computes, as `deterministic` is false: by default ("preferred"), or where
 * --autotune measured it to be faster ("measured"). `file` must have been verified; NULL: there are none. */
json_t *cli_explain_products(const void *file);

/* ---- explain_redundancy.c ---- */

/* {"redundancy": [[RANK ...] ...], "recoverable": b, "restore_group_info_list": [[RANK ...] ...], "alone":
 * [{"parameter", "state", "ranks", "partial"} ...], "change": TEXT}: ranks that hold the same parts of all parameters
 * and states; is everything somewhere else, too; of each rank those that hold all that it holds, itself included; the
 * parts that one rank holds alone, and who holds pieces of the part of the first of them; what would change it. */
json_t *cli_redundancy(cli *c, const char *path);

#endif
