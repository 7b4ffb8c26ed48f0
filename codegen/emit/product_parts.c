/* product_parts.c: operands of f32 in; panels of b and rows of a for the kernel of product_tiles.c out, in which each
 * term is the sum of three numbers of bf16.
 *
 * The first part of x is the nearest bf16, which has 8 of the 24 digits of x, the second is the nearest bf16 of what
 * that leaves, and the third is the rest, which needs 8 digits and so is a bf16, too.  So the sum of the parts is x,
 * but for digits below 2^-126, which are zero (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence
 * Datatype For Higher-Precision Computations, 2019).  An infinity has no other parts than itself; a finite number that
 * would be rounded to infinity is cut off instead.
 *
 * Two neighbouring terms are a pair, in one element: the first in its low half.  A chunk of pairs (msc_product_chunk)
 * stands three times, one behind the other: its first parts, its second and its third.  Zeros fill the last pair and
 * the last chunk of a block.  Nothing is written behind a chunk.
 *
 *   panel of b: [chunk][part][pair][width]
 *   sixteen rows of a: [chunk][part][row][pair], as registers hold them: memory is read from end to end */
#include "codegen/emit/product.h"

enum { PARTS = MSC_PACKED_PARTS, PAIRS = MSC_TILE_PAIRS, ROWS = MSC_TILE_ROWS };

static LLVMValueRef all_lanes(product *p, uint32_t v) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(p->e.l->llvm);
  return msc_emit_splat(&p->e, LLVMConstInt(i32, v, false), p->lanes);
}

static LLVMValueRef bits_of(product *p, LLVMValueRef x) {
  LLVMTypeRef bits = LLVMVectorType(LLVMInt32TypeInContext(p->e.l->llvm), (unsigned)p->lanes);
  return LLVMBuildBitCast(p->b, x, bits, "");
}

static LLVMValueRef number_of(product *p, LLVMValueRef bits) { return LLVMBuildBitCast(p->b, bits, p->vector, ""); }

/* Returns the bits of the f32 that is the nearest bf16, of two the even one. */
static LLVMValueRef round_bits(product *p, LLVMValueRef bits) {
  LLVMValueRef odd = LLVMBuildAnd(p->b, LLVMBuildLShr(p->b, bits, all_lanes(p, 16), ""), all_lanes(p, 1), ""),
               up = LLVMBuildAdd(p->b, bits, LLVMBuildAdd(p->b, odd, all_lanes(p, 0x7fff), ""), "");
  return LLVMBuildAnd(p->b, up, all_lanes(p, 0xffff0000), "");
}

/* Makes three numbers of bf16, as the bits of f32, whose sum is x. */
static void split(product *p, LLVMValueRef x, LLVMValueRef part[PARTS]) {
  enum { LARGE = 0x7f7f8000, INFINITE = 0x7f800000, POSITIVE = 0x7fffffff };
  LLVMValueRef bits = bits_of(p, x), high = all_lanes(p, 0xffff0000),
               size = LLVMBuildAnd(p->b, bits, all_lanes(p, POSITIVE), "");
  LLVMValueRef is_large = LLVMBuildICmp(p->b, LLVMIntUGE, size, all_lanes(p, LARGE), ""),
               is_finite = LLVMBuildICmp(p->b, LLVMIntULT, size, all_lanes(p, INFINITE), "");
  part[0] = LLVMBuildSelect(p->b, is_large, LLVMBuildAnd(p->b, bits, high, ""), round_bits(p, bits), "");
  LLVMValueRef rest = LLVMBuildFSub(p->b, x, number_of(p, part[0]), "");
  rest = LLVMBuildSelect(p->b, is_finite, rest, LLVMConstNull(p->vector), "");
  part[1] = round_bits(p, bits_of(p, rest));
  rest = LLVMBuildFSub(p->b, rest, number_of(p, part[1]), "");
  part[2] = LLVMBuildAnd(p->b, bits_of(p, rest), high, "");
}

/* Makes the elements that hold each part of two terms. */
static void split_pair(product *p, LLVMValueRef first, LLVMValueRef second, LLVMValueRef out_part[PARTS]) {
  LLVMValueRef low[PARTS], high[PARTS];
  split(p, first, low), split(p, second, high);
  for (int i = 0; i < PARTS; i++) {
    LLVMValueRef down = LLVMBuildLShr(p->b, low[i], all_lanes(p, 16), "");
    out_part[i] = number_of(p, LLVMBuildOr(p->b, down, high[i], ""));
  }
}

/* Walks over all chunks of all blocks. */
typedef struct {
  msc_ir_loop blocks, chunks;
  LLVMValueRef block, chunk; /* their numbers: of the block, and of the chunk in it */
  LLVMValueRef unit;         /* the chunk's first element */
  LLVMValueRef term, left;   /* number of its first term, and how many terms the block has from there on */
} chunk_walk;

static void open_chunks(product *p, const filling *f, LLVMValueRef num_blocks, chunk_walk *w) {
  LLVMValueRef none = i64(p, 0), two = i64(p, 2);
  msc_ir_loop_open(&p->e, &w->blocks, none, num_blocks, 1, 0, NULL);
  msc_ir_loop_open(&p->e, &w->chunks, none, LLVMBuildUDiv(p->b, f->units, f->chunk, ""), 1, 0, NULL);
  w->block = w->blocks.index, w->chunk = w->chunks.index;
  LLVMValueRef pairs = nsw_mul(p, w->chunk, f->chunk), past = nsw_mul(p, pairs, two);
  w->unit = nsw_mul(p, nsw_add(p, nsw_mul(p, w->block, f->units), pairs), i64(p, PARTS));
  w->term = nsw_add(p, nsw_mul(p, w->block, f->block), past), w->left = nsw_sub(p, f->block, past);
}

static void close_chunks(product *p, chunk_walk *w) {
  msc_ir_loop_close(&p->e, &w->chunks, NULL);
  msc_ir_loop_close(&p->e, &w->blocks, NULL);
}

/* Loads a term of neighbouring rows or columns, the one with number `past` of a chunk; zeros behind the block's last.
 * `base`: the address of the first row's or column's term 0; `step`: elements from term to term. */
static LLVMValueRef load_term(product *p, const chunk_walk *w, LLVMValueRef base, LLVMValueRef past, LLVMValueRef step,
                              LLVMValueRef mask) {
  LLVMValueRef exists = LLVMBuildICmp(p->b, LLVMIntSLT, past, w->left, ""), none = i64(p, 0),
               number = nsw_add(p, w->term, LLVMBuildSelect(p->b, exists, past, none, ""));
  LLVMValueRef x = load_operand(p, at_operand(p, base, nsw_mul(p, number, step)), mask);
  return LLVMBuildSelect(p->b, exists, x, LLVMConstNull(p->vector), "");
}

/* Loads the terms of a chunk of one row or column, in which they lie side by side from `place` on: the first terms of
 * its pairs, and the second ones. */
static void load_chunk(product *p, const chunk_walk *w, LLVMValueRef place, LLVMValueRef *out_first,
                       LLVMValueRef *out_second) {
  LLVMValueRef half[2], even[PAIRS], odd[PAIRS];
  for (int i = 0; i < 2; i++) {
    LLVMValueRef past = i64(p, i * PAIRS), from = at_operand(p, place, nsw_add(p, w->term, past));
    half[i] = load_operand(p, from, mask_below(p, nsw_sub(p, w->left, past)));
  }
  for (int i = 0; i < PAIRS; i++) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(p->e.l->llvm);
    even[i] = LLVMConstInt(i32, 2 * (unsigned)i, false), odd[i] = LLVMConstInt(i32, 2 * (unsigned)i + 1, false);
  }
  *out_first = LLVMBuildShuffleVector(p->b, half[0], half[1], LLVMConstVector(even, PAIRS), "");
  *out_second = LLVMBuildShuffleVector(p->b, half[0], half[1], LLVMConstVector(odd, PAIRS), "");
}

/* ---- rows of a ---- */

/* Stores a chunk of a row at `to`, where its first part begins. */
static void store_row(product *p, const filling *f, LLVMValueRef first, LLVMValueRef second, LLVMValueRef to) {
  LLVMValueRef part[PARTS], mask = mask_below(p, f->chunk), size = nsw_mul(p, f->chunk, i64(p, ROWS));
  split_pair(p, first, second, part);
  for (int s = 0; s < PARTS; s++) store_masked(p, part[s], at(p, to, nsw_mul(p, size, i64(p, s))), mask);
}

/* Returns where row `row` begins in the room of a chunk of the sixteen rows that it belongs to. */
static LLVMValueRef at_chunk(product *p, const filling *f, const chunk_walk *w, LLVMValueRef room, LLVMValueRef k,
                             LLVMValueRef row) {
  LLVMValueRef in_group = LLVMBuildAnd(p->b, row, i64(p, ROWS - 1), ""), group = nsw_sub(p, row, in_group);
  LLVMValueRef past = nsw_add(p, nsw_mul(p, group, k), nsw_mul(p, w->unit, i64(p, ROWS)));
  return at(p, room, nsw_add(p, past, nsw_mul(p, in_group, f->chunk)));
}

void msc_product_split_rows(product *p, const filling *f, LLVMValueRef a, LLVMValueRef room, LLVMValueRef k,
                            LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop rows;
  chunk_walk w;
  LLVMValueRef step = load_dim(p, 2), first, second;
  msc_ir_loop_open(&p->e, &rows, begin, end, 1, 0, NULL);
  LLVMValueRef from = at_operand(p, a, nsw_mul(p, rows.index, step)), row = nsw_sub(p, rows.index, begin);
  open_chunks(p, f, load_dim(p, 4), &w);
  load_chunk(p, &w, from, &first, &second);
  store_row(p, f, first, second, at_chunk(p, f, &w, room, k, row));
  close_chunks(p, &w);
  msc_ir_loop_close(&p->e, &rows, NULL);
}

void msc_product_split_transposed_rows(product *p, const filling *f, LLVMValueRef a, LLVMValueRef room, LLVMValueRef k,
                                       LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop rows;
  chunk_walk w;
  LLVMValueRef step = load_dim(p, 2), pair[2][PAIRS];
  open_chunks(p, f, load_dim(p, 4), &w);
  msc_ir_loop_open(&p->e, &rows, begin, end, PAIRS, 0, NULL);
  LLVMValueRef mask = mask_below(p, nsw_sub(p, end, rows.index)), base = at_operand(p, a, rows.index),
               to = at_chunk(p, f, &w, room, k, nsw_sub(p, rows.index, begin));
  for (int second = 0; second < 2; second++) {
    for (int i = 0; i < PAIRS; i++) pair[second][i] = load_term(p, &w, base, i64(p, 2 * i + second), step, mask);
    msc_ir_transpose_square(&p->e, PAIRS, pair[second]);
  }
  for (int i = 0; i < PAIRS; i++) store_row(p, f, pair[0][i], pair[1][i], at(p, to, nsw_mul(p, f->chunk, i64(p, i))));
  msc_ir_loop_close(&p->e, &rows, NULL);
  close_chunks(p, &w);
}

/* ---- panels of b ---- */

typedef struct {
  LLVMValueRef b, room, columns, k, step, blocks; /* k: elements of a panel's column */
  filling filling;
} panels_of_parts;

/* Stores vector v of the elements of a pair in a panel; `to`: where the pair's first part begins. */
static void store_pair(product *p, const filling *f, LLVMValueRef first, LLVMValueRef second, LLVMValueRef to, int v) {
  LLVMValueRef part[PARTS], size = nsw_mul(p, f->chunk, i64(p, p->width));
  split_pair(p, first, second, part);
  for (int s = 0; s < PARTS; s++)
    store_vector(p, part[s], at(p, to, nsw_add(p, nsw_mul(p, size, i64(p, s)), i64(p, v * p->lanes))));
}

/* Packs b row by row, so that memory is read in long runs. */
static void split_rows_of_b(product *p, const panels_of_parts *g, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop pairs, panels;
  chunk_walk w;
  LLVMValueRef width = i64(p, p->width), whole = LLVMBuildSDiv(p->b, g->columns, width, ""),
               left = nsw_sub(p, g->columns, nsw_mul(p, whole, width)), size = nsw_mul(p, g->k, width);
  LLVMValueRef mask[VECTORS], last = least(p, end, whole);
  for (int v = 0; v < VECTORS; v++) mask[v] = mask_below(p, nsw_sub(p, left, i64(p, v * p->lanes)));
  open_chunks(p, &g->filling, g->blocks, &w);
  msc_ir_loop_open(&p->e, &pairs, i64(p, 0), g->filling.chunk, 1, 0, NULL);
  LLVMValueRef past = LLVMBuildShl(p->b, pairs.index, i64(p, 1), ""), next = nsw_add(p, past, i64(p, 1)),
               to = at(p, g->room, nsw_mul(p, nsw_add(p, w.unit, pairs.index), width));
  for (int masked = 0; masked < 2; masked++) {
    msc_ir_loop_open(&p->e, &panels, masked ? last : begin, masked ? end : last, 1, 0, NULL);
    for (int v = 0; v < VECTORS; v++) {
      LLVMValueRef column = nsw_add(p, nsw_mul(p, panels.index, width), i64(p, v * p->lanes)),
                   base = at_operand(p, g->b, column), which = masked ? mask[v] : NULL;
      store_pair(p, &g->filling, load_term(p, &w, base, past, g->step, which),
                 load_term(p, &w, base, next, g->step, which), at(p, to, nsw_mul(p, panels.index, size)), v);
    }
    msc_ir_loop_close(&p->e, &panels, NULL);
  }
  msc_ir_loop_close(&p->e, &pairs, NULL);
  close_chunks(p, &w);
}

/* Packs columns of a transposed b, chunk by chunk, in squares that are transposed in registers. What a square holds
 * behind the chunk's last pair is stored in that pair's place before the pair itself. */
static void split_columns_of_b(product *p, const panels_of_parts *g, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop panels;
  chunk_walk w;
  LLVMValueRef width = i64(p, p->width), last = nsw_sub(p, g->columns, i64(p, 1)), size = nsw_mul(p, g->k, width),
               last_pair = nsw_sub(p, g->filling.chunk, i64(p, 1));
  msc_ir_loop_open(&p->e, &panels, begin, end, 1, 0, NULL);
  LLVMValueRef panel = at(p, g->room, nsw_mul(p, panels.index, size)), first = nsw_mul(p, panels.index, width);
  open_chunks(p, &g->filling, g->blocks, &w);
  LLVMValueRef to = at(p, panel, nsw_mul(p, w.unit, width));
  for (int v = 0; v < VECTORS; v++) {
    LLVMValueRef even[PAIRS], odd[PAIRS];
    for (int c = 0; c < PAIRS; c++) {
      LLVMValueRef column = least(p, nsw_add(p, first, i64(p, v * p->lanes + c)), last);
      load_chunk(p, &w, at_operand(p, g->b, nsw_mul(p, column, g->step)), &even[c], &odd[c]);
    }
    msc_ir_transpose_square(&p->e, PAIRS, even);
    msc_ir_transpose_square(&p->e, PAIRS, odd);
    for (int i = PAIRS - 1; i >= 0; i--) {
      LLVMValueRef place = nsw_mul(p, least(p, i64(p, i), last_pair), width);
      store_pair(p, &g->filling, even[i], odd[i], at(p, to, place), v);
    }
  }
  close_chunks(p, &w);
  msc_ir_loop_close(&p->e, &panels, NULL);
}

void msc_product_emit_split(msc_llvm *l, bool transposed, LLVMValueRef fn) {
  product p = product_of(l, MSC_F32, true, fn);
  panels_of_parts g = {.b = load_buffer(&p, 0),
                       .room = load_buffer(&p, 1),
                       .columns = load_dim(&p, 0),
                       .step = load_dim(&p, 2),
                       .blocks = load_dim(&p, 3)};
  g.filling = filling_of(&p, load_dim(&p, 1), g.blocks);
  g.k = nsw_mul(&p, nsw_mul(&p, g.blocks, g.filling.units), i64(&p, PARTS));
  (transposed ? split_columns_of_b : split_rows_of_b)(&p, &g, LLVMGetParam(fn, 1), LLVMGetParam(fn, 2));
  LLVMBuildRetVoid(l->builder);
}
