/* thread_pool.c: the threads of one rank. Work is cut into numbered units before it comes here, so results do not
 * depend on the number of threads, nor on which thread does a unit. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/subnormal.h"
#include "runtime/thread_pool.h"
#include "runtime/wait.h"

#define SPIN_NS 50000     /* a sleeping thread takes 5 .. 12 us to wake: longer than most pauses between calls */
#define CLOSED UINT32_MAX

typedef struct {
  mscrt_pool *pool;
  pthread_t thread;
  int number;
} worker;

struct mscrt_pool {
  int threads, started;
  bool spin;
  mscrt_pool_start *start;
  void *start_arg;
  worker *worker;
  /* High half: number of the job; low half: its next unit, CLOSED while the job is being written. */
  _Alignas(64) _Atomic uint64_t cursor;
  _Atomic(mscrt_work *) fn;
  _Atomic(void *) arg;
  _Atomic uint32_t units;
  _Alignas(64) _Atomic uint32_t done;    /* units of this job that are finished */
  _Atomic uint32_t caller_sleeps;
  _Alignas(64) _Atomic uint32_t job;     /* changes with every job: workers sleep on it */
  _Atomic uint32_t sleepers;
  _Atomic bool stop;
};

/* Claims the next unit of the job for this thread; false if there is none or another job has begun. The exchange
 * succeeds only if the cursor did not change since it was read, so fn, arg and units belong to this job. */
static bool claim_unit(mscrt_pool *p, uint32_t job, mscrt_work **fn, void **arg, uint32_t *unit, uint32_t *units) {
  uint64_t c = atomic_load_explicit(&p->cursor, memory_order_acquire);
  for (;;) {
    if ((uint32_t)(c >> 32) != job || (uint32_t)c == CLOSED) return false;
    *units = atomic_load_explicit(&p->units, memory_order_acquire);
    *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
    *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
    *unit = (uint32_t)c;
    if (*unit >= *units) return false;
    if (atomic_compare_exchange_weak_explicit(&p->cursor, &c, c + 1, memory_order_acq_rel, memory_order_acquire))
      return true;
  }
}

static void run_units_of_job(mscrt_pool *p, uint32_t job, int number) {
  mscrt_work *fn;
  void *arg;
  uint32_t unit, units;
  while (claim_unit(p, job, &fn, &arg, &unit, &units)) {
    fn(arg, unit, number);
    if (atomic_fetch_add(&p->done, 1) + 1 == units && atomic_load(&p->caller_sleeps))
      mscrt_futex_wake(&p->done, 1, false);
  }
}

static bool spin_until_job(mscrt_pool *p, uint32_t seen) {
  int64_t end = mscrt_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 64; i++) {
      if (atomic_load_explicit(&p->job, memory_order_acquire) != seen) return true;
      mscrt_pause();
    }
  } while (mscrt_now_ns() < end);
  return false;
}

static void *worker_main(void *arg) {
  worker *w = arg;
  mscrt_pool *p = w->pool;
  mscrt_flush_subnormal();
  if (p->start) p->start(p->start_arg);
  for (uint32_t seen = 0;;) {
    if (!p->spin || !spin_until_job(p, seen)) {
      atomic_fetch_add(&p->sleepers, 1);
      while (atomic_load(&p->job) == seen) mscrt_futex_wait(&p->job, seen, -1, false);
      atomic_fetch_sub(&p->sleepers, 1);
    }
    if (atomic_load(&p->stop)) return NULL;
    seen = atomic_load(&p->job);
    run_units_of_job(p, seen, w->number);
  }
}

/* Waits until the last unit is done. */
static void wait_done(mscrt_pool *p, uint32_t units) {
  int64_t end = p->spin ? mscrt_now_ns() + SPIN_NS : 0;
  for (uint32_t done; (done = atomic_load(&p->done)) != units;) {
    if (p->spin && mscrt_now_ns() < end) {
      /* one pause may last 140 cycles */
      for (int i = 0; i < 32 && atomic_load_explicit(&p->done, memory_order_relaxed) != units; i++) mscrt_pause();
      continue;
    }
    atomic_store(&p->caller_sleeps, 1);
    if (atomic_load(&p->done) == done) mscrt_futex_wait(&p->done, done, -1, false);
    atomic_store(&p->caller_sleeps, 0);
  }
}

void mscrt_pool_run(mscrt_pool *p, mscrt_work *fn, void *arg, int64_t units) {
  if (p->threads == 1 || units <= 1 || units >= CLOSED) {
    for (int64_t i = 0; i < units; i++) fn(arg, i, 0);
    return;
  }
  uint32_t job = atomic_load_explicit(&p->job, memory_order_relaxed) + 1;
  atomic_store(&p->cursor, (uint64_t)job << 32 | CLOSED);
  atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
  atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
  atomic_store_explicit(&p->done, 0, memory_order_relaxed);
  atomic_store_explicit(&p->units, (uint32_t)units, memory_order_release);
  atomic_store(&p->cursor, (uint64_t)job << 32);
  atomic_store(&p->job, job);
  if (atomic_load(&p->sleepers)) mscrt_futex_wake(&p->job, units - 1 < p->threads ? (int)units - 1 : INT_MAX, false);
  run_units_of_job(p, job, 0);
  wait_done(p, (uint32_t)units);
}

mscrt_status *mscrt_pool_new(int threads, bool spin, mscrt_pool_start *start, void *start_arg, mscrt_pool **out_pool) {
  mscrt_pool *p = NULL;
  if (posix_memalign((void **)&p, 64, sizeof *p)) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  *p = (mscrt_pool){.threads = threads, .spin = spin, .start = start, .start_arg = start_arg};
  p->worker = calloc((size_t)threads, sizeof *p->worker);
  *out_pool = p;
  for (int i = 1; p->worker && i < threads; i++) {
    worker *w = &p->worker[i];
    *w = (worker){.pool = p, .number = i};
    int error = pthread_create(&w->thread, NULL, worker_main, w);
    if (error) {
      mscrt_pool_free(p);
      *out_pool = NULL;
      return mscrt_fail(MSCRT_ENVIRONMENT, "cannot start thread %d of %d (error %d)", i + 1, threads, error);
    }
    p->started = i;
  }
  if (p->worker) return NULL;
  free(p);
  *out_pool = NULL;
  return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
}

void mscrt_pool_free(mscrt_pool *p) {
  if (!p) return;
  atomic_store(&p->stop, true);
  atomic_fetch_add(&p->job, 1);
  mscrt_futex_wake(&p->job, INT_MAX, false);
  for (int i = 1; i <= p->started; i++) pthread_join(p->worker[i].thread, NULL);
  free(p->worker);
  free(p);
}

/* ---- how many threads ---- */

/* The limit of a container: quota and period of its control group; 0: none. */
static int cpu_quota_of(const char *path) {
  FILE *f = fopen(path, "re");
  long long quota = 0, period = 0;
  if (!f) return 0;
  int n = fscanf(f, "%lld %lld", &quota, &period);
  fclose(f);
  return n == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int mscrt_cores(void) {
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  int quota = cpu_quota_of("/sys/fs/cgroup/cpu.max");
  if (quota > 0 && quota < cores) cores = quota;
  return cores > 0 ? cores : 1;
}

/* sysconf returns the sum over all caches of a socket; only the files of the kernel have the size of one. */
uint64_t mscrt_cache_bytes(void) {
  uint64_t most = 0;
  for (int i = 0; i < 5; i++) {
    char path[64];
    unsigned long long kilo = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    FILE *f = fopen(path, "re");
    if (!f) continue;
    if (fscanf(f, "%lluK", &kilo) == 1 && kilo << 10 > most) most = kilo << 10;
    fclose(f);
  }
  return most ? most : (uint64_t)8 << 20;
}
