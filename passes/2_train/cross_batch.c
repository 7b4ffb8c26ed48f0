/* cross_batch: ops that shall see one replica's part of the batch only -> the same on all parts, side by side
 * (parts.h).
 *
 * An op so annotated, and in data_parallel every op that mixes samples otherwise than by a mean or a sum, computes over
 * n/r samples, r the parts of its batch; so does what reads its result, until what it computes has samples again.  The
 * graph stays one that a single device can run: the batch n becomes (r, n/r), and r is a dimension that nothing mixes.
 * batch_norm keeps r in front of its channels, as r times as many channels.  In running statistics and results stands
 * the mean over r.  Example, r = 2: max of (1, 5, 2, 3) becomes (5, 3); x - max is (-4, 0, -1, 0), shown is 4. */
#include <string.h>

#include "passes/2_train/parts.h"
#include "passes/2_train/train.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_parts parts;
  bool replicas; /* data_parallel */
  bool trained;
  const char *why; /* an op that mixes samples could not be computed by parts */
} walk;

typedef struct {
  walk *walk;
  msc_op *op;
  msc_builder b;  /* before op */
  int64_t r, n;   /* parts, batch */
} rewriting;

static msc_value *with_ints(rewriting *w, msc_op_kind kind, msc_value *x, const char *attr, int num, const int64_t *v) {
  msc_context *ctx = w->walk->pass->ctx;
  msc_attr a = msc_named(ctx, attr, msc_ints(ctx, (size_t)num, v));
  msc_op *op = x ? msc_build_with(&w->b, kind, 1, &x, 1, 1, &a) : NULL;
  return op ? &op->out[0] : NULL;
}

static msc_value *reshaped(rewriting *w, msc_value *x, int rank, const int64_t *dim) {
  return with_ints(w, OP_reshape, x, "shape", rank, dim);
}
static msc_value *transposed(rewriting *w, msc_value *x, int rank, const int64_t *perm) {
  return with_ints(w, OP_transpose, x, "perm", rank, perm);
}

/* [n, ...] as [r, n/r, ...]; out_dim has the new sizes. */
static msc_value *split_batch(rewriting *w, msc_value *x, int64_t *out_dim) {
  const msc_type *t = x->type;
  out_dim[0] = w->r, out_dim[1] = w->n / w->r;
  memcpy(out_dim + 2, t->dim + 1, sizeof *out_dim * (size_t)(t->rank - 1));
  return reshaped(w, x, t->rank + 1, out_dim);
}

/* ---- batch_norm ---- */

/* [c] as [r * c] */
static msc_value *repeated(rewriting *w, msc_value *v) {
  int64_t two[2] = {w->r, v->type->dim[0]}, one = two[0] * two[1];
  return reshaped(w, with_ints(w, OP_broadcast_to, v, "shape", 2, two), 1, &one);
}

/* [r * c] as the mean [c] */
static msc_value *averaged(rewriting *w, msc_value *v) {
  int64_t two[2] = {w->r, v->type->dim[0] / w->r}, dim = 0;
  return with_ints(w, OP_reduce_mean, reshaped(w, v, 2, two), "dims", 1, &dim);
}

/* The batch's r goes in front of the channels: [r, n', a.., c, b..] -> [n', a.., r, c, b..] */
static void channel_order(int rank, int channel, int64_t *out_perm) {
  int at = 0;
  for (int d = 1; d < channel + 1; d++) out_perm[at++] = d;
  out_perm[at++] = 0;
  for (int d = channel + 1; d <= rank; d++) out_perm[at++] = d;
}

static bool rewrite_norm(rewriting *w) {
  msc_op *op = w->op;
  const msc_type *t = op->in[0].value->type;
  int rank = t->rank, channel = (int)msc_op_int(op, "axis");
  int64_t dim[MSC_MAX_RANK], perm[MSC_MAX_RANK], back[MSC_MAX_RANK], merged[MSC_MAX_RANK], apart[MSC_MAX_RANK];
  if (channel < 0) channel += rank;
  msc_value *x = split_batch(w, op->in[0].value, dim);
  channel_order(rank, channel, perm);
  for (int i = 0; i <= rank; i++) back[perm[i]] = i, apart[i] = dim[perm[i]];
  memcpy(merged, t->dim, sizeof merged);
  merged[0] = dim[1], merged[channel] *= w->r;
  msc_value *in[5] = {reshaped(w, transposed(w, x, rank + 1, perm), rank, merged)};
  for (int i = 1; i < 5; i++) in[i] = repeated(w, op->in[i].value);
  for (int i = 0; i < 5; i++) MSC_TRY(in[i]);
  msc_op *norm = msc_build_with(&w->b, OP_batch_norm, 5, in, 3, op->num_attrs, op->attrs);
  MSC_TRY(norm);
  msc_value *y = transposed(w, reshaped(w, &norm->out[0], rank + 1, apart), rank + 1, back);
  msc_value *out[3] = {y ? reshaped(w, y, rank, t->dim) : NULL, averaged(w, &norm->out[1]), averaged(w, &norm->out[2])};
  for (int i = 0; i < 3; i++) {
    MSC_TRY(out[i]);
    msc_replace_uses(&op->out[i], out[i]);
    msc_batch_add(&w->walk->parts.facts, out[i],
                  (msc_batch_fact){.meaning = i == 0              ? MSC_BATCH_PART
                                              : w->walk->replicas ? MSC_BATCH_MEAN
                                                                  : MSC_BATCH_SAME});
  }
  msc_op_erase(op);
  return true;
}

/* ---- which ops ---- */

static bool is_norm(const msc_op *op) {
  return op->kind == OP_batch_norm && msc_op_bool(op, "training") &&
         msc_op_int(op, "axis") % op->in[0].value->type->rank != 0;
}

/* Parts of the batch: of the op's tuple, else all devices. */
static int64_t parts_of(const walk *w, const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, "in_strategy");
  bool given = !w->replicas && v && v->kind == MSC_ATTR_LIST && v->list.num && v->list.v[0].kind == MSC_ATTR_LIST &&
               v->list.v[0].list.num && v->list.v[0].list.v[0].kind == MSC_ATTR_INT;
  return given ? v->list.v[0].list.v[0].i : msc_config_devices(w->pass->config);
}

/* How many parts the operands are those of; 0: they are of the whole batch. */
static int64_t own_parts(const walk *w, const msc_op *op) {
  int64_t r = 0;
  for (size_t i = 0; i < op->num_in && !r; i++)
    if (msc_batch_of(&w->parts.facts, op->in[i].value)->meaning == MSC_BATCH_OWN)
      r = w->parts.own[op->in[i].value->id].r;
  return r;
}

static bool any_operand(const walk *w, const msc_op *op, msc_batch_meaning meaning) {
  bool any = false;
  for (size_t i = 0; i < op->num_in; i++) any |= msc_batch_of(&w->parts.facts, op->in[i].value)->meaning == meaning;
  return any;
}

/* Do all results have the batch, or nothing of it? */
static bool keeps_samples(const walk *w, const msc_op *op) {
  bool keeps = true;
  for (size_t i = 0; i < op->num_out; i++)
    keeps &= msc_batch_of(&w->parts.facts, &op->out[i])->meaning <= MSC_BATCH_PART;
  return keeps;
}

/* Nobody can say what it is of the batch. */
static void mark_mixed(walk *w, const msc_op *op) {
  for (size_t i = 0; i < op->num_out; i++)
    *msc_batch_of(&w->parts.facts, &op->out[i]) = (msc_batch_fact){.meaning = MSC_BATCH_MIXED, .mixer = op};
}

/* ---- one op ---- */

static bool see_norm(walk *w, msc_op *op) {
  rewriting z = {.walk = w,
                 .op = op,
                 .b = {.func = w->parts.facts.f, .block = op->block, .before = op, .loc = op->loc, .name = op->name}};
  const msc_type *t = op->in[0].value->type;
  z.r = parts_of(w, op);
  z.n = t->dim[0];
  if (z.r <= 1) return msc_batch_read(&w->parts.facts, op);
  if (z.n % z.r)
    return msc_op_error(op, MSC_E_STRATEGY,
                        "cross_batch: the batch of %" PRId64 " samples does not divide into %" PRId64 " parts", z.n,
                        z.r);
  if (t->rank == MSC_MAX_RANK)
    return msc_op_error(op, MSC_E_UNSUPPORTED, "cross_batch: %d dimensions are not supported yet", t->rank);
  msc_op_unset(op, "in_strategy"); /* said how many parts; the dimensions are others now */
  msc_op_unset(op, "cross_batch");
  w->pass->changes_meaning = true;
  return rewrite_norm(&z);
}

/* An op that computes with what every part has of its own. */
static bool see_own(walk *w, msc_op *op) {
  const char *why = msc_compute_by_parts(&w->parts, op, own_parts(w, op));
  if (!why) return true;
  if (!w->replicas)
    return msc_op_error(op, MSC_E_UNSUPPORTED, "%s: computes with what every part of the batch has of its own, and %s",
                        msc_kind_name(op->kind), why);
  w->why = why;
  mark_mixed(w, op);
  return true;
}

static bool see_marked(walk *w, msc_op *op) {
  int64_t r = parts_of(w, op);
  if (any_operand(w, op, MSC_BATCH_MIXED))
    return msc_op_error(op, MSC_E_UNSUPPORTED,
                        "cross_batch: which dimension of %s's operands is the batch is not known",
                        msc_kind_name(op->kind));
  w->parts.facts.view = MSC_BATCH_WHOLE;
  MSC_TRY(msc_batch_read(&w->parts.facts, op));
  w->parts.facts.view = MSC_BATCH_ANYHOW;
  bool alone = keeps_samples(w, op) || r <= 1; /* sees every sample alone: the same either way */
  msc_op_unset(op, "cross_batch");
  if (alone) return msc_batch_read(&w->parts.facts, op);
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    const msc_batch_fact *f = msc_batch_of(&w->parts.facts, v);
    if (f->meaning == MSC_BATCH_PART && v->type->dim[f->dim] % r)
      return msc_op_error(op, MSC_E_STRATEGY,
                          "cross_batch: the batch of %" PRId64 " samples does not divide into %" PRId64 " parts",
                          v->type->dim[f->dim], r);
  }
  w->pass->changes_meaning = true;
  const char *why = msc_compute_by_parts(&w->parts, op, r);
  return !why || msc_op_error(op, MSC_E_UNSUPPORTED, "cross_batch: %s: %s", msc_kind_name(op->kind), why);
}

/* In data_parallel whatever mixes samples mixes those of one replica's part. */
static bool see_replica(walk *w, msc_op *op) {
  MSC_TRY(msc_batch_read(&w->parts.facts, op));
  bool mixes = !keeps_samples(w, op) && msc_batch_of(&w->parts.facts, &op->out[0])->meaning == MSC_BATCH_MIXED;
  if (!mixes || any_operand(w, op, MSC_BATCH_MIXED)) return true;
  const char *why = msc_compute_by_parts(&w->parts, op, msc_config_devices(w->pass->config));
  if (!why) w->pass->changes_meaning = true;
  else w->why = why, mark_mixed(w, op);
  return true;
}

static bool see(walk *w, msc_op *op) {
  bool marked = msc_sees_part(op);
  if (is_norm(op) && (marked || w->replicas)) return see_norm(w, op);
  if (any_operand(w, op, MSC_BATCH_OWN)) return see_own(w, op);
  if (w->replicas) {
    msc_op_unset(op, "cross_batch");
    return see_replica(w, op);
  }
  return marked ? see_marked(w, op) : msc_batch_read(&w->parts.facts, op);
}

/* ---- results ---- */

static bool set_results(walk *w, msc_op *ret) {
  for (size_t i = 0; i < ret->num_in; i++) {
    const msc_value *v = ret->in[i].value;
    const msc_batch_fact *f = msc_batch_of(&w->parts.facts, v);
    if (f->meaning == MSC_BATCH_MIXED && w->replicas && w->why && w->trained)
      return msc_op_error(f->mixer, MSC_E_UNSUPPORTED,
                          "%s: mixes samples of the batch; every replica of parallel_mode data_parallel mixes those of "
                          "its part, but %s",
                          msc_kind_name(f->mixer->kind), w->why);
    if (f->meaning != MSC_BATCH_OWN) continue;
    msc_value *mean = msc_mean_of_parts(&w->parts, v, ret);
    MSC_TRY(mean);
    msc_set_operand(ret, i, mean);
  }
  msc_drop_replaced(&w->parts);
  return true;
}

static bool has_marks(const msc_func *f) {
  bool any = false;
  for (const msc_op *op = f->body->first; op; op = op->next) any |= msc_op_attr(op, "cross_batch") != NULL;
  return any;
}

bool pass_cross_batch(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_find_func(m, "forward");
  bool replicas = msc_config_parallel_mode(pass->config) == MSC_DATA_PARALLEL && msc_config_devices(pass->config) > 1;
  if (!f || (!replicas && !has_marks(f))) return msc_not_asked_for(pass);
  walk w = {.pass = pass, .replicas = replicas, .trained = f == msc_training_func(m)};
  msc_batch_begin(&w.parts.facts, f, pass->scratch, replicas ? MSC_BATCH_WHOLE : MSC_BATCH_ANYHOW);
  bool ok = true;
  for (msc_op *op = f->body->first, *next; op->next; op = next) {
    next = op->next;
    ok &= see(&w, op);
  }
  return ok && set_results(&w, f->body->last);
}
