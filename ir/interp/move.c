/* move.c: an op that makes or moves elements, and its operands on one rank, in; its results out.  Elements are read by
 * their global indexes, so a rank that lacks one gets a fault. */
#include <string.h>

#include "ir/interp/kernel.h"

/* ---- sources ---- */

/* A dense value with one element has that element everywhere. */
void eval_constant(msc_eval *e) {
  const msc_attr_value *v = msc_op_attr(e->op, "value");
  msc_piece whole = msc_piece_whole(v->dense.type, (void *)v->dense.data);
  bool splat = v->dense.bytes == (size_t)msc_dtype_bytes(whole.dtype);
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index))
    msc_piece_put(e, 0, index, msc_load(whole.dtype, whole.data, splat ? 0 : msc_piece_offset(&whole, index)));
}

static msc_scalar scalar_from_int(msc_dtype d, int64_t v) {
  return msc_is_float(d) ? (msc_scalar){.f = (double)v} : (msc_scalar){.i = v};
}

void eval_iota(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t dim = msc_op_int(e->op, "dim"), first = e->start == MSC_NO_START ? 0 : e->start, index[MSC_MAX_RANK];
  if (msc_op_bool(e->op, MSC_FACT(behind))) first = -y->box.begin[dim] - y->box.size[dim];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, scalar_from_int(y->dtype, first + index[dim]));
}

/* ---- one operand ---- */

void eval_broadcast_to(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, msc_piece_get_stretched(e, 0, y->rank, index));
}

/* Element number n in row-major order of the whole tensor stays number n. */
void eval_reshape(msc_eval *e) {
  const msc_piece *x = &e->in[0], *y = &e->out[0];
  int64_t index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    int64_t n = 0;
    for (int d = 0; d < y->rank; d++) n = n * y->full[d] + index[d];
    for (int d = x->rank - 1; d >= 0; d--) from[d] = n % x->full[d], n /= x->full[d];
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, from));
  }
}

/* The new value is the second operand. */
void eval_stow(msc_eval *e) {
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index))
    msc_piece_put(e, 0, index, msc_piece_get(e, 1, index));
}

void eval_put_rows(msc_eval *e) {
  int64_t index[MSC_MAX_RANK] = {0}, number = msc_piece_get(e, 2, index).i;
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    int64_t row = index[0], parts = e->in[0].full[0] / e->in[1].full[0];
    bool is_new = row % parts == number;
    if (is_new) index[0] = row / parts;
    msc_scalar x = msc_piece_get(e, is_new, index);
    index[0] = row;
    msc_piece_put(e, 0, index, x);
  }
}

void eval_transpose(msc_eval *e) {
  int64_t perm[MSC_MAX_RANK], index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  int rank = msc_op_ints(e->op, "perm", perm, MSC_MAX_RANK);
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    for (int d = 0; d < rank; d++) from[perm[d]] = index[d];
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, from));
  }
}

/* Reads a list of one number per dimension; 1 everywhere when absent (stride). */
static void read_per_dim(const msc_eval *e, const char *name, int64_t *out_v) {
  for (int d = 0; d < MSC_MAX_RANK; d++) out_v[d] = 1;
  msc_op_ints(e->op, name, out_v, MSC_MAX_RANK);
}

void eval_slice(msc_eval *e) {
  int64_t start[MSC_MAX_RANK], stride[MSC_MAX_RANK], index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  const msc_piece *y = &e->out[0];
  read_per_dim(e, "start", start);
  read_per_dim(e, "stride", stride);
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    for (int d = 0; d < y->rank; d++) from[d] = start[d] + index[d] * stride[d];
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, from));
  }
}

void eval_pad(msc_eval *e) {
  int64_t low[MSC_MAX_RANK], stride[MSC_MAX_RANK], index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  const msc_piece *x = &e->in[0], *y = &e->out[0];
  msc_scalar fill = msc_scalar_of(y->dtype, msc_op_float(e->op, "value"));
  read_per_dim(e, "low", low);
  read_per_dim(e, "stride", stride);
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    bool inside = true;
    for (int d = 0; d < y->rank; d++) {
      int64_t at = index[d] - low[d];
      from[d] = at / stride[d];
      inside &= at >= 0 && at % stride[d] == 0 && from[d] < x->full[d];
    }
    msc_piece_put(e, 0, index, inside ? msc_piece_get(e, 0, from) : fill);
  }
}

/* ---- many operands or results ---- */

void eval_concat(msc_eval *e) {
  int64_t dim = msc_op_int(e->op, "dim"), index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    size_t i = 0;
    memcpy(from, index, sizeof from);
    while (from[dim] >= e->in[i].full[dim]) from[dim] -= e->in[i++].full[dim];
    msc_piece_put(e, 0, index, msc_piece_get(e, i, from));
  }
}

void eval_split(msc_eval *e) {
  int64_t dim = msc_op_int(e->op, "dim"), begin = 0, index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (size_t i = 0; i < e->op->num_out; begin += e->out[i++].full[dim])
    for (bool more = msc_first_index(&e->out[i], index); more; more = msc_next_index(&e->out[i], index)) {
      memcpy(from, index, sizeof from);
      from[dim] += begin;
      msc_piece_put(e, i, index, msc_piece_get(e, 0, from));
    }
}

void eval_one_hot(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  msc_scalar on = msc_scalar_of(y->dtype, msc_op_float(e->op, "on")),
             off = msc_scalar_of(y->dtype, msc_op_float(e->op, "off"));
  int64_t first = e->start > 0 ? e->start : 0, index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, index).i - first == index[y->rank - 1] ? on : off);
}
