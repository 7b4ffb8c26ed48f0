/* mail.c: messages between pipeline stages on different hosts, through the same mailboxes as in mailbox.c, in the
 * memory of the receiver. A thread of the receiver writes messages there as they arrive, so that a sender never waits
 * while the receiver computes. The receiver tells the sender how many messages it has read. A rank that has several
 * stages writes messages between them to its own mailboxes. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "runtime/comm/shared_memory.h"
#include "runtime/comm/tcp.h"

#define MAGIC          0x6c69616d
#define LOOK_AROUND_NS ((int64_t)100000000)
#define VERDICT_NS     ((int64_t)1000000000) /* to hear why a connection has ended */

typedef enum { LETTER, TAKEN } kind_of_mail;

typedef struct {
  uint32_t magic, kind;
  uint64_t mailbox, bytes;
  uint32_t depth, number; /* number: of the message in its mailbox, from 0 */
} envelope;

/* The messages that this rank sends to one other rank. */
typedef struct outbox {
  struct outbox *next;
  int peer;
  uint64_t mailbox;
  uint32_t sent;
  mscrt_counter taken;
} outbox;

/* The messages that come from one rank. */
typedef struct {
  int fd;
  envelope head;
  uint64_t got; /* bytes received of the head and of the message that it announces */
  _Atomic bool closed;
} inbox;

struct mscrt_mail {
  mscrt_member *m;
  uint8_t *arena;
  inbox *in; /* of each rank */
  struct pollfd *polled;
  pthread_mutex_t lock; /* of the list */
  outbox *out;
  int stop;
  pthread_t thread;
  bool has_thread;
};

/* ---- the thread ---- */

static mscrt_mailbox *mailbox_at(const mscrt_mail *mail, uint64_t offset) {
  return (mscrt_mailbox *)(void *)(mail->arena + offset);
}

static uint8_t *slot_of_envelope(const mscrt_mail *mail, const envelope *e) {
  return mscrt_mailbox_slot(mailbox_at(mail, e->mailbox), e->number, e->depth, e->bytes);
}

/* True if an envelope is well formed, and a letter is the next one in order and its mailbox inside the arena. */
static bool is_valid(const mscrt_mail *mail, const envelope *e) {
  uint64_t arena = mail->m->o->arena_bytes;
  if (e->magic != MAGIC || e->kind > TAKEN) return false;
  if (e->kind == TAKEN) return true;
  if (e->depth == 0 || e->bytes > arena / e->depth || e->mailbox > arena || e->mailbox % MSC_MAILBOX_LINE ||
      msc_mailbox_bytes(e->bytes, e->depth) > arena - e->mailbox)
    return false;
  mscrt_mailbox *b = mailbox_at(mail, e->mailbox);
  return e->number == atomic_load(&b->sent.count) && e->number - atomic_load(&b->taken.count) < e->depth;
}

static outbox *find_outbox(mscrt_mail *mail, int peer, uint64_t offset) {
  pthread_mutex_lock(&mail->lock);
  outbox *o = mail->out;
  while (o && (o->peer != peer || o->mailbox != offset)) o = o->next;
  pthread_mutex_unlock(&mail->lock);
  return o;
}

static void deliver(mscrt_mail *mail, int peer, const envelope *e) {
  if (e->kind == LETTER) {
    mscrt_local_count(&mailbox_at(mail, e->mailbox)->sent);
    return;
  }
  outbox *o = find_outbox(mail, peer, e->mailbox);
  if (o) mscrt_local_count(&o->taken);
}

/* Receives the bytes that have arrived from a rank; false: the connection cannot be used any longer. */
static bool read_mail(mscrt_mail *mail, int peer) {
  inbox *in = &mail->in[peer];
  for (;;) {
    bool head = in->got < sizeof in->head;
    uint64_t whole = sizeof in->head + (head || in->head.kind == TAKEN ? 0 : in->head.bytes);
    uint8_t *at =
        head ? (uint8_t *)&in->head + in->got : slot_of_envelope(mail, &in->head) + (in->got - sizeof in->head);
    ssize_t n = recv(in->fd, at, (size_t)(whole - in->got), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    in->got += (uint64_t)n;
    if (in->got == sizeof in->head && !is_valid(mail, &in->head)) return false;
    whole = in->got < sizeof in->head ? UINT64_MAX : sizeof in->head + (in->head.kind == TAKEN ? 0 : in->head.bytes);
    if (in->got < whole) continue;
    deliver(mail, peer, &in->head);
    in->got = 0;
  }
}

static void *receive_mail(void *arg) {
  mscrt_mail *mail = arg;
  int ranks = mail->m->ranks;
  for (;;) {
    nfds_t n = 1;
    mail->polled[0] = (struct pollfd){.fd = mail->stop, .events = POLLIN};
    for (int r = 0; r < ranks; r++)
      mail->polled[n++] =
          (struct pollfd){.fd = atomic_load(&mail->in[r].closed) ? -1 : mail->in[r].fd, .events = POLLIN};
    poll(mail->polled, n, -1);
    if (mail->polled[0].revents) return NULL;
    for (int r = 0; r < ranks; r++)
      if (mail->polled[r + 1].revents && !read_mail(mail, r)) atomic_store(&mail->in[r].closed, true);
  }
}

/* ---- sending and receiving ---- */

typedef struct {
  const mscrt_channel *channel;
  const mscrt_site *site;
  bool sends;
  int64_t deadline_ns, closed_ns; /* closed: when the connection was found to have ended; 0: it has not */
} passing;

/* Returns a status if the other rank will not answer any more; NULL: it may. */
static mscrt_status *check_for_loss(mscrt_mail *mail, passing *p) {
  char why[320];
  int culprit, peer = p->channel->peer;
  int64_t now = mscrt_now_ns();
  if (atomic_load(&mail->in[peer].closed) && !p->closed_ns) p->closed_ns = now;
  bool knows = mscrt_member_lost(mail->m, &culprit, why), over = !knows && mscrt_member_is_over(mail->m, peer, why);
  bool cut = p->closed_ns && now > p->closed_ns + VERDICT_NS;
  if (!knows && !over && !cut && now < p->deadline_ns) return NULL;
  if (!knows && !over && cut) snprintf(why, sizeof why, "the connection with rank %d has ended", peer);
  else if (!knows && !over)
    snprintf(why, sizeof why, "rank %d is missing (at step %" PRId64 "), waited %d ms", peer,
             mscrt_step_number(mail->m->seen_step[peer]), mail->m->o->timeout_ms);
  if (!knows) mscrt_member_blame(mail->m, peer, why);
  return mscrt_lost_in_message(mail->m->rank, peer, p->sends, p->site, why);
}

static mscrt_status *wait_for_count(mscrt_mail *mail, mscrt_counter *k, uint32_t least, passing *p) {
  mscrt_status *s = NULL;
  atomic_fetch_add(&k->sleepers, 1);
  while (!s) {
    uint32_t seen = atomic_load(&k->count);
    if ((int32_t)(seen - least) >= 0) break;
    mscrt_futex_wait(&k->count, seen, LOOK_AROUND_NS, true);
    if ((int32_t)(atomic_load(&k->count) - least) < 0) s = check_for_loss(mail, p);
  }
  atomic_fetch_sub(&k->sleepers, 1);
  return s;
}

static mscrt_status *send_envelope(mscrt_mail *mail, const envelope *e, const void *src, passing *p) {
  uint64_t done = 0, whole = sizeof *e + (e->kind == LETTER ? e->bytes : 0);
  int fd = mail->in[p->channel->peer].fd;
  while (done < whole) {
    struct iovec v[2] = {{(uint8_t *)(uintptr_t)e + done, sizeof *e - (size_t)done},
                         {(void *)(uintptr_t)src, (size_t)(whole - sizeof *e)}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    if (done >= sizeof *e) {
      v[1] = (struct iovec){(uint8_t *)(uintptr_t)src + (done - sizeof *e), (size_t)(whole - done)};
      m.msg_iov = v + 1, m.msg_iovlen = 1;
    }
    ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) done += (uint64_t)n;
    if (n < 0 && errno != EINTR && errno != EAGAIN && !p->closed_ns) p->closed_ns = mscrt_now_ns();
    if (n >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN && e->kind == TAKEN) return NULL; /* a sender that has ended does not need to know */
    MSCRT_CHECK(check_for_loss(mail, p));
    poll(&(struct pollfd){.fd = p->closed_ns ? -1 : fd, .events = POLLOUT}, 1, 100);
  }
  return NULL;
}

static passing passing_of(mscrt_mail *mail, const mscrt_channel *m, bool sends, const mscrt_site *site) {
  atomic_store(&mail->m->step, site->step);
  return (passing){m, site, sends, mscrt_now_ns() + (int64_t)mail->m->o->timeout_ms * 1000000, 0};
}

/* Writes a message from one of this rank's stages to another into the mailbox. */
static mscrt_status *send_to_self(mscrt_mail *mail, const mscrt_channel *m, const void *src, passing *p) {
  mscrt_mailbox *b = mailbox_at(mail, m->mailbox);
  envelope e = {MAGIC, LETTER, m->mailbox, m->bytes, m->depth, atomic_load(&b->sent.count)};
  MSCRT_CHECK(wait_for_count(mail, &b->taken, e.number + 1 - m->depth, p));
  memcpy(slot_of_envelope(mail, &e), src, (size_t)m->bytes);
  mscrt_local_count(&b->sent);
  return NULL;
}

mscrt_status *mscrt_mail_send(mscrt_mail *mail, const mscrt_channel *m, const void *src, const mscrt_site *site) {
  passing p = passing_of(mail, m, true, site);
  if (m->peer == mail->m->rank) return send_to_self(mail, m, src, &p);
  outbox *o = find_outbox(mail, m->peer, m->mailbox);
  if (!o) { /* once for each channel */
    MSCRT_CHECK(mscrt_new_array(&o, 1));
    pthread_mutex_lock(&mail->lock);
    *o = (outbox){.next = mail->out, .peer = m->peer, .mailbox = m->mailbox};
    mail->out = o;
    pthread_mutex_unlock(&mail->lock);
  }
  MSCRT_CHECK(wait_for_count(mail, &o->taken, o->sent + 1 - m->depth, &p));
  envelope e = {MAGIC, LETTER, m->mailbox, m->bytes, m->depth, o->sent++};
  return send_envelope(mail, &e, src, &p);
}

mscrt_status *mscrt_mail_receive(mscrt_mail *mail, const mscrt_channel *m, void *dst, const mscrt_site *site) {
  passing p = passing_of(mail, m, false, site);
  mscrt_mailbox *b = mailbox_at(mail, m->mailbox);
  uint32_t number = atomic_load(&b->taken.count);
  envelope e = {MAGIC, TAKEN, m->mailbox, m->bytes, m->depth, number};
  MSCRT_CHECK(wait_for_count(mail, &b->sent, number + 1, &p));
  memcpy(dst, slot_of_envelope(mail, &e), (size_t)m->bytes);
  mscrt_local_count(&b->taken);
  return m->peer == mail->m->rank ? NULL : send_envelope(mail, &e, NULL, &p);
}

/* ---- opening and closing ---- */

mscrt_status *mscrt_mail_open(mscrt_member *m, int *fds, uint8_t *arena, mscrt_mail **out_mail) {
  mscrt_mail *mail = NULL;
  mscrt_status *s = NULL;
  *out_mail = NULL;
  MSCRT_CHECK(mscrt_new_array(&mail, 1));
  mail->m = m, mail->arena = arena, mail->stop = -1;
  pthread_mutex_init(&mail->lock, NULL);
  MSCRT_GOTO(mscrt_new_array(&mail->in, m->ranks));
  for (int r = 0; r < m->ranks; r++) mail->in[r].fd = fds[r], fds[r] = -1;
  MSCRT_GOTO(mscrt_new_array(&mail->polled, m->ranks + 1));
  mail->stop = eventfd(0, EFD_CLOEXEC);
  if (mail->stop < 0 || pthread_create(&mail->thread, NULL, receive_mail, mail) != 0) {
    s = mscrt_fail(MSCRT_ENVIRONMENT, "no thread for messages between stages");
    goto fail;
  }
  mail->has_thread = true;
  *out_mail = mail;
  return NULL;
fail:
  mscrt_mail_close(mail);
  return s;
}

void mscrt_mail_close(mscrt_mail *mail) {
  uint64_t one = 1;
  if (!mail) return;
  /* waits until all messages have arrived: closing a connection with unread bytes would discard them */
  for (int r = 0; mail->has_thread && r < mail->m->ranks; r++)
    if (mail->in[r].fd >= 0) shutdown(mail->in[r].fd, SHUT_WR);
  if (mail->has_thread) {
    if (write(mail->stop, &one, sizeof one) != sizeof one) {} /* it is full: already stopping */
    pthread_join(mail->thread, NULL);
  }
  for (int r = 0; mail->in && r < mail->m->ranks; r++)
    if (mail->in[r].fd >= 0) close(mail->in[r].fd);
  for (outbox *o = mail->out, *next; o; o = next) {
    next = o->next;
    free(o);
  }
  if (mail->stop >= 0) close(mail->stop);
  pthread_mutex_destroy(&mail->lock);
  free(mail->in);
  free(mail->polled);
  free(mail);
}
