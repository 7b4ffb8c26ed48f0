/* reduce.c: a node that reduces dimensions in; its ops out. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

/* Dimensions of a reduction: of input 1, or of the attribute; none means all, or with noop_with_empty_axes nothing. */
static bool dims_of(onnx_node *n, int rank, int *out_num, int64_t *out_dims, bool *out_none) {
  static const char *const late[] = {"ReduceSum"};
  int since = strcmp(n->row->name, late[0]) ? 18 : 13, num;
  int64_t axes[MSC_MAX_RANK];
  MSC_TRY(onnx_ints_of(n, 1, "axes", since, axes, MSC_MAX_RANK, &num));
  bool noop = n->opset >= since && onnx_int(n, "noop_with_empty_axes", 0);
  unsigned seen = 0;
  *out_num = 0, *out_none = false;
  if (num <= 0) {
    *out_none = noop;
    for (int d = 0; d < rank && !noop; d++) out_dims[(*out_num)++] = d;
    return true;
  }
  for (int i = 0; i < num; i++) {
    int axis;
    MSC_TRY(onnx_axis(n, axes[i], rank, &axis));
    if (seen >> axis & 1) return onnx_refuse(n, "axis %d is named twice", axis);
    seen |= 1u << axis;
  }
  for (int d = 0; d < rank; d++)
    if (seen >> d & 1) out_dims[(*out_num)++] = d;
  return true;
}

static msc_value *reduced_over(onnx_node *n, msc_op_kind kind, msc_value *x, int num, const int64_t *dims, bool keep) {
  int64_t dim[MSC_MAX_RANK];
  int k = 0;
  msc_reduction r = msc_op_info_of(n->ctx, kind)->facts.reduction;
  if (!x) return NULL;
  if (x->type->dtype == MSC_I1) { /* largest: any, smallest: all */
    msc_op_kind logical = r == MSC_MAX ? OP_reduce_any : OP_reduce_all;
    return num ? reduce(n->b, logical, x, num, dims, keep) : x;
  }
  if (msc_type_elems(x->type)) return num ? reduce(n->b, kind, x, num, dims, keep) : x;
  for (int d = 0, i = 0; d < x->type->rank; d++) {
    bool gone = i < num && dims[i] == d;
    i += gone;
    if (!gone || keep) dim[k++] = gone ? 1 : x->type->dim[d];
  }
  double unit = kind == OP_reduce_mean ? (double)NAN : msc_reduction_unit(r, x->type->dtype);
  return broadcast(n->b, like(n->b, x, unit), k, dim);
}

static msc_value *sums_over(onnx_node *n, msc_value *x, int num, const int64_t *dims, bool keep) {
  return reduced_over(n, msc_reducing_kind(MSC_SUM), x, num, dims, keep);
}

static msc_value *largest_over(onnx_node *n, msc_value *x, int num, const int64_t *dims, bool keep) {
  return reduced_over(n, msc_reducing_kind(MSC_MAX), x, num, dims, keep);
}

/* Sums of formulas, and whether the result is the root of one. */
static const struct {
  const char *name, *each;
  bool root;
} sums[] = {{"L1", "abs(a)", false}, {"SumSquare", "a * a", false}, {"L2", "a * a", true}};

bool onnx_build_reduce(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t dims[MSC_MAX_RANK];
  int num;
  bool none, keep = onnx_int(n, "keepdims", 1) != 0;
  if (!x || !dims_of(n, x->type->rank, &num, dims, &none)) return false;
  const char *name = n->row->name + strlen("Reduce");
  if (n->row->kind != OP_constant) {
    bool halves = x->type->dtype == MSC_F16 || x->type->dtype == MSC_BF16;
    bool adds = n->row->kind == OP_reduce_sum || n->row->kind == OP_reduce_mean;
    msc_value *w = halves && adds ? widen(n->b, x) : x, *y = reduced_over(n, n->row->kind, w, num, dims, keep);
    if (none) y = x;
    if (n->row->kind == OP_reduce_mean && !msc_is_float(x->type->dtype) && y) {
      int64_t count = 1;
      for (int i = 0; i < num; i++) count *= x->type->dim[dims[i]];
      msc_value *sum = sums_over(n, x, num, dims, keep);
      y = over(n->b, sum, like(n->b, sum, (double)(count ? count : 1)));
    }
    return onnx_set(n, 0, y ? cast(n->b, y, x->type->dtype) : NULL);
  }
  msc_value *w = widen(n->b, x), *y = NULL;
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
    if (strcmp(name, sums[i].name)) continue;
    if (!msc_is_float(x->type->dtype) && sums[i].root) w = cast(n->b, x, MSC_F64);
    y = sums_over(n, msc_compute(n->b, sums[i].each, w), num, dims, keep);
    return onnx_set(n, 0, y ? cast(n->b, sums[i].root ? msc_compute(n->b, "sqrt(a)", y) : y, x->type->dtype) : NULL);
  }
  if (!strcmp(name, "LogSum")) {
    y = msc_compute(n->b, "log(a)", sums_over(n, w, num, dims, keep));
  } else { /* LogSumExp: m + log(sum(exp(x - m))) */
    if (!msc_type_elems(x->type)) y = largest_over(n, w, num, dims, keep);
    else if (num && w) {
      msc_value *m = reduce_by(n->b, MSC_MAX, w, num, dims, true);
      m = m ? msc_compute(n->b, "select(less(abs(a), b), a, 0)", m, like(n->b, m, (double)INFINITY)) : NULL;
      msc_value *e = msc_compute(n->b, "exp(a - b)", w, m);
      msc_value *sum = e ? sum_over(n->b, e, num, dims, true) : NULL;
      msc_value *l = msc_compute(n->b, "a + log(b)", m, sum), *f = largest_over(n, w, num, dims, keep);
      y = l && f ? reshape(n->b, l, f->type->rank, f->type->dim) : NULL;
    } else y = w;
  }
  return onnx_set(n, 0, y ? cast(n->b, y, x->type->dtype) : NULL);
}
