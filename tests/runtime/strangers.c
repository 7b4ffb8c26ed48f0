/* strangers.c: frames that no rank would send, at each end of each connection of a job: greetings of those who do not
 * have the token, frames that were changed on their way, frames of every type with any contents from a rank and from a
 * leader, heads of collectives, letters. Nothing crashes, what was changed is never taken for what was sent, the memory
 * before authentication has a bound, a thousand silent connections keep no rank from joining, and of processes too many
 * each is told so. Takes 30,000 frames, with MSC_TEST_SLOW a million. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "runtime/comm/tcp.h"
#include "runtime/runtime.h"

#define TOKEN       "0123456789abcdef0123456789abcdef"
#define OTHER_TOKEN "0123456789abcdef0123456789abcdeg"
#define SECOND_NS   ((int64_t)1000000000)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED 1 /* which takes memory of its own */
#else
#define WATCHED 0
#endif

static mscrt_key key, other_key, no_key;
static long frames_wanted; /* of each of five kinds */
static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t draw(void) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return random_state;
}

static uint64_t below(uint64_t n) { return draw() % n; }

static void fill(void *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) ((uint8_t *)at)[i] = (uint8_t)draw();
}

/* Changes some bytes, or a number of four bytes into one that is often a bound. */
static void spoil(void *at, size_t bytes) {
  static const uint32_t bounds[] = {0, 1, 2, UINT32_MAX, 0x7fffffff, 0x80000000, 1 << 20, (1 << 20) + 1};
  uint8_t *b = at;
  uint64_t word = bytes / 4 ? 4 * below(bytes / 4) : 0, bound = below(8);
  if (bytes >= 4 && below(2) && memcmp(b + word, &bounds[bound], 4) != 0) memcpy(b + word, &bounds[bound], 4);
  else b[below(bytes)] ^= (uint8_t)(1 + below(255));
}

/* Bytes of memory that this process has resident. */
static long resident(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1) fail_msg("no /proc/self/statm");
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static void connect_pair(int fd[2]) { assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0); }

/* Sends without waiting, and is content if not all has room. */
static void put(int fd, const void *at, size_t bytes) {
  if (send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {} /* the other end has closed */
}

/* ---- greetings ---- */

/* A handshake with one who has another token or none, and whose messages are spoiled now and then, fails at both
 * ends with a reason. */
static void greetings(void **state) {
  (void)state;
  for (long n = 0; n < frames_wanted; n += 3) {
    int fd[2];
    mscrt_handshake own, strange;
    bool serves = below(2);
    connect_pair(fd);
    mscrt_handshake_begin(&own, &key, fd[0], serves, MSCRT_FOR_CONTROL, 0, 0, mscrt_now_ns() + 60 * SECOND_NS);
    mscrt_handshake_begin(&strange, below(4) ? &other_key : &no_key, fd[1], !serves, (mscrt_purpose)below(3),
                          (int)below(9), draw(), mscrt_now_ns() + 60 * SECOND_NS);
    mscrt_greeting *first = serves ? &strange.hello : &strange.challenge;
    if (!strange.key->library) first->has_token = 1;
    if (below(3) == 0) spoil(first, sizeof *first);
    mscrt_shake a = MSCRT_SHAKING, b = MSCRT_SHAKING;
    for (int turn = 0; turn < 8 && a == MSCRT_SHAKING; turn++) {
      if (turn == 3 && below(2)) { /* a message that is another, too short or too long */
        uint8_t any[2 * sizeof(mscrt_greeting)];
        fill(any, sizeof any);
        put(fd[1], any, below(sizeof any));
      }
      if (b == MSCRT_SHAKING) b = mscrt_handshake_go(&strange);
      if (b == MSCRT_UNSHAKEN || turn == 6) shutdown(fd[1], SHUT_WR);
      a = mscrt_handshake_go(&own);
    }
    assert_int_equal(a, MSCRT_UNSHAKEN);
    assert_true(own.why[0]);
    close(fd[0]), close(fd[1]);
  }
}

/* ---- frames ---- */

static void open_links(int fd[2], mscrt_link link[2], bool serves) {
  mscrt_handshake h[2] = {{.key = &key, .fd = fd[0], .is_server = serves},
                          {.key = &key, .fd = fd[1], .is_server = !serves}};
  fill(h[0].session, sizeof h[0].session);
  memcpy(h[1].session, h[0].session, sizeof h[0].session);
  for (int i = 0; i < 2; i++) mscrt_link_open(&link[i], &h[i]);
}

enum { MOST = 700, MOST_IN_A_ROW = 20 };

/* Frames in order, the last of which is spoiled, sent in part only, or sent twice: those that are right come whole, and
 * then the connection has ended. */
static void changed_frames(void **state) {
  (void)state;
  for (long n = 0; n < frames_wanted;) {
    static uint8_t sent[MOST_IN_A_ROW][MOST];
    enum { SPOILED, CUT, TWICE } how = (int)below(3);
    int fd[2], num = 1 + (int)below(MOST_IN_A_ROW), right = how == TWICE ? num : num - 1, got = 0, end;
    mscrt_link to, both[2];
    mscrt_frame f;
    size_t bytes[MOST_IN_A_ROW];
    connect_pair(fd);
    open_links(fd, both, below(2));
    to = both[1], to.fd = -1; /* makes frames, which stay in its queue */
    for (int i = 0; i < num; i++) {
      bytes[i] = below(MOST);
      fill(sent[i], bytes[i]);
      to.out_bytes = 0;
      mscrt_link_send(&to, (mscrt_frame_type)(1 + below(MSCRT_NUM_FRAMES - 1)), sent[i], bytes[i]);
      bool last = i == num - 1;
      if (last && how == SPOILED) spoil(to.out, to.out_bytes);
      put(fd[1], to.out, last && how == CUT ? below(to.out_bytes) : to.out_bytes);
      if (last && how == TWICE) put(fd[1], to.out, to.out_bytes);
    }
    shutdown(fd[1], SHUT_WR);
    for (; (end = mscrt_link_read(&both[0], &f)) > 0; got++) {
      assert_true(got < right);
      assert_int_equal(f.bytes, bytes[got]);
      assert_memory_equal(f.payload, sent[got], f.bytes);
    }
    assert_int_equal(end, -1);
    assert_int_equal(got, right);
    assert_true(both[0].in_room <= 2 * (size_t)MSCRT_MOST_FRAME);
    n += num;
    free(to.out);
    mscrt_link_close(&both[0]), mscrt_link_close(&both[1]);
  }
}

/* ---- a job ---- */

static mscrt_comm_options options_of(int rank, int ranks, const char *address, const char *token, int meet_ms) {
  return (mscrt_comm_options){.rank = rank,
                              .ranks = ranks,
                              .address = address,
                              .timeout_ms = meet_ms,
                              .meet_ms = meet_ms,
                              .silence_ms = 30000,
                              .plan_hash = 7,
                              .arena_bytes = 4096,
                              .num_partitions = 1,
                              .led = true,
                              .token = token};
}

static void name_job(char address[64]) {
  static int number;
  snprintf(address, 64, "@msc-test-strangers-%d-%d", (int)getpid(), number++);
}

typedef struct {
  mscrt_comm_options o;
  pthread_t thread;
  char said[400];
  int rank;
  bool asks;
} joining;

/* A rank that joins, is ready, and ends its work; or a process that asks which rank it is to be. */
static void *join_job(void *arg) {
  joining *j = arg;
  int listener = -1;
  mscrt_status *s;
  if (j->asks) {
    s = mscrt_ask_leader(&j->o, &j->rank);
  } else {
    mscrt_member m = {.link = {.fd = -1}, .wake = -1, .stop = -1, .culprit = -1};
    pthread_mutex_init(&m.lock, NULL);
    s = mscrt_member_join(&j->o, &m, &listener);
    if (!s) s = mscrt_member_ready(&m);
    mscrt_member_close(&m);
  }
  if (listener >= 0) close(listener);
  if (s) snprintf(j->said, sizeof j->said, "%s", mscrt_status_text(s));
  mscrt_status_free(s);
  return NULL;
}

static void begin_joining(joining *j, const mscrt_comm_options *o, bool asks) {
  *j = (joining){.o = *o, .asks = asks, .rank = -1};
  assert_int_equal(pthread_create(&j->thread, NULL, join_job, j), 0);
}

static int dial(const char *address) {
  int fd = -1;
  mscrt_status *s = mscrt_dial(address, mscrt_now_ns() + 20 * SECOND_NS, &fd);
  if (s) fail_msg("%s", mscrt_status_text(s));
  return fd;
}

/* More than a thousand connections that say nothing or the beginning of a greeting, and many that say something else:
 * this process, which leads, has a bound on what it holds for them, and ranks join meanwhile. */
static void silent_strangers(void **state) {
  enum { STRANGERS = 1500, RANKS = 3 };
  static int fd[STRANGERS];
  struct rlimit l;
  char address[64];
  joining rank[RANKS];
  mscrt_scheduler *leader;
  bool lost;
  (void)state;
  getrlimit(RLIMIT_NOFILE, &l);
  l.rlim_cur = l.rlim_max;
  setrlimit(RLIMIT_NOFILE, &l);
  if (l.rlim_max < STRANGERS + 1200) {
    print_message("skipped: this process may have only %lu descriptors\n", (unsigned long)l.rlim_max);
    return;
  }
  name_job(address);
  mscrt_comm_options o = options_of(0, RANKS, address, TOKEN, 60000);
  assert_null(mscrt_scheduler_start(&o, &key, &leader));
  for (int i = 0; i < STRANGERS; i++) fd[i] = -1;
  long before = resident(), most = before;
  for (long n = 0; n < frames_wanted; n++) {
    uint8_t any[2000];
    int *at = &fd[n % STRANGERS];
    if (*at >= 0) close(*at);
    *at = dial(address);
    if (n % 2) {
      fill(any, sizeof any);
      if (below(2)) memcpy(any, "MSCRTTCP\1\0\0\0", 12);
      put(*at, any, below(sizeof any));
    }
    if (n % 1000 == 999 && resident() > most) most = resident();
  }
  print_message("%ld connections of strangers, %d at once: %ld KB for them\n", frames_wanted, STRANGERS,
                (most - before) >> 10);
  if (!WATCHED) assert_true(most - before < 2 << 20);
  for (int r = 0; r < RANKS; r++) {
    o.rank = r;
    begin_joining(&rank[r], &o, false);
  }
  for (int r = 0; r < RANKS; r++) {
    pthread_join(rank[r].thread, NULL);
    assert_string_equal(rank[r].said, "");
  }
  mscrt_status *s = mscrt_scheduler_wait(leader, &lost);
  if (s) fail_msg("%s", mscrt_status_text(s));
  assert_false(lost);
  for (int i = 0; i < STRANGERS; i++)
    if (fd[i] >= 0) close(fd[i]);
}

/* Sends a frame of any type, mostly of the size that it should have, with contents that are mostly near right ones. */
static bool send_any(mscrt_link *l, int ranks, bool leads) {
  static uint8_t payload[MSCRT_MOST_FRAME];
  static const size_t sizes[MSCRT_NUM_FRAMES] = {
      [MSCRT_JOIN] = sizeof(mscrt_joining),
      [MSCRT_WAITING] = 60,
      [MSCRT_REFUSED] = 60,
      [MSCRT_READY] = 0,
      [MSCRT_GO] = 0,
      [MSCRT_FAILURE] = sizeof(mscrt_verdict),
      [MSCRT_ENDED] = sizeof(mscrt_verdict),
      [MSCRT_LOST] = sizeof(mscrt_verdict),
      [MSCRT_UNFIT] = 60,
      [MSCRT_ASK] = sizeof(mscrt_asking),
      [MSCRT_RANK] = sizeof(int32_t),
  };
  mscrt_frame_type type = (mscrt_frame_type)(1 + below(MSCRT_NUM_FRAMES - 1));
  size_t bytes = sizes[type];
  int32_t head[2] = {(int32_t)below((uint64_t)ranks + 2) - 1, below(8) ? ranks : (int32_t)draw()};
  if (type == MSCRT_HEARTBEAT || type == MSCRT_BYE) bytes = leads ? (size_t)ranks * 8 : 8;
  if (type == MSCRT_TABLE) bytes = sizeof(mscrt_table_head) + (size_t)ranks * sizeof(mscrt_entry);
  if (below(8) == 0) bytes = below(below(200) ? 400 : sizeof payload);
  fill(payload, bytes);
  if (type == MSCRT_JOIN && bytes == sizeof(mscrt_joining) && below(8))
    memcpy(
        payload,
        &(mscrt_joining){.rank = head[0], .ranks = head[1], .plan_hash = 7, .arena_bytes = 4096, .num_partitions = 1},
        bytes);
  if (type == MSCRT_TABLE && bytes >= sizeof(mscrt_table_head) && below(8)) {
    memset(payload, 0, bytes);
    mscrt_table_head table = {.rank = head[0], .ranks = head[1], .silence_ms = 1000};
    memcpy(payload, &table, sizeof table);
    if (below(2)) spoil(payload, bytes);
  }
  if ((type == MSCRT_ASK || type == MSCRT_RANK || type >= MSCRT_ENDED) && bytes >= 4) memcpy(payload, head, 4);
  if (type == MSCRT_ASK && bytes >= 4) memcpy(payload, &head[1], 4);
  return mscrt_link_send(l, type, payload, bytes);
}

/* Shakes hands with the right token; false: the other end has gone, or does not answer. */
static bool shake(mscrt_link *l, int fd, bool serves) {
  mscrt_handshake h;
  mscrt_shake state;
  mscrt_handshake_begin(&h, &key, fd, serves, MSCRT_FOR_CONTROL, 0, 0, mscrt_now_ns() + SECOND_NS);
  while ((state = mscrt_handshake_go(&h)) == MSCRT_SHAKING)
    poll(&(struct pollfd){.fd = fd, .events = mscrt_handshake_events(&h)}, 1, 1000);
  mscrt_link_open(l, &h);
  return state == MSCRT_SHAKEN;
}

/* Ranks that have the token and send frames of every type in any order: the leader's job may fail, not the leader. */
static void strange_ranks(void **state) {
  enum { RANKS = 3, GUESTS = 6 };
  (void)state;
  for (long n = 0; n < frames_wanted;) {
    char address[64];
    mscrt_scheduler *leader;
    mscrt_link link[GUESTS];
    bool lost;
    name_job(address);
    mscrt_comm_options o = options_of(0, RANKS, address, TOKEN, 30);
    o.recovers = below(2), o.led = below(2);
    assert_null(mscrt_scheduler_start(&o, &key, &leader));
    for (int i = 0; i < GUESTS; i++) {
      int fd = -1;
      link[i] = (mscrt_link){.fd = -1};
      mscrt_status *s = mscrt_dial(address, mscrt_now_ns(), &fd); /* the job may be over */
      mscrt_status_free(s);
      if (s) continue;
      shake(&link[i], fd, false);
      mscrt_joining j = {
          .rank = below(4) ? i % RANKS : -1, .ranks = RANKS, .plan_hash = 7, .arena_bytes = 4096, .num_partitions = 1};
      if (below(4)) mscrt_link_send(&link[i], MSCRT_JOIN, &j, sizeof j);
    }
    for (int turn = 0; turn < 40; turn++) {
      mscrt_link *l = &link[below(GUESTS)];
      mscrt_frame f;
      if (l->fd < 0) continue;
      n += send_any(l, RANKS, false);
      while (mscrt_link_read(l, &f) > 0) {}
    }
    for (int i = 0; i < GUESTS; i++) mscrt_link_close(&link[i]);
    n++;
    if (below(2)) mscrt_scheduler_stop(leader);
    else
      mscrt_status_free(mscrt_scheduler_wait(leader, &lost)); /* at the latest when the ranks have not come in time */
  }
}

/* A leader that has the token and sends frames of every type in any order: the rank gives up with a reason, or runs. */
static void strange_leaders(void **state) {
  enum { RANKS = 3 };
  mscrt_address at;
  char address[64];
  int listener;
  (void)state;
  name_job(address);
  assert_null(mscrt_unix_address(address, &at));
  assert_null(mscrt_listen(&at, true, &listener));
  for (long n = 0; n < frames_wanted;) {
    joining j;
    mscrt_comm_options o = options_of((int)below(RANKS), RANKS, address, TOKEN, 5);
    begin_joining(&j, &o, below(4) == 0);
    for (bool ended = false; !ended;) { /* a rank whose leader goes away tries again, for some time */
      mscrt_link l;
      mscrt_frame f;
      struct pollfd p = {.fd = listener, .events = POLLIN};
      if (poll(&p, 1, 1) == 0) {
        ended = pthread_tryjoin_np(j.thread, NULL) == 0;
        continue;
      }
      int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) continue;
      bool right = shake(&l, fd, true);
      if (right && mscrt_link_wait(&l, mscrt_now_ns() + 20 * SECOND_NS, &f) > 0) {
        uint8_t table[sizeof(mscrt_table_head) + RANKS * sizeof(mscrt_entry)] = {0};
        mscrt_table_head head = {.rank = o.rank, .ranks = RANKS, .silence_ms = 1000};
        memcpy(table, &head, sizeof head);
        if (below(2)) n += mscrt_link_send(&l, MSCRT_TABLE, table, sizeof table);
        if (below(2)) n += mscrt_link_send(&l, MSCRT_GO, NULL, 0);
        for (uint64_t k = below(12); k-- > 0;) n += send_any(&l, RANKS, true);
      }
      mscrt_link_close(&l);
    }
    n++;
    if (!j.asks || j.rank < 0) continue;
    assert_true(j.rank < RANKS);
  }
  close(listener);
}

/* Processes that ask which rank they are to be, one more than there are ranks, at once. */
static void one_too_many(void **state) {
  enum { RANKS = 2 };
  (void)state;
  for (int turn = 0; turn < 20; turn++) {
    char address[64];
    joining j[RANKS + 1];
    mscrt_scheduler *leader;
    int seen = 0, refused = 0;
    name_job(address);
    mscrt_comm_options o = options_of(-1, RANKS, address, TOKEN, 20000);
    assert_null(mscrt_scheduler_start(&o, &key, &leader));
    for (int i = 0; i <= RANKS; i++) begin_joining(&j[i], &o, true);
    for (int i = 0; i <= RANKS; i++) {
      pthread_join(j[i].thread, NULL);
      if (strstr(j[i].said, "the job has all its 2 ranks already")) refused++;
      else if (j[i].rank >= 0) seen |= 1 << j[i].rank;
    }
    assert_int_equal(refused, 1);
    assert_int_equal(seen, 3);
    mscrt_scheduler_stop(leader);
  }
}

/* ---- data ---- */

/* Heads of collectives and data behind them: what does not agree with this rank's own head is found, and data go only
 * where they are expected. */
static void heads_of_collectives(void **state) {
  (void)state;
  for (long n = 0; n < frames_wanted; n++) {
    int fd[2];
    uint8_t values[128], own[16], sent[64];
    mscrt_span in[2] = {{values, 24}, {values + 24, 40}}, out = {own, sizeof own};
    struct pollfd polled[2];
    uint32_t at;
    connect_pair(fd);
    mscrt_duplex d = {
        .fd = fd[0], .num_in = 2, .in = in, .in_bytes = 64, .num_out = 1, .out = &out, .out_bytes = 16, .ready = 16};
    d.own = (mscrt_duplex_head){.magic = 1, .verb = 2, .number = draw(), .bytes = 16, .back = 64};
    mscrt_duplex_head theirs = d.own;
    theirs.bytes = 64, theirs.back = 16;
    mscrt_duplex_head right = theirs;
    if (below(4)) spoil(&theirs, sizeof theirs);
    theirs.step = right.step; /* which is not compared */
    fill(sent, sizeof sent), memset(values, 0xee, sizeof values);
    size_t bytes = below(3) ? sizeof sent : below(sizeof sent);
    put(fd[1], &theirs, sizeof theirs), put(fd[1], sent, bytes);
    shutdown(fd[1], SHUT_WR);
    mscrt_duplexes all = {.num = 1, .duplex = &d, .polled = polled, .wake = -1, .timeout_ms = 10000};
    mscrt_duplexes_end end = mscrt_duplexes_move(&all, &at);
    bool agrees = !memcmp(&theirs, &right, sizeof right);
    assert_int_equal(end, !agrees                ? MSCRT_DUPLEXES_DIFFER
                          : bytes == sizeof sent ? MSCRT_DUPLEXES_DONE
                                                 : MSCRT_DUPLEXES_CLOSED);
    if (end == MSCRT_DUPLEXES_DONE) assert_memory_equal(values, sent, sizeof sent);
    for (size_t i = agrees ? 64 : 0; i < sizeof values; i++) assert_int_equal(values[i], 0xee);
    close(fd[0]), close(fd[1]);
  }
}

enum { LETTER_BYTES = 192, DEPTH = 2, RANKS_WITH_MAIL = 2 };

typedef struct { /* as in mail.c */
  uint32_t magic, kind;
  uint64_t mailbox, bytes;
  uint32_t depth, number;
} envelope;

typedef struct {
  mscrt_comm_options o;
  mscrt_member m;
  mscrt_whereabouts where[RANKS_WITH_MAIL];
  _Atomic int64_t seen_step[RANKS_WITH_MAIL];
  mscrt_mail *mail;
  int pair[2]; /* its own end, and the other rank's */
} mail_room;

static void open_mail(mail_room *r, uint8_t *arena, uint64_t arena_bytes) {
  int fds[RANKS_WITH_MAIL] = {-1, -1};
  *r = (mail_room){.o = options_of(0, RANKS_WITH_MAIL, "", NULL, 20000)};
  r->o.arena_bytes = arena_bytes;
  r->m = (mscrt_member){.o = &r->o,
                        .ranks = RANKS_WITH_MAIL,
                        .culprit = -1,
                        .where = r->where,
                        .seen_step = r->seen_step,
                        .wake = -1,
                        .stop = -1,
                        .link = {.fd = -1}};
  pthread_mutex_init(&r->m.lock, NULL);
  connect_pair(r->pair);
  fds[1] = r->pair[0];
  assert_null(mscrt_mail_open(&r->m, fds, arena, &r->mail));
}

/* Waits until the thread has read all, or reads no more. */
static void close_mail(mail_room *r) {
  char byte;
  for (int turn = 0; turn < 100 && recv(r->pair[0], &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0; turn++)
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
  close(r->pair[1]);
  mscrt_mail_close(r->mail);
  pthread_mutex_destroy(&r->m.lock);
}

/* Letters between stages, of which the last is spoiled: those before it come as they were sent, and nothing outside the
 * arena is written. */
static void letters(void **state) {
  enum { GUARD = 4096, ARENA = 4096 };
  static _Alignas(64) uint8_t room[GUARD + ARENA + GUARD];
  mscrt_site site = {.name = "letter"};
  (void)state;
  for (long n = 0; n < frames_wanted; n++) {
    mail_room r;
    uint32_t number[3] = {0};
    uint8_t sent[LETTER_BYTES], got[LETTER_BYTES];
    memset(room, 0xee, sizeof room), memset(room + GUARD, 0, ARENA);
    open_mail(&r, room + GUARD, ARENA);
    for (uint64_t num = below(60); num-- > 0; n++) {
      uint64_t box = below(3);
      mscrt_channel c = {.peer = 1, .depth = DEPTH, .bytes = LETTER_BYTES, .mailbox = 1024 * box};
      envelope e = {0x6c69616d, 0, c.mailbox, LETTER_BYTES, DEPTH, number[box]++};
      fill(sent, sizeof sent);
      put(r.pair[1], &e, sizeof e), put(r.pair[1], sent, sizeof sent);
      assert_null(mscrt_mail_receive(r.mail, &c, got, &site));
      assert_memory_equal(got, sent, sizeof sent);
    }
    envelope e = {0x6c69616d, (uint32_t)below(2), 1024, LETTER_BYTES, DEPTH, number[1]};
    spoil(&e, sizeof e);
    fill(sent, sizeof sent);
    put(r.pair[1], &e, sizeof e), put(r.pair[1], sent, below(sizeof sent));
    close_mail(&r);
    for (int i = 0; i < GUARD; i++) assert_true(room[i] == 0xee && room[GUARD + ARENA + i] == 0xee);
  }
}

/* A letter whose size times the depth of its mailbox is 2^64. */
static void letter_beyond_arena(void **state) {
  uint64_t arena = (uint64_t)1 << 33, behind = 1 << 16;
  envelope e = {0x6c69616d, 0, arena - 4096, arena, (uint32_t)1 << 31, 0};
  static uint8_t text[1 << 15];
  mail_room r;
  (void)state;
  uint8_t *room =
      mmap(NULL, (size_t)(arena + behind), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    print_message("skipped: no 8 GiB of addresses\n");
    return;
  }
  fill(text, sizeof text);
  open_mail(&r, room, arena);
  put(r.pair[1], &e, sizeof e), put(r.pair[1], text, sizeof text);
  close_mail(&r);
  for (uint64_t i = 0; i < behind; i++) assert_int_equal(room[arena + i], 0);
  munmap(room, (size_t)(arena + behind));
}

int main(void) {
  frames_wanted = getenv("MSC_TEST_SLOW") ? 1000000 / 7 + 1 : 30000 / 7;
  if (mscrt_key_open(TOKEN, &key) || mscrt_key_open(OTHER_TOKEN, &other_key)) {
    printf("skipped: libsodium cannot be loaded\n");
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(greetings),
      cmocka_unit_test(changed_frames),
      cmocka_unit_test(silent_strangers),
      cmocka_unit_test(strange_ranks),
      cmocka_unit_test(strange_leaders),
      cmocka_unit_test(one_too_many),
      cmocka_unit_test(heads_of_collectives),
      cmocka_unit_test(letters),
      cmocka_unit_test(letter_beyond_arena),
  };
  int failed = cmocka_run_group_tests_name("strangers", tests, NULL, NULL);
  mscrt_key_close(&key), mscrt_key_close(&other_key);
  return failed;
}
