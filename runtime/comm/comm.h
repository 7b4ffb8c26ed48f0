/* comm.h: collectives between ranks, and the table of functions of a transport.
 *
 * An exchange is the part of one rank in one collective, computed at load from layouts alone: which boxes the rank gets
 * from which ranks, and how their values are combined. Every verb has this form; a transport only copies boxes and
 * combines them. */
#ifndef MSCRT_COMM_H
#define MSCRT_COMM_H

#include "ir/layout/box.h"
#include "ir/abi/mailbox.h"
#include "ir/verb.h"
#include "runtime/thread_pool.h"
#include "runtime/runtime.h"

/* ---- exchange.c ---- */

/* A collective as the plan describes it. broadcast and pairs have no layouts but a local shape, a group, and a root
 * or pairs of members. halo: `from` and `to` are one layout; the destination of the rank with part i of `halo_dim` has
 * its rows from i * step - lo up to (i + 1) * step + hi; outside of the whole tensor it has the identity of the
 * reduction. With layouts, `axes` gives the order of the terms of a reduction, major digit first; none: the order of
 * ranks. */
typedef struct {
  msc_verb verb;
  mscrt_dtype dtype;
  msc_reduction reduction;
  int rank;
  int64_t shape[MSCRT_MAX_RANK];
  const msc_box_layout *from, *to;
  int num_axes;
  const msc_digit *axes;
  uint32_t root, num_pairs;
  const uint32_t *pairs; /* source, destination, source, ... */
  int halo_dim;
  int64_t lo, hi, step;
  /* num_holders > 0: the tensor lies only on the ranks from first_holder on, so many; the layouts are theirs */
  int first_holder, num_holders;
  /* > 0: runs these collectives of the plan at once; then only verb and dtype are set here */
  uint32_t num_members;
  const uint32_t *members;
} mscrt_collective;

/* The ranks that must meet for a collective. Every rank has the same numbers, so a group is identified by the number
 * of a partition and its members. */
typedef struct {
  uint32_t partition;
  int num, index;      /* number of members, and the index of this rank among them */
  int32_t *member;     /* ascending */
} mscrt_members;

/* A part of a box, small enough to be the work of one thread. */
typedef struct {
  msc_box box, from_box; /* from_box: the box of the buffers of the peers */
  const int64_t *peer;
} mscrt_cut;

/* A box of this rank's source that rank `to` gets. */
typedef struct {
  int32_t to;
  msc_box box;
} mscrt_give;

typedef struct {
  msc_verb verb;
  mscrt_dtype dtype;
  msc_reduction reduction;
  int rank;
  msc_box to_box;        /* the box of the destination buffer */
  /* peers per cut; if several, their values are combined in this order, as a tree of neighbours */
  int num_terms;
  int64_t num_cuts;
  mscrt_cut *cut;
  int64_t *peers;
  bool fill;             /* the destination is filled with the identity of the reduction (pairs: zeros) first */
  /* all members reduce the same elements: each may reduce a slice and get the other slices from the other members */
  bool slices;
  bool scatters;         /* a reduction of which each member takes a part that is not empty, from all members */
  bool same;             /* all members take the same boxes from the same ranks, and combine nothing */
  int64_t elems;         /* of to_box */
  uint64_t src_bytes, dst_bytes; /* bytes of the buffers, as large as the largest part needs */
  uint64_t received;     /* bytes received from other ranks, each time */
  /* For transports that send. give: the boxes that others get from this rank, in the order of their cuts; own_box: the
   * box of the source buffer; asks: some members may not want their boxes, so each tells the others whether it does. */
  int64_t num_gives, room_gives;
  mscrt_give *give;
  msc_box own_box;
  bool asks;
  mscrt_members group;
} mscrt_exchange;

/* The distinct partitions of the ranks into groups, numbered alike by all ranks. */
typedef struct {
  int ranks;
  uint32_t num;
  int64_t room;
  int32_t *group_of; /* [num][ranks]: the smallest rank of each rank's group */
} mscrt_partitions;

/* A value of a collective of one or several values. All parts of a collective have the same verb, element type,
 * reduction and group. */
typedef struct {
  const mscrt_exchange *e;
  uint64_t src;          /* offset in the arena of every rank */
  /* memory of this rank (with e->slices: in its arena, possibly at src); of a plan's call it is in the arenas of all
   * members, at the same place, or in none */
  void *dst;
  int64_t at;            /* number of elements of the parts before it */
} mscrt_part;

/* Partition 0 is one group of all ranks. */
mscrt_status *mscrt_partitions_new(int ranks, mscrt_partitions *out_partitions);
void mscrt_partitions_free(mscrt_partitions *p);

/* Sets out_size[d] to the size, along dimension d, of the largest destination of a collective. */
void mscrt_largest_destination(const mscrt_collective *c, int64_t *out_size);
/* Makes the exchange of one rank, which the caller frees. The collective was verified, so this fails only if memory
 * runs out. p: the partition of the collective is added to it; NULL: the group is all ranks. gives: also lists the
 * boxes that other ranks get from this one. */
mscrt_status *mscrt_exchange_make(const msc_box_mesh *mesh, int rank, const mscrt_collective *c, mscrt_partitions *p,
                                  bool gives, mscrt_exchange *out_exchange);
/* Sets the group of the exchanges of one bucket to all ranks that meet for any of them: a rank with an empty part of
 * one value still meets for the others. *out_ok false: a slice would be reduced from ranks that do not have all its
 * elements, so the plan must be refused. */
mscrt_status *mscrt_exchanges_join(uint32_t num, const uint32_t *member, int rank, mscrt_partitions *p,
                                   mscrt_exchange *exchange, bool *out_ok);
void mscrt_exchange_free(mscrt_exchange *e);

/* ---- reduce.c ---- */

/* Sets dst[i] = src[0][i] op src[1][i] op ... as a balanced tree of neighbours; f16 and bf16 are added in f32. dst
 * may be one of src. */
void mscrt_combine(mscrt_dtype dtype, msc_reduction red, int num, const void *const *src, void *dst, int64_t elems);
/* Does the same with num_dst destinations, each of which may be one of src. past_caches: stores do not fetch cache
 * lines; for results that would have left all caches before they are read. */
void mscrt_combine_for_all(mscrt_dtype dtype, msc_reduction red, int num, const void *const *src, int num_dst,
                           void *const *dst, int64_t elems, bool past_caches);
/* mscrt_combine_inside combines as mscrt_combine, but leaves the elements of `out` in the type in which they are added,
 * f32 for f16 and bf16. mscrt_store_for_all stores such results as elements of `dtype`; it reads `inside` for a number
 * of elements rounded up to 16. */
void mscrt_combine_inside(mscrt_dtype dtype, msc_reduction red, int num, const void *const *src, void *out,
                          int64_t elems);
void mscrt_store_for_all(mscrt_dtype dtype, const void *inside, int num_dst, void *const *dst, int64_t elems);
/* memcpy with stores that do not fetch cache lines. */
void mscrt_copy_past_caches(void *dst, const void *src, size_t bytes);
void mscrt_fill_identity(mscrt_dtype dtype, msc_reduction red, void *dst, int64_t elems);

/* ---- transports ---- */

typedef struct mscrt_comm mscrt_comm;

#define MSCRT_MAX_LOCAL 256 /* most ranks on one host */

/* What texts of failures name: the op (NULL: it has no name), its place in the model (NULL: not known), the step. */
typedef struct {
  const char *name, *loc;
  int64_t step;
} mscrt_site;

typedef struct {
  int rank, ranks;
  const char *address;
  int timeout_ms;
  bool spin;                 /* there is a core for the thread of every rank */
  uint64_t plan_hash;        /* must be equal on all ranks */
  uint64_t arena_bytes;
  uint32_t num_partitions;   /* partitions of the ranks, including number 0, the whole job */
  bool sparse;               /* most of the arena is never touched: pages are made on first use */
  /* of transports between hosts */
  bool shares;               /* ranks of one host share memory */
  uint64_t host_number;      /* ranks with the same number share memory; 0: made from kernel and network name space */
  const struct mscrt_fabric_calls *over; /* library for the data of collectives; NULL: connections of our own */
  bool has_mail;             /* the plan has messages between stages */
  bool led;                  /* the scheduler is a process of its own; else rank 0 leads */
  int meet_ms;               /* to wait for all ranks to join; 0: timeout_ms */
  int silence_ms;            /* a rank whose heartbeats do not come for so long is lost; 0: 30,000 */
  bool recovers;             /* ranks that are lost may be replaced: they come while the others are still here */
  const char *token;         /* that all ranks have; NULL: none */
  const char *host;          /* where others reach this rank; NULL: the address from which it reaches the scheduler */
  void (*log)(void *user, const char *text); /* gets lines about missing ranks, in the thread that opens; NULL: none */
  void *log_user;
} mscrt_comm_options;

/* Identifies a collective that has run, for `finish`. */
typedef struct {
  uint32_t generation;
} mscrt_ticket;

/* The buffer of a collective that other ranks may still read after `run`. */
typedef enum { MSCRT_LINGERS_NOT, MSCRT_LINGERS_SOURCE, MSCRT_LINGERS_DESTINATION } mscrt_lingering;

/* A channel from a rank of one stage to a rank of another: its messages have one size, and the k-th sent is the k-th
 * received. */
typedef struct {
  int peer;                  /* the other end */
  uint32_t depth;            /* most messages under way: then sending waits */
  uint64_t bytes;
  uint64_t mailbox;          /* offset in the arena of the receiver: msc_mailbox_bytes(bytes, depth), zeros at first */
} mscrt_channel;

typedef struct {
  const char *name;
  bool sends;                /* needs the list `give` of an exchange */
  bool across_hosts;         /* ranks may be on any hosts */
  bool replaces;             /* new processes may take the places of lost ranks */
  /* Makes the arena of this rank and connects to the other ranks. */
  mscrt_status *(*open)(const mscrt_comm_options *o, mscrt_comm **out_comm);
  void *(*arena)(mscrt_comm *c);
  uint64_t (*link_bytes)(const mscrt_comm *c); /* bytes that this rank shares besides its arena */
  /* Runs one collective of `num` values: ranks meet once for all of them. Peers may go on reading the buffer that
   * `lingers` names until `finish` returns. One thread at a time; another may run collectives of this rank alone. */
  mscrt_status *(*run)(mscrt_comm *c, mscrt_pool *pool, uint32_t num, const mscrt_part *part, const mscrt_site *site,
                       mscrt_ticket *out_ticket);
  mscrt_lingering (*lingers)(uint32_t num, const mscrt_part *part);
  /* Returns when all members have passed the run that gave the ticket, for an exchange that lingers. May be called
   * while another thread is in `run`. */
  mscrt_status *(*finish)(mscrt_comm *c, const mscrt_exchange *e, mscrt_ticket ticket, const mscrt_site *site);
  /* After `send` returns, src may be overwritten; after `receive`, dst is complete. */
  mscrt_status *(*send)(mscrt_comm *c, const mscrt_channel *m, const void *src, const mscrt_site *site);
  mscrt_status *(*receive)(mscrt_comm *c, const mscrt_channel *m, void *dst, const mscrt_site *site);
  /* Returns the largest value of all ranks; also a barrier. */
  mscrt_status *(*max)(mscrt_comm *c, uint64_t value, uint64_t *out_max, const mscrt_site *site);
  /* Returns a status, which begins with `waited_for`, if a rank of the job failed or is gone; NULL: none is, or those
   * that are gone had ended their work. */
  mscrt_status *(*lost)(mscrt_comm *c, const char *waited_for);
  int (*culprit)(mscrt_comm *c); /* the rank whose loss ended the job for this one; -1: none */
  /* Tells the other ranks that this rank gives up, and why. Any thread. */
  void (*abort)(mscrt_comm *c, const char *reason);
  void (*close)(mscrt_comm *c);
} mscrt_transport;

/* ---- address.c ---- */

/* True for HOST:PORT, which is taken for a network address; a file of that name is written ./HOST:PORT. */
bool mscrt_is_network_address(const char *text);

/* ---- transports.c ---- */

/* Returns the transport of this name; NULL: there is none. name NULL: the usual one, for ranks of one host, or, with
 * `far`, for ranks that meet at a network address. */
const mscrt_transport *mscrt_find_transport(const char *name, bool far);

/* ---- report_lost_rank.c ---- */

/* Make the status of rank `rank` for a collective, or a message, that cannot end because of `why`. */
mscrt_status *mscrt_lost_in_collective(int rank, const mscrt_exchange *e, const mscrt_site *site, const char *why);
mscrt_status *mscrt_lost_in_message(int rank, int peer, bool sends, const mscrt_site *site, const char *why);

/* ---- rendezvous_local.c ---- */

/* Lets the ranks of a job find each other. Every rank gets two file descriptors of each other rank r: out_fds[2 * r] is
 * its memory, out_fds[2 * r + 1] becomes readable when its process ends; -1: none. At the places of this rank are
 * own_fds. The caller closes all of them, also after a failure. */
mscrt_status *mscrt_rendezvous(const mscrt_comm_options *o, uint64_t segment_bytes, const int own_fds[2], int *out_fds);

extern const mscrt_transport mscrt_comm_local; /* comm/shared_memory.c: ranks on one host */
extern const mscrt_transport mscrt_comm_tcp;   /* comm/tcp.c: ranks on any hosts */
extern const mscrt_transport mscrt_comm_hosts; /* the same where ranks of one host share memory */
extern const mscrt_transport mscrt_comm_mpi;   /* as tcp, with the data of collectives through MPI ... */
extern const mscrt_transport mscrt_comm_ucx;   /* ... or through UCX */

#endif
