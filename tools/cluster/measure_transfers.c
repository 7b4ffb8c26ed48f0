/* measure_transfers.c: a folder in; the speed of transfers of offloaded values, to memory of this host and to a file in
 * the folder, out. Transfers are those of runtime/memory/offload.c: copies within memory, and blocks of a file, some of
 * them under way at a time. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/abi/clock.h"
#include "runtime/memory/memory.h"
#include "runtime/thread_pool.h"
#include "tools/cluster/measure.h"
#include "tools/run/start_ranks.h"
#include "tools/status.h"

enum { BLOCK = 4 << 20, WINDOWS = 3 };
static const int64_t AREA = (int64_t)256 << 20, QUICK_AREA = (int64_t)64 << 20;

/* What ranks share: nanoseconds of each for a whole area. */
typedef struct {
  pthread_barrier_t barrier;
  double host_ns[MEASURE_MAX_RANKS], disk_ns[MEASURE_MAX_RANKS];
} board;

typedef struct {
  cli *c;
  const measured *m;
  const char *folder; /* NULL: no disk is measured */
  int64_t bytes;
  board *board;
} measuring;

/* An area in memory, and where it lives: in memory too, or in a file. */
typedef struct {
  uint8_t *at, *host;
  uint8_t *room; /* a block of each thread */
  int file;
  int64_t bytes;
  bool stows;
  _Atomic int error;
} moving;

static void move_block(void *arg, int64_t i, int worker) {
  moving *m = arg;
  int64_t at = i * BLOCK, bytes = m->bytes - at < BLOCK ? m->bytes - at : BLOCK;
  if (m->host) {
    memcpy(m->stows ? m->host + at : m->at + at, m->stows ? m->at + at : m->host + at, (size_t)bytes);
    return;
  }
  uint8_t *block = m->room + (int64_t)worker * BLOCK;
  if (m->stows) memcpy(block, m->at + at, (size_t)bytes);
  int error = mscrt_pass_block(m->file, m->stows, block, (uint64_t)bytes, (uint64_t)at);
  if (!m->stows) memcpy(m->at + at, block, (size_t)bytes);
  if (error) m->error = error;
}

/* Nanoseconds in which all ranks move the area there and back, halved: the best of some windows. */
static double time_moves(const measuring *g, mscrt_pool *pool, moving *m) {
  double best = 0;
  for (int w = 0; w <= WINDOWS; w++) {
    pthread_barrier_wait(&g->board->barrier);
    double begin = (double)msc_clock_ns();
    for (int back = 0; back < 2; back++) {
      m->stows = !back;
      mscrt_pool_run(pool, move_block, m, (m->bytes + BLOCK - 1) / BLOCK);
    }
    double ns = ((double)msc_clock_ns() - begin) / 2;
    if (w && (w == 1 || ns < best)) best = ns; /* the first touches all memory */
  }
  return best;
}

static mscrt_status *measure_disk(const measuring *g, int rank, mscrt_pool *alone, moving *m) {
  mscrt_pool *pool = NULL;
  int error;
  mscrt_status *s = NULL;
  m->host = NULL;
  m->file = mscrt_open_nameless(g->folder, &error);
  if (m->file >= 0) error = posix_fallocate(m->file, 0, (off_t)m->bytes);
  if (m->file < 0 || error)
    s = mscrt_fail(MSCRT_ENVIRONMENT, "--offload-path: no file of %" PRId64 " bytes can be made in %s: %s", m->bytes,
                   g->folder, strerror(error));
  if (!s) s = mscrt_pool_new(MSCRT_DISK_DEPTH, false, NULL, NULL, &pool);
  moving none = {.host = m->at, .at = m->at}; /* the others wait for this rank at each barrier all the same */
  g->board->disk_ns[rank] = time_moves(g, s ? alone : pool, s ? &none : m);
  if (!s && m->error)
    s = mscrt_fail(MSCRT_ENVIRONMENT, "--offload-path: a file in %s: %s", g->folder, strerror(m->error));
  mscrt_pool_free(pool);
  if (m->file >= 0) close(m->file);
  return s;
}

static uint8_t *map_area(int64_t bytes) {
  void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

static int measure_rank(void *arg, int rank, const launcher_line *line) {
  measuring *g = arg;
  uint8_t *area = map_area(2 * g->bytes + MSCRT_DISK_DEPTH * BLOCK);
  mscrt_pool *pool = NULL;
  mscrt_status *s = area ? mscrt_pool_new(1, false, NULL, NULL, &pool) : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  if (s) return status_of_rank(g->c, line, MSC_E_TARGET, s);
  moving m = {.at = area, .host = area + g->bytes, .room = area + 2 * g->bytes, .bytes = g->bytes};
  g->board->host_ns[rank] = time_moves(g, pool, &m);
  if (g->folder) s = measure_disk(g, rank, pool, &m);
  mscrt_pool_free(pool);
  return s ? status_of_rank(g->c, line, MSC_E_TARGET, s) : CLI_OK;
}

static double slowest(const double *ns, int ranks) {
  double most = 1;
  for (int r = 0; r < ranks; r++) most = ns[r] > most ? ns[r] : most;
  return most;
}

int measure_transfers(cli *c, const char *folder, measured *m) {
  pthread_barrierattr_t shared;
  measuring g = {.c = c, .m = m, .folder = folder, .bytes = m->quick ? QUICK_AREA : AREA};
  while (g.bytes > m->memory_bytes / 16 && g.bytes > BLOCK) g.bytes /= 2;
  g.board = mmap(NULL, sizeof *g.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (g.board == MAP_FAILED) {
    msc_error(c->ctx, MSC_E_OUT_OF_MEMORY, NULL, "out of memory");
    return CLI_ENVIRONMENT;
  }
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&g.board->barrier, &shared, (unsigned)m->ranks);
  int code = start_ranks(c, &(ranks_job){.ranks = m->ranks, .fn = measure_rank, .arg = &g});
  if (!code) {
    m->host_bytes_per_s = (double)g.bytes / slowest(g.board->host_ns, m->ranks) * 1e9;
    if (folder) m->disk_bytes_per_s = (double)g.bytes / slowest(g.board->disk_ns, m->ranks) * 1e9;
  }
  munmap(g.board, sizeof *g.board);
  return code;
}
