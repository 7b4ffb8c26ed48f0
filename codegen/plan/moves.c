/* moves.c: an op that moves values between ranks, stages, or a device and its host in; its call out. */
#include <string.h>

#include "codegen/plan/section.h"
#include "ir/comm.h"
#include "passes/7_lower/transfer.h"

enum {
  DEPTH = 2, /* of a mailbox at first: one message is on its way while the one before it is used */
};

/* ---- collectives ---- */

static uint8_t verb_in_plan(const msc_op *comm) {
  msc_verb v = msc_op_verb(comm);
  return (uint8_t)(v == MSC_SHARD ? MSC_EXCHANGE : v);
}

static void set_collective_axes(msc_plan_collective *v, const msc_layout *group) {
  v->num_axes = group->first[1];
  for (size_t i = 0; i < v->num_axes; i++)
    v->axis[i] = (plan_sub_axis){group->sub[i].axis, group->sub[i].pre, group->sub[i].size};
}

static msc_plan_collective collective_without_layouts(const msc_op *op) {
  return (msc_plan_collective){.verb = verb_in_plan(op),
                               .dtype = op->in[0].value->type->dtype,
                               .from = UINT32_MAX,
                               .to = UINT32_MAX,
                               .reduction = msc_op_reduction(op)};
}

static msc_plan_collective collective_of_layouts(msc_plan *p, const msc_op *op, const msc_comm_part *part) {
  msc_plan_collective v = collective_without_layouts(op);
  msc_comm_halo h;
  v.rank = part->from->rank;
  for (int d = 0; d < v.rank; d++) v.shape[d] = (uint64_t)part->shape[d];
  v.from = msc_plan_layout(p, part->from);
  v.to = msc_plan_layout(p, part->to);
  if (part->order) set_collective_axes(&v, part->order);
  if (msc_comm_halo_of(op, &h))
    v.halo_dim = (uint32_t)h.dim, v.halo_lo = (uint64_t)h.lo, v.halo_hi = (uint64_t)h.hi,
    v.halo_step = (uint64_t)h.step;
  return v;
}

/* Returns the collective of an op whose operands have no layouts: a broadcast, or exchanges between pairs. */
static msc_plan_collective collective_of_group(msc_plan *p, const msc_op *op) {
  msc_plan_collective v = collective_without_layouts(op);
  const msc_type *x = op->in[0].value->type;
  v.rank = x->rank;
  for (int d = 0; d < v.rank; d++) v.shape[d] = (uint64_t)x->dim[d];
  v.root = (uint32_t)msc_op_int(op, "root");
  set_collective_axes(&v, msc_op_layout(op, "axes"));
  int n = msc_op_ints(op, "pairs", NULL, 0);
  v.num_pairs = n < 0 ? 0 : (size_t)n;
  v.pair = msc_new_array(p->arena, uint32_t, v.num_pairs);
  for (size_t i = 0; i < v.num_pairs; i++) v.pair[i] = (uint32_t)msc_op_attr(op, "pairs")->list.v[i].i;
  return v;
}

static bool same_collective(const msc_plan_collective *a, const msc_plan_collective *b) {
  return a->verb == b->verb && a->dtype == b->dtype && a->rank == b->rank && a->from == b->from && a->to == b->to &&
         a->reduction == b->reduction && a->root == b->root && a->halo_dim == b->halo_dim && a->halo_lo == b->halo_lo &&
         a->halo_hi == b->halo_hi && a->halo_step == b->halo_step && a->num_axes == b->num_axes &&
         a->num_pairs == b->num_pairs && memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
         memcmp(a->axis, b->axis, sizeof a->axis) == 0 &&
         (a->num_pairs == 0 || memcmp(a->pair, b->pair, a->num_pairs * sizeof *a->pair) == 0) &&
         a->num_members == b->num_members &&
         (a->num_members == 0 || memcmp(a->member, b->member, a->num_members * sizeof *a->member) == 0);
}

uint32_t msc_plan_number_collective(msc_plan *p, const msc_plan_collective *v) {
  for (size_t i = 0; i < p->num_collectives; i++)
    if (same_collective(&p->collective[i], v)) return (uint32_t)i;
  msc_grow(p->arena, p->collective, p->num_collectives);
  p->collective[p->num_collectives] = *v;
  return (uint32_t)p->num_collectives++;
}

/* Numbers the collectives of the op: one for each value, and one for all values together. */
static bool number_op(calling *c, const msc_op *op, msc_plan_call *call) {
  msc_plan *p = c->p;
  if (msc_op_attr(op, "axes")) {
    msc_plan_collective v = collective_of_group(p, op);
    call->bytes = (uint64_t)msc_received_bytes(op, 0, NULL, NULL);
    call->index = msc_plan_number_collective(p, &v);
    return true;
  }
  const msc_comm_part *part = msc_comm_parts(op, p->arena);
  MSC_TRY(part);
  uint32_t *member = msc_new_array(p->arena, uint32_t, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    msc_plan_collective v = collective_of_layouts(p, op, &part[i]);
    call->bytes += (uint64_t)msc_received_bytes(op, i, part[i].from, part[i].to);
    member[i] = msc_plan_number_collective(p, &v);
  }
  msc_plan_collective all = collective_without_layouts(op);
  all.num_members = op->num_in, all.member = member;
  call->index = op->num_in == 1 ? member[0] : msc_plan_number_collective(p, &all);
  return true;
}

static void note_transfer(calling *c, const msc_op *op, const msc_plan_call *call) {
  msc_plan *p = c->p;
  const msc_plan_collective *v = &p->collective[call->index],
                            *first = v->num_members ? &p->collective[v->member[0]] : v;
  const msc_layout *from = first->from == UINT32_MAX ? NULL : p->layout[first->from],
                   *to = from ? p->layout[first->to] : NULL;
  msc_grow(p->arena, p->transfer, p->num_transfers);
  msc_plan_transfer *t = &p->transfer[p->num_transfers++];
  *t = (msc_plan_transfer){.section = (uint32_t)(c->section - p->section),
                           .call = (uint32_t)c->section->num_calls - 1,
                           .verb = v->verb,
                           .bytes = call->bytes};
  t->num_digits = msc_transfer_digits(&p->module->mesh, op, p->arena, t->digit);
  t->axes = msc_subaxis_print(p->arena, &p->module->mesh, t->num_digits, t->digit);
  t->from = from, t->to = to;
  t->value = op->name ? op->name : "";
}

bool msc_plan_call_collective(calling *c, const msc_op *op) {
  msc_plan_call *call = msc_plan_new_call(c, PLAN_CALL_KIND_COLLECTIVE, op);
  MSC_TRY(number_op(c, op, call));
  call->num_buffers = 2 * (size_t)op->num_in;
  call->buffer = msc_new_array(c->p->arena, plan_ref, call->num_buffers);
  for (size_t i = 0; i < op->num_in; i++) {
    call->buffer[2 * i] = msc_plan_place_of(c, op->in[i].value, false);
    call->buffer[2 * i + 1] = msc_plan_place_of(c, &op->out[i], true);
  }
  if (msc_op_verb(op) != MSC_SHARD) note_transfer(c, op, call);
  return true;
}

/* ---- transfers ---- */

bool msc_plan_call_transfer(calling *c, const msc_op *op) {
  msc_plan_call *call = msc_plan_new_call(c, PLAN_CALL_KIND_TRANSFER, op);
  call->num_buffers = 2;
  call->buffer = msc_new_array(c->p->arena, plan_ref, 2);
  call->buffer[0] = msc_plan_place_of(c, op->in[op->kind == OP_stow].value, false);
  call->buffer[1] = msc_plan_place_of(c, &op->out[0], true);
  call->bytes = (uint64_t)msc_type_bytes(op->out[0].type);
  return true;
}

/* Adds the call that brings rows of a table with a cache to the device. Its bytes are those of the rows expected to be
 * missing, with their state, and of as many rows that are written back. */
bool msc_plan_call_admit(calling *c, const msc_op *op) {
  msc_plan *p = c->p;
  msc_plan_cache *k = msc_plan_find_cache(c, msc_intern(p->ctx, msc_op_str(op, "table")));
  msc_launch *l = msc_new(p->arena, msc_launch);
  int64_t *dims = msc_new_array(p->arena, int64_t, op->num_in + 1);
  msc_plan_call *call = msc_plan_new_call(c, PLAN_CALL_KIND_ADMIT, op);
  bool updates = msc_op_bool(op, "updates");
  uint64_t row = 0, all = 0;
  const msc_type *last = op->in[op->num_in - 1].value->type;
  call->index = (uint32_t)(k - p->cache);
  call->buffer = msc_new_array(p->arena, plan_ref, 2 * op->num_in);
  call->num_buffers = 2 * op->num_in;
  dims[0] = updates;
  for (size_t i = 0; i < op->num_in; i++) {
    call->buffer[i] = msc_plan_place_of(c, op->in[i].value, false);
    call->buffer[op->num_in + i] = msc_plan_place_of(c, &op->out[i], true);
    dims[i + 1] = op->in[i].value->type->dtype;
    all += (uint64_t)msc_type_elems(op->in[i].value->type);
    if (!updates || i == 0) call->flops += (uint64_t)msc_type_elems(op->in[i].value->type);
  }
  if (all > k->rows) all = k->rows;
  if (msc_runs_on_host(op) && all > k->swaps) k->swaps = all;
  *l = (msc_launch){.extent = 1, .grain = 1, .num_dims = op->num_in + 1, .dims = dims};
  call->launch = l;
  if (updates || !k->numbers) k->numbers = call->flops, k->columns = last->rank > 1 ? last->dim[last->rank - 1] : 1;
  for (size_t i = 0; i < k->num; i++) row += k->at[i].bytes / k->rows;
  call->bytes = 16 * call->flops + (uint64_t)(2 * msc_expected_misses(k->whole, k->rows, (double)call->flops)) * row;
  return true;
}

/* ---- messages ---- */

bool msc_plan_call_message(calling *c, const msc_op *op) {
  msc_plan *p = c->p;
  bool sends = op->num_in;
  uint32_t number = (uint32_t)msc_op_int(op, "message"), other = (uint32_t)msc_op_int(op, MSC_FACT(stage)),
           own = c->section->stage;
  const msc_value *v = sends ? op->in[0].value : &op->out[0];
  while (p->num_messages <= number) {
    msc_grow(p->arena, p->message, p->num_messages);
    p->message[p->num_messages++] = (msc_plan_message){0};
  }
  p->message[number] =
      (msc_plan_message){sends ? own : other, sends ? other : own, DEPTH, (uint64_t)msc_type_bytes(v->type)};
  msc_plan_call *call = msc_plan_new_call(c, PLAN_CALL_KIND_MESSAGE, op);
  call->index = number;
  call->buffer = msc_new_array(p->arena, plan_ref, 1);
  call->buffer[0] = msc_plan_place_of(c, v, !sends);
  call->num_buffers = 1;
  call->bytes = (uint64_t)msc_type_bytes(v->type);
  return true;
}
