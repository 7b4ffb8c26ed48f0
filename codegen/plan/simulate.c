/* simulate.c: a plan.bin and a cluster in; times, memory and traffic of every stage out (simulate.h).  The file's calls
 * become the records of plan.h, priced on the cluster; the timeline runs them, and the times of its events are
 * summed. */
#include "codegen/plan/simulate.h"

#include <string.h>

typedef struct {
  msc_plan plan;
  plan_plan root;
  msc_module module; /* its mesh alone */
  msc_cost cost;
  msc_simulation *out;
  const char ***axes;    /* by section and call: the axes of a collective, else NULL */
  uint8_t **kind;        /* by section and call: msc_time_kind */
  uint64_t begin;        /* when the step whose events the caller gets begins, on the stage that begins it first */
  msc_simulated_fn *event;
  void *user;
} simulating;

static const char *blank_if_absent(const char *s) { return s ? s : ""; }

const char *msc_time_name(msc_time_kind kind) {
  static const char *const names[MSC_NUM_TIMES] = {"forward",  "recompute", "backward", "optimizer",
                                                   "launch",   "messages",  "transfers", "bubble"};
  return names[kind];
}

/* ---- the file as records ---- */

static void read_plan_mesh(simulating *s) {
  msc_mesh *mesh = &s->module.mesh;
  mesh->num_axes = (int)plan_plan_mesh_num(s->root);
  for (int i = 0; i < mesh->num_axes; i++) {
    plan_axis a = plan_plan_mesh(s->root, (uint32_t)i);
    mesh->axis[i].name = msc_intern(s->plan.ctx, blank_if_absent(plan_axis_name(a)));
    mesh->axis[i].size = plan_axis_size(a);
  }
  s->plan.module = &s->module;
}

static void read_plan_call(simulating *s, plan_call from, msc_plan_call *to) {
  *to = (msc_plan_call){.kind = plan_call_kind(from),
                        .index = plan_call_index(from),
                        .num_buffers = plan_call_buffers_num(from),
                        .bytes = plan_call_bytes(from),
                        .flops = plan_call_flops(from),
                        .dtype = (msc_dtype)plan_call_dtype(from),
                        .is_product = plan_call_is_product(from)};
  if (to->kind == PLAN_CALL_KIND_KERNEL && to->index < plan_plan_kernels_num(s->root) && plan_call_grain(from))
    to->grid = msc_plan_grid(plan_call_extent(from), plan_call_grain(from),
                             plan_kernel_threads(plan_plan_kernels(s->root, to->index)));
  to->buffer = msc_new_array(s->plan.arena, plan_ref, to->num_buffers + 1);
  for (uint32_t i = 0; i < to->num_buffers; i++) to->buffer[i] = plan_call_buffers(from, i);
  if (!has_plan_call_epilogue(from)) return;
  to->epilogue = msc_new(s->plan.arena, msc_plan_call);
  read_plan_call(s, plan_call_epilogue(from), to->epilogue);
}

static void read_sections(simulating *s) {
  msc_plan *p = &s->plan;
  p->num_sections = plan_plan_sections_num(s->root);
  p->section = msc_new_array(p->arena, msc_plan_section, p->num_sections + 1);
  s->axes = msc_new_array(p->arena, const char **, p->num_sections + 1);
  s->kind = msc_new_array(p->arena, uint8_t *, p->num_sections + 1);
  for (uint32_t i = 0; i < p->num_sections; i++) {
    plan_section from = plan_plan_sections(s->root, i);
    msc_plan_section *to = &p->section[i];
    *to = (msc_plan_section){.name = blank_if_absent(plan_section_name(from)),
                             .num_calls = plan_section_calls_num(from),
                             .scratch_bytes = plan_section_scratch_bytes(from),
                             .stage = plan_section_stage(from),
                             .inputs = plan_section_inputs(from),
                             .copies = plan_section_copies(from)};
    to->begin_ns = msc_plan_begin_ns(s->cost.cluster, to->name);
    to->call = msc_new_array(p->arena, msc_plan_call, to->num_calls + 1);
    s->axes[i] = msc_new_array(p->arena, const char *, to->num_calls + 1);
    s->kind[i] = msc_new_array(p->arena, uint8_t, to->num_calls + 1);
    for (uint32_t k = 0; k < to->num_calls; k++) read_plan_call(s, plan_section_calls(from, k), &to->call[k]);
  }
}

static void read_programs(simulating *s) {
  msc_plan *p = &s->plan;
  p->num_programs = plan_plan_programs_num(s->root);
  p->program = msc_new_array(p->arena, msc_plan_program, p->num_programs + 1);
  for (uint32_t i = 0; i < p->num_programs; i++) {
    plan_program from = plan_plan_programs(s->root, i);
    msc_plan_program *to = &p->program[i];
    uint32_t stages = plan_program_stages_num(from);
    *to = (msc_plan_program){.name = blank_if_absent(plan_program_name(from)), .micro = plan_program_micro(from)};
    if (stages < p->num_stages) continue;
    to->entry = msc_new_array(p->arena, plan_entry *, stages + 1);
    to->num_entries = msc_new_array(p->arena, uint32_t, stages + 1);
    for (uint32_t k = 0; k < stages; k++) {
      plan_lane lane = plan_program_stages(from, k);
      to->num_entries[k] = plan_lane_entries_num(lane);
      to->entry[k] = msc_new_array(p->arena, plan_entry, to->num_entries[k] + 1);
      for (uint32_t e = 0; e < to->num_entries[k]; e++) to->entry[k][e] = plan_lane_entries(lane, e);
    }
  }
}

static void read_messages(simulating *s) {
  msc_plan *p = &s->plan;
  p->num_messages = plan_plan_messages_num(s->root);
  p->message = msc_new_array(p->arena, msc_plan_message, p->num_messages + 1);
  for (uint32_t i = 0; i < p->num_messages; i++) {
    plan_message m = plan_plan_messages(s->root, i);
    p->message[i] = (msc_plan_message){plan_message_from(m), plan_message_to(m), plan_message_depth(m),
                                       plan_message_bytes(m)};
  }
}

/* ---- prices ---- */

/* Sets the time of a collective when it runs alone, and the group of mesh axes that its time and bytes count for. */
static void price_transfer(simulating *s, plan_transfer t) {
  msc_plan_section *section = &s->plan.section[plan_transfer_section(t)];
  msc_plan_call *c = &section->call[plan_transfer_call(t)];
  msc_cost_transfer x = {.verb = msc_verb_row_of((msc_verb)plan_transfer_verb(t))->op, .ranks = 1,
                         .bytes = (int64_t)plan_transfer_bytes(t)};
  for (uint32_t i = 0; i < plan_transfer_group_num(t); i++) {
    plan_sub_axis d = plan_transfer_group(t, i);
    int level = msc_cost_level(&s->cost, (msc_subaxis){(uint16_t)d.axis, d.pre, d.size});
    if (level > x.level) x.level = level;
    x.ranks *= d.size;
  }
  x.peers = x.ranks - 1;
  c->predicted_ns = (uint64_t)msc_cost_collective(&s->cost, &x);
  s->axes[section - s->plan.section][plan_transfer_call(t)] = blank_if_absent(plan_transfer_axes(t));
}

static bool is_transfer_known(const simulating *s, plan_transfer t) {
  uint32_t section = plan_transfer_section(t);
  bool ok = section < s->plan.num_sections && plan_transfer_call(t) < s->plan.section[section].num_calls &&
            s->plan.section[section].call[plan_transfer_call(t)].kind == PLAN_CALL_KIND_COLLECTIVE &&
            plan_transfer_verb(t) < MSC_NUM_VERBS;
  for (uint32_t i = 0; ok && i < plan_transfer_group_num(t); i++) {
    plan_sub_axis d = plan_transfer_group(t, i);
    ok = d.axis < (uint32_t)s->module.mesh.num_axes && d.pre > 0 && d.size > 0 &&
         s->module.mesh.axis[d.axis].size % ((int64_t)d.pre * d.size) == 0;
  }
  return ok;
}

/* Sets the times of all calls on the cluster. Those of collectives need their groups, which the plan lists as
 * transfers. */
static bool price_all_calls(simulating *s) {
  for (size_t i = 0; i < s->plan.num_sections; i++)
    for (size_t k = 0; k < s->plan.section[i].num_calls; k++) {
      msc_plan_call *c = &s->plan.section[i].call[k];
      if (c->kind != PLAN_CALL_KIND_COLLECTIVE) c->predicted_ns = msc_plan_call_ns(&s->plan, &s->cost, c);
    }
  for (uint32_t i = 0; i < plan_plan_transfers_num(s->root); i++) {
    plan_transfer t = plan_plan_transfers(s->root, i);
    if (!is_transfer_known(s, t))
      return msc_error(s->plan.ctx, MSC_E_PLAN, NULL, "transfer %u of the plan is of no collective that it has", i);
    price_transfer(s, t);
  }
  return true;
}

/* ---- kinds of calls ---- */

static bool ends_in(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

static msc_time_kind time_kind_called(const char *name) {
  return ends_in(name, ".update") || !strcmp(name, "optimizer.step") ? MSC_TIME_OPTIMIZER
         : ends_in(name, ".recompute")                               ? MSC_TIME_RECOMPUTE
         : ends_in(name, ".grad")                                    ? MSC_TIME_BACKWARD
                                                                     : MSC_TIME_FORWARD;
}

/* Sets the kind that the time of every call of a section counts as. An op that a pass made has the name of its op kind:
 * it counts as the call before it. */
static void note_kinds(simulating *s, uint32_t section) {
  plan_section from = plan_plan_sections(s->root, section);
  msc_time_kind kind = ends_in(s->plan.section[section].name, ".U") ? MSC_TIME_OPTIMIZER : MSC_TIME_FORWARD;
  msc_op_kind made;
  for (uint32_t k = 0; k < s->plan.section[section].num_calls; k++) {
    const char *name = blank_if_absent(plan_call_name(plan_section_calls(from, k)));
    if (!msc_kind_parse(name, &made)) kind = time_kind_called(name);
    s->kind[section][k] = (uint8_t)kind;
  }
}

/* ---- sums ---- */

double msc_hidden_share(const msc_group_traffic *g) {
  if (!g->link_ns) return 1;
  return g->exposed_ns < g->link_ns ? 1 - (double)g->exposed_ns / (double)g->link_ns : 0;
}

static msc_group_traffic *traffic_of_group(simulating *s, msc_simulated_stage *to, const char *axes) {
  for (size_t i = 0; i < to->num_groups; i++)
    if (!strcmp(to->group[i].axes, axes)) return &to->group[i];
  msc_grow(s->plan.arena, to->group, to->num_groups);
  to->group[to->num_groups] = (msc_group_traffic){.axes = axes};
  return &to->group[to->num_groups++];
}

static const char *axes_of_call(const simulating *s, uint32_t section, size_t call) {
  return s->axes[section][call] ? s->axes[section][call] : "{}";
}

/* Returns the kind that the event's time counts as; MSC_NUM_TIMES: none, as for exposed collectives and for links that
 * are busy. */
static msc_time_kind kind_of_event(const simulating *s, const msc_timeline_event *e) {
  if (e->activity == MSC_WAITS_MESSAGE) return MSC_TIME_MESSAGES;
  if (e->activity == MSC_WAITS_STAGE) return MSC_TIME_BUBBLE;
  if (e->activity == MSC_WAITS_TRANSFER) return MSC_TIME_OFFLOAD;
  if (e->activity == MSC_BEGINS_SECTION) return MSC_TIME_LAUNCH;
  if (e->activity != MSC_BUSY_CALL) return MSC_NUM_TIMES;
  bool is_launch = e->end - e->begin <= (uint64_t)s->cost.cluster->launch_ns;
  return is_launch ? MSC_TIME_LAUNCH : (msc_time_kind)s->kind[e->section][e->index];
}

static void add_event(void *user, const msc_timeline_event *e) {
  simulating *s = user;
  msc_simulated_stage *to = &s->out->stage[e->stage];
  msc_time_kind kind = kind_of_event(s, e);
  if (e->step != MSC_TIMELINE_STEPS - 1) return;
  if (kind < MSC_NUM_TIMES) to->time[kind] += e->end - e->begin;
  if (e->activity == MSC_WAITS_COLLECTIVE)
    traffic_of_group(s, to, axes_of_call(s, e->section, e->index))->exposed_ns += e->end - e->begin;
  if (e->activity == MSC_BUSY_LINK)
    traffic_of_group(s, to, axes_of_call(s, e->section, e->index))->link_ns += e->end - e->begin;
  if (e->activity == MSC_BUSY_TRANSFER) to->transfer_ns += e->end - e->begin;
  if (s->begin > e->begin) s->begin = e->begin;
}

static void tell_event(void *user, const msc_timeline_event *e) {
  simulating *s = user;
  if (e->step != MSC_TIMELINE_STEPS - 1) return;
  msc_timeline_event told = *e;
  told.begin -= s->begin, told.end -= s->begin;
  s->event(s->user, &told, kind_of_event(s, e));
}

/* Makes the times of a stage add up to the time of a step: what is missing becomes bubble. If they are more, because
 * the first steps of a pipeline are longer than the following ones, bubble is reduced. */
static void fill_step(const simulating *s, msc_simulated_stage *to) {
  uint64_t sum = 0;
  for (int i = 0; i < MSC_NUM_TIMES; i++) sum += to->time[i];
  for (size_t i = 0; i < to->num_groups; i++) sum += to->group[i].exposed_ns;
  uint64_t over = sum > s->out->step_ns ? sum - s->out->step_ns : 0;
  if (over > to->time[MSC_TIME_BUBBLE]) over = to->time[MSC_TIME_BUBBLE];
  to->time[MSC_TIME_BUBBLE] -= over;
  if (sum < s->out->step_ns) to->time[MSC_TIME_BUBBLE] += s->out->step_ns - sum;
}

static void add_traffic(simulating *s, uint32_t section) {
  const msc_plan_section *own = &s->plan.section[section];
  msc_simulated_stage *to = &s->out->stage[own->stage];
  uint64_t uses = msc_plan_uses(&s->plan, section);
  for (size_t i = 0; i < own->num_calls && uses; i++) {
    const msc_plan_call *c = &own->call[i];
    if (c->kind == PLAN_CALL_KIND_COLLECTIVE && s->axes[section][i]) /* none: a rank takes its part of what it has */
      traffic_of_group(s, to, axes_of_call(s, section, i))->bytes += uses * c->bytes;
    to->flops += uses * (c->flops + (c->epilogue ? c->epilogue->flops : 0));
    if (c->kind == PLAN_CALL_KIND_TRANSFER) to->transfers += uses, to->transfer_bytes += uses * c->bytes;
    if (c->kind == PLAN_CALL_KIND_MESSAGE && c->buffer[0].written)
      to->message_bytes += uses * s->plan.message[c->index].bytes;
  }
  if (own->scratch_bytes > to->scratch_bytes) to->scratch_bytes = own->scratch_bytes;
}

static void note_memory(const simulating *s, uint32_t stage) {
  plan_stage from = plan_plan_stages(s->root, stage);
  msc_simulated_stage *to = &s->out->stage[stage];
  to->persistent_bytes = plan_stage_persistent_bytes(from);
  to->host_bytes = plan_stage_host_bytes(from);
  to->disk_bytes = plan_stage_disk_bytes(from);
  for (uint32_t i = 0; i < plan_stage_carried_slots_num(from); i++)
    to->carried_bytes += plan_stage_carried_slots(from, i) * plan_stage_carried_stride(from, i);
}

static void read_plan_file(simulating *s) {
  read_plan_mesh(s);
  s->plan.num_stages = plan_plan_stages_num(s->root) ? plan_plan_stages_num(s->root) : 1;
  const msc_target *target = msc_target_named(blank_if_absent(plan_plan_target(s->root)));
  s->plan.copies_in_place = target && target->is_host;
  read_sections(s);
  read_programs(s);
  read_messages(s);
}

static void note_sizes(simulating *s) {
  msc_simulation *out = s->out;
  msc_plan *p = &s->plan;
  out->cluster = s->cost.cluster->device;
  out->num_stages = p->num_stages;
  out->stage = msc_new_array(p->arena, msc_simulated_stage, p->num_stages);
  out->ranks = msc_mesh_size(&s->module.mesh);
  out->memory_bytes = plan_plan_memory_bytes(s->root);
  out->predicted_ns = plan_plan_predicted_step_ns(s->root);
  for (uint32_t i = 0; i < plan_plan_stages_num(s->root); i++) note_memory(s, i);
  if (!plan_plan_stages_num(s->root)) out->stage[0].persistent_bytes = plan_plan_persistent_bytes(s->root);
  for (uint32_t i = 0; i < p->num_sections; i++) note_kinds(s, i), add_traffic(s, i);
}

/* Runs the timeline once for the sums, and again if the caller wants events: only after the first run it is known when
 * the step begins from which the times of events count. */
static bool run_steps(simulating *s) {
  static const msc_plan_program one_section;
  msc_simulation *out = s->out;
  msc_plan *p = &s->plan;
  if (!p->num_sections) return true;
  const msc_plan_program *g = p->num_programs ? p->program : &one_section;
  const msc_timeline_watch sums = {add_event, s}, told = {tell_event, s};
  s->begin = UINT64_MAX;
  MSC_TRY(msc_timeline_run(p, g, &sums, &out->step_ns, &out->exposed_ns));
  for (uint32_t i = 0; i < p->num_stages; i++) fill_step(s, &out->stage[i]);
  return !s->event || msc_timeline_run(p, g, &told, &out->step_ns, &out->exposed_ns);
}

bool msc_simulate(msc_context *ctx, const void *file, const msc_cluster *cluster, msc_simulated_fn *event, void *user,
                  msc_simulation *out) {
  simulating s = {.root = plan_plan_root(file), .out = out, .event = event, .user = user, .cost = {.cluster = cluster}};
  s.plan.ctx = s.module.ctx = ctx;
  s.plan.arena = msc_context_arena(ctx);
  *out = (msc_simulation){0};
  read_plan_file(&s);
  msc_cost_of(cluster, &s.module.mesh, &s.cost);
  MSC_TRY(price_all_calls(&s));
  note_sizes(&s);
  return run_steps(&s);
}
