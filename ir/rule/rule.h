/* rule.h: what rule functions are made of. */
#ifndef MSC_IR_RULE_H
#define MSC_IR_RULE_H

#include "ir/ir.h"

/* ---- rule.c ---- */

/* Puts letter `name` under a dimension, behind the letters it has; a new letter has the size. */
void msc_rule_give(msc_rule *rule, size_t tensor, int dim, char name, int64_t size);
/* A part of the letter has at least so many elements. */
void msc_rule_least(msc_rule *rule, char name, int64_t least);
/* The type of a tensor of the op: operands first, then results. */
static inline const msc_type *msc_rule_tensor_type(const msc_op *op, size_t tensor) {
  return tensor < op->num_in ? op->in[tensor].value->type : op->out[tensor - op->num_in].type;
}
/* The name of the i-th letter that `*` stands for: A, B, C ... */
static inline char msc_rule_star(int i) { return (char)('A' + i); }
static inline bool msc_rule_has_letter(const msc_tensor_letters *t, int letter) {
  for (int d = 0; d < t->rank; d++)
    for (int i = 0; i < t->dim[d].num; i++)
      if (t->dim[d].letter[i] == letter) return true;
  return false;
}

/* ---- expand/scan.c ---- */

/* Into how many equal blocks op's dimension of n elements goes, so that every even cut of it has whole blocks. */
int64_t msc_num_blocks(const msc_op *op, int64_t n);

#endif
