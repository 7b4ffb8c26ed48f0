/* local.h: what the files of the shared-memory transport share. */
#ifndef MSCRT_COMM_LOCAL_H
#define MSCRT_COMM_LOCAL_H

#include "runtime/comm/comm.h"
#include "runtime/wait.h"

/* In shared memory: ranks wait for it to rise, modulo 2^32. */
typedef struct {
  _Atomic uint32_t count, sleepers;
} mscrt_counter;

typedef struct {
  _Alignas(64) _Atomic uint32_t arrived;
  mscrt_counter generation;    /* rises when all have arrived */
} barrier;

typedef enum { RUNNING, CLOSED, FAILED } rank_state;

typedef struct {
  _Atomic uint64_t place;      /* 4 * number of the collective + stage: how far this rank is */
  _Atomic int64_t step;
  _Atomic uint64_t value;      /* for max */
  _Atomic uint32_t state;      /* rank_state */
  int32_t culprit;             /* with FAILED: who began it */
  char reason[256];
  barrier barrier[][2];        /* of each partition's group that this rank leads: all wait, or arrive only */
} control;

typedef struct {
  uint8_t *base;
  control *control;
  int alive_fd;                /* readable when the process is gone */
} segment;

typedef struct {
  uint32_t hard_generation, soft_generation; /* that this rank's last arrivals complete */
  uint32_t parity;             /* of staging slots */
} meeting_point;

struct mscrt_comm {
  mscrt_comm_options o;
  uint64_t segment_bytes, stage_at, arena_at;
  segment *segment;            /* of each rank */
  meeting_point *point;        /* of each partition */
  uint64_t place;
  int own_alive_fd;
  atomic_flag gave_up;         /* several threads may find a reason: the first one tells */
};

/* ---- comm/local_wait.c ---- */

typedef struct {
  int culprit; /* rank that began it */
  char why[320];
} mscrt_loss;

/* Will this rank never come again?  Then why. */
bool mscrt_local_is_lost(const struct mscrt_comm *c, int rank, mscrt_loss *out_loss);
/* Tells the others that this rank goes no further because of `culprit`. */
void mscrt_local_give_up(struct mscrt_comm *c, int culprit, const char *reason);

/* Who sleeps at a barrier looks around. */
void mscrt_local_wake_all(struct mscrt_comm *c);

/* Why what is waited for cannot come, as a status of the caller's words and as the loss that the others are told; NULL:
 * it may come.  `late`: there is no more time. */
typedef mscrt_status *mscrt_look(const struct mscrt_comm *c, const void *of, bool late, mscrt_loss *loss);
/* Until the counter has come to `least`: spins where that pays, then sleeps, and looks around every 100 ms.  Gives up
 * on a status. */
mscrt_status *mscrt_local_wait(struct mscrt_comm *c, mscrt_counter *counter, uint32_t least, mscrt_look *look,
                               const void *of);
/* One more; wakes who waits for it. */
void mscrt_local_count(mscrt_counter *counter);

/* ---- comm/local_message.c ---- */

mscrt_status *mscrt_local_send(struct mscrt_comm *c, const mscrt_channel *m, const void *src, const mscrt_site *site);
mscrt_status *mscrt_local_receive(struct mscrt_comm *c, const mscrt_channel *m, void *dst, const mscrt_site *site);

#endif
