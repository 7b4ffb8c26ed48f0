/* redistribute: where the layout of an operand is not the one that its op wants -> the layout changes that the
 * planner chooses. Each (value, wanted layout) is made once, before its first user, from whichever existing layout
 * of the value costs least; a parameter with `msc.gathered`, as under zero 3, is made once for the forward and once
 * for the backward. Afterwards every op passes the sharding type check, and the results have the layouts of
 * `in_layout` of return. */
#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/reshard/prices.h"
#include "passes/3_shard/reshard/reshard.h"
#include "passes/3_shard/shard.h"
#include "passes/7_lower/target.h"
#include "passes/config/config.h"
#include "passes/pass.h"
#include "passes/sum_order.h"

/* A layout that a value was already brought into. */
typedef struct moved {
  const msc_layout *layout;
  msc_value *value;
  bool backward; /* made for the backward, where forward and backward do not share it */
  struct moved *next;
} moved;

/* A plan kept for reuse: layers repeat the same changes. */
typedef struct {
  struct {
    const msc_type *from;
    const msc_layout *to, *order; /* order: of the terms of a sum, see sum_order.h */
  } key;
  msc_reshard_plan plan;
} known_plan;

typedef struct {
  const msc_mesh *mesh;
  msc_reshard *planner;
  msc_reshard *faster;  /* NULL, or the planner to try where `planner` needs several collectives */
  msc_reshard *at_once; /* NULL, or the planner for sums that `planner` would make in another order */
  MSC_TABLE(known_plan) known;
} known_plans;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  known_plans *plans; /* two: one for values, one for gradients on their way into updates, which are sent in buckets */
  const bool *is_optimizers; /* by op id */
  bool time;                 /* plans are chosen by time, and may take several steps where that is faster */
  moved **by_value;          /* by id of the original value */
  size_t num_values, num_ops;
  int64_t bytes, collectives;
} redistributor;

/* ---- plans ---- */

static int num_traffic_steps(const msc_reshard_plan *p) {
  int num = 0;
  for (int i = 0; i < p->num_steps; i++) num += p->step[i].verb != MSC_SHARD;
  return num;
}

static int num_summing_steps(const msc_reshard_plan *p) {
  int num = 0;
  for (int i = 0; i < p->num_steps; i++) num += msc_verb_reduces(p->step[i].verb);
  return num;
}

/* Replaces the plan by one of the faster planner. A sum must not take more steps: in one step it adds in the order
 * of one rank, in several in another order. */
static void replace_by_faster(known_plans *k, const msc_type *from, const msc_layout *to, msc_reshard_plan *plan) {
  msc_reshard_plan other;
  if (k->faster && num_traffic_steps(plan) > 1 && msc_reshard_plan_of(k->faster, from, from->layout, to, &other) &&
      num_summing_steps(&other) <= num_summing_steps(plan))
    *plan = other;
}

/* The digits, as a mask of atoms, over which the layout is a part of a sum. */
static uint32_t terms_of(const msc_atoms *atoms, const msc_layout *l) {
  uint8_t atom[MSC_MAX_SUBAXES];
  uint32_t mask = 0;
  for (int i = msc_atoms_in(atoms, l->num_partial, &l->sub[l->first[l->rank]], atom); i > 0; i--)
    mask |= 1u << atom[i - 1];
  return mask;
}

/* True if each step of the plan adds the most minor of the digits that are left in `order`: such a sum has the bits of
 * one that is made at once. */
static bool sums_in_order(const msc_mesh *mesh, const msc_layout *from, const msc_layout *order,
                          const msc_reshard_plan *plan) {
  const msc_layout *seen[MSC_MAX_SUBAXES];
  size_t num = 0;
  if (num_summing_steps(plan) < 2) return true;
  seen[num++] = from;
  if (order) seen[num++] = order;
  for (int i = 0; i < plan->num_steps && num < MSC_MAX_SUBAXES; i++) seen[num++] = plan->step[i].to;
  msc_atoms atoms;
  if (!msc_atoms_of(mesh, num, seen, &atoms)) return false;
  uint8_t in_order[MSC_MAX_SUBAXES];
  int num_atoms = order ? msc_atoms_in(&atoms, order->first[1], order->sub, in_order)
                        : msc_atoms_in(&atoms, from->num_partial, &from->sub[from->first[from->rank]], in_order);
  uint32_t left = terms_of(&atoms, from);
  for (int i = 0; i < plan->num_steps; i++) {
    uint32_t then = terms_of(&atoms, plan->step[i].to), added = left & ~then;
    if (then & ~left) return false; /* other ranks have the terms now */
    for (int a = num_atoms - 1; a >= 0 && added; a--) {
      if (then >> in_order[a] & 1) return false;
      added &= ~(1u << in_order[a]);
    }
    left = then;
  }
  return true;
}

/* Returns the plan for a change of layout; NULL if there is none. */
static const msc_reshard_plan *find_or_make_plan(known_plans *k, const msc_type *from, const msc_layout *to,
                                                 const msc_layout *order) {
  known_plan made = {.key = {from, to, order}};
  msc_reshard_plan at_once;
  known_plan *p = msc_table_find(&k->known, &made.key);
  if (p) return &p->plan;
  if (!msc_reshard_plan_of(k->planner, from, from->layout, to, &made.plan)) return NULL;
  replace_by_faster(k, from, to, &made.plan);
  if (k->at_once && !sums_in_order(k->mesh, from->layout, order, &made.plan) &&
      msc_reshard_plan_of(k->at_once, from, from->layout, to, &at_once))
    made.plan = at_once;
  p = msc_table_at(&k->known, &made.key);
  p->plan = made.plan;
  return &p->plan;
}

/* ---- ops ---- */

static msc_value *emit_steps(redistributor *r, msc_op *user, msc_value *v, const msc_reshard_plan *plan) {
  msc_context *ctx = r->pass->ctx;
  for (int i = 0; i < plan->num_steps; i++) {
    const msc_reshard_step *s = &plan->step[i];
    msc_op *op = msc_op_new(r->f, msc_verb_kind(s->verb), 1, &v, 1, user->loc);
    op->name = user->name;
    msc_insert_before(user, op);
    /* results of the function belong to the stage where they were made */
    const msc_op *in_stage = msc_op_attr(user, MSC_FACT(stage)) || !v->def ? user : v->def;
    msc_op_copy_attr(op, in_stage, MSC_FACT(stage));
    if (msc_verb_reduces(s->verb) && v->type->layout->reduction != MSC_SUM)
      msc_op_set(op, "reduction", msc_str(ctx, msc_reduction_name(v->type->layout->reduction)));
    op->out[0].type = msc_type_with_layout(ctx, v->type, s->to);
    v = &op->out[0];
    r->bytes += s->bytes;
    r->collectives += s->verb != MSC_SHARD;
  }
  return v;
}

/* ---- gradients ---- */

static int64_t num_terms(const msc_layout *l) { return msc_group_size(l->num_partial, &l->sub[l->first[l->rank]]); }

/* The layout that becomes `want` when the terms of `from` are added: not cut by their digits, but partial over them.
 * NULL if the parts of `want` have sizes chosen by the user. */
static const msc_layout *layout_before_sum(const redistributor *r, const msc_layout *from, const msc_layout *want) {
  const msc_mesh *mesh = &r->f->module->mesh;
  msc_atoms atoms;
  msc_layout raw;
  uint8_t term[MSC_MAX_SUBAXES], digit[MSC_MAX_SUBAXES];
  int num = 0;
  if (!msc_atoms_of(mesh, 2, (const msc_layout *[]){from, want}, &atoms)) return NULL;
  int terms = msc_atoms_in(&atoms, from->num_partial, &from->sub[from->first[from->rank]], term);
  memset(&raw, 0, sizeof raw);
  raw.rank = want->rank, raw.num_partial = (uint8_t)terms, raw.reduction = from->reduction;
  for (int d = 0; d < want->rank; d++) {
    if (want->split[d]) return NULL;
    int digits = msc_atoms_in(&atoms, want->first[d + 1] - want->first[d], &want->sub[want->first[d]], digit);
    for (int i = 0; i < digits; i++)
      if (!memchr(term, digit[i], (size_t)terms)) raw.sub[num++] = atoms.atom[digit[i]];
    raw.first[d + 1] = (uint8_t)num;
  }
  for (int i = 0; i < terms; i++) raw.sub[num++] = atoms.atom[term[i]];
  return msc_layout_of(r->pass->ctx, mesh, &raw);
}

/* Plans the sum of a gradient as one collective, so that its bits do not depend on how the update is cut. False if
 * no single collective does it. */
static bool plan_single_sum(const redistributor *r, const msc_value *v, const msc_layout *want,
                            msc_reshard_plan *out_plan) {
  const msc_layout *from = v->type->layout;
  const msc_mesh *mesh = &r->f->module->mesh;
  if (r->time || !from->num_partial || want->num_partial) return false;
  const msc_layout *mid = layout_before_sum(r, from, want);
  if (!mid || (mid != from && msc_relayout_wrong(mesh, v->type, MSC_SHARD, from, mid))) return false;
  msc_verb verb = 0;
  while (verb < MSC_NUM_VERBS && !(msc_verb_reduces(verb) && !msc_relayout_wrong(mesh, v->type, verb, mid, want)))
    verb++;
  if (verb == MSC_NUM_VERBS) return false;
  int64_t part = msc_local_bytes(msc_type_with_layout(r->pass->ctx, v->type, want)),
          whole = msc_local_bytes(msc_type_with_layout(r->pass->ctx, v->type, mid));
  msc_reshard_step *step = msc_new_array(r->pass->scratch, msc_reshard_step, 2);
  memset(out_plan, 0, sizeof *out_plan);
  out_plan->step = step;
  if (mid != from) step[out_plan->num_steps++] = (msc_reshard_step){.verb = MSC_SHARD, .to = mid};
  step[out_plan->num_steps++] =
      (msc_reshard_step){.verb = verb, .to = want, .bytes = msc_verb_received(verb, whole, part, num_terms(from))};
  return true;
}

/* ---- values ---- */

static bool report_unreachable(const redistributor *r, const msc_op *user, const msc_value *v, const msc_layout *want) {
  return msc_op_error(user, MSC_E_INFEASIBLE, "no sequence of layout changes leads from %s to %s",
                      msc_layout_print(r->pass->scratch, &r->f->module->mesh, v->type->layout),
                      msc_layout_print(r->pass->scratch, &r->f->module->mesh, want));
}

static int64_t plan_cost(const redistributor *r, const msc_reshard_plan *p) { return r->time ? p->ns : p->bytes; }

static bool reads_gathered_parameter(const redistributor *r, const msc_value *v) {
  if (v->def && v->def->kind == OP_cast && !v->def->forward) v = v->def->in[0].value;
  const msc_attr_value *a = v->def ? NULL : msc_arg_attr(r->f, v->index, MSC_FACT(msc_gathered));
  return a && a->kind == MSC_ATTR_BOOL && a->b;
}

/* True if the user said of the op that the backward reuses the parameters gathered in the forward. */
static bool keeps_gathered_for_backward(const msc_op *forward) {
  const msc_attr_value *v = msc_op_attr(forward, MSC_FACT(parallel_optimizer_comm_recompute));
  return v && v->kind == MSC_ATTR_BOOL && !v->b;
}

/* The order in which the terms of v are added; NULL: that of the ranks. */
static const msc_layout *find_order_of_terms(const redistributor *r, const msc_value *v) {
  const msc_op *sum = msc_sum_of(v);
  if (!sum || !sum->num_in) return NULL;
  return msc_sum_order(r->pass->ctx, &r->f->module->mesh, sum, sum->in[0].value->type->layout);
}

static msc_value *bring_into_layout(redistributor *r, msc_op *user, msc_value *v, const msc_layout *want) {
  moved **list = v->id < r->num_values ? &r->by_value[v->id] : NULL;
  bool backward = user->forward && reads_gathered_parameter(r, v) && !keeps_gathered_for_backward(user->forward);
  for (moved *m = list ? *list : NULL; m; m = m->next)
    if (m->layout == want && m->backward == backward) return m->value;
  bool is_gradient =
      v->def && (msc_info(user)->flags & MSC_UPDATE || (user->id < r->num_ops && r->is_optimizers[user->id]));
  known_plans *plans = &r->plans[is_gradient ? 1 : 0];
  msc_reshard_plan sum;
  bool summed = is_gradient && plan_single_sum(r, v, want, &sum);
  const msc_layout *order = v->type->layout->num_partial ? find_order_of_terms(r, v) : NULL;
  const msc_reshard_plan *plan = summed ? &sum : find_or_make_plan(plans, v->type, want, order);
  msc_value *from = v;
  for (moved *m = list && !summed ? *list : NULL; m; m = m->next) {
    const msc_reshard_plan *other =
        m->backward == backward ? find_or_make_plan(plans, m->value->type, want, order) : NULL;
    if (other && (!plan || plan_cost(r, other) < plan_cost(r, plan))) plan = other, from = m->value;
  }
  if (!plan) {
    report_unreachable(r, user, v, want);
    return NULL;
  }
  msc_value *there = emit_steps(r, user, from, plan);
  if (list) {
    moved *m = msc_new(r->pass->scratch, moved);
    *m = (moved){want, there, backward, *list};
    *list = m;
  }
  return there;
}

static bool redistribute_operands(redistributor *r, msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_layout *l = msc_wanted_layout(op, i);
    msc_value *v = op->in[i].value;
    if (!l || !v->type->layout || v->type->layout == l) continue;
    msc_value *there = bring_into_layout(r, op, v, l);
    MSC_TRY(there);
    msc_set_operand(op, i, there);
  }
  /* `in_layout` of return is part of the function's interface and stays */
  if (!msc_is_return(op)) msc_op_unset(op, MSC_FACT(in_layout));
  return true;
}

/* Erases broadcast_to ops that change nothing: the search used them where several users share a layout, or they held
 * a layout that the user fixed. */
static void erase_idle_broadcasts(msc_func *f) {
  bool searched = msc_func_attr(f, MSC_FACT(searched));
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind != OP_broadcast_to || op->out[0].type != op->in[0].value->type || !op->out[0].type->layout) continue;
    if (!searched && !msc_op_attr(op, MSC_FACT(pinned))) continue;
    msc_replace_uses(&op->out[0], op->in[0].value);
    msc_op_erase(op);
  }
}

static bool redistribute_func(msc_pass_ctx *pass, msc_func *f, known_plans *plans, bool time) {
  msc_numbering n = msc_number(f->body);
  redistributor r = {
      .pass = pass, .f = f, .plans = plans, .time = time, .num_values = n.num_values, .num_ops = n.num_ops};
  r.is_optimizers = shard_optimizer_ops(pass->scratch, f);
  r.by_value = msc_new_array(pass->scratch, moved *, r.num_values);
  bool laid = false;
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    laid |= msc_op_attr(op, MSC_FACT(in_layout)) != NULL;
    MSC_TRY(redistribute_operands(&r, op));
  }
  erase_idle_broadcasts(f);
  if (laid) msc_func_put(f, msc_fact_partitioned(true));
  msc_stat(pass, "collectives", r.collectives);
  msc_stat(pass, "bytes received per device", r.bytes);
  return true;
}

/* Makes a planner for the least time where a search decided the layouts, else for the fewest bytes, with one
 * collective where one is enough. */
static msc_reshard *make_planner(msc_pass_ctx *pass, const msc_module *m, bool time, int64_t bucket,
                                 bool sums_at_once) {
  msc_reshard_options options = {0};
  msc_cost cost;
  if (time) {
    msc_cost_of(msc_pass_cluster(pass), &m->mesh, &cost);
    shard_reshard_options(&cost, bucket, &options);
  }
  options.sums_at_once = sums_at_once;
  options.free_partial = true; /* an expansion may leave whole what is wanted as one term of a sum */
  options.no_alltoall = !msc_config_bool(pass->config, MSC_KEY_enable_alltoall);
  return msc_reshard_new(pass->ctx, &m->mesh, &options);
}

bool pass_redistribute(msc_pass_ctx *pass, msc_module *m) {
  bool searched = false;
  int64_t bucket = 1;
  for (msc_func *f = m->first; f; f = f->next) {
    if (!msc_func_attr(f, MSC_FACT(searched))) continue;
    searched = true;
    if (shard_bucket_of(f) > bucket) bucket = shard_bucket_of(f); /* only train has gradients */
  }
  known_plans plans[2] = {{.known.index.arena = pass->scratch, .mesh = &m->mesh},
                          {.known.index.arena = pass->scratch, .mesh = &m->mesh}};
  plans[0].planner = make_planner(pass, m, searched, 1, false);
  if (!searched) plans[0].faster = make_planner(pass, m, true, 1, false);
  plans[1].planner = bucket > 1 ? make_planner(pass, m, searched, bucket, false) : plans[0].planner;
  for (int k = 0; k < 2 && msc_is_deterministic(m, pass->config); k++)
    plans[k].at_once = make_planner(pass, m, searched, k ? bucket : 1, true);
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(redistribute_func(pass, f, plans, searched));
  return true;
}
