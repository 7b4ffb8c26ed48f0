/* cuda_swap.c: bytes of a unit in; the kernel with which a GPU swaps rows of a cache with rows in the host's memory
 * (ir/abi/row_cache.h) out.  How many rows there are is read where the host has written it, so the grid has a fixed
 * number of threads, each of which takes the units so many apart. */
#include "codegen/emit/cuda_builtin.h"
#include "ir/abi/row_cache.h"

/* The parameters, in the order of Cache in plan.fbs. */
enum { LIST, POOL, ROWS, THREADS, UNITS };

static LLVMTypeRef unit_type(const msc_llvm *l, uint64_t bytes) {
  enum { WORD = 4 };
  if (bytes <= 2 * WORD) return LLVMIntTypeInContext(l->llvm, 8 * (unsigned)bytes);
  return LLVMVectorType(LLVMInt32TypeInContext(l->llvm), (unsigned)bytes / WORD);
}

/* Returns the address of unit number `at` of an array. */
static LLVMValueRef unit_at(const gpu_builtin *o, LLVMTypeRef type, unsigned array, LLVMValueRef at) {
  return LLVMBuildInBoundsGEP2(o->b, type, nth_buffer(o, array), &at, 1, "");
}

/* Returns word number `at` of the list. */
static LLVMValueRef word_of_list(gpu_builtin *o, LLVMValueRef at) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(o->e.l->llvm);
  return LLVMBuildZExt(o->b, LLVMBuildLoad2(o->b, i32, unit_at(o, i32, LIST, at), ""),
                       LLVMInt64TypeInContext(o->e.l->llvm), "");
}

/* Swaps unit `i` of the pool with its unit on the device; the old one goes to the pool only if the list says so. */
static void swap_unit(gpu_builtin *o, LLVMTypeRef type, LLVMValueRef i) {
  LLVMValueRef units = LLVMGetParam(o->e.fn, UNITS), at, swap = divide_with_rest(o, i, units, &at),
               entry = add_i64(o, mul_i64(o, swap, num(o, 2)), num(o, MSC_ROW_POOL_HEAD / 4));
  LLVMValueRef slot = word_of_list(o, entry), back = word_of_list(o, add_i64(o, entry, num(o, 1)));
  LLVMValueRef there = unit_at(o, type, POOL, i),
               here = unit_at(o, type, ROWS, add_i64(o, mul_i64(o, slot, units), at));
  LLVMValueRef fresh = LLVMBuildLoad2(o->b, type, there, ""), old = LLVMBuildLoad2(o->b, type, here, "");
  store_if(o, is_nonzero(o, back), 1, &old, &there);
  LLVMBuildStore(o->b, fresh, here);
}

void msc_emit_cuda_swap(msc_llvm *l, uint64_t unit, LLVMValueRef fn) {
  gpu_builtin o = {.e = {.l = l, .b = l->builder, .fn = fn}, .b = l->builder, .first_dim = UNITS};
  LLVMBasicBlockRef entry = msc_ir_block(&o.e), head = msc_ir_block(&o.e), body = msc_ir_block(&o.e),
                    after = msc_ir_block(&o.e);
  LLVMPositionBuilderAtEnd(o.b, entry);
  LLVMValueRef first = own_item(&o, MSC_ROW_SWAP_THREADS),
               all = mul_i64(&o, word_of_list(&o, num(&o, 0)), LLVMGetParam(fn, UNITS));
  LLVMBuildBr(o.b, head);
  LLVMPositionBuilderAtEnd(o.b, head);
  LLVMValueRef i = LLVMBuildPhi(o.b, LLVMTypeOf(first), "");
  LLVMBuildCondBr(o.b, LLVMBuildICmp(o.b, LLVMIntSLT, i, all, ""), body, after);
  LLVMPositionBuilderAtEnd(o.b, body);
  swap_unit(&o, unit_type(l, unit), i);
  LLVMValueRef next = add_i64(&o, i, LLVMGetParam(fn, THREADS));
  LLVMAddIncoming(i, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){entry, LLVMGetInsertBlock(o.b)}, 2);
  LLVMBuildBr(o.b, head);
  LLVMPositionBuilderAtEnd(o.b, after);
  LLVMBuildRetVoid(o.b);
}
