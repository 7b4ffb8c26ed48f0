/* order.c: sort, topk, unique, admit or a cumulative op, and its operands on one rank, in; its results out. */
#include "ir/interp/kernel.h"

/* Returns a piece with one element for each row of p along `axis`. The rank must hold all elements of a row. */
static msc_piece rows_along(const msc_piece *p, int64_t axis) {
  msc_piece rows = *p;
  rows.box.begin[axis] = 0;
  rows.box.size[axis] = 1;
  return rows;
}

/* True if a is less than b, where NaN is the largest number. */
static bool sorts_before(msc_dtype dtype, msc_scalar a, msc_scalar b) {
  if (msc_is_float(dtype) && b.f != b.f) return a.f == a.f;
  return msc_scalar_less(dtype, a, b);
}

/* Fills order[] with the numbers of n elements: insertion sort, so equal ones stay in order. */
static void order_of(msc_dtype dtype, bool descending, int64_t n, const msc_scalar *x, int64_t *order) {
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i;
    while (at > 0 &&
           (descending ? sorts_before(dtype, x[order[at - 1]], x[i]) : sorts_before(dtype, x[i], x[order[at - 1]])))
      order[at] = order[at - 1], at--;
    order[at] = i;
  }
}

/* sort and topk */
void eval_sort(msc_eval *e) {
  const msc_piece *x = &e->in[0], *y = &e->out[0];
  int64_t axis = msc_eval_axis(e, x->rank), n = x->full[axis], index[MSC_MAX_RANK],
          *order = msc_new_array(e->arena, int64_t, n + 1);
  bool descending = msc_op_bool(e->op, e->op->kind == OP_topk ? "largest" : "descending");
  msc_scalar *row = msc_new_array(e->arena, msc_scalar, n + 1);
  msc_piece rows = rows_along(x, axis);
  for (bool more = msc_first_index(&rows, index); more; more = msc_next_index(&rows, index)) {
    for (index[axis] = 0; index[axis] < n; index[axis]++) row[index[axis]] = msc_piece_get(e, 0, index);
    order_of(x->dtype, descending, n, row, order);
    for (index[axis] = 0; index[axis] < y->full[axis]; index[axis]++) {
      msc_piece_put(e, 0, index, row[order[index[axis]]]);
      msc_piece_put(e, 1, index, (msc_scalar){.i = order[index[axis]]});
    }
    index[axis] = 0;
  }
}

void eval_unique(msc_eval *e) {
  msc_dtype dtype = e->in[0].dtype;
  int64_t n = e->in[0].full[0], count = 0, *order = msc_new_array(e->arena, int64_t, n + 1);
  msc_scalar *x = msc_new_array(e->arena, msc_scalar, n + 1);
  for (int64_t i = 0; i < n; i++) x[i] = msc_piece_get(e, 0, &i);
  order_of(dtype, false, n, x, order);
  for (int64_t i = 0; i < n; i++) {
    if (!i || sorts_before(dtype, x[order[i - 1]], x[order[i]])) msc_piece_put(e, 0, &count, x[order[i]]), count++;
    msc_piece_put(e, 1, &order[i], (msc_scalar){.i = count - 1});
  }
  msc_scalar last = n ? msc_load(dtype, e->out[0].data, count - 1) : (msc_scalar){.u = 0};
  for (int64_t i = count; i < n; i++) msc_piece_put(e, 0, &i, last);
  msc_piece_put(e, 2, NULL, (msc_scalar){.i = count});
}

/* Row k of the cache is the k-th different row that the operands name, and each result is its operand's position there.
 * The cache is empty at the start of each call. */
void eval_admit(msc_eval *e) {
  int64_t all = 0, num = 0, index[MSC_MAX_RANK];
  for (size_t i = 0; i < e->op->num_in; i++) all += msc_piece_elems(&e->in[i]);
  int64_t *row = msc_new_array(e->arena, int64_t, all + 1);
  for (size_t i = 0; i < e->op->num_in; i++)
    for (bool more = msc_first_index(&e->in[i], index); more; more = msc_next_index(&e->in[i], index)) {
      int64_t slot = 0;
      row[num] = msc_piece_get(e, i, index).i;
      while (row[slot] != row[num]) slot++;
      num += slot == num;
      msc_piece_put(e, i, index, (msc_scalar){.i = slot});
    }
}

/* dx[i]: the sum, over all j for which x[i] is a factor of y[j], of dy[j] times the other factors of y[j]. */
static msc_scalar product_slope(const msc_scalar *x, const msc_scalar *dy, int64_t n, int64_t i, bool exclusive) {
  msc_scalar sum = {.f = 0};
  for (int64_t j = i + exclusive; j < n; j++) {
    double term = dy[j].f;
    for (int64_t k = 0; k < j + !exclusive; k++) term *= k == i ? 1 : x[k].f;
    sum.f += term;
  }
  return sum;
}

/* Evaluates cumsum, cumprod and its gradient, in double or 64 bits. */
void eval_cumulate(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t axis = msc_eval_axis(e, y->rank), n = y->full[axis], index[MSC_MAX_RANK];
  bool exclusive = msc_op_bool(e->op, "exclusive"), reverse = msc_op_bool(e->op, "reverse"),
       sums = e->op->kind == OP_cumsum;
  msc_scalar *x = msc_new_array(e->arena, msc_scalar, n + 1), *dy = msc_new_array(e->arena, msc_scalar, n + 1);
  msc_piece rows = rows_along(y, axis);
  for (bool more = msc_first_index(&rows, index); more; more = msc_next_index(&rows, index)) {
    msc_scalar all = msc_identity(sums ? MSC_SUM : MSC_PROD, y->dtype), v;
    for (int64_t i = 0; i < n; i++) {
      index[axis] = reverse ? n - 1 - i : i;
      x[i] = msc_piece_get(e, 0, index);
      if (e->op->num_in > 1) dy[i] = msc_piece_get(e, 1, index);
    }
    for (int64_t i = 0; i < n; i++) {
      msc_scalar with = msc_arithmetic(sums ? SCALAR_add : SCALAR_mul, y->dtype, all, x[i]);
      v = exclusive ? all : with;
      all = with;
      if (e->op->num_in > 1) v = product_slope(x, dy, n, i, exclusive);
      index[axis] = reverse ? n - 1 - i : i;
      msc_piece_put(e, 0, index, v);
    }
    index[axis] = 0;
  }
}
