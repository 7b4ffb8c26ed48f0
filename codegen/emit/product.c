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
#include <string.h>

#include "codegen/emit/product.h"

enum { MAX_HEIGHT = MSC_PRODUCT_MAX_HEIGHT, MAX_VECTORS = 4 * VECTORS, EIGHT = 8 /* blocks of ONES and TWOS */ };

/* ---- pack ---- */

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

static void emit_pack(msc_llvm *l, msc_dtype dtype, bool transposed, bool pairs, LLVMValueRef fn) {
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

/* ---- multiply ---- */

/* How many blocks the code sums without a loop over them, as a power of two. Two blocks are summed side by side: each
 * iteration takes a term of each. The sum of one pair of blocks waits in registers for that of the next, so that of
 * four blocks, or of eight short ones, only one sum is stored. NARROW is SINGLE for a panel with at most one vector of
 * columns. WIDE and WIDEST are SINGLE for few rows of a and a b that is read in place: they read more columns of a row
 * of b at once. TRANSPOSED is SINGLE for few rows of a and a transposed b that is read in place: its squares are
 * transposed in registers. ONES and TWOS are for eight blocks of one term or two: the terms of some columns of b stay in
 * registers for all rows, and so does the whole tree of a row's sums. */
typedef enum { SINGLE, NARROW, WIDE, WIDEST, TRANSPOSED, ONES, TWOS, PAIRS, QUADS, EIGHTS, NUM_FORMS } sum_form;

typedef struct {
  result c;
  LLVMValueRef a, b, room;       /* room: memory for packed panels of rows of a */
  LLVMValueRef k, blocks, block; /* block: its elements */
  filling filling;               /* of pairs */
  /* distances between elements of a: from row to row, from term to term, from panel to panel of rows */
  LLVMValueRef row_a, term_a, panel_a;
  LLVMValueRef in_panels;        /* i1: true if rows of a lie in panels; else groups are chosen among all rows */
  LLVMValueRef term_b, column_b; /* distances between elements of b: from term to term, from column to column */
  LLVMValueRef ahead;            /* distance of prefetched terms of b: term_b, or 0 where the CPU prefetches */
  LLVMValueRef waiting;          /* sums of blocks */
  sum_form form;
  LLVMValueRef panel_rows; /* rows in a panel of rows of a */
} multiplying;

static bool has_32_registers(const product *p) { return p->height > 6; }

/* True if kernels of this type can read b in place: an operand that is widened, or in pairs, is always packed. */
static bool reads_in_place(const product *p) { return p->operand_bytes >= 4; }

static bool is_wide(sum_form form) { return form == WIDE || form == WIDEST; }

static bool keeps_terms(sum_form form) { return form == ONES || form == TWOS; }

/* True if kernels of this type have ONES and TWOS. Sums that are rounded take more registers, and more time, to store
 * than is saved. */
static bool may_keep_terms(const product *p) { return has_32_registers(p) && p->operand_bytes == p->bytes; }

/* Returns how many vectors of a row of b are multiplied together. */
static int vectors_of(sum_form form) {
  static const int vectors[NUM_FORMS] = {
      [NARROW] = 1, [TRANSPOSED] = 1, [TWOS] = 1, [WIDE] = 2 * VECTORS, [WIDEST] = MAX_VECTORS};
  return vectors[form] ? vectors[form] : VECTORS;
}

static int log_blocks(sum_form form) { return form < PAIRS ? 0 : form - PAIRS + 1; }

/* Returns how many rows are packed together: a whole number of the form's groups. */
static int panel_rows(const product *p, sum_form form) {
  if (!has_32_registers(p)) return 6;
  return form <= PAIRS ? MAX_HEIGHT : MSC_PRODUCT_PANEL_ROWS;
}

/* Returns the heights of groups for which code is emitted, descending, ended by 0. The registers hold the sums of one
 * group of the greatest height, or, in other forms, two or three sets of sums of lower groups. */
static const int *heights_of(const product *p, sum_form form) {
  static const int three[] = {3, 2, 1, 0}, four[] = {4, 3, 2, 1, 0};
  static const int six[] = {6, 5, 4, 3, 2, 1, 0}, twelve[] = {12, 8, 7, 6, 5, 4, 3, 2, 1, 0},
                   few[] = {12, 8, 4, 2, 1, 0};
  static const int one[] = {1, 0}, two[] = {2, 1, 0}, low[] = {4, 2, 1, 0}, eight[] = {8, 4, 2, 1, 0};
  if (form == WIDE) return has_32_registers(p) ? four : two;
  if (form == WIDEST) return has_32_registers(p) ? two : one;
  if (form == TRANSPOSED) return has_32_registers(p) ? eight : low;
  if (form == NARROW && has_32_registers(p)) return few;
  if (has_32_registers(p)) return form < PAIRS ? twelve : form == PAIRS ? six : four;
  return form < PAIRS ? six : three;
}

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

/* A panel that is packed from rows of a, which is stored transposed: `from` points into a, `to` to the panel, and
 * mask[v] selects the lanes of a term's vector v whose rows exist. */
typedef struct {
  LLVMValueRef from, to, mask[64];
} row_panel;

/* Packs terms first .. last - 1 of a panel. Vectors may write behind a term's rows, unless `exactly`. `even`: no block
 * ends with a pair that zeros fill, so the pairs of all blocks lie one after another. */
static void pack_panel(product *p, const multiplying *x, const row_panel *panel, LLVMValueRef first, LLVMValueRef last,
                       bool even, bool exactly) {
  msc_ir_loop terms;
  int rows = panel_rows(p, x->form), num = (int)msc_product_whole(rows, p->width) / p->lanes;
  LLVMValueRef step = load_dim(p, 2);
  msc_ir_loop_open(&p->e, &terms, first, last, 1, 0, NULL);
  pair_place term = even ? find_even_pair(p, terms.index, step) : find_terms(p, &x->filling, terms.index, step);
  for (int v = 0; v < num; v++) {
    LLVMValueRef mask = panel->mask[v],
                 got = load_across(p, at_operand(p, panel->from, i64(p, v * p->lanes)), &term, mask),
                 place = at(p, panel->to, nsw_add(p, nsw_mul(p, terms.index, i64(p, rows)), i64(p, v * p->lanes)));
    if (exactly) store_masked(p, got, place, mask);
    else store_vector(p, got, place);
  }
  msc_ir_loop_close(&p->e, &terms, NULL);
}

/* Packs some terms of the rows of a transposed a, one panel of rows after the other. */
static void pack_terms(product *p, const multiplying *x, const LLVMValueRef *rows_range, LLVMValueRef first,
                       LLVMValueRef last, bool exactly) {
  msc_ir_loop panels;
  int rows = panel_rows(p, x->form), num = (int)msc_product_whole(rows, p->width) / p->lanes;
  LLVMValueRef begin = rows_range[0], end = rows_range[1];
  msc_ir_loop_open(&p->e, &panels, begin, end, rows, 0, NULL);
  row_panel panel = {.from = at_operand(p, x->a, panels.index),
                     .to = at(p, x->room, nsw_mul(p, nsw_sub(p, panels.index, begin), x->k))};
  LLVMValueRef left = least(p, nsw_sub(p, end, panels.index), i64(p, rows));
  for (int v = 0; v < num; v++) panel.mask[v] = mask_below(p, nsw_sub(p, left, i64(p, v * p->lanes)));
  if (p->pairs && !exactly) {
    pack_panel(p, x, &panel, LLVMBuildSelect(p->b, x->filling.filled, last, first, ""), last, true, false);
    first = LLVMBuildSelect(p->b, x->filling.filled, first, last, "");
  }
  pack_panel(p, x, &panel, first, last, false, exactly);
  msc_ir_loop_close(&p->e, &panels, NULL);
}

/* True if `step` elements of an operand are a multiple of 4096 bytes: the nearest cache has few places for elements
 * that are so far apart. */
static LLVMValueRef places_meet(product *p, LLVMValueRef step) {
  enum { PLACES = 4096 };
  LLVMValueRef apart = LLVMBuildAnd(p->b, step, i64(p, PLACES / p->operand_bytes - 1), "");
  return LLVMBuildICmp(p->b, LLVMIntEQ, apart, i64(p, 0), "");
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
  pack_terms(p, x, rows, first, least(p, nsw_add(p, first, together), last), false);
  msc_ir_loop_close(&p->e, &groups, NULL);
  pack_terms(p, x, rows, last, x->k, true);
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

enum {
  UNROLLED = 4,   /* terms per iteration */
  AHEAD = 384,    /* how far ahead b is prefetched, counted in products of vectors */
  ROWS_APART = 4, /* rows that one pointer reaches: the machine adds one, two or three times a register to it */
  MAX_POINTERS = MAX_HEIGHT / ROWS_APART,
  SUMS = MAX_HEIGHT * VECTORS,
  CARRIED = 2 * SUMS + MAX_POINTERS + 2,
};
_Static_assert((int)CARRIED <= (int)MAX_CARRIED, "a loop carries the sums of two blocks and the pointers");

/* A group of rows and the addresses of its next terms. Pointers are advanced term by term: LLVM keeps many copies of
 * addresses that it can compute from a counter. */
typedef struct {
  int height;
  LLVMValueRef row[ROWS_APART]; /* row[i]: elements from a pointer's row to the i-th row behind it */
  LLVMValueRef a, b;            /* the next terms */
} walk;

static int num_sums(const product *p, const walk *w) { return w->height * p->vectors; }
static int num_pointers(const walk *w) { return (w->height + ROWS_APART - 1) / ROWS_APART; }

/* Emits sum + a b; an element of pairs adds the products of both its terms. */
static LLVMValueRef add_product(product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
  LLVMValueRef arg[3] = {a, b, sum};
  if (!p->pairs) return msc_ir_call(&p->e, "llvm.fma", 1, &p->vector, 3, arg);
  LLVMTypeRef pairs = LLVMVectorType(LLVMBFloatTypeInContext(p->e.l->llvm), 2 * (unsigned)p->lanes);
  arg[0] = sum;
  arg[1] = LLVMBuildBitCast(p->b, a, pairs, ""), arg[2] = LLVMBuildBitCast(p->b, b, pairs, "");
  return msc_ir_call(&p->e, "llvm.x86.avx512bf16.dpbf16ps.512", 0, NULL, 3, arg);
}

/* Returns the address of the next term of a row; `a`: the pointers of the group. An address may scale a register by at
 * most eight. Two rows of elements of four bytes are therefore the distance of one row times eight. */
static LLVMValueRef at_row(product *p, const walk *w, const LLVMValueRef *a, int row) {
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
    LLVMValueRef place = at_row(p, w, a, r);
    LLVMValueRef one = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, place, ""), p->lanes);
    for (int v = 0; v < p->vectors; v++)
      acc[r * p->vectors + v] = add_product(p, one, term[v], acc[r * p->vectors + v]);
  }
}

/* Returns the distance of the terms of b that are prefetched; 0 if the CPU prefetches them by itself. It does so for
 * rows of a b in place, unless they are a multiple of 4096 bytes apart; prefetching what the CPU already fetches takes
 * time. */
static LLVMValueRef terms_ahead(product *p, LLVMValueRef term_b) {
  LLVMValueRef by_itself = LLVMBuildAnd(p->b, is_dim_set(p, 8), is_trait_set(p, MSC_PRODUCT_FETCHES_ROWS), "");
  by_itself = LLVMBuildAnd(p->b, by_itself, LLVMBuildNot(p->b, places_meet(p, term_b), ""), "");
  return LLVMBuildSelect(p->b, by_itself, i64(p, 0), term_b, "");
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
      LLVMValueRef place = at(p, at_row(p, w, a, r), i64(p, k));
      LLVMValueRef one = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, place, ""), p->lanes);
      carried[r] = add_product(p, one, term[k], carried[r]);
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

static void sum_blocks(product *p, const multiplying *x, walk *w, LLVMValueRef *out_acc) {
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
  sum_blocks(p, x, &w, acc);
  store_sums(p, &x->c, height, row, column, acc);
}

/* Multiplies rows first .. last - 1, from `panel` on, which are in one panel if there are panels, group by group. */
static void multiply_rows(product *p, const multiplying *x, LLVMValueRef panel, LLVMValueRef first, LLVMValueRef last,
                          LLVMValueRef column) {
  const int *heights = heights_of(p, x->form);
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
    LLVMValueRef one = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, at_row(p, w, a, t), ""), p->lanes);
    for (int v = 0; v < p->vectors; v++) sum[v] = add_product(p, one, kept->term[t * p->vectors + v], sum[v]);
  }
}

/* Multiplies rows first .. last - 1 of a, from `a` on, by columns of b whose terms stay in registers, two rows at a time,
 * then the last. */
static void multiply_by_kept(product *p, const multiplying *x, LLVMValueRef a, LLVMValueRef first, LLVMValueRef last,
                             LLVMValueRef column) {
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
  (keeps_terms(x->form) ? multiply_by_kept : multiply_rows)(p, x, a, row, least(p, nsw_add(p, row, step), end),
                                                            panels.index);
  a = at(p, a, x->panel_a);
  msc_ir_loop_close(&p->e, &rows, &a);
  msc_ir_loop_close(&p->e, &panels, NULL);
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
static void read_rows(product *p, multiplying *x, LLVMValueRef begin, LLVMValueRef end) {
  enum { FEW = 128, FEWER = 8, FAR_OR_SHARED = 32 * 1024, CLOSE = 64 };
  bool narrow = msc_product_packs_rows(p->operand_bytes, false, p->pairs, false);
  LLVMValueRef given = load_buffer(p, 0), step = load_dim(p, 2), one = i64(p, 1), rows = i64(p, panel_rows(p, x->form)),
               transposed = is_dim_set(p, 5);
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

/* True if groups of few rows are faster: a panel of b is in a near cache, so that reading it for each group is cheap,
 * and rows of a are near, too, because many panels read them, or blocks are short; or rows of a are a multiple of 4096
 * bytes apart, or so long, that the nearest cache cannot hold many of them. False where stores cost nothing, which low
 * groups save. */
static LLVMValueRef prefers_low_groups(product *p, const multiplying *x) {
  enum { NEAR = 96 * 1024, FEW_PANELS = 4, SHORT = 32 };
  LLVMValueRef transposed = is_dim_set(p, 5), lies = is_dim_set(p, 8),
               near = LLVMBuildICmp(p->b, LLVMIntSLE, x->k, i64(p, NEAR / (p->bytes * p->width)), ""),
               few = LLVMBuildICmp(p->b, LLVMIntSLE, x->c.columns, i64(p, FEW_PANELS * p->width), "");
  LLVMValueRef is_short = LLVMBuildICmp(p->b, LLVMIntSLT, x->block, i64(p, SHORT), ""),
               read_often = LLVMBuildOr(p->b, transposed, LLVMBuildNot(p->b, few, ""), "");
  near = LLVMBuildAnd(p->b, near, LLVMBuildOr(p->b, read_often, is_short, ""), "");
  LLVMValueRef meet = places_meet(p, load_dim(p, 2)),
               low = LLVMBuildOr(p->b, near, LLVMBuildSelect(p->b, transposed, few, meet, ""), "");
  lies = LLVMBuildOr(p->b, lies, is_trait_set(p, MSC_PRODUCT_STORES_WHOLE), "");
  return LLVMBuildAnd(p->b, low, LLVMBuildNot(p->b, lies, ""), "");
}

/* Chooses the form for long blocks: pairs, which store half as many sums, where the nearest cache holds a packed panel
 * of b beside rows of a, since their groups of rows have half the height and read it twice as often. Half the rows also
 * leave places in the nearest cache where rows of a meet there; that pays for f32 and many columns, to which the rows
 * are read once. */
static LLVMValueRef form_of_long(product *p, const multiplying *x, LLVMValueRef has_pairs) {
  enum { NEAREST = 40 * 1024, MANY = 256 };
  LLVMValueRef good = LLVMBuildICmp(p->b, LLVMIntSLE, x->k, i64(p, NEAREST / (p->bytes * p->width)), "");
  if (!p->pairs) {
    LLVMValueRef many = LLVMBuildICmp(p->b, LLVMIntSGE, x->c.columns, i64(p, MANY), ""),
                 lie = LLVMBuildNot(p->b, is_dim_set(p, 5), "");
    LLVMValueRef meet = LLVMBuildAnd(p->b, places_meet(p, load_dim(p, 2)), LLVMBuildAnd(p->b, lie, many, ""), "");
    good = LLVMBuildOr(p->b, good, meet, "");
  }
  LLVMValueRef packed = LLVMBuildNot(p->b, is_dim_set(p, 8), "");
  good = LLVMBuildAnd(p->b, good, LLVMBuildAnd(p->b, has_pairs, packed, ""), "");
  return LLVMBuildSelect(p->b, good, i64(p, PAIRS), i64(p, SINGLE), "");
}

/* Returns ONES or TWOS where a packed b has eight blocks of so many terms, else `other`. */
static LLVMValueRef form_of_few_terms(product *p, const multiplying *x, LLVMValueRef other) {
  LLVMValueRef packed = LLVMBuildNot(p->b, is_dim_set(p, 8), ""),
               fits = LLVMBuildAnd(p->b, packed, LLVMBuildICmp(p->b, LLVMIntEQ, x->blocks, i64(p, EIGHT), ""), "");
  for (int block = 1; block <= 2 && may_keep_terms(p); block++) {
    LLVMValueRef is = LLVMBuildAnd(p->b, fits, LLVMBuildICmp(p->b, LLVMIntEQ, x->block, i64(p, block), ""), "");
    other = LLVMBuildSelect(p->b, is, i64(p, block == 1 ? ONES : TWOS), other, "");
  }
  return other;
}

/* Chooses the form of sums that takes the least time, and for which there are enough blocks. For long blocks, storing a
 * sum per block costs little, and single blocks, whose groups of rows are high, are best where reading panels of b
 * often costs more, or stores cost nothing. With 16 registers pairs halve the height of a group, which pays for the
 * shortest blocks only. */
static LLVMValueRef form_of_many(product *p, const multiplying *x) {
  enum { LONG = 16, SHORT = 8 };
  LLVMValueRef single = i64(p, SINGLE), is_short = LLVMBuildICmp(p->b, LLVMIntSLE, x->block, i64(p, SHORT), "");
  LLVMValueRef narrow = LLVMBuildICmp(p->b, LLVMIntSLE, x->c.columns, i64(p, p->lanes), "");
  single = LLVMBuildSelect(p->b, narrow, i64(p, NARROW), single, "");
  LLVMValueRef pairs = LLVMBuildICmp(p->b, LLVMIntSGE, x->blocks, i64(p, 2), ""),
               quads = LLVMBuildICmp(p->b, LLVMIntSGE, x->blocks, i64(p, 4), "");
  LLVMValueRef odd = LLVMBuildTrunc(p->b, x->block, LLVMInt1TypeInContext(p->e.l->llvm), ""),
               eights = LLVMBuildAnd(p->b, LLVMBuildICmp(p->b, LLVMIntSGE, x->blocks, i64(p, 8), ""),
                                     LLVMBuildNot(p->b, odd, ""), "");
  if (!has_32_registers(p)) {
    LLVMValueRef most = LLVMBuildSelect(p->b, eights, i64(p, EIGHTS),
                                        LLVMBuildSelect(p->b, quads, i64(p, QUADS), i64(p, PAIRS), ""), "");
    return LLVMBuildSelect(
        p->b, LLVMBuildAnd(p->b, LLVMBuildNot(p->b, narrow, ""), LLVMBuildAnd(p->b, pairs, is_short, ""), ""), most,
        single, "");
  }
  LLVMValueRef is_long = LLVMBuildICmp(p->b, LLVMIntSGE, x->block, i64(p, LONG), ""),
               low = LLVMBuildAnd(p->b, quads, prefers_low_groups(p, x), "");
  is_long = LLVMBuildAnd(p->b, is_long, LLVMBuildNot(p->b, low, ""), "");
  LLVMValueRef most =
      LLVMBuildSelect(p->b, quads, i64(p, QUADS), LLVMBuildSelect(p->b, pairs, i64(p, PAIRS), single, ""), "");
  most = LLVMBuildSelect(p->b, LLVMBuildAnd(p->b, eights, is_short, ""), i64(p, EIGHTS), most, "");
  most = LLVMBuildSelect(p->b, is_long, form_of_long(p, x, pairs), most, "");
  most = LLVMBuildSelect(p->b, narrow, i64(p, NARROW), most, "");
  return form_of_few_terms(p, x, most);
}

/* Chooses the form for the present number of rows. Few rows take a wide form if b is read in place, or TRANSPOSED if
 * that b is transposed; all others take form_of_many's. */
static LLVMValueRef form_of(product *p, const multiplying *x, LLVMValueRef rows) {
  LLVMValueRef most = form_of_many(p, x);
  if (!reads_in_place(p)) return most;
  LLVMValueRef fewest = LLVMBuildICmp(p->b, LLVMIntSLE, rows, i64(p, *heights_of(p, WIDEST)), ""),
               few = LLVMBuildICmp(p->b, LLVMIntSLE, rows, i64(p, *heights_of(p, WIDE)), "");
  LLVMValueRef wide = LLVMBuildSelect(p->b, fewest, i64(p, WIDEST), i64(p, WIDE), "");
  LLVMValueRef transposed = LLVMBuildICmp(p->b, LLVMIntSLT, load_dim(p, 8), i64(p, 0), "");
  LLVMValueRef lies = is_dim_set(p, 8), one_group = LLVMBuildICmp(p->b, LLVMIntSLE, rows, i64(p, p->height), "");
  most = LLVMBuildSelect(p->b, LLVMBuildAnd(p->b, lies, one_group, ""), i64(p, SINGLE), most, "");
  most = LLVMBuildSelect(p->b, LLVMBuildAnd(p->b, lies, few, ""), wide, most, "");
  return LLVMBuildSelect(p->b, transposed, i64(p, TRANSPOSED), most, "");
}

/* Multiplies rows of a by all columns of a b in place in a wide form: by whole spans, then by the remaining columns
 * panel by panel. */
static void multiply_spans(product *p, const multiplying *x, LLVMValueRef begin, LLVMValueRef end) {
  LLVMValueRef span = i64(p, p->span), all = x->c.columns, whole = nsw_mul(p, LLVMBuildSDiv(p->b, all, span, ""), span);
  multiply_all(p, x, i64(p, 0), whole, begin, end);
  p->vectors = VECTORS, p->span = p->width;
  multiply_all(p, x, whole, all, begin, end);
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

/* Multiplies rows of a by all columns in one form, or jumps to NARROW for the last ones. Short blocks stay in their
 * form, which stores fewer sums. */
static void multiply_by_form(product *p, multiplying *x, narrow_part *narrow, LLVMValueRef begin, LLVMValueRef end,
                             LLVMBasicBlockRef done) {
  LLVMValueRef none = i64(p, 0);
  p->vectors = vectors_of(x->form), p->span = x->form == NARROW ? p->width : p->vectors * p->lanes;
  read_rows(p, x, begin, end);
  if (x->form == TRANSPOSED || x->form == EIGHTS || keeps_terms(x->form) || is_wide(x->form)) {
    if (is_wide(x->form)) multiply_spans(p, x, begin, end);
    else multiply_all(p, x, none, x->c.columns, begin, end);
    LLVMBuildBr(p->b, done);
    return;
  }
  LLVMValueRef first = columns_before_narrow(p, x);
  if (x->form != NARROW) multiply_all(p, x, none, first, begin, end);
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
  x.waiting = msc_ir_stack(&p.e, p.vector, MSC_SUM_LEVELS * MAX_HEIGHT * VECTORS);
  LLVMBasicBlockRef done = msc_ir_block(&p.e);
  LLVMValueRef choice = LLVMBuildSwitch(p.b, form_of(&p, &x, nsw_sub(&p, end, begin)), done, NUM_FORMS);
  narrow_part narrow = {0};
  for (x.form = SINGLE; x.form < NUM_FORMS; x.form++) {
    if ((is_wide(x.form) || x.form == TRANSPOSED) && !reads_in_place(&p)) continue;
    if (keeps_terms(x.form) && !may_keep_terms(&p)) continue;
    LLVMBasicBlockRef here = msc_ir_block(&p.e);
    LLVMAddCase(choice, i64(&p, x.form), here);
    LLVMPositionBuilderAtEnd(p.b, here);
    multiply_by_form(&p, &x, &narrow, begin, end, done);
  }
  LLVMPositionBuilderAtEnd(p.b, narrow.block);
  p.vectors = vectors_of(NARROW), p.span = p.width;
  multiply_all(&p, &narrow.x, narrow.first, x.c.columns, begin, end);
  LLVMBuildBr(p.b, done);
  LLVMPositionBuilderAtEnd(p.b, done);
  LLVMBuildRetVoid(p.b);
}

/* ---- the kernels ---- */

const char *msc_product_name(msc_context *ctx, msc_product_part part, msc_dtype dtype) {
  static const char *const form[MSC_NUM_PRODUCT_PARTS] = {
      "pack_%s",           "pack_%s_transposed", "multiply_%s", "pack_pairs_%s", "pack_pairs_%s_transposed",
      "multiply_pairs_%s", "multiply_tiles_%s"};
  return msc_arena_printf(msc_context_arena(ctx), form[part], msc_dtype_name(dtype));
}

void msc_product_emit(msc_llvm *l, const char *name, msc_product_part part, msc_dtype dtype) {
  LLVMValueRef fn = msc_llvm_kernel(l, name);
  bool pairs = msc_product_way(part) == MSC_BF16_BY_PAIRS;
  msc_llvm_allow(l, fn, msc_product_way(part));
  if (part == MSC_MULTIPLY_TILES) msc_product_emit_tiles(l, fn);
  else if (part == MSC_MULTIPLY || part == MSC_MULTIPLY_PAIRS) emit_multiply(l, dtype, pairs, fn);
  else emit_pack(l, dtype, part == MSC_PACK_TRANSPOSED || part == MSC_PACK_PAIRS_TRANSPOSED, pairs, fn);
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
