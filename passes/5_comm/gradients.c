/* gradients.c: finds the collectives of a partitioned function that carry gradients or parameters (see gradients.h). */
#include "passes/5_comm/gradients.h"

#include <string.h>

#include "passes/time_model.h"

typedef struct {
  msc_func *f;
  bool *serves, *at_once; /* by op id */
  int64_t *id;
} gradient_finder;

static bool is_fusable(const msc_op *op) { return msc_verb_fuses(msc_op_verb(op)) && op->num_in == 1; }

static bool is_data_movement(const msc_op *op) { return msc_info(op)->flags & MSC_MOVES; }

static bool is_scaling(const msc_op *op) { return op->kind == OP_mul || op->kind == OP_div || op->kind == OP_select; }

static int64_t fusion_id_of(const msc_attr_value *v) { return v && v->kind == MSC_ATTR_INT ? v->i : -1; }

/* ---- gradients: from the update backward ---- */

static void record_candidate(gradient_finder *z, const msc_op *op, int64_t id) {
  z->serves[op->id] = true;
  if (z->id[op->id] < 0) z->id[op->id] = id;
}

/* Records the chain of collectives, and casts between them, that makes v. */
static void record_collectives_behind(gradient_finder *z, const msc_value *v, int64_t id) {
  for (const msc_op *op = v->def; op && (is_data_movement(op) || msc_keeps_elements(op)) && !op->body;
       op = op->in[0].value->def)
    if (is_fusable(op)) record_candidate(z, op, id);
}

static const msc_value *find_scaled_operand(const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_type *x = op->in[i].value->type, *y = op->out[0].type;
    const msc_op *def = op->in[i].value->def;
    bool factor = def && (msc_is_constant_op(def) || def->kind == OP_broadcast_to);
    if (!factor && msc_same_tensor(x, y)) return op->in[i].value;
  }
  return NULL;
}

/* Follows a gradient back from its update to the collective that sums it; scaling and clipping may stand between. */
static void find_gradient_sum(gradient_finder *z, const msc_value *v, int64_t id) {
  while (v && v->def && !is_data_movement(v->def)) {
    const msc_op *op = v->def;
    v = msc_keeps_elements(op) ? op->in[0].value : is_scaling(op) ? find_scaled_operand(op) : NULL;
  }
  if (v && v->def) record_collectives_behind(z, v, id);
}

static void find_gradients(gradient_finder *z, const msc_op *update) {
  const msc_op_info *info = msc_info(update);
  const msc_value *w = update->in[0].value;
  int64_t id = -1;
  if (!w->def) id = fusion_id_of(msc_arg_attr(z->f, w->index, MSC_FACT(msc_comm_fusion)));
  for (int i = 0; i < info->num_operands && i < update->num_in; i++)
    if (!strcmp(info->operand[i].name, "g")) find_gradient_sum(z, update->in[i].value, id);
}

/* ---- parameters: from the argument, or its new value, forward ---- */

static void record_gathers_of(gradient_finder *z, const msc_value *v, int64_t id, bool at_once) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    const msc_op *op = u->user;
    if (op->num_in != 1 || op->num_out != 1 || !(is_data_movement(op) || op->kind == OP_cast)) continue;
    if (op->kind == OP_all_gather) {
      record_candidate(z, op, id);
      z->at_once[op->id] = at_once;
    }
    for (const msc_use *k = op->out[0].uses; k; k = k->next) { /* a cast before the gather is allowed */
      if (k->user->kind != OP_all_gather || k->user->num_in != 1) continue;
      record_candidate(z, k->user, id);
      z->at_once[k->user->id] = at_once;
    }
  }
}

static void find_parameter_gathers(gradient_finder *z) {
  for (size_t i = 0; i < z->f->body->num_args; i++) {
    msc_role role = msc_arg_role(z->f, i);
    if (role == MSC_ROLE_PARAMETER || role == MSC_ROLE_STATE)
      record_gathers_of(z, z->f->body->args[i], fusion_id_of(msc_arg_attr(z->f, i, MSC_FACT(msc_comm_fusion))), true);
  }
  for (const msc_op *op = z->f->body->first; op; op = op->next) {
    if (!(msc_info(op)->flags & MSC_UPDATE)) continue;
    const msc_value *w = op->in[0].value;
    int64_t id = w->def ? -1 : fusion_id_of(msc_arg_attr(z->f, w->index, MSC_FACT(msc_comm_fusion)));
    for (size_t i = 0; i < op->num_out; i++) record_gathers_of(z, &op->out[i], id, false);
  }
}

/* ---- all ---- */

comm_candidate *comm_candidates(msc_arena *arena, msc_func *f, size_t *out_num) {
  size_t n = msc_number(f->body).num_ops;
  gradient_finder z = {.f = f,
                       .serves = msc_new_array(arena, bool, n),
                       .at_once = msc_new_array(arena, bool, n),
                       .id = msc_new_array(arena, int64_t, n)};
  comm_candidate *c = msc_new_array(arena, comm_candidate, n);
  *out_num = 0;
  for (const msc_op *op = f->body->first; op; op = op->next)
    z.id[op->id] = fusion_id_of(msc_op_attr(op, MSC_FACT(comm_fusion)));
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (msc_info(op)->flags & MSC_UPDATE) find_gradients(&z, op);
  find_parameter_gathers(&z);
  for (msc_op *op = f->body->first; op; op = op->next)
    if (is_fusable(op) && (z.serves[op->id] || z.id[op->id] > 0))
      c[(*out_num)++] = (comm_candidate){op, z.serves[op->id], z.at_once[op->id], z.id[op->id], 0, 0};
  return c;
}
