/* gemm.h: the operands and results of op gemm behind the product's own, by the words of its attributes `takes` and
 * `gives`. */
#ifndef MSC_IR_GEMM_H
#define MSC_IR_GEMM_H

#include "ir/ir.h"

/* NULL: it has none. */
msc_value *msc_gemm_operand(const msc_op *gemm, const char *word); /* "bias", "add", "unless", "aux" */
msc_value *msc_gemm_result(const msc_op *gemm, const char *word);  /* "aux", "sum_a", "sum_b" */

#endif
