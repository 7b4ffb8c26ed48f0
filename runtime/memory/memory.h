/* memory.h: where the values of one rank lie, and how callers and other ranks get at them. */
#ifndef MSCRT_MEMORY_H
#define MSCRT_MEMORY_H

#include "runtime/context.h"

/* ---- gather_variable.c ---- */

/* Sets out_at[space], the offset of each space in the arena of a rank of this stage; returns the bytes of the arena. */
uint64_t mscrt_set_space_offsets(const mscrt_context *c, uint32_t stage, uint64_t *out_at);
/* Copy this rank's part of a variable, which lies at `at` on the host, from the memory of the device, and to it; do
 * nothing for one that lives on the host alone, or if the device works in the host's memory. */
mscrt_status *mscrt_fetch_variable(mscrt_context *c, const mscrt_variable *v, const void *at);
mscrt_status *mscrt_store_variable(mscrt_context *c, const mscrt_variable *v, const void *at);
/* Gathers a whole variable into out, as a collective of all ranks; out NULL: this rank only takes part. */
mscrt_status *mscrt_gather(mscrt_context *c, const mscrt_variable *v, void *out);
/* After a run of a program: copies its outputs to the caller's memory, if calls did not write them there. */
mscrt_status *mscrt_copy_outputs(mscrt_context *c, uint32_t program);

/* ---- inputs.c: inputs without a data set ---- */

/* Checks that inputs are set for a run of a program. */
mscrt_status *mscrt_check_inputs(const mscrt_context *c, uint32_t program);
/* Copies the part of each input that micro-batch `micro` reads into input slot `slot`. */
void mscrt_copy_inputs(mscrt_context *c, uint32_t micro, int slot);
/* Makes calls read inputs from the arena again. */
void mscrt_unborrow_inputs(mscrt_context *c);
void mscrt_free_inputs(mscrt_context *c);

/* ---- borrow.c: memory of the caller for inputs and outputs ---- */

bool mscrt_refs_overlap(plan_ref a, plan_ref b);
/* Finds, once, the pointers to a variable in the calls of `num` sections from `first` on. */
mscrt_status *mscrt_find_pointers(mscrt_context *c, const mscrt_variable *v, uint32_t first, uint32_t num,
                                  mscrt_pointers *p);
/* Makes these pointers point to `data` instead. */
void mscrt_redirect_pointers(const mscrt_pointers *p, void *data);
void mscrt_free_pointers(mscrt_pointers *p);
/* Returns the caller's memory that calls write an output to; NULL: the variable lies in the arena. */
const void *mscrt_output_in_caller_memory(const mscrt_context *c, const mscrt_variable *v);
void mscrt_free_outputs(mscrt_context *c);

/* ---- shared_parameters.c: parameters of another context ---- */

/* Finds the parameters that this context shares with c->o.parameters_of; before calls are prepared. */
mscrt_status *mscrt_share_parameters(mscrt_context *c);
/* Checks that prepared calls can work on shared parameters in the memory of the other context. */
mscrt_status *mscrt_check_shared(const mscrt_context *c);
/* Return the shared parameter in which a ref begins, and the address of the ref there; NULL: it begins in none. */
const mscrt_shared_span *mscrt_find_shared(const mscrt_context *c, plan_ref r);
void *mscrt_shared_at(const mscrt_context *c, plan_ref r);
/* The number of the next training step, which all contexts with the same parameters count together. */
int64_t mscrt_next_step(const mscrt_context *c);
void mscrt_set_step(mscrt_context *c, int64_t step);

/* ---- offload.c: values that live in host memory or on disk ---- */

/* Makes this rank's memory for offloaded values, if the plan has any. */
mscrt_status *mscrt_offload_open(mscrt_context *c);
void mscrt_offload_free(mscrt_offload *o);
/* Returns the address of a ref of the space host or disk, for the host. */
void *mscrt_offload_at(const mscrt_context *c, plan_ref r);
/* Returns the host memory of all values offloaded to it; NULL: there are none. */
void *mscrt_offload_host(const mscrt_context *c, uint64_t *out_bytes);
/* Returns the disk of values offloaded to it; NULL: there are none. */
const struct mscrt_disk *mscrt_offload_disk(const mscrt_context *c);
/* Returns the status of a transfer from or to the disk that failed with `error`, an errno; 0: NULL. */
mscrt_status *mscrt_disk_transfer_status(const mscrt_context *c, const mscrt_record *r, int64_t step, int error);
/* Drops the pages of a ref on disk from memory, as the host no longer reads them through their address; does nothing
 * for other refs. */
void mscrt_drop_disk_pages(const mscrt_context *c, plan_ref r);
/* True if the host has a core for a further thread of each rank. */
static inline bool mscrt_has_idle_core(int threads, int ranks, int cores) { return (threads + 1) * ranks <= cores; }
/* True if copies within the host's memory run by the threads of calls, where they stand: a thread of their own would
 * take a core from these, and be late where none is idle. */
bool mscrt_copies_in_place(const mscrt_context *c);
/* Runs such a copy. */
mscrt_status *mscrt_copy_in_place(mscrt_context *c, const mscrt_execution *t);
/* Starts the thread of transfers, when calls are prepared. */
mscrt_status *mscrt_start_mover(mscrt_context *c);

/* Opens the file of values on disk once more, for reads and writes of any length through the page cache; the caller
 * closes *out_file. */
mscrt_status *mscrt_offload_file(const mscrt_context *c, int *out_file);

/* ---- disk.c: values on a disk, and transfers ---- */

#define MSCRT_DISK_DEPTH 2 /* blocks that are under way at a time */

typedef struct mscrt_disk {
  int file;       /* -1: none */
  uint64_t align; /* of addresses that the file is read to and written from */
  uint64_t block; /* bytes that a thread moves at a time */
  uint8_t *room;  /* MSCRT_DISK_DEPTH blocks, for values at other addresses */
} mscrt_disk;

/* Makes a file of so many bytes in a folder. The caller closes the disk, also after a failure. */
mscrt_status *mscrt_disk_open(const char *folder, uint64_t bytes, uint64_t block, mscrt_disk *out_disk);
void mscrt_disk_close(mscrt_disk *d);
/* Reads or writes a whole range of a file; returns errno, 0 for success. */
int mscrt_pass_block(int file, bool writes, uint8_t *block, uint64_t bytes, uint64_t offset);

/* The transfer of one value. */
typedef struct {
  const mscrt_disk *disk;
  uint8_t *arena; /* the address of the value in the arena */
  uint8_t *host;  /* where it lives; NULL: at `offset` of the disk */
  uint64_t offset, bytes;
  bool stows; /* from the arena to where the value lives; else to the arena */
  bool past_caches; /* stores to the host do not fetch lines of the cache */
} mscrt_value_transfer;

/* Lets the calling thread, which makes transfers, run soon after it is woken. */
void mscrt_shorten_slice(void *unused);
/* Moves a value by the threads of a pool, which are MSCRT_DISK_DEPTH at most if it is on disk; returns errno, 0 for
 * success. */
int mscrt_move_value(mscrt_pool *pool, const mscrt_value_transfer *m);

/* ---- row_cache.c: tables of which the device holds rows ---- */

mscrt_status *mscrt_row_caches_open(mscrt_context *c);
void mscrt_row_caches_free(mscrt_context *c);
/* Runs a call of kind admit by the threads of a pool. For a device with memory of its own it leaves the rows that are
 * missing in the cache's pool (ir/abi/row_cache.h), none after a failure; that device then swaps them. */
mscrt_status *mscrt_admit_rows(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t);
/* Takes the rows that the device has left in the pool of a cache back to the table: before the next admit to it. */
mscrt_status *mscrt_put_swapped_rows_back(mscrt_context *c, uint32_t cache);
/* Writes the rows that were changed on the device back to their tables: needed before others read the tables. */
mscrt_status *mscrt_write_rows_back(mscrt_context *c);
/* Writes changed rows back and drops all rows from the device: needed before others write to the tables. */
mscrt_status *mscrt_forget_rows(mscrt_context *c);
/* *out_named: how many rows steps have read so far, each as often as it was read; *out_missed: how many of them were
 * not on the device. */
void mscrt_count_rows(const mscrt_context *c, uint64_t *out_named, uint64_t *out_missed);

#endif
