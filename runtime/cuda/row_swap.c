/* row_swap.c: calls of kind admit beside a GPU (memory/row_cache.c).  In the stream of transfers the host chooses rows
 * and puts those that the GPU lacks into the cache's pool, and a kernel of the plan swaps them with rows in the GPU's
 * memory, which reads the pool where it lies; the host takes the old ones back to the table in a stream beside that, so
 * that nobody waits for it but the next admit to the same cache. */
#include <stdlib.h>
#include <string.h>

#include "ir/abi/row_cache.h"
#include "runtime/cuda/cuda.h"
#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/thread_pool.h"

/* One admit of the plan, as functions of the host in a stream see it. */
typedef struct {
  mscrt_context *c;
  mscrt_pool *pool;
  const mscrt_record *record;
  mscrt_status *failure; /* the first one; NULL: none */
  cu_event taken;        /* the old rows are back */
  bool under_way;        /* they go back since the program began */
} admit_call;

struct mscrt_row_swaps {
  uint32_t num;
  admit_call *call;
  mscrt_pool *pool;        /* the rank's own may be in use then */
  cu_stream back;          /* of rows that go back to their tables */
  cu_event swapped;        /* the kernels of an admit have run */
  const admit_call *last;  /* of those under way; NULL: none is */
};

mscrt_status *mscrt_row_swaps_ready(mscrt_context *c) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  uint32_t num = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++)
      num += c->section[i].call[k].kind == PLAN_CALL_KIND_ADMIT;
  if (!num) return NULL;
  MSCRT_CHECK(mscrt_new_array(&mscrt_cuda_of(c)->swaps, 1));
  mscrt_row_swaps *m = mscrt_cuda_of(c)->swaps;
  MSCRT_CHECK(mscrt_new_array(&m->call, num));
  MSCRT_CHECK(mscrt_pool_new(c->threads, false, NULL, NULL, &m->pool));
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++) {
      const mscrt_record *r = &c->section[i].call[k];
      if (r->kind == PLAN_CALL_KIND_ADMIT) m->call[m->num++] = (admit_call){.c = c, .pool = m->pool, .record = r};
    }
  for (uint32_t i = 0; i < m->num; i++)
    MSCRT_CUDA(cu, cuEventCreate, &m->call[i].taken, MSCRT_CU_EVENT_DISABLE_TIMING);
  MSCRT_CUDA(cu, cuStreamCreate, &m->back, MSCRT_CU_STREAM_NON_BLOCKING);
  MSCRT_CUDA(cu, cuEventCreate, &m->swapped, MSCRT_CU_EVENT_DISABLE_TIMING);
  return NULL;
}

static void keep_failure(admit_call *a, mscrt_status *s) {
  if (a->failure) mscrt_status_free(s);
  else a->failure = s;
}

/* After a failure slots are 0, so that calls behind report nothing of their own. */
static void choose_rows(void *user) {
  admit_call *a = user;
  const mscrt_record *r = a->record;
  mscrt_status *s = mscrt_admit_rows(a->c, a->pool, &(mscrt_execution){.record = r, .step = mscrt_cuda_of(a->c)->step});
  for (uint32_t i = r->num_buffers / 2; s && i < r->num_buffers; i++) memset(r->buffers[i], 0, r->ref[i].bytes);
  keep_failure(a, s);
}

static void put_rows_back(void *user) {
  admit_call *a = user;
  keep_failure(a, mscrt_put_swapped_rows_back(a->c, a->record->index));
}

/* Launches the kernels that swap rows of the table and of its state. */
static mscrt_status *launch_swaps(mscrt_context *c, cu_stream stream, const mscrt_plan_cache *k) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  uint8_t *pool = mscrt_address_of(c, k->pool, 0);
  uint64_t row_bytes[MSCRT_MOST_CACHED];
  cu_address list;
  MSCRT_CUDA(&g->cu, cuMemHostGetDevicePointer_v2, &list, pool, 0);
  for (uint32_t i = 0; i < k->num; i++) {
    const mscrt_variable *v = &c->plan->parameter[k->parameter[i]];
    msc_box box, buffer;
    mscrt_variable_box(c->plan, v, c->o.rank, &box, &buffer);
    row_bytes[i] = mscrt_variable_bytes(v) / (uint64_t)buffer.size[0];
  }
  for (uint32_t i = 0; i < k->num; i++) {
    int64_t units = (int64_t)(row_bytes[i] / msc_row_unit(row_bytes[i])), all = units * k->swaps,
            blocks = mscrt_smaller((all + MSC_ROW_SWAP_THREADS - 1) / MSC_ROW_SWAP_THREADS, MSC_ROW_SWAP_BLOCKS),
            threads = blocks * MSC_ROW_SWAP_THREADS;
    cu_address rows = list + msc_row_pool_at(k->swaps, i, row_bytes),
               here = (cu_address)(uintptr_t)(c->memory + ((uint8_t *)mscrt_address_of(c, k->at[i], 0) - c->arena));
    void *parameters[] = {&list, &rows, &here, &threads, &units};
    if (blocks)
      MSCRT_CUDA(&g->cu, cuLaunchKernel, g->kernel[k->kernel[i]], (unsigned)blocks, 1, 1, MSC_ROW_SWAP_THREADS, 1, 1, 0,
                 stream, parameters, NULL);
  }
  return NULL;
}

mscrt_status *mscrt_row_swap_issue(mscrt_context *c, cu_stream stream, const mscrt_record *r) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  mscrt_row_swaps *m = mscrt_cuda_of(c)->swaps;
  admit_call *a = m->call;
  while (a->record != r) a++;
  for (uint32_t i = 0; i < m->num; i++)
    if (m->call[i].under_way && m->call[i].record->index == r->index)
      MSCRT_CUDA(cu, cuStreamWaitEvent, stream, m->call[i].taken, 0);
  MSCRT_CUDA(cu, cuLaunchHostFunc, stream, choose_rows, a);
  MSCRT_CHECK(launch_swaps(c, stream, &c->plan->cache[r->index]));
  MSCRT_CUDA(cu, cuEventRecord, m->swapped, stream);
  MSCRT_CUDA(cu, cuStreamWaitEvent, m->back, m->swapped, 0);
  MSCRT_CUDA(cu, cuLaunchHostFunc, m->back, put_rows_back, a);
  MSCRT_CUDA(cu, cuEventRecord, a->taken, m->back);
  a->under_way = true, m->last = a;
  return NULL;
}

mscrt_status *mscrt_row_swaps_join(mscrt_context *c) {
  mscrt_row_swaps *m = mscrt_cuda_of(c)->swaps;
  if (!m || !m->last) return NULL;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamWaitEvent, mscrt_cuda_of(c)->stream, m->last->taken, 0);
  m->last = NULL;
  for (uint32_t i = 0; i < m->num; i++) m->call[i].under_way = false;
  return NULL;
}

mscrt_status *mscrt_row_swap_faults(mscrt_context *c) {
  mscrt_row_swaps *m = mscrt_cuda_of(c)->swaps;
  for (uint32_t i = 0; m && i < m->num; i++) {
    mscrt_status *s = m->call[i].failure;
    m->call[i].failure = NULL;
    MSCRT_CHECK(s);
  }
  return NULL;
}

void mscrt_row_swaps_close(mscrt_context *c) {
  mscrt_row_swaps *m = mscrt_cuda_of(c)->swaps;
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  if (!m) return;
  if (m->swapped) cu->cuEventDestroy_v2(m->swapped);
  if (m->back) cu->cuStreamDestroy_v2(m->back);
  for (uint32_t i = 0; i < m->num; i++) {
    if (m->call[i].taken) cu->cuEventDestroy_v2(m->call[i].taken);
    mscrt_status_free(m->call[i].failure);
  }
  mscrt_pool_free(m->pool);
  free(m->call);
  free(m);
}
