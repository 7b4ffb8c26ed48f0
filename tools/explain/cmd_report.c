/* cmd_report.c: msc report: a plan, and with --run the trace of a run, in; decisions, memory and timeline as one page
 * of HTML, which fetches nothing (tools/report/page.html), out. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/plan/simulate.h"
#include "tools/cli.h"
#include "tools/explain/explain_plan.h"
#include "tools/explain/roofline.h"
#include "tools/explain/simulation.h"

static const char page[] =
#define EMBEDDED(name, text) text
#include "report.h"
#undef EMBEDDED
    ;

typedef struct {
  cli *c;
  plan_plan root;
  const msc_cluster *cluster;
  const uint64_t **in_use;  /* by section and call: bytes of scratch */
  json_t *names, *number;   /* the texts of events, and the number of each */
  json_t *events, *use;     /* use: by stage */
} reporting;

/* ---- events ---- */

static json_t *number_of_name(reporting *r, const char *name) {
  char *clean = cli_printable(name ? name : "?");
  const char *text = clean ? clean : "?";
  json_t *known = json_object_get(r->number, text);
  if (!known) {
    json_object_set_new(r->number, text, known = json_integer((json_int_t)json_array_size(r->names)));
    json_array_append_new(r->names, json_string(text));
  }
  free(clean);
  return json_incref(known);
}

static void note_event(void *user, const msc_timeline_event *e, msc_time_kind time) {
  reporting *r = user;
  plan_section s = plan_plan_sections(r->root, e->section);
  const char *name =
      e->activity == MSC_BEGINS_SECTION ? plan_section_name(s) : plan_call_name(plan_section_calls(s, e->index));
  const char *kind = time < MSC_NUM_TIMES             ? msc_time_name(time)
                     : e->activity == MSC_BUSY_LINK   ? "collective"
                     : e->activity == MSC_BUSY_TRANSFER ? "transfer"
                                                        : "wait";
  json_t *own = number_of_name(r, name);
  if (e->activity == MSC_BUSY_CALL)
    json_array_append_new(json_array_get(r->use, e->stage),
                          json_pack("[f, I, O]", (double)e->begin / 1e3, (json_int_t)r->in_use[e->section][e->index],
                                    own));
  json_array_append_new(r->events,
                        json_pack("[i, i, f, f, o, s, o, i]", (int)e->stage,
                                  e->activity == MSC_BUSY_LINK || e->activity == MSC_BUSY_TRANSFER,
                                  (double)e->begin / 1e3, (double)(e->end - e->begin) / 1e3, own, kind,
                                  number_of_name(r, plan_section_name(s)), (int)e->micro));
}

/* Adds what a rank did in the last step of a trace, from the first of its events in that step on. */
static json_t *measured_json(reporting *r, const json_t *trace) {
  const json_t *events = json_object_get(trace, "traceEvents"), *e;
  json_t *all = json_array();
  json_int_t last = -1;
  double begin = 1e300;
  size_t i;
  json_array_foreach(events, i, e) {
    json_int_t step = json_integer_value(json_object_get(json_object_get(e, "args"), "step"));
    const char *cat = json_string_value(json_object_get(e, "cat"));
    double ts = json_number_value(json_object_get(e, "ts"));
    if (!cat || !strcmp(cat, "section") || step < last) continue;
    if (step > last) last = step, begin = ts;
    if (ts < begin) begin = ts;
  }
  json_array_foreach(events, i, e) {
    const json_t *args = json_object_get(e, "args");
    const char *cat = json_string_value(json_object_get(e, "cat"));
    if (!cat || !strcmp(cat, "section") || json_integer_value(json_object_get(args, "step")) != last) continue;
    json_array_append_new(
        all, json_pack("[I, I, f, f, o, s, o]", json_integer_value(json_object_get(e, "pid")),
                       json_integer_value(json_object_get(e, "tid")),
                       json_number_value(json_object_get(e, "ts")) - begin,
                       json_number_value(json_object_get(e, "dur")),
                       number_of_name(r, json_string_value(json_object_get(e, "name"))), cat,
                       number_of_name(r, json_string_value(json_object_get(args, "section")))));
  }
  return all;
}

/* ---- the data ---- */

static json_t *memory_json(const reporting *r, const msc_simulation *m) {
  json_t *all = json_array();
  for (uint32_t i = 0; i < m->num_stages; i++)
    json_array_append_new(all, json_pack("{s:i, s:I, s:O}", "stage", (int)i, "reserved",
                                         (json_int_t)(m->stage[i].persistent_bytes + m->stage[i].carried_bytes), "use",
                                         json_array_get(r->use, i)));
  return all;
}

static json_t *text_json(const char *text) {
  char *clean = cli_printable(text ? text : "");
  json_t *t = json_string(clean ? clean : "");
  free(clean);
  return t;
}

/* Simulates the plan; everything about it that is no decision and no limit. */
static json_t *simulated_json(reporting *r, const void *file, const char *path, const char *trace) {
  msc_arena *a = msc_context_arena(r->c->ctx);
  uint32_t sections = plan_plan_sections_num(r->root), stages = plan_plan_stages_num(r->root);
  r->in_use = msc_new_array(a, const uint64_t *, sections + 1);
  for (uint32_t i = 0; i < sections; i++) r->in_use[i] = msc_scratch_in_use(a, plan_plan_sections(r->root, i));
  for (uint32_t i = 0; i < stages || i == 0; i++) json_array_append_new(r->use, json_array());
  msc_simulation m;
  if (!msc_simulate(r->c->ctx, file, r->cluster, note_event, r, &m)) return NULL;
  json_t *measured = NULL;
  if (trace) {
    json_t *root = json_load_file(trace, 0, NULL); /* cli_roofline has read it: it is a trace of this plan */
    measured = measured_json(r, root);
    json_decref(root);
  }
  json_t *config = json_loads(plan_plan_config(r->root) ? plan_plan_config(r->root) : "{}", 0, NULL);
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:O, s:O, s:o, s:o*, s:o}", "plan", text_json(path), "model",
                   text_json(plan_plan_model(r->root)), "compiler", text_json(plan_plan_compiler(r->root)), "target",
                   text_json(plan_plan_target(r->root)), "simulation", simulation_json(path, &m), "events", r->events,
                   "names", r->names, "memory", memory_json(r, &m), "measured", measured, "config",
                   config ? config : json_object());
}

static json_t *report_json(reporting *r, const char *path, const char *trace) {
  const cli_plan *read = cli_read_plan(r->c, path, false);
  if (!read) return NULL;
  r->root = plan_plan_root(read->data);
  if (!r->cluster && !(r->cluster = cli_cluster_of_plan(r->c, path, read->data))) return NULL;
  json_t *roofline = cli_roofline(r->c, path, trace, r->cluster),
         *explained = roofline ? cli_explain_plan(r->c, path, NULL, NULL) : NULL,
         *all = explained ? simulated_json(r, read->data, path, trace) : NULL;
  if (all) json_object_set(all, "calls", json_object_get(roofline, "calls"));
  if (all) json_object_set(all, "explain", explained);
  json_decref(roofline);
  json_decref(explained);
  return all;
}

/* ---- the page ---- */

/* Writes JSON so that nothing in it ends the element of the page that it stands in. */
static void write_within_page(cli_output *out, const char *json) {
  for (const char *p = json; *p;) {
    size_t n = strcspn(p, "<");
    cli_write(out, p, n);
    p += n;
    if (*p == '<') cli_write(out, "\\u003c", 6), p++;
  }
}

static int write_page(cli *c, const json_t *data) {
  static const char here[] = "@DATA@";
  const char *at = strstr(page, here);
  char *json = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(10));
  cli_output *out = json && at ? cli_open(c, cli_text(c, "o")) : NULL;
  if (out) {
    cli_write(out, page, (size_t)(at - page));
    write_within_page(out, json);
    cli_write(out, at + strlen(here), strlen(at + strlen(here)));
  }
  free(json);
  return out ? cli_close(c, out) : CLI_INPUT;
}

static int write_report_json(cli *c, const json_t *data) {
  char *json = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(10));
  cli_output *out = json ? cli_open(c, cli_text(c, "o")) : NULL;
  if (out) cli_printf(out, "%s\n", json);
  free(json);
  return out ? cli_close(c, out) : CLI_INPUT;
}

static int run_report(cli *c) {
  const char *trace = cli_text(c, "run");
  reporting r = {.c = c, .names = json_array(), .number = json_object(), .events = json_array(), .use = json_array()};
  if (trace) cli_note_input(c, trace);
  cli_note_input(c, c->operands[0]);
  bool ok = cli_claim_output(c, cli_text(c, "o")) && cli_cluster(c, &r.cluster);
  json_t *data = ok ? report_json(&r, c->operands[0], trace) : NULL;
  int code = !data ? CLI_INPUT : c->json ? write_report_json(c, data) : write_page(c, data);
  json_decref(data);
  json_decref(r.names);
  json_decref(r.number);
  json_decref(r.events);
  json_decref(r.use);
  return code;
}

static const cli_option options[] = {
    {"run", CLI_TEXT, "TRACE", "also what msc run --trace measured of this plan"},
    {"cluster", CLI_TEXT, "FILE|NAME",
     "the machine, for which a model is compiled; absent: what a plan was compiled for"},
    CLI_MODEL_OPTIONS,
    {"o", CLI_TEXT, "FILE", "write the page here instead of stdout"},
    {0},
};
const cli_command cmd_report = {"PLAN|MODEL", 1, 1, options, run_report};
