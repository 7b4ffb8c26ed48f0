/* product.h: how much memory the kernels of a generated product write.  The compiler, which emits the kernels and plans
 * their memory, and the runtime, which checks the plan, share these functions, so that none of them can be wrong alone.
 *
 * A panel has `width` columns: MSC_PRODUCT_VECTORS vectors of as many lanes.  k counts elements of panels, which are
 * terms, or pairs of them. */
#ifndef MSC_IR_PRODUCT_H
#define MSC_IR_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* The most vectors in a row of a panel, and the most rows of a that are summed together and packed together. */
enum { MSC_PRODUCT_VECTORS = 2, MSC_PRODUCT_MAX_HEIGHT = 12, MSC_PRODUCT_PANEL_ROWS = 16 };

static inline int64_t msc_product_lanes(int64_t width) { return width / MSC_PRODUCT_VECTORS; }

/* n elements, rounded up to whole vectors. */
static inline int64_t msc_product_whole(int64_t n, int64_t width) {
  int64_t lanes = msc_product_lanes(width);
  return (n + lanes - 1) / lanes * lanes;
}

/* Terms that are one element of a panel or of packed rows: two neighbours of bf16 are, where they are multiplied as a
 * pair. */
static inline int64_t msc_product_units(int64_t k, bool pairs) { return pairs ? k / 2 : k; }

/* Elements that packing of columns of b with k terms writes: panels one behind the other, and behind the last of them
 * rows of the squares that are turned whole when b is transposed. */
static inline int64_t msc_product_panel_elems(int64_t columns, int64_t k, int64_t width) {
  int64_t panels = (columns + width - 1) / width;
  return panels ? ((panels - 1) * k + msc_product_whole(k, width)) * width : 0;
}

/* Elements that packing of rows of a writes, at most: of a transposed a whole panels of rows, and whole vectors behind
 * the last term. */
static inline int64_t msc_product_room_elems(int64_t rows, int64_t k) {
  return rows && k ? (rows + MSC_PRODUCT_PANEL_ROWS - 1) * k + MSC_PRODUCT_PANEL_ROWS : 0;
}

/* Bytes of an element as it is packed, summed and stored: of f16 and bf16 it is an f32. */
static inline int64_t msc_product_bytes(int64_t operand_bytes) { return operand_bytes < 4 ? 4 : operand_bytes; }

/* May rows of a be packed? If not, all of them are read in place. */
static inline bool msc_product_packs_rows(int64_t operand_bytes, bool transpose_a, bool pairs) {
  return transpose_a || (operand_bytes < 4 && !pairs);
}

#endif
