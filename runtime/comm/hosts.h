/* hosts.h: shared by the files of the transport over TCP that run collectives.
 *
 * With the option `shares`, ranks of one host are the members of a transport of their own, `local`: their arenas are
 * there, and they meet at its barriers. */
#ifndef MSCRT_COMM_HOSTS_H
#define MSCRT_COMM_HOSTS_H

#include "runtime/comm/fabric.h"
#include "runtime/comm/shared_memory.h"
#include "runtime/comm/slices.h"
#include "runtime/comm/tcp.h"

typedef enum { MSCRT_OF_DATA, MSCRT_OF_WISHES, MSCRT_OF_VALUES } mscrt_duplex_kind;

/* Memory that only grows. */
typedef struct {
  void *at;
  size_t bytes;
} mscrt_room;

typedef struct {
  mscrt_comm_options o;
  mscrt_member m;
  mscrt_mail *mail;
  mscrt_fabric *fabric; /* NULL: there are connections */
  int *fd;          /* the connection with each rank */
  uint64_t *number; /* of collectives with each rank so far */
  uint8_t *arena;
  size_t arena_room;    /* 0: the arena is in `local` */
  mscrt_comm *local;    /* of the ranks of this host; NULL: this rank shares memory with none */
  int *place;           /* of each rank: its number in `local`; -1: it is on another host. NULL without `local` */
  int *rank_at;         /* of each number in `local` */
  mscrt_duplex *duplex;
  struct pollfd *polled;
  uint8_t *wishes;                           /* of each rank: whether it wants its part of the running collective */
  uint64_t *values;                          /* of each rank: its value, in `max` */
  mscrt_room spans, packed, places, cursors; /* memory of the running collective */
  mscrt_room own_places; /* memory of exchanges of this rank alone, which run beside those with others */
} mscrt_tcp;

/* One run of a collective. */
typedef struct {
  mscrt_tcp *c;
  const mscrt_exchange *e;
  const mscrt_site *site;
  mscrt_duplex_kind kind;
  bool shares;         /* members of one host read each other's arenas */
  mscrt_exchange here; /* only its group: the members of this host, by their numbers in `local` */
  int32_t here_member[MSCRT_MAX_LOCAL];
} mscrt_collective_run;

/* True if a rank shares memory with this one. */
static inline bool mscrt_is_here(const mscrt_tcp *c, int rank) { return c->place && c->place[rank] >= 0; }

static inline uint8_t *mscrt_source_in_arena(const mscrt_tcp *c, const mscrt_part *p) { return c->arena + p->src; }

/* ---- hosts.c ---- */

/* Makes a room at least `bytes` long; its contents are lost. */
mscrt_status *mscrt_reserve(mscrt_room *r, size_t bytes);
/* Adds a duplex with rank `rank`, whose spans are appended to `out` and `in` (mscrt_add_out, mscrt_add_in); then
 * mscrt_set_head. */
mscrt_duplex *mscrt_add_duplex(const mscrt_collective_run *r, mscrt_duplexes *l, int rank, mscrt_span *out,
                               mscrt_span *in);
void mscrt_add_out(mscrt_duplex *l, void *at, uint64_t bytes);
void mscrt_add_in(mscrt_duplex *l, void *at, uint64_t bytes);
void mscrt_set_head(const mscrt_collective_run *r, mscrt_duplex *l);
/* Sends and receives all bytes; returns a status that names the rank that is lost. */
mscrt_status *mscrt_move_duplexes(const mscrt_collective_run *r, mscrt_duplexes *l);
/* Waits until all members on this host have arrived here. */
mscrt_status *mscrt_meet_here(const mscrt_collective_run *r);
/* Returns the arena of this rank, or of another rank of this host. */
uint8_t *mscrt_arena_here(const mscrt_tcp *c, int64_t rank);

/* ---- boxes.c ---- */

mscrt_status *mscrt_run_boxes(const mscrt_collective_run *r, mscrt_pool *pool, uint32_t num, const mscrt_part *part);
/* Runs an exchange of this rank alone: it may run while another thread is in one with other ranks. */
mscrt_status *mscrt_run_alone(const mscrt_collective_run *r, mscrt_pool *pool, uint32_t num, const mscrt_part *part);

/* ---- host_slices.c ---- */

/* Runs an all_reduce whose members have the same slices, or a sum of which each member takes a part: the
 * members of a host add up their values before they go to other hosts, and sums that arrive are written to all of them.
 * *out_ran false: nothing was done, as this form does not pay or cannot be used (see find_hosts); it is the same on all
 * members. */
mscrt_status *mscrt_run_host_slices(const mscrt_collective_run *r, mscrt_pool *pool, uint32_t num,
                                    const mscrt_part *part, bool *out_ran);

#endif
