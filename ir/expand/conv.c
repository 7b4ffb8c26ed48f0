/* conv.c: a convolution with a bias in; its expansion out. */
#include "ir/formula.h"
#include "ir/op_table.h"

bool expand_biased_conv2d(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  static const char *const names[] = {"stride", "dilation", "padding", "groups"};
  msc_attr attr[4];
  size_t num = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const msc_attr_value *v = msc_op_attr(op, names[i]);
    if (v) attr[num++] = msc_named(formula_ctx(b), names[i], *v);
  }
  msc_value *y = plus(b, with_attrs(b, OP_conv2d, 2, in, num, attr), in[2]);
  return give_result(msc_op_bool(op, "relu") ? unary(b, OP_relu, y) : y, out_result);
}
