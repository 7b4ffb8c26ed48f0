/* predict.c: prediction: runs section "forward" over the evaluation range, the last short batch included, and writes
 * outputs as .npy files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/feed.h"
#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/server/share.h"

/* An output that is being written to a file. */
typedef struct {
  const mscrt_variable *v;
  const char *path;
  mscrt_file file;
  mscrt_dtype stored;          /* the element type in the file */
  void *whole, *converted;     /* of one batch; converted: NULL if the file has the same type */
  int64_t rows_per_sample;     /* 0: the output has no rows of samples, and the range is one batch */
} output;

static int64_t num_samples(const mscrt_data *d) { return d->o.eval_end - d->o.eval_begin; }
static int64_t num_batches(const mscrt_data *d) { return (num_samples(d) + d->batch - 1) / d->batch; }

static mscrt_status *find_output(const mscrt_plan *p, const char *name, const mscrt_variable **out) {
  uint32_t program;
  char names[256] = "";
  size_t n = 0;
  if (!mscrt_find_program(p, "forward", &program))
    return mscrt_fail(MSCRT_INPUT, "the plan has no section 'forward' to predict with");
  for (uint32_t i = 0; i < p->num_outputs; i++) {
    *out = &p->output[i];
    if ((*out)->program != program) continue;
    if (!strcmp((*out)->name, name)) return NULL;
    if (n + 1 < sizeof names)
      n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", (*out)->name);
  }
  return mscrt_fail(MSCRT_INPUT, "the model has no output '%s'; its outputs are: %s", name, names);
}

static mscrt_status *choose_rows(const mscrt_data *d, output *o) {
  const mscrt_variable *v = o->v;
  bool rows = v->batch_dim == 0 && v->shape[0] % d->batch == 0;
  o->rows_per_sample = rows ? v->shape[0] / d->batch : 0;
  if (rows || num_samples(d) == d->batch) return NULL;
  if (v->batch_dim > 0)
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "output '%s': its samples lie along dimension %d; of several batches only outputs whose samples "
                      "lie along dimension 0 can be written",
                      v->name, v->batch_dim);
  return mscrt_fail(MSCRT_INPUT,
                    "output '%s' has no part that belongs to a sample, so it can be written for exactly one batch of "
                    "%" PRId64 " samples; there are %" PRId64,
                    v->name, d->batch, num_samples(d));
}

static mscrt_status *prepare_output(const mscrt_data *d, const mscrt_sink *sink, output *o) {
  *o = (output){.path = sink->file, .file = {.fd = -1}};
  MSCRT_CHECK(find_output(d->plan, sink->output, &o->v));
  if (o->v->labels && !mscrt_data_has_labels(d))
    return mscrt_fail(MSCRT_INPUT, "output '%s' depends on labels: give files for all of them", o->v->name);
  o->stored = o->v->dtype == MSCRT_BF16 ? MSCRT_F32 : o->v->dtype;
  return choose_rows(d, o);
}

static mscrt_status *check_sinks(const mscrt_data *d, size_t num, const mscrt_sink *sinks) {
  if (d->o.eval_end == 0) return mscrt_fail(MSCRT_ARGUMENT, "there is no evaluation range");
  for (size_t i = 0; i < num; i++) {
    MSCRT_NEEDS(sinks[i].output && sinks[i].file);
    for (size_t j = 0; j < i; j++)
      if (!strcmp(sinks[i].file, sinks[j].file))
        return mscrt_fail(MSCRT_INPUT, "outputs '%s' and '%s' are written to the same file, %s", sinks[j].output,
                          sinks[i].output, sinks[i].file);
  }
  return NULL;
}

mscrt_status *mscrt_check_predict(const mscrt_data *data, size_t num, const mscrt_sink *sinks) {
  MSCRT_NEEDS(data && (sinks || !num));
  output o;
  MSCRT_CHECK(check_sinks(data, num, sinks));
  for (size_t i = 0; i < num; i++) MSCRT_CHECK(prepare_output(data, &sinks[i], &o));
  for (size_t i = 0; i < num; i++) MSCRT_CHECK(mscrt_check_save(sinks[i].file));
  return NULL;
}

static mscrt_status *begin_output(const mscrt_data *d, output *o) {
  const mscrt_variable *v = o->v;
  int64_t shape[MSCRT_MAX_RANK];
  memcpy(shape, v->shape, sizeof shape);
  if (o->rows_per_sample && __builtin_mul_overflow(o->rows_per_sample, num_samples(d), &shape[0]))
    return mscrt_fail(MSCRT_INPUT, "%s: too many rows", o->path);
  size_t elem = mscrt_dtype_bytes(v->dtype), elems = (size_t)mscrt_whole_bytes(v) / elem;
  MSCRT_CHECK(mscrt_allocate(&o->whole, elems + 1, elem));
  if (o->stored != v->dtype) MSCRT_CHECK(mscrt_allocate(&o->converted, elems + 1, mscrt_dtype_bytes(o->stored)));
  MSCRT_CHECK(mscrt_file_begin(o->path, &o->file));
  return mscrt_npy_begin(&o->file, o->stored, v->rank, shape);
}

/* Writes the rows of the first `samples` samples of the gathered output. */
static mscrt_status *write_samples(const output *o, int64_t samples) {
  const mscrt_variable *v = o->v;
  size_t elems = (size_t)mscrt_whole_bytes(v) / mscrt_dtype_bytes(v->dtype);
  if (o->rows_per_sample) elems = elems / (size_t)v->shape[0] * (size_t)(o->rows_per_sample * samples);
  if (o->converted) mscrt_convert(o->stored, o->converted, 1, v->dtype, o->whole, false, false, (int64_t)elems);
  return mscrt_file_write(&o->file, o->converted ? o->converted : o->whole, elems * mscrt_dtype_bytes(o->stored));
}

/* Runs all batches and writes their outputs. Returns the failure of a run; a failure to write, after which the runs go
 * on so that no other rank waits, is *io. */
static mscrt_status *run_batches(mscrt_context *c, const mscrt_data *d, size_t num, output *o, mscrt_status **io) {
  uint32_t program = o[0].v->program;
  for (int64_t i = 0; i < num_batches(d); i++) {
    int64_t left = num_samples(d) - i * d->batch;
    MSCRT_CHECK(mscrt_run_program(c, program, i));
    for (size_t k = 0; k < num; k++) {
      MSCRT_CHECK(mscrt_gather(c, o[k].v, o[k].whole));
      if (c->o.rank == 0 && !*io) *io = write_samples(&o[k], left < d->batch ? left : d->batch);
    }
  }
  return NULL;
}

static void free_outputs(size_t num, output *o) {
  for (size_t i = 0; i < num; i++) {
    free(o[i].whole);
    free(o[i].converted);
  }
  free(o);
}

static mscrt_status *write_outputs(mscrt_context *c, const mscrt_data *d, size_t num, output *o) {
  mscrt_status *io = NULL;
  for (size_t i = 0; i < num && c->o.rank == 0 && !io; i++) io = begin_output(d, &o[i]);
  mscrt_status *lost = run_batches(c, d, num, o, &io);
  uint64_t failed = 0;
  if (lost && io) mscrt_status_free(io);
  if (lost) io = lost;
  for (size_t i = 0; i < num && c->o.rank == 0; i++)
    if (o[i].file.fd >= 0) io = mscrt_file_end(&o[i].file, io);
  if (lost) return io;
  lost = mscrt_max(c, io != NULL, &failed);
  if (io) mscrt_status_free(lost);
  if (io || lost) return io ? io : lost;
  return failed ? mscrt_fail(MSCRT_PEER, "rank 0 could not write the outputs") : NULL;
}

mscrt_status *mscrt_predict(mscrt_context *c, size_t num, const mscrt_sink *sinks) {
  MSCRT_NEEDS(c && (sinks || !num));
  MSCRT_CHECK(mscrt_check_process(c));
  const mscrt_data *d = c->feed ? mscrt_feed_data(c->feed) : NULL;
  if (!d) return mscrt_fail(MSCRT_ARGUMENT, "there is no data set to predict from");
  output *o = NULL;
  MSCRT_CHECK(check_sinks(d, num, sinks));
  if (num == 0) return NULL;
  MSCRT_CHECK(mscrt_pull_settled(c, false));
  MSCRT_CHECK(mscrt_new_array(&o, num));
  mscrt_status *s = NULL;
  for (size_t i = 0; i < num && !s; i++) s = prepare_output(d, &sinks[i], &o[i]);
  if (!s) s = write_outputs(c, d, num, o);
  free_outputs(num, o);
  return s;
}
