/* move.c: a composite that moves data in; its expansion out. */
#include <string.h>

#include "ir/formula.h"
#include "ir/op_table.h"

/* Expands an op whose result has the same elements in the same order. */
bool expand_reshape(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return give_result(reshape(b, in[0], op->out[0].type->rank, op->out[0].type->dim), out_result);
}

bool expand_stack(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  const msc_type *y = op->out[0].type;
  int axis = axis_of(op, "axis", y->rank);
  int64_t dim[MSC_MAX_RANK];
  memcpy(dim, y->dim, sizeof dim);
  dim[axis] = 1;
  msc_value **x = msc_new_array(msc_context_arena(formula_ctx(b)), msc_value *, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) x[i] = reshape(b, in[i], y->rank, dim);
  return give_result(join_along(b, axis, op->num_in, x), out_result);
}

/* Repeats one dimension after another: n is broadcast as [.., times, n, ..]. */
bool expand_tile(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = in[0];
  int64_t repeats[MSC_MAX_RANK], dim[MSC_MAX_RANK + 1];
  int rank = msc_op_ints(op, "repeats", repeats, MSC_MAX_RANK);
  for (int d = 0; x && d < rank; d++) {
    if (repeats[d] == 1) continue;
    const msc_type *t = x->type;
    if (rank == MSC_MAX_RANK)
      return msc_op_error(op, MSC_E_UNSUPPORTED, "tile: rank %d is not supported, %d at most", rank, MSC_MAX_RANK - 1);
    for (int k = 0; k <= rank; k++) dim[k] = k == d ? 1 : t->dim[k < d ? k : k - 1];
    x = reshape(b, x, rank + 1, dim);
    dim[d] = repeats[d];
    x = broadcast(b, x, rank + 1, dim);
    dim[d] *= t->dim[d];
    for (int k = d + 1; k < rank; k++) dim[k] = t->dim[k];
    x = reshape(b, x, rank, dim);
  }
  return give_result(x, out_result);
}

/* Gathers elements n - 1, n - 2, .. 0, one dimension after the other. */
bool expand_reverse(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int64_t dims[MSC_MAX_RANK];
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  msc_value *x = in[0];
  for (int i = 0; x && i < num; i++) {
    int64_t n = x->type->dim[dims[i]];
    msc_value *up = count_up(b, MSC_I64, n);
    x = up ? gather(b, x, minus(b, number(b, up, (double)(n - 1)), up), dims[i]) : NULL;
  }
  return give_result(x, out_result);
}

/* Moves the last `shift` elements to the front. */
bool expand_roll(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int64_t dim = axis_of(op, "dim", in[0]->type->rank), n = in[0]->type->dim[dim],
          shift = n ? msc_op_int(op, "shift") % n : 0;
  if (shift < 0) shift += n;
  if (shift == 0) return give_result(reshape(b, in[0], in[0]->type->rank, in[0]->type->dim), out_result);
  msc_value *last = part_of(b, in[0], dim, n - shift, n), *first = part_of(b, in[0], dim, 0, n - shift);
  return give_result(join_along(b, dim, 2, (msc_value *[]){last, first}), out_result);
}
