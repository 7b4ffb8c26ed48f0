/* offload.c: parameters and state that live in memory of the host or in a file on disk, and the transfers between
 * there and the arena, which a thread of their own runs, the threads of calls, or the GPU itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/trace/trace.h"

struct mscrt_offload {
  uint8_t *host, *mapped; /* memory; the file of `disk`, for initial values and checkpoints; NULL: none */
  uint64_t host_bytes, disk_bytes;
  /* What lives in host memory does not stay in the cache until it is fetched: measured, it does in less than a quarter
   * of the last cache, beside what calls use and what the other cores have there. */
  bool exceeds_cache;
  mscrt_disk disk;
};

/* ---- the disk ---- */

static const char *folder_of(const mscrt_context *c) {
  return c->o.offload_path ? c->o.offload_path : plan_plan_offload_path(c->plan->root);
}

static mscrt_status *open_disk(const mscrt_context *c, mscrt_offload *o) {
  const char *folder = folder_of(c);
  uint64_t block = plan_plan_offload_block(c->plan->root);
  if (block < MSCRT_DISK_PAGE || block % MSCRT_DISK_PAGE || block > (uint64_t)1 << 30)
    return mscrt_fail(MSCRT_INPUT, "the plan reads its disk in blocks of %" PRIu64 " bytes", block);
  mscrt_status *s = mscrt_disk_open(folder, o->disk_bytes, block, &o->disk);
  if (s) return mscrt_add_prefix(s, "offload_path: rank %d", c->o.rank);
  void *at = mmap(NULL, (size_t)o->disk_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, o->disk.file, 0);
  if (at == MAP_FAILED)
    return mscrt_fail(MSCRT_ENVIRONMENT, "offload_path: a file in %s cannot be mapped: %s", folder, strerror(errno));
  o->mapped = at;
  return NULL;
}

/* ---- opening ---- */

mscrt_status *mscrt_offload_open(mscrt_context *c) {
  const uint64_t *bytes = c->plan->stage[c->stage].bytes;
  mscrt_offload *o = NULL;
  bool any = false, disk = false;
  for (uint32_t i = 0; i < c->plan->num_stages; i++) {
    disk = disk || c->plan->stage[i].bytes[PLAN_SPACE_DISK];
    any = any || disk || c->plan->stage[i].bytes[PLAN_SPACE_HOST];
  }
  if (!any || !c->device->holds_values) return NULL;
  if (c->o.recover && (disk || c->plan->num_caches))
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "a plan that has values on disk, or a cache of rows, does not go on after a rank is lost; it "
                      "resumes from a checkpoint");
  MSCRT_CHECK(mscrt_new_array(&o, 1));
  c->offload = o;
  *o =
      (mscrt_offload){.host_bytes = bytes[PLAN_SPACE_HOST], .disk_bytes = bytes[PLAN_SPACE_DISK], .disk = {.file = -1}};
  if (o->host_bytes) {
    void *at = mmap(NULL, (size_t)o->host_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      return mscrt_fail(MSCRT_NO_MEMORY, "no memory of the host for %" PRIu64 " bytes that are offloaded",
                        o->host_bytes);
    o->exceeds_cache = o->host_bytes > mscrt_cache_bytes() / 4;
    madvise(at, (size_t)o->host_bytes, MADV_HUGEPAGE); /* copies of whole values are faster then */
    o->host = at;
  }
  return o->disk_bytes ? open_disk(c, o) : NULL;
}

void mscrt_offload_free(mscrt_offload *o) {
  if (!o) return;
  if (o->host) munmap(o->host, (size_t)o->host_bytes);
  if (o->mapped) munmap(o->mapped, (size_t)o->disk_bytes);
  mscrt_disk_close(&o->disk);
  free(o);
}

void *mscrt_offload_at(const mscrt_context *c, plan_ref r) {
  return (r.space == PLAN_SPACE_HOST ? c->offload->host : c->offload->mapped) + r.offset;
}

void *mscrt_offload_host(const mscrt_context *c, uint64_t *out_bytes) {
  *out_bytes = c->offload ? c->offload->host_bytes : 0;
  return c->offload ? c->offload->host : NULL;
}

const mscrt_disk *mscrt_offload_disk(const mscrt_context *c) {
  return c->offload && c->offload->disk_bytes ? &c->offload->disk : NULL;
}

void mscrt_drop_disk_pages(const mscrt_context *c, plan_ref r) {
  uint64_t pages = (r.bytes + MSCRT_DISK_PAGE - 1) / MSCRT_DISK_PAGE * MSCRT_DISK_PAGE;
  if (r.space == PLAN_SPACE_DISK && c->offload) madvise(c->offload->mapped + r.offset, (size_t)pages, MADV_DONTNEED);
}

mscrt_status *mscrt_offload_file(const mscrt_context *c, int *out_file) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", c->offload->disk.file);
  *out_file = open(name, O_RDWR | O_CLOEXEC);
  if (*out_file >= 0) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "offload_path: a file in %s cannot be opened once more: %s", folder_of(c),
                    strerror(errno));
}

/* ---- transfers ---- */

mscrt_status *mscrt_disk_transfer_status(const mscrt_context *c, const mscrt_record *r, int64_t step, int error) {
  bool stows = mscrt_is_offloaded(r->ref[1].space);
  if (!error) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "rank %d: step %" PRId64 ": %s cannot be %s in %s: %s", c->o.rank,
                    mscrt_step_number(step), r->name ? r->name : "a value",
                    stows ? "written to the file" : "read from the file", folder_of(c), strerror(error));
}

/* Lets the device run a transfer. */
static mscrt_status *run_device_transfer(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t,
                                         uint32_t *released) {
  (void)pool, (void)released;
  int64_t begin = mscrt_timeline_now(c->timeline);
  MSCRT_CHECK(c->device->transfer(c, t));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_TRANSFER, t, begin);
  return NULL;
}

static mscrt_status *run_transfer(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t, uint32_t *released) {
  const mscrt_record *r = t->record;
  bool stows = mscrt_is_offloaded(r->ref[1].space);
  plan_ref away = r->ref[stows];
  mscrt_value_transfer m = {.disk = &c->offload->disk,
                            .arena = mscrt_buffer_in_slots(r, !stows, t->slots),
                            .host = away.space == PLAN_SPACE_HOST ? c->offload->host + away.offset : NULL,
                            .offset = away.offset,
                            .bytes = away.bytes,
                            .stows = stows,
                            .past_caches = c->offload->exceeds_cache};
  (void)released;
  int64_t begin = mscrt_timeline_now(c->timeline);
  int error = mscrt_move_value(pool, &m);
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_TRANSFER, t, begin);
  return mscrt_disk_transfer_status(c, r, t->step, error);
}

bool mscrt_copies_in_place(const mscrt_context *c) {
  bool idle = mscrt_has_idle_core(c->threads, c->o.local_ranks, c->o.cores);
  if (c->device->runs_transfers || c->plan->target->has_images) return false;
  return c->device->transfer || !idle; /* the times of a device without memory are as predicted */
}

mscrt_status *mscrt_copy_in_place(mscrt_context *c, const mscrt_execution *t) {
  uint32_t released = 0;
  int64_t begin = mscrt_timeline_now(c->timeline);
  if (c->device->transfer) MSCRT_CHECK(run_device_transfer(c, c->pool, t, &released));
  else MSCRT_CHECK(run_transfer(c, c->pool, t, &released));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_TRANSFER_WAIT, t, begin);
  return NULL;
}

mscrt_status *mscrt_start_mover(mscrt_context *c) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    if (c->section[i].num_transfers > most) most = c->section[i].num_transfers;
  if (!most || c->device->runs_transfers) return NULL;
  if (c->device->transfer) return mscrt_stream_new(c, false, most, 1, NULL, run_device_transfer, &c->mover);
  if (!c->offload) return NULL;
  return mscrt_stream_new(c, false, most, c->offload->disk_bytes ? MSCRT_DISK_DEPTH : 1, mscrt_shorten_slice,
                          run_transfer, &c->mover);
}
