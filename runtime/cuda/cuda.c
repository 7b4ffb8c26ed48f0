/* cuda.c: enters and leaves the device's context, and computes which addresses a buffer of a call can have. */
#include "runtime/cuda/cuda.h"

mscrt_status *mscrt_cuda_enter(mscrt_cuda *g) {
  MSCRT_CUDA(&g->cu, cuCtxPushCurrent_v2, g->context);
  return NULL;
}

void mscrt_cuda_leave(mscrt_cuda *g) {
  cu_context own;
  g->cu.cuCtxPopCurrent_v2(&own);
}

uint64_t mscrt_cuda_low_bits(const mscrt_context *c, const mscrt_record *r, uint32_t buffer) {
  uint8_t space = r->space ? r->space[buffer] : PLAN_SPACE_SCRATCH;
  uint64_t stride = space == PLAN_SPACE_INPUT ? c->input_stride
                    : mscrt_has_slots(space) ? c->plan->stage[c->stage].bytes[space]
                                              : 0;
  return (uint64_t)(uintptr_t)r->buffers[buffer] | stride;
}
