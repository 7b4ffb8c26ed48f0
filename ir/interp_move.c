/* interp_move.c: ops that make or move elements.  Every element of a result is fetched by its global index, so a rank that
 * lacks what it needs is found out. */
#include <string.h>

#include "ir/interp_kernel.h"

/* ---- sources ---- */

/* One element of a dense value stands for all. */
void msc_run_constant(msc_eval *e) {
  const msc_attr_value *v = msc_op_attr(e->op, "value");
  msc_piece whole = msc_piece_whole(v->dense.type, (void *)v->dense.data);
  bool splat = v->dense.bytes == (size_t)msc_dtype_bytes(whole.dtype);
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index))
    msc_piece_put(e, 0, index, msc_load(whole.dtype, whole.data, splat ? 0 : msc_piece_offset(&whole, index)));
}

static msc_scalar number_of(msc_dtype d, int64_t v) { return msc_is_float(d) ? (msc_scalar){.f = (double)v} : (msc_scalar){.i = v}; }

void msc_run_iota(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t dim = msc_op_int(e->op, "dim"), first = e->start > 0 ? e->start : 0, index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, number_of(y->dtype, first + index[dim]));
}

/* ---- one operand ---- */

void msc_run_broadcast_to(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, msc_piece_get_stretched(e, 0, y->rank, index));
}

/* Element number n in row-major order of the whole tensor stays number n. */
void msc_run_reshape(msc_eval *e) {
  const msc_piece *x = &e->in[0], *y = &e->out[0];
  int64_t index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    int64_t n = 0;
    for (int d = 0; d < y->rank; d++) n = n * y->full[d] + index[d];
    for (int d = x->rank - 1; d >= 0; d--) from[d] = n % x->full[d], n /= x->full[d];
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, from));
  }
}

void msc_run_transpose(msc_eval *e) {
  int64_t perm[MSC_MAX_RANK], index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  int rank = msc_op_ints(e->op, "perm", perm, MSC_MAX_RANK);
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    for (int d = 0; d < rank; d++) from[perm[d]] = index[d];
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, from));
  }
}

/* Reads a list of one number per dimension; 1 everywhere when absent (stride). */
static void per_dim(const msc_eval *e, const char *name, int64_t *out_v) {
  for (int d = 0; d < MSC_MAX_RANK; d++) out_v[d] = 1;
  msc_op_ints(e->op, name, out_v, MSC_MAX_RANK);
}

void msc_run_slice(msc_eval *e) {
  int64_t start[MSC_MAX_RANK], stride[MSC_MAX_RANK], index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  const msc_piece *y = &e->out[0];
  per_dim(e, "start", start);
  per_dim(e, "stride", stride);
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    for (int d = 0; d < y->rank; d++) from[d] = start[d] + index[d] * stride[d];
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, from));
  }
}

void msc_run_pad(msc_eval *e) {
  int64_t low[MSC_MAX_RANK], stride[MSC_MAX_RANK], index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  const msc_piece *x = &e->in[0], *y = &e->out[0];
  msc_scalar fill = msc_scalar_of(y->dtype, msc_op_float(e->op, "value"));
  per_dim(e, "low", low);
  per_dim(e, "stride", stride);
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

void msc_run_concat(msc_eval *e) {
  int64_t dim = msc_op_int(e->op, "dim"), index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    size_t i = 0;
    memcpy(from, index, sizeof from);
    while (from[dim] >= e->in[i].full[dim]) from[dim] -= e->in[i++].full[dim];
    msc_piece_put(e, 0, index, msc_piece_get(e, i, from));
  }
}

void msc_run_split(msc_eval *e) {
  int64_t dim = msc_op_int(e->op, "dim"), begin = 0, index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (size_t i = 0; i < e->op->num_out; begin += e->out[i++].full[dim])
    for (bool more = msc_first_index(&e->out[i], index); more; more = msc_next_index(&e->out[i], index)) {
      memcpy(from, index, sizeof from);
      from[dim] += begin;
      msc_piece_put(e, i, index, msc_piece_get(e, 0, from));
    }
}

/* ---- indexed ---- */

/* An index of gather or scatter_add, checked against the `rows` of the whole tensor. */
static int64_t checked_index(msc_eval *e, size_t operand, const int64_t *index, int64_t rows) {
  const msc_attr_value *whole = msc_op_attr(e->op, "whole");
  if (whole) rows = whole->i;
  int64_t k = msc_piece_get(e, operand, index).i;
  if (k >= 0 && k < rows) return k;
  msc_fault(e, "index %" PRId64 " is not in 0..%" PRId64, k, rows - 1);
  return 0;
}

/* Is the indexed dimension cut between ranks, so that rows of others count as zeros? */
static bool is_part(const msc_eval *e, const msc_piece *p, int64_t axis) { return e->start >= 0 || p->box.size[axis] < p->full[axis]; }

void msc_run_gather(msc_eval *e) {
  const msc_piece *table = &e->in[0], *indices = &e->in[1], *y = &e->out[0];
  int64_t axis = msc_op_int(e->op, "axis"), first = e->start > 0 ? e->start : 0, index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    int64_t row = checked_index(e, 1, index + axis, table->full[axis]) - first;
    for (int d = 0; d < axis; d++) from[d] = index[d];
    for (int d = (int)axis + 1; d < table->rank; d++) from[d] = index[d + indices->rank - 1];
    from[axis] = row;
    bool mine = row >= table->box.begin[axis] && row < table->box.begin[axis] + table->box.size[axis];
    msc_piece_put(e, 0, index, mine || !is_part(e, table, axis) ? msc_piece_get(e, 0, from) : (msc_scalar){.u = 0});
  }
}

/* Sums in double or 64 bits and rounds at the end, in order of position. */
void msc_run_scatter_add(msc_eval *e) {
  const msc_piece *indices = &e->in[0], *updates = &e->in[1], *y = &e->out[0];
  int64_t axis = msc_op_int(e->op, "axis"), first = e->start > 0 ? e->start : 0, index[MSC_MAX_RANK], to[MSC_MAX_RANK];
  msc_scalar *sum = msc_new_array(e->arena, msc_scalar, msc_piece_elems(y));
  for (bool more = msc_first_index(updates, index); more; more = msc_next_index(updates, index)) {
    for (int d = 0; d < axis; d++) to[d] = index[d];
    for (int d = (int)axis + 1; d < y->rank; d++) to[d] = index[d + indices->rank - 1];
    to[axis] = checked_index(e, 0, index + axis, y->full[axis]) - first;
    int64_t at = msc_piece_offset(y, to);
    if (at >= 0) sum[at] = msc_arithmetic(OP_add, y->dtype, sum[at], msc_piece_get(e, 1, index));
    else if (!is_part(e, y, axis)) msc_fault(e, "the rank does not hold the part of the result that its updates go to");
  }
  for (int64_t i = 0; i < msc_piece_elems(y); i++) msc_store(y->dtype, y->data, i, sum[i]);
}

void msc_run_one_hot(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  msc_scalar on = msc_scalar_of(y->dtype, msc_op_float(e->op, "on")), off = msc_scalar_of(y->dtype, msc_op_float(e->op, "off"));
  int64_t first = e->start > 0 ? e->start : 0, index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, index).i - first == index[y->rank - 1] ? on : off);
}
