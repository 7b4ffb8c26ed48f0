/* arithmetic.c: the operands of one instruction in; its result out, a scalar or a vector as they are.  No operation is
 * contracted or reassociated, so a value does not depend on whether it was computed in a full vector, a masked one, or
 * alone. */
#include <math.h>

#include "codegen/emit/build.h"

/* ---- arithmetic ---- */

static bool is_signed(msc_dtype d) { return msc_dtype_class_of(d) == MSC_CLASS_INT; }

static LLVMValueRef emit_less(const msc_emit *e, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  if (msc_is_float(d)) return LLVMBuildFCmp(e->b, LLVMRealOLT, a, b, "");
  return LLVMBuildICmp(e->b, is_signed(d) ? LLVMIntSLT : LLVMIntULT, a, b, "");
}

/* Divides integers without traps: a / 0 = 0, a % 0 = a, and the least number / -1 is itself. */
static LLVMValueRef divide_integers(const msc_emit *e, msc_dtype d, bool remainder, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef zero = msc_ir_int(b, 0), none = LLVMBuildICmp(e->b, LLVMIntEQ, b, zero, ""), unsafe = none;
  if (is_signed(d)) unsafe = LLVMBuildOr(e->b, none, LLVMBuildICmp(e->b, LLVMIntEQ, b, msc_ir_int(b, -1), ""), "");
  LLVMValueRef by = LLVMBuildSelect(e->b, unsafe, msc_ir_int(b, 1), b, "");
  LLVMValueRef q = is_signed(d) ? LLVMBuildSDiv(e->b, a, by, "") : LLVMBuildUDiv(e->b, a, by, "");
  if (is_signed(d))
    q = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, b, msc_ir_int(b, -1), ""), LLVMBuildNeg(e->b, a, ""), q,
                        "");
  q = LLVMBuildSelect(e->b, none, zero, q, "");
  return remainder ? LLVMBuildSub(e->b, a, LLVMBuildMul(e->b, q, b, ""), "") : q;
}

/* Shifts an integer. A shift by less than 0, or by all bits or more, gives 0, or copies of the sign for a signed shift
 * to the right. */
static LLVMValueRef shift_integer(const msc_emit *e, msc_dtype d, bool left, LLVMValueRef a, LLVMValueRef b) {
  int bits = 8 * (int)msc_dtype_bytes(d);
  LLVMValueRef far = LLVMBuildICmp(e->b, LLVMIntUGE, b, msc_ir_int(b, bits), "");
  LLVMValueRef by = LLVMBuildSelect(e->b, far, msc_ir_int(b, bits - 1), b, "");
  if (!left && is_signed(d)) return LLVMBuildAShr(e->b, a, by, "");
  LLVMValueRef moved = left ? LLVMBuildShl(e->b, a, by, "") : LLVMBuildLShr(e->b, a, by, "");
  return LLVMBuildSelect(e->b, far, msc_ir_int(b, 0), moved, "");
}

/* Returns the larger or smaller operand; NaN if either is NaN. */
static LLVMValueRef pick_extreme(const msc_emit *e, msc_dtype d, bool largest, LLVMValueRef a, LLVMValueRef b) {
  if (d == MSC_I1) return largest ? LLVMBuildOr(e->b, a, b, "") : LLVMBuildAnd(e->b, a, b, "");
  LLVMValueRef m = LLVMBuildSelect(e->b, largest ? emit_less(e, d, b, a) : emit_less(e, d, a, b), a, b, "");
  return msc_is_float(d) ? LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, ""), a, m, "") : m;
}

LLVMValueRef msc_emit_binary(msc_emit *e, msc_nest_code code, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef B = e->b;
  switch (code) {
    case NEST_ADD: return msc_is_float(d) ? LLVMBuildFAdd(B, a, b, "") : LLVMBuildAdd(B, a, b, "");
    case NEST_SUB: return msc_is_float(d) ? LLVMBuildFSub(B, a, b, "") : LLVMBuildSub(B, a, b, "");
    case NEST_MUL: return msc_is_float(d) ? LLVMBuildFMul(B, a, b, "") : LLVMBuildMul(B, a, b, "");
    case NEST_DIV: return msc_is_float(d) ? msc_ir_divide(e, a, b) : divide_integers(e, d, false, a, b);
    case NEST_REM: return divide_integers(e, d, true, a, b);
    case NEST_MAX: return pick_extreme(e, d, true, a, b);
    case NEST_MIN: return pick_extreme(e, d, false, a, b);
    case NEST_OR: return LLVMBuildOr(B, a, b, "");
    case NEST_XOR: return LLVMBuildXor(B, a, b, "");
    case NEST_SHL:
    case NEST_SHR: return shift_integer(e, d, code == NEST_SHL, a, b);
    default: return LLVMBuildAnd(B, a, b, "");
  }
}

static LLVMValueRef absolute_of(const msc_emit *e, msc_dtype d, LLVMValueRef x) {
  if (msc_is_float(d)) return msc_ir_unary(e, "llvm.fabs", x);
  return is_signed(d) ? LLVMBuildSelect(e->b, emit_less(e, d, x, msc_ir_int(x, 0)), LLVMBuildNeg(e->b, x, ""), x, "")
                      : x;
}

/* Returns the sign of x: 1, -1 or 0; 0 for NaN, too. */
static LLVMValueRef sign_of(const msc_emit *e, msc_dtype d, LLVMValueRef x) {
  LLVMValueRef zero = msc_is_float(d) ? msc_ir_real(x, 0) : msc_ir_int(x, 0),
               one = msc_is_float(d) ? msc_ir_real(x, 1) : msc_ir_int(x, 1);
  LLVMValueRef minus = msc_is_float(d) ? msc_ir_real(x, -1) : msc_ir_int(x, -1);
  LLVMValueRef low = LLVMBuildSelect(e->b, emit_less(e, d, x, zero), minus, zero, "");
  return LLVMBuildSelect(e->b, emit_less(e, d, zero, x), one, low, "");
}

/* Rounds to a whole number. Without SSE4.1: adds and subtracts a number so large that no bits are left for a fraction,
 * which rounds to the nearest, and then goes one up or down. */
static LLVMValueRef round_to_whole(msc_emit *e, msc_nest_code code, LLVMValueRef x) {
  static const char *const names[] = {"llvm.floor", "llvm.ceil", "llvm.roundeven"};
  if (e->l->cpu.level >= 2) return msc_ir_unary(e, names[code - NEST_FLOOR], x);
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef large = msc_ir_real(x, LLVMGetTypeKind(msc_ir_element(x)) == LLVMDoubleTypeKind ? 0x1p52 : 0x1p23),
               one = msc_ir_real(x, 1);
  LLVMValueRef size = msc_ir_unary(e, "llvm.fabs", x),
               near = LLVMBuildFSub(e->b, LLVMBuildFAdd(e->b, size, large, ""), large, "");
  near = msc_ir_call(e, "llvm.copysign", 1, &t, 2, (LLVMValueRef[]){near, x});
  if (code == NEST_FLOOR)
    near = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOGT, near, x, ""), LLVMBuildFSub(e->b, near, one, ""),
                           near, "");
  if (code == NEST_CEIL)
    near = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOLT, near, x, ""), LLVMBuildFAdd(e->b, near, one, ""),
                           near, "");
  near = msc_ir_call(e, "llvm.copysign", 1, &t, 2, (LLVMValueRef[]){near, x}); /* -0.5 goes up to -0 */
  return LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOLT, size, large, ""), near, x, "");
}

LLVMValueRef msc_emit_unary(msc_emit *e, msc_nest_code code, msc_dtype d, LLVMValueRef x) {
  switch (code) {
    case NEST_NEG: return msc_is_float(d) ? LLVMBuildFNeg(e->b, x, "") : LLVMBuildNeg(e->b, x, "");
    case NEST_ABS: return absolute_of(e, d, x);
    case NEST_SIGN: return sign_of(e, d, x);
    case NEST_RELU:
      if (!msc_is_float(d) && !is_signed(d)) return x;
      return LLVMBuildSelect(e->b, emit_less(e, d, x, msc_is_float(d) ? msc_ir_real(x, 0) : msc_ir_int(x, 0)),
                             msc_is_float(d) ? msc_ir_real(x, 0) : msc_ir_int(x, 0), x, "");
    case NEST_SQRT: return msc_ir_math(e, x) ? msc_ir_math(e, x)->sqrt(e, x) : msc_ir_unary(e, "llvm.sqrt", x);
    case NEST_FLOOR:
    case NEST_CEIL:
    case NEST_NEAREST: return round_to_whole(e, code, x);
    case NEST_EXP: return msc_math_exp(e, x);
    case NEST_LOG: return msc_math_log(e, x);
    case NEST_LOG2: return msc_math_log2(e, x);
    case NEST_LOG10: return msc_math_log10(e, x);
    case NEST_TANH: return msc_math_tanh(e, x);
    case NEST_ERF: return msc_math_erf(e, x);
    case NEST_SIN: return msc_math_sin(e, x);
    case NEST_ATAN: return msc_math_atan(e, x);
    default: return msc_math_cos(e, x);
  }
}

LLVMValueRef msc_emit_compare(const msc_emit *e, int p, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                           LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate with_sign[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT, LLVMIntSLE,
                                               LLVMIntSGT, LLVMIntSGE, LLVMIntULT};
  static const LLVMIntPredicate without[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntULT, LLVMIntULE,
                                             LLVMIntUGT, LLVMIntUGE, LLVMIntULT};
  if (msc_is_float(d)) return LLVMBuildFCmp(e->b, real[p], a, b, "");
  return LLVMBuildICmp(e->b, is_signed(d) ? with_sign[p] : without[p], a, b, "");
}

LLVMValueRef msc_emit_cast(const msc_emit *e, msc_dtype from, msc_dtype to, LLVMValueRef x) {
  LLVMTypeRef t = msc_emit_type(e, to, msc_ir_lanes(x)), types[2] = {t, LLVMTypeOf(x)};
  if (to == MSC_I1)
    return msc_is_float(from) ? LLVMBuildFCmp(e->b, LLVMRealUNE, x, msc_ir_real(x, 0), "")
                              : LLVMBuildICmp(e->b, LLVMIntNE, x, msc_ir_int(x, 0), "");
  if (msc_is_float(from) && msc_is_float(to))
    return to == MSC_F64 ? LLVMBuildFPExt(e->b, x, t, "") : LLVMBuildFPTrunc(e->b, x, t, "");
  if (msc_is_float(from)) return msc_ir_call(e, is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", 2, types, 1, &x);
  if (msc_is_float(to)) return is_signed(from) ? LLVMBuildSIToFP(e->b, x, t, "") : LLVMBuildUIToFP(e->b, x, t, "");
  if (from == MSC_I1 || msc_dtype_bytes(to) > msc_dtype_bytes(from))
    return is_signed(from) ? LLVMBuildSExt(e->b, x, t, "") : LLVMBuildZExt(e->b, x, t, "");
  return msc_dtype_bytes(to) < msc_dtype_bytes(from) ? LLVMBuildTrunc(e->b, x, t, "") : x;
}

/* ---- reductions ---- */

LLVMValueRef msc_emit_identity(const msc_emit *e, int kind, msc_dtype d, int lanes) {
  msc_reduction r = kind == NEST_LOOSE_MAX ? MSC_MAX : (msc_reduction)kind;
  unsigned bits = d == MSC_I1 ? 1 : (unsigned)msc_dtype_bytes(d) * 8;
  LLVMValueRef v = LLVMConstInt(LLVMIntTypeInContext(e->l->llvm, bits), msc_reduction_identity_bits(r, d), false);
  return msc_ir_repeat(LLVMConstBitCast(v, msc_emit_type(e, d, 1)), lanes);
}

LLVMValueRef msc_emit_combine(msc_emit *e, int kind, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  static const msc_nest_code code[] = {
      [MSC_SUM] = NEST_ADD, [MSC_MAX] = NEST_MAX, [MSC_MIN] = NEST_MIN, [MSC_PROD] = NEST_MUL};
  _Static_assert(sizeof code / sizeof *code == MSC_NUM_REDUCTIONS, "a code for each");
  if (kind == NEST_LOOSE_MAX) return LLVMBuildSelect(e->b, emit_less(e, d, a, b), b, a, "");
  return msc_emit_binary(e, code[kind], d, a, b);
}

LLVMValueRef msc_emit_horizontal(msc_emit *e, int kind, msc_dtype d, LLVMValueRef v) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->l->llvm);
  for (int half = msc_ir_lanes(v) / 2; half >= 1; half /= 2) {
    LLVMValueRef low[32], high[32], poison = LLVMGetPoison(LLVMTypeOf(v));
    for (int i = 0; i < half; i++)
      low[i] = LLVMConstInt(i32, (unsigned)i, false), high[i] = LLVMConstInt(i32, (unsigned)(i + half), false);
    LLVMValueRef a = half > 1 ? LLVMBuildShuffleVector(e->b, v, poison, LLVMConstVector(low, (unsigned)half), "")
                              : LLVMBuildExtractElement(e->b, v, low[0], "");
    LLVMValueRef b = half > 1 ? LLVMBuildShuffleVector(e->b, v, poison, LLVMConstVector(high, (unsigned)half), "")
                              : LLVMBuildExtractElement(e->b, v, high[0], "");
    v = msc_emit_combine(e, kind, d, a, b);
  }
  return v;
}
