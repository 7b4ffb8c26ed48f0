/* emulator.c: see emulator.h.  The module is compiled by LLVM's JIT; each kernel gets an entry that takes its arguments
 * from a list. */
#include "tests/cuda/emulator/emulator.h"

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/standin/standin.h"

struct emulator {
  LLVMOrcLLJITRef jit;
  char why[256];
};

/* ---- the module ---- */

static bool starts(const char *at, const char *word) { return strncmp(at, word, strlen(word)) == 0; }

/* @llvm.nvvm.a.b becomes @standin_a_b of the stand-in; the lines that say what machine the text is for go.  Freed
 * by the caller. */
static char *for_this_machine(const char *ir, size_t bytes) {
  static const char intrinsic[] = "@llvm.nvvm.", own[] = "@standin_";
  char *out = malloc(bytes + 1), *to = out;
  for (const char *at = ir, *end = ir + bytes; out && at < end;) {
    bool line = at == ir || at[-1] == '\n';
    if (line && (starts(at, "target datalayout") || starts(at, "target triple"))) {
      while (at < end && *at != '\n') at++;
    } else if (starts(at, intrinsic)) {
      to = stpcpy(to, own);
      for (at += strlen(intrinsic); *at == '.' || *at == '_' || isalnum((unsigned char)*at); at++)
        *to++ = *at == '.' ? '_' : *at;
    } else {
      *to++ = *at++;
    }
  }
  if (out) *to = 0;
  return out;
}

/* void NAME.entry(void *const *param): the kernel with what param[0], param[1] ... point at. */
static void add_entry(LLVMModuleRef module, LLVMValueRef kernel) {
  LLVMContextRef c = LLVMGetModuleContext(module);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(c);
  LLVMTypeRef pointer = LLVMPointerTypeInContext(c, 0),
              type = LLVMFunctionType(LLVMVoidTypeInContext(c), &pointer, 1, false);
  unsigned num = LLVMCountParams(kernel);
  LLVMValueRef *arg = calloc(num + 1, sizeof *arg);
  char name[512];
  snprintf(name, sizeof name, "%s.entry", LLVMGetValueName(kernel));
  LLVMValueRef fn = LLVMAddFunction(module, name, type);
  LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(c, fn, ""));
  for (unsigned i = 0; i < num; i++) {
    LLVMValueRef at = LLVMConstInt(LLVMInt64TypeInContext(c), i, false);
    LLVMValueRef place =
        LLVMBuildLoad2(b, pointer, LLVMBuildInBoundsGEP2(b, pointer, LLVMGetParam(fn, 0), &at, 1, ""), "");
    arg[i] = LLVMBuildLoad2(b, LLVMTypeOf(LLVMGetParam(kernel, i)), place, "");
  }
  LLVMBuildCall2(b, LLVMGlobalGetValueType(kernel), kernel, arg, num, "");
  LLVMBuildRetVoid(b);
  LLVMDisposeBuilder(b);
  free(arg);
}

/* Two bf16 in one word: no vector of them crosses a call, so the stand-in's function gives the word. */
static void give_words(LLVMModuleRef module) {
  LLVMContextRef c = LLVMGetModuleContext(module);
  LLVMValueRef pair = LLVMGetNamedFunction(module, "standin_ff2bf16x2_rn");
  if (!pair) return;
  LLVMTypeRef f32 = LLVMFloatTypeInContext(c),
              type = LLVMFunctionType(LLVMInt32TypeInContext(c), (LLVMTypeRef[]){f32, f32}, 2, false);
  LLVMSetValueName2(pair, "pair", strlen("pair"));
  LLVMValueRef word = LLVMAddFunction(module, "standin_ff2bf16x2_rn", type);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(c);
  for (LLVMUseRef use; (use = LLVMGetFirstUse(pair));) {
    LLVMValueRef call = LLVMGetUser(use), arg[] = {LLVMGetOperand(call, 0), LLVMGetOperand(call, 1)};
    LLVMPositionBuilderBefore(b, call);
    LLVMReplaceAllUsesWith(call,
                           LLVMBuildBitCast(b, LLVMBuildCall2(b, type, word, arg, 2, ""), LLVMTypeOf(call), ""));
    LLVMInstructionEraseFromParent(call);
  }
  LLVMDisposeBuilder(b);
}

static LLVMModuleRef read_module(LLVMContextRef c, const char *ir, size_t bytes, char **out_why) {
  char *text = for_this_machine(ir, bytes);
  LLVMModuleRef module = NULL;
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "kernels");
  free(text);
  if (LLVMParseIRInContext(c, buffer, &module, out_why)) return NULL;
  give_words(module);
  LLVMValueRef last = LLVMGetLastFunction(module); /* entries are added behind it */
  for (LLVMValueRef f = LLVMGetFirstFunction(module);; f = LLVMGetNextFunction(f)) {
    if (f && LLVMCountBasicBlocks(f)) add_entry(module, f);
    if (f == last) break;
  }
  return module;
}

/* What kernels call is in this program. */
static LLVMErrorRef find_calls(LLVMOrcLLJITRef jit) {
  LLVMOrcDefinitionGeneratorRef own;
  LLVMErrorRef error =
      LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&own, LLVMOrcLLJITGetGlobalPrefix(jit), NULL, NULL);
  if (!error) LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), own);
  return error;
}

static char *text_of(LLVMErrorRef error) {
  char *message = LLVMGetErrorMessage(error), *copy = strdup(message);
  LLVMDisposeErrorMessage(message);
  return copy;
}

static bool compile(emulator *e, const char *ir, size_t bytes, char **out_why) {
  LLVMInitializeNativeTarget(), LLVMInitializeNativeAsmPrinter();
  LLVMErrorRef error = LLVMOrcCreateLLJIT(&e->jit, NULL);
  if (!error) error = find_calls(e->jit);
  if (!error) {
    LLVMOrcThreadSafeContextRef context = LLVMOrcCreateNewThreadSafeContext();
    LLVMModuleRef module = read_module(LLVMOrcThreadSafeContextGetContext(context), ir, bytes, out_why);
    if (module)
      error = LLVMOrcLLJITAddLLVMIRModule(e->jit, LLVMOrcLLJITGetMainJITDylib(e->jit),
                                          LLVMOrcCreateNewThreadSafeModule(module, context));
    LLVMOrcDisposeThreadSafeContext(context);
    if (!module) return false;
  }
  if (error) *out_why = text_of(error);
  return !error;
}

emulator *emulator_open(const char *ir, size_t bytes, char **out_why) {
  emulator *e = calloc(1, sizeof *e);
  *out_why = NULL;
  if (e && compile(e, ir, bytes, out_why)) return e;
  if (!*out_why) *out_why = strdup("no memory");
  emulator_close(e);
  return NULL;
}

void emulator_close(emulator *e) {
  if (!e) return;
  if (e->jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(e->jit));
  free(e);
}

/* ---- launches ---- */

static bool find(emulator *e, const char *kernel, standin_kernel *out) {
  LLVMOrcExecutorAddress address = 0;
  char name[512];
  snprintf(name, sizeof name, "%s.entry", kernel);
  LLVMErrorRef error = LLVMOrcLLJITLookup(e->jit, &address, name);
  *out = (standin_kernel){.run = (void (*)(void **))(uintptr_t)address, .meets = true};
  if (!error) return true;
  char *why = text_of(error);
  snprintf(e->why, sizeof e->why, "%s", why);
  free(why);
  return false;
}

const char *emulator_launch(emulator *e, const char *kernel, unsigned blocks, unsigned threads, void *const *param,
                            emulator_order order) {
  static const char *const orders[] = {[EMULATOR_UP] = "up", [EMULATOR_DOWN] = "down", [EMULATOR_MIXED] = "shuffled"};
  standin_kernel k;
  if (!find(e, kernel, &k)) return e->why;
  setenv("MSC_STANDIN_WARPS", orders[order], 1);
  standin_run_grid(&k, blocks, threads, (void **)(uintptr_t)param);
  return NULL;
}
