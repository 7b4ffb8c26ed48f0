/* cudnn.c: computes attention and convolutions by cuDNN: finds an engine for every graph at load, then calls it. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cuda/cudnn.h"
#include "runtime/execute/execute.h"
#include "runtime/trace/trace.h"

#define ENGINES 16 /* most engines that are tried of one kind of heuristics */

/* The search for an engine, for the message if it fails. */
typedef struct {
  /* bytes of workspace: available, and the least that was wanted beyond that (0: none wanted more) */
  uint64_t room, least;
  int num_offered, num_unfit; /* engines offered; those of them whose arithmetic or order of sums is not allowed */
  dnn_result last;            /* the error of the last one that declined */
} search;

static mscrt_status *check_dnn_result(const mscrt_cudnn_api *api, dnn_result r, const char *what) {
  return r ? mscrt_fail(MSCRT_ENVIRONMENT, "cuDNN: %s failed: %s", what, api->cudnnGetErrorString(r)) : NULL;
}

#define DNN(d, function, ...) MSCRT_CHECK(check_dnn_result(&(d)->api, (d)->api.function(__VA_ARGS__), #function))

/* True if the plan's engines are for this version of cuDNN and this compute capability.  GPUs of one capability differ
 * only in how many blocks run at once. */
static bool plan_has_engines(const mscrt_context *c, const mscrt_dnn *d) {
  return plan_plan_engines_version(c->plan->root) == d->api.cudnnGetVersion() &&
         plan_plan_engines_arch(c->plan->root) == (uint32_t)mscrt_cuda_of(c)->arch;
}

mscrt_status *mscrt_dnn_open(mscrt_context *c) {
  MSCRT_CHECK(mscrt_new_array(&mscrt_cuda_of(c)->dnn, 1));
  mscrt_dnn *d = mscrt_cuda_of(c)->dnn;
  MSCRT_CHECK(mscrt_cudnn_load(&d->api));
  MSCRT_CHECK(mscrt_cudnn_fits(&d->api, mscrt_cuda_of(c)->driver));
  MSCRT_CHECK(mscrt_new_array(&d->graph, c->plan->num_graphs));
  d->is_known = plan_has_engines(c, d);
  DNN(d, cudnnCreate, &d->handle);
  DNN(d, cudnnSetStream, d->handle, mscrt_cuda_of(c)->stream);
  return NULL;
}

/* ---- engines ---- */

/* Sets the GPU that a descriptor is for: that of the handle, or the described one. */
static void set_machine(mscrt_dnn_builder *b, const mscrt_dnn *d, dnn_descriptor of, unsigned handle_name,
                        unsigned device_name) {
  if (d->handle && handle_name) mscrt_dnn_set(b, of, handle_name, MSCRT_CUDNN_TYPE_HANDLE, 1, &d->handle);
  if (!d->handle && device_name) mscrt_dnn_link(b, of, device_name, d->device);
}

static dnn_descriptor build_graph(mscrt_dnn_builder *b, const mscrt_dnn *d) {
  dnn_descriptor all = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  mscrt_dnn_set(b, all, MSCRT_CUDNN_ATTR_OPERATIONGRAPH_OPS, MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR, b->num_operations,
                b->operation);
  set_machine(b, d, all, MSCRT_CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 0);
  return mscrt_dnn_finalize(b, all);
}

/* True if the note names a method that makes results of f32 less exact than plain sums of products: products of a
 * narrower type, or transforms, whose terms are much larger than the results in which they cancel out. */
static bool loses_f32(unsigned note) {
  switch (note) {
    case MSCRT_CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case MSCRT_CUDNN_NUMERICAL_NOTE_FFT:
    case MSCRT_CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case MSCRT_CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case MSCRT_CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case MSCRT_CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return true;
    default: return false;
  }
}

/* True if the engine computes f32 as sums of products of f32, sums narrow types in f32, and fixes the order of sums
 * where it must be fixed. */
static bool is_exact_enough(mscrt_dnn_builder *b, dnn_descriptor config) {
  unsigned note[ENGINES];
  int64_t num = 0;
  bool wide = b->g->operand[0].dtype == MSCRT_F32;
  dnn_descriptor engine = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (b->failed || b->api->cudnnBackendGetAttribute(config, MSCRT_CUDNN_ATTR_ENGINECFG_ENGINE,
                                                    MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &num, &engine))
    return false;
  if (b->api->cudnnBackendGetAttribute(engine, MSCRT_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, MSCRT_CUDNN_TYPE_NUMERICAL_NOTE,
                                       ENGINES, &num, note))
    return false;
  for (int64_t i = 0; i < num && i < ENGINES; i++) {
    if (note[i] == MSCRT_CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
        note[i] == MSCRT_CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
      return false;
    if (wide && loses_f32(note[i])) return false;
    if (note[i] == MSCRT_CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && b->g->deterministic) return false;
  }
  return true;
}

static dnn_descriptor new_plan(mscrt_dnn_builder *b, const mscrt_dnn *d) {
  dnn_descriptor plan = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_machine(b, d, plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_HANDLE, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  return plan;
}

/* Finalizes a plan; *out_wanted: the bytes of workspace that it needs. */
static dnn_result finalize_plan(mscrt_dnn_builder *b, dnn_descriptor plan, uint64_t *out_wanted) {
  int64_t num, bytes = 0;
  dnn_result r = b->api->cudnnBackendFinalize(plan);
  if (!r)
    r = b->api->cudnnBackendGetAttribute(plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, MSCRT_CUDNN_TYPE_INT64,
                                         1, &num, &bytes);
  *out_wanted = (uint64_t)bytes + b->out->own_bytes;
  return r;
}

/* The engine chosen when the plan was compiled; NULL: there is none, or cuDNN declines it. */
static dnn_descriptor load_known_plan(mscrt_dnn_builder *b, const mscrt_dnn *d, uint64_t room) {
  const mscrt_graph *g = b->g;
  uint64_t wanted;
  if (!d->is_known || !g->engine) return NULL;
  dnn_descriptor plan = new_plan(b, d);
  if (b->failed || b->api->cudnnBackendSetAttribute(plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                    MSCRT_CUDNN_TYPE_CHAR, g->engine_bytes, g->engine))
    return NULL;
  return !finalize_plan(b, plan, &wanted) && wanted <= room ? plan : NULL;
}

/* The plan of an engine; NULL: it declines or needs more workspace than there is. */
static dnn_descriptor try_engine(mscrt_dnn_builder *b, const mscrt_dnn *d, dnn_descriptor config, search *found) {
  uint64_t wanted;
  dnn_descriptor plan = new_plan(b, d);
  mscrt_dnn_link(b, plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (b->failed || (found->last = finalize_plan(b, plan, &wanted))) return NULL;
  if (wanted <= found->room) return plan;
  if (!found->least || wanted < found->least) found->least = wanted;
  return NULL;
}

/* The plan of the first usable engine that this kind of heuristics offers, best first; NULL: there is none. */
static dnn_descriptor try_engines(mscrt_dnn_builder *b, const mscrt_dnn *d, dnn_descriptor graph, unsigned mode,
                                  search *found) {
  dnn_descriptor config[ENGINES], plan = NULL, heuristics = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  int64_t num = 0;
  mscrt_dnn_link(b, heuristics, MSCRT_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  mscrt_dnn_set(b, heuristics, MSCRT_CUDNN_ATTR_ENGINEHEUR_MODE, MSCRT_CUDNN_TYPE_HEUR_MODE, 1, &mode);
  set_machine(b, d, heuristics, 0, MSCRT_CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (b->failed || (found->last = b->api->cudnnBackendFinalize(heuristics))) return NULL;
  for (int i = 0; i < ENGINES; i++) config[i] = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (b->failed ||
      (found->last = b->api->cudnnBackendGetAttribute(heuristics, MSCRT_CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                      MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES, &num, config)))
    return NULL;
  for (int64_t i = 0; i < num && i < ENGINES && !plan && !b->failed; i++) {
    found->num_offered++;
    if (is_exact_enough(b, config[i])) plan = try_engine(b, d, config[i], found);
    else found->num_unfit++;
  }
  return plan;
}

/* Reports e.g. "attention of bf16 [8,12,1024,64] and [8,12,1024,64]". */
static mscrt_status *report_no_engine(const mscrt_dnn *d, const mscrt_graph *g, const search *found,
                                      const char *where) {
  static const char *const names[] = {"attention",
                                      "the gradient of attention",
                                      "dropped attention",
                                      "the gradient of dropped attention",
                                      "masked attention",
                                      "the gradient of masked attention",
                                      "a convolution",
                                      "a convolution's gradient",
                                      "the gradient of a convolution's weights",
                                      "a convolution with a bias"};
  const int64_t *x = g->operand[0].dim, *y = g->operand[1].dim;
  char why[128] = "";
  if (found->least) snprintf(why, sizeof why, ", %" PRIu64 " would do", found->least);
  else if (found->last)
    snprintf(why, sizeof why, ", the last one declined: %s", d->api.cudnnGetErrorString(found->last));
  return mscrt_fail(MSCRT_ENVIRONMENT,
                    "cuDNN %zu has no engine for %s of %s [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                    "] and [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "] within %" PRIu64
                    " bytes on %s (%d offered, %d of them unfit%s); compile with --set library_%s=false",
                    d->api.cudnnGetVersion(), names[g->kind], mscrt_dtype_name(g->operand[0].dtype), x[0], x[1], x[2],
                    x[3], y[0], y[1], y[2], y[3], found->room, where, found->num_offered, found->num_unfit, why,
                    mscrt_is_attention(g) ? "attention" : "convolution");
}

mscrt_status *mscrt_dnn_prepare(const mscrt_dnn *d, const mscrt_graph *g, uint64_t room, const char *where,
                                mscrt_dnn_graph *out) {
  static void (*const operations[])(mscrt_dnn_builder *) = {
      mscrt_dnn_attention,   mscrt_dnn_attention_grad, mscrt_dnn_attention,   mscrt_dnn_attention_grad,
      mscrt_dnn_attention,   mscrt_dnn_attention_grad, mscrt_dnn_convolution, mscrt_dnn_convolution,
      mscrt_dnn_convolution, mscrt_dnn_convolution};
  static const unsigned modes[] = {MSCRT_CUDNN_HEUR_MODE_A, MSCRT_CUDNN_HEUR_MODE_FALLBACK};
  mscrt_dnn_builder b = {.api = &d->api, .g = g, .out = out};
  search found = {.room = room};
  operations[g->kind](&b);
  out->plan = load_known_plan(&b, d, room);
  out->was_known = out->plan != NULL;
  dnn_descriptor graph = out->plan ? NULL : build_graph(&b, d);
  for (size_t i = 0; i < sizeof modes / sizeof *modes && !b.failed && !out->plan; i++)
    out->plan = try_engines(&b, d, graph, modes[i], &found);
  return b.failed || out->plan ? b.failed : report_no_engine(d, g, &found, where);
}

void mscrt_dnn_free(const mscrt_dnn *d, mscrt_dnn_graph *g) {
  while (g->num_made) d->api.cudnnBackendDestroyDescriptor(g->made[--g->num_made]);
}

/* ---- calls ---- */

static mscrt_status *check_alignment(const mscrt_context *c, const mscrt_record *r) {
  for (uint32_t i = 0; i < r->num_buffers; i++)
    if (mscrt_cuda_low_bits(c, r, i) % MSCRT_DNN_ALIGN)
      return mscrt_fail(MSCRT_INPUT, "the plan contradicts itself: operand %u of %s is not aligned in every slot", i,
                        r->name ? r->name : "a graph");
  return NULL;
}

/* Logs how many engines were in the plan: choosing one takes a second and more. */
static void tell_engines(const mscrt_context *c, const mscrt_dnn *d) {
  uint32_t num = 0, known = 0;
  for (uint32_t i = 0; i < c->plan->num_graphs; i++) num += d->graph[i].plan != NULL, known += d->graph[i].was_known;
  mscrt_log_line(
      c, MSCRT_LOG_INFO, "cuDNN %zu: %u engines of %u graphs are the plan's%s", d->api.cudnnGetVersion(), known, num,
      !d->is_known && plan_plan_engines_version(c->plan->root) ? "; it has those of another version or GPU" : "");
}

mscrt_status *mscrt_dnn_ready(mscrt_context *c) {
  mscrt_dnn *d = mscrt_cuda_of(c)->dnn;
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++) {
      const mscrt_record *r = &c->section[i].call[k];
      if (r->kind != PLAN_CALL_KIND_GRAPH) continue;
      MSCRT_CHECK(check_alignment(c, r));
      const mscrt_graph *g = &c->plan->graph[r->index];
      if (!d->graph[r->index].plan)
        MSCRT_CHECK(mscrt_dnn_prepare(d, g, g->bytes, mscrt_cuda_of(c)->name, &d->graph[r->index]));
    }
  tell_engines(c, d);
  return NULL;
}

/* Fills in the addresses of all tensors. */
static void fill_pack(mscrt_dnn_builder *b, const mscrt_context *c, void *const *buffer, dnn_descriptor pack) {
  const mscrt_dnn_graph *g = &mscrt_cuda_of(c)->dnn->graph[b->g - c->plan->graph];
  int64_t number[MSCRT_DNN_TENSORS];
  void *place[MSCRT_DNN_TENSORS], *workspace = (void *)(uintptr_t)(mscrt_cuda_of(c)->workspace + g->own_bytes);
  for (uint32_t i = 0; i < g->num_bindings; i++) {
    const mscrt_dnn_binding *t = &g->binding[i];
    number[i] = i + 1;
    place[i] = t->place == MSCRT_DNN_OPERAND ? buffer[t->operand]
               : t->place == MSCRT_DNN_OWN   ? (void *)(uintptr_t)(mscrt_cuda_of(c)->workspace + t->offset)
                                             : (void *)(uintptr_t)&t->number;
  }
  mscrt_dnn_set(b, pack, MSCRT_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, MSCRT_CUDNN_TYPE_INT64, g->num_bindings, number);
  mscrt_dnn_set(b, pack, MSCRT_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, MSCRT_CUDNN_TYPE_VOID_PTR, g->num_bindings,
                place);
  mscrt_dnn_set(b, pack, MSCRT_CUDNN_ATTR_VARIANT_PACK_WORKSPACE, MSCRT_CUDNN_TYPE_VOID_PTR, 1, &workspace);
  mscrt_dnn_finalize(b, pack);
}

mscrt_status *mscrt_dnn_issue(mscrt_context *c, const mscrt_execution *t) {
  mscrt_cuda *cuda = mscrt_cuda_of(c);
  const mscrt_dnn *d = cuda->dnn;
  const mscrt_dnn_graph *g = &d->graph[t->record->index];
  mscrt_dnn_graph only = {0};
  mscrt_dnn_builder b = {.api = &d->api, .g = &c->plan->graph[t->record->index], .out = &only};
  if (g->zero_bytes)
    MSCRT_CUDA(&cuda->cu, cuMemsetD8Async, cuda->workspace + g->zero_offset, 0, g->zero_bytes, cuda->stream);
  dnn_descriptor pack = mscrt_dnn_new(&b, MSCRT_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  fill_pack(&b, c, mscrt_buffers_of(c, t->record, t->slots, 0), pack);
  if (!b.failed)
    b.failed = check_dnn_result(&d->api, d->api.cudnnBackendExecute(d->handle, g->plan, pack), "cudnnBackendExecute");
  mscrt_dnn_free(d, &only);
  return b.failed;
}

void mscrt_dnn_close(mscrt_context *c) {
  mscrt_dnn *d = mscrt_cuda_of(c)->dnn;
  if (!d) return;
  for (uint32_t i = 0; d->graph && i < c->plan->num_graphs; i++) mscrt_dnn_free(d, &d->graph[i]);
  if (d->handle) d->api.cudnnDestroy(d->handle);
  free(d->graph);
  free(d);
}
