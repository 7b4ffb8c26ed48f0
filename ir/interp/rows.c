/* rows.c: a matrix product, reduction, softmax or loss and its operands on one rank in; its results out.  Over a
 * dimension that is cut, a rank sums the elements that it holds, and the result is partial. */
#include <math.h>
#include <string.h>

#include "ir/interp/kernel.h"

/* ---- matrix products ---- */

/* Returns an element of the product of a and b, summed over the k that the rank holds; leading dimensions broadcast. */
msc_scalar msc_product_at(msc_eval *e, const int64_t *index) {
  const msc_piece *a = &e->in[0], *y = &e->out[0];
  bool ta = msc_op_bool(e->op, "transpose_a"), tb = msc_op_bool(e->op, "transpose_b");
  int r = y->rank, ka = a->rank - 1 - ta;
  /* a gemm sums f16 and bf16 in f32 and rounds the sum once, where it is stored */
  msc_dtype sums = e->op->kind == OP_gemm && msc_dtype_bytes(y->dtype) < 4 ? MSC_F32 : y->dtype;
  int64_t begin = a->box.begin[ka], end = begin + a->box.size[ka];
  msc_scalar sum = {.u = 0};
  for (int64_t k = begin; k < end; k++) {
    int64_t ia[MSC_MAX_RANK], ib[MSC_MAX_RANK];
    memcpy(ia, index, sizeof ia);
    memcpy(ib, index, sizeof ib);
    ia[r - 2 + ta] = ta ? index[r - 2] : ia[r - 2];
    ia[r - 1 - ta] = k;
    ib[r - 1 - tb] = index[r - 1];
    ib[r - 2 + tb] = k;
    msc_scalar product =
        msc_arithmetic(SCALAR_mul, sums, msc_piece_get_stretched(e, 0, r, ia), msc_piece_get_stretched(e, 1, r, ib));
    sum = msc_arithmetic(SCALAR_add, sums, sum, product);
  }
  return sum;
}

void eval_matmul(msc_eval *e) {
  const msc_piece *a = &e->in[0], *b = &e->in[1], *y = &e->out[0];
  int ka = a->rank - 1 - msc_op_bool(e->op, "transpose_a"), kb = b->rank - 2 + msc_op_bool(e->op, "transpose_b");
  int64_t index[MSC_MAX_RANK];
  if (b->box.begin[kb] != a->box.begin[ka] || b->box.size[kb] != a->box.size[ka])
    msc_fault(e, "the rank holds other inner elements of 'a' than of 'b'");
  for (bool more = msc_first_index(y, index); more && !e->fault; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, msc_product_at(e, index));
}

/* dw[k,n] = sum of x[*,k] dy[*,n] over the leading elements that the rank holds. */
void eval_weight_grad(msc_eval *e) {
  const msc_piece *x = &e->in[0], *dw = &e->out[0];
  int last = x->rank - 1;
  int64_t index[MSC_MAX_RANK], at[MSC_MAX_RANK];
  for (int d = 0; d < last; d++)
    if (x->box.begin[d] != e->in[1].box.begin[d] || x->box.size[d] != e->in[1].box.size[d])
      msc_fault(e, "the rank holds other elements of 'x' than of 'dy'");
  for (bool more = msc_first_index(dw, index); more && !e->fault; more = msc_next_index(dw, index)) {
    msc_scalar sum = {.u = 0};
    msc_piece column = *x; /* the elements with this k */
    column.box.begin[last] = index[0], column.box.size[last] = 1;
    for (bool in_column = msc_first_index(&column, at); in_column; in_column = msc_next_index(&column, at)) {
      msc_scalar a = msc_piece_get(e, 0, at);
      at[last] = index[1];
      sum =
          msc_arithmetic(SCALAR_add, dw->dtype, sum, msc_arithmetic(SCALAR_mul, dw->dtype, a, msc_piece_get(e, 1, at)));
      at[last] = index[0];
    }
    msc_piece_put(e, 0, index, sum);
  }
}

/* ---- reductions ---- */

/* Returns the divisor of a mean, the number of terms in the whole tensor: the fact `count` after lowering, else
 * of_shape. */
static double mean_count(const msc_eval *e, int64_t of_shape) {
  const msc_attr_value *count = msc_op_attr(e->op, MSC_FACT(count));
  return (double)(count ? count->i : of_shape);
}

void eval_reduce(msc_eval *e) {
  const msc_piece *x = &e->in[0], *y = &e->out[0];
  msc_reduction r = msc_info(e->op)->facts.reduction;
  int64_t dims[MSC_MAX_RANK], index[MSC_MAX_RANK], from[MSC_MAX_RANK], count = 1;
  int num = msc_op_ints(e->op, "dims", dims, MSC_MAX_RANK);
  unsigned gone = 0;
  for (int i = 0; i < num; i++) gone |= 1u << dims[i], count *= x->full[dims[i]];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    msc_piece row = *x; /* the elements of x that are reduced to this one of y */
    for (int d = 0, at = 0; d < x->rank; d++) {
      bool is_gone = gone >> d & 1;
      if (!is_gone) row.box.begin[d] = index[at], row.box.size[d] = 1;
      at += !is_gone || y->rank == x->rank;
    }
    msc_scalar sum = msc_identity(r, y->dtype);
    for (bool in_row = msc_first_index(&row, from); in_row; in_row = msc_next_index(&row, from))
      sum = msc_reduce(r, y->dtype, sum, msc_piece_get(e, 0, from));
    if (e->op->kind == OP_reduce_mean) sum.f /= mean_count(e, count);
    msc_piece_put(e, 0, index, sum);
  }
}

/* ---- softmax ---- */

typedef struct {
  double max, log_sum; /* log of the sum of exp(x - max) */
} row_stats;

/* Returns an element of operand 0; minus infinity in a column that is padding. */
static double score_at(msc_eval *e, const int64_t *index) {
  const msc_attr_value *classes = msc_op_attr(e->op, MSC_FACT(classes));
  return classes && index[e->in[0].rank - 1] >= classes->i ? -INFINITY : msc_piece_get(e, 0, index).f;
}

/* Computes the statistics of a row, along all of dimension `axis` of operand 0; index[axis] is changed. */
static row_stats stats_of_row(msc_eval *e, int64_t *index, int axis) {
  row_stats s = {-INFINITY, 0};
  int64_t n = e->in[0].full[axis];
  double sum = 0;
  for (index[axis] = 0; index[axis] < n; index[axis]++)
    s.max = msc_arithmetic(SCALAR_max, MSC_F64, (msc_scalar){.f = s.max}, (msc_scalar){.f = score_at(e, index)}).f;
  for (index[axis] = 0; index[axis] < n; index[axis]++) sum += exp(score_at(e, index) - s.max);
  s.log_sum = log(sum);
  return s;
}

void eval_softmax(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t index[MSC_MAX_RANK], axis = msc_eval_axis(e, y->rank);
  msc_piece rows = *y; /* one element of each row */
  rows.box.size[axis] = y->box.size[axis] > 0;
  rows.box.begin[axis] = 0;
  for (bool more = msc_first_index(&rows, index); more; more = msc_next_index(&rows, index)) {
    row_stats s = stats_of_row(e, index, (int)axis);
    for (index[axis] = 0; index[axis] < y->full[axis]; index[axis]++) {
      double v = msc_piece_get(e, 0, index).f - s.max - s.log_sum;
      msc_piece_put(e, 0, index, (msc_scalar){.f = e->op->kind == OP_softmax ? exp(v) : v});
    }
    index[axis] = 0;
  }
}

/* ---- losses ---- */

/* True for a row whose label is ignore_index. */
static bool is_ignored(msc_eval *e, const int64_t *index) {
  return msc_op_attr(e->op, "ignore_index") && msc_piece_get(e, 1, index).i == msc_op_int(e->op, "ignore_index");
}

/* Returns the weight of class c in the label of this row: a probability, or 1 for the class that it names. */
static double label_weight(msc_eval *e, const int64_t *index, int64_t c) {
  int last = e->in[0].rank - 1;
  int64_t at[MSC_MAX_RANK];
  memcpy(at, index, sizeof at);
  at[last] = c;
  if (msc_is_float(e->in[1].dtype)) return msc_piece_get(e, 1, at).f;
  int64_t k = msc_piece_get(e, 1, index).i;
  int64_t num = msc_fact_read(e->op, classes, e->in[0].full[last]);
  if (k < 0 || k >= num) msc_fault(e, "label %" PRId64 " is not in 0..%" PRId64, k, num - 1);
  return k == c;
}

static bool is_mean(const msc_eval *e) { return msc_op_loss_reduction(e->op) == MSC_LOSS_MEAN; }
static bool is_none(const msc_eval *e) { return msc_op_loss_reduction(e->op) == MSC_LOSS_NONE; }

/* Returns the first element of each row that the rank holds; *out_count: rows of the whole tensor. */
static msc_piece pick_rows(const msc_piece *x, int64_t *out_count) {
  msc_piece rows = *x;
  int last = x->rank - 1;
  *out_count = 1;
  for (int d = 0; d < last; d++) *out_count *= x->full[d];
  rows.box.begin[last] = 0;
  rows.box.size[last] = 1;
  return rows;
}

/* -sum(label * log_softmax(logits)) of one row */
static double eval_row_loss(msc_eval *e, int64_t *index) {
  int last = e->in[0].rank - 1;
  row_stats s = stats_of_row(e, index, last);
  double loss = 0;
  index[last] = 0;
  if (is_ignored(e, index)) return 0;
  for (index[last] = 0; index[last] < e->in[0].full[last]; index[last]++) {
    double weight = label_weight(e, index, index[last]);
    if (weight != 0) loss -= weight * (score_at(e, index) - s.max - s.log_sum);
  }
  index[last] = 0;
  return loss;
}

void eval_cross_entropy(msc_eval *e) {
  int64_t index[MSC_MAX_RANK], count;
  msc_piece rows = pick_rows(&e->in[0], &count);
  double sum = 0;
  for (bool more = msc_first_index(&rows, index); more; more = msc_next_index(&rows, index)) {
    double loss = eval_row_loss(e, index);
    if (is_none(e)) msc_piece_put(e, 0, index, (msc_scalar){.f = loss});
    sum += loss;
  }
  if (is_mean(e)) sum /= mean_count(e, count);
  if (!is_none(e)) msc_piece_put(e, 0, index, (msc_scalar){.f = sum});
}

void eval_cross_entropy_grad(msc_eval *e) {
  int last = e->in[0].rank - 1;
  int64_t index[MSC_MAX_RANK], count, n = e->in[0].full[last];
  msc_piece rows = pick_rows(&e->out[0], &count);
  for (bool more = msc_first_index(&rows, index); more; more = msc_next_index(&rows, index)) {
    row_stats s = stats_of_row(e, index, last);
    bool ignored = is_ignored(e, index);
    /* dloss is a scalar or one per row */
    double scale = msc_piece_get(e, 2, index).f / (is_mean(e) ? mean_count(e, count) : 1), total = 0;
    for (int64_t c = 0; c < n && !ignored; c++) total += label_weight(e, index, c);
    for (index[last] = 0; index[last] < n; index[last]++) {
      double p = exp(score_at(e, index) - s.max - s.log_sum);
      double slope = ignored ? 0 : (p * total - label_weight(e, index, index[last])) * scale;
      msc_piece_put(e, 0, index, (msc_scalar){.f = slope});
    }
    index[last] = 0;
  }
}
