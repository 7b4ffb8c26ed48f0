/* shared_memory.h: shared by the files of the shared-memory transport. */
#ifndef MSCRT_COMM_SHARED_MEMORY_H
#define MSCRT_COMM_SHARED_MEMORY_H

#include "runtime/comm/comm.h"
#include "runtime/wait.h"

/* A counter in shared memory: ranks wait until it has risen, modulo 2^32. */
typedef struct {
  _Atomic uint32_t count, sleepers;
} mscrt_counter;

/* The beginning of a mailbox: how many messages were sent, and how many the receiver has read. Slots follow. */
typedef struct {
  _Alignas(MSC_MAILBOX_LINE) mscrt_counter sent;
  _Alignas(MSC_MAILBOX_LINE) mscrt_counter taken;
} mscrt_mailbox;

_Static_assert(sizeof(mscrt_mailbox) == MSC_MAILBOX_COUNTERS, "the compiler plans room for it");

/* The slot of message `number` in a mailbox for `depth` messages of `bytes` bytes. */
static inline uint8_t *mscrt_mailbox_slot(mscrt_mailbox *b, uint32_t number, uint32_t depth, uint64_t bytes) {
  return (uint8_t *)(b + 1) + number % depth * msc_mailbox_slot_bytes(bytes);
}

typedef struct {
  _Alignas(64) _Atomic uint32_t arrived;
  mscrt_counter generation;    /* counts the rounds in which all have arrived */
  mscrt_counter own;           /* counts the rounds in which the rank whose memory this is has arrived */
} barrier;

typedef enum { RUNNING, CLOSED, FAILED } rank_state;

typedef struct {
  _Atomic int64_t step;
  _Atomic uint64_t value;      /* for max */
  _Atomic uint32_t state;      /* rank_state */
  _Atomic uint32_t elsewhere;  /* this rank waits for ranks of other hosts, and may be late because one of them is */
  int32_t culprit;             /* with FAILED: the rank that failed first */
  char reason[256];
  /* by partition in whose group this rank is the first: [0] a barrier at which members wait, [1] they only arrive */
  barrier barrier[][2];
} control;

typedef struct {
  uint8_t *base;
  control *control;
  int alive_fd;                /* readable when the process is gone */
} segment;

typedef struct {
  uint32_t hard_generation, soft_generation; /* generations that the last arrivals of this rank complete */
  uint32_t parity;             /* which of the two staging slots is next */
} meeting_point;

struct mscrt_comm {
  mscrt_comm_options o;
  uint64_t segment_bytes, stage_at, arena_at;
  segment *segment;            /* of each rank */
  meeting_point *point;        /* of each partition */
  int own_alive_fd;
  uint64_t cache_bytes; /* of the largest cache, which the ranks share */
  mscrt_patience patience;
  atomic_flag gave_up;         /* several threads may find a reason: the first one reports it */
};

/* ---- comm/notice_lost_rank.c ---- */

typedef struct {
  int culprit; /* rank that failed first */
  char why[320];
} mscrt_loss;

/* True if the rank has failed, ended or is gone; then *out_loss says why. */
bool mscrt_local_is_lost(const struct mscrt_comm *c, int rank, mscrt_loss *out_loss);
/* True if any other rank has failed or is gone; so this one need not wait for those who have not noticed it, and may
 * stand still. */
bool mscrt_local_any_lost(const struct mscrt_comm *c, mscrt_loss *out_loss);
/* Tells the other ranks that this rank stops because of `culprit`. */
void mscrt_local_give_up(struct mscrt_comm *c, int culprit, const char *reason);

/* Wakes the ranks that sleep at barriers, so that they check the others. */
void mscrt_local_wake_all(struct mscrt_comm *c);

/* ---- comm/shared_memory_wait.c ---- */

/* Returns why the awaited event cannot happen, as a status in the words of the caller and as the loss that other
 * ranks are told; NULL: it may happen. late: the time is up. */
typedef mscrt_status *mscrt_look(const struct mscrt_comm *c, const void *of, bool late, mscrt_loss *loss);
/* Waits until the counter has reached `least`: spins where that pays, then sleeps, and calls `look` every 100 ms.
 * Gives up if `look` returns a status. */
mscrt_status *mscrt_local_wait(struct mscrt_comm *c, mscrt_counter *counter, uint32_t least, mscrt_look *look,
                               const void *of);
/* Adds one and wakes the ranks that wait. */
void mscrt_local_count(mscrt_counter *counter);

/* ---- comm/shared_memory.c, for jobs that have ranks on other hosts, too ---- */

uint8_t *mscrt_local_arena(const struct mscrt_comm *c, int rank);
/* mscrt_local_note_step notes at which step this rank is, mscrt_local_step returns that of any rank. */
void mscrt_local_note_step(struct mscrt_comm *c, int64_t step);
int64_t mscrt_local_step(const struct mscrt_comm *c, int rank);
void mscrt_local_set_elsewhere(struct mscrt_comm *c, bool is_elsewhere);
bool mscrt_local_is_elsewhere(const struct mscrt_comm *c, int rank);
/* Waits at a barrier until all members of e->group have arrived; reads no other field of e. */
mscrt_status *mscrt_local_meet(struct mscrt_comm *c, const mscrt_exchange *e, mscrt_look *look, const void *of);
/* True if the rank has arrived at the barrier at which this rank waits. */
bool mscrt_local_has_arrived(const struct mscrt_comm *c, const mscrt_exchange *e, int rank);

/* ---- comm/mailbox.c ---- */

mscrt_status *mscrt_local_send(struct mscrt_comm *c, const mscrt_channel *m, const void *src, const mscrt_site *site);
mscrt_status *mscrt_local_receive(struct mscrt_comm *c, const mscrt_channel *m, void *dst, const mscrt_site *site);

#endif
