/* batch.c: a function and the dimensions of its inputs that are the batch in; for each value what the batch is to it, out.
 *
 * Read as if the batch came in several parts: a value is the same for all parts, has its part of a dimension, or is the mean or the
 * sum over the parts of what each has.  Whatever mixes samples in another way has no such form. */
#include <string.h>

#include "passes/2_train/batch.h"
#include "passes/2_train/train.h"

typedef struct {
  msc_func *f;
  msc_batch_fact *fact; /* per value */
  bool per_part;        /* see batch.h */
} reading;

static msc_batch_fact *of(const reading *r, const msc_value *v) { return &r->fact[v->id]; }

/* ---- inputs ---- */

int msc_batch_dim(const msc_func *f, size_t arg) {
  const msc_value *v = f->body->args[arg];
  const msc_attr_value *given = msc_arg_attr(f, arg, "msc.batch_dim");
  int64_t dim = given && given->kind == MSC_ATTR_INT ? given->i : 0;
  return msc_arg_role(f, arg) <= MSC_ROLE_MASK && dim >= 0 && dim < v->type->rank ? (int)dim : -1;
}

bool msc_batch_divides(const msc_func *f, int64_t parts, const char *whose) {
  bool ok = true;
  for (size_t i = 0; i < f->body->num_args; i++) {
    int dim = msc_batch_dim(f, i);
    int64_t n = dim < 0 ? 0 : f->body->args[i]->type->dim[dim];
    if (n % parts) ok = msc_error(f->module->ctx, MSC_E_CONFIG, f->loc, "input '%s': its batch of %" PRId64 " samples in dimension %d does not divide among the %" PRId64 " %s", msc_arg_name(f, i), n, dim, parts, whose);
  }
  return ok;
}

static void read_inputs(reading *r) {
  for (size_t i = 0; i < r->f->body->num_args; i++) {
    int dim = msc_batch_dim(r->f, i);
    if (dim >= 0) *of(r, r->f->body->args[i]) = (msc_batch_fact){.meaning = MSC_BATCH_PART, .dim = (uint8_t)dim};
  }
}

/* ---- an op that sees samples ---- */

bool msc_batch_is_uniform(const msc_value *v, int dim) {
  const msc_op *op = v->def;
  if (!op) return false;
  if (op->kind == OP_constant) return msc_op_attr(op, "value")->dense.bytes == (size_t)msc_dtype_bytes(v->type->dtype);
  const msc_type *x = op->num_in ? op->in[0].value->type : NULL;
  if (op->kind == OP_reshape && dim == 0 && x->rank == v->type->rank + 1 && x->dim[0] * x->dim[1] == v->type->dim[0]) {
    v = op->in[0].value; /* (r, c) -> r * c: the parts are those along r */
    op = v->def;
    x = op && op->num_in ? op->in[0].value->type : NULL;
  }
  if (!op || op->kind != OP_broadcast_to) return false;
  int at = dim - (v->type->rank - x->rank);
  return at < 0 || (x->dim[at] == 1 && v->type->dim[dim] != 1);
}

/* Letters of the rule that the batch is cut along: the major letter of each operand's batch dimension.  false: mixes. */
static bool batch_letters(const reading *r, const msc_op *op, const msc_rule *rule, uint32_t *out_letters) {
  *out_letters = 0;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_batch_fact *f = of(r, op->in[i].value);
    if (f->meaning == MSC_BATCH_SAME) continue;
    if (f->meaning != MSC_BATCH_PART) return false;
    const msc_dim_letters *d = &rule->tensor[i].dim[f->dim];
    if (!d->num) return false;
    *out_letters |= 1u << d->letter[0];
  }
  return true;
}

/* Operands that are no part of the batch must not be as large as it, unless any part of them will do. */
static bool others_fit(const reading *r, const msc_op *op, const msc_rule *rule, uint32_t letters) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_batch_fact *f = of(r, op->in[i].value);
    for (int d = 0; d < rule->tensor[i].rank; d++) {
      const msc_dim_letters *own = &rule->tensor[i].dim[d];
      for (int l = 0; l < own->num; l++) {
        if (!(letters >> own->letter[l] & 1) || (f->meaning == MSC_BATCH_PART && d == f->dim && l == 0)) continue;
        if (f->meaning == MSC_BATCH_PART || !msc_batch_is_uniform(op->in[i].value, d)) return false;
      }
    }
  }
  return true;
}

/* A loss whose attribute says so, or has it by default. */
static bool is_mean_loss(const msc_op *op) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_attrs; i++)
    if (!strcmp(info->attr[i].name, "reduction")) return !strcmp(msc_op_str(op, "reduction"), "mean");
  return false;
}

/* How op combines the samples when a batch letter is gone from its result. */
static msc_batch_meaning reduction_of(const msc_op *op, const msc_letter *letter) {
  if (letter->role != MSC_RED || letter->reduction != MSC_SUM) return MSC_BATCH_MIXED;
  return op->kind == OP_reduce_mean || is_mean_loss(op) ? MSC_BATCH_MEAN : MSC_BATCH_SUM;
}

/* Do indices name elements along this letter?  They count all samples. */
static bool is_by_number(const msc_op *op, const msc_letter *letter) { return msc_info(op)->flags & MSC_CHECKED && letter->name == 'v'; }

static msc_batch_fact result_fact(const msc_op *op, const msc_rule *rule, size_t tensor, uint32_t letters) {
  msc_batch_fact f = {.meaning = MSC_BATCH_SAME};
  const msc_tensor_letters *t = &rule->tensor[tensor];
  uint32_t seen = 0;
  for (int d = 0; d < t->rank; d++)
    for (int l = 0; l < t->dim[d].num; l++) {
      if (!(letters >> t->dim[d].letter[l] & 1)) continue;
      if (l || seen) return (msc_batch_fact){.meaning = MSC_BATCH_MIXED, .mixer = op};
      seen |= 1u << t->dim[d].letter[l];
      f = (msc_batch_fact){.meaning = MSC_BATCH_PART, .dim = (uint8_t)d};
    }
  for (int i = 0; i < rule->num_letters; i++) {
    if (!(letters >> i & 1)) continue;
    if (rule->letter[i].role == MSC_REP || rule->letter[i].expands || is_by_number(op, &rule->letter[i])) return (msc_batch_fact){.meaning = MSC_BATCH_MIXED, .mixer = op};
    if (seen >> i & 1) continue;
    msc_batch_meaning m = reduction_of(op, &rule->letter[i]);
    if (f.meaning != MSC_BATCH_SAME || m == MSC_BATCH_MIXED) return (msc_batch_fact){.meaning = MSC_BATCH_MIXED, .mixer = op};
    f.meaning = (uint8_t)m;
  }
  return f;
}

/* ---- an op that sees means and sums over the batch ---- */

/* Linear in its one operand that is not the same everywhere, or in all of them together: means may meet constants. */
static msc_batch_meaning combined(const reading *r, const msc_op *op, const msc_rule *rule) {
  msc_batch_meaning all = MSC_BATCH_SAME;
  int num = 0, num_same = 0;
  if (!rule->linear) return MSC_BATCH_MIXED;
  for (size_t i = 0; i < op->num_in; i++) {
    msc_batch_meaning m = (msc_batch_meaning)of(r, op->in[i].value)->meaning;
    bool linear = i < 32 && rule->linear_in >> i & 1;
    if (m == MSC_BATCH_SAME) {
      num_same += linear;
      continue;
    }
    if (!linear || (num && m != all)) return MSC_BATCH_MIXED;
    all = m;
    num++;
  }
  if (!rule->joint) return num == 1 ? all : MSC_BATCH_MIXED;
  return all == MSC_BATCH_SUM && num_same ? MSC_BATCH_MIXED : all;
}

/* ---- the walk ---- */

/* The first operand's fault that the op inherits, or its own. */
static const msc_op *mixer_of(const reading *r, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (of(r, op->in[i].value)->meaning == MSC_BATCH_MIXED) return of(r, op->in[i].value)->mixer;
  return op;
}

/* Statistics of one part: what has the batch is that part's, the rest is taken as it is. */
static bool sees_part_alone(const reading *r, const msc_op *op) {
  const msc_attr_value *marked = msc_op_attr(op, "cross_batch");
  bool on = marked && ((marked->kind == MSC_ATTR_BOOL && marked->b) || (marked->kind == MSC_ATTR_INT && marked->i));
  return r->per_part && (on || (op->kind == OP_batch_norm && msc_op_bool(op, "training")));
}

static msc_batch_fact part_alone(const msc_rule *rule, size_t tensor, uint32_t letters) {
  const msc_tensor_letters *t = &rule->tensor[tensor];
  for (int d = 0; d < t->rank; d++)
    if (t->dim[d].num && letters >> t->dim[d].letter[0] & 1) return (msc_batch_fact){.meaning = MSC_BATCH_PART, .dim = (uint8_t)d};
  return (msc_batch_fact){.meaning = MSC_BATCH_SAME};
}

static bool read_op(reading *r, const msc_op *op, msc_arena *arena) {
  msc_rule rule;
  uint32_t letters = 0;
  unsigned present = 0;
  for (size_t i = 0; i < op->num_in; i++) present |= 1u << of(r, op->in[i].value)->meaning;
  if (!(present & ~(1u << MSC_BATCH_SAME))) return true;
  MSC_TRY(msc_rule_of(op, arena, &rule));
  bool mixed = present >> MSC_BATCH_MIXED & 1;
  if (!mixed && present >> MSC_BATCH_PART & 1) mixed = !batch_letters(r, op, &rule, &letters) || !others_fit(r, op, &rule, letters);
  for (size_t i = 0; i < op->num_out; i++) {
    msc_batch_fact *f = of(r, &op->out[i]);
    if (mixed) f->meaning = MSC_BATCH_MIXED;
    else if (sees_part_alone(r, op)) *f = part_alone(&rule, op->num_in + i, letters);
    else if (present >> MSC_BATCH_PART & 1) *f = result_fact(op, &rule, op->num_in + i, letters);
    else f->meaning = (uint8_t)combined(r, op, &rule);
    if (f->meaning == MSC_BATCH_MIXED) f->mixer = mixer_of(r, op);
  }
  return true;
}

const msc_batch_fact *msc_batch_facts(msc_func *f, msc_arena *arena, bool per_part) {
  reading r = {.f = f, .per_part = per_part};
  r.fact = msc_new_array(arena, msc_batch_fact, msc_number(f->body).num_values);
  read_inputs(&r);
  for (const msc_op *op = f->body->first; op->next; op = op->next) {
    msc_arena *rules = msc_arena_new(f->module->ctx);
    bool ok = read_op(&r, op, rules);
    msc_arena_free(rules);
    if (!ok) return NULL;
  }
  return r.fact;
}
