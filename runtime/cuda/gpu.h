/* gpu.h: what a GPU is: the figures of a cluster description's device.gpu, by which libraries choose. */
#ifndef MSCRT_CUDA_GPU_H
#define MSCRT_CUDA_GPU_H

#include "runtime/mscrt.h"

typedef struct {
  const char *name;
  int arch; /* 90 is compute capability 9.0 */
  int64_t multiprocessors, clock_hz, memory_clock_hz, memory_bytes, cache_bytes;
  int64_t shared_bytes, threads, blocks; /* most of a multiprocessor */
} mscrt_gpu;

enum { MSCRT_GPU_NAME = 96 };

/* Asks the driver what GPU `ordinal` is, and how many there are.  `name` holds its name.  A process that has asked
 * cannot fork others that use GPUs. */
mscrt_status *mscrt_gpu_describe(int ordinal, char name[MSCRT_GPU_NAME], mscrt_gpu *out, int *out_num_gpus);

#endif
