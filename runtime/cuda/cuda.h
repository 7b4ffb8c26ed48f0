/* cuda.h: what the files of the device cuda share.  The host issues all work to streams, where it runs later in order,
 * and waits once per step. */
#ifndef MSCRT_CUDA_H
#define MSCRT_CUDA_H

#include <stdatomic.h>

#include "runtime/context.h"
#include "runtime/cuda/api.h"
#include "runtime/cuda/moves.h"

typedef struct mscrt_products mscrt_products;
typedef struct mscrt_dnn mscrt_dnn;
typedef struct mscrt_links mscrt_links;
typedef struct mscrt_transfers mscrt_transfers;
typedef struct mscrt_row_swaps mscrt_row_swaps;

/* A program captured as a graph of the driver's, for batches from one input slot on. */
typedef struct {
  cu_graph_exec exec; /* NULL: not captured yet */
  uint64_t received;  /* bytes from other ranks in each run */
} mscrt_cuda_graph;

typedef struct mscrt_cuda {
  mscrt_cuda_api cu;
  cu_device device;
  cu_context context;            /* the device's primary one: libraries use it too */
  bool retained, inputs_pinned;
  int driver;                                 /* the version of CUDA that the driver knows: 12040 is 12.4 */
  int num_devices, ordinal, arch;             /* arch: 90 is compute capability 9.0 */
  char name[96];
  cu_stream stream;              /* of calls */
  cu_event done;                 /* after the last call of the step */
  cu_stream upload;              /* of batches, one step ahead of calls */
  cu_event uploaded;             /* after the last upload */
  cu_module module;
  cu_function *kernel; /* by number in the plan */
  /* One allocation: the arena without its mailboxes, constants, flags, workspace. */
  cu_address memory;
  unsigned (*free_memory)(void *memory); /* NCCL's, which has allocated it; NULL: the driver has */
  uint64_t memory_bytes;
  cu_address flags, workspace;
  uint64_t workspace_bytes;
  uint32_t num_flags;            /* calls that check their operands: flag i is non-zero after a fault of checked[i] */
  const mscrt_record **checked;
  uint8_t *results;              /* pinned: the flags, then the loss */
  void **parameters;             /* of a launch */
  bool early;       /* kernels of the module may begin before the one before them has ended: they wait by themselves */
  bool follows_kernel; /* the last work of `stream` is a kernel of the module */
  mscrt_products *products;      /* NULL: there are none */
  mscrt_dnn *dnn;                /* NULL: the plan has no graphs */
  mscrt_links *links;            /* to other GPUs; NULL: collectives with other ranks go through the host */
  mscrt_transfers *transfers;    /* of what lives in the host's memory; NULL: nothing does */
  mscrt_row_swaps *swaps;        /* of tables with a cache; NULL: there are none */
  mscrt_moves *moves;            /* of each collective of the plan that stays on GPUs */
  bool *warm;                    /* programs that have run once */
  int64_t step;                  /* that runs, or ran last */
  uint32_t issued;               /* calls issued since the host waited last */
  bool capturing;
  const mscrt_record *alone;     /* the call that the host waits for by itself, for messages; NULL: none */
  bool gave_up, stuck;           /* after a failure; stuck: the GPU still works and must not be touched */
  _Atomic uint32_t aborted;      /* NCCL's kernels have been ended */
  mscrt_cuda_graph *graph;       /* [program][input slot of its first batch] */
} mscrt_cuda;

static inline mscrt_cuda *mscrt_cuda_of(const mscrt_context *c) { return c->device_state; }

/* ---- cuda/cuda.c ---- */

/* Between these two, calls of the thread go to this device; leave restores the device that was current before. */
mscrt_status *mscrt_cuda_enter(mscrt_cuda *g);
void mscrt_cuda_leave(mscrt_cuda *g);

/* The bitwise or of all addresses that a call's buffer can have. */
uint64_t mscrt_cuda_low_bits(const mscrt_context *c, const mscrt_record *r, uint32_t buffer);

/* ---- cuda/launch.c ---- */

/* Launches the kernel of a record, with buffers at these addresses; NULL stands for the workspace. */
mscrt_status *mscrt_cuda_launch(mscrt_context *c, const mscrt_record *r, void *const *buffers);

/* ---- cuda/watch.c ---- */

/* Waits until all issued work has run.  Fails if another rank is lost, NCCL reports an error or the wait takes too
 * long. alone: names the one call that is waited for in messages. */
mscrt_status *mscrt_cuda_wait(mscrt_context *c);
mscrt_status *mscrt_cuda_wait_alone(mscrt_context *c, const mscrt_record *r);
/* After a failure s: tells other ranks and ends NCCL's kernels.  Returns s, as MSCRT_STUCK if the GPU still works. */
mscrt_status *mscrt_cuda_give_up(mscrt_context *c, mscrt_status *s);
/* True if the GPU still works after a failure, so that nothing of it may be freed. */
bool mscrt_cuda_is_stuck(mscrt_context *c);

/* ---- cuda/step.c ---- */

/* Runs a program with its inputs and results: call by call the first time, later as a graph. */
mscrt_status *mscrt_cuda_run(mscrt_context *c, uint32_t program, bool train, int64_t step);
void mscrt_cuda_free_graphs(mscrt_context *c);

/* ---- cuda/transfer.c ---- */

/* Pins the host's memory of what is offloaded, and makes room for values of a disk, after the calls are built. */
mscrt_status *mscrt_transfers_ready(mscrt_context *c);
void mscrt_transfers_close(mscrt_context *c);
/* Issues a copy, or a kernel of the host; lets calls wait for those numbered up to `upto`. */
mscrt_status *mscrt_cuda_transfer(mscrt_context *c, const mscrt_execution *t);
mscrt_status *mscrt_cuda_wait_for_transfers(mscrt_context *c, uint32_t upto);
/* Returns the first fault that a kernel of the host, or a disk, had in the run that has ended. */
mscrt_status *mscrt_host_call_faults(mscrt_context *c, int64_t step);

/* ---- cuda/row_swap.c ---- */

/* Prepares the admits of the plan, after the calls are built. */
mscrt_status *mscrt_row_swaps_ready(mscrt_context *c);
void mscrt_row_swaps_close(mscrt_context *c);
/* Issues an admit to a stream. */
mscrt_status *mscrt_row_swap_issue(mscrt_context *c, cu_stream stream, const mscrt_record *r);
/* Lets the stream of calls wait, at the end of a program, until rows that were replaced are back in their tables. */
mscrt_status *mscrt_row_swaps_join(mscrt_context *c);
/* Returns the first fault that an admit had in the run that has ended. */
mscrt_status *mscrt_row_swap_faults(mscrt_context *c);

/* ---- cuda/nccl_collective.c ---- */

/* Issues a collective in which this rank is alone: copies, in the stream of calls. */
mscrt_status *mscrt_cuda_local_collective(mscrt_context *c, const mscrt_execution *t);

/* ---- cuda/host_collective.c: collectives and messages through the memory that ranks of a host share ---- */

/* Issues a copy of bytes of the arena: from the GPU, to it.  The memory of the host is not pinned. */
mscrt_status *mscrt_cuda_copy_down(mscrt_context *c, uint64_t offset, uint64_t bytes);
mscrt_status *mscrt_cuda_copy_up(mscrt_context *c, uint64_t offset, uint64_t bytes);

mscrt_status *mscrt_cuda_host_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t,
                                         mscrt_ticket *out_ticket);
mscrt_status *mscrt_cuda_host_message(mscrt_context *c, const mscrt_execution *t);

/* ---- cuda/product.c: matrix products by cuBLASLt ---- */

mscrt_status *mscrt_products_open(mscrt_context *c);
/* Chooses problems and algorithms for all calls, after the calls are built. */
mscrt_status *mscrt_products_ready(mscrt_context *c);
void mscrt_products_close(mscrt_context *c);
mscrt_status *mscrt_product_issue(mscrt_context *c, const mscrt_execution *t);

/* ---- cuda/cudnn.c: attention and convolutions by cuDNN, as products are by cuBLASLt ---- */

mscrt_status *mscrt_dnn_open(mscrt_context *c);
/* Finds an engine for each graph, after the calls are built. */
mscrt_status *mscrt_dnn_ready(mscrt_context *c);
void mscrt_dnn_close(mscrt_context *c);
mscrt_status *mscrt_dnn_issue(mscrt_context *c, const mscrt_execution *t);

#endif
