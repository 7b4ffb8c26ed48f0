/* ask_server.c: a worker's side of a connection to a parameter server: a question in, the server's answer out (see
 * answer_push_pull.h). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ir/abi/clock.h"
#include "runtime/server/answer_push_pull.h"

typedef struct {
  int fd;
  int64_t deadline_ns;
} asking;

static mscrt_status *wait_for_server(const asking *a, short events) {
  for (;;) {
    int64_t left = (a->deadline_ns - (int64_t)msc_clock_ns()) / 1000000;
    int n = left > 0 ? poll(&(struct pollfd){a->fd, events, 0}, 1, (int)left) : 0;
    if (n > 0) return NULL;
    if (n == 0) return mscrt_fail(MSCRT_PEER, "the parameter server does not answer");
    if (errno != EINTR) return mscrt_fail(MSCRT_PEER, "the parameter server is lost: %s", strerror(errno));
  }
}

/* Sends or receives all bytes of `num` entries of v, which it changes. */
static mscrt_status *move_all(const asking *a, struct iovec *v, int num, bool send) {
  while (num) {
    if (!v->iov_len) {
      v++, num--;
      continue;
    }
    struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)num};
    ssize_t n = send ? sendmsg(a->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) : recvmsg(a->fd, &m, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      MSCRT_CHECK(wait_for_server(a, send ? POLLOUT : POLLIN));
      continue;
    }
    if (n <= 0)
      return mscrt_fail(MSCRT_PEER, "the parameter server is lost: %s", n ? strerror(errno) : "it has closed");
    size_t left = (size_t)n;
    for (; num && left >= v->iov_len; v++, num--) left -= v->iov_len;
    if (left) v->iov_base = (char *)v->iov_base + left, v->iov_len -= left;
  }
  return NULL;
}

static struct iovec span_of(const void *at, uint64_t bytes) { return (struct iovec){(void *)(uintptr_t)at, bytes}; }

static mscrt_status *receive_answer(const asking *a, int worker, mscrt_server_head *out_answer) {
  MSCRT_CHECK(move_all(a, (struct iovec[]){span_of(out_answer, sizeof *out_answer)}, 1, false));
  if (out_answer->magic == MSCRT_SERVER_MAGIC && out_answer->word != MSCRT_ANSWER_BAD) return NULL;
  return mscrt_fail(MSCRT_ARGUMENT, "the parameter server refuses what worker %d asks", worker);
}

static mscrt_status *ask_server(const asking *a, const mscrt_server_head *question, const int64_t *rows,
                                const void *gradient, uint64_t gradient_bytes, mscrt_server_head *out_answer) {
  struct iovec out[] = {span_of(question, sizeof *question),
                        span_of(rows, rows ? (uint64_t)question->num * sizeof *rows : 0),
                        span_of(gradient, gradient_bytes)};
  MSCRT_CHECK(move_all(a, out, 3, true));
  return receive_answer(a, question->worker, out_answer);
}

static mscrt_status *check_taken(const mscrt_server_head *answer, int worker) {
  return answer->word == MSCRT_ANSWER_TAKEN
             ? NULL
             : mscrt_fail(MSCRT_PEER, "the parameter server answers worker %d with something else", worker);
}

static asking asking_of(int fd, int timeout_ms) {
  return (asking){fd, (int64_t)msc_clock_ns() + (int64_t)timeout_ms * 1000000};
}

/* ---- lent memory ---- */

mscrt_status *mscrt_lent_new(uint64_t bytes, mscrt_lent *out_lent) {
  mscrt_lent *l = out_lent;
  *l = (mscrt_lent){.fd = memfd_create("msc-pushes", MFD_CLOEXEC | MFD_ALLOW_SEALING), .bytes = bytes};
  bool shared = l->fd >= 0 && bytes && ftruncate(l->fd, (off_t)bytes) == 0 &&
                fcntl(l->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  void *at = shared ? mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0) : MAP_FAILED;
  if (at != MAP_FAILED) {
    l->at = at;
    return NULL;
  }
  if (l->fd >= 0) close(l->fd);
  l->fd = -1;
  return mscrt_allocate(&l->at, (size_t)bytes, 1);
}

void mscrt_lent_free(mscrt_lent *l) {
  if (l->at && l->fd >= 0) munmap(l->at, (size_t)l->bytes);
  else free(l->at);
  if (l->at && l->fd >= 0) close(l->fd);
  *l = (mscrt_lent){.fd = -1};
}

/* Sends a frame with a file descriptor. The socket's buffer is empty, so the frame is sent whole. */
static bool send_descriptor(int fd, mscrt_server_head *question, int lent) {
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control = {.room = {0}};
  struct iovec v = {question, sizeof *question};
  struct msghdr m = {
      .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof lent);
  memcpy(CMSG_DATA(c), &lent, sizeof lent);
  return sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)sizeof *question;
}

mscrt_status *mscrt_ask_lend(int fd, int worker, const mscrt_lent *l, int timeout_ms, bool *out_taken) {
  asking a = asking_of(fd, timeout_ms);
  struct sockaddr_storage own;
  socklen_t n = sizeof own;
  mscrt_server_head answer, question = {
      .magic = MSCRT_SERVER_MAGIC, .word = MSCRT_ASK_LEND, .worker = worker, .num = (int64_t)l->bytes};
  *out_taken = false;
  if (l->fd < 0 || getsockname(fd, (struct sockaddr *)&own, &n) != 0 || own.ss_family != AF_UNIX) return NULL;
  if (!send_descriptor(fd, &question, l->fd))
    return mscrt_fail(MSCRT_PEER, "the parameter server is lost: %s", strerror(errno));
  MSCRT_CHECK(receive_answer(&a, worker, &answer));
  *out_taken = answer.word == MSCRT_ANSWER_TAKEN;
  return NULL;
}

/* ---- questions ---- */

mscrt_status *mscrt_ask_push(int fd, uint64_t row_bytes, const mscrt_push *p, int timeout_ms, mscrt_push_end *out_end) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer, question = {.magic = MSCRT_SERVER_MAGIC,
                                        .word = p->gradient ? MSCRT_ASK_PUSH : MSCRT_ASK_PUSH_LENT,
                                        .worker = p->worker,
                                        .all = !p->rows,
                                        .step = p->step,
                                        .num = p->num};
  MSCRT_CHECK(ask_server(&a, &question, p->rows, p->gradient, p->gradient ? (uint64_t)p->num * row_bytes : 0, &answer));
  if (answer.word != MSCRT_ANSWER_TAKEN && answer.word != MSCRT_ANSWER_EARLY)
    return mscrt_fail(MSCRT_PEER, "the parameter server answers a push with something else");
  *out_end = answer.word == MSCRT_ANSWER_TAKEN ? MSCRT_PUSH_TAKEN : MSCRT_PUSH_EARLY;
  return NULL;
}

mscrt_status *mscrt_ask_pull(int fd, uint64_t row_bytes, int worker, int64_t num, const int64_t *rows, int timeout_ms,
                             void *out_values, uint64_t *out_version, uint64_t *out_stop) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer,
      question = {.magic = MSCRT_SERVER_MAGIC,
                  .word = out_values ? MSCRT_ASK_PULL : MSCRT_ASK_PULL_LENT,
                  .worker = worker,
                  .all = !rows,
                  .num = num};
  MSCRT_CHECK(ask_server(&a, &question, rows, NULL, 0, &answer));
  if (answer.word != MSCRT_ANSWER_VALUES || answer.num != num)
    return mscrt_fail(MSCRT_PEER, "the parameter server answers a pull with something else");
  if (out_values) MSCRT_CHECK(move_all(&a, (struct iovec[]){span_of(out_values, (uint64_t)num * row_bytes)}, 1, false));
  *out_version = answer.step;
  if (out_stop) *out_stop = answer.stop;
  return NULL;
}

/* Adds up the bytes of spans; false: they do not ascend, or do not lie in `room` bytes. */
static bool sum_spans(const mscrt_value_span *span, int64_t num, uint64_t room, uint64_t *out_bytes) {
  uint64_t end = 0;
  *out_bytes = 0;
  for (int64_t i = 0; i < num; i++) {
    if (span[i].at < end || span[i].at > room || span[i].bytes > room - span[i].at) return false;
    end = span[i].at + span[i].bytes, *out_bytes += span[i].bytes;
  }
  return true;
}

mscrt_status *mscrt_ask_changes(int fd, int worker, uint64_t since, uint64_t value_bytes, int timeout_ms,
                                void *out_values, mscrt_changes_told *out_told) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer, question = {.magic = MSCRT_SERVER_MAGIC,
                                        .word = out_values ? MSCRT_ASK_CHANGES : MSCRT_ASK_CHANGES_LENT,
                                        .worker = worker,
                                        .step = since};
  MSCRT_CHECK(ask_server(&a, &question, NULL, NULL, 0, &answer));
  if (answer.word != MSCRT_ANSWER_VALUES || answer.num < 0 || (uint64_t)answer.num > value_bytes)
    return mscrt_fail(MSCRT_PEER, "the parameter server answers a pull with something else");
  uint64_t need = (uint64_t)answer.num * sizeof(mscrt_value_span), bytes;
  if (!mscrt_grow_bytes(&out_told->spans, &out_told->room, need))
    return mscrt_fail(MSCRT_NO_MEMORY, "no memory for %" PRId64 " spans of values", answer.num);
  MSCRT_CHECK(move_all(&a, (struct iovec[]){span_of(out_told->spans, need)}, 1, false));
  if (!sum_spans((const void *)out_told->spans, answer.num, value_bytes, &bytes))
    return mscrt_fail(MSCRT_PEER, "the parameter server answers a pull with values that it does not have");
  if (out_values) MSCRT_CHECK(move_all(&a, (struct iovec[]){span_of(out_values, bytes)}, 1, false));
  out_told->num = answer.num, out_told->version = answer.step, out_told->stop = answer.stop;
  return NULL;
}

mscrt_status *mscrt_ask_state(int fd, int worker, uint64_t bytes, int timeout_ms, void *out_state) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer, question = {.magic = MSCRT_SERVER_MAGIC, .word = MSCRT_ASK_STATE, .worker = worker};
  MSCRT_CHECK(ask_server(&a, &question, NULL, NULL, 0, &answer));
  if (answer.word != MSCRT_ANSWER_VALUES) return mscrt_fail(MSCRT_PEER, "the parameter server answers with no state");
  return move_all(&a, (struct iovec[]){span_of(out_state, bytes)}, 1, false);
}

mscrt_status *mscrt_ask_set(int fd, int worker, uint64_t number, double value, int timeout_ms) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer,
      question = {.magic = MSCRT_SERVER_MAGIC, .word = MSCRT_ASK_SET, .worker = worker, .step = number};
  memcpy(&question.num, &value, sizeof value);
  MSCRT_CHECK(ask_server(&a, &question, NULL, NULL, 0, &answer));
  return check_taken(&answer, worker);
}

/* Asks a question that has no data but the number of the worker. */
static mscrt_status *ask_as_worker(int fd, mscrt_server_word word, int worker, int timeout_ms,
                                   mscrt_server_head *out_answer) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head question = {.magic = MSCRT_SERVER_MAGIC, .word = word, .worker = worker};
  MSCRT_CHECK(ask_server(&a, &question, NULL, NULL, 0, out_answer));
  return check_taken(out_answer, worker);
}

mscrt_status *mscrt_ask_leave(int fd, int worker, int timeout_ms) {
  mscrt_server_head answer;
  return ask_as_worker(fd, MSCRT_ASK_LEAVE, worker, timeout_ms, &answer);
}

mscrt_status *mscrt_ask_join(int fd, const mscrt_join *j, int timeout_ms, uint64_t *out_step, bool *out_awaits_put) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer, question = {.magic = MSCRT_SERVER_MAGIC,
                                        .word = MSCRT_ASK_JOIN,
                                        .worker = j->worker,
                                        .all = j->forwarded,
                                        .step = j->begin,
                                        .num = (int64_t)j->epoch};
  MSCRT_CHECK(ask_server(&a, &question, NULL, NULL, 0, &answer));
  *out_step = answer.step, *out_awaits_put = answer.num;
  return check_taken(&answer, j->worker);
}

mscrt_status *mscrt_ask_put(int fd, int worker, uint64_t bytes, const void *all, int timeout_ms) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer,
      question = {.magic = MSCRT_SERVER_MAGIC, .word = MSCRT_ASK_PUT, .worker = worker, .num = (int64_t)bytes};
  MSCRT_CHECK(ask_server(&a, &question, NULL, all, bytes, &answer));
  return check_taken(&answer, worker);
}

mscrt_status *mscrt_ask_stop(int fd, int worker, int timeout_ms, uint64_t *out_stop) {
  mscrt_server_head answer;
  MSCRT_CHECK(ask_as_worker(fd, MSCRT_ASK_STOP, worker, timeout_ms, &answer));
  *out_stop = answer.stop;
  return NULL;
}
