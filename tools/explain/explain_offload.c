/* explain_offload.c: a verified plan in; its values in host memory and on disk, the transfers of a step, and the share
 * of their time that calls hide, out (see explain_plan.h). */
#include "codegen/plan/simulate.h"
#include "tools/explain/explain_plan.h"
#include "tools/explain/simulation.h"

static json_t *transfers_json(const msc_simulated_stage *s, uint32_t number, const msc_cluster *cluster) {
  double moved = (double)s->transfer_bytes, busy = (double)s->transfer_ns, waits = (double)s->time[MSC_TIME_OFFLOAD],
         intensity = moved > 0 ? (double)s->flops / moved : 0,
         rate = busy > 0 ? intensity * moved * 1e9 / busy : 0; /* operations per second that transfers can feed */
  return json_pack("{s:i, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "stage", (int)number, "host_bytes",
                   (json_int_t)s->host_bytes, "disk_bytes", (json_int_t)s->disk_bytes, "transfers",
                   (json_int_t)s->transfers, "moved_bytes", (json_int_t)s->transfer_bytes, "transfer_ms",
                   simulation_ms(s->transfer_ns), "exposed_ms", simulation_ms(s->time[MSC_TIME_OFFLOAD]), "hidden",
                   busy > waits ? 1 - waits / busy : 0, "intensity", intensity, "efficiency",
                   rate / (rate + cluster->flops_per_s[MSC_F32]));
}

json_t *cli_explain_offload(msc_context *ctx, const void *file, const msc_cluster *cluster) {
  msc_simulation m;
  plan_plan root = plan_plan_root(file);
  bool any = false;
  for (uint32_t i = 0; i < plan_plan_stages_num(root); i++)
    any |= plan_stage_host_bytes(plan_plan_stages(root, i)) || plan_stage_disk_bytes(plan_plan_stages(root, i));
  if (!any || !msc_simulate(ctx, file, cluster, NULL, NULL, &m)) return NULL;
  json_t *all = json_array();
  for (uint32_t i = 0; i < m.num_stages; i++)
    if (m.stage[i].host_bytes + m.stage[i].disk_bytes)
      json_array_append_new(all, transfers_json(&m.stage[i], i, cluster));
  return all;
}
