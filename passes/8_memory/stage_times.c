/* stage_times.c: times and messages of every virtual stage, and times of updates, from lowered sections. */
#include "passes/8_memory/overlap.h"
#include "passes/8_memory/stage_costs.h"
#include "passes/time_model.h"

/* The time of the slowest message that a section sends to another stage. */
static int64_t slowest_message_ns(const msc_cost *cost, const msc_func *f, int64_t stage) {
  int64_t most = 0, ranks = cost->stride[0];
  for (const msc_op *op = f ? f->body->first : NULL; op; op = op->next) {
    if (op->kind != OP_stage_send || msc_op_int(op, MSC_FACT(stage)) == stage) continue;
    int level = msc_cost_level_between(cost, stage * ranks, msc_op_int(op, MSC_FACT(stage)) * ranks, ranks);
    int64_t ns = msc_cost_collective(cost, &(msc_cost_transfer){.verb = MSC_PERMUTE,
                                                                .level = level,
                                                                .ranks = 2,
                                                                .bytes = msc_type_bytes(op->in[0].value->type),
                                                                .peers = 1});
    if (ns > most) most = ns;
  }
  return most;
}

msc_section_cost *msc_stage_costs(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape) {
  msc_section_cost *cost = msc_new_array(pass->scratch, msc_section_cost, shape->stages * shape->chunks);
  msc_cost of;
  msc_cost_of(msc_pass_cluster(pass), &m->mesh, &of);
  for (int k = 0; k < shape->stages * shape->chunks; k++) {
    int64_t stage = shape->place[k], chunk = msc_chunk_of(shape, k),
            *ns[] = {&cost[k].forward, &cost[k].backward, &cost[k].weight};
    for (int work = 0; work < MSC_NUM_WORKS; work++) {
      msc_func *f = msc_find_section(m, MSC_PROGRAM_TRAIN, (msc_section_kind)work, stage, chunk);
      if (f) *ns[work] = (int64_t)msc_section_ns(pass, f);
      int64_t hop = slowest_message_ns(&of, f, stage),
              *between = work == MSC_BACKWARD && k ? &cost[k - 1].hop : &cost[k].hop;
      if (hop > *between) *between = hop;
    }
    int64_t both = msc_carried_bytes(m, MSC_SLOT_FW, stage, chunk);
    cost[k].kept = msc_carried_bytes(m, MSC_SLOT_FB, stage, chunk) + both;
    cost[k].kept_for_weight = msc_carried_bytes(m, MSC_SLOT_BW, stage, chunk) + both;
  }
  return cost;
}

int64_t *msc_stage_updates(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape) {
  int64_t *ns = msc_new_array(pass->scratch, int64_t, shape->stages);
  for (int i = 0; i < shape->stages; i++) {
    msc_func *f = msc_find_section(m, MSC_PROGRAM_TRAIN, MSC_SECTION_U, i, 0);
    if (f) ns[i] = (int64_t)msc_section_ns(pass, f);
  }
  return ns;
}
