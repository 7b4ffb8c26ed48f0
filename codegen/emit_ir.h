/* emit_ir.h: small helpers of emit_*.c and math.c for writing LLVM IR; each works on scalars and vectors alike. */
#ifndef MSC_CODEGEN_EMIT_IR_H
#define MSC_CODEGEN_EMIT_IR_H

#include <string.h>

#include "codegen/emit.h"

/* ---- emit_body.c ---- */

bool ir_is_vector(LLVMValueRef v);
int ir_lanes(LLVMValueRef v);
LLVMTypeRef ir_element(LLVMValueRef v);
/* Constants shaped like a value. */
LLVMValueRef ir_real(LLVMValueRef like, double v);
LLVMValueRef ir_int(LLVMValueRef like, int64_t v);
/* Types shaped like a value. */
LLVMTypeRef ir_int_type(const msc_emit *e, LLVMValueRef like, int bits);
LLVMTypeRef ir_real_type(const msc_emit *e, LLVMValueRef like, int bits);
/* Calls of LLVM's intrinsics. */
LLVMValueRef ir_call(const msc_emit *e, const char *name, int num_types, LLVMTypeRef *types, int num, LLVMValueRef *arg);
LLVMValueRef ir_unary(const msc_emit *e, const char *name, LLVMValueRef x);

/* ---- emit_loops.c: loops that test at their end, with values carried from turn to turn ---- */

enum { MAX_CARRIED = 64 };

typedef struct {
  LLVMBasicBlockRef before, body, after;
  LLVMValueRef index, to, from; /* i64 */
  int64_t step;
  int num;
  LLVMValueRef phi[MAX_CARRIED], first[MAX_CARRIED];
} ir_loop;

/* for (index = from; index < to; index += step): carried[] are the values at the start of a turn afterwards. */
void ir_loop_open(msc_emit *e, ir_loop *loop, LLVMValueRef from, LLVMValueRef to, int64_t step, int num, LLVMValueRef *carried);
/* carried[] in: at the end of a turn; out: after the loop. */
void ir_loop_close(msc_emit *e, ir_loop *loop, LLVMValueRef *carried);
LLVMBasicBlockRef ir_block(msc_emit *e);

#endif
