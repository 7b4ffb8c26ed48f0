/* call_times.c: the calls of a plan and a described cluster in; the time of every call, and of a step, out
 * (timeline.h). */
#include <string.h>

#include "codegen/plan/timeline.h"
#include "passes/7_lower/target.h"
#include "passes/7_lower/transfer.h"

/* Returns the time of a transfer; bytes that stay on a rank use no link. */
static uint64_t transfer_ns(const msc_plan *p, const msc_cost *cost, const msc_op *op) {
  msc_cost_transfer t;
  return op->kind == OP_comm && msc_transfer_of(cost, op, p->arena, &t) ? (uint64_t)msc_cost_collective(cost, &t) : 0;
}

/* Returns the time of a message from a rank of one stage to the rank at the same position in another. */
static uint64_t message_ns(const msc_plan *p, const msc_cost *cost, const msc_plan_call *c) {
  const msc_plan_message *m = &p->message[c->index];
  if (m->from == m->to) return 0;
  int level = msc_cost_level_between(cost, m->from * cost->stride[0], m->to * cost->stride[0], cost->stride[0]);
  return (uint64_t)msc_cost_collective(
      cost,
      &(msc_cost_transfer){.verb = MSC_PERMUTE, .level = level, .ranks = 2, .bytes = (int64_t)m->bytes, .peers = 1});
}

/* Returns the time of a transfer between the device and host memory or disk. What the host runs is taken to read and
 * write its memory as fast as a transfer does. */
static uint64_t offload_ns(const msc_cost *cost, const msc_plan_call *c) {
  bool disk = c->kind == PLAN_CALL_KIND_TRANSFER &&
              (c->buffer[0].space == PLAN_SPACE_DISK || c->buffer[1].space == PLAN_SPACE_DISK);
  return msc_home_ns(cost->cluster, disk ? MSC_HOME_DISK : MSC_HOME_CPU, c->bytes);
}

msc_cost_grid msc_plan_grid(uint64_t extent, uint64_t grain, uint32_t threads) {
  return threads ? (msc_cost_grid){(int64_t)(extent / grain + (extent % grain != 0)), threads} : (msc_cost_grid){0};
}

/* Returns the time of the kernel that takes a call's tiles: the call's threads run it between tiles, so nothing of it
 * hides behind the call, and it needs no launch. 0 if the call's own bytes and operations are those of both. */
static uint64_t epilogue_ns(const msc_cost *cost, const msc_plan_call *e) {
  if (!e || !e->bytes) return 0;
  double arithmetic = (double)e->flops * 1e9 / cost->cluster->flops_per_s[e->dtype],
         memory = (double)e->bytes * 1e9 / cost->cluster->bytes_per_s;
  return (uint64_t)(arithmetic > memory ? arithmetic : memory);
}

uint64_t msc_plan_call_ns(const msc_plan *p, const msc_cost *cost, const msc_plan_call *c) {
  if (c->kind == PLAN_CALL_KIND_MESSAGE) return message_ns(p, cost, c);
  if (msc_plan_runs_beside(c)) return offload_ns(cost, c);
  return epilogue_ns(cost, c->epilogue) +
         (uint64_t)(c->is_product ? msc_cost_product(cost, c->dtype, (double)c->flops, (double)c->bytes)
                                  : msc_cost_kernel(cost, c->dtype, (double)c->flops, (double)c->bytes, c->grid));
}

/* Sets the element type and kind of arithmetic by which the call is priced. The gradient of a weight is f32, but its
 * product multiplies bf16. */
static void set_arithmetic(msc_plan_call *c) {
  c->dtype = c->op->num_out ? c->op->out[0].type->dtype : MSC_F32;
  if (c->kind == PLAN_CALL_KIND_MATMUL) c->dtype = c->op->in[0].value->type->dtype;
  c->is_product = c->op->num_out && msc_info(c->op)->cost == MSC_COST_FLOPS;
  for (msc_plan_call *e = c->epilogue; e; e = e->epilogue)
    e->dtype = e->op->num_out ? e->op->out[0].type->dtype : MSC_F32;
}

uint64_t msc_plan_begin_ns(const msc_cluster *cluster, const char *section) {
  size_t n = strlen(section);
  bool once = n > 2 && (!strcmp(section + n - 2, ".P") || !strcmp(section + n - 2, ".U"));
  return once ? 0 : (uint64_t)cluster->section_ns;
}

static void price_calls(msc_plan *p, const msc_cost *cost) {
  for (size_t s = 0; s < p->num_sections; s++) {
    p->section[s].begin_ns = msc_plan_begin_ns(cost->cluster, p->section[s].name);
    for (size_t i = 0; i < p->section[s].num_calls; i++) {
      msc_plan_call *c = &p->section[s].call[i];
      set_arithmetic(c);
      bool moves = c->kind == PLAN_CALL_KIND_COLLECTIVE;
      c->predicted_ns = moves ? transfer_ns(p, cost, c->op) : msc_plan_call_ns(p, cost, c);
    }
  }
}

uint64_t msc_plan_uses(const msc_plan *p, uint32_t section) {
  const msc_plan_program *g = &p->program[0];
  uint32_t stage = p->section[section].stage;
  uint64_t uses = 0;
  if (p->num_programs == 0) return 0;
  if (!g->entry) return section == 0;
  for (uint32_t i = 0; i < g->num_entries[stage]; i++) uses += g->entry[stage][i].section == section;
  return uses;
}

bool msc_plan_predict_times(msc_plan *p, const msc_cluster *cluster) {
  static const msc_timeline_watch nobody;
  static const msc_plan_program one_section;
  msc_cost cost;
  msc_cost_of(cluster, &p->module->mesh, &cost);
  p->copies_in_place = msc_target_of(p->module)->is_host;
  price_calls(p, &cost);
  if (!p->num_sections) return true;
  MSC_TRY(msc_timeline_run(p, p->num_programs ? p->program : &one_section, &nobody, &p->predicted_step_ns,
                           &p->exposed_comm_ns));
  for (uint32_t i = 1; i < p->num_programs; i++) {
    uint64_t ns, exposed; /* other programs are simulated only to show that they end */
    if (p->program[i].entry) MSC_TRY(msc_timeline_run(p, &p->program[i], &nobody, &ns, &exposed));
  }
  return true;
}
