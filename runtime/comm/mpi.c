/* mpi.c: moves the data of one collective through MPI: duplexes in, the same spans filled and sent.
 *
 * A stream to another rank is a first message, a head with up to 8 KiB of data, and then pieces of at most 256 KiB, of
 * which a few are under way at a time. Both ends cut it at the same places: every 256 KiB, and where the data end that
 * the sender has at the beginning, since what follows may depend on what it receives. A piece in several spans is
 * copied. MPI has nothing to sleep on, so a rank that waits asks again and again, and lets others have its core. */
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/mpi.h"

enum { FIRST_BYTES = 8 << 10, PIECE_BYTES = 256 << 10, WINDOW = 4, TAG = 1, SERIALIZED = 2 };

#define SPIN_NS  ((int64_t)50000)
#define WEARY_NS ((int64_t)20000000) /* a rank that has waited for so long rests for a millisecond at a time */

typedef struct {
  mscrt_duplex_head head;
  uint64_t bytes; /* of data behind it */
  uint64_t cut;   /* where the data end that the sender had at the beginning */
} first_head;

/* A message under way. */
typedef struct {
  mscrt_mpi_handle request;
  uint32_t bytes;
  uint8_t *copy;    /* of data in several spans; NULL: they are in one */
  uint32_t span;    /* where it begins: the number of a span, and bytes into it */
  uint64_t inside;
} piece;

/* One direction of a duplex. */
typedef struct {
  uint8_t *first; /* room for the first message */
  mscrt_mpi_handle request;
  bool begun, moved; /* the first message */
  uint64_t at, cut;  /* bytes of the stream in messages that have begun */
  uint32_t span;     /* and where in the spans that is */
  uint64_t inside;
  uint32_t num_begun, num_done;
  piece piece[WINDOW]; /* by number */
} direction;

struct mscrt_mpi {
  const mscrt_member *m;
  const mscrt_mpi_calls *calls;
  mscrt_mpi_handle comm;
  bool has_comm, failed;
  direction *out, *in; /* by rank */
  char why[1200];
};

/* ---- messages ---- */

static bool note_failure(mscrt_mpi *mpi, int code) {
  char text[1024] = "";
  if (!code) return false;
  mpi->calls->explain(code, text);
  snprintf(mpi->why, sizeof mpi->why, "%s failed: %s", mpi->calls->name, text);
  return mpi->failed = true;
}

/* Copies `bytes` bytes between spans, from a place in them on, and a buffer; the place moves on. */
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

static uint8_t *room_of(piece *p) {
  if (!p->copy) p->copy = malloc(PIECE_BYTES);
  return p->copy;
}

/* The bytes of the piece that begins at d->at, in a stream of `all` bytes. */
static uint32_t bytes_of_piece(const direction *d, uint64_t all) {
  uint64_t left = (d->at < d->cut ? d->cut : all) - d->at;
  return (uint32_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
}

/* Sets where the next piece lies: in a span, or in a copy, which *out_is_copy says. NULL: no memory. */
static uint8_t *place_piece(direction *d, const mscrt_span *span, uint32_t bytes, bool *out_is_copy) {
  piece *p = &d->piece[d->num_begun % WINDOW];
  p->bytes = bytes, p->span = d->span, p->inside = d->inside;
  *out_is_copy = span[d->span].bytes - d->inside < bytes;
  return *out_is_copy ? room_of(p) : (uint8_t *)span[d->span].at + d->inside;
}

static bool is_in_copy(const piece *p, const mscrt_span *span) { return span[p->span].bytes - p->inside < p->bytes; }

/* ---- one duplex ---- */

static bool begin_first(mscrt_mpi *mpi, mscrt_duplex *l, direction *out, direction *in) {
  first_head h = {.head = l->own, .bytes = l->ready < FIRST_BYTES ? l->ready : FIRST_BYTES, .cut = l->ready};
  memcpy(out->first, &h, sizeof h);
  copy_spans(l->out, &out->span, &out->inside, out->first + sizeof h, h.bytes, false);
  out->at = h.bytes, out->cut = h.cut, out->begun = in->begun = true;
  return !note_failure(mpi, mpi->calls->receive(&mpi->comm, in->first, sizeof h + FIRST_BYTES, l->rank, TAG,
                                                &in->request)) &&
         !note_failure(mpi, mpi->calls->send(&mpi->comm, out->first, (int)(sizeof h + h.bytes), l->rank, TAG,
                                             &out->request));
}

/* Returns 1: something moved, 0: nothing, -1: MPI failed. */
static int send_more(mscrt_mpi *mpi, mscrt_duplex *l, direction *d) {
  bool done = false, moved = false, is_copy;
  if (!d->moved) {
    if (note_failure(mpi, mpi->calls->test(&d->request, &done))) return -1;
    if (done) d->moved = moved = true, l->head_sent = sizeof l->own, l->sent += ((first_head *)(void *)d->first)->bytes;
  }
  for (; d->num_done < d->num_begun; d->num_done++) {
    piece *p = &d->piece[d->num_done % WINDOW];
    if (note_failure(mpi, mpi->calls->test(&p->request, &done))) return -1;
    if (!done) break;
    l->sent += p->bytes, moved = true;
  }
  while (d->at < l->out_bytes && d->num_begun - d->num_done < WINDOW) {
    piece *p = &d->piece[d->num_begun % WINDOW];
    uint32_t bytes = bytes_of_piece(d, l->out_bytes);
    if (d->at + bytes > l->ready) break;
    uint8_t *at = place_piece(d, l->out, bytes, &is_copy);
    if (!at) return snprintf(mpi->why, sizeof mpi->why, "out of memory"), -1;
    if (is_copy) copy_spans(l->out, &d->span, &d->inside, at, bytes, false);
    else skip_bytes(l->out, &d->span, &d->inside, bytes);
    if (note_failure(mpi, mpi->calls->send(&mpi->comm, at, (int)bytes, l->rank, TAG, &p->request))) return -1;
    d->at += bytes, d->num_begun++, moved = true;
  }
  return moved;
}

/* Takes the first message: true unless the other end runs another collective. */
static bool take_first(mscrt_duplex *l, direction *d) {
  first_head h;
  memcpy(&h, d->first, sizeof h);
  l->theirs = h.head, l->head_got = sizeof l->theirs;
  if (!mscrt_duplex_agrees(l) || h.bytes > FIRST_BYTES || h.bytes > h.cut || h.cut > l->in_bytes) return false;
  copy_spans(l->in, &d->span, &d->inside, d->first + sizeof h, h.bytes, true);
  d->moved = true, d->at = h.bytes, d->cut = h.cut, l->got = h.bytes;
  return true;
}

/* Likewise, and -2: the other end runs another collective. */
static int receive_more(mscrt_mpi *mpi, mscrt_duplex *l, direction *d) {
  bool done = false, moved = false, is_copy;
  if (!d->moved) {
    if (note_failure(mpi, mpi->calls->test(&d->request, &done))) return -1;
    if (!done) return 0;
    if (!take_first(l, d)) return -2;
    moved = true;
  }
  for (; d->num_done < d->num_begun; d->num_done++) {
    piece *p = &d->piece[d->num_done % WINDOW];
    if (note_failure(mpi, mpi->calls->test(&p->request, &done))) return -1;
    if (!done) break;
    if (is_in_copy(p, l->in)) copy_spans(l->in, &p->span, &p->inside, p->copy, p->bytes, true);
    l->got += p->bytes, moved = true;
  }
  while (d->at < l->in_bytes && d->num_begun - d->num_done < WINDOW) {
    piece *p = &d->piece[d->num_begun % WINDOW];
    uint32_t bytes = bytes_of_piece(d, l->in_bytes);
    uint8_t *at = place_piece(d, l->in, bytes, &is_copy);
    if (!at) return snprintf(mpi->why, sizeof mpi->why, "out of memory"), -1;
    skip_bytes(l->in, &d->span, &d->inside, bytes);
    if (note_failure(mpi, mpi->calls->receive(&mpi->comm, at, (int)bytes, l->rank, TAG, &p->request))) return -1;
    d->at += bytes, d->num_begun++;
  }
  return moved;
}

/* ---- all of them ---- */

/* Forgets a collective that has ended; rooms stay. */
static void clear_direction(direction *d) {
  d->begun = d->moved = false;
  d->at = d->cut = d->inside = 0;
  d->span = d->num_begun = d->num_done = 0;
}

static mscrt_duplexes_end move_some(mscrt_mpi *mpi, mscrt_duplexes *l, uint32_t *out_duplex, bool *out_moved) {
  bool over = true;
  for (uint32_t i = 0; i < l->num; i++) {
    mscrt_duplex *duplex = &l->duplex[i];
    direction *out = &mpi->out[duplex->rank], *in = &mpi->in[duplex->rank];
    *out_duplex = i;
    if (!out->begun && !begin_first(mpi, duplex, out, in)) return MSCRT_DUPLEXES_CLOSED;
    int got = receive_more(mpi, duplex, in), sent = got < 0 ? 0 : send_more(mpi, duplex, out);
    if (got == -2) return MSCRT_DUPLEXES_DIFFER;
    if (got < 0 || sent < 0) return MSCRT_DUPLEXES_CLOSED;
    *out_moved |= got > 0 || sent > 0;
  }
  if (*out_moved && l->work) l->work(l->user);
  for (uint32_t i = 0; i < l->num; i++)
    over &= mscrt_duplex_is_sent(&l->duplex[i]) && mscrt_duplex_has_come(&l->duplex[i]);
  return over ? MSCRT_DUPLEXES_DONE : MSCRT_DUPLEXES_LATE;
}

mscrt_duplexes_end mscrt_mpi_move(mscrt_mpi *mpi, mscrt_duplexes *l, uint32_t *out_duplex, const char **out_why) {
  int64_t since = mscrt_now_ns();
  *out_why = mpi->why;
  for (;;) {
    bool moved = false;
    mscrt_duplexes_end end = move_some(mpi, l, out_duplex, &moved);
    if (end == MSCRT_DUPLEXES_DONE)
      for (uint32_t i = 0; i < l->num; i++)
        clear_direction(&mpi->out[l->duplex[i].rank]), clear_direction(&mpi->in[l->duplex[i].rank]);
    else mpi->failed |= end != MSCRT_DUPLEXES_LATE;
    if (end != MSCRT_DUPLEXES_LATE) return end;
    int64_t now = mscrt_now_ns(), waited = now - since;
    if (moved) since = now;
    if (moved || (mpi->m->o->spin && waited < SPIN_NS)) continue;
    if (waited > (int64_t)l->timeout_ms * 1000000) {
      *out_duplex = mscrt_late_duplex(l), mpi->failed = true;
      return MSCRT_DUPLEXES_LATE;
    }
    struct pollfd p = {.fd = l->wake, .events = POLLIN};
    if (poll(&p, 1, waited > WEARY_NS) > 0) return MSCRT_DUPLEXES_WOKEN;
    sched_yield();
  }
}

/* ---- opening ---- */

static const mscrt_mpi_calls *begun; /* of the library that this process has initialized; it is ended with it */

static void end_begun(void) {
  if (begun && !begun->has_ended()) begun->end();
}

static void *open_library(const char *name, int also) { return dlopen(name, RTLD_NOW | RTLD_GLOBAL | also); }

/* The library that the program has loaded already, else that of the launcher. */
static void *find_library(char *tried, size_t room) {
  static const char *const open_mpi_first[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", NULL},
                           *const mpich_first[] = {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40", NULL};
  const char *const *names = getenv("PMI_SIZE") && !getenv("OMPI_COMM_WORLD_SIZE") ? mpich_first : open_mpi_first;
  const char *given = getenv("MSC_MPI_LIBRARY");
  void *library = NULL;
  snprintf(tried, room, "%s", given ? given : "libmpi.so.40, libmpi.so.12 or libmpich.so.12");
  if (given) return open_library(given, 0);
  for (int i = 0; names[i] && !library; i++) library = open_library(names[i], RTLD_NOLOAD);
  for (int i = 0; names[i] && !library; i++) library = open_library(names[i], 0);
  return library;
}

static mscrt_status *load_mpi(mscrt_mpi *mpi) {
  static const mscrt_mpi_calls *const known[] = {&mscrt_open_mpi, &mscrt_mpich};
  char tried[300];
  const char *why = NULL;
  void *library = find_library(tried, sizeof tried);
  if (!library) {
    why = dlerror();
    return mscrt_fail(MSCRT_ENVIRONMENT, "--comm mpi needs the library of MPI, %s: %s", tried, why ? why : "not there");
  }
  for (size_t i = 0; i < sizeof known / sizeof *known && !mpi->calls; i++) {
    why = known[i]->load(library);
    if (!why) mpi->calls = known[i];
  }
  if (mpi->calls) return NULL;
  return mscrt_fail(MSCRT_UNSUPPORTED, "%s is neither Open MPI nor MPICH: %s", tried, why);
}

static mscrt_status *mpi_failed(mscrt_mpi *mpi, int code) {
  return note_failure(mpi, code) ? mscrt_fail(MSCRT_ENVIRONMENT, "%s", mpi->why) : NULL;
}

static mscrt_status *begin_mpi(mscrt_mpi *mpi) {
  const mscrt_mpi_calls *calls = mpi->calls;
  const mscrt_member *m = mpi->m;
  int level = 0, rank = -1, ranks = 0;
  bool own;
  if (calls->has_ended()) return mscrt_fail(MSCRT_ENVIRONMENT, "%s has been ended in this process", calls->name);
  MSCRT_CHECK(mpi_failed(mpi, calls->begin(&own, &level)));
  if (own) begun = calls, atexit(end_begun);
  if (level < SERIALIZED)
    return mscrt_fail(MSCRT_ENVIRONMENT, "this %s may be called by one thread only (level %d of 3)", calls->name,
                      level);
  MSCRT_CHECK(mpi_failed(mpi, calls->place(&rank, &ranks)));
  if (rank == m->rank && ranks == m->ranks) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT,
                    "this is rank %d of %d, and %s says rank %d of %d: its mpirun has to start the ranks; "
                    "MSC_MPI_LIBRARY names another library",
                    m->rank, m->ranks, calls->name, rank, ranks);
}

static mscrt_status *make_comm(mscrt_mpi *mpi) {
  mscrt_mpi_handle request = {{0}};
  int64_t end = mscrt_now_ns() + (int64_t)mpi->m->o->meet_ms * 1000000;
  bool done = false;
  MSCRT_CHECK(mpi_failed(mpi, mpi->calls->copy_world(&mpi->comm, &request)));
  mpi->has_comm = mpi->failed = true;
  while (!done) {
    MSCRT_CHECK(mpi_failed(mpi, mpi->calls->test(&request, &done)));
    if (!done && mscrt_now_ns() > end)
      return mscrt_fail(MSCRT_PEER, "waited %d ms for all ranks to begin with MPI", mpi->m->o->meet_ms);
    if (!done) sched_yield();
  }
  mpi->failed = false;
  return NULL;
}

mscrt_status *mscrt_mpi_open(const mscrt_member *m, mscrt_mpi **out_mpi) {
  mscrt_mpi *mpi = NULL;
  mscrt_status *s = NULL;
  MSCRT_CHECK(mscrt_new_array(&mpi, 1));
  mpi->m = m;
  MSCRT_GOTO(mscrt_new_array(&mpi->out, m->ranks));
  MSCRT_GOTO(mscrt_new_array(&mpi->in, m->ranks));
  for (int r = 0; r < m->ranks; r++) {
    MSCRT_GOTO(mscrt_new_array(&mpi->out[r].first, sizeof(first_head) + FIRST_BYTES));
    MSCRT_GOTO(mscrt_new_array(&mpi->in[r].first, sizeof(first_head) + FIRST_BYTES));
  }
  MSCRT_GOTO(load_mpi(mpi));
  MSCRT_GOTO(begin_mpi(mpi));
  MSCRT_GOTO(make_comm(mpi));
  *out_mpi = mpi;
  return NULL;
fail:
  mscrt_mpi_close(mpi);
  return s;
}

static void free_direction(direction *d) {
  free(d->first);
  for (int i = 0; i < WINDOW; i++) free(d->piece[i].copy);
}

bool mscrt_mpi_close(mscrt_mpi *mpi) {
  if (!mpi) return true;
  bool idle = !mpi->failed;
  if (idle && mpi->has_comm && !mpi->calls->has_ended()) mpi->calls->free_comm(&mpi->comm);
  if (!idle) begun = NULL; /* others may be gone, and ending MPI would wait for them */
  if (!idle && mpi->has_comm) return false; /* messages under way have the rooms, too */
  for (int r = 0; r < mpi->m->ranks; r++) {
    if (mpi->out) free_direction(&mpi->out[r]);
    if (mpi->in) free_direction(&mpi->in[r]);
  }
  free(mpi->out);
  free(mpi->in);
  free(mpi);
  return idle;
}
