/* elementwise.c: nodes that compute each element of those at its place. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

bool onnx_build_plain(onnx_node *n) {
  msc_value *in[3] = {NULL, NULL, NULL};
  const msc_op_info *info = msc_op_info_of(n->ctx, n->row->kind);
  for (int i = 0; i < info->min_in; i++) MSC_TRY((in[i] = onnx_in(n, (size_t)i)));
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs"); /* says nothing about values */
  return onnx_set(n, 0, msc_build(n->b, n->row->kind, (size_t)info->min_in, in));
}

/* Before opset 7 the second operand was placed along the first one's dimensions from `axis` on. */
static msc_value *placed(onnx_node *n, msc_value *x, msc_value *y) {
  if (n->opset >= 7 || !x || !y) return y;
  onnx_attr_of(n, "consumed_inputs");
  int64_t axis = onnx_int(n, "axis", x->type->rank - y->type->rank), dim[MSC_MAX_RANK];
  if (!onnx_int(n, "broadcast", 0) || y->type->rank == x->type->rank) return y;
  if (axis < 0) axis += x->type->rank;
  if (axis < 0 || axis + y->type->rank > x->type->rank) return onnx_refuse(n, "axis does not fit"), NULL;
  for (int d = 0; d < x->type->rank; d++) dim[d] = d >= axis && d < axis + y->type->rank ? y->type->dim[d - axis] : 1;
  return reshape(n->b, y, x->type->rank, dim);
}

bool onnx_build_binary(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *y = placed(n, x, onnx_in(n, 1));
  return onnx_set(n, 0, x && y ? binary(n->b, n->row->kind, x, y) : NULL);
}

bool onnx_build_pow(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *y = placed(n, x, onnx_in(n, 1));
  if (!x || !y) return false;
  msc_dtype type = x->type->dtype, with = msc_is_float(type) ? type : MSC_F64;
  return onnx_set(n, 0, cast(n->b, binary(n->b, OP_pow, cast(n->b, x, with), cast(n->b, y, with)), type));
}

static msc_value *fold_operands(onnx_node *n) {
  msc_value *all = onnx_in(n, 0);
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs");
  for (size_t i = 1; i < n->num_in && all; i++) {
    msc_value *next = onnx_in(n, i);
    all = next ? binary(n->b, n->row->kind, all, next) : NULL;
  }
  return all;
}

bool onnx_build_variadic(onnx_node *n) { return onnx_set(n, 0, fold_operands(n)); }

bool onnx_build_mean(onnx_node *n) {
  msc_value *sum = fold_operands(n);
  return onnx_set(n, 0, sum ? over(n->b, sum, like(n->b, sum, (double)n->num_in)) : NULL);
}

/* True and false as numbers, which can be compared. */
static msc_value *as_number(msc_builder *b, msc_value *x) {
  return x && x->type->dtype == MSC_I1 ? cast(b, x, MSC_I32) : x;
}

bool onnx_build_compare(onnx_node *n) {
  static const char *const words[][2] = {
      {"Equal", "eq"}, {"Less", "lt"}, {"LessOrEqual", "le"}, {"Greater", "gt"}, {"GreaterOrEqual", "ge"}};
  const char *predicate = NULL;
  for (size_t i = 0; i < 5; i++)
    if (!strcmp(n->row->name, words[i][0])) predicate = words[i][1];
  msc_value *x = onnx_in(n, 0), *y = placed(n, x, onnx_in(n, 1));
  if (!x || !y) return false;
  msc_value *a = as_number(n->b, x), *c = as_number(n->b, y);
  return onnx_set(n, 0, compare(n->b, predicate, a, c));
}

bool onnx_build_reciprocal(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs");
  return onnx_set(n, 0, x ? over(n->b, like(n->b, x, 1), x) : NULL);
}

/* ---- functions of one number that msc has no row for: made of exp, log and roots, in f32 at least ---- */

/* Computes with x widened, and gives the result x's type. */
static bool set_narrow(onnx_node *n, const msc_value *x, msc_value *y) {
  return onnx_set(n, 0, y ? cast(n->b, y, x->type->dtype) : NULL);
}

bool onnx_build_tan(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widened(n->b, in);
  msc_value *s = x ? unary(n->b, OP_sin, x) : NULL;
  return in && set_narrow(n, in, s ? over(n->b, s, unary(n->b, OP_cos, x)) : NULL);
}

bool onnx_build_sinh(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widened(n->b, in);
  if (!x) return false;
  msc_value *up = unary(n->b, OP_exp, x), *down = unary(n->b, OP_exp, unary(n->b, OP_neg, x));
  bool cosh = n->row->name[0] == 'C';
  msc_value *y = scaled(n->b, cosh ? plus(n->b, up, down) : minus(n->b, up, down), 0.5);
  if (cosh) return set_narrow(n, in, y);
  /* where exp(x) - exp(-x) cancels: x + x^3 / 6 */
  msc_value *x2 = times(n->b, x, x), *small = times(n->b, x, plus(n->b, like(n->b, x, 1), scaled(n->b, x2, 1.0 / 6)));
  msc_value *near = compare(n->b, "lt", unary(n->b, OP_abs, x), like(n->b, x, 1e-2));
  return set_narrow(n, in, choose(n->b, near, small, y));
}

/* sign(x) log(|x| + sqrt(x^2 + 1)) */
bool onnx_build_asinh(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widened(n->b, in);
  if (!x) return false;
  msc_value *a = unary(n->b, OP_abs, x), *root = unary(n->b, OP_sqrt, plus(n->b, times(n->b, x, x), like(n->b, x, 1)));
  msc_value *l = unary(n->b, OP_log, plus(n->b, a, root));
  msc_value *x2 = times(n->b, x, x), *small = times(n->b, x, minus(n->b, like(n->b, x, 1), scaled(n->b, x2, 1.0 / 6)));
  msc_value *near = compare(n->b, "lt", a, like(n->b, x, 1e-2)), *s = unary(n->b, OP_sign, x);
  return set_narrow(n, in, choose(n->b, near, small, times(n->b, s, l)));
}

bool onnx_build_acosh(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widened(n->b, in);
  if (!x) return false;
  msc_value *root = unary(n->b, OP_sqrt, minus(n->b, times(n->b, x, x), like(n->b, x, 1)));
  return set_narrow(n, in, unary(n->b, OP_log, plus(n->b, x, root)));
}

bool onnx_build_atanh(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widened(n->b, in);
  if (!x) return false;
  msc_value *one = like(n->b, x, 1), *up = plus(n->b, one, x);
  msc_value *l = scaled(n->b, unary(n->b, OP_log, over(n->b, up, minus(n->b, one, x))), 0.5);
  msc_value *x2 = times(n->b, x, x), *small = times(n->b, x, plus(n->b, one, scaled(n->b, x2, 1.0 / 3)));
  msc_value *near = compare(n->b, "lt", unary(n->b, OP_abs, x), like(n->b, x, 1e-2));
  return set_narrow(n, in, choose(n->b, near, small, l));
}

/* atan(x) = 4 atan(t) for t the quarter of the angle, by two halvings x -> x / (1 + sqrt(1 + x^2)), of which the
 * second is at most tan(pi / 8); above 1, x -> 1 / x first.  Then the series, whose last term is below 1e-16. */
static msc_value *arc_tangent(msc_builder *b, msc_value *x) {
  if (!x) return NULL;
  msc_value *a = unary(b, OP_abs, x), *one = like(b, x, 1);
  msc_value *above = compare(b, "gt", a, one), *inverse = over(b, one, binary(b, OP_max, a, one));
  msc_value *t = choose(b, above, inverse, a);
  for (int i = 0; i < 2; i++) {
    msc_value *root = unary(b, OP_sqrt, plus(b, one, times(b, t, t)));
    t = over(b, t, plus(b, one, root));
  }
  msc_value *t2 = times(b, t, t), *sum = like(b, x, 1.0 / 23);
  for (int k = 10; k >= 0; k--) {
    msc_value *c = like(b, x, 1.0 / (2 * k + 1));
    sum = minus(b, c, times(b, t2, sum));
  }
  msc_value *angle = scaled(b, times(b, t, sum), 4);
  msc_value *rest = minus(b, like(b, x, 1.57079632679489661923), angle);
  msc_value *magnitude = choose(b, above, rest, angle);
  msc_value *negative = compare(b, "lt", x, like(b, x, 0));
  return choose(b, negative, unary(b, OP_neg, magnitude), magnitude);
}

bool onnx_build_atan(onnx_node *n) {
  msc_value *in = onnx_in(n, 0);
  return in && set_narrow(n, in, arc_tangent(n->b, widened(n->b, in)));
}

/* asin(x) = 2 atan(x / (1 + sqrt(1 - x^2))), acos(x) = pi / 2 - asin(x) */
bool onnx_build_asin(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = widened(n->b, in);
  if (!x) return false;
  msc_value *one = like(n->b, x, 1);
  msc_value *below = minus(n->b, one, x), *square = times(n->b, below, plus(n->b, one, x));
  msc_value *root = unary(n->b, OP_sqrt, square);
  msc_value *y = scaled(n->b, arc_tangent(n->b, over(n->b, x, plus(n->b, one, root))), 2);
  if (n->row->name[1] == 'c') y = y ? minus(n->b, like(n->b, y, 1.57079632679489661923), y) : NULL;
  return set_narrow(n, in, y);
}

/* ---- activations ---- */

static bool with_float(onnx_node *n, msc_op_kind kind, const char *attr, double v) {
  msc_value *x = onnx_in(n, 0);
  msc_attr a = msc_named(n->ctx, attr, msc_float(v));
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs");
  return onnx_set(n, 0, x ? with_attrs(n->b, kind, 1, &x, 1, &a) : NULL);
}

bool onnx_build_elu(onnx_node *n) { return with_float(n, OP_elu, "alpha", onnx_float(n, "alpha", 1)); }
bool onnx_build_leaky_relu(onnx_node *n) {
  return with_float(n, OP_leaky_relu, "slope", onnx_float(n, "alpha", 0.01f));
}

/* max(x, 0) + min(alpha (exp(x / beta) - 1), 0) */
static msc_value *elu_of(msc_builder *b, msc_value *x, double alpha, double beta) {
  if (!x) return NULL;
  msc_value *zero = like(b, x, 0), *negative = binary(b, OP_min, x, zero);
  msc_value *e = unary(b, OP_exp, scaled(b, negative, 1 / beta));
  msc_value *below = scaled(b, minus(b, e, like(b, x, 1)), alpha);
  return plus(b, binary(b, OP_max, x, zero), below);
}

bool onnx_build_celu(onnx_node *n) {
  double alpha = onnx_float(n, "alpha", 1);
  return onnx_set(n, 0, elu_of(n->b, onnx_in(n, 0), alpha, alpha));
}

bool onnx_build_selu(onnx_node *n) {
  double alpha = onnx_float(n, "alpha", 1.67326319217681884765625);
  double gamma = onnx_float(n, "gamma", 1.05070102214813232421875);
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs");
  return onnx_set(n, 0, scaled(n->b, elu_of(n->b, onnx_in(n, 0), alpha, 1), gamma));
}

bool onnx_build_thresholded_relu(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  if (!x) return false;
  msc_value *above = compare(n->b, "gt", x, like(n->b, x, onnx_float(n, "alpha", 1)));
  return onnx_set(n, 0, choose(n->b, above, x, like(n->b, x, 0)));
}

bool onnx_build_prelu(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *slope = onnx_in(n, 1);
  if (!x || !slope) return false;
  int64_t dim[MSC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (n->opset < 7 && slope->type->rank == 1 && x->type->rank > 1) {
    dim[1] = slope->type->dim[0]; /* a slope per channel */
    slope = reshape(n->b, slope, x->type->rank, dim);
  }
  msc_value *negative = compare(n->b, "lt", x, like(n->b, x, 0));
  return onnx_set(n, 0, choose(n->b, negative, times(n->b, x, slope), x));
}

static msc_value *hard_sigmoid(msc_builder *b, msc_value *x, double alpha, double beta) {
  if (!x) return NULL;
  msc_value *line = plus(b, scaled(b, x, alpha), like(b, x, beta));
  msc_value *above = binary(b, OP_max, line, like(b, x, 0));
  return binary(b, OP_min, above, like(b, x, 1));
}

bool onnx_build_hard_sigmoid(onnx_node *n) {
  double alpha = onnx_float(n, "alpha", 0.2f), beta = onnx_float(n, "beta", 0.5f);
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs");
  return onnx_set(n, 0, hard_sigmoid(n->b, onnx_in(n, 0), alpha, beta));
}

static msc_value *softsign(msc_builder *b, msc_value *x) {
  if (!x) return NULL;
  msc_value *one = like(b, x, 1);
  return over(b, x, plus(b, one, unary(b, OP_abs, x)));
}

bool onnx_build_softsign(onnx_node *n) { return onnx_set(n, 0, softsign(n->b, onnx_in(n, 0))); }

bool onnx_build_shrink(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  double bias = onnx_float(n, "bias", 0), lambd = onnx_float(n, "lambd", 0.5);
  if (!x) return false;
  msc_value *low = compare(n->b, "lt", x, like(n->b, x, -lambd)), *high = compare(n->b, "gt", x, like(n->b, x, lambd));
  msc_value *c = like(n->b, x, bias), *up = plus(n->b, x, c), *down = minus(n->b, x, c);
  msc_value *rest = choose(n->b, high, down, like(n->b, x, 0));
  return onnx_set(n, 0, choose(n->b, low, up, rest));
}

bool onnx_build_gelu(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  const char *form = onnx_text(n, "approximate", "none");
  if (strcmp(form, "none") && strcmp(form, "tanh")) return onnx_refuse(n, "approximate '%s' is unknown", form);
  return onnx_set(n, 0, x ? with_word(n->b, OP_gelu, 1, &x, "form", form[0] == 'n' ? "erf" : "tanh") : NULL);
}

bool onnx_build_swish(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  double alpha = onnx_float(n, "alpha", 1);
  if (!x || alpha == 1) return onnx_set(n, 0, x ? unary(n->b, OP_silu, x) : NULL);
  return onnx_set(n, 0, times(n->b, x, unary(n->b, OP_sigmoid, scaled(n->b, x, alpha))));
}

msc_value *onnx_activation(onnx_node *n, const char *name, double alpha, double beta, msc_value *x) {
  static const struct {
    const char *name;
    msc_op_kind kind;
  } plain[] = {{"relu", OP_relu}, {"tanh", OP_tanh}, {"sigmoid", OP_sigmoid}, {"softplus", OP_softplus}};
  char word[24] = "";
  for (size_t i = 0; name[i] && i + 1 < sizeof word; i++)
    word[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (!strcmp(word, plain[i].name)) return x ? unary(n->b, plain[i].kind, x) : NULL;
  if (!strcmp(word, "affine")) return x ? plus(n->b, scaled(n->b, x, alpha), like(n->b, x, beta)) : NULL;
  if (!strcmp(word, "hardsigmoid"))
    return hard_sigmoid(n->b, x, isnan(alpha) ? 0.2f : alpha, isnan(beta) ? 0.5f : beta);
  if (!strcmp(word, "softsign")) return softsign(n->b, x);
  if (!strcmp(word, "elu")) return elu_of(n->b, x, isnan(alpha) ? 1 : alpha, 1);
  if (!strcmp(word, "scaledtanh")) return x ? scaled(n->b, unary(n->b, OP_tanh, scaled(n->b, x, beta)), alpha) : NULL;
  if (!strcmp(word, "leakyrelu") && x) {
    msc_attr a = msc_named(n->ctx, "slope", msc_float(isnan(alpha) ? 0.01f : alpha));
    return with_attrs(n->b, OP_leaky_relu, 1, &x, 1, &a);
  }
  onnx_refuse(n, "the activation '%s' is not supported", name);
  return NULL;
}

/* ---- bounds, remainders, classes of numbers ---- */

bool onnx_build_clip(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  if (!x) return false;
  if (n->opset < 11) {
    const onnx_attr *low = onnx_attr_of(n, "min"), *high = onnx_attr_of(n, "max");
    if (n->opset < 6) onnx_attr_of(n, "consumed_inputs");
    if (low) x = binary(n->b, OP_max, x, like(n->b, x, (double)low->f));
    if (high && x) x = binary(n->b, OP_min, x, like(n->b, x, (double)high->f));
    return onnx_set(n, 0, x);
  }
  for (size_t i = 1; i <= 2; i++) {
    if (!onnx_has(n, i)) continue;
    msc_value *bound = onnx_in(n, i);
    x = x && bound ? binary(n->b, i == 1 ? OP_max : OP_min, x, reshape(n->b, bound, 0, NULL)) : NULL;
  }
  return onnx_set(n, 0, x);
}

bool onnx_build_mod(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *y = onnx_in(n, 1);
  if (!x || !y) return false;
  if (!onnx_int(n, "fmod", 0)) return onnx_set(n, 0, binary(n->b, OP_mod, x, y));
  msc_value *a = widened(n->b, x), *c = widened(n->b, y), *q = over(n->b, a, c); /* x - trunc(x / y) y */
  if (q && msc_is_float(q->type->dtype)) {
    msc_value *down = unary(n->b, OP_floor, q), *up = unary(n->b, OP_ceil, q);
    q = choose(n->b, compare(n->b, "lt", q, like(n->b, q, 0)), up, down);
  }
  return onnx_set(n, 0, cast(n->b, minus(n->b, a, times(n->b, q, c)), x->type->dtype));
}

bool onnx_build_is_nan(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  return onnx_set(n, 0, x ? compare(n->b, "ne", x, x) : NULL);
}

bool onnx_build_is_inf(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  bool low = onnx_int(n, "detect_negative", 1), high = onnx_int(n, "detect_positive", 1);
  if (!x) return false;
  msc_value *is_low = compare(n->b, "eq", x, like(n->b, x, -(double)INFINITY));
  msc_value *is_high = compare(n->b, "eq", x, like(n->b, x, (double)INFINITY));
  if (low && high) return onnx_set(n, 0, binary(n->b, OP_logical_or, is_low, is_high));
  if (low || high) return onnx_set(n, 0, low ? is_low : is_high);
  return onnx_set(n, 0, onnx_broadcast(n->b, msc_build_scalar(n->b, MSC_I1, 0), x->type->rank, x->type->dim));
}

/* ---- types ---- */

static bool set_cast(onnx_node *n, msc_value *x, msc_dtype to) {
  onnx_int(n, "saturate", 1); /* of 8-bit floats, which msc does not have */
  onnx_text(n, "round_mode", "up");
  return onnx_set(n, 0, x ? cast(n->b, x, to) : NULL);
}

bool onnx_build_cast(onnx_node *n) {
  msc_dtype to;
  int64_t type = onnx_int(n, "to", 0);
  if (n->opset < 6) { /* by name */
    const char *name = onnx_text(n, "to", "FLOAT");
    for (int t = 1; t <= 16; t++)
      if (!strcasecmp(onnx_dtype_name(t), name)) type = t;
  }
  if (type < 0 || type > 1000 || !onnx_dtype((int)type, &to))
    return onnx_refuse(n, "to type %s, which msc does not have", type < 0 ? "?" : onnx_dtype_name((int)(type % 1000)));
  return set_cast(n, onnx_in(n, 0), to);
}

bool onnx_build_cast_like(onnx_node *n) {
  const msc_type *t = onnx_type(n, 1);
  return t && set_cast(n, onnx_in(n, 0), t->dtype);
}

/* Between integers of one size the bits stay in a cast. */
bool onnx_build_bit_cast(onnx_node *n) {
  msc_dtype to;
  msc_value *x = onnx_in(n, 0);
  int64_t type = onnx_int(n, "to", 0);
  if (!x) return false;
  if (type < 0 || type > 1000 || !onnx_dtype((int)type, &to)) return onnx_refuse(n, "to a type that msc does not have");
  msc_dtype from = x->type->dtype;
  if (msc_dtype_bytes(from) != msc_dtype_bytes(to)) return onnx_refuse(n, "the two types have not the same size");
  onnx_value *v = n->in[0];
  if (v->data) return onnx_set_constant(n, 0, msc_type_with_dtype(n->ctx, v->type, to), v->data);
  if (from == to) return onnx_set_value(n, 0, v);
  if (msc_is_float(from) || msc_is_float(to) || from == MSC_I1 || to == MSC_I1)
    return onnx_refuse(n, "between %s and %s is not supported", msc_dtype_name(from), msc_dtype_name(to));
  return onnx_set(n, 0, cast(n->b, x, to));
}

bool onnx_build_identity(onnx_node *n) {
  return onnx_has(n, 0) ? onnx_set_value(n, 0, n->in[0]) : onnx_refuse(n, "lacks its input");
}

/* As in inference: the input, and a mask of ones. */
bool onnx_build_dropout(onnx_node *n) {
  const msc_type *t = onnx_type(n, 0);
  if (!t) return false;
  onnx_float(n, "ratio", 0.5);
  onnx_int(n, "seed", 0);
  onnx_int(n, "is_test", 1);
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs");
  if (n->opset >= 12 && onnx_has(n, 2)) {
    int64_t training;
    double ratio = 0.5;
    MSC_TRY(onnx_const_int(n, 2, &training));
    if (onnx_has(n, 1)) MSC_TRY(onnx_const_float(n, 1, &ratio));
    if (training && ratio > 0) return onnx_refuse(n, "training_mode is not supported: a model is read for inference");
  }
  msc_dtype mask = n->opset < 10 ? t->dtype : MSC_I1;
  if (onnx_wants(n, 1)) MSC_TRY(onnx_set(n, 1, onnx_broadcast(n->b, msc_build_scalar(n->b, mask, 1), t->rank, t->dim)));
  return onnx_set_value(n, 0, n->in[0]);
}

/* ---- bits ---- */

/* -1 - x in two's complement; of unsigned numbers it wraps to the same. */
bool onnx_build_bitwise_not(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  return onnx_set(n, 0, x ? minus(n->b, like(n->b, x, -1), x) : NULL);
}

/* Bit by bit: what is left of both is halved, its last bits are multiplied. */
static msc_value *common_bits(msc_builder *b, msc_value *x, msc_value *y, int bits) {
  msc_value *sum = NULL, *two = like(b, x, 2);
  double place = 1;
  for (int i = 0; i < bits; i++, place *= 2) {
    msc_value *p = binary(b, OP_mod, x, two), *q = binary(b, OP_mod, y, two);
    msc_value *bit = times(b, p, q);
    if (!bit) return NULL;
    msc_value *term = times(b, bit, like(b, x, i == 63 ? -place : place));
    sum = sum ? plus(b, sum, term) : term;
    x = over(b, minus(b, x, p), two), y = over(b, minus(b, y, q), two);
  }
  return sum;
}

bool onnx_build_bitwise(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *y = onnx_in(n, 1);
  if (!x || !y) return false;
  msc_value *both = common_bits(n->b, x, y, (int)msc_dtype_bytes(x->type->dtype) * 8);
  if (!strcmp(n->row->name, "BitwiseAnd")) return onnx_set(n, 0, both);
  msc_value * or = minus(n->b, plus(n->b, x, y), both); /* x + y counts common bits twice */
  return onnx_set(n, 0, n->row->name[7] == 'O' ? or : minus(n->b, or, both));
}
