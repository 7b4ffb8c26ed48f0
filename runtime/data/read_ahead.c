/* read_ahead.c: a data set in; its batches in the input slots of one rank out: each rank reads the boxes that its
 * layouts name. A batch stays in its slot until it is released. A thread reads large batches ahead, as far as there are
 * slots; the caller reads small ones, since waking a thread would cost more. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ir/abi/clock.h"
#include "runtime/data/feed.h"
#include "runtime/execute/execute.h"

#define THREAD_BYTES      (32 << 10)  /* of a batch */
#define THREAD_KEPT_BYTES (256 << 10) /* the same if the data is in memory: 25 us of work */

struct mscrt_feed {
  const mscrt_context *c;
  const mscrt_data *data;
  msc_box *box, *buffer;  /* by input: the part of this rank, and the box of its buffer */
  uint64_t *sample;       /* numbers of the samples of a batch; used by the reader */
  uint64_t *part_sample;  /* numbers of samples in files with parts; used by the reader */
  uint64_t *whole_sample; /* used by the caller, for mscrt_feed_read_whole */
  void *line, *whole_line;
  mscrt_order order; /* of epoch `order_epoch` */
  int64_t order_epoch;
  /* The stream that is read: batches [released, read) are in memory. Shared with the thread, under the lock. */
  bool threaded, started, stop, busy;
  bool train;
  int64_t read, released;
  uint64_t read_bytes; /* of files, by all batches */
  int64_t wait_ns;     /* in which the caller had nothing to compute with; its own */
  int64_t up;          /* batches before this one are in the slots of the device too; used by the caller */
  mscrt_status *failure;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
};

static int slot_of_batch(const mscrt_feed *f, int64_t index) { return (int)(index % (int64_t)f->c->input_slots); }

/* ---- one batch ---- */

/* Sets the numbers of a batch of evaluation. A short batch of n samples is filled up with copies of all of them, as
 * often as they fit, and of its last one; the batch behind it has nothing but copies of that. */
static void choose_to_evaluate(const mscrt_data *d, int64_t index, int64_t batch, uint64_t *sample) {
  int64_t unit = d->batch / batch, first = d->o.eval_begin / unit + index * batch, last = d->o.eval_end / unit - 1,
          n = last - first + 1;
  for (int64_t i = 0; i < batch; i++)
    sample[i] = (uint64_t)(n >= batch ? first + i : n > 0 && i < batch / n * n ? first + i % n : last);
}

/* Sets the numbers of the samples of batch `index` among those that are kept. */
static void choose_kept_samples(mscrt_feed *f, bool train, int64_t index, int64_t batch, uint64_t *sample) {
  const mscrt_data *d = f->data;
  int64_t unit = d->batch / batch;
  if (!train) {
    choose_to_evaluate(d, index, batch, sample);
    return;
  }
  int64_t per_epoch = mscrt_data_steps_per_epoch(d) * mscrt_train_micro(f->c->plan), epoch = index / per_epoch,
          first = index % per_epoch * batch;
  if (f->order_epoch != epoch) {
    f->order = mscrt_order_of(f->c->o.seed, (uint64_t)epoch, (uint64_t)((d->o.train_end - d->o.train_begin) / unit));
    f->order_epoch = epoch;
  }
  for (int64_t i = 0; i < batch; i++) {
    uint64_t at = (uint64_t)(first + i);
    sample[i] = (uint64_t)(d->o.train_begin / unit) + (d->o.in_order ? at : mscrt_order_at(&f->order, at));
  }
}

/* Sets the numbers of the samples of batch `index`; for files with parts, sample[0] is the number of the batch. */
static void choose_samples(mscrt_feed *f, bool train, int64_t index, uint64_t *sample) {
  const mscrt_data *d = f->data;
  int64_t batch = d->o.parts ? 1 : d->batch;
  choose_kept_samples(f, train, index, batch, sample);
  for (int64_t i = 0; i < batch && d->kept; i++) sample[i] = (uint64_t)d->kept[sample[i]];
}

/* The numbers of the samples, in its file, of the part of a batch that an input reads. */
static const uint64_t *samples_of_input(mscrt_feed *f, const mscrt_wanted *w) {
  if (!f->data->o.parts || w->batch_dim < 0) return f->sample;
  uint64_t rows = (uint64_t)w->shape[w->batch_dim];
  for (uint64_t i = 0; i < rows; i++) f->part_sample[i] = f->sample[0] * rows + i;
  return f->part_sample;
}

static mscrt_status *read_batch(mscrt_feed *f, bool train, int64_t index, uint64_t *read) {
  const mscrt_plan *p = f->c->plan;
  choose_samples(f, train, index, f->sample);
  for (uint32_t i = 0; i < p->num_inputs; i++) {
    if (!mscrt_stage_reads(p, f->c->stage, i) || !mscrt_data_needs(f->data, i)) continue;
    mscrt_wanted w = mscrt_data_wanted(f->data, i);
    MSCRT_CHECK(mscrt_samples_read(&f->data->samples[i], &w, samples_of_input(f, &w), &f->box[i], &f->buffer[i],
                                   f->line, mscrt_address_of(f->c, p->input[i].ref, slot_of_batch(f, index)), read));
  }
  return NULL;
}

/* ---- the thread ---- */

/* How many batches evaluation may take; behind a short one there is one of copies of the last sample. */
static int64_t num_eval_batches(const mscrt_feed *f) {
  int64_t samples = f->data->o.eval_end - f->data->o.eval_begin, batch = f->data->batch;
  return samples / batch + (samples % batch ? 2 : 0);
}

static void *read_ahead_thread(void *arg) {
  mscrt_feed *f = arg;
  pthread_mutex_lock(&f->lock);
  while (!f->stop) {
    if (f->failure || f->read >= f->released + (int64_t)f->c->input_slots ||
        (!f->train && f->read >= num_eval_batches(f))) {
      pthread_cond_wait(&f->changed, &f->lock);
      continue;
    }
    bool train = f->train;
    int64_t index = f->read;
    f->busy = true;
    pthread_mutex_unlock(&f->lock);
    uint64_t read = 0;
    mscrt_status *s = read_batch(f, train, index, &read);
    pthread_mutex_lock(&f->lock);
    f->busy = false;
    f->read_bytes += read;
    f->failure = s;
    if (!s) f->read++;
    pthread_cond_broadcast(&f->changed);
  }
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

/* Moves the stream to another batch; batches read ahead are dropped. */
static void seek_batch(mscrt_feed *f, bool train, int64_t index) {
  if (f->train == train && f->released <= index && index <= f->read) return;
  while (f->busy) pthread_cond_wait(&f->changed, &f->lock);
  mscrt_status_free(f->failure);
  f->failure = NULL;
  f->train = train;
  f->read = f->released = f->up = index;
  pthread_cond_broadcast(&f->changed);
}

static mscrt_status *take_from_thread(mscrt_feed *f, bool train, int64_t index) {
  pthread_mutex_lock(&f->lock);
  seek_batch(f, train, index);
  if (f->read <= index && !f->failure) {
    int64_t begin = msc_clock_ns();
    while (f->read <= index && !f->failure) pthread_cond_wait(&f->changed, &f->lock);
    f->wait_ns += msc_clock_ns() - begin;
  }
  mscrt_status *s = f->read <= index ? f->failure : NULL;
  if (s) f->failure = NULL;
  pthread_mutex_unlock(&f->lock);
  return s;
}

mscrt_status *mscrt_feed_get(mscrt_feed *f, bool train, int64_t index, int *out_slot) {
  *out_slot = slot_of_batch(f, index);
  if (!train && index >= num_eval_batches(f))
    return mscrt_fail(MSCRT_ARGUMENT, "the evaluation range has only %" PRId64 " batches", num_eval_batches(f));
  if (f->threaded) return take_from_thread(f, train, index);
  seek_batch(f, train, index);
  if (index < f->read) return NULL;
  int64_t begin = msc_clock_ns();
  MSCRT_CHECK(read_batch(f, train, index, &f->read_bytes));
  f->wait_ns += msc_clock_ns() - begin;
  f->read = index + 1;
  return NULL;
}

void mscrt_feed_costs(mscrt_feed *f, int64_t *out_wait_ns, uint64_t *out_read_bytes) {
  pthread_mutex_lock(&f->lock);
  *out_wait_ns = f->wait_ns;
  *out_read_bytes = f->read_bytes;
  pthread_mutex_unlock(&f->lock);
}

/* True if batch `index` is in memory, or was read here. A failure is reported when the batch is taken. */
static bool is_batch_ready(mscrt_feed *f, bool train, int64_t index) {
  if (f->train != train || index < f->released || index >= f->released + (int64_t)f->c->input_slots) return false;
  if (f->threaded || index != f->read) return index < f->read;
  mscrt_status *s = read_batch(f, train, index, &f->read_bytes);
  mscrt_status_free(s);
  if (!s) f->read++;
  return !s;
}

bool mscrt_feed_try_get(mscrt_feed *f, bool train, int64_t index, int *out_slot) {
  *out_slot = slot_of_batch(f, index);
  if (!train && index >= num_eval_batches(f)) return false;
  pthread_mutex_lock(&f->lock);
  bool ahead = is_batch_ready(f, train, index);
  pthread_mutex_unlock(&f->lock);
  return ahead;
}

bool mscrt_feed_is_on_device(const mscrt_feed *f, int64_t index) { return index < f->up; }

void mscrt_feed_note_on_device(mscrt_feed *f, int64_t index) { f->up = index + 1; }

void mscrt_feed_release(mscrt_feed *f) {
  pthread_mutex_lock(&f->lock);
  f->released++;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
}

const mscrt_data *mscrt_feed_data(const mscrt_feed *f) { return f->data; }

uint64_t mscrt_samples_per_step(const mscrt_context *c) {
  return (uint64_t)c->feed->data->batch * (uint64_t)mscrt_train_micro(c->plan);
}

mscrt_status *mscrt_feed_read_whole(mscrt_feed *f, int64_t index, uint32_t input, void *out) {
  const mscrt_variable *v = &f->c->plan->input[input];
  mscrt_wanted w = mscrt_wanted_of(v);
  msc_box whole = {0};
  memcpy(whole.size, v->shape, sizeof whole.size);
  uint64_t read = 0; /* not for a batch of the plan */
  choose_samples(f, false, index, f->whole_sample);
  return mscrt_samples_read(&f->data->samples[input], &w, f->whole_sample, &whole, &whole, f->whole_line, out, &read);
}

/* ---- making ---- */

static mscrt_status *make_buffers(mscrt_feed *f) {
  const mscrt_plan *p = f->c->plan;
  size_t line = 1, bytes = 0;
  bool kept = true;
  MSCRT_CHECK(mscrt_new_array(&f->box, p->num_inputs));
  MSCRT_CHECK(mscrt_new_array(&f->buffer, p->num_inputs));
  for (uint32_t i = 0; i < p->num_inputs; i++) {
    if (!mscrt_data_needs(f->data, i)) continue;
    mscrt_wanted w = mscrt_data_wanted(f->data, i);
    size_t need = mscrt_samples_line(&f->data->samples[i], &w);
    if (need > line) line = need;
    kept &= f->data->samples[i].blob.fd < 0 && !f->data->samples[i].records;
    mscrt_variable_box(p, &p->input[i], f->c->o.rank, &f->box[i], &f->buffer[i]);
    if (f->data->o.parts) memset(f->box[i].begin, 0, sizeof f->box[i].begin);
    bytes += (size_t)msc_box_elems(p->input[i].rank, &f->box[i]) * mscrt_dtype_bytes(p->input[i].dtype);
  }
  f->threaded = bytes > (kept ? THREAD_KEPT_BYTES : THREAD_BYTES);
  MSCRT_CHECK(mscrt_new_array(&f->sample, f->data->batch));
  MSCRT_CHECK(mscrt_new_array(&f->part_sample, f->data->batch));
  MSCRT_CHECK(mscrt_new_array(&f->whole_sample, f->data->batch));
  MSCRT_CHECK(mscrt_allocate(&f->line, line, 1));
  return mscrt_allocate(&f->whole_line, line, 1);
}

mscrt_status *mscrt_feed_new(const mscrt_context *c, const mscrt_data *data, mscrt_feed **out_feed) {
  mscrt_feed *f = NULL;
  mscrt_status *s = NULL;
  *out_feed = NULL;
  MSCRT_CHECK(mscrt_new_array(&f, 1));
  f->c = c;
  f->data = data;
  f->order_epoch = -1;
  f->train = !data->o.only_predict;
  f->read = f->released = f->up = c->step * mscrt_train_micro(c->plan);
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->changed, NULL);
  MSCRT_GOTO(make_buffers(f));
  if (f->threaded) {
    int error = pthread_create(&f->thread, NULL, read_ahead_thread, f);
    if (error) {
      s = mscrt_fail(MSCRT_ENVIRONMENT, "cannot start the reading thread (error %d)", error);
      goto fail;
    }
    f->started = true;
  }
  *out_feed = f;
  return NULL;
fail:
  mscrt_feed_free(f);
  return s;
}

void mscrt_feed_free(mscrt_feed *f) {
  if (!f) return;
  if (f->started) {
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
  }
  pthread_mutex_destroy(&f->lock);
  pthread_cond_destroy(&f->changed);
  mscrt_status_free(f->failure);
  free(f->box);
  free(f->buffer);
  free(f->sample);
  free(f->part_sample);
  free(f->whole_sample);
  free(f->line);
  free(f->whole_line);
  free(f);
}
