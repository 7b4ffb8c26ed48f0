/* product_pack.c: the kernel that packs columns of b: rows of b, or of a transposed b, in; panels, as product.c
 * describes them, out. */
#include "codegen/emit/product.h"

typedef struct {
  LLVMValueRef b, room, columns, k, step; /* k: how many elements a column of a panel has */
  LLVMValueRef terms, blocks;
  filling filling; /* of pairs */
} packing;

/* Packs b row by row, so that memory is read in long runs. */
static void pack_rows(product *p, const packing *g, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop rows, panels;
  LLVMValueRef whole = LLVMBuildSDiv(p->b, g->columns, i64(p, p->width), ""),
               left = nsw_sub(p, g->columns, nsw_mul(p, whole, i64(p, p->width)));
  LLVMValueRef mask[VECTORS], last = least(p, end, whole);
  for (int v = 0; v < VECTORS; v++) mask[v] = mask_below(p, nsw_sub(p, left, i64(p, v * p->lanes)));
  msc_ir_loop_open(&p->e, &rows, i64(p, 0), g->k, 1, 0, NULL);
  pair_place term = find_terms(p, &g->filling, rows.index, g->step);
  LLVMValueRef to = at(p, g->room, nsw_mul(p, rows.index, i64(p, p->width)));
  LLVMValueRef size = nsw_mul(p, g->k, i64(p, p->width));
  for (int masked = 0; masked < 2; masked++) {
    msc_ir_loop_open(&p->e, &panels, masked ? last : begin, masked ? end : last, 1, 0, NULL);
    for (int v = 0; v < VECTORS; v++) {
      LLVMValueRef base =
          at_operand(p, g->b, nsw_add(p, nsw_mul(p, panels.index, i64(p, p->width)), i64(p, v * p->lanes)));
      store_vector(p, load_across(p, base, &term, masked ? mask[v] : NULL),
                   at(p, to, nsw_add(p, nsw_mul(p, panels.index, size), i64(p, v * p->lanes))));
    }
    msc_ir_loop_close(&p->e, &panels, NULL);
  }
  msc_ir_loop_close(&p->e, &rows, NULL);
}

/* Packs columns of a transposed b, which begin at row[..], in squares of lanes x lanes elements that are transposed in
 * registers: `terms` terms, which take `units` elements of a panel's column. The last square may write behind them.
 * `fills`: zeros fill what the terms leave of the last elements. */
static void pack_squares(product *p, LLVMValueRef *row, LLVMValueRef to, LLVMValueRef terms, LLVMValueRef units,
                         bool fills) {
  msc_ir_loop squares;
  LLVMValueRef whole = LLVMBuildAnd(p->b, units_of(p, terms), i64(p, -p->lanes), "");
  for (int masked = 0; masked < 2; masked++) {
    msc_ir_loop_open(&p->e, &squares, masked ? whole : i64(p, 0), masked ? units : whole, p->lanes, 0, NULL);
    LLVMValueRef mask = masked && !fills ? mask_below(p, nsw_sub(p, units, squares.index)) : NULL,
                 first = p->pairs ? LLVMBuildShl(p->b, squares.index, i64(p, 1), "") : squares.index;
    for (int v = 0; v < VECTORS; v++) {
      LLVMValueRef x[64];
      for (int c = 0; c < p->lanes; c++) {
        LLVMValueRef place = at_operand(p, row[v * p->lanes + c], first);
        x[c] = masked && fills ? load_filled(p, place, nsw_sub(p, terms, first)) : load_along(p, place, mask);
      }
      msc_ir_transpose_square(&p->e, p->lanes, x);
      for (int k = 0; k < p->lanes; k++)
        store_vector(
            p, x[k],
            at(p, to, nsw_add(p, nsw_mul(p, squares.index, i64(p, p->width)), i64(p, k * p->width + v * p->lanes))));
    }
    msc_ir_loop_close(&p->e, &squares, NULL);
  }
}

/* Packs a transposed b. What the last square of a block writes behind it is overwritten by the next block, or lies
 * where later panels will be, or in the room that msc_product_panel_elems leaves. Blocks without filling zeros lie one
 * behind another, like a single block. */
static void pack_columns(product *p, const packing *g, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop panels, blocks;
  LLVMValueRef last = nsw_sub(p, g->columns, i64(p, 1)), size = nsw_mul(p, g->k, i64(p, p->width));
  msc_ir_loop_open(&p->e, &panels, begin, end, 1, 0, NULL);
  LLVMValueRef to = at(p, g->room, nsw_mul(p, panels.index, size)), first = nsw_mul(p, panels.index, i64(p, p->width)),
               row[VECTORS * 64];
  for (int c = 0; c < p->width; c++)
    row[c] = at_operand(p, g->b, nsw_mul(p, least(p, nsw_add(p, first, i64(p, c)), last), g->step));
  if (!p->pairs) {
    pack_squares(p, row, to, g->k, g->k, false);
  } else {
    const filling *f = &g->filling;
    LLVMValueRef terms = LLVMBuildSelect(p->b, f->filled, f->block, g->terms, ""),
                 units = LLVMBuildSelect(p->b, f->filled, f->units, g->k, "");
    msc_ir_loop_open(&p->e, &blocks, i64(p, 0), LLVMBuildSelect(p->b, f->filled, g->blocks, i64(p, 1), ""), 1, 0, NULL);
    LLVMValueRef from[VECTORS * 64], past = nsw_mul(p, blocks.index, terms);
    for (int c = 0; c < p->width; c++) from[c] = at_operand(p, row[c], past);
    pack_squares(p, from, at(p, to, nsw_mul(p, nsw_mul(p, blocks.index, units), i64(p, p->width))), terms, units, true);
    msc_ir_loop_close(&p->e, &blocks, NULL);
  }
  msc_ir_loop_close(&p->e, &panels, NULL);
}

void msc_product_emit_pack(msc_llvm *l, msc_dtype dtype, bool transposed, bool pairs, LLVMValueRef fn) {
  product p = product_of(l, dtype, pairs, fn);
  packing g = {.b = load_buffer(&p, 0),
               .room = load_buffer(&p, 1),
               .columns = load_dim(&p, 0),
               .terms = load_dim(&p, 1),
               .step = load_dim(&p, 2)};
  if (pairs) g.blocks = load_dim(&p, 3), g.filling = filling_of(&p, g.terms, g.blocks);
  g.k = units_of_all(&p, &g.filling, g.terms, g.blocks);
  (transposed ? pack_columns : pack_rows)(&p, &g, LLVMGetParam(fn, 1), LLVMGetParam(fn, 2));
  LLVMBuildRetVoid(l->builder);
}
