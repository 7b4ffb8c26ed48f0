/* damaged.c: an opened data set in; the numbers of the samples that each of its files can decode out: the others are
 * left out of it. Every sample is decoded once for that, by several threads. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/feed.h"
#include "runtime/thread_pool.h"

enum { DECODERS = 4 };

/* One file while its samples are tried. */
typedef struct {
  const mscrt_records *records;
  uint8_t *line[DECODERS]; /* by thread: room for a sample */
  bool *damaged;           /* by sample: in this file, or in one that was tried before */
  _Atomic(mscrt_status *) failure; /* of something else than a sample */
} trial;

static void try_sample(void *arg, int64_t number, int worker) {
  trial *t = arg;
  if (atomic_load(&t->failure)) return;
  mscrt_status *s = t->records->decode(t->records, number, t->line[worker]), *none = NULL;
  if (s && mscrt_status_code(s) == MSCRT_INPUT) t->damaged[number] = true;
  else if (s && atomic_compare_exchange_strong(&t->failure, &none, s)) return;
  mscrt_status_free(s);
}

static mscrt_status *try_file(const mscrt_samples *samples, const mscrt_wanted *w, bool *damaged) {
  trial t = {.records = samples->records, .damaged = damaged};
  int threads = mscrt_cores() < DECODERS ? mscrt_cores() : DECODERS;
  mscrt_pool *pool = NULL;
  mscrt_status *s = mscrt_pool_new(threads, false, NULL, NULL, &pool);
  for (int i = 0; i < threads && !s; i++)
    s = mscrt_allocate((void **)&t.line[i], mscrt_samples_line(samples, w) + 1, 1);
  if (!s) mscrt_pool_run(pool, try_sample, &t, mscrt_samples_count(samples));
  mscrt_pool_free(pool);
  for (int i = 0; i < threads; i++) free(t.line[i]);
  return s ? s : atomic_load(&t.failure);
}

/* Notes what is wrong with the first damaged sample. */
static mscrt_status *note_first(mscrt_data *d, int64_t number) {
  for (uint32_t i = 0; i < d->plan->num_inputs && !d->first_damaged; i++) {
    const mscrt_samples *samples = &d->samples[i];
    mscrt_wanted w = mscrt_data_wanted(d, i);
    uint8_t *line = NULL;
    if (!samples->records || !samples->records->apart) continue;
    MSCRT_CHECK(mscrt_allocate((void **)&line, mscrt_samples_line(samples, &w) + 1, 1));
    mscrt_status *s = samples->records->decode(samples->records, number, line);
    if (s) d->first_damaged = strdup(mscrt_status_text(s));
    mscrt_status_free(s);
    free(line);
  }
  return NULL;
}

mscrt_status *mscrt_leave_out_damaged(mscrt_data *d) {
  bool *damaged = NULL;
  mscrt_status *s = NULL;
  int64_t kept = 0, first = -1;
  if (d->o.parts)
    return mscrt_fail(MSCRT_ARGUMENT, "no sample is left out of files that hold the parts of a rank: others have more");
  MSCRT_CHECK(mscrt_new_array(&damaged, d->count));
  for (uint32_t i = 0; i < d->plan->num_inputs; i++) {
    mscrt_wanted w = mscrt_data_wanted(d, i);
    if (d->samples[i].records && d->samples[i].records->apart) MSCRT_GOTO(try_file(&d->samples[i], &w, damaged));
  }
  MSCRT_GOTO(mscrt_new_array(&d->kept, d->count));
  for (int64_t i = 0; i < d->count; i++) {
    if (!damaged[i]) d->kept[kept++] = i;
    else if (first < 0) first = i;
  }
  if (first >= 0) MSCRT_GOTO(note_first(d, first));
  d->left_out = d->count - kept, d->count = kept;
fail:
  free(damaged);
  return s;
}
