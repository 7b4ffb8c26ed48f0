/* body.c: one instruction of a program in; its value at the current point of the loops out, as a scalar or, where it
 * varies along the lanes, a vector.  Arithmetic is exactly what is written: nothing is contracted or reassociated, so a
 * value does not depend on whether it was computed in a full vector, a masked one, or alone. */
#include <math.h>

#include "codegen/emit/build.h"

/* ---- types and constants ---- */

LLVMTypeRef msc_emit_type(const msc_emit *e, msc_dtype dtype, int lanes) {
  LLVMTypeRef t;
  switch (dtype) {
    case MSC_F64: t = LLVMDoubleTypeInContext(e->l->llvm); break;
    case MSC_F32: case MSC_F16: case MSC_BF16: t = LLVMFloatTypeInContext(e->l->llvm); break;
    case MSC_I1: t = LLVMInt1TypeInContext(e->l->llvm); break;
    default: t = LLVMIntTypeInContext(e->l->llvm, (unsigned)msc_dtype_bytes(dtype) * 8);
  }
  return lanes > 1 ? LLVMVectorType(t, (unsigned)lanes) : t;
}

LLVMValueRef msc_emit_int(const msc_emit *e, int64_t v) {
  return LLVMConstInt(LLVMInt64TypeInContext(e->l->llvm), (unsigned long long)v, true);
}

bool msc_ir_is_vector(LLVMValueRef v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind; }
int msc_ir_lanes(LLVMValueRef v) { return msc_ir_is_vector(v) ? (int)LLVMGetVectorSize(LLVMTypeOf(v)) : 1; }
LLVMTypeRef msc_ir_element(LLVMValueRef v) {
  return msc_ir_is_vector(v) ? LLVMGetElementType(LLVMTypeOf(v)) : LLVMTypeOf(v);
}

static LLVMValueRef repeat(LLVMValueRef v, int lanes) {
  LLVMValueRef all[64];
  if (lanes == 1) return v;
  for (int i = 0; i < lanes; i++) all[i] = v;
  return LLVMConstVector(all, (unsigned)lanes);
}

LLVMValueRef msc_ir_real(LLVMValueRef like, double v) {
  return repeat(LLVMConstReal(msc_ir_element(like), v), msc_ir_lanes(like));
}
LLVMValueRef msc_ir_int(LLVMValueRef like, int64_t v) {
  return repeat(LLVMConstInt(msc_ir_element(like), (unsigned long long)v, true), msc_ir_lanes(like));
}

LLVMTypeRef msc_ir_int_type(const msc_emit *e, LLVMValueRef like, int bits) {
  LLVMTypeRef t = LLVMIntTypeInContext(e->l->llvm, (unsigned)bits);
  return msc_ir_is_vector(like) ? LLVMVectorType(t, LLVMGetVectorSize(LLVMTypeOf(like))) : t;
}

LLVMTypeRef msc_ir_real_type(const msc_emit *e, LLVMValueRef like, int bits) {
  LLVMTypeRef t = bits == 64 ? LLVMDoubleTypeInContext(e->l->llvm) : LLVMFloatTypeInContext(e->l->llvm);
  return msc_ir_is_vector(like) ? LLVMVectorType(t, LLVMGetVectorSize(LLVMTypeOf(like))) : t;
}

LLVMValueRef msc_ir_call(const msc_emit *e, const char *name, int num_types, LLVMTypeRef *types, int num,
                         LLVMValueRef *arg) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->l->module, id, types, (size_t)num_types);
  return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->l->llvm, id, types, (size_t)num_types), fn, arg, (unsigned)num,
                        "");
}

LLVMValueRef msc_ir_unary(const msc_emit *e, const char *name, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return msc_ir_call(e, name, 1, &t, 1, &x);
}

LLVMValueRef msc_emit_splat(const msc_emit *e, LLVMValueRef v, int lanes) {
  if (lanes == 1 || msc_ir_is_vector(v)) return v;
  LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(v), (unsigned)lanes),
              i32 = LLVMVectorType(LLVMInt32TypeInContext(e->l->llvm), (unsigned)lanes);
  if (LLVMIsConstant(v)) return repeat(v, lanes);
  LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), v, msc_emit_int(e, 0), "");
  return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(t), LLVMConstNull(i32), "");
}

bool msc_emit_varies(const msc_emit *e, int i) {
  const msc_program_head *h = &e->p->head;
  return h->lanes > 1 && h->lane >= 0 && (e->p->instr[i].axes >> h->lane & 1);
}

LLVMValueRef msc_emit_get(msc_emit *e, int i, bool vector) {
  LLVMValueRef v = e->value[i][msc_emit_varies(e, i) ? e->copy : 0];
  return vector ? msc_emit_splat(e, v, e->p->head.lanes) : v;
}

LLVMValueRef msc_emit_size(const msc_emit *e, int axis) {
  const msc_nest_extent *a = &e->p->head.axis[axis];
  if (a->baked_size) return msc_emit_int(e, a->baked_size);
  LLVMValueRef size = a->size < 2 ? msc_emit_int(e, a->size) : e->dim[a->size - 2];
  if (e->p->head.clipped != axis) return size;
  /* the last part of a cut axis is what is left */
  uint8_t chunk = e->p->head.chunk;
  LLVMValueRef total = chunk < 2 ? msc_emit_int(e, chunk) : e->dim[chunk - 2];
  LLVMValueRef left = LLVMBuildSub(e->b, total, LLVMBuildMul(e->b, e->axis[e->p->head.chunk_axis], size, ""), "");
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, left, size, ""), left, size, "");
}

/* ---- arithmetic ---- */

static bool is_float(msc_dtype d) { return msc_is_float(d); }
static bool is_signed(msc_dtype d) { return msc_dtype_class_of(d) == MSC_CLASS_INT; }

static LLVMValueRef compare_less(const msc_emit *e, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  if (is_float(d)) return LLVMBuildFCmp(e->b, LLVMRealOLT, a, b, "");
  return LLVMBuildICmp(e->b, is_signed(d) ? LLVMIntSLT : LLVMIntULT, a, b, "");
}

/* a / 0 = 0, a % 0 = a, and the least number / -1 is itself: no input traps. */
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

/* NaN in either operand stays. */
static LLVMValueRef pick_extreme(const msc_emit *e, msc_dtype d, bool largest, LLVMValueRef a, LLVMValueRef b) {
  if (d == MSC_I1) return largest ? LLVMBuildOr(e->b, a, b, "") : LLVMBuildAnd(e->b, a, b, "");
  LLVMValueRef m = LLVMBuildSelect(e->b, largest ? compare_less(e, d, b, a) : compare_less(e, d, a, b), a, b, "");
  return is_float(d) ? LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, ""), a, m, "") : m;
}

static LLVMValueRef emit_binary(const msc_emit *e, msc_nest_code code, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef B = e->b;
  switch (code) {
    case NEST_ADD: return is_float(d) ? LLVMBuildFAdd(B, a, b, "") : LLVMBuildAdd(B, a, b, "");
    case NEST_SUB: return is_float(d) ? LLVMBuildFSub(B, a, b, "") : LLVMBuildSub(B, a, b, "");
    case NEST_MUL: return is_float(d) ? LLVMBuildFMul(B, a, b, "") : LLVMBuildMul(B, a, b, "");
    case NEST_DIV: return is_float(d) ? LLVMBuildFDiv(B, a, b, "") : divide_integers(e, d, false, a, b);
    case NEST_REM: return divide_integers(e, d, true, a, b);
    case NEST_MAX: return pick_extreme(e, d, true, a, b);
    case NEST_MIN: return pick_extreme(e, d, false, a, b);
    default: return LLVMBuildAnd(B, a, b, "");
  }
}

static LLVMValueRef absolute_of(const msc_emit *e, msc_dtype d, LLVMValueRef x) {
  if (is_float(d)) return msc_ir_unary(e, "llvm.fabs", x);
  return is_signed(d) ? LLVMBuildSelect(e->b, compare_less(e, d, x, msc_ir_int(x, 0)), LLVMBuildNeg(e->b, x, ""), x, "")
                      : x;
}

/* 1, -1 or 0, which NaN is too */
static LLVMValueRef sign_of(const msc_emit *e, msc_dtype d, LLVMValueRef x) {
  LLVMValueRef zero = is_float(d) ? msc_ir_real(x, 0) : msc_ir_int(x, 0),
               one = is_float(d) ? msc_ir_real(x, 1) : msc_ir_int(x, 1);
  LLVMValueRef minus = is_float(d) ? msc_ir_real(x, -1) : msc_ir_int(x, -1);
  LLVMValueRef low = LLVMBuildSelect(e->b, compare_less(e, d, x, zero), minus, zero, "");
  return LLVMBuildSelect(e->b, compare_less(e, d, zero, x), one, low, "");
}

/* To a whole number.  Without SSE4.1: to the nearest by adding what leaves no bits for a fraction, then one
 * up or down. */
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

static LLVMValueRef emit_unary(msc_emit *e, msc_nest_code code, msc_dtype d, LLVMValueRef x) {
  switch (code) {
    case NEST_NEG: return is_float(d) ? LLVMBuildFNeg(e->b, x, "") : LLVMBuildNeg(e->b, x, "");
    case NEST_ABS: return absolute_of(e, d, x);
    case NEST_SIGN: return sign_of(e, d, x);
    case NEST_RELU:
      if (!is_float(d) && !is_signed(d)) return x;
      return LLVMBuildSelect(e->b, compare_less(e, d, x, is_float(d) ? msc_ir_real(x, 0) : msc_ir_int(x, 0)),
                             is_float(d) ? msc_ir_real(x, 0) : msc_ir_int(x, 0), x, "");
    case NEST_SQRT: return msc_ir_unary(e, "llvm.sqrt", x);
    case NEST_FLOOR:
    case NEST_CEIL:
    case NEST_NEAREST: return round_to_whole(e, code, x);
    case NEST_EXP: return msc_math_exp(e, x);
    case NEST_LOG: return msc_math_log(e, x);
    case NEST_TANH: return msc_math_tanh(e, x);
    case NEST_ERF: return msc_math_erf(e, x);
    case NEST_SIN: return msc_math_sin(e, x);
    default: return msc_math_cos(e, x);
  }
}

static LLVMValueRef emit_compare(const msc_emit *e, int p, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                           LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate with_sign[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT, LLVMIntSLE,
                                               LLVMIntSGT, LLVMIntSGE, LLVMIntULT};
  static const LLVMIntPredicate without[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntULT, LLVMIntULE,
                                             LLVMIntUGT, LLVMIntUGE, LLVMIntULT};
  if (is_float(d)) return LLVMBuildFCmp(e->b, real[p], a, b, "");
  return LLVMBuildICmp(e->b, is_signed(d) ? with_sign[p] : without[p], a, b, "");
}

/* Floats to integers toward zero, saturating; NaN is 0. */
static LLVMValueRef emit_cast(const msc_emit *e, msc_dtype from, msc_dtype to, LLVMValueRef x) {
  LLVMTypeRef t = msc_emit_type(e, to, msc_ir_lanes(x)), types[2] = {t, LLVMTypeOf(x)};
  if (to == MSC_I1)
    return is_float(from) ? LLVMBuildFCmp(e->b, LLVMRealUNE, x, msc_ir_real(x, 0), "")
                          : LLVMBuildICmp(e->b, LLVMIntNE, x, msc_ir_int(x, 0), "");
  if (is_float(from) && is_float(to))
    return to == MSC_F64 ? LLVMBuildFPExt(e->b, x, t, "") : LLVMBuildFPTrunc(e->b, x, t, "");
  if (is_float(from)) return msc_ir_call(e, is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", 2, types, 1, &x);
  if (is_float(to)) return is_signed(from) ? LLVMBuildSIToFP(e->b, x, t, "") : LLVMBuildUIToFP(e->b, x, t, "");
  if (from == MSC_I1 || msc_dtype_bytes(to) > msc_dtype_bytes(from))
    return is_signed(from) ? LLVMBuildSExt(e->b, x, t, "") : LLVMBuildZExt(e->b, x, t, "");
  return msc_dtype_bytes(to) < msc_dtype_bytes(from) ? LLVMBuildTrunc(e->b, x, t, "") : x;
}

/* ---- reductions ---- */

LLVMValueRef msc_emit_identity(const msc_emit *e, int kind, msc_dtype d, int lanes) {
  LLVMTypeRef t = msc_emit_type(e, d, 1);
  int bits = d == MSC_I1 ? 1 : (int)msc_dtype_bytes(d) * 8;
  uint64_t most = is_signed(d) ? (UINT64_C(1) << (bits - 1)) - 1 : bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  uint64_t least = is_signed(d) ? UINT64_C(1) << (bits - 1) : 0;
  LLVMValueRef v;
  if (kind == MSC_SUM || kind == MSC_PROD)
    v = is_float(d) ? LLVMConstReal(t, kind == MSC_PROD) : LLVMConstInt(t, kind == MSC_PROD, false);
  else if (is_float(d)) v = LLVMConstReal(t, kind != MSC_MIN ? -(double)INFINITY : (double)INFINITY);
  else v = LLVMConstInt(t, kind != MSC_MIN ? least : most, false);
  return repeat(v, lanes);
}

LLVMValueRef msc_emit_combine(msc_emit *e, int kind, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  static const msc_nest_code code[] = {NEST_ADD, NEST_MAX, NEST_MIN, NEST_MUL};
  if (kind == NEST_LOOSE_MAX) return LLVMBuildSelect(e->b, compare_less(e, d, a, b), b, a, "");
  return emit_binary(e, code[kind], d, a, b);
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

LLVMValueRef msc_emit_unmasked(msc_emit *e, LLVMValueRef v, LLVMValueRef identity) {
  return e->mask ? LLVMBuildSelect(e->b, e->mask, v, identity, "") : v;
}

/* ---- one instruction ---- */

static LLVMValueRef read_scalar(msc_emit *e, const msc_instr *in) {
  LLVMTypeRef f64 = LLVMDoubleTypeInContext(e->l->llvm);
  LLVMValueRef at = msc_emit_int(e, in->imm), v = e->scalar[(int)in->imm];
  if (e->scalars) v = LLVMBuildLoad2(e->b, f64, LLVMBuildInBoundsGEP2(e->b, f64, e->scalars, &at, 1, ""), "");
  return in->dtype == MSC_F64 ? v : LLVMBuildFPTrunc(e->b, v, msc_emit_type(e, (msc_dtype)in->dtype, 1), "");
}

/* Philox4x32-10 in 64-bit lanes, whose products need no other half; see ir/abi/philox.h. */
static LLVMValueRef emit_philox(msc_emit *e, int i) {
  const msc_instr *in = &e->p->instr[i];
  LLVMBuilderRef B = e->b;
  int lanes = msc_emit_varies(e, i) ? e->p->head.lanes : 1;
  LLVMValueRef element = msc_emit_index(e, i), x[3];
  for (int k = 0; k < 3; k++) x[k] = msc_emit_splat(e, msc_emit_get(e, in->arg[k], false), lanes);
  element = LLVMBuildAdd(B, element, x[0], "");
  LLVMValueRef low = msc_ir_int(element, UINT32_MAX), half = msc_ir_int(element, 32);
  LLVMValueRef c[4] = {LLVMBuildAnd(B, element, low, ""), LLVMBuildLShr(B, element, half, ""),
                       LLVMBuildAnd(B, x[2], low, ""), LLVMBuildLShr(B, x[2], half, "")};
  LLVMValueRef k[2] = {x[1], LLVMBuildLShr(B, x[1], half, "")};
  for (int round = 0; round < 10; round++) {
    LLVMValueRef a = LLVMBuildMul(B, LLVMBuildAnd(B, c[0], low, ""), msc_ir_int(element, 0xd2511f53), "");
    LLVMValueRef b = LLVMBuildMul(B, LLVMBuildAnd(B, c[2], low, ""), msc_ir_int(element, 0xcd9e8d57), "");
    c[0] = LLVMBuildXor(B, LLVMBuildXor(B, LLVMBuildLShr(B, b, half, ""), c[1], ""), k[0], "");
    c[2] = LLVMBuildXor(B, LLVMBuildXor(B, LLVMBuildLShr(B, a, half, ""), c[3], ""), k[1], "");
    c[1] = b, c[3] = a;
    k[0] = LLVMBuildAdd(B, k[0], msc_ir_int(element, 0x9e3779b9), "");
    k[1] = LLVMBuildAdd(B, k[1], msc_ir_int(element, 0xbb67ae85), "");
  }
  return LLVMBuildTrunc(B, c[0], msc_emit_type(e, MSC_U32, lanes), "");
}

static LLVMValueRef value_of(msc_emit *e, int i) {
  const msc_instr *in = &e->p->instr[i];
  msc_dtype d = (msc_dtype)in->dtype, from = (msc_dtype)e->p->instr[in->arg[0]].dtype;
  bool vector = msc_emit_varies(e, i);
  LLVMValueRef x[3] = {0};
  switch (in->code) {
    case NEST_LOAD: return msc_emit_load(e, i);
    case NEST_INDEX: return msc_emit_index(e, i);
    case NEST_PHILOX: return emit_philox(e, i);
    case NEST_DIM: return e->dim[(int)in->imm];
    case NEST_CONST:
      return is_float(d) ? LLVMConstReal(msc_emit_type(e, d, 1), in->number)
                         : LLVMConstInt(msc_emit_type(e, d, 1), (unsigned long long)(int64_t)in->number, true);
    case NEST_SCALAR: return read_scalar(e, in);
    default: break;
  }
  for (int k = 0; k < 3 && in->arg[k]; k++) x[k] = msc_emit_get(e, in->arg[k], vector);
  switch (in->code) {
    case NEST_COMPARE: return emit_compare(e, in->imm, from, x[0], x[1]);
    case NEST_SELECT: return LLVMBuildSelect(e->b, x[0], x[1], x[2], "");
    case NEST_CAST: return emit_cast(e, from, d, x[0]);
    case NEST_ROUND: return msc_emit_widen(e, msc_emit_narrow(e, x[0], (msc_dtype)in->imm), (msc_dtype)in->imm);
    case NEST_POW: return msc_math_pow(e, x[0], x[1]);
    default:
      return x[1] ? emit_binary(e, (msc_nest_code)in->code, d, x[0], x[1])
                  : emit_unary(e, (msc_nest_code)in->code, d, x[0]);
  }
}

void msc_emit_instr(msc_emit *e, int i) {
  switch (e->p->instr[i].code) {
    case NEST_STORE: msc_emit_store(e, i); break;
    case NEST_SCATTER: msc_emit_scatter(e, i); break;
    case NEST_FILL: msc_emit_fill(e, i); break;
    case NEST_CHECK: msc_emit_check(e, i); break;
    default: e->value[i][msc_emit_varies(e, i) ? e->copy : 0] = value_of(e, i); return;
  }
  e->value[i][msc_emit_varies(e, i) ? e->copy : 0] = msc_emit_int(e, 0); /* done */
}
