/* product.c: the element type of a and b in; the two kernels of their matrix products out.  `pack` copies columns of b
 * into panels, `multiply` computes rows of c from rows of a and packed panels.
 *
 * Every element of c has one accumulator per block of k, which takes its terms in ascending order by fma; blocks are
 * added as a balanced tree: ((0+1)+(2+3))+((4+5)+(6+7)).  So an element's bits depend neither on tiles nor on
 * registers, and a rank that holds an aligned part of the blocks has a subtree of the whole sum.
 *
 *   panel p of b: [k][width] elements, columns p * width and following; the last panel may have columns beyond n, whose
 *   results are never stored
 *   panel of rows of a, when a is transposed and long: [k][rows]; else a is read in place
 *
 * f16 and bf16 are widened where they are packed, which is exact, and a is packed then in any case, its rows as they
 * lie unless it is transposed; c and bias are f32.
 *
 * In pairs, an element of panels and rows is two neighbouring terms of bf16.  vdpbf16ps multiplies and adds them, the
 * second term first, each by an fma for which denormal operands and results are zero.  a is read in place unless it is
 * transposed, or zeros fill its blocks.  product_tiles.c takes the same panels. */
#include "codegen/emit/product_multiply.h"

/* Returns the height of the next group when `left` rows remain: the largest height after which either no rows remain,
 * or enough for a group that keeps the arithmetic units busy. */
static LLVMValueRef height_of(product *p, const int *h, LLVMValueRef left) {
  enum { ENOUGH = 3 };
  int num = 0;
  while (h[num]) num++;
  LLVMValueRef rows = i64(p, 1);
  for (int i = num - 2; i >= 0; i--) {
    LLVMValueRef fits = LLVMBuildICmp(p->b, LLVMIntSGE, left, i64(p, h[i]), "");
    if (h[i] > ENOUGH) {
      LLVMValueRef whole = LLVMBuildICmp(p->b, LLVMIntEQ, left, i64(p, h[i]), ""),
                   more = LLVMBuildICmp(p->b, LLVMIntSGE, left, i64(p, h[i] + ENOUGH), "");
      fits = LLVMBuildOr(p->b, whole, more, "");
    }
    rows = LLVMBuildSelect(p->b, fits, i64(p, h[i]), rows, "");
  }
  LLVMValueRef between = LLVMBuildAnd(p->b, LLVMBuildICmp(p->b, LLVMIntSGT, left, i64(p, h[0]), ""),
                                      LLVMBuildICmp(p->b, LLVMIntSLT, left, i64(p, h[0] + h[1] - 1), ""), "");
  return LLVMBuildSelect(p->b, between, i64(p, h[1]), rows, "");
}

/* Returns the distance of the terms of b that are prefetched; 0 if the CPU prefetches them by itself. It does so for
 * rows of a b in place, unless they are a multiple of 4096 bytes apart; prefetching what the CPU already fetches takes
 * time. */
static LLVMValueRef terms_ahead(product *p, LLVMValueRef term_b) {
  LLVMValueRef by_itself = LLVMBuildAnd(p->b, is_dim_set(p, 8), is_trait_set(p, MSC_PRODUCT_FETCHES_ROWS), "");
  by_itself = LLVMBuildAnd(p->b, by_itself, LLVMBuildNot(p->b, places_meet(p, term_b), ""), "");
  return LLVMBuildSelect(p->b, by_itself, i64(p, 0), term_b, "");
}

static LLVMValueRef at_byte(product *p, LLVMValueRef base, LLVMValueRef bytes) {
  return LLVMBuildInBoundsGEP2(p->b, LLVMInt8TypeInContext(p->e.l->llvm), base, &bytes, 1, "");
}

/* Returns the bytes of so many elements of the result. */
static LLVMValueRef bytes_of_result(product *p, const result *y, LLVMValueRef elems) {
  LLVMValueRef wide = i64(p, p->bytes);
  return nsw_mul(p, elems, y->rounds ? LLVMBuildSelect(p->b, y->rounds, i64(p, p->operand_bytes), wide, "") : wide);
}

/* Prefetches the memory where the sums of a group will be stored: the lines of neighbouring rows of a large result are
 * far apart, and stores that wait for them delay the next group. The addresses are computed again for the stores,
 * because the sums need the registers. */
static void fetch_result(product *p, const result *y, int height, LLVMValueRef row, LLVMValueRef column) {
  LLVMValueRef step = bytes_of_result(p, y, y->step_c), to = bytes_of_result(p, y, column),
               place = hide(p, at_byte(p, y->c, nsw_add(p, nsw_mul(p, row, step), to)));
  for (int r = 0; r < height; r++, place = at_byte(p, place, step))
    for (int v = 0; v < p->vectors; v++) fetch(p, at_byte(p, place, i64(p, v * p->lanes * p->bytes)), TO_WRITE);
}

/* Multiplies `height` rows of a by one panel of b, for rows `row` and following of c. */
static void multiply_group(product *p, const multiplying *x, int height, LLVMValueRef a, LLVMValueRef row,
                           LLVMValueRef column) {
  LLVMValueRef acc[SUMS];
  walk w = {.a = a, .b = at(p, x->b, nsw_mul(p, column, x->column_b)), .height = height};
  for (int r = 0; r < ROWS_APART; r++) w.row[r] = nsw_mul(p, x->row_a, i64(p, r));
  fetch_result(p, &x->c, height, row, column);
  msc_product_sum_blocks(p, x, &w, acc);
  store_sums(p, &x->c, height, row, column, acc);
}

/* Multiplies rows first .. last - 1, from `panel` on, which are in one panel if there are panels, group by group. */
static void multiply_rows(product *p, const multiplying *x, LLVMValueRef panel, LLVMValueRef first, LLVMValueRef last,
                          LLVMValueRef column) {
  const int *heights = msc_product_heights(p, x->form);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(p->b), body = msc_ir_block(&p->e), none = msc_ir_block(&p->e),
                    next = msc_ir_block(&p->e), after = msc_ir_block(&p->e);
  LLVMBuildBr(p->b, body);
  LLVMPositionBuilderAtEnd(p->b, body);
  LLVMValueRef row = LLVMBuildPhi(p->b, LLVMInt64TypeInContext(p->e.l->llvm), "");
  LLVMAddIncoming(row, &first, &before, 1);
  LLVMValueRef height = height_of(p, heights, nsw_sub(p, last, row)),
               a = at(p, panel, nsw_mul(p, nsw_sub(p, row, first), x->row_a));
  LLVMValueRef choice = LLVMBuildSwitch(p->b, height, none, 5);
  for (const int *h = heights; *h; h++) {
    LLVMBasicBlockRef here = msc_ir_block(&p->e);
    LLVMAddCase(choice, i64(p, *h), here);
    LLVMPositionBuilderAtEnd(p->b, here);
    multiply_group(p, x, *h, a, row, column);
    LLVMBuildBr(p->b, next);
  }
  LLVMPositionBuilderAtEnd(p->b, none);
  LLVMBuildUnreachable(p->b);
  LLVMPositionBuilderAtEnd(p->b, next);
  LLVMValueRef following = nsw_add(p, row, height);
  LLVMAddIncoming(row, &following, &next, 1);
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, following, last, ""), body, after);
  LLVMPositionBuilderAtEnd(p->b, after);
}

/* Multiplies all rows by columns first .. last - 1, by as many panels together as the form takes. The outer loop is
 * over panels of b, so that each panel is read from the nearest cache for all rows. */
static void multiply_all(product *p, const multiplying *x, LLVMValueRef first, LLVMValueRef last, LLVMValueRef begin,
                         LLVMValueRef end) {
  msc_ir_loop panels, rows;
  LLVMValueRef height = x->panel_rows, all = nsw_sub(p, end, begin), none = i64(p, 0),
               any = LLVMBuildZExt(p->b, LLVMBuildICmp(p->b, LLVMIntSGT, all, none, ""), LLVMTypeOf(all), ""),
               whole = LLVMBuildUDiv(p->b, nsw_add(p, all, nsw_sub(p, height, i64(p, 1))), height, ""),
               num = LLVMBuildSelect(p->b, x->in_panels, whole, any, ""),
               step = LLVMBuildSelect(p->b, x->in_panels, height, all, "");
  msc_ir_loop_open(&p->e, &panels, first, last, p->span, 0, NULL);
  LLVMValueRef a = x->a;
  msc_ir_loop_open(&p->e, &rows, none, num, 1, 1, &a);
  LLVMValueRef row = nsw_add(p, begin, nsw_mul(p, rows.index, step));
  (keeps_terms(x->form) ? msc_product_multiply_by_kept : multiply_rows)(
      p, x, a, row, least(p, nsw_add(p, row, step), end), panels.index);
  a = at(p, a, x->panel_a);
  msc_ir_loop_close(&p->e, &rows, &a);
  msc_ir_loop_close(&p->e, &panels, NULL);
}

/* Multiplies rows of a by columns 0 .. last - 1 in a form with more vectors than a panel: by whole spans, then by the
 * remaining columns panel by panel. */
static void multiply_spans(product *p, const multiplying *x, LLVMValueRef last, LLVMValueRef begin, LLVMValueRef end) {
  LLVMValueRef span = i64(p, p->span), whole = nsw_mul(p, LLVMBuildSDiv(p->b, last, span, ""), span);
  multiply_all(p, x, i64(p, 0), whole, begin, end);
  p->vectors = VECTORS, p->span = p->width;
  multiply_all(p, x, whole, last, begin, end);
}

/* Returns how many columns a form multiplies, before NARROW multiplies the rest in half the time: all but those of a
 * last panel that has columns in its first vector alone. */
static LLVMValueRef columns_before_narrow(product *p, const multiplying *x) {
  if (x->form == NARROW) return i64(p, 0);
  LLVMValueRef all = x->c.columns, panels = LLVMBuildSDiv(p->b, all, i64(p, p->width), ""),
               whole = nsw_mul(p, panels, i64(p, p->width));
  LLVMValueRef few = LLVMBuildICmp(p->b, LLVMIntSLE, nsw_sub(p, all, whole), i64(p, p->lanes), "");
  return LLVMBuildSelect(p->b, few, whole, all, "");
}

/* The code of NARROW, which several forms jump to: what they chose arrives in phis. */
typedef struct {
  LLVMBasicBlockRef block;
  multiplying x;
  LLVMValueRef first; /* column */
} narrow_part;

/* Jumps to the code of NARROW, which gets a block here the first time. */
static void jump_to_narrow(product *p, narrow_part *n, const multiplying *x, LLVMValueRef first) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(p->b);
  LLVMValueRef from[] = {x->a, x->row_a, x->term_a, x->panel_a, x->in_panels, x->panel_rows, first};
  LLVMValueRef *to[] = {&n->x.a,         &n->x.row_a,      &n->x.term_a, &n->x.panel_a,
                        &n->x.in_panels, &n->x.panel_rows, &n->first};
  bool is_new = !n->block;
  if (is_new) n->block = msc_ir_block(&p->e), n->x = *x, n->x.form = NARROW;
  LLVMBuildBr(p->b, n->block);
  LLVMPositionBuilderAtEnd(p->b, n->block);
  for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
    if (is_new) *to[i] = LLVMBuildPhi(p->b, LLVMTypeOf(from[i]), "");
    LLVMAddIncoming(*to[i], &from[i], &here, 1);
  }
}

/* Returns a new block where code goes on if `holds`, an i1; the present point moves to where it does not. */
static LLVMBasicBlockRef branch_if(product *p, LLVMValueRef holds) {
  LLVMBasicBlockRef here = msc_ir_block(&p->e), other = msc_ir_block(&p->e);
  LLVMBuildCondBr(p->b, holds, here, other);
  LLVMPositionBuilderAtEnd(p->b, other);
  return here;
}

/* Multiplies rows of a by columns 0 .. last - 1. Where b is packed, and rows of a lie in panels or as they are, code of
 * its own knows the distances from term to term, and advances pointers once for several terms: a fifth of all
 * instructions less, which counts most where another thread shares the core. */
static void multiply_near_terms(product *p, const multiplying *x, LLVMValueRef last, LLVMValueRef begin,
                                LLVMValueRef end) {
  LLVMValueRef none = i64(p, 0), one = i64(p, 1), packed = LLVMBuildNot(p->b, is_dim_set(p, 8), "");
  multiplying rows = *x, panels = *x;
  rows.term_b = panels.term_b = i64(p, p->width);
  rows.term_a = panels.row_a = one;
  panels.term_a = panels.panel_rows = i64(p, msc_product_panel_rows(p, x->form));
  LLVMValueRef in_panels = LLVMBuildAnd(p->b, packed, x->in_panels, ""),
               in_rows = LLVMBuildAnd(p->b, packed, LLVMBuildICmp(p->b, LLVMIntEQ, x->term_a, one, ""), "");
  bool always = !reads_in_place(p); /* then both operands are packed */
  LLVMBasicBlockRef by_panels = branch_if(p, in_panels), by_rows = always ? msc_ir_block(&p->e) : branch_if(p, in_rows),
                    done = msc_ir_block(&p->e);
  if (!always) multiply_all(p, x, none, last, begin, end);
  LLVMBuildBr(p->b, always ? by_rows : done);
  LLVMPositionBuilderAtEnd(p->b, by_panels);
  multiply_all(p, &panels, none, last, begin, end);
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, by_rows);
  multiply_all(p, &rows, none, last, begin, end);
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, done);
}

/* Multiplies rows of a by all columns in one form, or jumps to NARROW for the last ones. Short blocks stay in their
 * form, which stores fewer sums. */
static void multiply_by_form(product *p, const multiplying *given, narrow_part *narrow, LLVMValueRef begin,
                             LLVMValueRef end, LLVMBasicBlockRef done) {
  multiplying own = *given, *x = &own;
  LLVMValueRef none = i64(p, 0);
  if (x->form == DOUBLE) x->term_b = i64(p, p->width);
  p->vectors = msc_product_form_vectors(x->form), p->span = x->form == NARROW ? p->width : p->vectors * p->lanes;
  msc_product_read_rows(p, x, begin, end);
  bool is_short = x->form == EIGHTS || (x->form == PAIRS && !has_32_registers(p));
  if (x->form == STREAM) {
    msc_product_multiply_streams(p, x, begin, end);
    LLVMBuildBr(p->b, done);
    return;
  }
  if (x->form == TRANSPOSED || is_short || keeps_terms(x->form) || is_wide(x->form)) {
    if (is_wide(x->form)) multiply_spans(p, x, x->c.columns, begin, end);
    else multiply_all(p, x, none, x->c.columns, begin, end);
    LLVMBuildBr(p->b, done);
    return;
  }
  LLVMValueRef first = columns_before_narrow(p, x);
  if (x->form == DOUBLE) {
    multiply_spans(p, x, first, begin, end);
  } else if (x->form == SPREAD) {
    multiply_near_terms(p, x, first, begin, end);
  } else if (x->form != NARROW) {
    multiply_all(p, x, none, first, begin, end);
  }
  jump_to_narrow(p, narrow, x, first);
}

static void emit_multiply(msc_llvm *l, msc_dtype dtype, bool pairs, LLVMValueRef fn) {
  product p = product_of(l, dtype, pairs, fn);
  LLVMValueRef begin = LLVMGetParam(fn, 1), end = LLVMGetParam(fn, 2);
  multiplying x = {.c = result_of(&p), .b = load_buffer(&p, 1), .room = load_buffer(&p, 3), .blocks = load_dim(&p, 4)};
  if (pairs) x.filling = filling_of(&p, load_dim(&p, 1), x.blocks);
  x.k = units_of_all(&p, &x.filling, load_dim(&p, 1), x.blocks);
  x.block = LLVMBuildSDiv(p.b, x.k, x.blocks, "");
  LLVMValueRef step_b = load_dim(&p, 8), in_place = is_dim_set(&p, 8);
  x.term_b = LLVMBuildSelect(p.b, in_place, step_b, i64(&p, p.width), "");
  x.ahead = terms_ahead(&p, x.term_b);
  LLVMValueRef transposed = LLVMBuildICmp(p.b, LLVMIntSLT, step_b, i64(&p, 0), "");
  x.column_b =
      LLVMBuildSelect(p.b, LLVMBuildAnd(p.b, in_place, LLVMBuildNot(p.b, transposed, ""), ""), i64(&p, 1), x.k, "");
  x.next_panel = nsw_mul(&p, x.column_b, i64(&p, p.width));
  int streams = has_32_registers(&p) ? 0 : *msc_product_heights(&p, STREAM) * msc_product_stream_columns(&p) / p.lanes;
  x.waiting = msc_ir_stack(&p.e, p.vector, MSC_SUM_LEVELS * (streams > SUMS ? streams : SUMS));
  LLVMBasicBlockRef done = msc_ir_block(&p.e);
  LLVMValueRef choice = LLVMBuildSwitch(p.b, msc_product_form(&p, &x, nsw_sub(&p, end, begin)), done, NUM_FORMS);
  narrow_part narrow = {0};
  for (x.form = SINGLE; x.form < NUM_FORMS; x.form++) {
    if ((is_wide(x.form) || x.form == STREAM || x.form == TRANSPOSED) && !reads_in_place(&p)) continue;
    if (has_32_registers(&p) ? x.form == STREAM : is_wide(x.form)) continue;
    if (x.form == DOUBLE && !has_double(&p)) continue;
    if (keeps_terms(x.form) && !may_keep_terms(&p)) continue;
    if (x.form == (has_32_registers(&p) ? SPREAD : QUADS)) continue;
    LLVMBasicBlockRef here = msc_ir_block(&p.e);
    LLVMAddCase(choice, i64(&p, x.form), here);
    LLVMPositionBuilderAtEnd(p.b, here);
    multiply_by_form(&p, &x, &narrow, begin, end, done);
  }
  LLVMPositionBuilderAtEnd(p.b, narrow.block);
  p.vectors = msc_product_form_vectors(NARROW), p.span = p.width;
  multiply_all(&p, &narrow.x, narrow.first, x.c.columns, begin, end);
  LLVMBuildBr(p.b, done);
  LLVMPositionBuilderAtEnd(p.b, done);
  LLVMBuildRetVoid(p.b);
}

const char *msc_product_name(msc_context *ctx, msc_product_part part, msc_dtype dtype) {
  static const char *const form[MSC_NUM_PRODUCT_PARTS] = {"pack_%s",
                                                          "pack_%s_transposed",
                                                          "multiply_%s",
                                                          "pack_pairs_%s",
                                                          "pack_pairs_%s_transposed",
                                                          "multiply_pairs_%s",
                                                          "multiply_tiles_%s",
                                                          "pack_parts_%s",
                                                          "pack_parts_%s_transposed",
                                                          "multiply_parts_%s"};
  return msc_arena_printf(msc_context_arena(ctx), form[part], msc_dtype_name(dtype));
}

void msc_product_emit(msc_llvm *l, const char *name, msc_product_part part, msc_dtype dtype) {
  LLVMValueRef fn = msc_llvm_kernel(l, name);
  bool pairs = msc_product_way(part) == MSC_BF16_BY_PAIRS;
  msc_llvm_allow(l, fn, msc_product_way(part));
  if (part == MSC_MULTIPLY_TILES || part == MSC_MULTIPLY_PARTS) msc_product_emit_tiles(l, dtype, fn);
  else if (part >= MSC_PACK_PARTS) msc_product_emit_split(l, part == MSC_PACK_PARTS_TRANSPOSED, fn);
  else if (part == MSC_MULTIPLY || part == MSC_MULTIPLY_PAIRS) emit_multiply(l, dtype, pairs, fn);
  else msc_product_emit_pack(l, dtype, part == MSC_PACK_TRANSPOSED || part == MSC_PACK_PAIRS_TRANSPOSED, pairs, fn);
}

LLVMMemoryBufferRef msc_product_assemble(msc_context *ctx, int level, msc_product_part part, msc_dtype dtype) {
  msc_llvm l;
  if (!msc_llvm_open(ctx, &(msc_code_target){.cpu = msc_cpu_plain(level)}, &l)) return NULL;
  msc_product_emit(&l, msc_product_name(ctx, part, dtype), part, dtype);
  LLVMMemoryBufferRef object = msc_llvm_assemble(&l);
  msc_llvm_report(&l, ctx);
  msc_llvm_close(&l);
  return object;
}
