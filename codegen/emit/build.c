/* build.c: the helpers that every file of this folder writes LLVM IR with: types and constants, calls of LLVM's
 * intrinsics, vectors from scalars, values and sizes of the program at the current point. */
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

LLVMValueRef msc_ir_repeat(LLVMValueRef v, int lanes) {
  LLVMValueRef all[64];
  if (lanes == 1) return v;
  for (int i = 0; i < lanes; i++) all[i] = v;
  return LLVMConstVector(all, (unsigned)lanes);
}

LLVMValueRef msc_ir_real(LLVMValueRef like, double v) {
  return msc_ir_repeat(LLVMConstReal(msc_ir_element(like), v), msc_ir_lanes(like));
}
LLVMValueRef msc_ir_int(LLVMValueRef like, int64_t v) {
  return msc_ir_repeat(LLVMConstInt(msc_ir_element(like), (unsigned long long)v, true), msc_ir_lanes(like));
}

LLVMTypeRef msc_ir_int_type(const msc_emit *e, LLVMValueRef like, int bits) {
  LLVMTypeRef t = LLVMIntTypeInContext(e->l->llvm, (unsigned)bits);
  return msc_ir_is_vector(like) ? LLVMVectorType(t, LLVMGetVectorSize(LLVMTypeOf(like))) : t;
}

LLVMTypeRef msc_ir_real_type(const msc_emit *e, LLVMValueRef like, int bits) {
  LLVMTypeRef t = bits == 64 ? LLVMDoubleTypeInContext(e->l->llvm) : LLVMFloatTypeInContext(e->l->llvm);
  return msc_ir_is_vector(like) ? LLVMVectorType(t, LLVMGetVectorSize(LLVMTypeOf(like))) : t;
}

const msc_llvm_math *msc_ir_math(const msc_emit *e, LLVMValueRef x) {
  return LLVMGetTypeKind(msc_ir_element(x)) == LLVMFloatTypeKind ? e->l->target->math : NULL;
}

LLVMValueRef msc_ir_divide(msc_emit *e, LLVMValueRef a, LLVMValueRef b) {
  const msc_llvm_math *math = msc_ir_math(e, a);
  return math && !LLVMIsConstant(b) ? math->divide(e, a, b) : LLVMBuildFDiv(e->b, a, b, "");
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
  if (LLVMIsConstant(v)) return msc_ir_repeat(v, lanes);
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
  /* the last part of an axis that is cut into chunks may be shorter */
  uint8_t chunk = e->p->head.chunk;
  LLVMValueRef total = chunk < 2 ? msc_emit_int(e, chunk) : e->dim[chunk - 2];
  LLVMValueRef left = LLVMBuildSub(e->b, total, LLVMBuildMul(e->b, e->axis[e->p->head.chunk_axis], size, ""), "");
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, left, size, ""), left, size, "");
}

LLVMValueRef msc_emit_unmasked(msc_emit *e, LLVMValueRef v, LLVMValueRef identity) {
  return e->mask ? LLVMBuildSelect(e->b, e->mask, v, identity, "") : v;
}
