/* sgemm.h: products of f32 by a library that has the function of BLAS for them, loaded when needed, never linked: where
 * there is no oneDNN 2, whose primitives do more (onednn.h). */
#ifndef MSCRT_SGEMM_H
#define MSCRT_SGEMM_H

#include "runtime/plan/plan.h"

typedef struct mscrt_sgemm mscrt_sgemm;

/* Loads oneDNN 3 or OpenBLAS; NULL: neither can be, or there is no memory. */
mscrt_sgemm *mscrt_sgemm_open(void);
void mscrt_sgemm_close(mscrt_sgemm *g);
/* "OpenBLAS 0.3.21" */
const char *mscrt_sgemm_name(const mscrt_sgemm *g);
/* True if the library's number of threads is one of the process, which the next two are for, as OpenBLAS's; else OpenMP
 * has one for each thread that calls. */
bool mscrt_sgemm_counts_threads(const mscrt_sgemm *g);
/* Forbids the library to start threads; returns the number before, for mscrt_sgemm_leave. */
int mscrt_sgemm_enter(const mscrt_sgemm *g);
void mscrt_sgemm_leave(const mscrt_sgemm *g, int before);
/* Computes one tile, as mscrt_tile_run does. m, n: of the tile; lda, ldb, ldc: elements from row to row in memory.
 * False: the library reports that it failed. */
bool mscrt_sgemm_run(const mscrt_sgemm *g, const mscrt_matmul *m, int64_t lda, int64_t ldb, int64_t ldc, const float *a,
                     const float *b, float *c, const float *bias);

#endif
