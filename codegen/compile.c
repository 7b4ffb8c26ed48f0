/* compile.c: a model in; the bytes of its plan out. Compiles a module several times where the configuration leaves a
 * choice open: how many micro-batches run side by side, which values leave the device, whether dimensions that a
 * reshape merged stay merged. */
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/auto_offload.h"
#include "codegen/compile.h"
#include "codegen/make_plan.h"
#include "codegen/ptxas.h"
#include "ir/abi/clock.h"
#include "ir/abi/pools.h"
#include "passes/2_train/train.h"
#include "passes/3_shard/shard.h"

/* ---- micro_batch_interleaved=auto ---- */

static bool is_copies_auto(const msc_module *m, const msc_config *config) {
  const msc_attr_value *v = msc_config_value(config, MSC_KEY_micro_batch_interleaved);
  return v && v->kind == MSC_ATTR_STR && !msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_copies));
}

/* Returns the predicted time of a step with n micro-batches side by side; UINT64_MAX: no such plan fits. */
static uint64_t step_with_copies(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes,
                                 int64_t n) {
  const msc_compile_options trial = msc_trial_of(o);
  msc_diag_mark before = msc_mark_diags(ctx);
  msc_arena *outer = msc_begin_trial(ctx);
  msc_module *m = msc_reparse(ctx, o, text, bytes);
  if (m) msc_attrs_put(ctx, &m->attrs, &m->num_attrs, msc_fact_msc_copies(n));
  const msc_plan *p = m ? msc_compile(ctx, m, &trial) : NULL;
  bool fits = p && msc_plan_rank_bytes(p) <= (uint64_t)msc_limit_of_options(ctx, o);
  uint64_t ns = fits ? p->predicted_step_ns : UINT64_MAX;
  msc_end_trial(ctx, outer);
  msc_forget_diags(ctx, before);
  return ns;
}

/* Returns the number of copies with the least predicted time among the plans that fit; 1 if none fits. */
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

/* ---- dimensions that a reshape merged ---- */

/* The results of a trial of the first passes. */
typedef struct {
  bool merged;
  int64_t apart; /* ops for which pass unmerge kept dimensions apart */
  int64_t ns;    /* time of a step, as the search predicts it; INT64_MAX: the trial ended before */
} first_passes;

/* Notes the results of the trial at a checkpoint; ends the trial if pass unmerge changed no op, so that there is
 * nothing to compare. */
static bool note_first_passes(void *user, msc_module *m, msc_checkpoint at) {
  first_passes *t = user;
  for (const msc_func *f = m->first; f; f = f->next) {
    if (at == MSC_AT_simplified) t->apart += msc_fact_read(f, unmerged_ops, 0);
    if (at == MSC_AT_searched) t->ns = msc_fact_read(f, step_ns, t->ns);
  }
  return at != MSC_AT_simplified || t->merged || t->apart > 0;
}

static first_passes try_first_passes(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes,
                                     bool merged) {
  const msc_compile_options trial = msc_trial_of(o);
  first_passes t = {.merged = merged, .ns = INT64_MAX};
  msc_diag_mark before = msc_mark_diags(ctx);
  msc_arena *outer = msc_begin_trial(ctx);
  msc_pass_options p = msc_pass_options_of(&trial);
  p.at_user = &t, p.at = note_first_passes;
  msc_module *m = msc_reparse(ctx, o, text, bytes);
  if (m && merged) msc_attrs_put(ctx, &m->attrs, &m->num_attrs, msc_fact_msc_merged(true));
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

/* ---- a module ---- */

static msc_plan *compile_with_memory(msc_context *ctx, msc_module *m, const msc_compile_options *options) {
  if (is_copies_auto(m, options->config))
    msc_attrs_put(ctx, &m->attrs, &m->num_attrs, msc_fact_msc_copies(choose_copies(ctx, m, options)));
  if (options->target.target != msc_target_of(m))
    msc_attrs_put(ctx, &m->attrs, &m->num_attrs, msc_fact_msc_target(ctx, options->target.target->name));
  if (shard_searches_time(options->config) && msc_config_devices(options->config) > 1 &&
      is_better_merged(ctx, m, options))
    msc_attrs_put(ctx, &m->attrs, &m->num_attrs, msc_fact_msc_merged(true));
  size_t bytes = 0;
  const char *text = msc_offload_is_auto(m, options->config) ? msc_print_text(m, msc_context_arena(ctx), &bytes) : NULL;
  if (!msc_compile_stretch(ctx, m, options, MSC_AT_read, MSC_AT_propagated)) return NULL;
  msc_plan *p = msc_make_plan(ctx, m, options);
  if (p && text) p = msc_offload_until_fits(ctx, options, text, bytes, p);
  if (p && text && p->module != m) return p; /* it was told about */
  uint64_t begin = msc_clock_ns();
  bool fits = p && msc_fits_memory(p, options);
  msc_end_phase(options, "memory told", begin);
  return fits ? p : NULL;
}

msc_plan *msc_compile(msc_context *ctx, msc_module *m, const msc_compile_options *options) {
  if (options->of_cluster) return compile_with_memory(ctx, m, options);
  msc_compile_options o = *options;
  msc_arena *arena = msc_arena_new(ctx);
  o.of_cluster = msc_pass_memory_new(arena);
  msc_plan *p = compile_with_memory(ctx, m, &o);
  msc_arena_free(arena);
  return p;
}

/* ---- a model ---- */

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
  *out = (msc_code_target){.target = msc_target_named(name), .cpu = w->cpu, .cpu_loc = w->cpu_loc};
  if (!out->target)
    return msc_error(ctx, MSC_E_CONFIG, w->target_loc,
                     "there is no target '%s'; there are %s and, with machine code for one GPU, cuda:sm_90", name,
                     msc_target_names(msc_context_arena(ctx), ", "));
  if (arch && !strncmp(arch, ":sm_", 4)) out->arch = (int)strtol(arch + 4, &end, 10);
  if (end && (*end == 'a' || *end == 'f')) end++; /* sm_90a, sm_100f: only libraries use what such a suffix allows */
  if (arch && (!out->target->least_arch || !end || *end || out->arch < out->target->least_arch || out->arch > 999))
    return msc_error(ctx, MSC_E_CONFIG, w->target_loc,
                     "'%s' is no architecture of %s; cuda:sm_80 is the least, others are cuda:sm_90 and later",
                     arch + 1, name);
  return true;
}

/* ---- machine code for one GPU ---- */

/* Returns the newest PTX image that GPU `arch` accepts; NULL: the plan has no code, or no GPU was named. */
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

static void hand_out_image(const msc_compile_options *o, const msc_plan *p, const msc_image *image) {
  const char *name = msc_arena_printf(p->arena, "kernels.sm_%d.%s", image->arch, image->is_cubin ? "cubin" : "ptx");
  if (o->emitted) o->emitted(o->user, name, image->bytes, image->num_bytes - !image->is_cubin);
}

/* Gives the plan's code to `emitted`, by names such as "kernels.sm_90.ptx". */
static void hand_out_code(const msc_compile_options *o, const msc_plan *p) {
  if (o->emitted && p->code.text) o->emitted(o->user, "kernels.ll", p->code.text, strlen(p->code.text));
  for (size_t i = 0; i < p->code.num_images; i++) hand_out_image(o, p, &p->code.image[i]);
}

/* Adds machine code for a named GPU and writes the bytes of the plan.  The assembler runs beside `meanwhile`. */
static bool finish_machine_code(msc_context *ctx, const msc_compile_options *o, msc_compiled *out) {
  msc_plan *p = out->plan;
  const msc_image *ptx = ptx_for(p, o->target.arch);
  msc_ptxas *assembler = NULL;
  msc_image cubin;
  bool made;
  hand_out_code(o, p);
  if (ptx) MSC_TRY(msc_ptxas_begin(ctx, p->arena, ptx, o->target.arch, &assembler));
  bool ok = !o->meanwhile || o->meanwhile(o->user, p);
  uint64_t begin = msc_clock_ns();
  ok &= msc_ptxas_end(assembler, &cubin, &made);
  p->early_launch = msc_config_bool(o->config, MSC_KEY_early_launch);
  if (made) prepend_image(p, &cubin);
  if (made) hand_out_image(o, p, &cubin);
  if (ok) out->bytes = msc_plan_bytes(p, &out->num_bytes);
  msc_end_phase(o, "plan written", begin);
  return out->bytes != NULL;
}

/* Warns about matrices without initial values: they begin as zeros, from which training mostly learns nothing. */
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

/* Refuses a model with ops that only passes make: users cannot know which attributes they need. */
static bool check_ops_of_model(const msc_module *m) {
  bool ok = true;
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next)
      if (msc_info(op)->flags & (MSC_LOCAL | MSC_INTERNAL) && !msc_is_constant_op(op))
        ok = msc_op_error(op, MSC_E_ROW, "%s: it has no place in a model: passes of the compiler make it",
                          msc_kind_name(op->kind));
  return ok;
}

/* Warns about what a model leaves out, which may be a mistake. */
static void warn_of_missing(msc_context *ctx, const msc_module *m) {
  const msc_func *f = msc_program_func(m, MSC_PROGRAM_FORWARD);
  if (!f) return;
  warn_of_zeros(ctx, f);
  if (msc_func_attr(f, MSC_FACT(loss)) && !msc_func_attr(f, MSC_FACT(optimizer)))
    msc_warning(ctx, MSC_E_OPTIMIZER, f->loc,
                "the model has a loss and no optimizer: the plan evaluates and does not train");
}

/* ---- elastic ---- */

/* Compiles the model for `size` ranks, which are fewer than configured; served: parameters must live on servers, or
 * must not. False: there is no such plan; nothing is reported. */
static bool compile_resized(msc_context *ctx, const msc_model_bytes *model, const msc_compile_options *o, int64_t size,
                            bool served, msc_plan_file *file) {
  msc_compile_options resized = msc_trial_of(o);
  msc_compiled made;
  msc_diag_mark before = msc_mark_diags(ctx);
  msc_arena *outer = msc_begin_trial(ctx);
  resized.config = msc_config_resized(o->config, size);
  resized.of_cluster = resized.of_text = NULL, resized.without_code = o->without_code;
  resized.model_folder = o->model_folder;
  bool ok = msc_compile_model(ctx, model, &resized, &made) && made.plan->served == served;
  if (ok)
    *file = (msc_plan_file){msc_arena_copy(msc_lasting_arena(ctx), made.bytes, made.num_bytes), made.num_bytes};
  msc_end_trial(ctx, outer);
  msc_forget_diags(ctx, before);
  return ok;
}

/* Compiles the plans for fewer ranks that an elastic plan contains; numbers of ranks for which there is no plan, or
 * none that fits into memory, are left out. */
static bool bring_smaller(msc_context *ctx, const msc_model_bytes *model, const msc_compile_options *o,
                          msc_compiled *out) {
  const msc_loc *loc = msc_config_loc(o->config, MSC_KEY_elastic);
  int64_t size = msc_config_elastic_size(o->config), ranks = msc_config_int(o->config, MSC_KEY_device_num);
  msc_plan_file *file = msc_new_array(out->plan->arena, msc_plan_file, size);
  int64_t *num_ranks = msc_new_array(out->plan->arena, int64_t, size);
  uint64_t begin = msc_clock_ns();
  if (!o->target.target->is_elastic)
    return msc_error(ctx, MSC_E_UNSUPPORTED, loc, "elastic: not supported yet with the target %s",
                     o->target.target->name);
  for (int64_t s = size - 1; s > 0; s--) {
    if (size % s || !compile_resized(ctx, model, o, s, out->plan->served, &file[out->num_smaller])) continue;
    num_ranks[out->num_smaller++] = ranks / size * s;
  }
  msc_end_phase(o, "plans of fewer ranks", begin);
  out->smaller = num_ranks;
  out->plan->smaller = file, out->plan->num_smaller = out->num_smaller;
  return out->num_smaller ||
         msc_error(ctx, MSC_E_CONFIG, loc, "elastic: there is no plan of fewer ranks than %" PRId64 "%s", ranks,
                   out->plan->served ? ", whose parameters live on servers" : "");
}

bool msc_compile_model(msc_context *ctx, const msc_model_bytes *model, msc_compile_options *options,
                       msc_compiled *out) {
  uint64_t begin = msc_clock_ns();
  msc_model_bytes on_mesh = *model; /* collectives of the model's own may name the axes of the configuration */
  bool hybrid = msc_config_parallel_mode(options->config) == MSC_HYBRID_PARALLEL;
  msc_mesh mesh = hybrid ? msc_config_hybrid_mesh(options->config, ctx) : (msc_mesh){0};
  if (hybrid) on_mesh.mesh = &mesh;
  msc_module *m = msc_read_model(ctx, &on_mesh);
  msc_end_phase(options, "model read", begin);
  if (!m || !check_ops_of_model(m)) return false;
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
  if (out->plan && msc_config_bool(options->config, MSC_KEY_elastic)) MSC_TRY(bring_smaller(ctx, model, options, out));
  return out->plan && finish_machine_code(ctx, options, out);
}
