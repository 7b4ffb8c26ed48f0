/* loss_quotient: a loss with means over kept rows, whose number in the whole batch no micro-batch knows -> a quotient
 * of what micro-batches add up apart: a sum over the batch, and sums that the divisor is made of.
 *
 * The loss is read as a tree that is linear in its terms. If all quotients among them have one divisor d, and other
 * terms s are the same for all micro-batches, then n/d + s = (n + s * d) / d. Beside a mean over all samples, or with
 * two divisors, there is no such quotient: there every divisor, which is made of data alone, is added up over all
 * micro-batches before the first of them is computed (`accumulate` with `early`), and each quotient is the mean over k
 * micro-batches of k * n / d.  That k is an early sum of 1, which is 1 where one batch is evaluated. */
#include "ir/formula.h"
#include "passes/2_train/batch.h"
#include "passes/2_train/train.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  const msc_batch_fact *fact; /* by value id */
  bool *is_term;              /* by value id: the loss is linear in the value */
  msc_value **product;        /* by value id: the value times the divisor; NULL: not built */
  const msc_op *first;        /* term that is a quotient; NULL: none so far */
  msc_value *divisor;
  msc_value **total; /* by value id: the sum or mean over all micro-batches; NULL: not built */
  int64_t micro;     /* the number of micro-batches */
  size_t num_values;
} quotient_maker;

/* May the loss be a quotient of two sums over the batch? Not in hybrid_parallel with several ranks: there each rank has
 * a loss of its own. */
static bool may_be_quotient(const msc_pass_ctx *pass) {
  return msc_config_devices(pass->config) == 1 || msc_config_parallel_mode(pass->config) != MSC_HYBRID_PARALLEL;
}

static msc_batch_meaning meaning_of(const quotient_maker *q, const msc_value *v) {
  return (msc_batch_meaning)q->fact[v->id].meaning;
}

/* ---- terms ---- */

/* The operands in which op is linear while the others are the same for all parts, a bit each; 0: op makes a term. */
static unsigned linear_operands(const quotient_maker *q, const msc_op *op) {
  if (op->num_out != 1 || op->out[0].type->rank || meaning_of(q, &op->out[0]) != MSC_BATCH_MIXED) return 0;
  switch (op->kind) {
    case OP_add:
    case OP_sub: return 3;
    case OP_neg: return 1;
    case OP_div: return meaning_of(q, op->in[1].value) == MSC_BATCH_SAME;
    case OP_mul:
      if (meaning_of(q, op->in[1].value) == MSC_BATCH_SAME) return 1;
      return meaning_of(q, op->in[0].value) == MSC_BATCH_SAME ? 2 : 0;
    default: return 0;
  }
}

static void mark_terms(quotient_maker *q, const msc_value *loss) {
  q->is_term[loss->id] = true;
  for (const msc_op *op = loss->def; op; op = op->prev) {
    unsigned linear = op->num_out && q->is_term[op->out[0].id] ? linear_operands(q, op) : 0;
    for (size_t i = 0; i < op->num_in; i++)
      if (linear >> i & 1) q->is_term[op->in[i].value->id] = true;
  }
}

/* True for a term that is a mean over the rows that are kept. */
static bool is_mean_of_kept_rows(const msc_op *op) {
  return (op->kind == OP_softmax_cross_entropy || op->kind == OP_nll_loss) && msc_counts_kept_rows(op) &&
         msc_dtype_bytes(op->out[0].type->dtype) >= 4; /* f16 and bf16 have not the numbers */
}

/* True for a quotient whose dividend is a sum or mean over the batch that depends on parameters, and whose divisor is
 * what the whole batch has of data. */
static bool is_quotient_of_sums(const quotient_maker *q, const msc_op *op) {
  if (op->kind != OP_div || !msc_batch_is_total(&q->fact[op->in[1].value->id])) return false;
  return meaning_of(q, op->in[0].value) == MSC_BATCH_SUM || meaning_of(q, op->in[0].value) == MSC_BATCH_MEAN;
}

static bool have_one_divisor(const msc_op *a, const msc_op *b) {
  if (a->in[1].value != b->in[1].value || (a->kind == OP_div) != (b->kind == OP_div)) return false;
  return a->kind == OP_div || msc_op_int(a, "ignore_index") == msc_op_int(b, "ignore_index");
}

typedef enum { TERM_INNER, TERM_QUOTIENT, TERM_SAME, TERM_OTHER } term_kind;

static term_kind kind_of_term(const quotient_maker *q, const msc_value *v) {
  if (meaning_of(q, v) == MSC_BATCH_SAME) return TERM_SAME;
  if (!v->def || meaning_of(q, v) != MSC_BATCH_MIXED) return TERM_OTHER;
  if (is_mean_of_kept_rows(v->def) || is_quotient_of_sums(q, v->def)) return TERM_QUOTIENT;
  return linear_operands(q, v->def) ? TERM_INNER : TERM_OTHER;
}

/* True if all terms are quotients with one divisor, or the same for all parts. Sets q->first. */
static bool have_terms_one_divisor(quotient_maker *q) {
  bool any_same = false;
  for (const msc_op *op = q->f->body->first; op->next; op = op->next) {
    if (!op->num_out || !q->is_term[op->out[0].id]) continue;
    term_kind kind = kind_of_term(q, &op->out[0]);
    if (kind == TERM_OTHER || (kind == TERM_QUOTIENT && q->first && !have_one_divisor(q->first, op))) return false;
    if (kind == TERM_QUOTIENT && !q->first) q->first = op;
    any_same |= kind == TERM_SAME;
  }
  if (!q->first) return false;
  /* what is the same for all parts is multiplied by the divisor, which then has to be the sum of those of the parts */
  return !any_same || q->first->kind != OP_div || meaning_of(q, q->first->in[1].value) != MSC_BATCH_TOTAL;
}

/* ---- one quotient ---- */

static msc_builder builder_behind(const quotient_maker *q, const msc_op *op) {
  return (msc_builder){.func = q->f, .block = q->f->body, .before = op->next, .loc = op->loc, .name = op->name};
}

/* Builds the number of rows that a mean over the kept ones divides by. */
static msc_value *count_kept_rows(msc_builder *b, const msc_op *op) {
  msc_value *labels = op->in[1].value, *none = number(b, labels, (double)msc_op_int(op, "ignore_index")),
            *kept = none ? compare(b, MSC_NE, labels, none) : NULL;
  return kept ? sum_to_scalar(b, cast(b, kept, op->out[0].type->dtype)) : NULL;
}

/* The sum of the losses of kept rows instead of their mean; sets the divisor, their number, at the first one. */
static msc_value *sum_kept_rows(quotient_maker *q, const msc_op *op) {
  msc_builder b = builder_behind(q, op);
  msc_value *in[2] = {op->in[0].value, op->in[1].value};
  msc_op *sum = msc_op_copy(q->f, op, in);
  msc_op_put(sum, msc_loss_reduction_attr(q->pass->ctx, MSC_LOSS_SUM));
  msc_insert_before(b.before, sum);
  MSC_TRY(msc_infer(sum));
  if (q->divisor) return &sum->out[0];
  q->divisor = count_kept_rows(&b, op);
  return q->divisor ? &sum->out[0] : NULL;
}

/* Returns v times the divisor: the product that was built before; a new one if v is the same for all parts. */
static msc_value *product_of(quotient_maker *q, msc_builder *b, msc_value *v) {
  if (!q->product[v->id]) q->product[v->id] = times(b, v, cast(b, q->divisor, v->type->dtype));
  return q->product[v->id];
}

/* Builds a copy of a linear op that reads the products of its operands with the divisor. */
static msc_value *combine_products(quotient_maker *q, msc_builder *b, const msc_op *op) {
  unsigned linear = linear_operands(q, op);
  msc_value *in[2];
  for (size_t i = 0; i < op->num_in; i++) {
    in[i] = linear >> i & 1 ? product_of(q, b, op->in[i].value) : op->in[i].value;
    if (!in[i]) return NULL;
  }
  msc_op *made = msc_op_copy(q->f, op, in);
  msc_insert_before(b->before, made);
  return msc_infer(made) ? &made->out[0] : NULL;
}

/* Builds the loss, of terms with one divisor, as one quotient, and drops the terms. */
static bool build_quotient(quotient_maker *q, msc_value *loss) {
  msc_op *last = loss->def, *end = last->next;
  msc_builder b = builder_behind(q, last);
  for (msc_op *op = q->f->body->first, *next; op != end; op = next) {
    next = op->next;
    msc_value *v = op->num_out && q->is_term[op->out[0].id] ? &op->out[0] : NULL;
    term_kind kind = v ? kind_of_term(q, v) : TERM_SAME;
    if (kind == TERM_INNER) q->product[v->id] = combine_products(q, &b, op);
    else if (kind == TERM_QUOTIENT) q->product[v->id] = op->kind == OP_div ? op->in[0].value : sum_kept_rows(q, op);
    if (op->kind == OP_div && kind == TERM_QUOTIENT) q->divisor = op->in[1].value;
    MSC_TRY(kind == TERM_SAME || q->product[v->id]);
  }
  b.before = end;
  msc_value *quotient = over(&b, q->product[loss->id], cast(&b, q->divisor, loss->type->dtype));
  MSC_TRY(quotient);
  msc_replace_uses(loss, quotient);
  for (msc_op *op = last, *previous; op; op = previous) {
    previous = op->prev;
    if (op->num_out && op->out[0].id < q->num_values && q->is_term[op->out[0].id] && msc_is_unused(op))
      msc_op_erase(op);
  }
  return true;
}

/* ---- quotients by what all micro-batches have ---- */

/* Builds the sum, or mean, of v over all micro-batches, of which each computes it before the first is computed. */
static msc_value *accumulated_early(quotient_maker *q, msc_builder *b, msc_value *v, bool mean) {
  msc_attr attrs[3] = {msc_fact_count(msc_int(q->micro)), msc_named(q->pass->ctx, "early", msc_bool(true)),
                       msc_named(q->pass->ctx, "mean", msc_bool(true))};
  return with_attrs(b, OP_accumulate, 1, &v, mean ? 3 : 2, attrs);
}

/* Builds the sum, or mean, over all micro-batches of v, which is that over a part of the batch, behind v. */
static msc_value *add_up(quotient_maker *q, msc_value *v, bool mean) {
  if (q->total[v->id]) return q->total[v->id];
  msc_builder b = builder_behind(q, v->def);
  return q->total[v->id] = accumulated_early(q, &b, v, mean);
}

/* Lets op read, for each operand that is a sum or mean of data over the batch, that over all micro-batches. */
static bool read_totals(quotient_maker *q, msc_op *op, size_t first) {
  for (size_t i = first; i < op->num_in; i++) {
    msc_value *v = op->in[i].value;
    msc_batch_meaning m = v->id < q->num_values ? meaning_of(q, v) : MSC_BATCH_SAME;
    if (m != MSC_BATCH_SUM && m != MSC_BATCH_MEAN) continue;
    msc_value *total = add_up(q, v, m == MSC_BATCH_MEAN);
    MSC_TRY(total);
    msc_set_operand(op, i, total);
  }
  return true;
}

/* Builds `above` times the number of micro-batches, in front of `before`. */
static msc_value *times_micro_batches(quotient_maker *q, msc_op *before, msc_value *above) {
  msc_builder b = builder_behind(q, before);
  b.before = before;
  msc_value *one = number(&b, above, 1);
  return one ? times(&b, above, accumulated_early(q, &b, one, false)) : NULL;
}

/* Replaces a mean over kept rows by the sum of their losses, times the number of micro-batches, over the number of rows
 * that are kept in all of them. */
static bool divide_by_all_kept_rows(quotient_maker *q, msc_op *op) {
  q->divisor = NULL;
  msc_value *sum = sum_kept_rows(q, op);
  MSC_TRY(sum);
  const msc_value *counted = q->divisor;
  msc_builder b = builder_behind(q, counted->def);
  msc_value *kept = accumulated_early(q, &b, q->divisor, false);
  msc_value *above = kept ? times_micro_batches(q, b.before, sum) : NULL;
  msc_value *mean = above ? over(&b, above, kept) : NULL;
  MSC_TRY(mean);
  msc_replace_uses(&op->out[0], mean);
  msc_op_erase(op);
  return true;
}

/* Makes each term that is a quotient a mean over the micro-batches, by dividing by what all of them have. */
static bool divide_by_totals(quotient_maker *q) {
  q->total = msc_new_array(q->pass->scratch, msc_value *, q->num_values);
  for (msc_op *op = q->f->body->first, *next; op->next; op = next) {
    next = op->next;
    msc_value *v = op->num_out ? &op->out[0] : NULL;
    if (!v || v->id >= q->num_values) continue;
    if (meaning_of(q, v) == MSC_BATCH_TOTAL) MSC_TRY(read_totals(q, op, 0));
    if (!q->is_term[v->id] || kind_of_term(q, v) != TERM_QUOTIENT) continue;
    if (op->kind != OP_div) {
      MSC_TRY(divide_by_all_kept_rows(q, op));
      continue;
    }
    if (meaning_of(q, op->in[0].value) == MSC_BATCH_SUM) {
      msc_value *above = times_micro_batches(q, op, op->in[0].value);
      MSC_TRY(above);
      msc_set_operand(op, 0, above);
    }
    MSC_TRY(read_totals(q, op, 1));
  }
  return true;
}

bool msc_make_loss_quotient(msc_pass_ctx *pass, msc_func *f, int64_t micro) {
  msc_value *loss = msc_loss_of(f);
  quotient_maker q = {
      .pass = pass, .f = f, .micro = micro, .fact = msc_batch_facts(f, pass->scratch, MSC_BATCH_MARKED)};
  MSC_TRY(loss && q.fact);
  q.num_values = msc_number(f->body).num_values;
  if (!may_be_quotient(pass) || meaning_of(&q, loss) != MSC_BATCH_MIXED) return true;
  if (is_quotient_of_sums(&q, loss->def)) return true;
  q.is_term = msc_new_array(pass->scratch, bool, q.num_values);
  q.product = msc_new_array(pass->scratch, msc_value *, q.num_values);
  mark_terms(&q, loss);
  return have_terms_one_divisor(&q) ? build_quotient(&q, loss) : divide_by_totals(&q);
}

bool msc_is_loss_quotient(msc_pass_ctx *pass, msc_func *f, const msc_batch_fact *fact, size_t num_facts) {
  const msc_value *loss = msc_loss_of(f);
  quotient_maker q = {.pass = pass, .f = f, .fact = fact, .num_values = num_facts};
  if (!loss || !loss->def || loss->id >= num_facts || !may_be_quotient(pass)) return false;
  return is_quotient_of_sums(&q, loss->def);
}

bool msc_build_loss_divisor(msc_pass_ctx *pass, msc_func *f, msc_value **out_divisor) {
  msc_value *loss = msc_loss_of(f);
  quotient_maker q = {.pass = pass, .f = f, .fact = msc_batch_facts(f, pass->scratch, MSC_BATCH_MARKED)};
  *out_divisor = NULL;
  MSC_TRY(loss && q.fact);
  if (!may_be_quotient(pass) || meaning_of(&q, loss) != MSC_BATCH_MIXED) return true;
  q.is_term = msc_new_array(pass->scratch, bool, msc_number(f->body).num_values);
  mark_terms(&q, loss);
  if (!have_terms_one_divisor(&q)) return true;
  msc_builder b = builder_behind(&q, q.first);
  msc_value *divisor = q.first->kind == OP_div ? q.first->in[1].value : NULL;
  if (divisor && meaning_of(&q, divisor) != MSC_BATCH_SUM && meaning_of(&q, divisor) != MSC_BATCH_MEAN) return true;
  *out_divisor = divisor ? divisor : count_kept_rows(&b, q.first);
  return *out_divisor != NULL;
}
