/* connect.c: connects the ranks once all know where the others listen: a rank connects to those with lower numbers and
 * accepts those with higher ones; both ends prove that they belong to the job. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/tcp.h"

#define SHAKING_NS ((int64_t)5000000000)
#define STRANGERS  64 /* accepted connections, more than ranks, whose other end has not said yet who it is */

/* A connection whose handshake is under way. */
typedef struct {
  bool used;
  int rank; /* to which this rank connects; -1: the connection was accepted */
  mscrt_handshake h;
} attempt;

typedef struct {
  const mscrt_member *m;
  int listener, num, left; /* left: connections that are missing */
  attempt *attempt;
  struct pollfd *polled;
  int *data, *mail;
} connecting;

/* The place for the connection with a rank. */
static int *connection_of(const connecting *c, uint32_t purpose, int rank) {
  return purpose == MSCRT_FOR_MAIL ? &c->mail[rank] : &c->data[rank];
}

/* Returns an attempt that is not used; if there is none, the oldest accepted one is dropped. */
static attempt *find_free_attempt(connecting *c) {
  attempt *oldest = NULL;
  for (int i = 0; i < c->num; i++) {
    attempt *a = &c->attempt[i];
    if (!a->used) return a;
    if (a->rank < 0 && (!oldest || a->h.deadline_ns < oldest->h.deadline_ns)) oldest = a;
  }
  close(oldest->h.fd);
  return oldest;
}

static mscrt_status *dial_ranks(connecting *c, int64_t deadline_ns) {
  const mscrt_member *m = c->m;
  for (int r = 0; r < m->rank; r++)
    for (int mail = !c->data; mail <= (int)m->o->has_mail; mail++) {
      int fd;
      attempt *a = find_free_attempt(c);
      mscrt_status *s = mscrt_dial_rank(&m->entry[r].address, &fd);
      if (s) {
        if (fd >= 0) close(fd);
        return mscrt_add_prefix(s, "rank %d", r);
      }
      a->used = true, a->rank = r;
      mscrt_handshake_begin(&a->h, &m->key, fd, false, mail ? MSCRT_FOR_MAIL : MSCRT_FOR_DATA, m->rank, m->job,
                            deadline_ns);
    }
  return NULL;
}

static void accept_ranks(connecting *c) {
  for (int fd; (fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    attempt *a = find_free_attempt(c);
    a->used = true, a->rank = -1;
    mscrt_set_socket(fd);
    mscrt_handshake_begin(&a->h, &c->m->key, fd, true, MSCRT_FOR_DATA, c->m->rank, c->m->job,
                          mscrt_now_ns() + SHAKING_NS);
  }
}

/* Keeps a connection whose other end has proved that it belongs to the job, if that rank's connection is still
 * missing. */
static void store_connection(connecting *c, attempt *a) {
  const mscrt_greeting *g = &a->h.hello;
  int rank = a->rank >= 0 ? a->rank : g->rank;
  bool purpose = (g->purpose == MSCRT_FOR_DATA && c->data) || (g->purpose == MSCRT_FOR_MAIL && c->m->o->has_mail);
  bool right = purpose && g->job == c->m->job && rank >= 0 && rank < c->m->ranks && rank != c->m->rank &&
               (a->rank >= 0 || rank > c->m->rank);
  int *place = right ? connection_of(c, g->purpose, rank) : NULL;
  a->used = false;
  if (!place || *place >= 0) {
    close(a->h.fd);
    return;
  }
  *place = a->h.fd;
  c->left--;
}

/* Continues all handshakes as far as possible without waiting. */
static mscrt_status *advance_attempts(connecting *c) {
  for (int i = 0; i < c->num; i++) {
    attempt *a = &c->attempt[i];
    char text[MSCRT_ADDRESS_TEXT];
    if (!a->used) continue;
    mscrt_shake state = mscrt_handshake_go(&a->h);
    if (state == MSCRT_SHAKEN) store_connection(c, a);
    if (state != MSCRT_UNSHAKEN) continue;
    close(a->h.fd);
    a->used = false;
    if (a->rank < 0) continue; /* a stranger */
    mscrt_address_text(&c->m->entry[a->rank].address, text);
    return mscrt_fail(MSCRT_PEER, "cannot connect to rank %d at %s: %s", a->rank, text, a->h.why);
  }
  return NULL;
}

static mscrt_status *missing_connection(const connecting *c) {
  int rank = 0;
  for (int r = 0; r < c->m->ranks; r++)
    if (r != c->m->rank && ((c->data && c->data[r] < 0) || (c->m->o->has_mail && c->mail[r] < 0))) rank = r;
  return mscrt_fail(MSCRT_PEER, "waited %d ms for a connection with rank %d", c->m->o->meet_ms, rank);
}

static mscrt_status *connect_all(connecting *c) {
  int64_t deadline = mscrt_now_ns() + (int64_t)c->m->o->meet_ms * 1000000;
  MSCRT_CHECK(dial_ranks(c, deadline));
  while (c->left) {
    nfds_t n = 0;
    c->polled[n++] = (struct pollfd){.fd = c->listener, .events = POLLIN};
    c->polled[n++] = (struct pollfd){.fd = c->m->link.fd, .events = POLLIN}; /* the job may be refused meanwhile */
    for (int i = 0; i < c->num; i++)
      if (c->attempt[i].used)
        c->polled[n++] = (struct pollfd){.fd = c->attempt[i].h.fd, .events = mscrt_handshake_events(&c->attempt[i].h)};
    poll(c->polled, n, 200);
    if (c->polled[1].revents) return NULL; /* the caller reads why */
    if (c->polled[0].revents) accept_ranks(c);
    MSCRT_CHECK(advance_attempts(c));
    if (c->left && mscrt_now_ns() > deadline) return missing_connection(c);
  }
  return NULL;
}

mscrt_status *mscrt_connect_ranks(const mscrt_member *m, int listener, int *out_data, int *out_mail) {
  mscrt_status *s = NULL;
  int kinds = (out_data != NULL) + m->o->has_mail;
  connecting c = {.m = m, .listener = listener, .data = out_data, .mail = out_mail};
  c.num = kinds * m->ranks + STRANGERS, c.left = kinds * (m->ranks - 1);
  for (int r = 0; r < m->ranks && out_data; r++) out_data[r] = -1;
  for (int r = 0; r < m->ranks; r++) out_mail[r] = -1;
  MSCRT_GOTO(mscrt_new_array(&c.attempt, c.num));
  MSCRT_GOTO(mscrt_new_array(&c.polled, c.num + 2));
  MSCRT_GOTO(connect_all(&c));
fail:
  for (int i = 0; c.attempt && i < c.num; i++)
    if (c.attempt[i].used) close(c.attempt[i].h.fd);
  free(c.attempt);
  free(c.polled);
  return s;
}
