/* body.c: one instruction of a program in; its value at the current point of the loops out, as a scalar or, where it
 * varies along the lanes, a vector. */
#include "codegen/emit/build.h"

static LLVMValueRef read_scalar(msc_emit *e, const msc_instr *in) {
  LLVMTypeRef f64 = LLVMDoubleTypeInContext(e->l->llvm);
  LLVMValueRef at = msc_emit_int(e, in->imm), v = e->scalar[(int)in->imm];
  if (e->scalars) v = LLVMBuildLoad2(e->b, f64, LLVMBuildInBoundsGEP2(e->b, f64, e->scalars, &at, 1, ""), "");
  LLVMTypeRef type = msc_emit_type(e, (msc_dtype)in->dtype, 1);
  return LLVMTypeOf(v) == type ? v : LLVMBuildFPTrunc(e->b, v, type, "");
}

/* Emits Philox4x32-10 (ir/abi/philox.h) in 64-bit lanes, so that one multiplication gives both halves of a product. */
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

static LLVMValueRef compute_value(msc_emit *e, int i) {
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
      return msc_is_float(d) ? LLVMConstReal(msc_emit_type(e, d, 1), in->number)
                             : LLVMConstInt(msc_emit_type(e, d, 1), (unsigned long long)(int64_t)in->number, true);
    case NEST_SCALAR: return read_scalar(e, in);
    default: break;
  }
  for (int k = 0; k < 3 && in->arg[k]; k++) x[k] = msc_emit_get(e, in->arg[k], vector);
  switch (in->code) {
    case NEST_COMPARE: return msc_emit_compare(e, in->imm, from, x[0], x[1]);
    case NEST_SELECT: return LLVMBuildSelect(e->b, x[0], x[1], x[2], "");
    case NEST_CAST: return msc_emit_cast(e, from, d, x[0]);
    case NEST_ROUND: return msc_emit_widen(e, msc_emit_narrow(e, x[0], (msc_dtype)in->imm), (msc_dtype)in->imm);
    case NEST_POW: return msc_math_pow(e, x[0], x[1]);
    default:
      return x[1] ? msc_emit_binary(e, (msc_nest_code)in->code, d, x[0], x[1])
                  : msc_emit_unary(e, (msc_nest_code)in->code, d, x[0]);
  }
}

void msc_emit_instr(msc_emit *e, int i) {
  switch (e->p->instr[i].code) {
    case NEST_STORE: msc_emit_store(e, i); break;
    case NEST_SCATTER: msc_emit_scatter(e, i); break;
    case NEST_FILL: msc_emit_fill(e, i); break;
    case NEST_CHECK: msc_emit_check(e, i); break;
    default: e->value[i][msc_emit_varies(e, i) ? e->copy : 0] = compute_value(e, i); return;
  }
  e->value[i][msc_emit_varies(e, i) ? e->copy : 0] =
      msc_emit_int(e, 0); /* has no value; not NULL marks it as emitted */
}
