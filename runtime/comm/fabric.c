/* fabric.c: the duplexes of one collective in; all their bytes sent and received out, through a library that passes
 * messages.
 *
 * A stream to another rank is a first message, a head with up to 8 KiB of data, and then pieces of at most 256 KiB, of
 * which a few are under way at a time. Both ends cut the stream at the same places: every 256 KiB, and behind the bytes
 * that the sender has ready at the beginning, since later ones may depend on bytes that it receives. A piece in several
 * spans is copied. A rank that waits sleeps if the library has a file descriptor to sleep on; else, as with MPI, it
 * polls the library and yields its core between polls. */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/fabric.h"

enum { FIRST_BYTES = 8 << 10, PIECE_BYTES = 256 << 10, WINDOW = 4 };

#define SPIN_NS   ((int64_t)50000)
#define ASLEEP_MS 100
#define WEARY_NS  ((int64_t)20000000) /* a rank that has waited for so long rests for a millisecond at a time */

typedef struct {
  mscrt_duplex_head head;
  uint64_t bytes; /* of data behind it */
  uint64_t cut;   /* bytes of data that the sender had ready at the beginning */
} first_head;

/* A message under way. */
typedef struct {
  mscrt_request request;
  uint32_t bytes;
  uint8_t *copy; /* of data in several spans; NULL: they are in one */
  uint32_t span; /* where it begins: the number of a span, and bytes into it */
  uint64_t inside;
} piece;

/* One direction of a duplex. */
typedef struct {
  uint8_t *first; /* room for the first message */
  mscrt_request request;
  bool begun, moved; /* the first message */
  uint64_t at, cut;  /* bytes of the stream in messages that have begun */
  uint32_t span;     /* and where in the spans that is */
  uint64_t inside;
  uint32_t num_begun, num_done;
  piece piece[WINDOW]; /* by number */
} direction;

struct mscrt_fabric {
  const mscrt_member *m;
  const mscrt_fabric_calls *calls;
  void *link; /* the library's */
  bool failed;
  direction *out, *in; /* by rank */
  char why[1200];
};

/* ---- messages ---- */

/* True if `code` is an error of the library; then f->why says which. */
static bool is_failure(mscrt_fabric *f, int code) {
  char text[1024] = "";
  if (!code) return false;
  f->calls->explain(f->link, code, text);
  snprintf(f->why, sizeof f->why, "%s failed: %s", f->calls->name, text);
  return f->failed = true;
}

/* Copies `bytes` bytes between a buffer and spans, from byte *inside of span *at on, and advances *at and *inside. */
static void copy_spans(const mscrt_span *span, uint32_t *at, uint64_t *inside, uint8_t *buffer, uint64_t bytes,
                       bool into_spans) {
  while (bytes) {
    uint64_t n = span[*at].bytes - *inside < bytes ? span[*at].bytes - *inside : bytes;
    uint8_t *place = (uint8_t *)span[*at].at + *inside;
    if (into_spans) memcpy(place, buffer, (size_t)n);
    else memcpy(buffer, place, (size_t)n);
    buffer += n, bytes -= n, *inside += n;
    if (*inside == span[*at].bytes) ++*at, *inside = 0;
  }
}

static void skip_bytes(const mscrt_span *span, uint32_t *at, uint64_t *inside, uint64_t bytes) {
  for (*inside += bytes; *inside && *inside >= span[*at].bytes;) *inside -= span[(*at)++].bytes;
}

static uint8_t *copy_of_piece(piece *p) {
  if (!p->copy) p->copy = malloc(PIECE_BYTES);
  return p->copy;
}

/* The bytes of the piece that begins at d->at, in a stream of `all` bytes. */
static uint32_t bytes_of_piece(const direction *d, uint64_t all) {
  uint64_t left = (d->at < d->cut ? d->cut : all) - d->at;
  return (uint32_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
}

/* Begins the next piece of a stream and returns the address of its bytes: in a span, or in a copy (*out_is_copy). NULL:
 * no memory for the copy. */
static uint8_t *begin_piece(direction *d, const mscrt_span *span, uint32_t bytes, bool *out_is_copy) {
  piece *p = &d->piece[d->num_begun % WINDOW];
  p->bytes = bytes, p->span = d->span, p->inside = d->inside;
  *out_is_copy = span[d->span].bytes - d->inside < bytes;
  return *out_is_copy ? copy_of_piece(p) : (uint8_t *)span[d->span].at + d->inside;
}

static bool is_in_copy(const piece *p, const mscrt_span *span) { return span[p->span].bytes - p->inside < p->bytes; }

/* ---- one duplex ---- */

static bool begin_first(mscrt_fabric *f, mscrt_duplex *l, direction *out, direction *in) {
  first_head h = {.head = l->own, .bytes = l->ready < FIRST_BYTES ? l->ready : FIRST_BYTES, .cut = l->ready};
  memcpy(out->first, &h, sizeof h);
  copy_spans(l->out, &out->span, &out->inside, out->first + sizeof h, h.bytes, false);
  out->at = h.bytes, out->cut = h.cut, out->begun = in->begun = true;
  return !is_failure(f, f->calls->receive(f->link, in->first, sizeof h + FIRST_BYTES, l->rank, &in->request)) &&
         !is_failure(f, f->calls->send(f->link, out->first, (int)(sizeof h + h.bytes), l->rank, &out->request));
}

/* Sends as much as is possible without waiting. Returns 1: messages began or ended, 0: none, -1: the library failed. */
static int send_more(mscrt_fabric *f, mscrt_duplex *l, direction *d) {
  bool done = false, moved = false, is_copy;
  if (!d->moved) {
    if (is_failure(f, f->calls->test(f->link, &d->request, &done))) return -1;
    if (done) d->moved = moved = true, l->head_sent = sizeof l->own, l->sent += ((first_head *)(void *)d->first)->bytes;
  }
  for (; d->num_done < d->num_begun; d->num_done++) {
    piece *p = &d->piece[d->num_done % WINDOW];
    if (is_failure(f, f->calls->test(f->link, &p->request, &done))) return -1;
    if (!done) break;
    l->sent += p->bytes, moved = true;
  }
  while (d->at < l->out_bytes && d->num_begun - d->num_done < WINDOW) {
    piece *p = &d->piece[d->num_begun % WINDOW];
    uint32_t bytes = bytes_of_piece(d, l->out_bytes);
    if (d->at + bytes > l->ready) break;
    uint8_t *at = begin_piece(d, l->out, bytes, &is_copy);
    if (!at) return snprintf(f->why, sizeof f->why, "out of memory"), -1;
    if (is_copy) copy_spans(l->out, &d->span, &d->inside, at, bytes, false);
    else skip_bytes(l->out, &d->span, &d->inside, bytes);
    if (is_failure(f, f->calls->send(f->link, at, (int)bytes, l->rank, &p->request))) return -1;
    d->at += bytes, d->num_begun++, moved = true;
  }
  return moved;
}

/* Reads the first message, which has arrived. False: the other end runs another collective. */
static bool read_first(mscrt_duplex *l, direction *d) {
  first_head h;
  memcpy(&h, d->first, sizeof h);
  l->theirs = h.head, l->head_got = sizeof l->theirs;
  if (!mscrt_duplex_agrees(l) || h.bytes > FIRST_BYTES || h.bytes > h.cut || h.cut > l->in_bytes) return false;
  copy_spans(l->in, &d->span, &d->inside, d->first + sizeof h, h.bytes, true);
  d->moved = true, d->at = h.bytes, d->cut = h.cut, l->got = h.bytes;
  return true;
}

/* Receives as much as is there. Returns 1: some messages began or ended, 0: none, -1: the library failed, -2: the other
 * end runs another collective. */
static int receive_more(mscrt_fabric *f, mscrt_duplex *l, direction *d) {
  bool done = false, moved = false, is_copy;
  if (!d->moved) {
    if (is_failure(f, f->calls->test(f->link, &d->request, &done))) return -1;
    if (!done) return 0;
    if (!read_first(l, d)) return -2;
    moved = true;
  }
  for (; d->num_done < d->num_begun; d->num_done++) {
    piece *p = &d->piece[d->num_done % WINDOW];
    if (is_failure(f, f->calls->test(f->link, &p->request, &done))) return -1;
    if (!done) break;
    if (is_in_copy(p, l->in)) copy_spans(l->in, &p->span, &p->inside, p->copy, p->bytes, true);
    l->got += p->bytes, moved = true;
  }
  while (d->at < l->in_bytes && d->num_begun - d->num_done < WINDOW) {
    piece *p = &d->piece[d->num_begun % WINDOW];
    uint32_t bytes = bytes_of_piece(d, l->in_bytes);
    uint8_t *at = begin_piece(d, l->in, bytes, &is_copy);
    if (!at) return snprintf(f->why, sizeof f->why, "out of memory"), -1;
    skip_bytes(l->in, &d->span, &d->inside, bytes);
    if (is_failure(f, f->calls->receive(f->link, at, (int)bytes, l->rank, &p->request))) return -1;
    d->at += bytes, d->num_begun++;
  }
  return moved;
}

/* ---- all of them ---- */

/* Makes a direction ready for the next collective; its memory stays. */
static void clear_direction(direction *d) {
  d->begun = d->moved = false;
  d->at = d->cut = d->inside = 0;
  d->span = d->num_begun = d->num_done = 0;
}

static mscrt_duplexes_end move_some(mscrt_fabric *f, mscrt_duplexes *l, uint32_t *out_duplex, bool *out_moved) {
  bool over = true;
  for (uint32_t i = 0; i < l->num; i++) {
    mscrt_duplex *duplex = &l->duplex[i];
    direction *out = &f->out[duplex->rank], *in = &f->in[duplex->rank];
    *out_duplex = i;
    if (!out->begun && !begin_first(f, duplex, out, in)) return MSCRT_DUPLEXES_CLOSED;
    int got = receive_more(f, duplex, in), sent = got < 0 ? 0 : send_more(f, duplex, out);
    if (got == -2) return MSCRT_DUPLEXES_DIFFER;
    if (got < 0 || sent < 0) return MSCRT_DUPLEXES_CLOSED;
    *out_moved |= got > 0 || sent > 0;
  }
  if (*out_moved && l->work) l->work(l->user);
  for (uint32_t i = 0; i < l->num; i++)
    over &= mscrt_duplex_is_sent(&l->duplex[i]) && mscrt_duplex_has_come(&l->duplex[i]);
  return over ? MSCRT_DUPLEXES_DONE : MSCRT_DUPLEXES_LATE;
}

/* Yields the core, or sleeps, until a message may have moved. True: l->wake is readable, as the state of a rank has
 * changed. */
static bool wait_for_event(mscrt_fabric *f, mscrt_duplexes *l, int64_t waited) {
  bool sleeps = f->calls->event && waited > SPIN_NS && f->calls->arm(f->link);
  struct pollfd p[2] = {{.fd = l->wake, .events = POLLIN},
                        {.fd = sleeps ? f->calls->event(f->link) : -1, .events = POLLIN}};
  poll(p, 2, sleeps ? ASLEEP_MS : waited > WEARY_NS);
  if (!sleeps) sched_yield();
  return p[0].revents != 0;
}

mscrt_duplexes_end mscrt_fabric_move(mscrt_fabric *f, mscrt_duplexes *l, uint32_t *out_duplex, const char **out_why) {
  int64_t since = mscrt_now_ns();
  *out_why = f->why;
  for (;;) {
    bool moved = false;
    mscrt_duplexes_end end = move_some(f, l, out_duplex, &moved);
    if (end == MSCRT_DUPLEXES_DONE)
      for (uint32_t i = 0; i < l->num; i++)
        clear_direction(&f->out[l->duplex[i].rank]), clear_direction(&f->in[l->duplex[i].rank]);
    if (end != MSCRT_DUPLEXES_LATE) f->failed = end != MSCRT_DUPLEXES_DONE;
    if (end != MSCRT_DUPLEXES_LATE) return end;
    int64_t now = mscrt_now_ns(), waited = now - since;
    if (moved) since = now;
    if (moved || (f->m->o->spin && waited < SPIN_NS)) continue;
    if (waited > (int64_t)l->timeout_ms * 1000000) {
      *out_duplex = mscrt_late_duplex(l), f->failed = true;
      return MSCRT_DUPLEXES_LATE;
    }
    if (wait_for_event(f, l, waited)) return MSCRT_DUPLEXES_WOKEN;
  }
}

/* ---- opening and closing ---- */

mscrt_status *mscrt_fabric_open(const mscrt_fabric_calls *calls, const mscrt_member *m, const int *fd,
                                mscrt_fabric **out_fabric) {
  mscrt_fabric *f = NULL;
  mscrt_status *s = NULL;
  MSCRT_CHECK(mscrt_new_array(&f, 1));
  f->m = m, f->calls = calls;
  MSCRT_GOTO(mscrt_new_array(&f->out, m->ranks));
  MSCRT_GOTO(mscrt_new_array(&f->in, m->ranks));
  for (int r = 0; r < m->ranks; r++) {
    MSCRT_GOTO(mscrt_new_array(&f->out[r].first, sizeof(first_head) + FIRST_BYTES));
    MSCRT_GOTO(mscrt_new_array(&f->in[r].first, sizeof(first_head) + FIRST_BYTES));
  }
  MSCRT_GOTO(calls->open(m, fd, &f->link));
  *out_fabric = f;
  return NULL;
fail:
  mscrt_fabric_close(f);
  return s;
}

static void free_direction(direction *d) {
  free(d->first);
  for (int i = 0; i < WINDOW; i++) free(d->piece[i].copy);
}

bool mscrt_fabric_close(mscrt_fabric *f) {
  if (!f) return true;
  if (f->link && !f->calls->close(f->link, !f->failed)) return false; /* the library may still use the memory */
  for (int r = 0; r < f->m->ranks; r++) {
    if (f->out) free_direction(&f->out[r]);
    if (f->in) free_direction(&f->in[r]);
  }
  free(f->out);
  free(f->in);
  free(f);
  return true;
}
