/* cuda_builtin.h: what kernels of ir/abi/builtin.h for a GPU have in common: numbers, elements, a thread's item. */
#ifndef MSC_CODEGEN_EMIT_CUDA_BUILTIN_H
#define MSC_CODEGEN_EMIT_CUDA_BUILTIN_H

#include "codegen/emit/build.h"

/* A kernel that is being written, at the point where its builder stands. */
typedef struct {
  msc_emit e;
  LLVMBuilderRef b;
  const msc_builtin_launch *l;
  unsigned first_dim; /* number of the parameter that is dim 0 */
} gpu_builtin;

/* ---- numbers ---- */

static inline LLVMValueRef num(const gpu_builtin *o, int64_t v) { return msc_emit_int(&o->e, v); }
static inline LLVMValueRef nth_dim(const gpu_builtin *o, int i) {
  return LLVMGetParam(o->e.fn, o->first_dim + (unsigned)i);
}
static inline LLVMValueRef nth_buffer(const gpu_builtin *o, unsigned i) { return LLVMGetParam(o->e.fn, i); }
static inline LLVMValueRef add_i64(const gpu_builtin *o, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAdd(o->b, a, b, "");
}
static inline LLVMValueRef mul_i64(const gpu_builtin *o, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildMul(o->b, a, b, "");
}
static inline LLVMValueRef and_bits(const gpu_builtin *o, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAnd(o->b, a, b, "");
}
static inline LLVMValueRef or_bits(const gpu_builtin *o, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildOr(o->b, a, b, "");
}
static inline LLVMValueRef negate_bit(const gpu_builtin *o, LLVMValueRef a) { return LLVMBuildNot(o->b, a, ""); }
static inline LLVMValueRef is_nonzero(const gpu_builtin *o, LLVMValueRef v) {
  return LLVMBuildICmp(o->b, LLVMIntNE, v, num(o, 0), "");
}
static inline LLVMValueRef pick_if(const gpu_builtin *o, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(o->b, c, a, b, "");
}
static inline LLVMValueRef divide_with_rest(const gpu_builtin *o, LLVMValueRef a, LLVMValueRef b,
                                            LLVMValueRef *out_rest) {
  LLVMValueRef q = LLVMBuildUDiv(o->b, a, b, "");
  *out_rest = LLVMBuildSub(o->b, a, mul_i64(o, q, b), "");
  return q;
}

/* ---- elements ---- */

static inline LLVMValueRef element_at(const gpu_builtin *o, msc_dtype d, LLVMValueRef array, LLVMValueRef at) {
  return LLVMBuildInBoundsGEP2(o->b, msc_emit_stored_type(&o->e, d, 1), array, &at, 1, "");
}

static inline LLVMValueRef read_stored(gpu_builtin *o, msc_dtype d, LLVMValueRef p) {
  return LLVMBuildLoad2(o->b, msc_emit_stored_type(&o->e, d, 1), p, "");
}
static inline LLVMValueRef read_value(gpu_builtin *o, msc_dtype d, LLVMValueRef p) {
  return msc_emit_widen(&o->e, read_stored(o, d, p), d);
}

static inline LLVMValueRef index_at(gpu_builtin *o, msc_dtype d, LLVMValueRef array, LLVMValueRef at) {
  return LLVMBuildSExt(o->b, read_stored(o, d, element_at(o, d, array, at)), LLVMInt64TypeInContext(o->e.l->llvm), "");
}

/* Returns the number of the thread in the grid, whose blocks have so many threads. */
static inline LLVMValueRef own_item(gpu_builtin *o, int64_t threads) {
  static const char *const names[] = {"llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.nvvm.read.ptx.sreg.tid.x"};
  LLVMValueRef own[2];
  for (int i = 0; i < 2; i++)
    own[i] =
        LLVMBuildZExt(o->b, msc_ir_call(&o->e, names[i], 0, NULL, 0, NULL), LLVMInt64TypeInContext(o->e.l->llvm), "");
  return add_i64(o, mul_i64(o, own[0], num(o, threads)), own[1]);
}

static inline void store_if(gpu_builtin *o, LLVMValueRef condition, int count, const LLVMValueRef *v,
                            const LLVMValueRef *p) {
  LLVMBasicBlockRef then = msc_ir_block(&o->e), after = msc_ir_block(&o->e);
  LLVMBuildCondBr(o->b, condition, then, after);
  LLVMPositionBuilderAtEnd(o->b, then);
  for (int i = 0; i < count; i++) LLVMBuildStore(o->b, v[i], p[i]);
  LLVMBuildBr(o->b, after);
  LLVMPositionBuilderAtEnd(o->b, after);
}

/* ---- cuda_rows.c ---- */

/* Emits what one item of a lazy update does. */
void msc_emit_cuda_lazy(gpu_builtin *o, LLVMValueRef item);
/* Emits what one item of the launch before it does, where numbers may have many gradients: adds up a part of them. */
void msc_emit_cuda_lazy_parts(gpu_builtin *o, LLVMValueRef item);

#endif
