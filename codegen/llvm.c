/* llvm.c: a CPU name in; an LLVM module for it, and from the module an object file, out.
 * Code uses exactly the features of the CPU's x86-64 level, so that a plan can say what it needs; the name itself only
 * tunes.  LLVM's diagnostics become errors of the context. */
#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <string.h>

#include "codegen/emit.h"

/* The emitter writes vectors and loops itself; what is left is to clean up and to hoist addresses. */
const char msc_llvm_pipeline[] = "function(early-cse,loop-mssa(licm),early-cse)";

static const msc_cpu cpus[] = {
#define CPU(name, level) {name, level},
#include "codegen/cpu.def"
#undef CPU
};

size_t msc_cpu_count(void) { return sizeof cpus / sizeof *cpus; }
msc_cpu msc_cpu_row(size_t i) { return cpus[i]; }

/* Sorted; a level has the features of those below. */
const char *const *msc_cpu_features(int level, size_t *out_num) {
  static const char *const v2[] = {"popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"};
  static const char *const v3[] = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"};
  static const char *const v4[] = {"avx", "avx2", "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"};
  switch (level) {
    case 1: *out_num = 0; return v2;
    case 2: *out_num = sizeof v2 / sizeof *v2; return v2;
    case 3: *out_num = sizeof v3 / sizeof *v3; return v3;
    default: *out_num = sizeof v4 / sizeof *v4; return v4;
  }
}

const char *msc_cpu_plain(int level) {
  static const char *const name[] = {"x86-64", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  return name[level];
}

/* ---- which CPU ---- */

static bool has_feature(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = strchr(list, '+'); at; at = strchr(at + 1, '+'))
    if (!strncmp(at + 1, name, n) && (at[n + 1] == ',' || !at[n + 1])) return true;
  return false;
}

static int level_of_host(void) {
  char *have = LLVMGetHostCPUFeatures();
  int level = 4;
  for (; level > 1; level--) {
    size_t num, i = 0;
    const char *const *want = msc_cpu_features(level, &num);
    while (i < num && has_feature(have, want[i])) i++;
    if (i == num) break;
  }
  LLVMDisposeMessage(have);
  return level;
}

static const msc_cpu *find_cpu(const char *name) {
  for (size_t i = 0; i < msc_cpu_count(); i++)
    if (!strcmp(cpus[i].name, name)) return &cpus[i];
  return NULL;
}

/* The machine's features decide: a virtual machine may hide some of the CPU it names. */
static msc_cpu host_cpu(void) {
  char *name = LLVMGetHostCPUName();
  msc_cpu cpu = {.level = level_of_host()};
  const msc_cpu *row = find_cpu(name);
  cpu.name = row ? row->name : msc_cpu_plain(cpu.level);
  LLVMDisposeMessage(name);
  return cpu;
}

int msc_cpu_level(const char *name) {
  if (!name || !strcmp(name, "native")) return level_of_host();
  const msc_cpu *row = find_cpu(name);
  return row ? row->level : 1;
}

static bool choose_cpu(msc_context *ctx, const char *name, msc_cpu *out_cpu) {
  const char *known[sizeof cpus / sizeof *cpus];
  if (!name || !strcmp(name, "native")) {
    *out_cpu = host_cpu();
    return true;
  }
  const msc_cpu *row = find_cpu(name);
  if (row) {
    *out_cpu = *row;
    return true;
  }
  for (size_t i = 0; i < msc_cpu_count(); i++) known[i] = cpus[i].name;
  const char *near = msc_nearest(name, known, msc_cpu_count());
  if (near) return msc_error(ctx, MSC_E_TARGET, NULL, "unknown CPU name \"%s\"; did you mean \"%s\"?", name, near);
  return msc_error(ctx, MSC_E_TARGET, NULL, "unknown CPU name \"%s\"; \"native\" is this machine, others are \"x86-64-v3\" or \"skylake-avx512\"", name);
}

/* ---- module ---- */

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  msc_llvm *l = user;
  if (LLVMGetDiagInfoSeverity(info) > LLVMDSWarning) return;
  char *text = LLVMGetDiagInfoDescription(info);
  msc_error(l->ctx, MSC_E_INTERNAL, NULL, "LLVM: %s", text);
  LLVMDisposeMessage(text);
  l->failed = true;
}

static bool open_machine(msc_llvm *l) {
  static const char triple[] = "x86_64-unknown-linux-gnu";
  LLVMTargetRef target;
  char *message = NULL, features[512] = "";
  size_t num;
  const char *const *feature = msc_cpu_features(l->cpu.level, &num);
  LLVMInitializeX86TargetInfo(), LLVMInitializeX86Target(), LLVMInitializeX86TargetMC(), LLVMInitializeX86AsmPrinter();
  for (size_t i = 0; i < num; i++) strcat(strcat(features, i ? ",+" : "+"), feature[i]);
  if (LLVMGetTargetFromTriple(triple, &target, &message)) {
    msc_error(l->ctx, MSC_E_INTERNAL, NULL, "LLVM: %s", message);
    LLVMDisposeMessage(message);
    return false;
  }
  l->machine = LLVMCreateTargetMachine(target, triple, "x86-64", features, LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(l->machine);
  LLVMSetModuleDataLayout(l->module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(l->module, triple);
  return true;
}

bool msc_llvm_open(msc_context *ctx, const char *cpu, msc_llvm *out) {
  *out = (msc_llvm){.ctx = ctx};
  MSC_TRY(choose_cpu(ctx, cpu, &out->cpu));
  out->vector_bytes = out->cpu.level >= 3 ? 32 : 16; /* 512-bit vectors gain little here and cost clock on many machines */
  out->has_fma = out->has_f16c = out->cpu.level >= 3;
  out->has_masks = out->cpu.level >= 4;
  out->llvm = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(out->llvm, on_diagnostic, out);
  LLVMContextSetDiscardValueNames(out->llvm, true);
  out->module = LLVMModuleCreateWithNameInContext("msc", out->llvm);
  out->builder = LLVMCreateBuilderInContext(out->llvm);
  if (open_machine(out)) return true;
  msc_llvm_close(out);
  return false;
}

void msc_llvm_close(msc_llvm *l) {
  if (l->machine) LLVMDisposeTargetMachine(l->machine);
  if (l->builder) LLVMDisposeBuilder(l->builder);
  if (l->module) LLVMDisposeModule(l->module);
  if (l->llvm) LLVMContextDispose(l->llvm);
  l->machine = NULL, l->builder = NULL, l->module = NULL, l->llvm = NULL;
}

static void set_attribute(msc_llvm *l, LLVMValueRef fn, const char *name, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(l->llvm, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void set_flag(msc_llvm *l, LLVMValueRef fn, const char *name) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(l->llvm, kind, 0));
}

LLVMValueRef msc_llvm_kernel(msc_llvm *l, const char *name) {
  LLVMTypeRef p = LLVMPointerTypeInContext(l->llvm, 0), i64 = LLVMInt64TypeInContext(l->llvm);
  LLVMTypeRef arg[] = {p, i64, i64, p, p};
  LLVMValueRef fn = LLVMAddFunction(l->module, name, LLVMFunctionType(LLVMVoidTypeInContext(l->llvm), arg, 5, false));
  LLVMSetAlignment(fn, 64);
  set_flag(l, fn, "nounwind");
  set_attribute(l, fn, "no-builtins", ""); /* loops stay loops: there is no memset to call */
  set_attribute(l, fn, "tune-cpu", l->cpu.name);
  set_attribute(l, fn, "prefer-vector-width", "256");
  return fn;
}

LLVMMemoryBufferRef msc_llvm_assemble(msc_llvm *l) {
  LLVMMemoryBufferRef object = NULL;
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  char *message = NULL;
  LLVMErrorRef error = LLVMRunPasses(l->module, msc_llvm_pipeline, l->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (error) {
    char *text = LLVMGetErrorMessage(error);
    msc_error(l->ctx, MSC_E_INTERNAL, NULL, "LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return NULL;
  }
  if (LLVMTargetMachineEmitToMemoryBuffer(l->machine, l->module, LLVMObjectFile, &message, &object)) {
    msc_error(l->ctx, MSC_E_INTERNAL, NULL, "LLVM: %s", message);
    LLVMDisposeMessage(message);
    return NULL;
  }
  if (!l->failed) return object;
  LLVMDisposeMemoryBuffer(object);
  return NULL;
}
