/* builtin.c: an op with local shapes in; the call of the runtime's kernel for it, if there is one, out. */
#include "passes/7_lower/builtin.h"

#include <math.h>

#include "ir/conv.h"
#include "ir/hypers.h"
#include "passes/7_lower/target.h"

static const msc_type *operand_type(const msc_op *op, size_t i) { return op->in[i].value->type; }

/* Elements of dimensions [from, to). */
static int64_t count_elems(const msc_type *t, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; d++) n *= t->dim[d];
  return n;
}

static int normalized_axis(const msc_op *op) {
  int64_t axis = msc_op_int(op, "axis");
  return (int)(axis < 0 ? axis + operand_type(op, 0)->rank : axis);
}

/* Sets the rows along the axis of operand 0 as the extent: their length, and the elements from one to the next. */
static void set_rows_along_axis(msc_builtin_launch *l, const msc_op *op, int64_t *out_n, int64_t *out_inner) {
  const msc_type *x = operand_type(op, 0);
  int axis = normalized_axis(op);
  *out_n = x->dim[axis];
  *out_inner = count_elems(x, axis + 1, x->rank);
  l->extent = (uint64_t)(count_elems(x, 0, axis) * *out_inner);
}

static void launch_scan(msc_builtin_launch *l, const msc_op *op, int kind) {
  l->number = MSC_BUILTIN_SCAN, l->num_dims = MSC_SCAN_DIMS;
  set_rows_along_axis(l, op, &l->dims[MSC_SCAN_N], &l->dims[MSC_SCAN_INNER]);
  l->dims[MSC_SCAN_DTYPE] = operand_type(op, 0)->dtype;
  l->dims[MSC_SCAN_KIND] = kind;
  l->dims[MSC_SCAN_EXCLUSIVE] = msc_op_bool(op, "exclusive");
  l->dims[MSC_SCAN_REVERSE] = msc_op_bool(op, "reverse");
  l->flops = l->extent * (uint64_t)l->dims[MSC_SCAN_N];
}

static uint64_t whole_lines(uint64_t elems, int64_t dtype) {
  return (elems * (uint64_t)msc_dtype_bytes((msc_dtype)dtype) + 63) / 64 * 64;
}

msc_sort_merges msc_merges_of_sort(const msc_builtin_launch *l) {
  uint64_t n = (uint64_t)l->dims[MSC_SORT_N], elems = l->extent * n;
  msc_sort_merges m = {.indices_at = whole_lines(elems, l->dims[MSC_SORT_DTYPE])};
  m.set_bytes = m.indices_at + whole_lines(elems, l->dims[MSC_SORT_INDEX_DTYPE]);
  for (uint64_t run = MSC_SORT_RUN; run < n; run *= 2) m.num_merges++;
  bool fits = l->dims[MSC_SORT_K] == l->dims[MSC_SORT_N]; /* all elements into the results */
  m.num_sets = !m.num_merges ? 0 : fits || m.num_merges == 1 ? 1 : 2;
  return m;
}

msc_builtin_launch msc_sort_of_unique(const msc_builtin_launch *u) {
  msc_builtin_launch l = {.number = MSC_BUILTIN_SORT, .num_dims = MSC_SORT_DIMS, .extent = 1};
  l.dims[MSC_SORT_DTYPE] = u->dims[MSC_UNIQUE_DTYPE], l.dims[MSC_SORT_INDEX_DTYPE] = u->dims[MSC_UNIQUE_INDEX_DTYPE];
  l.dims[MSC_SORT_N] = l.dims[MSC_SORT_K] = u->dims[MSC_UNIQUE_N];
  l.dims[MSC_SORT_INNER] = 1;
  return l;
}

static void launch_sort(msc_builtin_launch *l, const msc_op *op, int kind) {
  (void)kind; /* it has one form */
  l->number = MSC_BUILTIN_SORT, l->num_dims = MSC_SORT_DIMS;
  set_rows_along_axis(l, op, &l->dims[MSC_SORT_N], &l->dims[MSC_SORT_INNER]);
  l->dims[MSC_SORT_DTYPE] = operand_type(op, 0)->dtype;
  l->dims[MSC_SORT_INDEX_DTYPE] = op->out[1].type->dtype;
  l->dims[MSC_SORT_K] = op->out[0].type->dim[normalized_axis(op)];
  l->dims[MSC_SORT_DESCENDING] = msc_op_bool(op, msc_declares(op, "largest") ? "largest" : "descending");
  double n = (double)l->dims[MSC_SORT_N], k = (double)l->dims[MSC_SORT_K];
  l->flops = (uint64_t)((double)l->extent * n * (1 + log2(k + 1)) * 10); /* ten operations for each step of the heap */
  msc_sort_merges merges = msc_merges_of_sort(l);
  if (msc_target_of_op(op)->is_gpu) l->scratch_bytes = merges.set_bytes * (uint64_t)merges.num_sets;
}

static void launch_unique(msc_builtin_launch *l, const msc_op *op, int kind) {
  (void)kind; /* it has one form */
  l->number = MSC_BUILTIN_UNIQUE, l->num_dims = MSC_UNIQUE_DIMS;
  l->dims[MSC_UNIQUE_DTYPE] = operand_type(op, 0)->dtype;
  l->dims[MSC_UNIQUE_INDEX_DTYPE] = op->out[1].type->dtype;
  l->dims[MSC_UNIQUE_N] = operand_type(op, 0)->dim[0];
  l->extent = 1;
  double n = (double)operand_type(op, 0)->dim[0];
  l->flops = (uint64_t)(n * (1 + 2 * log2(n + 1)) * 10);
  if (!msc_target_of_op(op)->is_gpu) return;
  msc_builtin_launch sort = msc_sort_of_unique(l);
  msc_sort_merges merges = msc_merges_of_sort(&sort);
  l->scratch_bytes = merges.set_bytes * (merges.num_merges ? 2 : 1) + sizeof(int64_t) * MSC_UNIQUE_THREADS;
}

static void launch_update(msc_builtin_launch *l, const msc_op *op, int kind) {
  (void)kind; /* it has one form */
  const msc_type *x = operand_type(op, 0);
  const msc_attr_value *start = msc_op_attr(op, MSC_FACT(start));
  int axis = normalized_axis(op);
  l->number = MSC_BUILTIN_UPDATE, l->num_dims = MSC_UPDATE_DIMS, l->checks = true;
  l->dims[MSC_UPDATE_DTYPE] = x->dtype;
  l->dims[MSC_UPDATE_INDEX_DTYPE] = operand_type(op, 1)->dtype;
  l->dims[MSC_UPDATE_N] = x->dim[axis];
  l->dims[MSC_UPDATE_INNER] = count_elems(x, axis + 1, x->rank);
  l->dims[MSC_UPDATE_NUM] = msc_type_elems(operand_type(op, 1));
  l->dims[MSC_UPDATE_WHOLE] = msc_fact_read(op, whole, x->dim[axis]);
  l->extent = (uint64_t)count_elems(x, 0, axis);
  if (msc_target_of_op(op)->is_gpu) l->scratch_bytes = whole_lines((uint64_t)x->dim[axis], MSC_I64);
  if (start) l->start[l->num_starts++] = (msc_start){MSC_UPDATE_START, start->i};
}

/* Pass segments makes the op where sums have blocks. */
static bool is_for_blocks(const msc_op *op) { return msc_target_of_op(op)->blocks_scatters; }

_Static_assert((int)MSC_MAX_SUM_BLOCKS <= (int)MSC_SEGMENTS_MOST_BLOCKS, "blocks that the kernel has room for");

static void launch_segments(msc_builtin_launch *l, const msc_op *op, int kind) {
  (void)kind; /* it has one form */
  const msc_type *y = op->out[0].type;
  const msc_attr_value *start = msc_op_attr(op, MSC_FACT(start));
  l->number = MSC_BUILTIN_SEGMENTS, l->num_dims = MSC_SEGMENTS_DIMS, l->checks = true;
  l->dims[MSC_SEGMENTS_DTYPE] = y->dtype;
  l->dims[MSC_SEGMENTS_INDEX_DTYPE] = operand_type(op, 0)->dtype;
  l->dims[MSC_SEGMENTS_N] = y->dim[0];
  l->dims[MSC_SEGMENTS_INNER] = count_elems(y, 1, y->rank);
  l->dims[MSC_SEGMENTS_NUM] = operand_type(op, 0)->dim[0];
  l->dims[MSC_SEGMENTS_BLOCKS] = msc_op_int(op, "blocks");
  l->dims[MSC_SEGMENTS_WHOLE] = msc_fact_read(op, whole, y->dim[0]);
  l->extent = (uint64_t)y->dim[0];
  l->flops = (uint64_t)msc_type_elems(operand_type(op, 2));
  if (start) l->start[l->num_starts++] = (msc_start){MSC_SEGMENTS_START, start->i};
}

/* The attributes of a lazy update that are scalars of its call. */
static const char *const lazy_scalars[MSC_LAZY_SCALARS] = {
    [MSC_LAZY_LR] = "lr",
    [MSC_LAZY_DECAY] = "weight_decay",
    [MSC_LAZY_MOMENTUM_RATE] = "momentum",
    [MSC_LAZY_DAMPENING] = "dampening",
    [MSC_LAZY_BETA1] = "beta1",
    [MSC_LAZY_BETA2] = "beta2",
    [MSC_LAZY_EPS] = "eps",
};

/* Sets the scalars of the call, and where the operand `rate` has them if it has all. */
static void give_lazy_scalars(msc_builtin_launch *l, const msc_op *op) {
  for (int i = 0; i < MSC_LAZY_SCALARS; i++) {
    if (!msc_declares(op, lazy_scalars[i])) continue;
    l->scalars[i] = msc_op_float(op, lazy_scalars[i]);
    if (msc_reads_hypers(op))
      l->dims[MSC_LAZY_HYPERS] |= msc_lazy_hyper(i, msc_place_of_hyper(msc_info(op), lazy_scalars[i]));
  }
}

static void launch_lazy(msc_builtin_launch *l, const msc_op *op, int kind) {
  const msc_type *w = operand_type(op, 0), *g = msc_named_value(op, "g")->type;
  const msc_attr_value *start = msc_op_attr(op, MSC_FACT(start));
  bool nesterov = kind == MSC_LAZY_MOMENTUM && msc_op_bool(op, "nesterov"),
       pair = kind == MSC_LAZY_ADAM && msc_named_value(op, "t")->type->rank;
  l->number = MSC_BUILTIN_LAZY, l->num_dims = MSC_LAZY_DIMS, l->num_scalars = MSC_LAZY_SCALARS;
  l->dims[MSC_LAZY_DTYPE] = w->dtype;
  l->dims[MSC_LAZY_INDEX_DTYPE] = msc_named_value(op, "indices")->type->dtype;
  l->dims[MSC_LAZY_KIND] = kind;
  l->dims[MSC_LAZY_N] = w->dim[0];
  l->dims[MSC_LAZY_INNER] = count_elems(w, 1, w->rank);
  l->dims[MSC_LAZY_NUM] = msc_named_value(op, "indices")->type->dim[0];
  l->dims[MSC_LAZY_ROWS] = g->dim[0];
  l->dims[MSC_LAZY_GIVEN] = (msc_operand_called(op, "ok") >= 0 ? MSC_LAZY_OK : 0) |
                            (msc_operand_called(op, "rate") >= 0 ? MSC_LAZY_RATE : 0) |
                            (nesterov ? MSC_LAZY_NESTEROV : 0) | (pair ? MSC_LAZY_PAIR : 0);
  give_lazy_scalars(l, op);
  l->extent = (uint64_t)l->dims[MSC_LAZY_NUM];
  l->flops = l->extent * (uint64_t)l->dims[MSC_LAZY_INNER] * (kind == MSC_LAZY_ADAM ? 16 : 4);
  if (start) l->start[l->num_starts++] = (msc_start){MSC_LAZY_START, start->i};
  if (msc_target_of_op(op)->is_gpu && l->dims[MSC_LAZY_NUM] > MSC_LAZY_PART)
    l->scratch_bytes =
        whole_lines((l->extent + MSC_LAZY_PART - 1) / MSC_LAZY_PART * (uint64_t)l->dims[MSC_LAZY_INNER], w->dtype);
}

/* What a lazy update touches: its gradient and as many rows of the table and its state, old and new. */
static uint64_t lazy_bytes(const msc_op *op) {
  const msc_type *w = operand_type(op, 0), *order = msc_named_value(op, "order")->type;
  uint64_t rows = (uint64_t)(order->dim[0] * count_elems(w, 1, w->rank)) * msc_dtype_bytes(w->dtype);
  return rows * (1 + 2 * (uint64_t)op->num_out) + 2 * (uint64_t)msc_type_bytes(order);
}

/* Does a kernel of the runtime compute the pool, instead of a loop nest? */
static bool is_pool_of_runtime(const msc_op *op) {
  const msc_type *of = op->kind == OP_max_pool_grad ? op->out[0].type : operand_type(op, 0);
  return of->dtype == MSC_F32 && msc_target_of_op(op)->pools_in_runtime;
}

static void launch_pool(msc_builtin_launch *l, const msc_op *op, int kind) {
  msc_conv c = msc_conv_of(op);
  l->number = MSC_BUILTIN_POOLING, l->num_dims = MSC_POOLING_DIMS;
  l->dims[MSC_POOLING_KIND] = kind;
  for (int i = 0; i < 2; i++) {
    int64_t *w = &l->dims[i ? MSC_POOLING_W : MSC_POOLING_H];
    w[MSC_POOLING_KERNEL] = c.dim[i].kernel, w[MSC_POOLING_STRIDE] = c.dim[i].stride;
    w[MSC_POOLING_DILATION] = c.dim[i].dilation, w[MSC_POOLING_LOW] = c.dim[i].low;
    w[MSC_POOLING_X] = c.dim[i].x, w[MSC_POOLING_Y] = c.dim[i].y;
  }
  l->extent = (uint64_t)(c.n * c.c);
  l->flops = (uint64_t)msc_conv_work(op);
}

static const struct {
  void (*launch)(msc_builtin_launch *l, const msc_op *op, int kind);
  int kind;
  bool (*takes)(const msc_op *op);
} rows[OP_COUNT] = {
#define BUILTIN(op, launch, kind, takes) [OP_##op] = {launch, kind, takes},
#include "passes/7_lower/builtin.def"
};

bool msc_builtin_of(const msc_op *op, msc_builtin_launch *out) {
  msc_builtin_launch l = {.number = MSC_BUILTIN_NONE};
  if (!rows[op->kind].launch || (rows[op->kind].takes && !rows[op->kind].takes(op))) return false;
  rows[op->kind].launch(&l, op, rows[op->kind].kind);
  if (!out) return true;
  for (size_t i = 0; i < op->num_in; i++) l.bytes += (uint64_t)msc_type_bytes(operand_type(op, i));
  for (size_t i = 0; i < op->num_out; i++) l.bytes += (uint64_t)msc_type_bytes(op->out[i].type);
  if (l.number == MSC_BUILTIN_LAZY) l.bytes = lazy_bytes(op);
  else if (l.scratch_bytes && l.number != MSC_BUILTIN_UPDATE) {
    msc_builtin_launch sort = l.number == MSC_BUILTIN_UNIQUE ? msc_sort_of_unique(&l) : l;
    l.bytes *= 1 + (uint64_t)msc_merges_of_sort(&sort).num_merges;
  }
  uint64_t work = l.bytes + l.flops, unit = 65536; /* the same work as a generated kernel's grain */
  l.grain = !l.extent || work / l.extent >= unit ? 1 : unit / (work / l.extent + 1);
  if (op->kind == OP_segment_sum && msc_op_int(op, "tile")) l.grain = (uint64_t)msc_op_int(op, "tile");
  if (l.grain > l.extent) l.grain = l.extent ? l.extent : 1;
  *out = l;
  return true;
}
