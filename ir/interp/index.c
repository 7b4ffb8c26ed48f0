/* index.c: an op that reads elements by index, or adds to them, and its operands on one rank, in; its results out. Rows
 * of an indexed dimension that other ranks hold count as zeros. */
#include <string.h>

#include "ir/interp/kernel.h"

/* Reads an index and checks it against the `rows` of the whole tensor; 0 after a fault. */
static int64_t check_index(msc_eval *e, size_t operand, const int64_t *index, int64_t rows) {
  const msc_attr_value *whole = msc_op_attr(e->op, MSC_FACT(whole));
  if (whole) rows = whole->i;
  int64_t k = msc_piece_get(e, operand, index).i;
  if (k >= 0 && k < rows) return k;
  msc_fault(e, "index %" PRId64 " is not in 0..%" PRId64, k, rows - 1);
  return 0;
}

/* True if the indexed dimension is cut between ranks, so that rows of other ranks count as zeros. */
static bool is_part(const msc_eval *e, const msc_piece *p, int64_t axis) {
  return e->start >= 0 || p->box.size[axis] < p->full[axis];
}

/* Returns the number in the whole tensor of the first row of a lowered op's part; 0 before lowering. */
static int64_t first_row(const msc_eval *e) { return e->start > 0 ? e->start : 0; }

static bool piece_holds(const msc_piece *p, int64_t dim, int64_t i) {
  return i >= p->box.begin[dim] && i < p->box.begin[dim] + p->box.size[dim];
}

/* Adds update `index` of operand 1 to element `to` of the result; axis: the dimension that ranks may share. */
static void add_update(msc_eval *e, msc_scalar *sum, int64_t axis, const int64_t *to, const int64_t *index) {
  const msc_piece *y = &e->out[0];
  int64_t at = msc_piece_offset(y, to);
  if (at >= 0) sum[at] = msc_arithmetic(SCALAR_add, y->dtype, sum[at], msc_piece_get(e, 1, index));
  else if (!is_part(e, y, axis)) msc_fault(e, "the rank does not hold the part of the result that its updates go to");
}

static void store_sums(msc_eval *e, const msc_scalar *sum) {
  const msc_piece *y = &e->out[0];
  for (int64_t i = 0; i < msc_piece_elems(y); i++) msc_store(y->dtype, y->data, i, sum[i]);
}

void eval_gather(msc_eval *e) {
  const msc_piece *table = &e->in[0], *indices = &e->in[1], *y = &e->out[0];
  int64_t axis = msc_op_int(e->op, "axis"), first = first_row(e), index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    int64_t row = check_index(e, 1, index + axis, table->full[axis]) - first;
    for (int d = 0; d < axis; d++) from[d] = index[d];
    for (int d = (int)axis + 1; d < table->rank; d++) from[d] = index[d + indices->rank - 1];
    from[axis] = row;
    bool mine = piece_holds(table, axis, row);
    if (!mine && msc_op_bool(e->op, MSC_FACT(aligned)))
      msc_fault(e, "row %" PRId64 " is not in the part of the table that its column belongs to", row + first);
    msc_piece_put(e, 0, index, mine || !is_part(e, table, axis) ? msc_piece_get(e, 0, from) : (msc_scalar){.u = 0});
  }
}

/* Adds updates in order, in double or 64 bits, and rounds at the end. */
void eval_scatter_add(msc_eval *e) {
  const msc_piece *indices = &e->in[0], *updates = &e->in[1], *y = &e->out[0];
  int64_t axis = msc_op_int(e->op, "axis"), first = first_row(e), index[MSC_MAX_RANK], to[MSC_MAX_RANK];
  msc_scalar *sum = msc_new_array(e->arena, msc_scalar, msc_piece_elems(y));
  for (bool more = msc_first_index(updates, index); more; more = msc_next_index(updates, index)) {
    for (int d = 0; d < axis; d++) to[d] = index[d];
    for (int d = (int)axis + 1; d < y->rank; d++) to[d] = index[d + indices->rank - 1];
    to[axis] = check_index(e, 0, index + axis, y->full[axis]) - first;
    add_update(e, sum, axis, to, index);
  }
  store_sums(e, sum);
}

/* Returns the sum of the updates that entries [from, to) of operand `order` name, in double, as a balanced tree over
 * `blocks` blocks of `each` updates; the first block begins with update `first`. */
static msc_scalar sum_blocks(msc_eval *e, int64_t *index, int64_t from, int64_t to, int64_t first, int64_t blocks,
                             int64_t each) {
  msc_scalar sum = {0}, right;
  int64_t middle = from, half = first + blocks / 2 * each;
  if (blocks == 1) {
    for (int64_t k = from; k < to; k++) {
      index[0] = msc_piece_get(e, 1, &k).i;
      sum = msc_arithmetic(SCALAR_add, e->out[0].dtype, sum, msc_piece_get(e, 2, index));
    }
    return sum;
  }
  while (middle < to && msc_piece_get(e, 1, &middle).i < half) middle++;
  sum = sum_blocks(e, index, from, middle, first, blocks / 2, each);
  right = sum_blocks(e, index, middle, to, half, blocks / 2, each);
  return msc_arithmetic(SCALAR_add, e->out[0].dtype, sum, right);
}

void eval_segment_sum(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t n = e->in[0].full[0], first = first_row(e), index[MSC_MAX_RANK], from[MSC_MAX_RANK], last = 0;
  int64_t blocks = msc_op_int(e->op, "blocks");
  for (int64_t k = 0; k < n; k++) {
    int64_t row = check_index(e, 0, &k, y->full[0]), place = msc_piece_get(e, 1, &k).i;
    if (place < 0 || place >= n) msc_fault(e, "order: %" PRId64 " is not in 0..%" PRId64, place, n - 1);
    if (row < last) msc_fault(e, "row %" PRId64 " comes after row %" PRId64 ": rows are not in order", row, last);
    last = row;
  }
  for (bool more = !e->fault && msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    int64_t begin = 0, end;
    while (begin < n && msc_piece_get(e, 0, &begin).i < index[0] + first) begin++;
    for (end = begin; end < n && msc_piece_get(e, 0, &end).i == index[0] + first;) end++;
    memcpy(from, index, sizeof from);
    msc_piece_put(e, 0, index, sum_blocks(e, from, begin, end, 0, blocks, n / blocks));
  }
}

void eval_take_along(msc_eval *e) {
  const msc_piece *x = &e->in[0], *y = &e->out[0];
  int64_t axis = msc_eval_axis(e, y->rank), first = first_row(e), index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    memcpy(from, index, sizeof from);
    from[axis] = check_index(e, 1, index, x->full[axis]) - first;
    bool mine = piece_holds(x, axis, from[axis]);
    msc_piece_put(e, 0, index, mine || !is_part(e, x, axis) ? msc_piece_get(e, 0, from) : (msc_scalar){.u = 0});
  }
}

void eval_add_along(msc_eval *e) {
  const msc_piece *updates = &e->in[1], *y = &e->out[0];
  int64_t axis = msc_eval_axis(e, y->rank), first = first_row(e), index[MSC_MAX_RANK], to[MSC_MAX_RANK];
  msc_scalar *sum = msc_new_array(e->arena, msc_scalar, msc_piece_elems(y));
  for (bool more = msc_first_index(updates, index); more; more = msc_next_index(updates, index)) {
    memcpy(to, index, sizeof to);
    to[axis] = check_index(e, 0, index, y->full[axis]) - first;
    add_update(e, sum, axis, to, index);
  }
  store_sums(e, sum);
}

/* Finds the element of `t` that belongs to `index`: its first coordinates are the numbers in operand `indices` at the
 * leading part of `index`, the others are the rest of `index`. */
static void find_named_place(msc_eval *e, const msc_piece *t, size_t indices, const int64_t *index,
                             int64_t *out_place) {
  const msc_piece *p = &e->in[indices];
  int lead = p->rank - 1, depth = (int)p->full[lead];
  int64_t at[MSC_MAX_RANK];
  memcpy(at, index, sizeof at);
  for (int d = 0; d < depth; d++) {
    at[lead] = d;
    const msc_attr_value *whole = d == 0 ? msc_op_attr(e->op, MSC_FACT(whole)) : NULL;
    int64_t k = msc_piece_get(e, indices, at).i, size = whole ? whole->i : t->full[d];
    if (k < 0 || k >= size) msc_fault(e, "index %" PRId64 " is not in 0..%" PRId64, k, size - 1), k = 0;
    out_place[d] = d == 0 && e->start > 0 ? k - e->start : k;
  }
  for (int d = depth; d < t->rank; d++) out_place[d] = index[lead + d - depth];
}

void eval_gather_nd(msc_eval *e) {
  const msc_piece *x = &e->in[0], *y = &e->out[0];
  int64_t index[MSC_MAX_RANK], from[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    find_named_place(e, x, 1, index, from);
    bool mine = piece_holds(x, 0, from[0]);
    msc_piece_put(e, 0, index, mine || !is_part(e, x, 0) ? msc_piece_get(e, 0, from) : (msc_scalar){.u = 0});
  }
}

void eval_scatter_nd_add(msc_eval *e) {
  const msc_piece *updates = &e->in[1], *y = &e->out[0];
  int64_t index[MSC_MAX_RANK], to[MSC_MAX_RANK];
  msc_scalar *sum = msc_new_array(e->arena, msc_scalar, msc_piece_elems(y));
  for (bool more = msc_first_index(updates, index); more; more = msc_next_index(updates, index)) {
    find_named_place(e, y, 0, index, to);
    add_update(e, sum, 0, to, index);
  }
  store_sums(e, sum);
}

/* Applies all updates in order, so that the last one of a row stays. */
void eval_scatter_update(msc_eval *e) {
  const msc_piece *indices = &e->in[1], *updates = &e->in[2], *y = &e->out[0];
  int64_t axis = msc_op_int(e->op, "axis"), first = first_row(e), index[MSC_MAX_RANK], to[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, msc_piece_get(e, 0, index));
  for (bool more = msc_first_index(updates, index); more; more = msc_next_index(updates, index)) {
    for (int d = 0; d < axis; d++) to[d] = index[d];
    for (int d = (int)axis + 1; d < y->rank; d++) to[d] = index[d + indices->rank - 1];
    to[axis] = check_index(e, 1, index + axis, y->full[axis]) - first;
    if (msc_piece_offset(y, to) >= 0) msc_piece_put(e, 0, to, msc_piece_get(e, 2, index));
    else if (!is_part(e, y, axis)) msc_fault(e, "the rank does not hold the part of the result that its updates go to");
  }
}
