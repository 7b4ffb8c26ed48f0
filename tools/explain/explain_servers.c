/* explain_servers.c: a verified plan in; its parameters on servers, and the bytes that a step pushes and pulls, out
 * (see explain_plan.h). */
#include "codegen/plan/plan.h"
#include "tools/explain/explain_plan.h"

static bool writes(plan_call c, plan_ref what) {
  for (uint32_t i = 0; i < plan_call_buffers_num(c); i++) {
    plan_ref r = plan_call_buffers(c, i);
    if (r.written && r.space == what.space && r.offset < what.offset + what.bytes && what.offset < r.offset + r.bytes)
      return true;
  }
  return false;
}

static bool is_updated_by_servers(plan_plan root, plan_parameter p) {
  for (uint32_t i = 0; i < plan_plan_sections_num(root); i++) {
    plan_section s = plan_plan_sections(root, i);
    for (uint32_t k = 0; k < plan_section_calls_num(s) && plan_section_stage(s) == plan_parameter_stage(p); k++)
      if (plan_call_served(plan_section_calls(s, k)) == 1 && writes(plan_section_calls(s, k), plan_parameter_ref(p)))
        return true;
  }
  return false;
}

/* Bytes of the sources of served collectives. */
static uint64_t pushed_bytes(plan_plan root) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < plan_plan_sections_num(root); i++) {
    plan_section s = plan_plan_sections(root, i);
    for (uint32_t k = 0; k < plan_section_calls_num(s); k++) {
      plan_call c = plan_section_calls(s, k);
      if (plan_call_served(c) != 1 || plan_call_kind(c) != PLAN_CALL_KIND_COLLECTIVE) continue;
      for (uint32_t n = 0; n < plan_call_buffers_num(c); n += 2) bytes += plan_call_buffers(c, n).bytes;
    }
  }
  return bytes;
}

json_t *cli_explain_servers(const void *file) {
  plan_plan root = plan_plan_root(file);
  uint64_t bytes = 0, state = 0;
  if (!plan_plan_served(root)) return NULL;
  json_t *names = json_array();
  for (uint32_t i = 0; i < plan_plan_parameters_num(root); i++) {
    plan_parameter p = plan_plan_parameters(root, i);
    if (!is_updated_by_servers(root, p)) continue;
    if (plan_parameter_state(p)) state += plan_parameter_ref(p).bytes;
    else bytes += plan_parameter_ref(p).bytes, json_array_append_new(names, json_string(plan_parameter_name(p)));
  }
  json_t *servers =
      json_pack("{s:s, s:i, s:o, s:I, s:I, s:I}", "mode", plan_plan_asynchronous(root) ? "async" : "sync", "copies",
                (int)plan_plan_copies(root), "parameters", names, "parameter_bytes", (json_int_t)bytes, "state_bytes",
                (json_int_t)state, "pushed_bytes", (json_int_t)pushed_bytes(root));
  if (plan_plan_asynchronous(root) && plan_plan_staleness(root) != UINT32_MAX)
    json_object_set_new(servers, "staleness", json_integer(plan_plan_staleness(root)));
  return servers;
}
