/* data.c: names of files for inputs in; an opened data set out: a file for each input, all with the same number of
 * samples, and the ranges of samples for training and evaluation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/feed.h"

static bool has_file(const mscrt_samples *s) { return s->blob.path != NULL; }

mscrt_wanted mscrt_data_wanted(const mscrt_data *d, uint32_t input) {
  const mscrt_variable *v = &d->plan->input[input];
  mscrt_wanted w = mscrt_wanted_of(v);
  msc_box box, buffer;
  if (!d->o.parts) return w;
  mscrt_variable_box(d->plan, v, d->o.rank, &box, &buffer);
  memcpy(w.shape, box.size, sizeof w.shape);
  return w;
}

static bool is_label_left_out(const mscrt_data *d, uint32_t input) {
  return d->o.only_predict && d->plan->input[input].role == MSCRT_LABEL && !has_file(&d->samples[input]);
}

bool mscrt_data_has_labels(const mscrt_data *d) {
  for (uint32_t i = 0; i < d->plan->num_inputs; i++)
    if (is_label_left_out(d, i)) return false;
  return true;
}

/* True if the rank of a data set whose files hold parts reads some of this input. */
static bool reads_any(const mscrt_data *d, uint32_t input) {
  mscrt_wanted w = mscrt_data_wanted(d, input);
  bool any = mscrt_stage_reads(d->plan, mscrt_stage_of(d->plan, d->o.rank), input);
  for (int i = 0; i < w.rank; i++) any &= w.shape[i] > 0;
  return any;
}

bool mscrt_data_needs(const mscrt_data *d, uint32_t input) {
  return !is_label_left_out(d, input) && (!d->o.parts || reads_any(d, input));
}

/* Refuses raw tokens where this rank reads a part of each sample: tokens are read in windows of a sample, and a part
 * has no next token. */
static mscrt_status *check_token_windows(const mscrt_data *d, const mscrt_variable *v, const mscrt_samples *s,
                                         const mscrt_wanted *w) {
  for (int i = 0; s->kind == MSCRT_TOKENS && i < v->rank; i++)
    if (i != v->batch_dim && w->shape[i] != v->shape[i])
      return mscrt_bad_file(&s->blob,
                            "raw tokens hold whole samples, but rank %d reads a part of each sample of input '%s'",
                            d->o.rank, v->name);
  return NULL;
}

static mscrt_status *bind_file(mscrt_data *d, const mscrt_source *source) {
  MSCRT_NEEDS(source->input && source->file);
  const mscrt_plan *p = d->plan;
  const mscrt_variable *v = mscrt_find_variable(p->num_inputs, p->input, source->input);
  if (!v) {
    char names[256] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < p->num_inputs && n + 1 < sizeof names; i++)
      n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", p->input[i].name);
    return mscrt_fail(MSCRT_INPUT, "the model has no input '%s'; its inputs are: %s", source->input, names);
  }
  mscrt_samples *s = &d->samples[v - p->input];
  if (has_file(s)) return mscrt_fail(MSCRT_INPUT, "input '%s' is given twice", v->name);
  if (d->o.parts && !reads_any(d, (uint32_t)(v - p->input))) return NULL;
  mscrt_wanted w = mscrt_data_wanted(d, (uint32_t)(v - p->input));
  MSCRT_CHECK(mscrt_samples_open(&w, source->file, s));
  MSCRT_CHECK(check_token_windows(d, v, s, &w));
  return mscrt_blob_keep(&s->blob);
}

/* Gives a label without a file, beside raw tokens of the same shape, the next tokens of the same file. */
static mscrt_status *bind_next_tokens(mscrt_data *d, uint32_t num, const mscrt_source *sources) {
  const mscrt_plan *p = d->plan;
  for (uint32_t i = 0; i < p->num_inputs; i++) {
    const mscrt_variable *label = &p->input[i];
    if (has_file(&d->samples[i]) || label->role != MSCRT_LABEL || mscrt_is_float(label->dtype)) continue;
    for (uint32_t k = 0; k < num; k++) {
      const mscrt_variable *v = mscrt_find_variable(p->num_inputs, p->input, sources[k].input);
      if (d->samples[v - p->input].kind != MSCRT_TOKENS || v->role != MSCRT_DATA || v->rank != label->rank ||
          memcmp(v->shape, label->shape, sizeof v->shape))
        continue;
      MSCRT_CHECK(bind_file(d, &(mscrt_source){label->name, sources[k].file}));
      break;
    }
  }
  return NULL;
}

/* Counts the samples of an input; for files with parts of batches, those of the whole batches. */
static mscrt_status *count_samples(const mscrt_data *d, uint32_t input, int64_t *out_count) {
  const mscrt_variable *v = &d->plan->input[input];
  int64_t count = mscrt_samples_count(&d->samples[input]), rows = mscrt_data_wanted(d, input).shape[v->batch_dim];
  if (d->o.parts && count % rows)
    return mscrt_bad_file(&d->samples[input].blob,
                          "%" PRId64 " samples are no whole number of parts: of every batch rank %d reads %" PRId64
                          " of input '%s'",
                          count, d->o.rank, rows, v->name);
  *out_count = d->o.parts ? count / rows * v->shape[v->batch_dim] : count;
  return NULL;
}

static mscrt_status *check_counts(mscrt_data *d) {
  const char *first = NULL;
  for (uint32_t i = 0; i < d->plan->num_inputs; i++) {
    const mscrt_variable *v = &d->plan->input[i];
    if (!mscrt_data_needs(d, i)) continue;
    if (!has_file(&d->samples[i]))
      return mscrt_fail(MSCRT_INPUT, "input '%s' has no data: give a file for it", v->name);
    if (v->batch_dim < 0) continue;
    int64_t count = 0;
    MSCRT_CHECK(count_samples(d, i, &count));
    if (first && count != d->count)
      return mscrt_fail(MSCRT_INPUT, "input '%s' has %" PRId64 " samples, but '%s' has %" PRId64, first, d->count,
                        v->name, count);
    first = v->name;
    d->count = count;
    d->batch = v->shape[v->batch_dim];
  }
  if (!first) d->batch = 1, d->count = mscrt_train_micro(d->plan); /* no input changes from step to step */
  /* this rank reads no samples; it follows the others */
  for (uint32_t i = 0; i < d->plan->num_inputs && !first && d->o.parts; i++) {
    const mscrt_variable *v = &d->plan->input[i];
    if (v->batch_dim < 0) continue;
    d->batch = v->shape[v->batch_dim];
    d->count = INT64_MAX / d->batch * d->batch;
  }
  return NULL;
}

/* batches: how many the range must hold, if it is for training. */
static mscrt_status *check_sample_range(const mscrt_data *d, const char *what, int64_t begin, int64_t end,
                                        int64_t batches) {
  const char *divisor;
  bool may_be_short = d->o.only_predict || (!batches && mscrt_plan_loss_adds_up(d->plan, &divisor));
  if (begin < 0 || begin > end || end > d->count)
    return mscrt_fail(MSCRT_INPUT, "the %s range %" PRId64 ":%" PRId64 " does not lie inside the %" PRId64 " samples",
                      what, begin, end, d->count);
  if (end == begin) return mscrt_fail(MSCRT_INPUT, "the %s range %" PRId64 ":%" PRId64 " is empty", what, begin, end);
  if (end - begin < d->batch && !may_be_short)
    return mscrt_fail(MSCRT_INPUT,
                      "the %s range %" PRId64 ":%" PRId64 " has %" PRId64 " samples, fewer than one batch of %" PRId64,
                      what, begin, end, end - begin, d->batch);
  if ((end - begin) / d->batch < batches)
    return mscrt_fail(MSCRT_INPUT,
                      "the %s range %" PRId64 ":%" PRId64 " has %" PRId64 " samples, fewer than one step of %" PRId64
                      " micro-batches of %" PRId64,
                      what, begin, end, end - begin, batches, d->batch);
  if (d->o.parts && (begin % d->batch || end % d->batch))
    return mscrt_fail(MSCRT_INPUT,
                      "the %s range %" PRId64 ":%" PRId64 " cuts a batch of %" PRId64
                      " samples, which lie in the files as parts of whole batches",
                      what, begin, end, d->batch);
  return NULL;
}

static mscrt_status *read_data_options(mscrt_data *d, const mscrt_data_options *options) {
  if (options) memcpy(&d->o, options, options->struct_size < sizeof d->o ? options->struct_size : sizeof d->o);
  if (!d->o.parts || (d->o.rank >= 0 && d->o.rank < mscrt_plan_ranks(d->plan))) return NULL;
  return mscrt_fail(MSCRT_ARGUMENT, "there is no rank %d: the plan is for %d", d->o.rank, mscrt_plan_ranks(d->plan));
}

static mscrt_status *set_ranges(mscrt_data *d) {
  if (d->o.train_end == INT64_MAX) d->o.train_end = d->count;
  if (d->o.eval_end == INT64_MAX) d->o.eval_end = d->count;
  if (d->o.only_predict && d->o.eval_end == 0) d->o.eval_end = d->count;
  if (d->o.only_predict) return check_sample_range(d, "evaluation", d->o.eval_begin, d->o.eval_end, 0);
  if (d->o.train_begin == 0 && d->o.train_end == 0) d->o.train_end = d->count;
  MSCRT_CHECK(check_sample_range(d, "training", d->o.train_begin, d->o.train_end, mscrt_train_micro(d->plan)));
  bool none = d->o.eval_begin == 0 && d->o.eval_end == 0;
  return none ? NULL : check_sample_range(d, "evaluation", d->o.eval_begin, d->o.eval_end, 0);
}

mscrt_status *mscrt_data_open(const mscrt_plan *plan, size_t num, const mscrt_source *sources,
                              const mscrt_data_options *options, mscrt_data **out_data) {
  MSCRT_NEEDS(plan && out_data && (sources || !num));
  mscrt_data *d = NULL;
  mscrt_status *s = NULL;
  *out_data = NULL;
  MSCRT_CHECK(mscrt_new_array(&d, 1));
  d->plan = plan;
  MSCRT_GOTO(mscrt_new_array(&d->samples, plan->num_inputs));
  for (uint32_t i = 0; i < plan->num_inputs; i++) d->samples[i].blob.fd = -1;
  MSCRT_GOTO(read_data_options(d, options));
  for (size_t i = 0; i < num; i++) MSCRT_GOTO(bind_file(d, &sources[i]));
  MSCRT_GOTO(bind_next_tokens(d, (uint32_t)num, sources));
  MSCRT_GOTO(check_counts(d));
  if (d->o.skip_damaged) MSCRT_GOTO(mscrt_leave_out_damaged(d));
  MSCRT_GOTO(set_ranges(d));
  *out_data = d;
  return NULL;
fail:
  mscrt_data_close(d);
  return s;
}

void mscrt_data_close(mscrt_data *d) {
  if (!d) return;
  for (uint32_t i = 0; d->samples && i < d->plan->num_inputs; i++) mscrt_samples_close(&d->samples[i]);
  free(d->samples);
  free(d->kept);
  free(d->first_damaged);
  free(d);
}

int64_t mscrt_data_samples(const mscrt_data *d) { return d->count; }
int64_t mscrt_data_left_out(const mscrt_data *d, const char **out_first) {
  *out_first = d->first_damaged;
  return d->left_out;
}
int64_t mscrt_data_steps_per_epoch(const mscrt_data *d) {
  return (d->o.train_end - d->o.train_begin) / d->batch / mscrt_train_micro(d->plan);
}
