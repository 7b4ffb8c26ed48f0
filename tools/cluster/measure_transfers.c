/* measure_transfers.c: a folder in; the speed of transfers of offloaded values, to memory of this host and to a file in
 * the folder, out. They are those of runtime/memory/disk.c, of values as large as a layer's, fetched and taken back by
 * turns. In a step some run beside calls, and calls wait for others: the mean of both is taken, of times while the
 * threads of the rank multiply and while they do nothing. Where no core is left beside these threads they copy within
 * the host's memory themselves, and nothing else runs meanwhile. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/abi/clock.h"
#include "passes/cluster.h"
#include "runtime/memory/memory.h"
#include "tools/cluster/measure.h"
#include "tools/run/start_ranks.h"
#include "tools/status.h"

enum { VALUE = 1 << 20, BLOCK = 4 << 20, WINDOWS = 3 };
static const int64_t AREA = (int64_t)256 << 20, QUICK_AREA = (int64_t)64 << 20;

/* What ranks share: nanoseconds of each for a transfer. */
typedef struct {
  pthread_barrier_t barrier;
  double host_ns[MEASURE_MAX_RANKS], disk_ns[MEASURE_MAX_RANKS];
} board;

typedef struct {
  cli *c;
  const measured *m;
  const char *folder;  /* NULL: no disk is measured */
  int64_t bytes;       /* of the area that is moved */
  const void *product; /* a plan, of so many bytes */
  size_t product_bytes;
  board *board;
} measuring;

/* ---- products beside transfers ---- */

typedef struct {
  mscrt_plan *plan;
  mscrt_context *ctx;
  pthread_t thread;
  bool running;
  _Atomic bool stop;
} multiplier;

static void *multiply(void *arg) {
  multiplier *x = arg;
  while (!atomic_load(&x->stop)) mscrt_status_free(mscrt_run(x->ctx, "forward", 1, NULL));
  return NULL;
}

static mscrt_status *open_multiplier(const measuring *g, multiplier *x) {
  mscrt_plan_options trust = {.struct_size = sizeof trust, .trust_native = true};
  mscrt_options o = {.struct_size = sizeof o, .threads = g->m->threads, .cores = g->m->cores};
  mscrt_status *s = mscrt_plan_open(g->product, g->product_bytes, &trust, &x->plan);
  if (!s) s = mscrt_open(x->plan, &o, &x->ctx);
  return s ? s : mscrt_run(x->ctx, "forward", 1, NULL); /* a failure is told here, not in the thread */
}

static void start_multiplying(multiplier *x) {
  atomic_store(&x->stop, false);
  x->running = !pthread_create(&x->thread, NULL, multiply, x);
}

static void stop_multiplying(multiplier *x) {
  atomic_store(&x->stop, true);
  if (x->running) pthread_join(x->thread, NULL);
  x->running = false;
}

static void close_multiplier(multiplier *x) {
  stop_multiplying(x);
  mscrt_close(x->ctx);
  mscrt_plan_close(x->plan);
}

/* ---- transfers ---- */

static int order_of_times(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Nanoseconds of a transfer while all ranks move their areas there and back: the median of some windows. */
static double time_windows(const measuring *g, mscrt_pool *pool, mscrt_value_transfer m, int *error) {
  uint8_t *area = m.arena, *host = m.host;
  int64_t num = g->bytes / VALUE;
  double ns[WINDOWS];
  for (int w = -1; w < WINDOWS; w++) { /* the first touches all memory */
    pthread_barrier_wait(&g->board->barrier);
    double begin = (double)msc_clock_ns();
    for (int64_t i = 0; i < 2 * num && !*error; i++) {
      m.stows = i % 2 == 0;
      m.arena = area + i / 2 * VALUE, m.host = host ? host + i / 2 * VALUE : NULL, m.offset = (uint64_t)(i / 2 * VALUE);
      *error = mscrt_move_value(pool, &m);
    }
    if (w >= 0) ns[w] = ((double)msc_clock_ns() - begin) / (double)(2 * num);
  }
  qsort(ns, WINDOWS, sizeof *ns, order_of_times);
  return ns[WINDOWS / 2];
}

/* The mean of transfers beside products and alone.  *out_error: errno of the first failure. */
static double time_transfers(const measuring *g, mscrt_pool *pool, multiplier *x, const mscrt_value_transfer *m,
                             int *out_error) {
  *out_error = 0;
  double alone = time_windows(g, pool, *m, out_error);
  start_multiplying(x);
  double beside = time_windows(g, pool, *m, out_error);
  stop_multiplying(x);
  return (alone + beside) / 2;
}

static mscrt_status *time_disk(const measuring *g, int rank, mscrt_pool *alone, multiplier *x, mscrt_value_transfer m) {
  mscrt_pool *pool = NULL;
  mscrt_disk disk;
  int error;
  mscrt_status *s = mscrt_disk_open(g->folder, (uint64_t)g->bytes, BLOCK, &disk);
  if (!s) s = mscrt_pool_new(MSCRT_DISK_DEPTH, false, mscrt_shorten_slice, NULL, &pool);
  if (!s) m.disk = &disk, m.host = NULL; /* else the others wait for this rank at each barrier all the same */
  g->board->disk_ns[rank] = time_transfers(g, s ? alone : pool, x, &m, &error);
  if (!s && error) s = mscrt_fail(MSCRT_ENVIRONMENT, "a file in %s: %s", g->folder, strerror(error));
  mscrt_pool_free(pool);
  mscrt_disk_close(&disk);
  return s ? mscrt_add_prefix(s, "--offload-path") : NULL;
}

static int measure_rank(void *arg, int rank, const launcher_line *line) {
  measuring *g = arg;
  size_t bytes = 2 * (size_t)g->bytes;
  void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mscrt_pool *pool = NULL;
  multiplier x = {0};
  int error = 0, threads = g->m->threads;
  bool beside = mscrt_has_idle_core(threads, g->m->ranks, g->m->cores);
  mscrt_status *s = area == MAP_FAILED ? mscrt_fail(MSCRT_NO_MEMORY, "out of memory")
                                       : mscrt_pool_new(beside ? 1 : threads, !beside, NULL, NULL, &pool);
  if (!s) s = open_multiplier(g, &x);
  if (!s) {
    madvise(area, bytes, MADV_HUGEPAGE); /* as an arena is, and what is offloaded */
    mscrt_shorten_slice(NULL);
    mscrt_value_transfer m = {.arena = area, .host = (uint8_t *)area + g->bytes, .bytes = VALUE};
    g->board->host_ns[rank] = beside ? time_transfers(g, pool, &x, &m, &error) : time_windows(g, pool, m, &error);
    if (g->folder) s = time_disk(g, rank, pool, &x, m);
  }
  close_multiplier(&x);
  mscrt_pool_free(pool);
  return s ? status_of_rank(g->c, line, MSC_E_TARGET, s) : CLI_OK;
}

static double slowest(const double *ns, int ranks) {
  double most = 1;
  for (int r = 0; r < ranks; r++) most = ns[r] > most ? ns[r] : most;
  return most;
}

/* Bytes per second behind what a transfer takes however short it is, as passes/8_memory/homes.c counts them. */
static double bytes_per_s(double ns, double fixed_ns) {
  return VALUE * 1e9 / (ns > 2 * fixed_ns ? ns - fixed_ns : ns / 2);
}

int measure_transfers(cli *c, const char *folder, measured *m) {
  pthread_barrierattr_t shared;
  measuring g = {.c = c, .m = m, .folder = folder, .bytes = m->quick ? QUICK_AREA : AREA};
  while (g.bytes > m->memory_bytes / 16 && g.bytes > BLOCK) g.bytes /= 2;
  g.product = measure_compile_product(c, m, &g.product_bytes);
  if (!g.product) return CLI_ENVIRONMENT;
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
    m->host_bytes_per_s = bytes_per_s(slowest(g.board->host_ns, m->ranks), m->launch_ns);
    if (folder) m->disk_bytes_per_s = bytes_per_s(slowest(g.board->disk_ns, m->ranks), MSC_DISK_NS);
  }
  munmap(g.board, sizeof *g.board);
  return code;
}
