/* simulation.c: a simulated plan in, JSON out (see simulation.h). */
#include "tools/explain/simulation.h"

static json_t *stage_json(const msc_simulated_stage *s, uint32_t number) {
  json_t *time = json_object(), *exposed = json_object(), *link = json_object(), *received = json_object(),
         *hidden = json_object();
  for (int i = 0; i < MSC_NUM_TIMES; i++)
    json_object_set_new(time, msc_time_name((msc_time_kind)i), json_real(simulation_ms(s->time[i])));
  for (size_t i = 0; i < s->num_groups; i++) {
    json_object_set_new(exposed, s->group[i].axes, json_real(simulation_ms(s->group[i].exposed_ns)));
    json_object_set_new(link, s->group[i].axes, json_real(simulation_ms(s->group[i].link_ns)));
    json_object_set_new(received, s->group[i].axes, json_integer((json_int_t)s->group[i].bytes));
    double arrived = (double)s->group[i].bytes * msc_hidden_share(&s->group[i]);
    json_object_set_new(hidden, s->group[i].axes, json_integer((json_int_t)arrived));
  }
  return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "stage", (int)number, "ms", time, "exposed_ms",
                   exposed, "link_ms", link, "received_bytes", received, "hidden_bytes", hidden, "message_bytes",
                   (json_int_t)s->message_bytes, "persistent_bytes", (json_int_t)s->persistent_bytes, "carried_bytes",
                   (json_int_t)s->carried_bytes, "scratch_bytes", (json_int_t)s->scratch_bytes);
}

json_t *simulation_json(const char *plan, const msc_simulation *m) {
  json_t *stages = json_array();
  for (uint32_t i = 0; i < m->num_stages; i++) json_array_append_new(stages, stage_json(&m->stage[i], i));
  return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:I, s:o}", "plan", plan, "cluster", m->cluster, "ranks",
                   (json_int_t)m->ranks, "step_ms", simulation_ms(m->step_ns), "exposed_ms",
                   simulation_ms(m->exposed_ns), "planned_step_ms", simulation_ms(m->predicted_ns), "memory_bytes",
                   (json_int_t)m->memory_bytes, "stages", stages);
}
