/* emit_loops.c: loops in LLVM IR, in the form that needs no rotation: tested before the first turn and at each end; and squares turned. */
#include "codegen/emit_ir.h"

LLVMBasicBlockRef msc_ir_block(msc_emit *e) { return LLVMAppendBasicBlockInContext(e->l->llvm, e->fn, ""); }

void msc_ir_loop_open(msc_emit *e, msc_ir_loop *loop, LLVMValueRef from, LLVMValueRef to, int64_t step, int num, LLVMValueRef *carried) {
  *loop = (msc_ir_loop){.before = LLVMGetInsertBlock(e->b), .body = msc_ir_block(e), .after = msc_ir_block(e), .to = to, .from = from, .step = step, .num = num};
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, from, to, ""), loop->body, loop->after);
  LLVMPositionBuilderAtEnd(e->b, loop->body);
  loop->index = LLVMBuildPhi(e->b, LLVMInt64TypeInContext(e->l->llvm), "");
  LLVMAddIncoming(loop->index, &from, &loop->before, 1);
  for (int i = 0; i < num; i++) {
    loop->first[i] = carried[i];
    loop->phi[i] = LLVMBuildPhi(e->b, LLVMTypeOf(carried[i]), "");
    LLVMAddIncoming(loop->phi[i], &carried[i], &loop->before, 1);
    carried[i] = loop->phi[i];
  }
}

void msc_ir_loop_close(msc_emit *e, msc_ir_loop *loop, LLVMValueRef *carried) {
  LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
  LLVMValueRef next = LLVMBuildNSWAdd(e->b, loop->index, msc_emit_int(e, loop->step), "");
  LLVMAddIncoming(loop->index, &next, &end, 1);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, loop->to, ""), loop->body, loop->after);
  LLVMPositionBuilderAtEnd(e->b, loop->after);
  for (int i = 0; i < loop->num; i++) {
    LLVMAddIncoming(loop->phi[i], &carried[i], &end, 1);
    LLVMValueRef result = LLVMBuildPhi(e->b, LLVMTypeOf(carried[i]), "");
    LLVMAddIncoming(result, &loop->first[i], &loop->before, 1);
    LLVMAddIncoming(result, &carried[i], &end, 1);
    carried[i] = result;
  }
}

void msc_ir_turn(msc_emit *e, int num, LLVMValueRef *v) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->l->llvm);
  for (int s = 1; s < num; s *= 2)
    for (int i = 0; i < num; i++) {
      LLVMValueRef low[64], high[64], a = v[i], b = v[i + s < num ? i + s : i];
      if (i & s) continue;
      for (int k = 0; k < num; k++) {
        low[k] = LLVMConstInt(i32, (unsigned)(k & s ? num + k - s : k), false);
        high[k] = LLVMConstInt(i32, (unsigned)(k & s ? num + k : k + s), false);
      }
      v[i] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(low, (unsigned)num), "");
      v[i + s] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(high, (unsigned)num), "");
    }
}
