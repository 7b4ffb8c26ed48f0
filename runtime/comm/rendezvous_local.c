/* rendezvous_local.c: lets the ranks of one host find each other through a Unix socket: rank 0 listens, collects from
 * every other rank a file for memory and one for liveness, and sends all of them to all. Only processes of the same
 * user are accepted. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/comm/tcp.h"

#define MAGIC    "MSCRT 1"
#define UNFIT    (-2) /* letter.rank of a refusal after which the process must not try again */
#define RETRY_NS 2000000

/* The message sent: to rank 0 about the sender; from rank 0 about another rank, or with the reason of a refusal. */
typedef struct {
  char magic[8];
  int32_t rank, ranks;
  uint64_t plan_hash, segment_bytes;
  uint32_t num_partitions;
  char refusal[160];
} letter;

typedef struct {
  const mscrt_comm_options *o;
  letter own;
  int64_t deadline;
  int listener;
  int *peer; /* connection to rank r, or -1 */
  int *fds;
  int num_pending;
  int pending[64]; /* connected, silent so far */
} meeting;

static int ms_left(const meeting *m) {
  int64_t ms = (m->deadline - mscrt_now_ns() + 999999) / 1000000;
  return ms < 0 ? 0 : (int)ms;
}

/* Converts the address of the job. */
static mscrt_status *address_of(const char *text, mscrt_address *out) {
  if (text && mscrt_is_network_address(text))
    return mscrt_fail(MSCRT_ARGUMENT, "%s: ranks that share memory meet at a path or @NAME", text);
  return mscrt_unix_address(text, out);
}

/* ---- file descriptors: two of every rank, and a connection to each in rank 0 ---- */

#define FDS_BESIDE 4 /* the listener, and a few connections that are refused */

static mscrt_status *report_too_few_fds(const meeting *m) {
  struct rlimit l = {0};
  getrlimit(RLIMIT_NOFILE, &l);
  return mscrt_fail(MSCRT_ENVIRONMENT,
                    "%d ranks meet with some %d file descriptors in each, and this process may have %" PRIu64
                    " only: raise `ulimit -n`",
                    m->o->ranks, 3 * m->o->ranks + 16, (uint64_t)l.rlim_cur);
}

/* Checks that enough file descriptors are left: new ones are numbered from the lowest free one on. Every rank checks
 * for as many as rank 0 needs, so that none waits for a rank 0 that cannot start. any: an open file descriptor. */
static mscrt_status *check_fds(const meeting *m, int any) {
  struct rlimit l;
  int lowest = fcntl(any, F_DUPFD_CLOEXEC, 0), others = m->o->ranks - 1;
  if (lowest < 0) return errno == EMFILE ? report_too_few_fds(m) : NULL;
  close(lowest);
  rlim_t need = (rlim_t)(lowest + 3 * others + FDS_BESIDE);
  return getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < need ? report_too_few_fds(m) : NULL;
}

static bool out_of_fds(int error) { return error == EMFILE || error == ENFILE; }

/* ---- letters with two files ---- */

typedef union {
  struct cmsghdr header;
  char room[CMSG_SPACE(2 * sizeof(int))];
} enclosure;

static bool send_letter(int fd, const letter *l, const int *fds) {
  struct iovec v = {(void *)(uintptr_t)l, sizeof *l};
  enclosure e = {0};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  if (fds) {
    m.msg_control = e.room;
    m.msg_controllen = sizeof e.room;
    e.header =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(2 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&e.header), fds, 2 * sizeof(int));
  }
  ssize_t n;
  do n = sendmsg(fd, &m, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)sizeof *l;
}

/* Receives a letter and its two files; fds are -1 if none came. */
static bool receive_letter(int fd, letter *l, int fds[2]) {
  struct iovec v = {l, sizeof *l};
  enclosure e;
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = e.room, .msg_controllen = sizeof e.room};
  ssize_t n;
  do n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  fds[0] = fds[1] = -1;
  struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
  if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
    memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0) < 2 * sizeof(int) ? sizeof(int) : 2 * sizeof(int));
  return n == (ssize_t)sizeof *l && !memcmp(l->magic, MAGIC, sizeof l->magic);
}

static void drop_fds(int fds[2]) {
  for (int i = 0; i < 2; i++)
    if (fds[i] >= 0) close(fds[i]);
}

/* ---- rank 0 ---- */

static void send_refusal(meeting *m, int fd, int rank, const char *why) {
  letter l = m->own;
  l.rank = rank;
  memset(l.refusal, 0, sizeof l.refusal);
  strncpy(l.refusal, why, sizeof l.refusal - 1);
  if (fd >= 0) (void)send_letter(fd, &l, NULL);
}

/* Tells all ranks why the job cannot start. */
static mscrt_status *refuse_all(meeting *m, mscrt_status *s) {
  for (int r = 1; r < m->o->ranks; r++) send_refusal(m, m->peer[r], 0, mscrt_status_text(s));
  return s;
}

/* Frees the place of a rank that has joined if its process has ended, so that another process can have it. */
static void forget_if_gone(meeting *m, int rank) {
  struct pollfd p = {.fd = m->peer[rank], .events = POLLRDHUP};
  if (!m->o->recovers || m->peer[rank] < 0 || poll(&p, 1, 0) != 1) return;
  close(m->peer[rank]);
  drop_fds(m->fds + 2 * rank);
  m->peer[rank] = m->fds[2 * rank] = m->fds[2 * rank + 1] = -1;
}

static mscrt_status *accept_rank(meeting *m, int fd) {
  letter l;
  int fds[2];
  bool good = receive_letter(fd, &l, fds);
  if (!good || l.rank < 1 || l.rank >= m->o->ranks || fds[1] < 0) {
    drop_fds(fds);
    if (good) send_refusal(m, fd, 0, "no such rank in this job");
    close(fd);
    return NULL;
  }
  forget_if_gone(m, l.rank);
  if (m->peer[l.rank] >= 0) {
    drop_fds(fds);
    send_refusal(m, fd, 0, "a rank of this number has joined already");
    close(fd);
    return NULL;
  }
  bool same = l.plan_hash == m->own.plan_hash && l.segment_bytes == m->own.segment_bytes &&
              l.num_partitions == m->own.num_partitions;
  if (m->o->recovers && (l.ranks != m->own.ranks || !same)) { /* this must not end the job of the others */
    char why[64];
    snprintf(why, sizeof why, "rank %d has another plan than rank 0", l.rank);
    drop_fds(fds);
    send_refusal(m, fd, UNFIT, why);
    close(fd);
    return NULL;
  }
  m->peer[l.rank] = fd;
  memcpy(m->fds + 2 * l.rank, fds, sizeof fds);
  if (l.ranks != m->own.ranks)
    return mscrt_fail(MSCRT_ARGUMENT, "rank %d believes in %d ranks, rank 0 in %d", l.rank, l.ranks, m->own.ranks);
  if (!same) return mscrt_fail(MSCRT_INPUT, "rank %d has another plan than rank 0", l.rank);
  return NULL;
}

static mscrt_status *listen_at(meeting *m) {
  mscrt_address address;
  MSCRT_CHECK(address_of(m->o->address, &address));
  const char *path = ((struct sockaddr_un *)(void *)&address.at)->sun_path;
  m->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct stat st;
  if (path[0] && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) unlink(path);
  if (m->listener < 0 || bind(m->listener, (struct sockaddr *)&address.at, address.bytes) != 0 ||
      listen(m->listener, m->o->ranks + 16) != 0)
    return mscrt_fail(MSCRT_ENVIRONMENT, "cannot listen at %s: %s", m->o->address, strerror(errno));
  return NULL;
}

static mscrt_status *report_missing_ranks(const meeting *m) {
  char list[128] = "";
  size_t n = 0;
  for (int r = 1; r < m->o->ranks && n + 16 < sizeof list; r++)
    if (m->peer[r] < 0) n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", n ? ", " : "", r);
  return mscrt_fail(MSCRT_PEER, "waited %d ms at %s for ranks %s of %d", m->o->meet_ms, m->o->address, list,
                    m->o->ranks);
}

static mscrt_status *accept_one(meeting *m) {
  int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return out_of_fds(errno) ? report_too_few_fds(m) : NULL;
  if (!mscrt_is_own_user(fd) || m->num_pending == (int)(sizeof m->pending / sizeof *m->pending)) close(fd);
  else m->pending[m->num_pending++] = fd;
  return NULL;
}

/* Waits until all ranks have joined. A rank that does not fit stops the job, but only when all ranks are there to
 * hear it. */
static mscrt_status *collect_ranks(meeting *m) {
  mscrt_status *first = NULL;
  for (int joined = 1; joined < m->o->ranks;) {
    struct pollfd polled[1 + sizeof m->pending / sizeof *m->pending] = {{.fd = m->listener, .events = POLLIN}};
    int num = m->num_pending;
    for (int i = 0; i < num; i++) polled[1 + i] = (struct pollfd){.fd = m->pending[i], .events = POLLIN};
    int n = poll(polled, (nfds_t)(1 + num), ms_left(m));
    if (n == 0) return first ? first : report_missing_ranks(m);
    m->num_pending = 0;
    for (int i = 0; i < num; i++) {
      if (n < 0 || !polled[1 + i].revents) {
        m->pending[m->num_pending++] = polled[1 + i].fd;
        continue;
      }
      mscrt_status *s = accept_rank(m, polled[1 + i].fd);
      if (first) mscrt_status_free(s);
      else first = s;
    }
    if (n > 0 && polled[0].revents) {
      mscrt_status *s = accept_one(m);
      if (s) return mscrt_status_free(first), s;
    }
    joined = 1;
    for (int r = 1; r < m->o->ranks; r++) joined += m->peer[r] >= 0;
  }
  return first;
}

static mscrt_status *send_all_files(meeting *m) {
  for (int to = 1; to < m->o->ranks; to++)
    for (int r = 0; r < m->o->ranks; r++) {
      letter l = m->own;
      l.rank = r;
      if (r != to && !send_letter(m->peer[to], &l, m->fds + 2 * r))
        return mscrt_fail(MSCRT_PEER, "rank %d left while the job was starting", to);
    }
  return NULL;
}

static mscrt_status *lead_job(meeting *m) {
  MSCRT_CHECK(listen_at(m));
  mscrt_status *s = collect_ranks(m);
  if (!s) s = send_all_files(m);
  return s ? refuse_all(m, s) : NULL;
}

/* ---- the others ---- */

static mscrt_status *connect_to(meeting *m, int *out_fd) {
  mscrt_address address;
  MSCRT_CHECK(address_of(m->o->address, &address));
  for (;;) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
      return out_of_fds(errno) ? report_too_few_fds(m)
                               : mscrt_fail(MSCRT_ENVIRONMENT, "no Unix socket: %s", strerror(errno));
    *out_fd = fd;
    if (connect(fd, (struct sockaddr *)&address.at, address.bytes) == 0) break;
    int error = errno;
    close(fd);
    *out_fd = -1;
    if (error != ENOENT && error != ECONNREFUSED && error != EAGAIN && error != EINTR)
      return mscrt_fail(MSCRT_ENVIRONMENT, "cannot connect to %s: %s", m->o->address, strerror(error));
    if (ms_left(m) == 0) return mscrt_fail(MSCRT_PEER, "waited %d ms for rank 0 at %s", m->o->meet_ms, m->o->address);
    struct timespec pause = {0, RETRY_NS};
    nanosleep(&pause, NULL);
  }
  return mscrt_is_own_user(*out_fd) ? NULL : mscrt_fail(MSCRT_ENVIRONMENT, "%s belongs to another user", m->o->address);
}

/* Waits for a letter. *out_ended: rank 0 has closed the connection instead. */
static mscrt_status *wait_for_letter(meeting *m, int fd, bool *out_ended) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  letter l;
  int fds[2], n;
  do n = poll(&p, 1, ms_left(m));
  while (n < 0 && errno == EINTR);
  if (n <= 0) return mscrt_fail(MSCRT_PEER, "waited %d ms for rank 0, which waits for other ranks", m->o->meet_ms);
  bool good = receive_letter(fd, &l, fds);
  *out_ended = !good;
  if (!good || l.refusal[0] || l.rank < 0 || l.rank >= m->o->ranks || fds[1] < 0 || m->fds[2 * l.rank] >= 0) {
    drop_fds(fds);
    if (good && l.refusal[0])
      return mscrt_fail(l.rank == UNFIT ? MSCRT_INPUT : MSCRT_PEER, "rank 0: %.*s", (int)sizeof l.refusal - 1,
                        l.refusal);
    return mscrt_fail(MSCRT_PEER, "rank 0 left while the job was starting");
  }
  memcpy(m->fds + 2 * l.rank, fds, sizeof fds);
  return NULL;
}

/* Joins the job of the leader at the address. Begins again if the leader goes away before it answers, since it was then
 * the leader of an earlier job at this address. */
static mscrt_status *join_job(meeting *m) {
  for (int got = 0; got < m->o->ranks - 1;) {
    bool ended = false;
    mscrt_status *s = got ? NULL : connect_to(m, &m->peer[0]);
    if (s) return s;
    if (!got && !send_letter(m->peer[0], &m->own, m->fds + 2 * m->o->rank)) ended = true;
    else s = wait_for_letter(m, m->peer[0], &ended);
    if (!s && !ended) got++;
    else if (got || !ended || ms_left(m) == 0)
      return s ? s : mscrt_fail(MSCRT_PEER, "rank 0 left while the job was starting");
    else mscrt_status_free(s), close(m->peer[0]), m->peer[0] = -1;
  }
  return NULL;
}

mscrt_status *mscrt_rendezvous(const mscrt_comm_options *o, uint64_t segment_bytes, const int own_fds[2],
                               int *out_fds) {
  meeting m = {.o = o, .listener = -1, .fds = out_fds, .deadline = mscrt_now_ns() + (int64_t)o->meet_ms * 1000000};
  m.own = (letter){.magic = MAGIC,
                   .rank = o->rank,
                   .ranks = o->ranks,
                   .plan_hash = o->plan_hash,
                   .segment_bytes = segment_bytes,
                   .num_partitions = o->num_partitions};
  for (int i = 0; i < 2 * o->ranks; i++) out_fds[i] = -1;
  memcpy(out_fds + 2 * o->rank, own_fds, 2 * sizeof(int));
  MSCRT_CHECK(mscrt_new_array(&m.peer, o->ranks));
  for (int r = 0; r < o->ranks; r++) m.peer[r] = -1;
  mscrt_status *s = check_fds(&m, own_fds[0]);
  if (!s) s = o->rank == 0 ? lead_job(&m) : join_job(&m);
  for (int i = 0; i < m.num_pending; i++) close(m.pending[i]);
  for (int r = 0; r < o->ranks; r++)
    if (m.peer[r] >= 0) close(m.peer[r]);
  if (m.listener >= 0) {
    close(m.listener);
    if (o->address[0] != '@') unlink(o->address);
  }
  free(m.peer);
  return s;
}
