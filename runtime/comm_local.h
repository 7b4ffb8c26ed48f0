/* comm_local.h: what the files of the shared-memory transport share. */
#ifndef MSCRT_COMM_LOCAL_H
#define MSCRT_COMM_LOCAL_H

#include "runtime/comm.h"
#include "runtime/wait.h"

#define MSCRT_SPIN_NS 50000
#define MSCRT_LOOK_AROUND_NS 100000000

typedef struct {
  _Alignas(64) _Atomic uint32_t arrived;
  _Atomic uint32_t generation; /* rises when all have arrived: members sleep on it */
  _Atomic uint32_t sleepers;
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

/* A rank that will never come, and why; NULL: it may. */
const char *mscrt_local_why_lost(const struct mscrt_comm *c, int rank, int *out_culprit, char text[320]);
/* Tells the others that this rank goes no further because of `culprit`. */
void mscrt_local_give_up(struct mscrt_comm *c, int culprit, const char *reason);

/* ---- comm_local_message.c ---- */

mscrt_status *mscrt_local_send(struct mscrt_comm *c, const mscrt_channel *m, const void *src, const mscrt_site *site);
mscrt_status *mscrt_local_receive(struct mscrt_comm *c, const mscrt_channel *m, void *dst, const mscrt_site *site);

#endif
