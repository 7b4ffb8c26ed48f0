/* op_table.h: prototypes of the functions that op.def names, made from op.def itself: a row cannot name a function of
 * the wrong kind, and no list of prototypes has to be kept.  A row's NULL declares the unused name no_rule, no_grad or
 * no_kernel. */
#ifndef MSC_IR_OP_TABLE_H
#define MSC_IR_OP_TABLE_H

#include "ir/ir.h"

#pragma push_macro("NULL")
#undef NULL
#define NULL no_rule
#define OP(name, operands, results, attrs, flags, form, shape, rule, rule_fn, grad, eval, cost, ...) \
  msc_shape_fn shape;                                                                                \
  msc_rule_fn rule_fn;
#include "ir/op.def"
#undef OP
#undef NULL
#define NULL no_grad
#define OP(name, operands, results, attrs, flags, form, shape, rule, rule_fn, grad, eval, cost, ...) msc_grad_fn grad;
#include "ir/op.def"
#undef OP
#undef NULL
#define NULL                                                                                         no_kernel
#define OP(name, operands, results, attrs, flags, form, shape, rule, rule_fn, grad, eval, cost, ...) msc_eval_fn eval;
#include "ir/op.def"
#undef OP
#undef NULL
#pragma pop_macro("NULL")
#define OP(name, operands, results, attrs, flags, form, shape, rule, rule_fn, grad, eval, cost, ...)
#define COMPOSITE(name, operands, results, attrs, flags, form, shape, rule, rule_fn, grad, eval, cost, expansion, ...) \
  msc_expand_fn expansion;
#include "ir/op.def"
#undef OP

msc_backward_fn backward_layer_norm, backward_group_norm, backward_batch_norm; /* fact .backward */

enum { MSC_POLYGAMMA_MOST = 10 }; /* the largest n of polygamma */

const msc_op_info **msc_context_op_table(msc_context *ctx, size_t num); /* context.c: one table per context */

#endif
