/* precision: with compute_type bf16 or f16, func forward in f32 -> matrix products and the ops between them in the
 * narrow type, by the rows of precision.def.
 *
 * Only casts are inserted, one per value and type, so parameters stay f32: autodiff turns the cast of a parameter into
 * one that widens its gradient. Results of the function keep their types. An op with `compute_type = "f32"` stays in
 * f32. */
#include "ir/fact.h"
#include "ir/formula.h"
#include "passes/2_train/train.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef enum { POLICY_WIDE, POLICY_FOLLOW, POLICY_LOWER, POLICY_ROUND, POLICY_INSIDE } policy;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_dtype narrow;
  size_t num_values; /* values of the function before the pass */
  /* by value id: f32 because an op, or a loss, needs it; other values take the type of those they are combined with */
  bool *wide;
  msc_value **other; /* by value id: the value in the other of the two types */
  int64_t num_casts;
} precision_lowerer;

static policy policy_of(const msc_op *op) {
  static const uint8_t rows[] = {
#define PRECISION(op, policy) [OP_##op] = POLICY_##policy,
#include "passes/2_train/precision.def"
#undef PRECISION
  };
  if (msc_op_attr(op, MSC_FACT(compute_type))) return POLICY_WIDE;
  if (msc_info(op)->flags & MSC_COLLECTIVE) return POLICY_FOLLOW;
  return op->kind < sizeof rows ? (policy)rows[op->kind] : POLICY_WIDE;
}

/* ---- values ---- */

static bool is_f32_or_narrow(const precision_lowerer *l, const msc_value *v) {
  return v->type->dtype == MSC_F32 || v->type->dtype == l->narrow;
}

/* The annotation `shard` of a cast: that of the block which makes and reads v, else false (outside of all blocks),
 * so that blocks keep their borders; none for a parameter, or in a model without blocks. */
static bool shard_mark_of_cast(const precision_lowerer *l, const msc_op *user, const msc_value *v,
                               msc_attr_value *out_mark) {
  const msc_attr_value *takes = msc_op_attr(user, MSC_FACT(shard)),
                       *makes = v->def ? msc_op_attr(v->def, MSC_FACT(shard)) : NULL;
  bool same = takes && makes && msc_attr_equal(takes, makes),
       is_input = !v->def && msc_arg_role(l->f, v->index) <= MSC_ROLE_MASK;
  *out_mark = same ? *takes : msc_bool(false);
  return v->def ? takes || makes : takes && is_input;
}

/* Copies annotations of the user to its cast. A cast of a parameter gets none: it lives as long as the parameter. */
static void copy_user_marks(msc_op *cast, const msc_op *user) {
  if (cast->in[0].value->def) msc_op_copy_sort(cast, user, MSC_SORT_BLOCK);
}

static bool has_shard_mark(const msc_op *cast, bool marked, const msc_attr_value *mark) {
  const msc_attr_value *v = msc_op_attr(cast, MSC_FACT(shard));
  return marked ? v && msc_attr_equal(v, mark) : !v;
}

/* Returns v in `dtype`; the cast is built before its first user. */
static msc_value *cast_for_user(precision_lowerer *l, msc_op *user, msc_value *v, msc_dtype dtype) {
  if (v->type->dtype == dtype) return v;
  bool is_old = v->id < l->num_values;
  msc_attr_value mark;
  bool marked = shard_mark_of_cast(l, user, v, &mark);
  if (is_old && l->other[v->id] && has_shard_mark(l->other[v->id]->def, marked, &mark)) return l->other[v->id];
  msc_builder b = {.func = l->f, .block = l->f->body, .before = user, .loc = user->loc, .name = v->name};
  msc_value *made = cast(&b, v, dtype);
  if (!made) return NULL;
  made->id = UINT32_MAX;
  copy_user_marks(made->def, user);
  if (marked) msc_op_put(made->def, msc_fact_shard(mark));
  if (is_old) l->other[v->id] = made;
  l->num_casts++;
  return made;
}

/* ---- ops ---- */

/* True if op computes in f64 or another narrow type, as the model says. */
static bool has_own_type(const precision_lowerer *l, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (msc_is_float(op->in[i].value->type->dtype) && !is_f32_or_narrow(l, op->in[i].value)) return true;
  return false;
}

/* True if op may compute in the narrow type: an operand is narrow and none is f32 for a reason. The difference of a
 * value and its mean, for instance, has only the digits that the mean keeps. */
static bool has_narrow_operand(const precision_lowerer *l, const msc_op *op) {
  bool narrow = false;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (v->id < l->num_values && l->wide[v->id]) return false;
    narrow |= v->type->dtype == l->narrow;
  }
  return narrow;
}

/* Lets the users of op's first result read it in the narrow type. */
static bool round_result(precision_lowerer *l, msc_op *op) {
  msc_builder b = {.func = l->f, .block = l->f->body, .before = op->next, .loc = op->loc, .name = op->name};
  msc_value *made = cast(&b, &op->out[0], l->narrow);
  MSC_TRY(made);
  made->id = UINT32_MAX;
  copy_user_marks(made->def, op);
  if (msc_op_attr(op, MSC_FACT(shard))) msc_op_set(made->def, MSC_FACT(shard), *msc_op_attr(op, MSC_FACT(shard)));
  for (msc_use *u = op->out[0].uses, *next; u; u = next) {
    next = u->next;
    if (u->user != made->def) msc_set_operand(u->user, (size_t)(u - u->user->in), made);
  }
  l->num_casts++;
  return true;
}

static bool lower_op(precision_lowerer *l, msc_op *op) {
  policy p = op->kind == OP_cast || has_own_type(l, op) ? POLICY_WIDE : policy_of(op);
  bool narrow = p == POLICY_LOWER || (p == POLICY_FOLLOW && has_narrow_operand(l, op)), wide = p == POLICY_WIDE,
       rounds = p == POLICY_ROUND && op->in[0].value->type->dtype == l->narrow;
  wide |= p == POLICY_ROUND;
  for (size_t i = 0; i < op->num_in; i++) {
    msc_value *v = op->in[i].value;
    wide |= p == POLICY_FOLLOW && v->id < l->num_values && l->wide[v->id];
    if (op->kind == OP_cast || !is_f32_or_narrow(l, v)) continue; /* a cast of the model takes any operand */
    msc_value *cast = cast_for_user(l, op, v, narrow ? l->narrow : MSC_F32);
    MSC_TRY(cast);
    if (cast != v) msc_set_operand(op, i, cast);
  }
  for (size_t i = 0; i < op->num_out; i++)
    l->wide[op->out[i].id] = wide && op->num_in && msc_is_float(op->out[i].type->dtype);
  return msc_infer(op) && (!rounds || round_result(l, op));
}

static bool restore_result_types(precision_lowerer *l, const msc_type *const *was) {
  msc_op *ret = l->f->body->last;
  for (size_t i = 0; i < ret->num_in; i++) {
    msc_value *v = cast_for_user(l, ret, ret->in[i].value, was[i]->dtype);
    MSC_TRY(v);
    msc_set_operand(ret, i, v);
  }
  return true;
}

static bool lower_func(precision_lowerer *l) {
  msc_op *ret = l->f->body->last;
  const msc_type **was = msc_new_array(l->pass->scratch, const msc_type *, ret->num_in + 1);
  for (size_t i = 0; i < ret->num_in; i++) was[i] = ret->in[i].value->type;
  l->num_values = msc_number(l->f->body).num_values;
  l->other = msc_new_array(l->pass->scratch, msc_value *, l->num_values + 1);
  l->wide = msc_new_array(l->pass->scratch, bool, l->num_values + 1);
  for (size_t i = 0; i < l->f->body->num_args; i++)
    l->wide[l->f->body->args[i]->id] = msc_arg_role(l->f, i) == MSC_ROLE_LABEL;
  for (msc_op *op = l->f->body->first, *next; op != ret; op = next) {
    next = op->next;
    MSC_TRY(lower_op(l, op));
  }
  MSC_TRY(restore_result_types(l, was));
  msc_stat(l->pass, "casts", l->num_casts);
  return true;
}

static void drop_compute_types(msc_func *f) {
  for (msc_op *op = f->body->first; op; op = op->next) msc_op_unset(op, MSC_FACT(compute_type));
}

bool pass_precision(msc_pass_ctx *pass, msc_module *m) {
  static const msc_dtype types[] = {MSC_F32, MSC_BF16, MSC_F16}; /* as in config.def */
  precision_lowerer l = {.pass = pass,
                         .f = msc_program_func(m, MSC_PROGRAM_FORWARD),
                         .narrow = types[msc_config_choice(pass->config, MSC_KEY_compute_type)]};
  if (!l.f || msc_func_attr(l.f, MSC_FACT(gradients))) return msc_not_asked_for(pass);
  bool ok = l.narrow == MSC_F32 || lower_func(&l);
  drop_compute_types(l.f);
  return ok;
}
