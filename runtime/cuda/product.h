/* product.h: a matrix product as cuBLASLt knows it, and the choice of its algorithm. */
#ifndef MSCRT_CUDA_PRODUCT_H
#define MSCRT_CUDA_PRODUCT_H

#include "runtime/cuda/cuda.h"

#define MSCRT_CANDIDATES 8 /* algorithms that are measured of a product */

typedef struct {
  bool used;
  lt_product product;
  lt_layout a, b, c;             /* ours: the library's second, first and result */
  lt_algorithm algorithm;
  uint64_t low_bits[3 + MSCRT_NUM_BEHIND]; /* of all addresses of an operand, or-ed */
  void *buffer[3 + MSCRT_NUM_BEHIND];      /* of one of its calls */
} mscrt_product;

struct mscrt_products {
  mscrt_cublas_api lt;
  lt_handle handle;
  mscrt_product *product;        /* of the plan's */
};

/* What is done to the product before it is stored. */
uint32_t mscrt_product_epilogue(const mscrt_matmul *m);
/* What an algorithm may take for granted of an operand's addresses, in bytes. */
uint32_t mscrt_product_alignment(const mscrt_product *p, int operand);
/* One call, with the algorithm given; `adds`: what there is to be added. */
mscrt_status *mscrt_product_call(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p, bool adds,
                                 void *const *buffer, const lt_algorithm *algorithm);

/* ---- cuda/choice.c: the file options.choices ---- */

/* Takes the algorithm from the file, if this library still has it for this problem. */
bool mscrt_choice_known(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p);
/* Ranks that compute the same must do it alike, to the last bit, so the first of those that have the product here
 * chooses for them. */
mscrt_status *mscrt_choice_is_mine(mscrt_context *c, bool here, bool *out_is);
/* Tells the others the algorithm, or takes theirs: p NULL: neither.  *out_fits false: this rank's library does
 * not know theirs. */
mscrt_status *mscrt_choice_share(mscrt_context *c, mscrt_product *p, bool is_mine, bool *out_fits);
/* Takes the fastest of some, and adds it to the file; the product's operands are overwritten. */
mscrt_status *mscrt_choice_measure(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p, int num,
                                   const lt_candidate *candidate);

#endif
