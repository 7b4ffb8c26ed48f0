/* nvptx.c: a module of kernels in; images of PTX for NVIDIA GPUs out, which later GPUs accept too.  Needs no software
 * of NVIDIA; LLVM 19 knows GPUs up to sm_90. */
#include <llvm-c/BitWriter.h>
#include <string.h>

#include "codegen/emit/emit.h"

const char msc_nvptx_pipeline[] = "globaldce,default<O3>";

/* ---- kernels ---- */

static void annotate(msc_llvm *l, LLVMValueRef fn, const char *key, unsigned value) {
  LLVMMetadataRef part[3] = {LLVMValueAsMetadata(fn), LLVMMDStringInContext2(l->llvm, key, strlen(key)),
                             LLVMValueAsMetadata(LLVMConstInt(LLVMInt32TypeInContext(l->llvm), value, false))};
  LLVMAddNamedMetadataOperand(l->module, "nvvm.annotations",
                              LLVMMetadataAsValue(l->llvm, LLVMMDNodeInContext2(l->llvm, part, 3)));
}

/* Returns a mask of the scalars that a program uses in f32 alone: its kernel for a GPU takes these as f32. The kernel
 * of a builtin, which has no program, takes all as f64. */
uint64_t msc_nvptx_narrow_scalars(const msc_program *p) {
  if (!p->head.num_instrs) return 0;
  uint64_t narrow = p->head.num_scalars ? UINT64_MAX >> (MSC_NEST_SCALARS - p->head.num_scalars) : 0;
  for (int i = 1; i < p->head.num_instrs; i++)
    if (p->instr[i].code == NEST_SCALAR && p->instr[i].dtype != MSC_F32) narrow &= ~(UINT64_C(1) << p->instr[i].imm);
  return narrow;
}

/* Adds an empty kernel. Buffers may overlap, when a result takes its operand's place: no parameter is noalias. */
LLVMValueRef msc_nvptx_kernel(msc_llvm *l, const char *name, const msc_program *p) {
  const msc_program_head *h = &p->head;
  uint64_t narrow = msc_nvptx_narrow_scalars(p);
  LLVMTypeRef arg[MSC_NEST_BUFFERS + 1 + MSC_NEST_DIMS + MSC_NEST_SCALARS], i64 = LLVMInt64TypeInContext(l->llvm);
  unsigned num = 0, align = LLVMGetEnumAttributeKindForName("align", strlen("align"));
  for (int i = 0; i < h->num_buffers; i++) arg[num++] = LLVMPointerTypeInContext(l->llvm, 1);
  for (int i = 0; i < 1 + h->num_dims; i++) arg[num++] = i64;
  for (int i = 0; i < h->num_scalars; i++)
    arg[num++] = narrow >> i & 1 ? LLVMFloatTypeInContext(l->llvm) : LLVMDoubleTypeInContext(l->llvm);
  LLVMValueRef fn = LLVMAddFunction(l->module, name, LLVMFunctionType(LLVMVoidTypeInContext(l->llvm), arg, num, false));
  for (int i = 0; i < h->num_buffers; i++)
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)i + 1, LLVMCreateEnumAttribute(l->llvm, align, 16));
  msc_llvm_set_flag(l, fn, "nounwind");
  msc_llvm_set_attribute(l, fn, "no-builtins", "");
  msc_llvm_set_attribute(l, fn, "denormal-fp-math-f32", "preserve-sign,preserve-sign");
  annotate(l, fn, "kernel", 1);
  annotate(l, fn, "maxntidx", h->threads);
  annotate(l, fn, "minctasm", 1); /* otherwise ptxas spills registers so that one more block fits */
  return fn;
}

/* Sets the fast-math flags of a kernel's float operations: they may be fused, use reciprocals and approximations, and
 * ignore the sign of zero; NaN and infinity are kept. */
void msc_nvptx_relax(msc_llvm *l) {
  for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
      for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
        if (LLVMCanValueUseFastMathFlags(i))
          LLVMSetFastMathFlags(i, LLVMFastMathAllowContract | LLVMFastMathNoSignedZeros | LLVMFastMathAllowReciprocal |
                                      LLVMFastMathApproxFunc);
}

/* ---- the kernel before ---- */

/* True if the GPUs have the instructions of insert_wait. */
static bool has_wait(const msc_ptx_row *generation) { return generation->arch >= 90; }

static void insert_instruction(msc_llvm *l, const char *text) {
  static const char touches[] = "~{memory}"; /* so no load moves in front of it */
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(l->llvm), NULL, 0, false);
  LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), touches, sizeof touches - 1, true, false,
                                       LLVMInlineAsmDialectATT, false);
  LLVMBuildCall2(l->builder, type, code, NULL, 0, "");
}

/* Lets every thread of a kernel wait at its begin until the kernel before it in the stream has ended and its results
 * can be read, then lets the next kernel begin.  All threads must wait: the end of a kernel tells the next one that all
 * kernels before have ended too. */
static void insert_wait(msc_llvm *l, LLVMValueRef kernel) {
  LLVMPositionBuilderBefore(l->builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(kernel)));
  insert_instruction(l, "griddepcontrol.wait;");
  insert_instruction(l, "griddepcontrol.launch_dependents;");
}

/* ---- images ---- */

typedef struct {
  const msc_llvm *whole;
  LLVMMemoryBufferRef bitcode, text[MSC_NUM_PTX];
  msc_llvm llvm[MSC_NUM_PTX];
} writing;

static void write_ptx(void *user, size_t i) {
  writing *w = user;
  msc_llvm *l = &w->llvm[i];
  if (!msc_llvm_open_like(w->whole, w->bitcode, l)) return;
  LLVMTargetMachineRef machine = msc_llvm_nvptx_machine(l, msc_ptx_generation[i].arch);
  if (!machine) return;
  for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f && has_wait(&msc_ptx_generation[i]);
       f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f)) insert_wait(l, f);
  w->text[i] = msc_llvm_emit(l, machine, l->module, LLVMAssemblyFile);
  LLVMDisposeTargetMachine(machine);
}

static msc_image image_of_text(msc_arena *arena, size_t i, LLVMMemoryBufferRef text) {
  size_t bytes = LLVMGetBufferSize(text);
  char *ptx = msc_arena_alloc(arena, bytes + 1);
  memcpy(ptx, LLVMGetBufferStart(text), bytes);
  return (msc_image){.arch = msc_ptx_generation[i].arch,
                     .waits = has_wait(&msc_ptx_generation[i]),
                     .bytes = ptx,
                     .num_bytes = bytes + 1,
                     .made_by = "LLVM " LLVM_VERSION_STRING};
}

/* Makes the PTX of all generations at the same time. */
static bool make_ptx(msc_llvm *l, msc_arena *arena, msc_image *out) {
  writing w = {.whole = l, .bitcode = LLVMWriteBitcodeToMemoryBuffer(l->module)};
  bool ok = true;
  msc_run_in_parallel(MSC_NUM_PTX, write_ptx, &w);
  for (size_t i = 0; i < MSC_NUM_PTX; i++) {
    ok = ok && msc_llvm_report(&w.llvm[i], l->ctx);
    if (ok) out[i] = image_of_text(arena, i, w.text[i]);
    if (w.text[i]) LLVMDisposeMemoryBuffer(w.text[i]);
    msc_llvm_close(&w.llvm[i]);
  }
  LLVMDisposeMemoryBuffer(w.bitcode);
  return ok;
}

bool msc_nvptx_images(msc_llvm *l, msc_arena *arena, msc_machine_code *out) {
  msc_image *ptx = msc_new_array(arena, msc_image, MSC_NUM_PTX);
  MSC_TRY(make_ptx(l, arena, ptx));
  out->image = ptx, out->num_images = MSC_NUM_PTX;
  return true;
}
