/* ranks.c: several ranks of a job that live in one process, and whole batches, in; steps that all of these ranks do at
 * the same time, by one call, out. */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/context.h"
#include "runtime/wait.h"

#define SPIN_NS     50000 /* as threads of a pool wait */
#define SMALL_BYTES 65536 /* of all ranks together, which one thread copies sooner than it wakes the others */

typedef mscrt_status *part_of_rank(const mscrt_ranks *r, mscrt_context *c, double *out_loss);

/* A rank and its thread, which does its part of every call, on the values that its core's cache may have. */
typedef struct {
  _Alignas(64) mscrt_ranks *all;
  mscrt_context *context;
  pthread_t thread; /* of rank 0: none, the caller's */
  mscrt_status *status;
  double loss;
} one_rank;

struct mscrt_ranks {
  int num, started, process;
  bool spin; /* each thread has a core of its own */
  one_rank *rank;
  /* what the call under way does */
  part_of_rank *part;
  const char *section;
  int64_t steps;
  size_t num_batches;
  const mscrt_batch *batch;
  _Alignas(64) _Atomic uint32_t call; /* changes with every call: threads sleep on it */
  _Atomic uint32_t sleepers;
  _Atomic bool stop;
  mscrt_patience for_call;
  _Alignas(64) _Atomic uint32_t done; /* threads that have done their part */
  _Atomic uint32_t caller_sleeps;
  mscrt_patience for_done;
};

/* Waits until the word is no longer `seen`: busily for a moment where that pays, then asleep, which *sleepers tells. */
static void wait_for_change(const mscrt_ranks *r, _Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *sleepers,
                            mscrt_patience *patience) {
  if (r->spin && mscrt_may_spin(patience)) {
    int64_t end = mscrt_now_ns() + SPIN_NS;
    bool changed = false;
    do
      for (int i = 0; i < 32 && !changed; i++) {
        changed = atomic_load_explicit(word, memory_order_acquire) != seen;
        if (!changed) mscrt_pause();
      }
    while (!changed && mscrt_now_ns() < end);
    mscrt_note_spin(patience, changed);
    if (changed) return;
  }
  atomic_fetch_add(sleepers, 1);
  while (atomic_load(word) == seen) mscrt_futex_wait(word, seen, -1, false);
  atomic_fetch_sub(sleepers, 1);
}

static void *serve_rank(void *arg) {
  one_rank *o = arg;
  mscrt_ranks *r = o->all;
  for (uint32_t seen = 0;;) {
    wait_for_change(r, &r->call, seen, &r->sleepers, &r->for_call);
    if (atomic_load(&r->stop)) return NULL;
    seen = atomic_load(&r->call);
    o->status = r->part(r, o->context, &o->loss);
    if (atomic_fetch_add(&r->done, 1) + 2 == (uint32_t)r->num && atomic_load(&r->caller_sleeps))
      mscrt_futex_wake(&r->done, 1, false);
  }
}

/* Does the part of every rank, each in its thread, and returns when all are done. */
static void run_on_all(mscrt_ranks *r, part_of_rank *part) {
  uint32_t others = (uint32_t)r->num - 1;
  r->part = part;
  atomic_store(&r->done, 0);
  atomic_fetch_add(&r->call, 1);
  if (atomic_load(&r->sleepers)) mscrt_futex_wake(&r->call, INT_MAX, false);
  r->rank[0].status = part(r, r->rank[0].context, &r->rank[0].loss);
  for (uint32_t done; (done = atomic_load(&r->done)) != others;)
    wait_for_change(r, &r->done, done, &r->caller_sleeps, &r->for_done);
}

static mscrt_status *set_inputs(const mscrt_ranks *r, mscrt_context *c, double *out_loss) {
  (void)out_loss;
  for (size_t i = 0; i < r->num_batches; i++)
    MSCRT_CHECK(mscrt_borrow_input(c, r->batch[i].input, r->batch[i].data, r->batch[i].bytes));
  return NULL;
}

static mscrt_status *run_section(const mscrt_ranks *r, mscrt_context *c, double *out_loss) {
  return mscrt_run(c, r->section, r->steps, out_loss);
}

static mscrt_status *check_contexts(int num, mscrt_context *const *contexts) {
  if (num < 1) return mscrt_fail(MSCRT_ARGUMENT, "%d ranks", num);
  for (int i = 0; i < num; i++) {
    MSCRT_NEEDS(contexts[i]);
    MSCRT_CHECK(mscrt_check_process(contexts[i]));
    if (contexts[i]->plan->hash != contexts[0]->plan->hash)
      return mscrt_fail(MSCRT_ARGUMENT, "ranks %d and %d have different plans", contexts[0]->o.rank,
                        contexts[i]->o.rank);
    for (int j = 0; j < i; j++)
      if (contexts[i]->o.rank == contexts[j]->o.rank)
        return mscrt_fail(MSCRT_ARGUMENT, "rank %d is given twice", contexts[i]->o.rank);
  }
  return NULL;
}

mscrt_status *mscrt_ranks_new(int num, mscrt_context *const *contexts, mscrt_ranks **out_ranks) {
  MSCRT_NEEDS(contexts && out_ranks);
  *out_ranks = NULL;
  MSCRT_CHECK(check_contexts(num, contexts));
  mscrt_ranks *r = NULL;
  if (posix_memalign((void **)&r, 64, sizeof *r)) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  *r = (mscrt_ranks){.num = num, .process = getpid(), .spin = true};
  if (posix_memalign((void **)&r->rank, 64, (size_t)num * sizeof *r->rank)) {
    free(r);
    return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  }
  for (int i = 0; i < num; i++) {
    r->rank[i] = (one_rank){.all = r, .context = contexts[i]};
    r->spin = r->spin && num * contexts[i]->threads <= contexts[i]->o.cores;
  }
  for (int i = 1; i < num; i++) {
    int error = pthread_create(&r->rank[i].thread, NULL, serve_rank, &r->rank[i]);
    if (error) {
      mscrt_ranks_free(r);
      return mscrt_fail(MSCRT_ENVIRONMENT, "cannot start the thread of rank %d (error %d)", contexts[i]->o.rank,
                        error);
    }
    r->started = i;
  }
  *out_ranks = r;
  return NULL;
}

/* Takes the failures of all ranks. Returns one, if possible not about another rank, and frees the others. */
static mscrt_status *take_failure(mscrt_ranks *r) {
  mscrt_status *chosen = NULL;
  for (int i = 0; i < r->num; i++) {
    mscrt_status *s = r->rank[i].status;
    r->rank[i].status = NULL;
    if (!s) continue;
    bool tells_more = !chosen || (mscrt_status_code(chosen) == MSCRT_PEER && mscrt_status_code(s) != MSCRT_PEER);
    mscrt_status_free(tells_more ? chosen : s);
    if (tells_more) chosen = s;
  }
  return chosen;
}

/* Sets the inputs of all ranks before any runs: of a rank that failed alone, the others would wait for the first
 * collective. */
static mscrt_status *set_all_inputs(mscrt_ranks *r) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < r->num_batches; i++) bytes += r->batch[i].bytes;
  if (bytes <= SMALL_BYTES / (uint64_t)r->num) {
    for (int i = 0; i < r->num; i++) MSCRT_CHECK(set_inputs(r, r->rank[i].context, NULL));
    return NULL;
  }
  run_on_all(r, set_inputs);
  return take_failure(r);
}

mscrt_status *mscrt_ranks_run(mscrt_ranks *r, const char *section, int64_t steps, size_t num_batches,
                              const mscrt_batch *batches, double *out_loss) {
  MSCRT_NEEDS(r && section && (batches || !num_batches));
  MSCRT_CHECK(mscrt_check_process(r->rank[0].context));
  r->section = section, r->steps = steps, r->num_batches = num_batches, r->batch = batches;
  if (num_batches) MSCRT_CHECK(set_all_inputs(r));
  for (int i = 0; i < r->num; i++) r->rank[i].loss = (double)NAN;
  run_on_all(r, run_section);
  MSCRT_CHECK(take_failure(r));
  double loss = (double)NAN;
  for (int i = 0; i < r->num && isnan(loss); i++) loss = r->rank[i].loss;
  if (out_loss) *out_loss = loss;
  return NULL;
}

void mscrt_ranks_free(mscrt_ranks *r) {
  if (!r || r->process != getpid()) return;
  atomic_store(&r->stop, true);
  atomic_fetch_add(&r->call, 1);
  mscrt_futex_wake(&r->call, INT_MAX, false);
  for (int i = 1; i <= r->started; i++) pthread_join(r->rank[i].thread, NULL);
  free(r->rank);
  free(r);
}
