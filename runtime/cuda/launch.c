/* launch.c: a call of a kernel in; its launch in the stream of calls out. */
#include "runtime/cuda/cuda.h"
#include "runtime/execute/execute.h"

/* Launches a kernel with g->parameters.  Right behind another kernel it may begin early: of anything else in the stream
 * only the end says that its results are there. */
static mscrt_status *launch_grid(mscrt_cuda *g, cu_function kernel, unsigned blocks, unsigned threads) {
  bool early = g->early && g->follows_kernel;
  g->follows_kernel = true;
  if (!early) {
    MSCRT_CUDA(&g->cu, cuLaunchKernel, kernel, blocks, 1, 1, threads, 1, 1, 0, g->stream, g->parameters, NULL);
    return NULL;
  }
  cu_launch_attribute may = {.id = MSCRT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.allowed = 1};
  cu_launch launch = {blocks, 1, 1, threads, 1, 1, 0, g->stream, &may, 1};
  MSCRT_CUDA(&g->cu, cuLaunchKernelEx, &launch, kernel, g->parameters, NULL);
  return NULL;
}

mscrt_status *mscrt_cuda_launch(mscrt_context *c, const mscrt_record *r, void *const *buffers) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  plan_kernel kernel = plan_plan_kernels(c->plan->root, r->index);
  float narrow[64]; /* scalars that the kernel takes as f32 */
  unsigned blocks = (unsigned)r->units; /* check_call.c: a grid has so many */
  uint32_t n = 0;
  if (blocks == 0) return NULL;
  for (uint32_t i = 0; i < r->num_buffers; i++)
    g->parameters[n++] = buffers[i] ? (void *)(uintptr_t)&buffers[i] : (void *)&g->workspace;
  g->parameters[n++] = (void *)(uintptr_t)&r->extent;
  for (uint32_t i = 0; i < plan_kernel_num_dims(kernel); i++) g->parameters[n++] = (void *)(uintptr_t)&r->dims[i];
  for (uint32_t i = 0; i < plan_kernel_num_scalars(kernel); i++) {
    bool is_narrow = i < 64 && plan_kernel_narrow_scalars(kernel) >> i & 1;
    if (is_narrow) narrow[i] = (float)r->scalars[i];
    g->parameters[n++] = is_narrow ? (void *)&narrow[i] : (void *)(uintptr_t)&r->scalars[i];
  }
  return launch_grid(g, g->kernel[r->index], blocks, plan_kernel_threads(kernel));
}
