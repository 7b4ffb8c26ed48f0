/* shared_memory_wait.c: a counter in shared memory and a value in; returns when the counter has reached the value, or a
 * status when the rank that would raise it is lost. */
#include <limits.h>
#include <sched.h>

#include "runtime/comm/shared_memory.h"

#define SPIN_NS 50000
#define LOOK_AROUND_NS 100000000

static bool has_reached(mscrt_counter *k, uint32_t least) {
  return (int32_t)(atomic_load_explicit(&k->count, memory_order_acquire) - least) >= 0;
}

/* Polls the counter for a moment; true if it has reached `least`. Where ranks share cores, it yields the core between
 * polls, which costs less than sleeping and being woken. */
static bool spin_until_reached(struct mscrt_comm *c, mscrt_counter *k, uint32_t least) {
  if (!mscrt_may_spin(&c->patience)) return false;
  bool reached = false;
  for (int64_t now, end = 0; !reached; end = end ? end : now + SPIN_NS) {
    if (!c->o.spin) sched_yield();
    for (int i = 0; i < (c->o.spin ? 64 : 1) && !(reached = has_reached(k, least)); i++) mscrt_pause();
    if (reached || ((now = mscrt_now_ns()) >= end && end)) break;
  }
  mscrt_note_spin(&c->patience, reached);
  return reached;
}

/* Returns why the counter will not rise; NULL if it may, or if it has risen meanwhile: a rank may raise it and end at
 * once. */
static mscrt_status *check_for_loss(struct mscrt_comm *c, mscrt_counter *k, uint32_t least, bool late, mscrt_look *look,
                                    const void *of) {
  mscrt_loss loss;
  mscrt_status *s = look(c, of, late, &loss);
  if (s && has_reached(k, least)) {
    mscrt_status_free(s);
    return NULL;
  }
  if (s) mscrt_local_give_up(c, loss.culprit, loss.why);
  return s;
}

mscrt_status *mscrt_local_wait(struct mscrt_comm *c, mscrt_counter *k, uint32_t least, mscrt_look *look,
                               const void *of) {
  if (has_reached(k, least) || spin_until_reached(c, k, least)) return NULL;
  int64_t deadline = mscrt_now_ns() + (int64_t)c->o.timeout_ms * 1000000;
  mscrt_status *s = NULL;
  atomic_fetch_add(&k->sleepers, 1);
  while (!s) {
    uint32_t seen = atomic_load(&k->count);
    if ((int32_t)(seen - least) >= 0) break;
    int64_t left = deadline - mscrt_now_ns();
    mscrt_futex_wait(&k->count, seen, left > 0 && left < LOOK_AROUND_NS ? left : LOOK_AROUND_NS, true);
    if (!has_reached(k, least)) s = check_for_loss(c, k, least, mscrt_now_ns() >= deadline, look, of);
  }
  atomic_fetch_sub(&k->sleepers, 1);
  return s;
}

void mscrt_local_count(mscrt_counter *k) {
  atomic_fetch_add(&k->count, 1);
  if (atomic_load(&k->sleepers)) mscrt_futex_wake(&k->count, INT_MAX, true);
}
