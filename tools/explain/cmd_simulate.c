/* cmd_simulate.c: msc simulate: a plan, or a model, and a described cluster in; the time of a step, where it goes,
 * memory and traffic of every stage, and with --trace when each call runs, out. */
#include <jansson.h>
#include <string.h>

#include "codegen/plan/simulate.h"
#include "tools/cli.h"
#include "tools/explain/explain_plan.h"
#include "tools/explain/simulated_trace.h"
#include "tools/explain/simulation.h"

/* ---- the figures ---- */

static int write_figures_json(cli *c, const msc_simulation *m) {
  json_t *all = simulation_json(c->operands[0], m);
  char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
  cli_output *out = text ? cli_open(c, cli_text(c, "o")) : NULL;
  if (out) cli_printf(out, "%s\n", text);
  free(text);
  json_decref(all);
  return out ? cli_close(c, out) : CLI_INPUT;
}

static void print_share(cli_output *out, const char *what, uint64_t ns, uint64_t step_ns) {
  if (ns) cli_printf(out, "  %12.3f ms %5.1f %%  %s\n", simulation_ms(ns), 100 * (double)ns / (double)step_ns, what);
}

static void print_stage(cli *c, cli_output *out, const msc_simulation *m, uint32_t number) {
  const msc_simulated_stage *s = &m->stage[number];
  msc_arena *a = msc_context_arena(c->ctx);
  if (m->num_stages > 1) cli_printf(out, "stage %u\n", number);
  for (int i = 0; i < MSC_NUM_TIMES; i++) print_share(out, msc_time_name((msc_time_kind)i), s->time[i], m->step_ns);
  for (size_t i = 0; i < s->num_groups; i++)
    print_share(out, msc_arena_printf(a, "collectives among %s, exposed", s->group[i].axes), s->group[i].exposed_ns,
                m->step_ns);
  for (size_t i = 0; i < s->num_groups; i++)
    cli_printf(out,
               "  received in collectives among %s: %" PRIu64 " bytes a step in %.3f ms, %.1f %% of it beside calls\n",
               s->group[i].axes, s->group[i].bytes, simulation_ms(s->group[i].link_ns),
               100 * msc_hidden_share(&s->group[i]));
  if (s->message_bytes) cli_printf(out, "  received in messages: %" PRIu64 " bytes a step\n", s->message_bytes);
  if (s->transfers)
    cli_printf(out, "  transfers of what is offloaded: %" PRIu64 ", %" PRIu64 " bytes a step\n", s->transfers,
               s->transfer_bytes);
  cli_printf(out, "  memory: %" PRIu64 " bytes persistent", s->persistent_bytes);
  if (s->carried_bytes) cli_printf(out, ", %" PRIu64 " of micro-batches under way", s->carried_bytes);
  cli_printf(out, ", %" PRIu64 " of values of a section\n", s->scratch_bytes);
}

static int print_figures(cli *c, const msc_simulation *m) {
  cli_output *out = cli_open(c, cli_text(c, "o"));
  if (!out) return CLI_INPUT;
  cli_printf(out, "a step takes %.3f ms on %" PRId64 " x %s, %.3f ms of it exposed communication\n",
             simulation_ms(m->step_ns), m->ranks, m->cluster, simulation_ms(m->exposed_ns));
  for (uint32_t i = 0; i < m->num_stages; i++) print_stage(c, out, m, i);
  if (m->memory_bytes) cli_printf(out, "%" PRIu64 " bytes of memory per rank\n", m->memory_bytes);
  return cli_close(c, out);
}

/* Warns if the plan needs more memory than the device has; it is simulated all the same. */
static void warn_of_memory(cli *c, const msc_simulation *m, const msc_cluster *cluster) {
  if (m->memory_bytes > (uint64_t)cluster->memory_bytes)
    msc_warning(c->ctx, MSC_E_CLUSTER, cli_loc(c, c->operands[0]),
                "the plan needs %" PRIu64 " bytes per rank, and a device of the cluster has %" PRId64, m->memory_bytes,
                cluster->memory_bytes);
}

static int run_simulate(cli *c) {
  const msc_cluster *cluster;
  const char *path = c->operands[0], *trace = cli_text(c, "trace");
  if (!cli_claim_output(c, cli_text(c, "o")) || !cli_claim_output(c, trace) || !cli_cluster(c, &cluster))
    return CLI_INPUT;
  const cli_plan *plan = cli_read_plan(c, path, false);
  if (!plan) return CLI_INPUT;
  if (!cluster && !(cluster = cli_cluster_of_plan(c, path, plan->data))) return CLI_INPUT;
  simulated_trace t = {plan_plan_root(plan->data), trace ? json_array() : NULL};
  msc_simulation m;
  int code = msc_simulate(c->ctx, plan->data, cluster, trace ? simulated_trace_add : NULL, &t, &m) ? CLI_OK : CLI_INPUT;
  if (!code) warn_of_memory(c, &m, cluster);
  if (!code && trace) code = simulated_trace_write(c, trace, t.events, m.num_stages);
  if (!code) code = c->json ? write_figures_json(c, &m) : print_figures(c, &m);
  json_decref(t.events);
  return code;
}

static const cli_option options[] = {
    {"cluster", CLI_TEXT, "FILE|NAME",
     "the machine (msc calibrate), or a100, cpu, h100, h200, for which a model is compiled; absent: what a plan was "
     "compiled for"},
    CLI_MODEL_OPTIONS,
    {"trace", CLI_TEXT, "t.json", "write when each call runs, for Perfetto or chrome://tracing"},
    {"o", CLI_TEXT, "FILE", "write the figures here instead of stdout"},
    {0},
};
const cli_command cmd_simulate = {"PLAN|MODEL", 1, 1, options, run_simulate};
