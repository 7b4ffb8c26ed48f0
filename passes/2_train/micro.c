/* micro: func "forward" over a whole batch, with micro_size = k -> the same over one of the k micro-batches of a step.
 *
 * From here on the attribute `micro = k` says so; 4_partition adds the sums over micro-batches. Every dimension that is
 * the batch becomes a k-th of it. A loss that is a mean over the batch is the mean of the losses of the micro-batches:
 * the gradient of the loss, attribute `loss_seed`, is 1/k, and `micro_mean` is set. A loss that is a sum is the sum of
 * theirs. In a loss that adds both, the sums get the factor k, which makes them means. micro_batch_interleaved = n
 * makes n times as many micro-batches. A loss that is a quotient of two sums (loss_quotient.c) is marked
 * `micro_quotient`: both are added up before one is divided by the other. If the divisor is made of sums otherwise than
 * linearly, as max(1, sum), an op accumulate adds each of them up before. A new argument of the role `micro` is the
 * number of the micro-batch in its step. batch_norm, and ops marked cross_batch, take their statistics from one
 * micro-batch; other ops that mix samples are refused. */
#include <string.h>

#include "ir/formula.h"
#include "passes/2_train/batch.h"
#include "passes/2_train/train.h"
#include "passes/config/config.h"
#include "passes/pass.h"

/* A value for a whole batch, and that for a micro-batch, which all later users share. */
typedef struct {
  const msc_value *whole;
  msc_batch_place at;
  msc_value *part;
} shorter_value;

/* For one operand: how many runs of samples each of its dimensions has; 0: the dimension has no samples. */
typedef struct {
  int64_t outer[MSC_MAX_RANK];
} uniform_operand;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  int64_t k;
  const char *keys;           /* the configuration keys that ask for micro-batches, for messages */
  const msc_batch_fact *fact; /* by value id */
  size_t num_facts;
  uniform_operand *others; /* see mark_uniform_operands */
  size_t num_shorter;
  shorter_value *shorter;
} batch_shortener;

static bool has_batch(const batch_shortener *s, const msc_value *v) {
  return v->id < s->num_facts && s->fact[v->id].meaning == MSC_BATCH_PART;
}

static const msc_type *part_type(const batch_shortener *s, const msc_type *t, int dim) {
  msc_type part = *t;
  part.dim[dim] /= s->k;
  return msc_type_of(s->pass->ctx, t->dtype, t->rank, part.dim, NULL);
}

static void set_shape_attr(msc_op *op, const char *attr, const msc_type *t) {
  msc_op_set(op, attr, msc_ints(msc_op_ctx(op), (size_t)t->rank, t->dim));
}

/* ---- values that are as large as the batch, and uniform along it ---- */

/* Returns the first of k parts of each run of samples of a constant, with type t. A constant that stores one element
 * for all is not cut. */
static msc_attr_value first_part_of_constant(const batch_shortener *s, const msc_op *constant, const msc_type *t,
                                             msc_batch_place at) {
  msc_attr_value v = *msc_op_attr(constant, "value");
  const msc_type *whole = v.dense.type;
  size_t bytes = (size_t)msc_dtype_bytes(t->dtype), outer = (size_t)at.outer;
  const char *data = v.dense.data;
  v.dense.type = t;
  if (v.dense.bytes == bytes) return v;
  for (int d = 0; d < at.dim; d++) outer *= (size_t)t->dim[d];
  for (int d = at.dim + 1; d < t->rank; d++) bytes *= (size_t)t->dim[d];
  size_t whole_bytes = bytes * (size_t)(whole->dim[at.dim] / at.outer);
  bytes *= (size_t)(t->dim[at.dim] / at.outer);
  char *part = msc_arena_alloc(msc_context_arena(s->pass->ctx), outer * bytes + 1);
  for (size_t o = 0; o < outer; o++) memcpy(part + o * bytes, data + o * whole_bytes, bytes);
  v.dense.data = part, v.dense.bytes = outer * bytes;
  return v;
}

static msc_value *find_shorter(const batch_shortener *s, const msc_value *v, msc_batch_place at) {
  for (size_t i = 0; i < s->num_shorter; i++)
    if (s->shorter[i].whole == v && s->shorter[i].at.dim == at.dim && s->shorter[i].at.outer == at.outer)
      return s->shorter[i].part;
  return NULL;
}

/* Records the result of `made` that stands for v. */
static msc_value *record_shorter(batch_shortener *s, const msc_value *v, msc_batch_place at, msc_op *made) {
  if (!made) return NULL;
  for (size_t i = 0; i < made->num_out; i++) made->out[i].id = UINT32_MAX; /* the new values have no facts */
  msc_grow(s->pass->scratch, s->shorter, s->num_shorter);
  s->shorter[s->num_shorter++] = (shorter_value){v, at, &made->out[v->index]};
  return &made->out[v->index];
}

/* Gives attributes that repeat sizes those of the operands and results that op has now. */
static void refresh_sizes(const batch_shortener *s, msc_op *op, const msc_type *result, int dim) {
  int64_t size[MSC_MAX_RANK];
  if (msc_find_attr(op->attrs, op->num_attrs, MSC_FACT(shape))) set_shape_attr(op, MSC_FACT(shape), result);
  if (op->kind == OP_slice) {
    int num = msc_op_ints(op, "limit", size, MSC_MAX_RANK);
    size[dim] = op->in[0].value->type->dim[dim];
    msc_op_set(op, "limit", msc_ints(s->pass->ctx, (size_t)num, size));
  }
  if (op->kind == OP_tile) {
    int num = msc_op_ints(op, "repeats", size, MSC_MAX_RANK);
    size[dim] = result->dim[dim] / op->in[0].value->type->dim[dim];
    msc_op_set(op, "repeats", msc_ints(s->pass->ctx, (size_t)num, size));
  }
}

static bool report_cut_samples(const batch_shortener *s, const msc_op *op, int64_t size) {
  return msc_op_error(op, MSC_E_UNSUPPORTED,
                      "%s: it divides the samples of the batch into groups of which one dimension has %" PRId64
                      ", which micro-batches (%s) do not divide",
                      msc_kind_name(op->kind), size, s->keys);
}

/* Builds a k-th of v along the batch at a place of it, before `user`, from the ops that msc_batch_is_uniform looks
 * through. */
static msc_value *build_shorter(batch_shortener *s, msc_op *user, msc_value *v, msc_batch_place at) {
  const msc_op *op = v->def;
  msc_value *known = find_shorter(s, v, at);
  if (known) return known;
  if (v->type->dim[at.dim] / at.outer % s->k) {
    report_cut_samples(s, op, v->type->dim[at.dim] / at.outer);
    return NULL;
  }
  const msc_type *t = part_type(s, v->type, at.dim);
  msc_builder b = {.func = s->f, .block = s->f->body, .before = user, .loc = op->loc, .name = op->name};
  if (msc_is_constant_op(op)) {
    msc_attr a = msc_named(s->pass->ctx, "value", first_part_of_constant(s, op, t, at));
    return record_shorter(s, v, at, msc_build_with(&b, op->kind, 0, NULL, 1, 1, &a));
  }
  msc_value **in = msc_new_array(s->pass->scratch, msc_value *, op->num_in + 1);
  msc_batch_place *from = msc_new_array(s->pass->scratch, msc_batch_place, op->num_in + 1);
  if (!msc_batch_sources(v, at, s->pass->scratch, from)) return NULL;
  for (size_t i = 0; i < op->num_in; i++) {
    in[i] = from[i].dim >= 0 ? build_shorter(s, user, op->in[i].value, from[i]) : op->in[i].value;
    if (!in[i]) return NULL;
  }
  msc_op *made = msc_op_copy(s->f, op, in);
  refresh_sizes(s, made, t, at.dim);
  msc_insert_before(user, made);
  return msc_infer(made) ? record_shorter(s, v, at, made) : NULL;
}

/* ---- one op ---- */

/* The letters that the batch is cut along, from the operands with a batch dimension. */
static msc_batch_letters batch_letters_of(const batch_shortener *s, const msc_op *op, const msc_rule *rule) {
  msc_batch_letters b = {0};
  for (size_t i = 0; i < op->num_in; i++) {
    if (!has_batch(s, op->in[i].value)) continue;
    const msc_batch_fact *f = &s->fact[op->in[i].value->id];
    msc_batch_add_letter(&b, rule, i, (msc_batch_place){f->dim, f->outer});
  }
  return b;
}

static size_t num_operands(const msc_func *f) {
  size_t num = 0;
  for (const msc_op *op = f->body->first; op; op = op->next) num += op->num_in;
  return num;
}

/* Finds, for every operand without a batch dimension, where the batch of the other operands is in it, in the order of
 * ops and operands. */
static bool mark_uniform_operands(batch_shortener *s) {
  uniform_operand *own = s->others;
  for (const msc_op *op = s->f->body->first; op->next; own += op->num_in, op = op->next) {
    msc_rule rule;
    msc_arena *rules = msc_arena_new(s->pass->ctx);
    bool ok = msc_rule_of(op, rules, &rule);
    msc_batch_letters letters = {0};
    if (ok) letters = batch_letters_of(s, op, &rule);
    for (size_t i = 0; i < op->num_in && letters.letters; i++) {
      if (has_batch(s, op->in[i].value)) continue;
      msc_batch_place at = msc_batch_place_of(&letters, &rule, i, 0);
      for (; at.dim >= 0; at = msc_batch_place_of(&letters, &rule, i, at.dim + 1)) own[i].outer[at.dim] = at.outer;
    }
    msc_arena_free(rules);
    MSC_TRY(ok);
  }
  return true;
}

static bool shorten_others(batch_shortener *s, msc_op *op, const uniform_operand *own) {
  for (size_t i = 0; i < op->num_in; i++)
    for (int d = 0; d < MSC_MAX_RANK; d++) {
      if (!own[i].outer[d]) continue;
      msc_value *part = build_shorter(s, op, op->in[i].value, (msc_batch_place){d, own[i].outer[d]});
      MSC_TRY(part);
      msc_set_operand(op, i, part);
    }
  return true;
}

/* Updates attributes that repeat sizes of an operand or result. */
static void shorten_attrs(const batch_shortener *s, msc_op *op) {
  if (!op->num_out || !has_batch(s, &op->out[0])) return;
  int dim = s->fact[op->out[0].id].dim;
  refresh_sizes(s, op, part_type(s, op->out[0].type, dim), dim);
}

static bool sees_batch(const batch_shortener *s, const msc_op *op) {
  bool any = false;
  for (size_t i = 0; i < op->num_in; i++) any |= has_batch(s, op->in[i].value);
  return any;
}

/* ---- the function ---- */

static bool report_mixed_batch(const msc_op *mixer, const char *keys) {
  return msc_op_error(mixer, MSC_E_UNSUPPORTED,
                      "%s: mixes samples of the batch, which micro-batches (%s) do not see together; mark it "
                      "cross_batch to have it see one micro-batch",
                      msc_kind_name(mixer->kind), keys);
}

static bool check_divides(msc_pass_ctx *pass, const msc_func *f, int64_t k, const char *keys) {
  return msc_batch_divides(f, k, msc_arena_printf(pass->scratch, "micro-batches of %s", keys));
}

/* Checks that a dimension which has some of the samples, as 4 in [8] reshaped to [4,2], divides too. */
static bool check_groups_divide(const batch_shortener *s) {
  for (const msc_op *op = s->f->body->first; op; op = op->next)
    for (size_t i = 0; i < op->num_out; i++) {
      const msc_batch_fact *f = &s->fact[op->out[i].id];
      int64_t size = f->meaning == MSC_BATCH_PART ? op->out[i].type->dim[f->dim] / f->outer : 0;
      if (size % s->k) return report_cut_samples(s, op, size);
    }
  return true;
}

/* True if op makes a total of totals, or the loss by dividing by one. */
static bool makes_total(const batch_shortener *s, const msc_op *op, const msc_value *loss) {
  return op->num_out && (s->fact[op->out[0].id].meaning == MSC_BATCH_TOTAL || &op->out[0] == loss);
}

static bool check_batch_divides(const batch_shortener *s) {
  bool ok = check_divides(s->pass, s->f, s->k, s->keys);
  if (ok) ok = check_groups_divide(s);
  bool *is_reported = msc_new_array(s->pass->scratch, bool, msc_number(s->f->body).num_ops);
  const msc_value *loss = msc_is_loss_quotient(s->pass, s->f, s->fact, s->num_facts) ? msc_loss_of(s->f) : NULL;
  for (const msc_op *op = s->f->body->first; op; op = op->next)
    for (size_t i = 0; i < op->num_in; i++) {
      const msc_batch_fact *f = &s->fact[op->in[i].value->id];
      bool is_quotient = op->in[i].value == loss && !op->next;
      bool is_mixed = f->meaning == MSC_BATCH_MIXED || (f->meaning == MSC_BATCH_TOTAL && !makes_total(s, op, loss));
      if (!is_mixed || is_quotient || is_reported[f->mixer->id]) continue;
      is_reported[f->mixer->id] = true;
      ok = report_mixed_batch(f->mixer, s->keys);
    }
  return ok;
}

static bool shorten_ops(batch_shortener *s) {
  const uniform_operand *own = s->others;
  for (msc_op *op = s->f->body->first; op->next; op = op->next) {
    size_t num_in = op->num_in;
    if (sees_batch(s, op)) {
      MSC_TRY(shorten_others(s, op, own));
      shorten_attrs(s, op);
      MSC_TRY(msc_infer(op));
    }
    own += num_in;
  }
  return true;
}

static void shorten_inputs(const batch_shortener *s) {
  for (size_t i = 0; i < s->f->body->num_args; i++) {
    msc_value *v = s->f->body->args[i];
    if (has_batch(s, v)) v->type = part_type(s, v->type, s->fact[v->id].dim);
  }
}

/* Adds the argument that is the number of the micro-batch in its step, from 0, which the runtime sets. */
static void add_micro_argument(const batch_shortener *s) {
  msc_context *ctx = s->pass->ctx;
  const char *name = msc_free_arg_name(s->f, s->pass->scratch, "micro");
  msc_value *v = msc_add_arg(s->f->body, msc_type_of(ctx, MSC_I64, 0, NULL, NULL), name);
  msc_arg_put(s->f, v->index, msc_fact_msc_name(ctx, name));
  msc_arg_put(s->f, v->index, msc_fact_msc_role(ctx, MSC_ROLE_MICRO));
}

/* ---- a loss that is a quotient ---- */

/* Lets an op see, in place of an operand that is a sum or mean over the batch, that over all micro-batches. */
static bool add_up_operand(batch_shortener *s, msc_op *op, size_t i) {
  const msc_value *v = op->in[i].value;
  msc_batch_meaning m = v->id < s->num_facts ? (msc_batch_meaning)s->fact[v->id].meaning : MSC_BATCH_SAME;
  if (m != MSC_BATCH_SUM && m != MSC_BATCH_MEAN) return true;
  const msc_batch_place none = {-1, 1};
  msc_value *total = find_shorter(s, v, none);
  if (!total) {
    msc_builder b = {
        .func = s->f, .block = s->f->body, .before = v->def->next, .loc = v->def->loc, .name = v->def->name};
    msc_attr attrs[2] = {msc_fact_count(msc_int(s->k)), msc_named(s->pass->ctx, "mean", msc_bool(m == MSC_BATCH_MEAN))};
    total = record_shorter(s, v, none, msc_build_with(&b, OP_accumulate, 1, &op->in[i].value, 1, 2, attrs));
    MSC_TRY(total);
  }
  msc_set_operand(op, i, total);
  return true;
}

/* Makes the dividend a sum over the micro-batches, and the divisor one, or of what is added up over all of them. */
static bool prepare_loss_quotient(batch_shortener *s, msc_op *quotient) {
  msc_value *above = quotient->in[0].value;
  msc_builder b = {.func = s->f, .block = s->f->body, .before = quotient, .loc = quotient->loc, .name = quotient->name};
  if (s->fact[above->id].meaning == MSC_BATCH_MEAN) {
    msc_value *part = scale_by(&b, above, 1.0 / (double)s->k);
    MSC_TRY(part);
    part->id = part->def->in[1].value->id = UINT32_MAX; /* the new values have no facts */
    msc_set_operand(quotient, 0, part);
  }
  if (s->fact[quotient->in[1].value->id].meaning == MSC_BATCH_MEAN) MSC_TRY(add_up_operand(s, quotient, 1));
  for (msc_op *op = s->f->body->first; op->next; op = op->next) {
    bool is_total = op->num_out && op->out[0].id < s->num_facts && s->fact[op->out[0].id].meaning == MSC_BATCH_TOTAL;
    for (size_t i = 0; i < op->num_in && is_total; i++) MSC_TRY(add_up_operand(s, op, i));
  }
  return true;
}

static bool set_loss_attributes(const batch_shortener *s) {
  const msc_value *loss = msc_loss_of(s->f);
  MSC_TRY(loss);
  if (msc_is_loss_quotient(s->pass, s->f, s->fact, s->num_facts)) {
    msc_func_put(s->f, msc_fact_micro_quotient(true));
    return true;
  }
  /* SAME: it does not depend on the micro-batch */
  if (s->fact[loss->id].meaning == MSC_BATCH_SUM || s->fact[loss->id].meaning == MSC_BATCH_SAME) return true;
  msc_func_put(s->f, msc_fact_micro_mean(true));
  msc_func_put(s->f, msc_fact_loss_seed(1.0 / (double)s->k));
  return true;
}

/* Returns the value of the key if it is set, else the model's value. */
static int64_t micro_size(const msc_pass_ctx *pass, const msc_func *f) {
  int64_t of_key = msc_config_int(pass->config, MSC_KEY_micro_size);
  return msc_config_is_set(pass->config, MSC_KEY_micro_size) ? of_key : msc_fact_read(f, micro_size, of_key);
}

static bool check_no_copies(msc_pass_ctx *pass, const msc_module *m) {
  return msc_copies_of(pass, m) == 1 ||
         msc_error(pass->ctx, MSC_E_UNSUPPORTED, msc_config_loc(pass->config, MSC_KEY_micro_batch_interleaved),
                   "micro_batch_interleaved: not supported yet for what is not trained");
}

static bool shorten_batch(batch_shortener *s) {
  MSC_TRY(msc_make_loss_quotient(s->pass, s->f, s->k));
  s->fact = msc_batch_facts(s->f, s->pass->scratch, MSC_BATCH_MARKED);
  MSC_TRY(s->fact);
  s->num_facts = msc_number(s->f->body).num_values;
  MSC_TRY(check_batch_divides(s) && msc_batch_make_means(s->fact, s->f, (double)s->k));
  s->others = msc_new_array(s->pass->scratch, uniform_operand, num_operands(s->f));
  MSC_TRY(mark_uniform_operands(s) && set_loss_attributes(s));
  shorten_inputs(s);
  MSC_TRY(shorten_ops(s));
  return !msc_func_attr(s->f, MSC_FACT(micro_quotient)) || prepare_loss_quotient(s, msc_loss_of(s->f)->def);
}

bool pass_micro(msc_pass_ctx *pass, msc_module *m) {
  batch_shortener s = {.pass = pass, .f = msc_training_func(m)};
  const msc_func *forward = msc_program_func(m, MSC_PROGRAM_FORWARD);
  if (!s.f && forward) MSC_TRY(check_no_copies(pass, m));
  if (!s.f)
    return !forward || check_divides(pass, forward, msc_config_int(pass->config, MSC_KEY_micro_size), "micro_size");
  if (msc_func_attr(s.f, MSC_FACT(micro))) return true;
  int64_t k = micro_size(pass, s.f), copies = msc_copies_of(pass, m);
  if (__builtin_mul_overflow(k, copies, &s.k)) s.k = INT64_MAX; /* it divides no batch either */
  s.keys = copies == 1 ? "micro_size" : k == 1 ? "micro_batch_interleaved" : "micro_size and micro_batch_interleaved";
  msc_drop_attr(s.f->attrs, &s.f->num_attrs, MSC_FACT(micro_size));
  if (s.k <= 1 && msc_config_int(pass->config, MSC_KEY_pipeline_stages) <= 1) return msc_not_asked_for(pass);
  MSC_TRY(s.k == 1 || shorten_batch(&s)); /* a single micro-batch is the whole batch, whose samples may be mixed */
  msc_func_put(s.f, msc_fact_micro(s.k));
  add_micro_argument(&s);
  pass->changes_meaning = true;
  return true;
}
