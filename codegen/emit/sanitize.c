/* sanitize.c: a module of kernels in; the same module, with every access checked against the address sanitizer's shadow
 * memory, out. That memory has the same address in every process on x86-64 Linux. The code of a plan cannot call
 * functions, so a bad access executes an invalid instruction, with the address in rax: tools/crash.c reports it. */
#include <llvm-c/Support.h>
#include <pthread.h>
#include <string.h>

#include "codegen/emit/emit.h"

/* Turns off checks of stacks and constants, which need calls. LLVM has these settings once per process. */
static void set_options(void) {
  static const char *const words[] = {"msc", "-asan-stack=0", "-asan-globals=0", "-asan-constructor-kind=none"};
  LLVMParseCommandLineOptions(sizeof words / sizeof *words, words, NULL);
}

/* Defines the function that LLVM calls with the address of a bad access: it executes an invalid instruction. */
static void make_trap(msc_llvm *l, LLVMValueRef fn) {
  LLVMTypeRef i64 = LLVMInt64TypeInContext(l->llvm),
              type = LLVMFunctionType(LLVMVoidTypeInContext(l->llvm), &i64, 1, false);
  LLVMValueRef keep = LLVMGetInlineAsm(type, "", 0, "{ax}", 4, true, false, LLVMInlineAsmDialectATT, false),
               address = LLVMGetParam(fn, 0);
  unsigned trap = LLVMLookupIntrinsicID("llvm.trap", 9);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(l->llvm);
  LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(l->llvm, fn, ""));
  LLVMBuildCall2(b, type, keep, &address, 1, "");
  LLVMBuildCall2(b, LLVMIntrinsicGetType(l->llvm, trap, NULL, 0), LLVMGetIntrinsicDeclaration(l->module, trap, NULL, 0),
                 NULL, 0, "");
  LLVMBuildUnreachable(b);
  LLVMDisposeBuilder(b);
  LLVMSetLinkage(fn, LLVMInternalLinkage);
}

bool msc_sanitize(msc_llvm *l) {
  static pthread_once_t set = PTHREAD_ONCE_INIT;
  pthread_once(&set, set_options);
  for (LLVMValueRef fn = LLVMGetFirstFunction(l->module); fn; fn = LLVMGetNextFunction(fn))
    if (!LLVMIsDeclaration(fn)) msc_llvm_set_flag(l, fn, "sanitize_address");
  if (!msc_llvm_run(l, "asan")) return false;
  for (LLVMValueRef fn = LLVMGetFirstFunction(l->module); fn; fn = LLVMGetNextFunction(fn)) {
    size_t length;
    if (LLVMIsDeclaration(fn) && !strncmp(LLVMGetValueName2(fn, &length), "__asan_report_", 14)) make_trap(l, fn);
  }
  return true;
}
