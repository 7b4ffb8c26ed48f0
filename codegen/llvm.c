/* llvm.c: a target in; an LLVM module for it, and the LLVM machine that makes its code, out. The first message of LLVM
 * is kept until msc_llvm_report, because LLVM works in several threads. */
#include <llvm-c/BitReader.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <string.h>

#include "codegen/emit/emit.h"

const msc_ptx_row msc_ptx_generation[MSC_NUM_PTX] = {{90, "sm_90", "+ptx78"}, {MSC_LEAST_ARCH, "sm_80", "+ptx70"}};

/* ---- module ---- */

/* Keeps the first message of LLVM, which is the one to report. */
static void keep_llvm_error(msc_llvm *l, const char *message) {
  if (!l->failed) snprintf(l->why, sizeof l->why, "%s", message);
  l->failed = true;
}

static void keep_and_dispose_error(msc_llvm *l, char *message) {
  keep_llvm_error(l, message);
  LLVMDisposeMessage(message);
}

bool msc_llvm_report(const msc_llvm *l, msc_context *ctx) {
  return !l->failed || msc_error(ctx, MSC_E_INTERNAL, NULL, "LLVM: %s", l->why);
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  if (LLVMGetDiagInfoSeverity(info) <= LLVMDSWarning) keep_and_dispose_error(user, LLVMGetDiagInfoDescription(info));
}

static void list_targets(void) {
  LLVMInitializeX86TargetInfo(), LLVMInitializeX86Target(), LLVMInitializeX86TargetMC(), LLVMInitializeX86AsmPrinter();
  LLVMInitializeNVPTXTargetInfo(), LLVMInitializeNVPTXTarget(), LLVMInitializeNVPTXTargetMC(),
      LLVMInitializeNVPTXAsmPrinter();
}

/* Finds LLVM's description of a target. Its list belongs to the process, and compilers may begin in several threads at
 * once. */
static LLVMTargetRef find_target(msc_llvm *l, const char *triple) {
  static pthread_once_t listed = PTHREAD_ONCE_INIT;
  LLVMTargetRef target = NULL;
  char *message = NULL;
  pthread_once(&listed, list_targets);
  if (!LLVMGetTargetFromTriple(triple, &target, &message)) return target;
  keep_and_dispose_error(l, message);
  return NULL;
}

/* ---- targets ---- */

static bool choose_x86(msc_llvm *l, const msc_code_target *target) {
  MSC_TRY(msc_cpu_choose(l->ctx, target->cpu, &l->cpu));
  l->width = msc_choose_vector_width(l->cpu.level, target->vector_bytes);
  return true;
}

enum { FEATURE_BYTES = 512 };

/* Writes the CPU's features as LLVM reads them, "+avx,+avx2". */
static void write_features(const msc_llvm *l, msc_bf16_way way, char out[FEATURE_BYTES]) {
  size_t num, more;
  const char *const *feature = msc_cpu_features(l->cpu.level, &num), *const *also = msc_cpu_bf16_features(way, &more);
  *out = 0;
  for (size_t i = 0; i < num + more; i++) strcat(strcat(out, i ? ",+" : "+"), i < num ? feature[i] : also[i - num]);
}

static LLVMTargetMachineRef open_x86(msc_llvm *l) {
  char features[FEATURE_BYTES];
  write_features(l, MSC_BF16_BY_TERMS, features);
  LLVMTargetRef target = find_target(l, l->target->triple);
  return target ? LLVMCreateTargetMachine(target, l->target->triple, "x86-64", features, LLVMCodeGenLevelDefault,
                                          LLVMRelocPIC, LLVMCodeModelSmall)
                : NULL;
}

LLVMTargetMachineRef msc_llvm_nvptx_machine(msc_llvm *l, int arch) {
  size_t i = 0;
  while (msc_ptx_generation[i].arch != arch) i++;
  LLVMTargetRef target = find_target(l, l->target->triple);
  return target ? LLVMCreateTargetMachine(target, l->target->triple, msc_ptx_generation[i].cpu,
                                          msc_ptx_generation[i].features, LLVMCodeGenLevelAggressive, LLVMRelocDefault,
                                          LLVMCodeModelDefault)
                : NULL;
}

static bool choose_nvptx(msc_llvm *l, const msc_code_target *target) {
  (void)target;
  l->cpu = (msc_cpu){.name = "", .level = 4}; /* a GPU rounds in one instruction, and loads elements of any size */
  l->width = (msc_vector_width){.summed = 16, .apart = 16};
  return true;
}

static LLVMTargetMachineRef open_nvptx(msc_llvm *l) { return msc_llvm_nvptx_machine(l, MSC_LEAST_ARCH); }

static const msc_llvm_target x86 = {"x86_64-unknown-linux-gnu", choose_x86, open_x86, .has_spare = true},
                             nvptx = {.triple = "nvptx64-nvidia-cuda",
                                      .choose = choose_nvptx,
                                      .open = open_nvptx,
                                      .makes_ptx = true,
                                      .aligns_vectors = true,
                                      .math = &msc_nvvm_math};

/* ---- opening ---- */

static bool open_machine(msc_llvm *l) {
  l->machine = l->target->open(l);
  if (!l->machine) return false;
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(l->machine);
  LLVMSetModuleDataLayout(l->module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(l->module, l->target->triple);
  return true;
}

static void open_context(msc_llvm *l) {
  l->llvm = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(l->llvm, on_diagnostic, l);
  LLVMContextSetDiscardValueNames(l->llvm, true);
  l->builder = LLVMCreateBuilderInContext(l->llvm);
}

bool msc_llvm_open(msc_context *ctx, const msc_code_target *target, msc_llvm *out) {
  *out = (msc_llvm){.ctx = ctx, .target = target->target && target->target->makes_ptx ? &nvptx : &x86};
  MSC_TRY(out->target->choose(out, target));
  out->has_fma = out->has_f16c = out->cpu.level >= 3;
  out->has_masks = out->cpu.level >= 4;
  open_context(out);
  out->module = LLVMModuleCreateWithNameInContext("msc", out->llvm);
  if (open_machine(out)) return true;
  msc_llvm_report(out, ctx);
  msc_llvm_close(out);
  return false;
}

bool msc_llvm_open_like(const msc_llvm *other, LLVMMemoryBufferRef bitcode, msc_llvm *out) {
  *out = (msc_llvm){.cpu = other->cpu, .target = other->target};
  open_context(out);
  if (LLVMParseBitcodeInContext2(out->llvm, bitcode, &out->module))
    keep_llvm_error(out, "the module cannot be read again");
  return !out->failed && open_machine(out);
}

void msc_llvm_close(msc_llvm *l) {
  if (l->machine) LLVMDisposeTargetMachine(l->machine);
  if (l->builder) LLVMDisposeBuilder(l->builder);
  if (l->module) LLVMDisposeModule(l->module);
  if (l->llvm) LLVMContextDispose(l->llvm);
  l->machine = NULL, l->builder = NULL, l->module = NULL, l->llvm = NULL;
}

void msc_llvm_set_attribute(msc_llvm *l, LLVMValueRef fn, const char *name, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(l->llvm, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

void msc_llvm_set_flag(msc_llvm *l, LLVMValueRef fn, const char *name) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(l->llvm, kind, 0));
}

LLVMValueRef msc_llvm_kernel(msc_llvm *l, const char *name) {
  LLVMTypeRef p = LLVMPointerTypeInContext(l->llvm, 0), i64 = LLVMInt64TypeInContext(l->llvm);
  LLVMTypeRef arg[] = {p, i64, i64, p, p};
  LLVMValueRef fn = LLVMAddFunction(l->module, name, LLVMFunctionType(LLVMVoidTypeInContext(l->llvm), arg, 5, false));
  LLVMSetAlignment(fn, 64);
  msc_llvm_set_flag(l, fn, "nounwind");
  msc_llvm_set_attribute(l, fn, "no-builtins", ""); /* loops stay loops: there is no memset to call */
  msc_llvm_set_attribute(l, fn, "tune-cpu", l->cpu.name);
  msc_llvm_set_attribute(l, fn, "prefer-vector-width", "256");
  return fn;
}

void msc_llvm_allow(msc_llvm *l, LLVMValueRef fn, msc_bf16_way way) {
  char features[FEATURE_BYTES];
  write_features(l, way, features);
  if (way != MSC_BF16_BY_TERMS) msc_llvm_set_attribute(l, fn, "target-features", features);
}

bool msc_llvm_run(msc_llvm *l, const char *pipeline) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  /* msc emits vectors itself, so LLVM need not find any */
  LLVMPassBuilderOptionsSetLoopVectorization(options, false), LLVMPassBuilderOptionsSetSLPVectorization(options, false);
  LLVMErrorRef error = LLVMRunPasses(l->module, pipeline, l->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (error) {
    char *text = LLVMGetErrorMessage(error);
    keep_llvm_error(l, text);
    LLVMDisposeErrorMessage(text);
  }
  return !l->failed;
}

LLVMMemoryBufferRef msc_llvm_emit(msc_llvm *l, LLVMTargetMachineRef machine, LLVMModuleRef module,
                                  LLVMCodeGenFileType type) {
  LLVMMemoryBufferRef out = NULL;
  char *message = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, type, &message, &out)) keep_and_dispose_error(l, message);
  if (l->failed && out) LLVMDisposeMemoryBuffer(out);
  return l->failed ? NULL : out;
}
