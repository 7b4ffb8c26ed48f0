/* ask_server.c: a worker's side of a connection to a parameter server: gradients go out, values come in (see
 * answer_push_pull.h). */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

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

/* Sends or receives all of these; changes them. */
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

static mscrt_status *ask_server(const asking *a, const mscrt_server_head *question, const int64_t *rows,
                                const void *gradient, uint64_t gradient_bytes, mscrt_server_head *out_answer) {
  struct iovec out[] = {span_of(question, sizeof *question),
                        span_of(rows, rows ? (uint64_t)question->num * sizeof *rows : 0),
                        span_of(gradient, gradient_bytes)};
  MSCRT_CHECK(move_all(a, out, 3, true));
  MSCRT_CHECK(move_all(a, (struct iovec[]){span_of(out_answer, sizeof *out_answer)}, 1, false));
  if (out_answer->magic == MSCRT_SERVER_MAGIC && out_answer->word != MSCRT_ANSWER_BAD) return NULL;
  return mscrt_fail(MSCRT_ARGUMENT, "the parameter server refuses what worker %d asks", question->worker);
}

static asking asking_of(int fd, int timeout_ms) {
  return (asking){fd, (int64_t)msc_clock_ns() + (int64_t)timeout_ms * 1000000};
}

mscrt_status *mscrt_ask_push(int fd, uint64_t row_bytes, const mscrt_push *p, int timeout_ms, mscrt_push_end *out_end) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer, question = {.magic = MSCRT_SERVER_MAGIC,
                                        .word = MSCRT_ASK_PUSH,
                                        .worker = p->worker,
                                        .all = !p->rows,
                                        .step = p->step,
                                        .num = p->num};
  MSCRT_CHECK(ask_server(&a, &question, p->rows, p->gradient, (uint64_t)p->num * row_bytes, &answer));
  if (answer.word != MSCRT_ANSWER_TAKEN && answer.word != MSCRT_ANSWER_EARLY)
    return mscrt_fail(MSCRT_PEER, "the parameter server answers a push with something else");
  *out_end = answer.word == MSCRT_ANSWER_TAKEN ? MSCRT_PUSH_TAKEN : MSCRT_PUSH_EARLY;
  return NULL;
}

mscrt_status *mscrt_ask_pull(int fd, uint64_t row_bytes, int worker, int64_t num, const int64_t *rows, int timeout_ms,
                             void *out_values, uint64_t *out_version) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer,
      question = {.magic = MSCRT_SERVER_MAGIC, .word = MSCRT_ASK_PULL, .worker = worker, .all = !rows, .num = num};
  MSCRT_CHECK(ask_server(&a, &question, rows, NULL, 0, &answer));
  if (answer.word != MSCRT_ANSWER_VALUES || answer.num != num)
    return mscrt_fail(MSCRT_PEER, "the parameter server answers a pull with something else");
  MSCRT_CHECK(move_all(&a, (struct iovec[]){span_of(out_values, (uint64_t)num * row_bytes)}, 1, false));
  *out_version = answer.step;
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
  return answer.word == MSCRT_ANSWER_TAKEN
             ? NULL
             : mscrt_fail(MSCRT_PEER, "the parameter server answers worker %d with something else", worker);
}

static mscrt_status *ask_as_member(int fd, mscrt_server_word word, int worker, int timeout_ms, uint64_t *out_step) {
  asking a = asking_of(fd, timeout_ms);
  mscrt_server_head answer, question = {.magic = MSCRT_SERVER_MAGIC, .word = word, .worker = worker};
  MSCRT_CHECK(ask_server(&a, &question, NULL, NULL, 0, &answer));
  if (answer.word != MSCRT_ANSWER_TAKEN)
    return mscrt_fail(MSCRT_PEER, "the parameter server answers worker %d with something else", worker);
  *out_step = answer.step;
  return NULL;
}

mscrt_status *mscrt_ask_leave(int fd, int worker, int timeout_ms) {
  uint64_t step;
  return ask_as_member(fd, MSCRT_ASK_LEAVE, worker, timeout_ms, &step);
}

mscrt_status *mscrt_ask_join(int fd, int worker, int timeout_ms, uint64_t *out_step) {
  return ask_as_member(fd, MSCRT_ASK_JOIN, worker, timeout_ms, out_step);
}
