/* nvvm.c: scalars or vectors of f32 in; exp, square root, quotient and bf16 of them out, by instructions of NVIDIA's
 * GPUs instead of sequences exact to the last bit.  Largest errors in units of the last place, measured by
 * tests/cuda/accuracy.c with instructions that err as far as they may (PTX ISA 8.0: ex2 by 2, rcp and sqrt by 1):
 *
 *   exp 4.5   sqrt 1.5   quotient 3.2   and of emit/math.c, which divides: tanh 3.5
 *
 * Numbers below 2^-126 are 0, in and out.  NaN and infinities are what IEEE 754 says. */
#include "codegen/emit/build.h"

/* Calls an instruction that works on scalars, lane by lane. */
static LLVMValueRef call_by_lane(msc_emit *e, const char *name, LLVMValueRef x) {
  if (!msc_ir_is_vector(x)) return msc_ir_call(e, name, 0, NULL, 1, &x);
  LLVMValueRef y = LLVMGetPoison(LLVMTypeOf(x));
  for (int k = 0; k < msc_ir_lanes(x); k++) {
    LLVMValueRef lane = msc_emit_int(e, k), own = LLVMBuildExtractElement(e->b, x, lane, "");
    y = LLVMBuildInsertElement(e->b, y, msc_ir_call(e, name, 0, NULL, 1, &own), lane, "");
  }
  return y;
}

static LLVMValueRef clamp_by(msc_emit *e, const char *name, LLVMValueRef a, double b) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return msc_ir_call(e, name, 1, &t, 2, (LLVMValueRef[]){a, msc_ir_real(a, b)}); /* NaN stays */
}

static LLVMValueRef multiply_add(msc_emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return msc_ir_call(e, "llvm.fma", 1, &t, 3, (LLVMValueRef[]){a, b, c});
}

/* Emits exp x = 2^t (1 + r ln 2), where t is x / ln 2 rounded, and r is the rounding error. */
static LLVMValueRef nvvm_exp(msc_emit *e, LLVMValueRef x) {
  x = clamp_by(e, "llvm.minimum", clamp_by(e, "llvm.maximum", x, -150), 150);
  LLVMValueRef high = msc_ir_real(x, 0x1.715476p+0), t = LLVMBuildFMul(e->b, x, high, "");
  LLVMValueRef r = multiply_add(e, x, high, LLVMBuildFNeg(e->b, t, ""));
  r = multiply_add(e, x, msc_ir_real(x, 0x1.4ae0bep-26), r);
  LLVMValueRef more = multiply_add(e, r, msc_ir_real(x, 0x1.62e43p-1), msc_ir_real(x, 1));
  return LLVMBuildFMul(e->b, call_by_lane(e, "llvm.nvvm.ex2.approx.ftz.f", t), more, "");
}

LLVMValueRef msc_nvvm_exp_of_term(msc_emit *e, LLVMValueRef x) {
  return call_by_lane(e, "llvm.nvvm.ex2.approx.ftz.f", LLVMBuildFMul(e->b, x, msc_ir_real(x, 0x1.715476p+0), ""));
}

static LLVMValueRef nvvm_sqrt(msc_emit *e, LLVMValueRef x) {
  return call_by_lane(e, "llvm.nvvm.sqrt.approx.ftz.f", x);
}

/* Emits a (1 / b). Both are scaled where b is so large that its reciprocal would be below the least number. */
static LLVMValueRef nvvm_divide(msc_emit *e, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef large = LLVMBuildFCmp(e->b, LLVMRealOGT, msc_ir_unary(e, "llvm.fabs", b), msc_ir_real(b, 0x1p126), "");
  LLVMValueRef scale = LLVMBuildSelect(e->b, large, msc_ir_real(b, 0.25), msc_ir_real(b, 1), "");
  LLVMValueRef by = call_by_lane(e, "llvm.nvvm.rcp.approx.ftz.f", LLVMBuildFMul(e->b, b, scale, ""));
  return LLVMBuildFMul(e->b, LLVMBuildFMul(e->b, a, scale, ""), by, "");
}

/* Marks the call as one that returns. LLVM's declaration does not say so, and without the mark no load is moved past
 * the call. */
static void promise_return(msc_emit *e, LLVMValueRef call) {
  unsigned kind = LLVMGetEnumAttributeKindForName("willreturn", strlen("willreturn"));
  LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(e->l->llvm, kind, 0));
}

/* Converts two numbers to bf16 by one instruction: that for a single one takes four times as long. */
static LLVMValueRef pair_to_bf16(msc_emit *e, LLVMValueRef low, LLVMValueRef high) {
  LLVMValueRef two = msc_ir_call(e, "llvm.nvvm.ff2bf16x2.rn", 0, NULL, 2, (LLVMValueRef[]){high, low});
  promise_return(e, two);
  return LLVMBuildBitCast(e->b, two, LLVMInt32TypeInContext(e->l->llvm), "");
}

static LLVMValueRef nvvm_to_bf16(msc_emit *e, LLVMValueRef x) {
  LLVMTypeRef out = msc_ir_int_type(e, x, 16);
  if (!msc_ir_is_vector(x)) return LLVMBuildTrunc(e->b, pair_to_bf16(e, x, msc_ir_real(x, 0)), out, "");
  int pairs = msc_ir_lanes(x) / 2;
  LLVMValueRef words = LLVMGetPoison(LLVMVectorType(LLVMInt32TypeInContext(e->l->llvm), (unsigned)pairs));
  for (int k = 0; k < pairs; k++) {
    LLVMValueRef low = LLVMBuildExtractElement(e->b, x, msc_emit_int(e, 2 * k), ""),
                 high = LLVMBuildExtractElement(e->b, x, msc_emit_int(e, 2 * k + 1), "");
    words = LLVMBuildInsertElement(e->b, words, pair_to_bf16(e, low, high), msc_emit_int(e, k), "");
  }
  return LLVMBuildBitCast(e->b, words, out, "");
}

const msc_llvm_math msc_nvvm_math = {nvvm_exp, nvvm_sqrt, nvvm_divide, nvvm_to_bf16};
