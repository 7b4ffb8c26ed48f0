/* notice_lost_rank.c: a rank of the host in; whether it failed, ended or is gone, and why, out; tells all others when
 * this rank gives up. */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "runtime/comm/shared_memory.h"

void mscrt_local_wake_all(struct mscrt_comm *c) {
  for (int r = 0; r < c->o.ranks; r++)
    for (uint32_t p = 0; c->segment[r].control && p < c->o.num_partitions; p++)
      for (int i = 0; i < 2; i++) {
        barrier *b = &c->segment[r].control->barrier[p][i];
        mscrt_futex_wake(&b->generation.count, INT_MAX, true);
        mscrt_futex_wake(&b->own.count, INT_MAX, true);
      }
}

void mscrt_local_give_up(struct mscrt_comm *c, int culprit, const char *reason) {
  control *own = c->segment[c->o.rank].control;
  if (!own || atomic_load(&own->state) != RUNNING || atomic_flag_test_and_set(&c->gave_up)) return;
  own->culprit = culprit;
  mscrt_clean_text(reason, strlen(reason), own->reason, sizeof own->reason);
  atomic_store(&own->state, FAILED);
  mscrt_local_wake_all(c);
}

static void describe_failure(const control *k, int rank, mscrt_loss *loss) {
  char reason[sizeof k->reason + 4];
  mscrt_clean_text(k->reason, sizeof k->reason, reason, sizeof reason);
  loss->culprit = k->culprit;
  snprintf(loss->why, sizeof loss->why, "rank %d %s: %s", rank, k->culprit == rank ? "failed" : "gave up", reason);
}

bool mscrt_local_is_lost(const struct mscrt_comm *c, int rank, mscrt_loss *out_loss) {
  const segment *s = &c->segment[rank];
  uint32_t state = atomic_load(&s->control->state);
  struct pollfd p = {.fd = s->alive_fd, .events = POLLIN};
  out_loss->culprit = rank;
  if (state == FAILED) {
    describe_failure(s->control, rank, out_loss);
  } else if (state == CLOSED) {
    snprintf(out_loss->why, sizeof out_loss->why, "rank %d has ended at step %" PRId64, rank,
             mscrt_step_number(atomic_load(&s->control->step)));
  } else {
    if (poll(&p, 1, 0) != 1) return false;
    snprintf(out_loss->why, sizeof out_loss->why, "rank %d is gone (its process ended at step %" PRId64 ")", rank,
             mscrt_step_number(atomic_load(&s->control->step)));
  }
  return true;
}

bool mscrt_local_any_lost(const struct mscrt_comm *c, mscrt_loss *out_loss) {
  for (int r = 0; r < c->o.ranks; r++)
    if (r != c->o.rank && atomic_load(&c->segment[r].control->state) != CLOSED && mscrt_local_is_lost(c, r, out_loss))
      return true;
  return false;
}
