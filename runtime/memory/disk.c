/* disk.c: a folder in; a file without a name for values that do not fit in memory, and the transfer of a value from and
 * to it, or to memory of the host, out.
 *
 * The file has no name once it is open, so nothing is left behind whatever ends the process, and all its bytes are
 * reserved then, so no step finds the disk full. Values are read and written past the page cache where the file system
 * can: from and to where they lie if the disk takes such addresses, else through a fixed pool of blocks. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/comm/comm.h"
#include "runtime/memory/memory.h"

#define SLICE_NS   100000                /* the shortest time slice that the operating system accepts */
#define COPY_BYTES ((uint64_t)64 << 10) /* bytes of one unit of a copy within memory */

/* Opens a file without a name in a folder, past the page cache where the file system can; -1 with errno in *error. */
static int open_nameless(const char *folder, int *error) {
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

/* Finds the least alignment of addresses from which the file can be written: that of buffers of a plan, of sectors, or
 * of pages. `room` holds two pages. The test writes zeros to the file's first page, because a read of a page that was
 * never written would succeed at any address. */
static uint64_t find_alignment(int file, uint8_t *room) {
  static const uint64_t candidate[] = {MSC_POOL_LINE, MSC_SECTOR};
  memset(room, 0, 2 * MSCRT_DISK_PAGE);
  for (size_t i = 0; i < sizeof candidate / sizeof *candidate; i++)
    if (pwrite(file, room + candidate[i], MSCRT_DISK_PAGE, 0) == MSCRT_DISK_PAGE) return candidate[i];
  return MSCRT_DISK_PAGE;
}

mscrt_status *mscrt_disk_open(const char *folder, uint64_t bytes, uint64_t block, mscrt_disk *out_disk) {
  int error;
  *out_disk = (mscrt_disk){.file = -1, .block = block};
  out_disk->file = open_nameless(folder, &error);
  if (out_disk->file >= 0) error = posix_fallocate(out_disk->file, 0, (off_t)bytes);
  if (out_disk->file < 0 || error)
    return mscrt_fail(MSCRT_ENVIRONMENT, "no file of %" PRIu64 " bytes can be made in %s: %s", bytes, folder,
                      strerror(error));
  if (posix_memalign((void **)&out_disk->room, MSCRT_DISK_PAGE, (size_t)(MSCRT_DISK_DEPTH * block))) {
    out_disk->room = NULL;
    return mscrt_fail(MSCRT_NO_MEMORY, "no memory for %d blocks of %" PRIu64 " bytes", MSCRT_DISK_DEPTH, block);
  }
  out_disk->align = find_alignment(out_disk->file, out_disk->room);
  return NULL;
}

void mscrt_disk_close(mscrt_disk *d) {
  if (d->file >= 0) close(d->file);
  free(d->room);
  *d = (mscrt_disk){.file = -1};
}

/* ---- transfers ---- */

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

/* One transfer while it runs. */
typedef struct {
  const mscrt_value_transfer *m;
  uint64_t unit;
  _Atomic int error; /* errno */
} moving;

static void copy_unit(const mscrt_value_transfer *m, uint64_t at, size_t bytes) {
  if (!m->stows) memcpy(m->arena + at, m->host + at, bytes);
  else if (m->past_caches) mscrt_copy_past_caches(m->host + at, m->arena + at, bytes);
  else memcpy(m->host + at, m->arena + at, bytes);
}

static void move_unit(void *arg, int64_t unit, int worker) {
  moving *k = arg;
  const mscrt_value_transfer *m = k->m;
  uint64_t at = (uint64_t)unit * k->unit, bytes = m->bytes - at < k->unit ? m->bytes - at : k->unit;
  if (m->host) {
    copy_unit(m, at, (size_t)bytes);
    return;
  }
  const mscrt_disk *d = m->disk;
  uint8_t *value = m->arena + at, *block = d->room + (uint64_t)worker * d->block;
  uint64_t direct = (uintptr_t)value % d->align ? 0 : bytes / MSCRT_DISK_PAGE * MSCRT_DISK_PAGE, rest = bytes - direct,
           pages = (rest + MSCRT_DISK_PAGE - 1) / MSCRT_DISK_PAGE * MSCRT_DISK_PAGE;
  int error = mscrt_pass_block(d->file, m->stows, value, direct, m->offset + at);
  if (m->stows && rest) memcpy(block, value + direct, (size_t)rest);
  if (!error) error = mscrt_pass_block(d->file, m->stows, block, pages, m->offset + at + direct);
  if (!m->stows && rest) memcpy(value + direct, block, (size_t)rest);
  if (error) atomic_store(&k->error, error);
}

/* Attributes of a thread, as the kernel takes them. */
typedef struct {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
} thread_attributes;

/* A thread that mostly waits for a disk has a short slice: then it runs as soon as it is woken (Linux 6.12), also where
 * all cores compute. Others keep the slice that they have. */
void mscrt_shorten_slice(void *unused) {
  thread_attributes a = {.size = sizeof a, .runtime = SLICE_NS};
  (void)unused;
  a.nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
  syscall(SYS_sched_setattr, 0, &a, 0);
}

int mscrt_move_value(mscrt_pool *pool, const mscrt_value_transfer *m) {
  moving k = {.m = m, .unit = m->host ? COPY_BYTES : m->disk->block};
  mscrt_pool_run(pool, move_unit, &k, (int64_t)((m->bytes + k.unit - 1) / k.unit));
  return atomic_load(&k.error);
}
