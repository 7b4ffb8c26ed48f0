/* windows.h: convolutions on a CPU, computed by the kernels of matrix products. */
#ifndef MSCRT_WINDOWS_H
#define MSCRT_WINDOWS_H

#include "runtime/context.h"

/* Runs one work item of the call with `worker`'s memory. */
void mscrt_run_windows(const mscrt_record *r, void *const *buffers, int64_t unit, void *room);
/* The same for small images. */
void mscrt_run_small_images(const mscrt_record *r, void *const *buffers, int64_t unit, void *room);

#endif
