/* evaluate.c: evaluation: runs section "forward" over the evaluation range for the mean loss and the accuracy (how
 * often the largest output is the label). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/feed.h"
#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/server/share.h"

typedef struct {
  mscrt_context *c;
  uint32_t program;
  const mscrt_variable *logits; /* NULL: accuracy is not defined */
  uint32_t label;
  int64_t batch, classes;
  void *logits_data, *label_data;
} evaluation;

/* Finds the first float output [batch, classes] of the section, and the first integer label with one number per
 * sample. */
static void find_logits_and_label(evaluation *e) {
  const mscrt_plan *p = e->c->plan;
  const mscrt_variable *label = NULL;
  for (uint32_t i = 0; i < p->num_inputs && !label; i++) {
    const mscrt_variable *v = &p->input[i];
    uint64_t elems = 0;
    mscrt_shape_bytes(v->rank, v->shape, 1, &elems);
    if (v->role != MSCRT_LABEL || mscrt_is_float(v->dtype) || v->batch_dim < 0 || (int64_t)elems != e->batch) continue;
    label = v;
    e->label = i;
  }
  for (uint32_t i = 0; label && i < p->num_outputs && !e->logits; i++) {
    const mscrt_variable *v = &p->output[i];
    if (v->program != e->program || v->rank != 2 || v->shape[0] != e->batch || v->shape[1] < 2 ||
        !mscrt_is_float(v->dtype))
      continue;
    e->logits = v;
    e->classes = v->shape[1];
  }
}

static mscrt_status *allocate_samples(evaluation *e) {
  if (!e->logits) return NULL;
  MSCRT_CHECK(mscrt_allocate(&e->logits_data, (size_t)(e->batch * e->classes), mscrt_dtype_bytes(e->logits->dtype)));
  return mscrt_allocate(&e->label_data, (size_t)e->batch, mscrt_dtype_bytes(e->c->plan->input[e->label].dtype));
}

static int64_t largest_class(const evaluation *e, int64_t sample) {
  mscrt_dtype d = e->logits->dtype;
  int64_t best = -1;
  double largest = 0;
  for (int64_t i = 0; i < e->classes; i++) {
    double v;
    mscrt_convert(MSCRT_F64, &v, 1, d,
                  (const char *)e->logits_data + (size_t)(sample * e->classes + i) * mscrt_dtype_bytes(d), false, false,
                  1);
    if (v == v && (best < 0 || v > largest)) {
      best = i;
      largest = v;
    }
  }
  return best;
}

static mscrt_status *count_correct(evaluation *e, int64_t index, int64_t *right) {
  mscrt_dtype d = e->c->plan->input[e->label].dtype;
  MSCRT_CHECK(mscrt_gather(e->c, e->logits, e->logits_data));
  MSCRT_CHECK(mscrt_feed_read_whole(e->c->feed, index, e->label, e->label_data));
  for (int64_t i = 0; i < e->batch; i++) {
    int64_t label;
    mscrt_convert(MSCRT_I64, &label, 1, d, (const char *)e->label_data + (size_t)i * mscrt_dtype_bytes(d), false, false,
                  1);
    *right += largest_class(e, i) == label;
  }
  return NULL;
}

static mscrt_status *run_evaluation(evaluation *e, int64_t batches, mscrt_evaluation *out) {
  double loss = 0;
  int64_t right = 0;
  for (int64_t i = 0; i < batches; i++) {
    MSCRT_CHECK(mscrt_run_program(e->c, e->program, i));
    loss += mscrt_loss_of(e->c, e->program);
    if (e->logits) MSCRT_CHECK(count_correct(e, i, &right));
  }
  out->loss = batches ? loss / (double)batches : (double)NAN;
  out->accuracy = e->logits && batches ? (double)right / (double)(batches * e->batch) : (double)NAN;
  out->samples = batches * e->batch;
  return NULL;
}

mscrt_status *mscrt_evaluate(mscrt_context *c, mscrt_evaluation *out_evaluation) {
  MSCRT_NEEDS(c && out_evaluation);
  mscrt_evaluation result = {.struct_size = sizeof result};
  evaluation e = {.c = c};
  MSCRT_CHECK(mscrt_check_process(c));
  if (!mscrt_find_program(c->plan, "forward", &e.program))
    return mscrt_fail(MSCRT_INPUT, "the plan has no section 'forward' to evaluate with");
  const mscrt_data *d = c->feed ? mscrt_feed_data(c->feed) : NULL;
  if (!d || d->o.eval_end == 0) return mscrt_fail(MSCRT_ARGUMENT, "there is no evaluation range");
  if (!mscrt_data_has_labels(d)) return mscrt_fail(MSCRT_ARGUMENT, "labels have no data to evaluate with");
  e.batch = d->batch;
  if (!d->o.parts) find_logits_and_label(&e); /* with parts no rank has all labels */
  MSCRT_CHECK(mscrt_pull_settled(c, false));
  mscrt_status *s = allocate_samples(&e);
  if (!s) s = run_evaluation(&e, (d->o.eval_end - d->o.eval_begin) / d->batch, &result);
  free(e.logits_data);
  free(e.label_data);
  size_t known = out_evaluation->struct_size;
  if (!s) memcpy(out_evaluation, &result, known && known < sizeof result ? known : sizeof result);
  return s;
}
