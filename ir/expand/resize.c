/* resize.c: op resize in; two products with constant matrices out.  Row o of a matrix has the weights of the elements
 * from which element o of the result is computed.  So gradients and cuts are those of products. */
#include <math.h>

#include "ir/formula.h"
#include "ir/interp/kernel.h"
#include "ir/op_table.h"

/* Fills the matrix of linear interpolation: element o of `out` is read at (o + 0.5) in / out - 0.5, not below 0.
 * `nearest`: all weight on element floor(o in / out). */
static void fill_weights(msc_tensor *matrix, int64_t in, int64_t out, bool transposed, bool nearest) {
  for (int64_t o = 0; o < out; o++) {
    double middle = fmax(0, ((double)o + 0.5) * (double)in / (double)out - 0.5);
    int64_t first = nearest ? o * in / out : (int64_t)middle, next = first + 1 < in ? first + 1 : first;
    double share[2] = {nearest ? 1 : 1 - (middle - (double)first), nearest ? 0 : middle - (double)first};
    for (int i = 0; i < 2; i++) {
      int64_t at = i ? next : first, place = transposed ? at * out + o : o * in + at;
      msc_tensor_set(matrix, place, msc_tensor_get(matrix, place) + share[i]);
    }
  }
}

static msc_value *matrix_of(msc_builder *b, msc_dtype dtype, int64_t in, int64_t out, bool transposed, bool nearest) {
  msc_context *ctx = formula_ctx(b);
  const msc_type *t = msc_type_of(ctx, dtype, 2, (int64_t[]){transposed ? in : out, transposed ? out : in}, NULL);
  msc_tensor matrix = msc_tensor_new(msc_context_arena(ctx), t);
  fill_weights(&matrix, in, out, transposed, nearest);
  return constant_of(b, t, matrix.data);
}

/* y = H x W, image by image. */
bool expand_resize(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  const msc_type *x = op->in[0].value->type, *y = op->out[0].type;
  bool nearest = msc_op_resize_mode(op) == MSC_RESIZE_NEAREST;
  msc_value *v = in[0];
  if (x->dim[3] != y->dim[3])
    v = matrix_product(b, v, false, matrix_of(b, x->dtype, x->dim[3], y->dim[3], true, nearest), false);
  if (x->dim[2] != y->dim[2])
    v = matrix_product(b, matrix_of(b, x->dtype, x->dim[2], y->dim[2], false, nearest), false, v, false);
  if (v == in[0]) v = reshape(b, scale_by(b, v, 1), 4, y->dim);
  return give_result(v, out_result);
}
