/* product.h: how much memory the kernels of a generated product write.  The compiler, which emits the kernels and plans
 * their memory, and the runtime, which checks the plan, share these functions, so that none of them can be wrong alone.
 *
 * A panel has `width` columns: MSC_PRODUCT_VECTORS vectors of as many lanes.  k counts elements of panels, which are
 * terms, or pairs of them, or parts of pairs. */
#ifndef MSC_IR_PRODUCT_H
#define MSC_IR_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* The most vectors in a row of a panel, and the most rows of a that are summed together and packed together; the most
 * rows of a that meet rows of b from end to end. */
enum {
  MSC_PRODUCT_VECTORS = 2,
  MSC_PRODUCT_MAX_HEIGHT = 12,
  MSC_PRODUCT_PANEL_ROWS = 16,
  MSC_PRODUCT_STREAM_ROWS = 2
};

/* What the last dimension of `multiply` says. Of the CPU: it stores whole vectors of 64 bytes at once; it sees that
 * rows of a matrix are read one after the other, whatever lies between them, and fetches the next ones by itself. Of
 * the product: its sums of f16 or bf16 are stored rounded to that type, not in f32. */
enum { MSC_PRODUCT_STORES_WHOLE = 1, MSC_PRODUCT_FETCHES_ROWS = 2, MSC_PRODUCT_ROUNDS = 4 };

static inline int64_t msc_product_lanes(int64_t width) { return width / MSC_PRODUCT_VECTORS; }

/* Returns n elements, rounded up to whole vectors. */
static inline int64_t msc_product_whole(int64_t n, int64_t width) {
  int64_t lanes = msc_product_lanes(width);
  return (n + lanes - 1) / lanes * lanes;
}

/* The most pairs of bf16 that are added at once, as a chunk. All chunks of a block have the same number of pairs. */
enum { MSC_PRODUCT_CHUNK = 16 };

/* Returns the number of chunks of a block of `block` terms. */
static inline int64_t msc_product_chunks(int64_t block) {
  int64_t pairs = (block + 1) / 2;
  return (pairs + MSC_PRODUCT_CHUNK - 1) / MSC_PRODUCT_CHUNK;
}

/* Returns the number of pairs of a chunk. */
static inline int64_t msc_product_chunk(int64_t block) {
  int64_t pairs = (block + 1) / 2, chunks = msc_product_chunks(block);
  return chunks ? (pairs + chunks - 1) / chunks : 1;
}

/* How terms lie in panels and packed rows: each is an element; or an element is two neighbours of bf16, which are
 * multiplied as a pair; or each is the sum of three parts of bf16, of which two neighbours' are an element. */
enum { MSC_PACKED_TERMS = 0, MSC_PACKED_PAIRS = 1, MSC_PACKED_PARTS = 3 };

/* Returns which of them it is for operands of so many bytes that are multiplied in pairs, or not. */
static inline int msc_product_packing(int64_t operand_bytes, bool pairs) {
  return !pairs ? MSC_PACKED_TERMS : operand_bytes < 4 ? MSC_PACKED_PAIRS : MSC_PACKED_PARTS;
}

/* Elements of a panel, or of packed rows, for a block of so many terms; in pairs zeros fill the last pair and the last
 * chunk. */
static inline int64_t msc_product_block_units(int64_t block, int packing) {
  return packing ? packing * msc_product_chunks(block) * msc_product_chunk(block) : block;
}

/* Returns the elements of all blocks: those of one block, times their number. */
static inline int64_t msc_product_units(int64_t k, int64_t blocks, int packing) {
  return blocks * msc_product_block_units(k / blocks, packing);
}

/* True if zeros stand behind the terms of a block. Squares of such a block are transposed by themselves, and rows of a
 * are packed. */
static inline bool msc_product_is_filled(int64_t k, int64_t blocks, int packing) {
  return packing && 2 * msc_product_units(k, blocks, MSC_PACKED_PAIRS) != k;
}

/* Elements that packing of columns of b with k units writes: panels one behind the other, and behind the last of them
 * rows of the squares that are transposed whole when b is transposed: of the whole panel, or of each block if they are
 * filled. */
static inline int64_t msc_product_panel_elems(int64_t columns, int64_t k, int64_t width) {
  int64_t panels = (columns + width - 1) / width;
  return panels ? ((panels - 1) * k + msc_product_whole(k, width)) * width : 0;
}
static inline int64_t msc_product_filled_panel_elems(int64_t columns, int64_t k, int64_t width) {
  int64_t panels = (columns + width - 1) / width;
  return panels ? (panels * k + msc_product_lanes(width)) * width : 0;
}

/* Returns the most elements that packing of rows of a writes: for a transposed a, whole panels of rows, and whole
 * vectors behind the last term. */
static inline int64_t msc_product_room_elems(int64_t rows, int64_t k) {
  return rows && k ? (rows + MSC_PRODUCT_PANEL_ROWS - 1) * k + MSC_PRODUCT_PANEL_ROWS : 0;
}

/* Returns the bytes of an element as it is packed, summed and stored: f16 and bf16 become f32. */
static inline int64_t msc_product_bytes(int64_t operand_bytes) { return operand_bytes < 4 ? 4 : operand_bytes; }

/* True if all columns of a b that is read in place are read row by row: for few rows of a, by kernels with 16
 * registers, whose panels have at most 64 bytes a row. So tiles should have many columns. */
static inline bool msc_product_streams(int64_t rows, int64_t row_bytes, bool b_lies, bool transpose_b) {
  return b_lies && !transpose_b && rows <= MSC_PRODUCT_STREAM_ROWS && row_bytes <= 64;
}

/* True if rows of a may be packed; else all of them are read in place. `filled`: zeros stand behind a block's terms. */
static inline bool msc_product_packs_rows(int64_t operand_bytes, bool transpose_a, int packing, bool filled) {
  return transpose_a || filled || packing == MSC_PACKED_PARTS || (operand_bytes < 4 && !packing);
}

#endif
