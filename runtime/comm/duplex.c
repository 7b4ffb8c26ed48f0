/* duplex.c: the duplexes of one collective in; all their bytes sent and received out, over all connections at once, in
 * one thread, without blocking: it sends bytes that are ready, receives those that have arrived, and sleeps in poll
 * while there are neither. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>

#include "runtime/comm/tcp.h"

enum { MOST_SPANS = 32 }; /* of one system call */

bool mscrt_duplex_is_sent(const mscrt_duplex *l) { return l->head_sent == sizeof l->own && l->sent == l->out_bytes; }
bool mscrt_duplex_has_come(const mscrt_duplex *l) { return l->head_got == sizeof l->theirs && l->got == l->in_bytes; }
static bool can_send(const mscrt_duplex *l) { return l->head_sent < sizeof l->own || l->sent < l->ready; }

bool mscrt_duplex_agrees(const mscrt_duplex *l) {
  const mscrt_duplex_head *a = &l->own, *b = &l->theirs;
  return a->magic == b->magic && a->verb == b->verb && a->dtype == b->dtype && a->reduction == b->reduction &&
         a->kind == b->kind && a->number == b->number && a->bytes == b->back && a->back == b->bytes;
}

/* Sets v to the next bytes of a list of spans, at most `most`, of whose first span `done` bytes are done; the rest of
 * the head, of which head_done bytes are done, comes first. Returns the number of entries of v. */
static int gather_spans(void *head, uint64_t head_done, mscrt_span *span, uint32_t num, uint64_t done, uint64_t most,
                        struct iovec *v) {
  int n = 0;
  if (head_done < sizeof(mscrt_duplex_head))
    v[n++] = (struct iovec){(uint8_t *)head + head_done, sizeof(mscrt_duplex_head) - (size_t)head_done};
  for (uint32_t i = 0; i < num && most && n < MOST_SPANS; i++, done = 0) {
    uint64_t bytes = span[i].bytes - done < most ? span[i].bytes - done : most;
    if (bytes) v[n++] = (struct iovec){(uint8_t *)span[i].at + done, (size_t)bytes};
    most -= bytes;
  }
  return n;
}

/* Counts n more bytes as sent or received, those of the head first. */
static void advance(uint64_t n, uint64_t *head, uint64_t *all, const mscrt_span *span, uint32_t num, uint32_t *at,
                    uint64_t *done) {
  uint64_t of_head = sizeof(mscrt_duplex_head) - *head;
  if (of_head > n) of_head = n;
  *head += of_head, n -= of_head;
  *all += n;
  while (*at < num && n >= span[*at].bytes - *done) n -= span[*at].bytes - *done, ++*at, *done = 0;
  *done += n;
}

/* Sends as much as is possible without waiting. Returns 1: bytes were sent, 0: none, -1: the other end has closed. */
static int send_some(mscrt_duplex *l) {
  int moved = 0;
  while (can_send(l)) {
    struct iovec v[MOST_SPANS + 1];
    struct msghdr m = {.msg_iov = v};
    m.msg_iovlen = (size_t)gather_spans(&l->own, l->head_sent, l->out + l->out_at, l->num_out - l->out_at, l->out_done,
                                        l->ready - l->sent, v);
    ssize_t n = sendmsg(l->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return -1;
    advance((uint64_t)n, &l->head_sent, &l->sent, l->out, l->num_out, &l->out_at, &l->out_done);
    moved = 1;
  }
  return moved;
}

/* Receives as much as is there. Returns 1: some bytes came, 0: none, -1: the other end has closed, -2: it runs another
 * collective. */
static int receive_some(mscrt_duplex *l) {
  int moved = 0;
  while (!mscrt_duplex_has_come(l)) {
    struct iovec v[MOST_SPANS + 1];
    struct msghdr m = {.msg_iov = v};
    bool head = l->head_got < sizeof l->theirs; /* data are received only after a head that agrees */
    m.msg_iovlen = (size_t)gather_spans(&l->theirs, l->head_got, l->in + l->in_at, l->num_in - l->in_at, l->in_done,
                                        head ? 0 : l->in_bytes - l->got, v);
    ssize_t n = recvmsg(l->fd, &m, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return -1;
    advance((uint64_t)n, &l->head_got, &l->got, l->in, l->num_in, &l->in_at, &l->in_done);
    moved = 1;
    if (head && l->head_got == sizeof l->theirs && !mscrt_duplex_agrees(l)) return -2;
  }
  return moved;
}

void mscrt_send_heads(mscrt_duplexes *l) {
  for (uint32_t i = 0; i < l->num; i++) {
    uint64_t ready = l->duplex[i].ready;
    l->duplex[i].ready = 0;
    send_some(&l->duplex[i]); /* a failure is found again when the rest is sent */
    l->duplex[i].ready = ready;
  }
}

/* Returns how far a duplex is: below 1 while bytes to receive are missing, 1 while only bytes to send are left, 2:
 * done. */
static double progress(const mscrt_duplex *l) {
  if (mscrt_duplex_has_come(l)) return mscrt_duplex_is_sent(l) ? 2 : 1;
  return l->in_bytes ? (double)l->got / (double)l->in_bytes : 0;
}

bool mscrt_one_is_late(const mscrt_duplexes *l) {
  uint32_t num_late = 0;
  for (uint32_t i = 0; i < l->num; i++) num_late += l->duplex[i].head_got < sizeof l->duplex[i].theirs;
  return num_late == 1 || l->num == 1;
}

uint32_t mscrt_late_duplex(const mscrt_duplexes *l) {
  uint32_t late = 0;
  for (uint32_t i = 1; i < l->num; i++)
    if (progress(&l->duplex[i]) < progress(&l->duplex[late])) late = i;
  for (uint32_t i = l->num; i-- > 0;)
    if (l->duplex[i].head_got < sizeof l->duplex[i].theirs) late = i;
  return late;
}

mscrt_duplexes_end mscrt_duplexes_move(mscrt_duplexes *l, uint32_t *out_duplex) {
  int64_t limit = (int64_t)l->timeout_ms * 1000000, deadline = mscrt_now_ns() + limit;
  for (;;) {
    bool moved = false, over = true;
    for (uint32_t i = 0; i < l->num; i++) {
      mscrt_duplex *duplex = &l->duplex[i];
      int sent = send_some(duplex), got = receive_some(duplex);
      *out_duplex = i;
      if (got == -2) return MSCRT_DUPLEXES_DIFFER;
      if ((sent < 0 && !mscrt_duplex_is_sent(duplex)) || got < 0) return MSCRT_DUPLEXES_CLOSED;
      moved |= sent > 0 || got > 0;
    }
    if (moved && l->work) l->work(l->user);
    for (uint32_t i = 0; i < l->num; i++)
      over &= mscrt_duplex_is_sent(&l->duplex[i]) && mscrt_duplex_has_come(&l->duplex[i]);
    if (over) return MSCRT_DUPLEXES_DONE;
    if (moved) {
      deadline = mscrt_now_ns() + limit;
      bool more = false;
      for (uint32_t i = 0; i < l->num; i++) more |= can_send(&l->duplex[i]) && !mscrt_duplex_is_sent(&l->duplex[i]);
      if (more && l->work) continue; /* what became ready goes before this thread sleeps */
    }
    int64_t left = deadline - mscrt_now_ns();
    if (left <= 0) {
      *out_duplex = mscrt_late_duplex(l);
      return MSCRT_DUPLEXES_LATE;
    }
    nfds_t n = 0;
    l->polled[n++] = (struct pollfd){.fd = l->wake, .events = POLLIN};
    for (uint32_t i = 0; i < l->num; i++) {
      const mscrt_duplex *duplex = &l->duplex[i];
      short events = (short)((mscrt_duplex_has_come(duplex) ? 0 : POLLIN) | (can_send(duplex) ? POLLOUT : 0));
      if (events) l->polled[n++] = (struct pollfd){.fd = duplex->fd, .events = events};
    }
    poll(l->polled, n, (int)(left / 1000000 < 1000 ? left / 1000000 + 1 : 1000));
    if (l->polled[0].revents) return MSCRT_DUPLEXES_WOKEN;
  }
}
