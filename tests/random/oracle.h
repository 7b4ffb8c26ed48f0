/* oracle.h: executes the steps of a program as it was written, by the interpreter: gradients and updates are
 * inserted, unused ops removed and random ops numbered; nothing is rewritten, fused, ordered or placed. In f64; and
 * in f32 on inputs that differ in their last place, which shows what rounding does. */
#ifndef MSC_TESTS_RANDOM_ORACLE_H
#define MSC_TESTS_RANDOM_ORACLE_H

#include <math.h>
#include <stdlib.h>

#include "ir/interp/interp.h"
#include "passes/config/config.h"
#include "passes/pass.h"
#include "tests/random/program.h"

typedef struct {
  const char *name;
  bool is_variable; /* a parameter or state */
  bool is_float;
  int64_t num;
  double *v;
} numbers;

/* After one step. */
typedef struct {
  size_t num;
  numbers *of;
} snapshot;

typedef struct {
  snapshot at[STEPS + 1]; /* 0: parameters and state before the first one */
} story;

static inline const numbers *numbers_named(const snapshot *s, const char *name) {
  for (size_t i = 0; i < s->num; i++)
    if (!strcmp(s->of[i].name, name)) return &s->of[i];
  return NULL;
}

/* ---- values of inputs and parameters ---- */

static inline void see_limit(int64_t *most, int64_t n) { *most = n < *most ? n : *most; }

/* Integers of an argument are below this. */
static inline int64_t integers_below(const msc_func *f, size_t arg) {
  int64_t most = 1 << 20;
  for (const msc_use *u = f->body->args[arg]->uses; u; u = u->next) {
    const msc_op *op = u->user;
    const msc_type *x = op->in[0].value->type;
    int64_t axis = op->kind == OP_gather || op->kind == OP_take_along || op->kind == OP_scatter_update
                       ? msc_op_int(op, "axis")
                       : 0;
    axis += axis < 0 ? x->rank : 0;
    switch (op->kind) {
      case OP_gather:
      case OP_take_along:
      case OP_scatter_update: see_limit(&most, x->dim[axis]); break;
      case OP_gather_nd:
        for (int d = 0; d < u->value->type->dim[u->value->type->rank - 1]; d++) see_limit(&most, x->dim[d]);
        break;
      case OP_one_hot: see_limit(&most, msc_op_int(op, "depth")); break;
      case OP_softmax_cross_entropy:
      case OP_nll_loss: see_limit(&most, x->dim[x->rank - 1]); break;
      default: break;
    }
  }
  return most;
}

static inline uint64_t hashed(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ h >> 32;
}

/* Of weights of many inputs less, so that values keep their size. */
static inline double size_of_values(const msc_func *f, size_t arg) {
  const msc_type *t = f->body->args[arg]->type;
  if (msc_arg_role(f, arg) != MSC_ROLE_PARAMETER || t->rank < 2) return 1;
  double n = (double)msc_type_elems(t), most = 1;
  for (int d = 0; d < t->rank; d++) most = fmax(most, (double)t->dim[d]);
  return fmin(1, 2 / sqrt(n / (t->rank == 2 ? fmin((double)t->dim[0], (double)t->dim[1]) : most)));
}

/* Multiples of 2^-20 and never 0: no ties, and the same in f32. */
static inline void fill_argument(const program *p, const msc_func *f, size_t arg, double *v) {
  const msc_value *a = f->body->args[arg];
  uint64_t name = p->seed;
  for (const char *c = a->name; *c; c++) name = hashed(name, (uint8_t)*c);
  int64_t below = msc_is_float(a->type->dtype) ? 0 : integers_below(f, arg);
  double size = size_of_values(f, arg), scale = 1;
  while (scale > size) scale /= 2;
  const msc_attr_value *fixed = msc_arg_attr(f, arg, "msc.trainable");
  for (int64_t i = 0, n = msc_type_elems(a->type); i < n; i++) {
    uint64_t bits = hashed(name, (uint64_t)i);
    v[i] = below ? (double)(bits % (uint64_t)below) : scale * ((double)(2 * (int64_t)(bits >> 44) + 1) * 0x1p-20 - 1);
    if (fixed) v[i] = 0.75 + v[i] / 4; /* it may be a variance */
  }
}

/* The seed of every run is 1. */
static inline double initial_state(const msc_func *f, size_t arg) {
  const msc_attr_value *init = msc_arg_attr(f, arg, "msc.init");
  const char *text = init && init->kind == MSC_ATTR_STR ? init->s : "zeros";
  return !strncmp(text, "constant:", 9)                   ? strtod(text + 9, NULL)
         : !strcmp(text, "ones") || !strcmp(text, "seed") ? 1
                                                          : 0;
}

/* ---- f32 as f64 ---- */

static inline const msc_type *widened(msc_context *ctx, const msc_type *t) {
  return t->dtype == MSC_F32 ? msc_type_with_dtype(ctx, t, MSC_F64) : t;
}

static inline void widen_attrs(msc_context *ctx, msc_arena *a, msc_op *op) {
  for (size_t i = 0; i < op->num_attrs; i++) {
    msc_attr_value *v = &op->attrs[i].value;
    if (v->kind == MSC_ATTR_STR && !strcmp(op->attrs[i].name, "dtype") && !strcmp(v->s, "f32"))
      *v = msc_str(ctx, "f64");
    if (v->kind == MSC_ATTR_TYPE) v->type = widened(ctx, v->type);
    if (v->kind != MSC_ATTR_DENSE || v->dense.type->dtype != MSC_F32) continue;
    msc_tensor from = {v->dense.type, (void *)v->dense.data}, to;
    size_t num = v->dense.bytes / 4;
    double *wide = msc_new_array(a, double, num);
    to = (msc_tensor){widened(ctx, v->dense.type), wide};
    for (size_t k = 0; k < num; k++) wide[k] = msc_tensor_get(&from, (int64_t)k);
    v->dense.type = to.type, v->dense.data = wide, v->dense.bytes = 8 * num;
  }
}

static inline void widen(msc_module *m, msc_arena *a) {
  for (msc_func *f = m->first; f; f = f->next) {
    for (size_t i = 0; i < f->body->num_args; i++) f->body->args[i]->type = widened(m->ctx, f->body->args[i]->type);
    for (msc_op *op = f->body->first; op; op = op->next) {
      widen_attrs(m->ctx, a, op);
      for (size_t i = 0; i < op->num_out; i++) op->out[i].type = widened(m->ctx, op->out[i].type);
    }
  }
}

/* ---- a run ---- */

typedef struct {
  const program *p;
  msc_context *ctx;
  const msc_func *written; /* the forward function, which says what values arguments may have */
  msc_arena *arena;
  double noise; /* relative, on inputs and parameters; 0: none */
  int number;   /* of the noise */
  bool unrounded; /* without compute_type */
  bool disturbed; /* the results of all ops, by noise of f32's last place */
} oracle;

static inline size_t argument_named(const msc_func *f, const char *name) {
  size_t i = 0;
  while (i + 1 < f->body->num_args && strcmp(f->body->args[i]->name, name)) i++;
  return i;
}

static inline msc_tensor argument(const oracle *o, const msc_func *f, size_t i) {
  const msc_type *t = f->body->args[i]->type;
  msc_tensor x = msc_tensor_new(o->arena, t);
  double *v = msc_new_array(o->arena, double, msc_type_elems(t) + 1);
  bool state = msc_arg_role(f, i) == MSC_ROLE_STATE;
  if (!state) fill_argument(o->p, o->written, argument_named(o->written, f->body->args[i]->name), v);
  for (int64_t k = 0; k < msc_type_elems(t); k++) {
    uint64_t bits = hashed(o->p->seed + 77 * (uint64_t)o->number, hashed(i, (uint64_t)k));
    double by = 1 + o->noise * ((double)(bits >> 11) * 0x1p-52 - 1);
    msc_tensor_set(&x, k, state ? initial_state(f, i) : msc_is_float(t->dtype) ? v[k] * by : v[k]);
  }
  return x;
}

static inline numbers numbers_of(msc_arena *a, const char *name, const msc_tensor *t, bool is_variable) {
  numbers n = {.name = name,
               .is_variable = is_variable,
               .is_float = msc_is_float(t->type->dtype),
               .num = msc_type_elems(t->type)};
  n.v = msc_new_array(a, double, n.num + 1);
  for (int64_t i = 0; i < n.num; i++) n.v[i] = msc_tensor_get(t, i);
  return n;
}

static inline bool is_variable_role(msc_role r) { return r == MSC_ROLE_PARAMETER || r == MSC_ROLE_STATE; }

/* Variables, and with results what a step gave. */
static inline snapshot taken(msc_arena *a, const msc_func *f, const msc_tensor *args, const msc_tensor *results) {
  const msc_attr_value *names = msc_func_attr(f, "results"), *ties = msc_func_attr(f, "ties");
  snapshot s = {0};
  s.of = msc_new_array(a, numbers, f->body->num_args + f->body->last->num_in);
  for (size_t i = 0; i < f->body->num_args; i++)
    if (is_variable_role(msc_arg_role(f, i))) s.of[s.num++] = numbers_of(a, f->body->args[i]->name, &args[i], true);
  for (size_t i = 0; results && i < f->body->last->num_in; i++)
    if (!ties || ties->list.v[i].i < 0) s.of[s.num++] = numbers_of(a, names->list.v[i].s, &results[i], false);
  return s;
}

static inline bool interpret_steps(const oracle *o, msc_func *f, msc_arena *keep, story *out) {
  size_t num = f->body->num_args, num_results = f->body->last->num_in;
  const msc_attr_value *ties = msc_func_attr(f, "ties");
  msc_tensor *args = msc_new_array(o->arena, msc_tensor, num + 1),
             *results = msc_new_array(o->arena, msc_tensor, num_results + 1);
  for (size_t i = 0; i < num; i++) args[i] = argument(o, f, i);
  out->at[0] = taken(keep, f, args, NULL);
  for (int s = 1; s <= o->p->steps; s++) {
    MSC_TRY(msc_interpret(f, o->arena, args, results));
    for (size_t i = 0; ties && i < num_results; i++)
      if (ties->list.v[i].i >= 0) args[ties->list.v[i].i] = results[i];
    out->at[s] = taken(keep, f, args, results);
  }
  return true;
}

/* ---- the program that is executed ---- */

/* Keys that change numbers. */
static inline bool has_meaning(const char *setting, bool ranks) {
  static const char *const words[] = {"compute_type=", "loss_scale", "device_num=", "parallel_mode=data_parallel",
                                      "gradients_mean="};
  for (int i = 0; i < (ranks ? 5 : 2); i++)
    if (!strncmp(setting, words[i], strlen(words[i]))) return true;
  return false;
}

static inline bool is_data_parallel(const program *p) {
  for (int i = 0; i < p->num_settings; i++)
    if (!strcmp(p->setting[i], "parallel_mode=data_parallel")) return true;
  return false;
}

static inline msc_module *training_of(const oracle *o, bool ranks, bool wide) {
  msc_config *config = msc_config_new(o->ctx);
  msc_module *m = msc_parse(o->ctx, "program", o->p->text, strlen(o->p->text));
  for (int i = 0; m && i < o->p->num_settings; i++)
    if (!(o->unrounded && !strncmp(o->p->setting[i], "compute_type=", 13)) &&
        has_meaning(o->p->setting[i], ranks && is_data_parallel(o->p)) && !msc_config_set(config, o->p->setting[i]))
      return NULL;
  if (m && wide) widen(m, o->arena);
  msc_pass_options options = {
      .passes = "dce,cross_batch,random,replica_objective,precision,loss_scale,autodiff,optimizer",
      .verify = MSC_VERIFY_IR,
      .config = config};
  return m && msc_config_check(config) && msc_run_passes(o->ctx, m, &options) ? m : NULL;
}

/* Adds noise to every float that an op computes: one unit of the last place more, less or none, as other orders of
 * sums and other formulas may give (Monte Carlo arithmetic, Parker 1997). Noise on inputs does not reach values
 * computed from constants, or from values that cancel. */
static inline bool disturb_results(const oracle *o, msc_func *f) {
  msc_arena *arena = msc_context_arena(o->ctx);
  uint64_t number = 0;
  for (msc_op *op = f->body->first, *next; (next = op->next); op = next)
    for (size_t i = 0; i < op->num_out && op->num_in; i++) {
      msc_value *v = &op->out[i];
      if (!msc_is_float(v->type->dtype)) continue;
      msc_tensor factor = msc_tensor_new(arena, v->type);
      for (int64_t k = 0; k < msc_type_elems(v->type); k++)
        msc_tensor_set(&factor, k, 1 + 0x1p-23 * ((double)(hashed((uint64_t)o->number, number++) % 3) - 1));
      msc_attr_value value = {.kind = MSC_ATTR_DENSE,
                              .dense = {v->type, factor.data, (size_t)msc_type_bytes(v->type)}};
      msc_attr attr = msc_named(o->ctx, "value", value);
      msc_builder b = {.func = f, .block = f->body, .before = next, .loc = op->loc};
      msc_op *constant = msc_build_with(&b, OP_constant, 0, NULL, 1, 1, &attr);
      msc_value *other = constant ? msc_build(&b, OP_mul, 2, (msc_value *[]){&constant->out[0], v}) : NULL;
      MSC_TRY(other);
      msc_replace_uses(v, other);
      msc_set_operand(other->def, 1, v);
    }
  return true;
}

/* ranks: what the whole job means, where that is not what one rank does.  The story lives in `keep`. */
static inline bool tell(oracle *o, msc_arena *keep, bool ranks, bool wide, story *out) {
  o->arena = msc_arena_new(o->ctx);
  msc_module *m = training_of(o, ranks, wide);
  msc_func *f = m ? msc_find_func(m, "train") : NULL;
  if (m && !f) f = msc_find_func(m, "forward");
  bool ok = f && (!o->disturbed || disturb_results(o, f)) && interpret_steps(o, f, keep, out);
  msc_arena_free(o->arena);
  return ok;
}

/* ---- how far apart ---- */

typedef struct {
  double off;     /* largest difference */
  double allowed; /* what rounding may do */
  double size;    /* of the largest element; of a variable's change */
} distance;

static inline double largest_of(const numbers *a, const numbers *from) {
  double most = 0;
  for (int64_t i = 0; i < a->num; i++) {
    double v = fabs(a->v[i] - (from ? from->v[i] : 0));
    most = v <= most ? most : v == v ? v : INFINITY;
  }
  return most;
}

/* Not numbers on both sides are alike. */
static inline double apart(const numbers *a, const numbers *b) {
  double most = 0;
  if (!b || a->num != b->num) return INFINITY;
  for (int64_t i = 0; i < a->num; i++) {
    if (a->v[i] == b->v[i] || (a->v[i] != a->v[i] && b->v[i] != b->v[i])) continue;
    double d = fabs(a->v[i] - b->v[i]);
    most = d <= most ? most : d == d ? d : INFINITY;
  }
  return most;
}

#endif
