/* expand_optimizer.c: steps of optimizers (sgd, momentum, adagrad, rmsprop, adam, adamw, lamb) -> instructions, by
 * PyTorch's formulas.  What they must compute stands in ir/interp/optimizer_update.c. */
#include <math.h>
#include <string.h>

#include "ir/hypers.h"
#include "passes/7_lower/nest/expand.h"

typedef struct {
  msc_nester *n;
  const msc_op *op;
  msc_dtype dtype;
  uint16_t in[7];
  uint16_t bias[2]; /* 1 - beta1^t and 1 - beta2^t, where they are computed outside; else 0 */
  int hypers;       /* the nest's value that has all hyper-parameters; -1: attributes have them, but perhaps for lr */
  msc_view view;    /* of that value */
} update;

/* A hyper-parameter in f64. */
static uint16_t read_rate_f64(const update *u, const char *name) {
  if (u->hypers < 0) return msc_nest_scalar(u->n, MSC_F64, msc_op_float(u->op, name));
  msc_view at = u->view;
  at.at[0] = msc_nest_coord(u->n, &(msc_coord){.a = {.c0 = msc_place_of_hyper(msc_info(u->op), name)}});
  return msc_nest_eval(u->n, u->hypers, &at);
}
/* A hyper-parameter in the type of the arithmetic. */
static uint16_t read_rate(const update *u, const char *name) {
  return u->hypers < 0 ? msc_nest_scalar(u->n, u->dtype, msc_op_float(u->op, name))
                       : msc_nest_cast(u->n, read_rate_f64(u, name), u->dtype);
}
/* The operand rate, where it is one number, or the hyper-parameter lr, in f64. */
static uint16_t lr_f64(const update *u) {
  int i = msc_operand_called(u->op, "rate");
  return i < 0 || u->hypers >= 0 ? read_rate_f64(u, "lr") : u->in[i];
}
/* The learning rate in the type of the arithmetic. */
static uint16_t lr_instr(const update *u) {
  int i = msc_operand_called(u->op, "rate");
  return i < 0 ? read_rate(u, "lr") : msc_nest_cast(u->n, lr_f64(u), u->dtype);
}
static uint16_t one_less(const update *u, const char *name) {
  if (u->hypers < 0) return msc_nest_scalar(u->n, u->dtype, 1 - msc_op_float(u->op, name));
  uint16_t less = msc_nest_op(u->n, NEST_SUB, msc_nest_number(u->n, MSC_F64, 1), read_rate_f64(u, name));
  return msc_nest_cast(u->n, less, u->dtype);
}
/* False if the hyper-parameter is 0 in every step. */
static bool has_attr(const update *u, const char *name) { return u->hypers >= 0 || msc_op_float(u->op, name) != 0; }
static uint16_t mul_instr(const update *u, uint16_t a, uint16_t b) { return msc_nest_op(u->n, NEST_MUL, a, b); }
static uint16_t add_instr(const update *u, uint16_t a, uint16_t b) { return msc_nest_op(u->n, NEST_ADD, a, b); }
static uint16_t sub_instr(const update *u, uint16_t a, uint16_t b) { return msc_nest_op(u->n, NEST_SUB, a, b); }
static uint16_t div_instr(const update *u, uint16_t a, uint16_t b) { return msc_nest_op(u->n, NEST_DIV, a, b); }
static uint16_t sqrt_instr(const update *u, uint16_t a) { return msc_nest_op(u->n, NEST_SQRT, a, 0); }

/* g + weight_decay w */
static uint16_t add_decay(const update *u, uint16_t g, uint16_t w) {
  return has_attr(u, "weight_decay") ? add_instr(u, g, mul_instr(u, read_rate(u, "weight_decay"), w)) : g;
}

/* b m + (1 - b) x */
static uint16_t average(const update *u, const char *b, uint16_t m, uint16_t x) {
  return add_instr(u, mul_instr(u, read_rate(u, b), m), mul_instr(u, one_less(u, b), x));
}

/* 1 - b^t = 1 - exp(t log b), in f64, since nearly everything cancels at the first steps. If the operand t holds that
 * number already, loads it in the type of the arithmetic. */
static uint16_t correct_bias(const update *u, const char *b) {
  if (u->bias[0]) return u->bias[!strcmp(b, "beta2")];
  uint16_t t = msc_nest_cast(u->n, u->in[4], MSC_F64),
           log_b = u->hypers < 0 ? msc_nest_scalar(u->n, MSC_F64, log(msc_op_float(u->op, b)))
                                 : msc_nest_op(u->n, NEST_LOG, read_rate_f64(u, b), 0);
  return sub_instr(u, msc_nest_number(u->n, MSC_F64, 1), msc_nest_op(u->n, NEST_EXP, mul_instr(u, t, log_b), 0));
}

static uint16_t expand_momentum(const update *u, size_t result) {
  uint16_t w = u->in[0], g = add_decay(u, u->in[2], w), old = mul_instr(u, read_rate(u, "momentum"), u->in[1]);
  uint16_t m = add_instr(u, old, has_attr(u, "dampening") ? mul_instr(u, one_less(u, "dampening"), g) : g);
  if (result == 1) return m;
  if (msc_op_bool(u->op, "nesterov")) m = add_instr(u, g, mul_instr(u, read_rate(u, "momentum"), m));
  return sub_instr(u, w, mul_instr(u, lr_instr(u), m));
}

/* 1 - lr weight_decay */
static uint16_t decay_factor(const update *u) {
  bool narrow = u->bias[0];
  if (msc_operand_called(u->op, "rate") < 0)
    return msc_nest_scalar(u->n, u->dtype, 1 - msc_op_float(u->op, "lr") * msc_op_float(u->op, "weight_decay"));
  uint16_t decay = narrow ? mul_instr(u, lr_instr(u), read_rate(u, "weight_decay"))
                          : mul_instr(u, lr_f64(u), read_rate_f64(u, "weight_decay"));
  return msc_nest_cast(u->n, sub_instr(u, msc_nest_number(u->n, narrow ? u->dtype : MSC_F64, 1), decay), u->dtype);
}

/* The step of adam; `apart`: weight_decay shrinks w by itself, and is no part of the gradient. */
static uint16_t step_adam(const update *u, size_t result, bool apart) {
  uint16_t w = u->in[0], g = apart ? u->in[3] : add_decay(u, u->in[3], w);
  uint16_t m = average(u, "beta1", u->in[1], g), v = average(u, "beta2", u->in[2], mul_instr(u, g, g));
  if (result == 1) return m;
  if (result == 2) return v;
  uint16_t lr = u->bias[0] ? lr_instr(u) : lr_f64(u);
  uint16_t step = msc_nest_cast(u->n, div_instr(u, lr, correct_bias(u, "beta1")), u->dtype);
  uint16_t scale = msc_nest_cast(u->n, sqrt_instr(u, correct_bias(u, "beta2")), u->dtype);
  if (apart && has_attr(u, "weight_decay")) w = mul_instr(u, w, decay_factor(u));
  return sub_instr(
      u, w,
      mul_instr(u, step, div_instr(u, m, add_instr(u, div_instr(u, sqrt_instr(u, v), scale), read_rate(u, "eps")))));
}

/* weight_decay in the gradient */
static uint16_t expand_adam(const update *u, size_t result) { return step_adam(u, result, false); }

/* w (1 - lr weight_decay) first */
static uint16_t expand_adamw(const update *u, size_t result) { return step_adam(u, result, true); }

static uint16_t expand_lamb_moments(const update *u, size_t result) {
  uint16_t g = u->in[3], m = average(u, "beta1", u->in[1], g), v = average(u, "beta2", u->in[2], mul_instr(u, g, g));
  if (result == 1) return m;
  if (result == 2) return v;
  uint16_t bias1 = msc_nest_cast(u->n, correct_bias(u, "beta1"), u->dtype),
           bias2 = msc_nest_cast(u->n, correct_bias(u, "beta2"), u->dtype);
  uint16_t r =
      div_instr(u, div_instr(u, m, bias1), add_instr(u, sqrt_instr(u, div_instr(u, v, bias2)), read_rate(u, "eps")));
  return has_attr(u, "weight_decay") ? add_instr(u, r, mul_instr(u, read_rate(u, "weight_decay"), u->in[0])) : r;
}

static uint16_t expand_adagrad(const update *u, size_t result) {
  uint16_t w = u->in[0], g = add_decay(u, u->in[2], w), v = add_instr(u, u->in[1], mul_instr(u, g, g));
  if (result == 1) return v;
  uint16_t root = add_instr(u, sqrt_instr(u, v), read_rate(u, "eps"));
  return sub_instr(u, w, div_instr(u, mul_instr(u, lr_instr(u), g), root));
}

/* The step of rmsprop; v is operand `at`, the gradient is behind it, and of rmsprop_momentum m is operand 1. */
static uint16_t step_rmsprop(const update *u, size_t result, size_t at) {
  uint16_t w = u->in[0], g = add_decay(u, u->in[at + 1], w), v = average(u, "alpha", u->in[at], mul_instr(u, g, g));
  if (result == at) return v;
  uint16_t step = div_instr(u, g, add_instr(u, sqrt_instr(u, v), read_rate(u, "eps")));
  if (at == 2) step = add_instr(u, mul_instr(u, read_rate(u, "momentum"), u->in[1]), step);
  return result == 1 ? step : sub_instr(u, w, mul_instr(u, lr_instr(u), step));
}

static uint16_t expand_rmsprop(const update *u, size_t result) { return step_rmsprop(u, result, 1); }
static uint16_t expand_rmsprop_momentum(const update *u, size_t result) { return step_rmsprop(u, result, 2); }

static uint16_t expand_sgd(const update *u, size_t result) {
  (void)result; /* it has one */
  return sub_instr(u, u->in[0], mul_instr(u, lr_instr(u), add_decay(u, u->in[1], u->in[0])));
}

static uint16_t expand_assign(const update *u, size_t result) { return u->in[1 + result]; }

static uint16_t expand_lamb_apply(const update *u, size_t result) {
  (void)result;
  return sub_instr(u, u->in[0], mul_instr(u, mul_instr(u, lr_instr(u), u->in[2]), u->in[1]));
}

/* By op, the instructions that compute an element of a result. */
static uint16_t (*const update_of[OP_COUNT])(const update *u, size_t result) = {
#define UPDATE(op, expand) [OP_##op] = expand,
#include "passes/7_lower/nest/loop.def"
};

/* The operand whose new value is the result; -1: none. */
static int old_value(const msc_op *op, size_t result) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_operands; i++)
    if (info->operand[i].tied == (int)result) return i;
  return -1;
}

uint16_t msc_nest_update(msc_nester *n, const msc_op *op, int y, const msc_view *view) {
  update u = {.n = n, .op = op, .dtype = msc_compute_dtype(n->value[y].value->type->dtype), .hypers = -1};
  size_t result = n->value[y].value->index;
  for (int i = 0; i < op->num_in && i < 7; i++) {
    int v = msc_nest_find_value(n, op->in[i].value);
    msc_view at = msc_nest_stretch(n, y, view, v);
    bool pair = i == msc_operand_called(op, "t") && n->value[v].value->type->rank;
    for (int k = 0; pair && k < 2; k++) {
      at.at[0] = msc_nest_coord(n, &(msc_coord){.a = {.c0 = k}});
      u.bias[k] = msc_nest_eval(n, v, &at);
    }
    if (msc_reads_hypers(op) && i == msc_operand_called(op, "rate")) u.hypers = v, u.view = at;
    else if (!pair) u.in[i] = msc_nest_eval(n, v, &at);
  }
  if (n->failed) return 0;
  int ok = msc_operand_called(op, "ok"), old = old_value(op, result);
  uint16_t fresh = update_of[op->kind](&u, result);
  return ok >= 0 && old >= 0 ? msc_nest_select(n, u.in[ok], fresh, u.in[old]) : fresh;
}
