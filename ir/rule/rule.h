/* rule.h: what rule functions are made of. */
#ifndef MSC_IR_RULE_H
#define MSC_IR_RULE_H

#include "ir/ir.h"

/* ---- rule.c ---- */

/* Puts letter `name` under a dimension, behind the letters it has; a new letter has the size. */
void msc_rule_give(msc_rule *rule, size_t tensor, int dim, char name, int64_t size);
/* A part of the letter has at least so many elements. */
void msc_rule_least(msc_rule *rule, char name, int64_t least);
/* The greatest common divisor of two sizes. */
static inline int64_t msc_rule_gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b, b = r;
  }
  return a;
}

/* ---- expand/scan.c ---- */

/* Into how many equal blocks op's dimension of n elements goes, so that every even cut of it has whole blocks. */
int64_t msc_num_blocks(const msc_op *op, int64_t n);

#endif
