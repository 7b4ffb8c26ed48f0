/* conv.c: an op whose windows slide over h and w in; the letters of its tensors' dimensions out.
 * A dimension of x and that of y have one letter, which counts windows; each tensor is cut into parts of its own size.
 * A rank that makes windows fetches the rows that they see from whoever has them; one that makes a part of x, as a
 * gradient does, needs parts that begin at a multiple of the stride, so that its windows are at the same places of
 * every part. */
#include "ir/conv.h"
#include "ir/op_table.h"
#include "ir/rule/rule.h"

/* Gives dimension `dim` of a tensor the letter `major`, and behind it `minor` if that has more than one element. */
static void give_two(msc_rule *rule, size_t tensor, int dim, char major, int64_t size, char minor, int64_t minor_size) {
  msc_rule_give(rule, tensor, dim, major, size);
  if (minor_size > 1) msc_rule_give(rule, tensor, dim, minor, minor_size);
}

static void give_windows(msc_rule *rule, const msc_conv *c, size_t num_x, const size_t *x, size_t num_y,
                         const size_t *y) {
  for (int i = 0; i < 2; i++) {
    const msc_window *w = &c->dim[i];
    if (!msc_window_may_be_cut(w)) continue;
    for (size_t k = 0; k < num_x; k++) msc_rule_give(rule, x[k], 2 + i, "hw"[i], w -> y);
    for (size_t k = 0; k < num_y; k++) msc_rule_give(rule, y[k], 2 + i, "hw"[i], w -> y);
    msc_rule_set_windows(rule, "hw"[i], w -> x, w -> stride);
  }
}

/* Gives a dimension of channels its letters: g for the group and `letter`, o or c, for the channels within a group. */
static void give_channels(msc_rule *rule, const msc_conv *c, size_t tensor, int dim, char letter) {
  int64_t size = (letter == 'o' ? c->o : c->c) / c->groups;
  if (c->groups == 1) msc_rule_give(rule, tensor, dim, letter, size);
  else give_two(rule, tensor, dim, 'g', c->groups, letter, size);
}

/* Gives the letters of x, n(gc)hw; of the weights, (go)c..; and of y, n(go)hw. Two of these tensors are the op's
 * operands, the third is its result. */
bool rule_conv2d(const msc_op *op, msc_rule *rule) {
  msc_conv c = msc_conv_of(op);
  size_t x = op->kind == OP_conv2d_transpose ? 2 : 0;
  size_t w = op->kind == OP_conv2d_weight_grad ? 2 : 1, y = 3 - x - w;
  msc_rule_give(rule, x, 0, 'n', c.n);
  msc_rule_give(rule, y, 0, 'n', c.n);
  give_channels(rule, &c, x, 1, 'c');
  give_channels(rule, &c, w, 0, 'o');
  if (c.groups == 1 || c.c > c.groups) msc_rule_give(rule, w, 1, 'c', c.c / c.groups);
  give_channels(rule, &c, y, 1, 'o');
  give_windows(rule, &c, 1, &x, 1, &y);
  return true;
}

bool rule_biased_conv2d(const msc_op *op, msc_rule *rule) {
  const size_t x = 0, y = 3;
  msc_conv c = msc_conv_of(op);
  msc_rule_give(rule, x, 0, 'n', c.n);
  msc_rule_give(rule, y, 0, 'n', c.n);
  give_channels(rule, &c, x, 1, 'c');
  if (c.groups == 1 || c.c > c.groups) msc_rule_give(rule, 1, 1, 'c', c.c / c.groups);
  for (size_t i = 1; i <= y; i++) give_channels(rule, &c, i, i == 1 ? 0 : 1, 'o');
  give_windows(rule, &c, 1, &x, 1, &y);
  return true;
}

bool rule_pool(const msc_op *op, msc_rule *rule) {
  msc_conv c = msc_conv_of(op);
  size_t last = rule->num_tensors - 1u, y[2] = {c.of_x_result ? 0 : last, 1}, x = c.of_x_result ? last : 0;
  bool counts =
      op->kind == OP_avg_pool &&
      !msc_op_bool(op, "count_include_pad"); /* a window's elements, which depend on its place in the whole image */
  for (size_t i = 0; i <= last; i++) {
    msc_rule_give(rule, i, 0, 'n', c.n);
    msc_rule_give(rule, i, 1, 'c', c.c);
  }
  for (int i = 0; counts && i < 2; i++)
    if (c.dim[i].low || c.dim[i].high) return true;
  give_windows(rule, &c, 1, &x, last, y);
  return true;
}

bool rule_resize(const msc_op *op, msc_rule *rule) {
  const msc_type *x = op->in[0].value->type;
  for (size_t i = 0; i < 2; i++)
    for (int d = 0; d < 2; d++) msc_rule_give(rule, i, d, "nc"[d], x -> dim[d]);
  return true;
}
