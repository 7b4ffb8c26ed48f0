/* batch.c: finds, for each value of a function, what the batch is to it, from the batch dimensions of the inputs.
 *
 * The function is read as if the batch came in several parts: a value is the same for all parts, has its part of a
 * dimension, or is the mean or the sum over the parts of what each has, or is made of these. A value that mixes samples
 * in another way has no such form. */
#include <math.h>
#include <string.h>

#include "ir/fact.h"
#include "ir/formula.h"
#include "ir/interp/interp.h"
#include "ir/table.h"
#include "passes/2_train/batch.h"
#include "passes/2_train/train.h"
#include "passes/direction.h"

typedef msc_batch_reading reading;

static msc_batch_fact *fact_of(const reading *r, const msc_value *v) { return &r->fact[v->id]; }

msc_batch_fact *msc_batch_of(const msc_batch_reading *r, const msc_value *v) { return fact_of(r, v); }

void msc_batch_add(msc_batch_reading *r, msc_value *v, msc_batch_fact fact) {
  msc_reserve(r->arena, r->fact, r->room, r->num + 1);
  v->id = (uint32_t)r->num;
  r->fact[r->num++] = fact;
}

/* ---- inputs ---- */

int msc_batch_dim(const msc_func *f, size_t arg) {
  const msc_value *v = f->body->args[arg];
  int64_t dim = msc_fact_read(&f->arg[arg], msc_batch_dim, 0);
  return msc_arg_role(f, arg) <= MSC_ROLE_MASK && dim >= 0 && dim < v->type->rank ? (int)dim : -1;
}

bool msc_batch_divides(const msc_func *f, int64_t parts, const char *whose) {
  bool ok = true;
  for (size_t i = 0; i < f->body->num_args; i++) {
    int dim = msc_batch_dim(f, i);
    int64_t n = dim < 0 ? 0 : f->body->args[i]->type->dim[dim];
    if (n % parts)
      ok = msc_error(f->module->ctx, MSC_E_CONFIG, f->loc,
                     "input '%s': its batch of %" PRId64 " samples in dimension %d does not divide among the %" PRId64
                     " %s",
                     msc_name_of_arg(f, i), n, dim, parts, whose);
  }
  return ok;
}

static void read_input_facts(reading *r) {
  for (size_t i = 0; i < r->f->body->num_args; i++) {
    msc_batch_fact *f = fact_of(r, r->f->body->args[i]);
    int dim = msc_batch_dim(r->f, i);
    if (dim >= 0) *f = msc_batch_part(dim, 1);
    f->is_of_data = msc_arg_role(r->f, i) != MSC_ROLE_PARAMETER;
  }
}

/* ---- where the samples are in the letters of a rule ---- */

/* The letter that has the samples of a dimension with *outer runs of them; *outer: the runs along that letter. -1:
 * samples begin or end within one. */
static int letter_of_samples(const msc_rule *rule, const msc_dim_letters *d, int64_t *outer) {
  for (int l = 0; l < d->num; l++) {
    int64_t size = rule->letter[d->letter[l]].size;
    if (*outer > 1 && *outer % size == 0) *outer /= size;
    else return size % *outer == 0 ? d->letter[l] : -1;
  }
  return -1;
}

bool msc_batch_add_letter(msc_batch_letters *b, const msc_rule *rule, size_t tensor, msc_batch_place place) {
  int64_t outer = place.outer;
  int letter = letter_of_samples(rule, &rule->tensor[tensor].dim[place.dim], &outer);
  if (letter < 0 || (b->letters >> letter & 1 && b->outer[letter] != outer)) return false;
  b->letters |= 1u << letter;
  b->outer[letter] = outer;
  return true;
}

msc_batch_place msc_batch_place_of(const msc_batch_letters *b, const msc_rule *rule, size_t tensor, int from) {
  const msc_tensor_letters *t = &rule->tensor[tensor];
  for (int d = from; d < t->rank; d++) {
    int64_t before = 1;
    for (int l = 0; l < t->dim[d].num; l++) {
      int letter = t->dim[d].letter[l];
      if (b->letters >> letter & 1) return (msc_batch_place){d, before * b->outer[letter]};
      before *= rule->letter[letter].size;
    }
  }
  return (msc_batch_place){-1, 1};
}

/* True if the parts of an op along this letter are ops on the parts of its operands. */
static bool is_letter_free(const msc_letter *l) { return l->role == MSC_PAR && !l->expands && !l->halo; }

/* ---- values that are the same for all samples ---- */

/* True if all slices of a constant along the batch at a place are equal. */
static bool is_constant_repeated(const msc_op *constant, msc_batch_place place) {
  const msc_attr_value *v = msc_op_attr(constant, "value");
  const msc_type *t = constant->out[0].type;
  size_t slice = (size_t)msc_dtype_bytes(t->dtype), runs = (size_t)place.outer;
  int64_t num = t->dim[place.dim] / place.outer;
  if (v->dense.bytes == slice) return true;
  for (int d = 0; d < place.dim; d++) runs *= (size_t)t->dim[d];
  for (int d = place.dim + 1; d < t->rank; d++) slice *= (size_t)t->dim[d];
  const char *data = v->dense.data;
  for (size_t o = 0; o < runs; o++, data += slice * (size_t)num)
    for (int64_t i = 1; i < num; i++)
      if (memcmp(data, data + slice * (size_t)i, slice)) return false;
  return true;
}

/* True for ops of which msc_batch_sources knows that a result with a letter that no operand has is alike along it. */
static bool repeats_operands(const msc_op *op) {
  return msc_form_of(op) == MSC_FORM_STRETCH || msc_form_of(op) == MSC_FORM_ELEMENTWISE || op->kind == OP_tile;
}

/* True for ops of which each part of a result along a free letter depends only on that part of the operands. A random
 * op is one of them: it draws for every sample anew, so any part of its numbers can stand for another. */
static bool is_looked_through(const msc_op *op) {
  switch (msc_form_of(op)) {
    case MSC_FORM_ELEMENTWISE:
    case MSC_FORM_STRETCH:
    case MSC_FORM_RESHAPE:
    case MSC_FORM_MOVE:
    case MSC_FORM_PRODUCT:
    case MSC_FORM_REDUCE:
    case MSC_FORM_ROWS: return true;
    default:
      return op->kind == OP_gather || op->kind == OP_einsum || op->kind == OP_conv2d ||
             msc_info(op)->flags & MSC_RANDOM;
  }
}

bool msc_batch_sources(const msc_value *v, msc_batch_place place, msc_arena *arena, msc_batch_place *out_operand) {
  const msc_op *op = v->def;
  msc_rule rule;
  msc_batch_letters b = {0};
  bool any = false;
  if (!op->num_in || !is_looked_through(op) || !msc_rule_of(op, arena, &rule) ||
      !msc_batch_add_letter(&b, &rule, op->num_in + v->index, place) ||
      !is_letter_free(&rule.letter[__builtin_ctz(b.letters)]))
    return false;
  for (size_t i = 0; i < op->num_in; i++) {
    out_operand[i] = msc_batch_place_of(&b, &rule, i, 0);
    any |= out_operand[i].dim >= 0;
    if (out_operand[i].dim >= 0 && msc_batch_place_of(&b, &rule, i, out_operand[i].dim + 1).dim >= 0) return false;
  }
  return any || repeats_operands(op);
}

/* steps: how many ops to follow back. */
static bool is_uniform_within(const msc_value *v, msc_batch_place place, int steps, msc_arena *arena) {
  const msc_op *op = v->def;
  if (!op || !steps) return false;
  if (msc_is_constant_op(op)) return is_constant_repeated(op, place);
  msc_batch_place *from = msc_new_array(arena, msc_batch_place, op->num_in + 1);
  if (!msc_batch_sources(v, place, arena, from)) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (from[i].dim >= 0 && !is_uniform_within(op->in[i].value, from[i], steps - 1, arena)) return false;
  return true;
}

bool msc_batch_is_uniform(const msc_value *v, msc_batch_place place) {
  if (!v->def) return false;
  msc_arena *arena = msc_arena_new(msc_op_ctx(v->def));
  bool is = is_uniform_within(v, place, 12, arena);
  msc_arena_free(arena);
  return is;
}

/* ---- an op that sees samples ---- */

/* Finds the letters of the rule that the batch is cut along, from each operand with a batch dimension. False: the op
 * mixes samples. */
static bool find_batch_letters(const reading *r, const msc_op *op, const msc_rule *rule, msc_batch_letters *b) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_batch_fact *f = fact_of(r, op->in[i].value);
    if (f->meaning == MSC_BATCH_SAME) continue;
    if (f->meaning != MSC_BATCH_PART || !msc_batch_add_letter(b, rule, i, (msc_batch_place){f->dim, f->outer}))
      return false;
  }
  return true;
}

/* True if v is 0, 1 .. n - 1 along dimension 0, of size n, and equal along all other dimensions. */
static bool is_sample_number(const msc_value *v, int64_t n) {
  const msc_op *op = v->def;
  while (op &&
         (op->kind == OP_broadcast_to || op->kind == OP_cast || op->kind == OP_reshape || op->kind == OP_expand_dims)) {
    const msc_value *x = op->in[0].value;
    if (v->type->rank == 0 || x->type->rank == 0 || x->type->dim[0] != n ||
        (op->kind == OP_broadcast_to && x->type->rank != v->type->rank))
      return false;
    v = x, op = v->def;
  }
  if (!op || v->type->rank == 0 || v->type->dim[0] != n) return false;
  if (op->kind == OP_iota) return msc_op_int(op, "dim") == 0;
  if (!msc_is_constant_op(op) || msc_type_elems(v->type) != n || msc_is_float(v->type->dtype)) return false;
  const msc_attr_value *c = msc_op_attr(op, "value");
  size_t size = (size_t)msc_dtype_bytes(v->type->dtype);
  for (int64_t i = 0; i < n && c->dense.bytes == size * (size_t)n; i++)
    if (memcmp((const char *)c->dense.data + size * (size_t)i, &i, size)) return false; /* little-endian */
  return c->dense.bytes == size * (size_t)n;
}

/* True for a gather_nd whose first index is the number of the sample itself: every sample reads its own. */
static bool reads_own_sample(const reading *r, const msc_op *op) {
  /* in the view MSC_BATCH_MARKED constants are cut to a part, so the numbers would be wrong */
  if (op->kind != OP_gather_nd || r->view == MSC_BATCH_MARKED) return false;
  const msc_value *x = op->in[0].value, *indices = op->in[1].value;
  const msc_batch_fact *f = fact_of(r, x);
  bool stacks = indices->def && indices->def->kind == OP_stack;
  bool joined = stacks || (indices->def && indices->def->kind == OP_concat);
  if (f->meaning != MSC_BATCH_PART || f->dim != 0 || f->outer != 1 || fact_of(r, indices)->meaning != MSC_BATCH_SAME ||
      !joined)
    return false;
  const msc_value *first = indices->def->in[0].value;
  int64_t dim = msc_op_int(indices->def, stacks ? "axis" : "dim");
  bool last = dim % indices->type->rank == (dim < 0 ? -1 : indices->type->rank - 1);
  return last && indices->type->rank > 1 && (stacks || first->type->dim[first->type->rank - 1] == 1) &&
         is_sample_number(first, x->type->dim[0]);
}

/* True if operands that are no part of the batch do not extend along its letters, or are uniform along them, so that
 * any part serves. */
static bool are_other_operands_uniform(const reading *r, const msc_op *op, const msc_rule *rule,
                                       const msc_batch_letters *b) {
  if (r->view == MSC_BATCH_ANYHOW) return true;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_batch_fact *f = fact_of(r, op->in[i].value);
    msc_batch_place at = msc_batch_place_of(b, rule, i, 0);
    for (; at.dim >= 0; at = msc_batch_place_of(b, rule, i, at.dim + 1)) {
      if (f->meaning == MSC_BATCH_PART && at.dim == f->dim) continue;
      if (f->meaning == MSC_BATCH_PART || !msc_batch_is_uniform(op->in[i].value, at)) return false;
    }
  }
  return true;
}

/* How op combines the samples when a batch letter is missing in its result. */
static msc_batch_meaning batch_reduction_of(const msc_op *op, const msc_letter *letter) {
  if (letter->role != MSC_RED || letter->reduction != MSC_SUM) return MSC_BATCH_MIXED;
  return msc_takes_mean(op) ? MSC_BATCH_MEAN : MSC_BATCH_SUM;
}

/* True if indices name elements along this letter: they count all samples. */
static bool is_indexed_letter(const msc_op *op, const msc_letter *letter) {
  return msc_info(op)->flags & MSC_CHECKED && letter->name == 'v';
}

/* True for a mean over the rows that are kept, in the view of all samples: it divides by their number in the whole
 * batch, which parts seen one after the other do not know. */
static bool is_mean_of_kept(const reading *r, const msc_op *op, const msc_letter *letter) {
  return r->view == MSC_BATCH_WHOLE && msc_takes_mean(op) && msc_counts_kept_rows(op) && letter->name != 'c';
}

static msc_batch_fact fact_at(msc_batch_place at) {
  return at.dim < 0 ? (msc_batch_fact){.meaning = MSC_BATCH_SAME} : msc_batch_part(at.dim, at.outer);
}

static msc_batch_fact fact_of_result(const reading *r, const msc_op *op, const msc_rule *rule, size_t tensor,
                                     const msc_batch_letters *b) {
  const msc_batch_fact mixed = {.meaning = MSC_BATCH_MIXED, .mixer = op};
  msc_batch_place at = msc_batch_place_of(b, rule, tensor, 0);
  msc_batch_fact f = fact_at(at);
  const msc_batch_fact pairs = {.meaning = MSC_BATCH_TOTAL, .mixer = op};
  if (at.dim >= 0 && msc_batch_place_of(b, rule, tensor, at.dim + 1).dim >= 0)
    return r->view == MSC_BATCH_WHOLE ? pairs : mixed;
  for (int i = 0; i < rule->num_letters; i++) {
    if (!(b->letters >> i & 1)) continue;
    if (is_mean_of_kept(r, op, &rule->letter[i])) {
      f.meaning = MSC_BATCH_MEAN;
      continue;
    }
    if (rule->letter[i].role == MSC_REP || rule->letter[i].expands || rule->letter[i].halo ||
        is_indexed_letter(op, &rule->letter[i]))
      return mixed;
    const msc_batch_letters own = {.letters = 1u << i};
    if (msc_batch_place_of(&own, rule, tensor, 0).dim >= 0) continue;
    msc_batch_meaning m = batch_reduction_of(op, &rule->letter[i]);
    if (f.meaning != MSC_BATCH_SAME || m == MSC_BATCH_MIXED) return mixed;
    f.meaning = (uint8_t)m;
  }
  return f;
}

/* ---- an op that sees means and sums over the batch ---- */

/* True for a sum over the batch divided by another one, or a mean by another one, in the view of all samples: that is a
 * mean over the batch with weights, as of a loss with class weights, and no part of it knows the divisor. */
static bool is_weighted_mean(const reading *r, const msc_op *op) {
  if (r->view != MSC_BATCH_WHOLE || op->kind != OP_div || !msc_is_float(op->out[0].type->dtype)) return false;
  uint8_t above = fact_of(r, op->in[0].value)->meaning, below = fact_of(r, op->in[1].value)->meaning;
  return above == below && (above == MSC_BATCH_SUM || above == MSC_BATCH_MEAN);
}

/* Returns the number that all elements of v are equal to; 0: there is none. */
static double number_of(const msc_value *v) {
  const msc_attr_value *c = msc_constant_elements(v);
  if (!c || c->dense.bytes != (size_t)msc_dtype_bytes(v->type->dtype)) return 0;
  msc_tensor t = {.type = v->type, .data = (void *)(uintptr_t)c->dense.data};
  return msc_tensor_get(&t, 0);
}

/* The operand, with samples, of the op that made the sum v of them; NULL: there are several, or none. */
static const msc_value *summed_samples(const reading *r, const msc_value *v) {
  while (v->def) {
    const msc_value *from = NULL;
    for (size_t i = 0; i < v->def->num_in; i++) {
      const msc_value *x = v->def->in[i].value;
      msc_batch_meaning m = (msc_batch_meaning)fact_of(r, x)->meaning;
      if (m == MSC_BATCH_PART) return x;
      if (m == MSC_BATCH_SUM && !from) from = x;
    }
    if (!from) return NULL;
    v = from;
  }
  return NULL;
}

/* True if q is a product of some of these numbers. */
static bool is_product_of_some(double q, int num, const int64_t *number) {
  for (unsigned mask = 0; mask < 1u << num; mask++) {
    double product = 1;
    for (int i = 0; i < num; i++)
      if (mask >> i & 1) product *= (double)number[i];
    if (fabs(q - product) <= 1e-6 * product) return true;
  }
  return false;
}

/* True if by dividing a sum over x by this number one takes the mean over the samples, perhaps over other dimensions
 * of x too. */
static bool is_number_of_samples(const reading *r, const msc_value *x, double number) {
  const msc_batch_fact *at = fact_of(r, x);
  const msc_attr_value *micro = msc_func_attr(r->f, MSC_FACT(micro)); /* of so many micro-batches f sees one */
  for (size_t i = 0; i < r->f->body->num_args; i++) {
    int dim = msc_batch_dim(r->f, i), num = 0;
    int64_t n = dim < 0 ? 0 : r->f->body->args[i]->type->dim[dim], others[MSC_MAX_RANK + 1];
    if (n <= 0 || x->type->dim[at->dim] / at->outer % n) continue;
    for (int d = 0; d < x->type->rank; d++)
      if (d != at->dim) others[num++] = x->type->dim[d];
    others[num++] = x->type->dim[at->dim] / n;
    if (is_product_of_some(number / (double)n / (micro ? (double)micro->i : 1), num, others)) return true;
  }
  return false;
}

bool msc_batch_divides_sum(const msc_batch_reading *r, const msc_op *op) {
  if (r->view != MSC_BATCH_WHOLE || (op->kind != OP_div && op->kind != OP_mul)) return false;
  int at = op->kind == OP_mul && fact_of(r, op->in[0].value)->meaning != MSC_BATCH_SUM;
  double number = number_of(op->in[!at].value);
  const msc_value *sum = op->in[at].value;
  if (fact_of(r, sum)->meaning != MSC_BATCH_SUM || number <= 0 || !msc_is_float(sum->type->dtype)) return false;
  const msc_value *x = summed_samples(r, sum);
  return x && is_number_of_samples(r, x, op->kind == OP_mul ? 1 / number : number);
}

/* True for a cast of whole numbers to floats that hold them exactly: a count stays one. */
static bool is_cast_of_count(const msc_op *op) {
  return op->kind == OP_cast && !msc_is_float(op->in[0].value->type->dtype) &&
         msc_is_float(op->out[0].type->dtype) && msc_dtype_bytes(op->out[0].type->dtype) >= 4;
}

bool msc_batch_is_total(const msc_batch_fact *f) {
  return f->is_of_data &&
         (f->meaning == MSC_BATCH_MEAN || f->meaning == MSC_BATCH_SUM || f->meaning == MSC_BATCH_TOTAL);
}

/* True for a product with, or quotient by, what the whole batch has of data, of what depends on a parameter. */
static bool is_scaled_by_total(const reading *r, const msc_op *op) {
  if (op->kind != OP_mul && op->kind != OP_div) return false;
  int total = !(op->kind == OP_mul && msc_batch_is_total(fact_of(r, op->in[0].value)));
  return msc_batch_is_total(fact_of(r, op->in[total].value)) && !fact_of(r, op->in[!total].value)->is_of_data;
}

/* The meaning of the result of an op without samples. An op that is linear in one operand keeps the meaning of that
 * operand if the others are the same for all parts. An op that is linear in all operands together, as add, makes a
 * sum of sums. From sums beside means, or beside values that are the same for all parts, it makes a mean, once
 * msc_batch_make_means has turned the sums into means too. */
static msc_batch_meaning combine_linear_operands(const reading *r, const msc_op *op, const msc_rule *rule) {
  unsigned linear = 0; /* meanings of the operands in which op is linear, a bit each */
  int num = 0;         /* operands that are not the same for all parts */
  if (is_cast_of_count(op)) return (msc_batch_meaning)fact_of(r, op->in[0].value)->meaning;
  if (!rule->linear) return MSC_BATCH_MIXED;
  for (size_t i = 0; i < op->num_in; i++) {
    msc_batch_meaning m = (msc_batch_meaning)fact_of(r, op->in[i].value)->meaning;
    bool is_linear = i < 32 && rule->linear_in >> i & 1;
    if (m == MSC_BATCH_TOTAL) m = r->view == MSC_BATCH_WHOLE ? MSC_BATCH_MEAN : MSC_BATCH_MIXED;
    if (is_linear) linear |= 1u << m;
    if (m == MSC_BATCH_SAME) continue;
    if (!is_linear || m == MSC_BATCH_MIXED) return MSC_BATCH_MIXED;
    num++;
  }
  if (!rule->joint && num != 1) return MSC_BATCH_MIXED;
  bool has_sum = linear >> MSC_BATCH_SUM & 1, has_others = linear & (1u << MSC_BATCH_SAME | 1u << MSC_BATCH_MEAN);
  if (!has_sum) return MSC_BATCH_MEAN;
  if (!rule->joint || !has_others) return MSC_BATCH_SUM;
  return msc_is_float(op->out[0].type->dtype) ? MSC_BATCH_MEAN : MSC_BATCH_MIXED;
}

/* True for a sum over the micro-batches times their number, which is an early sum of 1: the mean over the
 * micro-batches of what the product is in each. */
static bool is_sum_times_parts(const reading *r, const msc_op *op) {
  if (r->view != MSC_BATCH_MARKED || op->kind != OP_mul) return false;
  const msc_op *parts = op->in[1].value->def;
  return msc_is_early_sum(parts) && number_of(parts->in[0].value) == 1 &&
         fact_of(r, op->in[0].value)->meaning == MSC_BATCH_SUM;
}

/* The meaning of the result of an op without samples; `present`: the meanings of its operands, a bit each. */
static msc_batch_meaning combine_operands(const reading *r, const msc_op *op, const msc_rule *rule, unsigned present,
                                          bool is_of_data) {
  if (is_weighted_mean(r, op) || msc_batch_divides_sum(r, op) || is_sum_times_parts(r, op)) return MSC_BATCH_MEAN;
  msc_batch_meaning m = combine_linear_operands(r, op, rule);
  bool adds_to_sum = present >> MSC_BATCH_SUM & 1 && m == MSC_BATCH_MEAN, has_total = present >> MSC_BATCH_TOTAL & 1;
  if (is_of_data) return m == MSC_BATCH_MIXED || adds_to_sum || has_total ? MSC_BATCH_TOTAL : m;
  if (r->view != MSC_BATCH_WHOLE || adds_to_sum) return m;
  return has_total || (m == MSC_BATCH_MIXED && is_scaled_by_total(r, op)) ? MSC_BATCH_TOTAL : m;
}

/* The meaning of the result of an op that mixes samples in an unknown way, or sees those that do. With a total of the
 * whole batch among its operands it makes one, in the view of all samples. */
static msc_batch_meaning meaning_of_mixture(const reading *r, const msc_op *op, unsigned present) {
  if (r->view != MSC_BATCH_WHOLE || present >> MSC_BATCH_MIXED & 1) return MSC_BATCH_MIXED;
  return present >> MSC_BATCH_TOTAL & 1 || is_scaled_by_total(r, op) ? MSC_BATCH_TOTAL : MSC_BATCH_MIXED;
}

/* True if operand is a sum that op uses as a mean. A weighted mean divides a sum by a sum, both as they are; a sum that
 * is divided by the number of samples, also by a product with its inverse, is a mean already. */
static bool is_sum_among_means(const msc_batch_fact *fact, size_t num_facts, const msc_op *op,
                               const msc_value *operand) {
  return op->num_out == 1 && op->kind != OP_div && op->kind != OP_mul && op->out[0].id < num_facts &&
         operand->id < num_facts && fact[op->out[0].id].meaning == MSC_BATCH_MEAN &&
         fact[operand->id].meaning == MSC_BATCH_SUM;
}

bool msc_batch_make_means(const msc_batch_fact *fact, msc_func *f, double factor) {
  size_t num_facts = msc_number(f->body).num_values;
  for (msc_op *op = f->body->first; op->next; op = op->next)
    for (size_t i = 0; i < op->num_in; i++) {
      msc_value *v = op->in[i].value;
      if (!is_sum_among_means(fact, num_facts, op, v)) continue;
      msc_builder b = {.func = f, .block = f->body, .before = op, .loc = op->loc, .name = op->name};
      msc_value *mean = scale_by(&b, v, factor);
      MSC_TRY(mean);
      mean->id = mean->def->in[1].value->id = UINT32_MAX; /* the new values have no facts */
      msc_set_operand(op, i, mean);
    }
  return true;
}

/* ---- the walk ---- */

/* The op that mixes samples: that of the first mixed operand, or op itself. */
static const msc_op *find_mixer(const reading *r, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (fact_of(r, op->in[i].value)->mixer) return fact_of(r, op->in[i].value)->mixer;
  return op;
}

bool msc_sees_part(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(cross_batch));
  return v && ((v->kind == MSC_ATTR_BOOL && v->b) || (v->kind == MSC_ATTR_INT && v->i));
}

/* True for a batch_norm with given statistics: it sees every sample by itself. */
static bool has_fixed_statistics(const msc_op *op) { return op->kind == OP_batch_norm && !msc_op_bool(op, "training"); }

/* True if op sees one part alone (or no statistics): results with a batch dimension are of that part, others count
 * as the same for all parts. */
static bool sees_part_alone(const reading *r, const msc_op *op) {
  if (has_fixed_statistics(op)) return true;
  if (r->view != MSC_BATCH_MARKED) return r->view == MSC_BATCH_ANYHOW;
  return msc_sees_part(op) || (op->kind == OP_batch_norm && msc_op_bool(op, "training"));
}

/* Sets the meanings of the results of op; is_of_data: no operand depends on a parameter. */
static bool read_meanings(reading *r, const msc_op *op, bool is_of_data, msc_arena *arena) {
  msc_rule rule;
  msc_batch_letters b = {0};
  unsigned present = 0;
  for (size_t i = 0; i < op->num_in; i++) present |= 1u << fact_of(r, op->in[i].value)->meaning;
  if (!(present & ~(1u << MSC_BATCH_SAME))) return true;
  if (msc_is_early_sum(op) && r->view == MSC_BATCH_MARKED) return true;
  if (reads_own_sample(r, op)) {
    *fact_of(r, &op->out[0]) = msc_batch_part(0, 1);
    return true;
  }
  MSC_TRY(msc_rule_of(op, arena, &rule));
  bool mixed = present >> MSC_BATCH_MIXED & 1;
  if (!mixed && present >> MSC_BATCH_PART & 1)
    mixed = !find_batch_letters(r, op, &rule, &b) || !are_other_operands_uniform(r, op, &rule, &b);
  for (size_t i = 0; i < op->num_out; i++) {
    msc_batch_fact *f = fact_of(r, &op->out[i]);
    if (mixed) f->meaning = (uint8_t)meaning_of_mixture(r, op, present);
    else if (sees_part_alone(r, op)) *f = fact_at(msc_batch_place_of(&b, &rule, op->num_in + i, 0));
    else if (present >> MSC_BATCH_PART & 1) *f = fact_of_result(r, op, &rule, op->num_in + i, &b);
    else f->meaning = (uint8_t)combine_operands(r, op, &rule, present, is_of_data);
    if (f->meaning == MSC_BATCH_MIXED || f->meaning == MSC_BATCH_TOTAL) f->mixer = find_mixer(r, op);
  }
  return true;
}

static bool read_batch_op(reading *r, const msc_op *op, msc_arena *arena) {
  bool is_of_data = true;
  for (size_t i = 0; i < op->num_in; i++) is_of_data &= fact_of(r, op->in[i].value)->is_of_data;
  MSC_TRY(read_meanings(r, op, is_of_data, arena));
  for (size_t i = 0; i < op->num_out; i++) fact_of(r, &op->out[i])->is_of_data = is_of_data;
  return true;
}

void msc_batch_begin(msc_batch_reading *r, msc_func *f, msc_arena *arena, msc_batch_view view) {
  *r = (msc_batch_reading){.f = f, .arena = arena, .view = view};
  r->num = r->room = msc_number(f->body).num_values;
  r->fact = msc_new_array(arena, msc_batch_fact, r->num + 1);
  read_input_facts(r);
}

bool msc_batch_read(msc_batch_reading *r, const msc_op *op) {
  msc_arena *rules = msc_arena_new(r->f->module->ctx);
  bool ok = read_batch_op(r, op, rules);
  msc_arena_free(rules);
  return ok;
}

const msc_batch_fact *msc_batch_facts(msc_func *f, msc_arena *arena, msc_batch_view view) {
  msc_batch_reading r;
  msc_batch_begin(&r, f, arena, view);
  for (const msc_op *op = f->body->first; op->next; op = op->next)
    if (!msc_batch_read(&r, op)) return NULL;
  return r.fact;
}
