/* variance: the mean and the variance of long columns, as a norm over a batch has them -> sums that need not wait for
 * each other, so that a GPU reads the columns once for both.
 *
 *   m = mean(x);  v = mean((x - m)^2)
 *   ->  d = x - k, k: the first element of each column;  e = mean(d);  m = k + e;  v = max(mean(d^2) - e^2, 0)
 *
 * The difference loses no more digits than the first element is standard deviations away from the mean, squared.
 * Rows are left alone, since they are near when they are read again, and so are plans that promise the sums of any
 * number of ranks: where ranks share a column, its mean is a collective, and the columns are read twice. */
#include "ir/formula.h"
#include "passes/7_lower/target.h"
#include "passes/pass.h"

enum { LEAST_TERMS = 1024 };

/* The dimensions that a mean is over, and the op's operand x. */
typedef struct {
  msc_value *x;
  int num;
  int64_t dims[MSC_MAX_RANK];
} column;

static bool is_reduced(const column *c, int d) {
  int i = 0;
  while (i < c->num && c->dims[i] != d) i++;
  return i < c->num;
}

/* Describes the columns that op takes the mean of. False: it is no mean of long columns that keeps their dimensions. */
static bool find_column(const msc_op *op, column *c) {
  if (op->kind != OP_reduce_mean || !msc_op_bool(op, "keep_dims") || op->in[0].value->type->dtype != MSC_F32)
    return false;
  c->x = op->in[0].value;
  c->num = msc_op_ints(op, "dims", c->dims, MSC_MAX_RANK);
  const msc_type *t = c->x->type;
  int64_t terms = msc_type_elems(op->out[0].type) ? msc_type_elems(t) / msc_type_elems(op->out[0].type) : 0;
  bool across = false;
  for (int d = 1; d < t->rank; d++) across |= !is_reduced(c, d) && is_reduced(c, d - 1);
  return across && terms >= LEAST_TERMS && (!msc_op_attr(op, "count") || msc_op_int(op, "count") == terms);
}

/* Returns the mean of (x - m)^2 over the same columns as m, the mean of x; NULL: there is none. */
static msc_op *find_variance(const msc_op *mean, const column *c) {
  for (const msc_use *u = mean->out[0].uses; u; u = u->next) {
    msc_op *sub = u->user, *square = NULL;
    if (sub->kind != OP_sub || sub->in[0].value != c->x || sub->in[1].value != &mean->out[0]) continue;
    for (const msc_use *s = sub->out[0].uses; s; s = s->next)
      if (s->user->kind == OP_mul && s->user->in[0].value == s->user->in[1].value) square = s->user;
    msc_op *variance = square ? msc_only_user(&square->out[0], OP_reduce_mean) : NULL;
    if (variance && variance->num_attrs == mean->num_attrs &&
        msc_attr_equal(msc_op_attr(variance, "dims"), msc_op_attr(mean, "dims")) &&
        msc_op_bool(variance, "keep_dims") && variance->out[0].type == mean->out[0].type)
      return variance;
  }
  return NULL;
}

/* The first element of each column, in f32. Of a cast it is the cast of the first element. */
static msc_value *take_first(msc_builder *b, const column *c) {
  const msc_op *made = c->x->def;
  msc_value *from = made && made->kind == OP_cast ? made->in[0].value : c->x;
  int64_t start[MSC_MAX_RANK] = {0}, limit[MSC_MAX_RANK];
  for (int d = 0; d < from->type->rank; d++) limit[d] = is_reduced(c, d) ? 1 : from->type->dim[d];
  return cast(b, slice_of(b, from, start, limit, NULL), MSC_F32);
}

static msc_value *mean_like(msc_builder *b, const msc_op *like, msc_value *x) {
  return x ? with_attrs(b, OP_reduce_mean, 1, &x, like->num_attrs, like->attrs) : NULL;
}

static void replace_by(msc_op *op, msc_value *v) {
  v->whole = op->out[0].whole;
  msc_replace_uses(&op->out[0], v);
}

static bool sum_around_first(msc_op *mean, msc_op *variance, const column *c) {
  msc_builder b = {.func = mean->block->func, .block = mean->block, .before = mean, .loc = mean->loc,
                   .name = mean->name};
  msc_value *first = take_first(&b, c), *d = first ? minus(&b, c->x, first) : NULL, *e = mean_like(&b, mean, d);
  msc_value *squares = mean_like(&b, mean, d ? times(&b, d, d) : NULL);
  if (!e || !squares) return false;
  msc_value *m = plus(&b, first, e), *v = minus(&b, squares, times(&b, e, e));
  v = v ? binary(&b, OP_max, v, number(&b, v, 0)) : NULL;
  if (!m || !v) return false;
  msc_op *square = variance->in[0].value->def;
  replace_by(variance, v);
  msc_op_erase(variance);
  msc_op_erase(square);
  replace_by(mean, m);
  msc_op_erase(mean);
  return true;
}

bool pass_variance(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  if (msc_is_deterministic(m, pass->config)) return msc_not_asked_for(pass);
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      column c;
      next = op->next;
      msc_op *variance = find_column(op, &c) ? find_variance(op, &c) : NULL;
      if (!variance) continue;
      while (next == variance || next == variance->in[0].value->def) next = next->next;
      MSC_TRY(sum_around_first(op, variance, &c));
      num++;
    }
  msc_stat(pass, "variances", num);
  return true;
}
