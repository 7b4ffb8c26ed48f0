/* product_sums.c: a group of rows of a and columns of b in; their sums out: blocks of terms by fma, and the tree over
 * blocks. */
#include <string.h>

#include "codegen/emit/product_multiply.h"

enum {
  UNROLLED = 4, /* terms per iteration */
  AHEAD = 384,  /* how far ahead b is prefetched, counted in products of vectors */
  MAX_POINTERS = MAX_HEIGHT / ROWS_APART,
  CARRIED = 2 * SUMS + MAX_POINTERS + 2,
};
_Static_assert((int)CARRIED <= (int)MAX_CARRIED, "a loop carries the sums of two blocks and the pointers");

static int log_blocks(sum_form form) { return form < PAIRS ? 0 : form - PAIRS + 1; }

static int num_sums(const product *p, const walk *w) { return w->height * p->vectors; }

static int num_pointers(const walk *w) { return (w->height + ROWS_APART - 1) / ROWS_APART; }

LLVMValueRef msc_product_add(product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
  LLVMValueRef arg[3] = {a, b, sum};
  if (!p->pairs) return msc_ir_call(&p->e, "llvm.fma", 1, &p->vector, 3, arg);
  LLVMTypeRef pairs = LLVMVectorType(LLVMBFloatTypeInContext(p->e.l->llvm), 2 * (unsigned)p->lanes);
  arg[0] = sum;
  arg[1] = LLVMBuildBitCast(p->b, a, pairs, ""), arg[2] = LLVMBuildBitCast(p->b, b, pairs, "");
  return msc_ir_call(&p->e, "llvm.x86.avx512bf16.dpbf16ps.512", 0, NULL, 3, arg);
}

/* An address may scale a register by at most eight. Two rows of elements of four bytes are therefore the distance of
 * one row times eight. */
LLVMValueRef msc_product_at_row(product *p, const walk *w, const LLVMValueRef *a, int row) {
  enum { TWO = 2, MOST = 8 };
  LLVMValueRef pointer = a[row / ROWS_APART], one = w->row[1];
  if (row % ROWS_APART != TWO || TWO * p->bytes > MOST) return at(p, pointer, w->row[row % ROWS_APART]);
  return LLVMBuildInBoundsGEP2(p->b, LLVMInt64TypeInContext(p->e.l->llvm), pointer, &one, 1, "");
}

/* Adds one term to all sums of a block. */
static void multiply_term(product *p, const walk *w, const LLVMValueRef *a, LLVMValueRef b, LLVMValueRef *acc) {
  LLVMValueRef term[MAX_VECTORS];
  for (int v = 0; v < p->vectors; v++) term[v] = load_vector(p, at(p, b, i64(p, v * p->lanes)));
  for (int r = 0; r < w->height; r++) {
    LLVMValueRef place = msc_product_at_row(p, w, a, r);
    LLVMValueRef one = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, place, ""), p->lanes);
    for (int v = 0; v < p->vectors; v++)
      acc[r * p->vectors + v] = msc_product_add(p, one, term[v], acc[r * p->vectors + v]);
  }
}

/* Prefetches elements of b that are read some terms later: where b is not packed its rows are so far apart that no CPU
 * prefetches them. Rows that lie a multiple of 4096 bytes apart have few places in the nearest cache, which would lose
 * them before they are read. */
static void fetch_ahead(product *p, const multiplying *x, LLVMValueRef b) {
  fetching what = has_32_registers(p) || is_wide(x->form) ? TO_READ_LATER : TO_READ;
  for (int v = 0; v < p->vectors; v++) fetch(p, at(p, b, i64(p, v * p->lanes)), what);
}

/* Opens a loop over `terms` terms. `up`: the counter goes from -terms up to 0, because another bound would need a
 * register that pointers need. */
static void open_terms(product *p, msc_ir_loop *l, bool up, LLVMValueRef terms, int step, int num,
                       LLVMValueRef *carried) {
  LLVMValueRef none = i64(p, 0);
  msc_ir_loop_open(&p->e, l, up ? hide(p, nsw_sub(p, none, terms)) : none, up ? none : terms, step, num, carried);
}

/* Adds `num_terms` terms to the sums of a block, `together` of them per iteration. `fetches`: prefetches terms of b.
 * `carried`: the sums, the pointers to the next terms of a, and the pointer to those of b. */
static void sum_terms(product *p, const multiplying *x, const walk *w, LLVMValueRef num_terms, int together,
                      bool fetches, LLVMValueRef *carried) {
  msc_ir_loop terms;
  int num = num_sums(p, w), pointers = num_pointers(w);
  LLVMValueRef *a = carried + num, *b = a + pointers, ahead = hide(p, nsw_mul(p, x->ahead, i64(p, AHEAD / num)));
  open_terms(p, &terms, true, num_terms, together, num + pointers + 1, carried);
  for (int k = 0; k < together; k++) {
    if (fetches) fetch_ahead(p, x, at(p, *b, ahead));
    multiply_term(p, w, a, *b, carried);
    for (int i = 0; i < pointers; i++) a[i] = step_on(p, a[i], x->term_a);
    *b = step_on(p, *b, x->term_b);
  }
  msc_ir_loop_close(&p->e, &terms, carried);
}

/* Sums the next block, from zero. */
static void sum_block(product *p, const multiplying *x, walk *w, LLVMValueRef *acc) {
  int num = num_sums(p, w), pointers = num_pointers(w);
  LLVMValueRef carried[CARRIED], *a = carried + num, *b = a + pointers;
  for (int i = 0; i < num; i++) carried[i] = LLVMConstNull(p->vector);
  for (int i = 0; i < pointers; i++) a[i] = at(p, w->a, nsw_mul(p, x->row_a, i64(p, i * ROWS_APART)));
  *b = w->b;
  LLVMValueRef whole = LLVMBuildAnd(p->b, x->block, i64(p, -UNROLLED), ""), left = nsw_sub(p, x->block, whole);
  bool fetches = x->form != NARROW; /* a panel of one vector is read in order anyway */
  /* A wide form would prefetch once for every two loads: it has another loop without, for where the CPU prefetches. */
  if (is_wide(x->form)) {
    LLVMValueRef none = i64(p, 0), by_itself = LLVMBuildICmp(p->b, LLVMIntEQ, x->ahead, none, "");
    sum_terms(p, x, w, LLVMBuildSelect(p->b, by_itself, whole, none, ""), UNROLLED, false, carried);
    whole = LLVMBuildSelect(p->b, by_itself, none, whole, "");
  }
  sum_terms(p, x, w, whole, UNROLLED, fetches, carried);
  sum_terms(p, x, w, left, 1, fetches, carried);
  w->a = a[0], w->b = *b;
  memcpy(acc, carried, sizeof *acc * (size_t)num);
}

/* Sums the next block of a transposed b, which is transposed in registers square by square. */
static void sum_transposed_block(product *p, const multiplying *x, walk *w, LLVMValueRef *acc) {
  msc_ir_loop squares;
  int num = num_sums(p, w), pointers = num_pointers(w), columns = (p->lanes + ROWS_APART - 1) / ROWS_APART;
  LLVMValueRef carried[CARRIED], *a = carried + num, *b = a + pointers, next = i64(p, p->lanes), apart[ROWS_APART];
  for (int c = 0; c < ROWS_APART; c++) apart[c] = nsw_mul(p, x->column_b, i64(p, c));
  for (int i = 0; i < num; i++) carried[i] = LLVMConstNull(p->vector);
  for (int i = 0; i < pointers; i++) a[i] = at(p, w->a, nsw_mul(p, x->row_a, i64(p, i * ROWS_APART)));
  for (int i = 0; i < columns; i++) b[i] = at(p, w->b, nsw_mul(p, x->column_b, i64(p, i * ROWS_APART)));
  open_terms(p, &squares, has_32_registers(p), x->block, p->lanes, num + pointers + columns, carried);
  LLVMValueRef term[64];
  for (int c = 0; c < p->lanes; c++) term[c] = load_vector(p, at(p, b[c / ROWS_APART], apart[c % ROWS_APART]));
  msc_ir_transpose_square(&p->e, p->lanes, term);
  for (int k = 0; k < p->lanes; k++)
    for (int r = 0; r < w->height; r++) {
      LLVMValueRef place = at(p, msc_product_at_row(p, w, a, r), i64(p, k));
      LLVMValueRef one = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, place, ""), p->lanes);
      carried[r] = msc_product_add(p, one, term[k], carried[r]);
    }
  for (int i = 0; i < pointers + columns; i++) a[i] = step_on(p, a[i], next);
  msc_ir_loop_close(&p->e, &squares, carried);
  w->a = a[0], w->b = b[0];
  memcpy(acc, carried, sizeof *acc * (size_t)num);
}

/* Sums the next two blocks and adds the sums. */
static void sum_pair(product *p, const multiplying *x, walk *w, LLVMValueRef *acc) {
  msc_ir_loop terms;
  int num = num_sums(p, w), pointers = num_pointers(w);
  LLVMValueRef block_a = nsw_mul(p, x->block, x->term_a), block_b = nsw_mul(p, x->block, x->term_b);
  LLVMValueRef carried[CARRIED], *second = carried + num, *a = second + num, *b = a + 2 * pointers;
  for (int i = 0; i < 2 * num; i++) carried[i] = LLVMConstNull(p->vector);
  for (int i = 0; i < pointers; i++) {
    a[i] = at(p, w->a, nsw_mul(p, x->row_a, i64(p, i * ROWS_APART)));
    a[pointers + i] = at(p, a[i], block_a);
  }
  *b = w->b;
  int together = x->form == EIGHTS ? 2 : 1;
  open_terms(p, &terms, x->form == EIGHTS, x->block, together, 2 * num + 2 * pointers + 1, carried);
  for (int k = 0; k < together; k++) {
    multiply_term(p, w, a, *b, carried);
    multiply_term(p, w, a + pointers, at(p, *b, block_b), second);
    for (int i = 0; i < 2 * pointers; i++) a[i] = step_on(p, a[i], x->term_a);
    *b = step_on(p, *b, x->term_b);
  }
  msc_ir_loop_close(&p->e, &terms, carried);
  w->a = a[pointers], w->b = at(p, *b, block_b);
  for (int i = 0; i < num; i++) acc[i] = LLVMBuildFAdd(p->b, carried[i], second[i], "");
}

/* Sums the next `num` blocks. */
static void sum_some(product *p, const multiplying *x, walk *w, int num, LLVMValueRef *acc) {
  LLVMValueRef left[SUMS];
  if (num == 2) {
    sum_pair(p, x, w, acc);
    return;
  }
  sum_some(p, x, w, num / 2, left);
  sum_some(p, x, w, num / 2, acc);
  for (int i = 0; i < num_sums(p, w); i++) acc[i] = LLVMBuildFAdd(p->b, left[i], acc[i], "");
}

/* Sums the next blocks, as many as the form takes together. */
static void sum_next_blocks(product *p, const multiplying *x, walk *w, LLVMValueRef *acc) {
  if (x->form == TRANSPOSED) {
    sum_transposed_block(p, x, w, acc);
  } else if (x->form < PAIRS) {
    sum_block(p, x, w, acc);
  } else if (x->form == PAIRS) {
    sum_pair(p, x, w, acc);
  } else {
    sum_some(p, x, w, 1 << log_blocks(x->form), acc);
  }
}

/* Adds the sum of a block to the tree: to as many waiting sums as the block's number has trailing one bits, the last of
 * them first; then the new sum waits, too. Returns where the next sum will wait. This does the same as msc_ir_fold, but
 * for all sums of a block at once. */
static LLVMValueRef fold_blocks(product *p, int num, LLVMValueRef block, LLVMValueRef blocks, LLVMValueRef top,
                                LLVMValueRef *acc) {
  msc_ir_loop meet;
  LLVMTypeRef i64_type = LLVMInt64TypeInContext(p->e.l->llvm);
  LLVMValueRef kept[SUMS + 1], next = nsw_add(p, block, i64(p, 1)),
                               args[2] = {next, LLVMConstInt(LLVMInt1TypeInContext(p->e.l->llvm), 0, false)};
  LLVMValueRef ones = msc_ir_call(&p->e, "llvm.cttz", 1, &i64_type, 2, args);
  LLVMBasicBlockRef from[2], wait = msc_ir_block(&p->e), done = msc_ir_block(&p->e);
  memcpy(kept, acc, sizeof *acc * (size_t)num);
  kept[num] = top;
  msc_ir_loop_open(&p->e, &meet, i64(p, 0), ones, 1, num + 1, kept);
  kept[num] = at(p, kept[num], i64(p, -num * p->lanes));
  for (int i = 0; i < num; i++)
    kept[i] = LLVMBuildFAdd(p->b, load_vector(p, at(p, kept[num], i64(p, i * p->lanes))), kept[i], "");
  msc_ir_loop_close(&p->e, &meet, kept);
  from[0] = LLVMGetInsertBlock(p->b), from[1] = wait;
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, next, blocks, ""), wait, done);
  LLVMPositionBuilderAtEnd(p->b, wait);
  for (int i = 0; i < num; i++) store_vector(p, kept[i], at(p, kept[num], i64(p, i * p->lanes)));
  LLVMValueRef tops[2] = {kept[num], at(p, kept[num], i64(p, num * p->lanes))};
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, done);
  top = LLVMBuildPhi(p->b, LLVMTypeOf(top), "");
  LLVMAddIncoming(top, tops, from, 2);
  memcpy(acc, kept, sizeof *acc * (size_t)num);
  return top;
}

void msc_product_sum_blocks(product *p, const multiplying *x, walk *w, LLVMValueRef *out_acc) {
  msc_ir_loop trees;
  int num = num_sums(p, w);
  LLVMValueRef acc[SUMS + 3], num_trees = LLVMBuildLShr(p->b, x->blocks, i64(p, log_blocks(x->form)), "");
  for (int i = 0; i < num; i++) acc[i] = LLVMConstNull(p->vector);
  acc[num] = w->a, acc[num + 1] = w->b, acc[num + 2] = x->waiting;
  msc_ir_loop_open(&p->e, &trees, i64(p, 0), num_trees, 1, num + 3, acc);
  w->a = acc[num], w->b = acc[num + 1];
  sum_next_blocks(p, x, w, acc);
  acc[num] = w->a, acc[num + 1] = w->b;
  acc[num + 2] = fold_blocks(p, num, trees.index, num_trees, acc[num + 2], acc);
  msc_ir_loop_close(&p->e, &trees, acc);
  memcpy(out_acc, acc, sizeof *acc * (size_t)num);
}
