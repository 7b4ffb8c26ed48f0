/* halo.c: an operand of which a rank holds a part in; the rows that the op's windows see, which others may hold, out.
 * Before lowering this happens when the op reads its operand, after lowering by a comm. */
#include <string.h>

#include "ir/comm.h"
#include "ir/conv.h"
#include "ir/interp/kernel.h"

/* True if the ranks differ at most in the digits that cut the dimensions of `dims`. */
static bool differ_only_in(const msc_interp *in, const msc_layout *l, unsigned dims, int64_t rank, int64_t peer) {
  for (int d = 0; d < l->rank; d++)
    for (int i = l->first[d]; (dims >> d & 1) && i < l->first[d + 1]; i++)
      peer += (msc_digit_of(&in->mesh, l->sub[i], rank) - msc_digit_of(&in->mesh, l->sub[i], peer)) *
              msc_digit_stride(&in->mesh, l->sub[i]);
  return rank == peer;
}

/* Copies the elements of `held`, of which `from` is the buffer, that the other piece has. */
static void copy_common(const msc_piece *from, const msc_box *held, const msc_piece *to) {
  msc_piece common = *to;
  int64_t index[MSC_MAX_RANK], bytes = msc_dtype_bytes(to->dtype);
  if (!msc_box_intersect(to->rank, held, &to->box, &common.box)) return;
  for (bool more = msc_first_index(&common, index); more; more = msc_next_index(&common, index))
    memcpy(to->data + msc_piece_offset(to, index) * bytes, from->data + msc_piece_offset(from, index) * bytes,
           (size_t)bytes);
}

/* Sets the rows of dimension dim that the rank's part of the op's result, or of the gradient that it reads, sees. */
static void widen_to_windows(const msc_interp *in, const msc_op *op, size_t i, int dim, int64_t rank, msc_piece *wide) {
  msc_conv c = msc_conv_of(op);
  const msc_value *seeing = msc_named_value(op, "dw") ? msc_named_value(op, "dy") : &op->out[0];
  const msc_box *own = &msc_piece_of(in, seeing, rank)->box;
  int64_t lo, hi, stride = c.dim[dim - 2].stride, begin = own->begin[dim], end = begin + own->size[dim];
  msc_halo_of(op, i, dim, &lo, &hi);
  if (c.of_x_result) begin /= stride, end = (end + stride - 1) / stride;
  else begin *= stride, end *= stride;
  begin = msc_max(0, begin - lo), end = msc_min(wide->full[dim], end + hi);
  wide->box.begin[dim] = begin, wide->box.size[dim] = msc_max(0, end - begin);
}

msc_piece msc_piece_with_halo(const msc_interp *in, const msc_op *op, size_t i, int64_t rank) {
  const msc_value *v = op->in[i].value;
  const msc_layout *l = v->type->layout;
  msc_piece own = *msc_piece_of(in, v, rank), wide = own;
  unsigned dims = 0;
  for (int d = 0; l && !in->one_device && d < l->rank; d++) {
    int64_t lo, hi;
    if (l->first[d] == l->first[d + 1] || !msc_halo_of(op, i, d, &lo, &hi)) continue;
    dims |= 1u << d;
    widen_to_windows(in, op, i, d, rank, &wide);
  }
  if (!dims) return own;
  wide.data = msc_arena_alloc(in->arena, (size_t)(msc_piece_elems(&wide) * msc_dtype_bytes(wide.dtype)));
  for (int64_t peer = 0; peer < in->num_ranks; peer++) {
    const msc_piece *from = msc_piece_of(in, v, peer);
    if (differ_only_in(in, l, dims, rank, peer)) copy_common(from, &from->box, &wide);
  }
  return wide;
}

bool msc_run_halo(const msc_interp *in, const msc_op *op, const msc_layout *l, const int64_t *shape,
                  msc_reduction beside) {
  msc_box_layout cuts = msc_layout_cuts(l);
  int64_t num = in->num_ranks;
  msc_comm_halo h;
  if (!msc_comm_halo_of(op, &h))
    return msc_op_error(op, MSC_E_SHARDING, "comm: halo must be a dimension, two numbers of rows and a step");
  msc_piece *from = msc_new_array(in->arena, msc_piece, num);
  msc_box *held = msc_new_array(in->arena, msc_box, num);
  for (int64_t r = 0; r < num; r++) {
    from[r] = *msc_piece_of(in, op->in[0].value, r);
    from[r].rank = l->rank;
    msc_box_buffer(&in->mesh, &cuts, shape, r, &from[r].box);
    msc_box_of(&in->mesh, &cuts, shape, r, &held[r]);
  }
  for (int64_t r = 0; r < num; r++) {
    msc_piece to = *msc_piece_of(in, &op->out[0], r);
    int64_t elems = msc_piece_elems(&to),
            part = msc_group_index(&in->mesh, l->first[h.dim + 1] - l->first[h.dim], l->sub + l->first[h.dim], r);
    to.box = from[r].box;
    to.box.begin[h.dim] = part * h.step - h.lo, to.box.size[h.dim] = h.lo + h.step + h.hi;
    if (msc_piece_elems(&to) != elems)
      return msc_op_error(op, MSC_E_SHARDING, "comm: its result does not have the rows of its halo");
    for (int64_t i = 0; i < elems; i++) msc_store(to.dtype, to.data, i, msc_identity(beside, to.dtype));
    for (int64_t peer = 0; peer < num; peer++)
      if (differ_only_in(in, l, 1u << h.dim, r, peer)) copy_common(&from[peer], &held[peer], &to);
  }
  return true;
}
