/* unroll.c: a phase and a range of the lane axis in; an inner loop over its vectors out, several of them per iteration,
 * each with accumulators of its own, and the vectors that remain under a mask. */
#include "codegen/emit/walk.h"

/* Returns how many vectors an iteration of the loop handles. Where the order of sums matters, this must not depend on
 * what else the kernel computes. */
int msc_walk_choose_unroll(const msc_walk *w, const msc_phase *ph) {
  if (w->h->blocks) return 4;
  return ph->weight <= 4 ? 4 : ph->weight <= 8 ? 2 : 1;
}

LLVMValueRef msc_walk_mask(msc_walk *w, LLVMValueRef first, LLVMValueRef to) {
  msc_emit *e = &w->e;
  /* lane numbers are i32, so that a vector of them is as wide as the data's; the rest of a row is clamped to fit i32 */
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->l->llvm);
  LLVMValueRef k[64];
  LLVMValueRef few = LLVMBuildSub(e->b, to, first, ""), most = msc_emit_int(e, w->h->lanes);
  few = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, few, most, ""), few, most, "");
  LLVMValueRef left = msc_emit_splat(e, LLVMBuildTrunc(e->b, few, i32, ""), w->h->lanes);
  for (int i = 0; i < w->h->lanes; i++) k[i] = LLVMConstInt(i32, (unsigned)i, false);
  return LLVMBuildICmp(e->b, LLVMIntSLT, LLVMConstVector(k, (unsigned)w->h->lanes), left, "");
}

/* Returns the end of the whole steps of `width` positions between `from` and `to`. */
LLVMValueRef msc_walk_whole_end(msc_walk *w, LLVMValueRef from, LLVMValueRef to, int width) {
  msc_emit *e = &w->e;
  LLVMValueRef n = LLVMBuildAnd(e->b, LLVMBuildSub(e->b, to, from, ""), msc_emit_int(e, -width), "");
  return LLVMBuildAdd(e->b, from, n, "");
}

/* Splits each reduction's accumulator into `num`, of which the new ones begin empty. fold_accumulators combines them
 * again. */
static void spread_accumulators(msc_walk *w, msc_phase *ph, int num) {
  for (int r = ph->num_reduces - 1; r >= 0; r--) {
    int i = ph->reduce[r];
    ph->carried[r * num] = ph->carried[r];
    for (int u = 1; u < num; u++) ph->carried[r * num + u] = msc_walk_identity(w, i, w->h->lanes);
  }
  ph->accumulators = num;
}

static void fold_accumulators(msc_walk *w, msc_phase *ph) {
  for (int r = 0; r < ph->num_reduces; r++) {
    LLVMValueRef *acc = &ph->carried[r * ph->accumulators];
    int i = ph->reduce[r];
    for (int num = ph->accumulators; num > 1; num /= 2)
      for (int u = 0; u < num / 2; u++) acc[u] = msc_walk_combine(w, i, acc[u], acc[u + num / 2]);
    ph->carried[r] = acc[0];
  }
  ph->accumulators = 1;
}

void msc_walk_emit_lanes(msc_walk *w, msc_phase *ph, LLVMValueRef from, LLVMValueRef to, int unroll,
                         msc_point_fn *point) {
  msc_emit *e = &w->e;
  msc_ir_loop loop;
  int lane = w->h->lane, width = w->h->lanes * unroll;
  int64_t baked = w->h->axis[lane].baked_size;
  if (!baked || baked >= width) {
    LLVMValueRef end = msc_walk_whole_end(w, from, to, width);
    spread_accumulators(w, ph, unroll);
    msc_ir_loop_open(e, &loop, from, end, width, ph->num_reduces * unroll, ph->carried);
    for (int u = 0; u < unroll; u++) {
      msc_walk_bind(w, lane, loop.index);
      e->lane_offset = u * w->h->lanes;
      point(w, ph, u);
    }
    e->lane_offset = 0;
    msc_ir_loop_close(e, &loop, ph->carried);
    fold_accumulators(w, ph);
    from = end;
  }
  msc_ir_loop_open(e, &loop, from, to, w->h->lanes, ph->num_reduces, ph->carried);
  e->mask = msc_walk_mask(w, loop.index, to);
  msc_walk_bind(w, lane, loop.index);
  point(w, ph, 0);
  e->mask = NULL;
  msc_ir_loop_close(e, &loop, ph->carried);
}
