/* build.h: small helpers of this folder for writing LLVM IR; each works on scalars and vectors alike. */
#ifndef MSC_CODEGEN_EMIT_IR_H
#define MSC_CODEGEN_EMIT_IR_H

#include <string.h>

#include "codegen/emit/emit.h"

/* ---- emit/build.c ---- */

bool msc_ir_is_vector(LLVMValueRef v);
int msc_ir_lanes(LLVMValueRef v);
LLVMTypeRef msc_ir_element(LLVMValueRef v);
/* Returns a constant of the type of `like`, a scalar or a vector. */
LLVMValueRef msc_ir_real(LLVMValueRef like, double v);
LLVMValueRef msc_ir_int(LLVMValueRef like, int64_t v);
/* Returns a vector with the constant in every lane; for one lane the constant itself. */
LLVMValueRef msc_ir_repeat(LLVMValueRef constant, int lanes);
/* Returns the integer type, scalar or vector, with as many lanes as `like`. */
LLVMTypeRef msc_ir_int_type(const msc_emit *e, LLVMValueRef like, int bits);
LLVMTypeRef msc_ir_real_type(const msc_emit *e, LLVMValueRef like, int bits);
/* Divides floats. A constant divisor is left to LLVM, which may multiply by its reciprocal instead. */
LLVMValueRef msc_ir_divide(msc_emit *e, LLVMValueRef a, LLVMValueRef b);
/* Returns the functions of f32 for which the target has instructions; NULL: none. */
const msc_llvm_math *msc_ir_math(const msc_emit *e, LLVMValueRef x);
/* Calls an intrinsic of LLVM. */
LLVMValueRef msc_ir_call(const msc_emit *e, const char *name, int num_types, LLVMTypeRef *types, int num,
                         LLVMValueRef *arg);
LLVMValueRef msc_ir_unary(const msc_emit *e, const char *name, LLVMValueRef x);

/* ---- emit/arithmetic.c: operands are scalars, or vectors of as many lanes, of element type d ---- */

LLVMValueRef msc_emit_binary(msc_emit *e, msc_nest_code code, msc_dtype d, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef msc_emit_unary(msc_emit *e, msc_nest_code code, msc_dtype d, LLVMValueRef x);
LLVMValueRef msc_emit_compare(const msc_emit *e, int predicate, msc_dtype d, LLVMValueRef a, LLVMValueRef b);
/* Converts between types. Floats become integers toward zero, saturating; NaN becomes 0. */
LLVMValueRef msc_emit_cast(const msc_emit *e, msc_dtype from, msc_dtype to, LLVMValueRef x);

/* ---- emit/loops.c: loops that test at their end, with values carried from iteration to iteration ---- */

enum { MAX_CARRIED = 64 };

typedef struct {
  LLVMBasicBlockRef before, body, after;
  LLVMValueRef index, to, from; /* i64 */
  int64_t step;
  int num;
  LLVMValueRef phi[MAX_CARRIED], first[MAX_CARRIED];
} msc_ir_loop;

/* Opens the loop  for (index = from; index < to; index += step). carried[] becomes the values at the start of an
 * iteration. */
void msc_ir_loop_open(msc_emit *e, msc_ir_loop *loop, LLVMValueRef from, LLVMValueRef to, int64_t step, int num,
                      LLVMValueRef *carried);
/* Closes the loop. On entry carried[] holds the values at the end of an iteration, on return those after the loop. */
void msc_ir_loop_close(msc_emit *e, msc_ir_loop *loop, LLVMValueRef *carried);
LLVMBasicBlockRef msc_ir_block(msc_emit *e);
/* Reserves stack memory for `num` values, once per call of the kernel. */
LLVMValueRef msc_ir_stack(msc_emit *e, LLVMTypeRef type, int64_t num);

/* Adds sums of blocks as a balanced tree. The sum of block i (from 0) is added to as many waiting sums as i has
 * trailing one bits, and then waits itself. `waiting`: an array of MSC_SUM_LEVELS values per sum. */
enum { MSC_SUM_LEVELS = 8 };
typedef LLVMValueRef msc_ir_combine(msc_emit *e, const void *user, int i, LLVMValueRef a, LLVMValueRef b);
void msc_ir_fold(msc_emit *e, LLVMValueRef block, LLVMValueRef blocks, int num, LLVMValueRef *sums,
                 const LLVMValueRef *waiting, msc_ir_combine *combine, const void *user);

/* Transposes num vectors of num elements in registers, by exchanges between vectors 1, 2, 4 ... apart. */
void msc_ir_transpose_square(msc_emit *e, int num, LLVMValueRef *v);

#endif
