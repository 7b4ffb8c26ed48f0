/* tcp.h: shared by the files of the transport over TCP: addresses, authenticated connections, the scheduler of a job,
 * and duplexes, the streams of data between two ranks.
 *
 * The scheduler is a thread of rank 0, or a process of its own. Every rank has a control connection to it, over which
 * it joins and then sends a heartbeat every second; the scheduler tells all ranks who is lost. Two ranks have one
 * connection for collectives, and one for messages if the plan has any. */
#ifndef MSCRT_COMM_TCP_H
#define MSCRT_COMM_TCP_H

#include <pthread.h>
#include <sys/socket.h>

#include "runtime/comm/address.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/rendezvous_scheduler.h"
#include "runtime/wait.h"

/* ---- handshake.c: both ends prove that they have the token, before anything else is read ---- */

typedef enum { MSCRT_FOR_CONTROL, MSCRT_FOR_DATA, MSCRT_FOR_MAIL, MSCRT_FOR_PUSHES } mscrt_purpose;

/* Each of the three messages of a handshake (handshake.c). */
typedef struct {
  char magic[8];
  uint32_t version, purpose;
  int32_t rank;     /* of the sender; -1: not known yet */
  uint32_t verdict; /* of a server: why it refuses, 0 if it does not */
  uint64_t job;     /* number of the job; 0 when joining */
  uint32_t has_token, unused;
  uint8_t nonce[32], mac[MSCRT_MAC];
} mscrt_greeting;

typedef enum { MSCRT_SHAKING, MSCRT_SHAKEN, MSCRT_UNSHAKEN } mscrt_shake;

typedef struct {
  const mscrt_key *key;
  int fd;
  bool is_server;
  int stage;
  size_t done; /* bytes of the message under way */
  mscrt_greeting hello, challenge, proof;
  uint8_t session[MSCRT_MAC]; /* the key of this connection, when shaken */
  int64_t deadline_ns;
  bool ended;               /* when unshaken: the other end went away */
  char why[160];            /* when unshaken */
} mscrt_handshake;

void mscrt_handshake_begin(mscrt_handshake *h, const mscrt_key *key, int fd, bool is_server, mscrt_purpose purpose,
                           int rank, uint64_t job, int64_t deadline_ns);
/* Continues the handshake as far as possible without waiting. */
mscrt_shake mscrt_handshake_go(mscrt_handshake *h);
/* The event that the handshake waits for: POLLIN or POLLOUT. */
short mscrt_handshake_events(const mscrt_handshake *h);

/* Does the client's side of a handshake; waits until the deadline of `h`, which mscrt_handshake_begin has set. */
mscrt_shake mscrt_handshake_wait(mscrt_handshake *h);

/* ---- frames.c: frames on a control connection, each with a MAC over its contents and its number ---- */

/* The types of frames: who sends one (a member, the scheduler or both), and its contents. */
typedef enum {
  MSCRT_JOIN = 1,  /* member: mscrt_joining */
  MSCRT_WAITING,   /* scheduler: text, the ranks that are missing */
  MSCRT_REFUSED,   /* scheduler: text, why this rank or this job cannot start */
  MSCRT_TABLE,     /* scheduler: mscrt_table_head, then mscrt_entry of each rank */
  MSCRT_READY,     /* member: empty; it is connected to all ranks */
  MSCRT_GO,        /* scheduler: empty; every member is connected to all ranks */
  MSCRT_HEARTBEAT, /* both: int64_t step; the scheduler sends the steps of all ranks */
  MSCRT_FAILURE,   /* member: mscrt_verdict with text, why this rank gives up */
  MSCRT_BYE,       /* both: the sender has ended its work; from a member int64_t step, from the scheduler empty */
  MSCRT_ENDED,     /* scheduler: mscrt_verdict without text, a rank that has ended its work */
  MSCRT_LOST,      /* scheduler: mscrt_verdict with text, a rank that is lost and why */
  MSCRT_UNFIT,     /* scheduler: text, why this rank can never join this job */
  MSCRT_ASK,       /* member, before it joins: mscrt_asking, to learn which rank this process is to be */
  MSCRT_RANK,      /* scheduler: int32_t, the answer */
  MSCRT_NUM_FRAMES
} mscrt_frame_type;

#define MSCRT_MOST_FRAME ((uint32_t)1 << 20)

typedef struct {
  const mscrt_key *key; /* of the job; NULL or without library: no MACs */
  int fd;
  uint8_t session[MSCRT_MAC];
  bool is_server;
  uint64_t sent, received; /* number of frames */
  uint8_t *in, *out;
  size_t in_bytes, in_room, out_bytes, out_room;
} mscrt_link;

typedef struct {
  mscrt_frame_type type;
  uint32_t bytes;
  const uint8_t *payload; /* valid until the next read */
} mscrt_frame;

void mscrt_link_open(mscrt_link *l, const mscrt_handshake *h);
void mscrt_link_close(mscrt_link *l);
/* Queues a frame and sends as much as is possible without waiting; false: the connection is broken. */
bool mscrt_link_send(mscrt_link *l, mscrt_frame_type type, const void *payload, size_t bytes);
/* Sends as much of the queue as is possible without waiting; false: the connection is broken. */
bool mscrt_link_flush(mscrt_link *l);
/* Receives a frame. Returns 1: a frame is here; 0: not yet; -1: the other end has closed, or sent something else. */
int mscrt_link_read(mscrt_link *l, mscrt_frame *out_frame);
/* Waits for a frame until the deadline. Returns as mscrt_link_read does; 0: none came in time. */
int mscrt_link_wait(mscrt_link *l, int64_t deadline_ns, mscrt_frame *out_frame);

/* Payload of MSCRT_JOIN. All but rank, host and address must be equal on all ranks. */
typedef struct {
  int32_t rank, ranks; /* rank -1: the scheduler chooses */
  uint64_t plan_hash, arena_bytes;
  uint32_t num_partitions, has_mail;
  uint64_t host;         /* number of the host: ranks with the same share memory */
  mscrt_address address; /* where it listens for other ranks */
} mscrt_joining;

typedef struct {
  int32_t ranks, unused;
  uint64_t host; /* as of mscrt_joining */
} mscrt_asking;

typedef struct {
  uint64_t job;
  int32_t rank, ranks; /* of the receiver */
  int32_t silence_ms, unused;
} mscrt_table_head;

typedef struct {
  uint64_t host;
  mscrt_address address;
} mscrt_entry;

typedef struct {
  int32_t rank, unused;
  int64_t step;
  char text[256];
} mscrt_verdict;

/* ---- rendezvous_member.c: a rank and its control connection ---- */

typedef enum { MSCRT_THERE, MSCRT_HAS_ENDED, MSCRT_IS_LOST } mscrt_whereabouts;

typedef struct {
  const mscrt_comm_options *o;
  mscrt_key key;
  mscrt_scheduler *scheduler; /* of rank 0, unless it is a process of its own */
  mscrt_link link;
  pthread_mutex_t lock; /* of the link and of what follows */
  pthread_t thread;
  bool has_thread, leader_ended;
  int wake; /* becomes readable when a rank is lost or has ended */
  int stop; /* readable when the thread must end */
  uint64_t job;
  int rank, ranks, silence_ms;
  mscrt_entry *entry;       /* of each rank */
  _Atomic int64_t step;     /* that this rank says it is at */
  mscrt_whereabouts *where; /* of each rank */
  _Atomic int64_t *seen_step;       /* of each rank: the latest that is known */
  int culprit;              /* the rank that was lost first; -1: none */
  bool gave_up;             /* this rank has told the others */
  char why[320];
} mscrt_member;

/* Joins the job: on return all ranks have joined and are listening. *out_listener is the socket at which this rank
 * listens for others; the caller closes it. *m must be zero except for its lock, which is initialized, and its file
 * descriptors and culprit, which are -1. */
mscrt_status *mscrt_member_join(const mscrt_comm_options *o, mscrt_member *m, int *out_listener);
/* Waits until all ranks are connected, then starts the thread. */
mscrt_status *mscrt_member_ready(mscrt_member *m);
/* Accepts a member that did not join. */
void mscrt_member_close(mscrt_member *m);
/* Tells the other ranks that this rank gives up because of `culprit`, perhaps itself. */
void mscrt_member_blame(mscrt_member *m, int culprit, const char *reason);
/* True if a rank of the job failed or is gone. *out_rank: the rank that failed first; -1: none. out_why: at least 320
 * bytes. */
bool mscrt_member_lost(mscrt_member *m, int *out_rank, char *out_why);
/* True if rank `rank` has ended its work or is lost; then out_why (at least 320 bytes) says which. */
bool mscrt_member_is_over(mscrt_member *m, int rank, char *out_why);
/* Notes that a rank was seen at a step. */
void mscrt_member_note(mscrt_member *m, int rank, int64_t step);

/* ---- duplex.c ---- */

typedef struct {
  void *at;
  uint64_t bytes;
} mscrt_span;

/* The description of a collective that two ranks send each other before its data; the two must agree. */
typedef struct {
  uint32_t magic;
  uint8_t verb, dtype, reduction, kind;
  uint64_t number; /* of the collectives of this pair */
  int64_t step;    /* for reports; it is not compared */
  uint64_t bytes;  /* of all data to the other end */
  uint64_t back;   /* and from it */
} mscrt_duplex_head;

/* The streams to and from one rank in one collective. */
typedef struct {
  int rank, fd;
  uint32_t num_out, num_in, out_at, in_at; /* spans, and the first that is not done */
  mscrt_span *out, *in;
  uint64_t out_bytes, in_bytes; /* of all spans */
  uint64_t ready;               /* bytes of out that may be sent */
  uint64_t sent, got;
  uint64_t out_done, in_done;  /* of the span that is under way */
  mscrt_duplex_head own, theirs; /* the heads, which go before the spans */
  uint64_t head_sent, head_got;
} mscrt_duplex;

typedef struct {
  uint32_t num;
  mscrt_duplex *duplex;
  struct pollfd *polled; /* room for one more than duplexes */
  int wake, timeout_ms;
  /* called when bytes have arrived; may make more bytes ready to be sent; may be NULL */
  void (*work)(void *user);
  void *user;
} mscrt_duplexes;

typedef enum {
  MSCRT_DUPLEXES_DONE,
  MSCRT_DUPLEXES_LATE,
  MSCRT_DUPLEXES_CLOSED,
  MSCRT_DUPLEXES_WOKEN,
  MSCRT_DUPLEXES_DIFFER
} mscrt_duplexes_end;

/* Sends and receives all bytes; returns why it stopped: DONE; CLOSED: a connection has ended; LATE: nothing moved for
 * timeout_ms; DIFFER: another rank runs another collective; WOKEN: `wake` is readable, and this may be called again.
 * After CLOSED, LATE and DIFFER *out_duplex is the duplex concerned. */
mscrt_duplexes_end mscrt_duplexes_move(mscrt_duplexes *l, uint32_t *out_duplex);
/* Sends the heads, as far as possible without waiting: the others learn that this rank has begun. */
void mscrt_send_heads(mscrt_duplexes *l);
/* True if the heads of both ends are there and describe one collective. */
bool mscrt_duplex_agrees(const mscrt_duplex *l);
/* True if all bytes have been sent, or received. */
bool mscrt_duplex_is_sent(const mscrt_duplex *l);
bool mscrt_duplex_has_come(const mscrt_duplex *l);
/* True if it is certain for which rank this one waits: exactly one has not begun the collective, or there is only
 * one. */
bool mscrt_one_is_late(const mscrt_duplexes *l);
/* Returns the duplex of a rank that has not begun the collective, else of the rank that has sent the smallest share. */
uint32_t mscrt_late_duplex(const mscrt_duplexes *l);

/* ---- connect.c ---- */

/* Connects this rank to every other: out_data[r], unless NULL, and out_mail[r] if the job has messages; -1: itself. */
mscrt_status *mscrt_connect_ranks(const mscrt_member *m, int listener, int *out_data, int *out_mail);

/* ---- mail.c: messages between stages ---- */

typedef struct mscrt_mail mscrt_mail;

/* Takes over the connections fds, and starts the thread that writes messages that arrive to the mailboxes of this
 * rank's arena. */
mscrt_status *mscrt_mail_open(mscrt_member *m, int *fds, uint8_t *arena, mscrt_mail **out_mail);
void mscrt_mail_close(mscrt_mail *mail);
mscrt_status *mscrt_mail_send(mscrt_mail *mail, const mscrt_channel *m, const void *src, const mscrt_site *site);
mscrt_status *mscrt_mail_receive(mscrt_mail *mail, const mscrt_channel *m, void *dst, const mscrt_site *site);

#endif
