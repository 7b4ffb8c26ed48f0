/* comm.c: a collective, or an op that exists only after lowering, in; its result types out.  With the attribute `axes`
 * a collective's shape is one rank's and changes; without it the shape is global and stays, and the layout changes. */
#include <string.h>

#include "ir/ir.h"
#include "ir/op_table.h"
#include "ir/shape/shape.h"

/* The number of members of the group that `axes` names, 0 without `axes`. */
static int64_t group_size(const msc_op *op) {
  const msc_layout *group = msc_op_layout(op, "axes");
  return group ? msc_layout_parts(group, 0) : 0;
}

static const char *group_text(const msc_op *op) {
  return msc_digits_print(msc_context_arena(msc_op_ctx(op)), &op->block->func->module->mesh, msc_op_layout(op, "axes"));
}

static bool divide_dim(msc_op *op, int64_t *dim, int64_t at, int64_t num) {
  if (dim[at] % num)
    return shape_wrong(op, "dimension %" D " of %" D " elements does not divide among the %" D " members of %s", at,
                       dim[at], num, group_text(op));
  dim[at] /= num;
  return true;
}

static bool multiply_dim(msc_op *op, int64_t *dim, int64_t at, int64_t num) {
  return !__builtin_mul_overflow(dim[at], num, &dim[at]) ||
         shape_wrong(op, "dimension %" D " would have 2^63 elements or more", at);
}

static bool check_reduction(msc_op *op) {
  msc_reduction r = msc_op_reduction(op);
  return r == MSC_MAX || r == MSC_MIN || shape_must_be_number(op, 0);
}

bool shape_relayout(msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) MSC_TRY(shape_set_like(op, i, shape_in(op, i)));
  return true;
}

/* Checks that an op of several values has as many results, and that all have one element type. */
static bool check_members(msc_op *op) {
  if (op->num_in != op->num_out) return shape_wrong(op, "has %d operands and %d results", op->num_in, op->num_out);
  for (size_t i = 1; i < op->num_in; i++) MSC_TRY(shape_same_dtype(op, 0, i));
  return true;
}

/* With a group, the dimension that the group cuts before grows by the size of the group, and the one that it cuts
 * afterwards shrinks. */
bool shape_collective(msc_op *op) {
  const msc_verb_row *row = msc_verb_row_of(msc_op_verb(op));
  const char *grown = msc_verb_dim_attr(row->operand), *shrunk = msc_verb_dim_attr(row->result);
  int64_t num, from, to, dim[MSC_MAX_RANK];
  MSC_TRY(check_members(op) && (!msc_verb_reduces(msc_op_verb(op)) || check_reduction(op)));
  num = group_size(op);
  if (!num) return shape_relayout(op);
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_type *x = shape_in(op, i);
    memcpy(dim, x->dim, sizeof dim);
    MSC_TRY(!shrunk || shape_dim_attr(op, shrunk, x->rank, &from));
    MSC_TRY(!grown || shape_dim_attr(op, grown, x->rank, &to));
    MSC_TRY(!shrunk || divide_dim(op, dim, from, num));
    MSC_TRY(!grown || multiply_dim(op, dim, to, num));
    MSC_TRY(shape_set(op, i, x->dtype, x->rank, dim));
  }
  return true;
}

/* Attribute pairs: source, destination, ...; a member sends once at most and receives once at most. */
bool shape_permute(msc_op *op) {
  int64_t num = group_size(op);
  if (!num) return shape_relayout(op);
  int n = msc_op_ints(op, "pairs", NULL, 0);
  if (n < 0 || n % 2) return shape_wrong(op, "pairs must be a list of source, destination, ...");
  msc_arena *arena = msc_context_arena(msc_op_ctx(op));
  int64_t *pair = msc_new_array(arena, int64_t, n + 1);
  uint8_t *used = msc_new_array(arena, uint8_t, num);
  msc_op_ints(op, "pairs", pair, n);
  for (int i = 0; i < n; i++) {
    if (pair[i] < 0 || pair[i] >= num)
      return shape_wrong(op, "entry %d of pairs is %" D "; the group %s has members 0..%" D, i, pair[i], group_text(op),
                         num - 1);
    uint8_t bit = i % 2 ? 2 : 1;
    if (used[pair[i]] & bit)
      return shape_wrong(op, "entry %d of pairs: member %" D " is a %s twice", i, pair[i],
                         i % 2 ? "destination" : "source");
    used[pair[i]] |= bit;
  }
  return shape_relayout(op);
}

/* ---- after lowering: one rank's shapes ---- */

bool shape_comm(msc_op *op) {
  const msc_attr_value *dims = msc_op_attr(op, "dims");
  int rank = 0, num_shape = msc_op_ints(op, MSC_FACT(shape), NULL, 0);
  MSC_TRY(check_members(op));
  for (size_t i = 0; i < op->num_in; i++) rank += shape_in(op, i)->rank;
  if ((int)dims->list.num != rank)
    return shape_wrong(op, "dims has %d entries, the operand %d dimensions", (int)dims->list.num, rank);
  if (num_shape >= 0 && num_shape != rank)
    return shape_wrong(op, "shape has %d entries, the operand %d dimensions", num_shape, rank);
  for (size_t i = 0, at = 0; i < op->num_in; i++) {
    const msc_type *x = shape_in(op, i);
    int64_t dim[MSC_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dim[d] = dims->list.v[at++].i;
    MSC_TRY(shape_set(op, i, x->dtype, x->rank, dim));
  }
  return true;
}
