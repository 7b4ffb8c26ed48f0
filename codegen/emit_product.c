/* emit_product.c: an element type in; the two kernels of its matrix products out.  `pack` brings columns of b into panels, `multiply` makes rows of
 * c from rows of a and packed panels.
 *
 * Every element of c has one accumulator per block of k, which takes its terms in ascending order by fma; blocks are added as a
 * balanced tree: ((0+1)+(2+3))+((4+5)+(6+7)).  So an element's bits depend neither on tiles nor on registers, and a rank that holds an
 * aligned part of the blocks has a subtree of the whole sum.
 *
 *   panel p of b: [k][width] elements, columns p * width and following, the last panel filled with what is never stored
 *   group of rows of a, when a is transposed: [k][height]; else a is read where it lies */
#include <math.h>
#include <string.h>

#include "codegen/emit_ir.h"
#include "ir/product.h"

enum {
  MAX_HEIGHT = MSC_PRODUCT_MAX_HEIGHT,
  VECTORS = MSC_PRODUCT_VECTORS, /* of a row of a panel */
  UNROLL = 4,                    /* terms per turn */
  TREE_LEVELS = 3,               /* see sum_tree */
  SHORT = 8,                     /* terms of blocks for which trees pay */
};

typedef struct {
  msc_emit e;
  LLVMBuilderRef b;
  LLVMTypeRef elem, vector;
  int lanes, width, height;
  int64_t bytes; /* of an element */
} product;

static product product_of(msc_llvm *l, msc_dtype dtype, LLVMValueRef fn) {
  product p = {.e = {.l = l, .b = l->builder, .fn = fn}, .b = l->builder, .bytes = msc_dtype_bytes(dtype)};
  p.width = msc_product_width(l, dtype), p.lanes = (int)msc_product_lanes(p.width), p.height = msc_product_height(l);
  p.elem = msc_emit_type(&p.e, dtype, 1), p.vector = msc_emit_type(&p.e, dtype, p.lanes);
  LLVMPositionBuilderAtEnd(p.b, msc_ir_block(&p.e));
  return p;
}

static LLVMValueRef i64(product *p, int64_t v) { return msc_emit_int(&p->e, v); }
static LLVMValueRef add(product *p, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildNSWAdd(p->b, a, b, ""); }
static LLVMValueRef mul(product *p, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildNSWMul(p->b, a, b, ""); }
static LLVMValueRef sub(product *p, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildNSWSub(p->b, a, b, ""); }
static LLVMValueRef least(product *p, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, a, b, ""), a, b, ""); }

static LLVMValueRef at(product *p, LLVMValueRef base, LLVMValueRef index) { return LLVMBuildInBoundsGEP2(p->b, p->elem, base, &index, 1, ""); }

static LLVMValueRef load(product *p, LLVMValueRef place) {
  LLVMValueRef v = LLVMBuildLoad2(p->b, p->vector, place, "");
  LLVMSetAlignment(v, (unsigned)p->bytes);
  return v;
}

static void store(product *p, LLVMValueRef v, LLVMValueRef place) { LLVMSetAlignment(LLVMBuildStore(p->b, v, place), (unsigned)p->bytes); }

static LLVMValueRef argument(product *p, unsigned from, LLVMTypeRef type, int i) {
  LLVMValueRef index = i64(p, i);
  return LLVMBuildLoad2(p->b, type, LLVMBuildInBoundsGEP2(p->b, type, LLVMGetParam(p->e.fn, from), &index, 1, ""), "");
}
static LLVMValueRef buffer(product *p, int i) { return argument(p, 0, LLVMPointerTypeInContext(p->e.l->llvm, 0), i); }
static LLVMValueRef dim(product *p, int i) { return argument(p, 3, LLVMInt64TypeInContext(p->e.l->llvm), i); }

/* <lanes x i1>: lane i < count. */
static LLVMValueRef below(product *p, LLVMValueRef count) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(p->e.l->llvm);
  LLVMValueRef k[64], most = i64(p, p->lanes);
  for (int i = 0; i < p->lanes; i++) k[i] = LLVMConstInt(i32, (unsigned)i, false);
  LLVMValueRef n = msc_emit_splat(&p->e, LLVMBuildTrunc(p->b, least(p, count, most), i32, ""), p->lanes);
  return LLVMBuildICmp(p->b, LLVMIntSLT, LLVMConstVector(k, (unsigned)p->lanes), n, "");
}

static LLVMValueRef load_masked(product *p, LLVMValueRef place, LLVMValueRef mask) {
  LLVMTypeRef types[2] = {p->vector, LLVMPointerTypeInContext(p->e.l->llvm, 0)};
  LLVMValueRef args[4] = {place, LLVMConstInt(LLVMInt32TypeInContext(p->e.l->llvm), (unsigned)p->bytes, false), mask, LLVMConstNull(p->vector)};
  return msc_ir_call(&p->e, "llvm.masked.load", 2, types, 4, args);
}

static void store_masked(product *p, LLVMValueRef v, LLVMValueRef place, LLVMValueRef mask) {
  LLVMTypeRef types[2] = {p->vector, LLVMPointerTypeInContext(p->e.l->llvm, 0)};
  LLVMValueRef args[4] = {v, place, LLVMConstInt(LLVMInt32TypeInContext(p->e.l->llvm), (unsigned)p->bytes, false), mask};
  msc_ir_call(&p->e, "llvm.masked.store", 2, types, 4, args);
}

/* ---- pack ---- */

typedef struct {
  LLVMValueRef b, room, columns, k, step;
} packing;

/* Row after row of b, so that memory is read in long runs. */
static void pack_rows(product *p, const packing *g, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop rows, panels;
  LLVMValueRef whole = LLVMBuildSDiv(p->b, g->columns, i64(p, p->width), ""), left = sub(p, g->columns, mul(p, whole, i64(p, p->width)));
  LLVMValueRef mask[VECTORS], last = least(p, end, whole);
  for (int v = 0; v < VECTORS; v++) mask[v] = below(p, sub(p, left, i64(p, v * p->lanes)));
  msc_ir_loop_open(&p->e, &rows, i64(p, 0), g->k, 1, 0, NULL);
  LLVMValueRef from = at(p, g->b, mul(p, rows.index, g->step)), to = at(p, g->room, mul(p, rows.index, i64(p, p->width)));
  LLVMValueRef size = mul(p, g->k, i64(p, p->width));
  for (int masked = 0; masked < 2; masked++) {
    msc_ir_loop_open(&p->e, &panels, masked ? last : begin, masked ? end : last, 1, 0, NULL);
    for (int v = 0; v < VECTORS; v++) {
      LLVMValueRef place = at(p, from, add(p, mul(p, panels.index, i64(p, p->width)), i64(p, v * p->lanes)));
      store(p, masked ? load_masked(p, place, mask[v]) : load(p, place), at(p, to, add(p, mul(p, panels.index, size), i64(p, v * p->lanes))));
    }
    msc_ir_loop_close(&p->e, &panels, NULL);
  }
  msc_ir_loop_close(&p->e, &rows, NULL);
}

/* Squares turned in registers.  The last one of a panel may write behind it, where panels come later, or what msc_product_panel_elems has room for. */
static void pack_columns(product *p, const packing *g, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop panels, squares;
  LLVMValueRef last = sub(p, g->columns, i64(p, 1)), size = mul(p, g->k, i64(p, p->width));
  msc_ir_loop_open(&p->e, &panels, begin, end, 1, 0, NULL);
  LLVMValueRef to = at(p, g->room, mul(p, panels.index, size)), first = mul(p, panels.index, i64(p, p->width)), row[VECTORS * 64];
  for (int c = 0; c < p->width; c++) row[c] = at(p, g->b, mul(p, least(p, add(p, first, i64(p, c)), last), g->step));
  LLVMValueRef whole = LLVMBuildAnd(p->b, g->k, i64(p, -p->lanes), "");
  for (int masked = 0; masked < 2; masked++) {
    msc_ir_loop_open(&p->e, &squares, masked ? whole : i64(p, 0), masked ? g->k : whole, p->lanes, 0, NULL);
    LLVMValueRef mask = masked ? below(p, sub(p, g->k, squares.index)) : NULL;
    for (int v = 0; v < VECTORS; v++) {
      LLVMValueRef x[64];
      for (int c = 0; c < p->lanes; c++) {
        LLVMValueRef place = at(p, row[v * p->lanes + c], squares.index);
        x[c] = masked ? load_masked(p, place, mask) : load(p, place);
      }
      msc_ir_turn(&p->e, p->lanes, x);
      for (int k = 0; k < p->lanes; k++) store(p, x[k], at(p, to, add(p, mul(p, squares.index, i64(p, p->width)), i64(p, k * p->width + v * p->lanes))));
    }
    msc_ir_loop_close(&p->e, &squares, NULL);
  }
  msc_ir_loop_close(&p->e, &panels, NULL);
}

static void emit_pack(msc_llvm *l, msc_dtype dtype, bool transposed, LLVMValueRef fn) {
  product p = product_of(l, dtype, fn);
  packing g = {.b = buffer(&p, 0), .room = buffer(&p, 1), .columns = dim(&p, 0), .k = dim(&p, 1), .step = dim(&p, 2)};
  (transposed ? pack_columns : pack_rows)(&p, &g, LLVMGetParam(fn, 1), LLVMGetParam(fn, 2));
  LLVMBuildRetVoid(l->builder);
}

/* ---- multiply ---- */

typedef struct {
  LLVMValueRef a, panels, c, bias, room;          /* room: for groups of rows of a */
  LLVMValueRef columns, k, step_a, step_c, blocks, block; /* block: its size */
  LLVMValueRef floor;                             /* of what is stored */
  LLVMValueRef has_bias;                          /* i64, 0 or 1 */
  LLVMValueRef waiting;                           /* sums of blocks */
  bool packed;                                    /* groups of a are in the room; else its rows lie as they are */
  bool trees;                                     /* 2^TREE_LEVELS blocks are summed by straight code */
} multiplying;

/* Heights of groups for which there is code, descending.  Half as high where the sums of two blocks shall fit the registers. */
static const int *heights_of(const product *p, bool trees) {
  static const int low[] = {3, 2, 1, 0}, some[] = {6, 4, 2, 1, 0}, many[] = {12, 8, 4, 2, 1, 0};
  if (p->height > 6) return trees ? some : many;
  return trees ? low : some;
}

/* Rows of the group at the start of `left`: the largest that leaves none, or enough for a high one, which keeps the arithmetic busy. */
static LLVMValueRef height_of(product *p, const int *h, LLVMValueRef left) {
  int num = 0;
  while (h[num]) num++;
  LLVMValueRef rows = i64(p, 1);
  for (int i = num - 2; i >= 0; i--) rows = LLVMBuildSelect(p->b, LLVMBuildICmp(p->b, LLVMIntSGE, left, i64(p, h[i]), ""), i64(p, h[i]), rows, "");
  LLVMValueRef between = LLVMBuildAnd(p->b, LLVMBuildICmp(p->b, LLVMIntSGT, left, i64(p, h[0]), ""), LLVMBuildICmp(p->b, LLVMIntSLT, left, i64(p, h[0] + h[1]), ""), "");
  return LLVMBuildSelect(p->b, between, i64(p, h[1]), rows, "");
}

typedef struct {
  msc_ir_loop loop;
  LLVMValueRef row, height;
} rows_loop;

/* for (row = begin; row < end; row += height): the step is computed, so the loop is written out. */
static void open_rows(product *p, rows_loop *r, const int *heights, LLVMValueRef begin, LLVMValueRef end) {
  r->loop = (msc_ir_loop){.before = LLVMGetInsertBlock(p->b), .body = msc_ir_block(&p->e), .after = msc_ir_block(&p->e), .to = end};
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, begin, end, ""), r->loop.body, r->loop.after);
  LLVMPositionBuilderAtEnd(p->b, r->loop.body);
  r->row = LLVMBuildPhi(p->b, LLVMInt64TypeInContext(p->e.l->llvm), "");
  LLVMAddIncoming(r->row, &begin, &r->loop.before, 1);
  r->height = height_of(p, heights, sub(p, end, r->row));
}

static void close_rows(product *p, rows_loop *r) {
  LLVMBasicBlockRef from = LLVMGetInsertBlock(p->b);
  LLVMValueRef next = add(p, r->row, r->height);
  LLVMAddIncoming(r->row, &next, &from, 1);
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, next, r->loop.to, ""), r->loop.body, r->loop.after);
  LLVMPositionBuilderAtEnd(p->b, r->loop.after);
}

/* Groups of a transposed a side by side; a vector may write behind its group's rows, which come after it, as msc_product_room_elems knows. */
static void pack_groups(product *p, const multiplying *x, LLVMValueRef begin, LLVMValueRef end) {
  rows_loop rows;
  msc_ir_loop terms;
  int num = (int)msc_product_whole(p->height, p->width) / p->lanes;
  LLVMValueRef mask[64];
  open_rows(p, &rows, heights_of(p, x->trees), begin, end);
  LLVMValueRef to = at(p, x->room, mul(p, sub(p, rows.row, begin), x->k)), from = at(p, x->a, rows.row);
  for (int v = 0; v < num; v++) mask[v] = below(p, sub(p, rows.height, i64(p, v * p->lanes)));
  msc_ir_loop_open(&p->e, &terms, i64(p, 0), x->k, 1, 0, NULL);
  for (int v = 0; v < num; v++) {
    LLVMValueRef got = load_masked(p, at(p, from, add(p, mul(p, terms.index, x->step_a), i64(p, v * p->lanes))), mask[v]);
    store(p, got, at(p, to, add(p, mul(p, terms.index, rows.height), i64(p, v * p->lanes))));
  }
  msc_ir_loop_close(&p->e, &terms, NULL);
  close_rows(p, &rows);
}

/* A group and its panel: where the terms of its sums are. */
typedef struct {
  LLVMValueRef a, b;            /* the first terms */
  LLVMValueRef row[MAX_HEIGHT]; /* elements from the group's first row to row r */
  int height, step;             /* step: elements from term to term of a row */
} terms_of;

/* Sums of a group in the making, and behind them where the next terms of a and b are and where sums wait: addresses walk on from term to term and from
 * block to block, since of what can be computed from a counter LLVM keeps many copies. */
enum { SUMS = MAX_HEIGHT * VECTORS + 3 };
static int num_sums(const terms_of *t) { return t->height * VECTORS; }

/* One term of all sums: number `ahead`. */
static void multiply_term(product *p, const terms_of *t, int ahead, LLVMValueRef *acc) {
  LLVMValueRef b[VECTORS];
  for (int v = 0; v < VECTORS; v++) b[v] = load(p, at(p, acc[num_sums(t) + 1], i64(p, ahead * p->width + v * p->lanes)));
  for (int r = 0; r < t->height; r++) {
    LLVMValueRef place = at(p, at(p, acc[num_sums(t)], t->row[r]), i64(p, ahead * t->step));
    LLVMValueRef a = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, place, ""), p->lanes);
    for (int v = 0; v < VECTORS; v++) {
      LLVMValueRef arg[3] = {a, b[v], acc[r * VECTORS + v]};
      acc[r * VECTORS + v] = msc_ir_call(&p->e, "llvm.fma", 1, &p->vector, 3, arg);
    }
  }
}

static void sum_terms(product *p, const terms_of *t, LLVMValueRef from, LLVMValueRef to, int unroll, LLVMValueRef *acc) {
  msc_ir_loop loop;
  int num = num_sums(t);
  msc_ir_loop_open(&p->e, &loop, from, to, unroll, num + 2, acc);
  for (int u = 0; u < unroll; u++) multiply_term(p, t, u, acc);
  acc[num] = at(p, acc[num], i64(p, unroll * t->step));
  acc[num + 1] = at(p, acc[num + 1], i64(p, unroll * p->width));
  msc_ir_loop_close(&p->e, &loop, acc);
}

/* Sums of blocks, added as a balanced tree: each meets as many waiting ones as its number has ones at the end, the last of them first,
 * and then waits itself.  `top` is where the next ones will wait.  As msc_ir_fold, with all sums of a block side by side. */
static LLVMValueRef fold(product *p, const terms_of *t, LLVMValueRef block, LLVMValueRef blocks, LLVMValueRef top, LLVMValueRef *acc) {
  msc_ir_loop meet;
  int num = num_sums(t);
  LLVMTypeRef i64_type = LLVMInt64TypeInContext(p->e.l->llvm);
  LLVMValueRef kept[SUMS], next = add(p, block, i64(p, 1)), args[2] = {next, LLVMConstInt(LLVMInt1TypeInContext(p->e.l->llvm), 0, false)};
  LLVMValueRef ones = msc_ir_call(&p->e, "llvm.cttz", 1, &i64_type, 2, args);
  LLVMBasicBlockRef from[2], wait = msc_ir_block(&p->e), done = msc_ir_block(&p->e);
  memcpy(kept, acc, sizeof *acc * (size_t)num);
  kept[num] = top;
  msc_ir_loop_open(&p->e, &meet, i64(p, 0), ones, 1, num + 1, kept);
  kept[num] = at(p, kept[num], i64(p, -num * p->lanes));
  for (int i = 0; i < num; i++) kept[i] = LLVMBuildFAdd(p->b, load(p, at(p, kept[num], i64(p, i * p->lanes))), kept[i], "");
  msc_ir_loop_close(&p->e, &meet, kept);
  from[0] = LLVMGetInsertBlock(p->b), from[1] = wait;
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, next, blocks, ""), wait, done);
  LLVMPositionBuilderAtEnd(p->b, wait);
  for (int i = 0; i < num; i++) store(p, kept[i], at(p, kept[num], i64(p, i * p->lanes)));
  LLVMValueRef tops[2] = {kept[num], at(p, kept[num], i64(p, num * p->lanes))};
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, done);
  top = LLVMBuildPhi(p->b, LLVMTypeOf(top), "");
  LLVMAddIncoming(top, tops, from, 2);
  memcpy(acc, kept, sizeof *acc * (size_t)num);
  return top;
}

/* The next block, from zero. */
static void sum_block(product *p, const multiplying *x, const terms_of *t, LLVMValueRef *acc) {
  LLVMValueRef first = i64(p, 0), whole = LLVMBuildAnd(p->b, x->block, i64(p, -UNROLL), "");
  for (int i = 0; i < num_sums(t); i++) acc[i] = LLVMConstNull(p->vector);
  if (t->height * 2 > *heights_of(p, x->trees)) { /* where most of the time goes */
    sum_terms(p, t, first, whole, UNROLL, acc);
    first = whole;
  }
  sum_terms(p, t, first, x->block, 1, acc);
}

/* The next 2^levels blocks.  The first of two blocks waits in registers, larger sums at the end of the stack. */
static void sum_tree(product *p, const multiplying *x, const terms_of *t, int levels, LLVMValueRef *acc) {
  LLVMValueRef left[SUMS];
  int num = num_sums(t), wait = (MSC_SUM_LEVELS - levels) * num * p->lanes;
  if (levels == 0) {
    sum_block(p, x, t, acc);
    return;
  }
  sum_tree(p, x, t, levels - 1, acc);
  memcpy(left, acc, sizeof *acc * (size_t)num);
  for (int i = 0; i < num && levels > 1; i++) store(p, left[i], at(p, x->waiting, i64(p, wait + i * p->lanes)));
  sum_tree(p, x, t, levels - 1, acc);
  for (int i = 0; i < num && levels > 1; i++) left[i] = load(p, at(p, x->waiting, i64(p, wait + i * p->lanes)));
  for (int i = 0; i < num; i++) acc[i] = LLVMBuildFAdd(p->b, left[i], acc[i], "");
}

static void sum_blocks(product *p, const multiplying *x, const terms_of *t, LLVMValueRef *acc) {
  msc_ir_loop trees;
  int num = num_sums(t), top = num + 2, levels = x->trees ? TREE_LEVELS : 0;
  LLVMValueRef num_trees = LLVMBuildLShr(p->b, x->blocks, i64(p, levels), "");
  for (int i = 0; i < num; i++) acc[i] = LLVMConstNull(p->vector);
  acc[num] = t->a, acc[num + 1] = t->b, acc[top] = x->waiting;
  msc_ir_loop_open(&p->e, &trees, i64(p, 0), num_trees, 1, num + 3, acc);
  sum_tree(p, x, t, levels, acc);
  acc[top] = fold(p, t, trees.index, num_trees, acc[top], acc);
  msc_ir_loop_close(&p->e, &trees, acc);
}

static LLVMValueRef finished(product *p, const multiplying *x, LLVMValueRef v, LLVMValueRef bias) {
  v = LLVMBuildFAdd(p->b, v, bias, "");
  return LLVMBuildSelect(p->b, LLVMBuildFCmp(p->b, LLVMRealOLT, v, x->floor, ""), x->floor, v, "");
}

static void store_group(product *p, const multiplying *x, int height, LLVMValueRef row, LLVMValueRef column, LLVMValueRef *acc) {
  LLVMBasicBlockRef part = msc_ir_block(&p->e), whole = msc_ir_block(&p->e), done = msc_ir_block(&p->e);
  LLVMValueRef left = sub(p, x->columns, column);
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, left, i64(p, p->width), ""), part, whole);
  for (int masked = 0; masked < 2; masked++) {
    LLVMPositionBuilderAtEnd(p->b, masked ? part : whole);
    for (int v = 0; v < VECTORS; v++) {
      LLVMValueRef mask = masked ? below(p, sub(p, left, i64(p, v * p->lanes))) : NULL, here = add(p, column, i64(p, v * p->lanes));
      LLVMValueRef place = at(p, x->bias, mul(p, here, x->has_bias)), bias = masked ? load_masked(p, place, mask) : load(p, place);
      for (int r = 0; r < height; r++) {
        LLVMValueRef y = finished(p, x, acc[r * VECTORS + v], bias);
        place = at(p, x->c, add(p, mul(p, add(p, row, i64(p, r)), x->step_c), here));
        if (masked) store_masked(p, y, place, mask);
        else store(p, y, place);
      }
    }
    LLVMBuildBr(p->b, done);
  }
  LLVMPositionBuilderAtEnd(p->b, done);
}

/* height rows times one panel */
static void multiply_group(product *p, const multiplying *x, int height, LLVMValueRef begin, LLVMValueRef first, LLVMValueRef column) {
  LLVMValueRef acc[SUMS];
  terms_of t = {.b = at(p, x->panels, mul(p, column, x->k)), .height = height, .step = x->packed ? height : 1};
  t.a = x->packed ? at(p, x->room, mul(p, sub(p, first, begin), x->k)) : at(p, x->a, mul(p, first, x->step_a));
  for (int r = 0; r < height; r++) t.row[r] = x->packed ? i64(p, r) : mul(p, x->step_a, i64(p, r));
  sum_blocks(p, x, &t, acc);
  store_group(p, x, height, first, column, acc);
}

/* Panels outside, so that one is read from the nearest cache for all rows. */
static void multiply_all(product *p, const multiplying *x, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop panels;
  rows_loop rows;
  msc_ir_loop_open(&p->e, &panels, i64(p, 0), x->columns, p->width, 0, NULL);
  open_rows(p, &rows, heights_of(p, x->trees), begin, end);
  LLVMBasicBlockRef done = msc_ir_block(&p->e), none = msc_ir_block(&p->e);
  LLVMValueRef choice = LLVMBuildSwitch(p->b, rows.height, none, 5);
  for (const int *height = heights_of(p, x->trees); *height; height++) {
    LLVMBasicBlockRef here = msc_ir_block(&p->e);
    LLVMAddCase(choice, i64(p, *height), here);
    LLVMPositionBuilderAtEnd(p->b, here);
    multiply_group(p, x, *height, begin, rows.row, panels.index);
    LLVMBuildBr(p->b, done);
  }
  LLVMPositionBuilderAtEnd(p->b, none);
  LLVMBuildUnreachable(p->b);
  LLVMPositionBuilderAtEnd(p->b, done);
  close_rows(p, &rows);
  msc_ir_loop_close(&p->e, &panels, NULL);
  LLVMBuildRetVoid(p->b);
}

/* Without a bias zeros are added, from one place for all columns. */
static void read_bias(product *p, multiplying *x) {
  LLVMValueRef zeros = msc_ir_stack(&p->e, p->vector, 1), given = buffer(p, 4), has = LLVMBuildIsNotNull(p->b, given, "");
  store(p, LLVMConstNull(p->vector), zeros);
  x->bias = LLVMBuildSelect(p->b, has, given, zeros, "");
  x->has_bias = LLVMBuildZExt(p->b, has, LLVMInt64TypeInContext(p->e.l->llvm), "");
}

static LLVMValueRef flag(product *p, int i) { return LLVMBuildICmp(p->b, LLVMIntNE, dim(p, i), i64(p, 0), ""); }

static void emit_multiply(msc_llvm *l, msc_dtype dtype, LLVMValueRef fn) {
  product p = product_of(l, dtype, fn);
  LLVMValueRef begin = LLVMGetParam(fn, 1), end = LLVMGetParam(fn, 2);
  multiplying x = {.a = buffer(&p, 0), .panels = buffer(&p, 1), .c = buffer(&p, 2), .room = buffer(&p, 3)};
  x.columns = dim(&p, 0), x.k = dim(&p, 1), x.step_a = dim(&p, 2), x.step_c = dim(&p, 3), x.blocks = dim(&p, 4);
  x.block = LLVMBuildSDiv(p.b, x.k, x.blocks, "");
  LLVMValueRef zero = LLVMConstReal(p.elem, 0), lowest = LLVMConstReal(p.elem, -(double)INFINITY);
  x.floor = msc_emit_splat(&p.e, LLVMBuildSelect(p.b, flag(&p, 6), zero, lowest, ""), p.lanes);
  x.waiting = msc_ir_stack(&p.e, p.vector, MSC_SUM_LEVELS * p.height * VECTORS);
  read_bias(&p, &x);
  LLVMBasicBlockRef turned = msc_ir_block(&p.e), direct = msc_ir_block(&p.e);
  LLVMBuildCondBr(p.b, flag(&p, 5), turned, direct);
  LLVMPositionBuilderAtEnd(p.b, direct);
  multiply_all(&p, &x, begin, end);
  LLVMPositionBuilderAtEnd(p.b, turned);
  x.packed = true;
  LLVMBasicBlockRef few = msc_ir_block(&p.e), many = msc_ir_block(&p.e);
  LLVMValueRef is_tree = LLVMBuildICmp(p.b, LLVMIntSGE, x.blocks, i64(&p, 1 << TREE_LEVELS), ""), is_short = LLVMBuildICmp(p.b, LLVMIntSLE, x.block, i64(&p, SHORT), "");
  LLVMBuildCondBr(p.b, LLVMBuildAnd(p.b, is_tree, is_short, ""), many, few);
  for (int trees = 0; trees < 2; trees++) {
    LLVMPositionBuilderAtEnd(p.b, trees ? many : few);
    x.trees = trees;
    pack_groups(&p, &x, begin, end);
    multiply_all(&p, &x, begin, end);
  }
}

/* ---- the kernels ---- */

const char *msc_product_name(msc_context *ctx, msc_product_part part, msc_dtype dtype) {
  static const char *const form[MSC_NUM_PRODUCT_PARTS] = {"pack_%s", "pack_%s_transposed", "multiply_%s"};
  return msc_arena_printf(msc_context_arena(ctx), form[part], msc_dtype_name(dtype));
}

LLVMMemoryBufferRef msc_product_assemble(msc_context *ctx, int level, msc_product_part part, msc_dtype dtype) {
  msc_llvm l;
  if (!msc_llvm_open(ctx, MSC_TARGET_CPU, msc_cpu_plain(level), &l)) return NULL;
  LLVMValueRef fn = msc_llvm_kernel(&l, msc_product_name(ctx, part, dtype));
  if (part == MSC_MULTIPLY) emit_multiply(&l, dtype, fn);
  else emit_pack(&l, dtype, part == MSC_PACK_TRANSPOSED, fn);
  LLVMMemoryBufferRef object = msc_llvm_assemble(&l);
  msc_llvm_report(&l, ctx);
  msc_llvm_close(&l);
  return object;
}
