/* rest.h: what a GPU's library does to a product before it stores it, as an op of its own. */
#ifndef MSC_PASSES_7_LOWER_GPU_REST_H
#define MSC_PASSES_7_LOWER_GPU_REST_H

#include "ir/ir.h"

enum { MSC_REST_RESULTS = 2 };
/* Inserts behind the gemm an op that does to a product a b (+ add) what the gemm's library does besides: *out_rest;
 * NULL: there is nothing, or only the library can do it.  Its operands are values of the gemm, and its result i stands
 * for the gemm's out_results[i].  The caller erases the op.  Returns false after a report. */
bool msc_insert_rest(msc_op *gemm, msc_op **out_rest, msc_value *out_results[MSC_REST_RESULTS]);

#endif
