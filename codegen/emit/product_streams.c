/* product_streams.c: one row of a, or two, and a b that is read in place, in; rows of c out. Rows of b are read from
 * end to end, so that memory is read in long runs; the sums of a block, of many columns, lie in memory. */
#include "codegen/emit/product_multiply.h"

enum {
  TOGETHER = 4, /* rows of b that are multiplied at once */
  TWO = MSC_PRODUCT_STREAM_ROWS,
};

/* Where the sums of some columns lie: lines of them, for each level a line per row of a. Those of a block are made at
 * `level`; the sums of the levels below it wait. */
typedef struct {
  LLVMValueRef column, columns; /* the first of the columns, and their number: those of whole panels */
  LLVMValueRef level;
  int height; /* rows of a */
} stream;

/* Returns the address of a sum. */
static LLVMValueRef at_sum(product *p, const multiplying *x, const stream *s, LLVMValueRef level, int row,
                           LLVMValueRef index) {
  LLVMValueRef line = nsw_add(p, nsw_mul(p, level, i64(p, s->height)), i64(p, row));
  return at(p, x->waiting, nsw_add(p, nsw_mul(p, line, i64(p, msc_product_stream_columns(p))), index));
}

/* Opens a loop over columns, as many in an iteration as a panel has. */
static void open_columns(product *p, msc_ir_loop *l, const stream *s) {
  msc_ir_loop_open(&p->e, l, i64(p, 0), s->columns, p->width, 0, NULL);
}

/* Adds terms first .. first + num - 1 to the sums of a block. `a`: the first row's term 0; `b`: row 0 of b from the
 * columns on. */
static void add_terms(product *p, const multiplying *x, const stream *s, LLVMValueRef a, LLVMValueRef b,
                      LLVMValueRef first, int num) {
  msc_ir_loop columns;
  LLVMValueRef one[TWO][TOGETHER], row[TOGETHER], sums[TWO];
  for (int t = 0; t < num; t++) {
    LLVMValueRef term = nsw_add(p, first, i64(p, t));
    row[t] = hide(p, at(p, b, nsw_mul(p, term, x->term_b)));
    for (int r = 0; r < s->height; r++) {
      LLVMValueRef place = nsw_add(p, nsw_mul(p, term, x->term_a), nsw_mul(p, x->row_a, i64(p, r)));
      one[r][t] = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, at(p, a, place), ""), p->lanes);
    }
  }
  for (int r = 0; r < s->height; r++) sums[r] = hide(p, at_sum(p, x, s, s->level, r, i64(p, 0)));
  open_columns(p, &columns, s);
  for (int v = 0; v < VECTORS; v++) {
    LLVMValueRef at_column = nsw_add(p, columns.index, i64(p, v * p->lanes)), sum[TWO];
    for (int r = 0; r < s->height; r++) sum[r] = load_vector(p, at(p, sums[r], at_column));
    for (int t = 0; t < num; t++) {
      LLVMValueRef term = load_vector(p, at(p, row[t], at_column));
      for (int r = 0; r < s->height; r++) sum[r] = msc_product_add(p, one[r][t], term, sum[r]);
    }
    for (int r = 0; r < s->height; r++) store_vector(p, sum[r], at(p, sums[r], at_column));
  }
  msc_ir_loop_close(&p->e, &columns, NULL);
}

/* Makes the sums of a block, which begins at term `begin`. */
static void sum_block(product *p, const multiplying *x, const stream *s, LLVMValueRef a, LLVMValueRef b,
                      LLVMValueRef begin) {
  msc_ir_loop columns, terms;
  open_columns(p, &columns, s);
  for (int r = 0; r < s->height; r++)
    for (int v = 0; v < VECTORS; v++)
      store_vector(p, LLVMConstNull(p->vector),
                   at_sum(p, x, s, s->level, r, nsw_add(p, columns.index, i64(p, v * p->lanes))));
  msc_ir_loop_close(&p->e, &columns, NULL);
  LLVMValueRef whole = nsw_add(p, begin, LLVMBuildAnd(p->b, x->block, i64(p, -TOGETHER), ""));
  msc_ir_loop_open(&p->e, &terms, begin, whole, TOGETHER, 0, NULL);
  add_terms(p, x, s, a, b, terms.index, TOGETHER);
  msc_ir_loop_close(&p->e, &terms, NULL);
  msc_ir_loop_open(&p->e, &terms, whole, nsw_add(p, begin, x->block), 1, 0, NULL);
  add_terms(p, x, s, a, b, terms.index, 1);
  msc_ir_loop_close(&p->e, &terms, NULL);
}

/* Adds the sums of block number `block` to the tree, as msc_ir_fold does. Returns the level of the next block. */
static LLVMValueRef fold_block(product *p, const multiplying *x, const stream *s, LLVMValueRef block) {
  msc_ir_loop meet, columns;
  LLVMTypeRef i64_type = LLVMInt64TypeInContext(p->e.l->llvm);
  LLVMValueRef next = nsw_add(p, block, i64(p, 1)),
               args[2] = {next, LLVMConstInt(LLVMInt1TypeInContext(p->e.l->llvm), 0, false)};
  LLVMValueRef level = s->level, ones = msc_ir_call(&p->e, "llvm.cttz", 1, &i64_type, 2, args);
  msc_ir_loop_open(&p->e, &meet, i64(p, 0), ones, 1, 1, &level);
  LLVMValueRef below = nsw_sub(p, level, i64(p, 1));
  open_columns(p, &columns, s);
  for (int r = 0; r < s->height; r++)
    for (int v = 0; v < VECTORS; v++) {
      LLVMValueRef index = nsw_add(p, columns.index, i64(p, v * p->lanes)), to = at_sum(p, x, s, below, r, index);
      LLVMValueRef sum = load_vector(p, at_sum(p, x, s, level, r, index));
      store_vector(p, LLVMBuildFAdd(p->b, load_vector(p, to), sum, ""), to);
    }
  msc_ir_loop_close(&p->e, &columns, NULL);
  level = below;
  msc_ir_loop_close(&p->e, &meet, &level);
  return nsw_add(p, level, i64(p, 1));
}

/* Multiplies rows `row` and following by some columns. */
static void multiply_columns(product *p, const multiplying *x, stream *s, LLVMValueRef a, LLVMValueRef row) {
  msc_ir_loop blocks, columns;
  LLVMValueRef b = at(p, x->b, s->column), carried = i64(p, 0);
  msc_ir_loop_open(&p->e, &blocks, i64(p, 0), x->blocks, 1, 1, &carried);
  s->level = carried;
  sum_block(p, x, s, a, b, nsw_mul(p, blocks.index, x->block));
  carried = fold_block(p, x, s, blocks.index);
  msc_ir_loop_close(&p->e, &blocks, &carried);
  open_columns(p, &columns, s);
  LLVMValueRef sum[TWO * VECTORS];
  for (int r = 0; r < s->height; r++)
    for (int v = 0; v < VECTORS; v++)
      sum[r * VECTORS + v] =
          load_vector(p, at_sum(p, x, s, i64(p, 0), r, nsw_add(p, columns.index, i64(p, v * p->lanes))));
  store_sums(p, &x->c, s->height, row, nsw_add(p, s->column, columns.index), sum);
  msc_ir_loop_close(&p->e, &columns, NULL);
}

int msc_product_stream_columns(const product *p) {
  enum { SUMS_OF_ROW = 4096 /* bytes */ };
  return SUMS_OF_ROW / (int)p->bytes;
}

void msc_product_multiply_streams(product *p, const multiplying *given, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop rows, parts;
  /* distances are read again: LLVM keeps in memory what too much code reads, and other forms need it in registers */
  multiplying own = *given, *x = &own;
  x->term_b = hide(p, load_dim(p, 8)), x->b = hide(p, load_buffer(p, 1)), x->blocks = hide(p, load_dim(p, 4));
  x->block = LLVMBuildSDiv(p->b, hide(p, load_dim(p, 1)), x->blocks, "");
  LLVMValueRef whole = nsw_add(p, begin, LLVMBuildAnd(p->b, nsw_sub(p, end, begin), i64(p, -TWO), ""));
  for (int height = TWO; height; height--) {
    msc_ir_loop_open(&p->e, &rows, height == TWO ? begin : whole, height == TWO ? whole : end, height, 0, NULL);
    LLVMValueRef a = at(p, x->a, nsw_mul(p, nsw_sub(p, rows.index, begin), x->row_a));
    msc_ir_loop_open(&p->e, &parts, i64(p, 0), x->c.columns, msc_product_stream_columns(p), 0, NULL);
    LLVMValueRef left = nsw_sub(p, x->c.columns, parts.index);
    stream s = {.column = parts.index,
                .columns = least(p, left, i64(p, msc_product_stream_columns(p))),
                .height = height};
    multiply_columns(p, x, &s, a, rows.index);
    msc_ir_loop_close(&p->e, &parts, NULL);
    msc_ir_loop_close(&p->e, &rows, NULL);
  }
}
