/* device_cuda.c: the device cuda: loads a plan's code and memory onto one NVIDIA GPU and launches its calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/nccl.h"
#include "runtime/execute/execute.h"
#include "runtime/trace/trace.h"

#define QUEUE 256

/* ---- finding it ---- */

static mscrt_status *find_device(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  int num = 0, major = 0, minor = 0;
  cu_result r = g->cu.cuInit(0);
  if (!r) r = g->cu.cuDeviceGetCount(&num);
  if (r == MSCRT_CUDA_ERROR_NO_DEVICE || (!r && num < 1))
    return mscrt_fail(MSCRT_ENVIRONMENT,
                      "the plan is for GPUs, but the driver finds none (see also CUDA_VISIBLE_DEVICES)");
  if (r) return mscrt_cuda_failure(&g->cu, r, "cuInit");
  g->num_devices = num;
  g->ordinal = c->o.rank % num; /* if there are more ranks than GPUs, ranks share them */
  MSCRT_CUDA(&g->cu, cuDeviceGet, &g->device, g->ordinal);
  MSCRT_CUDA(&g->cu, cuDeviceGetName, g->name, sizeof g->name, g->device);
  MSCRT_CUDA(&g->cu, cuDeviceGetAttribute, &major, MSCRT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g->device);
  MSCRT_CUDA(&g->cu, cuDeviceGetAttribute, &minor, MSCRT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g->device);
  g->arch = 10 * major + minor;
  MSCRT_CUDA(&g->cu, cuDevicePrimaryCtxRetain, &g->context, g->device);
  g->retained = true;
  return NULL;
}

/* ---- code ---- */

/* True if the image is for this GPU: PTX for its architecture and later ones, machine code for one generation. */
static bool is_for_gpu(const mscrt_cuda *g, plan_image m) {
  int arch = (int)plan_image_arch(m);
  return plan_image_kind(m) == PLAN_IMAGE_KIND_PTX ? arch <= g->arch : arch / 10 == g->arch / 10 && arch <= g->arch;
}

static mscrt_status *report_no_image(const mscrt_context *c) {
  char list[160] = "";
  size_t n = 0;
  for (uint32_t i = 0; i < plan_plan_images_num(c->plan->root) && n + 24 < sizeof list; i++) {
    plan_image m = plan_plan_images(c->plan->root, i);
    n += (size_t)snprintf(list + n, sizeof list - n, "%ssm_%u%s", n ? ", " : "", plan_image_arch(m),
                          plan_image_kind(m) == PLAN_IMAGE_KIND_PTX ? " and later" : "");
  }
  return mscrt_fail(MSCRT_ENVIRONMENT,
                    "the plan's code is for %s; GPU %d, %s, is sm_%d, and no plan is for one that is older than sm_80",
                    list, mscrt_cuda_of(c)->ordinal, mscrt_cuda_of(c)->name, mscrt_cuda_of(c)->arch);
}

/* Loads a copy of the image, since the driver wants it aligned. */
static mscrt_status *load_image(mscrt_cuda *g, plan_image m, cu_result *out_result, char *log, size_t log_room) {
  uint32_t bytes = plan_image_code_num(m);
  void *copy, *values[] = {log, (void *)(uintptr_t)log_room};
  unsigned options[] = {MSCRT_CU_JIT_ERROR_LOG_BUFFER, MSCRT_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  MSCRT_CHECK(mscrt_allocate(&copy, bytes + 1, 1));
  memcpy(copy, plan_image_code_data(m), bytes);
  *out_result = g->cu.cuModuleLoadDataEx(&g->module, copy, 2, options, values);
  free(copy);
  return NULL;
}

/* Reports why the driver refuses the last of the plan's images. */
static mscrt_status *report_refused_image(const mscrt_cuda *g, cu_result r, char *log, size_t log_room) {
  char clean[256];
  const char *why = r == MSCRT_CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                        ? "are in a version of PTX that the driver is too old for: install a newer one"
                    : r == MSCRT_CUDA_ERROR_JIT_COMPILER_NOT_FOUND
                        ? "are PTX, which the driver cannot compile: install its library libnvidia-ptxjitcompiler.so.1"
                    : r == MSCRT_CUDA_ERROR_JIT_COMPILATION_DISABLED
                        ? "are PTX, which the driver may not compile: CUDA_DISABLE_PTX_JIT is set"
                    : r == MSCRT_CUDA_ERROR_NO_BINARY_FOR_GPU ? "are not for this GPU, the driver says"
                                                              : NULL;
  if (why)
    return mscrt_fail(
        MSCRT_ENVIRONMENT,
        "the plan's kernels %s, or compile with --target cuda:sm_%d where ptxas is (GPU %d, %s, driver for CUDA %d.%d)",
        why, g->arch, g->ordinal, g->name, g->driver / 1000, g->driver % 1000 / 10);
  return mscrt_add_prefix(mscrt_cuda_failure(&g->cu, r, "cuModuleLoadDataEx"), "the plan's kernels%s%s",
                          *log ? ": " : "", mscrt_clean_text(log, log_room, clean, sizeof clean));
}

/* Loads the first image that the driver takes: machine code and PTX may be newer than the driver. */
static mscrt_status *load_module(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  char log[512] = "";
  const char *name = NULL; /* of the error with which the driver refused an image */
  cu_result r = MSCRT_CUDA_ERROR_NOT_FOUND;
  bool tried = false;
  for (uint32_t i = 0; i < plan_plan_images_num(c->plan->root) && r; i++) {
    plan_image m = plan_plan_images(c->plan->root, i);
    if (!is_for_gpu(g, m)) continue;
    if (tried && g->cu.cuGetErrorName(r, &name)) name = "an error that it does not name";
    if (tried)
      mscrt_log_line(c, MSCRT_LOG_WARNING,
                 "rank %d: the driver of GPU %d refuses the plan's machine code (%s); it compiles the PTX", c->o.rank,
                 g->ordinal, name);
    tried = true;
    *log = 0;
    MSCRT_CHECK(load_image(g, m, &r, log, sizeof log));
    g->early = plan_image_early(m) && g->cu.cuLaunchKernelEx;
  }
  if (!tried) return report_no_image(c);
  return r ? report_refused_image(g, r, log, sizeof log) : NULL;
}

static mscrt_status *find_kernels(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  uint32_t num = plan_plan_kernels_num(c->plan->root);
  if (plan_plan_images_num(c->plan->root) == 0) return NULL;
  MSCRT_CHECK(load_module(c));
  MSCRT_CHECK(mscrt_new_array(&g->kernel, num));
  for (uint32_t i = 0; i < num; i++) {
    if (!plan_kernel_threads(plan_plan_kernels(c->plan->root, i))) continue; /* the host's */
    const char *name = plan_kernel_name(plan_plan_kernels(c->plan->root, i));
    cu_result r = g->cu.cuModuleGetFunction(&g->kernel[i], g->module, name);
    if (r == MSCRT_CUDA_ERROR_NOT_FOUND)
      return mscrt_fail(MSCRT_INPUT, "the plan contradicts itself: its code has no kernel %s", name);
    if (r) return mscrt_cuda_failure(&g->cu, r, "cuModuleGetFunction");
  }
  return NULL;
}

/* ---- memory ---- */

static uint32_t count_checking_calls(const mscrt_context *c) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < plan_plan_sections_num(c->plan->root); i++) {
    plan_section s = plan_plan_sections(c->plan->root, i);
    for (uint32_t k = 0; k < plan_section_calls_num(s); k++) num += plan_call_checks(plan_section_calls(s, k)) != 0;
  }
  return num;
}

/* Makes the moves of collectives that do not go through the host. */
static mscrt_status *make_moves(mscrt_context *c, bool linked) {
  MSCRT_CHECK(mscrt_new_array(&mscrt_cuda_of(c)->moves, c->plan->num_collectives));
  for (uint32_t i = 0; i < c->plan->num_collectives; i++)
    if (!c->plan->collective[i].num_members && (linked || c->exchange[i].group.num == 1))
      MSCRT_CHECK(mscrt_moves_make(c, i, &mscrt_cuda_of(c)->moves[i]));
  return NULL;
}

/* Counts the GPUs that the ranks have, of all hosts: several ranks may share one. All ranks must call this. */
static mscrt_status *count_gpus(mscrt_context *c, int *out_num) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  uint64_t *name, half[2];
  cu_uuid uuid;
  int num = 0;
  MSCRT_CUDA(&g->cu, cuDeviceGetUuid_v2, &uuid, g->device);
  memcpy(half, &uuid, sizeof half);
  MSCRT_CHECK(mscrt_new_array(&name, c->o.ranks));
  mscrt_status *s = NULL;
  for (int r = 0; r < c->o.ranks && !s; r++) {
    uint64_t own = r == c->o.rank ? half[0] * UINT64_C(0x9e3779b97f4a7c15) + half[1] : 0;
    s = c->transport->max(c->comm, own, &name[r], &(mscrt_site){.name = "GPUs of ranks"});
  }
  for (int r = 0; r < c->o.ranks; r++) {
    bool known = false;
    for (int before = 0; before < r; before++) known |= name[before] == name[r];
    num += !known;
  }
  free(name);
  *out_num = num;
  return s;
}

/* Connects ranks by NCCL if every rank has a GPU of its own, else through the host; or as the caller says. */
static mscrt_status *connect_ranks(mscrt_context *c) {
  const char *comm = c->o.comm;
  bool may = c->o.ranks > 1 && (!comm || !strcmp(comm, "nccl"));
  int num = 0;
  if (may) MSCRT_CHECK(count_gpus(c, &num));
  bool linked = may && (comm || num == c->o.ranks);
  if (linked && num < c->o.ranks)
    return mscrt_fail(MSCRT_ENVIRONMENT,
                      "NCCL connects ranks that have a GPU each: %d ranks, %d GPU%s; run with --comm local", c->o.ranks,
                      num, num == 1 ? "" : "s");
  MSCRT_CHECK(make_moves(c, linked));
  return linked ? mscrt_links_open(c) : NULL;
}

static mscrt_status *report_too_little_memory(const mscrt_context *c, size_t free_bytes, size_t all) {
  const mscrt_cuda *g = mscrt_cuda_of(c);
  return mscrt_fail(MSCRT_NO_MEMORY,
                    "rank %d needs %" PRIu64 " bytes of the memory of GPU %d, %s: %zu are free of %zu%s", c->o.rank,
                    g->memory_bytes, g->ordinal, g->name, free_bytes, all,
                    g->memory_bytes > free_bytes ? "" : ", but not in one piece");
}

/* Allocates the GPU's memory.  Other processes may take memory that was free a moment ago, so cuMemAlloc may fail. */
static mscrt_status *allocate_memory(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  uint64_t values = mscrt_cuda_align(c->arena_bytes - c->mailbox_bytes),
           constants = mscrt_cuda_align(plan_plan_constants_num(c->plan->root)),
           flags = mscrt_cuda_align(sizeof(int32_t) * (count_checking_calls(c) + 1));
  size_t free_bytes = 0, all = 0;
  g->workspace_bytes = plan_plan_workspace_bytes(c->plan->root);
  g->memory_bytes =
      values + constants + flags + mscrt_cuda_align(g->workspace_bytes) + (g->links ? mscrt_links_bytes(g->links) : 0);
  MSCRT_CUDA(&g->cu, cuMemGetInfo_v2, &free_bytes, &all);
  if (g->memory_bytes > free_bytes) return report_too_little_memory(c, free_bytes, all);
  cu_result r = 0;
  if (!mscrt_links_allocate(c, g->memory_bytes)) r = g->cu.cuMemAlloc_v2(&g->memory, g->memory_bytes);
  if (r == MSCRT_CUDA_ERROR_OUT_OF_MEMORY && !g->cu.cuMemGetInfo_v2(&free_bytes, &all))
    return report_too_little_memory(c, free_bytes, all);
  if (r) return mscrt_cuda_failure(&g->cu, r, "cuMemAlloc");
  c->memory = (uint8_t *)(uintptr_t)(g->memory - c->mailbox_bytes);
  c->constants = (uint8_t *)(uintptr_t)(g->memory + values);
  g->flags = g->memory + values + constants;
  g->workspace = g->flags + flags;
  if (!g->links) return NULL;
  mscrt_links_place(g->links, g->workspace + mscrt_cuda_align(g->workspace_bytes));
  return mscrt_links_register(c);
}

/* Pins the memory of inputs, so that their copies run asynchronously.  If the system refuses, copies are slower. */
static void pin_inputs(mscrt_context *c, uint64_t bytes) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  const char *name = "an error that the driver does not name";
  cu_result r = g->cu.cuMemHostRegister_v2(c->arena + c->space_offset[PLAN_SPACE_INPUT], bytes, 0);
  g->inputs_pinned = !r;
  if (!r) return;
  g->cu.cuGetErrorName(r, &name);
  mscrt_log_line(c, MSCRT_LOG_WARNING,
             "rank %d: the memory of inputs cannot be pinned (%s): they go to the GPU more slowly", c->o.rank, name);
}

/* Copies constants to the GPU, and allocates memory for results. */
static mscrt_status *prepare_memory(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  uint64_t inputs = c->input_slots * c->input_stride;
  if (plan_plan_constants_num(c->plan->root))
    MSCRT_CUDA(&g->cu, cuMemcpyHtoDAsync_v2, (cu_address)(uintptr_t)c->constants,
               plan_plan_constants_data(c->plan->root), plan_plan_constants_num(c->plan->root), g->stream);
  MSCRT_CUDA(&g->cu, cuMemHostAlloc, (void **)&g->results, sizeof(int32_t) * (count_checking_calls(c) + 1) + 16, 0);
  if (inputs) pin_inputs(c, inputs);
  return mscrt_cuda_wait(c);
}

static mscrt_status *open_on_device(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  MSCRT_CUDA(&g->cu, cuStreamCreate, &g->stream, MSCRT_CU_STREAM_NON_BLOCKING);
  MSCRT_CUDA(&g->cu, cuEventCreate, &g->done, MSCRT_CU_EVENT_DISABLE_TIMING);
  MSCRT_CUDA(&g->cu, cuStreamCreate, &g->upload, MSCRT_CU_STREAM_NON_BLOCKING);
  MSCRT_CUDA(&g->cu, cuEventCreate, &g->uploaded, MSCRT_CU_EVENT_DISABLE_TIMING);
  MSCRT_CHECK(find_kernels(c));
  if (c->plan->num_matmuls) MSCRT_CHECK(mscrt_products_open(c));
  if (c->plan->num_graphs) MSCRT_CHECK(mscrt_dnn_open(c));
  MSCRT_CHECK(connect_ranks(c));
  MSCRT_CHECK(allocate_memory(c));
  return prepare_memory(c);
}

static mscrt_status *open_cuda(mscrt_context *c) {
  mscrt_cuda *g;
  MSCRT_CHECK(mscrt_new_array(&g, 1));
  c->device_state = g;
  MSCRT_CHECK(mscrt_cuda_load(&g->cu, &g->driver));
  MSCRT_CHECK(find_device(c));
  MSCRT_CHECK(mscrt_cuda_enter(g));
  mscrt_status *s = mscrt_cuda_give_up(c, open_on_device(c));
  mscrt_cuda_leave(g);
  return s;
}

/* ---- calls ---- */

/* Lets checking calls write their flags into one array, which is cleared and read at once. */
static mscrt_status *collect_flags(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  MSCRT_CHECK(mscrt_new_array(&g->checked, count_checking_calls(c)));
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++) {
      mscrt_record *r = &c->section[i].call[k];
      if (r->kind != PLAN_CALL_KIND_KERNEL || !r->checks) continue;
      r->buffers[r->num_buffers - 1] = (void *)(uintptr_t)(g->flags + sizeof(int32_t) * g->num_flags);
      g->checked[g->num_flags++] = r;
    }
  return NULL;
}

static uint32_t most_parameters(const mscrt_context *c) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < plan_plan_kernels_num(c->plan->root); i++) {
    plan_kernel k = plan_plan_kernels(c->plan->root, i);
    uint32_t num = plan_kernel_num_buffers(k) + 1 + plan_kernel_num_dims(k) + plan_kernel_num_scalars(k);
    if (num > most) most = num;
  }
  return most;
}

static mscrt_status *ready_cuda(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  MSCRT_CHECK(collect_flags(c));
  MSCRT_CHECK(mscrt_new_array(&g->parameters, most_parameters(c) + 1));
  MSCRT_CHECK(mscrt_new_array(&g->warm, c->plan->num_programs));
  MSCRT_CHECK(mscrt_new_array(&g->graph, c->plan->num_programs * c->input_slots));
  MSCRT_CHECK(mscrt_cuda_enter(g));
  mscrt_status *s = g->products ? mscrt_products_ready(c) : NULL;
  if (!s && g->dnn) s = mscrt_dnn_ready(c);
  if (!s && g->links) s = mscrt_links_ready(c);
  if (!s) s = mscrt_transfers_ready(c);
  if (!s) s = mscrt_row_swaps_ready(c);
  s = mscrt_cuda_give_up(c, s);
  mscrt_cuda_leave(g);
  return s;
}

static mscrt_status *issue_call(mscrt_context *c, const mscrt_execution *t) {
  if (t->record->kind != PLAN_CALL_KIND_KERNEL) mscrt_cuda_of(c)->follows_kernel = false;
  switch (t->record->kind) {
    case PLAN_CALL_KIND_KERNEL: return mscrt_cuda_launch(c, t->record, mscrt_buffers_of(c, t->record, t->slots, 0));
    case PLAN_CALL_KIND_MATMUL: return mscrt_product_issue(c, t);
    case PLAN_CALL_KIND_GRAPH: return mscrt_dnn_issue(c, t);
    default: return mscrt_cuda_local_collective(c, t);
  }
}

/* True if it is time to wait: the driver's queue holds some thousand calls, and blocks who issues more. */
static bool fills_queue(mscrt_cuda *g) { return !g->capturing && ++g->issued % QUEUE == 0; }

/* Issues a call; waits for it if calls are measured, since otherwise only the launch would be. */
static mscrt_status *issue_and_watch(mscrt_context *c, const mscrt_execution *t) {
  MSCRT_CHECK(mscrt_add_prefix(issue_call(c, t), "rank %d: step %" PRId64 ": %s%s%s", c->o.rank,
                               mscrt_step_number(t->step), t->record->name ? t->record->name : "a call",
                               t->record->loc ? " at " : "", t->record->loc ? t->record->loc : ""));
  if (c->timeline) return mscrt_cuda_wait_alone(c, t->record);
  return fills_queue(mscrt_cuda_of(c)) ? mscrt_cuda_wait(c) : NULL;
}

static mscrt_status *issue_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t,
                                      mscrt_ticket *out_ticket) {
  mscrt_cuda_of(c)->follows_kernel = false;
  return mscrt_cuda_of(c)->links ? mscrt_links_collective(c, t) : mscrt_cuda_host_collective(c, pool, t, out_ticket);
}

static mscrt_status *issue_message(mscrt_context *c, const mscrt_execution *t) {
  mscrt_cuda_of(c)->follows_kernel = false;
  return mscrt_cuda_of(c)->links ? mscrt_links_message(c, t) : mscrt_cuda_host_message(c, t);
}

static mscrt_status *issue_transfer(mscrt_context *c, const mscrt_execution *t) {
  MSCRT_CHECK(mscrt_cuda_transfer(c, t));
  return c->timeline ? mscrt_cuda_wait_for_transfers(c, t->number) : NULL;
}

static mscrt_status *wait_for_collectives(mscrt_context *c, const mscrt_execution *t, uint32_t upto) {
  (void)t;
  return mscrt_cuda_of(c)->links ? mscrt_links_wait_for(c, upto) : NULL;
}

/* ---- values ---- */

/* Copies values and waits.  Memory that is not pinned may make the driver wait for the stream, without a time limit: so
 * the stream must be empty before. */
static mscrt_status *copy_values(mscrt_context *c, mscrt_status *(*copy)(mscrt_context *, uint64_t, uint64_t),
                                 uint64_t offset, uint64_t bytes) {
  if (!bytes) return NULL;
  if (mscrt_cuda_of(c)->stuck) return mscrt_fail(MSCRT_STUCK, "rank %d: the GPU does not come to its end", c->o.rank);
  MSCRT_CHECK(mscrt_cuda_enter(mscrt_cuda_of(c)));
  mscrt_status *s = mscrt_cuda_wait(c);
  if (!s) s = copy(c, offset, bytes);
  if (!s) s = mscrt_cuda_wait(c);
  s = mscrt_cuda_give_up(c, s);
  mscrt_cuda_leave(mscrt_cuda_of(c));
  return s;
}

static mscrt_status *fetch_values(mscrt_context *c, uint64_t offset, uint64_t bytes) {
  return copy_values(c, mscrt_cuda_copy_down, offset, bytes);
}
static mscrt_status *store_values(mscrt_context *c, uint64_t offset, uint64_t bytes) {
  return copy_values(c, mscrt_cuda_copy_up, offset, bytes);
}

/* Sets an i64, as two words. */
static mscrt_status *set_micro(mscrt_context *c, uint64_t offset, uint32_t micro) {
  mscrt_cuda_of(c)->follows_kernel = false;
  cu_address at = (cu_address)(uintptr_t)(c->memory + offset);
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemsetD32Async, at, micro, 1, mscrt_cuda_of(c)->stream);
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemsetD32Async, at + 4, 0, 1, mscrt_cuda_of(c)->stream);
  return NULL;
}

/* ---- the end ---- */

static void free_resources(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  mscrt_cuda_free_graphs(c);
  mscrt_links_close(c);
  mscrt_transfers_close(c);
  mscrt_row_swaps_close(c);
  mscrt_products_close(c);
  mscrt_dnn_close(c);
  if (g->inputs_pinned) g->cu.cuMemHostUnregister(c->arena + c->space_offset[PLAN_SPACE_INPUT]);
  if (g->results) g->cu.cuMemFreeHost(g->results);
  if (g->memory && g->free_memory) g->free_memory((void *)(uintptr_t)g->memory);
  else if (g->memory) g->cu.cuMemFree_v2(g->memory);
  if (g->module) g->cu.cuModuleUnload(g->module);
  if (g->uploaded) g->cu.cuEventDestroy_v2(g->uploaded);
  if (g->upload) g->cu.cuStreamDestroy_v2(g->upload);
  if (g->done) g->cu.cuEventDestroy_v2(g->done);
  if (g->stream) g->cu.cuStreamDestroy_v2(g->stream);
}

/* Frees everything, unless the GPU is stuck; returns whether it did. */
static bool release_device(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  mscrt_status *s = mscrt_cuda_enter(g);
  bool stuck = !s && mscrt_cuda_is_stuck(c);
  if (!s && !stuck) free_resources(c);
  if (!s) mscrt_cuda_leave(g);
  mscrt_status_free(s);
  if (!stuck) g->cu.cuDevicePrimaryCtxRelease_v2(g->device);
  return !stuck;
}

static void close_cuda(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  if (!g || (g->retained && !release_device(c))) return;
  for (uint32_t i = 0; g->moves && i < c->plan->num_collectives; i++) mscrt_moves_free(&g->moves[i]);
  free(g->moves);
  free(g->kernel);
  free(g->checked);
  free(g->parameters);
  free(g->warm);
  free(g->graph);
  free(g);
}

const mscrt_device mscrt_device_cuda = {
    .name = "cuda",
    .holds_values = true,
    .has_memory = true,
    .runs_programs = true,
    .orders_collectives = true,
    .has_nccl = true,
    .runs_transfers = true,
    .measures_products = true,
    .open = open_cuda,
    .ready = ready_cuda,
    .close = close_cuda,
    .fetch = fetch_values,
    .store = store_values,
    .set_micro = set_micro,
    .run = mscrt_cuda_run,
    .wait = wait_for_collectives,
    .compute = issue_and_watch,
    .message = issue_message,
    .transfer = issue_transfer,
    .wait_for_transfers = mscrt_cuda_wait_for_transfers,
    .collective = issue_collective,
};
