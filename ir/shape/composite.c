/* composite.c: shape functions of composites, from losses to attention: an op in; its result types out.  See
 * shape.c. */
#include <string.h>

#include "ir/op_table.h"
#include "ir/shape/shape.h"

/* Operand i must have these dimensions. */
static bool must_have_dims(msc_op *op, size_t i, int rank, const int64_t *dim) {
  const msc_type *t = shape_in(op, i);
  if (t->rank == rank && !memcmp(t->dim, dim, sizeof *dim * (size_t)rank)) return true;
  const msc_type *want = msc_type_of(msc_op_ctx(op), t->dtype, rank, dim, NULL);
  return shape_wrong(op, "'%s' is %s, but must be %s", shape_operand_name(op, i), shape_text(op, t),
                     shape_text(op, want));
}

static bool must_be_at_least(msc_op *op, const char *name, double least) {
  double v = msc_op_float(op, name);
  return v >= least ? true : shape_wrong(op, "%s must be %g or more, not %g", name, least, v);
}

/* ---- losses ---- */

/* Loss of the elements of two tensors of one shape. */
bool shape_elements_loss(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  MSC_TRY(shape_must_be_float(op, 0) && shape_same_dtype(op, 0, 1));
  const msc_type *y = shape_in(op, 1);
  for (int d = 0; d < x->rank && x->rank == y->rank; d++)
    if (x->dim[d] != y->dim[d])
      return shape_wrong(op, "dimension %d of '%s' and '%s' differs: %" D " and %" D, d, shape_operand_name(op, 0),
                         shape_operand_name(op, 1), x->dim[d], y->dim[d]);
  MSC_TRY(must_have_dims(op, 1, x->rank, x->dim));
  return shape_set(op, 0, x->dtype, msc_op_loss_reduction(op) == MSC_LOSS_NONE ? x->rank : 0, x->dim);
}

bool shape_nll_loss(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *labels = shape_in(op, 1);
  MSC_TRY(shape_must_be_float(op, 0));
  if (x->rank < 1) return shape_wrong(op, "'%s' must have rank 1 or more", shape_operand_name(op, 0));
  if (labels->dtype != MSC_I32 && labels->dtype != MSC_I64)
    return shape_wrong(op, "'labels' must be i32 or i64, not %s", msc_dtype_name(labels->dtype));
  MSC_TRY(must_have_dims(op, 1, x->rank - 1, x->dim) && shape_ignore_index(op));
  return shape_set(op, 0, x->dtype, msc_op_loss_reduction(op) == MSC_LOSS_NONE ? x->rank - 1 : 0, x->dim);
}

/* ---- norms ---- */

/* Dimensions from axis on are normalized; gamma and beta have those. */
bool shape_norm(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int axis;
  MSC_TRY(shape_must_be_float(op, 0) && shape_axis_attr(op, "axis", shape_in(op, 0), &axis) &&
          must_be_at_least(op, "eps", 0));
  for (size_t i = 1; i < op->num_in; i++)
    MSC_TRY(shape_same_dtype(op, 0, i) && must_have_dims(op, i, x->rank - axis, x->dim + axis));
  return shape_set_like(op, 0, x);
}

bool shape_l2_normalize(msc_op *op) { return shape_norm(op); }

bool shape_group_norm(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t groups = msc_op_int(op, "groups");
  MSC_TRY(shape_must_be_float(op, 0) && must_be_at_least(op, "eps", 0));
  if (x->rank < 2) return shape_wrong(op, "'x' must have rank 2 or more: samples, channels, places");
  if (groups < 1 || x->dim[1] % groups)
    return shape_wrong(op, "%" D " channels do not divide into %" D " groups", x->dim[1], groups);
  for (size_t i = 1; i < op->num_in; i++) MSC_TRY(shape_same_dtype(op, 0, i) && must_have_dims(op, i, 1, &x->dim[1]));
  return shape_set_like(op, 0, x);
}

bool shape_batch_norm(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int axis;
  MSC_TRY(shape_must_be_float(op, 0) && shape_axis_attr(op, "axis", shape_in(op, 0), &axis) &&
          must_be_at_least(op, "eps", 0) && must_be_at_least(op, "momentum", 0));
  for (size_t i = 1; i < op->num_in; i++)
    MSC_TRY(shape_must_be_float(op, i) && must_have_dims(op, i, 1, &x->dim[axis]));
  MSC_TRY(shape_same_dtype(op, 0, 1) && shape_same_dtype(op, 0, 2) && shape_same_dtype(op, 3, 4));
  MSC_TRY(shape_set_like(op, 0, x) && shape_set_like(op, 1, shape_in(op, 3)));
  return shape_set_like(op, 2, shape_in(op, 4));
}

/* ---- activations ---- */

bool shape_glu(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t dim[MSC_MAX_RANK];
  MSC_TRY(shape_must_be_float(op, 0));
  if (x->rank < 1 || x->dim[x->rank - 1] % 2)
    return shape_wrong(op, "the last dimension of 'x' %s must be two halves", shape_text(op, x));
  memcpy(dim, x->dim, sizeof dim);
  dim[x->rank - 1] /= 2;
  return shape_set(op, 0, x->dtype, x->rank, dim);
}

/* ---- attention ---- */

bool shape_rotary(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int axis;
  MSC_TRY(shape_must_be_float(op, 0) && shape_axis_attr(op, "axis", shape_in(op, 0), &axis));
  if (axis == x->rank - 1)
    return shape_wrong(op, "axis %d is the last dimension, whose elements are turned; it must be that of positions",
                       axis);
  if (x->dim[x->rank - 1] % 2)
    return shape_wrong(op, "the last dimension of 'x' %s must be even: pairs are turned", shape_text(op, x));
  return msc_op_float(op, "base") > 0 ? shape_set_like(op, 0, x) : shape_wrong(op, "base must be positive");
}

/* Checks operand i as a mask that broadcasts to the scores. */
static bool check_mask(msc_op *op, size_t i) {
  const msc_type *mask = shape_in(op, i), *q = shape_in(op, 0);
  const int64_t scores[] = {q->dim[0], q->dim[1], q->dim[2], shape_in(op, 1)->dim[2]};
  if (mask->dtype != MSC_I1) MSC_TRY(shape_same_dtype(op, 0, i));
  if (mask->rank > 4)
    return shape_wrong(op, "'%s' must have rank 4 or less, not %d", shape_operand_name(op, i), mask->rank);
  for (int d = 0; d < mask->rank; d++) {
    int64_t want = scores[4 - mask->rank + d];
    if (mask->dim[d] != 1 && mask->dim[d] != want)
      return shape_wrong(op, "dimension %d of '%s' %s must be 1 or %" D ", that of the scores", d,
                         shape_operand_name(op, i), shape_text(op, mask), want);
  }
  return true;
}

/* Checks the operands q [b,h,s,e], k [b,g,t,e], v [b,g,t,f], where h is a multiple of g; the result is [b,h,s,f]. */
static bool check_attention(msc_op *op) {
  const msc_type *q = shape_in(op, 0), *k = shape_in(op, 1), *v = shape_in(op, 2);
  MSC_TRY(shape_must_be_float(op, 0) && shape_same_dtype(op, 0, 1) && shape_same_dtype(op, 0, 2));
  for (size_t i = 0; i < 3; i++)
    if (shape_in(op, i)->rank != 4)
      return shape_wrong(op, "'%s' must be [batch, heads, positions, size], not %s", shape_operand_name(op, i),
                         shape_text(op, shape_in(op, i)));
  if (q->dim[0] != k->dim[0] || k->dim[0] != v->dim[0])
    return shape_wrong(op, "the batches of 'q', 'k' and 'v' differ: %" D ", %" D " and %" D, q->dim[0], k->dim[0],
                       v->dim[0]);
  if (k->dim[1] != v->dim[1] || k->dim[1] == 0 || q->dim[1] % k->dim[1])
    return shape_wrong(op, "the heads of 'q' must be a multiple of those of 'k' and 'v', not %" D ", %" D " and %" D,
                       q->dim[1], k->dim[1], v->dim[1]);
  if (k->dim[2] != v->dim[2])
    return shape_wrong(op, "the positions of 'k' and 'v' differ: %" D " and %" D, k->dim[2], v->dim[2]);
  if (q->dim[3] != k->dim[3])
    return shape_wrong(op, "the sizes of 'q' and 'k' differ: %" D " and %" D, q->dim[3], k->dim[3]);
  return true;
}

bool shape_attention(msc_op *op) {
  MSC_TRY(check_attention(op));
  const msc_type *q = shape_in(op, 0), *v = shape_in(op, 2);
  if (op->num_in > 3) MSC_TRY(check_mask(op, 3));
  return shape_set(op, 0, q->dtype, 4, (int64_t[]){q->dim[0], q->dim[1], q->dim[2], v->dim[3]});
}

static bool must_be_like(msc_op *op, size_t i, msc_dtype dtype, int rank, const int64_t *dim) {
  const msc_type *t = shape_in(op, i), *wanted = msc_type_of(msc_op_ctx(op), dtype, rank, dim, NULL);
  bool same = t->dtype == dtype && t->rank == rank && !memcmp(t->dim, dim, sizeof *dim * (size_t)rank);
  return same || shape_wrong(op, "'%s' must be %s, not %s", shape_operand_name(op, i), shape_text(op, wanted),
                             shape_text(op, t));
}

/* Checks operand i, if there is one: a factor for each of the attention weights. */
static bool check_keep(msc_op *op, size_t i) {
  const msc_type *q = shape_in(op, 0);
  return op->num_in <= i ||
         must_be_like(op, i, q->dtype, 4, (int64_t[]){q->dim[0], q->dim[1], q->dim[2], shape_in(op, 1)->dim[2]});
}

/* Checks operand i: with the attribute `masked` a mask that must be there, else as check_keep does. */
static bool check_mask_or_keep(msc_op *op, size_t i) {
  if (!msc_op_bool(op, "masked")) return check_keep(op, i);
  return op->num_in > i ? check_mask(op, i) : shape_wrong(op, "it is masked, but there is no mask");
}

static bool set_attention_result(msc_op *op) {
  const msc_type *q = shape_in(op, 0);
  return shape_set(op, 0, q->dtype, 4, (int64_t[]){q->dim[0], q->dim[1], q->dim[2], shape_in(op, 2)->dim[3]});
}

bool shape_dropped_attention(msc_op *op) {
  return check_attention(op) && check_keep(op, 3) && (op->num_in < 5 || check_mask(op, 4)) && set_attention_result(op);
}

bool shape_flash_attention(msc_op *op) {
  return check_attention(op) && check_mask_or_keep(op, 3) && set_attention_result(op) &&
         shape_set(op, 1, MSC_F32, 3, shape_in(op, 0)->dim);
}

bool shape_flash_attention_grad(msc_op *op) {
  MSC_TRY(check_attention(op));
  const msc_type *q = shape_in(op, 0), *v = shape_in(op, 2);
  const int64_t y[] = {q->dim[0], q->dim[1], q->dim[2], v->dim[3]};
  MSC_TRY(must_be_like(op, 3, q->dtype, 4, y) && must_be_like(op, 4, MSC_F32, 3, q->dim) &&
          must_be_like(op, 5, q->dtype, 4, y) && check_mask_or_keep(op, 6));
  for (size_t i = 0; i < 3; i++) MSC_TRY(shape_set_like(op, i, shape_in(op, i)));
  return true;
}

/* One slope, or one per channel, which is dimension 1. */
bool shape_prelu(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *slope = shape_in(op, 1);
  MSC_TRY(shape_must_be_float(op, 0) && shape_same_dtype(op, 0, 1));
  int64_t channels = x->rank > 1 ? x->dim[1] : 1;
  if (slope->rank != 1 || (slope->dim[0] != 1 && slope->dim[0] != channels))
    return shape_wrong(op, "'slope' is %s, but must be [1], or [%" D "] as there are channels", shape_text(op, slope),
                       channels);
  return shape_set_like(op, 0, x);
}

bool shape_clamp(msc_op *op) {
  double low = msc_op_float(op, "low"), high = msc_op_float(op, "high");
  MSC_TRY(shape_must_be_float(op, 0));
  return low <= high ? shape_set_like(op, 0, shape_in(op, 0)) : shape_wrong(op, "low %g is above high %g", low, high);
}

/* ---- logic ---- */

static bool must_be_logical(msc_op *op, size_t i) {
  const msc_type *t = shape_in(op, i);
  return t->dtype == MSC_I1 ? true
                            : shape_wrong(op, "'%s' must be i1, not %s; compare it with something",
                                          shape_operand_name(op, i), msc_dtype_name(t->dtype));
}

bool shape_logical(msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) MSC_TRY(must_be_logical(op, i));
  return op->num_in == 1 ? shape_set_like(op, 0, shape_in(op, 0)) : shape_broadcast(op, MSC_I1);
}

bool shape_reduce_logical(msc_op *op) { return must_be_logical(op, 0) && shape_reduce(op); }

bool shape_is_finite(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  return shape_must_be_float(op, 0) && shape_set(op, 0, MSC_I1, x->rank, x->dim);
}

/* ---- data movement ---- */

/* The result has a dimension of size 1 more, at `axis`. */
bool shape_expand_dims(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t axis = msc_op_int(op, "axis"), dim[MSC_MAX_RANK + 1];
  if (axis < -x->rank - 1 || axis > x->rank)
    return shape_wrong(op, "axis %" D " is not a dimension of a result of rank %d", axis, x->rank + 1);
  if (axis < 0) axis += x->rank + 1;
  for (int d = 0; d <= x->rank; d++) dim[d] = d == axis ? 1 : x->dim[d < axis ? d : d - 1];
  return shape_set(op, 0, x->dtype, x->rank + 1, dim);
}

/* Reads attribute `dims`, which names dimensions of operand 0, each once; returns how many, -1 after a report. */
static int named_dims(msc_op *op, int64_t *out_dims, unsigned *out_mask) {
  const msc_type *x = shape_in(op, 0);
  int num = msc_op_ints(op, "dims", out_dims, MSC_MAX_RANK);
  *out_mask = 0;
  for (int i = 0; i < num; i++) {
    if (i >= x->rank || out_dims[i] < 0 || out_dims[i] >= x->rank || *out_mask >> out_dims[i] & 1) {
      shape_wrong(op, "dims must name dimensions of 0..%d once; entry %d is %" D, x->rank - 1, i,
                  i < MSC_MAX_RANK ? out_dims[i] : 0);
      return -1;
    }
    *out_mask |= 1u << out_dims[i];
  }
  return num;
}

bool shape_squeeze(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t dims[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  unsigned gone;
  int rank = 0;
  MSC_TRY(named_dims(op, dims, &gone) >= 0);
  for (int d = 0; d < x->rank; d++) {
    if (!(gone >> d & 1)) dim[rank++] = x->dim[d];
    else if (x->dim[d] != 1) return shape_wrong(op, "dimension %d of 'x' has %" D " elements, not 1", d, x->dim[d]);
  }
  return shape_set(op, 0, x->dtype, rank, dim);
}

bool shape_tile(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t repeats[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  int num = msc_op_ints(op, "repeats", repeats, MSC_MAX_RANK);
  if (num != x->rank) return shape_wrong(op, "repeats must have one entry per dimension: %d, not %d", x->rank, num);
  for (int d = 0; d < num; d++) {
    if (repeats[d] < 1) return shape_wrong(op, "repeats must be 1 or more; entry %d is %" D, d, repeats[d]);
    if (__builtin_mul_overflow(x->dim[d], repeats[d], &dim[d]))
      return shape_wrong(op, "result dimension %d would not fit 63 bits", d);
  }
  return shape_set(op, 0, x->dtype, num, dim);
}

bool shape_stack(msc_op *op) {
  const msc_type *x = op->num_in ? shape_in(op, 0) : NULL;
  int64_t dim[MSC_MAX_RANK + 1], axis = msc_op_int(op, "axis");
  if (!x) return shape_wrong(op, "needs an operand");
  for (size_t i = 1; i < op->num_in; i++) {
    const msc_type *t = shape_in(op, i);
    if (!msc_same_tensor(t, x))
      return shape_wrong(op, "operand %zu is %s, but operand 0 %s", i, shape_text(op, t), shape_text(op, x));
  }
  if (axis < -x->rank - 1 || axis > x->rank)
    return shape_wrong(op, "axis %" D " is not a dimension of a result of rank %d", axis, x->rank + 1);
  if (axis < 0) axis += x->rank + 1;
  for (int d = 0; d <= x->rank; d++) dim[d] = d == axis ? op->num_in : x->dim[d < axis ? d : d - 1];
  return shape_set(op, 0, x->dtype, x->rank + 1, dim);
}

bool shape_reverse(msc_op *op) {
  int64_t dims[MSC_MAX_RANK];
  unsigned mask;
  return named_dims(op, dims, &mask) >= 0 && shape_set_like(op, 0, shape_in(op, 0));
}

bool shape_roll(msc_op *op) {
  int dim;
  return shape_axis_attr(op, "dim", shape_in(op, 0), &dim) && shape_set_like(op, 0, shape_in(op, 0));
}
