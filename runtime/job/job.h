/* job.h: what a rank keeps so that the job goes on after another one is lost. */
#ifndef MSCRT_JOB_H
#define MSCRT_JOB_H

#include "runtime/context.h"

struct mscrt_kept {
  const mscrt_plan *plan;
  int rank;
  uint64_t bytes;
  /* State before the running step, of a server before its last update; state after the last step, after the context is
   * closed. */
  uint8_t *border, *live;
  int64_t border_step;    /* -1: no step has begun; of a server the number of updates, and so is live_step */
  bool is_live;           /* the arena, or `live`, is the state at live_step */
  int64_t live_step;
  double border_loss, live_loss; /* of the step before the border; NaN: not known */
  /* With servers. pushes: how often this rank had pushed at the border, and at live_step. */
  uint64_t border_pushes, live_pushes;
  uint64_t epoch;        /* how often ranks have met after a loss, or to be others */
  int64_t met_step;      /* the step whose state they had when they met last; -1: none */
  uint64_t lost_servers; /* see mscrt_lost_servers */
  bool *served;   /* of a server, by parameter: it has the state of it; NULL: it has served nothing */
};

/* ---- recover.c: going on after a rank is lost; the first three do nothing in a context that keeps nothing ---- */

/* Copies the state at the begin of a step, so that recovery can go back to it. */
void mscrt_keep_state(mscrt_context *c);
/* Commits a step that has run, with its loss: returns when it has run on all ranks. */
mscrt_status *mscrt_commit_step(mscrt_context *c, double loss);
/* Drops the kept state, which after parameters were loaded belongs to another training. */
void mscrt_forget_kept(mscrt_context *c);
/* Restores the state after all ranks have met: all ranks get the newest state that every rank with a state has, those
 * left out whose state is from before an earlier meeting. Where parts of it are lost, or no rank has any, parameters
 * stay as they are. old: what this rank kept; NULL: nothing. */
mscrt_status *mscrt_restore_state(mscrt_context *c, const mscrt_kept *old);
/* The state of a rank is one run of bytes: what lies on the device, and behind it what lies in host memory. */
uint64_t mscrt_state_bytes(const mscrt_context *c);
/* True if a server was opened with what it kept as a server of this job. */
bool mscrt_goes_on_serving(const mscrt_context *c);
/* Gives a server, once it has initial values, both states that it kept as a server of this job: which of them is right
 * says the first worker that joins. old NULL: it kept none. */
mscrt_status *mscrt_restore_server(mscrt_context *c, const mscrt_kept *old);
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
