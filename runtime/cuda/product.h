/* product.h: the description of a matrix product for cuBLASLt, and the choice of its algorithm. */
#ifndef MSCRT_CUDA_PRODUCT_H
#define MSCRT_CUDA_PRODUCT_H

#include "runtime/cuda/cuda.h"

#define MSCRT_CANDIDATES 8 /* most algorithms that are measured for a product */

/* A product is one call of the library, or `apart`: the library only multiplies and adds, and the epilogue of the
 * product's calls, kernels of the plan, do the rest. */
typedef struct {
  bool used, apart;
  lt_product whole, plain;       /* the library's part in both cases; plain: NULL where it is never apart */
  lt_layout a, b, c;             /* ours: the library's second, first and result */
  lt_algorithm algorithm;
  uint64_t low_bits[3 + MSCRT_NUM_BEHIND]; /* bitwise or of all addresses of an operand */
  void *buffer[3 + MSCRT_NUM_BEHIND];      /* of one of its calls */
  const mscrt_record *call;                /* that one */
} mscrt_product;

struct mscrt_products {
  mscrt_cublas_api lt;
  lt_handle handle;
  mscrt_product *product;        /* of the plan's */
  uint32_t num_refused;          /* by the library, as a whole */
};

/* ---- cuda/product_problem.c ---- */

/* Turns a result of cuBLASLt's into a status. */
mscrt_status *mscrt_product_check(lt_result r, const char *what);
#define MSCRT_LT(l, function, ...) MSCRT_CHECK(mscrt_product_check((l)->function(__VA_ARGS__), #function))
/* Describes a product.  f16 and bf16 are summed in f32; f32 is not computed in a narrower type. */
mscrt_status *mscrt_product_describe(mscrt_cublas_api *lt, const mscrt_matmul *m, mscrt_product *p);
/* The operations on the product before it is stored, as cuBLASLt's bits. */
uint32_t mscrt_product_epilogue(const mscrt_matmul *m);
/* The alignment, in bytes, of all addresses of an operand. */
uint32_t mscrt_product_alignment(const mscrt_product *p, int operand);
/* The library's part of the product as it is made now. */
lt_product mscrt_product_desc(const mscrt_product *p);
/* Issues the library's part of one call with this algorithm; `adds`: with the operand that is added. */
mscrt_status *mscrt_product_call(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p, bool adds,
                                 void *const *buffer, const lt_algorithm *algorithm);

/* ---- cuda/product_choice.c: the file options.choices ---- */

/* Reads from the file whether the product is apart, and the algorithm; false: the file has none that this library
 * accepts for this problem. */
bool mscrt_choice_load(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p);
/* *out_is: this rank chooses the algorithm for all ranks: it is the first that has the product. Ranks that compute the
 * same must get the same bits. */
mscrt_status *mscrt_choice_is_mine(mscrt_context *c, bool here, bool *out_is);
/* Sends the algorithm to the other ranks, or receives it; p NULL: this rank has no such product.  *out_fits false: this
 * rank's library does not support it. */
mscrt_status *mscrt_choice_share(mscrt_context *c, mscrt_product *p, bool is_mine, bool *out_fits);
/* Measures the candidates, with the kernel that does the rest if the product is apart, and takes the fastest.
 * Overwrites the product's operands. */
mscrt_status *mscrt_choice_measure(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p, int num,
                                   const lt_candidate *candidate, float *out_ms);
/* Appends what was chosen to the file. */
mscrt_status *mscrt_choice_keep(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p);

#endif
