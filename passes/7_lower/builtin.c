/* builtin.c: an op with local shapes in; the call of the runtime's kernel for it, if there is one, out. */
#include "passes/7_lower/builtin.h"

#include <math.h>

static const msc_type *in(const msc_op *op, size_t i) { return op->in[i].value->type; }

/* Elements of dimensions [from, to). */
static int64_t elems(const msc_type *t, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; d++) n *= t->dim[d];
  return n;
}

static int axis_of(const msc_op *op) {
  int64_t axis = msc_op_int(op, "axis");
  return (int)(axis < 0 ? axis + in(op, 0)->rank : axis);
}

/* Rows along the axis of operand 0. */
static void along(msc_builtin_launch *l, const msc_op *op, int64_t *out_n, int64_t *out_inner) {
  const msc_type *x = in(op, 0);
  int axis = axis_of(op);
  *out_n = x->dim[axis];
  *out_inner = elems(x, axis + 1, x->rank);
  l->extent = (uint64_t)(elems(x, 0, axis) * *out_inner);
}

static void scan(msc_builtin_launch *l, const msc_op *op) {
  l->number = MSC_BUILTIN_SCAN, l->num_dims = MSC_SCAN_DIMS;
  along(l, op, &l->dims[MSC_SCAN_N], &l->dims[MSC_SCAN_INNER]);
  l->dims[MSC_SCAN_DTYPE] = in(op, 0)->dtype;
  l->dims[MSC_SCAN_KIND] = op->kind == OP_cumsum    ? MSC_SCAN_SUM
                           : op->kind == OP_cumprod ? MSC_SCAN_PROD
                                                    : MSC_SCAN_PROD_GRAD;
  l->dims[MSC_SCAN_EXCLUSIVE] = msc_op_bool(op, "exclusive");
  l->dims[MSC_SCAN_REVERSE] = msc_op_bool(op, "reverse");
  l->flops = l->extent * (uint64_t)l->dims[MSC_SCAN_N];
}

static void sort(msc_builtin_launch *l, const msc_op *op) {
  l->number = MSC_BUILTIN_SORT, l->num_dims = MSC_SORT_DIMS;
  along(l, op, &l->dims[MSC_SORT_N], &l->dims[MSC_SORT_INNER]);
  l->dims[MSC_SORT_DTYPE] = in(op, 0)->dtype;
  l->dims[MSC_SORT_INDEX_DTYPE] = op->out[1].type->dtype;
  l->dims[MSC_SORT_K] = op->out[0].type->dim[axis_of(op)];
  l->dims[MSC_SORT_DESCENDING] = msc_op_bool(op, op->kind == OP_topk ? "largest" : "descending");
  double n = (double)l->dims[MSC_SORT_N], k = (double)l->dims[MSC_SORT_K];
  l->flops = (uint64_t)((double)l->extent * n * (1 + log2(k + 1)) * 10); /* steps of the heap, ten operations each */
}

static void unique(msc_builtin_launch *l, const msc_op *op) {
  l->number = MSC_BUILTIN_UNIQUE, l->num_dims = MSC_UNIQUE_DIMS;
  l->dims[MSC_UNIQUE_DTYPE] = in(op, 0)->dtype;
  l->dims[MSC_UNIQUE_INDEX_DTYPE] = op->out[1].type->dtype;
  l->dims[MSC_UNIQUE_N] = in(op, 0)->dim[0];
  l->extent = 1;
  double n = (double)in(op, 0)->dim[0];
  l->flops = (uint64_t)(n * (1 + 2 * log2(n + 1)) * 10);
}

static void update(msc_builtin_launch *l, const msc_op *op) {
  const msc_type *x = in(op, 0);
  const msc_attr_value *start = msc_op_attr(op, "start"), *whole = msc_op_attr(op, "whole");
  int axis = axis_of(op);
  l->number = MSC_BUILTIN_UPDATE, l->num_dims = MSC_UPDATE_DIMS, l->checks = true;
  l->dims[MSC_UPDATE_DTYPE] = x->dtype;
  l->dims[MSC_UPDATE_INDEX_DTYPE] = in(op, 1)->dtype;
  l->dims[MSC_UPDATE_N] = x->dim[axis];
  l->dims[MSC_UPDATE_INNER] = elems(x, axis + 1, x->rank);
  l->dims[MSC_UPDATE_NUM] = msc_type_elems(in(op, 1));
  l->dims[MSC_UPDATE_WHOLE] = whole ? whole->i : x->dim[axis];
  l->extent = (uint64_t)elems(x, 0, axis);
  if (start) l->start[l->num_starts++] = (msc_start){MSC_UPDATE_START, start->i};
}

bool msc_builtin_of(const msc_op *op, msc_builtin_launch *out) {
  msc_builtin_launch l = {.number = MSC_BUILTIN_NONE};
  switch (op->kind) {
    case OP_cumsum: case OP_cumprod: case OP_cumprod_grad: scan(&l, op); break;
    case OP_sort: case OP_topk: sort(&l, op); break;
    case OP_unique: unique(&l, op); break;
    case OP_scatter_update: update(&l, op); break;
    default: return false;
  }
  if (!out) return true;
  for (size_t i = 0; i < op->num_in; i++) l.bytes += (uint64_t)msc_type_bytes(in(op, i));
  for (size_t i = 0; i < op->num_out; i++) l.bytes += (uint64_t)msc_type_bytes(op->out[i].type);
  uint64_t work = l.bytes + l.flops, unit = 65536; /* as a generated kernel's grain */
  l.grain = !l.extent || work / l.extent >= unit ? 1 : unit / (work / l.extent + 1);
  if (l.grain > l.extent) l.grain = l.extent ? l.extent : 1;
  *out = l;
  return true;
}
