/* memory_limit.c: a plan in; the memory that a rank of it needs, and whether that is within the limit, or a report of
 * what fills it and what would help, out. */
#include <string.h>

#include "codegen/compile.h"
#include "ir/abi/mailbox.h"
#include "ir/abi/pools.h"
#include "passes/3_shard/shard.h"

/* ---- what a rank needs ---- */

static uint64_t sum_memory(const msc_plan_memory *m) {
  return m->parameters + m->state + m->sums + m->copies + m->carried + m->messages + m->alignment + m->inputs +
         m->scratch + m->constants + m->workspace;
}

static uint64_t mailbox_bytes(const msc_plan *p, uint32_t stage) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < p->num_messages; i++)
    if (p->message[i].to == stage) bytes += msc_mailbox_bytes(p->message[i].bytes, p->message[i].depth);
  return bytes;
}

static uint64_t input_slots(const msc_plan *p) {
  uint64_t slots = p->input_slots, steps = msc_target_of(p->module)->steps_of_input;
  for (uint32_t i = 0; i < p->num_programs; i++)
    if (steps * p->program[i].micro > slots) slots = steps * p->program[i].micro;
  return slots;
}

static uint64_t scratch_of_stage(const msc_plan *p, uint32_t stage) {
  uint64_t most = 0;
  for (size_t i = 0; i < p->num_sections; i++)
    if (p->section[i].stage == stage && p->section[i].scratch_bytes > most) most = p->section[i].scratch_bytes;
  return most;
}

static uint64_t arena_bytes(const msc_plan_memory *m, uint64_t persistent, const uint64_t *carried) {
  uint64_t at[MSC_NUM_POOLS], pool[MSC_NUM_POOLS] = {[MSC_POOL_MAILBOXES] = m->messages,
                                                     [MSC_POOL_PERSISTENT] = persistent,
                                                     [MSC_POOL_INPUTS] = m->inputs,
                                                     [MSC_POOL_SCRATCH] = m->scratch};
  for (int k = 0; k < MSC_NUM_SLOTS; k++) pool[MSC_POOL_CARRIED + k] = carried[k];
  return msc_pools_lay_out(pool, at);
}

/* Returns the memory of a rank of the stage, laid out as the runtime does (ir/abi/pools.h). */
static msc_plan_memory memory_of_stage(const msc_plan *p, uint32_t stage) {
  const msc_plan_stage *s = &p->stage[stage];
  msc_plan_memory m = {.sums = s->sum_bytes,
                       .copies = s->copy_bytes,
                       .messages = mailbox_bytes(p, stage),
                       .inputs = input_slots(p) * msc_pool_lines(p->input_stride),
                       .scratch = scratch_of_stage(p, stage),
                       .constants = p->constant_bytes,
                       .host = s->home_bytes[MSC_HOME_CPU],
                       .disk = s->home_bytes[MSC_HOME_DISK],
                       .workspace = p->workspace_bytes};
  uint64_t carried[MSC_NUM_SLOTS];
  for (size_t i = 0; i < p->num_caches; i++)
    for (size_t n = 0; p->cache[i].stage == stage && n < p->cache[i].num; n++)
      *(n ? &m.state : &m.parameters) += p->cache[i].at[n].bytes;
  for (size_t i = 0; i < p->num_parameters; i++) {
    const msc_plan_variable *v = &p->parameter[i];
    if (v->stage == stage && v->ref.space == PLAN_SPACE_PERSISTENT)
      *(msc_arg_role(v->func, v->arg) == MSC_ROLE_STATE ? &m.state : &m.parameters) += v->ref.bytes;
  }
  for (int k = 0; k < MSC_NUM_SLOTS; k++)
    m.carried += carried[k] = msc_pool_slots_bytes(s->carried_stride[k], s->carried_slots[k]);
  m.alignment = arena_bytes(&m, s->persistent_bytes, carried) - (sum_memory(&m) - m.constants - m.workspace);
  return m;
}

msc_plan_memory msc_plan_memory_of(const msc_plan *p) {
  msc_plan_memory most = memory_of_stage(p, 0);
  for (uint32_t i = 1; i < p->num_stages; i++) {
    msc_plan_memory m = memory_of_stage(p, i);
    if (sum_memory(&m) > sum_memory(&most)) most = m;
  }
  return most;
}

uint64_t msc_plan_rank_bytes(const msc_plan *p) {
  msc_plan_memory m = msc_plan_memory_of(p);
  return sum_memory(&m);
}

static bool cuts_batches(const msc_plan *p) {
  bool parts = false;
  for (uint32_t i = 0; i < p->num_programs; i++) parts |= p->program[i].micro > 1;
  return parts;
}

const char *msc_plan_memory_text(const msc_plan *p) {
  msc_plan_memory m = msc_plan_memory_of(p);
  const struct {
    const char *name;
    uint64_t bytes;
    bool always;
  } part[] = {{"parameters", m.parameters, true},
              {"state", m.state, true},
              {"sums over micro-batches", m.sums, false},
              {"copies of parameters for them", m.copies, false},
              {"values carried to later sections", m.carried, false},
              {"messages", m.messages, false},
              {msc_arena_printf(p->arena, "%u %s", p->input_slots, cuts_batches(p) ? "micro-batches" : "batches"),
               m.inputs, true},
              {"constants", m.constants, true},
              {"workspace of libraries", m.workspace, false},
              {"values of a step", m.scratch, true},
              {"and beside these in host memory", m.host, false},
              {"and on disk", m.disk, false}};
  const char *text = "";
  for (size_t i = 0; i < sizeof part / sizeof *part; i++)
    if (part[i].bytes || part[i].always)
      text = msc_arena_printf(p->arena, "%s%s%s %" PRIu64, text, *text ? ", " : "", part[i].name, part[i].bytes);
  return text;
}

msc_peak msc_plan_peak_of(const msc_plan *p) {
  msc_peak most = {0};
  for (msc_func *f = p->module->first; f; f = f->next) {
    msc_peak one = msc_peak_of(p->arena, f);
    if (!most.func || one.scratch > most.scratch) most = one;
  }
  return most;
}

/* ---- the limit ---- */

enum { TOLD = 5 };

const msc_cluster *msc_cluster_of_options(msc_context *ctx, const msc_compile_options *o) {
  return o->cluster ? o->cluster : msc_cluster_named(ctx, "cpu");
}

int64_t msc_limit_of_options(msc_context *ctx, const msc_compile_options *o) {
  return msc_memory_limit(o->config, msc_cluster_of_options(ctx, o));
}

bool msc_limit_binds(msc_context *ctx, const msc_compile_options *o) {
  return !msc_cluster_of_options(ctx, o)->is_shipped || msc_config_is_set(o->config, MSC_KEY_memory_limit);
}

/* True if evaluation, which returns the model's outputs, needs more memory than a step of training. */
static bool is_of_evaluation(const msc_plan *p, const msc_peak *peak) {
  return peak->func && msc_program_of(peak->func) == MSC_PROGRAM_FORWARD &&
         msc_program_func(p->module, MSC_PROGRAM_TRAIN);
}

/* Adds notes that name the settings which are not in use and could save a quarter of the memory or more. */
static void note_what_helps(const msc_plan *p, const msc_config *config, const msc_plan_memory *m,
                            const msc_peak *peak) {
  uint64_t all = sum_memory(m), kept = m->parameters + m->state + m->sums, batch = m->scratch + m->inputs;
  bool recomputes = !strcmp(msc_config_text(config, MSC_KEY_recompute), "auto"), evaluates = is_of_evaluation(p, peak);
  if (evaluates)
    msc_note(p->ctx, NULL,
             "evaluation, which returns the outputs of the model, needs most; a memory_limit of %" PRIu64 " would do",
             all);
  else if (recomputes)
    msc_note(p->ctx, NULL, "as much as can be is computed again; a memory_limit of %" PRIu64 " would do", all);
  else if (shard_searches_time(config))
    msc_note(p->ctx, NULL,
             "of the strategies that were tried this one needs least; a memory_limit of %" PRIu64 " would do", all);
  const char *text = "";
  bool values = !evaluates && m->scratch >= all / 4 && msc_program_func(p->module, MSC_PROGRAM_TRAIN),
       stages = msc_config_int(config, MSC_KEY_pipeline_stages) > 1,
       is_auto = msc_config_bool(config, MSC_KEY_auto_offload);
  if (is_auto && msc_config_value(config, MSC_KEY_offload_cpu_size) && !msc_config_value(config, MSC_KEY_offload_path))
    text = "a larger offload_cpu_size or an offload_path";
  if (values && !recomputes) text = msc_arena_printf(p->arena, "%s%srecompute=auto", text, *text ? ", " : "");
  if (values && !stages && !is_auto && !msc_config_offload(config, "activation"))
    text = msc_arena_printf(p->arena, "%s%soffload={\"activation\":\"cpu\"}", text, *text ? ", " : "");
  if (!msc_config_zero(config) && msc_config_devices(config) > 1 && kept >= all / 4)
    text = msc_arena_printf(p->arena, "%s%szero=3", text, *text ? ", " : "");
  if (!is_auto && kept >= all / 4) text = msc_arena_printf(p->arena, "%s%sauto_offload=true", text, *text ? ", " : "");
  if (batch >= all / 4) text = msc_arena_printf(p->arena, "%s%sa larger micro_size", text, *text ? ", " : "");
  if (*text) msc_note(p->ctx, NULL, "what makes it less: %s", text);
}

static void note_memory_use(const msc_plan *p, const msc_peak *peak) {
  msc_note(p->ctx, NULL, "%s", msc_plan_memory_text(p));
  if (peak->at)
    msc_note(p->ctx, peak->at->loc, "most values live at once, %" PRIu64 " bytes, are at %s%s", peak->live,
             msc_peak_name(peak->at), is_of_evaluation(p, peak) ? " of the evaluation" : "");
  for (size_t i = 0; i < peak->num && i < TOLD; i++)
    msc_note(p->ctx, peak->use[i].op->loc, "%" PRIu64 " bytes of them are %s%s", peak->use[i].bytes,
             peak->use[i].work ? "working memory of " : "the result of ", msc_peak_name(peak->use[i].op));
}

/* Reports a plan that exceeds the memory limit, with what fills the memory. False: the plan is refused, also without a
 * limit that binds where no rank could load it. */
static bool fits_device(const msc_plan *p, const msc_compile_options *o) {
  msc_plan_memory m = msc_plan_memory_of(p);
  int64_t limit = msc_limit_of_options(p->ctx, o);
  uint64_t bytes = sum_memory(&m), kept = m.parameters + m.state;
  if (bytes <= (uint64_t)limit) return true;
  const char *of =
      msc_config_is_set(o->config, MSC_KEY_memory_limit)
          ? "memory_limit is"
          : msc_arena_printf(p->arena, "the described device, %s, has", msc_cluster_of_options(p->ctx, o)->device);
  bool is_bound = msc_limit_binds(p->ctx, o) || bytes > MSC_MOST_POOL_BYTES;
  static const char form[] =
      "the plan needs %" PRIu64 " bytes per rank, of them %" PRIu64 " for parameters and state; %s %" PRId64;
  const msc_loc *loc = msc_config_loc(o->config, MSC_KEY_memory_limit);
  if (is_bound) msc_error(p->ctx, MSC_E_INFEASIBLE, loc, form, bytes, kept, of, limit);
  else msc_warning(p->ctx, MSC_E_INFEASIBLE, loc, form, bytes, kept, of, limit);
  const msc_peak peak = msc_plan_peak_of(p);
  note_what_helps(p, o->config, &m, &peak);
  note_memory_use(p, &peak);
  return !is_bound;
}

/* Checks that the offloaded values fit into host memory, or onto a disk. False: the plan is refused, after a report of
 * how much would be enough. */
static bool fits_home(const msc_plan *p, const msc_config *config, msc_key key, msc_home home) {
  uint64_t bytes = 0;
  int64_t limit = msc_config_int(config, key);
  for (uint32_t i = 0; i < p->num_stages; i++)
    if (p->stage[i].home_bytes[home] > bytes) bytes = p->stage[i].home_bytes[home];
  return !msc_config_value(config, key) || bytes <= (uint64_t)limit ||
         msc_error(p->ctx, MSC_E_INFEASIBLE, msc_config_loc(config, key),
                   "what is offloaded takes %" PRIu64 " bytes per rank; %s is %" PRId64 ", and %" PRIu64 " would do",
                   bytes, msc_key_name(key), limit, bytes);
}

bool msc_fits_memory(const msc_plan *p, const msc_compile_options *o) {
  return fits_device(p, o) && fits_home(p, o->config, MSC_KEY_offload_cpu_size, MSC_HOME_CPU) &&
         fits_home(p, o->config, MSC_KEY_offload_disk_size, MSC_HOME_DISK);
}
