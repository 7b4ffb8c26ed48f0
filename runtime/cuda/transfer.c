/* transfer.c: copies values that live in the host's memory, or on disk, to the GPU and back, on a stream beside that of
 * calls, and runs kernels of the host, and admits, between these copies.
 *
 * A copy begins when the calls issued before it have run, since these may still use its memory on the GPU, and a call
 * waits for the last copy that it depends on (prepare_calls.c).  The host's memory is pinned, so copies are part of a
 * captured graph. A value on disk goes through memory of the host that is as large as the largest of them: the stream
 * copies it from or to there, and has a thread of the driver read it before, or write it behind. */
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

/* A value that such a thread reads from the disk or writes there. */
typedef struct {
  const mscrt_record *record;
  mscrt_pool *pool;
  mscrt_value_transfer move; /* its arena: the room in the host's memory */
  int error;                 /* errno of the last time */
} disk_call;

struct mscrt_transfers {
  cu_stream stream;
  cu_event issued, *ran; /* ran: of each transfer of a section, by its number - 1 */
  uint32_t num_ran, waited; /* waited: the number of the last one that calls wait for */
  void *pinned, *pinned_room;
  uint32_t num_host, num_disk;
  host_call *host;
  disk_call *disk;
  void *room;                   /* of a value on its way from or to the disk */
  mscrt_pool *pool, *disk_pool; /* of host calls and of the disk: the rank's own may be in use then */
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

/* The end of a transfer that lies on disk; NULL: neither does. */
static const plan_ref *end_on_disk(const mscrt_record *r) {
  for (int i = 0; r->kind == PLAN_CALL_KIND_TRANSFER && i < 2; i++)
    if (r->ref[i].space == PLAN_SPACE_DISK) return &r->ref[i];
  return NULL;
}

static mscrt_status *pin_memory(mscrt_context *c, void *at, uint64_t bytes, void **out_pinned) {
  cu_result r = mscrt_cuda_of(c)->cu.cuMemHostRegister_v2(at, bytes, MSCRT_CU_MEMHOSTREGISTER_DEVICEMAP);
  *out_pinned = r ? NULL : at;
  if (!r) return NULL;
  return mscrt_add_prefix(mscrt_cuda_failure(&mscrt_cuda_of(c)->cu, r, "cuMemHostRegister"),
                          "rank %d: %" PRIu64 " bytes of the host's memory, for what is offloaded, cannot be pinned",
                          c->o.rank, bytes);
}

/* Lists the transfers from and to the disk, and makes room for the largest of them. */
static mscrt_status *list_disk_calls(mscrt_context *c, mscrt_transfers *m) {
  const mscrt_disk *disk = mscrt_offload_disk(c);
  uint64_t most = 0, num = 0;
  for (uint32_t i = 0; i < c->plan->num_sections && disk; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++) {
      const plan_ref *away = end_on_disk(&c->section[i].call[k]);
      num += away != NULL;
      if (away && away->bytes > most) most = away->bytes;
    }
  if (!num) return NULL;
  most = (most + MSCRT_DISK_PAGE - 1) / MSCRT_DISK_PAGE * MSCRT_DISK_PAGE;
  if (posix_memalign(&m->room, MSCRT_DISK_PAGE, (size_t)most)) {
    m->room = NULL;
    return mscrt_fail(MSCRT_NO_MEMORY, "no memory of the host for a value of %" PRIu64 " bytes on disk", most);
  }
  MSCRT_CHECK(pin_memory(c, m->room, most, &m->pinned_room));
  MSCRT_CHECK(mscrt_pool_new(MSCRT_DISK_DEPTH, false, NULL, NULL, &m->disk_pool));
  MSCRT_CHECK(mscrt_new_array(&m->disk, num));
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++) {
      const mscrt_record *r = &c->section[i].call[k];
      const plan_ref *away = end_on_disk(r);
      if (away)
        m->disk[m->num_disk++] = (disk_call){.record = r,
                                             .pool = m->disk_pool,
                                             .move = {.disk = disk,
                                                      .arena = m->room,
                                                      .offset = away->offset,
                                                      .bytes = away->bytes,
                                                      .stows = away == &r->ref[1]}};
    }
  return NULL;
}

mscrt_status *mscrt_transfers_ready(mscrt_context *c) {
  uint64_t bytes = 0;
  void *host = mscrt_offload_host(c, &bytes);
  if (!host && !mscrt_offload_disk(c)) return NULL;
  MSCRT_CHECK(mscrt_new_array(&mscrt_cuda_of(c)->transfers, 1));
  mscrt_transfers *m = mscrt_cuda_of(c)->transfers;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamCreate, &m->stream, MSCRT_CU_STREAM_NON_BLOCKING);
  MSCRT_CHECK(make_events(c, m));
  MSCRT_CHECK(list_host_calls(c, m));
  MSCRT_CHECK(list_disk_calls(c, m));
  return host ? pin_memory(c, host, bytes, &m->pinned) : NULL;
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

static void run_disk_call(void *user) {
  disk_call *d = user;
  d->error = mscrt_move_value(d->pool, &d->move);
}

/* Lets the disk's end of a transfer be read or written when the stream comes to it. */
static mscrt_status *issue_disk_call(mscrt_context *c, mscrt_transfers *m, const mscrt_record *r) {
  disk_call *d = m->disk;
  while (d->record != r) d++;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuLaunchHostFunc, m->stream, run_disk_call, d);
  return NULL;
}

static mscrt_status *issue_copy(mscrt_context *c, mscrt_transfers *m, const mscrt_execution *t) {
  const mscrt_record *r = t->record;
  void *const *buffers = mscrt_buffers_of(c, r, t->slots, 0);
  bool on_disk = end_on_disk(r) != NULL;
  if (mscrt_is_offloaded(r->ref[1].space)) {
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemcpyDtoHAsync_v2, on_disk ? m->room : buffers[1],
               (cu_address)(uintptr_t)buffers[0], r->ref[1].bytes, m->stream);
    return on_disk ? issue_disk_call(c, m, r) : NULL;
  }
  if (on_disk) MSCRT_CHECK(issue_disk_call(c, m, r));
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemcpyHtoDAsync_v2, (cu_address)(uintptr_t)buffers[1],
             on_disk ? m->room : buffers[0], r->ref[0].bytes, m->stream);
  return NULL;
}

mscrt_status *mscrt_host_call_faults(mscrt_context *c, int64_t step) {
  const mscrt_transfers *m = mscrt_cuda_of(c)->transfers;
  for (uint32_t i = 0; m && i < m->num_host; i++)
    MSCRT_CHECK(mscrt_kernel_error_status(c, m->host[i].record, step, m->host[i].fault));
  for (uint32_t i = 0; m && i < m->num_disk; i++)
    MSCRT_CHECK(mscrt_disk_transfer_status(c, m->disk[i].record, step, m->disk[i].error));
  return NULL;
}

mscrt_status *mscrt_cuda_transfer(mscrt_context *c, const mscrt_execution *t) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  mscrt_transfers *m = mscrt_cuda_of(c)->transfers;
  MSCRT_CUDA(cu, cuEventRecord, m->issued, mscrt_cuda_of(c)->stream);
  MSCRT_CUDA(cu, cuStreamWaitEvent, m->stream, m->issued, 0);
  if (t->number == 1) m->waited = 0;
  if (t->record->kind == PLAN_CALL_KIND_HOST_KERNEL) MSCRT_CHECK(issue_host_call(c, m, t->record));
  else if (t->record->kind == PLAN_CALL_KIND_ADMIT) MSCRT_CHECK(mscrt_row_swap_issue(c, m->stream, t->record));
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
  if (m->pinned_room) cu->cuMemHostUnregister(m->pinned_room);
  for (uint32_t i = 0; i < m->num_ran; i++) cu->cuEventDestroy_v2(m->ran[i]);
  if (m->issued) cu->cuEventDestroy_v2(m->issued);
  if (m->stream) cu->cuStreamDestroy_v2(m->stream);
  mscrt_pool_free(m->pool);
  mscrt_pool_free(m->disk_pool);
  free(m->host);
  free(m->disk);
  free(m->room);
  free(m->ran);
  free(m);
}
