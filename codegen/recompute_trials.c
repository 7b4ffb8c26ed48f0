/* recompute_trials.c: recompute=auto: a program in; the same with the ops marked whose values the backward computes
 * again, or with the number of bytes that pass recompute is to save, out.
 *
 * How much memory a choice saves and how much time it costs is known only when kernels are fused and values placed, so
 * the passes that do this run for every choice. Pass recompute chooses ops by estimates
 * (passes/4_partition/recompute_choice.c); the trials find the number of bytes that it is told to save. In a small
 * model a choice is a set of ops: all sets are tried, or, where they are too many, sets that differ by one op or two
 * from the best set so far, beginning with all ops and with none. Where the compilation is a trial itself, of what
 * lives in host memory or how many micro-batches are side by side, fewer choices tell how fast that can be; what is
 * decided then is compiled with all of them. */
#include "codegen/recompute_trials.h"

#include <string.h>

#include "codegen/emit/emit.h"
#include "ir/abi/clock.h"
#include "passes/8_memory/homes.h"
#include "passes/8_memory/overlap.h"
#include "passes/8_memory/offsets/offsets.h"
#include "passes/direction.h"

enum {
  MOST_UNITS = 20,
  ALL_UNITS = 8,
  ALL_UNITS_OF_TRIAL = 4,
  MOST_SETS = 400,
  MOST_SETS_WITH_SCHEDULES = 50,
  MOST_SETS_OF_TRIAL = 16,
  LARGE = 3000 /* ops */
};

/* A choice: either how many bytes pass recompute is to save, and how many pieces each of its groups has; or a set of
 * ops. */
typedef struct {
  int64_t saving, group, shift;
  uint32_t set; /* of units */
} choice;

typedef struct {
  choice made;
  int64_t bytes, ns; /* memory of the plan beside the arguments, and time of a step */
} trial;

typedef struct {
  msc_context *ctx;
  const msc_compile_options *o;
  const char *text; /* of the program */
  size_t bytes;
  bool is_coarse;               /* a number near the best is enough: trials take long, or are those of a trial */
  int64_t room;                 /* beside the arguments */
  int64_t least;                /* bytes that every choice needs beside the arguments: those of evaluation */
  const char *unit[MOST_UNITS]; /* names of the forward's ops; ops of an op's expansion have its name, too */
  size_t num_units;
  trial best;                   /* bytes -1: there is none yet */
} trials;

/* ---- a trial ---- */

/* Returns the bytes of the arguments on the device; inputs count twice, for the batch in use and the one read ahead. */
static int64_t argument_bytes(const msc_config *config, const msc_func *f) {
  int64_t bytes = 0;
  for (size_t i = 0; i < f->body->num_args; i++)
    if (msc_home_of(config, f, i) == MSC_HOME_DEVICE)
      bytes +=
          (msc_arg_role(f, i) <= MSC_ROLE_MASK ? 2 : 1) * msc_round_to_lines(msc_local_bytes(f->body->args[i]->type));
  return bytes;
}

/* Returns the bytes of the constants that no kernel contains. */
static int64_t constant_bytes(const msc_func *f) {
  int64_t bytes = 0;
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (msc_is_constant_op(op)) bytes += msc_round_to_lines(msc_type_bytes(op->out[0].type));
  return bytes;
}

static bool is_recompute_unit(const msc_op *op) {
  return op->name && !msc_is_constant_op(op) && !msc_op_attr(op, MSC_FACT(recompute)) && msc_info(op)->flags & MSC_PURE;
}

/* Returns the number of the unit with this name; num_units: there is none. */
static size_t find_unit(const trials *t, const char *name) {
  size_t i = 0;
  while (i < t->num_units && t->unit[i] != name) i++;
  return i;
}

static void mark_choice(const trials *t, msc_func *train, const choice *c) {
  if (c->saving > 0) msc_func_put(train, msc_fact_recompute_saving(c->saving));
  if (c->saving > 0 && c->group)
    msc_func_put(train, msc_fact_recompute_group(c->group)), msc_func_put(train, msc_fact_recompute_shift(c->shift));
  if (!c->set) return;
  const bool *forward = msc_forward_ops(msc_context_arena(t->ctx), train);
  for (msc_op *op = train->body->first; op; op = op->next) {
    size_t u = forward[op->id] && is_recompute_unit(op) ? find_unit(t, op->name) : MOST_UNITS;
    if (u < t->num_units && c->set >> u & 1) msc_op_put(op, msc_fact_recompute(msc_bool(true)));
  }
}

/* True for the functions of a training step: the whole step, or its sections. The others evaluate. */
static bool is_of_step(const msc_func *f) { return msc_program_of(f) == MSC_PROGRAM_TRAIN; }

/* Measures a compiled trial: its constants and largest scratch memory, which are the trial's bytes, and the time of all
 * functions of the step one after the other. */
static void measure_trial(trials *t, msc_module *m, trial *r) {
  msc_arena *scratch = msc_arena_new(t->ctx);
  msc_pass_options options = {.config = t->o->config, .cluster = t->o->cluster};
  msc_pass_ctx pass = {.ctx = t->ctx, .scratch = scratch, .config = t->o->config, .options = &options};
  int64_t constants = 0, step = 0, evaluation = 0;
  for (msc_func *f = m->first; f; f = f->next) {
    const msc_attr_value *v = msc_func_attr(f, MSC_FACT(scratch));
    int64_t *most = is_of_step(f) ? &step : &evaluation;
    if (v) *most = msc_max(*most, v->i + MSC_FLAG_BYTES);
    constants += constant_bytes(f);
    if (is_of_step(f)) r->ns += (int64_t)msc_section_ns(&pass, f);
  }
  r->bytes = msc_max(step, evaluation) + constants;
  t->least = evaluation;
  msc_arena_free(scratch);
}

/* True if a is better than b: a fits and b does not, or both fit and a takes less time, or neither fits and a needs
 * less memory. */
static bool is_better_trial(const trials *t, const trial *a, const trial *b) {
  bool fits = a->bytes <= t->room, fitted = b->bytes <= t->room;
  if (fits != fitted) return fits;
  if (!fits && a->bytes != b->bytes) return a->bytes < b->bytes;
  return a->ns < b->ns || (a->ns == b->ns && a->bytes < b->bytes);
}

/* Compiles a copy of the program with the choice and measures it. If the passes refuse the choice, bytes is -1. */
static trial compile_copy(trials *t, choice c) {
  msc_compile_options o = msc_trial_of(t->o);
  uint64_t begin = msc_clock_ns();
  msc_module *m = msc_parse(t->ctx, "recompute", t->text, t->bytes);
  msc_func *train = m ? msc_program_func(m, MSC_PROGRAM_TRAIN) : NULL;
  trial r = {c, -1, 0};
  if (!train) return r;
  mark_choice(t, train, &c);
  msc_end_phase(t->o, "modules copied", begin);
  if (!msc_compile_stretch(t->ctx, m, &o, MSC_AT_partitioned, MSC_AT_placed)) return r;
  begin = msc_clock_ns();
  measure_trial(t, m, &r);
  msc_end_phase(t->o, "trials measured", begin);
  return r;
}

static trial run_trial(trials *t, choice c) {
  msc_arena *outer = msc_begin_trial(t->ctx);
  trial r = compile_copy(t, c);
  msc_end_trial(t->ctx, outer);
  if (r.bytes < 0) return r;
  if (t->best.bytes < 0 || is_better_trial(t, &r, &t->best)) t->best = r;
  return r;
}

/* ---- bytes to save ---- */

static int64_t try_saving(trials *t, int64_t saving) { return run_trial(t, (choice){.saving = saving}).bytes; }

/* Searches for the number of bytes to save. The first number is what is missing without recomputation; since estimates
 * may be wrong by a factor, it is raised by what is still missing, then set halfway between too little and enough. A
 * slightly larger number may take less time, as other ops are fused then, so that is tried too. The numbers tried do
 * not depend on the limit: a higher limit meets all that a lower one finds. For a large model, or in a trial, a number
 * near the best is enough. Where evaluation alone needs more than there is, nothing helps: no more is tried. */
static void find_saving(trials *t) {
  enum { STEPS = 256, MOST = 4 * STEPS, GUESSES = 3, BEYOND = 24, NEXT = 4, NEAR = 64, MOST_GROUP = 4 };
  int64_t top = try_saving(t, 0), missing = top - t->room, too_little = 0, enough = missing > 0 ? MOST + 1 : 0, at = 0;
  if (t->least > t->room) return;
  for (int round = 0; enough - too_little > 1; round++) {
    int64_t guess = at + (missing * STEPS + top - 1) / top;
    at = round < GUESSES && missing > 0 && guess < enough ? guess : (too_little + enough) / 2;
    int64_t got = try_saving(t, top / STEPS * at);
    if (got < 0) return;
    missing = got - t->room;
    if (missing <= 0) enough = at;
    else too_little = at;
    if (t->is_coarse && missing <= 0 && -missing <= t->room / NEAR) return;
  }
  for (int64_t k = enough + NEXT; !t->is_coarse && k <= enough + BEYOND && k <= MOST; k += NEXT)
    try_saving(t, top / STEPS * k);
  for (int64_t group = 1; enough > MOST && group <= MOST_GROUP; group *= 2)
    for (int64_t shift = 0; shift < group && t->best.bytes > t->room; shift++)
      run_trial(t, (choice){INT64_MAX / 4, group, shift, 0});
}

/* ---- sets of ops ---- */

typedef struct {
  trials *t;
  trial tried[MOST_SETS];
  size_t num, most;
} sets;

/* Returns the trial of a set, which runs at most once; NULL: too many sets were tried. */
static const trial *try_set(sets *s, uint32_t set) {
  for (size_t i = 0; i < s->num; i++)
    if (s->tried[i].made.set == set) return &s->tried[i];
  if (s->num == s->most) return NULL;
  s->tried[s->num] = run_trial(s->t, (choice){.set = set});
  return s->tried[s->num].bytes < 0 ? NULL : &s->tried[s->num++];
}

/* Returns the first better trial among the sets with one unit more or less, then among those with two; or NULL. */
static const trial *find_better_neighbour(sets *s, const trial *at) {
  size_t n = s->t->num_units;
  for (size_t pairs = 0; pairs < 2; pairs++)
    for (size_t i = 0; i < n; i++)
      for (size_t k = 0; k < (pairs ? i : 1); k++) {
        const trial *to = try_set(s, at->made.set ^ 1u << i ^ (pairs ? 1u << k : 0));
        if (!to || is_better_trial(s->t, to, at)) return to;
      }
  return NULL;
}

/* True if an op other than its own expansion and the return reads a result. */
static bool is_read_by_others(const msc_op *op) {
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next)
      if (!msc_is_return(u->user) && u->user->name != op->name) return true;
  return false;
}

/* Lists the units.  False: there are too many to try sets. */
static bool find_units(trials *t, msc_func *train) {
  const bool *forward = msc_forward_ops(msc_context_arena(t->ctx), train);
  for (const msc_op *op = train->body->first; op; op = op->next) {
    if (!forward[op->id] || !is_recompute_unit(op) || !is_read_by_others(op) || find_unit(t, op->name) < t->num_units)
      continue;
    if (t->num_units == MOST_UNITS) return false;
    t->unit[t->num_units++] = op->name;
  }
  return true;
}

static void find_set(trials *t) {
  bool searches = !strcmp(msc_config_text(t->o->config, MSC_KEY_pipeline_scheduler), "zb-auto");
  sets s = {.t = t, .most = searches ? MOST_SETS_WITH_SCHEDULES : MOST_SETS};
  if (t->o->is_trial) s.most = MOST_SETS_OF_TRIAL;
  bool tries_all = t->num_units <= (t->o->is_trial ? ALL_UNITS_OF_TRIAL : ALL_UNITS);
  uint32_t all = (uint32_t)((UINT64_C(1) << t->num_units) - 1);
  for (uint32_t set = 0; tries_all && set <= all; set++) try_set(&s, set);
  for (int start = 0; !tries_all && start < 2; start++)
    for (const trial *at = try_set(&s, start ? 0 : all); at;) at = find_better_neighbour(&s, at);
}

void msc_try_recompute(msc_context *ctx, const msc_compile_options *o, msc_module *m) {
  msc_func *train = msc_program_func(m, MSC_PROGRAM_TRAIN);
  if (!train || strcmp(msc_config_text(o->config, MSC_KEY_recompute), "auto")) return;
  msc_arena *scratch = msc_arena_new(ctx);
  int64_t limit = msc_memory_limit(o->config, o->cluster ? o->cluster : msc_cluster_named(ctx, "cpu"));
  trials t = {.ctx = ctx, .o = o, .room = limit - argument_bytes(o->config, train), .best = {.bytes = -1}};
  t.text = msc_print_text(m, scratch, &t.bytes);
  t.is_coarse = o->is_trial || msc_number(train->body).num_ops > LARGE;
  find_saving(&t);
  if (t.room > 0 && t.least <= t.room && find_units(&t, train)) find_set(&t);
  mark_choice(&t, train, &t.best.made);
  msc_arena_free(scratch);
}
