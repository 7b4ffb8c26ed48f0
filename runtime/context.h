/* context.h: a plan made ready for one rank: addresses instead of offsets, primitives instead of sizes. */
#ifndef MSCRT_CONTEXT_H
#define MSCRT_CONTEXT_H

#include "runtime/comm.h"
#include "runtime/library.h"
#include "runtime/plan.h"
#include "runtime/pool.h"

typedef struct mscrt_feed mscrt_feed;

/* One call, all looked up.  Inputs are double buffered: [slot]. */
typedef struct mscrt_record {
  uint8_t kind;                  /* CallKind */
  bool checks, alone;            /* alone: too small to wake threads for */
  mscrt_kernel *kernel;
  void **buffers[2];             /* the same array when no buffer is an input */
  uint32_t num_buffers;
  const int64_t *dims;
  const double *scalars;
  int64_t extent, grain, units;
  const mscrt_matmul *matmul;
  mscrt_kernel *pack, *multiply; /* NULL: by the library */
  const mscrt_tile *tile[2][2];  /* [last row of tiles][last column of tiles] */
  struct mscrt_record *epilogue; /* its buffers that are NULL are the tile */
  const mscrt_exchange *exchange;
  uint64_t source[2];            /* offset in the arena */
  uint32_t num_fences;           /* collectives to be finished first: this call overwrites what they gave */
  const mscrt_exchange **fence;
  const char *name, *loc;
} mscrt_record;

typedef struct {
  const char *name;
  uint32_t num_calls;
  mscrt_record *call;
  uint32_t num_fences;           /* at the end */
  const mscrt_exchange **fence;
  const mscrt_variable *loss;    /* NULL: none */
} mscrt_section;

/* Memory of one worker. */
typedef struct {
  void *tile, *panels, *room;    /* of a product: a tile of the result, packed columns of b, packed rows of a */
  uint64_t job;                  /* the product and ... */
  int64_t packed;                /* ... the columns that are in `panels` */
  void **buffers;                /* of an epilogue */
} mscrt_worker;

struct mscrt_context {
  const mscrt_plan *plan;
  mscrt_options o;
  int threads;
  mscrt_pool *pool;
  const mscrt_transport *transport;
  mscrt_comm *comm;
  mscrt_library *library;        /* NULL: the plan does not need it */
  uint8_t *arena;
  uint64_t arena_bytes, input_stride;
  uint64_t space_at[PLAN_SPACE_CONSTANT];  /* persistent, scratch, input: offsets in the arena */
  mscrt_partitions partitions;
  mscrt_exchange *exchange;      /* of each collective */
  mscrt_section *section;
  mscrt_worker *worker;
  char *records;                 /* one block that holds what sections point to */
  mscrt_feed *feed;              /* NULL: inputs are set by hand */
  bool *has_input;
  int64_t step;                  /* of training: the next */
  uint64_t received_bytes;
  uint32_t last_section;         /* whose outputs are in memory; num_sections: none */
  int last_slot;                 /* of its inputs */
  bool broken;
  uint64_t products;             /* run so far */
  atomic_bool tile_failed;
};

/* ---- build.c ---- */

/* Sections of a context whose arena, exchanges and library are there. */
mscrt_status *mscrt_build(mscrt_context *c);
/* Where a reference lies in this rank's memory; constants included, tiles not. */
void *mscrt_at(const mscrt_context *c, plan_ref r, int slot);

/* ---- run.c ---- */

mscrt_status *mscrt_run_section(mscrt_context *c, uint32_t section, int slot, int64_t step);
/* The next batch of the data set, as mscrt_feed_take; the other ranks hear of a failure. */
mscrt_status *mscrt_take_batch(mscrt_context *c, bool train, int64_t index, int *out_slot);
/* The loss after a run: NaN when there is none. */
double mscrt_loss_of(const mscrt_context *c, uint32_t section);

/* ---- gather.c ---- */

/* A collective of all ranks: the whole of a variable into out; out NULL: only takes part. */
mscrt_status *mscrt_gather(mscrt_context *c, const mscrt_variable *v, void *out);

/* ---- data.c, feed.c ---- */

/* An input's file, or none for inputs that nothing was bound to. */
struct mscrt_data {
  const mscrt_plan *plan;
  mscrt_samples *samples;        /* per input of the plan */
  int64_t count, batch;          /* samples; per step (0: no input has a batch) */
  mscrt_data_options o;
};

mscrt_status *mscrt_feed_new(const mscrt_context *c, const mscrt_data *data, mscrt_feed **out_feed);
void mscrt_feed_free(mscrt_feed *f);
/* Batch number `index` of training or evaluation into its input slot; the next ones are read meanwhile. */
mscrt_status *mscrt_feed_take(mscrt_feed *f, bool train, int64_t index, int *out_slot);
/* The batch taken last is no longer needed. */
void mscrt_feed_release(mscrt_feed *f);
const mscrt_data *mscrt_feed_data(const mscrt_feed *f);
/* The whole batch `index` of the evaluation range of one input, converted: for what is compared outside the plan. */
mscrt_status *mscrt_feed_whole(mscrt_feed *f, int64_t index, uint32_t input, void *out);

#endif
