/* cross_batch: ops that shall see one replica's part of the batch only -> the same on all parts, side by side.
 *
 * An op so annotated, and in data_parallel every batch_norm in training, computes its statistics over n/r samples, r the parts of
 * its batch.  The graph stays one that a single device can run: the batch n becomes (r, n/r), and r is a dimension that is
 * not reduced.  batch_norm keeps r in front of its channels, as r times as many channels; a reduction keeps it in front of its
 * result.  An elementwise user that has the batch takes the part of its own samples; elsewhere, as in running statistics and
 * outputs, stands the mean over r.  Example, r = 2: max of (1, 5, 2, 3) becomes (5, 3); x - max is (-4, 0, -1, 0), shown is 4. */
#include <string.h>

#include "passes/2_train/train.h"
#include "passes/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_op *op;
  msc_builder b;  /* before op */
  int64_t r, n;   /* parts, batch */
} rewriting;

static msc_value *with_ints(rewriting *w, msc_op_kind kind, msc_value *x, const char *attr, int num, const int64_t *v) {
  msc_attr a = msc_named(w->pass->ctx, attr, msc_ints(w->pass->ctx, (size_t)num, v));
  msc_op *op = x ? msc_build_with(&w->b, kind, 1, &x, 1, 1, &a) : NULL;
  return op ? &op->out[0] : NULL;
}

static msc_value *reshaped(rewriting *w, msc_value *x, int rank, const int64_t *dim) { return with_ints(w, OP_reshape, x, "shape", rank, dim); }
static msc_value *transposed(rewriting *w, msc_value *x, int rank, const int64_t *perm) { return with_ints(w, OP_transpose, x, "perm", rank, perm); }

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
  }
  msc_op_erase(op);
  return true;
}

/* ---- reductions ---- */

static bool is_elementwise(const msc_op *op) {
  switch (op->kind) {
    case OP_add: case OP_sub: case OP_mul: case OP_div: case OP_max: case OP_min: case OP_pow: case OP_compare: case OP_select: return true;
    default: return false;
  }
}

static bool has_batch(const rewriting *w, const msc_op *user, const msc_type *reduced) {
  const msc_type *y = user->num_out ? user->out[0].type : NULL;
  return is_elementwise(user) && y->rank == reduced->rank && y->rank > 0 && y->dim[0] == w->n;
}

/* Every sample's own statistic: [r, 1, ...] -> [r, n/r, ...] -> [n, ...] */
static msc_value *of_samples(rewriting *w, msc_value *parts, const msc_type *reduced) {
  int64_t dim[MSC_MAX_RANK], whole[MSC_MAX_RANK];
  memcpy(dim + 1, reduced->dim, sizeof *dim * (size_t)reduced->rank);
  dim[0] = w->r;
  msc_value *v = reshaped(w, parts, reduced->rank + 1, dim);
  dim[1] = w->n / w->r;
  memcpy(whole, reduced->dim, sizeof whole);
  whole[0] = w->n;
  return reshaped(w, v ? with_ints(w, OP_broadcast_to, v, "shape", reduced->rank + 1, dim) : NULL, reduced->rank, whole);
}

static bool is_mean_user(const msc_op *user) { return msc_info(user)->flags & MSC_TERMINATOR || !is_elementwise(user); }

static bool rewrite_reduction(rewriting *w) {
  msc_op *op = w->op;
  const msc_type *t = op->in[0].value->type, *was = op->out[0].type;
  int64_t dims[MSC_MAX_RANK], dim[MSC_MAX_RANK], zero = 0;
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  for (int i = 0; i < num; i++) dims[i] = (dims[i] < 0 ? dims[i] + t->rank : dims[i]) + 1;
  msc_value *x = split_batch(w, op->in[0].value, dim);
  msc_value *parts = with_ints(w, op->kind, x, "dims", num, dims); /* [r, rest] */
  msc_value *mean = parts ? reshaped(w, with_ints(w, OP_reduce_mean, parts, "dims", 1, &zero), was->rank, was->dim) : NULL;
  msc_value *samples = parts && msc_op_bool(op, "keep_dims") ? of_samples(w, parts, was) : NULL;
  MSC_TRY(mean);
  for (msc_use *u = op->out[0].uses, *next; u; u = next) {
    next = u->next;
    bool paired = samples && has_batch(w, u->user, was);
    if (!paired && !is_mean_user(u->user))
      return msc_op_error(u->user, MSC_E_UNSUPPORTED, "%s: computes with what %s has for each part of the batch, and has no batch itself: not supported yet", msc_kind_name(u->user->kind), op->name ? op->name : msc_kind_name(op->kind));
    msc_set_operand(u->user, (size_t)(u - u->user->in), paired ? samples : mean);
  }
  msc_op_erase(op);
  return true;
}

/* ---- which ops ---- */

static bool is_reduction(const msc_op *op) { return op->kind == OP_reduce_sum || op->kind == OP_reduce_max || op->kind == OP_reduce_min; }

static bool reduces_batch(const msc_op *op) {
  int64_t dims[MSC_MAX_RANK];
  int num = is_reduction(op) ? msc_op_ints(op, "dims", dims, MSC_MAX_RANK) : 0;
  for (int i = 0; i < num; i++)
    if (dims[i] == 0 || dims[i] == -op->in[0].value->type->rank) return true;
  return false;
}

static bool is_norm(const msc_op *op) { return op->kind == OP_batch_norm && msc_op_bool(op, "training") && msc_op_int(op, "axis") % op->in[0].value->type->rank != 0; }

static bool is_marked(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, "cross_batch");
  return v && ((v->kind == MSC_ATTR_BOOL && v->b) || (v->kind == MSC_ATTR_INT && v->i));
}

/* Parts of the batch: of the op's tuple, else all devices. */
static int64_t parts_of(const rewriting *w) {
  const msc_attr_value *v = msc_op_attr(w->op, "in_strategy");
  bool given = v && v->kind == MSC_ATTR_LIST && v->list.num && v->list.v[0].kind == MSC_ATTR_LIST && v->list.v[0].list.num && v->list.v[0].list.v[0].kind == MSC_ATTR_INT;
  return given ? v->list.v[0].list.v[0].i : msc_config_devices(w->pass->config);
}

static bool rewrite(msc_pass_ctx *pass, msc_func *f, msc_op *op) {
  rewriting w = {.pass = pass, .op = op, .b = {.func = f, .block = f->body, .before = op, .loc = op->loc, .name = op->name}};
  const msc_type *t = op->in[0].value->type;
  w.r = parts_of(&w);
  w.n = t->rank ? t->dim[0] : 0;
  msc_op_unset(op, "cross_batch");
  if (w.r <= 1) return true;
  if (w.n % w.r) return msc_op_error(op, MSC_E_STRATEGY, "cross_batch: the batch of %" PRId64 " samples does not divide into %" PRId64 " parts", w.n, w.r);
  if (t->rank == MSC_MAX_RANK) return msc_op_error(op, MSC_E_UNSUPPORTED, "cross_batch: %d dimensions are not supported yet", t->rank);
  msc_op_unset(op, "in_strategy"); /* said how many parts; the dimensions are others now */
  pass->changes_meaning = true;
  return op->kind == OP_batch_norm ? rewrite_norm(&w) : rewrite_reduction(&w);
}

bool pass_cross_batch(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_find_func(m, "forward");
  bool replicas = msc_config_parallel_mode(pass->config) == MSC_DATA_PARALLEL, ok = true;
  for (msc_op *op = f ? f->body->first : NULL, *next; op; op = next) {
    next = op->next;
    bool marked = is_marked(op);
    if (is_norm(op) && (marked || replicas)) ok &= rewrite(pass, f, op);
    else if (marked && reduces_batch(op)) ok &= rewrite(pass, f, op);
    else if (marked) msc_op_unset(op, "cross_batch"); /* sees every sample alone, or means of equal parts: the same either way */
  }
  return ok;
}
