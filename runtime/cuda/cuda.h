/* cuda.h: what the files of the device cuda share.  All its work is issued to streams and runs later, in their order;
 * the host waits once per step. */
#ifndef MSCRT_CUDA_H
#define MSCRT_CUDA_H

#include <stdatomic.h>

#include "runtime/context.h"
#include "runtime/cuda/api.h"
#include "runtime/cuda/moves.h"

#define MSCRT_CUDA_ALIGN 256

typedef struct mscrt_products mscrt_products;
typedef struct mscrt_dnn mscrt_dnn;
typedef struct mscrt_links mscrt_links;

/* A program as a graph of the driver's, for batches from one input slot on. */
typedef struct {
  cu_graph_exec exec;            /* NULL: not made yet */
  uint64_t received;             /* bytes from other ranks, each time */
} mscrt_cuda_graph;

typedef struct mscrt_cuda {
  mscrt_cuda_api cu;
  cu_device device;
  cu_context context;            /* the device's primary one: libraries use it too */
  bool retained, inputs_pinned;
  int driver;                    /* the CUDA that it knows: 12040 is 12.4 */
  int num_devices, ordinal, arch;             /* arch: 90 is compute capability 9.0 */
  char name[96];
  cu_stream stream;              /* of calls */
  cu_event done;                 /* all of the step has run */
  cu_stream upload;              /* of batches, one step ahead of calls */
  cu_event uploaded;             /* the last one that was issued */
  cu_module module;
  cu_function *kernel;           /* of the plan's */
  /* One piece of memory: the arena without its mailboxes, constants, flags, workspace. */
  cu_address memory;
  uint64_t memory_bytes;
  cu_address flags, workspace;
  uint64_t workspace_bytes;
  uint32_t num_flags;            /* calls that check their operands: flag i is non-zero after a fault of checked[i] */
  const mscrt_record **checked;
  uint8_t *results;              /* pinned: the flags, then the loss */
  void **parameters;             /* of a launch */
  mscrt_products *products;      /* NULL: there are none */
  mscrt_dnn *dnn;                /* NULL: the plan has no graphs */
  mscrt_links *links;            /* to other GPUs; NULL: collectives with other ranks go through the host */
  mscrt_moves *moves;            /* of each collective of the plan that stays on GPUs */
  bool *warm;                    /* programs that have run once */
  uint32_t issued;               /* calls, since the host has waited for them */
  bool capturing;
  const mscrt_record *alone;     /* the call that is waited for by itself */
  bool gave_up, stuck;           /* after a failure; stuck: it goes on working, and is not touched any more */
  _Atomic uint32_t aborted;      /* NCCL has let go */
  mscrt_cuda_graph *graph;       /* [program][input slot of its first batch] */
} mscrt_cuda;

static inline mscrt_cuda *mscrt_cuda_of(const mscrt_context *c) { return c->device_state; }

/* Calls of one thread between these two go to this device; the thread's own choice is back afterwards. */
mscrt_status *mscrt_cuda_enter(mscrt_cuda *g);
void mscrt_cuda_leave(mscrt_cuda *g);

/* All addresses that a call's buffer will have, or-ed. */
uint64_t mscrt_cuda_low_bits(const mscrt_context *c, const mscrt_record *r, uint32_t buffer);

/* ---- cuda/watch.c ---- */

/* Until all that was issued has run; a rank that is lost, an error of NCCL's and too long a wait end it.  Alone:
 * only this call. */
mscrt_status *mscrt_cuda_wait(mscrt_context *c);
mscrt_status *mscrt_cuda_wait_alone(mscrt_context *c, const mscrt_record *r);
/* After a failure: other ranks and NCCL's kernels are told to end.  Returns the status; as STUCK if this GPU
 * goes on working. */
mscrt_status *mscrt_cuda_give_up(mscrt_context *c, mscrt_status *s);
/* Before anything is given back: it must stay as it is. */
bool mscrt_cuda_is_stuck(mscrt_context *c);

/* ---- cuda/step.c ---- */

/* A program with its inputs and results: issued call by call at first, later as a graph. */
mscrt_status *mscrt_cuda_run(mscrt_context *c, uint32_t program, bool train, int64_t step);
void mscrt_cuda_free_graphs(mscrt_context *c);

/* ---- cuda/collective.c ---- */

/* A collective of this rank with itself: copies among calls. */
mscrt_status *mscrt_cuda_alone(mscrt_context *c, const mscrt_turn *t);

/* ---- cuda/host.c: collectives and messages through the memory that ranks of a host share ---- */

mscrt_status *mscrt_cuda_host_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_turn *t,
                                         mscrt_ticket *out_ticket);
mscrt_status *mscrt_cuda_host_message(mscrt_context *c, const mscrt_turn *t);

/* ---- cuda/product.c: matrix products by cuBLASLt ---- */

mscrt_status *mscrt_products_open(mscrt_context *c);
/* Problems and algorithms of all calls, after they are built. */
mscrt_status *mscrt_products_ready(mscrt_context *c);
void mscrt_products_close(mscrt_context *c);
mscrt_status *mscrt_product_issue(mscrt_context *c, const mscrt_turn *t);

/* ---- cuda/cudnn.c: attention and convolutions by cuDNN, as products are by cuBLASLt ---- */

mscrt_status *mscrt_dnn_open(mscrt_context *c);
/* An engine for each graph, after the calls are built. */
mscrt_status *mscrt_dnn_ready(mscrt_context *c);
void mscrt_dnn_close(mscrt_context *c);
mscrt_status *mscrt_dnn_issue(mscrt_context *c, const mscrt_turn *t);

#endif
