/* scan.c: cumsum, cumprod or topk along a dimension that is cut in; its expansion out.
 *
 * The dimension becomes blocks, so many that any even cut of it has whole blocks: each rank computes the results of its
 * own blocks, and only these are gathered and combined. */
#include <string.h>

#include "ir/formula.h"
#include "ir/op_table.h"
#include "ir/rule/rule.h"

/* Returns the number of blocks: a multiple of every number of parts that divides both the dimension and the devices. */
int64_t msc_num_blocks(const msc_op *op, int64_t n) {
  return msc_gcd(n, msc_mesh_size(&op->block->func->module->mesh));
}

/* [.., n, ..] as [.., blocks, n / blocks, ..] */
static msc_value *in_blocks(msc_builder *b, msc_value *x, int axis, int64_t blocks) {
  int64_t dim[MSC_MAX_RANK + 1];
  if (!x) return NULL;
  const msc_type *t = x->type;
  for (int d = 0; d <= t->rank; d++) dim[d] = t->dim[d <= axis ? d : d - 1];
  dim[axis] = blocks, dim[axis + 1] = t->dim[axis] / blocks;
  return reshape(b, x, t->rank + 1, dim);
}

/* 0, 1, 2 .. along dimension d of a tensor of this rank whose other dimensions have size 1. */
static msc_value *places(msc_builder *b, int64_t n, int rank, int d) {
  int64_t dim[MSC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  dim[0] = n;
  return reshape(b, count_up(b, MSC_I32, n), rank - d, dim);
}

/* ---- cumsum, cumprod ---- */

/* Builds, from the results of single blocks, total [.., blocks, 1, ..], for each block the reduction of all blocks
 * before it (behind it in reverse). */
static msc_value *reduce_others(msc_builder *b, msc_reduction r, msc_value *total, int axis, bool reverse) {
  if (!total) return NULL;
  int rank = total->type->rank;
  int64_t blocks = total->type->dim[axis], dim[MSC_MAX_RANK];
  memcpy(dim, total->type->dim, sizeof dim);
  dim[axis] = 1, dim[axis + 1] = blocks;
  msc_value *block = places(b, blocks, rank, axis), *other = places(b, blocks, rank, axis + 1);
  msc_value *counts = compare(b, reverse ? MSC_GT : MSC_LT, other, block), *none = number(b, total, r == MSC_PROD);
  return reduce_along(b, r, choose(b, counts, reshape(b, total, rank, dim), none), axis + 1);
}

msc_value *msc_cumulate_in_blocks(msc_builder *b, const msc_op *op, msc_value *x, int64_t blocks) {
  if (!x) return NULL;
  const msc_type *t = x->type;
  int axis = axis_of(op, "axis", t->rank);
  bool sum = op->kind == OP_cumsum, reverse = msc_op_bool(op, "reverse");
  msc_context *ctx = formula_ctx(b);
  msc_attr attrs[] = {msc_named(ctx, "axis", msc_int(axis + 1)),
                      msc_named(ctx, "exclusive", msc_bool(msc_op_bool(op, "exclusive"))),
                      msc_named(ctx, "reverse", msc_bool(reverse))};
  msc_reduction all = sum ? MSC_SUM : MSC_PROD;
  x = in_blocks(b, cast(b, x, widen_dtype(t->dtype)), axis, blocks);
  msc_value *within = x ? with_attrs(b, op->kind, 1, &x, 3, attrs) : NULL,
            *total = x ? reduce_along(b, all, x, axis + 1) : NULL;
  msc_value *others = reduce_others(b, all, total, axis, reverse),
            *y = msc_compute(b, sum ? "a + b" : "a * b", within, others);
  return y ? cast(b, reshape(b, y, t->rank, t->dim), t->dtype) : NULL;
}

bool expand_cumulate(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int64_t n = in[0]->type->dim[axis_of(op, "axis", in[0]->type->rank)];
  return give_result(msc_cumulate_in_blocks(b, op, in[0], msc_num_blocks(op, n)), out_result);
}

/* ---- topk ---- */

/* Values and places of the first k along an axis. */
typedef struct {
  msc_value *value, *place;
} ordered_values;

static ordered_values order_values(msc_builder *b, msc_op_kind kind, msc_value *x, size_t num_attrs,
                                   const msc_attr *attrs) {
  msc_op *op = x ? msc_build_with(b, kind, 1, &x, 2, num_attrs, attrs) : NULL;
  return op ? (ordered_values){&op->out[0], &op->out[1]} : (ordered_values){NULL, NULL};
}

/* Builds the largest elements of each block, sorted, with their positions in the whole dimension: [.., candidates,
 * ..]. */
static ordered_values candidates(msc_builder *b, const msc_op *op, msc_value *x, int axis, int64_t k) {
  const msc_type *t = x->type;
  int64_t blocks = msc_num_blocks(op, t->dim[axis]), each = t->dim[axis] / blocks, dim[MSC_MAX_RANK];
  msc_dtype dtype = op->out[1].type->dtype;
  msc_context *ctx = formula_ctx(b);
  msc_attr attrs[] = {msc_named(ctx, "k", msc_int(k < each ? k : each)), msc_named(ctx, "axis", msc_int(axis + 1)),
                      msc_named(ctx, "largest", msc_bool(msc_op_bool(op, "largest"))),
                      msc_dtype_attr(ctx, dtype)};
  ordered_values best = order_values(b, OP_topk, in_blocks(b, x, axis, blocks), 4, attrs);
  msc_value *block = cast(b, places(b, blocks, t->rank + 1, axis), dtype),
            *begin = times(b, block, number(b, block, (double)each));
  best.place = plus(b, best.place, begin);
  if (!best.place) return best;
  memcpy(dim, t->dim, sizeof dim);
  dim[axis] = blocks * (k < each ? k : each);
  return (ordered_values){reshape(b, best.value, t->rank, dim), reshape(b, best.place, t->rank, dim)};
}

/* Selects from the candidates. Equal elements keep the order of their positions, since candidates are in order, block
 * by block. */
bool expand_topk(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int axis = axis_of(op, "axis", in[0]->type->rank);
  int64_t k = msc_op_int(op, "k");
  ordered_values all = candidates(b, op, in[0], axis, k);
  msc_context *ctx = formula_ctx(b);
  msc_attr attrs[] = {msc_named(ctx, "axis", msc_int(axis)),
                      msc_named(ctx, "descending", msc_bool(msc_op_bool(op, "largest"))),
                      msc_dtype_attr(ctx, op->out[1].type->dtype)};
  ordered_values sorted = order_values(b, OP_sort, all.value, 3, attrs);
  msc_value *taken = part_of(b, sorted.place, axis, 0, k);
  out_result[0] = part_of(b, sorted.value, axis, 0, k);
  out_result[1] = take_along(b, all.place, taken, axis);
  return out_result[0] != NULL && out_result[1] != NULL;
}
