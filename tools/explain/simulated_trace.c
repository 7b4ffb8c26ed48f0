/* simulated_trace.c: the timeline of a simulated step in; a trace for Chrome or Perfetto out: a process for each stage,
 * with threads for its calls, collectives and transfers. */
#include "tools/explain/simulated_trace.h"

#include <string.h>

static json_t *name_json(const char *s) {
  json_t *t = json_string(s ? s : "?");
  return t ? t : json_string("?"); /* a name that is no UTF-8 */
}

static int thread_of(msc_activity a) { return a == MSC_BUSY_LINK ? 1 : a == MSC_BUSY_TRANSFER ? 2 : 0; }

void simulated_trace_add(void *user, const msc_timeline_event *e, msc_time_kind kind) {
  static const char *const before[] = {"", "", "wait: ", "wait: ", "wait for stage: ", "", "wait: ", "begin: "},
                           *const category[] = {"call",   "collective", "wait", "wait",
                                                "bubble", "transfer",   "wait", "begin"};
  simulated_trace *t = user;
  (void)kind;
  plan_section s = plan_plan_sections(t->root, e->section);
  const char *name =
      e->activity == MSC_BEGINS_SECTION ? plan_section_name(s) : plan_call_name(plan_section_calls(s, e->index));
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

int simulated_trace_write(cli *c, const char *path, json_t *events, uint32_t stages) {
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
