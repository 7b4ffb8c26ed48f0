/* grouped.c: ops grouped_matmul and grouped_weight_grad, products of rows with the matrix of the group that each row
 * is of; shapes, gradients and expansions out.  Rows may have any order.  The expansion, made when shapes are one
 * rank's (passes/7_lower/contract.c), sorts them by group and cuts each group into tiles of as many rows, the last one
 * filled up with zeros: one batch_matmul multiplies each tile with its group's matrix.  Where tiles would be more work
 * than products of all rows with all groups, those are made instead. */
#include "ir/formula.h"
#include "ir/grad/op_gradients.h"
#include "ir/op_table.h"
#include "ir/rule/rule.h"
#include "ir/shape/shape.h"

/* ---- shapes ---- */

/* Operands x [s,k] and group [s], the number of each row's group. */
static bool check_rows(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *group = shape_in(op, 1);
  MSC_TRY(shape_must_be_float(op, 0) && shape_same_dtype(op, 0, 2));
  if (x->rank != 2) return shape_wrong(op, "'x' must have rank 2, not %d", x->rank);
  if (group->dtype != MSC_I32 && group->dtype != MSC_I64)
    return shape_wrong(op, "'group' must be i32 or i64, not %s", msc_dtype_name(group->dtype));
  if (group->rank != 1 || group->dim[0] != x->dim[0])
    return shape_wrong(op, "'group' must have one number for each of the %" D " rows of 'x'", x->dim[0]);
  return true;
}

bool shape_grouped_matmul(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *w = shape_in(op, 2);
  MSC_TRY(check_rows(op));
  if (w->rank != 3) return shape_wrong(op, "'w' must have rank 3, not %d", w->rank);
  bool turned = msc_op_bool(op, "transpose_w");
  if (w->dim[1 + turned] != x->dim[1])
    return shape_wrong(op, "rows of 'x' have %" D " elements and the matrices of 'w' take %" D, x->dim[1],
                       w->dim[1 + turned]);
  return shape_set(op, 0, x->dtype, 2, (int64_t[]){x->dim[0], w->dim[2 - turned]});
}

bool shape_grouped_weight_grad(msc_op *op) {
  const msc_type *x = shape_in(op, 0), *dy = shape_in(op, 2);
  int64_t groups = msc_op_int(op, "groups");
  MSC_TRY(check_rows(op));
  if (groups < 1) return shape_wrong(op, "groups must be 1 or more, not %" D, groups);
  if (dy->rank != 2 || dy->dim[0] != x->dim[0])
    return shape_wrong(op, "'dy' must have rank 2 and as many rows as 'x', %" D, x->dim[0]);
  return shape_set(op, 0, x->dtype, 3, (int64_t[]){groups, x->dim[1], dy->dim[1]});
}

/* ---- rule ---- */

bool rule_grouped_matmul(const msc_op *op, msc_rule *rule) {
  const msc_type *w = msc_rule_tensor_type(op, 2);
  bool turned = msc_op_bool(op, "transpose_w");
  msc_rule_give(rule, 0, 0, 's', msc_rule_tensor_type(op, 0)->dim[0]);
  msc_rule_give(rule, 0, 1, 'k', w->dim[1 + turned]);
  msc_rule_give(rule, 1, 0, 's', msc_rule_tensor_type(op, 0)->dim[0]);
  msc_rule_give(rule, 2, 0, 'g', w->dim[0]);
  msc_rule_give(rule, 2, 1, turned ? 'n' : 'k', w->dim[1]);
  msc_rule_give(rule, 2, 2, turned ? 'k' : 'n', w->dim[2]);
  msc_rule_give(rule, 3, 0, 's', msc_rule_tensor_type(op, 0)->dim[0]);
  msc_rule_give(rule, 3, 1, 'n', w->dim[2 - turned]);
  return true;
}

/* ---- gradients ---- */

static msc_value *grouped_product(msc_grad_ctx *g, msc_value *x, msc_value *group, msc_value *w, bool turned) {
  msc_attr attr = msc_named(formula_ctx(&g->b), "transpose_w", msc_bool(true));
  return with_attrs(&g->b, OP_grouped_matmul, 3, (msc_value *[]){x, group, w}, turned, &attr);
}

bool grad_grouped_matmul(msc_grad_ctx *g, msc_op *op) {
  msc_value *x = op->in[0].value, *group = op->in[1].value, *w = op->in[2].value, *dy = g->dresult[0];
  bool turned = msc_op_bool(op, "transpose_w");
  if (g->wanted[0]) MSC_TRY((g->doperand[0] = grouped_product(g, dy, group, w, !turned)));
  if (!g->wanted[2]) return true;
  msc_attr attr = msc_named(formula_ctx(&g->b), "groups", msc_int(w->type->dim[0]));
  msc_value *in[] = {turned ? dy : x, group, turned ? x : dy};
  return (g->doperand[2] = with_attr(&g->b, OP_grouped_weight_grad, 3, in, attr)) != NULL;
}

/* dw = sum of x^T dy over the rows of each group: of x it is dy (d dw)^T, of dy it is x (d dw). */
bool grad_grouped_weight_grad(msc_grad_ctx *g, msc_op *op) {
  msc_value *x = op->in[0].value, *group = op->in[1].value, *dy = op->in[2].value, *ddw = g->dresult[0];
  if (g->wanted[0]) MSC_TRY((g->doperand[0] = grouped_product(g, dy, group, ddw, true)));
  return !g->wanted[2] || (g->doperand[2] = grouped_product(g, x, group, ddw, false)) != NULL;
}

/* ---- expansions ---- */

/* The number c of type i32. */
static msc_value *whole_number(msc_builder *b, int64_t c) { return msc_build_scalar(b, MSC_I32, (double)c); }

static msc_value *column(msc_builder *b, msc_value *x) {
  return x ? reshape(b, x, 2, (int64_t[]){x->type->dim[0], 1}) : NULL;
}

static msc_value *row(msc_builder *b, msc_value *x) {
  return x ? reshape(b, x, 2, (int64_t[]){1, x->type->dim[0]}) : NULL;
}

/* Sums a matrix of truth values over one of its dimensions. */
static msc_value *count_true(msc_builder *b, msc_value *x, int64_t dim) {
  return sum_over(b, cast(b, x, MSC_I32), 1, &dim, false);
}

/* The places of x in ascending order. */
static msc_value *argsort(msc_builder *b, msc_value *x) {
  msc_op *op = x ? msc_build_with(b, OP_sort, 1, &x, 2, 0, NULL) : NULL;
  return op ? &op->out[1] : NULL;
}

static msc_value *running_sum(msc_builder *b, msc_value *x) { return x ? unary(b, OP_cumsum, x) : NULL; }

/* Rows of groups in tiles of equal size: each tile has rows of one group, the last one of a group fewer. */
typedef struct {
  msc_builder *b;
  int64_t num_groups, count, size, number; /* of groups, rows, rows of a tile, tiles */
  msc_value *of_row;                       /* [count]: the group; num_groups: none */
  msc_value *known;                        /* [count, 1]: it has a group */
  msc_value *within;                       /* [count]: the group, or the last one */
  msc_value *group;                        /* [number]: of a tile */
  msc_value *source, *filled; /* [number, size]: the row at a place of a tile, and whether one is there */
  msc_value *place;           /* [count]: where a row is in all tiles */
} tiles;

/* Sets the groups of rows as i32, from 0 to num_groups, which stands for every number that names no group. */
static bool set_groups_of_rows(tiles *t, msc_value *group) {
  msc_builder *b = t->b;
  msc_value *none = msc_build_scalar(b, group->type->dtype, (double)t->num_groups),
            *below = compare(b, MSC_LT, group, number(b, group, 0)), *named = choose(b, below, none, group),
            *least = binary(b, OP_min, named, none);
  t->of_row = cast(b, least, MSC_I32);
  t->known = t->of_row ? column(b, compare(b, MSC_LT, t->of_row, whole_number(b, t->num_groups))) : NULL;
  t->within = t->known ? binary(b, OP_min, t->of_row, whole_number(b, t->num_groups - 1)) : NULL;
  return t->within != NULL;
}

/* [groups, rows]: whether the row is of the group. */
static msc_value *members(const tiles *t) {
  msc_value *groups = column(t->b, count_up(t->b, MSC_I32, t->num_groups)), *rows = row(t->b, t->of_row);
  return compare(t->b, MSC_EQ, groups, rows);
}

static bool set_tiles(tiles *t) {
  msc_builder *b = t->b;
  msc_value *order = argsort(b, t->of_row), *rank = argsort(b, order); /* the place of each row in that order */
  msc_value *rows = count_true(b, members(t), 1), *ends = running_sum(b, rows), *starts = minus(b, ends, rows);
  msc_value *more = plus(b, rows, whole_number(b, t->size - 1)), *of_group = over(b, more, whole_number(b, t->size)),
            *tile_ends = running_sum(b, of_group), *tile_starts = minus(b, tile_ends, of_group);
  msc_value *tile = count_up(b, MSC_I32, t->number), *ends_column = column(b, tile_ends);
  msc_value *ended = count_true(b, compare(b, MSC_LE, ends_column, row(b, tile)), 0);
  t->group = binary(b, OP_min, ended, whole_number(b, t->num_groups - 1));

  msc_value *nth = minus(b, tile, gather(b, tile_starts, t->group, 0)), *skipped = scale_by(b, nth, (double)t->size),
            *first = column(b, plus(b, gather(b, starts, t->group, 0), skipped));
  msc_value *sorted_place = plus(b, first, row(b, count_up(b, MSC_I32, t->size)));
  t->filled = compare(b, MSC_LT, sorted_place, column(b, gather(b, ends, t->group, 0)));
  t->source = gather(b, order, binary(b, OP_min, sorted_place, whole_number(b, t->count - 1)), 0);

  msc_value *begin = scale_by(b, gather(b, tile_starts, t->within, 0), (double)t->size),
            *off = minus(b, rank, gather(b, starts, t->within, 0)), *place = plus(b, begin, off);
  t->place = binary(b, OP_min, place, whole_number(b, t->number * t->size - 1));
  return t->source && t->place;
}

/* Zeros where the condition is false, which has one element for each row of x. */
static msc_value *keep_where(msc_builder *b, msc_value *condition, msc_value *x) {
  return x ? choose(b, condition, x, number(b, x, 0)) : NULL;
}

/* x [count, k] as [number, size, k]. */
static msc_value *in_tiles(const tiles *t, msc_value *x) {
  msc_value *is_filled = reshape(t->b, t->filled, 3, (int64_t[]){t->number, t->size, 1});
  return keep_where(t->b, is_filled, gather(t->b, x, t->source, 0));
}

/* The rows of a tile: few enough that those filled up are not many more than the rows, and many enough that the product
 * with a tile takes longer than the copy of its group's matrix. */
static int64_t size_of_tile(int64_t num_groups, int64_t count) {
  int64_t each = count / num_groups, size = 16;
  while (size < 128 && size * 2 <= each) size *= 2;
  return size;
}

static tiles begin_tiles(msc_builder *b, int64_t num_groups, int64_t count) {
  int64_t size = size_of_tile(num_groups, count);
  return (tiles){.b = b, .num_groups = num_groups, .count = count, .size = size,
                 .number = (count + num_groups * (size - 1)) / size};
}

/* True if tiles take less than products of all rows with all groups, by more than it takes to sort rows. */
static bool are_worth_it(const tiles *t) { return (t->number * t->size + t->count) * 2 <= t->num_groups * t->count; }

static msc_value *stack_of(msc_builder *b, msc_value *x, int64_t copies) {
  const int64_t one[] = {1, x->type->dim[0], x->type->dim[1]}, all[] = {copies, one[1], one[2]};
  msc_value *stacked = reshape(b, x, 3, one);
  return stacked ? broadcast(b, stacked, 3, all) : NULL;
}

/* [groups, rows, 1]: whether the row is of the group. */
static msc_value *members_of_rows(const tiles *t) {
  msc_value *member = members(t);
  return member ? reshape(t->b, member, 3, (int64_t[]){t->num_groups, t->count, 1}) : NULL;
}

bool expand_grouped_matmul(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = in[0], *w = in[2];
  tiles t = begin_tiles(b, w->type->dim[0], x->type->dim[0]);
  bool turned = msc_op_bool(op, "transpose_w");
  const int64_t groups = 0;
  MSC_TRY(set_groups_of_rows(&t, in[1]));
  if (!are_worth_it(&t)) {
    msc_value *all = matrix_product(b, stack_of(b, x, t.num_groups), false, w, turned), *member = members_of_rows(&t),
              *own = keep_where(b, member, all);
    return give_result(own ? sum_over(b, own, 1, &groups, false) : NULL, out_result);
  }
  MSC_TRY(set_tiles(&t));
  msc_value *rows = in_tiles(&t, x), *y = matrix_product(b, rows, false, gather(b, w, t.group, 0), turned);
  MSC_TRY(y);
  y = reshape(b, y, 2, (int64_t[]){t.number * t.size, y->type->dim[2]});
  return give_result(keep_where(b, t.known, gather(b, y, t.place, 0)), out_result);
}

bool expand_grouped_weight_grad(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = in[0], *dy = in[2];
  tiles t = begin_tiles(b, msc_op_int(op, "groups"), x->type->dim[0]);
  MSC_TRY(set_groups_of_rows(&t, in[1]));
  if (!are_worth_it(&t)) {
    msc_value *member = members_of_rows(&t), *own = keep_where(b, member, stack_of(b, x, t.num_groups)),
              *all = stack_of(b, dy, t.num_groups);
    return give_result(matrix_product(b, own, true, all, false), out_result);
  }
  MSC_TRY(set_tiles(&t));
  msc_value *rows = in_tiles(&t, x), *drows = in_tiles(&t, dy), *part = matrix_product(b, rows, true, drows, false);
  msc_value *dw = part ? sum_by_row(b, t.group, cast(b, part, widen_dtype(part->type->dtype)), t.num_groups, 0) : NULL;
  return give_result(cast(b, dw, x->type->dtype), out_result);
}
