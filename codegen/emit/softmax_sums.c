/* softmax_sums.c: a phase that finds the maximum m of a row in; the code that adds up exp(x - m) in the same run out. A
 * sum is kept relative to the largest element so far, and scaled when a larger one comes (Milakov and Gimelshein,
 * 2018). */
#include "codegen/emit/walk.h"

/* True for s = sum exp(x - m) with m = max x, both over a row of f32. */
static bool depends_on_maximum(const msc_walk *w, int s, uint16_t *out_m) {
  const msc_instr *instr = w->e.p->instr, *sum = &instr[s], *exp = &instr[sum->arg[0]], *less = &instr[exp->arg[0]];
  const msc_instr *m = &instr[less->arg[1]];
  *out_m = less->arg[1];
  return sum->code == NEST_REDUCE && msc_walk_kind(w, s) == MSC_SUM && !sum->level && sum->dtype == MSC_F32 &&
         exp->code == NEST_EXP && less->code == NEST_SUB && m->code == NEST_REDUCE &&
         msc_walk_kind(w, *out_m) == NEST_LOOSE_MAX && !m->level && m->arg[0] == less->arg[0] &&
         sum->phase == m->phase + 1 && !w->partner[*out_m];
}

/* Short rows are not paired: they stay in registers between two runs, which then cost less. */
void msc_walk_pair_sums(msc_walk *w) {
  enum { WARP = 32, KEPT_VECTORS = 4 };
  int64_t baked = w->h->team_axis >= 0 ? w->h->axis[w->h->team_axis].baked_size : 0;
  if (w->team.size <= WARP || (baked && baked <= (int64_t)KEPT_VECTORS * w->h->lanes * w->team.size)) return;
  for (int i = 1; i < w->h->num_instrs; i++) {
    uint16_t m;
    if (depends_on_maximum(w, i, &m)) w->partner[i] = m, w->partner[m] = (uint16_t)i;
  }
}

/* Returns what exponentials are taken relative to: the maximum m; 0 while there is none, so that exp(-inf - 0) is 0. */
static LLVMValueRef base_of(msc_walk *w, LLVMValueRef m) {
  LLVMValueRef least = msc_emit_identity(&w->e, NEST_LOOSE_MAX, MSC_F32, 1);
  LLVMValueRef none = LLVMBuildFCmp(w->e.b, LLVMRealOEQ, m, least, "");
  return LLVMBuildSelect(w->e.b, none, msc_ir_real(m, 0), m, "");
}

/* Makes a sum relative to the maximum m one relative to `base`: multiplies it by exp(m - base). */
static LLVMValueRef rescale_sum(msc_walk *w, LLVMValueRef sum, LLVMValueRef m, LLVMValueRef base) {
  return LLVMBuildFMul(w->e.b, sum, msc_nvvm_exp_of_term(&w->e, LLVMBuildFSub(w->e.b, m, base, "")), "");
}

/* Returns the accumulators of the phase's reduction that is instruction i. */
static LLVMValueRef *carried_by(msc_phase *ph, int i) {
  int r = 0;
  while (ph->reduce[r] != i) r++;
  return &ph->carried[r * ph->accumulators];
}

/* Adds the position's elements to paired sum i of the phase, and to its maximum. */
void msc_walk_add_to_pair(msc_walk *w, msc_phase *ph, int i) {
  msc_emit *e = &w->e;
  LLVMValueRef *m = carried_by(ph, w->partner[i]), *sum = carried_by(ph, i);
  bool inside = msc_walk_reduces_lanes(w);
  LLVMValueRef x = msc_emit_get(e, e->p->instr[w->partner[i]].arg[0], inside);
  if (inside) x = msc_emit_unmasked(e, x, msc_emit_identity(e, NEST_LOOSE_MAX, MSC_F32, w->h->lanes));
  LLVMValueRef top = inside ? msc_emit_horizontal(e, NEST_LOOSE_MAX, MSC_F32, x) : x;
  top = msc_emit_combine(e, NEST_LOOSE_MAX, MSC_F32, *m, top);
  LLVMValueRef base = base_of(w, top), all = inside ? msc_emit_splat(e, base, w->h->lanes) : base;
  LLVMValueRef terms = msc_nvvm_exp_of_term(e, LLVMBuildFSub(e->b, x, all, ""));
  if (inside) terms = msc_emit_horizontal(e, MSC_SUM, MSC_F32, terms);
  *sum = LLVMBuildFAdd(e->b, rescale_sum(w, *sum, *m, base), terms, "");
  *m = top;
}

/* Combines, over all threads of a team, the maxima and the sums that are relative to them. */
void msc_walk_join_pairs(msc_walk *w, msc_phase *ph) {
  for (int r = 0; r < ph->num_reduces; r++) {
    int i = ph->reduce[r];
    if (!msc_walk_is_paired_sum(w, i)) continue;
    LLVMValueRef *m = carried_by(ph, w->partner[i]), *sum = carried_by(ph, i);
    LLVMValueRef own = *m;
    *m = w->team.join(w, NEST_LOOSE_MAX, MSC_F32, own);
    *sum = w->team.join(w, MSC_SUM, MSC_F32, rescale_sum(w, *sum, own, base_of(w, *m)));
  }
}
