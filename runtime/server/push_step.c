/* push_step.c: a worker's side of a step with servers of parameters: what it adds to the sums of gradients goes out,
 * the updated parameters come in. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/address.h"
#include "runtime/server/serve.h"
#include "runtime/server/share.h"
#include "runtime/wait.h"

struct mscrt_pushing {
  const mscrt_context *c;
  mscrt_shares shares;
  int *fd;        /* of each server */
  char **kept;    /* for each server: what this rank pushes in this step */
  char *values;   /* what was pulled, of the server with the most */
  uint64_t step;  /* number of pushes so far */
  bool any;       /* something was kept in this step */
};

static uint64_t element_bytes(const mscrt_pushing *p) { return mscrt_dtype_bytes(p->shares.dtype); }

static mscrt_status *connect_to_servers(mscrt_pushing *p) {
  const mscrt_options *o = &p->c->o;
  int64_t end = mscrt_now_ns() + (int64_t)(o->meet_ms > 0 ? o->meet_ms : o->timeout_ms) * 1000000;
  for (int i = 0; i < p->shares.num; i++) {
    char address[320];
    uint64_t step;
    MSCRT_CHECK(mscrt_server_address(o->address, i, address, sizeof address));
    mscrt_status *s = mscrt_dial(address, end, &p->fd[i]);
    if (!s) s = mscrt_ask_join(p->fd[i], o->rank, o->timeout_ms, &step);
    if (s) return mscrt_within(s, "rank %d: server %d at %s", o->rank, i, address);
    if (step) return mscrt_fail(MSCRT_PEER, "server %d is at step %" PRIu64 " of another run", i, step);
  }
  return NULL;
}

mscrt_status *mscrt_pushing_new(const mscrt_context *c, mscrt_pushing **out_pushing) {
  mscrt_pushing *p = NULL;
  mscrt_status *s = NULL;
  uint64_t most = 0;
  MSCRT_CHECK(mscrt_new_array(&p, 1));
  p->c = c;
  MSCRT_GOTO(mscrt_shares_new(c, c->o.servers, &p->shares));
  MSCRT_GOTO(mscrt_new_array(&p->fd, p->shares.num));
  for (int i = 0; i < p->shares.num; i++) p->fd[i] = -1;
  MSCRT_GOTO(mscrt_new_array(&p->kept, p->shares.num));
  for (int i = 0; i < p->shares.num; i++) {
    const mscrt_share *share = &p->shares.share[i];
    MSCRT_GOTO(mscrt_allocate((void **)&p->kept[i], (size_t)share->elems, element_bytes(p)));
    if (share->value_bytes > most) most = share->value_bytes;
    if (share->state_bytes > most) most = share->state_bytes;
  }
  MSCRT_GOTO(mscrt_allocate((void **)&p->values, (size_t)most, 1));
  MSCRT_GOTO(connect_to_servers(p));
  *out_pushing = p;
  return NULL;
fail:
  mscrt_pushing_free(p, false);
  return s;
}

void mscrt_pushing_free(mscrt_pushing *p, bool done) {
  if (!p) return;
  for (int i = 0; p->fd && i < p->shares.num; i++) {
    if (p->fd[i] >= 0 && done) mscrt_status_free(mscrt_ask_leave(p->fd[i], p->c->o.rank, p->c->o.timeout_ms));
    if (p->fd[i] >= 0) close(p->fd[i]);
  }
  for (int i = 0; p->kept && i < p->shares.num; i++) free(p->kept[i]);
  free(p->kept);
  free(p->fd);
  free(p->values);
  mscrt_shares_free(&p->shares);
  free(p);
}

void mscrt_keep_gradient(mscrt_pushing *p, const mscrt_record *r) {
  for (int i = 0; i < p->shares.num; i++) {
    const mscrt_share *share = &p->shares.share[i];
    for (uint32_t k = 0; k < share->num_sums; k++) {
      const mscrt_served_sum *sum = &share->sum[k];
      if (sum->record != r) continue;
      memcpy(p->kept[i] + (uint64_t)sum->at * element_bytes(p), p->c->arena + r->part[sum->part].src,
             mscrt_sum_bytes(sum));
    }
  }
  p->any = true;
}

static mscrt_status *push(mscrt_pushing *p, int i) {
  const mscrt_options *o = &p->c->o;
  const mscrt_share *share = &p->shares.share[i];
  mscrt_push_end end;
  mscrt_push all = {.worker = o->rank, .step = p->step, .num = 1, .gradient = p->kept[i]};
  MSCRT_CHECK(mscrt_ask_push(p->fd[i], (uint64_t)share->elems * element_bytes(p), &all, o->timeout_ms, &end));
  return end == MSCRT_PUSH_TAKEN ? NULL : mscrt_fail(MSCRT_PEER, "it does not take step %" PRIu64 " yet", p->step);
}

static mscrt_status *pull(mscrt_context *c, mscrt_pushing *p, int i) {
  const mscrt_share *share = &p->shares.share[i];
  uint64_t version;
  MSCRT_CHECK(mscrt_ask_pull(p->fd[i], share->value_bytes, c->o.rank, 1, NULL, c->o.timeout_ms, p->values, &version));
  for (uint32_t k = 0; k < share->num_values; k++)
    memcpy(mscrt_at(c, share->value[k].v->ref, 0), p->values + share->value[k].at, share->value[k].bytes);
  return NULL;
}

mscrt_status *mscrt_push_and_pull(mscrt_context *c, mscrt_pushing *p) {
  if (!p->any) return NULL;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < p->shares.num; i++) {
      if (!p->shares.share[i].elems) continue;
      mscrt_status *s = k ? pull(c, p, i) : push(p, i);
      if (s) return mscrt_within(s, "rank %d: step %" PRId64 ": server %d", c->o.rank, c->step, i);
    }
  p->step++, p->any = false;
  return NULL;
}

mscrt_status *mscrt_push_scalar(const mscrt_context *c, mscrt_pushing *p, uint32_t parameter, double value) {
  for (int i = 0; i < p->shares.num && !c->o.rank; i++) {
    mscrt_status *s = mscrt_ask_set(p->fd[i], c->o.rank, parameter, value, c->o.timeout_ms);
    if (s) return mscrt_within(s, "rank %d: %s: server %d", c->o.rank, c->plan->parameter[parameter].name, i);
  }
  return NULL;
}

mscrt_status *mscrt_pull_state(mscrt_context *c, mscrt_pushing *p) {
  for (int i = 0; i < p->shares.num; i++) {
    const mscrt_share *share = &p->shares.share[i];
    const mscrt_served_value *state = share->value + share->num_values;
    mscrt_status *s = mscrt_ask_state(p->fd[i], c->o.rank, share->state_bytes, c->o.timeout_ms, p->values);
    if (s) return mscrt_within(s, "rank %d: the state of server %d", c->o.rank, i);
    for (uint32_t k = 0; k < share->num_states; k++)
      memcpy(mscrt_at(c, state[k].v->ref, 0), p->values + state[k].at, state[k].bytes);
  }
  return NULL;
}
