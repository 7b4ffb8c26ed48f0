/* replica_objective: func "forward" compiled for parallel_mode data_parallel -> the same, meaning what r replicas do that
 * each see one r-th of the batch.  The objective is the sum of their losses (gradients_mean: the mean); what is shown of a
 * loss, or of another result without batch, is the mean over the replicas.
 *
 * The graph is written for the whole batch, so a mean over the batch is the mean over the replicas of their means, and a
 * sum r times that: sums get the factor 1/r, and the loss's own gradient, the attribute `loss_seed`, is r (gradients_mean:
 * 1).  Example, r = 2, batch 4, loss = mean of e: the replicas have (e0+e1)/2 and (e2+e3)/2, their sum is 2 * loss.
 * Whatever mixes samples in another way has no such form and is refused. */
#include <string.h>

#include "passes/2_train/train.h"
#include "passes/config.h"
#include "passes/pass.h"

typedef enum {
  SAME,  /* every replica has this value */
  BATCH, /* every replica has its part of a dimension */
  MEAN,  /* the mean over the replicas of what each has */
  SUM,   /* their sum */
  MIXED, /* neither */
} meaning;

typedef struct {
  uint8_t meaning, dim;  /* dim: the batch's, of BATCH */
  const msc_op *mixer;   /* of MIXED */
} fact;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  fact *fact; /* per value */
} reading;

static fact *of(const reading *r, const msc_value *v) { return &r->fact[v->id]; }

/* ---- inputs ---- */

static bool is_input(msc_role role) { return role == MSC_ROLE_DATA || role == MSC_ROLE_LABEL || role == MSC_ROLE_MASK; }

static bool read_inputs(reading *r, int64_t replicas) {
  bool ok = true;
  for (size_t i = 0; i < r->f->body->num_args; i++) {
    const msc_value *v = r->f->body->args[i];
    const msc_attr_value *given = msc_arg_attr(r->f, i, "msc.batch_dim");
    int64_t dim = given && given->kind == MSC_ATTR_INT ? given->i : 0;
    if (!is_input(msc_arg_role(r->f, i)) || dim < 0 || dim >= v->type->rank) continue;
    *of(r, v) = (fact){.meaning = BATCH, .dim = (uint8_t)dim};
    if (v->type->dim[dim] % replicas)
      ok = msc_error(r->pass->ctx, MSC_E_CONFIG, r->f->loc, "input '%s': its batch of %" PRId64 " samples does not divide among the %" PRId64 " replicas of parallel_mode data_parallel", msc_arg_name(r->f, i), v->type->dim[dim], replicas);
  }
  return ok;
}

/* ---- an op that sees samples ---- */

/* Are all slices of v along this dimension alike, so that any part of it is as good as another? */
static bool is_uniform(const msc_value *v, int dim) {
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
    const fact *f = of(r, op->in[i].value);
    if (f->meaning == SAME) continue;
    if (f->meaning != BATCH) return false;
    const msc_dim_letters *d = &rule->tensor[i].dim[f->dim];
    if (!d->num) return false;
    *out_letters |= 1u << d->letter[0];
  }
  return true;
}

/* Operands that are no part of the batch must not be as large as it, unless any part of them will do. */
static bool others_fit(const reading *r, const msc_op *op, const msc_rule *rule, uint32_t letters) {
  for (size_t i = 0; i < op->num_in; i++) {
    const fact *f = of(r, op->in[i].value);
    for (int d = 0; d < rule->tensor[i].rank; d++) {
      const msc_dim_letters *own = &rule->tensor[i].dim[d];
      for (int l = 0; l < own->num; l++) {
        if (!(letters >> own->letter[l] & 1) || (f->meaning == BATCH && d == f->dim && l == 0)) continue;
        if (f->meaning == BATCH || !is_uniform(op->in[i].value, d)) return false;
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
static meaning reduction_of(const msc_op *op, const msc_letter *letter) {
  if (letter->role != MSC_RED || letter->reduction != MSC_SUM) return MIXED;
  if (op->kind == OP_gather) return MIXED; /* picks samples by number */
  return op->kind == OP_reduce_mean || is_mean_loss(op) ? MEAN : SUM;
}

static fact result_fact(const msc_op *op, const msc_rule *rule, size_t tensor, uint32_t letters) {
  fact f = {.meaning = SAME};
  const msc_tensor_letters *t = &rule->tensor[tensor];
  uint32_t seen = 0;
  for (int d = 0; d < t->rank; d++)
    for (int l = 0; l < t->dim[d].num; l++) {
      if (!(letters >> t->dim[d].letter[l] & 1)) continue;
      if (l || seen) return (fact){.meaning = MIXED, .mixer = op};
      seen |= 1u << t->dim[d].letter[l];
      f = (fact){.meaning = BATCH, .dim = (uint8_t)d};
    }
  for (int i = 0; i < rule->num_letters; i++) {
    if (!(letters >> i & 1)) continue;
    if (rule->letter[i].role == MSC_REP || rule->letter[i].expands) return (fact){.meaning = MIXED, .mixer = op};
    if (seen >> i & 1) continue;
    meaning m = reduction_of(op, &rule->letter[i]);
    if (f.meaning != SAME || m == MIXED) return (fact){.meaning = MIXED, .mixer = op};
    f.meaning = (uint8_t)m;
  }
  return f;
}

/* ---- an op that sees means and sums over the batch ---- */

/* Linear in its one operand that is not the same everywhere, or in all of them together: means may meet constants. */
static meaning combined(const reading *r, const msc_op *op, const msc_rule *rule) {
  meaning all = SAME;
  int num = 0, num_same = 0;
  if (!rule->linear) return MIXED;
  for (size_t i = 0; i < op->num_in; i++) {
    meaning m = (meaning)of(r, op->in[i].value)->meaning;
    bool linear = i < 32 && rule->linear_in >> i & 1;
    if (m == SAME) {
      num_same += linear;
      continue;
    }
    if (!linear || (num && m != all)) return MIXED;
    all = m;
    num++;
  }
  if (!rule->joint) return num == 1 ? all : MIXED;
  return all == SUM && num_same ? MIXED : all;
}

/* ---- the walk ---- */

/* The first operand's fault that the op inherits, or its own. */
static const msc_op *mixer_of(const reading *r, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (of(r, op->in[i].value)->meaning == MIXED) return of(r, op->in[i].value)->mixer;
  return op;
}

static bool read_op(reading *r, const msc_op *op, msc_arena *arena) {
  msc_rule rule;
  uint32_t letters = 0;
  unsigned present = 0;
  for (size_t i = 0; i < op->num_in; i++) present |= 1u << of(r, op->in[i].value)->meaning;
  if (!(present & ~(1u << SAME))) return true;
  MSC_TRY(msc_rule_of(op, arena, &rule));
  bool mixed = present >> MIXED & 1;
  if (!mixed && present >> BATCH & 1) mixed = !batch_letters(r, op, &rule, &letters) || !others_fit(r, op, &rule, letters);
  for (size_t i = 0; i < op->num_out; i++) {
    fact *f = of(r, &op->out[i]);
    if (mixed) f->meaning = MIXED;
    else if (present >> BATCH & 1) *f = result_fact(op, &rule, op->num_in + i, letters);
    else f->meaning = (uint8_t)combined(r, op, &rule);
    if (f->meaning == MIXED) f->mixer = mixer_of(r, op);
  }
  return true;
}

static bool read_ops(reading *r) {
  for (const msc_op *op = r->f->body->first; op->next; op = op->next) {
    msc_arena *arena = msc_arena_new(r->pass->ctx);
    bool ok = read_op(r, op, arena);
    msc_arena_free(arena);
    MSC_TRY(ok);
  }
  return true;
}

/* ---- results ---- */

static bool refuse(const msc_op *mixer) {
  msc_op_error(mixer, MSC_E_UNSUPPORTED, "%s: mixes samples of the batch, which the replicas of parallel_mode data_parallel do not see together: not supported yet; use semi_auto_parallel or auto_parallel", msc_kind_name(mixer->kind));
  return false;
}

static bool scale_result(reading *r, msc_op *ret, size_t i, int64_t replicas) {
  msc_value *v = ret->in[i].value;
  msc_builder b = {.func = r->f, .block = r->f->body, .before = ret, .loc = v->def->loc, .name = v->def->name};
  if (!msc_is_float(v->type->dtype)) return refuse(v->def); /* a mean of counts is no whole number */
  msc_value *mean = msc_build(&b, OP_mul, 2, (msc_value *[]){v, msc_build_scalar(&b, v->type->dtype, 1.0 / (double)replicas)});
  if (!mean) return false;
  msc_set_operand(ret, i, mean);
  r->pass->changes_meaning = true;
  return true;
}

static bool set_results(reading *r, int64_t replicas) {
  msc_op *ret = r->f->body->last;
  bool ok = true;
  for (size_t i = 0; i < ret->num_in; i++) {
    const fact *f = of(r, ret->in[i].value);
    if (f->meaning == MIXED) ok = refuse(f->mixer);
  }
  for (size_t i = 0; ok && i < ret->num_in; i++)
    if (of(r, ret->in[i].value)->meaning == SUM) ok = scale_result(r, ret, i, replicas);
  return ok;
}

bool pass_replica_objective(msc_pass_ctx *pass, msc_module *m) {
  int64_t replicas = msc_config_int(pass->config, MSC_KEY_device_num);
  if (msc_config_parallel_mode(pass->config) != MSC_DATA_PARALLEL || replicas <= 1) return true;
  msc_func *f = msc_training_func(m);
  if (!f || msc_func_attr(f, "loss_seed")) return true;
  reading r = {.pass = pass, .f = f};
  r.fact = msc_new_array(pass->scratch, fact, msc_number(f->body).num_values);
  MSC_TRY(read_inputs(&r, replicas) && read_ops(&r) && set_results(&r, replicas));
  bool mean = msc_config_bool(pass->config, MSC_KEY_gradients_mean);
  if (!mean) msc_func_set(f, "loss_seed", msc_float((double)replicas));
  return true;
}
