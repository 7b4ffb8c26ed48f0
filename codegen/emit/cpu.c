/* cpu.c: a program in; a complete kernel for the CPU out: loops over items around the phases of emit/phases.c, vectors
 * along the lanes with a masked one at the end. */
#include "codegen/emit/walk.h"

/* ---- items ---- */

static void map_point(msc_walk *w, msc_phase *ph, int to) {
  (void)ph, (void)to; /* nothing is reduced */
  msc_walk_emit_ready(w, NULL);
}

static void map_row(msc_walk *w, int last, LLVMValueRef from, LLVMValueRef to) {
  msc_emit *e = &w->e;
  msc_ir_loop loop;
  msc_phase none = {0};
  uint16_t outside = w->bound;
  if (w->h->lanes > 1) {
    msc_walk_emit_lanes(w, &none, from, to, 1, map_point);
  } else {
    msc_ir_loop_open(e, &loop, from, to, 1, 0, NULL);
    msc_walk_bind(w, last, loop.index);
    map_point(w, NULL, 0);
    msc_ir_loop_close(e, &loop, NULL);
  }
  w->bound = outside;
}

/* True if a row is a few whole vectors of a short body: as fast without a loop over them. */
static bool has_short_rows(const msc_walk *w) {
  enum { SHORT_BODY = 16, FEW_VECTORS = 8 };
  int64_t size = w->h->lane >= 0 ? w->h->axis[w->h->lane].baked_size : 0;
  return w->h->lanes > 1 && size && size % w->h->lanes == 0 && size / w->h->lanes <= FEW_VECTORS &&
         w->h->num_instrs <= SHORT_BODY;
}

/* Emits a row that may be whole, all vectors of which then follow each other: while one of them waits for memory, as
 * rows that are looked up do, the processor is some rows ahead. */
static void map_short_row(msc_walk *w, int last, LLVMValueRef from, LLVMValueRef to) {
  msc_emit *e = &w->e;
  int64_t size = w->h->axis[last].baked_size;
  uint16_t outside = w->bound;
  LLVMBasicBlockRef whole = msc_ir_block(e), part = msc_ir_block(e), after = msc_ir_block(e);
  LLVMValueRef num = LLVMBuildSub(e->b, to, from, "");
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, num, msc_emit_int(e, size), ""), whole, part);
  LLVMPositionBuilderAtEnd(e->b, whole);
  for (int64_t at = 0; at < size; at += w->h->lanes) {
    msc_walk_bind(w, last, msc_emit_int(e, at));
    map_point(w, NULL, 0);
    w->bound = outside;
  }
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, part);
  map_row(w, last, from, to);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}

/* Emits loops over elements [begin, end), row by row; the first and the last row may be incomplete. */
static void emit_element_loops(msc_walk *w, LLVMValueRef begin, LLVMValueRef end) {
  msc_emit *e = &w->e;
  int last = w->h->num_axes - 1;
  msc_ir_loop loop;
  if (w->h->num_axes == 1) {
    map_row(w, last, begin, end);
    return;
  }
  if (w->h->num_axes == 0) {
    msc_ir_loop_open(e, &loop, begin, end, 1, 0, NULL);
    msc_walk_emit_ready(w, NULL);
    msc_ir_loop_close(e, &loop, NULL);
    return;
  }
  LLVMValueRef size = msc_emit_size(e, last), one = msc_emit_int(e, 1);
  LLVMValueRef first = LLVMBuildUDiv(e->b, begin, size, "");
  LLVMValueRef rows = LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, LLVMBuildAdd(e->b, end, size, ""), one, ""), size, "");
  msc_ir_loop_open(e, &loop, first, rows, 1, 0, NULL);
  LLVMValueRef start = LLVMBuildMul(e->b, loop.index, size, ""), from = LLVMBuildSub(e->b, begin, start, ""),
               to = LLVMBuildSub(e->b, end, start, ""), zero = msc_emit_int(e, 0);
  from = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, from, zero, ""), from, zero, "");
  to = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, to, size, ""), to, size, "");
  msc_walk_bind_items(w, loop.index, w->h->items & (uint16_t)~msc_bit(last));
  msc_walk_emit_ready(w, NULL);
  (has_short_rows(w) ? map_short_row : map_row)(w, last, from, to);
  msc_ir_loop_close(e, &loop, NULL);
}

/* Emits the lanes of an item: a whole block of vectors at once, or what is left of the axis, vector by vector. */
static void emit_block(msc_walk *w, LLVMValueRef first) {
  msc_emit *e = &w->e;
  int lane = w->h->lane, width = w->h->lanes * MSC_COLUMN_VECTORS;
  LLVMValueRef size = msc_emit_size(e, lane), end = LLVMBuildAdd(e->b, first, msc_emit_int(e, width), "");
  LLVMBasicBlockRef whole = msc_ir_block(e), rest = msc_ir_block(e), after = msc_ir_block(e);
  uint16_t outside = w->bound;
  msc_ir_loop loop;
  msc_walk_emit_ready(w, NULL); /* emits what both branches use */
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLE, end, size, ""), whole, rest);
  LLVMPositionBuilderAtEnd(e->b, whole);
  if (!w->h->axis[lane].baked_size || w->h->axis[lane].baked_size >= width) {
    w->copies = MSC_COLUMN_VECTORS;
    msc_walk_bind(w, lane, first);
    msc_walk_emit_item(w);
    w->bound = outside, w->copies = 1;
  }
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, rest);
  msc_ir_loop_open(e, &loop, first, size, w->h->lanes, 0, NULL);
  e->mask = msc_walk_mask(w, loop.index, size);
  msc_walk_bind(w, lane, loop.index);
  msc_walk_emit_item(w);
  e->mask = NULL, w->bound = outside;
  msc_ir_loop_close(e, &loop, NULL);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}

/* ---- transposes ---- */

/* Emits the square of lanes x lanes elements at (row, column). It is transposed by way of the stack: `tile` points to
 * stack memory for each load that is transposed. */
static void emit_square(msc_walk *w, LLVMValueRef row, LLVMValueRef column, LLVMValueRef *tile) {
  msc_emit *e = &w->e;
  int num = w->h->lanes;
  msc_ir_loop loop;
  LLVMTypeRef vector[MSC_NEST_INSTRS] = {0};
  msc_walk_bind(w, w->h->across, row);
  msc_walk_bind(w, w->h->lane, column);
  for (int i = 1; i < w->h->num_instrs; i++) {
    LLVMValueRef v[64] = {0};
    if (!msc_walk_is_transposed(w, i)) continue;
    for (int k = 0; k < num; k++) {
      e->axis[w->h->lane] = LLVMBuildAdd(e->b, column, msc_emit_int(e, k), "");
      v[k] = msc_emit_load_run(e, i);
    }
    msc_ir_transpose_square(e, num, v);
    vector[i] = LLVMTypeOf(v[0]);
    for (int k = 0; k < num; k++) {
      LLVMValueRef at = msc_emit_int(e, k);
      LLVMBuildStore(e->b, v[k], LLVMBuildInBoundsGEP2(e->b, vector[i], tile[i], &at, 1, ""));
    }
  }
  msc_ir_loop_open(e, &loop, msc_emit_int(e, 0), msc_emit_int(e, num), 1, 0, NULL);
  msc_walk_bind(w, w->h->across, LLVMBuildAdd(e->b, row, loop.index, ""));
  msc_walk_bind(w, w->h->lane, column);
  for (int i = 1; i < w->h->num_instrs; i++)
    if (msc_walk_is_transposed(w, i))
      e->value[i][0] =
          LLVMBuildLoad2(e->b, vector[i], LLVMBuildInBoundsGEP2(e->b, vector[i], tile[i], &loop.index, 1, ""), "");
  msc_walk_emit_ready(w, NULL);
  msc_ir_loop_close(e, &loop, NULL);
}

/* Emits rows [from, to): squares as far as they fit, then the rest of each row. */
static void emit_row_squares(msc_walk *w, LLVMValueRef from, LLVMValueRef to, LLVMValueRef *tile) {
  msc_emit *e = &w->e;
  msc_ir_loop columns, rows;
  int num = w->h->lanes;
  uint16_t outside = w->bound;
  LLVMValueRef zero = msc_emit_int(e, 0), size = msc_emit_size(e, w->h->lane);
  LLVMValueRef whole_rows = msc_walk_whole_end(w, from, to, num),
               whole_columns = msc_walk_whole_end(w, zero, size, num);
  msc_walk_emit_ready(w, NULL);
  msc_ir_loop_open(e, &columns, zero, whole_columns, num, 0, NULL);
  msc_ir_loop_open(e, &rows, from, whole_rows, num, 0, NULL);
  emit_square(w, rows.index, columns.index, tile);
  w->bound = outside;
  msc_ir_loop_close(e, &rows, NULL);
  msc_ir_loop_close(e, &columns, NULL);
  msc_ir_loop_open(e, &rows, from, to, 1, 0, NULL);
  msc_walk_bind(w, w->h->across, rows.index);
  msc_walk_emit_ready(w, NULL);
  LLVMValueRef in_squares = LLVMBuildICmp(e->b, LLVMIntSLT, rows.index, whole_rows, "");
  map_row(w, w->h->lane, LLVMBuildSelect(e->b, in_squares, whole_columns, zero, ""), size);
  w->bound = outside;
  msc_ir_loop_close(e, &rows, NULL);
}

static void emit_transposed(msc_walk *w, LLVMValueRef begin, LLVMValueRef end) {
  msc_emit *e = &w->e;
  msc_ir_loop loop;
  LLVMValueRef tile[MSC_NEST_INSTRS] = {0}, height = msc_emit_int(e, MSC_TRANSPOSE_ROWS),
               size = msc_emit_size(e, w->h->across);
  for (int i = 1; i < w->h->num_instrs; i++)
    if (msc_walk_is_transposed(w, i))
      tile[i] = LLVMBuildArrayAlloca(e->b, msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, w->h->lanes),
                                     msc_emit_int(e, w->h->lanes), "");
  msc_ir_loop_open(e, &loop, begin, end, 1, 0, NULL);
  LLVMValueRef num =
      LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, size, msc_emit_int(e, MSC_TRANSPOSE_ROWS - 1), ""), height, "");
  LLVMValueRef outer = LLVMBuildUDiv(e->b, loop.index, num, ""),
               block = LLVMBuildSub(e->b, loop.index, LLVMBuildMul(e->b, outer, num, ""), "");
  msc_walk_bind_items(w, outer, w->h->items & (uint16_t)~(msc_bit(w->h->lane) | msc_bit(w->h->across)));
  LLVMValueRef from = LLVMBuildMul(e->b, block, height, ""), to = LLVMBuildAdd(e->b, from, height, "");
  to = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, to, size, ""), to, size, "");
  emit_row_squares(w, from, to, tile);
  msc_ir_loop_close(e, &loop, NULL);
}

static void emit_items(msc_walk *w, LLVMValueRef begin, LLVMValueRef end) {
  msc_emit *e = &w->e;
  msc_ir_loop loop;
  bool blocks = w->h->lanes > 1 && (w->h->items & msc_bit(w->h->lane));
  msc_ir_loop_open(e, &loop, begin, end, 1, 0, NULL);
  if (!blocks) {
    msc_walk_bind_items(w, loop.index, w->h->items);
    msc_walk_emit_item(w);
  } else {
    int64_t width = w->h->lanes * MSC_COLUMN_VECTORS;
    LLVMValueRef size = msc_emit_size(e, w->h->lane), number = loop.index;
    LLVMValueRef num =
        LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, size, msc_emit_int(e, width - 1), ""), msc_emit_int(e, width), "");
    LLVMValueRef outer = LLVMBuildUDiv(e->b, number, num, ""),
                 block = LLVMBuildSub(e->b, number, LLVMBuildMul(e->b, outer, num, ""), "");
    msc_walk_bind_items(w, outer, w->h->items & (uint16_t)~msc_bit(w->h->lane));
    emit_block(w, LLVMBuildMul(e->b, block, msc_emit_int(e, width), ""));
  }
  msc_ir_loop_close(e, &loop, NULL);
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

/* True if masked stores or loads need a spare place in memory, for lanes that must touch nothing. */
static bool needs_spare(const msc_program *p) {
  for (int i = 1; i < p->head.num_instrs; i++) {
    const msc_instr *in = &p->instr[i];
    if (in->code == NEST_SCATTER || (in->code == NEST_LOAD && (in->arg[0] || in->arg[1]))) return true;
    if (in->code != NEST_LOAD && in->code != NEST_STORE && in->code != NEST_FILL) continue;
    if (msc_dtype_bytes(p->head.buffer[in->buffer].dtype == MSC_NUM_DTYPES ? in->dtype
                                                                           : p->head.buffer[in->buffer].dtype) < 4)
      return true;
    if (p->head.lane >= 0 && in->at.coef[p->head.lane] > 1) return true;
  }
  return false;
}

static void read_kernel_call(msc_walk *w, LLVMValueRef fn) {
  msc_emit *e = &w->e;
  LLVMTypeRef p = LLVMPointerTypeInContext(e->l->llvm, 0), i64 = LLVMInt64TypeInContext(e->l->llvm);
  for (int i = 0; i < w->h->num_buffers; i++) e->buffer[i] = element_of(e, p, LLVMGetParam(fn, 0), i);
  for (int i = 0; i < w->h->num_dims; i++) e->dim[i] = element_of(e, i64, LLVMGetParam(fn, 3), i);
  e->scalars = LLVMGetParam(fn, 4);
  if (needs_spare(e->p)) e->spare = stack_place(e), e->sink = stack_place(e);
}

void msc_emit_cpu(msc_llvm *l, const msc_program *p, LLVMValueRef fn) {
  msc_walk w = {.e = {.l = l, .b = l->builder, .fn = fn, .p = p}, .h = &p->head, .copies = 1, .team.size = 1};
  LLVMValueRef begin = LLVMGetParam(fn, 1), end = LLVMGetParam(fn, 2);
  LLVMPositionBuilderAtEnd(l->builder, msc_ir_block(&w.e));
  read_kernel_call(&w, fn);
  msc_walk_keep_rows(&w);
  msc_walk_emit_ready(&w, NULL);
  w.bound = MSC_INSIDE_ITEMS;
  if (p->head.kind == MSC_NEST_MAP) emit_element_loops(&w, begin, end);
  else if (p->head.kind == MSC_NEST_TRANSPOSE) emit_transposed(&w, begin, end);
  else emit_items(&w, begin, end);
  LLVMBuildRetVoid(l->builder);
}
