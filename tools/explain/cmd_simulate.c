/* cmd_simulate.c: msc simulate PLAN: a plan's step on a described cluster: its time, where it goes, memory and traffic
 * of every stage; with --trace, when each call runs. */
#include <jansson.h>
#include <string.h>

#include "codegen/plan/simulate.h"
#include "tools/cli.h"
#include "tools/explain/explain_plan.h"
#include "tools/explain/simulation.h"

/* ---- the timeline as a trace ---- */

typedef struct {
  plan_plan root;
  json_t *events;
} tracing;

static json_t *name_json(const char *s) {
  json_t *t = json_string(s ? s : "?");
  return t ? t : json_string("?"); /* a name that is no UTF-8 */
}

static int thread_of(msc_activity a) { return a == MSC_BUSY_LINK ? 1 : a == MSC_BUSY_TRANSFER ? 2 : 0; }

static void add_trace_event(void *user, const msc_timeline_event *e, msc_time_kind kind) {
  static const char *const before[] = {"", "", "wait: ", "wait: ", "wait for stage: ", "", "wait: "},
                    *const category[] = {"call", "collective", "wait", "wait", "bubble", "transfer", "wait"};
  tracing *t = user;
  (void)kind;
  plan_section s = plan_plan_sections(t->root, e->section);
  const char *name = plan_call_name(plan_section_calls(s, e->index));
  json_t *title = json_sprintf("%s%s", before[e->activity], name ? name : "?");
  json_array_append_new(
      t->events,
      json_pack("{s:s, s:o, s:s, s:i, s:i, s:f, s:f, s:{s:o, s:i, s:i}}", "ph", "X", "name",
                title ? title : json_string("?"), "cat", category[e->activity], "pid", (int)e->stage, "tid",
                thread_of(e->activity), "ts", (double)e->begin / 1e3, "dur", (double)(e->end - e->begin) / 1e3, "args",
                "section", name_json(plan_section_name(s)), "call", (int)e->index, "micro", (int)e->micro));
}

static json_t *thread_label(const char *what, int stage, int thread, const char *name) {
  return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid", stage, "tid", thread, "args",
                   "name", name);
}

static int write_trace(cli *c, const char *path, json_t *events, uint32_t stages) {
  for (uint32_t i = 0; i < stages; i++) {
    char name[32];
    snprintf(name, sizeof name, "stage %u", i);
    json_array_append_new(events, thread_label("process_name", (int)i, 0, name));
    json_array_append_new(events, thread_label("thread_name", (int)i, 0, "calls"));
    json_array_append_new(events, thread_label("thread_name", (int)i, 1, "collectives"));
    json_array_append_new(events, thread_label("thread_name", (int)i, 2, "transfers"));
  }
  json_t *file = json_pack("{s:O, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
  char *text = json_dumps(file, JSON_COMPACT | JSON_REAL_PRECISION(15));
  int code = text ? cli_write_file(c, path, text, strlen(text)) : CLI_ENVIRONMENT;
  free(text);
  json_decref(file);
  return code;
}

/* ---- the figures ---- */

static int write_figures_json(cli *c, const msc_simulation *m) {
  json_t *all = simulation_json(c->operands[0], m);
  char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
  cli_output *out = text ? cli_open(c, cli_text(c, "o")) : NULL;
  if (out) cli_printf(out, "%s\n", text);
  free(text);
  json_decref(all);
  return out ? cli_close(c, out) : CLI_ENVIRONMENT;
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
    cli_printf(out, "  received in collectives among %s: %" PRIu64 " bytes a step\n", s->group[i].axes,
               s->group[i].bytes);
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

/* A plan may be simulated on a device that is too small for it, and that is said. */
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
  const void *file = cli_read_plan(c, path);
  if (!file) return CLI_INPUT;
  if (!cluster && !(cluster = cli_cluster_of_plan(c, path, file))) return CLI_INPUT;
  tracing t = {plan_plan_root(file), trace ? json_array() : NULL};
  msc_simulation m;
  int code = msc_simulate(c->ctx, file, cluster, trace ? add_trace_event : NULL, &t, &m) ? CLI_OK : CLI_INPUT;
  if (!code) warn_of_memory(c, &m, cluster);
  if (!code && trace) code = write_trace(c, trace, t.events, m.num_stages);
  if (!code) code = c->json ? write_figures_json(c, &m) : print_figures(c, &m);
  json_decref(t.events);
  return code;
}

static const cli_option options[] = {
    {"cluster", CLI_TEXT, "FILE|NAME",
     "the machine (msc calibrate), or a100, cpu, h100, h200; absent: what the plan was compiled for"},
    {"trace", CLI_TEXT, "t.json", "write when each call runs, for Perfetto or chrome://tracing"},
    {"o", CLI_TEXT, "FILE", "write the figures here instead of stdout"},
    {0},
};
const cli_command cmd_simulate = {"PLAN", 1, 1, options, run_simulate};
