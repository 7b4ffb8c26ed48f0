/* transfer.c: copies values that live in the host's memory to the GPU and back, on a stream beside that of calls, and
 * runs kernels of the host between these copies.
 *
 * A copy begins when the calls issued before it have run, since these may still use its memory on the GPU, and a call
 * waits for the last copy that it depends on (prepare_calls.c).  The host's memory is pinned, so copies are part of a
 * captured graph. */
#include <stdlib.h>

#include "runtime/cuda/cuda.h"
#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/thread_pool.h"

/* A kernel of the host, which a thread of the driver calls when the stream comes to it. */
typedef struct {
  const mscrt_record *record;
  mscrt_pool *pool;
  int32_t fault; /* what it wrote to its error flag when it ran last */
} host_call;

struct mscrt_transfers {
  cu_stream stream;
  cu_event issued, *ran; /* ran: of each transfer of a section, by its number - 1 */
  uint32_t num_ran, waited; /* waited: the number of the last one that calls wait for */
  void *pinned;
  uint32_t num_host;
  host_call *host;
  mscrt_pool *pool; /* of host calls: the rank's own may be in use then */
};

static mscrt_status *make_events(mscrt_context *c, mscrt_transfers *m) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    if (c->section[i].num_transfers > most) most = c->section[i].num_transfers;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuEventCreate, &m->issued, MSCRT_CU_EVENT_DISABLE_TIMING);
  MSCRT_CHECK(mscrt_new_array(&m->ran, most));
  for (; m->num_ran < most; m->num_ran++)
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuEventCreate, &m->ran[m->num_ran], MSCRT_CU_EVENT_DISABLE_TIMING);
  return NULL;
}

static mscrt_status *list_host_calls(mscrt_context *c, mscrt_transfers *m) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++)
      num += c->section[i].call[k].kind == PLAN_CALL_KIND_HOST_KERNEL;
  if (!num) return NULL;
  MSCRT_CHECK(mscrt_pool_new(c->threads, false, NULL, NULL, &m->pool));
  MSCRT_CHECK(mscrt_new_array(&m->host, num));
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++) {
      const mscrt_record *r = &c->section[i].call[k];
      if (r->kind == PLAN_CALL_KIND_HOST_KERNEL) m->host[m->num_host++] = (host_call){r, m->pool, 0};
    }
  return NULL;
}

mscrt_status *mscrt_transfers_ready(mscrt_context *c) {
  uint64_t bytes = 0;
  void *host = mscrt_offload_host(c, &bytes);
  if (!host) return NULL;
  MSCRT_CHECK(mscrt_new_array(&mscrt_cuda_of(c)->transfers, 1));
  mscrt_transfers *m = mscrt_cuda_of(c)->transfers;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamCreate, &m->stream, MSCRT_CU_STREAM_NON_BLOCKING);
  MSCRT_CHECK(make_events(c, m));
  MSCRT_CHECK(list_host_calls(c, m));
  cu_result r = mscrt_cuda_of(c)->cu.cuMemHostRegister_v2(host, bytes, 0);
  if (r)
    return mscrt_add_prefix(mscrt_cuda_failure(&mscrt_cuda_of(c)->cu, r, "cuMemHostRegister"),
                            "rank %d: %" PRIu64 " bytes of the host's memory, for what is offloaded, cannot be pinned",
                            c->o.rank, bytes);
  m->pinned = host;
  return NULL;
}

static void run_host_call(void *user) {
  host_call *h = user;
  h->fault = mscrt_run_host_kernel(h->pool, h->record);
}

static mscrt_status *issue_host_call(mscrt_context *c, mscrt_transfers *m, const mscrt_record *r) {
  host_call *h = m->host;
  while (h->record != r) h++;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuLaunchHostFunc, m->stream, run_host_call, h);
  return NULL;
}

static mscrt_status *issue_copy(mscrt_context *c, mscrt_transfers *m, const mscrt_execution *t) {
  const mscrt_record *r = t->record;
  void *const *buffers = mscrt_buffers_of(c, r, t->slots, 0);
  if (mscrt_is_offloaded(r->ref[1].space))
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemcpyDtoHAsync_v2, buffers[1], (cu_address)(uintptr_t)buffers[0],
               r->ref[1].bytes, m->stream);
  else
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemcpyHtoDAsync_v2, (cu_address)(uintptr_t)buffers[1], buffers[0],
               r->ref[0].bytes, m->stream);
  return NULL;
}

mscrt_status *mscrt_host_call_faults(mscrt_context *c, int64_t step) {
  const mscrt_transfers *m = mscrt_cuda_of(c)->transfers;
  for (uint32_t i = 0; m && i < m->num_host; i++)
    MSCRT_CHECK(mscrt_kernel_error_status(c, m->host[i].record, step, m->host[i].fault));
  return NULL;
}

mscrt_status *mscrt_cuda_transfer(mscrt_context *c, const mscrt_execution *t) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  mscrt_transfers *m = mscrt_cuda_of(c)->transfers;
  MSCRT_CUDA(cu, cuEventRecord, m->issued, mscrt_cuda_of(c)->stream);
  MSCRT_CUDA(cu, cuStreamWaitEvent, m->stream, m->issued, 0);
  if (t->number == 1) m->waited = 0;
  if (t->record->kind == PLAN_CALL_KIND_HOST_KERNEL) MSCRT_CHECK(issue_host_call(c, m, t->record));
  else MSCRT_CHECK(issue_copy(c, m, t));
  MSCRT_CUDA(cu, cuEventRecord, m->ran[t->number - 1], m->stream);
  return NULL;
}

mscrt_status *mscrt_cuda_wait_for_transfers(mscrt_context *c, uint32_t upto) {
  mscrt_transfers *m = mscrt_cuda_of(c)->transfers;
  if (!m || upto <= m->waited) return NULL;
  mscrt_cuda_of(c)->follows_kernel = false;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamWaitEvent, mscrt_cuda_of(c)->stream, m->ran[upto - 1], 0);
  m->waited = upto;
  return NULL;
}

void mscrt_transfers_close(mscrt_context *c) {
  mscrt_transfers *m = mscrt_cuda_of(c)->transfers;
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  if (!m) return;
  if (m->pinned) cu->cuMemHostUnregister(m->pinned);
  for (uint32_t i = 0; i < m->num_ran; i++) cu->cuEventDestroy_v2(m->ran[i]);
  if (m->issued) cu->cuEventDestroy_v2(m->issued);
  if (m->stream) cu->cuStreamDestroy_v2(m->stream);
  mscrt_pool_free(m->pool);
  free(m->host);
  free(m->ran);
  free(m);
}
