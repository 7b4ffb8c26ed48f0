/* rest.h: what a GPU's library does to a product before it stores it, as ops of their own. */
#ifndef MSC_PASSES_7_LOWER_GPU_REST_H
#define MSC_PASSES_7_LOWER_GPU_REST_H

#include "ir/ir.h"

enum { MSC_RESTS = 2, MSC_REST_RESULTS = 2 };

/* Its operands are values of the gemm, and its result i stands for the gemm's result[i]. */
typedef struct {
  msc_op *op;
  msc_value *result[MSC_REST_RESULTS];
} msc_rest;

typedef struct {
  size_t num;
  msc_rest op[MSC_RESTS];
} msc_rests;

/* Inserts behind the gemm the ops that, one after the other, do to a product a b (+ add) what the gemm's library does
 * besides; none: it does no more.  The caller erases the ops, also those in *out after a failure.  Returns false after
 * a report. */
bool msc_insert_rests(msc_op *gemm, msc_rests *out);

#endif
