/* auto_offload.c: a plan that exceeds memory_limit in; one that keeps within it, with state, parameters and values of a
 * step in host memory, or on disk beyond offload_cpu_size, out.
 *
 * State and parameters leave the device one by one, in one order; of the values that a step could put off, a share of
 * eighths by their bytes. For each share that is tried the least number of parameters and state is found by bisection,
 * and of these plans, all of which fit, the fastest is taken: every trial is a compilation, whose predicted time has
 * transfers, what is computed again and the collectives of the parallel optimizer in it. */
#include "codegen/auto_offload.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/make_plan.h"
#include "ir/abi/pools.h"
#include "passes/8_memory/homes.h"

/* What leaves the device: the first `args` of the parameters and state, so many parts of the values of a step; and
 * what comes of that. */
typedef struct {
  size_t args;
  int64_t parts;
  uint64_t ns, moved; /* predicted time of a step, UINT64_MAX: no such plan fits; bytes moved in it */
} away_choice;

typedef struct {
  msc_context *ctx;
  const msc_compile_options *o;
  const char *text; /* of the module */
  size_t bytes, num;
  msc_attr_value *name; /* of parameters and state, those that leave first in front */
  uint64_t *size;
} away_trials;

bool msc_offload_is_auto(const msc_module *m, const msc_config *config) {
  return msc_config_bool(config, MSC_KEY_auto_offload) && !msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_away));
}

/* Sorts the values that may leave the device, those that do so first in front: state before parameters, which are
 * fetched more often; large values first, since they take the fewest transfers. */
static int compare_by_worth(const void *a, const void *b) {
  const msc_plan_variable *x = a, *y = b;
  bool one = msc_arg_role(x->func, x->arg) == MSC_ROLE_STATE, other = msc_arg_role(y->func, y->arg) == MSC_ROLE_STATE;
  if (one != other) return one ? -1 : 1;
  if (x->ref.bytes != y->ref.bytes) return x->ref.bytes > y->ref.bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* ---- a trial ---- */

/* Returns how many of the first k values fit into offload_cpu_size bytes of host memory, and what they leave of it; the
 * others go to disk. All do if there is no such limit, or no disk. */
static size_t num_near(const away_trials *t, size_t k, int64_t *out_room) {
  bool limited = msc_config_value(t->o->config, MSC_KEY_offload_cpu_size);
  size_t num = 0;
  *out_room = limited ? msc_config_int(t->o->config, MSC_KEY_offload_cpu_size) : INT64_MAX;
  bool disk = msc_config_value(t->o->config, MSC_KEY_offload_path);
  for (; num < k && (!limited || !disk || msc_pool_lines(t->size[num]) <= (uint64_t)*out_room); num++)
    if (limited) *out_room -= (int64_t)msc_pool_lines(t->size[num]);
  return num;
}

static msc_module *module_with_away(const away_trials *t, const away_choice *c) {
  msc_module *m = msc_reparse(t->ctx, t->o, t->text, t->bytes);
  int64_t room;
  size_t near = num_near(t, c->args, &room);
  if (!m) return NULL;
  msc_attrs_put(t->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_away(t->ctx, near, t->name));
  msc_attrs_put(t->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_far(t->ctx, c->args - near, t->name + near));
  if (c->parts) msc_attrs_put(t->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_put_off(c->parts));
  if (c->parts && room < INT64_MAX) msc_attrs_put(t->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_put_off_room(room));
  return m;
}

static uint64_t moved_bytes(const msc_plan *p) {
  uint64_t bytes = 0;
  for (size_t s = 0; s < p->num_sections; s++)
    for (size_t i = 0; i < p->section[s].num_calls; i++)
      if (p->section[s].call[i].kind == PLAN_CALL_KIND_TRANSFER) bytes += p->section[s].call[i].bytes;
  return bytes;
}

static away_choice try_away(const away_trials *t, size_t args, int64_t parts) {
  away_choice c = {.args = args, .parts = parts, .ns = UINT64_MAX};
  const msc_compile_options trial = msc_trial_of(t->o);
  msc_diag_mark before = msc_mark_diags(t->ctx);
  msc_arena *outer = msc_begin_trial(t->ctx);
  msc_module *m = module_with_away(t, &c);
  const msc_plan *p = m ? msc_compile(t->ctx, m, &trial) : NULL;
  if (p) c.ns = p->predicted_step_ns, c.moved = moved_bytes(p);
  msc_end_trial(t->ctx, outer);
  msc_forget_diags(t->ctx, before);
  return c;
}

/* ---- the choice ---- */

static bool is_better_choice(const away_choice *a, const away_choice *b) {
  return a->ns < b->ns || (a->ns == b->ns && a->ns < UINT64_MAX && a->moved < b->moved);
}

/* Returns the choice with the least parameters and state, at most `most`, beside so many parts of values. */
static away_choice least_args(const away_trials *t, int64_t parts, size_t most) {
  away_choice none = {.ns = UINT64_MAX}, low = parts ? try_away(t, 0, parts) : none;
  if (low.ns < UINT64_MAX || !most) return low;
  away_choice high = try_away(t, most, parts);
  while (high.args - low.args > 1) { /* also where `most` do not fit: what goes to disk takes whole sectors */
    away_choice mid = try_away(t, low.args + (high.args - low.args) / 2, parts);
    *(mid.ns < UINT64_MAX ? &high : &low) = mid;
  }
  return high;
}

/* Returns the fastest choice that fits: for every share of values, the least parameters and state beside it. */
static away_choice fastest_that_fits(const away_trials *t, bool values) {
  away_choice best = least_args(t, 0, t->num);
  size_t most = best.ns < UINT64_MAX ? best.args : t->num;
  for (int64_t parts = 1; values && parts <= MSC_PUT_OFF_PARTS; parts *= 2) {
    away_choice c = least_args(t, parts, most);
    if (c.ns < UINT64_MAX) most = c.args;
    if (is_better_choice(&c, &best)) best = c;
  }
  return best;
}

/* For recompute=auto, where a plan may also fit by computing values again, as `p` does if it fits: tries four numbers
 * of parameters and state, then shares of values beside the best of them and beside none, and the numbers once more
 * beside the best share. */
static away_choice fastest_with_recompute(const away_trials *t, const msc_plan *p, bool fits, bool values) {
  enum { STEPS = 4 };
  away_choice best = {.args = t->num, .ns = UINT64_MAX};
  if (fits) best = (away_choice){.ns = p->predicted_step_ns, .moved = moved_bytes(p)};
  for (size_t i = 1; i <= STEPS; i++) {
    away_choice c = try_away(t, t->num * i / STEPS, 0);
    if (is_better_choice(&c, &best)) best = c;
  }
  size_t few[] = {0, best.args};
  for (int64_t parts = 2; values && parts <= MSC_PUT_OFF_PARTS; parts *= 2)
    for (size_t i = 0; i < (few[1] ? 2 : 1); i++) {
      away_choice c = try_away(t, few[i], parts);
      if (is_better_choice(&c, &best)) best = c;
    }
  for (size_t i = 0; best.parts && i < STEPS; i++) {
    away_choice c = try_away(t, t->num * i / STEPS, best.parts);
    if (is_better_choice(&c, &best)) best = c;
  }
  return best;
}

static void list_values(away_trials *t, const msc_plan *p) {
  msc_plan_variable *v = msc_new_array(p->arena, msc_plan_variable, p->num_parameters + 1);
  t->name = msc_new_array(p->arena, msc_attr_value, p->num_parameters + 1);
  t->size = msc_new_array(p->arena, uint64_t, p->num_parameters + 1);
  size_t num = 0;
  for (size_t i = 0; i < p->num_parameters; i++)
    if (p->parameter[i].ref.space == PLAN_SPACE_PERSISTENT && !p->parameter[i].copy &&
        p->parameter[i].ref.bytes >= MSC_LEAST_OFFLOADED_BYTES)
      v[num++] = p->parameter[i];
  qsort(v, num, sizeof *v, compare_by_worth);
  for (; t->num < num; t->num++)
    t->name[t->num] = msc_str(t->ctx, v[t->num].name), t->size[t->num] = v[t->num].ref.bytes;
}

msc_plan *msc_offload_until_fits(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes,
                                 msc_plan *p) {
  bool recomputes = !strcmp(msc_config_text(o->config, MSC_KEY_recompute), "auto"),
       fits = msc_plan_rank_bytes(p) <= (uint64_t)msc_limit_of_options(ctx, o),
       values = msc_program_func(p->module, MSC_PROGRAM_TRAIN) && !msc_config_offload(o->config, "activation") &&
                msc_config_int(o->config, MSC_KEY_pipeline_stages) <= 1;
  if (fits && !recomputes) return p;
  away_trials t = {.ctx = ctx, .o = o, .text = text, .bytes = bytes};
  list_values(&t, p);
  away_choice c = recomputes ? fastest_with_recompute(&t, p, fits, values) : fastest_that_fits(&t, values);
  if (c.ns == UINT64_MAX && !recomputes) c = (away_choice){.args = t.num, .parts = values ? MSC_PUT_OFF_PARTS : 0};
  if (!c.args && !c.parts) return p;
  msc_module *m = module_with_away(&t, &c);
  return m ? msc_compile(ctx, m, o) : NULL; /* `o` has the memory */
}
