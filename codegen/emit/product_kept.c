/* product_kept.c: rows of a and columns of b with eight blocks of one term or two in; rows of c out. */
#include "codegen/emit/product_multiply.h"

/* Terms of some columns of b, in registers: those of all its vectors, term by term. */
typedef struct {
  LLVMValueRef term[2 * EIGHT];
  int block; /* terms of a block */
} kept_terms;

/* Loads the terms of the columns from `column` on, which are a panel or a vector of it. */
static void keep_terms(product *p, const multiplying *x, LLVMValueRef column, kept_terms *out) {
  LLVMValueRef in_panel = LLVMBuildAnd(p->b, column, i64(p, p->width - 1), ""),
               from = nsw_add(p, nsw_mul(p, nsw_sub(p, column, in_panel), x->k), in_panel);
  out->block = x->form == TWOS ? 2 : 1;
  for (int t = 0; t < EIGHT * out->block; t++)
    for (int v = 0; v < p->vectors; v++)
      out->term[t * p->vectors + v] =
          load_vector(p, at(p, x->b, nsw_add(p, from, i64(p, t * p->width + v * p->lanes))));
}

/* Sums `blocks` blocks of a row of a, from number `first` on. `w`: how the terms of a row lie; `a`: pointers to every
 * fourth of them. */
static void sum_row(product *p, const kept_terms *kept, const walk *w, const LLVMValueRef *a, int first, int blocks,
                    LLVMValueRef *sum) {
  LLVMValueRef left[VECTORS];
  if (blocks > 1) {
    sum_row(p, kept, w, a, first, blocks / 2, left);
    sum_row(p, kept, w, a, first + blocks / 2, blocks / 2, sum);
    for (int v = 0; v < p->vectors; v++) sum[v] = LLVMBuildFAdd(p->b, left[v], sum[v], "");
    return;
  }
  for (int v = 0; v < p->vectors; v++) sum[v] = LLVMConstNull(p->vector);
  for (int t = first * kept->block; t < (first + 1) * kept->block; t++) {
    LLVMValueRef one =
        msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, msc_product_at_row(p, w, a, t), ""), p->lanes);
    for (int v = 0; v < p->vectors; v++) sum[v] = msc_product_add(p, one, kept->term[t * p->vectors + v], sum[v]);
  }
}

void msc_product_multiply_by_kept(product *p, const multiplying *x, LLVMValueRef a, LLVMValueRef first,
                                  LLVMValueRef last, LLVMValueRef column) {
  enum { TWO = 2 };
  msc_ir_loop rows;
  kept_terms kept;
  walk w = {.height = 1};
  LLVMValueRef pointer[2 * EIGHT / ROWS_APART], border = LLVMBuildAnd(p->b, nsw_sub(p, last, first), i64(p, -TWO), "");
  keep_terms(p, x, column, &kept);
  int num = EIGHT * kept.block / ROWS_APART;
  for (int i = 0; i < ROWS_APART; i++) w.row[i] = nsw_mul(p, x->term_a, i64(p, i));
  for (int i = 0; i < num; i++) pointer[i] = at(p, a, nsw_mul(p, x->term_a, i64(p, i * ROWS_APART)));
  border = nsw_add(p, first, border);
  for (int height = TWO; height; height--) {
    LLVMValueRef sum[TWO * VECTORS];
    msc_ir_loop_open(&p->e, &rows, height == TWO ? first : border, height == TWO ? border : last, height, num, pointer);
    for (int r = 0; r < height; r++) {
      sum_row(p, &kept, &w, pointer, 0, EIGHT, sum + r * p->vectors);
      for (int i = 0; i < num; i++) pointer[i] = step_on(p, pointer[i], x->row_a);
    }
    store_sums(p, &x->c, height, rows.index, column, sum);
    msc_ir_loop_close(&p->e, &rows, pointer);
  }
}
