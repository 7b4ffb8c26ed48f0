/* compile.c: runs everything from a module to a plan: passes in order, decisions noted on the way, calls, code. */
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zlib.h>

#include "codegen/compile.h"
#include "codegen/emit/emit.h"
#include "codegen/ptxas.h"
#include "codegen/recompute_trials.h"
#include "ir/abi/clock.h"
#include "ir/abi/mailbox.h"
#include "ir/abi/pools.h"
#include "passes/2_train/train.h"
#include "passes/3_shard/search_time/answers.h"
#include "passes/3_shard/shard.h"
#include "passes/3_shard/strategy/strategy_file.h"
#include "passes/check.h"

/* ---- decisions ---- */

/* Appends " layout" to the text; an unknown layout adds nothing. */
static const char *add_layout(msc_arena *a, const msc_module *m, const char *text, const msc_layout *l) {
  return l ? msc_arena_printf(a, "%s%s%s", text, *text ? " " : "", msc_layout_print(a, &m->mesh, l)) : text;
}

static bool is_decided_op(const msc_op *op) {
  return op->name && !op->forward && msc_op_attr(op, MSC_FACT(by)) && !shard_is_copy(op) &&
         msc_op_attr(op, MSC_FACT(in_layout));
}

/* Lists the layouts of every op that the user named, and who decided them. */
static const msc_decision *note_decisions(msc_context *ctx, const msc_func *f, size_t *out_num) {
  msc_arena *a = msc_context_arena(ctx);
  size_t num = 0;
  for (const msc_op *op = f->body->first; op; op = op->next) num += is_decided_op(op);
  msc_decision *d = msc_new_array(a, msc_decision, num);
  num = 0;
  for (const msc_op *op = f->body->first; op; op = op->next) {
    if (!is_decided_op(op)) continue;
    const char *in = "", *out = "";
    for (size_t i = 0; i < op->num_in; i++) in = add_layout(a, f->module, in, msc_wanted_layout(op, i));
    for (size_t i = 0; i < op->num_out; i++) out = add_layout(a, f->module, out, op->out[i].type->layout);
    d[num++] = (msc_decision){op->name, msc_arena_printf(a, "%s -> %s", in, out), msc_op_str(op, MSC_FACT(by))};
  }
  *out_num = num;
  return d;
}

/* ---- memory ---- */

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

/* The memory of a rank of the stage, laid out as the runtime does (ir/abi/pools.h). */
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

/* ---- the program that `msc explain` reads ---- */

typedef struct {
  const void *data; /* NULL: it could not be packed */
  size_t bytes, unpacked;
} packed;

/* Allocator for zlib: memory comes from the arena and is freed with it. */
static void *zlib_alloc(void *arena, unsigned num, unsigned bytes) {
  return msc_arena_alloc(arena, (size_t)num * bytes);
}
static void zlib_free(void *arena, void *memory) { (void)arena, (void)memory; }

static packed pack_program(const msc_module *m) {
  msc_arena *arena = msc_context_arena(m->ctx), *scratch = msc_arena_new(m->ctx);
  packed p = {0};
  const char *text = msc_print_text(m, scratch, &p.unpacked);
  z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = scratch};
  if (p.unpacked < UINT32_MAX && deflateInit(&z, Z_BEST_SPEED) == Z_OK) {
    uLong room = deflateBound(&z, (uLong)p.unpacked);
    z.next_in = (Bytef *)(uintptr_t)text, z.avail_in = (uInt)p.unpacked;
    z.next_out = msc_arena_alloc(scratch, room), z.avail_out = (uInt)room;
    Bytef *out = z.next_out;
    if (deflate(&z, Z_FINISH) == Z_STREAM_END) p.data = msc_arena_copy(arena, out, z.total_out), p.bytes = z.total_out;
    deflateEnd(&z);
  }
  msc_arena_free(scratch);
  return p;
}

msc_peak msc_plan_peak_of(const msc_plan *p) {
  msc_peak most = {0};
  for (msc_func *f = p->module->first; f; f = f->next) {
    msc_peak one = msc_peak_of(p->arena, f);
    if (!most.func || one.scratch > most.scratch) most = one;
  }
  return most;
}

enum { TOLD = 5 };

static const msc_cluster *cluster_of_options(msc_context *ctx, const msc_compile_options *o) {
  return o->cluster ? o->cluster : msc_cluster_named(ctx, "cpu");
}

static int64_t memory_limit_of_options(msc_context *ctx, const msc_compile_options *o) {
  return msc_memory_limit(o->config, cluster_of_options(ctx, o));
}

/* Notes the settings that are not in use and could save a quarter of the memory or more. */
static void note_what_helps(const msc_plan *p, const msc_config *config, const msc_plan_memory *m) {
  uint64_t all = sum_memory(m), kept = m->parameters + m->state + m->sums, batch = m->scratch + m->inputs;
  bool recomputes = !strcmp(msc_config_text(config, MSC_KEY_recompute), "auto");
  if (recomputes)
    msc_note(p->ctx, NULL, "as much as can be is computed again; a memory_limit of %" PRIu64 " would do", all);
  else if (shard_searches_time(config))
    msc_note(p->ctx, NULL,
             "of the strategies that were tried this one needs least; a memory_limit of %" PRIu64 " would do", all);
  const char *text = "";
  if (!recomputes && m->scratch >= all / 4 && msc_find_func(p->module, "train")) text = "recompute=auto";
  if (!msc_config_zero(config) && msc_config_devices(config) > 1 && kept >= all / 4)
    text = msc_arena_printf(p->arena, "%s%szero=3", text, *text ? ", " : "");
  if (!msc_config_bool(config, MSC_KEY_auto_offload) && kept >= all / 4 && !p->code.num_images)
    text = msc_arena_printf(p->arena, "%s%sauto_offload=true", text, *text ? ", " : "");
  if (batch >= all / 4) text = msc_arena_printf(p->arena, "%s%sa larger micro_size", text, *text ? ", " : "");
  if (*text) msc_note(p->ctx, NULL, "what makes it less: %s", text);
}

static void note_memory_use(const msc_plan *p) {
  msc_peak peak = msc_plan_peak_of(p);
  msc_note(p->ctx, NULL, "%s", msc_plan_memory_text(p));
  if (peak.at)
    msc_note(p->ctx, peak.at->loc, "most values live at once, %" PRIu64 " bytes, are at %s", peak.live,
             msc_peak_name(peak.at));
  for (size_t i = 0; i < peak.num && i < TOLD; i++)
    msc_note(p->ctx, peak.use[i].op->loc, "%" PRIu64 " bytes of them are %s%s", peak.use[i].bytes,
             peak.use[i].work ? "working memory of " : "the result of ", msc_peak_name(peak.use[i].op));
}

/* Reports a plan that exceeds the memory limit, with what fills the memory. False: the plan is refused. If the limit
 * comes from a cluster description that ships with msc, which describes no particular machine, it is only a warning. */
static bool fits_memory(const msc_plan *p, const msc_compile_options *o) {
  msc_plan_memory m = msc_plan_memory_of(p);
  int64_t limit = memory_limit_of_options(p->ctx, o);
  uint64_t bytes = sum_memory(&m), kept = m.parameters + m.state;
  if (bytes <= (uint64_t)limit) return true;
  const char *of =
      msc_config_is_set(o->config, MSC_KEY_memory_limit)
          ? "memory_limit is"
          : msc_arena_printf(p->arena, "the described device, %s, has", cluster_of_options(p->ctx, o)->device);
  bool is_bound = !cluster_of_options(p->ctx, o)->is_shipped || msc_config_is_set(o->config, MSC_KEY_memory_limit);
  static const char form[] =
      "the plan needs %" PRIu64 " bytes per rank, of them %" PRIu64 " for parameters and state; %s %" PRId64;
  const msc_loc *loc = msc_config_loc(o->config, MSC_KEY_memory_limit);
  if (is_bound) msc_error(p->ctx, MSC_E_INFEASIBLE, loc, form, bytes, kept, of, limit);
  else msc_warning(p->ctx, MSC_E_INFEASIBLE, loc, form, bytes, kept, of, limit);
  note_what_helps(p, o->config, &m);
  note_memory_use(p);
  return !is_bound;
}

/* Reports a place for what is offloaded that is too small, with what would do. False: the plan is refused. */
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

static bool fits_homes(const msc_plan *p, const msc_config *config) {
  return fits_home(p, config, MSC_KEY_offload_cpu_size, MSC_HOME_CPU) &&
         fits_home(p, config, MSC_KEY_offload_disk_size, MSC_HOME_DISK);
}

/* ---- runs of the passes ---- */

/* One run of the passes from `propagated` on, and what is noted of it on the way. */
typedef struct {
  msc_context *ctx;
  const msc_compile_options *o;
  packed searched;
  const char *strategies; /* of the model's ops: without what pass zero cuts further */
  const msc_decision *decision;
  size_t num_decisions;
  uint64_t most_kept; /* a strategy that keeps more over the step ends the run */
} compilation;

static int64_t kept_bytes(const msc_func *f) {
  const msc_attr_value *kept = f ? msc_func_attr(f, MSC_FACT(kept_bytes)) : NULL;
  return kept ? kept->i : INT64_MAX;
}

/* Called at every checkpoint: notes what was decided there, and chooses what is recomputed. */
static bool on_checkpoint(void *compiled, msc_module *m, msc_checkpoint at) {
  compilation *c = compiled;
  msc_func *f = msc_step_func(m);
  if (at == MSC_AT_searched && f && (uint64_t)kept_bytes(f) > c->most_kept) return false;
  uint64_t begin = msc_clock_ns();
  if (at == MSC_AT_searched) c->searched = pack_program(m);
  if (at == MSC_AT_laid_out && !f)
    return msc_error(c->ctx, MSC_E_FORMAT, NULL, "the module has no function forward");
  if (at == MSC_AT_laid_out) c->strategies = msc_strategy_file(f, msc_context_arena(c->ctx));
  if (at == MSC_AT_sharded) c->decision = note_decisions(c->ctx, f, &c->num_decisions);
  msc_end_phase(c->o, "decisions noted", begin);
  if (at == MSC_AT_partitioned) msc_try_recompute(c->ctx, c->o, m);
  return true;
}

/* ---- from the search on ---- */

/* "kernels.sm_90.ptx" */
static void hand_out_image(const msc_compile_options *o, const msc_plan *p, const msc_image *image) {
  const char *name = msc_arena_printf(p->arena, "kernels.sm_%d.%s", image->arch, image->is_cubin ? "cubin" : "ptx");
  if (o->emitted) o->emitted(o->user, name, image->bytes, image->num_bytes - !image->is_cubin);
}

/* The plan of a module whose passes have all run, handed out with its code if that is wanted. */
static msc_plan *plan_of_module(msc_context *ctx, const msc_module *m, const msc_compile_options *options,
                                msc_plan_wants_code *wants, void *user) {
  const char *code = NULL;
  uint64_t begin = msc_clock_ns();
  msc_plan *p = msc_plan_of(ctx, m, &options->target, wants, user, options->emitted ? &code : NULL);
  if (code) options->emitted(options->user, "kernels.ll", code, strlen(code));
  for (size_t i = 0; p && i < p->code.num_images; i++) hand_out_image(options, p, &p->code.image[i]);
  msc_end_phase(options, "code made", begin);
  return p;
}

static bool fits_limit(void *limit, const msc_plan *p) { return msc_plan_rank_bytes(p) <= *(const uint64_t *)limit; }

/* Makes the code of a plan that was made without. */
static bool make_code(msc_plan *p, const msc_compile_options *options) {
  const msc_plan *again = p->has_code ? p : plan_of_module(p->ctx, p->module, options, NULL, NULL);
  if (again) p->code = again->code, p->has_code = true;
  return again != NULL;
}

/* The bytes of a block: host_mem_block_size, or what the largest value on disk needs, if that is less. */
static uint64_t block_of_disk(const msc_plan *p, const msc_config *config) {
  enum { PAGE = 4096 };
  uint64_t most = PAGE, block = (uint64_t)msc_config_int(config, MSC_KEY_host_mem_block_size);
  for (size_t i = 0; i < p->num_parameters; i++)
    if (p->parameter[i].ref.space == PLAN_SPACE_DISK && p->parameter[i].ref.bytes > most)
      most = (p->parameter[i].ref.bytes + PAGE - 1) / PAGE * PAGE;
  return most < block ? most : block;
}

/* Makes the plan of a module at `propagated`; it may need more memory than there is: above `code_limit` it gets no code
 * yet.  NULL after a report, and without one if the strategy keeps more than `most_kept` bytes over the step. */
static msc_plan *make_plan(msc_context *ctx, msc_module *m, const msc_compile_options *options, uint64_t most_kept,
                           uint64_t code_limit) {
  compilation c = {.ctx = ctx, .o = options, .most_kept = most_kept};
  msc_pass_options o = msc_pass_options_of(options);
  o.at = on_checkpoint, o.at_user = &c;
  if (!msc_run_stretch(ctx, m, &o, MSC_AT_propagated, MSC_AT_placed)) return NULL;
  msc_plan *p = plan_of_module(ctx, m, options, fits_limit, &code_limit);
  if (!p) return NULL;
  uint64_t begin = msc_clock_ns();
  const msc_cluster *cluster = cluster_of_options(ctx, options);
  if (!msc_plan_predict_times(p, cluster)) return NULL;
  p->memory_bytes = msc_plan_rank_bytes(p);
  msc_end_phase(options, "step predicted", begin);
  p->decision = c.decision;
  p->num_decisions = c.num_decisions;
  p->strategies = c.strategies;
  p->model = options->model;
  p->model_hash = options->model_hash;
  p->model_folder = options->model_folder;
  p->config = msc_config_of_plan(options->config, p->arena);
  p->searched = c.searched.data, p->searched_packed = c.searched.bytes, p->searched_bytes = c.searched.unpacked;
  p->cluster = cluster->text;
  for (uint32_t i = 0; i < p->num_stages; i++) {
    if (!p->stage[i].home_bytes[MSC_HOME_DISK]) continue;
    p->offload_path = msc_config_text(options->config, MSC_KEY_offload_path);
    p->offload_block = block_of_disk(p, options->config);
  }
  return p;
}

/* The largest of 1, 2, 3, 4, 6, 8, 12 ... (powers of two, and these times three) that is less than `below`. */
static int64_t next_room(int64_t below) {
  int64_t power = 1;
  while (2 * power < below) power *= 2;
  return power + power / 2 < below ? power + power / 2 : power;
}

/* Parses the text of a module again. Ops that have no location of the user's have none here either. */
static msc_module *reparse(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes) {
  static const msc_loc unknown = {0};
  uint64_t begin = msc_clock_ns();
  msc_module *m = msc_parse(ctx, "again", text, bytes);
  for (msc_func *f = m ? m->first : NULL; f; f = f->next) {
    if (f->loc->implied) f->loc = &unknown;
    for (msc_op *op = f->body->first; op; op = op->next)
      if (op->loc->implied) op->loc = &unknown;
  }
  msc_end_phase(o, "modules copied", begin);
  return m;
}

/* A run with a bound on what the strategy keeps over the step. */
typedef struct {
  int64_t room;       /* bytes; 0: no bound */
  uint64_t most_kept; /* a strategy that keeps more gets no plan */
  msc_plan *plan;     /* or NULL */
  int64_t kept;       /* more than `room` where no strategy keeps less */
  bool limited;       /* the bound decided */
} bounded_run;

/* Makes the plan of a module at `propagated`. */
static void make_plan_within(msc_context *ctx, const msc_compile_options *o, msc_module *m, bounded_run *r) {
  msc_func *f = msc_step_func(m);
  if (f) msc_func_put(f, msc_fact_search_room(r->room));
  r->plan = make_plan(ctx, m, o, r->most_kept, (uint64_t)memory_limit_of_options(ctx, o));
  const msc_attr_value *limited = r->plan ? msc_func_attr(f, MSC_FACT(limited)) : NULL;
  r->kept = r->plan ? kept_bytes(f) : INT64_MAX;
  r->limited = limited && limited->b;
}

/* The search for a plan that fits: the module at `propagated` as text, and the best plan so far with what it keeps. */
typedef struct {
  msc_context *ctx;
  const msc_compile_options *o;
  const char *text;
  size_t bytes;
  int64_t limit, kept;
  int64_t least; /* no strategy keeps less; 0: not known */
  msc_plan *best;
} fitting;

/* Runs the passes over a copy of the module. They are not verified again: the first run was, with the same passes. */
static bool run_again(const fitting *t, bounded_run *r) {
  msc_compile_options o = *t->o;
  if (o.verify == MSC_VERIFY_IR) o.verify = MSC_VERIFY_OFF;
  msc_module *again = reparse(t->ctx, t->o, t->text, t->bytes);
  if (again) make_plan_within(t->ctx, &o, again, r);
  uint64_t begin = msc_clock_ns();
  if (r->plan && o.verify != t->o->verify && !msc_check_module(again)) r->plan = NULL;
  msc_end_phase(&o, "copies verified", begin);
  return r->plan != NULL;
}

/* Makes plans that keep less and less over the step while the best plan exceeds the limit and each needs less memory
 * than the one before. Every limit tries the same bounds, and itself, so no higher limit refuses what a lower one
 * accepts. */
static bool shrink_plan(fitting *t) {
  while (msc_plan_rank_bytes(t->best) > (uint64_t)t->limit && t->kept > 1) {
    int64_t room = next_room(t->kept);
    bounded_run r = {.room = room < t->limit ? room : t->limit, .most_kept = UINT64_MAX};
    if (r.room < t->least) return true; /* the search would find the least once more */
    MSC_TRY(run_again(t, &r));
    if (msc_plan_rank_bytes(r.plan) >= msc_plan_rank_bytes(t->best)) return true;
    t->best = r.plan, t->kept = r.kept;
    if (r.kept > r.room) return true;
  }
  return true;
}

static bool is_better_plan(int64_t limit, const msc_plan *a, const msc_plan *b) {
  uint64_t bytes = msc_plan_rank_bytes(a), others = msc_plan_rank_bytes(b), most = (uint64_t)limit;
  if (bytes > most || others > most) return bytes < others;
  return a->predicted_step_ns < b->predicted_step_ns;
}

/* Makes the plan of an unbounded search, and takes it if it is better. It is not made where both would exceed the
 * limit, which shows beforehand: a plan needs at least half of what its strategy keeps. */
static void try_unbounded(fitting *t, bool may_fit) {
  msc_diag_mark before = msc_mark_diags(t->ctx);
  bounded_run r = {.most_kept = may_fit ? UINT64_MAX : 2 * msc_plan_rank_bytes(t->best)};
  if (run_again(t, &r) && is_better_plan(t->limit, r.plan, t->best)) t->best = r.plan, t->kept = r.kept;
  else msc_forget_diags(t->ctx, before);
}

/* Makes the fastest plan that fits.  The search is bounded by what a strategy keeps over the step, with an eighth more
 * than the limit.  That bound is not exact: where it decided and the plan does not fit, or where the backward may
 * compute values again, the plan of an unbounded search is made as well. */
static msc_plan *search_plans(msc_context *ctx, msc_module *m, const msc_compile_options *options) {
  msc_arena *scratch = msc_arena_new(ctx);
  msc_compile_options all = *options, *o = &all;
  all.answers = shard_answers_new(scratch);
  fitting t = {.ctx = ctx, .o = o, .limit = memory_limit_of_options(ctx, o)};
  bounded_run first = {.room = t.limit < INT64_MAX / 2 ? t.limit + t.limit / 8 : 0, .most_kept = UINT64_MAX};
  bool recomputes = !strcmp(msc_config_text(o->config, MSC_KEY_recompute), "auto"), ok = true;
  uint64_t begin = msc_clock_ns();
  t.text = msc_print_text(m, scratch, &t.bytes);
  msc_end_phase(o, "modules copied", begin);
  make_plan_within(ctx, o, m, &first);
  t.best = first.plan, t.kept = first.kept;
  if (first.plan) {
    if (first.room && first.kept > first.room) t.least = first.kept;
    bool fits = msc_plan_rank_bytes(first.plan) <= (uint64_t)t.limit;
    if (first.room && first.limited && (recomputes || !fits)) try_unbounded(&t, recomputes);
    ok = shrink_plan(&t);
  }
  msc_arena_free(scratch);
  return ok && t.best && make_code(t.best, o) ? t.best : NULL;
}

/* ---- micro_batch_interleaved=auto ---- */

static const char *const COPIES = MSC_FACT(msc_copies);

static bool is_copies_auto(const msc_module *m, const msc_config *config) {
  const msc_attr_value *v = msc_config_value(config, MSC_KEY_micro_batch_interleaved);
  return v && v->kind == MSC_ATTR_STR && !msc_find_attr(m->attrs, m->num_attrs, COPIES);
}

/* The time of a step with n micro-batches side by side; UINT64_MAX: there is no plan that fits. */
static uint64_t step_with_copies(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes,
                                 int64_t n) {
  const msc_compile_options trial = msc_trial_of(o);
  msc_diag_mark before = msc_mark_diags(ctx);
  msc_arena *outer = msc_begin_trial(ctx);
  msc_module *m = reparse(ctx, o, text, bytes);
  if (m) msc_put_attr(ctx, &m->attrs, &m->num_attrs, COPIES, msc_int(n));
  const msc_plan *p = m ? msc_compile(ctx, m, &trial) : NULL;
  bool fits = p && msc_plan_rank_bytes(p) <= (uint64_t)memory_limit_of_options(ctx, o);
  uint64_t ns = fits ? p->predicted_step_ns : UINT64_MAX;
  msc_end_trial(ctx, outer);
  msc_forget_diags(ctx, before);
  return ns;
}

/* The number of copies with the least predicted time among the plans that fit; 1 if none does. */
static int64_t choose_copies(msc_context *ctx, const msc_module *m, const msc_compile_options *o) {
  static const int64_t choice[] = {1, 2, 4};
  msc_arena *scratch = msc_arena_new(ctx);
  size_t bytes = 0;
  const char *text = msc_print_text(m, scratch, &bytes);
  int64_t best = 1;
  uint64_t best_ns = UINT64_MAX;
  for (size_t i = 0; i < sizeof choice / sizeof *choice; i++) {
    uint64_t ns = step_with_copies(ctx, o, text, bytes, choice[i]);
    if (ns < best_ns) best = choice[i], best_ns = ns;
  }
  msc_arena_free(scratch);
  return best;
}

/* ---- auto_offload ---- */

static msc_plan *compile_with_prices(msc_context *ctx, msc_module *m, const msc_compile_options *options);

static const char *const AWAY = MSC_FACT(msc_away);

static bool is_offload_auto(const msc_module *m, const msc_config *config) {
  return msc_config_bool(config, MSC_KEY_auto_offload) && !msc_find_attr(m->attrs, m->num_attrs, AWAY);
}

/* Sorts the values that auto_offload may move off the device, those that are moved first in front: state before
 * parameters, which are fetched more often; large values first, since they take the fewest transfers. */
static int compare_by_worth(const void *a, const void *b) {
  const msc_plan_variable *x = a, *y = b;
  bool one = msc_arg_role(x->func, x->arg) == MSC_ROLE_STATE, other = msc_arg_role(y->func, y->arg) == MSC_ROLE_STATE;
  if (one != other) return one ? -1 : 1;
  if (x->ref.bytes != y->ref.bytes) return x->ref.bytes > y->ref.bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* The trials of auto_offload: plans whose first k values, by worth, live in host memory. */
typedef struct {
  msc_context *ctx;
  const msc_compile_options *o;
  const char *text; /* of the module */
  size_t bytes, num;
  msc_attr_value *name;
  uint64_t *size;   /* of each value */
} away_trials;

/* The number of values, of the first k, that fit into offload_cpu_size bytes of host memory; the others go to disk. k
 * if there is no such limit, or no disk. */
static size_t num_near(const away_trials *t, size_t k) {
  int64_t room = msc_config_int(t->o->config, MSC_KEY_offload_cpu_size);
  size_t num = 0;
  if (!msc_config_value(t->o->config, MSC_KEY_offload_cpu_size) ||
      !msc_config_value(t->o->config, MSC_KEY_offload_path))
    return k;
  for (; num < k && msc_pool_lines(t->size[num]) <= (uint64_t)room; num++)
    room -= (int64_t)msc_pool_lines(t->size[num]);
  return num;
}

static msc_module *module_with_away(const away_trials *t, size_t k) {
  msc_module *m = reparse(t->ctx, t->o, t->text, t->bytes);
  size_t near = num_near(t, k);
  if (m) msc_put_attr(t->ctx, &m->attrs, &m->num_attrs, AWAY, msc_list(t->ctx, near, t->name));
  if (m) msc_attrs_put(t->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_far(t->ctx, k - near, t->name + near));
  return m;
}

/* The predicted time of a step of the plan whose first k values live in host memory or on disk; UINT64_MAX if that
 * plan does not fit. */
static uint64_t step_with_away(const away_trials *t, size_t k) {
  const msc_compile_options trial = msc_trial_of(t->o);
  msc_diag_mark before = msc_mark_diags(t->ctx);
  msc_arena *outer = msc_begin_trial(t->ctx);
  msc_module *m = module_with_away(t, k);
  const msc_plan *p = m ? msc_compile(t->ctx, m, &trial) : NULL;
  uint64_t ns = p ? p->predicted_step_ns : UINT64_MAX;
  msc_end_trial(t->ctx, outer);
  msc_forget_diags(t->ctx, before);
  return ns;
}

/* The least number of values that must leave the device so that a plan fits; all of them if none does. */
static size_t least_away(const away_trials *t) {
  size_t low = 0, high = t->num; /* with `low` no plan fits */
  while (high - low > 1) {
    size_t mid = low + (high - low) / 2;
    if (step_with_away(t, mid) < UINT64_MAX) high = mid;
    else low = mid;
  }
  return high;
}

/* The number of values off the device with the fastest step, of five numbers that are tried. For recompute=auto, where
 * a plan may also fit by computing values again. */
static size_t fastest_away(const away_trials *t, bool fits) {
  enum { PARTS = 4 };
  size_t best = fits ? 0 : t->num;
  uint64_t best_ns = UINT64_MAX;
  for (size_t i = 0; i <= PARTS; i++) {
    uint64_t ns = step_with_away(t, t->num * i / PARTS);
    if (ns < best_ns) best_ns = ns, best = t->num * i / PARTS;
  }
  return best;
}

/* auto_offload: returns a plan that keeps within memory_limit, with as few values as possible in host memory, or on
 * disk beyond offload_cpu_size. `p` is the plan with what the user has offloaded and nothing more; `text` is the
 * module that it was made from. */
static msc_plan *offload_until_fits(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes,
                                    msc_plan *p) {
  bool recomputes = !strcmp(msc_config_text(o->config, MSC_KEY_recompute), "auto"),
       fits = msc_plan_rank_bytes(p) <= (uint64_t)memory_limit_of_options(ctx, o);
  if (fits && !recomputes) return p;
  away_trials t = {.ctx = ctx, .o = o, .text = text, .bytes = bytes};
  t.name = msc_new_array(p->arena, msc_attr_value, p->num_parameters + 1);
  t.size = msc_new_array(p->arena, uint64_t, p->num_parameters + 1);
  msc_plan_variable *v = msc_new_array(p->arena, msc_plan_variable, p->num_parameters + 1);
  size_t num = 0;
  for (size_t i = 0; i < p->num_parameters; i++)
    if (p->parameter[i].ref.space == PLAN_SPACE_PERSISTENT && !p->parameter[i].copy &&
        p->parameter[i].ref.bytes >= MSC_LEAST_OFFLOADED_BYTES)
      v[num++] = p->parameter[i];
  qsort(v, num, sizeof *v, compare_by_worth);
  for (; t.num < num; t.num++) t.name[t.num] = msc_str(ctx, v[t.num].name), t.size[t.num] = v[t.num].ref.bytes;
  size_t k = !num ? 0 : recomputes ? fastest_away(&t, fits) : least_away(&t);
  if (!k) return p;
  msc_module *m = module_with_away(&t, k);
  return m ? compile_with_prices(ctx, m, o) : NULL;
}

/* ---- dimensions that a reshape made one ---- */

static const char *const MERGED = MSC_FACT(msc_merged);

/* What a trial of the first passes tells. */
typedef struct {
  const msc_compile_options *o;
  bool merged;
  int64_t apart; /* ops that were put on dimensions apart */
  int64_t ns;    /* of a step, by the search; INT64_MAX: it did not come so far */
} first_passes;

static void note_first_passes(void *user, const msc_pass_report *r) {
  first_passes *t = user;
  for (const msc_pass_stat *s = r->stats; s; s = s->next)
    if (!strcmp(s->what, "ops on dimensions apart")) t->apart = s->count;
    else if (!strcmp(s->what, "ns")) t->ns = s->count;
  if (t->o->after) t->o->after(t->o->user, r);
}

/* Ends the trial early if the pass changed no op, for then there is nothing to compare. */
static bool is_worth_searching(void *user, msc_module *m, msc_checkpoint at) {
  const first_passes *t = user;
  (void)m;
  return at != MSC_AT_simplified || t->merged || t->apart > 0;
}

static first_passes try_first_passes(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes,
                                     bool merged) {
  const msc_compile_options trial = msc_trial_of(o);
  first_passes t = {.o = &trial, .merged = merged, .ns = INT64_MAX};
  msc_diag_mark before = msc_mark_diags(ctx);
  msc_arena *outer = msc_begin_trial(ctx);
  msc_pass_options p = msc_pass_options_of(&trial);
  p.user = p.at_user = &t, p.after = note_first_passes, p.at = is_worth_searching;
  msc_module *m = reparse(ctx, o, text, bytes);
  if (m && merged) msc_put_attr(ctx, &m->attrs, &m->num_attrs, MERGED, msc_bool(true));
  if (!m || !msc_run_stretch(ctx, m, &p, MSC_AT_read, MSC_AT_searched)) t.ns = INT64_MAX;
  msc_end_trial(ctx, outer);
  msc_forget_diags(ctx, before);
  return t;
}

/* True if the search predicts less time for a step with dimensions left merged than with them apart. */
static bool is_better_merged(msc_context *ctx, const msc_module *m, const msc_compile_options *o) {
  msc_arena *scratch = msc_arena_new(ctx);
  size_t bytes = 0;
  const char *text = msc_print_text(m, scratch, &bytes);
  first_passes apart = try_first_passes(ctx, o, text, bytes, false);
  bool better = apart.apart > 0 && try_first_passes(ctx, o, text, bytes, true).ns < apart.ns;
  msc_arena_free(scratch);
  return better;
}

static msc_plan *compile_with_prices(msc_context *ctx, msc_module *m, const msc_compile_options *options) {
  if (is_copies_auto(m, options->config))
    msc_put_attr(ctx, &m->attrs, &m->num_attrs, COPIES, msc_int(choose_copies(ctx, m, options)));
  if (options->target.target != msc_target_of(m))
    msc_attrs_put(ctx, &m->attrs, &m->num_attrs, msc_fact_msc_target(ctx, options->target.target->name));
  if (shard_searches_time(options->config) && msc_config_devices(options->config) > 1 &&
      is_better_merged(ctx, m, options))
    msc_put_attr(ctx, &m->attrs, &m->num_attrs, MERGED, msc_bool(true));
  size_t bytes = 0;
  const char *text = is_offload_auto(m, options->config) ? msc_print_text(m, msc_context_arena(ctx), &bytes) : NULL;
  if (!msc_compile_stretch(ctx, m, options, MSC_AT_read, MSC_AT_propagated)) return NULL;
  msc_plan *p = shard_searches_time(options->config) ? search_plans(ctx, m, options)
                                                     : make_plan(ctx, m, options, UINT64_MAX, UINT64_MAX);
  if (p && text) p = offload_until_fits(ctx, options, text, bytes, p);
  if (p && text && p->module != m) return p; /* it was told about */
  uint64_t begin = msc_clock_ns();
  bool fits = p && fits_memory(p, options) && fits_homes(p, options->config);
  msc_end_phase(options, "memory told", begin);
  return fits ? p : NULL;
}

msc_plan *msc_compile(msc_context *ctx, msc_module *m, const msc_compile_options *options) {
  if (options->prices) return compile_with_prices(ctx, m, options);
  msc_compile_options o = *options;
  msc_arena *arena = msc_arena_new(ctx);
  o.prices = shard_price_book_new(ctx, arena);
  msc_plan *p = compile_with_prices(ctx, m, &o);
  msc_arena_free(arena);
  return p;
}

static size_t count_ops(const msc_module *m) {
  size_t n = 0;
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next) n++;
  return n;
}

bool msc_code_target_of(msc_context *ctx, const msc_target_words *w, msc_code_target *out) {
  const char *text = w->target ? w->target : "cpu", *arch = strchr(text, ':');
  const char *name = msc_intern_n(ctx, text, arch ? (size_t)(arch - text) : strlen(text));
  char *end = NULL;
  *out = (msc_code_target){.target = msc_target_named(name), .cpu = w->cpu};
  if (!out->target)
    return msc_error(ctx, MSC_E_CONFIG, w->target_loc,
                     "there is no target '%s'; there are cpu, cuda and, with machine code for one GPU, cuda:sm_90",
                     name);
  if (arch && !strncmp(arch, ":sm_", 4)) out->arch = (int)strtol(arch + 4, &end, 10);
  if (end && (*end == 'a' || *end == 'f')) end++; /* what is particular to one GPU, or to a family, libraries use */
  if (arch && (!out->target->least_arch || !end || *end || out->arch < out->target->least_arch || out->arch > 999))
    return msc_error(ctx, MSC_E_CONFIG, w->target_loc,
                     "'%s' is no architecture of %s; cuda:sm_80 is the least, others are cuda:sm_90 and later",
                     arch + 1, name);
  if (out->cpu && !out->target->has_cpu_levels)
    return msc_error(ctx, MSC_E_CONFIG, w->cpu_loc,
                     "it is for --target cpu; of %s the architecture is said as cuda:sm_90", name);
  return true;
}

/* ---- machine code for one GPU ---- */

/* The newest PTX image that GPU `arch` accepts; NULL: the plan has no code, or no GPU was named. */
static const msc_image *ptx_for(const msc_plan *p, int arch) {
  size_t i = 0;
  if (!arch || !p->code.num_images) return NULL;
  while (i + 1 < p->code.num_images && p->code.image[i].arch > arch) i++;
  return &p->code.image[i];
}

/* Puts the machine code before the plan's PTX images. */
static void prepend_image(msc_plan *p, const msc_image *cubin) {
  msc_image *all = msc_new_array(p->arena, msc_image, p->code.num_images + 1);
  all[0] = *cubin;
  memcpy(all + 1, p->code.image, p->code.num_images * sizeof *all);
  p->code.image = all, p->code.num_images++;
}

/* Adds machine code for a named GPU and writes the bytes of the plan.  The assembler runs beside `meanwhile`. */
static bool finish_machine_code(msc_context *ctx, const msc_compile_options *o, msc_compiled *out) {
  msc_plan *p = out->plan;
  const msc_image *ptx = ptx_for(p, o->target.arch);
  msc_ptxas *assembler = NULL;
  msc_image cubin;
  bool made;
  if (ptx) MSC_TRY(msc_ptxas_begin(ctx, p->arena, ptx, o->target.arch, &assembler));
  bool ok = !o->meanwhile || o->meanwhile(o->user, p);
  uint64_t begin = msc_clock_ns();
  ok &= msc_ptxas_end(assembler, &cubin, &made);
  if (made) prepend_image(p, &cubin);
  if (made) hand_out_image(o, p, &cubin);
  if (ok) out->bytes = msc_plan_bytes(p, &out->num_bytes);
  msc_end_phase(o, "plan written", begin);
  return out->bytes != NULL;
}

/* Warns about matrices without initial values: as zeros they mostly learn nothing. */
static void warn_of_zeros(msc_context *ctx, const msc_func *f) {
  const msc_value *first = NULL;
  size_t num = 0;
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_value *v = f->body->args[i];
    bool told = msc_arg_role(f, i) != MSC_ROLE_PARAMETER || msc_arg_attr(f, i, MSC_FACT(msc_init)) ||
                msc_arg_attr(f, i, MSC_FACT(msc_weights));
    if (told || v->type->rank < 2) continue;
    first = first ? first : v;
    num++;
  }
  if (!num) return;
  const char *more = num > 1 ? msc_arena_printf(msc_context_arena(ctx), " and %zu more have", num - 1) : " has";
  msc_warning(ctx, MSC_E_NONE, f->loc,
              "parameter %s%s no init and no weights: zeros, unless `msc run --init` gives them",
              first->name ? first->name : "", more);
}

/* Warns about what a model leaves out, which may be a mistake. */
static void warn_of_missing(msc_context *ctx, const msc_module *m) {
  const msc_func *f = msc_find_func(m, "forward");
  if (!f) return;
  warn_of_zeros(ctx, f);
  if (msc_func_attr(f, MSC_FACT(loss)) && !msc_func_attr(f, MSC_FACT(optimizer)))
    msc_warning(ctx, MSC_E_OPTIMIZER, f->loc,
                "the model has a loss and no optimizer: the plan evaluates and does not train");
}

bool msc_compile_model(msc_context *ctx, const msc_model_bytes *model, msc_compile_options *options,
                       msc_compiled *out) {
  uint64_t begin = msc_clock_ns();
  msc_module *m = msc_read_model(ctx, model);
  msc_end_phase(options, "model read", begin);
  if (!m) return false;
  const msc_attr_value *name = msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_name));
  options->model = name && name->kind == MSC_ATTR_STR ? name->s : model->name;
  options->model_hash = XXH3_64bits(model->data, model->bytes);
  const char *cluster = options->target.target->cluster;
  if (!options->cluster && cluster) options->cluster = msc_cluster_named(ctx, cluster);
  *out = (msc_compiled){.num_ops = count_ops(m)};
  warn_of_missing(ctx, m);
  const msc_attr_value *micro = msc_training_func(m) ? msc_func_attr(msc_training_func(m), MSC_FACT(micro_size)) : NULL;
  if (micro && micro->kind == MSC_ATTR_INT)
    options->config = msc_config_with(options->config, MSC_KEY_micro_size, micro);
  out->plan = msc_compile(ctx, m, options);
  return out->plan && finish_machine_code(ctx, options, out);
}
