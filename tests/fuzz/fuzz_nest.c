/* fuzz_nest: any bytes as the text of a kernel's program are refused with a reason, or make a program whose text is
 * read as the same program; of one that has no fault LLVM IR is made that LLVM accepts. */
#include <llvm-c/Analysis.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/emit/emit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_text(msc_context *ctx, const msc_program *p) {
  msc_program again;
  const char *text = msc_nest_text(p, msc_context_arena(ctx));
  if (!msc_nest_parse(ctx, "fuzz", text, strlen(text), msc_context_arena(ctx), &again) ||
      memcmp(&again.head, &p->head, sizeof p->head) != 0 ||
      memcmp(again.instr, p->instr, sizeof *p->instr * p->head.num_instrs) != 0)
    abort();
}

static void check_code(msc_context *ctx, const msc_program *p) {
  const msc_target *target = p->head.is_gpu ? &msc_target_cuda : &msc_target_cpu;
  msc_llvm l;
  if (!msc_llvm_open(ctx, &(msc_code_target){.target = target, .cpu = "x86-64-v3"}, &l)) abort();
  if (p->head.is_gpu) msc_emit_cuda(&l, p, msc_nvptx_kernel(&l, "kernel", p));
  else msc_emit_cpu(&l, p, msc_llvm_kernel(&l, "kernel"));
  if (LLVMVerifyModule(l.module, LLVMReturnStatusAction, NULL)) abort();
  msc_llvm_close(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_program p;
  bool ok = msc_nest_parse(ctx, "fuzz", (const char *)data, bytes, msc_context_arena(ctx), &p);
  if (ok != (msc_num_errors(ctx) == 0)) abort();
  if (ok) check_text(ctx, &p);
  if (ok && !msc_nest_find_fault(&p, msc_context_arena(ctx))) check_code(ctx, &p);
  msc_context_free(ctx);
  return 0;
}
