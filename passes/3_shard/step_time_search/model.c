/* model.c: shard graph -> variables, copies and flows (see model.h). */
#include "passes/3_shard/step_time_search/model.h"

#include <string.h>

#include "ir/alias.h"
#include "ir/table.h"

/* What is known about the gradient of a forward value while follow_gradients walks from the last op to the first. */
typedef struct {
  const msc_value *exact; /* the gradient; NULL: a result of the gradient ops of `by`, it is not known which */
  const msc_op *by;       /* the forward op whose gradient ops made it; NULL: no gradient was seen yet */
  int through; /* id of the add of which the value is an operand, and whose gradient is also the value's; -1 */
} known_gradient;

typedef struct {
  shard_model *m;
  shard_graph *g;
  known_gradient *back; /* by value id */
  shard_end *source;    /* by use: where the operand comes from; var PRODUCER: from the op that made it */
  size_t *first_use;    /* by op id: the number of its first use in `source` */
  bool *has_flow;       /* by op id of an add: the flow of its gradient into it was made */
  bool *per_step;       /* by op id: it runs once for all micro-batches of a step */
} model_builder;

enum { PRODUCER = -2 };

/* ---- variables ---- */

static int add_variable(shard_model *m, shard_variable v) {
  msc_reserve(m->g->arena, m->var, m->room_vars, m->num_vars + 1);
  m->var[m->num_vars] = v;
  return (int)m->num_vars++;
}

static int add_member(shard_graph *g, shard_variable *v, shard_member member) {
  msc_reserve(g->arena, v->member, v->room, v->num_members + 1);
  v->member[v->num_members] = member;
  return (int)v->num_members++;
}

static void add_groups(model_builder *d) {
  shard_graph *g = d->g;
  for (size_t i = 0; i < g->num_groups; i++) {
    const shard_group *of = &g->group[i];
    int var = add_variable(
        d->m, (shard_variable){.group = (int)i, .rule = &of->rule, .fixed = of->digits, .closed = of->closed});
    for (size_t k = 0; k < of->num_members; k++) {
      const shard_op *o = &g->op[of->member[k]];
      shard_member member = {.op = o->op, .rule = &o->rule};
      memcpy(member.to_variable, o->to_group, sizeof o->to_group);
      d->m->of_op[o->op->id] = (shard_end){.var = var, .member = add_member(g, &d->m->var[var], member)};
    }
  }
}

/* ---- copies ---- */

static bool several_groups_use(const shard_graph *g, const msc_value *v, int own) {
  int first = -1;
  for (const msc_use *u = v->uses; u; u = u->next) {
    int group = u->user->block == g->func->body ? g->op[u->user->id].group : -1;
    if (group < 0 || group == own) continue;
    if (first < 0) first = group;
    if (group != first) return true;
  }
  return false;
}

/* A rule for `num` tensors of one shape, which share a letter A, B ... for each dimension; joint: partial sums may pass
 * through, in both operands at once. */
static const msc_rule *rule_of_shape(shard_graph *g, const msc_type *t, int num, bool joint) {
  msc_rule *rule = msc_new(g->arena, msc_rule);
  rule->num_in = (uint16_t)(num - 1);
  rule->num_tensors = (uint16_t)num;
  rule->num_letters = t->rank;
  rule->letter = msc_new_array(g->arena, msc_letter, t->rank);
  rule->tensor = msc_new_array(g->arena, msc_tensor_letters, num);
  msc_dim_letters *dim = msc_new_array(g->arena, msc_dim_letters, t->rank);
  for (int d = 0; d < t->rank; d++) {
    rule->letter[d] = (msc_letter){.name = (char)('A' + d), .role = MSC_PAR, .size = t->dim[d]};
    dim[d] = (msc_dim_letters){.num = 1, .letter = {(uint8_t)d}};
  }
  for (int i = 0; i < num; i++) rule->tensor[i] = (msc_tensor_letters){(uint8_t)t->rank, dim};
  rule->linear = rule->joint = joint;
  rule->linear_in = joint ? 3 : 0;
  return rule;
}

/* A member for an op (NULL: the copy itself) on `num` tensors of type t; passes: partial sums may go through it. */
static shard_member shaped_member(shard_graph *g, const msc_op *op, const msc_type *t, int num, bool passes) {
  shard_member member = {.op = op, .rule = rule_of_shape(g, t, num, passes), .passes = passes};
  memset(member.to_variable, -1, sizeof member.to_variable);
  for (int d = 0; d < t->rank; d++) member.to_variable[d] = (int8_t)d;
  return member;
}

static void add_copies(model_builder *d) {
  shard_graph *g = d->g;
  for (size_t i = 0; i < g->num_ops; i++) {
    msc_op *op = g->op[i].op;
    for (int r = 0; g->op[i].group >= 0 && !op->forward && r < op->num_out; r++) {
      msc_value *v = &op->out[r];
      if (!v->type->rank || !several_groups_use(g, v, g->op[i].group)) continue;
      int var =
          add_variable(d->m, (shard_variable){.group = -1, .copied = v, .rule = rule_of_shape(g, v->type, 1, false)});
      add_member(g, &d->m->var[var], shaped_member(g, NULL, v->type, 2, false));
      d->m->copy_of[v->id] = var;
    }
  }
}

/* ---- flows ---- */

static void add_flow(shard_model *m, shard_flow f) {
  f.type = msc_type_with_layout(m->g->ctx, f.value->type, NULL);
  if (f.from.var < 0 && f.to.var < 0) return;
  if (msc_is_constant(f.value) && f.value->type->rank == 0) return;
  msc_reserve(m->g->arena, m->flow, m->room_flows, m->num_flows + 1);
  m->flow[m->num_flows++] = f;
}

static shard_end end_of(const shard_model *m, const msc_op *op, int tensor) {
  shard_end e = m->of_op[op->id];
  e.tensor = tensor;
  return e;
}

static shard_end result_end(const shard_model *m, const msc_value *v) {
  return end_of(m, v->def, v->def->num_in + (int)v->index);
}

/* Where g, the gradient of x, comes from for x's producer: from the last of the adds that hand g on to x, or, without
 * such an add, from the op that made g. Makes the flows of g into these adds. */
static shard_end source_of_gradient(model_builder *d, const msc_value *x, const msc_value *g) {
  shard_end here = result_end(d->m, g);
  int chain[64], num = 0;
  for (int a = d->back[x->id].through; a >= 0 && num < 64; a = d->back[d->g->op[a].op->out[0].id].through)
    chain[num++] = a;
  while (num-- > 0) {
    const msc_op *add = d->g->op[chain[num]].op;
    int tensor = 0;
    while (add->in[tensor].value->type != add->out[0].type) tensor++;
    shard_end to = end_of(d->m, add, tensor);
    if (!d->has_flow[chain[num]]) add_flow(d->m, (shard_flow){.value = g, .from = here, .to = to});
    d->has_flow[chain[num]] = true;
    here = to;
  }
  return here;
}

/* ---- where gradients flow ---- */

static bool is_gradient_of(const known_gradient *b, const msc_value *x, const msc_value *g) {
  if (!b->by) return false;
  return b->exact ? b->exact == g : g->def && g->def->forward == b->by && g->type == x->type;
}

/* Is the gradient of the op's result also that of this operand? */
static bool hands_gradient_on(const msc_op *op, int operand) {
  return (op->kind == OP_add || (op->kind == OP_sub && operand == 0)) && op->in[operand].value->type == op->out[0].type;
}

static void set_source(model_builder *d, const msc_op *user, int operand, shard_end from) {
  d->source[d->first_use[user->id] + (size_t)operand] = from;
}

/* Has this sum of gradients been put into the variable of a copy already? */
static bool is_joined(const model_builder *d, const msc_op *sum) {
  return d->m->var[d->m->of_op[sum->id].var].group < 0;
}

/* The gradient op that adds the gradient which user u contributes to the one that x has so far; NULL: there is none. 
 * It is a member of the group that made x, or of u's if x is an argument. */
static const msc_op *find_gradient_sum(const model_builder *d, const msc_op *u, const msc_value *x) {
  const msc_op *owner = x->def ? x->def : u;
  if (!d->back[x->id].by || d->g->op[owner->id].group < 0) return NULL;
  const shard_group *of = &d->g->group[d->g->op[owner->id].group];
  for (size_t k = 1; k < of->num_members; k++) {
    const msc_op *a = d->g->op[of->member[k]].op;
    if (a->forward == owner && a->kind == OP_add && a->out[0].type == x->type && !is_joined(d, a) &&
        is_gradient_of(&d->back[x->id], x, a->in[0].value))
      return a;
  }
  return NULL;
}

/* Adds a variable for the sum of the gradients of an argument, and returns its number. The argument itself needs no
 * copy: each user brings it into its own layout. */
static int add_variable_of_sums(model_builder *d, msc_value *arg) {
  int var = add_variable(
      d->m, (shard_variable){.group = -1, .copied = arg, .rule = rule_of_shape(d->g, arg->type, 1, false)});
  add_member(d->g, &d->m->var[var], (shard_member){.op = NULL});
  return d->m->copy_of[arg->id] = var;
}

/* Moves `sum`, a sum of gradients of x, from the variable of its op into that of x's copy, if there is one, so that it
 * is computed in the copy's layout. A parameter gets a variable for its sums when it has none. */
static void join_copy(model_builder *d, const msc_op *sum, msc_value *x) {
  int var = d->m->copy_of[x->id];
  bool is_parameter = !x->def && msc_arg_role(d->g->func, x->index) == MSC_ROLE_PARAMETER;
  if (var < 0 && is_parameter && x->type->rank) var = add_variable_of_sums(d, x);
  if (var < 0) return;
  shard_variable *v = &d->m->var[var];
  shard_end *at = &d->m->of_op[sum->id];
  d->m->var[at->var].member[at->member].op = NULL; /* an empty member, so that the others keep their numbers */
  d->m->var[at->var].member[at->member].rule = NULL;
  v->may_pass = true;
  *at = (shard_end){.var = var, .member = add_member(d->g, v, shaped_member(d->g, sum, x->type, 3, true))};
}

/* Records which gradient operand i of u has after u's contribution, and where the operands of sum[i] come from. */
static void follow_gradient_of_operand(model_builder *d, const msc_op *u, int i, const msc_op *const *sum) {
  const msc_value *x = u->in[i].value;
  known_gradient *b = &d->back[x->id], *of_u = &d->back[u->out[0].id];
  bool handed = u->num_out == 1 && of_u->by && hands_gradient_on(u, i);
  if (!sum[i]) {
    if (!b->by) *b = handed ? (known_gradient){of_u->exact, of_u->by, (int)u->id} : (known_gradient){NULL, u, -1};
    return;
  }
  const msc_value *more = sum[i]->in[1].value;
  set_source(d, sum[i], 0, source_of_gradient(d, x, sum[i]->in[0].value));
  if (handed && is_gradient_of(of_u, &u->out[0], more)) {
    known_gradient before = *b;
    *b = (known_gradient){of_u->exact, of_u->by, (int)u->id};
    set_source(d, sum[i], 1, source_of_gradient(d, x, more));
    *b = before;
  }
  *b = (known_gradient){&sum[i]->out[0], u, -1};
}

/* Records where the gradient ops of u, a forward op, get the gradients that they read. sum: room for an entry per
 * operand. */
static void add_gradient_flows(model_builder *d, const msc_op *u, const msc_op **sum) {
  const shard_group *of = &d->g->group[d->g->op[u->id].group];
  for (int i = 0; i < u->num_in; i++) {
    sum[i] = find_gradient_sum(d, u, u->in[i].value);
    if (sum[i]) join_copy(d, sum[i], u->in[i].value);
    follow_gradient_of_operand(d, u, i, sum);
  }
  for (size_t k = 1; k < of->num_members; k++) {
    const msc_op *op = d->g->op[of->member[k]].op;
    if (op->forward != u || !d->m->var[d->m->of_op[op->id].var].member[d->m->of_op[op->id].member].op) continue;
    bool is_sum = false;
    for (int i = 0; i < u->num_in; i++) is_sum |= sum[i] == op;
    for (int t = 0; t < op->num_in && !is_sum; t++)
      for (int r = 0; r < u->num_out; r++)
        if (is_gradient_of(&d->back[u->out[r].id], &u->out[r], op->in[t].value))
          set_source(d, op, t, source_of_gradient(d, &u->out[r], op->in[t].value));
  }
}

static void follow_gradients(model_builder *d) {
  shard_graph *g = d->g;
  size_t uses = 0, most = 1;
  d->first_use = msc_new_array(g->arena, size_t, g->num_ops);
  for (size_t i = 0; i < g->num_ops; i++) {
    d->first_use[i] = uses;
    uses += g->op[i].op->num_in;
    if (g->op[i].op->num_in > most) most = g->op[i].op->num_in;
  }
  d->source = msc_new_array(g->arena, shard_end, uses);
  for (size_t i = 0; i < uses; i++) d->source[i].var = PRODUCER;
  d->back = msc_new_array(g->arena, known_gradient, g->num_values);
  d->has_flow = msc_new_array(g->arena, bool, g->num_ops);
  const msc_op **sum = msc_new_array(g->arena, const msc_op *, most);
  for (size_t i = g->num_ops; i-- > 0;) {
    const shard_op *o = &g->op[i];
    if (o->group < 0 || o->op->forward || msc_info(o->op)->flags & MSC_UPDATE) continue;
    bool handed =
        o->op->num_out == 1 && d->back[o->op->out[0].id].by && (o->op->kind == OP_add || o->op->kind == OP_sub);
    if (g->group[o->group].num_members > 1 || handed) add_gradient_flows(d, o->op, sum);
  }
}

/* ---- all flows ---- */

static void add_flow_of_operand(model_builder *d, const msc_op *op, int t) {
  shard_model *m = d->m;
  const msc_value *v = op->in[t].value;
  shard_flow f = {.value = v, .to = end_of(m, op, t), .from = d->source[d->first_use[op->id] + (size_t)t]};
  if (shard_widens_gradient(op)) return; /* its users get the flow, of the widened value, from its operand's source */
  if (v->def && shard_widens_gradient(v->def)) {
    f.from = d->source[d->first_use[v->def->id]];
    if (f.from.var == PRODUCER) f.from = result_end(m, v->def->in[0].value);
  }
  if (!v->def) {
    f.from = (shard_end){.var = -1, .layout = m->g->arg_layout[v->index]};
    const msc_use *owner = f.from.layout ? NULL : shard_owner_of(m->g, v);
    if (owner && owner != &op->in[t]) f.from = end_of(m, owner->user, (int)(owner - owner->user->in));
    if (!f.from.layout && (!owner || f.from.var < 0)) return;
  } else if (f.from.var == PRODUCER) {
    if (m->of_op[v->def->id].var < 0) return;
    f.from = result_end(m, v);
    int copy = m->copy_of[v->id];
    if (copy >= 0 && f.to.var != f.from.var) f.from = (shard_end){.var = copy, .tensor = 1};
  }
  f.is_gradient = msc_info(op)->flags & MSC_UPDATE && v->def;
  f.per_step = d->per_step[op->id];
  add_flow(m, f);
}

/* Makes the flows of the function's results, which are wanted whole. In a training step that is the loss only: new
 * values of arguments keep their layouts, and other outputs are computed for evaluation only (4_partition/evaluate.c).
 */
static void add_flows_of_results(model_builder *d) {
  const msc_op *ret = d->g->func->body->last;
  const msc_attr_value *loss = msc_func_attr(d->g->func, MSC_FACT(loss));
  bool trains = msc_func_attr(d->g->func, MSC_FACT(ties)) != NULL;
  for (size_t t = 0; t < ret->num_in; t++) {
    const msc_value *v = ret->in[t].value;
    bool is_loss = loss && loss->kind == MSC_ATTR_INT && (size_t)loss->i == t;
    if ((trains && !is_loss) || !v->def || d->m->of_op[v->def->id].var < 0) continue;
    add_flow(d->m, (shard_flow){.value = v,
                                .from = result_end(d->m, v),
                                .to = {.var = -1, .layout = msc_layout_replicated(d->g->ctx, v->type->rank)}});
  }
  if (trains) d->m->num_inner_flows = d->m->num_flows;
}

static void add_all_flows(model_builder *d) {
  shard_model *m = d->m;
  for (size_t i = 0; i < m->num_vars; i++)
    if (m->var[i].group < 0 && m->var[i].copied->def)
      add_flow(m,
               (shard_flow){.value = m->var[i].copied, .from = result_end(m, m->var[i].copied), .to = {.var = (int)i}});
  for (size_t i = 0; i < d->g->num_ops; i++)
    for (int t = 0; m->of_op[i].var >= 0 && t < d->g->op[i].op->num_in; t++) add_flow_of_operand(d, d->g->op[i].op, t);
  m->num_inner_flows = m->num_flows;
  add_flows_of_results(d);
}

/* ---- values that stay in memory over the step ---- */

static bool is_read_backward(const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next)
    if (u->user->forward) return true;
  return false;
}

/* Do gradient ops of another variable read x too? Then its memory is counted there. */
static bool is_read_elsewhere(const shard_model *m, const msc_value *x, int var) {
  for (const msc_use *u = x->uses; u; u = u->next)
    if (u->user->forward && u->user->block == m->g->func->body && m->of_op[u->user->id].var >= 0 &&
        m->of_op[u->user->id].var != var)
      return true;
  return false;
}

/* Does the variable count the memory of x, a forward value that gradient ops read? The variable of its copy does, if
 * there is one, else that of its users. */
static bool is_saved(const shard_model *m, int var, const msc_value *x) {
  if (!x->def || x->def->forward || msc_is_constant_op(x->def) || m->copy_of[x->id] >= 0) return false;
  return m->of_op[x->def->id].var != var || !is_read_elsewhere(m, x, var);
}

/* Is operand t of member m counted already, as an operand of an earlier member or an earlier operand of m? */
static bool is_kept_before(const shard_variable *v, const shard_member *m, int t) {
  const msc_value *x = m->op->in[t].value;
  for (const shard_member *k = v->member; k <= m; k++)
    for (int i = 0; i < (k == m ? t : 64); i++)
      if (k->kept >> i & 1 && k->op && k->op->in[i].value == x) return true;
  return false;
}

/* Does operand t stay in memory over the step? Parameter, state and gradient of an update do, and values of the forward
 * that gradient ops read. */
static bool is_kept(const shard_model *m, int var, const shard_member *of, int t) {
  const msc_op_info *info = msc_info(of->op);
  const msc_value *x = of->op->in[t].value;
  if (info->flags & MSC_UPDATE)
    return (t < info->num_operands && info->operand[t].tied >= 0) || (x->def && x->type->rank > 0);
  return of->op->forward && is_saved(m, var, x) && !is_kept_before(&m->var[var], of, t);
}

static void mark_kept(shard_model *m) {
  for (size_t i = 0; i < m->num_vars; i++)
    for (size_t k = 0; k < m->var[i].num_members; k++) {
      shard_member *of = &m->var[i].member[k];
      if (!of->rule) continue;
      if (!of->op) of->kept = is_read_backward(m->var[i].copied);
      for (int t = 0; of->op && t < (int)of->op->num_in && t < 64; t++)
        if (is_kept(m, (int)i, of, t)) of->kept |= 1ull << t;
    }
}

static void find_per_step(model_builder *d) {
  shard_graph *g = d->g;
  d->per_step = msc_new_array(g->arena, bool, g->num_ops);
  for (size_t i = g->num_ops; i-- > 0;) d->per_step[g->op[i].op->id] = shard_runs_per_step(g->op[i].op, d->per_step);
  for (size_t i = 0; i < d->m->num_vars; i++)
    for (size_t k = 0; k < d->m->var[i].num_members; k++) {
      shard_member *of = &d->m->var[i].member[k];
      of->per_step = of->op && d->per_step[of->op->id];
    }
}

void shard_model_of(shard_graph *g, shard_model *out_model) {
  shard_model *m = out_model;
  model_builder d = {.m = m, .g = g};
  memset(m, 0, sizeof *m);
  m->g = g;
  m->num_micro = msc_fact_read(g->func, micro, 1);
  m->room_vars = g->num_groups + g->num_groups / 8 + 16;
  m->var = msc_new_array(g->arena, shard_variable, m->room_vars);
  m->copy_of = msc_new_array(g->arena, int, g->num_values);
  memset(m->copy_of, -1, g->num_values * sizeof *m->copy_of);
  m->of_op = msc_new_array(g->arena, shard_end, g->num_ops);
  for (size_t i = 0; i < g->num_ops; i++) m->of_op[i].var = -1;
  add_groups(&d);
  add_copies(&d);
  follow_gradients(&d);
  find_per_step(&d);
  add_all_flows(&d);
  mark_kept(m);
}
