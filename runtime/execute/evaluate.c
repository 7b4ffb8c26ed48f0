/* evaluate.c: evaluation: runs section "forward" over the evaluation range for the loss and the accuracy (how often the
 * largest output is the label).
 *
 * Batch b has the loss l and a weight d: 1, or the divisor of the loss; all samples together have (sum of l d) / (sum
 * of d).  A last batch of n samples of B is filled up with q = B / n copies of each, rounded down, and r = B - q n
 * copies of the last one, of which batch b + 1 is made alone.  Both l d and d are sums over samples, and their share of
 * what no sample changes, so the n samples have (t(b) - r / B t(b + 1)) / q of each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/feed.h"
#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/server/share.h"
#include "runtime/trace/trace.h"

typedef struct {
  mscrt_context *c;
  uint32_t program;
  const mscrt_variable *logits;  /* NULL: accuracy is not defined */
  const mscrt_variable *divisor; /* of the loss; NULL: all batches weigh the same */
  bool has_loss;
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

/* Counts the labels of the first n samples of a batch that have the largest output. */
static mscrt_status *count_correct(evaluation *e, int64_t index, int64_t n, int64_t *right) {
  mscrt_dtype d = e->c->plan->input[e->label].dtype;
  MSCRT_CHECK(mscrt_gather(e->c, e->logits, e->logits_data));
  MSCRT_CHECK(mscrt_feed_read_whole(e->c->feed, index, e->label, e->label_data));
  for (int64_t i = 0; i < n; i++) {
    int64_t label;
    mscrt_convert(MSCRT_I64, &label, 1, d, (const char *)e->label_data + (size_t)i * mscrt_dtype_bytes(d), false, false,
                  1);
    *right += largest_class(e, i) == label;
  }
  return NULL;
}

/* What a batch adds to the loss: l d and d. */
typedef struct {
  double loss, weight;
} batch_terms;

static mscrt_status *run_batch(const evaluation *e, int64_t index, batch_terms *out) {
  MSCRT_CHECK(mscrt_run_program(e->c, e->program, index));
  *out = (batch_terms){mscrt_loss_of(e->c, e->program), 1};
  if (!e->divisor) return NULL;
  double bytes = 0; /* room for one number */
  MSCRT_CHECK(mscrt_gather(e->c, e->divisor, &bytes));
  mscrt_convert(MSCRT_F64, &out->weight, 1, e->divisor->dtype, &bytes, false, false, 1);
  out->loss = out->weight == 0 ? 0 : out->loss * out->weight; /* of nothing the loss is 0 / 0 */
  return NULL;
}

/* Takes the copies out of what a batch of n samples, filled up, has. */
static mscrt_status *leave_out_copies(const evaluation *e, int64_t index, int64_t n, batch_terms *t) {
  int64_t q = e->batch / n, r = e->batch % n;
  batch_terms copies = {0, 0};
  if (r) MSCRT_CHECK(run_batch(e, index + 1, &copies));
  double share = (double)r / (double)e->batch;
  if (isinf(copies.loss)) t->loss += copies.loss; /* its sample is among the n: infinite with the copies and without */
  else t->loss = (t->loss - (r ? share * copies.loss : 0)) / (double)q;
  t->weight = (t->weight - share * copies.weight) / (double)q;
  return NULL;
}

static mscrt_status *run_evaluation(evaluation *e, int64_t samples, mscrt_evaluation *out) {
  batch_terms all = {0, 0};
  int64_t right = 0, seen = 0;
  for (int64_t i = 0; seen < samples; i++) {
    batch_terms one;
    int64_t n = samples - seen < e->batch ? samples - seen : e->batch;
    MSCRT_CHECK(run_batch(e, i, &one));
    if (e->logits) MSCRT_CHECK(count_correct(e, i, n, &right));
    if (n < e->batch && e->has_loss) MSCRT_CHECK(leave_out_copies(e, i, n, &one));
    all = (batch_terms){all.loss + one.loss, all.weight + one.weight};
    seen += n;
  }
  out->loss = seen ? all.loss / all.weight : (double)NAN;
  out->accuracy = e->logits && seen ? (double)right / (double)seen : (double)NAN;
  out->samples = seen;
  return NULL;
}

/* How many samples are evaluated; notes whether there is a loss, and its divisor. Says how many are left out. */
static int64_t choose_samples(evaluation *e, const mscrt_data *d) {
  const mscrt_plan *p = e->c->plan;
  const char *divisor;
  int64_t samples = d->o.eval_end - d->o.eval_begin, rest = samples % d->batch;
  for (uint32_t i = 0; i < p->num_outputs; i++) {
    if (p->output[i].program != e->program) continue;
    e->has_loss |= p->output[i].loss;
    if (p->output[i].divisor) e->divisor = &p->output[i];
  }
  if (!rest || !e->has_loss || mscrt_plan_loss_adds_up(p, &divisor)) return samples;
  mscrt_log_line(e->c, MSCRT_LOG_WARNING,
                 "%" PRId64 " samples of the evaluation range are left out: they fill no batch of %" PRId64
                 ", and the loss is no mean of what each sample has alone",
                 rest, d->batch);
  return samples - rest;
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
  if (!s) s = run_evaluation(&e, choose_samples(&e, d), &result);
  free(e.logits_data);
  free(e.label_data);
  size_t known = out_evaluation->struct_size;
  if (!s) memcpy(out_evaluation, &result, known && known < sizeof result ? known : sizeof result);
  return s;
}
