/* rendezvous_member.c: a rank and its control connection: joins the job, and runs a thread that sends heartbeats and
 * learns which ranks have ended or are lost. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "runtime/comm/tcp.h"

#define RETRY_NS 10000000
#define SLACK_NS ((int64_t)2000000000) /* a rank waits so much longer, so that the scheduler reports first */

/* Returns a number of the host. Ranks with the same number can share memory: they run on one kernel, in one network
 * name space, which has the address at which they meet. */
static uint64_t number_of_host(void) {
  char boot[64] = "";
  struct stat network = {0};
  uint64_t h = 0xcbf29ce484222325;
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, boot, sizeof boot) : 0;
  if (fd >= 0) close(fd);
  stat("/proc/self/ns/net", &network);
  for (ssize_t i = 0; i < n; i++) h = (h ^ (uint8_t)boot[i]) * 0x100000001b3;
  return (h ^ (uint64_t)network.st_ino) * 0x100000001b3;
}

/* Listens for other ranks, at the address from which this rank reaches the scheduler unless told another. */
static mscrt_status *listen_for_ranks(const mscrt_comm_options *o, mscrt_member *m, mscrt_address *out_address,
                                      int *out_fd) {
  char text[300];
  mscrt_address a = {.bytes = sizeof a.at};
  if (o->host) {
    snprintf(text, sizeof text, strchr(o->host, ':') ? "[%s]:0" : "%s:0", o->host);
    MSCRT_CHECK(mscrt_resolve(text, mscrt_now_ns() + (int64_t)o->meet_ms * 1000000, &a));
  } else if (getsockname(m->link.fd, (struct sockaddr *)&a.at, &a.bytes) != 0 || a.at.ss_family == AF_UNIX) {
    MSCRT_CHECK(mscrt_resolve("127.0.0.1:0", 0, &a));
  }
  if (a.at.ss_family == AF_INET) ((struct sockaddr_in *)(void *)&a.at)->sin_port = 0;
  if (a.at.ss_family == AF_INET6) ((struct sockaddr_in6 *)(void *)&a.at)->sin6_port = 0;
  MSCRT_CHECK(mscrt_listen(&a, m->key.library != NULL, out_fd));
  *out_address = (mscrt_address){.bytes = sizeof a.at};
  if (getsockname(*out_fd, (struct sockaddr *)&out_address->at, &out_address->bytes) == 0) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "a socket has no address: %s", strerror(errno));
}

static mscrt_status *shake_hands(mscrt_member *m, int fd, int64_t deadline_ns, bool *out_ended) {
  mscrt_handshake h;
  mscrt_shake state;
  mscrt_handshake_begin(&h, &m->key, fd, false, MSCRT_FOR_CONTROL, m->o->rank, 0, deadline_ns);
  while ((state = mscrt_handshake_go(&h)) == MSCRT_SHAKING) {
    struct pollfd p = {.fd = fd, .events = mscrt_handshake_events(&h)};
    poll(&p, 1, 100);
  }
  mscrt_link_open(&m->link, &h);
  *out_ended = state == MSCRT_UNSHAKEN && h.ended;
  return state == MSCRT_SHAKEN ? NULL : mscrt_fail(MSCRT_PEER, "cannot join the job at %s: %s", m->o->address, h.why);
}

static const char *name_of_leader(const mscrt_member *m) { return m->o->led ? "the scheduler" : "rank 0"; }

static mscrt_status *report_leader_left(const mscrt_member *m) {
  return mscrt_fail(MSCRT_PEER, "%s left while the job was starting", name_of_leader(m));
}

static mscrt_status *report_refusal(const mscrt_member *m, const mscrt_frame *f) {
  char text[400];
  return mscrt_fail(f->type == MSCRT_UNFIT ? MSCRT_INPUT : MSCRT_PEER, "%s: %s", name_of_leader(m),
                    mscrt_clean_text((const char *)f->payload, f->bytes, text, sizeof text));
}

/* Waits for a frame of this type, and logs which ranks are missing meanwhile. *out_ended, unless NULL: the leader went
 * away. */
static mscrt_status *wait_for_frame(mscrt_member *m, mscrt_frame_type type, int64_t deadline_ns, mscrt_frame *f,
                                    bool *out_ended) {
  char text[400];
  for (;;) {
    int state = mscrt_link_wait(&m->link, deadline_ns, f);
    if (state == 0)
      return mscrt_fail(MSCRT_PEER, "waited %d ms for %s, which waits for other ranks", m->o->meet_ms,
                        name_of_leader(m));
    if (out_ended) *out_ended = state < 0 || f->type == MSCRT_BYE;
    if (state < 0 || f->type == MSCRT_BYE || f->type == MSCRT_LOST) return report_leader_left(m);
    if (f->type == type) return NULL;
    if (f->type == MSCRT_REFUSED || f->type == MSCRT_UNFIT) return report_refusal(m, f);
    if (f->type == MSCRT_WAITING && m->o->log)
      m->o->log(m->o->log_user, mscrt_clean_text((const char *)f->payload, f->bytes, text, sizeof text));
  }
}

static mscrt_status *read_table(mscrt_member *m, const mscrt_frame *f) {
  mscrt_table_head head = {0};
  if (f->bytes >= sizeof head) memcpy(&head, f->payload, sizeof head);
  if (head.ranks != m->o->ranks || f->bytes != sizeof head + (size_t)head.ranks * sizeof *m->entry || head.rank < 0 ||
      head.rank >= head.ranks || head.silence_ms <= 0)
    return mscrt_fail(MSCRT_PEER, "the list of ranks that came from rank 0 is none for this job");
  m->rank = head.rank, m->ranks = head.ranks, m->job = head.job, m->silence_ms = head.silence_ms;
  MSCRT_CHECK(mscrt_new_array(&m->entry, m->ranks));
  MSCRT_CHECK(mscrt_new_array(&m->where, m->ranks));
  MSCRT_CHECK(mscrt_new_array(&m->seen_step, m->ranks));
  memcpy(m->entry, f->payload + sizeof head, (size_t)m->ranks * sizeof *m->entry);
  for (int r = 0; r < m->ranks; r++)
    if (m->entry[r].address.bytes > sizeof m->entry[r].address.at)
      return mscrt_fail(MSCRT_PEER, "rank %d has an address that is none", r);
  return NULL;
}

static mscrt_status *dial_leader(mscrt_member *m, int64_t deadline_ns) {
  int fd = -1;
  mscrt_status *s = mscrt_dial(m->o->address, deadline_ns, &fd);
  if (mscrt_status_code(s) == MSCRT_PEER)
    s = mscrt_add_prefix(s, "waited %d ms for %s at %s", m->o->meet_ms, name_of_leader(m), m->o->address);
  if (!s) m->link.fd = fd;
  return s;
}

/* Tries once to join. *out_ended becomes true if the leader went away before it said anything about this job: it may
 * have been the leader of an earlier job. */
static mscrt_status *try_to_join(mscrt_member *m, int64_t deadline_ns, int *listener, bool *out_ended) {
  const mscrt_comm_options *o = m->o;
  mscrt_frame f;
  mscrt_link_close(&m->link);
  if (*listener >= 0) close(*listener);
  *listener = -1, *out_ended = false;
  MSCRT_CHECK(dial_leader(m, deadline_ns));
  MSCRT_CHECK(shake_hands(m, m->link.fd, deadline_ns + SLACK_NS, out_ended));
  mscrt_joining j = {.rank = o->rank,
                     .ranks = o->ranks,
                     .plan_hash = o->plan_hash,
                     .arena_bytes = o->arena_bytes,
                     .num_partitions = o->num_partitions,
                     .has_mail = o->has_mail,
                     .host = o->host_number ? o->host_number : number_of_host()};
  MSCRT_CHECK(listen_for_ranks(o, m, &j.address, listener));
  *out_ended = !mscrt_link_send(&m->link, MSCRT_JOIN, &j, sizeof j);
  if (*out_ended) return report_leader_left(m);
  MSCRT_CHECK(wait_for_frame(m, MSCRT_TABLE, deadline_ns + SLACK_NS, &f, out_ended));
  return read_table(m, &f);
}

/* Asks once which rank this process is to be; sets *out_ended as try_to_join does. */
static mscrt_status *try_to_ask_rank(mscrt_member *m, int64_t deadline_ns, int *out_rank, bool *out_ended) {
  mscrt_asking a = {.ranks = m->o->ranks, .host = number_of_host()};
  mscrt_frame f;
  int32_t rank;
  mscrt_link_close(&m->link);
  *out_ended = false;
  MSCRT_CHECK(dial_leader(m, deadline_ns));
  MSCRT_CHECK(shake_hands(m, m->link.fd, deadline_ns + SLACK_NS, out_ended));
  *out_ended = !mscrt_link_send(&m->link, MSCRT_ASK, &a, sizeof a);
  if (*out_ended) return report_leader_left(m);
  MSCRT_CHECK(wait_for_frame(m, MSCRT_RANK, deadline_ns + SLACK_NS, &f, out_ended));
  if (f.bytes == sizeof rank) memcpy(&rank, f.payload, sizeof rank);
  if (f.bytes != sizeof rank || rank < 0 || rank >= m->o->ranks)
    return mscrt_fail(MSCRT_PEER, "the number that came from %s is none for a rank of this job", name_of_leader(m));
  *out_rank = rank;
  return NULL;
}

mscrt_status *mscrt_ask_leader(const mscrt_comm_options *o, int *out_rank) {
  mscrt_member m = {.o = o, .link = {.fd = -1}};
  int64_t deadline = mscrt_now_ns() + (int64_t)o->meet_ms * 1000000;
  bool ended = true;
  mscrt_status *s = mscrt_key_open(o->token, &m.key);
  for (bool again = !s; again;) {
    s = try_to_ask_rank(&m, deadline, out_rank, &ended);
    again = s && ended && mscrt_now_ns() < deadline;
    if (again) mscrt_status_free(s), nanosleep(&(struct timespec){0, RETRY_NS}, NULL);
  }
  mscrt_link_close(&m.link);
  mscrt_key_close(&m.key);
  return s;
}

mscrt_status *mscrt_member_join(const mscrt_comm_options *o, mscrt_member *m, int *out_listener) {
  int64_t deadline = mscrt_now_ns() + (int64_t)o->meet_ms * 1000000;
  bool ended;
  m->o = o;
  *out_listener = -1;
  m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  m->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (m->wake < 0 || m->stop < 0) return mscrt_fail(MSCRT_ENVIRONMENT, "no eventfd: %s", strerror(errno));
  MSCRT_CHECK(mscrt_key_open(o->token, &m->key));
  if (o->rank == 0 && !o->led) MSCRT_CHECK(mscrt_scheduler_start(o, &m->key, &m->scheduler));
  for (;;) {
    mscrt_status *s = try_to_join(m, deadline, out_listener, &ended);
    if (!s || !ended || m->scheduler || mscrt_now_ns() >= deadline) return s;
    mscrt_status_free(s);
    nanosleep(&(struct timespec){0, RETRY_NS}, NULL);
  }
}

/* ---- the thread ---- */

static void wake_waiting(mscrt_member *m) {
  uint64_t one = 1;
  if (write(m->wake, &one, sizeof one) != sizeof one) {} /* it is full: already awake */
}

static void note_lost(mscrt_member *m, int rank, const char *why) {
  if (rank >= 0 && rank < m->ranks) m->where[rank] = MSCRT_IS_LOST;
  if (m->culprit >= 0) return;
  m->culprit = rank;
  mscrt_clean_text(why, strlen(why), m->why, sizeof m->why);
}

/* Handles a frame from the scheduler. */
static void handle_frame(mscrt_member *m, const mscrt_frame *f) {
  mscrt_verdict v;
  if (f->type == MSCRT_HEARTBEAT && f->bytes == (size_t)m->ranks * sizeof *m->seen_step) {
    for (int r = 0; r < m->ranks; r++) {
      int64_t step;
      memcpy(&step, f->payload + (size_t)r * sizeof step, sizeof step);
      if (step > m->seen_step[r]) m->seen_step[r] = step;
    }
  }
  if (f->type == MSCRT_BYE) m->leader_ended = true;
  if ((f->type != MSCRT_ENDED && f->type != MSCRT_LOST) || f->bytes != sizeof v) return;
  memcpy(&v, f->payload, sizeof v);
  v.text[sizeof v.text - 1] = 0;
  if (v.rank < 0 || v.rank >= m->ranks) return;
  if (v.step > m->seen_step[v.rank]) m->seen_step[v.rank] = v.step;
  if (f->type == MSCRT_LOST) note_lost(m, v.rank, v.text);
  else if (m->where[v.rank] == MSCRT_THERE) m->where[v.rank] = MSCRT_HAS_ENDED;
  wake_waiting(m);
}

/* Reports that the control connection to the scheduler has ended, or is silent. */
static void lose_leader(mscrt_member *m, const char *how) {
  char text[160], when[40] = "";
  if (m->leader_ended) return;
  m->leader_ended = true;
  if (!m->o->led) snprintf(when, sizeof when, " (at step %" PRId64 ")", mscrt_step_number(m->seen_step[0]));
  snprintf(text, sizeof text, "%s %s%s", name_of_leader(m), how, when);
  note_lost(m, 0, text);
  wake_waiting(m);
}

static void read_frames(mscrt_member *m, int64_t *heard_ns) {
  mscrt_frame f;
  for (int state = 1; state > 0 && !m->leader_ended;) {
    state = mscrt_link_read(&m->link, &f);
    if (state > 0) handle_frame(m, &f), *heard_ns = mscrt_now_ns();
    if (state < 0) lose_leader(m, "is gone");
  }
}

static void *run_control_thread(void *arg) {
  mscrt_member *m = arg;
  int64_t silence_ns = (int64_t)m->silence_ms * 1000000,
          every = silence_ns / 5 < 1000000000 ? silence_ns / 5 : 1000000000;
  int64_t heard = mscrt_now_ns(), said = 0, looked = heard;
  for (;;) {
    struct pollfd p[2] = {{.fd = m->stop, .events = POLLIN}, {.fd = m->link.fd, .events = POLLIN}};
    pthread_mutex_lock(&m->lock);
    if (m->link.out_bytes) p[1].events |= POLLOUT;
    if (m->leader_ended) p[1].fd = -1;
    pthread_mutex_unlock(&m->lock);
    poll(p, 2, (int)(every / 1000000) + 1);
    if (p[0].revents) return NULL;
    int64_t now = mscrt_now_ns();
    if (now - looked > silence_ns / 2) heard = now; /* this process itself was paused */
    looked = now;
    pthread_mutex_lock(&m->lock);
    if (!m->leader_ended && now >= said + every) {
      int64_t step = atomic_load(&m->step);
      mscrt_link_send(&m->link, MSCRT_HEARTBEAT, &step, sizeof step);
      said = now;
    }
    mscrt_link_flush(&m->link);
    read_frames(m, &heard);
    if (now - heard > silence_ns) lose_leader(m, "has been silent for too long");
    pthread_mutex_unlock(&m->lock);
  }
}

mscrt_status *mscrt_member_ready(mscrt_member *m) {
  mscrt_frame f;
  int64_t deadline = mscrt_now_ns() + (int64_t)m->o->meet_ms * 1000000 + SLACK_NS;
  if (!mscrt_link_send(&m->link, MSCRT_READY, NULL, 0)) return report_leader_left(m);
  MSCRT_CHECK(wait_for_frame(m, MSCRT_GO, deadline, &f, NULL));
  if (pthread_create(&m->thread, NULL, run_control_thread, m) != 0)
    return mscrt_fail(MSCRT_ENVIRONMENT, "no thread to watch the other ranks");
  m->has_thread = true;
  return NULL;
}

/* ---- the state of other ranks ---- */

void mscrt_member_note(mscrt_member *m, int rank, int64_t step) {
  pthread_mutex_lock(&m->lock);
  if (step > m->seen_step[rank]) m->seen_step[rank] = step;
  pthread_mutex_unlock(&m->lock);
}

bool mscrt_member_lost(mscrt_member *m, int *out_rank, char *out_why) {
  pthread_mutex_lock(&m->lock);
  bool lost = m->culprit >= 0;
  *out_rank = m->culprit;
  if (lost) memcpy(out_why, m->why, sizeof m->why);
  pthread_mutex_unlock(&m->lock);
  return lost;
}

bool mscrt_member_is_over(mscrt_member *m, int rank, char *out_why) {
  pthread_mutex_lock(&m->lock);
  mscrt_whereabouts where = m->where[rank];
  if (where == MSCRT_IS_LOST) memcpy(out_why, m->why, sizeof m->why);
  if (where == MSCRT_HAS_ENDED)
    snprintf(out_why, sizeof m->why, "rank %d has ended at step %" PRId64, rank, mscrt_step_number(m->seen_step[rank]));
  pthread_mutex_unlock(&m->lock);
  return where != MSCRT_THERE;
}

static void tell_failure(mscrt_member *m, int culprit, const char *reason) {
  mscrt_verdict v = {.rank = culprit, .step = atomic_load(&m->step)};
  mscrt_clean_text(reason, strlen(reason), v.text, sizeof v.text);
  mscrt_link_send(&m->link, MSCRT_FAILURE, &v, sizeof v);
  m->gave_up = true;
}

void mscrt_member_blame(mscrt_member *m, int culprit, const char *reason) {
  pthread_mutex_lock(&m->lock);
  if (!m->gave_up && m->culprit < 0 && m->has_thread && !m->leader_ended) tell_failure(m, culprit, reason);
  if (m->culprit < 0) note_lost(m, culprit, reason);
  wake_waiting(m);
  pthread_mutex_unlock(&m->lock);
}

/* Closes a connection after everything has arrived: closing it with unread bytes would discard them. The scheduler
 * closes its end when it has read all. */
static void end_connection(mscrt_link *l) {
  int64_t end = mscrt_now_ns() + SLACK_NS / 4;
  mscrt_frame f;
  bool shut = false;
  while (mscrt_now_ns() < end && mscrt_link_flush(l)) {
    if (!l->out_bytes && !shut) shutdown(l->fd, SHUT_WR), shut = true;
    int state = mscrt_link_read(l, &f);
    if (state < 0) return;
    if (state == 0) poll(&(struct pollfd){.fd = l->fd, .events = POLLIN}, 1, 5);
  }
}

void mscrt_member_close(mscrt_member *m) {
  uint64_t one = 1;
  if (m->has_thread) {
    if (write(m->stop, &one, sizeof one) != sizeof one) {} /* it is full: already stopping */
    pthread_join(m->thread, NULL);
  }
  int64_t step = atomic_load(&m->step);
  if (m->link.fd >= 0 && m->has_thread && !m->gave_up && !m->leader_ended)
    mscrt_link_send(&m->link, MSCRT_BYE, &step, sizeof step);
  if (m->link.fd >= 0) end_connection(&m->link);
  mscrt_link_close(&m->link);
  mscrt_scheduler_stop(m->scheduler);
  mscrt_key_close(&m->key);
  if (m->wake >= 0) close(m->wake);
  if (m->stop >= 0) close(m->stop);
  free(m->entry);
  free(m->where);
  free(m->seen_step);
  pthread_mutex_destroy(&m->lock);
}
