/* elementwise.c: an elementwise node in; its ops out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/onnx/onnx.h"

bool onnx_build_plain(onnx_node *n) {
  msc_value *in[3] = {NULL, NULL, NULL};
  const msc_op_info *info = msc_op_info_of(n->ctx, n->row->kind);
  for (int i = 0; i < info->min_in; i++) MSC_TRY((in[i] = onnx_in(n, (size_t)i)));
  return onnx_set(n, 0, msc_build(n->b, n->row->kind, (size_t)info->min_in, in));
}

/* Reads the next "name=number" of a row's defaults; false: there is none. */
static bool next_default(const char **at, char name[16], double *out_v) {
  size_t length = *at ? strcspn(*at, "=") : 0;
  if (!length) return false;
  char *end;
  memcpy(name, *at, length), name[length] = 0;
  *out_v = (double)strtof(*at + length + 1, &end);
  *at = end + strspn(end, " ");
  return true;
}

/* Builds the row's formula of x.  Its attributes b and c are those given, if they are numbers, else the row's
 * defaults. */
static msc_value *formula_of(onnx_node *n, const onnx_row *row, msc_value *x, const double given[2]) {
  msc_value *in[3] = {x, NULL, NULL};
  const char *at = row->defaults;
  char name[16];
  double v;
  for (int i = 0; x && next_default(&at, name, &v); i++) in[1 + i] = like(n->b, x, isnan(given[i]) ? v : given[i]);
  return x ? msc_build_formula(n->b, row->text, in) : NULL;
}

bool onnx_build_formula(onnx_node *n) {
  double given[2] = {0};
  const char *at = n->row->defaults;
  char name[16];
  for (int i = 0; next_default(&at, name, &given[i]); i++) given[i] = onnx_float(n, name, given[i]);
  return onnx_set(n, 0, formula_of(n, n->row, onnx_in(n, 0), given));
}

/* y, reshaped so that it broadcasts to x: before opset 7 its dimensions are x's from attribute `axis` on. */
static msc_value *align_operand(onnx_node *n, msc_value *x, msc_value *y) {
  if (n->opset >= 7 || !x || !y) return y;
  int64_t axis = onnx_int(n, "axis", x->type->rank - y->type->rank), dim[MSC_MAX_RANK];
  if (!onnx_int(n, "broadcast", 0) || y->type->rank == x->type->rank) return y;
  if (axis < 0) axis += x->type->rank;
  if (axis < 0 || axis + y->type->rank > x->type->rank) return onnx_refuse(n, "axis does not fit"), NULL;
  for (int d = 0; d < x->type->rank; d++) dim[d] = d >= axis && d < axis + y->type->rank ? y->type->dim[d - axis] : 1;
  return reshape(n->b, y, x->type->rank, dim);
}

bool onnx_build_binary(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *y = align_operand(n, x, onnx_in(n, 1));
  return onnx_set(n, 0, x && y ? binary(n->b, n->row->kind, x, y) : NULL);
}

bool onnx_build_pow(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *y = align_operand(n, x, onnx_in(n, 1));
  if (!x || !y) return false;
  msc_dtype type = x->type->dtype, with = msc_is_float(type) ? type : MSC_F64;
  return onnx_set(n, 0, cast(n->b, msc_compute(n->b, "pow(a, b)", cast(n->b, x, with), cast(n->b, y, with)), type));
}

static msc_value *fold_operands(onnx_node *n) {
  msc_value *all = onnx_in(n, 0);
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
  msc_value *x = onnx_in(n, 0), *y = align_operand(n, x, onnx_in(n, 1));
  if (!x || !y) return false;
  msc_value *a = as_number(n->b, x), *c = as_number(n->b, y);
  msc_predicate predicate;
  return msc_predicate_parse(n->row->text, &predicate) && onnx_set(n, 0, compare(n->b, predicate, a, c));
}

/* ---- activations ---- */

/* The row's op with one attribute, `text`, which has another name in ONNX. */
bool onnx_build_with_number(onnx_node *n) {
  const char *at = n->row->defaults;
  char name[16];
  double v = 0;
  if (!next_default(&at, name, &v)) return onnx_refuse(n, "the row lacks a default");
  msc_value *x = onnx_in(n, 0);
  msc_attr a = msc_named(n->ctx, n->row->text, msc_float(onnx_float(n, name, v)));
  return onnx_set(n, 0, x ? with_attrs(n->b, n->row->kind, 1, &x, 1, &a) : NULL);
}

bool onnx_build_prelu(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *slope = onnx_in(n, 1);
  if (!x || !slope) return false;
  int64_t dim[MSC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (n->opset < 7 && slope->type->rank == 1 && x->type->rank > 1) {
    dim[1] = slope->type->dim[0]; /* a slope per channel */
    slope = reshape(n->b, slope, x->type->rank, dim);
  }
  return onnx_set(n, 0, msc_compute(n->b, "select(less(a, 0), a * b, a)", x, slope));
}

bool onnx_build_gelu(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  const char *form = onnx_text(n, "approximate", "none");
  if (strcmp(form, "none") && strcmp(form, "tanh")) return onnx_refuse(n, "approximate '%s' is unknown", form);
  return onnx_set(n, 0, x ? gelu(n->b, form[0] == 'n' ? MSC_GELU_ERF : MSC_GELU_TANH, x) : NULL);
}

bool onnx_build_swish(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  double alpha = onnx_float(n, "alpha", 1);
  if (!x) return false;
  if (alpha == 1) return onnx_set(n, 0, msc_compute(n->b, "silu(a)", x));
  return onnx_set(n, 0, msc_compute(n->b, "a * sigmoid(b * a)", x, like(n->b, x, alpha)));
}

msc_value *onnx_activation(onnx_node *n, const char *name, double alpha, double beta, msc_value *x) {
  static const onnx_row own[] = {
      {.name = "Relu", .text = "relu(a)"},
      {.name = "Tanh", .text = "tanh(a)"},
      {.name = "Sigmoid", .text = "sigmoid(a)"},
      {.name = "Softplus", .text = "softplus(a)"},
      {.name = "Affine", .text = "b * a + c", .defaults = "alpha=1 beta=0"},
      {.name = "ScaledTanh", .text = "b * tanh(c * a)", .defaults = "alpha=1 beta=1"},
      {.name = "LeakyRelu", .text = "max(a, 0) + b * min(a, 0)", .defaults = "alpha=0.01"},
  };
  const onnx_row *row = onnx_formula_row(name);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (!strcasecmp(name, own[i].name)) row = &own[i];
  if (!row) return onnx_refuse(n, "the activation '%s' is not supported", name), NULL;
  return formula_of(n, row, x, (double[]){alpha, beta});
}

/* ---- bounds, remainders, classes of numbers ---- */

bool onnx_build_clip(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  if (!x) return false;
  if (n->opset < 11) {
    const onnx_attr *low = onnx_attr_of(n, "min", ONNX_FLOAT), *high = onnx_attr_of(n, "max", ONNX_FLOAT);
    if (low) x = msc_compute(n->b, "max(a, b)", x, like(n->b, x, (double)low->f));
    if (high && x) x = msc_compute(n->b, "min(a, b)", x, like(n->b, x, (double)high->f));
    return onnx_set(n, 0, x);
  }
  for (size_t i = 1; i <= 2; i++) {
    if (!onnx_has(n, i)) continue;
    msc_value *bound = onnx_in(n, i);
    if (!x || !bound) return false;
    x = msc_compute(n->b, i == 1 ? "max(a, b)" : "min(a, b)", x, reshape(n->b, bound, 0, NULL));
  }
  return onnx_set(n, 0, x);
}

/* 1 where x is above a threshold, 0 elsewhere. */
bool onnx_build_binarizer(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  double threshold = onnx_float(n, "threshold", 0);
  return onnx_set(n, 0, x ? cast(n->b, compare(n->b, MSC_GT, x, like(n->b, x, threshold)), x->type->dtype) : NULL);
}

bool onnx_build_mod(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *y = onnx_in(n, 1);
  return onnx_set(n, 0, x && y ? msc_compute(n->b, onnx_int(n, "fmod", 0) ? "fmod(a, b)" : "mod(a, b)", x, y) : NULL);
}

bool onnx_build_is_inf(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  bool low = onnx_int(n, "detect_negative", 1), high = onnx_int(n, "detect_positive", 1);
  if (!x) return false;
  if (low && high) return onnx_set(n, 0, msc_compute(n->b, "is_inf(a)", x));
  msc_value *one = like(n->b, x, low ? -(double)INFINITY : (double)INFINITY);
  if (low || high) return onnx_set(n, 0, compare(n->b, MSC_EQ, x, one));
  return onnx_set(n, 0, broadcast(n->b, msc_build_scalar(n->b, MSC_I1, 0), x->type->rank, x->type->dim));
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

/* Casts between integers of one size, which keeps the bits. */
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

/* Builds dropout as in inference: the input, and a mask of ones. */
bool onnx_build_dropout(onnx_node *n) {
  const msc_type *t = onnx_type(n, 0);
  if (!t) return false;
  onnx_float(n, "ratio", 0.5);
  onnx_int(n, "seed", 0);
  onnx_int(n, "is_test", 1);
  if (n->opset >= 12 && onnx_has(n, 2)) {
    int64_t training;
    double ratio = 0.5;
    MSC_TRY(onnx_const_int(n, 2, &training));
    if (onnx_has(n, 1)) MSC_TRY(onnx_const_float(n, 1, &ratio));
    if (training && ratio > 0) return onnx_refuse(n, "training_mode is not supported: a model is read for inference");
  }
  msc_dtype mask = n->opset < 10 ? t->dtype : MSC_I1;
  if (onnx_wants(n, 1)) MSC_TRY(onnx_set(n, 1, broadcast(n->b, msc_build_scalar(n->b, mask, 1), t->rank, t->dim)));
  return onnx_set_value(n, 0, n->in[0]);
}

bool onnx_build_bit_shift(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *places = onnx_in(n, 1);
  const char *direction = onnx_text(n, "direction", "");
  bool left = !strcmp(direction, "LEFT");
  if (!x || !places) return false;
  if (!left && strcmp(direction, "RIGHT"))
    return onnx_refuse(n, "'direction' must be LEFT or RIGHT, not '%s'", direction);
  return onnx_set(n, 0, binary(n->b, left ? OP_shift_left : OP_shift_right, x, places));
}
