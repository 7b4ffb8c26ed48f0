/* rendezvous_scheduler.c: a thread that leads a job: it lets ranks join, refuses those that do not fit, tells all where
 * the others listen, and then, until the end, which ranks have ended and which are lost.
 *
 * A connection is first a handshake (at most MOST_SHAKING of them, each of fixed size and with a limit of time; a new
 * one takes the place of the oldest), then a guest that has not said yet which rank it is, then a rank. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "runtime/comm/tcp.h"

#define MOST_SHAKING   1000
#define MOST_STRANGERS 64 /* guests that have not joined, beside the ranks */
#define SHAKING_NS     ((int64_t)5000000000)
#define ANNOUNCE_NS    ((int64_t)5000000000)
#define FLUSH_NS       ((int64_t)500000000)

typedef enum { GATHERING, CONNECTING, RUNNING, OVER } phase;

typedef struct {
  mscrt_link link; /* fd -1: free, or gone */
  mscrt_joining j;
  bool used, joined, ready, ended;
  bool asks; /* which rank it is to be: it has not joined, and j has its host */
  int64_t heard_ns, step;
  char from[MSCRT_ADDRESS_TEXT];
} guest;

struct mscrt_scheduler {
  mscrt_comm_options o;
  const mscrt_key *key;
  char address[MSCRT_ADDRESS_TEXT];
  int listener, stop;
  pthread_t thread;
  phase phase;
  int num_shaking, num_guests;
  mscrt_handshake *shaking; /* the oldest first */
  guest *guest;
  int *seat; /* of each rank: its guest; -1: none yet */
  int64_t *promised_ns; /* of each rank: until when it is kept for a guest that was told it is its rank; 0: it is not */
  int64_t *steps;
  struct pollfd *polled;
  int64_t deadline_ns, announced_ns, heartbeat_ns, looked_ns, silence_ns;
  bool lost;
  mscrt_status *result; /* why the job could not start, or which rank it lost */
};

static void send_to_all(mscrt_scheduler *s, mscrt_frame_type type, const void *payload, size_t bytes) {
  for (int i = 0; i < s->num_guests; i++)
    if ((s->guest[i].joined || s->guest[i].asks) && s->guest[i].link.fd >= 0)
      mscrt_link_send(&s->guest[i].link, type, payload, bytes);
}

static void free_guest(guest *g) {
  mscrt_link_close(&g->link);
  *g = (guest){.link = {.fd = -1}};
}

/* Ends a job that has not begun, and tells every rank that has joined why. */
static void refuse_job(mscrt_scheduler *s, mscrt_status *why) {
  const char *text = mscrt_status_text(why);
  send_to_all(s, MSCRT_REFUSED, text, strlen(text) + 1);
  if (s->result) mscrt_status_free(why);
  else s->result = why;
  s->phase = OVER;
}

/* ---- joining ---- */

static void list_missing(const mscrt_scheduler *s, char *out, size_t room) {
  size_t n = 0;
  int nameless = 0;
  out[0] = 0;
  for (int i = 0; i < s->num_guests; i++)
    nameless += s->guest[i].asks || (s->guest[i].joined && s->guest[i].j.rank < 0);
  if (nameless) {
    int joined = 0;
    for (int i = 0; i < s->num_guests; i++) joined += s->guest[i].joined || s->guest[i].asks;
    snprintf(out, room, "%d of %d ranks", s->o.ranks - joined, s->o.ranks);
    return;
  }
  for (int r = 0; r < s->o.ranks && n + 24 < room; r++)
    if (s->seat[r] < 0) n += (size_t)snprintf(out + n, room - n, "%s%d", n ? ", " : "ranks ", r);
  snprintf(out + n, room - n, " of %d", s->o.ranks);
}

static void refuse_guest(guest *g, const char *why) {
  mscrt_link_send(&g->link, MSCRT_REFUSED, why, strlen(why) + 1);
  free_guest(g);
}

/* True if a rank with another plan must be refused without ending the job: where ranks may be replaced. */
static bool is_unfit(const mscrt_scheduler *s, const mscrt_joining *j) {
  if (!s->o.recovers || s->o.led) return false;
  return j->ranks != s->o.ranks || j->plan_hash != s->o.plan_hash || j->arena_bytes != s->o.arena_bytes ||
         j->num_partitions != s->o.num_partitions || j->has_mail != s->o.has_mail;
}

/* Handles a guest that has said which rank it is: it gets its seat, or is refused. */
static void seat_guest(mscrt_scheduler *s, int index) {
  guest *g = &s->guest[index];
  char why[400];
  int joined = 0;
  bool ends = s->lost || (s->o.recovers && s->phase != GATHERING);
  for (int i = 0; i < s->num_guests; i++) joined += s->guest[i].joined, ends |= s->guest[i].ended;
  ends |= s->o.recovers && g->j.rank >= 0 && g->j.rank < s->o.ranks && s->seat[g->j.rank] >= 0;
  if (ends) { /* it belongs to the next job at this address, and will try again */
    free_guest(g);
    return;
  }
  if (is_unfit(s, &g->j)) {
    snprintf(why, sizeof why, "rank %d has another plan than rank 0", g->j.rank);
    mscrt_link_send(&g->link, MSCRT_UNFIT, why, strlen(why) + 1);
    free_guest(g);
    return;
  }
  if (g->j.rank >= s->o.ranks || g->j.rank < -1) {
    snprintf(why, sizeof why, "there is no rank %d in this job of %d", g->j.rank, s->o.ranks);
  } else if (g->j.rank >= 0 && s->seat[g->j.rank] >= 0) {
    snprintf(why, sizeof why, "a rank of this number has joined already: rank %d from %s, this one comes from %s",
             g->j.rank, s->guest[s->seat[g->j.rank]].from, g->from);
  } else if (joined == s->o.ranks || s->phase != GATHERING) {
    snprintf(why, sizeof why, "the job has all its %d ranks already; this one comes from %s", s->o.ranks, g->from);
  } else {
    g->joined = true;
    if (g->j.rank >= 0) s->seat[g->j.rank] = index;
    return;
  }
  refuse_guest(g, why);
}

/* Returns the guest without a number that becomes rank r: of the host of rank r - 1 if there is one, else the first. */
static int find_nameless(const mscrt_scheduler *s, int r) {
  int best = -1;
  uint64_t before = r > 0 ? s->guest[s->seat[r - 1]].j.host : 0;
  for (int i = 0; i < s->num_guests; i++) {
    const guest *g = &s->guest[i];
    if (!(g->joined || g->asks) || g->j.rank >= 0) continue;
    if (best < 0 || (g->j.host == before && s->guest[best].j.host != before)) best = i;
  }
  return best;
}

/* Numbers the ranks that have no number: free numbers in order, neighbours on one host, in the order in which they
 * came. */
static void seat_nameless(mscrt_scheduler *s) {
  for (int r = 0; r < s->o.ranks; r++) {
    if (s->seat[r] >= 0) continue;
    int best = find_nameless(s, r);
    s->guest[best].j.rank = r;
    s->seat[r] = best;
  }
}

/* Tells every guest that asked which rank it is to be; then it connects again and joins. */
static void answer_askers(mscrt_scheduler *s) {
  seat_nameless(s);
  for (int r = 0; r < s->o.ranks; r++) {
    guest *g = &s->guest[s->seat[r]];
    int32_t rank = r;
    if (!g->asks) continue;
    mscrt_link_send(&g->link, MSCRT_RANK, &rank, sizeof rank);
    g->asks = false;
    s->seat[r] = -1;
    s->promised_ns[r] = mscrt_now_ns() + SHAKING_NS;
  }
}

/* The ranks that are taken: of guests that joined or asked, and of those that were told their rank and have yet to join
 * under it. */
static int count_taken_ranks(const mscrt_scheduler *s) {
  int num = 0;
  int64_t now = mscrt_now_ns();
  for (int i = 0; i < s->num_guests; i++) num += s->guest[i].joined || s->guest[i].asks;
  for (int r = 0; r < s->o.ranks; r++) num += s->seat[r] < 0 && now < s->promised_ns[r];
  return num;
}

static void handle_asking(mscrt_scheduler *s, guest *g, const mscrt_asking *a) {
  char why[200] = "";
  bool full = s->phase == GATHERING ? count_taken_ranks(s) >= s->o.ranks : !s->o.recovers;
  if (a->ranks != s->o.ranks)
    snprintf(why, sizeof why, "this process believes in %d ranks, the job has %d", a->ranks, s->o.ranks);
  else if (full)
    snprintf(why, sizeof why, "the job has all its %d ranks already; this one comes from %s", s->o.ranks, g->from);
  if (*why) refuse_guest(g, why);
  else if (s->phase != GATHERING || s->lost) free_guest(g); /* it will ask the job that goes on after this one */
  else g->asks = true, g->j = (mscrt_joining){.rank = -1, .host = a->host};
}

static mscrt_status *compare_plan_hashes(const mscrt_scheduler *s) {
  const mscrt_joining *first = &s->guest[s->seat[0]].j;
  for (int r = 0; r < s->o.ranks; r++) {
    const mscrt_joining *j = &s->guest[s->seat[r]].j;
    if (j->ranks != s->o.ranks)
      return mscrt_fail(MSCRT_ARGUMENT, "rank %d believes in %d ranks, rank 0 in %d", r, j->ranks, s->o.ranks);
    if (j->plan_hash != first->plan_hash || j->arena_bytes != first->arena_bytes ||
        j->num_partitions != first->num_partitions || j->has_mail != first->has_mail)
      return mscrt_fail(MSCRT_INPUT, "rank %d has another plan than rank 0", r);
  }
  return NULL;
}

/* Sends the addresses of all ranks to every rank, once all have joined. */
static void send_tables(mscrt_scheduler *s) {
  seat_nameless(s);
  mscrt_status *why = compare_plan_hashes(s);
  if (why) {
    refuse_job(s, why);
    return;
  }
  size_t bytes = sizeof(mscrt_table_head) + (size_t)s->o.ranks * sizeof(mscrt_entry);
  uint8_t *table = calloc(1, bytes);
  mscrt_table_head head = {.ranks = s->o.ranks, .silence_ms = (int32_t)(s->silence_ns / 1000000)};
  if (!table || bytes > MSCRT_MOST_FRAME || getrandom(&head.job, sizeof head.job, 0) != sizeof head.job) {
    free(table);
    refuse_job(s, mscrt_fail(MSCRT_NO_MEMORY, "out of memory for the addresses of %d ranks", s->o.ranks));
    return;
  }
  for (int r = 0; r < s->o.ranks; r++) {
    const mscrt_joining *j = &s->guest[s->seat[r]].j;
    memcpy(table + sizeof head + (size_t)r * sizeof(mscrt_entry), &(mscrt_entry){j->host, j->address},
           sizeof(mscrt_entry));
  }
  for (int r = 0; r < s->o.ranks; r++) {
    head.rank = r;
    memcpy(table, &head, sizeof head);
    mscrt_link_send(&s->guest[s->seat[r]].link, MSCRT_TABLE, table, bytes);
  }
  free(table);
  s->phase = CONNECTING;
}

static void announce_missing(mscrt_scheduler *s) {
  char list[160], text[200];
  if (s->phase != GATHERING || mscrt_now_ns() < s->announced_ns + ANNOUNCE_NS) return;
  list_missing(s, list, sizeof list);
  snprintf(text, sizeof text, "waiting for %s", list);
  send_to_all(s, MSCRT_WAITING, text, strlen(text) + 1);
  s->announced_ns = mscrt_now_ns();
}

static void check_deadline(mscrt_scheduler *s) {
  char list[160];
  if (s->phase > CONNECTING || mscrt_now_ns() < s->deadline_ns) return;
  if (s->phase == GATHERING) {
    list_missing(s, list, sizeof list);
    refuse_job(s, mscrt_fail(MSCRT_PEER, "waited %d ms at %s for %s", s->o.meet_ms, s->address, list));
  } else {
    for (int r = 0; r < s->o.ranks; r++)
      if (!s->guest[s->seat[r]].ready) {
        refuse_job(
            s, mscrt_fail(MSCRT_PEER, "waited %d ms for rank %d, which does not reach all others", s->o.meet_ms, r));
        return;
      }
  }
}

/* ---- running ---- */

static void declare_lost(mscrt_scheduler *s, int rank, const char *text) {
  mscrt_verdict v = {.rank = rank, .step = s->guest[s->seat[rank]].step};
  if (s->lost) return;
  s->lost = true;
  snprintf(v.text, sizeof v.text, "%.255s", text);
  if (!s->result) s->result = mscrt_fail(MSCRT_PEER, "%s", text);
  send_to_all(s, MSCRT_LOST, &v, sizeof v);
}

/* Handles the end of a connection. */
static void lose_guest(mscrt_scheduler *s, guest *g) {
  char text[120];
  mscrt_link_close(&g->link);
  if (!g->joined) {
    free_guest(g);
    return;
  }
  if (s->phase == GATHERING) {
    if (g->j.rank >= 0) s->seat[g->j.rank] = -1;
    free_guest(g);
    return;
  }
  if (g->ended || s->phase == OVER) return;
  snprintf(text, sizeof text, "rank %d is gone (its process ended at step %" PRId64 ")", g->j.rank,
           mscrt_step_number(g->step));
  if (s->phase == CONNECTING)
    refuse_job(s, mscrt_fail(MSCRT_PEER, "rank %d left while the job was starting", g->j.rank));
  else declare_lost(s, g->j.rank, text);
}

static void handle_failure(mscrt_scheduler *s, const guest *g, const mscrt_verdict *told) {
  char reason[sizeof told->text + 4], text[sizeof told->text + 40];
  int culprit = told->rank >= 0 && told->rank < s->o.ranks ? told->rank : g->j.rank;
  mscrt_clean_text(told->text, sizeof told->text, reason, sizeof reason);
  snprintf(text, sizeof text, "rank %d %s: %s", g->j.rank, culprit == g->j.rank ? "failed" : "gave up", reason);
  declare_lost(s, culprit, text);
}

static void begin_if_ready(mscrt_scheduler *s) {
  for (int r = 0; r < s->o.ranks; r++)
    if (!s->guest[s->seat[r]].ready) return;
  for (int r = 0; r < s->o.ranks; r++) s->guest[s->seat[r]].heard_ns = mscrt_now_ns();
  s->phase = RUNNING;
  send_to_all(s, MSCRT_GO, NULL, 0);
}

static void handle_frame(mscrt_scheduler *s, int index, const mscrt_frame *f) {
  guest *g = &s->guest[index];
  g->heard_ns = mscrt_now_ns();
  if (!g->joined && f->type == MSCRT_ASK && f->bytes == sizeof(mscrt_asking) && !g->asks) {
    mscrt_asking a;
    memcpy(&a, f->payload, sizeof a);
    handle_asking(s, g, &a);
  } else if (!g->joined) {
    if (f->type != MSCRT_JOIN || f->bytes != sizeof g->j) {
      free_guest(g);
      return;
    }
    memcpy(&g->j, f->payload, sizeof g->j);
    seat_guest(s, index);
  } else if (f->type == MSCRT_READY && s->phase == CONNECTING) {
    g->ready = true;
    begin_if_ready(s);
  } else if (f->type == MSCRT_HEARTBEAT && f->bytes == sizeof g->step) {
    memcpy(&g->step, f->payload, sizeof g->step);
  } else if (f->type == MSCRT_FAILURE && f->bytes == sizeof(mscrt_verdict) && s->phase == RUNNING) {
    mscrt_verdict told;
    memcpy(&told, f->payload, sizeof told);
    g->step = told.step;
    handle_failure(s, g, &told);
  } else if (f->type == MSCRT_BYE && f->bytes == sizeof g->step) {
    memcpy(&g->step, f->payload, sizeof g->step);
    g->ended = true;
    send_to_all(s, MSCRT_ENDED, &(mscrt_verdict){.rank = g->j.rank, .step = g->step}, sizeof(mscrt_verdict));
  } else {
    lose_guest(s, g);
  }
}

static void read_guest(mscrt_scheduler *s, int index) {
  mscrt_frame f;
  guest *g = &s->guest[index];
  for (int state = 1; state > 0 && g->link.fd >= 0;) {
    state = mscrt_link_read(&g->link, &f);
    if (state > 0) handle_frame(s, index, &f);
    else if (state < 0) lose_guest(s, g);
  }
}

/* Sends heartbeats, and declares ranks lost whose heartbeats have stopped; but not just after this process itself was
 * paused. */
static void exchange_heartbeats(mscrt_scheduler *s) {
  int64_t now = mscrt_now_ns(), every = s->silence_ns / 5 < 1000000000 ? s->silence_ns / 5 : 1000000000;
  bool paused = now - s->looked_ns > s->silence_ns / 2;
  s->looked_ns = now;
  if (s->phase != RUNNING || now < s->heartbeat_ns + every) return;
  s->heartbeat_ns = now;
  for (int r = 0; r < s->o.ranks; r++) s->steps[r] = s->guest[s->seat[r]].step;
  send_to_all(s, MSCRT_HEARTBEAT, s->steps, (size_t)s->o.ranks * sizeof *s->steps);
  for (int r = 0; r < s->o.ranks; r++) {
    guest *g = &s->guest[s->seat[r]];
    char text[120];
    if (paused) g->heard_ns = now;
    if (g->ended || g->link.fd < 0 || now - g->heard_ns < s->silence_ns) continue;
    snprintf(text, sizeof text, "rank %d has been silent for %" PRId64 " ms (at step %" PRId64 ")", r,
             (now - g->heard_ns) / 1000000, mscrt_step_number(g->step));
    declare_lost(s, r, text);
  }
}

/* ---- connections ---- */

static void drop_handshake(mscrt_scheduler *s, int i, bool close_it) {
  if (close_it) close(s->shaking[i].fd);
  memmove(&s->shaking[i], &s->shaking[i + 1], (size_t)(--s->num_shaking - i) * sizeof *s->shaking);
}

static void accept_connections(mscrt_scheduler *s) {
  for (int i = 0; i < 64; i++) {
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && s->num_shaking) {
      drop_handshake(s, 0, true);
      continue;
    }
    if (fd < 0) return;
    if (!mscrt_is_own_user(fd)) {
      close(fd);
      continue;
    }
    if (s->num_shaking == MOST_SHAKING) drop_handshake(s, 0, true);
    mscrt_set_socket(fd);
    mscrt_handshake_begin(&s->shaking[s->num_shaking++], s->key, fd, true, MSCRT_FOR_CONTROL, -1, 0,
                          mscrt_now_ns() + SHAKING_NS);
  }
}

static void receive_guest(mscrt_scheduler *s, const mscrt_handshake *h) {
  int at = -1;
  mscrt_address from = {.bytes = sizeof from.at};
  for (int i = 0; i < s->num_guests && at < 0; i++)
    if (!s->guest[i].used) at = i;
  if (at < 0 || h->hello.purpose != MSCRT_FOR_CONTROL) {
    close(h->fd);
    return;
  }
  guest *g = &s->guest[at];
  *g = (guest){.used = true, .heard_ns = mscrt_now_ns()};
  mscrt_link_open(&g->link, h);
  if (getpeername(h->fd, (struct sockaddr *)&from.at, &from.bytes) == 0) mscrt_address_text(&from, g->from);
  if (!strncmp(g->from, "@", 2)) snprintf(g->from, sizeof g->from, "this host");
}

/* Continues the handshakes. Those that fail are dropped without a line in the log, since anybody can cause them. */
static void continue_handshakes(mscrt_scheduler *s) {
  for (int i = 0; i < s->num_shaking;) {
    mscrt_shake state = mscrt_handshake_go(&s->shaking[i]);
    if (state == MSCRT_SHAKEN) receive_guest(s, &s->shaking[i]);
    if (state == MSCRT_SHAKING) i++;
    else drop_handshake(s, i, state == MSCRT_UNSHAKEN);
  }
}

static void drop_silent_strangers(mscrt_scheduler *s) {
  for (int i = 0; i < s->num_guests; i++)
    if (s->guest[i].used && !s->guest[i].joined && !s->guest[i].asks &&
        mscrt_now_ns() > s->guest[i].heard_ns + SHAKING_NS)
      free_guest(&s->guest[i]);
}

/* Waits for something to read or write, or for the next heartbeat. True: the thread must end. */
static bool wait_for_events(mscrt_scheduler *s) {
  int n = 0, ms = (int)(s->silence_ns / 5000000 < 200 ? s->silence_ns / 5000000 + 1 : 200);
  s->polled[n++] = (struct pollfd){.fd = s->stop, .events = POLLIN};
  s->polled[n++] = (struct pollfd){.fd = s->listener, .events = POLLIN};
  for (int i = 0; i < s->num_shaking; i++)
    s->polled[n++] = (struct pollfd){.fd = s->shaking[i].fd, .events = mscrt_handshake_events(&s->shaking[i])};
  for (int i = 0; i < s->num_guests; i++) {
    const mscrt_link *l = &s->guest[i].link;
    if (s->guest[i].used && l->fd >= 0)
      s->polled[n++] = (struct pollfd){.fd = l->fd, .events = (short)(POLLIN | (l->out_bytes ? POLLOUT : 0))};
  }
  if (poll(s->polled, (nfds_t)n, ms) < 0) return false;
  if (s->polled[1].revents) accept_connections(s);
  return s->polled[0].revents != 0;
}

/* True if every rank has joined; *out_asked: if those that ask are counted. */
static bool has_all_ranks(const mscrt_scheduler *s, bool *out_asked) {
  int joined = 0, asks = 0;
  for (int i = 0; i < s->num_guests; i++) joined += s->guest[i].joined, asks += s->guest[i].asks;
  *out_asked = asks && joined + asks == s->o.ranks;
  return joined == s->o.ranks;
}

static bool has_ended(const mscrt_scheduler *s) {
  if (s->phase == OVER) return true;
  if (s->phase != RUNNING) return false;
  for (int r = 0; r < s->o.ranks; r++)
    if (s->guest[s->seat[r]].link.fd >= 0) return false;
  return true;
}

/* Sends a last frame to all ranks, and waits until all queued frames are sent, but not longer than FLUSH_NS. */
static void flush_before_exit(mscrt_scheduler *s) {
  int64_t end = mscrt_now_ns() + FLUSH_NS;
  send_to_all(s, MSCRT_BYE, NULL, 0);
  for (bool waits = true; waits && mscrt_now_ns() < end;) {
    waits = false;
    for (int i = 0; i < s->num_guests; i++) {
      mscrt_link *l = &s->guest[i].link;
      if (s->guest[i].used && l->fd >= 0 && mscrt_link_flush(l) && l->out_bytes) waits = true;
    }
    if (waits) poll(NULL, 0, 5);
  }
}

static void *lead(void *arg) {
  mscrt_scheduler *s = arg;
  bool stops = false, asked = false;
  while (!stops && !has_ended(s)) {
    stops = wait_for_events(s);
    continue_handshakes(s);
    for (int i = 0; i < s->num_guests; i++)
      if (s->guest[i].used && s->guest[i].link.fd >= 0) {
        if (!mscrt_link_flush(&s->guest[i].link)) lose_guest(s, &s->guest[i]);
        else read_guest(s, i);
      }
    drop_silent_strangers(s);
    if (s->phase == GATHERING && has_all_ranks(s, &asked)) send_tables(s);
    if (s->phase == GATHERING && asked) answer_askers(s);
    announce_missing(s);
    check_deadline(s);
    exchange_heartbeats(s);
  }
  flush_before_exit(s);
  return NULL;
}

/* ---- starting and ending ---- */

static void free_scheduler(mscrt_scheduler *s) {
  for (int i = 0; i < s->num_shaking; i++) close(s->shaking[i].fd);
  for (int i = 0; s->guest && i < s->num_guests; i++)
    if (s->guest[i].used) mscrt_link_close(&s->guest[i].link);
  if (s->listener >= 0) close(s->listener);
  if (s->stop >= 0) close(s->stop);
  if (s->listener >= 0 && s->address[0] && !mscrt_is_network_address(s->o.address) && s->o.address[0] != '@')
    unlink(s->o.address);
  free(s->shaking);
  free(s->guest);
  free(s->seat);
  free(s->promised_ns);
  free(s->steps);
  free(s->polled);
  mscrt_status_free(s->result);
  free(s);
}

mscrt_status *mscrt_scheduler_start(const mscrt_comm_options *o, const mscrt_key *key,
                                    mscrt_scheduler **out_scheduler) {
  mscrt_scheduler *n = NULL;
  mscrt_status *s = NULL;
  mscrt_address at;
  *out_scheduler = NULL;
  MSCRT_CHECK(mscrt_new_array(&n, 1));
  n->o = *o, n->key = key, n->listener = n->stop = -1;
  n->announced_ns = n->looked_ns = mscrt_now_ns();
  n->deadline_ns = n->announced_ns + (int64_t)o->meet_ms * 1000000;
  n->silence_ns = (int64_t)o->silence_ms * 1000000;
  MSCRT_GOTO(mscrt_new_array(&n->shaking, MOST_SHAKING + 1));
  MSCRT_GOTO(mscrt_new_array(&n->guest, o->ranks + MOST_STRANGERS));
  MSCRT_GOTO(mscrt_new_array(&n->seat, o->ranks));
  MSCRT_GOTO(mscrt_new_array(&n->promised_ns, o->ranks));
  MSCRT_GOTO(mscrt_new_array(&n->steps, o->ranks));
  n->num_guests = o->ranks + MOST_STRANGERS;
  MSCRT_GOTO(mscrt_new_array(&n->polled, 2 + MOST_SHAKING + n->num_guests));
  for (int i = 0; i < n->num_guests; i++) n->guest[i].link.fd = -1;
  for (int r = 0; r < o->ranks; r++) n->seat[r] = -1;
  MSCRT_GOTO(mscrt_resolve(o->address, n->deadline_ns, &at));
  MSCRT_GOTO(mscrt_listen(&at, key->library != NULL, &n->listener));
  snprintf(n->address, sizeof n->address, "%s", o->address);
  n->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (n->stop >= 0 && pthread_create(&n->thread, NULL, lead, n) == 0) {
    *out_scheduler = n;
    return NULL;
  }
  s = mscrt_fail(MSCRT_ENVIRONMENT, "no thread to lead the job: %s", strerror(errno));
fail:
  free_scheduler(n);
  return s;
}

mscrt_status *mscrt_scheduler_wait(mscrt_scheduler *s, bool *out_lost) {
  pthread_join(s->thread, NULL);
  *out_lost = s->lost;
  mscrt_status *result = s->result;
  s->result = NULL;
  free_scheduler(s);
  return result;
}

void mscrt_scheduler_stop(mscrt_scheduler *s) {
  uint64_t one = 1;
  bool lost;
  if (!s) return;
  if (write(s->stop, &one, sizeof one) != sizeof one) {} /* it is full: already stopping */
  mscrt_status_free(mscrt_scheduler_wait(s, &lost));
}
