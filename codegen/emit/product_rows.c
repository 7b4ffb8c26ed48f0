/* product_rows.c: rows of a, as they lie, in; rows as `multiply` reads them out: in place, or packed into its room. */
#include "codegen/emit/product_multiply.h"

/* A panel that is packed from rows of a, which is stored transposed: `from` points into a, `to` to the panel, and
 * mask[v] selects the lanes of a term's vector v whose rows exist. `ahead`: elements to the terms that are prefetched,
 * because no CPU foresees terms that are far apart. */
typedef struct {
  LLVMValueRef from, to, ahead, mask[64];
} row_panel;

/* Packs terms first .. last - 1 of a panel. Vectors may write behind a term's rows, unless `exactly`. `even`: no block
 * ends with a pair that zeros fill, so the pairs of all blocks lie one after another. */
static void pack_panel(product *p, const multiplying *x, const row_panel *panel, LLVMValueRef first, LLVMValueRef last,
                       bool even, bool exactly) {
  msc_ir_loop terms;
  int rows = msc_product_panel_rows(p, x->form), num = (int)msc_product_whole(rows, p->width) / p->lanes;
  LLVMValueRef step = load_dim(p, 2);
  msc_ir_loop_open(&p->e, &terms, first, last, 1, 0, NULL);
  pair_place term = even ? find_even_pair(p, terms.index, step) : find_terms(p, &x->filling, terms.index, step);
  fetch(p, at_operand(p, panel->from, nsw_add(p, term.first, panel->ahead)), TO_READ);
  for (int v = 0; v < num; v++) {
    LLVMValueRef mask = panel->mask[v],
                 got = load_across(p, at_operand(p, panel->from, i64(p, v * p->lanes)), &term, mask),
                 place = at(p, panel->to, nsw_add(p, nsw_mul(p, terms.index, i64(p, rows)), i64(p, v * p->lanes)));
    if (exactly) store_masked(p, got, place, mask);
    else store_vector(p, got, place);
  }
  msc_ir_loop_close(&p->e, &terms, NULL);
}

/* Packs some terms of the rows of a transposed a, one panel of rows after the other; `ahead`: elements to the terms
 * that are packed next. */
static void pack_terms(product *p, const multiplying *x, const LLVMValueRef *rows_range, LLVMValueRef first,
                       LLVMValueRef last, LLVMValueRef ahead, bool exactly) {
  msc_ir_loop panels;
  int rows = msc_product_panel_rows(p, x->form), num = (int)msc_product_whole(rows, p->width) / p->lanes;
  LLVMValueRef begin = rows_range[0], end = rows_range[1];
  msc_ir_loop_open(&p->e, &panels, begin, end, rows, 0, NULL);
  row_panel panel = {.from = at_operand(p, x->a, panels.index),
                     .to = at(p, x->room, nsw_mul(p, nsw_sub(p, panels.index, begin), x->k)),
                     .ahead = ahead};
  LLVMValueRef left = least(p, nsw_sub(p, end, panels.index), i64(p, rows));
  for (int v = 0; v < num; v++) panel.mask[v] = mask_below(p, nsw_sub(p, left, i64(p, v * p->lanes)));
  if (p->pairs && !exactly) {
    pack_panel(p, x, &panel, LLVMBuildSelect(p->b, x->filling.filled, last, first, ""), last, true, false);
    first = LLVMBuildSelect(p->b, x->filling.filled, first, last, "");
  }
  pack_panel(p, x, &panel, first, last, false, exactly);
  msc_ir_loop_close(&p->e, &panels, NULL);
}

/* Returns how many terms of all panels are packed together: enough to read whole cache lines, but fewer where the terms
 * share places of the nearest cache. */
static LLVMValueRef terms_together(product *p, LLVMValueRef step) {
  enum { MANY = 64, FEW = 32, FEW_PAIRS = 8 };
  return LLVMBuildSelect(p->b, places_meet(p, step), i64(p, p->pairs ? FEW_PAIRS : FEW), i64(p, MANY), "");
}

/* Packs the rows of a transposed a, some terms at a time for all panels, so that neighbouring memory is read in short
 * succession. What is written behind a term's rows is overwritten by the next term; behind the last term another panel
 * begins. */
static void pack_groups(product *p, const multiplying *x, LLVMValueRef step, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop groups;
  LLVMValueRef rows[2] = {begin, end}, none = i64(p, 0), one = i64(p, 1), before = nsw_sub(p, x->k, one),
               last = LLVMBuildSelect(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, before, none, ""), none, before, "");
  LLVMValueRef together = terms_together(p, step),
               num = LLVMBuildUDiv(p->b, nsw_add(p, last, nsw_sub(p, together, one)), together, "");
  msc_ir_loop_open(&p->e, &groups, none, num, 1, 0, NULL);
  LLVMValueRef first = nsw_mul(p, groups.index, together);
  pack_terms(p, x, rows, first, least(p, nsw_add(p, first, together), last), nsw_mul(p, together, step), false);
  msc_ir_loop_close(&p->e, &groups, NULL);
  pack_terms(p, x, rows, last, x->k, none, true);
}

/* Packs rows of a in their order, and widens them. A vector may write behind its row, where the next row is written
 * later, or none. */
static void widen_rows(product *p, const multiplying *x, LLVMValueRef step, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop rows, terms;
  LLVMValueRef whole = LLVMBuildAnd(p->b, x->k, i64(p, -p->lanes), ""), mask = mask_below(p, nsw_sub(p, x->k, whole));
  msc_ir_loop_open(&p->e, &rows, begin, end, 1, 0, NULL);
  LLVMValueRef from = at_operand(p, x->a, nsw_mul(p, rows.index, step)),
               to = at(p, x->room, nsw_mul(p, nsw_sub(p, rows.index, begin), x->k));
  for (int masked = 0; masked < 2; masked++) {
    msc_ir_loop_open(&p->e, &terms, masked ? whole : i64(p, 0), masked ? x->k : whole, p->lanes, 0, NULL);
    store_vector(p, load_operand(p, at_operand(p, from, terms.index), masked ? mask : NULL), at(p, to, terms.index));
    msc_ir_loop_close(&p->e, &terms, NULL);
  }
  msc_ir_loop_close(&p->e, &rows, NULL);
}

static void fill_rows_of_a(product *p, const multiplying *x, LLVMValueRef step, LLVMValueRef begin, LLVMValueRef end) {
  (void)step;
  fill_rows(p, &x->filling, x->a, x->room, x->k, begin, end);
}

/* Packs rows of a into x->room if `wanted`. */
static void pack_if(product *p, const multiplying *x, LLVMValueRef wanted, LLVMValueRef begin, LLVMValueRef end,
                    void (*pack)(product *, const multiplying *, LLVMValueRef step, LLVMValueRef begin,
                                 LLVMValueRef end)) {
  LLVMBasicBlockRef here = msc_ir_block(&p->e), after = msc_ir_block(&p->e);
  LLVMBuildCondBr(p->b, wanted, here, after);
  LLVMPositionBuilderAtEnd(p->b, here);
  pack(p, x, load_dim(p, 2), begin, end);
  LLVMBuildBr(p->b, after);
  LLVMPositionBuilderAtEnd(p->b, after);
}

/* Chooses where rows of a are read from. A transposed a is read in place if it has few terms or few rows, and is packed
 * otherwise. The limit of "few" is lower where terms lie so far apart that the nearest cache cannot hold many, or where
 * many columns share the packed rows. An a that is not transposed is read in place. An a that is widened is always
 * packed; one in pairs is packed if it is transposed or zeros fill its blocks. */
void msc_product_read_rows(product *p, multiplying *x, LLVMValueRef begin, LLVMValueRef end) {
  enum { FEW = 128, FEWER = 8, FAR_OR_SHARED = 32 * 1024, CLOSE = 64 };
  bool narrow = msc_product_packs_rows(p->operand_bytes, false, p->pairs, false);
  LLVMValueRef given = load_buffer(p, 0), step = load_dim(p, 2), one = i64(p, 1),
               rows = i64(p, msc_product_panel_rows(p, x->form)), transposed = is_dim_set(p, 5);
  LLVMValueRef apart = LLVMBuildAnd(p->b, transposed, LLVMBuildICmp(p->b, LLVMIntSGT, step, i64(p, CLOSE), ""), "");
  LLVMValueRef pays = LLVMBuildICmp(p->b, LLVMIntSGE, nsw_mul(p, step, x->c.columns), i64(p, FAR_OR_SHARED), "");
  LLVMValueRef few = LLVMBuildSelect(p->b, pays, i64(p, FEWER), i64(p, FEW), ""),
               many = narrow || p->pairs
                          ? transposed
                          : LLVMBuildAnd(p->b, apart, LLVMBuildICmp(p->b, LLVMIntSGT, x->k, few, ""), "");
  x->a = given, x->in_panels = many, x->panel_rows = rows;
  pack_if(p, x, many, begin, end, pack_groups);
  if (narrow) pack_if(p, x, LLVMBuildNot(p->b, transposed, ""), begin, end, widen_rows);
  LLVMValueRef in_order =
      p->pairs ? LLVMBuildAnd(p->b, x->filling.filled, LLVMBuildNot(p->b, transposed, ""), "") : NULL;
  if (p->pairs) pack_if(p, x, in_order, begin, end, fill_rows_of_a);
  LLVMValueRef row = narrow ? x->k : units_of(p, step);
  if (p->pairs) row = LLVMBuildSelect(p->b, in_order, x->k, row, "");
  x->row_a = LLVMBuildSelect(p->b, transposed, one, row, "");
  x->term_a = LLVMBuildSelect(p->b, transposed, LLVMBuildSelect(p->b, many, rows, step, ""), one, "");
  x->panel_a = nsw_mul(p, rows, LLVMBuildSelect(p->b, many, x->k, x->row_a, ""));
  LLVMValueRef in_room = p->pairs ? LLVMBuildOr(p->b, many, in_order, "") : many;
  x->a = narrow ? x->room : LLVMBuildSelect(p->b, in_room, x->room, at(p, given, nsw_mul(p, begin, x->row_a)), "");
}
