/* emit_cpu.c: a program in; a complete kernel for the CPU out: loops over items, phases over the reduced axes, vectors along
 * the lanes with a masked one at the end.
 * An instruction is computed in the outermost loop in which everything it varies along is known, once. */
#include "codegen/emit_ir.h"

typedef struct {
  msc_emit e;
  const msc_program_head *h;
  uint16_t bound;           /* axes whose position is known */
  int copies;               /* vectors side by side */
  uint8_t phases_done, level, phase;
  LLVMValueRef kept[MSC_NEST_INSTRS]; /* on the stack: a row of values that several phases need; NULL: computed in each */
  uint8_t kept_from[MSC_NEST_INSTRS]; /* the phase that computes them */
} walk;

/* One run through the reduced axes. */
typedef struct {
  int num_reduces, reduce[MAX_CARRIED];
  bool needed[MSC_NEST_INSTRS];
  int weight;               /* instructions per point */
  int accumulators;         /* per reduction */
  LLVMValueRef carried[MAX_CARRIED];
} phase;

static uint16_t bit(int axis) { return axis >= 0 ? (uint16_t)(1u << axis) : 0; }
static bool is_root(const msc_instr *in) { return in->code == NEST_STORE || in->code == NEST_SCATTER || in->code == NEST_FILL; }

static void forget(walk *w, uint16_t axes) {
  for (int i = 1; i < w->h->num_instrs; i++)
    for (int u = 0; u < MSC_COPIES && (w->e.p->instr[i].axes & axes); u++) w->e.value[i][u] = NULL;
}

/* What is computed before, at the new position, is no longer it. */
static void bind(walk *w, int axis, LLVMValueRef at) {
  w->e.axis[axis] = at;
  w->bound |= bit(axis);
  forget(w, bit(axis));
}

static LLVMValueRef kept_place(walk *w, int i) {
  msc_emit *e = &w->e;
  LLVMValueRef at = LLVMBuildAdd(e->b, e->axis[w->h->lane], msc_emit_int(e, e->lane_offset), "");
  return LLVMBuildInBoundsGEP2(e->b, msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, 1), w->kept[i], &at, 1, "");
}

/* Whole vectors, also at the end of the row: there is room behind it. */
static void emit_kept(walk *w, int i) {
  msc_emit *e = &w->e;
  if (w->phase == w->kept_from[i]) {
    msc_emit_instr(e, i);
    LLVMSetAlignment(LLVMBuildStore(e->b, e->value[i][0], kept_place(w, i)), 4);
  } else {
    e->value[i][0] = LLVMBuildLoad2(e->b, msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, w->h->lanes), kept_place(w, i), "");
    LLVMSetAlignment(e->value[i][0], 4);
  }
}

static void emit_copies(walk *w, int i) {
  msc_emit *e = &w->e;
  bool varies = msc_emit_varies(e, i);
  int first = e->lane_offset;
  for (int u = 0; u < (varies ? w->copies : 1); u++) {
    e->copy = u;
    if (e->value[i][u]) continue;
    e->lane_offset = first + u * w->h->lanes;
    if (w->kept[i]) emit_kept(w, i);
    else msc_emit_instr(e, i);
  }
  e->copy = 0, e->lane_offset = first;
}

/* All that can be computed now; results are stored after everything is loaded, because they may lie on operands. */
static void emit_ready(walk *w, const bool *needed) {
  for (int roots = 0; roots < 2; roots++)
    for (int i = 1; i < w->h->num_instrs; i++) {
      const msc_instr *in = &w->e.p->instr[i];
      if (in->code == NEST_REDUCE || is_root(in) != roots || (needed && !needed[i])) continue;
      if ((in->axes & (uint16_t)~w->bound) || in->level > w->level || (!needed && in->phase > w->phases_done)) continue;
      if (roots && !(w->bound & 0x8000)) continue; /* outside the items nothing is stored */
      emit_copies(w, i);
    }
}

/* ---- phases ---- */

/* Instructions it becomes, roughly. */
static int weight_of(const msc_instr *in) {
  switch (in->code) {
    case NEST_LOAD: return 0;
    case NEST_EXP: case NEST_LOG: case NEST_TANH: case NEST_ERF: case NEST_POW: case NEST_SIN: case NEST_COS: return 20;
    default: return 1;
  }
}

static void find_phase(const walk *w, int number, phase *ph) {
  const msc_instr *instr = w->e.p->instr;
  memset(ph, 0, sizeof *ph);
  for (int i = w->h->num_instrs - 1; i > 0; i--) {
    const msc_instr *in = &instr[i];
    bool reduce = in->code == NEST_REDUCE && !in->level && in->phase == number;
    bool root = (is_root(in) || in->code == NEST_CHECK) && (in->axes & w->h->reduced) && in->phase == number;
    if (reduce) ph->reduce[ph->num_reduces++] = i;
    if (root) ph->needed[i] = true;
    if (!reduce && !ph->needed[i]) continue;
    if (w->kept[i] && number > w->kept_from[i]) continue;
    for (int k = 0; k < 3; k++) /* some have gaps: instruction 0 varies along nothing */
      if (instr[in->arg[k]].axes & w->h->reduced) ph->needed[in->arg[k]] = true;
    ph->weight += weight_of(in);
  }
}

/* Room for rows of expensive values that more than one phase needs. */
static void keep_rows(walk *w) {
  msc_emit *e = &w->e;
  uint8_t needed_in[MSC_NEST_INSTRS] = {0}, first[MSC_NEST_INSTRS] = {0};
  phase ph;
  if (!w->h->keeps_row || w->h->lanes == 1) return;
  for (int number = 1; number <= w->h->num_phases; number++) {
    find_phase(w, number, &ph);
    for (int i = 1; i < w->h->num_instrs; i++)
      if (ph.needed[i] && !needed_in[i]++) first[i] = (uint8_t)number;
  }
  for (int i = 1, num = 0; i < w->h->num_instrs && num < 4; i++) { /* 4 rows of f64 are 67 KB of stack */
    if (needed_in[i] < 2 || weight_of(&e->p->instr[i]) < 10) continue;
    num++;
    w->kept[i] = LLVMBuildArrayAlloca(e->b, msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, 1), msc_emit_int(e, MSC_KEPT_ROW + 64), "");
    LLVMSetAlignment(w->kept[i], 64);
    w->kept_from[i] = first[i];
  }
}

static int kind_of(const walk *w, int i) { return w->e.p->instr[i].imm; }
static msc_dtype dtype_of(const walk *w, int i) { return (msc_dtype)w->e.p->instr[i].dtype; }

static bool lanes_reduced(const walk *w) { return w->h->lanes > 1 && (w->h->reduced & bit(w->h->lane)); }

static void start_phase(walk *w, phase *ph, int accumulators) {
  ph->accumulators = accumulators;
  for (int r = 0; r < ph->num_reduces; r++) {
    int i = ph->reduce[r];
    bool vector = lanes_reduced(w) || msc_emit_varies(&w->e, i);
    for (int u = 0; u < accumulators; u++) ph->carried[r * accumulators + u] = msc_emit_identity(&w->e, kind_of(w, i), dtype_of(w, i), vector ? w->h->lanes : 1);
  }
}

/* The body at the bound position; accumulator `to` takes it where lanes are reduced, else each copy has its own. */
static void emit_point(walk *w, phase *ph, int to) {
  msc_emit *e = &w->e;
  emit_ready(w, ph->needed);
  for (int r = 0; r < ph->num_reduces; r++) {
    int i = ph->reduce[r], x = e->p->instr[i].arg[0];
    bool inside = lanes_reduced(w), varies = msc_emit_varies(e, i);
    for (int u = 0; u < (varies ? w->copies : 1); u++) {
      e->copy = u;
      LLVMValueRef v = msc_emit_get(e, x, inside || varies);
      if (inside) v = msc_emit_unmasked(e, v, msc_emit_identity(e, kind_of(w, i), dtype_of(w, i), w->h->lanes));
      LLVMValueRef *acc = &ph->carried[r * ph->accumulators + (inside ? to : u)];
      *acc = msc_emit_combine(e, kind_of(w, i), dtype_of(w, i), *acc, v);
    }
  }
  e->copy = 0;
}

static LLVMValueRef mask_below(walk *w, LLVMValueRef first, LLVMValueRef to) {
  msc_emit *e = &w->e;
  /* 32-bit numbers compare in one vector as wide as the data's; what is left is cut to fit */
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->l->llvm);
  LLVMValueRef k[64];
  LLVMValueRef few = LLVMBuildSub(e->b, to, first, ""), most = msc_emit_int(e, w->h->lanes);
  few = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, few, most, ""), few, most, "");
  LLVMValueRef left = msc_emit_splat(e, LLVMBuildTrunc(e->b, few, i32, ""), w->h->lanes);
  for (int i = 0; i < w->h->lanes; i++) k[i] = LLVMConstInt(i32, (unsigned)i, false);
  return LLVMBuildICmp(e->b, LLVMIntSLT, LLVMConstVector(k, (unsigned)w->h->lanes), left, "");
}

/* From `from` on, in steps of whole vectors: the end of those, given `width` lanes per step. */
static LLVMValueRef whole_vectors(walk *w, LLVMValueRef from, LLVMValueRef to, int width) {
  msc_emit *e = &w->e;
  LLVMValueRef n = LLVMBuildAnd(e->b, LLVMBuildSub(e->b, to, from, ""), msc_emit_int(e, -width), "");
  return LLVMBuildAdd(e->b, from, n, "");
}

/* One accumulator per reduction becomes several, the new ones empty; and back. */
static void spread_accumulators(walk *w, phase *ph, int num) {
  for (int r = ph->num_reduces - 1; r >= 0; r--) {
    int i = ph->reduce[r];
    ph->carried[r * num] = ph->carried[r];
    for (int u = 1; u < num; u++) ph->carried[r * num + u] = msc_emit_identity(&w->e, kind_of(w, i), dtype_of(w, i), w->h->lanes);
  }
  ph->accumulators = num;
}

static void fold_accumulators(walk *w, phase *ph) {
  for (int r = 0; r < ph->num_reduces; r++) {
    LLVMValueRef *acc = &ph->carried[r * ph->accumulators];
    int i = ph->reduce[r];
    for (int num = ph->accumulators; num > 1; num /= 2)
      for (int u = 0; u < num / 2; u++) acc[u] = msc_emit_combine(&w->e, kind_of(w, i), dtype_of(w, i), acc[u], acc[u + num / 2]);
    ph->carried[r] = acc[0];
  }
  ph->accumulators = 1;
}

typedef void point_fn(walk *w, phase *ph, int to);

/* Vectors along the lane axis from `from` to `to`: `unroll` at a time, then one at a time under a mask. */
static void lane_loops(walk *w, phase *ph, LLVMValueRef from, LLVMValueRef to, int unroll, point_fn *point) {
  msc_emit *e = &w->e;
  ir_loop loop;
  int lane = w->h->lane, width = w->h->lanes * unroll;
  int64_t baked = w->h->axis[lane].baked_size;
  if (!baked || baked >= width) {
    LLVMValueRef end = whole_vectors(w, from, to, width);
    spread_accumulators(w, ph, unroll);
    ir_loop_open(e, &loop, from, end, width, ph->num_reduces * unroll, ph->carried);
    for (int u = 0; u < unroll; u++) {
      bind(w, lane, loop.index);
      e->lane_offset = u * w->h->lanes;
      point(w, ph, u);
    }
    e->lane_offset = 0;
    ir_loop_close(e, &loop, ph->carried);
    fold_accumulators(w, ph);
    from = end;
  }
  ir_loop_open(e, &loop, from, to, w->h->lanes, ph->num_reduces, ph->carried);
  e->mask = mask_below(w, loop.index, to);
  bind(w, lane, loop.index);
  point(w, ph, 0);
  e->mask = NULL;
  ir_loop_close(e, &loop, ph->carried);
}

/* A short lane axis of known size: no loop at all. */
static void lane_row(walk *w, phase *ph, int64_t size) {
  msc_emit *e = &w->e;
  for (int64_t at = 0; at < size; at += w->h->lanes) {
    LLVMValueRef k[64], bits = NULL;
    for (int i = 0; i < w->h->lanes; i++) k[i] = LLVMConstInt(LLVMInt1TypeInContext(e->l->llvm), at + i < size, false);
    if (at + w->h->lanes > size) bits = LLVMConstVector(k, (unsigned)w->h->lanes);
    e->mask = bits;
    bind(w, w->h->lane, msc_emit_int(e, at));
    emit_point(w, ph, 0);
    e->mask = NULL;
  }
}

static int unroll_for(const phase *ph) { return ph->weight <= 4 ? 4 : ph->weight <= 8 ? 2 : 1; }

static void reduced_loops(walk *w, phase *ph, int axis) {
  msc_emit *e = &w->e;
  ir_loop loop;
  while (!(w->h->reduced >> axis & 1)) axis++;
  bool last = !(w->h->reduced >> (axis + 1));
  if (last && lanes_reduced(w)) {
    int64_t baked = w->h->axis[axis].baked_size;
    if (baked && baked * ph->weight <= 64 * w->h->lanes) lane_row(w, ph, baked);
    else lane_loops(w, ph, msc_emit_int(e, 0), msc_emit_size(e, axis), unroll_for(ph), emit_point);
    return;
  }
  ir_loop_open(e, &loop, msc_emit_int(e, 0), msc_emit_size(e, axis), 1, ph->num_reduces * ph->accumulators, ph->carried);
  bind(w, axis, loop.index);
  if (last) {
    emit_point(w, ph, 0);
  } else {
    emit_ready(w, ph->needed);
    reduced_loops(w, ph, axis + 1);
  }
  ir_loop_close(e, &loop, ph->carried);
}

static void end_phase(walk *w, phase *ph) {
  msc_emit *e = &w->e;
  for (int r = 0; r < ph->num_reduces; r++) {
    int i = ph->reduce[r];
    if (lanes_reduced(w)) e->value[i][0] = msc_emit_horizontal(e, kind_of(w, i), dtype_of(w, i), ph->carried[r]);
    else
      for (int u = 0; u < (msc_emit_varies(e, i) ? w->copies : 1); u++) e->value[i][u] = ph->carried[r * ph->accumulators + u];
  }
}

static void emit_phases(walk *w) {
  phase ph;
  emit_ready(w, NULL);
  for (int number = 1; number <= w->h->num_phases; number++) {
    uint16_t outside = w->bound;
    w->phase = (uint8_t)number;
    find_phase(w, number, &ph);
    start_phase(w, &ph, lanes_reduced(w) ? 1 : w->copies);
    reduced_loops(w, &ph, 0);
    w->bound = outside;
    end_phase(w, &ph);
    w->phases_done = (uint8_t)number;
    emit_ready(w, NULL);
  }
  w->phases_done = 0;
}

/* ---- the tail: reductions over the rows of one item ---- */

static void tail_loops(walk *w, phase *tail, int axis) {
  msc_emit *e = &w->e;
  ir_loop loop;
  while (!(w->h->tail >> axis & 1)) axis++;
  ir_loop_open(e, &loop, msc_emit_int(e, 0), msc_emit_size(e, axis), 1, tail->num_reduces * w->copies, tail->carried);
  bind(w, axis, loop.index);
  if (w->h->tail >> (axis + 1)) {
    tail_loops(w, tail, axis + 1);
  } else {
    emit_phases(w);
    for (int r = 0; r < tail->num_reduces; r++) {
      int i = tail->reduce[r];
      for (int u = 0; u < (msc_emit_varies(e, i) ? w->copies : 1); u++) {
        LLVMValueRef *acc = &tail->carried[r * w->copies + u];
        e->copy = u;
        *acc = msc_emit_combine(e, kind_of(w, i), dtype_of(w, i), *acc, msc_emit_get(e, e->p->instr[i].arg[0], msc_emit_varies(e, i)));
      }
      e->copy = 0;
    }
  }
  ir_loop_close(e, &loop, tail->carried);
}

/* Everything of one item, whose axes are bound. */
static void emit_item(walk *w) {
  phase tail = {0};
  uint16_t outside = w->bound;
  if (!w->h->tail) {
    emit_phases(w);
    return;
  }
  emit_ready(w, NULL);
  for (int i = 1; i < w->h->num_instrs; i++) {
    if (w->e.p->instr[i].code != NEST_REDUCE || !w->e.p->instr[i].level) continue;
    for (int u = 0; u < w->copies; u++)
      tail.carried[tail.num_reduces * w->copies + u] = msc_emit_identity(&w->e, kind_of(w, i), dtype_of(w, i), msc_emit_varies(&w->e, i) ? w->h->lanes : 1);
    tail.reduce[tail.num_reduces++] = i;
  }
  tail_loops(w, &tail, 0);
  w->bound = outside;
  for (int r = 0; r < tail.num_reduces; r++)
    for (int u = 0; u < w->copies; u++) w->e.value[tail.reduce[r]][u] = tail.carried[r * w->copies + u];
  w->level = 1, w->phases_done = UINT8_MAX;
  emit_ready(w, NULL);
  w->level = 0, w->phases_done = 0;
}

/* ---- items ---- */

/* Positions of the axes from one number, innermost last. */
static void bind_items(walk *w, LLVMValueRef number, uint16_t axes) {
  msc_emit *e = &w->e;
  for (int a = w->h->num_axes - 1; a >= 0; a--) {
    if (!(axes >> a & 1)) continue;
    if (!(axes & (bit(a) - 1))) {
      bind(w, a, number);
      return;
    }
    LLVMValueRef size = msc_emit_size(e, a), rest = LLVMBuildUDiv(e->b, number, size, "");
    bind(w, a, LLVMBuildSub(e->b, number, LLVMBuildMul(e->b, rest, size, ""), ""));
    number = rest;
  }
}

static void map_point(walk *w, phase *ph, int to) {
  (void)ph, (void)to; /* nothing is reduced */
  emit_ready(w, NULL);
}

static void map_row(walk *w, int last, LLVMValueRef from, LLVMValueRef to) {
  msc_emit *e = &w->e;
  ir_loop loop;
  phase none = {0};
  uint16_t outside = w->bound;
  if (w->h->lanes > 1) {
    lane_loops(w, &none, from, to, 1, map_point);
  } else {
    ir_loop_open(e, &loop, from, to, 1, 0, NULL);
    bind(w, last, loop.index);
    map_point(w, NULL, 0);
    ir_loop_close(e, &loop, NULL);
  }
  w->bound = outside;
}

/* Elements [begin, end), row by row: the first and last row may be parts. */
static void emit_map(walk *w, LLVMValueRef begin, LLVMValueRef end) {
  msc_emit *e = &w->e;
  int last = w->h->num_axes - 1;
  ir_loop loop;
  if (w->h->num_axes == 1) {
    map_row(w, last, begin, end);
    return;
  }
  if (w->h->num_axes == 0) {
    ir_loop_open(e, &loop, begin, end, 1, 0, NULL);
    emit_ready(w, NULL);
    ir_loop_close(e, &loop, NULL);
    return;
  }
  LLVMValueRef size = msc_emit_size(e, last), one = msc_emit_int(e, 1);
  LLVMValueRef first = LLVMBuildUDiv(e->b, begin, size, "");
  LLVMValueRef rows = LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, LLVMBuildAdd(e->b, end, size, ""), one, ""), size, "");
  ir_loop_open(e, &loop, first, rows, 1, 0, NULL);
  LLVMValueRef start = LLVMBuildMul(e->b, loop.index, size, ""), from = LLVMBuildSub(e->b, begin, start, ""), to = LLVMBuildSub(e->b, end, start, ""), zero = msc_emit_int(e, 0);
  from = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, from, zero, ""), from, zero, "");
  to = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, to, size, ""), to, size, "");
  bind_items(w, loop.index, w->h->items & (uint16_t)~bit(last));
  emit_ready(w, NULL);
  map_row(w, last, from, to);
  ir_loop_close(e, &loop, NULL);
}

/* The lanes of an item: a whole block side by side, or what is left of the axis, vector by vector. */
static void emit_block(walk *w, LLVMValueRef first) {
  msc_emit *e = &w->e;
  int lane = w->h->lane, width = w->h->lanes * MSC_COLUMN_VECTORS;
  LLVMValueRef size = msc_emit_size(e, lane), end = LLVMBuildAdd(e->b, first, msc_emit_int(e, width), "");
  LLVMBasicBlockRef whole = ir_block(e), rest = ir_block(e), after = ir_block(e);
  uint16_t outside = w->bound;
  ir_loop loop;
  emit_ready(w, NULL); /* what both branches share */
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLE, end, size, ""), whole, rest);
  LLVMPositionBuilderAtEnd(e->b, whole);
  if (!w->h->axis[lane].baked_size || w->h->axis[lane].baked_size >= width) {
    w->copies = MSC_COLUMN_VECTORS;
    bind(w, lane, first);
    emit_item(w);
    w->bound = outside, w->copies = 1;
  }
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, rest);
  ir_loop_open(e, &loop, first, size, w->h->lanes, 0, NULL);
  e->mask = mask_below(w, loop.index, size);
  bind(w, lane, loop.index);
  emit_item(w);
  e->mask = NULL, w->bound = outside;
  ir_loop_close(e, &loop, NULL);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}

/* ---- transposes ---- */

/* Is it contiguous along the other axis? */
static bool is_turned(const walk *w, int i) {
  const msc_instr *in = &w->e.p->instr[i];
  return in->code == NEST_LOAD && in->at.coef[w->h->across] == 1 && in->at.coef[w->h->lane] > 1;
}

/* Rows become columns: in step s, blocks of s elements change places between vectors s apart. */
static void turn(walk *w, LLVMValueRef *v) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(w->e.l->llvm);
  int num = w->h->lanes;
  for (int s = 1; s < num; s *= 2)
    for (int i = 0; i < num; i++) {
      LLVMValueRef low[64], high[64], a = v[i], b = v[i + s < num ? i + s : i];
      if (i & s) continue;
      for (int k = 0; k < num; k++) {
        low[k] = LLVMConstInt(i32, (unsigned)(k & s ? num + k - s : k), false);
        high[k] = LLVMConstInt(i32, (unsigned)(k & s ? num + k : k + s), false);
      }
      v[i] = LLVMBuildShuffleVector(w->e.b, a, b, LLVMConstVector(low, (unsigned)num), "");
      v[i + s] = LLVMBuildShuffleVector(w->e.b, a, b, LLVMConstVector(high, (unsigned)num), "");
    }
}

/* A square of lanes x lanes elements at (row, column) by way of the stack: `tile` has one for each turned load. */
static void emit_square(walk *w, LLVMValueRef row, LLVMValueRef column, LLVMValueRef *tile) {
  msc_emit *e = &w->e;
  int num = w->h->lanes;
  ir_loop loop;
  LLVMTypeRef vector[MSC_NEST_INSTRS] = {0};
  bind(w, w->h->across, row);
  bind(w, w->h->lane, column);
  for (int i = 1; i < w->h->num_instrs; i++) {
    LLVMValueRef v[64] = {0};
    if (!is_turned(w, i)) continue;
    for (int k = 0; k < num; k++) {
      e->axis[w->h->lane] = LLVMBuildAdd(e->b, column, msc_emit_int(e, k), "");
      v[k] = msc_emit_load_run(e, i);
    }
    turn(w, v);
    vector[i] = LLVMTypeOf(v[0]);
    for (int k = 0; k < num; k++) {
      LLVMValueRef at = msc_emit_int(e, k);
      LLVMBuildStore(e->b, v[k], LLVMBuildInBoundsGEP2(e->b, vector[i], tile[i], &at, 1, ""));
    }
  }
  ir_loop_open(e, &loop, msc_emit_int(e, 0), msc_emit_int(e, num), 1, 0, NULL);
  bind(w, w->h->across, LLVMBuildAdd(e->b, row, loop.index, ""));
  bind(w, w->h->lane, column);
  for (int i = 1; i < w->h->num_instrs; i++)
    if (is_turned(w, i)) e->value[i][0] = LLVMBuildLoad2(e->b, vector[i], LLVMBuildInBoundsGEP2(e->b, vector[i], tile[i], &loop.index, 1, ""), "");
  emit_ready(w, NULL);
  ir_loop_close(e, &loop, NULL);
}

/* Rows [from, to): squares as far as they go, then the rest of each row. */
static void emit_rows(walk *w, LLVMValueRef from, LLVMValueRef to, LLVMValueRef *tile) {
  msc_emit *e = &w->e;
  ir_loop columns, rows;
  int num = w->h->lanes;
  uint16_t outside = w->bound;
  LLVMValueRef zero = msc_emit_int(e, 0), size = msc_emit_size(e, w->h->lane);
  LLVMValueRef whole_rows = whole_vectors(w, from, to, num), whole_columns = whole_vectors(w, zero, size, num);
  emit_ready(w, NULL);
  ir_loop_open(e, &columns, zero, whole_columns, num, 0, NULL);
  ir_loop_open(e, &rows, from, whole_rows, num, 0, NULL);
  emit_square(w, rows.index, columns.index, tile);
  w->bound = outside;
  ir_loop_close(e, &rows, NULL);
  ir_loop_close(e, &columns, NULL);
  ir_loop_open(e, &rows, from, to, 1, 0, NULL);
  bind(w, w->h->across, rows.index);
  emit_ready(w, NULL);
  LLVMValueRef in_squares = LLVMBuildICmp(e->b, LLVMIntSLT, rows.index, whole_rows, "");
  map_row(w, w->h->lane, LLVMBuildSelect(e->b, in_squares, whole_columns, zero, ""), size);
  w->bound = outside;
  ir_loop_close(e, &rows, NULL);
}

static void emit_turned(walk *w, LLVMValueRef begin, LLVMValueRef end) {
  msc_emit *e = &w->e;
  ir_loop loop;
  LLVMValueRef tile[MSC_NEST_INSTRS] = {0}, height = msc_emit_int(e, MSC_TRANSPOSE_ROWS), size = msc_emit_size(e, w->h->across);
  for (int i = 1; i < w->h->num_instrs; i++)
    if (is_turned(w, i)) tile[i] = LLVMBuildArrayAlloca(e->b, msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, w->h->lanes), msc_emit_int(e, w->h->lanes), "");
  ir_loop_open(e, &loop, begin, end, 1, 0, NULL);
  LLVMValueRef num = LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, size, msc_emit_int(e, MSC_TRANSPOSE_ROWS - 1), ""), height, "");
  LLVMValueRef outer = LLVMBuildUDiv(e->b, loop.index, num, ""), block = LLVMBuildSub(e->b, loop.index, LLVMBuildMul(e->b, outer, num, ""), "");
  bind_items(w, outer, w->h->items & (uint16_t)~(bit(w->h->lane) | bit(w->h->across)));
  LLVMValueRef from = LLVMBuildMul(e->b, block, height, ""), to = LLVMBuildAdd(e->b, from, height, "");
  to = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, to, size, ""), to, size, "");
  emit_rows(w, from, to, tile);
  ir_loop_close(e, &loop, NULL);
}

static void emit_items(walk *w, LLVMValueRef begin, LLVMValueRef end) {
  msc_emit *e = &w->e;
  ir_loop loop;
  bool blocks = w->h->lanes > 1 && (w->h->items & bit(w->h->lane));
  ir_loop_open(e, &loop, begin, end, 1, 0, NULL);
  if (!blocks) {
    bind_items(w, loop.index, w->h->items);
    emit_item(w);
  } else {
    int64_t width = w->h->lanes * MSC_COLUMN_VECTORS;
    LLVMValueRef size = msc_emit_size(e, w->h->lane), number = loop.index;
    LLVMValueRef num = LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, size, msc_emit_int(e, width - 1), ""), msc_emit_int(e, width), "");
    LLVMValueRef outer = LLVMBuildUDiv(e->b, number, num, ""), block = LLVMBuildSub(e->b, number, LLVMBuildMul(e->b, outer, num, ""), "");
    bind_items(w, outer, w->h->items & (uint16_t)~bit(w->h->lane));
    emit_block(w, LLVMBuildMul(e->b, block, msc_emit_int(e, width), ""));
  }
  ir_loop_close(e, &loop, NULL);
}

/* ---- the function ---- */

static LLVMValueRef element_of(msc_emit *e, LLVMTypeRef type, LLVMValueRef array, int i) {
  LLVMValueRef at = msc_emit_int(e, i);
  return LLVMBuildLoad2(e->b, type, LLVMBuildInBoundsGEP2(e->b, type, array, &at, 1, ""), "");
}

static LLVMValueRef stack_place(msc_emit *e) {
  LLVMTypeRef bytes = LLVMVectorType(LLVMInt64TypeInContext(e->l->llvm), 8);
  LLVMValueRef p = LLVMBuildAlloca(e->b, bytes, "");
  LLVMSetAlignment(p, 64);
  LLVMSetAlignment(LLVMBuildStore(e->b, LLVMConstNull(bytes), p), 64);
  return p;
}

/* Do unwanted lanes need a place to go? */
static bool needs_spare(const msc_program *p) {
  for (int i = 1; i < p->head.num_instrs; i++) {
    const msc_instr *in = &p->instr[i];
    if (in->code == NEST_SCATTER || (in->code == NEST_LOAD && (in->arg[0] || in->arg[1]))) return true;
    if (in->code != NEST_LOAD && in->code != NEST_STORE && in->code != NEST_FILL) continue;
    if (msc_dtype_bytes(p->head.buffer[in->buffer].dtype == MSC_NUM_DTYPES ? in->dtype : p->head.buffer[in->buffer].dtype) < 4) return true;
    if (p->head.lane >= 0 && in->at.coef[p->head.lane] > 1) return true;
  }
  return false;
}

static void read_arguments(walk *w, LLVMValueRef fn) {
  msc_emit *e = &w->e;
  LLVMTypeRef p = LLVMPointerTypeInContext(e->l->llvm, 0), i64 = LLVMInt64TypeInContext(e->l->llvm);
  for (int i = 0; i < w->h->num_buffers; i++) e->buffer[i] = element_of(e, p, LLVMGetParam(fn, 0), i);
  for (int i = 0; i < w->h->num_dims; i++) e->dim[i] = element_of(e, i64, LLVMGetParam(fn, 3), i);
  e->scalars = LLVMGetParam(fn, 4);
  if (needs_spare(e->p)) e->spare = stack_place(e), e->sink = stack_place(e);
}

void msc_emit_cpu(msc_llvm *l, const msc_program *p, LLVMValueRef fn) {
  walk w = {.e = {.l = l, .b = l->builder, .fn = fn, .p = p}, .h = &p->head, .copies = 1};
  LLVMValueRef begin = LLVMGetParam(fn, 1), end = LLVMGetParam(fn, 2);
  LLVMPositionBuilderAtEnd(l->builder, ir_block(&w.e));
  read_arguments(&w, fn);
  keep_rows(&w);
  emit_ready(&w, NULL);
  w.bound = 0x8000; /* not an axis: inside the items */
  if (p->head.kind == MSC_NEST_MAP) emit_map(&w, begin, end);
  else if (p->head.kind == MSC_NEST_TRANSPOSE) emit_turned(&w, begin, end);
  else emit_items(&w, begin, end);
  LLVMBuildRetVoid(l->builder);
}
