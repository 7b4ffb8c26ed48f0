/* hypers.h: an optimizer's update op in; its hyper-parameters, which are attributes or an operand, out.
 *
 * The operand `rate` of an update is the learning rate, one f64, or all hyper-parameters as f64[n]: the attributes of
 * its row that are numbers, in their order. For momentum that is lr, momentum, dampening, weight_decay. */
#ifndef MSC_IR_HYPERS_H
#define MSC_IR_HYPERS_H

#include <string.h>

#include "ir/ir.h"

/* The number of the hyper-parameters of an op of this row. */
static inline int msc_num_hypers(const msc_op_info *info) {
  int num = 0;
  for (int i = 0; i < info->num_attrs; i++) num += info->attr[i].kind == MSC_ATTR_FLOAT;
  return num;
}

/* True if the operand `rate` has all hyper-parameters. */
static inline bool msc_reads_hypers(const msc_op *op) {
  int at = msc_operand_called(op, "rate");
  return at >= 0 && op->in[at].value->type->rank;
}

/* The place of a hyper-parameter among those of its row. */
static inline int msc_place_of_hyper(const msc_op_info *info, const char *name) {
  int at = 0;
  for (int i = 0; i < info->num_attrs && strcmp(info->attr[i].name, name); i++)
    at += info->attr[i].kind == MSC_ATTR_FLOAT;
  return at;
}

#endif
