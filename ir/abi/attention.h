/* attention.h: how attention on a CPU is cut into blocks of scores, and the memory that a worker needs for one.  The
 * compiler, which plans this memory, and the runtime, which checks the plan and computes, share these functions.
 *
 *   y of a stretch of rows    = for each block of keys in order: weights = exp(scores - largest so far), added up
 *   dk, dv of a block of keys = for each head of the group, for each block of rows in order: two products added up
 *   dq of a block of rows     = for each block of keys in order: a product added up
 *
 * Blocks of keys that causal rows do not see are left out.  How an element is summed depends on neither the batch nor
 * the number of heads.  All is f32 and row major. */
#ifndef MSC_IR_ATTENTION_H
#define MSC_IR_ATTENTION_H

#include "ir/abi/product.h"

/* q [batch, heads, rows, e], k [batch, groups, keys, e], v [batch, groups, keys, f]; gradient: dq, dk and dv are made;
 * width: columns of a panel. */
typedef struct {
  bool gradient;
  int64_t batch, heads, groups, rows, keys, e, f, width;
} msc_attention;

/* Returns the attention of q, k and v with these dimensions, of which v's last is `f`. */
static inline msc_attention msc_attention_of_dims(bool gradient, const int64_t *q, const int64_t *k, int64_t f,
                                                  int64_t width) {
  return (msc_attention){.gradient = gradient,
                         .batch = q[0],
                         .heads = q[1],
                         .groups = k[1],
                         .rows = q[2],
                         .keys = k[2],
                         .e = q[3],
                         .f = f,
                         .width = width};
}

/* How the work is cut. A work item makes `rows` rows of y of one head; for the gradient, dk and dv of one group and dq
 * of its heads. */
typedef struct {
  int64_t rows, parts, units;
  /* elements of the worker's memory */
  int64_t panels_k, panels_v, panels_keys, panels_rows, scores, transposed, sums, totals;
} msc_attention_cut;

enum {
  MSC_ATTENTION_ROWS = 64, /* rows of a block of scores */
  MSC_ATTENTION_KEYS = 256,
  MSC_ATTENTION_STRETCH = 512,      /* rows of y that an item makes */
  MSC_ATTENTION_LANES = 16,         /* scores whose exponentials are computed together */
  MSC_ATTENTION_MAX_SIZE = 1 << 20, /* of any size */
  MSC_ATTENTION_MAX_HEAD = 512,     /* of e and f */
  MSC_ATTENTION_MAX_WIDTH = 64,
  MSC_ATTENTION_MAX_BYTES = 64 << 20 /* most bytes of a worker's memory */
};

static inline int64_t msc_attention_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t msc_attention_aligned(int64_t elems) { return (elems + 15) / 16 * 16; }

static inline msc_attention_cut msc_attention_cut_of(const msc_attention *a) {
  enum { ROWS = MSC_ATTENTION_ROWS, KEYS = MSC_ATTENTION_KEYS };
  msc_attention_cut u = {.rows = a->gradient ? a->rows : msc_attention_least(a->rows, MSC_ATTENTION_STRETCH)};
  u.parts = (a->rows + u.rows - 1) / u.rows;
  u.units = a->batch * (a->gradient ? a->groups : a->heads * u.parts);
  u.panels_k = msc_attention_aligned(msc_product_panel_elems(KEYS, a->e, a->width));
  u.scores = ROWS * KEYS;
  if (a->gradient) {
    int64_t most = a->e > a->f ? a->e : a->f;
    u.panels_v = msc_attention_aligned(msc_product_panel_elems(KEYS, a->f, a->width));
    u.panels_keys = msc_attention_aligned(msc_product_panel_elems(a->e, KEYS, a->width));
    u.panels_rows = msc_attention_aligned(msc_product_panel_elems(most, ROWS, a->width));
    u.scores *= 2;
    u.transposed = msc_attention_aligned(msc_product_room_elems(KEYS, ROWS));
    u.totals = msc_attention_aligned(a->heads / a->groups * a->rows);
  } else {
    u.panels_v = msc_attention_aligned(msc_product_panel_elems(a->f, KEYS, a->width));
    u.sums = msc_attention_aligned(u.rows * a->f);
    u.totals = 2 * msc_attention_aligned(u.rows);
  }
  return u;
}

/* Returns the bytes of a worker's memory. */
static inline int64_t msc_attention_bytes(const msc_attention_cut *u) {
  return 4 * (u->panels_k + u->panels_v + u->panels_keys + u->panels_rows + u->scores + u->transposed + u->sums +
              u->totals);
}

/* True if all sizes are small enough for the functions above. */
static inline bool msc_attention_fits(const msc_attention *a) {
  const int64_t sizes[] = {a->batch, a->heads, a->groups, a->rows, a->keys};
  bool ok = a->width >= MSC_PRODUCT_VECTORS && a->width <= MSC_ATTENTION_MAX_WIDTH && a->e > 0 && a->f > 0 &&
            a->e <= MSC_ATTENTION_MAX_HEAD && a->f <= MSC_ATTENTION_MAX_HEAD;
  for (int i = 0; i < 5; i++) ok = ok && sizes[i] > 0 && sizes[i] <= MSC_ATTENTION_MAX_SIZE;
  return ok && a->heads % a->groups == 0;
}

#endif
