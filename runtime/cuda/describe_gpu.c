/* describe_gpu.c: the number of a GPU of this machine in, its figures as the driver tells them out. */
#include "runtime/cuda/gpu.h"

#include "runtime/cuda/api.h"

typedef struct {
  mscrt_cuda_api cu;
  cu_device device;
} asking;

static mscrt_status *read_attribute(asking *a, unsigned attribute, int64_t unit, int64_t *out) {
  int value = 0;
  MSCRT_CUDA(&a->cu, cuDeviceGetAttribute, &value, attribute, a->device);
  *out = value * unit;
  return NULL;
}

static mscrt_status *describe(asking *a, mscrt_gpu *out) {
  enum { KHZ = 1000 };
  const struct {
    unsigned attribute;
    int64_t unit, *to;
  } figures[] = {
      {MSCRT_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1, &out->multiprocessors},
      {MSCRT_CU_DEVICE_ATTRIBUTE_CLOCK_RATE, KHZ, &out->clock_hz},
      {MSCRT_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, KHZ, &out->memory_clock_hz},
      {MSCRT_CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1, &out->cache_bytes},
      {MSCRT_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 1, &out->shared_bytes},
      {MSCRT_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1, &out->threads},
      {MSCRT_CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 1, &out->blocks},
  };
  int64_t major = 0, minor = 0;
  size_t memory = 0;
  MSCRT_CHECK(read_attribute(a, MSCRT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 10, &major));
  MSCRT_CHECK(read_attribute(a, MSCRT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 1, &minor));
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    MSCRT_CHECK(read_attribute(a, figures[i].attribute, figures[i].unit, figures[i].to));
  MSCRT_CUDA(&a->cu, cuDeviceTotalMem_v2, &memory, a->device);
  out->arch = (int)(major + minor);
  out->memory_bytes = (int64_t)memory;
  return NULL;
}

mscrt_status *mscrt_gpu_describe(int ordinal, char name[MSCRT_GPU_NAME], mscrt_gpu *out, int *out_num_gpus) {
  asking a = {0};
  int driver = 0;
  *out = (mscrt_gpu){.name = name};
  *out_num_gpus = 0;
  MSCRT_CHECK(mscrt_cuda_load(&a.cu, &driver));
  cu_result r = a.cu.cuInit(0);
  if (!r) r = a.cu.cuDeviceGetCount(out_num_gpus);
  if (r == MSCRT_CUDA_ERROR_NO_DEVICE || (!r && ordinal >= *out_num_gpus))
    return mscrt_fail(MSCRT_ENVIRONMENT, "the driver finds %d GPUs (see also CUDA_VISIBLE_DEVICES)", *out_num_gpus);
  if (r) return mscrt_cuda_failure(&a.cu, r, "cuInit");
  MSCRT_CUDA(&a.cu, cuDeviceGet, &a.device, ordinal);
  MSCRT_CUDA(&a.cu, cuDeviceGetName, name, MSCRT_GPU_NAME, a.device);
  return describe(&a, out);
}
