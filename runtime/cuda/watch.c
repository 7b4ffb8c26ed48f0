/* watch.c: waits for the GPU, with a time limit, and deals with a GPU that does not finish.
 *
 * Some calls of the driver wait without a limit: copies of memory that is not pinned, and all that free something.
 * They are made only after a wait of this file.  After a failure NCCL's kernels are ended.  If the GPU then still
 * works, it is stuck: nothing of it is touched any more, since the driver would never return, and the system frees
 * everything when the process ends. */
#include <pthread.h>
#include <sched.h>

#include "runtime/cuda/nccl.h"
#include "runtime/wait.h"

#define CHECK_EVERY_NS 10000000
#define PATIENCE_MS    2000 /* after a failure; start_ranks.c ends ranks 5 s after the first one has failed */

/* ---- waiting ---- */

static mscrt_status *report_timeout(const mscrt_context *c) {
  const mscrt_record *r = mscrt_cuda_of(c)->alone;
  mscrt_status *s = mscrt_fail(mscrt_cuda_of(c)->links ? MSCRT_PEER : MSCRT_ENVIRONMENT,
                               "the GPU has not come to the end within %d ms%s", c->o.timeout_ms,
                               mscrt_cuda_of(c)->links || r ? "" : "; --trace names the call");
  return r ? mscrt_add_prefix(s, "%s%s%s", r->name ? r->name : "a call", r->loc ? " at " : "", r->loc ? r->loc : "")
           : s;
}

static mscrt_status *check_for_failures(mscrt_context *c, bool late) {
  char text[MSCRT_LINKS_TEXT];
  const char *last = mscrt_cuda_of(c)->links ? mscrt_links_last_begun(mscrt_cuda_of(c)->links, text) : NULL;
  mscrt_status *s = c->transport->lost(c->comm, "waiting for the GPU");
  if (!s && mscrt_cuda_of(c)->links) s = mscrt_links_check_async(c);
  if (!s && late) s = report_timeout(c);
  if (mscrt_cuda_of(c)->links)
    s = mscrt_add_prefix(s, "%s%s", last ? "the last it began is " : "no collective has begun", last ? last : "");
  return mscrt_add_prefix(s, "rank %d: step %" PRId64, c->o.rank, mscrt_step_number(c->step));
}

/* True if the GPU has begun another exchange since the last call: then the time limit starts again. */
static bool has_begun_another(const mscrt_links *l, uint32_t *begun) {
  uint32_t before = *begun;
  return l && before != (*begun = mscrt_links_begun(l));
}

mscrt_status *mscrt_cuda_wait(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  int64_t begin = mscrt_now_ns(), looked = begin;
  uint32_t begun = 0;
  g->follows_kernel = false;
  MSCRT_CUDA(&g->cu, cuEventRecord, g->done, g->stream);
  for (;;) {
    cu_result r = g->cu.cuEventQuery(g->done);
    if (!r) return NULL;
    if (r != MSCRT_CUDA_ERROR_NOT_READY) return mscrt_cuda_failure(&g->cu, r, "cuEventQuery");
    int64_t now = mscrt_now_ns();
    if (now - looked > CHECK_EVERY_NS) {
      looked = now;
      if (has_begun_another(g->links, &begun)) begin = now;
      MSCRT_CHECK(check_for_failures(c, now - begin > (int64_t)c->o.timeout_ms * 1000000));
    }
    sched_yield();
  }
}

mscrt_status *mscrt_cuda_wait_alone(mscrt_context *c, const mscrt_record *r) {
  mscrt_cuda_of(c)->alone = r;
  mscrt_status *s = mscrt_cuda_wait(c);
  mscrt_cuda_of(c)->alone = NULL;
  return s;
}

/* ---- giving up ---- */

static int64_t give_up_deadline(const mscrt_context *c) {
  return mscrt_now_ns() + (int64_t)(c->o.timeout_ms < PATIENCE_MS ? c->o.timeout_ms : PATIENCE_MS) * 1000000;
}

static void *run_abort(void *arg) {
  mscrt_cuda *g = arg;
  mscrt_status *s = mscrt_cuda_enter(g);
  if (!s) {
    mscrt_links_abort(g->links);
    mscrt_cuda_leave(g);
  }
  mscrt_status_free(s);
  atomic_store(&g->aborted, 1);
  mscrt_futex_wake(&g->aborted, 1, false);
  return NULL;
}

/* Aborts NCCL's communicators in a thread that can be left behind, since the abort waits for running kernels.  False:
 * it has not finished in time. */
static bool abort_in_thread(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  int64_t end = give_up_deadline(c);
  pthread_t thread;
  if (!g->links) return true;
  if (pthread_create(&thread, NULL, run_abort, g)) {
    run_abort(g);
    return true;
  }
  for (int64_t left = 1; left > 0 && !atomic_load(&g->aborted); left = end - mscrt_now_ns())
    mscrt_futex_wait(&g->aborted, 0, left, false);
  if (!atomic_load(&g->aborted)) return pthread_detach(thread), false;
  return pthread_join(thread, NULL), true;
}

/* True if no stream has work left; a lost GPU is idle too. */
static bool is_idle(const mscrt_cuda *g) {
  const mscrt_links *l = g->links;
  if (g->stream && g->cu.cuStreamQuery(g->stream) == MSCRT_CUDA_ERROR_NOT_READY) return false;
  if (g->upload && g->cu.cuStreamQuery(g->upload) == MSCRT_CUDA_ERROR_NOT_READY) return false;
  if (l && l->stream && g->cu.cuStreamQuery(l->stream) == MSCRT_CUDA_ERROR_NOT_READY) return false;
  for (uint32_t i = 0; l && l->channel && i < l->num_channels; i++)
    if (l->channel[i].stream && g->cu.cuStreamQuery(l->channel[i].stream) == MSCRT_CUDA_ERROR_NOT_READY) return false;
  return true;
}

bool mscrt_cuda_is_stuck(mscrt_context *c) {
  mscrt_cuda *g = mscrt_cuda_of(c);
  if (g->stuck || (c->broken && !g->gave_up && !abort_in_thread(c))) return g->gave_up = g->stuck = true;
  g->gave_up = c->broken;
  for (int64_t end = give_up_deadline(c); !is_idle(g);) {
    if (mscrt_now_ns() > end) return g->stuck = true;
    sched_yield();
  }
  return false;
}

mscrt_status *mscrt_cuda_give_up(mscrt_context *c, mscrt_status *s) {
  if (!s) return NULL;
  c->broken = true;
  c->transport->abort(c->comm, mscrt_status_text(s));
  return mscrt_cuda_is_stuck(c) ? mscrt_change_code(s, MSCRT_STUCK) : s;
}
