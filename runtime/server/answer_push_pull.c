/* answer_push_pull.c: the loop of a parameter server: frames of workers in, answers out (see answer_push_pull.h).  One
 * thread does everything, so pushes are applied one after the other, by the backup in the same order. */
#include "runtime/server/answer_push_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/comm/tcp.h"

enum {
  MOST_VISITORS = 1024,
  PATIENCE_MS = 5000, /* with an end that does not prove that it has the token */
  LEAVE_MS = 200,     /* with a worker that stays, where the server is told to end and another worker is lost */
};

/* A connection.  Its other end sends a frame, and the next one after the answer. */
typedef struct {
  int fd;
  bool ends;  /* when `out` has been sent */
  bool waits; /* the frame in `in` is a pull that comes too early */
  bool joined, forwards; /* a worker has joined here, or a server for which this one is the backup */
  uint64_t epoch;        /* in which it joined */
  uint8_t *in, *out;
  uint64_t in_bytes, out_bytes, out_done;
  size_t in_room, out_room;
  int offered; /* file descriptor of memory that came with a frame; -1: none */
  mscrt_handshake *shaking; /* NULL: the other end has proved that it has the token, or there is none */
  char *lent;  /* mapped memory of the worker, for its gradients and values; NULL: none */
  uint64_t lent_bytes;
} visitor;

typedef struct {
  mscrt_serving *o;
  bool told;  /* to end */
  bool misses; /* the connection of a worker that had joined in epoch `missed_in` has ended, and it had not left */
  uint64_t missed_in;
  int64_t stay_ns; /* 0, or until when the server stays for workers although one of them is lost */
  int num;
  visitor visitor[MOST_VISITORS];
  struct pollfd polled[MOST_VISITORS + 2];
} serving;

/* ---- answers ---- */

static void copy_rows(char *to, int64_t num, const void *values, const int64_t *rows, uint64_t row_bytes) {
  if (!rows) memcpy(to, values, (uint64_t)num * row_bytes);
  for (int64_t i = 0; rows && i < num; i++)
    memcpy(to + (uint64_t)i * row_bytes, (const char *)values + (uint64_t)rows[i] * row_bytes, row_bytes);
}

static void answer(const mscrt_serving *o, visitor *v, mscrt_server_word word, uint64_t step, int64_t num,
                   const void *values, const int64_t *rows, uint64_t row_bytes) {
  uint64_t bytes = values ? (uint64_t)num * row_bytes : 0;
  mscrt_server_head head = {.magic = MSCRT_SERVER_MAGIC, .word = word, .all = !rows, .step = step, .num = num};
  head.stop = mscrt_shard_stops_at(o->shard);
  v->in_bytes = 0, v->waits = false, v->ends = word == MSCRT_ANSWER_BAD;
  v->out_done = 0, v->out_bytes = sizeof head + bytes;
  if (!mscrt_grow_bytes(&v->out, &v->out_room, v->out_bytes)) {
    v->out_bytes = 0, v->ends = true;
    return;
  }
  memcpy(v->out, &head, sizeof head);
  if (bytes) copy_rows((char *)v->out + sizeof head, num, values, rows, row_bytes);
}

static void answer_word(const mscrt_serving *o, visitor *v, mscrt_server_word word) {
  answer(o, v, word, 0, 0, NULL, NULL, 0);
}

/* Answers with spans of the values, of `bytes` bytes in all, and with these, or puts these at lent. */
static void answer_changes(const mscrt_serving *o, visitor *v, int64_t num, const mscrt_value_span *span,
                           uint64_t bytes, char *lent) {
  answer(o, v, MSCRT_ANSWER_VALUES, mscrt_shard_version(o->shard), num, NULL, NULL, 0);
  uint64_t of_spans = (uint64_t)num * sizeof *span, need = v->out_bytes + of_spans + (lent ? 0 : bytes);
  if (!mscrt_grow_bytes(&v->out, &v->out_room, need)) {
    v->out_bytes = 0, v->ends = true;
    return;
  }
  if (num) memcpy(v->out + v->out_bytes, span, of_spans);
  char *to = lent ? lent : (char *)v->out + v->out_bytes + of_spans;
  for (int64_t i = 0; i < num; to += span[i++].bytes)
    memcpy(to, (const char *)o->values + span[i].at, span[i].bytes);
  v->out_bytes = need;
}

/* ---- frames ---- */

static bool is_valid_head(const mscrt_serving *o, const mscrt_server_head *h) {
  if (h->magic != MSCRT_SERVER_MAGIC || h->word < MSCRT_ASK_PUSH || h->word > MSCRT_ASK_PUT) return false;
  if (h->word == MSCRT_ASK_SET) return !h->all;
  if (h->word == MSCRT_ASK_JOIN) return h->all <= 1 && h->num >= 0;
  if (h->word == MSCRT_ASK_PUT) return o->begin && !h->all && h->num >= 0 && (uint64_t)h->num == o->put_bytes;
  if (h->word == MSCRT_ASK_LEND) return !h->all && h->num > 0;
  if (h->word == MSCRT_ASK_CHANGES || h->word == MSCRT_ASK_CHANGES_LENT) return o->value_bytes && !h->num && !h->all;
  if (h->word >= MSCRT_ASK_LEAVE) return !h->num && !h->all;
  return h->all <= 1 && h->num >= 0 && h->num <= o->rows && (!h->all || h->num == o->rows);
}

static uint64_t frame_bytes(const mscrt_serving *o, const mscrt_server_head *h) {
  if (h->word == MSCRT_ASK_SET || h->word == MSCRT_ASK_LEND || h->word == MSCRT_ASK_JOIN) return sizeof *h;
  if (h->word == MSCRT_ASK_PUT) return sizeof *h + (uint64_t)h->num;
  uint64_t each = (h->all ? 0 : sizeof(int64_t)) + (h->word == MSCRT_ASK_PUSH ? o->row_bytes : 0);
  return sizeof *h + (uint64_t)h->num * each;
}

/* Drops the backup if s is a failure of it, since the backup would no longer hold the same values. */
static void check_backup(mscrt_serving *o, mscrt_status *s) {
  if (!s) return;
  if (o->alone) o->alone(o->alone_user, mscrt_status_text(s));
  mscrt_status_free(s);
  close(o->backup);
  o->backup = -1;
}

/* Lends memory to a backup that can take it, as one on this host can. */
static void lend_to_backup(mscrt_serving *o) {
  bool taken = false;
  o->to_backup = (mscrt_lent){.fd = -1};
  mscrt_status *no_room = o->backup >= 0 ? mscrt_lent_new((uint64_t)o->rows * o->row_bytes, &o->to_backup) : NULL;
  mscrt_status_free(no_room); /* pushes go through the socket */
  if (o->to_backup.fd >= 0) check_backup(o, mscrt_ask_lend(o->backup, 0, &o->to_backup, o->backup_ms, &taken));
  if (!taken) mscrt_lent_free(&o->to_backup);
}

static mscrt_status *push_to_backup(const mscrt_serving *o, const mscrt_push *p, mscrt_push_end *out_end) {
  mscrt_push same = *p;
  if (o->to_backup.at) {
    memcpy(o->to_backup.at, p->gradient, (uint64_t)p->num * o->row_bytes);
    same.gradient = NULL;
  }
  return mscrt_ask_push(o->backup, o->row_bytes, &same, o->backup_ms, out_end);
}

static void handle_push(mscrt_serving *o, visitor *v, const mscrt_push *p) {
  mscrt_push_end end = MSCRT_PUSH_TAKEN;
  mscrt_status *s = mscrt_shard_check(o->shard, p);
  if (!s && o->backup >= 0) check_backup(o, push_to_backup(o, p, &end));
  if (!s) s = mscrt_shard_push(o->shard, p, &end);
  answer_word(o, v, s ? MSCRT_ANSWER_BAD : end == MSCRT_PUSH_TAKEN ? MSCRT_ANSWER_TAKEN : MSCRT_ANSWER_EARLY);
  mscrt_status_free(s);
}

/* Goes to the version that workers begin with who have met again. */
static mscrt_status *begin_epoch(mscrt_serving *o, uint64_t epoch, uint64_t begin) {
  if (epoch == o->epoch) return NULL;
  if ((epoch < o->epoch && o->epoch != MSCRT_NO_EPOCH) || !o->begin || !o->begin(o->user, begin))
    return mscrt_fail(MSCRT_ARGUMENT, "a worker joins who met others before, or has other values");
  mscrt_shard_begin(o->shard, begin == MSCRT_NO_VERSION ? 0 : begin);
  o->epoch = epoch, o->awaits_put = begin == MSCRT_NO_VERSION;
  return NULL;
}

static void handle_join(mscrt_serving *o, visitor *v, const mscrt_server_head *h) {
  mscrt_join same = {h->worker, (uint64_t)h->num, h->step, true};
  uint64_t step = 0, of_backup;
  bool awaits;
  mscrt_status *s = begin_epoch(o, same.epoch, same.begin);
  if (!s) s = mscrt_shard_join(o->shard, h->worker, &step);
  if (!s && o->backup >= 0) check_backup(o, mscrt_ask_join(o->backup, &same, o->backup_ms, &of_backup, &awaits));
  if (!s) v->joined = true, v->forwards = h->all, v->epoch = o->epoch;
  answer(o, v, s ? MSCRT_ANSWER_BAD : MSCRT_ANSWER_TAKEN, step, o->awaits_put, NULL, NULL, 0);
  mscrt_status_free(s);
}

static void handle_leave(mscrt_serving *o, visitor *v, const mscrt_server_head *h) {
  mscrt_status *s = mscrt_shard_leave(o->shard, h->worker);
  if (!s && o->backup >= 0) check_backup(o, mscrt_ask_leave(o->backup, h->worker, o->backup_ms));
  if (!v->forwards) v->joined = false;
  answer_word(o, v, s ? MSCRT_ANSWER_BAD : MSCRT_ANSWER_TAKEN);
  mscrt_status_free(s);
}

static void handle_put(mscrt_serving *o, visitor *v, const mscrt_server_head *h) {
  if (o->backup >= 0) check_backup(o, mscrt_ask_put(o->backup, h->worker, o->put_bytes, h + 1, o->backup_ms));
  o->put(o->user, h + 1);
  o->awaits_put = false;
  answer_word(o, v, MSCRT_ANSWER_TAKEN);
}

static void handle_stop(mscrt_serving *o, visitor *v, const mscrt_server_head *h) {
  uint64_t stop;
  if (o->backup >= 0) check_backup(o, mscrt_ask_stop(o->backup, h->worker, o->backup_ms, &stop));
  mscrt_shard_stop(o->shard);
  answer_word(o, v, MSCRT_ANSWER_TAKEN);
}

static void handle_number(mscrt_serving *o, visitor *v, const mscrt_server_head *h) {
  double value;
  memcpy(&value, &h->num, sizeof value);
  if (o->backup >= 0) check_backup(o, mscrt_ask_set(o->backup, h->worker, h->step, value, o->backup_ms));
  answer_word(o, v, o->set && o->set(o->user, h->step, value) ? MSCRT_ANSWER_TAKEN : MSCRT_ANSWER_BAD);
}

static void handle_pull(mscrt_serving *o, visitor *v, const mscrt_server_head *h, const int64_t *rows) {
  for (int64_t i = 0; rows && i < h->num; i++)
    if (rows[i] < 0 || rows[i] >= o->rows) {
      answer_word(o, v, MSCRT_ANSWER_BAD);
      return;
    }
  uint64_t bytes = o->row_bytes, version = mscrt_shard_version(o->shard);
  bool lent = h->word == MSCRT_ASK_PULL_LENT;
  if (o->value_bytes || (lent && (uint64_t)h->num > v->lent_bytes / bytes)) {
    answer_word(o, v, MSCRT_ANSWER_BAD);
    return;
  }
  v->waits = !mscrt_shard_may_pull(o->shard, h->worker);
  if (v->waits) return;
  if (lent) copy_rows(v->lent, h->num, o->values, rows, bytes);
  answer(o, v, MSCRT_ANSWER_VALUES, version, h->num, lent ? NULL : o->values, rows, bytes);
}

static void handle_changes(mscrt_serving *o, visitor *v, const mscrt_server_head *h) {
  bool lent = h->word == MSCRT_ASK_CHANGES_LENT;
  const mscrt_value_span *span;
  int64_t num;
  uint64_t bytes = 0;
  v->waits = !mscrt_shard_may_pull(o->shard, h->worker);
  if (v->waits) return;
  o->changes(o->user, h->step, &num, &span);
  for (int64_t i = 0; i < num; i++) bytes += span[i].bytes;
  if (lent && bytes > v->lent_bytes) answer_word(o, v, MSCRT_ANSWER_BAD);
  else answer_changes(o, v, num, span, bytes, lent ? v->lent : NULL);
}

/* Maps the memory that a worker lends, in place of what it has lent before; the memory must be sealed against
 * shrinking. */
static void handle_lent(mscrt_serving *o, visitor *v, const mscrt_server_head *h) {
  struct stat st;
  uint64_t bytes = (uint64_t)h->num;
  int seals = v->offered < 0 ? 0 : fcntl(v->offered, F_GET_SEALS);
  bool keeps_size = seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(v->offered, &st) == 0;
  if (!keeps_size || (uint64_t)st.st_size < bytes) {
    answer_word(o, v, MSCRT_ANSWER_BAD);
    return;
  }
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->offered, 0);
  close(v->offered);
  v->offered = -1;
  if (at != MAP_FAILED && v->lent) munmap(v->lent, v->lent_bytes);
  if (at != MAP_FAILED) v->lent = at, v->lent_bytes = bytes;
  answer_word(o, v, at != MAP_FAILED ? MSCRT_ANSWER_TAKEN : MSCRT_ANSWER_EARLY);
}

static void handle_frame(mscrt_serving *o, visitor *v) {
  const mscrt_server_head *h = (const void *)v->in;
  const int64_t *rows = h->all ? NULL : (const void *)(h + 1);
  if (h->word == MSCRT_ASK_LEND) {
    handle_lent(o, v, h);
    return;
  }
  if (h->word == MSCRT_ASK_PULL || h->word == MSCRT_ASK_PULL_LENT) {
    handle_pull(o, v, h, rows);
    return;
  }
  if (h->word == MSCRT_ASK_CHANGES || h->word == MSCRT_ASK_CHANGES_LENT) {
    handle_changes(o, v, h);
    return;
  }
  if (h->word == MSCRT_ASK_STATE) {
    answer(o, v, MSCRT_ANSWER_VALUES, mscrt_shard_version(o->shard), 1, o->state ? o->state(o->user) : NULL, NULL,
           o->state_bytes);
    return;
  }
  if (h->word == MSCRT_ASK_SET) {
    handle_number(o, v, h);
    return;
  }
  if (h->word == MSCRT_ASK_STOP) {
    handle_stop(o, v, h);
    return;
  }
  if (h->word == MSCRT_ASK_PUT) {
    handle_put(o, v, h);
    return;
  }
  if (h->word == MSCRT_ASK_JOIN) {
    handle_join(o, v, h);
    return;
  }
  if (h->word == MSCRT_ASK_LEAVE) {
    handle_leave(o, v, h);
    return;
  }
  bool lent = h->word == MSCRT_ASK_PUSH_LENT;
  if (lent && (uint64_t)h->num > v->lent_bytes / o->row_bytes) {
    answer_word(o, v, MSCRT_ANSWER_BAD);
    return;
  }
  const uint8_t *behind = v->in + sizeof *h + (rows ? (uint64_t)h->num * sizeof *rows : 0);
  const void *gradient = lent ? (const void *)v->lent : behind;
  handle_push(o, v, &(mscrt_push){h->worker, h->step, h->num, rows, gradient});
}

/* ---- connections ---- */

/* Receives bytes of a frame. A file descriptor that comes with them is kept; one kept before is closed. */
static ssize_t receive(visitor *v, uint64_t room) {
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct iovec at = {v->in + v->in_bytes, room};
  struct msghdr m = {
      .msg_iov = &at, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  ssize_t n = recvmsg(v->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
  if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(sizeof(int))) return n;
  if (v->offered >= 0) close(v->offered);
  int fds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int)), fd[CMSG_SPACE(sizeof(int)) / sizeof(int)];
  memcpy(fd, CMSG_DATA(c), (size_t)fds * sizeof *fd);
  for (int i = 1; i < fds; i++) close(fd[i]); /* a right frame has one only */
  v->offered = fd[0];
  return n;
}

/* Receives the bytes of a frame that have arrived, and handles the frame when it is whole; false: the connection has
 * ended. */
static bool receive_frame(mscrt_serving *o, visitor *v) {
  for (;;) {
    mscrt_server_head *h = (void *)v->in;
    uint64_t whole = v->in_bytes < sizeof *h ? sizeof *h : frame_bytes(o, h);
    if (v->in_bytes == whole) {
      handle_frame(o, v);
      return true;
    }
    if (!mscrt_grow_bytes(&v->in, &v->in_room, whole)) return false;
    ssize_t n = receive(v, whole - v->in_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) return false;
    v->in_bytes += (uint64_t)n;
    if (v->in_bytes == sizeof *h && !is_valid_head(o, (const void *)v->in)) {
      answer_word(o, v, MSCRT_ANSWER_BAD);
      return true;
    }
  }
}

/* Sends as much of an answer as goes without waiting; false: the connection is to be closed. */
static bool send_answer(visitor *v) {
  while (v->out_done < v->out_bytes) {
    ssize_t n = send(v->fd, v->out + v->out_done, v->out_bytes - v->out_done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) return false;
    v->out_done += (uint64_t)n;
  }
  v->out_bytes = v->out_done = 0;
  return !v->ends;
}

/* True for the connection of a worker that joined in an epoch that is over. */
static bool is_of_past(const serving *s, const visitor *v) { return v->joined && v->epoch != s->o->epoch; }

static void drop_visitor(serving *s, int i) {
  const visitor *v = &s->visitor[i];
  if (v->joined && !v->forwards && !is_of_past(s, v)) s->misses = true, s->missed_in = v->epoch;
  close(s->visitor[i].fd);
  free(s->visitor[i].in), free(s->visitor[i].out), free(s->visitor[i].shaking);
  if (s->visitor[i].offered >= 0) close(s->visitor[i].offered);
  if (s->visitor[i].lent) munmap(s->visitor[i].lent, s->visitor[i].lent_bytes);
  s->visitor[i] = s->visitor[--s->num];
}

/* Gives the place of a connection away whose other end has not proved yet that it has the token. */
static void drop_oldest_stranger(serving *s) {
  int oldest = -1;
  for (int i = 0; i < s->num; i++) {
    const mscrt_handshake *h = s->visitor[i].shaking;
    if (h && (oldest < 0 || h->deadline_ns < s->visitor[oldest].shaking->deadline_ns)) oldest = i;
  }
  if (oldest >= 0) drop_visitor(s, oldest);
}

/* Goes on with the proof of a token; false: the connection is to be closed. */
static bool shake_hands(visitor *v) {
  mscrt_shake state = mscrt_handshake_go(v->shaking);
  if (state == MSCRT_SHAKING) return true;
  bool is_worker = state == MSCRT_SHAKEN && v->shaking->hello.purpose == MSCRT_FOR_PUSHES;
  free(v->shaking);
  v->shaking = NULL;
  return is_worker;
}

static bool any_shaking(const serving *s) {
  for (int i = 0; i < s->num; i++)
    if (s->visitor[i].shaking) return true;
  return false;
}

static void accept_visitor(serving *s) {
  int fd = accept4(s->o->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  if (s->num == MOST_VISITORS) drop_oldest_stranger(s);
  mscrt_handshake *h = s->o->key ? calloc(1, sizeof *h) : NULL;
  if (s->num == MOST_VISITORS || !mscrt_is_own_user(fd) || (s->o->key && !h)) {
    free(h);
    close(fd);
    return;
  }
  if (h)
    mscrt_handshake_begin(h, s->o->key, fd, true, MSCRT_FOR_PUSHES, -1, 0,
                          mscrt_now_ns() + (int64_t)PATIENCE_MS * 1000000);
  mscrt_set_socket(fd);
  s->visitor[s->num++] = (visitor){.fd = fd, .offered = -1, .shaking = h};
}

/* Answers the waiting pulls whose workers may go on now. */
static void answer_waiting(serving *s) {
  for (int i = s->num; i-- > 0;) {
    visitor *v = &s->visitor[i];
    bool past = is_of_past(s, v);
    if (!v->waits && !past) continue;
    if (!past) handle_frame(s->o, v);
    if (past || (v->out_bytes && !send_answer(v))) drop_visitor(s, i);
  }
}

/* Drops those who wait for a worker that is gone: they are to meet again, with whoever comes in its place. A server
 * that is told to end drops after a while those, too, that do not even ask: they may stand still. */
static void drop_waiting(serving *s) {
  if (!s->o->begin || !s->misses || s->missed_in != s->o->epoch) return;
  int64_t now = mscrt_now_ns();
  if (s->told && !s->stay_ns) s->stay_ns = now + (int64_t)LEAVE_MS * 1000000;
  bool late = s->stay_ns && now >= s->stay_ns;
  for (int i = s->num; i-- > 0;)
    if (s->visitor[i].waits || (late && s->visitor[i].joined && !s->visitor[i].forwards)) drop_visitor(s, i);
}

static bool has_joined(const serving *s) {
  for (int i = 0; i < s->num; i++)
    if (s->visitor[i].joined) return true;
  return false;
}

static bool has_unsent_answers(const serving *s) {
  for (int i = 0; i < s->num; i++)
    if (s->visitor[i].out_bytes) return true;
  return false;
}

static mscrt_status *serve_once(serving *s, bool *out_stop) {
  s->polled[0] = (struct pollfd){s->told ? -1 : s->o->stop, POLLIN, 0};
  s->polled[1] = (struct pollfd){s->o->listener, POLLIN, 0};
  for (int i = 0; i < s->num; i++)
    s->polled[i + 2] = (struct pollfd){s->visitor[i].fd, s->visitor[i].out_bytes ? POLLOUT : POLLIN, 0};
  for (int i = 0; i < s->num; i++) {
    if (s->visitor[i].waits) s->polled[i + 2].events = 0;
    if (s->visitor[i].shaking) s->polled[i + 2].events = mscrt_handshake_events(s->visitor[i].shaking);
  }
  if (poll(s->polled, (nfds_t)s->num + 2, s->stay_ns ? LEAVE_MS : any_shaking(s) ? PATIENCE_MS : -1) < 0)
    return errno == EINTR ? NULL : mscrt_fail(MSCRT_ENVIRONMENT, "a parameter server cannot wait: %s", strerror(errno));
  s->told = s->told || s->polled[0].revents != 0;
  uint64_t version = mscrt_shard_version(s->o->shard);
  bool any = false;
  for (int i = s->num; i-- > 0;) {
    visitor *v = &s->visitor[i];
    if (v->shaking) {
      if (!shake_hands(v)) drop_visitor(s, i);
      continue;
    }
    if (is_of_past(s, v)) {
      drop_visitor(s, i);
      continue;
    }
    if (!s->polled[i + 2].revents) continue;
    bool goes_on = !v->waits && (v->out_bytes || receive_frame(s->o, v)) && (!v->out_bytes || send_answer(v));
    any = true;
    if (!goes_on) drop_visitor(s, i);
  }
  if (any || version != mscrt_shard_version(s->o->shard)) answer_waiting(s);
  drop_waiting(s);
  if (s->polled[1].revents) accept_visitor(s);
  *out_stop = s->told && !(s->o->begin && has_joined(s));
  *out_stop |= s->o->until_left && !mscrt_shard_num_members(s->o->shard) && !has_unsent_answers(s);
  return NULL;
}

mscrt_status *mscrt_serve(mscrt_serving *o) {
  serving *s;
  MSCRT_CHECK(mscrt_new_array(&s, 1));
  s->o = o;
  lend_to_backup(o);
  mscrt_status *failure = NULL;
  for (bool stop = false; !failure && !stop;) failure = serve_once(s, &stop);
  while (s->num) drop_visitor(s, s->num - 1);
  mscrt_lent_free(&o->to_backup);
  free(s);
  return failure;
}
