/* apply_pushes.c: pushes of gradients of a range of rows in, updates of these rows out; keeps the clocks of the workers
 * (see apply_pushes.h). */
#include "runtime/server/apply_pushes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"

enum { MOST_RUN = 256 }; /* rows that are summed and updated at once */

typedef struct {
  bool member, arrived; /* arrived: its push of the step under way is kept here */
  bool all;             /* rows of the push: all, or those of `row` */
  uint64_t clock;
  int64_t num, at, room; /* rows kept, the first that is not summed, and rows that there is memory for */
  int64_t *row;
  char *gradient;
} shard_worker;

struct mscrt_shard {
  mscrt_shard_options o;
  size_t sum_bytes, row_bytes; /* of a row: what is summed, and all */
  uint64_t version, stop;      /* stop: the clock at which all workers stop */
  const mscrt_push *alone;     /* the push that an update is made of; NULL: those that have arrived */
  shard_worker *worker;
  char *zeros, *sum; /* a row of zeros; rows of a run */
  const void **term;
};

void mscrt_shard_free(mscrt_shard *s) {
  if (!s) return;
  for (int w = 0; s->worker && w < s->o.workers; w++) free(s->worker[w].row), free(s->worker[w].gradient);
  free(s->worker), free(s->zeros), free(s->sum), free(s->term), free(s);
}

static mscrt_status *allocate_shard(mscrt_shard *s) {
  MSCRT_CHECK(mscrt_new_array(&s->worker, s->o.workers));
  MSCRT_CHECK(mscrt_new_array(&s->term, s->o.workers));
  MSCRT_CHECK(mscrt_new_array(&s->zeros, s->row_bytes));
  return mscrt_allocate((void **)&s->sum, s->o.rows < MOST_RUN ? (size_t)s->o.rows : MOST_RUN, s->row_bytes);
}

mscrt_status *mscrt_shard_new(const mscrt_shard_options *o, mscrt_shard **out_shard) {
  if (o->workers < 1 || o->workers > MSCRT_MOST_WORKERS)
    return mscrt_fail(MSCRT_ARGUMENT, "%d workers push to a server: 1 to %d may", o->workers, MSCRT_MOST_WORKERS);
  if (o->rows < 0 || o->columns < 0 || o->columns > INT32_MAX || !mscrt_is_float(o->dtype) ||
      !(o->apart_bytes ? o->rows == 1 : o->columns))
    return mscrt_fail(MSCRT_ARGUMENT, "a server cannot hold %" PRId64 " rows of %" PRId64 " values: values are floats",
                      o->rows, o->columns);
  if (o->staleness < MSCRT_NO_BOUND || (o->sync && o->staleness))
    return mscrt_fail(MSCRT_ARGUMENT, "a staleness of %" PRId64 " is impossible%s", o->staleness,
                      o->sync ? " where workers are synchronous" : "");
  mscrt_shard *s;
  MSCRT_CHECK(mscrt_new_array(&s, 1));
  *s = (mscrt_shard){.o = *o, .stop = MSCRT_NO_STOP, .sum_bytes = (size_t)o->columns * mscrt_dtype_bytes(o->dtype)};
  s->row_bytes = s->sum_bytes + (size_t)o->apart_bytes;
  mscrt_status *failure = allocate_shard(s);
  if (failure) {
    mscrt_shard_free(s);
    return failure;
  }
  for (int w = 0; w < o->workers; w++) s->worker[w] = (shard_worker){.member = true};
  *out_shard = s;
  return NULL;
}

int mscrt_shard_num_members(const mscrt_shard *s) {
  int num = 0;
  for (int w = 0; w < s->o.workers; w++) num += s->worker[w].member;
  return num;
}

uint64_t mscrt_shard_version(const mscrt_shard *s) { return s->version; }

const void *mscrt_shard_apart(const mscrt_shard *s, int worker) {
  const shard_worker *w = &s->worker[worker];
  if (s->alone) return s->alone->worker == worker ? (const char *)s->alone->gradient + s->sum_bytes : NULL;
  return w->arrived && w->num ? w->gradient + s->sum_bytes : NULL;
}

/* ---- clocks ---- */

/* The smallest clock of the members; without members `otherwise`. */
static uint64_t smallest_clock(const mscrt_shard *s, uint64_t otherwise) {
  uint64_t least = UINT64_MAX;
  for (int w = 0; w < s->o.workers; w++)
    if (s->worker[w].member && s->worker[w].clock < least) least = s->worker[w].clock;
  return least == UINT64_MAX ? otherwise : least;
}

static bool is_not_ahead(const mscrt_shard *s, uint64_t clock) {
  if (s->o.sync) return clock <= s->version;
  if (s->o.staleness == MSCRT_NO_BOUND) return true;
  uint64_t least = smallest_clock(s, clock);
  return clock <= least || clock - least <= (uint64_t)s->o.staleness;
}

bool mscrt_shard_may_pull(const mscrt_shard *s, int worker) {
  return worker >= 0 && worker < s->o.workers && s->worker[worker].member && is_not_ahead(s, s->worker[worker].clock);
}

uint64_t mscrt_shard_stop(mscrt_shard *s) {
  uint64_t most = 0;
  for (int w = 0; w < s->o.workers; w++)
    if (s->worker[w].member && s->worker[w].clock > most) most = s->worker[w].clock;
  if (s->stop == MSCRT_NO_STOP) s->stop = most + 1;
  return s->stop;
}

uint64_t mscrt_shard_stops_at(const mscrt_shard *s) { return s->stop; }

/* ---- sums of a step of all workers ---- */

static void update_rows(mscrt_shard *s, int64_t first, int64_t num, const void *gradient) {
  if (num) s->o.update(s->o.user, s->version, first, num, gradient, (char *)s->o.values + (size_t)first * s->row_bytes);
}

static int64_t next_row(const shard_worker *w, int64_t otherwise) {
  if (!w->arrived || w->at == w->num) return otherwise;
  return w->all ? w->at : w->row[w->at];
}

/* Sums `row` of all workers into `sum`; a worker that has not pushed the row counts as zeros. */
static void sum_row(mscrt_shard *s, int64_t row, char *sum) {
  int terms = 0;
  for (int i = 0; i < s->o.workers; i++) {
    shard_worker *w = &s->worker[i];
    if (!w->arrived) continue;
    bool has = next_row(w, -1) == row;
    s->term[terms++] = has ? w->gradient + (size_t)w->at * s->row_bytes : s->zeros;
    w->at += has;
  }
  mscrt_combine(s->o.dtype, MSC_SUM, terms, s->term, sum, s->o.columns);
}

static void update_with_sums(mscrt_shard *s) {
  int64_t first = 0, num = 0;
  for (;;) {
    int64_t row = s->o.rows;
    for (int w = 0; w < s->o.workers; w++) {
      int64_t next = next_row(&s->worker[w], s->o.rows);
      if (next < row) row = next;
    }
    bool ends = row == s->o.rows || row != first + num || num == MOST_RUN;
    if (num && ends) update_rows(s, first, num, s->sum), num = 0;
    if (row == s->o.rows) return;
    if (!num) first = row;
    sum_row(s, row, s->sum + (size_t)num++ * s->row_bytes);
  }
}

/* Ends the step under way if every member has pushed. */
static void end_step(mscrt_shard *s) {
  bool any = false;
  for (int w = 0; w < s->o.workers; w++) {
    if (s->worker[w].member && !s->worker[w].arrived) return;
    any = any || s->worker[w].arrived;
  }
  if (!any) return;
  for (int w = 0; w < s->o.workers; w++) s->worker[w].at = 0;
  update_with_sums(s);
  for (int w = 0; w < s->o.workers; w++) s->worker[w].arrived = false;
  s->version++;
}

/* ---- pushes ---- */

mscrt_status *mscrt_shard_check(const mscrt_shard *s, const mscrt_push *p) {
  if (p->worker < 0 || p->worker >= s->o.workers || !s->worker[p->worker].member)
    return mscrt_fail(MSCRT_ARGUMENT, "worker %d pushes, which is none of this job", p->worker);
  if (p->step > s->worker[p->worker].clock)
    return mscrt_fail(MSCRT_ARGUMENT, "worker %d pushes step %" PRIu64 ", and has not pushed step %" PRIu64, p->worker,
                      p->step, s->worker[p->worker].clock);
  if (p->num < 0 || p->num > s->o.rows || (!p->rows && p->num != s->o.rows))
    return mscrt_fail(MSCRT_ARGUMENT, "worker %d pushes %" PRId64 " rows of %" PRId64, p->worker, p->num, s->o.rows);
  int64_t least = 0;
  for (int64_t i = 0; p->rows && i < p->num; i++) {
    if (p->rows[i] < least || p->rows[i] >= s->o.rows)
      return mscrt_fail(MSCRT_ARGUMENT, "worker %d pushes row %" PRId64 ": rows ascend, below %" PRId64, p->worker,
                        p->rows[i], s->o.rows);
    least = p->rows[i] + 1;
  }
  return NULL;
}

static mscrt_status *keep_push(mscrt_shard *s, const mscrt_push *p) {
  shard_worker *w = &s->worker[p->worker];
  if (p->num > w->room) {
    free(w->row), free(w->gradient);
    w->row = NULL, w->gradient = NULL, w->room = 0;
    MSCRT_CHECK(mscrt_new_array(&w->row, p->num));
    MSCRT_CHECK(mscrt_allocate((void **)&w->gradient, (size_t)p->num, s->row_bytes));
    w->room = p->num;
  }
  if (p->num) memcpy(w->gradient, p->gradient, (size_t)p->num * s->row_bytes);
  if (p->num && p->rows) memcpy(w->row, p->rows, (size_t)p->num * sizeof *w->row);
  w->all = !p->rows, w->num = p->num, w->arrived = true;
  return NULL;
}

static void apply_push(mscrt_shard *s, const mscrt_push *p) {
  int64_t begin = 0;
  s->alone = p;
  for (int64_t i = 1; i <= p->num; i++) {
    if (i < p->num && (!p->rows || p->rows[i] == p->rows[i - 1] + 1)) continue;
    update_rows(s, p->rows ? p->rows[begin] : begin, i - begin,
                (const char *)p->gradient + (size_t)begin * s->row_bytes);
    begin = i;
  }
  s->alone = NULL;
  s->version++;
}

mscrt_status *mscrt_shard_push(mscrt_shard *s, const mscrt_push *p, mscrt_push_end *out_end) {
  MSCRT_CHECK(mscrt_shard_check(s, p));
  shard_worker *w = &s->worker[p->worker];
  *out_end = MSCRT_PUSH_TAKEN;
  if (p->step < w->clock) return NULL;
  if (!is_not_ahead(s, w->clock)) {
    *out_end = MSCRT_PUSH_EARLY;
    return NULL;
  }
  if (s->o.sync) MSCRT_CHECK(keep_push(s, p));
  else apply_push(s, p);
  w->clock++;
  if (s->o.sync) end_step(s);
  return NULL;
}

/* ---- members ---- */

void mscrt_shard_begin(mscrt_shard *s, uint64_t version) {
  s->version = version;
  for (int w = 0; w < s->o.workers; w++)
    s->worker[w].member = true, s->worker[w].arrived = false, s->worker[w].clock = version;
}

mscrt_status *mscrt_shard_leave(mscrt_shard *s, int worker) {
  if (worker < 0 || worker >= s->o.workers)
    return mscrt_fail(MSCRT_ARGUMENT, "worker %d leaves, which is none of this job", worker);
  s->worker[worker].member = false;
  if (s->o.sync) end_step(s);
  return NULL;
}

mscrt_status *mscrt_shard_join(mscrt_shard *s, int worker, uint64_t *out_step) {
  if (worker < 0 || worker >= s->o.workers)
    return mscrt_fail(MSCRT_ARGUMENT, "worker %d joins, and there is room for %d", worker, s->o.workers);
  shard_worker *w = &s->worker[worker];
  uint64_t least = s->o.sync ? s->version : smallest_clock(s, w->clock);
  if (!w->member && w->clock < least) w->clock = least;
  w->member = true;
  *out_step = w->clock;
  return NULL;
}
