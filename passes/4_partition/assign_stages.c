/* assign_stages: functions with layouts, pipeline_stages > 1 -> the same, every op with the number of its virtual
 * stage, `stage`.
 *
 * A forward op has the stage that `pipeline_stage` gives; one without takes that of its users, then of its operands. If
 * the user gives none, the forward ops, in program order, are assigned to stages by least step time
 * (6_pipeline/balance.h). A gradient op has the stage of its forward op, a sum of gradients that of its earliest term,
 * an update that of the first use of its parameter, and an op that serves updates that of its largest operand. */

#include "passes/5_comm/timing.h"
#include "passes/6_pipeline/balance.h"
#include "passes/6_pipeline/pipeline.h"
#include "passes/direction.h"
#include "passes/pass.h"

enum { NOWHERE = -1, MAX_LAYERS = 1000 };

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_pipeline_shape shape;
  int num_virtual;
  size_t num_ops;
  msc_op **op;      /* by id */
  bool *is_forward; /* by id: it depends on the batch, and the loss or an output depends on it */
  int *stage;       /* by id */
  bool *sees_batch; /* by value id */
} stage_assigner;

/* ---- which ops are the forward ---- */

static bool is_update_op(const msc_op *op) { return msc_info(op)->flags & MSC_UPDATE; }

static bool any_sees_batch(const stage_assigner *s, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (s->sees_batch[op->in[i].value->id]) return true;
  return false;
}

static void mark_forward_ops(stage_assigner *s) {
  for (size_t k = s->num_ops; k-- > 0;) {
    msc_op *op = s->op[k];
    bool kept = false;
    for (size_t o = 0; o < op->num_out; o++)
      for (const msc_use *u = op->out[o].uses; u; u = u->next)
        kept |= u->user == s->f->body->last || s->is_forward[u->user->id];
    s->is_forward[k] =
        kept && !op->forward && !is_update_op(op) && !(msc_info(op)->flags & MSC_TERMINATOR) && any_sees_batch(s, op);
  }
}

/* ---- stages that the user gave ---- */

static bool read_user_stages(stage_assigner *s, bool *out_any) {
  bool ok = true;
  for (size_t k = 0; k < s->num_ops; k++) {
    const msc_attr_value *given = msc_op_attr(s->op[k], MSC_FACT(pipeline_stage));
    s->stage[k] = NOWHERE;
    if (!given || given->kind != MSC_ATTR_INT || !s->is_forward[k]) continue;
    if (given->i < 0 || given->i >= s->num_virtual)
      ok = msc_op_error(s->op[k], MSC_E_STRATEGY, "pipeline_stage %" PRId64 " of %s: there are stages 0..%d", given->i,
                        msc_op_title(s->op[k]), s->num_virtual - 1);
    s->stage[k] = (int)given->i;
    *out_any = true;
  }
  return ok;
}

static void take_stages_of_users(stage_assigner *s) {
  for (size_t k = s->num_ops; k-- > 0;) {
    int least = NOWHERE;
    for (size_t o = 0; s->is_forward[k] && s->stage[k] == NOWHERE && o < s->op[k]->num_out; o++)
      for (const msc_use *u = s->op[k]->out[o].uses; u; u = u->next) {
        int there = s->is_forward[u->user->id] ? s->stage[u->user->id] : NOWHERE;
        if (there != NOWHERE && (least == NOWHERE || there < least)) least = there;
      }
    if (least != NOWHERE) s->stage[k] = least;
  }
}

static int latest_operand_stage(const stage_assigner *s, const msc_op *op, const msc_op **out_op) {
  int last = NOWHERE;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_op *def = op->in[i].value->def;
    if (!def || !s->is_forward[def->id] || s->stage[def->id] <= last) continue;
    last = s->stage[def->id];
    *out_op = def;
  }
  return last;
}

static bool take_stages_of_operands(stage_assigner *s) {
  bool ok = true;
  for (size_t k = 0; k < s->num_ops; k++) {
    const msc_op *before = NULL;
    if (!s->is_forward[k]) continue;
    int last = latest_operand_stage(s, s->op[k], &before);
    if (s->stage[k] == NOWHERE) s->stage[k] = last == NOWHERE ? 0 : last;
    if (last <= s->stage[k]) continue;
    ok =
        msc_op_error(s->op[k], MSC_E_STRATEGY, "pipeline_stage: %s is in stage %d, but takes what %s makes in stage %d",
                     msc_op_title(s->op[k]), s->stage[k], msc_op_title(before), last);
  }
  return ok;
}

static bool check_no_stage_is_empty(const stage_assigner *s) {
  bool *has = msc_new_array(s->pass->scratch, bool, s->num_virtual), ok = true;
  for (size_t k = 0; k < s->num_ops; k++)
    if (s->is_forward[k]) has[s->stage[k]] = true;
  for (int i = 0; i < s->num_virtual; i++)
    if (!has[i])
      ok = msc_error(s->pass->ctx, MSC_E_STRATEGY, s->f->loc, "pipeline_stage: no op is in stage %d of %d", i,
                     s->num_virtual);
  return ok;
}

/* ---- stages by least time ---- */

static int64_t local_value_bytes(const msc_value *v) {
  return v->type->layout ? msc_local_bytes(v->type) : msc_type_bytes(v->type);
}

/* Bytes of the values that are live after op k of the forward: made by then and used later. */
static int64_t *crossing_bytes(const stage_assigner *s) {
  int64_t *bytes = msc_new_array(s->pass->scratch, int64_t, s->num_ops + 1);
  for (size_t k = 0; k < s->num_ops; k++)
    for (size_t o = 0; s->is_forward[k] && o < s->op[k]->num_out; o++) {
      uint32_t last = (uint32_t)k;
      for (const msc_use *u = s->op[k]->out[o].uses; u; u = u->next)
        if (s->is_forward[u->user->id] && u->user->id > last) last = u->user->id;
      int64_t size = local_value_bytes(&s->op[k]->out[o]);
      bytes[k] += size;
      bytes[last] -= size;
    }
  for (size_t k = 1; k < s->num_ops; k++) bytes[k] += bytes[k - 1];
  return bytes;
}

static int64_t parameter_bytes(const stage_assigner *s, const msc_op *op) {
  int64_t bytes = 0;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (!v->def && msc_arg_role(s->f, v->index) == MSC_ROLE_PARAMETER) bytes += local_value_bytes(v);
  }
  return bytes;
}

/* Forms layers of forward ops in order, so many ops to a layer that there are at most about MAX_LAYERS; layer_of by
 * op id. */
static size_t make_layers(const stage_assigner *s, msc_layer *layer, uint32_t *layer_of) {
  msc_cost cost;
  size_t num = 0, seen = 0, forward = 0;
  const int64_t *crossing = crossing_bytes(s);
  msc_cost_of(msc_pass_cluster(s->pass), &s->f->module->mesh, &cost);
  for (size_t k = 0; k < s->num_ops; k++) forward += s->is_forward[k];
  size_t per_layer = forward / MAX_LAYERS + 1;
  for (size_t k = 0; k < s->num_ops; k++) {
    if (!s->is_forward[k]) continue;
    if (seen++ % per_layer == 0) num++;
    msc_layer *l = &layer[num - 1];
    layer_of[k] = (uint32_t)num - 1;
    l->time += 3 * comm_work_ns(&cost, s->op[k], s->pass->scratch); /* the backward takes twice the forward's */
    l->border = 2 * msc_cost_collective(
                        &cost, &(msc_cost_transfer){
                                   .verb = MSC_PERMUTE, .level = 0, .ranks = 2, .bytes = crossing[k], .peers = 1});
    l->fixed += 4 * parameter_bytes(s, s->op[k]);
    for (size_t o = 0; o < s->op[k]->num_out; o++) l->kept += local_value_bytes(&s->op[k]->out[o]);
  }
  return num;
}

static bool assign_stages_by_time(stage_assigner *s) {
  msc_layer *layer = msc_new_array(s->pass->scratch, msc_layer, s->num_ops + 1);
  uint32_t *layer_of = msc_new_array(s->pass->scratch, uint32_t, s->num_ops + 1);
  msc_balance_options o = {.layer = layer,
                           .stages = s->shape.stages,
                           .chunks = s->shape.chunks,
                           .micro_batches = (int)msc_fact_read(s->f, micro, 1),
                           .place = s->shape.place};
  msc_balance b;
  o.num_layers = (int)make_layers(s, layer, layer_of);
  MSC_TRY(msc_balance_make(s->pass->ctx, s->f->loc, &o, &b));
  for (size_t k = 0; k < s->num_ops; k++)
    for (int v = 0; s->is_forward[k] && v < s->num_virtual; v++)
      if ((int)layer_of[k] >= b.first[v]) s->stage[k] = v;
  return true;
}

/* ---- the others ---- */

/* The first stage that uses the argument. */
static int stage_of_argument(const stage_assigner *s, const msc_value *arg) {
  int first = NOWHERE;
  for (const msc_use *u = arg->uses; u; u = u->next) {
    int there = s->is_forward[u->user->id] ? s->stage[u->user->id] : NOWHERE;
    if (there != NOWHERE && (first == NOWHERE || there < first)) first = there;
  }
  return first;
}

static int stage_of_operands(const stage_assigner *s, const msc_op *op) {
  int stage = NOWHERE;
  int64_t most = -1;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    int there = v->def ? s->stage[v->def->id] : stage_of_argument(s, v);
    if (there == NOWHERE || local_value_bytes(v) <= most) continue;
    most = local_value_bytes(v);
    stage = there;
  }
  return stage;
}

static int stage_of_update(const stage_assigner *s, const msc_op *op) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_operands && i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    int there = v->def ? NOWHERE : stage_of_argument(s, v);
    if (there != NOWHERE) return there;
  }
  return stage_of_operands(s, op);
}

/* The earliest stage of the terms of a sum of gradients: that stage runs its backward last and waits for all terms
 * anyway. */
static int stage_of_gradients(const stage_assigner *s, const msc_op *op) {
  int first = NOWHERE;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_op *def = op->in[i].value->def;
    int there = def && !s->is_forward[def->id] && s->sees_batch[op->in[i].value->id] ? s->stage[def->id] : NOWHERE;
    if (there != NOWHERE && (first == NOWHERE || there < first)) first = there;
  }
  return first;
}

static void assign_other_stages(stage_assigner *s) {
  for (size_t k = 0; k < s->num_ops; k++) {
    msc_op *op = s->op[k];
    if (s->is_forward[k] || msc_info(op)->flags & MSC_TERMINATOR) continue;
    if (op->forward && s->is_forward[op->forward->id]) s->stage[k] = s->stage[op->forward->id];
    else if (is_update_op(op)) s->stage[k] = stage_of_update(s, op);
    else if (op->kind == OP_add && stage_of_gradients(s, op) != NOWHERE) s->stage[k] = stage_of_gradients(s, op);
    else s->stage[k] = stage_of_operands(s, op);
  }
}

/* ---- the pass ---- */

static void write_stages(stage_assigner *s) {
  for (size_t k = 0; k < s->num_ops; k++) {
    msc_op_unset(s->op[k], MSC_FACT(pipeline_stage));
    if (s->stage[k] != NOWHERE && !(msc_info(s->op[k])->flags & MSC_TERMINATOR))
      msc_op_put(s->op[k], msc_fact_stage(s->stage[k]));
  }
}

static bool assign_stages_of_func(msc_pass_ctx *pass, msc_func *f) {
  msc_numbering n = msc_number(f->body);
  stage_assigner s = {
      .pass = pass, .f = f, .shape = msc_pipeline_shape_of(pass->config, pass->scratch), .num_ops = n.num_ops};
  bool given = false;
  s.num_virtual = s.shape.stages * s.shape.chunks;
  s.op = msc_new_array(pass->scratch, msc_op *, n.num_ops);
  s.is_forward = msc_new_array(pass->scratch, bool, n.num_ops);
  s.stage = msc_new_array(pass->scratch, int, n.num_ops);
  s.sees_batch = msc_micro_values(pass->scratch, f);
  for (msc_op *op = f->body->first; op; op = op->next) s.op[op->id] = op;
  mark_forward_ops(&s);
  MSC_TRY(read_user_stages(&s, &given));
  if (given) take_stages_of_users(&s);
  MSC_TRY(given ? take_stages_of_operands(&s) && check_no_stage_is_empty(&s) : assign_stages_by_time(&s));
  assign_other_stages(&s);
  write_stages(&s);
  return true;
}

bool pass_assign_stages(msc_pass_ctx *pass, msc_module *m) {
  if (msc_config_int(pass->config, MSC_KEY_pipeline_stages) <= 1) return msc_not_asked_for(pass);
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(assign_stages_of_func(pass, f));
  return true;
}
