/* nccl_memory.c: a rank's memory of the GPU, allocated by NCCL where it can, and registered with the communicators, so
 * that exchanges read and write it without copies into NCCL's own buffers.
 *
 * If all ranks, which compare this, have the values that they exchange at the same offsets, the memory is a symmetric
 * window, for which NCCL has kernels of less latency; else each rank registers its own.  Functions that an older NCCL
 * does not have are not called. */
#include <stdlib.h>

#include "runtime/cuda/nccl.h"
#include "runtime/trace/trace.h"

bool mscrt_links_allocate(mscrt_context *c, uint64_t bytes) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  void *memory = NULL;
  if (!g->links || !g->links->nccl.ncclMemAlloc || g->links->nccl.ncclMemAlloc(&memory, bytes)) return false;
  g->memory = (cu_address)(uintptr_t)memory;
  g->free_memory = g->links->nccl.ncclMemFree;
  return true;
}

/* ---- where exchanges read and write ---- */

static uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * UINT64_C(0x9e3779b97f4a7c15) + (h >> 29); }

/* Returns a hash of the size of the memory and of the offsets at which others read and write it: what a rank has a part
 * of, before a gather or after a sum that is left in parts, has an offset of its own. */
static uint64_t describe_places(const mscrt_context *c) {
  const mscrt_cuda *g = mscrt_cuda_of(c);
  uint64_t h = mix(mix(mix(1, g->memory_bytes), c->stage), g->links->staging - g->memory);
  for (uint32_t i = 0; i < c->plan->num_collectives; i++) {
    const mscrt_collective *k = &c->plan->collective[i];
    const mscrt_moves *m = &g->moves[i];
    for (uint32_t part = 0; part < k->num_members; part++) h = mix(h, g->moves[k->members[part]].staging_bytes);
    if (k->num_members || m->form == MSC_EXCHANGE) continue; /* members stand in the list themselves */
    h = mix(mix(mix(h, (uint64_t)m->form), m->count), m->wide_at ^ m->wide_result << 32);
    if (!msc_verb_gathers(m->form) && m->num_sends) h = mix(mix(h, m->send->at), m->send->direct);
    if (!msc_verb_scatters(m->form) && m->num_receives) h = mix(mix(h, m->receive->at), m->receive->direct);
  }
  return h;
}

/* Sets *out_same to whether all ranks have the same number; all must call it. */
static mscrt_status *agree_on(mscrt_context *c, uint64_t number, bool *out_same) {
  const mscrt_site site = {.name = "places of exchanges"};
  uint64_t most = 0, least = 0;
  MSCRT_CHECK(c->transport->max(c->comm, number, &most, &site));
  MSCRT_CHECK(c->transport->max(c->comm, ~number, &least, &site));
  *out_same = most == ~least;
  return NULL;
}

/* ---- registering ---- */

static bool is_used(const mscrt_context *c, uint32_t partition) {
  for (uint32_t i = 0; i < c->plan->num_collectives; i++) {
    const mscrt_exchange *e = mscrt_cuda_of(c)->moves[i].e;
    if (e && (uint32_t)e->group.partition == partition) return true;
  }
  return false;
}

/* Registers this rank's memory with a communicator.  If that fails, exchanges work, but take longer. */
static void register_alone(mscrt_context *c, nccl_comm comm, void **out_handle) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  mscrt_links *l = g->links;
  nccl_result r = l->nccl.ncclCommRegister(comm, (void *)(uintptr_t)g->memory, g->memory_bytes, out_handle);
  if (!r) return;
  *out_handle = NULL;
  if (l->told) return;
  l->told = true;
  mscrt_log_line(c, MSCRT_LOG_WARNING, "rank %d: NCCL: memory cannot be registered (%s): exchanges copy it", c->o.rank,
                 l->nccl.ncclGetErrorString(r));
}

/* Registers the memory of all ranks of a communicator as a symmetric window; every one of them must call this. */
static mscrt_status *register_window(mscrt_context *c, nccl_comm comm, nccl_window *out_window) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  nccl_result r = g->links->nccl.ncclCommWindowRegister(comm, (void *)(uintptr_t)g->memory, g->memory_bytes, out_window,
                                                        MSCRT_NCCL_WIN_COLL_SYMMETRIC);
  return mscrt_links_check(c, comm, r, "registering memory (with NCCL_WIN_ENABLE=0 exchanges do without)");
}

mscrt_status *mscrt_links_register(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  mscrt_links *l = g->links;
  bool can = g->free_memory != NULL, alike, symmetric;
  if (!l->nccl.ncclCommRegister) return NULL;
  MSCRT_CHECK(agree_on(c, can, &alike)); /* NCCL wants all ranks to register, or none */
  if (!can || !alike) return NULL;
  MSCRT_CHECK(agree_on(c, describe_places(c), &symmetric));
  MSCRT_CHECK(mscrt_new_array(&l->window, l->num_comms));
  MSCRT_CHECK(mscrt_new_array(&l->registered, l->num_comms + l->num_channels));
  for (uint32_t i = 0; i < l->num_comms; i++) {
    if (!l->comm[i] || !is_used(c, i)) continue;
    if (symmetric && l->nccl.ncclCommWindowRegister) MSCRT_CHECK(register_window(c, l->comm[i], &l->window[i]));
    /* no window: this machine has no symmetric memory, or NCCL_WIN_ENABLE is 0 */
    if (!l->window[i]) register_alone(c, l->comm[i], &l->registered[i]);
  }
  for (uint32_t i = 0; i < l->num_channels; i++)
    if (l->channel[i].comm) register_alone(c, l->channel[i].comm, &l->registered[l->num_comms + i]);
  return NULL;
}

/* Waits until NCCL has ended a registration. Ignores a failure, since the communicator is ended next. */
static void end_registration(mscrt_context *c, nccl_comm comm, nccl_result r) {
  mscrt_status_free(mscrt_links_check(c, comm, r, "ending"));
}

void mscrt_links_unregister(mscrt_context *c) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  const mscrt_nccl_api *nccl = &l->nccl;
  for (uint32_t i = 0; l->registered && !l->aborted && i < l->num_comms + l->num_channels; i++) {
    bool is_channel = i >= l->num_comms;
    nccl_comm comm = is_channel ? l->channel[i - l->num_comms].comm : l->comm[i];
    if (l->registered[i]) end_registration(c, comm, nccl->ncclCommDeregister(comm, l->registered[i]));
    if (!is_channel && l->window[i]) end_registration(c, comm, nccl->ncclCommWindowDeregister(comm, l->window[i]));
  }
  free(l->registered);
  free(l->window);
  l->registered = NULL, l->window = NULL;
}
