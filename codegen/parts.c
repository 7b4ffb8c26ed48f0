/* parts.c: a module of kernels in; ELF relocatables out, one for each part of the module, which LLVM makes in parallel.
 * Which kernel is in which part depends on the module alone, so the code is the same on any number of CPUs. */
#include <llvm-c/BitWriter.h>
#include <string.h>

#include "codegen/emit/emit.h"
#include "ir/sanitized.h"

enum {
  MIN_INSTRUCTIONS = 1500, /* average per part: smaller parts do not pay, as each part reads the whole module again */
};

/* ---- one module ---- */

/* The emitter writes vectors and loops itself; LLVM only cleans up and hoists addresses. */
static const char pipeline[] = "function(early-cse,loop-mssa(licm),early-cse)";

LLVMMemoryBufferRef msc_llvm_assemble(msc_llvm *l) {
  return msc_llvm_run(l, pipeline) && (!MSC_SANITIZED || msc_sanitize(l))
             ? msc_llvm_emit(l, l->machine, l->module, LLVMObjectFile)
             : NULL;
}

/* ---- parts of a module ---- */

typedef struct {
  const msc_llvm *whole;
  LLVMMemoryBufferRef bitcode, *object;
  size_t num;
  msc_llvm llvm[MSC_MAX_PARTS]; /* one per part, because an LLVM context belongs to one thread */
} parts;

static uint64_t count_instructions(LLVMValueRef fn) {
  uint64_t num = 0;
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) num++;
  return num;
}

static size_t choose_num_parts(LLVMModuleRef module) {
  uint64_t num = 0;
  for (LLVMValueRef fn = LLVMGetFirstFunction(module); fn; fn = LLVMGetNextFunction(fn)) num += count_instructions(fn);
  uint64_t wanted = num / MIN_INSTRUCTIONS;
  if (wanted > MSC_MAX_PARTS) return MSC_MAX_PARTS;
  return wanted ? (size_t)wanted : 1;
}

/* Assigns each kernel to the part with the fewest instructions so far, and deletes all kernels but those of one part.
 * Kernels call nothing but intrinsics. */
static void keep_part(LLVMModuleRef module, size_t num, size_t part) {
  uint64_t load[MSC_MAX_PARTS] = {0};
  for (LLVMValueRef fn = LLVMGetFirstFunction(module), next; fn; fn = next) {
    size_t least = 0;
    next = LLVMGetNextFunction(fn);
    if (LLVMIsDeclaration(fn)) continue;
    for (size_t i = 1; i < num; i++)
      if (load[i] < load[least]) least = i;
    load[least] += count_instructions(fn);
    if (least != part) LLVMDeleteFunction(fn);
  }
}

static void make_part(void *user, size_t part) {
  parts *p = user;
  msc_llvm *l = &p->llvm[part];
  if (!msc_llvm_open_like(p->whole, p->bitcode, l)) return;
  keep_part(l->module, p->num, part);
  p->object[part] = msc_llvm_assemble(l);
}

bool msc_parts_assemble(msc_llvm *l, size_t *out_num, LLVMMemoryBufferRef out_object[MSC_MAX_PARTS]) {
  parts p = {.whole = l, .object = out_object, .num = choose_num_parts(l->module)};
  bool ok = true;
  *out_num = p.num;
  memset(out_object, 0, p.num * sizeof *out_object);
  if (p.num == 1) {
    out_object[0] = msc_llvm_assemble(l);
    return msc_llvm_report(l, l->ctx);
  }
  p.bitcode = LLVMWriteBitcodeToMemoryBuffer(l->module);
  msc_run_in_parallel(p.num, make_part, &p);
  for (size_t i = 0; i < p.num; i++) {
    ok = ok && msc_llvm_report(&p.llvm[i], l->ctx);
    msc_llvm_close(&p.llvm[i]);
  }
  LLVMDisposeMemoryBuffer(p.bitcode);
  return ok;
}
