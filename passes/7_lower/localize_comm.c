/* localize_comm.c: a collective between layouts, or between the ranks of a group, in; op comm, with its group or its
 * two layouts, out. */
#include <string.h>

#include "ir/comm.h"
#include "passes/7_lower/localize.h"
#include "passes/sum_order.h"

static msc_op *insert_comms(localizing *z, msc_op *op, size_t num, msc_value *const *x, msc_verb verb) {
  msc_op *comm = msc_op_new(z->f, OP_comm, num, x, num, op->loc);
  comm->name = op->name;
  msc_insert_before(op, comm);
  msc_op_set(comm, "verb", msc_str(z->pass->ctx, msc_verb_name(verb)));
  return comm;
}

msc_op *localize_insert_comm(localizing *z, msc_op *op, msc_value *x, msc_verb verb) {
  return insert_comms(z, op, 1, &x, verb);
}

/* Sets the type of result i to `local`, and its global type to `t`. */
static void set_comm_result(localizing *z, msc_op *comm, size_t i, const msc_type *t, const msc_type *local) {
  comm->out[i].type = local;
  comm->out[i].id = (uint32_t)z->num_values;
  z->global[z->num_values++] = t;
}

void localize_finish_comm(localizing *z, msc_op *comm, const msc_type *t, const msc_type *local) {
  msc_op_set(comm, "dims", dims_attr(z, local));
  set_comm_result(z, comm, 0, t, local);
}

void localize_set_layouts(localizing *z, msc_op *comm, const msc_layout *from, const msc_layout *to,
                          const int64_t *shape) {
  msc_comm_part p = {.from = from, .to = to};
  memcpy(p.shape, shape, sizeof *shape * from->rank);
  msc_comm_set_parts(comm, 1, &p);
  msc_op_set(comm, "reduction", msc_str(z->pass->ctx, msc_reduction_name(from->reduction)));
}

/* The digits of an `axes` attribute as dimension `dim` (or, when dim < 0, the partial digits) of a layout. */
static const msc_layout *layout_of_axes(localizing *z, const msc_op *op, int rank, int dim) {
  const msc_layout *axes = msc_op_layout(op, "axes");
  msc_layout raw = {.rank = (uint8_t)rank};
  uint8_t num = axes->first[1];
  memcpy(raw.sub, axes->sub, num * sizeof *raw.sub);
  for (int d = 0; d < rank; d++) raw.first[d + 1] = dim >= 0 && d >= dim ? num : 0;
  if (dim < 0) raw.num_partial = num, raw.reduction = (uint8_t)msc_op_reduction(op);
  return msc_layout_of(z->pass->ctx, z->mesh, &raw);
}

/* Finds what the group of a manual collective makes of its operand, or of its result. */
static const msc_layout *find_group_layout(localizing *z, const msc_op *op, int rank, msc_verb_side side) {
  const char *dim = msc_verb_dim_attr(side);
  if (dim) return layout_of_axes(z, op, rank, (int)msc_op_int(op, dim));
  if (side == MSC_AT_PARTIAL) return layout_of_axes(z, op, rank, -1);
  return msc_layout_replicated(z->pass->ctx, rank);
}

/* Finds the layouts that make a manual collective a change of layout: of a larger tensor, of which every rank of the
 * group holds a part. */
static void find_manual_layouts(localizing *z, const msc_op *op, size_t i, msc_comm_part *p) {
  const msc_type *x = op->in[i].value->type;
  const msc_verb_row *row = msc_verb_row_of(msc_op_verb(op));
  memcpy(p->shape, x->dim, sizeof *p->shape * (size_t)x->rank);
  p->from = find_group_layout(z, op, x->rank, row->operand);
  p->to = find_group_layout(z, op, x->rank, row->result);
  const char *cut = msc_verb_dim_attr(row->operand);
  if (cut) p->shape[msc_op_int(op, cut)] *= msc_layout_parts(p->from, (int)msc_op_int(op, cut));
}

static void localize_group(localizing *z, msc_op *op) {
  msc_verb verb = msc_info(op)->verb;
  bool is_group = msc_verb_is(verb, MSC_VERB_GROUP);
  msc_op *comm = localize_insert_comm(z, op, op->in[0].value, is_group ? verb : MSC_PAIRS);
  msc_op_set(comm, "axes", *msc_op_attr(op, "axes"));
  if (is_group) {
    msc_op_set(comm, "root", msc_int(msc_op_int(op, "root")));
    msc_op_copy_attr(comm, op, "reduction");
  } else if (op->kind == OP_recv) {
    int64_t pair[2] = {msc_op_int(op, "from"), msc_op_int(op, "to")};
    msc_op_set(comm, "pairs", msc_ints(z->pass->ctx, 2, pair));
  } else {
    const msc_attr_value *pairs = msc_op_attr(op, "pairs");
    msc_op_set(comm, "pairs", pairs ? *pairs : msc_ints(z->pass->ctx, 0, NULL));
  }
  localize_finish_comm(z, comm, global_of(z, &op->out[0]), op->out[0].type);
  msc_replace_uses(&op->out[0], &comm->out[0]);
  msc_op_erase(op);
}

static const msc_layout *find_sum_order(localizing *z, const msc_value *parts) {
  const msc_op *sum = msc_sum_of(parts);
  if (!sum || !sum->num_in) return NULL;
  return msc_sum_order(z->pass->ctx, z->mesh, sum, global_of(z, sum->in[0].value)->layout);
}

static void find_comm_part(localizing *z, const msc_op *op, size_t i, msc_comm_part *p) {
  const msc_type *have = global_of(z, op->in[i].value);
  *p = (msc_comm_part){.from = have->layout, .to = global_of(z, &op->out[i])->layout};
  memcpy(p->shape, have->dim, sizeof p->shape);
  if (msc_op_attr(op, "axes")) find_manual_layouts(z, op, i, p);
  else if (p->from->num_partial) p->order = find_sum_order(z, op->in[i].value);
}

/* Finds the layouts of each value, and replaces the op by one comm for all of them. */
static void localize_parts(localizing *z, msc_op *op) {
  msc_arena *a = z->pass->scratch;
  msc_value **x = msc_new_array(a, msc_value *, op->num_in);
  msc_comm_part *part = msc_new_array(a, msc_comm_part, op->num_in);
  int64_t *dims = msc_new_array(a, int64_t, op->num_in * MSC_MAX_RANK);
  size_t num_dims = 0;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_type *local = op->out[i].type;
    x[i] = op->in[i].value;
    find_comm_part(z, op, i, &part[i]);
    for (int d = 0; d < local->rank; d++) dims[num_dims++] = local->dim[d];
  }
  msc_op *comm = insert_comms(z, op, op->num_in, x, msc_op_verb(op));
  msc_comm_set_parts(comm, op->num_in, part);
  msc_op_set(comm, "dims", msc_ints(z->pass->ctx, num_dims, dims));
  msc_op_set(comm, "reduction", msc_str(z->pass->ctx, msc_reduction_name(part[0].from->reduction)));
  msc_op_copy_attr(comm, op, MSC_FACT(bucket));
  for (size_t i = 0; i < op->num_in; i++) {
    set_comm_result(z, comm, i, global_of(z, &op->out[i]), op->out[i].type);
    msc_replace_uses(&op->out[i], &comm->out[i]);
  }
  msc_op_erase(op);
}

void localize_collective(localizing *z, msc_op *op) {
  bool manual = msc_op_attr(op, "axes") != NULL, is_group = msc_verb_is(msc_info(op)->verb, MSC_VERB_GROUP);
  if (op->kind == OP_send) { /* the matching recv becomes the comm */
    msc_replace_uses(&op->out[0], op->in[0].value);
    msc_op_erase(op);
  } else if (manual && (is_group || op->kind == OP_permute || op->kind == OP_recv)) {
    localize_group(z, op);
  } else {
    localize_parts(z, op);
  }
}
