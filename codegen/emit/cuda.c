/* cuda.c: a program in; a complete kernel for a GPU out: blocks, teams and threads around the phases of emit/phases.c.
 * The grid has a thread, or a team of threads, for every item, so no thread loops over items, which would cost
 * registers. passes/7_lower/nest/gpu.c chooses the numbers of threads. */
#include "codegen/emit/walk.h"

enum { WARP = 32 };

/* ---- the machine ---- */

/* Reads a special register, as i64. */
static LLVMValueRef read_register(msc_walk *w, const char *name) {
  char full[64];
  strcat(strcpy(full, "llvm.nvvm.read.ptx.sreg."), name);
  return LLVMBuildZExt(w->e.b, msc_ir_call(&w->e, full, 0, NULL, 0, NULL), LLVMInt64TypeInContext(w->e.l->llvm), "");
}

static LLVMValueRef thread_number(msc_walk *w) { return read_register(w, "tid.x"); }
static void emit_barrier(msc_walk *w) { msc_ir_call(&w->e, "llvm.nvvm.barrier0", 0, NULL, 0, NULL); }
static LLVMValueRef add_numbers(msc_walk *w, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(w->e.b, a, b, ""); }
static LLVMValueRef multiply_by(msc_walk *w, LLVMValueRef a, int64_t b) {
  return LLVMBuildMul(w->e.b, a, msc_emit_int(&w->e, b), "");
}
static LLVMValueRef is_below(msc_walk *w, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(w->e.b, LLVMIntSLT, a, b, "");
}
static LLVMValueRef split_number(msc_walk *w, LLVMValueRef a, int64_t by,
                                 LLVMValueRef *out_rest) { /* by a power of two */
  *out_rest = LLVMBuildAnd(w->e.b, a, msc_emit_int(&w->e, by - 1), "");
  return LLVMBuildLShr(w->e.b, a, msc_emit_int(&w->e, __builtin_ctzll((unsigned long long)by)), "");
}

/* Reserves shared memory of the block, aligned for vectors of eight f64. */
static LLVMValueRef make_shared_memory(msc_walk *w, int64_t bytes) {
  LLVMTypeRef type = LLVMArrayType2(LLVMInt8TypeInContext(w->e.l->llvm), (uint64_t)bytes);
  LLVMValueRef v = LLVMAddGlobalInAddressSpace(w->e.l->module, type, "shared", 3);
  LLVMSetInitializer(v, LLVMGetPoison(type));
  LLVMSetLinkage(v, LLVMInternalLinkage);
  LLVMSetAlignment(v, 64);
  return v;
}

static LLVMValueRef point_into(msc_walk *w, LLVMTypeRef type, LLVMValueRef array, LLVMValueRef at) {
  return LLVMBuildInBoundsGEP2(w->e.b, type, array, &at, 1, "");
}

static void branch_open(msc_walk *w, LLVMValueRef condition, LLVMBasicBlockRef *out_after) {
  LLVMBasicBlockRef then = msc_ir_block(&w->e);
  *out_after = msc_ir_block(&w->e);
  LLVMBuildCondBr(w->e.b, condition, then, *out_after);
  LLVMPositionBuilderAtEnd(w->e.b, then);
}

static void branch_close(msc_walk *w, LLVMBasicBlockRef after) {
  LLVMBuildBr(w->e.b, after);
  LLVMPositionBuilderAtEnd(w->e.b, after);
}

/* Begins the code of the thread's item, which is number `own` of the block; the code up to end_item runs only if the
 * item exists. */
static LLVMValueRef begin_item(msc_walk *w, LLVMValueRef own, LLVMBasicBlockRef *out_after) {
  LLVMValueRef item = add_numbers(w, multiply_by(w, read_register(w, "ctaid.x"), (int64_t)w->h->per_block), own);
  branch_open(w, is_below(w, item, LLVMGetParam(w->e.fn, w->h->num_buffers)), out_after);
  return item;
}

/* ---- shuffles ---- */

static LLVMValueRef exchange_word(msc_walk *w, LLVMValueRef v, int distance) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(w->e.l->llvm);
  LLVMValueRef arg[] = {LLVMConstInt(i32, UINT32_MAX, false), v, LLVMConstInt(i32, (unsigned)distance, false),
                        LLVMConstInt(i32, WARP - 1, false)};
  return msc_ir_call(&w->e, "llvm.nvvm.shfl.sync.bfly.i32", 0, NULL, 4, arg);
}

/* Returns v of the thread whose number differs from this one's in bit `distance`; values of 64 bits go as two words. */
static LLVMValueRef exchange(msc_walk *w, LLVMValueRef v, int distance) {
  LLVMBuilderRef b = w->e.b;
  LLVMTypeRef type = LLVMTypeOf(v), i32 = LLVMInt32TypeInContext(w->e.l->llvm),
              i64 = LLVMInt64TypeInContext(w->e.l->llvm);
  bool real = LLVMGetTypeKind(type) != LLVMIntegerTypeKind,
       wide = real ? LLVMGetTypeKind(type) == LLVMDoubleTypeKind : LLVMGetIntTypeWidth(type) == 64;
  LLVMTypeRef bits = real ? wide ? i64 : i32 : type;
  v = LLVMBuildBitCast(b, v, bits, "");
  if (!wide) {
    v = LLVMBuildTrunc(b, exchange_word(w, LLVMBuildZExt(b, v, i32, ""), distance), bits, "");
  } else {
    LLVMValueRef low = exchange_word(w, LLVMBuildTrunc(b, v, i32, ""), distance), half = LLVMConstInt(i64, 32, false);
    LLVMValueRef high = exchange_word(w, LLVMBuildTrunc(b, LLVMBuildLShr(b, v, half, ""), i32, ""), distance);
    v = LLVMBuildOr(b, LLVMBuildZExt(b, low, i64, ""), LLVMBuildShl(b, LLVMBuildZExt(b, high, i64, ""), half, ""), "");
  }
  return LLVMBuildBitCast(b, v, type, "");
}

static LLVMValueRef join_lanes(msc_walk *w, int kind, msc_dtype dtype, LLVMValueRef v, int num) {
  for (int distance = num / 2; distance; distance /= 2)
    v = msc_emit_combine(&w->e, kind, dtype, v, exchange(w, v, distance));
  return v;
}

/* ---- rows ---- */

static LLVMValueRef join_warp(msc_walk *w, int kind, msc_dtype dtype, LLVMValueRef v) {
  return join_lanes(w, kind, dtype, v, WARP);
}

/* Reduces the values of all warps of a block, by way of shared memory; every warp gets the result. */
static LLVMValueRef join_block(msc_walk *w, int kind, msc_dtype dtype, LLVMValueRef v) {
  msc_emit *e = &w->e;
  int warps = w->team.size / WARP;
  LLVMTypeRef type = LLVMTypeOf(v);
  LLVMValueRef lane, warp = split_number(w, w->team.rank, WARP, &lane);
  LLVMBasicBlockRef after;
  v = join_lanes(w, kind, dtype, v, WARP);
  emit_barrier(w); /* all threads have read what was in shared memory before */
  branch_open(w, LLVMBuildICmp(e->b, LLVMIntEQ, lane, msc_emit_int(e, 0), ""), &after);
  LLVMBuildStore(e->b, v, point_into(w, type, w->team.memory, warp));
  branch_close(w, after);
  emit_barrier(w);
  LLVMValueRef other = LLVMBuildAnd(e->b, lane, msc_emit_int(e, warps - 1), "");
  return join_lanes(w, kind, dtype, LLVMBuildLoad2(e->b, type, point_into(w, type, w->team.memory, other), ""), warps);
}

static void emit_team_rows(msc_walk *w) {
  LLVMBasicBlockRef after;
  int64_t team = w->h->team;
  LLVMValueRef rank, row = split_number(w, thread_number(w), team, &rank);
  w->team = (msc_team){.size = (int)team, .rank = rank, .join = team == WARP ? join_warp : join_block};
  w->team.first = LLVMBuildICmp(w->e.b, LLVMIntEQ, rank, msc_emit_int(&w->e, 0), "");
  if (team > WARP) w->team.memory = make_shared_memory(w, WARP * 8);
  msc_walk_pair_sums(w);
  msc_walk_bind_items(w, begin_item(w, row, &after), w->h->items);
  msc_walk_emit_item(w);
  branch_close(w, after);
}

/* ---- columns ---- */

/* Reduces over a team that lies across the block: halves are added by way of shared memory, so that all threads get the
 * same bits. */
static LLVMValueRef join_columns(msc_walk *w, int kind, msc_dtype dtype, LLVMValueRef v) {
  msc_emit *e = &w->e;
  LLVMTypeRef type = LLVMTypeOf(v);
  int64_t columns = w->h->threads / w->h->team;
  LLVMValueRef own = thread_number(w);
  for (int distance = w->team.size / 2; distance; distance /= 2) {
    LLVMValueRef other = LLVMBuildXor(e->b, own, msc_emit_int(e, distance * columns), "");
    emit_barrier(w);
    LLVMBuildStore(e->b, v, point_into(w, type, w->team.memory, own));
    emit_barrier(w);
    v = msc_emit_combine(e, kind, dtype, v, LLVMBuildLoad2(e->b, type, point_into(w, type, w->team.memory, other), ""));
  }
  return v;
}

/* Emits items that are columns. Threads without a column compute along with the first ones, for the barriers, and store
 * nothing. */
static void emit_columns(msc_walk *w) {
  msc_emit *e = &w->e;
  LLVMBasicBlockRef after;
  int lane = w->h->lane;
  int64_t columns = w->h->threads / w->h->team, width = columns * w->h->lanes;
  LLVMValueRef column, rank = split_number(w, thread_number(w), columns, &column), zero = msc_emit_int(e, 0);
  w->team = (msc_team){
      .size = w->h->team, .rank = rank, .first = LLVMBuildICmp(e->b, LLVMIntEQ, rank, zero, ""), .join = join_columns};
  if (w->team.size > 1) w->team.memory = make_shared_memory(w, w->h->threads * w->h->lanes * 8);
  LLVMValueRef size = msc_emit_size(e, lane),
               blocks =
                   LLVMBuildUDiv(e->b, add_numbers(w, size, msc_emit_int(e, width - 1)), msc_emit_int(e, width), "");
  LLVMValueRef item = begin_item(w, zero, &after), outer = msc_walk_divide(w, item, blocks),
               block = LLVMBuildSub(e->b, item, LLVMBuildMul(e->b, outer, blocks, ""), "");
  LLVMValueRef at = add_numbers(w, multiply_by(w, block, width), multiply_by(w, column, w->h->lanes));
  w->team.active = is_below(w, at, size);
  msc_walk_bind_items(w, outer, w->h->items & (uint16_t)~msc_bit(lane));
  msc_walk_bind(w, lane, LLVMBuildSelect(e->b, w->team.active, at, zero, ""));
  msc_walk_emit_item(w);
  branch_close(w, after);
}

/* ---- elements ---- */

static void emit_thread_elements(msc_walk *w) {
  LLVMBasicBlockRef after;
  msc_walk_bind_items(w, begin_item(w, multiply_by(w, thread_number(w), w->h->lanes), &after), w->h->items);
  msc_walk_emit_ready(w, NULL);
  branch_close(w, after);
}

static LLVMBasicBlockRef begin_block(msc_walk *w) {
  LLVMBasicBlockRef block = msc_ir_block(&w->e);
  LLVMPositionBuilderAtEnd(w->e.b, block);
  return block;
}

/* Emits, for each thread, the strand that its item belongs to. Values that several strands may need are computed
 * before. */
static void emit_strands(msc_walk *w) {
  msc_emit *e = &w->e;
  LLVMBasicBlockRef after;
  uint8_t strand[MSC_NEST_INSTRS];
  bool own[MSC_NEST_INSTRS];
  LLVMValueRef item = begin_item(w, multiply_by(w, thread_number(w), w->h->lanes), &after),
               points = msc_emit_int(e, 1);
  for (int a = 0; a < w->h->num_axes; a++) points = LLVMBuildMul(e->b, points, msc_emit_size(e, a), "");
  LLVMValueRef number = msc_walk_divide(w, item, points),
               rest = LLVMBuildSub(e->b, item, LLVMBuildMul(e->b, number, points, ""), "");
  msc_walk_bind_items(w, rest, w->h->items);
  int num = msc_nest_find_strands(e->p->instr, w->h->num_instrs, NULL, strand);
  LLVMValueRef choice = NULL;
  for (int s = 0; s <= num; s++) {
    for (int i = 1; i < w->h->num_instrs; i++) own[i] = strand[i] == s;
    if (s) LLVMAddCase(choice, msc_emit_int(e, s - 1), begin_block(w));
    msc_walk_emit_ready(w, own);
    if (s) LLVMBuildBr(e->b, after);
    else choice = LLVMBuildSwitch(e->b, number, after, (unsigned)num);
  }
  LLVMPositionBuilderAtEnd(e->b, after);
}

static void emit_scatter(msc_walk *w) {
  LLVMBasicBlockRef after;
  msc_walk_bind_items(w, begin_item(w, thread_number(w), &after), w->h->items);
  msc_walk_emit_item(w);
  branch_close(w, after);
}

/* ---- squares ---- */

/* The position of a thread in the square that its block transposes. */
typedef struct {
  LLVMValueRef row, column;     /* the square's corner, across and along the lanes */
  LLVMValueRef x, y;            /* position of the thread in the block: 0 .. 31, 0 .. 7 */
  LLVMValueRef rows, columns;   /* sizes of the axes */
  LLVMValueRef tile[MSC_NEST_INSTRS];
} square;

/* Returns the address of (along, across) in the tile. Its rows have one element more than the square, so that threads
 * do not use the same memory bank. */
static LLVMValueRef tile_place(msc_walk *w, LLVMTypeRef type, LLVMValueRef tile, LLVMValueRef along,
                               LLVMValueRef across) {
  return point_into(w, type, tile, add_numbers(w, multiply_by(w, along, MSC_SQUARE + 1), across));
}

/* Calls `then` to emit code that runs only if the position exists. */
static void emit_at_position(msc_walk *w, square *s, LLVMValueRef across, LLVMValueRef along,
                             void (*then)(msc_walk *w, square *s, int j), int j) {
  LLVMBasicBlockRef after;
  uint16_t outside = w->bound;
  branch_open(w, LLVMBuildAnd(w->e.b, is_below(w, across, s->rows), is_below(w, along, s->columns), ""), &after);
  msc_walk_bind(w, w->h->across, across);
  msc_walk_bind(w, w->h->lane, along);
  then(w, s, j);
  w->bound = outside;
  branch_close(w, after);
}

static LLVMValueRef own_row(msc_walk *w, const square *s, int j) {
  return add_numbers(w, s->y, msc_emit_int(&w->e, j));
}

static void load_transposed(msc_walk *w, square *s, int j) {
  msc_emit *e = &w->e;
  for (int i = 1; i < w->h->num_instrs; i++) {
    if (!msc_walk_is_transposed(w, i)) continue;
    LLVMValueRef v = msc_emit_load(e, i);
    LLVMBuildStore(e->b, v, tile_place(w, LLVMTypeOf(v), s->tile[i], own_row(w, s, j), s->x));
  }
}

static void compute_transposed(msc_walk *w, square *s, int j) {
  msc_emit *e = &w->e;
  for (int i = 1; i < w->h->num_instrs; i++) {
    if (!msc_walk_is_transposed(w, i)) continue;
    LLVMTypeRef type = msc_emit_type(e, (msc_dtype)e->p->instr[i].dtype, 1);
    e->value[i][0] = LLVMBuildLoad2(e->b, type, tile_place(w, type, s->tile[i], s->x, own_row(w, s, j)), "");
  }
  msc_walk_emit_ready(w, NULL);
}

static void emit_squares(msc_walk *w) {
  msc_emit *e = &w->e;
  LLVMBasicBlockRef after;
  square s = {.rows = msc_emit_size(e, w->h->across), .columns = msc_emit_size(e, w->h->lane)};
  LLVMValueRef side = msc_emit_int(e, MSC_SQUARE), more = msc_emit_int(e, MSC_SQUARE - 1), rest;
  s.y = split_number(w, thread_number(w), MSC_SQUARE, &s.x);
  for (int i = 1; i < w->h->num_instrs; i++)
    if (msc_walk_is_transposed(w, i))
      s.tile[i] =
          make_shared_memory(w, MSC_SQUARE * (MSC_SQUARE + 1) * msc_dtype_bytes((msc_dtype)e->p->instr[i].dtype));
  LLVMValueRef rows = LLVMBuildUDiv(e->b, add_numbers(w, s.rows, more), side, ""),
               columns = LLVMBuildUDiv(e->b, add_numbers(w, s.columns, more), side, "");
  LLVMValueRef item = begin_item(w, msc_emit_int(e, 0), &after);
  rest = msc_walk_divide(w, item, columns);
  s.column = LLVMBuildMul(e->b, LLVMBuildSub(e->b, item, LLVMBuildMul(e->b, rest, columns, ""), ""), side, "");
  LLVMValueRef outer = msc_walk_divide(w, rest, rows);
  s.row = LLVMBuildMul(e->b, LLVMBuildSub(e->b, rest, LLVMBuildMul(e->b, outer, rows, ""), ""), side, "");
  msc_walk_bind_items(w, outer, w->h->items & (uint16_t)~(msc_bit(w->h->lane) | msc_bit(w->h->across)));
  msc_walk_emit_ready(w, NULL);
  for (int j = 0; j < MSC_SQUARE; j += MSC_SQUARE_ROWS)
    emit_at_position(w, &s, add_numbers(w, s.row, s.x), add_numbers(w, s.column, own_row(w, &s, j)), load_transposed,
                     j);
  emit_barrier(w);
  for (int j = 0; j < MSC_SQUARE; j += MSC_SQUARE_ROWS)
    emit_at_position(w, &s, add_numbers(w, s.row, own_row(w, &s, j)), add_numbers(w, s.column, s.x), compute_transposed,
                     j);
  branch_close(w, after);
}

/* ---- the function ---- */

static void read_parameters(msc_walk *w) {
  msc_emit *e = &w->e;
  unsigned num = 0;
  for (int i = 0; i < w->h->num_buffers; i++) e->buffer[i] = LLVMGetParam(e->fn, num++);
  num++; /* the extent */
  for (int i = 0; i < w->h->num_dims; i++) e->dim[i] = LLVMGetParam(e->fn, num++);
  for (int i = 0; i < w->h->num_scalars; i++) e->scalar[i] = LLVMGetParam(e->fn, num++);
}

void msc_emit_cuda(msc_llvm *l, const msc_program *p, LLVMValueRef fn) {
  msc_walk w = {.e = {.l = l, .b = l->builder, .fn = fn, .p = p}, .h = &p->head, .copies = 1, .team.size = 1};
  LLVMPositionBuilderAtEnd(l->builder, msc_ir_block(&w.e));
  read_parameters(&w);
  w.bound = MSC_INSIDE_ITEMS; /* a thread without an item must not load: that memory may be overwritten already */
  switch ((msc_nest_kind)p->head.kind) {
    case MSC_NEST_MAP: p->head.strands ? emit_strands(&w) : emit_thread_elements(&w); break;
    case MSC_NEST_ROW: emit_team_rows(&w); break;
    case MSC_NEST_COLUMN: emit_columns(&w); break;
    case MSC_NEST_TRANSPOSE: emit_squares(&w); break;
    case MSC_NEST_SCATTER: emit_scatter(&w); break;
  }
  LLVMBuildRetVoid(l->builder);
}
