/* feed.h: batches of a data set for a running context; the thread that saves its checkpoints. */
#ifndef MSCRT_FEED_H
#define MSCRT_FEED_H

#include "runtime/context.h"
#include "runtime/data/data.h"

/* ---- checkpoint.c ---- */

/* Waits until the thread that saves a checkpoint has ended, and frees its state; nothing completes the checkpoint. */
void mscrt_saving_free(mscrt_context *c);

/* ---- data.c, read_ahead.c ---- */

/* The files of the inputs; an input may have none. */
struct mscrt_data {
  const mscrt_plan *plan;
  mscrt_samples *samples;        /* by input of the plan */
  int64_t count, batch;          /* number of samples; samples per batch (1: no input has a batch) */
  int64_t *kept, left_out;       /* the samples that are not damaged, NULL: nobody has looked; how many others */
  char *first_damaged;           /* what is wrong with the first of these; NULL: none */
  mscrt_data_options o;
};

/* Returns the shape that the file of an input must have per batch: that of the input, or of the part that the rank of
 * the data set reads, which may be empty. */
mscrt_wanted mscrt_data_wanted(const mscrt_data *d, uint32_t input);
/* True if the input must have a file. */
bool mscrt_data_needs(const mscrt_data *d, uint32_t input);

/* damaged.c: leaves out the samples that cannot be decoded. */
mscrt_status *mscrt_leave_out_damaged(mscrt_data *d);

mscrt_status *mscrt_feed_new(const mscrt_context *c, const mscrt_data *data, mscrt_feed **out_feed);
void mscrt_feed_free(mscrt_feed *f);
/* Reads batch `index` of training or evaluation into an input slot, *out_slot, and waits for it; the following batches
 * are read meanwhile. */
mscrt_status *mscrt_feed_get(mscrt_feed *f, bool train, int64_t index, int *out_slot);
/* Does the same for a batch that is not needed yet; returns false, without waiting, if it is not there, cannot be read
 * or does not exist. */
bool mscrt_feed_try_get(mscrt_feed *f, bool train, int64_t index, int *out_slot);
/* True if the caller has noted that it copied a batch to the memory of the device too, since the batch was read. */
bool mscrt_feed_is_on_device(const mscrt_feed *f, int64_t index);
void mscrt_feed_note_on_device(mscrt_feed *f, int64_t index);
/* Releases the slot of the oldest batch that mscrt_feed_get returned. */
void mscrt_feed_release(mscrt_feed *f);
/* *out_wait_ns: how long mscrt_feed_get waited for batches or read them itself; *out_read_bytes: bytes read from
 * files. */
void mscrt_feed_costs(mscrt_feed *f, int64_t *out_wait_ns, uint64_t *out_read_bytes);
const mscrt_data *mscrt_feed_data(const mscrt_feed *f);
/* The number of samples of a step, by the context's data set, which must be there. */
uint64_t mscrt_samples_per_step(const mscrt_context *c);
/* Reads the whole batch `index` of the evaluation range of one input, converted, for comparisons outside the plan. */
mscrt_status *mscrt_feed_read_whole(mscrt_feed *f, int64_t index, uint32_t input, void *out);

#endif
