/* positions.c: numbers of items and indexes of loops in; the positions of a program's axes out, and values that were
 * computed at other positions forgotten. */
#include "codegen/emit/walk.h"

static void forget_values(msc_walk *w, uint16_t axes) {
  for (int i = 1; i < w->h->num_instrs; i++)
    for (int u = 0; u < MSC_COPIES && (w->e.p->instr[i].axes & axes); u++) w->e.value[i][u] = NULL;
}

/* Gives the axis a position. Values that vary along it belonged to the earlier position: they are dropped, and computed
 * again. */
void msc_walk_bind(msc_walk *w, int axis, LLVMValueRef at) {
  w->e.axis[axis] = at;
  w->bound |= msc_bit(axis);
  forget_values(w, msc_bit(axis));
}

/* Gives the axes in the set `axes` their positions, which it computes from a number in row-major order. */
void msc_walk_bind_items(msc_walk *w, LLVMValueRef number, uint16_t axes) {
  msc_emit *e = &w->e;
  for (int a = w->h->num_axes - 1; a >= 0; a--) {
    if (!(axes >> a & 1)) continue;
    if (!(axes & (msc_bit(a) - 1))) {
      msc_walk_bind(w, a, number);
      return;
    }
    LLVMValueRef size = msc_emit_size(e, a), rest = msc_walk_divide(w, number, size);
    msc_walk_bind(w, a, LLVMBuildSub(e->b, number, LLVMBuildMul(e->b, rest, size, ""), ""));
    number = rest;
  }
}

/* Divides numbers that are not negative, in 32 bits where that is enough: a GPU is much faster at these. */
LLVMValueRef msc_walk_divide(msc_walk *w, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef B = w->e.b;
  LLVMTypeRef i32 = LLVMInt32TypeInContext(w->e.l->llvm);
  if (!w->h->narrow) return LLVMBuildUDiv(B, a, b, "");
  return LLVMBuildZExt(B, LLVMBuildUDiv(B, LLVMBuildTrunc(B, a, i32, ""), LLVMBuildTrunc(B, b, i32, ""), ""),
                       LLVMTypeOf(a), "");
}
