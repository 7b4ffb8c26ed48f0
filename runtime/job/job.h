/* job.h: what a rank keeps so that the job goes on after another one is lost. */
#ifndef MSCRT_JOB_H
#define MSCRT_JOB_H

#include "runtime/context.h"

/* ---- recover.c: going on after a rank is lost; the first three do nothing in a context that keeps nothing ---- */

/* Copies the state at the begin of a step, so that recovery can go back to it. */
void mscrt_keep_state(mscrt_context *c);
/* Commits a step that has run, with its loss: returns when it has run on all ranks. */
mscrt_status *mscrt_commit_step(mscrt_context *c, double loss);
/* Drops the kept state, which after parameters were loaded belongs to another training. */
void mscrt_forget_kept(mscrt_context *c);
/* Restores the state after all ranks have met: all ranks get the newest state that every rank with a state has. Where
 * parts of it are lost, or no rank has any, parameters stay as they are. old: what this rank kept; NULL: nothing. */
mscrt_status *mscrt_restore_state(mscrt_context *c, const mscrt_kept *old);
/* The state of a rank is one run of bytes: what lies on the device, and behind it what lies in host memory. */
uint64_t mscrt_state_bytes(const mscrt_context *c);
/* Returns where a parameter or state of a plan lies in the state of a rank that has it. */
uint64_t mscrt_state_at(const mscrt_plan *plan, const mscrt_variable *v);
void mscrt_set_state(mscrt_context *c, const uint8_t *state);
/* Gives every rank its parts of a state that ranks kept under another plan, or under this one. All ranks call it.
 * `state` is what this rank kept as rank `rank` of `plan`, one of `family` or this plan; NULL: it kept none.
 * *out_whole: some rank had each part; else nothing is set. */
mscrt_status *mscrt_spread_state(mscrt_context *c, const mscrt_plan *plan, int rank, const uint8_t *state,
                                 bool *out_whole);
/* Ends this rank's part in the job and moves its kept state to *out_kept, which the caller frees; the context must be
 * closed next. */
mscrt_status *mscrt_leave_with_kept(mscrt_context *c, mscrt_kept **out_kept);

#endif
