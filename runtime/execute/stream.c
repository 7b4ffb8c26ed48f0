/* stream.c: runs collectives, or transfers, in a thread of their own, one after the other, in the order in which they
 * were started. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/execute/execute.h"
#include "runtime/subnormal.h"
#include "runtime/wait.h"

#define SPIN_NS 50000

struct mscrt_stream {
  mscrt_context *c;
  mscrt_pool_start *start; /* NULL: nothing */
  mscrt_stream_runner *run;
  mscrt_pool *pool;              /* the thread of the stream is its first */
  pthread_t thread;
  bool running, spin;
  mscrt_execution *queue;        /* by number - 1 of the calls of the running section */
  uint32_t released;             /* the same as in mscrt_context, for this thread */
  _Alignas(64) _Atomic uint32_t started; /* calls started so far: the thread sleeps on it */
  _Atomic uint32_t thread_sleeps;
  _Alignas(64) _Atomic uint32_t ended; /* calls ended so far: the caller sleeps on it */
  _Atomic uint32_t caller_sleeps;
  uint32_t before;               /* started before this section */
  mscrt_status *status;          /* status of the first failure */
  _Atomic bool failed, stop;
};

static bool changed_soon(const mscrt_stream *s, _Atomic uint32_t *word, uint32_t seen) {
  int64_t end = s->spin ? mscrt_now_ns() + SPIN_NS : 0;
  while (s->spin && mscrt_now_ns() < end)
    for (int i = 0; i < 64; i++) {
      if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
      mscrt_pause();
    }
  return atomic_load(word) != seen;
}

static void sleep_on(mscrt_stream *s, _Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *sleeps) {
  if (changed_soon(s, word, seen)) return;
  atomic_store(sleeps, 1);
  if (atomic_load(word) == seen) mscrt_futex_wait(word, seen, -1, false);
  atomic_store(sleeps, 0);
}

static void add_and_wake(_Atomic uint32_t *word, _Atomic uint32_t *sleeps) {
  atomic_fetch_add(word, 1);
  if (atomic_load(sleeps)) mscrt_futex_wake(word, 1, false);
}

static void run_execution(mscrt_stream *s, const mscrt_execution *t) {
  if (t->number == 1) s->released = 0;
  if (atomic_load(&s->failed)) return;
  mscrt_status *status = s->run(s->c, s->pool, t, &s->released);
  if (!status) return;
  s->status = status;
  atomic_store(&s->failed, true);
}

static void *stream_main(void *arg) {
  mscrt_stream *s = arg;
  mscrt_flush_subnormal();
  if (s->start) s->start(NULL);
  for (uint32_t ended = 0;; ended++) {
    while (atomic_load(&s->started) == ended && !atomic_load(&s->stop))
      sleep_on(s, &s->started, ended, &s->thread_sleeps);
    if (atomic_load(&s->stop)) return NULL;
    run_execution(s, &s->queue[ended - s->before]);
    add_and_wake(&s->ended, &s->caller_sleeps);
  }
}

void mscrt_stream_start(mscrt_stream *s, const mscrt_execution *t) {
  if (t->number == 1) s->before = atomic_load(&s->started); /* all have ended, so the thread does not read it */
  s->queue[t->number - 1] = *t;
  add_and_wake(&s->started, &s->thread_sleeps);
}

mscrt_status *mscrt_stream_wait(mscrt_stream *s, uint32_t upto) {
  for (uint32_t ended; (int32_t)((ended = atomic_load(&s->ended)) - (s->before + upto)) < 0;)
    sleep_on(s, &s->ended, ended, &s->caller_sleeps);
  if (!atomic_load(&s->failed)) return NULL;
  mscrt_status *status = s->status;
  s->status = NULL;
  return status ? mscrt_add_to_trail(status, __FILE__, __LINE__)
                : mscrt_fail(MSCRT_ENVIRONMENT, "a collective or transfer failed before");
}

void mscrt_stream_stop(mscrt_stream *s) {
  atomic_store(&s->failed, true);
  for (uint32_t ended, started = atomic_load(&s->started); (ended = atomic_load(&s->ended)) != started;)
    sleep_on(s, &s->ended, ended, &s->caller_sleeps);
}

mscrt_status *mscrt_stream_new(mscrt_context *c, bool spin, uint32_t most, int threads, mscrt_pool_start *start,
                               mscrt_stream_runner *run, mscrt_stream **out_stream) {
  mscrt_stream *s = NULL;
  mscrt_status *status = NULL;
  *out_stream = NULL;
  if (posix_memalign((void **)&s, 64, sizeof *s)) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  *s = (mscrt_stream){.c = c, .spin = spin, .start = start, .run = run};
  status = mscrt_new_array(&s->queue, most + 1);
  if (!status) status = mscrt_pool_new(threads, false, start, NULL, &s->pool);
  int error = status ? 0 : pthread_create(&s->thread, NULL, stream_main, s);
  if (error)
    status = mscrt_fail(MSCRT_ENVIRONMENT, "cannot start a thread for collectives or transfers (error %d)", error);
  s->running = !status;
  if (status) mscrt_stream_free(s);
  else *out_stream = s;
  return status;
}

void mscrt_stream_free(mscrt_stream *s) {
  if (!s) return;
  atomic_store(&s->stop, true);
  if (s->running) {
    atomic_fetch_add(&s->started, 1);
    mscrt_futex_wake(&s->started, 1, false);
    pthread_join(s->thread, NULL);
  }
  mscrt_pool_free(s->pool);
  mscrt_status_free(s->status);
  free(s->queue);
  free(s);
}
