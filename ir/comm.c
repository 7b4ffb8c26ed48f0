/* comm.c: a `comm` in; its verb, and for each of its values the layouts, shape and order that its attributes give, out
 * (see comm.h). */
#include "ir/comm.h"

#include <string.h>

/* ---- verbs ---- */

msc_verb msc_op_verb(const msc_op *op) {
  return op->kind == OP_comm ? msc_verb_parse(msc_op_str(op, "verb")) : msc_info(op)->verb;
}

bool msc_sums_over_ranks(const msc_op *op) { return op->kind == OP_comm && msc_op_verb(op) == MSC_ALL_REDUCE; }

msc_op_kind msc_reducing_kind(msc_reduction r) {
  static const msc_op_kind kinds[] = {
#define REDUCTION(NAME, word, between) OP_reduce_##word,
#include "ir/verb.def"
  };
  return kinds[r];
}

msc_op_kind msc_combining_kind(msc_reduction r) {
  static const msc_op_kind kinds[] = {
#define REDUCTION(NAME, word, between) OP_##between,
#include "ir/verb.def"
  };
  return kinds[r];
}

bool msc_reduction_between(msc_op_kind kind, msc_reduction *out_reduction) {
  msc_reduction r = 0;
  while (r < MSC_NUM_REDUCTIONS && msc_combining_kind(r) != kind) r++;
  if (r < MSC_NUM_REDUCTIONS) *out_reduction = r;
  return r < MSC_NUM_REDUCTIONS;
}

double msc_reduction_unit(msc_reduction r, msc_dtype dtype) {
  uint64_t bits = msc_reduction_identity_bits(r, msc_is_float(dtype) ? MSC_F64 : dtype);
  int above = 64 - 8 * (int)msc_dtype_bytes(dtype);
  double unit;
  if (!msc_is_float(dtype))
    return msc_dtype_class_of(dtype) == MSC_CLASS_INT ? (double)((int64_t)(bits << above) >> above) : (double)bits;
  memcpy(&unit, &bits, sizeof unit);
  return unit;
}

msc_reduction msc_op_reduction(const msc_op *op) { return msc_reduction_parse(msc_op_str(op, "reduction")); }

msc_op_kind msc_verb_kind(msc_verb v) {
  msc_op_kind kind = OP_comm;
  msc_kind_parse(msc_verb_name(msc_verb_row_of(v)->op), &kind);
  return kind;
}

/* ---- values ---- */

bool msc_comm_halo_of(const msc_op *comm, msc_comm_halo *out_halo) {
  enum { MOST = 1 << 30 };
  int64_t v[4];
  if (comm->kind != OP_comm || msc_op_ints(comm, "halo", v, 4) != 4) return false;
  for (int i = 1; i < 4; i++)
    if (v[i] < 0 || v[i] > MOST) return false;
  *out_halo = (msc_comm_halo){(int)v[0], v[1], v[2], v[3]};
  return v[0] >= 0 && v[0] < comm->in[0].value->type->rank && v[3] > 0;
}

/* Returns entry i of a list of layouts or digits; NULL: the attribute is absent. */
static const msc_layout *entry_of(const msc_attr_value *list, size_t i) {
  return list ? msc_attr_layout(&list->list.v[i]) : NULL;
}

static bool has_entries(const msc_op *comm, const msc_attr_value *list) {
  return list && list->list.num == comm->num_in;
}

const msc_comm_part *msc_comm_parts(const msc_op *comm, msc_arena *arena) {
  const msc_attr_value *from = msc_op_attr(comm, "from"), *to = msc_op_attr(comm, "to"),
                       *order = msc_op_attr(comm, "order");
  int num = msc_op_ints(comm, MSC_FACT(shape), NULL, 0), rank = 0;
  for (size_t i = 0; i < comm->num_in; i++) rank += comm->in[i].value->type->rank;
  if (num != rank || !has_entries(comm, from) || !has_entries(comm, to) || (order && !has_entries(comm, order))) {
    msc_op_error(comm, MSC_E_ROW, "comm: needs axes, or from, to and shape");
    return NULL;
  }
  int64_t *shape = msc_new_array(arena, int64_t, rank + 1);
  msc_comm_part *part = msc_new_array(arena, msc_comm_part, comm->num_in);
  msc_op_ints(comm, MSC_FACT(shape), shape, num);
  for (size_t i = 0; i < comm->num_in; i++) {
    size_t x = (size_t)comm->in[i].value->type->rank;
    msc_comm_part *p = &part[i];
    *p = (msc_comm_part){.from = entry_of(from, i), .to = entry_of(to, i), .order = entry_of(order, i)};
    if (p->order && !p->order->first[1]) p->order = NULL;
    if (p->from->rank != x || p->to->rank != x) {
      msc_op_error(comm, MSC_E_SHARDING, "comm: a layout has another rank than its value");
      return NULL;
    }
    memcpy(p->shape, shape, sizeof *shape * x);
    shape += x;
  }
  return part;
}

void msc_comm_set_parts(msc_op *comm, size_t num, const msc_comm_part *part) {
  msc_context *ctx = msc_op_ctx(comm);
  msc_arena *arena = msc_context_arena(ctx);
  msc_attr_value *from = msc_new_array(arena, msc_attr_value, num), *to = msc_new_array(arena, msc_attr_value, num),
                 *order = msc_new_array(arena, msc_attr_value, num);
  size_t rank = 0, at = 0;
  bool ordered = false;
  for (size_t i = 0; i < num; i++) {
    rank += part[i].from->rank;
    ordered |= part[i].order != NULL;
    from[i] = msc_layout_attr(part[i].from);
    to[i] = msc_layout_attr(part[i].to);
    order[i] = msc_digits_attr(part[i].order ? part[i].order : msc_layout_replicated(ctx, 1));
  }
  int64_t *shape = msc_new_array(arena, int64_t, rank);
  for (size_t i = 0; i < num; i++)
    for (int d = 0; d < part[i].from->rank; d++) shape[at++] = part[i].shape[d];
  msc_op_set(comm, "from", msc_list(ctx, num, from));
  msc_op_set(comm, "to", msc_list(ctx, num, to));
  msc_op_put(comm, msc_fact_shape(ctx, rank, shape));
  if (ordered) msc_op_set(comm, "order", msc_list(ctx, num, order));
}
