/* apply_pushes.h: a shard: the values of a range of rows of a parameter.  Gradients that workers push in; updated
 * values that they pull out.  No sockets or files; one thread at a time may call.
 *
 * A worker runs steps 0, 1, 2, ...: it pulls, then pushes one gradient.  Its clock is the number of steps that it has
 * pushed.  A push that comes again, because its answer was lost, is not applied again. */
#ifndef MSCRT_APPLY_PUSHES_H
#define MSCRT_APPLY_PUSHES_H

#include "runtime/runtime.h"

#define MSCRT_MOST_WORKERS 256
#define MSCRT_NO_BOUND     (-1)

/* Updates consecutive rows from `first` on with a gradient; `values` is the address of row `first`.  step: number of
 * updates of the shard before this one. */
typedef void mscrt_shard_update(void *user, uint64_t step, int64_t first, int64_t num, const void *gradient,
                                void *values);

typedef struct {
  mscrt_dtype dtype;
  int64_t rows, columns;
  /* bytes behind the values of a push of the only row, which are not summed: an update reads those of each worker */
  uint64_t apart_bytes;
  int workers;       /* all are members at first */
  bool sync;         /* one update per step, with the sum of all workers in the order of an all_reduce */
  int64_t staleness; /* without sync: a worker at clock c sees all updates of steps before c - staleness */
  void *values;      /* of all rows, of the caller */
  mscrt_shard_update *update;
  void *user;
} mscrt_shard_options;

typedef struct {
  int worker;
  uint64_t step; /* of the worker */
  int64_t num;
  const int64_t *rows; /* ascending, none twice; NULL: all */
  const void *gradient;
} mscrt_push;

typedef enum {
  MSCRT_PUSH_TAKEN, /* accepted, now or when it came before: it may be acknowledged */
  MSCRT_PUSH_EARLY  /* other workers are too far behind: nothing has changed, it may be pushed again */
} mscrt_push_end;

typedef struct mscrt_shard mscrt_shard;

mscrt_status *mscrt_shard_new(const mscrt_shard_options *o, mscrt_shard **out_shard);
void mscrt_shard_free(mscrt_shard *s);
/* Returns a status if a push is wrong. */
mscrt_status *mscrt_shard_check(const mscrt_shard *s, const mscrt_push *p);
/* Accepts a push: applies it, or keeps it until all workers have pushed the step. Nothing changes if it fails. */
mscrt_status *mscrt_shard_push(mscrt_shard *s, const mscrt_push *p, mscrt_push_end *out_end);
/* True if the worker may pull for its next step now. */
bool mscrt_shard_may_pull(const mscrt_shard *s, int worker);
/* During an update: the bytes of a worker's push that are not summed; NULL: the update has no push of this worker. */
const void *mscrt_shard_apart(const mscrt_shard *s, int worker);
int mscrt_shard_num_members(const mscrt_shard *s);
uint64_t mscrt_shard_version(const mscrt_shard *s); /* number of updates so far */
/* mscrt_shard_stop makes all workers stop after the same step, the first that none of them has ended when it is first
 * called; both return the clock that all workers have then.  MSCRT_NO_STOP: it was not called. */
#define MSCRT_NO_STOP UINT64_MAX
uint64_t mscrt_shard_stop(mscrt_shard *s);
uint64_t mscrt_shard_stops_at(const mscrt_shard *s);
/* Records that a worker leaves or joins; a second time in a row changes nothing. Nobody waits for a worker that has
 * left, but its pushes count.  The next step of a worker that joins, *out_step, is the first that the others have not
 * all run, or the one after its own last step if that is later. */
mscrt_status *mscrt_shard_leave(mscrt_shard *s, int worker);
mscrt_status *mscrt_shard_join(mscrt_shard *s, int worker, uint64_t *out_step);
/* Continues at a version whose values the caller has set: every worker is a member, has run so many steps, and pushes
 * the next; what was pushed of it before is dropped. */
void mscrt_shard_begin(mscrt_shard *s, uint64_t version);

#endif
