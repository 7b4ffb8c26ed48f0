/* thread_pool.h: the threads of one rank. */
#ifndef MSCRT_THREAD_POOL_H
#define MSCRT_THREAD_POOL_H

#include "runtime/runtime.h"

typedef struct mscrt_pool mscrt_pool;
typedef void mscrt_work(void *arg, int64_t unit, int worker); /* worker: 0 .. threads-1, 0 is the caller of run */
typedef void mscrt_pool_start(void *arg);                     /* called once in each new thread */

/* Starts threads - 1 threads, which call `start` (may be NULL) first. spin: workers wait busily for a moment between
 * jobs; only for as many threads as there are cores.  They compute as mscrt_flush_subnormal says; the caller of
 * mscrt_pool_run sees to that itself. */
mscrt_status *mscrt_pool_new(int threads, bool spin, mscrt_pool_start *start, void *start_arg, mscrt_pool **out_pool);
void mscrt_pool_free(mscrt_pool *p);
/* Calls fn for units 0 .. units-1, each once, and returns when all are done.  Does not allocate. */
void mscrt_pool_run(mscrt_pool *p, mscrt_work *fn, void *arg, int64_t units);
/* Cores that this process may use: affinity mask and CPU quota of its group. */
int mscrt_cores(void);
/* Bytes of the last cache before memory, which cores share. */
uint64_t mscrt_cache_bytes(void);

#endif
