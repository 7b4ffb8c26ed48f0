/* layouts: the digits of every letter -> the layout of every value, and of every op the layouts in which it wants its
 * operands (`in_layout`).
 *
 * A value whose sum over ranks is unfinished passes through a linear op unfinished if that op is its only user and the
 * result is no larger: the sum is then finished later, once, and on fewer bytes. So the two gradients of a parameter
 * that is used twice are added first and summed over ranks once. */
#include <string.h>

#include "passes/3_shard/shard.h"
#include "passes/config/config.h"

typedef struct {
  msc_pass_ctx *pass;
  shard_graph *g;
  msc_assignment *of_op;         /* by op id: own letters, with pass */
  const msc_layout **first_want; /* by value id: the layout that the first user of an argument wants it in */
} layout_writer;

/* ---- partial sums that pass ---- */

static uint32_t partial_atoms(const shard_graph *g, const msc_layout *l) {
  return shard_atom_set(&g->atoms, l->num_partial, l->sub + l->first[l->rank]);
}

static bool is_used_only_by(const msc_value *v, const msc_op *op) {
  for (const msc_use *u = v->uses; u; u = u->next)
    if (u->user != op) return false;
  return true;
}

static uint32_t cut_atoms(const msc_assignment *a, int num_letters) {
  uint32_t mask = 0;
  for (int l = 0; l < num_letters; l++)
    for (int k = 0; k < a->num[l]; k++) mask |= 1u << a->atom[l][k];
  return mask;
}

/* The digits, as atoms, on which a search lets sums pass through the op unfinished: its attribute `pass`. */
static uint32_t searched_pass(const layout_writer *y, const msc_op *op) {
  const msc_layout *digits = msc_op_layout(op, MSC_FACT(pass));
  return digits ? shard_atom_set(&y->g->atoms, digits->first[1], digits->sub) : 0;
}

/* The atoms over which unfinished sums may pass through op o, which has the digits `a`; 0: none. Sets a->pass_in. */
static uint32_t passing_digits(const layout_writer *y, const shard_op *o, msc_assignment *a) {
  const msc_op *op = o->op;
  uint32_t pass = 0;
  bool is_scalar = op->num_out == 1 && !op->out[0].type->rank; /* the search decides nothing about these */
  if (msc_func_attr(y->g->func, MSC_FACT(searched)) && !shard_widens_gradient(op) && !is_scalar)
    return searched_pass(y, op);
  if (!o->rule.linear || msc_info(op)->cost == MSC_COST_FLOPS || msc_info(op)->flags & (MSC_UPDATE | MSC_COLLECTIVE) ||
      op->num_out != 1)
    return 0;
  for (int t = 0; t < op->num_in; t++) {
    const msc_layout *have = op->in[t].value->type->layout;
    uint32_t here = have && have->num_partial ? partial_atoms(y->g, have) : 0;
    bool linear = o->rule.linear_in >> t & 1;
    if (here && (!linear || have->reduction != MSC_SUM || !is_used_only_by(op->in[t].value, op))) return 0;
    if (here && msc_type_elems(op->out[0].type) > msc_type_elems(op->in[t].value->type)) return 0;
    if (o->rule.joint && linear && t > 0 && here != pass) return 0;
    if (!o->rule.joint && here && pass) return 0;
    if (here) a->pass_in = (uint8_t)t;
    pass |= here;
  }
  return pass & cut_atoms(a, o->rule.num_letters) ? 0 : pass;
}

/* ---- per op ---- */

static const msc_layout *wanted_layout(layout_writer *y, const shard_op *o, size_t tensor) {
  return msc_rule_layout(y->g->ctx, y->g->mesh, &y->g->atoms, &o->rule, &y->of_op[o->op->id], tensor);
}

static void set_result_layouts(layout_writer *y, const shard_op *o) {
  msc_assignment *a = &y->of_op[o->op->id];
  *a = shard_assignment(o, &y->g->group[o->group].digits);
  a->pass = passing_digits(y, o, a);
  for (int i = 0; i < o->op->num_out; i++)
    o->op->out[i].type =
        msc_type_with_layout(y->g->ctx, o->op->out[i].type, wanted_layout(y, o, (size_t)(o->op->num_in + i)));
}

static void store_wanted_layouts(layout_writer *y, const shard_op *o) {
  const msc_layout **want = msc_new_array(y->g->arena, const msc_layout *, o->op->num_in);
  for (int t = 0; t < o->op->num_in; t++) want[t] = wanted_layout(y, o, (size_t)t);
  if (o->op->num_in) msc_op_put(o->op, msc_fact_in_layout(y->g->ctx, o->op->num_in, want));
}

/* The layout in which the function returns a value that is no new value of an argument: cut as it is computed, since
 * its reader gathers it, and with its sums finished. */
static const msc_layout *layout_of_result(layout_writer *y, const msc_type *t) {
  if (!t->layout || !t->layout->num_partial) return t->layout ? t->layout : msc_layout_replicated(y->g->ctx, t->rank);
  msc_layout l = *t->layout;
  memset(l.sub + l.first[l.rank], 0, l.num_partial * sizeof *l.sub);
  l.num_partial = 0, l.reduction = MSC_SUM;
  return msc_layout_of(y->g->ctx, y->g->mesh, &l);
}

/* Sets the layouts that the function's results are wanted in; the new value of an argument in the argument's layout. */
static void store_wanted_results(layout_writer *y, msc_op *ret) {
  const msc_attr_value *ties = msc_func_attr(y->g->func, MSC_FACT(ties));
  const msc_layout **want = msc_new_array(y->g->arena, const msc_layout *, ret->num_in);
  for (size_t t = 0; t < ret->num_in; t++) {
    int64_t tie = ties && t < ties->list.num ? ties->list.v[t].i : -1;
    want[t] = tie >= 0 ? y->g->func->body->args[tie]->type->layout : layout_of_result(y, ret->in[t].value->type);
  }
  if (ret->num_in) msc_op_put(ret, msc_fact_in_layout(y->g->ctx, ret->num_in, want));
}

/* ---- arguments ---- */

static void find_first_wants(layout_writer *y) {
  for (size_t i = 0; i < y->g->num_ops; i++) {
    const shard_op *o = &y->g->op[i];
    for (int t = 0; o->group >= 0 && t < o->op->num_in; t++) {
      const msc_value *v = o->op->in[t].value;
      bool owner = msc_info(o->op)->flags & MSC_UPDATE && t < msc_info(o->op)->num_operands &&
                   msc_info(o->op)->operand[t].tied >= 0;
      if (v->def || (y->first_want[v->id] && !owner)) continue;
      y->first_want[v->id] = wanted_layout(y, o, (size_t)t);
    }
  }
}

/* True if the op has a group and belongs to the forward pass: it is no gradient op, no update and serves none. */
static bool belongs_to_model(const layout_writer *y, const msc_op *op, const bool *is_optimizers) {
  return y->g->op[op->id].group >= 0 && !is_optimizers[op->id] && !op->forward && !(msc_info(op)->flags & MSC_UPDATE);
}

/* If the user of the parameter is a cast, the first use of the cast's result; else the use itself. */
static const msc_use *use_behind_cast(const msc_use *use) {
  const msc_use *first = use->user->kind == OP_cast ? use->user->out[0].uses : NULL;
  for (const msc_use *u = first; u; u = u->next)
    if (u->user->id < first->user->id) first = u;
  return first && !(msc_info(first->user)->flags & MSC_TERMINATOR) ? first : use;
}

/* Checks that two uses of parameter w want it in one layout; false after a report. */
static bool check_same_layout(layout_writer *y, const msc_value *w, const msc_use *first, const msc_use *other) {
  const msc_layout *there = wanted_layout(y, &y->g->op[first->user->id], (size_t)(first - first->user->in)),
                   *here = wanted_layout(y, &y->g->op[other->user->id], (size_t)(other - other->user->in));
  if (here == there) return true;
  msc_op_error(other->user, MSC_E_STRATEGY, "parameter %s is used in two layouts: %s wants %s, %s wants %s",
               w->name ? w->name : "", msc_op_title(first->user), msc_layout_print(y->g->arena, y->g->mesh, there),
               msc_op_title(other->user), msc_layout_print(y->g->arena, y->g->mesh, here));
  msc_note(y->g->ctx, first->user->loc,
           "the other use is here; set strict_parameter_layout to false to redistribute instead");
  return false;
}

/* Checks that all uses of v in the model, which is the parameter w or a cast of it, want it in one layout
 * (configuration key strict_parameter_layout); false after a report. */
static bool check_uses(layout_writer *y, const msc_value *w, const msc_value *v, const bool *is_optimizers) {
  const msc_use *first = NULL;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (belongs_to_model(y, u->user, is_optimizers) && (!first || u->user->id < first->user->id)) first = u;
  for (const msc_use *u = first ? v->uses : NULL; u; u = u->next)
    if (belongs_to_model(y, u->user, is_optimizers))
      MSC_TRY(check_same_layout(y, w, use_behind_cast(first), use_behind_cast(u)));
  return true;
}

static bool check_parameter(layout_writer *y, const msc_value *w, const bool *is_optimizers) {
  bool ok = check_uses(y, w, w, is_optimizers);
  for (const msc_use *u = w->uses; u && ok; u = u->next)
    if (u->user->kind == OP_cast) ok = check_uses(y, w, &u->user->out[0], is_optimizers);
  return ok;
}

static bool set_argument_layouts(layout_writer *y) {
  msc_block *b = y->g->func->body;
  const bool *is_optimizers = shard_optimizer_ops(y->g->arena, y->g->func);
  bool ok = true;
  find_first_wants(y);
  for (size_t i = 0; i < b->num_args; i++) {
    msc_value *v = b->args[i];
    const msc_layout *want = y->first_want[v->id], *fixed = y->g->arg_layout[i];
    if (!fixed) fixed = want ? want : msc_layout_replicated(y->g->ctx, v->type->rank);
    v->type = msc_type_with_layout(y->g->ctx, v->type, fixed);
    if (msc_arg_role(y->g->func, i) == MSC_ROLE_PARAMETER && want &&
        msc_config_bool(y->pass->config, MSC_KEY_strict_parameter_layout))
      ok &= check_parameter(y, v, is_optimizers);
  }
  return ok;
}

static void set_all_result_layouts(layout_writer *y) {
  y->of_op = msc_new_array(y->g->arena, msc_assignment, y->g->num_ops);
  for (size_t i = 0; i < y->g->num_ops; i++)
    if (y->g->op[i].group >= 0) set_result_layouts(y, &y->g->op[i]);
}

static void set_op_layouts(layout_writer *y) {
  set_all_result_layouts(y);
  for (size_t i = 0; i < y->g->num_ops; i++)
    if (y->g->op[i].group >= 0) store_wanted_layouts(y, &y->g->op[i]);
}

void shard_lay_ops(msc_pass_ctx *pass, shard_graph *g) {
  layout_writer y = {.pass = pass, .g = g};
  set_op_layouts(&y);
}

const msc_layout ***shard_lay_results(msc_pass_ctx *pass, shard_graph *g) {
  layout_writer y = {.pass = pass, .g = g};
  const msc_layout ***want = msc_new_array(g->arena, const msc_layout **, g->num_ops);
  set_all_result_layouts(&y);
  for (size_t i = 0; i < g->num_ops; i++) {
    const shard_op *o = &g->op[i];
    if (o->group < 0) continue;
    want[i] = msc_new_array(g->arena, const msc_layout *, o->op->num_in);
    for (int t = 0; t < o->op->num_in; t++) want[i][t] = wanted_layout(&y, o, (size_t)t);
  }
  return want;
}

/* Facts that only the passes up to this one read. */
static const char *const dropped_facts[] = {MSC_FACT(sharding), MSC_FACT(owner), MSC_FACT(owner_letters),
                                            MSC_FACT(pass), MSC_FACT(in_strategy)};

bool pass_layouts(msc_pass_ctx *pass, msc_module *m) {
  shard_graph g;
  layout_writer y = {.pass = pass, .g = &g};
  msc_func *f = shard_func(m);
  if (!f) return true;
  MSC_TRY(shard_graph_of(pass, f, &g));
  y.first_want = msc_new_array(pass->scratch, const msc_layout *, g.num_values);
  set_op_layouts(&y);
  MSC_TRY(set_argument_layouts(&y));
  store_wanted_results(&y, f->body->last);
  for (msc_op *op = f->body->first; op; op = op->next)
    for (size_t i = 0; i < sizeof dropped_facts / sizeof *dropped_facts; i++) msc_op_unset(op, dropped_facts[i]);
  return true;
}
