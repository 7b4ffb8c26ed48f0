/* execute.h: the calls of a plan, prepared and run. */
#ifndef MSCRT_EXECUTE_H
#define MSCRT_EXECUTE_H

#include "runtime/context.h"

/* ---- prepare_calls.c ---- */

/* Prepares the sections of a context that has its arena, exchanges and library. */
mscrt_status *mscrt_prepare_calls(mscrt_context *c);
/* Returns the address of a ref in this rank's memory on the host; NULL for a tile. slot: of the input, if it is one. */
void *mscrt_address_of(const mscrt_context *c, plan_ref r, int slot);

/* ---- call_record.c ---- */

/* Return the address of one buffer of a call, or of all of them, in these slots. The addresses are valid until the next
 * call with the same `room`, 0 for a call and 1 for its epilogue. */
void *mscrt_buffer_in_slots(const mscrt_record *r, uint32_t buffer, const mscrt_slots *slots);
void *const *mscrt_buffers_of(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, int room);
/* Returns the status for the error flag that a kernel has set; NULL for 0. */
mscrt_status *mscrt_kernel_error_status(const mscrt_context *c, const mscrt_record *r, int64_t step, int32_t flag);

/* ---- run.c ---- */

/* Runs a kernel of the host beside a GPU; returns what it wrote to its error flag. */
int32_t mscrt_run_host_kernel(mscrt_pool *pool, const mscrt_record *r);
/* Runs all entries of a program. */
mscrt_status *mscrt_run_entries(mscrt_context *c, uint32_t program, bool train, int64_t step);
/* Returns the sources and destinations of a collective in these slots, valid until the next call by the same thread;
 * stream: the caller is the thread of collectives. */
const mscrt_part *mscrt_parts_of(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, bool stream);
/* Waits until all members have passed the collectives of the section up to number `upto`, which must have run here.
 * *released: how many collectives all members have passed, as far as this thread knows; updated. */
mscrt_status *mscrt_release(mscrt_context *c, const mscrt_execution *t, uint32_t upto, uint32_t *released);
/* Runs a collective with other ranks in this thread, after waiting until peers no longer read what it overwrites. */
mscrt_status *mscrt_run_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t, uint32_t *released);

/* Runs step `step` of a program, which reads the batches from number step * micro-batches of a step on. */
mscrt_status *mscrt_run_program(mscrt_context *c, uint32_t program, int64_t step);
/* Says that the values of a ref were changed by no program of the plan: program prepare, which makes what steps of
 * training keep, runs again if it reads them. */
void mscrt_note_change(mscrt_context *c, plan_ref r);
/* The loss after a run; NaN if there is none, or on another stage. */
double mscrt_loss_of(const mscrt_context *c, uint32_t program);

/* ---- stream.c: collectives, or transfers, in a thread of their own ---- */

/* Runs a call in the thread of a stream; *released belongs to that thread (mscrt_release), 0 at the begin of a
 * section. */
typedef mscrt_status *mscrt_stream_runner(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t,
                                          uint32_t *released);
/* most: the most calls that it runs in a section; threads: the number of threads of its pool, the stream's own being
 * the first; start, unless NULL: each of them calls it when it begins; spin: it waits busily for a moment, as there is
 * a core for it. */
mscrt_status *mscrt_stream_new(mscrt_context *c, bool spin, uint32_t most, int threads, mscrt_pool_start *start,
                               mscrt_stream_runner *run, mscrt_stream **out_stream);
void mscrt_stream_free(mscrt_stream *s);
/* Appends a call of the current section to the queue of the stream; t->number 1 begins a new section. */
void mscrt_stream_start(mscrt_stream *s, const mscrt_execution *t);
/* Waits until the calls of the section up to number `upto` have run; returns the first failure. */
mscrt_status *mscrt_stream_wait(mscrt_stream *s, uint32_t upto);
/* After a failure: drops the calls that have not begun, and returns when none runs. */
void mscrt_stream_stop(mscrt_stream *s);

#endif
