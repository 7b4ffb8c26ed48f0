/* onednn.h: matrix products of one tile by oneDNN 2, or else by a library that has sgemm, which is loaded when a plan
 * needs it and never linked. */
#ifndef MSCRT_LIBRARY_H
#define MSCRT_LIBRARY_H

#include "runtime/plan/plan.h"

typedef struct mscrt_library mscrt_library;
typedef struct mscrt_tile mscrt_tile;

/* Loads the library and makes what each worker needs. A missing library is a status that names its package. */
mscrt_status *mscrt_library_open(int workers, mscrt_library **out_library);
void mscrt_library_close(mscrt_library *l);
/* "oneDNN 2.6.0" */
const char *mscrt_library_name(const mscrt_library *l);
/* Finds or makes the primitives for the tiles of a product: [last row][last column]. The library owns them; equal tiles
 * share one. */
mscrt_status *mscrt_library_tiles(mscrt_library *l, const mscrt_matmul *m, const mscrt_tile *out_tile[2][2]);
/* Allocates the scratch of the largest tile for every worker; called after the last mscrt_library_tiles. */
mscrt_status *mscrt_library_ready(mscrt_library *l);
/* Runs one tile. The runtime allocates nothing here; the library starts no threads if the calling thread is between
 * mscrt_library_enter and mscrt_library_leave. */
bool mscrt_tile_run(const mscrt_tile *t, int worker, const void *a, const void *b, void *c, const void *bias);
/* Forbids the library to start threads from this thread; returns the setting before, for mscrt_library_leave. */
int mscrt_library_enter(const mscrt_library *l);
void mscrt_library_leave(const mscrt_library *l, int before);
/* Forbids it from a worker of the pool, for as long as that lives. */
void mscrt_library_enter_worker(const mscrt_library *l);

#endif
