/* context.h: a plan prepared for one rank: addresses instead of offsets, primitives instead of sizes; and the table
 * of functions of a device. */
#ifndef MSCRT_CONTEXT_H
#define MSCRT_CONTEXT_H

#include <unistd.h>

#include "ir/abi/hazard.h"
#include "ir/abi/pools.h"
#include "runtime/comm/comm.h"
#include "runtime/kernels/onednn.h"
#include "runtime/plan/plan.h"
#include "runtime/thread_pool.h"

typedef struct mscrt_feed mscrt_feed;
typedef struct mscrt_stream mscrt_stream;
typedef struct mscrt_timeline mscrt_timeline;
typedef struct mscrt_flight mscrt_flight;
typedef struct mscrt_offload mscrt_offload;
typedef struct mscrt_pushing mscrt_pushing;
typedef struct mscrt_row_cache mscrt_row_cache;

/* Who runs a call of a plan whose parameters live on servers; 0: workers. */
enum {
  MSCRT_BY_SERVERS = 1,
  MSCRT_BY_BOTH = 2,
  MSCRT_BY_EACH = 3, /* a sum over all workers, which each worker computes as if all had its own values */
};
enum { MSCRT_MOST_SERVERS = 64, MSCRT_MOST_COPIES = 2 };

/* The slots that an entry of the schedule uses. shift: by space, how many bytes are added to an address of slot 0. */
typedef struct {
  uint64_t shift[MSCRT_NUM_SPACES];
} mscrt_slots;

/* One call, with everything looked up. */
typedef struct mscrt_record {
  uint8_t kind;                  /* CallKind */
  uint8_t served;                /* 0 without servers */
  bool checks, alone;            /* alone: too short to wake threads for */
  bool finds_packed;             /* a product: c->panels have all columns of its b already */
  uint32_t strips, chained;      /* chained: the number of calls, from this one on, that run strip by strip; 0: none */
  mscrt_kernel *kernel;
  void **buffers;                /* in slot 0 */
  uint32_t num_buffers;
  const uint8_t *space;          /* space of each buffer; NULL: no buffer depends on slots */
  const plan_ref *ref;           /* of each buffer */
  const int64_t *dims;
  const double *scalars;
  int64_t extent, grain, units;
  const mscrt_matmul *matmul;
  const mscrt_graph *graph;
  mscrt_kernel *pack, *multiply; /* NULL: by the library */
  const mscrt_tile *tile[2][2];  /* [last row of tiles][last column of tiles] */
  struct mscrt_record *epilogue; /* its buffers that are NULL stand for the tile, on a GPU for the workspace */
  uint32_t index;                /* number of the kernel, product, collective or message in the plan */
  uint32_t num_parts;            /* number of values of a collective */
  mscrt_part *part;              /* in slot 0 */
  const uint8_t *part_space;     /* spaces of source and destination of each part; NULL: none depends on slots */
  mscrt_channel channel;         /* of a message */
  bool receives;
  /* beside: it is a collective with other ranks, which the stream runs beside other calls; lingers: peers may still
   * read its memory after it has run here */
  bool beside, lingers;
  uint32_t num_spans;
  const msc_span *span;          /* memory that it touches, as offsets in the arena, in slot 0 */
  msc_waits waits;               /* it waits for the collectives of the section up to these numbers, from 1 */
  bool copies;                   /* within the host's memory, where it stands: no core is idle beside the calls */
  bool is_transfer;              /* between the device and host memory or disk, or the host's kernel between two of
                                  * these; the mover runs it */
  uint32_t awaited_transfers;    /* it waits for the transfers of the section up to this number, from 1; 0: for none */
  uint32_t device_number;        /* number that the device gives it, if it does */
  int64_t predicted_ns;
  const char *name, *loc;
} mscrt_record;

typedef struct {
  const char *name;
  bool inputs;                   /* true if a call reads an input */
  uint32_t copies;               /* micro-batches side by side */
  uint32_t num_calls;            /* 0 for a section of another stage */
  mscrt_record *call;
  uint32_t num_beside;
  mscrt_record **beside;         /* collectives with other ranks; number i is [i - 1] */
  uint32_t num_transfers;
} mscrt_section;

/* A program as this rank runs it. */
typedef struct {
  uint32_t num, micro;           /* number of entries; batches that one run takes */
  const plan_entry *entry;
  uint32_t *release;             /* by entry: how many batches are no longer needed after it */
  const mscrt_variable *loss;    /* NULL: none on this stage */
} mscrt_program;

/* Memory of one worker. */
typedef struct {
  void *tile, *panels, *room;    /* for a product: a tile of the result, packed columns of b, packed rows of a */
  uint64_t job;                  /* the product (its number among those run) of which `panels` holds columns, and ... */
  int64_t packed;                /* ... the number of this group of columns */
  void **buffers;                /* buffers of an epilogue */
} mscrt_worker;

/* One execution of a call. */
typedef struct {
  const mscrt_section *section;
  const mscrt_record *record;
  const mscrt_slots *slots;
  int64_t step;
  uint32_t micro;
  uint32_t number;               /* number of a collective with other ranks */
  uint64_t expected, made;       /* device timed: the tags that its operands must have, and that its results get */
} mscrt_execution;

/* A device, which executes calls: its properties and functions. open, ready, close and issue may be NULL; the other
 * functions may be NULL if the property that needs them is false. */
typedef struct {
  const char *name;
  bool holds_values;       /* calls compute; else they take time, and what ranks exchange is the device's own */
  bool uses_arena;         /* values lie in the arena, where the caller may read them and lend memory for them */
  bool has_memory;         /* apart from the arena: needs fetch, store and set_micro */
  bool runs_programs;      /* it runs whole programs, with the batches of all entries: needs run */
  bool orders_collectives; /* it runs collectives beside calls without a thread of the host: needs wait */
  bool runs_strips;        /* chains of calls may run strip by strip */
  bool has_onednn;         /* oneDNN may compute products, in the host's threads */
  bool has_nccl;           /* NCCL may connect ranks */
  bool has_tcp;            /* TCP may connect ranks */
  bool recovers;           /* ranks may go on after one is lost: the option recover */
  bool runs_transfers;     /* without a thread of the host: needs transfer and wait_for_transfers */
  bool measures_products;  /* it can measure which tiles or algorithm are fastest: the option tune */
  /* open: makes the device's memory and code, before calls are looked up. ready: prepares calls afterwards. close: ends
   * the device, also after a failure of open or ready. */
  mscrt_status *(*open)(mscrt_context *c);
  mscrt_status *(*ready)(mscrt_context *c);
  void (*close)(mscrt_context *c);
  /* copy bytes of the arena from the device's memory, and to it; complete on return */
  mscrt_status *(*fetch)(mscrt_context *c, uint64_t offset, uint64_t bytes);
  mscrt_status *(*store)(mscrt_context *c, uint64_t offset, uint64_t bytes);
  mscrt_status *(*set_micro)(mscrt_context *c, uint64_t offset, uint32_t micro);
  /* runs a program by mscrt_run_entries: takes and releases the batches of all entries */
  mscrt_status *(*run)(mscrt_context *c, uint32_t program, bool train, int64_t step);
  /* delays the following calls until the collectives up to number `upto` have run */
  mscrt_status *(*wait)(mscrt_context *c, const mscrt_execution *t, uint32_t upto);
  /* issues a call: in program order, in the thread of the caller */
  void (*issue)(mscrt_context *c, mscrt_execution *t);
  mscrt_status *(*compute)(mscrt_context *c, const mscrt_execution *t);
  mscrt_status *(*message)(mscrt_context *c, const mscrt_execution *t);
  /* begins a transfer beside other calls; delays the following calls until those up to number `upto` have run. Of a
   * device that does not run transfers by itself: runs one, in the host's thread; NULL: the host copies it. */
  mscrt_status *(*transfer)(mscrt_context *c, const mscrt_execution *t);
  mscrt_status *(*wait_for_transfers)(mscrt_context *c, uint32_t upto);
  /* For a device without values: the bytes sent for a message of so many bytes, and the bytes that ranks share
   * instead of arenas. */
  uint64_t (*message_bytes)(uint64_t bytes);
  uint64_t (*shared_bytes)(const mscrt_context *c);
  /* runs a collective, possibly beside compute, in another thread, with a pool of its own */
  mscrt_status *(*collective)(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t, mscrt_ticket *out_ticket);
} mscrt_device;

/* The pointers in records of calls that point into one input or output; set anew when it lies in memory of the caller
 * instead of the arena. */
typedef struct {
  bool known;       /* they were looked for */
  uint32_t num;
  void ***pointer;  /* by number, the address of the pointer; NULL: the variable can only lie in the arena */
  uint64_t *offset; /* by number, what the pointer points to: bytes from the beginning of the variable */
} mscrt_pointers;

/* An input that the caller sets. */
typedef struct {
  const void *step; /* the batch of a whole step, of which every micro-batch reads its part; NULL: one for all */
  void *copy;       /* the context's copy of it; NULL: it is borrowed */
  uint64_t copy_bytes;
  bool set, is_part; /* is_part: the caller set only the part that this rank reads */
  mscrt_pointers pointers;
} mscrt_caller_input;

/* An output that the caller has memory for. */
typedef struct {
  void *data;   /* NULL: none */
  bool direct;  /* calls write there; else it is copied after a run */
  mscrt_pointers pointers;
} mscrt_caller_output;

/* A parameter or state that lies in the memory of another context. */
typedef struct {
  uint64_t offset, bytes; /* where it would lie in the plan's memory of parameters */
  uint8_t *address;       /* where it lies in the other context */
} mscrt_shared_span;

struct mscrt_context {
  const mscrt_plan *plan;
  mscrt_options o;
  int threads;
  int process;                   /* that opened it: a fork has none of its threads */
  mscrt_pool *pool;
  const mscrt_device *device;
  mscrt_stream *stream;          /* NULL: collectives run where they stand */
  mscrt_pushing *pushing;        /* NULL: there are no servers */
  mscrt_offload *offload;        /* memory elsewhere than on the device; NULL: the plan needs none */
  mscrt_row_cache *row_cache;    /* of each cache of the plan; NULL: there are none */
  mscrt_stream *mover;           /* NULL: there are no transfers, or they take place where they stand */
  mscrt_timeline *timeline;      /* NULL: nothing is measured */
  mscrt_flight *flight;          /* the last operations with other ranks */
  void *device_state;            /* the device's own: its open makes it, its close frees it */
  const mscrt_transport *transport;
  mscrt_comm *comm;
  mscrt_library *library;        /* NULL: the plan does not need it, or it cannot be loaded */
  mscrt_status *no_library;      /* why one that the plan can do without cannot be loaded; NULL: it is not missed */
  /* this rank's values; where the device has memory of its own, room for what the host reads or writes of them */
  uint8_t *arena;
  /* the address of offset 0 of the arena for calls: the arena itself, or memory of the device */
  uint8_t *memory;
  uint32_t num_shared; /* parameters and state of the context `parameters_of`, in the order of offsets */
  mscrt_shared_span *shared;
  const uint8_t *constants;      /* the address of the constants of the plan for calls */
  uint64_t *mailboxes;           /* by stage: bytes of its mailboxes */
  uint64_t mailbox_bytes;        /* of this rank's stage */
  uint64_t arena_bytes, input_stride, input_slots, room_bytes /* of one worker */;
  mscrt_matmul *matmul;          /* of the plan, with the tiles of this machine */
  void *panels;                  /* the packed b of a product whose workers share it */
  uint64_t panel_bytes;
  uint64_t space_offset[MSCRT_NUM_SPACES]; /* offsets in the arena; not of constant and tile */
  mscrt_partitions partitions;
  mscrt_exchange *exchange;      /* of each collective */
  mscrt_section *section;
  mscrt_ticket *ticket;          /* by number - 1 of each collective of the running section */
  uint32_t released;             /* all members have passed the first so many of them, as far as this thread knows */
  mscrt_program *program;
  uint32_t stage;
  void **shifted_buffers[2]; /* room for the addresses, in their slots, of a call and of its epilogue */
  mscrt_part *parts[2];      /* room for the parts of a collective, of this thread and of the stream */
  mscrt_worker *worker;
  char *records;                 /* one block with everything that sections point to */
  mscrt_feed *feed;              /* NULL: the caller sets inputs */
  mscrt_caller_input *input;     /* of each input: what the caller has set */
  mscrt_caller_output *output;   /* of each output: where the caller wants it; NULL: nowhere */
  int64_t step;                  /* number of the next training step */
  mscrt_kept *kept;              /* copies of the state that recovery can go back to; NULL: none are kept */
  mscrt_recovery recovery;       /* how this context began */
  struct mscrt_saving *saving;   /* NULL: no checkpoint was saved so far */
  uint64_t resumed_samples;      /* that were read before the checkpoint with which this began; 0: not known */
  uint64_t loaded_bytes, needed_bytes; /* of parameters in files: read, and held by this rank */
  int64_t launch_ns;             /* time of the host to issue the last run; 0: its calls ran meanwhile */
  _Atomic uint64_t received_bytes;
  uint32_t last_program;         /* program whose outputs are in memory; num_programs: none */
  bool prepared;                 /* program prepare has run since what it reads was changed from outside */
  int last_slot;                 /* slot of its inputs */
  bool broken;
  atomic_bool cancelled;         /* the caller wants the run, under way or next, to end */
  int wake;                      /* of a server: a descriptor that mscrt_cancel makes readable; -1: none */
  uint64_t products;             /* products run so far */
  atomic_bool tile_failed;
  bool strips_apart; /* for tests: chains run one strip after the other, the last one first */
  int64_t *chain_ns; /* when each call of a chain began, and the last one ended; NULL: nothing is measured */
};

/* ---- devices: execute/run.c, execute/device_timed.c, cuda/device_cuda.c ---- */

extern const mscrt_device mscrt_device_cpu;   /* calls run in threads of the rank */
extern const mscrt_device mscrt_device_timed; /* calls sleep for their predicted time */
extern const mscrt_device mscrt_device_cuda;  /* calls are issued to a GPU */

/* Returns the bytes that are sent for a message. */
static inline uint64_t mscrt_message_bytes(const mscrt_context *c, plan_message m) {
  return c->device->holds_values ? plan_message_bytes(m) : c->device->message_bytes(plan_message_bytes(m));
}

/* Copy a range of the arena from the memory of the device, and to it; do nothing if the device works in the arena. */
static inline mscrt_status *mscrt_fetch(mscrt_context *c, uint64_t offset, uint64_t bytes) {
  return c->device->has_memory ? c->device->fetch(c, offset, bytes) : NULL;
}

static inline mscrt_status *mscrt_store(mscrt_context *c, uint64_t offset, uint64_t bytes) {
  return c->device->has_memory ? c->device->store(c, offset, bytes) : NULL;
}

/* ---- context.c ---- */

/* Every call that needs threads of the context, other ranks or a device begins with one of these three. */
static inline mscrt_status *mscrt_check_process(const mscrt_context *c) {
  if (c->process == getpid()) return NULL;
  return mscrt_fail(MSCRT_ARGUMENT, "this context belongs to process %d, which forked this one: open another here",
                    c->process);
}
static inline mscrt_status *mscrt_check_holds_values(const mscrt_context *c) {
  MSCRT_CHECK(mscrt_check_process(c));
  return c->device->holds_values ? NULL : mscrt_fail(MSCRT_ARGUMENT, "the device '%s' has no values", c->device->name);
}
static inline mscrt_status *mscrt_check_not_broken(const mscrt_context *c) {
  MSCRT_CHECK(mscrt_check_process(c));
  return c->broken ? mscrt_fail(MSCRT_ARGUMENT, "this context failed before and cannot go on") : NULL;
}

#endif
