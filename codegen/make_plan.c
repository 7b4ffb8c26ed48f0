/* make_plan.c: a module at the checkpoint `propagated` in; its plan, with the decisions that were made, out. Runs
 * search, lowering and code generation; where a search decides, it makes plans that keep less and less in memory until
 * one fits. */
#include "codegen/make_plan.h"

#include <string.h>
#include <zlib.h>

#include "codegen/recompute_trials.h"
#include "ir/abi/clock.h"
#include "passes/2_train/train.h"
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

/* ---- the program that `msc explain` reads ---- */

/* Allocator for zlib: memory comes from the arena and is freed with it. */
static void *zlib_alloc(void *arena, unsigned num, unsigned bytes) {
  return msc_arena_alloc(arena, (size_t)num * bytes);
}
static void zlib_free(void *arena, void *memory) { (void)arena, (void)memory; }

/* Replaces the text in p->searched by its packed form; leaves NULL there if it cannot be packed. */
static void pack_program(msc_plan *p) {
  msc_arena *scratch = msc_arena_new(p->ctx);
  const void *text = p->searched;
  z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = scratch};
  p->searched = NULL;
  if (text && p->searched_bytes < UINT32_MAX && deflateInit(&z, Z_BEST_SPEED) == Z_OK) {
    uLong room = deflateBound(&z, (uLong)p->searched_bytes);
    z.next_in = (Bytef *)(uintptr_t)text, z.avail_in = (uInt)p->searched_bytes;
    z.next_out = msc_arena_alloc(scratch, room), z.avail_out = (uInt)room;
    const Bytef *out = z.next_out;
    if (deflate(&z, Z_FINISH) == Z_STREAM_END)
      p->searched = msc_arena_copy(p->arena, out, z.total_out), p->searched_packed = z.total_out;
    deflateEnd(&z);
  }
  msc_arena_free(scratch);
}

/* ---- runs of the passes ---- */

/* What a strategy must not exceed to be worth a plan: the bytes that it keeps over the step, and the time of a step, as
 * the search predicts it. */
typedef struct {
  uint64_t most_kept;
  int64_t most_ns;
  int64_t known_kept, known_ns; /* a strategy of just these figures has a plan; -1: none has */
} strategy_bounds;

static const strategy_bounds no_bounds = {UINT64_MAX, INT64_MAX, -1, -1};

/* One run of the passes from `propagated` on, and what was noted at its checkpoints. */
typedef struct {
  msc_context *ctx;
  const msc_compile_options *o;
  const char *searched; /* text of the module after the search, which `msc explain` reads */
  size_t searched_bytes;
  const char *strategies; /* strategies of the model's ops, before pass zero cuts any further */
  const msc_decision *decision;
  size_t num_decisions;
  int64_t step_ns, least_step_ns, least_plan_ns; /* facts of the search; -1: there was none */
  const strategy_bounds *within; /* a strategy beyond them ends the run */
} compilation;

static int64_t kept_bytes(const msc_func *f) { return msc_fact_read(f, kept_bytes, INT64_MAX); }

static bool is_within(const strategy_bounds *b, const msc_func *f) {
  int64_t kept = kept_bytes(f), ns = msc_fact_read(f, step_ns, 0);
  return (uint64_t)kept <= b->most_kept && ns <= b->most_ns && !(kept == b->known_kept && ns == b->known_ns);
}

/* Called at every checkpoint: notes what was decided there, and chooses what is recomputed. */
static bool on_checkpoint(void *compiled, msc_module *m, msc_checkpoint at) {
  compilation *c = compiled;
  msc_func *f = msc_step_func(m);
  if (at == MSC_AT_searched && f && !is_within(c->within, f)) return false;
  uint64_t begin = msc_clock_ns();
  if (at == MSC_AT_searched) c->searched = msc_print_text(m, msc_context_arena(c->ctx), &c->searched_bytes);
  if (at == MSC_AT_searched && f) {
    c->step_ns = msc_fact_read(f, step_ns, -1), c->least_step_ns = msc_fact_read(f, least_step_ns, -1);
    c->least_plan_ns = msc_fact_read(f, least_plan_ns, -1);
  }
  if (at == MSC_AT_laid_out && !f) return msc_error(c->ctx, MSC_E_FORMAT, NULL, "the module has no function forward");
  if (at == MSC_AT_laid_out) c->strategies = msc_strategy_file(f, msc_context_arena(c->ctx));
  if (at == MSC_AT_sharded) c->decision = note_decisions(c->ctx, f, &c->num_decisions);
  msc_end_phase(c->o, "decisions noted", begin);
  if (at == MSC_AT_partitioned) msc_try_recompute(c->ctx, c->o, m);
  return true;
}

/* ---- from the search on ---- */

/* Makes the plan of a module whose passes have all run. The plan has the LLVM IR of its code, too, if options->emitted
 * is set: that will be called with it. */
static msc_plan *plan_of_module(msc_context *ctx, const msc_module *m, const msc_compile_options *options,
                                msc_plan_wants_code *wants, void *user) {
  const char *code = NULL;
  uint64_t begin = msc_clock_ns();
  msc_plan *p = msc_plan_of(ctx, m, &options->target, wants, user, options->emitted ? &code : NULL);
  if (p) p->code.text = code;
  msc_end_phase(options, p && !p->has_code ? "plans without code" : "code made", begin);
  return p;
}

static bool plan_fits_limit(void *limit, const msc_plan *p) {
  return msc_plan_rank_bytes(p) <= *(const uint64_t *)limit;
}

/* Makes the code of a plan that was made without code. */
static bool make_code(msc_plan *p, const msc_compile_options *options) {
  const msc_plan *again = p->has_code ? p : plan_of_module(p->ctx, p->module, options, NULL, NULL);
  if (again) p->code = again->code, p->has_code = true;
  return again != NULL;
}

/* Returns the bytes of a block on disk: host_mem_block_size, or what the largest value on disk needs, if that is
 * less. */
static uint64_t block_of_disk(const msc_plan *p, const msc_config *config) {
  enum { PAGE = 4096 };
  uint64_t most = PAGE, block = (uint64_t)msc_config_int(config, MSC_KEY_host_mem_block_size);
  for (size_t i = 0; i < p->num_parameters; i++)
    if (p->parameter[i].ref.space == PLAN_SPACE_DISK && p->parameter[i].ref.bytes > most)
      most = (p->parameter[i].ref.bytes + PAGE - 1) / PAGE * PAGE;
  return most < block ? most : block;
}

/* Makes the plan of a module at `propagated`, its `searched` not packed yet; it may need more memory than there is:
 * above `code_limit` it gets no code yet.  NULL after a report, and without one if the strategy is not within the
 * bounds. */
static msc_plan *make_plan(msc_context *ctx, msc_module *m, const msc_compile_options *options,
                           const strategy_bounds *within, uint64_t code_limit) {
  compilation c = {.ctx = ctx, .o = options, .step_ns = -1, .within = within};
  if (options->without_code) code_limit = 0;
  msc_pass_options o = msc_pass_options_of(options);
  o.at = on_checkpoint, o.at_user = &c;
  if (!msc_run_stretch(ctx, m, &o, MSC_AT_propagated, MSC_AT_placed)) return NULL;
  msc_plan *p = plan_of_module(ctx, m, options, plan_fits_limit, &code_limit);
  if (!p) return NULL;
  uint64_t begin = msc_clock_ns();
  const msc_cluster *cluster = msc_cluster_of_options(ctx, options);
  if (!msc_plan_predict_times(p, cluster)) return NULL;
  p->memory_bytes = msc_plan_rank_bytes(p);
  msc_end_phase(options, "step predicted", begin);
  p->decision = c.decision;
  p->num_decisions = c.num_decisions;
  p->strategies = c.strategies;
  p->search.step_ns = c.step_ns, p->search.least_step_ns = c.least_step_ns, p->search.least_plan_ns = c.least_plan_ns;
  p->model = options->model;
  p->model_hash = options->model_hash;
  p->model_folder = options->model_folder;
  p->config = msc_config_of_plan(options->config, p->arena);
  p->searched = c.searched, p->searched_bytes = c.searched_bytes; /* pack_program packs it, of the plan that is taken */
  p->cluster = cluster->text;
  msc_servers servers = msc_config_servers(options->config);
  p->asynchronous = !servers.sync;
  p->staleness = servers.staleness < 0 ? UINT32_MAX : (uint32_t)servers.staleness;
  p->copies = servers.copies;
  for (uint32_t i = 0; i < p->num_stages; i++) {
    if (!p->stage[i].home_bytes[MSC_HOME_DISK]) continue;
    p->offload_path = msc_config_text(options->config, MSC_KEY_offload_path);
    p->offload_block = block_of_disk(p, options->config);
  }
  return p;
}

/* Returns the largest of 1, 2, 3, 4, 6, 8, 12 ... (powers of two, and these times three) that is less than `below`. */
static int64_t next_room(int64_t below) {
  int64_t power = 1;
  while (2 * power < below) power *= 2;
  return power + power / 2 < below ? power + power / 2 : power;
}

msc_module *msc_reparse(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes) {
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
typedef struct bounded_run {
  int64_t room;                     /* bytes; 0: no bound */
  strategy_bounds within;           /* a strategy beyond them gets no plan */
  const struct bounded_run *freely; /* of a run that takes data parallelism: the one that was free; else NULL */
  msc_plan *plan;                   /* or NULL */
  msc_arena *arena;                 /* in which it was made */
  msc_module *copy;                 /* of which it was made; NULL: of the module that was given */
  int64_t kept;                     /* more than `room` where no strategy keeps less */
  bool limited;                     /* the bound decided */
  const char *compared;             /* the strategies that the search's bound covers; NULL: all */
  bool unchecked;                   /* what the passes made was not verified */
} bounded_run;

/* Makes the plan of a module at the checkpoint `propagated` within the bound of r, and fills the rest of r. */
static void make_plan_within(msc_context *ctx, const msc_compile_options *o, msc_module *m, bounded_run *r) {
  msc_func *f = msc_step_func(m);
  if (f) msc_func_put(f, msc_fact_search_room(r->room));
  if (f && r->freely) msc_func_put(f, msc_fact_batch_cut(r->freely->plan->search.least_step_ns));
  if (f && r->freely && r->freely->compared) msc_func_put(f, msc_fact_compared(ctx, r->freely->compared));
  r->plan = make_plan(ctx, m, o, &r->within, (uint64_t)msc_limit_of_options(ctx, o));
  const msc_attr_value *limited = r->plan ? msc_func_attr(f, MSC_FACT(limited)) : NULL;
  r->kept = r->plan ? kept_bytes(f) : INT64_MAX;
  r->limited = limited && limited->b;
  const msc_attr_value *compared = r->plan ? msc_func_attr(f, MSC_FACT(compared)) : NULL;
  r->compared = compared ? compared->s : NULL;
}

/* The search for a plan that fits: the module at `propagated` as text, and the best plan so far with what it keeps. */
typedef struct {
  msc_context *ctx;
  const msc_compile_options *o;
  const char *text;
  size_t bytes;
  int64_t limit;
  int64_t least; /* no strategy keeps less; 0: not known */
  bounded_run best;
} fitting;

/* Makes a plan within the bound of r, without verifying what the passes make: verify_taken looks at the plan that is
 * taken. */
static void make_plan_unchecked(const fitting *t, msc_module *m, bounded_run *r) {
  msc_compile_options o = *t->o;
  r->unchecked = o.verify == MSC_VERIFY_IR;
  if (r->unchecked) o.verify = MSC_VERIFY_OFF;
  make_plan_within(t->ctx, &o, m, r);
}

/* Runs the passes over a copy of the module, in an arena of its own. */
static bool run_again(const fitting *t, bounded_run *r) {
  msc_arena *outer = msc_begin_trial(t->ctx);
  msc_module *again = msc_reparse(t->ctx, t->o, t->text, t->bytes);
  r->copy = again;
  if (again) make_plan_unchecked(t, again, r);
  r->arena = msc_leave_trial(t->ctx, outer);
  if (!r->plan) msc_arena_free(r->arena);
  return r->plan != NULL;
}

static void take_plan(fitting *t, const bounded_run *r) {
  msc_arena_free(t->best.arena);
  t->best = *r;
}

/* Verifies the module of the plan that was taken, if the run that made it did not. */
static bool verify_taken(const fitting *t, msc_module *given) {
  if (!t->best.unchecked) return true;
  uint64_t begin = msc_clock_ns();
  bool ok = msc_check_module(t->best.copy ? t->best.copy : given);
  msc_end_phase(t->o, "taken module verified", begin);
  return ok;
}

/* Would a plan exceed the limit even if its strategy kept nothing and each byte less that it keeps saved as much as in
 * the last step, from plan a to plan b? */
static bool shrinks_too_slowly(const fitting *t, const bounded_run *a, const bounded_run *b) {
  double per_byte = (double)(msc_plan_rank_bytes(a->plan) - msc_plan_rank_bytes(b->plan)) / (double)(a->kept - b->kept);
  return a->kept > b->kept && (double)msc_plan_rank_bytes(b->plan) - per_byte * (double)b->kept > (double)t->limit;
}

/* Makes plans whose strategies keep less and less over the step, as long as the best plan exceeds the limit and each
 * plan needs less memory than the one before; less enough that another may fit, where the limit does not bind. The
 * bounds are the same numbers for every limit, and the limit itself, so a higher limit never refuses what a lower one
 * accepts. */
static bool shrink_plan(fitting *t) {
  while (msc_plan_rank_bytes(t->best.plan) > (uint64_t)t->limit && t->best.kept > 1) {
    int64_t room = next_room(t->best.kept);
    bounded_run r = {.room = room < t->limit ? room : t->limit, .within = no_bounds};
    if (r.room < t->least) return true; /* the search would find the same strategy again */
    MSC_TRY(run_again(t, &r));
    if (msc_plan_rank_bytes(r.plan) >= msc_plan_rank_bytes(t->best.plan)) {
      msc_arena_free(r.arena);
      return true;
    }
    bool slow = !msc_limit_binds(t->ctx, t->o) && shrinks_too_slowly(t, &t->best, &r);
    take_plan(t, &r);
    if (r.kept > r.room || slow) return true;
  }
  return true;
}

static bool is_better_plan(int64_t limit, const msc_plan *a, const msc_plan *b) {
  uint64_t bytes = msc_plan_rank_bytes(a), others = msc_plan_rank_bytes(b), most = (uint64_t)limit;
  if (bytes > most || others > most) return bytes < others;
  return a->predicted_step_ns < b->predicted_step_ns;
}

/* Makes the plan of another run, if its strategy is within the bounds of r, and keeps it if it is better than the best
 * so far. */
static void try_run(fitting *t, bounded_run r) {
  msc_diag_mark before = msc_mark_diags(t->ctx);
  bool made = run_again(t, &r);
  if (made && r.freely) { /* what was found, whatever is taken */
    r.plan->search = r.freely->plan->search;
    r.plan->search.data_parallel = true;
  }
  if (made && is_better_plan(t->limit, r.plan, t->best.plan)) {
    take_plan(t, &r);
    return;
  }
  if (made) msc_arena_free(r.arena);
  msc_forget_diags(t->ctx, before);
}

/* Tries the plan of an unbounded search. Makes none if it would certainly exceed the limit while the best one does,
 * too: a plan needs at least half of the bytes that its strategy keeps. */
static void try_unbounded(fitting *t, bool may_fit) {
  bounded_run r = {.within = no_bounds};
  if (!may_fit) r.within.most_kept = 2 * msc_plan_rank_bytes(t->best.plan);
  try_run(t, r);
}

/* Tries the plan of data parallelism beside one that fits. The search prices ops one by one; what kernels fuse, and
 * collectives that run beside other work, are known of whole plans only, and there data parallelism may come out
 * faster. By the search's own prices it then takes up to a half more. */
static void try_batch_cut(fitting *t) {
  int64_t found = t->best.plan->search.step_ns;
  bounded_run r = {.within = {2 * (uint64_t)t->limit, found + found / 2, t->best.kept, found}, .freely = &t->best};
  if (found >= 0) try_run(t, r);
}

/* Makes the fastest plan that fits.  The search is bounded by what a strategy keeps over the step, with an eighth more
 * than the limit.  That bound is not exact: where it decided and the plan does not fit, or where the backward may
 * compute values again, the plan of an unbounded search is made as well. */
static msc_plan *search_plans(msc_context *ctx, msc_module *m, const msc_compile_options *options) {
  msc_arena *scratch = msc_arena_new(ctx);
  msc_compile_options all = *options, *o = &all;
  all.of_text = msc_pass_memory_new(scratch);
  fitting t = {.ctx = ctx, .o = o, .limit = msc_limit_of_options(ctx, o)};
  bounded_run *first = &t.best;
  *first = (bounded_run){.room = t.limit < INT64_MAX / 2 ? t.limit + t.limit / 8 : 0, .within = no_bounds};
  bool recomputes = !strcmp(msc_config_text(o->config, MSC_KEY_recompute), "auto"), ok = true,
       tries_batch = msc_config_devices(o->config) > 1;
  all.without_code |= tries_batch; /* which of the plans is taken turns out later */
  uint64_t begin = msc_clock_ns();
  t.text = msc_print_text(m, scratch, &t.bytes);
  msc_end_phase(o, "modules copied", begin);
  msc_arena *outer = msc_begin_trial(ctx); /* what is made of m lives as long as its plan */
  if (msc_is_large(m)) make_plan_unchecked(&t, m, first); /* verifying it takes longer than most passes */
  else make_plan_within(ctx, o, m, first);
  first->arena = msc_leave_trial(ctx, outer);
  if (first->plan) {
    if (first->room && first->kept > first->room) t.least = first->kept;
    bool fits = msc_plan_rank_bytes(first->plan) <= (uint64_t)t.limit;
    if (first->room && first->limited && (recomputes || !fits)) try_unbounded(&t, recomputes);
    ok = shrink_plan(&t);
    if (ok && tries_batch && msc_plan_rank_bytes(t.best.plan) <= (uint64_t)t.limit) try_batch_cut(&t);
    ok = ok && verify_taken(&t, m);
  }
  msc_arena_free(scratch);
  msc_plan *best = t.best.plan;
  return ok && best && (options->without_code || make_code(best, options)) ? best : NULL;
}

msc_plan *msc_make_plan(msc_context *ctx, msc_module *m, const msc_compile_options *options) {
  msc_plan *p = shard_searches_time(options->config) ? search_plans(ctx, m, options)
                                                     : make_plan(ctx, m, options, &no_bounds, UINT64_MAX);
  uint64_t begin = msc_clock_ns();
  if (p) pack_program(p);
  if (p) msc_end_phase(options, "searched program packed", begin);
  return p;
}
