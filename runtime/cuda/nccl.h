/* nccl.h: ranks with a GPU of their own, connected by NCCL.  Collectives run on a stream beside calls, messages on one
 * per channel; calls wait for them by events, and the host for nobody but at the end of a step, when it watches
 * all of them. */
#ifndef MSCRT_CUDA_LINKS_H
#define MSCRT_CUDA_LINKS_H

#include "runtime/cuda/cuda.h"

/* Way to or from another stage: a communicator of two. */
typedef struct {
  nccl_comm comm;                /* NULL: not this rank's */
  int peer;                      /* in it */
  cu_stream stream;
  uint32_t depth, under_way;     /* of this run of the program */
  cu_address slots;              /* of a sender: copies of what is under way */
  uint64_t slot_bytes;
  cu_event ready, *moved;        /* moved: of each slot; a receiver has one */
} mscrt_channel_link;

struct mscrt_links {
  mscrt_nccl_api nccl;
  uint32_t num_comms;
  nccl_comm *comm;               /* of each partition of the ranks; NULL: this rank is alone in it */
  cu_stream stream;
  cu_event issued, *ran;         /* ran: of each collective of the section, by its number - 1 */
  uint32_t num_ran, waited;      /* up to which calls have waited */
  cu_address staging;            /* where collectives pack and unpack */
  uint64_t staging_bytes;
  uint32_t num_channels;
  mscrt_channel_link *channel;   /* of each message of the plan */
  /* What the GPU has come to: the number of the exchange it began last, in memory that the host sees. */
  uint32_t num_watched;
  const mscrt_record **watched;
  cu_address numbers;            /* 0, 1, 2, ... to be copied from */
  uint32_t *begun;
  bool aborted;
};

/* ---- cuda/nccl.c ---- */

/* Meets the others, before memory is measured; the memory for it lies in [at, at + mscrt_links_bytes). */
mscrt_status *mscrt_links_open(mscrt_context *c);
uint64_t mscrt_links_bytes(const mscrt_links *l);
void mscrt_links_place(mscrt_links *l, cu_address at);
/* After calls are looked up. */
mscrt_status *mscrt_links_ready(mscrt_context *c);
void mscrt_links_close(mscrt_context *c);
/* After a failure: no kernel of NCCL's goes on waiting. */
void mscrt_links_abort(mscrt_links *l);
/* NCCL's answer; what goes on beside is waited for. */
mscrt_status *mscrt_links_check(mscrt_context *c, nccl_comm comm, nccl_result r, const char *what);

/* ---- cuda/collective.c ---- */

mscrt_status *mscrt_links_collective(mscrt_context *c, const mscrt_turn *t);
mscrt_status *mscrt_links_message(mscrt_context *c, const mscrt_turn *t);
mscrt_status *mscrt_links_wait_for(mscrt_context *c, uint32_t upto);
/* Messages of the run begin, have all been sent: the stream of calls waits for them. */
void mscrt_links_begin(mscrt_links *l);
mscrt_status *mscrt_links_join(mscrt_context *c);
/* What the GPU began last: its number, and "all_reduce grad at net.py:7 (ranks 0,1)"; 0 and NULL: nothing yet. */
#define MSCRT_LINKS_TEXT 320
uint32_t mscrt_links_begun(const mscrt_links *l);
const char *mscrt_links_last(const mscrt_links *l, char text[MSCRT_LINKS_TEXT]);
/* An error that a communicator has come to. */
mscrt_status *mscrt_links_look(mscrt_context *c);

#endif
