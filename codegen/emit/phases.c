/* phases.c: an item of a program, whose axes have positions, in; the code of its phases over the reduced axes, and of
 * the instructions before and after them, out. An instruction is computed once, in the outermost loop in which all axes
 * that it varies along have positions. */
#include "codegen/emit/walk.h"

static LLVMValueRef place_of_kept(msc_walk *w, int i) {
  msc_emit *e = &w->e;
  LLVMValueRef at = LLVMBuildAdd(e->b, e->axis[w->h->lane], msc_emit_int(e, e->lane_offset), "");
  return LLVMBuildInBoundsGEP2(e->b, msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, 1), w->kept[i], &at, 1, "");
}

/* Stores a kept value, in whole vectors even at the end of the row: there is room behind it. */
static void emit_kept(msc_walk *w, int i) {
  msc_emit *e = &w->e;
  if (w->phase == w->kept_from[i]) {
    msc_emit_instr(e, i);
    LLVMSetAlignment(LLVMBuildStore(e->b, e->value[i][0], place_of_kept(w, i)), 4);
  } else {
    e->value[i][0] =
        LLVMBuildLoad2(e->b, msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, w->h->lanes), place_of_kept(w, i), "");
    LLVMSetAlignment(e->value[i][0], 4);
  }
}

/* Returns the condition under which this thread stores a result; NULL: always. A value that all threads of a team hold
 * is stored by the first of them. */
static LLVMValueRef condition_to_store(const msc_walk *w, const msc_instr *in) {
  const msc_team *t = &w->team;
  bool own = t->size == 1 || (in->axes & msc_bit(w->h->team_axis));
  if (!msc_nest_writes(in) || (own && !t->active)) return NULL;
  if (own) return t->active;
  return t->active ? LLVMBuildAnd(w->e.b, t->first, t->active, "") : t->first;
}

static void emit_if(msc_walk *w, LLVMValueRef condition, int i) {
  msc_emit *e = &w->e;
  LLVMBasicBlockRef then = msc_ir_block(e), after = msc_ir_block(e);
  LLVMBuildCondBr(e->b, condition, then, after);
  LLVMPositionBuilderAtEnd(e->b, then);
  msc_emit_instr(e, i);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}

static void emit_copies(msc_walk *w, int i) {
  msc_emit *e = &w->e;
  bool varies = msc_emit_varies(e, i);
  int first = e->lane_offset;
  for (int u = 0; u < (varies ? w->copies : 1); u++) {
    e->copy = u;
    if (e->value[i][u]) continue;
    e->lane_offset = first + u * w->h->lanes;
    LLVMValueRef condition = condition_to_store(w, &e->p->instr[i]);
    if (w->kept[i]) emit_kept(w, i);
    else if (condition) emit_if(w, condition, i);
    else msc_emit_instr(e, i);
  }
  e->copy = 0, e->lane_offset = first;
}

/* Computes all instructions whose axes have positions. Results are stored after everything is loaded, since they may
 * lie on operands. */
void msc_walk_emit_ready(msc_walk *w, const bool *needed) {
  for (int roots = 0; roots < 2; roots++)
    for (int i = 1; i < w->h->num_instrs; i++) {
      const msc_instr *in = &w->e.p->instr[i];
      if (in->code == NEST_REDUCE || msc_nest_writes(in) != roots || (needed && !needed[i])) continue;
      if ((in->axes & (uint16_t)~w->bound) || in->level > w->level || (!needed && in->phase > w->phases_done)) continue;
      if (roots && !(w->bound & MSC_INSIDE_ITEMS)) continue; /* only inside the loops over items */
      emit_copies(w, i);
    }
}

/* ---- phases ---- */

/* Returns the phase in which a reduction is computed; a paired sum is computed in the phase of its maximum. */
static int phase_of(const msc_walk *w, int i) {
  return w->e.p->instr[msc_walk_is_paired_sum(w, i) ? w->partner[i] : i].phase;
}

static void find_phase(const msc_walk *w, int number, msc_phase *ph) {
  const msc_instr *instr = w->e.p->instr;
  memset(ph, 0, sizeof *ph);
  for (int i = w->h->num_instrs - 1; i > 0; i--) {
    const msc_instr *in = &instr[i];
    bool reduce = in->code == NEST_REDUCE && !in->level && phase_of(w, i) == number;
    bool root = msc_nest_has(in, NEST_ROOT) && (in->axes & w->h->reduced) && in->phase == number;
    if (reduce) ph->reduce[ph->num_reduces++] = i;
    if (root) ph->needed[i] = true;
    if ((!reduce && !ph->needed[i]) || (reduce && msc_walk_is_paired_sum(w, i)))
      continue; /* its maximum needs the same instructions */
    if (w->kept[i] && number > w->kept_from[i]) continue;
    for (int k = 0; k < 3; k++) /* unused arguments are 0: instruction 0 varies along no axis */
      if (instr[in->arg[k]].axes & w->h->reduced) ph->needed[in->arg[k]] = true;
    ph->weight += msc_nest_info_of(in)->size;
  }
}

/* Reserves stack memory for rows of values that more than one phase needs and that are expensive to compute again. */
void msc_walk_keep_rows(msc_walk *w) {
  msc_emit *e = &w->e;
  uint8_t needed_in[MSC_NEST_INSTRS] = {0}, first[MSC_NEST_INSTRS] = {0};
  msc_phase ph;
  if (!w->h->keeps_row || w->h->lanes == 1) return;
  for (int number = 1; number <= w->h->num_phases; number++) {
    find_phase(w, number, &ph);
    for (int i = 1; i < w->h->num_instrs; i++)
      if (ph.needed[i] && !needed_in[i]++) first[i] = (uint8_t)number;
  }
  for (int i = 1, num = 0; i < w->h->num_instrs && num < 4; i++) { /* 4 rows of f64: 264 KB of stack */
    if (needed_in[i] < 2 || msc_nest_info_of(&e->p->instr[i])->size < 10) continue;
    num++;
    w->kept[i] = LLVMBuildArrayAlloca(e->b, msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, 1),
                                      msc_emit_int(e, MSC_KEPT_ROW + 64), "");
    LLVMSetAlignment(w->kept[i], 64);
    w->kept_from[i] = first[i];
  }
}

static void start_phase(msc_walk *w, msc_phase *ph, int accumulators) {
  ph->accumulators = accumulators;
  for (int r = 0; r < ph->num_reduces; r++) {
    int i = ph->reduce[r];
    bool vector = !w->partner[i] && (msc_walk_reduces_lanes(w) || msc_emit_varies(&w->e, i));
    for (int u = 0; u < accumulators; u++)
      ph->carried[r * accumulators + u] = msc_walk_identity(w, i, vector ? w->h->lanes : 1);
  }
}

/* Emits the body at the present position. Reductions over lanes add it to accumulator `to`; for other reductions each
 * unrolled copy has its own accumulator. */
static void emit_point(msc_walk *w, msc_phase *ph, int to) {
  msc_emit *e = &w->e;
  msc_walk_emit_ready(w, ph->needed);
  for (int r = 0; r < ph->num_reduces; r++) {
    int i = ph->reduce[r], x = e->p->instr[i].arg[0];
    if (msc_walk_is_paired_sum(w, i)) msc_walk_add_to_pair(w, ph, i);
    if (w->partner[i]) continue;
    bool inside = msc_walk_reduces_lanes(w), varies = msc_emit_varies(e, i);
    for (int u = 0; u < (varies ? w->copies : 1); u++) {
      e->copy = u;
      LLVMValueRef v = msc_emit_get(e, x, inside || varies);
      if (inside) v = msc_emit_unmasked(e, v, msc_walk_identity(w, i, w->h->lanes));
      LLVMValueRef *acc = &ph->carried[r * ph->accumulators + (inside ? to : u)];
      *acc = msc_walk_combine(w, i, *acc, v);
    }
  }
  e->copy = 0;
}

/* Emits a row along a short lane axis of known size without a loop. */
static void emit_short_row(msc_walk *w, msc_phase *ph, int64_t size) {
  msc_emit *e = &w->e;
  for (int64_t at = 0; at < size; at += w->h->lanes) {
    LLVMValueRef k[64], bits = NULL;
    for (int i = 0; i < w->h->lanes; i++) k[i] = LLVMConstInt(LLVMInt1TypeInContext(e->l->llvm), at + i < size, false);
    if (at + w->h->lanes > size) bits = LLVMConstVector(k, (unsigned)w->h->lanes);
    e->mask = bits;
    msc_walk_bind(w, w->h->lane, msc_emit_int(e, at));
    emit_point(w, ph, 0);
    e->mask = NULL;
  }
}

/* Prefetches rows for a reduction down columns: each row lies on other cache lines and mostly on another page, so no
 * CPU prefetches it by itself. */
static void prefetch_rows(msc_walk *w, const msc_phase *ph, int axis) {
  enum { ROWS_AHEAD = 8 };
  for (int i = 1; i < w->h->num_instrs; i++) {
    const msc_instr *in = &w->e.p->instr[i];
    bool moves = (in->code == NEST_LOAD && !in->arg[0]) || in->code == NEST_STORE;
    if (ph->needed[i] && moves && in->at.coef[axis] && in->at.coef[w->h->lane] == 1)
      msc_emit_prefetch(&w->e, i, axis, ROWS_AHEAD, w->h->lanes * w->copies);
  }
}

/* Emits the loops of a reduced axis and of those inside it, from `from` to `to`, or over all of it when `to` is NULL. A
 * team shares one axis, in whole vectors. */
static void emit_reduced_loops(msc_walk *w, msc_phase *ph, int axis, LLVMValueRef from, LLVMValueRef to) {
  msc_emit *e = &w->e;
  msc_ir_loop loop;
  while (!(w->h->reduced >> axis & 1)) axis++;
  bool last = !(w->h->reduced >> (axis + 1)), vectors = last && msc_walk_reduces_lanes(w), team = w->team.size > 1;
  int64_t baked = to ? 0 : w->h->axis[axis].baked_size, step = vectors ? w->h->lanes : 1;
  if (!to) from = msc_emit_int(e, 0), to = msc_emit_size(e, axis);
  if (vectors && !team) {
    if (baked && baked * ph->weight <= 64 * w->h->lanes) emit_short_row(w, ph, baked);
    else msc_walk_emit_lanes(w, ph, from, to, msc_walk_choose_unroll(w, ph), emit_point);
    return;
  }
  if (team && axis == w->h->team_axis) {
    from = LLVMBuildAdd(e->b, from, LLVMBuildMul(e->b, w->team.rank, msc_emit_int(e, step), ""), "");
    step *= w->team.size;
  }
  msc_ir_loop_open(e, &loop, from, to, step, ph->num_reduces * ph->accumulators, ph->carried);
  msc_walk_bind(w, axis, loop.index);
  if (last) {
    if (w->copies > 1) prefetch_rows(w, ph, axis);
    emit_point(w, ph, 0);
  } else {
    msc_walk_emit_ready(w, ph->needed);
    emit_reduced_loops(w, ph, axis + 1, NULL, NULL);
  }
  msc_ir_loop_close(e, &loop, ph->carried);
}

static void sum_lanes(msc_walk *w, msc_phase *ph) {
  for (int r = 0; r < ph->num_reduces && msc_walk_reduces_lanes(w); r++)
    if (!w->partner[ph->reduce[r]])
      ph->carried[r] =
          msc_emit_horizontal(&w->e, msc_walk_kind(w, ph->reduce[r]), msc_walk_dtype(w, ph->reduce[r]), ph->carried[r]);
  msc_walk_join_pairs(w, ph);
  for (int r = 0; r < ph->num_reduces && w->team.size > 1; r++)
    if (!w->partner[ph->reduce[r]])
      ph->carried[r] =
          w->team.join(w, msc_walk_kind(w, ph->reduce[r]), msc_walk_dtype(w, ph->reduce[r]), ph->carried[r]);
}

/* ---- sums in blocks ---- */

/* The loop over blocks of reductions whose blocks are computed one after the other: accumulators[i] belongs to
 * reduction i / apart. */
typedef struct {
  msc_ir_loop loop;
  LLVMValueRef blocks, from, to, waiting[MAX_CARRIED], total[MAX_CARRIED];
  msc_walk *w;
  const msc_phase *ph;
  int num, apart;
} block_loop;

static LLVMValueRef combine_sums(msc_emit *e, const void *user, int i, LLVMValueRef a, LLVMValueRef b) {
  const block_loop *l = user;
  (void)e;
  return msc_walk_combine(l->w, l->ph->reduce[i / l->apart], a, b);
}

/* Begins the loop over blocks. `like`: values of the types that the sums of a block have. */
static void open_blocks(msc_walk *w, block_loop *l, uint8_t slot, int axis, const LLVMValueRef *like) {
  msc_emit *e = &w->e;
  l->blocks = slot < 2 ? msc_emit_int(e, slot) : e->dim[slot - 2];
  LLVMValueRef size = LLVMBuildUDiv(e->b, msc_emit_size(e, axis), l->blocks, "");
  for (int i = 0; i < l->num; i++)
    l->total[i] = like[i], l->waiting[i] = msc_ir_stack(e, LLVMTypeOf(like[i]), MSC_SUM_LEVELS);
  msc_ir_loop_open(e, &l->loop, msc_emit_int(e, 0), l->blocks, 1, l->num, l->total);
  l->from = LLVMBuildMul(e->b, l->loop.index, size, ""), l->to = LLVMBuildAdd(e->b, l->from, size, "");
}

static void close_blocks(msc_walk *w, block_loop *l, LLVMValueRef *sums) {
  msc_ir_fold(&w->e, l->loop.index, l->blocks, l->num, sums, l->waiting, combine_sums, l);
  msc_ir_loop_close(&w->e, &l->loop, sums);
}

static void emit_phase(msc_walk *w, msc_phase *ph) {
  int axis = __builtin_ctz(w->h->reduced), accumulators = msc_walk_reduces_lanes(w) ? 1 : w->copies;
  block_loop l = {.w = w, .ph = ph, .num = ph->num_reduces * accumulators, .apart = accumulators};
  LLVMValueRef like[MAX_CARRIED];
  start_phase(w, ph, accumulators);
  if (!w->h->blocks || !ph->num_reduces) {
    emit_reduced_loops(w, ph, axis, NULL, NULL);
    sum_lanes(w, ph);
    return;
  }
  for (int r = 0; r < ph->num_reduces; r++)
    for (int u = 0; u < accumulators; u++) {
      int i = ph->reduce[r];
      like[r * accumulators + u] =
          msc_walk_identity(w, i, !msc_walk_reduces_lanes(w) && msc_emit_varies(&w->e, i) ? w->h->lanes : 1);
    }
  open_blocks(w, &l, w->h->blocks, axis, like);
  emit_reduced_loops(w, ph, axis, l.from, l.to);
  sum_lanes(w, ph);
  close_blocks(w, &l, ph->carried);
}

static void end_phase(msc_walk *w, msc_phase *ph) {
  msc_emit *e = &w->e;
  for (int r = 0; r < ph->num_reduces; r++) {
    int i = ph->reduce[r];
    if (msc_walk_reduces_lanes(w)) e->value[i][0] = ph->carried[r];
    else
      for (int u = 0; u < (msc_emit_varies(e, i) ? w->copies : 1); u++)
        e->value[i][u] = ph->carried[r * ph->accumulators + u];
  }
}

/* True if nothing is left of the phase: its sums were paired with maxima of the one before. */
static bool is_empty(const msc_phase *ph) { return !ph->num_reduces && !ph->weight; }

static void emit_phases(msc_walk *w) {
  msc_phase ph;
  msc_walk_emit_ready(w, NULL);
  for (int number = 1; number <= w->h->num_phases; number++) {
    uint16_t outside = w->bound;
    w->phase = (uint8_t)number;
    find_phase(w, number, &ph);
    if (!is_empty(&ph)) emit_phase(w, &ph);
    w->bound = outside;
    end_phase(w, &ph);
    w->phases_done = (uint8_t)number;
    msc_walk_emit_ready(w, NULL);
  }
  w->phases_done = 0;
}

/* ---- the tail: reductions over the rows of one item ---- */

static void emit_tail_loops(msc_walk *w, msc_phase *tail, int axis, LLVMValueRef from, LLVMValueRef to) {
  msc_emit *e = &w->e;
  msc_ir_loop loop;
  while (!(w->h->tail >> axis & 1)) axis++;
  if (!to) from = msc_emit_int(e, 0), to = msc_emit_size(e, axis);
  msc_ir_loop_open(e, &loop, from, to, 1, tail->num_reduces * w->copies, tail->carried);
  msc_walk_bind(w, axis, loop.index);
  if (w->h->tail >> (axis + 1)) {
    emit_tail_loops(w, tail, axis + 1, NULL, NULL);
  } else {
    emit_phases(w);
    for (int r = 0; r < tail->num_reduces; r++) {
      int i = tail->reduce[r];
      for (int u = 0; u < (msc_emit_varies(e, i) ? w->copies : 1); u++) {
        LLVMValueRef *acc = &tail->carried[r * w->copies + u];
        e->copy = u;
        *acc = msc_walk_combine(w, i, *acc, msc_emit_get(e, e->p->instr[i].arg[0], msc_emit_varies(e, i)));
      }
      e->copy = 0;
    }
  }
  msc_ir_loop_close(e, &loop, tail->carried);
}

static void emit_tail(msc_walk *w, msc_phase *tail) {
  int axis = __builtin_ctz(w->h->tail);
  block_loop l = {.w = w, .ph = tail, .num = tail->num_reduces * w->copies, .apart = w->copies};
  for (int k = 0; k < l.num; k++) {
    int i = tail->reduce[k / w->copies];
    tail->carried[k] = msc_walk_identity(w, i, msc_emit_varies(&w->e, i) ? w->h->lanes : 1);
  }
  if (!w->h->tail_blocks || !tail->num_reduces) {
    emit_tail_loops(w, tail, axis, NULL, NULL);
    return;
  }
  open_blocks(w, &l, w->h->tail_blocks, axis, tail->carried);
  emit_tail_loops(w, tail, axis, l.from, l.to);
  close_blocks(w, &l, tail->carried);
}

/* Emits the whole of an item, whose axes have positions. */
void msc_walk_emit_item(msc_walk *w) {
  msc_phase tail = {0};
  uint16_t outside = w->bound;
  if (!w->h->tail) {
    emit_phases(w);
    return;
  }
  msc_walk_emit_ready(w, NULL);
  for (int i = 1; i < w->h->num_instrs; i++)
    if (w->e.p->instr[i].code == NEST_REDUCE && w->e.p->instr[i].level) tail.reduce[tail.num_reduces++] = i;
  emit_tail(w, &tail);
  w->bound = outside;
  for (int r = 0; r < tail.num_reduces; r++)
    for (int u = 0; u < w->copies; u++) w->e.value[tail.reduce[r]][u] = tail.carried[r * w->copies + u];
  w->level = 1, w->phases_done = UINT8_MAX;
  msc_walk_emit_ready(w, NULL);
  w->level = 0, w->phases_done = 0;
}
