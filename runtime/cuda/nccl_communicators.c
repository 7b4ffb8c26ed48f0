/* nccl_communicators.c: the partitions of the ranks and the channels of a plan in; a communicator of NCCL for each out.
 * All ranks make them in the same order.  No call blocks, so a rank that waits notices if another does not come. */
#include "runtime/cuda/nccl.h"

#include <stdlib.h>
#include <string.h>

#define NO_COLOR (-1)

/* ---- rendezvous ---- */

/* Reports ranks with different versions of NCCL, which do not understand each other. */
static mscrt_status *check_versions(mscrt_context *c, int version) {
  uint64_t most = 0, least = 0;
  char here[MSCRT_VERSION_TEXT], first[MSCRT_VERSION_TEXT], last[MSCRT_VERSION_TEXT];
  MSCRT_CHECK(c->transport->max(c->comm, (uint64_t)version, &most, &(mscrt_site){.name = "NCCL's version"}));
  MSCRT_CHECK(
      c->transport->max(c->comm, (uint64_t)(INT32_MAX - version), &least, &(mscrt_site){.name = "NCCL's version"}));
  least = INT32_MAX - least;
  if (most == least) return NULL;
  return mscrt_fail(
      MSCRT_ENVIRONMENT,
      "rank %d: NCCL is %s here, and ranks have versions from %s to %s: install one on all, or run with --comm local",
      c->o.rank, mscrt_nccl_version(version, here), mscrt_nccl_version((int)least, first),
      mscrt_nccl_version((int)most, last));
}

/* Shares rank 0's id with all ranks, eight bytes at a time, over the transport that connects them already. */
static mscrt_status *share_id(mscrt_context *c, nccl_id *id) {
  uint64_t word[sizeof *id / 8] = {0};
  mscrt_status *own = NULL;
  if (c->o.rank == 0)
    own = mscrt_links_check(c, NULL, mscrt_cuda_of(c)->links->nccl.ncclGetUniqueId(id), "ncclGetUniqueId");
  MSCRT_CHECK(own);
  if (c->o.rank == 0) memcpy(word, id, sizeof word);
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    MSCRT_CHECK(c->transport->max(c->comm, word[i], &word[i], &(mscrt_site){.name = "ncclUniqueId"}));
  memcpy(id, word, sizeof word);
  return NULL;
}

static mscrt_status *split_ranks(mscrt_context *c, int color, const char *what, nccl_comm *out_comm) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  nccl_config config = NCCL_CONFIG;
  MSCRT_CHECK(
      mscrt_links_check(c, l->comm[0], l->nccl.ncclCommSplit(l->comm[0], color, c->o.rank, out_comm, &config), what));
  return *out_comm ? mscrt_links_check(c, *out_comm, MSCRT_ncclInProgress, what) : NULL;
}

/* Makes the communicators of groups.  Partition 0 is all ranks. */
static mscrt_status *connect_groups(mscrt_context *c) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  nccl_config config = NCCL_CONFIG;
  nccl_id id = {{0}};
  MSCRT_CHECK(mscrt_new_array(&l->comm, c->partitions.num));
  MSCRT_CHECK(share_id(c, &id));
  l->num_comms = 1;
  nccl_result met = l->nccl.ncclCommInitRankConfig(&l->comm[0], c->o.ranks, id, c->o.rank, &config);
  MSCRT_CHECK(mscrt_links_check(c, l->comm[0], met, "meeting"));
  for (; l->num_comms < c->partitions.num; l->num_comms++) {
    const int32_t *group_of = c->partitions.group_of + (size_t)l->num_comms * (size_t)c->o.ranks;
    int members = 0;
    for (int r = 0; r < c->o.ranks; r++) members += group_of[r] == group_of[c->o.rank];
    MSCRT_CHECK(split_ranks(c, members > 1 ? group_of[c->o.rank] : NO_COLOR, "making groups", &l->comm[l->num_comms]));
  }
  return NULL;
}

/* Makes the channel of a message: pairs of ranks of two stages.  All ranks must call this. */
static mscrt_status *connect_channel(mscrt_context *c, plan_message m, mscrt_channel_link *k) {
  int per_stage = c->plan->ranks / (int)c->plan->num_stages;
  uint32_t other = plan_message_from(m) == c->stage ? plan_message_to(m) : plan_message_from(m);
  bool takes_part = plan_message_from(m) == c->stage || plan_message_to(m) == c->stage;
  MSCRT_CHECK(split_ranks(c, takes_part ? c->o.rank % per_stage : NO_COLOR, "making channels", &k->comm));
  if (!takes_part) return NULL;
  k->peer = other > c->stage;
  k->depth = plan_message_from(m) == c->stage ? plan_message_depth(m) : 1;
  k->slot_bytes = plan_message_from(m) == c->stage ? mscrt_cuda_align(plan_message_bytes(m)) : 0;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamCreate, &k->stream, MSCRT_CU_STREAM_NON_BLOCKING);
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuEventCreate, &k->ready, MSCRT_CU_EVENT_DISABLE_TIMING);
  MSCRT_CHECK(mscrt_new_array(&k->moved, k->depth));
  for (uint32_t i = 0; i < k->depth; i++)
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuEventCreate, &k->moved[i], MSCRT_CU_EVENT_DISABLE_TIMING);
  return NULL;
}

/* ---- memory ---- */

/* Collectives run one after the other, so they share the staging memory; values of one collective lie side by side. */
static void measure_staging(mscrt_context *c) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  for (uint32_t i = 0; i < c->plan->num_collectives; i++) {
    const mscrt_collective *k = &c->plan->collective[i];
    uint64_t bytes = 0;
    for (uint32_t m = 0; m < k->num_members; m++) bytes += mscrt_cuda_of(c)->moves[k->members[m]].staging_bytes;
    if (!k->num_members) bytes = mscrt_cuda_of(c)->moves[i].staging_bytes;
    if (bytes > l->staging_bytes) l->staging_bytes = bytes;
  }
}

static uint32_t count_calls(const mscrt_context *c) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < plan_plan_sections_num(c->plan->root); i++)
    num += plan_section_calls_num(plan_plan_sections(c->plan->root, i));
  return num;
}

uint64_t mscrt_links_bytes(const mscrt_links *l) {
  uint64_t bytes = mscrt_cuda_align(l->staging_bytes) + mscrt_cuda_align(sizeof(uint32_t) * (l->num_watched + 1));
  for (uint32_t i = 0; i < l->num_channels; i++) bytes += l->channel[i].slot_bytes * l->channel[i].depth;
  return bytes;
}

void mscrt_links_place(mscrt_links *l, cu_address at) {
  l->staging = at;
  at += mscrt_cuda_align(l->staging_bytes);
  for (uint32_t i = 0; i < l->num_channels; i++) {
    l->channel[i].slots = at;
    at += l->channel[i].slot_bytes * l->channel[i].depth;
  }
  l->numbers = at;
}

/* ---- opening ---- */

mscrt_status *mscrt_links_open(mscrt_context *c) {
  MSCRT_CHECK(mscrt_new_array(&mscrt_cuda_of(c)->links, 1));
  mscrt_links *l = mscrt_cuda_of(c)->links;
  int version = 0;
  MSCRT_CHECK(mscrt_nccl_load(&l->nccl, &version));
  MSCRT_CHECK(check_versions(c, version));
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamCreate, &l->stream, MSCRT_CU_STREAM_NON_BLOCKING);
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuEventCreate, &l->issued, MSCRT_CU_EVENT_DISABLE_TIMING);
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemHostAlloc, (void **)&l->begun, sizeof *l->begun, 0);
  MSCRT_CHECK(connect_groups(c));
  l->num_channels = plan_plan_messages_num(c->plan->root);
  MSCRT_CHECK(mscrt_new_array(&l->channel, l->num_channels));
  for (uint32_t i = 0; i < l->num_channels; i++)
    MSCRT_CHECK(connect_channel(c, plan_plan_messages(c->plan->root, i), &l->channel[i]));
  l->num_watched = count_calls(c);
  MSCRT_CHECK(mscrt_new_array(&l->watched, l->num_watched + 1));
  measure_staging(c);
  return NULL;
}

/* Makes as many events as the section with the most collectives has, and numbers the exchanges from 1. */
mscrt_status *mscrt_links_ready(mscrt_context *c) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  uint32_t most = 0, *numbers, num = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++) {
    if (c->section[i].num_beside > most) most = c->section[i].num_beside;
    for (uint32_t k = 0; k < c->section[i].num_calls; k++)
      if (c->section[i].call[k].beside || c->section[i].call[k].kind == PLAN_CALL_KIND_MESSAGE) {
        l->watched[++num] = &c->section[i].call[k];
        c->section[i].call[k].device_number = num;
      }
  }
  MSCRT_CHECK(mscrt_new_array(&l->ran, most));
  for (; l->num_ran < most; l->num_ran++)
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuEventCreate, &l->ran[l->num_ran], MSCRT_CU_EVENT_DISABLE_TIMING);
  l->num_watched = num;
  MSCRT_CHECK(mscrt_new_array(&numbers, num + 1));
  for (uint32_t i = 0; i <= num; i++) numbers[i] = i;
  cu_result r = mscrt_cuda_of(c)->cu.cuMemcpyHtoDAsync_v2(l->numbers, numbers, sizeof *numbers * (num + 1),
                                                          mscrt_cuda_of(c)->stream);
  mscrt_status *s = r ? mscrt_cuda_failure(&mscrt_cuda_of(c)->cu, r, "cuMemcpyHtoDAsync") : mscrt_cuda_wait(c);
  free(numbers);
  return s;
}

/* ---- the end ---- */

/* Finalizes and frees a communicator, or aborts it if that fails. */
static void free_comm(mscrt_context *c, nccl_comm comm) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  if (!comm || l->aborted) return;
  mscrt_status *s = mscrt_links_check(c, comm, l->nccl.ncclCommFinalize(comm), "ending");
  if (s) l->nccl.ncclCommAbort(comm);
  else l->nccl.ncclCommDestroy(comm);
  mscrt_status_free(s);
}

static void close_channel(mscrt_context *c, mscrt_channel_link *k) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  free_comm(c, k->comm);
  for (uint32_t i = 0; k->moved && i < k->depth; i++)
    if (k->moved[i]) cu->cuEventDestroy_v2(k->moved[i]);
  if (k->ready) cu->cuEventDestroy_v2(k->ready);
  if (k->stream) cu->cuStreamDestroy_v2(k->stream);
  free(k->moved);
}

void mscrt_links_close(mscrt_context *c) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  if (!l) return;
  mscrt_links_unregister(c);
  for (uint32_t i = 0; l->channel && i < l->num_channels; i++) close_channel(c, &l->channel[i]);
  for (uint32_t i = l->num_comms; l->comm && i-- > 0;) free_comm(c, l->comm[i]);
  for (uint32_t i = 0; i < l->num_ran; i++) cu->cuEventDestroy_v2(l->ran[i]);
  if (l->issued) cu->cuEventDestroy_v2(l->issued);
  if (l->stream) cu->cuStreamDestroy_v2(l->stream);
  if (l->begun) cu->cuMemFreeHost(l->begun);
  free(l->channel);
  free(l->comm);
  free(l->ran);
  free(l->watched);
  free(l);
}
