/* halo.c: an operand of which a rank holds a part in; the part with the rows of neighbours that the op's windows see
 * out. Before lowering this happens when the op reads its operand, after lowering by a comm. */
#include <string.h>

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

/* Copies the elements that both pieces have. */
static void copy_common(const msc_piece *from, const msc_piece *to) {
  msc_piece common = *to;
  int64_t index[MSC_MAX_RANK], bytes = msc_dtype_bytes(to->dtype);
  for (int d = 0; d < to->rank; d++) {
    int64_t begin = from->box.begin[d] > to->box.begin[d] ? from->box.begin[d] : to->box.begin[d];
    int64_t end = from->box.begin[d] + from->box.size[d], to_end = to->box.begin[d] + to->box.size[d];
    if (to_end < end) end = to_end;
    common.box.begin[d] = begin, common.box.size[d] = end > begin ? end - begin : 0;
  }
  for (bool more = msc_first_index(&common, index); more; more = msc_next_index(&common, index))
    memcpy(to->data + msc_piece_offset(to, index) * bytes, from->data + msc_piece_offset(from, index) * bytes,
           (size_t)bytes);
}

msc_piece msc_piece_with_halo(const msc_interp *in, const msc_op *op, size_t i, int64_t rank) {
  const msc_value *v = op->in[i].value;
  const msc_layout *l = v->type->layout;
  msc_piece own = *msc_piece_of(in, v, rank), wide = own;
  unsigned dims = 0;
  for (int d = 0; l && !in->one_device && d < l->rank; d++) {
    int64_t lo, hi, begin = own.box.begin[d], end = begin + own.box.size[d];
    if (l->first[d] == l->first[d + 1] || !msc_halo_of(op, i, d, &lo, &hi)) continue;
    dims |= 1u << d;
    wide.box.begin[d] = begin > lo ? begin - lo : 0;
    wide.box.size[d] = (end + hi < own.full[d] ? end + hi : own.full[d]) - wide.box.begin[d];
  }
  if (!dims) return own;
  wide.data = msc_arena_alloc(in->arena, (size_t)(msc_piece_elems(&wide) * msc_dtype_bytes(wide.dtype)));
  for (int64_t peer = 0; peer < in->num_ranks; peer++)
    if (differ_only_in(in, l, dims, rank, peer)) copy_common(msc_piece_of(in, v, peer), &wide);
  return wide;
}

bool msc_run_halo(const msc_interp *in, const msc_op *op, const msc_layout *l, const int64_t *shape,
                  msc_reduction beside) {
  msc_box_layout cuts = msc_layout_cuts(l);
  int64_t halo[3], num = in->num_ranks;
  if (msc_op_ints(op, "halo", halo, 3) != 3 || halo[0] < 0 || halo[0] >= l->rank || halo[1] < 0 || halo[2] < 0)
    return msc_op_error(op, MSC_E_SHARDING, "comm: halo must be a dimension and two numbers of rows");
  msc_piece *from = msc_new_array(in->arena, msc_piece, num);
  for (int64_t r = 0; r < num; r++) {
    from[r] = *msc_piece_of(in, op->in[0].value, r);
    from[r].rank = l->rank;
    msc_box_of(&in->mesh, &cuts, shape, r, &from[r].box);
  }
  for (int64_t r = 0; r < num; r++) {
    msc_piece to = *msc_piece_of(in, &op->out[0], r);
    int64_t elems = msc_piece_elems(&to);
    to.box = from[r].box;
    to.box.begin[halo[0]] -= halo[1], to.box.size[halo[0]] += halo[1] + halo[2];
    if (msc_piece_elems(&to) != elems)
      return msc_op_error(op, MSC_E_SHARDING, "comm: its result is not its operand with the halo");
    for (int64_t i = 0; i < elems; i++) msc_store(to.dtype, to.data, i, msc_identity(beside, to.dtype));
    for (int64_t peer = 0; peer < num; peer++)
      if (differ_only_in(in, l, 1u << halo[0], r, peer)) copy_common(&from[peer], &to);
  }
  return true;
}
