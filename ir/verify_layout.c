/* verify_layout.c: an op whose tensors carry layouts in; true, or what does not fit reported, out.  Layouts must exist
 * on the mesh and obey the op's rule (rule/check.c); manual collectives must name members of a group. */
#include <string.h>

#include "ir/comm.h"
#include "ir/verify.h"

/* ---- one layout ---- */

/* Returns the fault of t's layout as text; NULL: none. */
static const char *layout_fault(const msc_mesh *mesh, const msc_type *t) {
  msc_box_mesh sizes = msc_mesh_sizes(mesh);
  msc_box_layout cuts = msc_layout_cuts(t->layout);
  if (t->layout->rank != t->rank) return "has another rank than its tensor";
  if (!msc_box_layout_ok(&sizes, &cuts)) return "names a digit that the mesh does not have, or uses one twice";
  if (!msc_box_shape_ok(&cuts, t->dim)) return "has parts whose sizes do not add up to its tensor's";
  if (t->layout->reduction >= MSC_NUM_REDUCTIONS) return "has an unknown reduction";
  return NULL;
}

bool msc_verify_type(const msc_module *m, const msc_loc *loc, const msc_type *t) {
  const char *fault = t->layout ? layout_fault(&m->mesh, t) : NULL;
  return !fault || msc_error(m->ctx, MSC_E_LAYOUT, loc, "a layout of rank %d %s", t->layout->rank, fault);
}

/* ---- the manual form, and point to point ---- */

static bool member_attr(const msc_op *op, const char *attr, int64_t num) {
  int64_t v = msc_op_int(op, attr);
  if (v >= 0 && v < num) return true;
  return msc_op_error(
      op, MSC_E_ROW, "%s: %s is %" PRId64 "; the group %s has members 0..%" PRId64, msc_kind_name(op->kind), attr, v,
      msc_digits_print(msc_context_arena(msc_op_ctx(op)), &op->block->func->module->mesh, msc_op_layout(op, "axes")),
      num - 1);
}

static bool check_group(const msc_op *op) {
  int64_t num = msc_layout_parts(msc_op_layout(op, "axes"), 0);
  if (msc_declares(op, "root")) return member_attr(op, "root", num);
  return member_attr(op, "from", num) & member_attr(op, "to", num);
}

/* Checks that the value `part` has the shape of the largest part of `whole` under the layout. */
static bool check_part(const msc_op *op, const msc_type *whole, const msc_layout *l, const msc_type *part,
                       const char *what) {
  int64_t dim[MSC_MAX_RANK];
  msc_local_dims(whole, l, dim);
  if (memcmp(dim, part->dim, sizeof *dim * (size_t)part->rank) == 0) return true;
  return msc_op_error(op, MSC_E_SHARDING, "comm: the %s is not a part of `shape` under its layout", what);
}

/* Checks a halo: its dimension is cut, and its result is the operand's part with the rows that it names. */
static bool check_halo(const msc_op *op, const msc_type *whole, const msc_layout *from, const msc_layout *to) {
  const msc_type *x = op->in[0].value->type;
  msc_comm_halo h;
  if (!msc_comm_halo_of(op, &h))
    return msc_op_error(op, MSC_E_ROW, "comm: halo must be a dimension, two numbers of rows and a step");
  if (msc_op_verb(op) != MSC_HALO || from != to)
    return msc_op_error(op, MSC_E_SHARDING, "comm: with a halo its verb is halo, and the layout stays");
  if (msc_layout_parts(from, h.dim) < 2)
    return msc_op_error(op, MSC_E_SHARDING, "comm: a halo along dimension %d, which is not cut", h.dim);
  MSC_TRY(check_part(op, whole, from, x, "operand"));
  msc_type wide = *x;
  wide.dim[h.dim] = h.lo + h.step + h.hi;
  return !memcmp(wide.dim, op->out[0].type->dim, sizeof *wide.dim * (size_t)wide.rank) ||
         msc_op_error(op, MSC_E_SHARDING, "comm: its result does not have the rows of its halo");
}

static const char *explain_misfit(const msc_type *whole, const msc_layout *from, const msc_layout *to) {
  msc_box_layout a = msc_layout_cuts(from), b = msc_layout_cuts(to);
  if (from->rank != whole->rank || to->rank != whole->rank) return "the rank differs";
  return msc_box_shape_ok(&a, whole->dim) && msc_box_shape_ok(&b, whole->dim)
             ? NULL
             : "the sizes of parts do not add up to the shape";
}

/* Checks a lowered layout change: that its verb can make it, and that operand and result are the parts of its shape
 * under its layouts. */
static bool check_comm_of(const msc_op *op, size_t i, const msc_comm_part *p) {
  const msc_module *m = op->block->func->module;
  const msc_type *x = op->in[i].value->type;
  msc_verb verb = msc_op_verb(op);
  const msc_type *whole = msc_type_of(m->ctx, x->dtype, x->rank, p->shape, NULL);
  const char *why = explain_misfit(whole, p->from, p->to);
  if (!why && msc_op_attr(op, "halo")) return check_halo(op, whole, p->from, p->to);
  if (!why && p->from != p->to) why = msc_relayout_wrong(&m->mesh, whole, verb, p->from, p->to);
  if (!why)
    return check_part(op, whole, p->from, x, "operand") & check_part(op, whole, p->to, op->out[i].type, "result");
  msc_arena *arena = msc_context_arena(m->ctx);
  return msc_op_error(op, MSC_E_SHARDING, "comm: %s cannot make %s from %s: %s", msc_verb_name(verb),
                      msc_layout_print(arena, &m->mesh, p->to), msc_layout_print(arena, &m->mesh, p->from), why);
}

static bool check_comm(const msc_op *op, msc_arena *arena) {
  if (op->num_in > 1 && !msc_verb_fuses(msc_op_verb(op)))
    return msc_op_error(op, MSC_E_ROW, "comm: %s is of one value", msc_verb_name(msc_op_verb(op)));
  const msc_comm_part *p = msc_comm_parts(op, arena);
  for (size_t i = 0; p && i < op->num_in; i++) MSC_TRY(check_comm_of(op, i, &p[i]));
  return p != NULL;
}

/* Checks that only recvs use the token of a send, and that a recv has the group and channel of its send. */
static bool check_pair(const msc_op *op) {
  static const char *const attrs[] = {"axes", "from", "to", "channel"};
  if (op->kind == OP_send) {
    for (const msc_use *u = op->out[0].uses; u; u = u->next)
      if (u->user->kind != OP_recv)
        return msc_op_error(u->user, MSC_E_ROW, "%s: uses the token of a send; only recv may",
                            msc_kind_name(u->user->kind));
    return true;
  }
  const msc_op *send = op->in[0].value->def;
  if (!send || send->kind != OP_send)
    return msc_op_error(op, MSC_E_ROW, "recv: its operand must be the token of a send");
  for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
    bool same = i == 0 ? msc_op_layout(op, attrs[i]) == msc_op_layout(send, attrs[i])
                       : msc_op_int(op, attrs[i]) == msc_op_int(send, attrs[i]);
    if (!same) return msc_op_error(op, MSC_E_ROW, "recv: %s differs from that of its send", attrs[i]);
  }
  return true;
}

/* ---- all ---- */

static bool own_layouts(const msc_op *op) {
  bool ok = true;
  for (size_t i = 0; i < op->num_out; i++) ok &= msc_verify_type(op->block->func->module, op->loc, op->out[i].type);
  return ok;
}

static bool has_layouts(const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (op->in[i].value->type->layout) return true;
  for (size_t i = 0; i < op->num_out; i++)
    if (op->out[i].type->layout) return true;
  return false;
}

/* Copies an op, giving its operands the layouts that its fact `in_layout` wants.  Between sharding and partitioning the
 * ops that change the operands' layouts are not built yet.  False after a report. */
static bool copy_with_wanted_layouts(const msc_op *op, msc_arena *arena, msc_op *out_op) {
  const msc_attr_value *list = msc_op_attr(op, MSC_FACT(in_layout));
  msc_context *ctx = msc_op_ctx(op);
  *out_op = *op;
  if (!list || list->kind != MSC_ATTR_LIST || list->list.num != op->num_in) return true;
  out_op->in = msc_new_array(arena, msc_use, op->num_in);
  msc_value *value = msc_new_array(arena, msc_value, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_attr_value *entry = &list->list.v[i];
    value[i] = *op->in[i].value;
    out_op->in[i].value = &value[i];
    const msc_layout *l;
    MSC_TRY(msc_users_layout(op->block->func->module, op->loc, entry, &l));
    if (!l) continue;
    if (l->rank != value[i].type->rank)
      return msc_op_error(op, MSC_E_LAYOUT, "%s: entry %zu of in_layout has rank %d, the operand %d",
                          msc_kind_name(op->kind), i, l->rank, value[i].type->rank);
    value[i].type = msc_type_with_layout(ctx, value[i].type, l);
    MSC_TRY(msc_verify_type(op->block->func->module, op->loc, value[i].type));
  }
  return true;
}

/* Is it a sum over all ranks, whatever the mesh will be?  A model may have it (pass hybrid); other collectives change
 * shapes with the number of ranks. */
static bool is_over_all_ranks(const msc_op *op) {
  return op->kind == OP_all_reduce && !msc_func_attr(op->block->func, MSC_FACT(partitioned));
}

bool msc_verify_layouts(const msc_op *op, msc_arena *arena) {
  const msc_op_info *info = msc_info(op);
  bool any = has_layouts(op), manual = (info->flags & MSC_COLLECTIVE) && msc_op_attr(op, "axes");
  msc_op wanted;
  MSC_TRY(own_layouts(op));
  if (manual && any)
    return msc_op_error(op, MSC_E_SHARDING,
                        "%s: with axes it works on one rank's shapes, so its tensors cannot have layouts", info->name);
  if (op->kind == OP_send || op->kind == OP_recv) MSC_TRY(check_group(op) && check_pair(op));
  if (msc_verb_is(info->verb, MSC_VERB_GROUP)) MSC_TRY(check_group(op));
  if (op->kind == OP_comm && !any)
    return manual ? op->num_in == 1 || msc_op_error(op, MSC_E_ROW, "comm: with axes it is of one value")
                  : check_comm(op, arena);
  if (!any && !manual && msc_verb_is(info->verb, MSC_VERB_RELAYOUT) && !is_over_all_ranks(op))
    return msc_op_error(op, MSC_E_SHARDING, "%s: needs axes, or layouts on operand and result", info->name);
  if (!any || (info->flags & MSC_TERMINATOR)) return true;
  /* A rank sends its part, partial or not, to a rank with the same part. */
  if (msc_info(op)->flags & MSC_MESSAGE) return true;
  return copy_with_wanted_layouts(op, arena, &wanted) && msc_rule_check(&wanted, arena);
}

/* ---- a function whose collectives are all there ---- */

bool msc_verify_partitioned(const msc_func *f, msc_arena *arena) {
  const msc_attr_value *partitioned = msc_func_attr(f, MSC_FACT(partitioned));
  const msc_op *ret = f->body->last;
  msc_op wanted;
  bool ok = true;
  if (!partitioned || partitioned->kind != MSC_ATTR_BOOL || !partitioned->b ||
      !copy_with_wanted_layouts(ret, arena, &wanted))
    return true;
  for (size_t i = 0; i < ret->num_in; i++) {
    const msc_layout *l = ret->in[i].value->type->layout, *want = wanted.in[i].value->type->layout;
    if (l == want || !l || !want) continue;
    ok = msc_op_error(ret, MSC_E_SHARDING, "return: result %zu is %s, and must be %s", i,
                      msc_layout_print(arena, &f->module->mesh, l), msc_layout_print(arena, &f->module->mesh, want));
  }
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (msc_info(op)->expand && msc_must_expand(op, NULL))
      ok = msc_op_error(op, MSC_E_SHARDING, "%s: only its expansion can work on operands that are cut like this",
                        msc_kind_name(op->kind));
  return ok;
}
