/* offload.c: parameters and state that live in memory of the host or in a file on disk, and the transfers between
 * there and the arena, which a thread of their own runs, or the GPU itself.
 *
 * The file has no name once it is open, so nothing is left behind whatever ends the process, and all its bytes are
 * reserved then, so no step finds the disk full. Steps read and write it past the page cache where the file system
 * can, through a fixed pool of blocks; initial values and checkpoints go through a mapping. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/trace/trace.h"

#define COPY_BYTES ((uint64_t)4 << 20) /* of one unit of a copy within memory */

struct mscrt_offload {
  uint8_t *host, *disk;          /* mapped; NULL: none */
  uint64_t host_bytes, disk_bytes, block;
  int file;                      /* -1: none */
  uint8_t *room;                 /* MSCRT_DISK_DEPTH blocks */
};

/* ---- the disk ---- */

static const char *folder_of(const mscrt_context *c) {
  return c->o.offload_path ? c->o.offload_path : plan_plan_offload_path(c->plan->root);
}

int mscrt_open_nameless(const char *folder, int *error) {
  static const int direct[] = {O_DIRECT, 0};
  char name[4096];
  int file = -1;
  for (int i = 0; i < 2 && file < 0; i++) file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | direct[i], 0600);
  *error = errno;
  if (file >= 0 || (*error != EOPNOTSUPP && *error != EISDIR && *error != EINVAL)) return file;
  if (snprintf(name, sizeof name, "%s/msc-offload-XXXXXX", folder) >= (int)sizeof name) return -1;
  file = mkostemp(name, O_CLOEXEC);
  *error = errno;
  if (file < 0) return -1;
  unlink(name);
  int flags = fcntl(file, F_GETFL);
  if (flags >= 0) fcntl(file, F_SETFL, flags | O_DIRECT);
  return file;
}

static mscrt_status *open_disk(const mscrt_context *c, mscrt_offload *o) {
  const char *folder = folder_of(c);
  int error;
  o->file = mscrt_open_nameless(folder, &error);
  if (o->file < 0)
    return mscrt_fail(MSCRT_ENVIRONMENT, "offload_path: no file can be made in %s: %s", folder, strerror(error));
  error = posix_fallocate(o->file, 0, (off_t)o->disk_bytes);
  if (error)
    return mscrt_fail(MSCRT_ENVIRONMENT,
                      "offload_path: rank %d needs %" PRIu64 " bytes on the disk of %s: %s", c->o.rank, o->disk_bytes,
                      folder, strerror(error));
  void *at = mmap(NULL, (size_t)o->disk_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, o->file, 0);
  if (at == MAP_FAILED)
    return mscrt_fail(MSCRT_ENVIRONMENT, "offload_path: a file in %s cannot be mapped: %s", folder, strerror(errno));
  o->disk = at;
  o->block = plan_plan_offload_block(c->plan->root);
  if (o->block < MSCRT_DISK_PAGE || o->block % MSCRT_DISK_PAGE || o->block > (uint64_t)1 << 30)
    return mscrt_fail(MSCRT_INPUT, "the plan reads its disk in blocks of %" PRIu64 " bytes", o->block);
  if (posix_memalign((void **)&o->room, MSCRT_DISK_PAGE, (size_t)(MSCRT_DISK_DEPTH * o->block))) {
    o->room = NULL;
    return mscrt_fail(MSCRT_NO_MEMORY, "no memory for %d blocks of %" PRIu64 " bytes", MSCRT_DISK_DEPTH, o->block);
  }
  memset(o->room, 0, (size_t)(MSCRT_DISK_DEPTH * o->block));
  return NULL;
}

/* ---- opening ---- */

mscrt_status *mscrt_offload_open(mscrt_context *c) {
  const uint64_t *bytes = c->plan->stage[c->stage].bytes;
  mscrt_offload *o = NULL;
  bool any = false;
  for (uint32_t i = 0; i < c->plan->num_stages; i++)
    any = any || c->plan->stage[i].bytes[PLAN_SPACE_HOST] || c->plan->stage[i].bytes[PLAN_SPACE_DISK];
  if (!any || !c->device->holds_values) return NULL;
  if (c->o.recover)
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "a plan that offloads does not go on after a rank is lost; it resumes from a checkpoint");
  MSCRT_CHECK(mscrt_new_array(&o, 1));
  c->offload = o;
  *o = (mscrt_offload){.host_bytes = bytes[PLAN_SPACE_HOST], .disk_bytes = bytes[PLAN_SPACE_DISK], .file = -1};
  if (o->host_bytes) {
    void *at = mmap(NULL, (size_t)o->host_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      return mscrt_fail(MSCRT_NO_MEMORY, "no memory of the host for %" PRIu64 " bytes that are offloaded",
                        o->host_bytes);
    o->host = at;
  }
  return o->disk_bytes ? open_disk(c, o) : NULL;
}

void mscrt_offload_free(mscrt_offload *o) {
  if (!o) return;
  if (o->host) munmap(o->host, (size_t)o->host_bytes);
  if (o->disk) munmap(o->disk, (size_t)o->disk_bytes);
  if (o->file >= 0) close(o->file);
  free(o->room);
  free(o);
}

void *mscrt_offload_at(const mscrt_context *c, plan_ref r) {
  return (r.space == PLAN_SPACE_HOST ? c->offload->host : c->offload->disk) + r.offset;
}

void *mscrt_offload_host(const mscrt_context *c, uint64_t *out_bytes) {
  *out_bytes = c->offload ? c->offload->host_bytes : 0;
  return c->offload ? c->offload->host : NULL;
}

void mscrt_drop_disk_pages(const mscrt_context *c, plan_ref r) {
  uint64_t pages = (r.bytes + MSCRT_DISK_PAGE - 1) / MSCRT_DISK_PAGE * MSCRT_DISK_PAGE;
  if (r.space == PLAN_SPACE_DISK && c->offload) madvise(c->offload->disk + r.offset, (size_t)pages, MADV_DONTNEED);
}

mscrt_status *mscrt_offload_file(const mscrt_context *c, int *out_file) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", c->offload->file);
  *out_file = open(name, O_RDWR | O_CLOEXEC);
  if (*out_file >= 0) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "offload_path: a file in %s cannot be opened once more: %s", folder_of(c),
                    strerror(errno));
}

/* ---- transfers ---- */

typedef struct {
  const mscrt_offload *o;
  uint8_t *arena;        /* the address of the value in the arena */
  uint8_t *host;         /* where it lives; NULL: at `offset` of the file */
  uint64_t offset, bytes, unit;
  bool stows;            /* from the arena to where the value lives; else to the arena */
  _Atomic int error;     /* errno */
} moving;

int mscrt_pass_block(int file, bool writes, uint8_t *block, uint64_t bytes, uint64_t offset) {
  for (uint64_t done = 0; done < bytes;) {
    ssize_t n = writes ? pwrite(file, block + done, (size_t)(bytes - done), (off_t)(offset + done))
                       : pread(file, block + done, (size_t)(bytes - done), (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    done += (uint64_t)n;
  }
  return 0;
}

static void move_unit(void *arg, int64_t unit, int worker) {
  moving *m = arg;
  uint64_t at = (uint64_t)unit * m->unit, bytes = m->bytes - at < m->unit ? m->bytes - at : m->unit;
  if (m->host) {
    memcpy(m->stows ? m->host + at : m->arena + at, m->stows ? m->arena + at : m->host + at, (size_t)bytes);
    return;
  }
  uint8_t *block = m->o->room + (uint64_t)worker * m->o->block;
  uint64_t pages = (bytes + MSCRT_DISK_PAGE - 1) / MSCRT_DISK_PAGE * MSCRT_DISK_PAGE;
  if (m->stows) memcpy(block, m->arena + at, (size_t)bytes);
  int error = mscrt_pass_block(m->o->file, m->stows, block, pages, m->offset + at);
  if (!m->stows) memcpy(m->arena + at, block, (size_t)bytes);
  if (error) atomic_store(&m->error, error);
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
  moving m = {.o = c->offload,
              .arena = mscrt_buffer_in_slots(r, !stows, t->slots),
              .host = away.space == PLAN_SPACE_HOST ? c->offload->host + away.offset : NULL,
              .offset = away.offset,
              .bytes = away.bytes,
              .stows = stows};
  (void)released;
  int64_t begin = mscrt_timeline_now(c->timeline);
  m.unit = m.host ? COPY_BYTES : c->offload->block;
  mscrt_pool_run(pool, move_unit, &m, (int64_t)((m.bytes + m.unit - 1) / m.unit));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_TRANSFER, t, begin);
  int error = atomic_load(&m.error);
  if (!error) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "rank %d: step %" PRId64 ": %s cannot be %s in %s: %s", c->o.rank, t->step,
                    r->name ? r->name : "a value", stows ? "written to the file" : "read from the file",
                    folder_of(c), strerror(error));
}

mscrt_status *mscrt_start_mover(mscrt_context *c) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    if (c->section[i].num_transfers > most) most = c->section[i].num_transfers;
  if (!most || c->device->runs_transfers) return NULL;
  if (c->device->transfer) return mscrt_stream_new(c, false, most, 1, run_device_transfer, &c->mover);
  if (!c->offload) return NULL;
  return mscrt_stream_new(c, false, most, c->offload->disk ? MSCRT_DISK_DEPTH : 1, run_transfer, &c->mover);
}
