/* comm.h: what ranks exchange, and the table of functions through which they do it.
 *
 * An exchange is one rank's part of one collective, computed at load from layouts alone: which boxes it takes from
 * whom, and how their values are combined.  Every verb has this form; a transport only moves and combines. */
#ifndef MSCRT_COMM_H
#define MSCRT_COMM_H

#include "ir/layout/box.h"
#include "ir/abi/mailbox.h"
#include "runtime/pool.h"
#include "runtime/runtime.h"

typedef enum { MSCRT_SUM, MSCRT_MAX, MSCRT_MIN, MSCRT_PROD, MSCRT_NUM_REDUCTIONS } mscrt_reduction;

/* The order is that of the plan's schema. */
typedef enum {
  MSCRT_ALL_REDUCE,
  MSCRT_ALL_GATHER,
  MSCRT_REDUCE_SCATTER,
  MSCRT_ALL_TO_ALL,
  MSCRT_PERMUTE,
  MSCRT_EXCHANGE,
  MSCRT_BROADCAST,
  MSCRT_PAIRS,
  MSCRT_HALO,
  MSCRT_NUM_VERBS
} mscrt_verb;

const char *mscrt_verb_name(mscrt_verb v);

/* ---- exchange.c ---- */

/* A collective as the plan has it.  broadcast and pairs: no layouts, a local shape, a group, and a root or pairs of
 * members.  halo: `from` and `to` are one layout; the destination is the part with `lo` rows of the part before it
 * along `halo_dim` and `hi` of the one behind; beside the whole stands the reduction's identity.
 * With layouts `axes` says how the terms of a reduction are numbered, major digit first; none: as ranks are. */
typedef struct {
  mscrt_verb verb;
  mscrt_dtype dtype;
  mscrt_reduction reduction;
  int rank;
  int64_t shape[MSCRT_MAX_RANK];
  const msc_box_layout *from, *to;
  int num_axes;
  const msc_digit *axes;
  uint32_t root, num_pairs;
  const uint32_t *pairs; /* source, destination, source, ... */
  int halo_dim;
  int64_t lo, hi;
  /* > 0: these collectives of the plan at once, and nothing else is said here but verb and dtype */
  uint32_t num_members;
  const uint32_t *members;
} mscrt_collective;

/* Ranks that must meet for it: every rank has the same numbers, so a group is its number of a partition and
 * a member list. */
typedef struct {
  uint32_t partition;
  int num, index;      /* members, and this rank's place among them */
  int32_t *member;     /* ascending */
} mscrt_group;

/* A part of a piece, small enough to be work of one thread. */
typedef struct {
  msc_box box, from_box; /* from_box: what the peers' buffers have room for */
  const int64_t *peer;
} mscrt_cut;

typedef struct {
  mscrt_verb verb;
  mscrt_dtype dtype;
  mscrt_reduction reduction;
  int rank;
  msc_box to_box;        /* what the destination has room for */
  int num_terms;         /* peers per cut; several: their values are combined as a tree of neighbours in this order */
  int64_t num_cuts;
  mscrt_cut *cut;
  int64_t *peers;
  bool fill;             /* the destination gets the reduction's identity (pairs: zeros), nothing is taken */
  bool slices;           /* all members reduce the same elements: each may do a slice, and take the others' results */
  int64_t elems;         /* of to_box */
  uint64_t src_bytes, dst_bytes; /* of the buffers: the largest part's */
  uint64_t received;     /* bytes from other ranks, each time */
  mscrt_group group;
} mscrt_exchange;

/* The distinct ways in which collectives part the ranks into groups, numbered alike by all ranks. */
typedef struct {
  int ranks;
  uint32_t num;
  int32_t *group_of; /* [num][ranks]: the smallest rank of each rank's group */
} mscrt_partitions;

/* One value of a collective of one or several: what it does and where.  All parts have the verb, the element type, the
 * reduction and the group of the first. */
typedef struct {
  const mscrt_exchange *e;
  uint64_t src;          /* offset in everybody's arena */
  void *dst;             /* memory of this rank (with e->slices: in its arena, and it may be src itself) */
  int64_t at;            /* elements of the parts before it */
} mscrt_part;

/* Starts with number 0: all ranks together. */
mscrt_status *mscrt_partitions_new(int ranks, mscrt_partitions *out_partitions);
void mscrt_partitions_free(mscrt_partitions *p);

/* Sizes of the largest destination of a change of layout. */
void mscrt_widest(const mscrt_collective *c, int64_t *out_size);
/* Fails only for lack of memory: the collective was verified.  p NULL: all ranks meet, whoever takes from whom. */
mscrt_status *mscrt_exchange_make(const msc_box_mesh *mesh, int rank, const mscrt_collective *c, mscrt_partitions *p,
                                  mscrt_exchange *out_exchange);
/* Those of one bucket get the group of all that meet for one of them: who has an empty part of one value meets for the
 * others.
 * *out_ok: everybody still takes slices with those that had his elements; otherwise the plan must be refused. */
mscrt_status *mscrt_exchanges_join(uint32_t num, const uint32_t *member, int rank, mscrt_partitions *p,
                                   mscrt_exchange *exchange, bool *out_ok);
void mscrt_exchange_free(mscrt_exchange *e);

/* ---- combine.c ---- */

/* dst[i] = src[0][i] op src[1][i] op ... as a balanced tree of neighbours; f16 and bf16 add up in f32.  dst may be
 * one of src. */
void mscrt_combine(mscrt_dtype dtype, mscrt_reduction red, int num, const void *const *src, void *dst, int64_t elems);
void mscrt_fill_identity(mscrt_dtype dtype, mscrt_reduction red, void *dst, int64_t elems);

/* ---- transports ---- */

typedef struct mscrt_comm mscrt_comm;

#define MSCRT_MAX_LOCAL 256 /* ranks of one host */

/* For messages of failures: the op, and where in the work this is. */
typedef struct {
  const char *name, *loc;
  int64_t step;
} mscrt_site;

typedef struct {
  int rank, ranks;
  const char *address;
  int timeout_ms;
  bool spin;                 /* there is a core for every rank's thread */
  uint64_t plan_hash;        /* all ranks must have the same */
  uint64_t arena_bytes;
  uint32_t num_partitions;   /* of groups, the whole job (number 0) included */
  bool sparse;               /* most of the arena is never touched: pages are made when they are */
} mscrt_comm_options;

/* A collective that has run here: with it `finish` asks whether the others have passed it too. */
typedef struct {
  uint32_t generation;
  uint64_t place;
} mscrt_ticket;

/* Which buffer of a collective other ranks may still read after it. */
typedef enum { MSCRT_LINGERS_NOT, MSCRT_LINGERS_SOURCE, MSCRT_LINGERS_DESTINATION } mscrt_lingering;

/* One way from a rank of one stage to a rank of another: its messages have one size, and the k-th sent is
 * the k-th received. */
typedef struct {
  int peer;                  /* the other end */
  uint32_t depth;            /* messages that are under way at most: then sending waits */
  uint64_t bytes;
  uint64_t mailbox;          /* offset in the receiver's arena: msc_mailbox_bytes(bytes, depth), zeros at first */
} mscrt_channel;

typedef struct {
  const char *name;
  /* Makes this rank's arena and meets the others. */
  mscrt_status *(*open)(const mscrt_comm_options *o, mscrt_comm **out_comm);
  void *(*arena)(mscrt_comm *c);
  uint64_t (*beside)(const mscrt_comm *c); /* bytes of this rank that others share and that are not its arena */
  /* One collective of `num` values: ranks meet once for all of them.  Peers may go on reading what `lingers` says until
   * `finish`.  One thread at a time. */
  mscrt_status *(*run)(mscrt_comm *c, mscrt_pool *pool, uint32_t num, const mscrt_part *part, const mscrt_site *site,
                       mscrt_ticket *out_ticket);
  mscrt_lingering (*lingers)(uint32_t num, const mscrt_part *part);
  /* Returns when all members have passed the run that gave the ticket, of an exchange that lingers.  Also while another
   * thread is in `run`. */
  mscrt_status *(*finish)(mscrt_comm *c, const mscrt_exchange *e, mscrt_ticket ticket, const mscrt_site *site);
  /* src may be overwritten at once; dst is complete. */
  mscrt_status *(*send)(mscrt_comm *c, const mscrt_channel *m, const void *src, const mscrt_site *site);
  mscrt_status *(*receive)(mscrt_comm *c, const mscrt_channel *m, void *dst, const mscrt_site *site);
  /* The largest value of all ranks; also a barrier. */
  mscrt_status *(*max)(mscrt_comm *c, uint64_t value, uint64_t *out_max, const mscrt_site *site);
  /* A status when a rank of the job failed or is gone; one that has ended its work is not lost. */
  mscrt_status *(*lost)(mscrt_comm *c, const char *waited_for);
  /* Tells the others that this rank gives up, and why.  Any thread. */
  void (*abort)(mscrt_comm *c, const char *reason);
  void (*close)(mscrt_comm *c);
} mscrt_transport;

/* ---- rendezvous.c ---- */

/* Gives every rank two files of each other rank: its memory and what tells of its death.  out_fds[2 * r], [2 * r + 1];
 * the own ones are the caller's.  The caller closes them, also after a failure (-1: not there). */
mscrt_status *mscrt_meet(const mscrt_comm_options *o, uint64_t segment_bytes, const int own_fds[2], int *out_fds);

extern const mscrt_transport mscrt_comm_local; /* comm/local.c: ranks on one host, in shared memory */

#endif
