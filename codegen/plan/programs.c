/* programs.c: a lowered module in; a plan out: the sections of its programs, the schedule of every stage, and machine
 * code. */
#include <string.h>

#include "codegen/plan/plan.h"
#include "passes/6_pipeline/pipeline.h"
#include "passes/7_lower/target.h"

/* Returns how many batches are in use at once on a stage, with one more that is read ahead, and one more for each
 * copy. */
static uint32_t batches_in_use(const msc_plan *p, uint32_t micro, uint32_t num, const plan_entry *e) {
  uint32_t most = 0, released = 0, taken = 0, copies = 1;
  uint32_t *last = msc_new_array(p->arena, uint32_t, micro + 1);
  for (uint32_t i = 0; i < num; i++) {
    const msc_plan_section *s = &p->section[e[i].section];
    for (uint32_t k = 0; s->inputs && k < s->copies; k++) last[e[i].micro + k] = i;
    if (s->copies > copies) copies = s->copies;
  }
  for (uint32_t i = 0; i < num; i++) {
    const msc_plan_section *s = &p->section[e[i].section];
    if (!s->inputs) continue;
    if (e[i].micro + s->copies > taken) taken = e[i].micro + s->copies;
    if (taken - released > most) most = taken - released;
    while (released < taken && last[released] <= i) released++;
  }
  return (most + copies - 1) / copies * copies + copies;
}

static uint32_t find_section(const msc_plan *p, const msc_func *f) {
  for (uint32_t i = 0; i < p->num_sections; i++)
    if (f && p->section[i].func == f) return i;
  return UINT32_MAX;
}

static uint16_t slot_of_class(const msc_attr_value *entry, msc_slot_class class) {
  int64_t s = entry[MSC_LANE_SLOTS + (int)class].i;
  return (uint16_t)(s < 0 ? 0 : s);
}

static bool fill_lane(msc_plan *p, msc_program_kind program, const msc_attr_value *lane, uint32_t stage,
                      plan_entry *out) {
  for (size_t i = 0; i < lane->list.num / MSC_LANE_FIELDS; i++) {
    const msc_attr_value *v = lane->list.v + i * MSC_LANE_FIELDS;
    msc_section_kind kind = (msc_section_kind)v[MSC_LANE_SECTION].i;
    const msc_func *f = msc_find_section(p->module, program, kind, stage, v[MSC_LANE_CHUNK].i);
    uint32_t section = find_section(p, f);
    if (section > UINT16_MAX)
      return msc_error(p->ctx, MSC_E_INTERNAL, NULL, "the schedule names section %s of stage %u, which does not exist",
                       msc_section_kind_name(kind), stage);
    out[i] = (plan_entry){.micro = (uint32_t)v[MSC_LANE_MICRO].i,
                          .section = (uint16_t)section,
                          .fb = slot_of_class(v, MSC_SLOT_FB),
                          .fw = slot_of_class(v, MSC_SLOT_FW),
                          .bw = slot_of_class(v, MSC_SLOT_BW)};
  }
  return true;
}

static bool add_lanes(msc_plan *p, msc_plan_program *g, msc_program_kind program, const msc_attr_value *lanes) {
  g->num_entries = msc_new_array(p->arena, uint32_t, p->num_stages);
  g->entry = msc_new_array(p->arena, plan_entry *, p->num_stages);
  for (uint32_t i = 0; i < p->num_stages; i++) {
    g->num_entries[i] = (uint32_t)(lanes->list.v[i].list.num / MSC_LANE_FIELDS);
    g->entry[i] = msc_new_array(p->arena, plan_entry, g->num_entries[i]);
    MSC_TRY(fill_lane(p, program, &lanes->list.v[i], i, g->entry[i]));
    uint32_t slots = batches_in_use(p, g->micro, g->num_entries[i], g->entry[i]);
    if (slots > p->input_slots) p->input_slots = slots;
  }
  return true;
}

/* Adds a program with its sections and lanes; one that is a single function needs no lanes. */
static bool add_plan_program(msc_plan *p, msc_plan_calls *calls, msc_program_kind kind, const msc_attr_value *lanes) {
  const msc_attr_value *micro = NULL;
  bool any = false, ok = true;
  msc_grow(p->arena, p->program, p->num_programs);
  for (msc_func *f = p->module->first; f; f = f->next) {
    if (msc_program_of(f) != kind) continue;
    any = true;
    if (msc_func_attr(f, MSC_FACT(program))) micro = msc_func_attr(f, MSC_FACT(micro));
    ok &= msc_plan_add_section(calls, f, p->num_programs);
  }
  if (!any || !ok) return ok;
  msc_plan_program *g = &p->program[p->num_programs++];
  *g = (msc_plan_program){.name = msc_program_kind_name(kind), .micro = micro ? (uint32_t)micro->i : 1};
  return !lanes || add_lanes(p, g, kind, lanes);
}

static void make_stages(msc_plan *p, const msc_attr_value *lanes) {
  const msc_attr_value *slots = lanes ? msc_find_attr(lanes->dict.a, lanes->dict.num, MSC_FACT(slots)) : NULL;
  p->input_slots = 2;
  p->num_stages = slots ? (uint32_t)slots->list.num / MSC_NUM_SLOTS : 1;
  p->stage = msc_new_array(p->arena, msc_plan_stage, p->num_stages);
  for (uint32_t i = 0; i < p->num_stages; i++) p->stage[i].micro = UINT64_MAX;
  for (size_t i = 0; slots && i < slots->list.num; i++)
    p->stage[i / MSC_NUM_SLOTS].carried_slots[i % MSC_NUM_SLOTS] = (uint32_t)slots->list.v[i].i;
}

/* Numbers the layouts of parameters and outputs before the file is written. */
static void number_layouts(msc_plan *p) {
  for (size_t i = 0; i < p->num_parameters; i++) msc_plan_layout(p, p->parameter[i].global->layout);
  for (size_t i = 0; i < p->num_inputs; i++) msc_plan_layout(p, p->input[i].global->layout);
  for (size_t i = 0; i < p->num_outputs; i++) msc_plan_layout(p, p->output[i].global->layout);
  for (size_t s = 0; s < p->num_sections; s++) {
    const msc_attr_value *starts = msc_func_attr(p->section[s].func, MSC_FACT(starts));
    for (size_t i = 0; starts && i < starts->list.num; i++) {
      const msc_attr_value *d = &starts->list.v[i];
      msc_plan_layout(p, msc_plan_layout_of(p, msc_find_attr(d->dict.a, d->dict.num, MSC_FACT(layout)), 1));
    }
  }
}

typedef struct {
  msc_plan *p;
  msc_codegen *cg, *host; /* of the target; of its host, NULL: nothing runs there */
  msc_plan_wants_code *wants;
  void *user;
} making;

/* True if the host runs kernels: an admit is part of the runtime. */
static bool runs_on_host(const msc_module *m) {
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next)
      if (msc_runs_on_host(op) && op->kind != OP_admit) return true;
  return false;
}

/* Adds the host's kernels behind those of the device, and their code, to the plan. */
static void add_host_code(msc_plan *p, const msc_machine_code *host) {
  msc_machine_code *all = &p->code;
  size_t num = all->num_kernels;
  msc_kernel *kernel = msc_new_array(p->arena, msc_kernel, num + host->num_kernels);
  if (num) memcpy(kernel, all->kernel, num * sizeof *kernel);
  if (host->num_kernels) memcpy(kernel + num, host->kernel, host->num_kernels * sizeof *kernel);
  all->kernel = kernel, all->num_kernels = num + host->num_kernels;
  all->bytes = host->bytes, all->num_bytes = host->num_bytes, all->text_bytes = host->text_bytes;
  all->cpu = host->cpu, all->num_features = host->num_features, all->feature = host->feature;
  for (size_t s = 0; s < p->num_sections; s++)
    for (size_t i = 0; i < p->section[s].num_calls; i++) {
      msc_plan_call *call = &p->section[s].call[i];
      if (call->kind == PLAN_CALL_KIND_HOST_KERNEL) call->index += (uint32_t)num;
    }
}

static bool finish_code(making *m) {
  msc_machine_code host;
  MSC_TRY(msc_codegen_finish(m->cg, &m->p->code));
  if (!m->host) return true;
  MSC_TRY(msc_codegen_finish(m->host, &host));
  add_host_code(m->p, &host);
  return true;
}

static void abandon_code(const making *m) {
  msc_codegen_abandon(m->cg);
  if (m->host) msc_codegen_abandon(m->host);
}

/* Makes the calls of all sections, and their code. */
static bool make_plan_programs(msc_context *ctx, void *arg) {
  making *m = arg;
  msc_plan *p = m->p;
  const msc_attr_value *lanes = msc_find_attr(p->module->attrs, p->module->num_attrs, MSC_FACT(msc_lanes));
  msc_plan_calls *calls = msc_plan_calls_begin(p, m->cg, m->host);
  bool ok = true;
  (void)ctx;
  make_stages(p, lanes);
  for (msc_program_kind i = 0; i < MSC_NUM_PROGRAM_KINDS; i++) {
    const char *name = msc_program_kind_name(i);
    ok &= add_plan_program(p, calls, i, lanes ? msc_find_attr(lanes->dict.a, lanes->dict.num, name) : NULL);
  }
  if (!ok) return false;
  msc_plan_place_pools(calls);
  for (uint32_t i = 0; i < p->num_stages; i++)
    if (p->stage[i].persistent_bytes > p->persistent_bytes) p->persistent_bytes = p->stage[i].persistent_bytes;
  number_layouts(p);
  p->has_code = !m->wants || m->wants(m->user, p);
  if (p->has_code) return finish_code(m);
  abandon_code(m);
  return true;
}

msc_plan *msc_plan_of(msc_context *ctx, const msc_module *m, const msc_code_target *target, msc_plan_wants_code *wants,
                      void *user, const char **out_code) {
  msc_arena *arena = msc_context_arena(ctx);
  msc_plan *p = msc_new(arena, msc_plan);
  *p = (msc_plan){.ctx = ctx, .arena = arena, .module = m};
  bool host_works = runs_on_host(m);
  if (target->cpu && !target->target->is_host && !host_works) {
    msc_error(ctx, MSC_E_CONFIG, target->cpu_loc,
              "it is for --target cpu, or for ops with primitive_target beside a GPU, and there is none; a GPU's "
              "architecture is said as cuda:sm_90");
    return NULL;
  }
  making making_it = {p, msc_codegen_begin(ctx, target), NULL, wants, user};
  if (!making_it.cg) return NULL;
  if (host_works) {
    msc_code_target host = {.target = target->target->host, .cpu = target->cpu, .vector_bytes = target->vector_bytes};
    making_it.host = msc_codegen_begin(ctx, &host);
    if (!making_it.host) {
      msc_codegen_abandon(making_it.cg);
      return NULL;
    }
  }
  if (out_code) msc_codegen_want_text(making_it.cg, out_code);
  if (msc_protect(ctx, make_plan_programs, &making_it)) return p;
  abandon_code(&making_it); /* LLVM's memory is not in the arena: it is freed in any case */
  return NULL;
}
