/* gemm.h: the operands and results of op gemm behind the product's own, by the words of its attributes `takes` and
 * `gives`. */
#ifndef MSC_IR_GEMM_H
#define MSC_IR_GEMM_H

#include "ir/ir.h"

/* Operands: BIAS, ADD, UNLESS, AUX; results: AUX, SUM_A, SUM_B. */
#define MSC_GEMM_EXTRAS(X) \
  X(BIAS, "bias") X(ADD, "add") X(UNLESS, "unless") X(AUX, "aux") X(SUM_A, "sum_a") X(SUM_B, "sum_b")

typedef enum {
#define X(NAME, word) MSC_GEMM_##NAME,
  MSC_GEMM_EXTRAS(X)
#undef X
} msc_gemm_extra;

const char *msc_gemm_word(msc_gemm_extra x);
/* NULL: it has none. */
msc_value *msc_gemm_operand(const msc_op *gemm, msc_gemm_extra x);
msc_value *msc_gemm_result(const msc_op *gemm, msc_gemm_extra x);

#endif
