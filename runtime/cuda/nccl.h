/* nccl.h: connects ranks that have a GPU each by NCCL.  Collectives run on a stream beside that of calls, messages on
 * one per channel.  Calls wait for them by events; the host waits at the end of a step only, for all of them. */
#ifndef MSCRT_CUDA_LINKS_H
#define MSCRT_CUDA_LINKS_H

#include "runtime/cuda/cuda.h"

/* A channel to or from another stage: a communicator of two ranks. */
typedef struct {
  nccl_comm comm; /* NULL: this rank takes no part */
  int peer;       /* its rank in comm */
  cu_stream stream;
  uint32_t depth, under_way; /* under_way: messages of this run of the program */
  cu_address slots;          /* of a sender: copies of messages under way */
  uint64_t slot_bytes;
  cu_event ready, *moved;        /* moved: of each slot; a receiver has one */
} mscrt_channel_link;

struct mscrt_links {
  mscrt_nccl_api nccl;
  uint32_t num_comms;
  nccl_comm *comm;               /* of each partition of the ranks; NULL: this rank is alone in it */
  cu_stream stream;
  cu_event issued, *ran;         /* ran: of each collective of the section, by its number - 1 */
  uint32_t num_ran, waited;      /* waited: the number of the last collective that calls wait for */
  cu_address staging;            /* where collectives pack and unpack */
  uint64_t staging_bytes;
  uint32_t num_channels;
  mscrt_channel_link *channel;   /* of each message of the plan */
  /* Progress: the GPU writes the number of the exchange that it begins to `begun`, in the host's memory. */
  uint32_t num_watched;
  const mscrt_record **watched;
  cu_address numbers; /* memory of the GPU with the numbers 0, 1, 2, ..., from which it copies */
  uint32_t *begun;
  bool aborted;
  nccl_window *window; /* by communicator: NCCL's handle of the rank's memory as a symmetric window; NULL: it is none */
  /* by communicator, then by channel: NCCL's handle of the rank's memory where it is no window; NULL: not registered */
  void **registered;
  bool told; /* a line of the log says that registering failed */
};

/* ---- cuda/progress.c ---- */

/* Turns a result of NCCL's into a status; waits for a call that is in progress. */
mscrt_status *mscrt_links_check(mscrt_context *c, nccl_comm comm, nccl_result r, const char *what);
#define MSCRT_LINKS_TEXT 320
/* Describes an exchange in a text: "all_reduce grad at net.py:7 (ranks 0,1)". */
const char *mscrt_links_describe(const mscrt_record *r, char text[MSCRT_LINKS_TEXT]);
/* Return the number and the description of the exchange that the GPU began last; 0 and NULL: none. */
uint32_t mscrt_links_begun(const mscrt_links *l);
const char *mscrt_links_last_begun(const mscrt_links *l, char text[MSCRT_LINKS_TEXT]);
/* Reports an asynchronous error of a communicator. */
mscrt_status *mscrt_links_check_async(mscrt_context *c);
/* Ends all kernels of NCCL's, after a failure. */
void mscrt_links_abort(mscrt_links *l);

/* ---- cuda/nccl_communicators.c ---- */

/* Connects the ranks. It gets its memory, of mscrt_links_bytes, by mscrt_links_place. */
mscrt_status *mscrt_links_open(mscrt_context *c);
uint64_t mscrt_links_bytes(const mscrt_links *l);
void mscrt_links_place(mscrt_links *l, cu_address at);
/* Must be called after the calls are built. */
mscrt_status *mscrt_links_ready(mscrt_context *c);
void mscrt_links_close(mscrt_context *c);

/* ---- cuda/nccl_memory.c ---- */

/* Allocates the rank's memory so that NCCL can register it; false: NCCL is too old, or has none. */
bool mscrt_links_allocate(mscrt_context *c, uint64_t bytes);
/* Registers memory so allocated with the communicators, once it is placed. All ranks must call this. */
mscrt_status *mscrt_links_register(mscrt_context *c);
void mscrt_links_unregister(mscrt_context *c);

/* ---- cuda/nccl_collective.c ---- */

mscrt_status *mscrt_links_collective(mscrt_context *c, const mscrt_execution *t);
mscrt_status *mscrt_links_message(mscrt_context *c, const mscrt_execution *t);
mscrt_status *mscrt_links_wait_for(mscrt_context *c, uint32_t upto);
/* Begin and end the messages of a run; join makes the stream of calls wait for them. */
void mscrt_links_begin(mscrt_links *l);
mscrt_status *mscrt_links_join(mscrt_context *c);

#endif
