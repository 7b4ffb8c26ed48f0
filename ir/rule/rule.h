/* rule.h: rule functions take an op and give the dimensions of its tensors letters, with these functions. */
#ifndef MSC_IR_RULE_H
#define MSC_IR_RULE_H

#include "ir/ir.h"

/* ---- rule.c ---- */

/* Gives a dimension the letter `name`, behind the letters it has.  A letter that the rule does not have yet is added at
 * the end of its list, with this size. */
void msc_rule_give(msc_rule *rule, size_t tensor, int dim, char name, int64_t size);
/* The letter counts windows `stride` apart over `over` elements.  Nothing happens when the rule has no such letter. */
void msc_rule_set_windows(msc_rule *rule, char name, int64_t over, int64_t stride);
/* The type of a tensor of the op: operands first, then results. */
static inline const msc_type *msc_rule_tensor_type(const msc_op *op, size_t tensor) {
  return tensor < op->num_in ? op->in[tensor].value->type : op->out[tensor - op->num_in].type;
}
/* The name of the i-th letter that `*` stands for: A, B, C ... */
static inline char msc_rule_star(int i) { return (char)('A' + i); }
/* Does some dimension of the tensor have the letter of this number? */
static inline bool msc_rule_has_letter(const msc_tensor_letters *t, int letter) {
  for (int d = 0; d < t->rank; d++)
    for (int i = 0; i < t->dim[d].num; i++)
      if (t->dim[d].letter[i] == letter) return true;
  return false;
}

/* ---- expand/scan.c ---- */

/* The number of equal blocks into which the expansion of op divides a dimension of n elements, so that every even cut
 * of the dimension has whole blocks. */
int64_t msc_num_blocks(const msc_op *op, int64_t n);

#endif
