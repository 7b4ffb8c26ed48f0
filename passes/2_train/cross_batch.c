/* cross_batch: ops that must see only one replica's part of the batch -> the same on all parts, side by side
 * (batch_parts.h).
 *
 * An op with this annotation, and in data_parallel every op that mixes samples other than by a mean or a sum or by
 * pairing each with every other one, computes over n/r samples, r the number of parts of its batch; so do the ops that
 * read its result, until a result has samples again. A single device can still run the graph: the batch n becomes
 * (r, n/r), and no op mixes the dimension r. batch_norm gets r in front of its channels, as r times as many channels.
 * Running statistics and results are the mean over r. Example, r = 2: max of (1, 5, 2, 3) becomes (5, 3); x - max is
 * (-4, 0, -1, 0), and the result shown is 4. */
#include <string.h>

#include "ir/fact.h"
#include "ir/formula.h"
#include "passes/2_train/batch_parts.h"
#include "passes/2_train/train.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_parts parts;
  bool replicas; /* data_parallel */
  bool trained;
  const char *why; /* why an op that mixes samples could not be computed by parts */
} walk;

typedef struct {
  walk *walk;
  msc_op *op;
  msc_builder b; /* before op */
  int64_t r;     /* parts */
  msc_batch_place at; /* where the samples are in the normalized value */
} batch_rewriter;

/* ---- batch_norm ---- */

/* [c] as [r * c] */
static msc_value *repeat_for_parts(batch_rewriter *w, msc_value *v) {
  int64_t two[2] = {w->r, v->type->dim[0]}, one = two[0] * two[1];
  return reshape(&w->b, broadcast(&w->b, v, 2, two), 1, &one);
}

/* [r * c] as the mean [c] */
static msc_value *average_over_parts(batch_rewriter *w, msc_value *v) {
  int64_t two[2] = {w->r, v->type->dim[0] / w->r}, dim = 0;
  return with_ints(&w->b, OP_reduce_mean, reshape(&w->b, v, 2, two), "dims", 1, &dim);
}

/* How x [.., n, .., c, ..] becomes [.., n/r, .., r * c, ..]: it is reshaped to `apart`, where r is a dimension,
 * permuted and merged. If x has several runs of samples, each run is cut. */
typedef struct {
  int rank; /* of apart */
  int64_t apart[MSC_MAX_RANK], perm[MSC_MAX_RANK], permuted[MSC_MAX_RANK], back[MSC_MAX_RANK], merged[MSC_MAX_RANK];
} channel_order;

static channel_order channels_of_parts(const batch_rewriter *w, const msc_type *t, int channel) {
  channel_order o = {0};
  int r = 0, c = 0, num = 0;
  for (int d = 0; d < t->rank; d++) {
    o.merged[d] = t->dim[d];
    if (d == channel) c = o.rank;
    if (d == w->at.dim) {
      if (w->at.outer > 1) o.apart[o.rank++] = w->at.outer;
      r = o.rank;
      o.apart[o.rank++] = w->r;
    }
    o.apart[o.rank++] = d == w->at.dim ? t->dim[d] / w->at.outer / w->r : t->dim[d];
  }
  o.merged[w->at.dim] /= w->r, o.merged[channel] *= w->r;
  for (int d = 0; d < o.rank; d++) {
    if (d == c) o.perm[num++] = r;
    if (d != r) o.perm[num++] = d;
  }
  for (int d = 0; d < o.rank; d++) o.permuted[d] = o.apart[o.perm[d]], o.back[o.perm[d]] = d;
  return o;
}

static bool compute_norm_by_parts(batch_rewriter *w) {
  msc_op *op = w->op;
  const msc_type *t = op->in[0].value->type;
  int rank = t->rank, channel = (int)msc_op_int(op, "axis");
  channel_order o = channels_of_parts(w, t, channel < 0 ? channel + rank : channel);
  msc_value *x = transpose(&w->b, reshape(&w->b, op->in[0].value, o.rank, o.apart), o.perm),
            *in[5] = {reshape(&w->b, x, rank, o.merged)};
  for (int i = 1; i < 5; i++) in[i] = repeat_for_parts(w, op->in[i].value);
  for (int i = 0; i < 5; i++) MSC_TRY(in[i]);
  msc_op *norm = msc_build_with(&w->b, OP_batch_norm, 5, in, 3, op->num_attrs, op->attrs);
  MSC_TRY(norm);
  msc_value *y = transpose(&w->b, reshape(&w->b, &norm->out[0], o.rank, o.permuted), o.back);
  msc_value *out[3] = {y ? reshape(&w->b, y, rank, t->dim) : NULL, average_over_parts(w, &norm->out[1]),
                       average_over_parts(w, &norm->out[2])};
  for (int i = 0; i < 3; i++) {
    MSC_TRY(out[i]);
    msc_replace_uses(&op->out[i], out[i]);
    msc_batch_fact statistics = {.meaning = w->walk->replicas ? MSC_BATCH_MEAN : MSC_BATCH_SAME};
    msc_batch_add(&w->walk->parts.facts, out[i], i == 0 ? msc_batch_part(w->at.dim, w->at.outer) : statistics);
  }
  msc_op_erase(op);
  return true;
}

/* ---- which ops ---- */

/* The number of parts of the batch: from the strategy of the op, else the number of devices. */
static int64_t num_parts_asked_for(const walk *w, const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(in_strategy));
  bool given = !w->replicas && v && v->kind == MSC_ATTR_LIST && v->list.num && v->list.v[0].kind == MSC_ATTR_LIST &&
               v->list.v[0].list.num && v->list.v[0].list.v[0].kind == MSC_ATTR_INT;
  return given ? v->list.v[0].list.v[0].i : msc_config_devices(w->pass->config);
}

/* Returns the number of parts for which the operands have values of their own; 0: they describe the whole batch. */
static int64_t num_parts_of_operands(const walk *w, const msc_op *op) {
  int64_t r = 0;
  for (size_t i = 0; i < op->num_in && !r; i++)
    if (msc_batch_of(&w->parts.facts, op->in[i].value)->meaning == MSC_BATCH_OWN)
      r = w->parts.own[op->in[i].value->id].r;
  return r;
}

static bool has_operand_with(const walk *w, const msc_op *op, msc_batch_meaning meaning) {
  bool any = false;
  for (size_t i = 0; i < op->num_in; i++) any |= msc_batch_of(&w->parts.facts, op->in[i].value)->meaning == meaning;
  return any;
}

/* True if all results have the batch dimension, or do not depend on the batch. */
static bool is_per_sample(const walk *w, const msc_op *op) {
  bool keeps = true;
  for (size_t i = 0; i < op->num_out; i++)
    keeps &= msc_batch_of(&w->parts.facts, &op->out[i])->meaning <= MSC_BATCH_PART;
  return keeps;
}

/* Marks the results of op as mixed: their relation to the batch is unknown. */
static void mark_results_mixed(walk *w, const msc_op *op) {
  for (size_t i = 0; i < op->num_out; i++)
    *msc_batch_of(&w->parts.facts, &op->out[i]) = (msc_batch_fact){.meaning = MSC_BATCH_MIXED, .mixer = op};
}

/* ---- one op ---- */

static bool rewrite_marked_norm(walk *w, msc_op *op) {
  const msc_batch_fact *f = msc_batch_of(&w->parts.facts, op->in[0].value);
  batch_rewriter z = {
      .at = {f->dim, f->outer},
      .walk = w,
      .op = op,
      .b = {.func = w->parts.facts.f, .block = op->block, .before = op, .loc = op->loc, .name = op->name}};
  const msc_type *t = op->in[0].value->type;
  z.r = num_parts_asked_for(w, op);
  int64_t n = t->dim[z.at.dim] / z.at.outer;
  if (z.r <= 1) return msc_batch_read(&w->parts.facts, op);
  if (n % z.r)
    return msc_op_error(op, MSC_E_STRATEGY,
                        "cross_batch: the batch of %" PRId64 " samples does not divide into %" PRId64 " parts", n, z.r);
  if (t->rank + (z.at.outer > 1) >= MSC_MAX_RANK)
    return msc_op_error(op, MSC_E_UNSUPPORTED, "cross_batch: %d dimensions are not supported yet", t->rank);
  msc_op_unset(op, MSC_FACT(in_strategy)); /* it gave the number of parts; the dimensions have changed */
  msc_op_unset(op, MSC_FACT(cross_batch));
  w->pass->changes_meaning = true;
  return compute_norm_by_parts(&z);
}

/* Computes by parts an op that reads values of which every part has its own. */
static bool compute_own_by_parts(walk *w, msc_op *op) {
  const char *why = msc_compute_by_parts(&w->parts, op, num_parts_of_operands(w, op));
  if (!why) return true;
  if (!w->replicas)
    return msc_op_error(op, MSC_E_UNSUPPORTED, "%s: computes with what every part of the batch has of its own, and %s",
                        msc_kind_name(op->kind), why);
  w->why = why;
  mark_results_mixed(w, op);
  return true;
}

static bool rewrite_marked_op(walk *w, msc_op *op) {
  int64_t r = num_parts_asked_for(w, op);
  if (has_operand_with(w, op, MSC_BATCH_MIXED))
    return msc_op_error(op, MSC_E_UNSUPPORTED,
                        "cross_batch: which dimension of %s's operands is the batch is not known",
                        msc_kind_name(op->kind));
  w->parts.facts.view = MSC_BATCH_WHOLE;
  MSC_TRY(msc_batch_read(&w->parts.facts, op));
  w->parts.facts.view = MSC_BATCH_ANYHOW;
  bool alone = is_per_sample(w, op) || r <= 1; /* the op sees every sample by itself, so parts change nothing */
  msc_op_unset(op, MSC_FACT(cross_batch));
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

/* In data_parallel, lets an op that mixes samples mix those of one part only. */
static bool rewrite_replica_op(walk *w, msc_op *op) {
  MSC_TRY(msc_batch_read(&w->parts.facts, op));
  bool mixes = !is_per_sample(w, op) && msc_batch_of(&w->parts.facts, &op->out[0])->meaning == MSC_BATCH_MIXED;
  if (!mixes || has_operand_with(w, op, MSC_BATCH_MIXED)) return true;
  const char *why = msc_compute_by_parts(&w->parts, op, msc_config_devices(w->pass->config));
  if (!why) w->pass->changes_meaning = true;
  else w->why = why, mark_results_mixed(w, op);
  return true;
}

/* True for a batch_norm over samples. One of which every channel is of one sample, as a norm of instances is computed,
 * mixes none. */
static bool is_norm_over_samples(const walk *w, const msc_op *op) {
  if (op->kind != OP_batch_norm || !msc_op_bool(op, "training")) return false;
  const msc_batch_fact *f = msc_batch_of(&w->parts.facts, op->in[0].value);
  int rank = op->in[0].value->type->rank, axis = (int)msc_op_int(op, "axis");
  return f->meaning == MSC_BATCH_PART && f->dim != (axis < 0 ? axis + rank : axis);
}

static bool rewrite_cross_batch_op(walk *w, msc_op *op) {
  bool marked = msc_sees_part(op);
  if (is_norm_over_samples(w, op) && (marked || w->replicas)) return rewrite_marked_norm(w, op);
  if (has_operand_with(w, op, MSC_BATCH_OWN)) return compute_own_by_parts(w, op);
  if (w->replicas) {
    msc_op_unset(op, MSC_FACT(cross_batch));
    return rewrite_replica_op(w, op);
  }
  return marked ? rewrite_marked_op(w, op) : msc_batch_read(&w->parts.facts, op);
}

/* ---- results ---- */

static bool average_own_results(walk *w, msc_op *ret) {
  for (size_t i = 0; i < ret->num_in; i++) {
    const msc_value *v = ret->in[i].value;
    const msc_batch_fact *f = msc_batch_of(&w->parts.facts, v);
    if (f->meaning == MSC_BATCH_MIXED && w->replicas && w->why && w->trained)
      return msc_op_error(f->mixer, MSC_E_UNSUPPORTED,
                          "%s: mixes samples of the batch; every replica of parallel_mode data_parallel mixes those of "
                          "its part, but %s; auto_parallel and semi_auto_parallel mix the whole batch",
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
  for (const msc_op *op = f->body->first; op; op = op->next) any |= msc_op_attr(op, MSC_FACT(cross_batch)) != NULL;
  return any;
}

/* Checks that every replica has a sample: without one it would have no loss. */
static bool check_batch_per_replica(const msc_func *f, int64_t replicas) {
  const msc_attr_value *micro = msc_func_attr(f, MSC_FACT(micro));
  const char *whose = micro && micro->i > 1 ? "micro-batch" : "batch";
  bool ok = true;
  for (size_t i = 0; i < f->body->num_args; i++) {
    int dim = msc_batch_dim(f, i);
    if (dim < 0 || f->body->args[i]->type->dim[dim] >= replicas) continue;
    ok = msc_error(f->module->ctx, MSC_E_CONFIG, f->loc,
                   "input '%s': its %s of %" PRId64 " samples in dimension %d is fewer than the %" PRId64
                   " replicas of parallel_mode data_parallel",
                   msc_name_of_arg(f, i), whose, f->body->args[i]->type->dim[dim], dim, replicas);
  }
  return ok;
}

bool pass_cross_batch(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_program_func(m, MSC_PROGRAM_FORWARD);
  bool replicas = msc_config_parallel_mode(pass->config) == MSC_DATA_PARALLEL && msc_config_devices(pass->config) > 1;
  if (!f || (!replicas && !has_marks(f))) return msc_not_asked_for(pass);
  walk w = {.pass = pass, .replicas = replicas, .trained = f == msc_training_func(m)};
  if (replicas && w.trained) MSC_TRY(check_batch_per_replica(f, msc_config_devices(pass->config)));
  msc_batch_begin(&w.parts.facts, f, pass->scratch, replicas ? MSC_BATCH_WHOLE : MSC_BATCH_ANYHOW);
  bool ok = true;
  for (msc_op *op = f->body->first, *next; op->next; op = next) {
    next = op->next;
    ok &= rewrite_cross_batch_op(&w, op);
  }
  return ok && average_own_results(&w, f->body->last);
}
