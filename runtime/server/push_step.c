/* push_step.c: a worker's side of a step with parameter servers: its gradients are pushed, and the updated parameters
 * are pulled into the arena. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/tcp.h"
#include "runtime/execute/execute.h"
#include "runtime/job/job.h"
#include "runtime/memory/memory.h"
#include "runtime/server/answer_push_pull.h"
#include "runtime/server/share.h"
#include "runtime/wait.h"

struct mscrt_pushing {
  const mscrt_context *c;
  mscrt_shares shares;
  int *fd;     /* of each server, or of its copy */
  bool *lost;  /* of each server: it was lost, and its copy is asked */
  bool *puts;  /* of each server: worker 0 is to give it all that it has before the next step */
  char **kept; /* for each server: the gradients that this rank pushes in this step, in memory lent to it */
  mscrt_lent *lent;
  bool *takes;     /* of each server, or its copy: gradients and values go through the lent memory */
  char *values;    /* room for values pulled through a socket, enough for any server */
  uint64_t *has;   /* of each server: the version of its values that this rank has; MSCRT_NO_VERSION: none */
  mscrt_changes_told told; /* of the pull under way */
  uint64_t step;   /* number of pushes so far */
  mscrt_join join; /* how this rank joins */
  uint64_t stop;   /* the number of pushes after which all workers stop; MSCRT_NO_STOP: not decided */
  uint32_t number; /* mscrt_push_scalar: the parameter ... */
  double value;    /* ... and its new value */
  bool any;        /* gradients were kept in this step */
};

/* Lets both ends of a connection prove that they have the job's token. */
static mscrt_status *prove_token(const mscrt_options *o, int fd, int64_t deadline_ns) {
  mscrt_key key;
  mscrt_handshake h;
  MSCRT_CHECK(mscrt_key_open(o->token, &key));
  mscrt_handshake_begin(&h, &key, fd, false, MSCRT_FOR_PUSHES, o->rank, 0, deadline_ns);
  mscrt_shake state = mscrt_handshake_wait(&h);
  mscrt_key_close(&key);
  return state == MSCRT_SHAKEN ? NULL : mscrt_fail(MSCRT_PEER, "no connection: %s", h.why);
}

mscrt_status *mscrt_dial_server(const mscrt_options *o, int server, int *out_fd) {
  int64_t end = mscrt_now_ns() + (int64_t)(o->meet_ms > 0 ? o->meet_ms : o->timeout_ms) * 1000000;
  char address[320];
  MSCRT_CHECK(mscrt_server_address(o, server, address, sizeof address));
  mscrt_status *s = mscrt_dial(address, end, out_fd);
  if (!s && o->token) s = prove_token(o, *out_fd, end);
  return mscrt_add_prefix(s, "server %d at %s", server, address);
}

/* The number by which servers know this rank. */
static int worker_of(const mscrt_pushing *p) { return p->c->o.rank - p->shares.first_rank; }

/* Joins the server, or its copy, to which fd[i] is a connection. */
static mscrt_status *join_server(mscrt_pushing *p, int i) {
  uint64_t step, wanted = p->shares.share[i].push_bytes ? p->step : 0; /* nobody pushes to a server without a share */
  mscrt_join join = p->join;
  if (join.begin != MSCRT_NO_VERSION) join.begin = wanted;
  mscrt_status *s = mscrt_ask_join(p->fd[i], &join, p->c->o.timeout_ms, &step, &p->puts[i]);
  if (s || step == wanted) return s;
  return mscrt_fail(MSCRT_PEER, "it is at step %" PRIu64 " of another run", step);
}

static mscrt_status *lend_memory(mscrt_pushing *p, int i) {
  return mscrt_ask_lend(p->fd[i], worker_of(p), &p->lent[i], p->c->o.timeout_ms, &p->takes[i]);
}

static mscrt_status *connect_to_servers(mscrt_pushing *p) {
  const mscrt_options *o = &p->c->o;
  for (int i = 0; i < p->shares.num; i++) {
    int number = mscrt_server_of_stage(p->c, i);
    mscrt_status *s = mscrt_dial_server(o, number + p->lost[i] * o->servers, &p->fd[i]);
    if (!s) s = join_server(p, i);
    if (!s) s = lend_memory(p, i);
    if (s) return mscrt_add_prefix(s, "rank %d: server %d", o->rank, number);
  }
  return NULL;
}

/* A question of a worker to a server, or to its copy. */
typedef mscrt_status *server_question(mscrt_context *c, mscrt_pushing *p, int server);

/* Connects to the copy of a lost server, which holds everything that the server has acknowledged. False: there is no
 * copy, or it does not answer. */
static bool switch_to_copy(mscrt_pushing *p, int i, const mscrt_status *why) {
  const mscrt_options *o = &p->c->o;
  if (p->lost[i] || mscrt_plan_server_copies(p->c->plan) == 1 || mscrt_status_code(why) != MSCRT_PEER) return false;
  close(p->fd[i]);
  p->fd[i] = -1, p->lost[i] = true;
  mscrt_status *s = mscrt_dial_server(o, o->servers + mscrt_server_of_stage(p->c, i), &p->fd[i]);
  if (!s && p->c->kept) s = join_server(p, i);
  if (!s) s = lend_memory(p, i);
  mscrt_status_free(s);
  return !s;
}

/* Asks server i or, if that is lost, its copy. A server that gets the same question twice acts only once. */
static mscrt_status *ask_server_or_copy(mscrt_context *c, mscrt_pushing *p, int i, server_question *ask) {
  mscrt_status *s = ask(c, p, i);
  if (s && switch_to_copy(p, i, s)) {
    mscrt_status_free(s);
    s = ask(c, p, i);
  }
  return s ? mscrt_add_prefix(s, "rank %d: step %" PRId64 ": server %d", c->o.rank, mscrt_step_number(c->step),
                              mscrt_server_of_stage(c, i))
           : NULL;
}

mscrt_status *mscrt_pushing_new(const mscrt_context *c, mscrt_pushing **out_pushing) {
  mscrt_pushing *p = NULL;
  mscrt_status *s = NULL;
  uint64_t most = 0;
  MSCRT_CHECK(mscrt_new_array(&p, 1));
  p->c = c, p->stop = MSCRT_NO_STOP;
  p->step = c->recovery.from_peers ? c->kept->live_pushes : 0;
  MSCRT_GOTO(mscrt_shares_new(c, &p->shares));
  MSCRT_GOTO(mscrt_new_array(&p->fd, p->shares.num));
  for (int i = 0; i < p->shares.num; i++) p->fd[i] = -1;
  MSCRT_GOTO(mscrt_new_array(&p->has, p->shares.num));
  for (int i = 0; i < p->shares.num; i++) p->has[i] = MSCRT_NO_VERSION;
  p->join = (mscrt_join){.worker = worker_of(p),
                         .epoch = c->kept ? c->kept->epoch : 0,
                         .begin = c->recovery.from_peers ? p->step : MSCRT_NO_VERSION};
  MSCRT_GOTO(mscrt_new_array(&p->puts, p->shares.num));
  MSCRT_GOTO(mscrt_new_array(&p->lost, p->shares.num));
  for (int i = 0; i < p->shares.num; i++)
    p->lost[i] = c->kept && (c->kept->lost_servers >> mscrt_server_of_stage(c, i) & 1);
  MSCRT_GOTO(mscrt_new_array(&p->kept, p->shares.num));
  MSCRT_GOTO(mscrt_new_array(&p->takes, p->shares.num));
  MSCRT_GOTO(mscrt_new_array(&p->lent, p->shares.num));
  for (int i = 0; i < p->shares.num; i++) {
    const mscrt_share *share = &p->shares.share[i];
    uint64_t bytes = share->push_bytes > share->value_bytes ? share->push_bytes : share->value_bytes;
    MSCRT_GOTO(mscrt_lent_new(bytes, &p->lent[i]));
    p->kept[i] = p->lent[i].at;
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
    if (p->fd[i] >= 0 && done) mscrt_status_free(mscrt_ask_leave(p->fd[i], worker_of(p), p->c->o.timeout_ms));
    if (p->fd[i] >= 0) close(p->fd[i]);
  }
  for (int i = 0; p->lent && i < p->shares.num; i++) mscrt_lent_free(&p->lent[i]);
  free(p->lent);
  free(p->takes);
  free(p->kept);
  free(p->lost);
  free(p->puts);
  free(p->fd);
  free(p->values);
  free(p->has);
  free(p->told.spans);
  mscrt_shares_free(&p->shares);
  free(p);
}

void mscrt_keep_gradient(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots) {
  mscrt_pushing *p = c->pushing;
  const mscrt_part *parts = mscrt_parts_of(c, r, slots, false);
  for (int i = 0; i < p->shares.num; i++) {
    const mscrt_share *share = &p->shares.share[i];
    for (uint32_t k = 0; k < share->num_parts; k++) {
      const mscrt_served_part *part = &share->part[k];
      if (part->record != r) continue;
      memcpy(p->kept[i] + part->at, c->arena + parts[part->part].src, mscrt_served_bytes(part));
    }
  }
  p->any = true;
}

/* The server that decides when all workers stop: the first to which they push. */
static int server_of_stops(const mscrt_pushing *p) {
  int i = 0;
  while (i + 1 < p->shares.num && !p->shares.share[i].push_bytes) i++;
  return i;
}

static mscrt_status *push_gradients(mscrt_context *c, mscrt_pushing *p, int i) {
  const mscrt_options *o = &c->o;
  const mscrt_share *share = &p->shares.share[i];
  if (!share->push_bytes) return NULL;
  mscrt_push_end end;
  mscrt_push all = {.worker = worker_of(p), .step = p->step, .num = 1, .gradient = p->takes[i] ? NULL : p->kept[i]};
  MSCRT_CHECK(mscrt_ask_push(p->fd[i], share->push_bytes, &all, o->timeout_ms, &end));
  return end == MSCRT_PUSH_TAKEN ? NULL : mscrt_fail(MSCRT_PEER, "it does not take step %" PRIu64 " yet", p->step);
}

/* Copies the spans that a server has told of to the parameters of its share; each must lie in one of them. */
static mscrt_status *put_values(mscrt_context *c, const mscrt_share *share, const mscrt_changes_told *told,
                                const char *values) {
  const mscrt_value_span *span = (const void *)told->spans, *end = span + told->num;
  for (uint32_t k = 0; k < share->num_values; k++) {
    const mscrt_served_value *v = &share->value[k];
    const mscrt_value_span *first = span;
    char *to = mscrt_address_of(c, v->v->ref, 0);
    for (; span < end && span->at >= v->at && span->at - v->at < v->bytes; values += span++->bytes) {
      if (span->bytes > v->bytes - (span->at - v->at)) break;
      memcpy(to + (span->at - v->at), values, span->bytes);
      c->received_bytes += span->bytes;
    }
    if (span > first) MSCRT_CHECK(mscrt_store_variable(c, v->v, to));
    if (span > first) mscrt_drop_disk_pages(c, v->v->ref);
  }
  return span == end ? NULL
                     : mscrt_fail(MSCRT_PEER, "the parameter server tells of changes that are not in one parameter");
}

/* Pulls what has changed since this rank pulled last. */
static mscrt_status *pull_values(mscrt_context *c, mscrt_pushing *p, int i) {
  const mscrt_share *share = &p->shares.share[i];
  if (!share->push_bytes) return NULL;
  MSCRT_CHECK(mscrt_ask_changes(p->fd[i], worker_of(p), p->has[i], share->value_bytes, c->o.timeout_ms,
                                p->takes[i] ? NULL : p->values, &p->told));
  MSCRT_CHECK(put_values(c, share, &p->told, p->takes[i] ? p->kept[i] : p->values));
  p->has[i] = p->told.version;
  if (i == server_of_stops(p)) p->stop = p->told.stop;
  return NULL;
}

static mscrt_status *push_and_pull(mscrt_context *c, mscrt_pushing *p) {
  for (int i = 0; i < p->shares.num; i++) MSCRT_CHECK(ask_server_or_copy(c, p, i, push_gradients));
  for (int i = 0; i < p->shares.num; i++) MSCRT_CHECK(ask_server_or_copy(c, p, i, pull_values));
  return NULL;
}

/* Where a lost worker can be replaced, servers drop those who wait for it. Then no worker ends the step, as the lost
 * one does not come to its end: whoever waits there for all is told who is lost. */
static mscrt_status *find_lost_worker(mscrt_context *c, mscrt_status *s) {
  uint64_t none;
  if (!c->kept || mscrt_status_code(s) != MSCRT_PEER) return s;
  mscrt_status *lost = mscrt_max(c, 0, &none);
  mscrt_status_free(lost ? s : NULL);
  return lost ? lost : s;
}

mscrt_status *mscrt_push_and_pull(mscrt_context *c, mscrt_pushing *p) {
  if (!p->any) return NULL;
  mscrt_status *s = push_and_pull(c, p);
  if (s) return find_lost_worker(c, s);
  p->step++, p->any = false;
  return NULL;
}

uint64_t mscrt_num_pushes(const mscrt_context *c) { return c->pushing ? c->pushing->step : 0; }

uint64_t mscrt_lost_servers(const mscrt_context *c) {
  const mscrt_pushing *p = c->pushing;
  uint64_t lost = 0;
  for (int i = 0; p && i < p->shares.num; i++) lost |= (uint64_t)p->lost[i] << mscrt_server_of_stage(c, i);
  return lost;
}

/* ---- values that workers give to servers ---- */

static mscrt_status *put_all(mscrt_context *c, mscrt_pushing *p, int i) {
  const mscrt_share *share = &p->shares.share[i];
  uint64_t bytes = mscrt_all_bytes(share);
  uint32_t num = share->num_values + share->num_states + share->num_others;
  char *all;
  MSCRT_CHECK(mscrt_allocate((void **)&all, (size_t)bytes + 1, 1));
  for (uint64_t k = 0, at = 0; k < num; at += share->value[k++].bytes)
    memcpy(all + at, mscrt_address_of(c, share->value[k].v->ref, 0), share->value[k].bytes);
  mscrt_status *s = mscrt_ask_put(p->fd[i], worker_of(p), bytes, all, c->o.timeout_ms);
  free(all);
  return s;
}

mscrt_status *mscrt_put_values(mscrt_context *c) {
  mscrt_pushing *p = c->pushing;
  for (int i = 0; p && i < p->shares.num; i++) {
    if (p->puts[i] && !worker_of(p)) MSCRT_CHECK(ask_server_or_copy(c, p, i, put_all));
    p->puts[i] = false;
  }
  return NULL;
}

static mscrt_status *set_number(mscrt_context *c, mscrt_pushing *p, int i) {
  return mscrt_ask_set(p->fd[i], worker_of(p), p->number, p->value, c->o.timeout_ms);
}

mscrt_status *mscrt_push_scalar(mscrt_context *c, mscrt_pushing *p, uint32_t parameter, double value) {
  p->number = parameter, p->value = value;
  for (int i = 0; i < p->shares.num && !worker_of(p); i++) MSCRT_CHECK(ask_server_or_copy(c, p, i, set_number));
  return NULL;
}

static mscrt_status *pull_state(mscrt_context *c, mscrt_pushing *p, int i) {
  const mscrt_share *share = &p->shares.share[i];
  const mscrt_served_value *state = share->value + share->num_values;
  MSCRT_CHECK(mscrt_ask_state(p->fd[i], worker_of(p), share->state_bytes, c->o.timeout_ms, p->values));
  for (uint32_t k = 0; k < share->num_states; k++)
    memcpy(mscrt_address_of(c, state[k].v->ref, 0), p->values + state[k].at, state[k].bytes);
  return NULL;
}

static mscrt_status *ask_to_stop(mscrt_context *c, mscrt_pushing *p, int i) {
  return mscrt_ask_stop(p->fd[i], worker_of(p), c->o.timeout_ms, &p->stop);
}

mscrt_status *mscrt_stop_together(mscrt_context *c, bool asked, bool *out_stop) {
  MSCRT_NEEDS(c && out_stop);
  mscrt_pushing *p = c->pushing;
  uint64_t any = 0;
  if (!mscrt_ranks_run_apart(c)) {
    MSCRT_CHECK(mscrt_max(c, asked, &any));
    *out_stop = any;
    return NULL;
  }
  MSCRT_CHECK(mscrt_check_not_broken(c));
  if (asked && p->stop == MSCRT_NO_STOP) MSCRT_CHECK(ask_server_or_copy(c, p, server_of_stops(p), ask_to_stop));
  *out_stop = p->step >= p->stop;
  return NULL;
}

bool mscrt_ranks_run_apart(const mscrt_context *c) { return c->pushing && plan_plan_asynchronous(c->plan->root); }

mscrt_status *mscrt_pull_settled(mscrt_context *c, bool state) {
  mscrt_pushing *p = c->pushing;
  uint64_t none;
  if (!p) return NULL;
  bool waits = mscrt_ranks_run_apart(c);          /* else the parameters are those after the last step */
  if (waits) MSCRT_CHECK(mscrt_max(c, 0, &none)); /* all have pushed */
  for (int i = 0; i < p->shares.num && waits; i++) MSCRT_CHECK(ask_server_or_copy(c, p, i, pull_values));
  for (int i = 0; i < p->shares.num && state; i++) MSCRT_CHECK(ask_server_or_copy(c, p, i, pull_state));
  return waits ? mscrt_max(c, 0, &none) : NULL; /* all have pulled */
}
