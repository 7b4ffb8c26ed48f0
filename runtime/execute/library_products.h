/* library_products.h: products that a library may compute in place of a plan's own kernels: which of them it does. */
#ifndef MSCRT_LIBRARY_PRODUCTS_H
#define MSCRT_LIBRARY_PRODUCTS_H

#include "runtime/context.h"

/* Loads the library if a product needs it or may be computed by it. Where all that may have kernels of their own, a
 * library that cannot be loaded is no failure: mscrt_agree_on_library tells of it. */
mscrt_status *mscrt_load_library(mscrt_context *c);
/* Sets tiles for the library, which takes the place of the product's kernels. */
void mscrt_give_to_library(const mscrt_context *c, mscrt_matmul *m);
/* Measures the nanoseconds of one thread that the library takes for one matrix of the product, whose operands are at
 * a, b and c, in tiles that mscrt_give_to_library has set; the least of `passes`. */
mscrt_status *mscrt_measure_library(const mscrt_matmul *m, int passes, const void *a, const void *b, void *c,
                                    int64_t *out_ns);
/* Gives those products of c->matmul to the library that all ranks want there, by a `library` that is not 0: ranks that
 * compute the same must get the same bits. All ranks must call it. */
mscrt_status *mscrt_agree_on_library(mscrt_context *c);

#endif
