/* step.c: a program and a step in; a run of it on the GPU out.  Its batches are uploaded during the run before; flags
 * and loss are copied back at the end, and the host waits once, for these.
 *
 * The first run of a program is issued call by call, since libraries load their kernels then.  Later runs are captured,
 * once per input slot that a step may begin with, and replayed. */
#include <string.h>

#include "runtime/cuda/nccl.h"
#include "runtime/data/feed.h"
#include "runtime/execute/execute.h"
#include "runtime/wait.h"

/* ---- inputs ---- */

static uint32_t count_batches(const mscrt_program *p) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < p->num; i++) num += p->release[i];
  return num;
}

static mscrt_status *upload_batch(mscrt_context *c, int64_t index, int slot) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  uint64_t at = c->space_offset[PLAN_SPACE_INPUT] + (uint64_t)slot * c->input_stride;
  if (mscrt_feed_is_on_device(c->feed, index)) return NULL;
  MSCRT_CUDA(&g->cu, cuMemcpyHtoDAsync_v2, (cu_address)(uintptr_t)(c->memory + at), c->arena + at, c->input_stride,
             g->upload);
  MSCRT_CUDA(&g->cu, cuEventRecord, g->uploaded, g->upload);
  mscrt_feed_note_on_device(c->feed, index);
  return NULL;
}

/* Uploads all batches of the run, in order, each into its slot, and lets calls wait for them. */
static mscrt_status *upload_batches(mscrt_context *c, const mscrt_program *p, bool train, int64_t step, uint32_t num,
                                    int *out_first) {
  *out_first = c->last_slot = 0;
  for (uint32_t i = 0; c->feed && i < num; i++) {
    int64_t index = step * (int64_t)p->micro + i;
    int slot;
    MSCRT_CHECK(mscrt_feed_get(c->feed, train, index, &slot));
    MSCRT_CHECK(upload_batch(c, index, slot));
    if (i == 0) *out_first = slot;
    c->last_slot = slot;
  }
  if (c->feed && num)
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamWaitEvent, mscrt_cuda_of(c)->stream, mscrt_cuda_of(c)->uploaded, 0);
  return NULL;
}

/* Uploads the batches that the next run will probably take while this one computes: their slots are free since the run
 * before ended. */
static mscrt_status *upload_ahead(mscrt_context *c, const mscrt_program *p, bool train, int64_t step, uint32_t num) {
  for (uint32_t i = 0; c->feed && i < num; i++) {
    int64_t index = (step + 1) * (int64_t)p->micro + i;
    int slot;
    if (!mscrt_feed_try_get(c->feed, train, index, &slot)) return NULL;
    MSCRT_CHECK(upload_batch(c, index, slot));
  }
  return NULL;
}

/* ---- results ---- */

static uint64_t loss_offset(const mscrt_cuda *g) { return (sizeof(int32_t) * g->num_flags + 7) / 8 * 8; }

static mscrt_status *fetch_results(mscrt_context *c, const mscrt_program *p) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  if (g->num_flags)
    MSCRT_CUDA(&g->cu, cuMemcpyDtoHAsync_v2, g->results, g->flags, sizeof(int32_t) * g->num_flags, g->stream);
  if (!p->loss || p->loss->ref.space == PLAN_SPACE_CONSTANT) return NULL;
  uint64_t at = (uint64_t)((uint8_t *)mscrt_address_of(c, p->loss->ref, 0) - c->arena);
  MSCRT_CUDA(&g->cu, cuMemcpyDtoHAsync_v2, g->results + loss_offset(g), (cu_address)(uintptr_t)(c->memory + at),
             mscrt_dtype_bytes(p->loss->dtype), g->stream);
  return NULL;
}

static mscrt_status *read_results(mscrt_context *c, const mscrt_program *p, int64_t step) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  MSCRT_CHECK(mscrt_row_swap_faults(c)); /* first: what lies in the rows then means nothing */
  for (uint32_t i = 0; i < g->num_flags; i++) {
    int32_t flag;
    memcpy(&flag, g->results + sizeof flag * i, sizeof flag);
    MSCRT_CHECK(mscrt_kernel_error_status(c, g->checked[i], step, flag));
  }
  MSCRT_CHECK(mscrt_host_call_faults(c, step));
  if (p->loss && p->loss->ref.space != PLAN_SPACE_CONSTANT)
    memcpy(mscrt_address_of(c, p->loss->ref, 0), g->results + loss_offset(g), mscrt_dtype_bytes(p->loss->dtype));
  return NULL;
}

/* ---- one run ---- */

/* Issues everything that a captured graph holds. */
static mscrt_status *issue_program(mscrt_context *c, uint32_t program, bool train, int64_t step) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  if (g->num_flags) MSCRT_CUDA(&g->cu, cuMemsetD8Async, g->flags, 0, sizeof(int32_t) * g->num_flags, g->stream);
  if (g->links) mscrt_links_begin(g->links);
  g->follows_kernel = false;
  MSCRT_CHECK(mscrt_run_entries(c, program, train, step));
  MSCRT_CHECK(mscrt_row_swaps_join(c));
  if (g->links) MSCRT_CHECK(mscrt_links_join(c));
  return fetch_results(c, &c->program[program]);
}

/* False for collectives through the host, and if calls are measured one by one: neither can be captured. */
static bool can_replay(const mscrt_context *c) { return (c->o.ranks == 1 || mscrt_cuda_of(c)->links) && !c->timeline; }

/* Captures a program.  Ends the capture also after a failure, since otherwise the stream would stay in it. */
static mscrt_status *capture_program(mscrt_context *c, uint32_t program, bool train, int64_t step,
                                     mscrt_cuda_graph *out) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  cu_graph graph = NULL;
  uint64_t before = c->received_bytes;
  MSCRT_CUDA(&g->cu, cuStreamBeginCapture_v2, g->stream, MSCRT_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  g->capturing = true;
  mscrt_status *s = issue_program(c, program, train, step);
  g->capturing = false;
  cu_result r = g->cu.cuStreamEndCapture(g->stream, &graph);
  if (!s && r) s = mscrt_cuda_failure(&g->cu, r, "cuStreamEndCapture");
  r = s ? 0 : g->cu.cuGraphInstantiateWithFlags(&out->exec, graph, 0);
  if (r) s = mscrt_cuda_failure(&g->cu, r, "cuGraphInstantiate");
  if (graph) g->cu.cuGraphDestroy(graph);
  out->received = c->received_bytes - before;
  c->received_bytes = before;
  return s;
}

static mscrt_status *run_or_replay(mscrt_context *c, uint32_t program, bool train, int64_t step, int first) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  mscrt_cuda_graph *graph = &g->graph[program * c->input_slots + (uint64_t)first];
  if (!g->warm[program] || !can_replay(c)) {
    g->warm[program] = true;
    return issue_program(c, program, train, step);
  }
  if (!graph->exec) MSCRT_CHECK(capture_program(c, program, train, step, graph));
  c->received_bytes += graph->received;
  MSCRT_CUDA(&g->cu, cuGraphLaunch, graph->exec, g->stream);
  return NULL;
}

static mscrt_status *run_on_device(mscrt_context *c, uint32_t program, bool train, int64_t step, uint32_t batches) {
  int first;
  MSCRT_CHECK(upload_batches(c, &c->program[program], train, step, batches, &first));
  int64_t begin = mscrt_now_ns();
  MSCRT_CHECK(run_or_replay(c, program, train, step, first));
  c->launch_ns = mscrt_now_ns() - begin;
  MSCRT_CHECK(upload_ahead(c, &c->program[program], train, step, batches));
  return mscrt_cuda_wait(c);
}

mscrt_status *mscrt_cuda_run(mscrt_context *c, uint32_t program, bool train, int64_t step) {
  const mscrt_program *p = &c->program[program];
  uint32_t batches = count_batches(p);
  mscrt_cuda_of(c)->step = step;
  MSCRT_CHECK(mscrt_cuda_enter(mscrt_cuda_of(c)));
  mscrt_status *s = run_on_device(c, program, train, step, batches);
  s = mscrt_cuda_give_up(c, s);
  mscrt_cuda_leave(mscrt_cuda_of(c));
  MSCRT_CHECK(s);
  for (uint32_t i = 0; c->feed && i < batches; i++) mscrt_feed_release(c->feed);
  return read_results(c, p, step);
}

void mscrt_cuda_free_graphs(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  for (uint64_t i = 0; g->graph && i < c->plan->num_programs * c->input_slots; i++)
    if (g->graph[i].exec) g->cu.cuGraphExecDestroy(g->graph[i].exec);
}
