/* loops.c: writes loops in LLVM IR, which test before the first iteration and at the end of each, so that LLVM need not
 * rotate them; sums of blocks, added as a tree; transposes of squares in registers. */
#include "codegen/emit/build.h"

LLVMBasicBlockRef msc_ir_block(msc_emit *e) { return LLVMAppendBasicBlockInContext(e->l->llvm, e->fn, ""); }

void msc_ir_loop_open(msc_emit *e, msc_ir_loop *loop, LLVMValueRef from, LLVMValueRef to, int64_t step, int num,
                      LLVMValueRef *carried) {
  *loop = (msc_ir_loop){.before = LLVMGetInsertBlock(e->b),
                        .body = msc_ir_block(e),
                        .after = msc_ir_block(e),
                        .to = to,
                        .from = from,
                        .step = step,
                        .num = num};
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

LLVMValueRef msc_ir_stack(msc_emit *e, LLVMTypeRef type, int64_t num) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), entry = LLVMGetEntryBasicBlock(e->fn);
  LLVMValueRef first = LLVMGetFirstInstruction(entry);
  if (first) LLVMPositionBuilderBefore(e->b, first);
  else LLVMPositionBuilderAtEnd(e->b, entry);
  LLVMValueRef place = LLVMBuildArrayAlloca(e->b, type, msc_emit_int(e, num), "");
  LLVMSetAlignment(place, 64);
  LLVMPositionBuilderAtEnd(e->b, here);
  return place;
}

static LLVMValueRef level_of(msc_emit *e, LLVMTypeRef type, LLVMValueRef waiting, LLVMValueRef level) {
  return LLVMBuildInBoundsGEP2(e->b, type, waiting, &level, 1, "");
}

void msc_ir_fold(msc_emit *e, LLVMValueRef block, LLVMValueRef blocks, int num, LLVMValueRef *sums,
                 const LLVMValueRef *waiting, msc_ir_combine *combine, const void *user) {
  msc_ir_loop loop;
  LLVMTypeRef i64 = LLVMInt64TypeInContext(e->l->llvm);
  LLVMValueRef one = msc_emit_int(e, 1), next = LLVMBuildNSWAdd(e->b, block, one, ""),
               args[2] = {next, LLVMConstInt(LLVMInt1TypeInContext(e->l->llvm), 0, false)};
  LLVMValueRef ones = msc_ir_call(e, "llvm.cttz", 1, &i64, 2, args),
               depth = msc_ir_call(e, "llvm.ctpop", 1, &i64, 1, &block);
  msc_ir_loop_open(e, &loop, msc_emit_int(e, 0), ones, 1, num, sums);
  LLVMValueRef level = LLVMBuildNSWSub(e->b, LLVMBuildNSWSub(e->b, depth, one, ""), loop.index, "");
  for (int i = 0; i < num; i++) {
    LLVMTypeRef t = LLVMTypeOf(sums[i]);
    sums[i] = combine(e, user, i, LLVMBuildLoad2(e->b, t, level_of(e, t, waiting[i], level), ""), sums[i]);
  }
  msc_ir_loop_close(e, &loop, sums);
  LLVMBasicBlockRef more = msc_ir_block(e), done = msc_ir_block(e);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, blocks, ""), more, done);
  LLVMPositionBuilderAtEnd(e->b, more);
  LLVMValueRef place = LLVMBuildNSWSub(e->b, depth, ones, "");
  for (int i = 0; i < num; i++) LLVMBuildStore(e->b, sums[i], level_of(e, LLVMTypeOf(sums[i]), waiting[i], place));
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

void msc_ir_transpose_square(msc_emit *e, int num, LLVMValueRef *v) {
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
