/* op_gradients.c: an op and the gradients of its results in; ops that compute the gradients of its operands out.  The
 * functions are named in op.def.  Slopes at kinks are PyTorch's: relu'(0) = abs'(0) = 0; equal maxima share. */
#include "ir/grad/op_gradients.h"

#include "ir/formula.h"
#include "ir/op_table.h"

/* ---- building; a NULL operand gives NULL, so only the last value is checked ---- */

static msc_value *stretch_to(msc_grad_ctx *g, msc_value *x, const msc_type *like) {
  return !x || msc_same_dims(x->type, like) ? x : broadcast(&g->b, x, like->rank, like->dim);
}

static msc_value *zeros_like(msc_grad_ctx *g, const msc_value *x) {
  return stretch_to(g, number(&g->b, x, 0), x->type);
}

/* Sums `v` over the dimensions in which it was broadcast from the shape of `like`. */
static msc_value *unbroadcast(msc_builder *b, msc_value *v, const msc_type *like) {
  return v ? sum_to(b, v, like->rank, like->dim) : NULL;
}

static msc_value *in(const msc_op *op, size_t i) { return op->in[i].value; }

/* Returns the gradient of result 0. The functions of ops with one result are called only when there is one. */
static msc_value *dy_of(const msc_grad_ctx *g) { return g->dresult[0]; }

/* Sets the gradient of operand i to dx, summed to the shape that i was broadcast from. */
static bool give_gradient(msc_grad_ctx *g, const msc_op *op, size_t i, msc_value *dx) {
  g->doperand[i] = unbroadcast(&g->b, dx, in(op, i)->type);
  return g->doperand[i] != NULL;
}

/* ---- no gradient passes ---- */

bool grad_none(msc_grad_ctx *g, msc_op *op) { return (void)g, (void)op, true; }
bool grad_zero(msc_grad_ctx *g, msc_op *op) { return (void)g, (void)op, true; }

/* ---- elementwise with two operands ---- */

bool grad_add(msc_grad_ctx *g, msc_op *op) {
  for (size_t i = 0; i < 2; i++) MSC_TRY(!g->wanted[i] || give_gradient(g, op, i, dy_of(g)));
  return true;
}

bool grad_sub(msc_grad_ctx *g, msc_op *op) {
  MSC_TRY(!g->wanted[0] || give_gradient(g, op, 0, dy_of(g)));
  return !g->wanted[1] ||
         give_gradient(g, op, 1, msc_compute(&g->b, "-a", unbroadcast(&g->b, dy_of(g), in(op, 1)->type)));
}

bool grad_mul(msc_grad_ctx *g, msc_op *op) {
  for (size_t i = 0; i < 2; i++)
    MSC_TRY(!g->wanted[i] || give_gradient(g, op, i, times(&g->b, dy_of(g), in(op, 1 - i))));
  return true;
}

/* y = a / b: da = dy / b, db = -dy y / b */
bool grad_div(msc_grad_ctx *g, msc_op *op) {
  MSC_TRY(!g->wanted[0] || give_gradient(g, op, 0, over(&g->b, dy_of(g), in(op, 1))));
  if (!g->wanted[1]) return true;
  return give_gradient(g, op, 1, msc_compute(&g->b, "-(a * b / c)", dy_of(g), &op->out[0], in(op, 1)));
}

/* The operand that wins the comparison gets the gradient; equal operands get half each. */
static bool grad_extremum(msc_grad_ctx *g, msc_op *op, msc_predicate wins) {
  msc_value *half = scale_by(&g->b, dy_of(g), 0.5);
  msc_value *equal = compare(&g->b, MSC_EQ, in(op, 0), in(op, 1));
  for (size_t i = 0; i < 2; i++) {
    if (!g->wanted[i]) continue;
    msc_value *zero = number(&g->b, dy_of(g), 0),
              *all = choose(&g->b, compare(&g->b, wins, in(op, i), in(op, 1 - i)), dy_of(g), zero);
    MSC_TRY(give_gradient(g, op, i, choose(&g->b, equal, half, all)));
  }
  return true;
}

bool grad_max(msc_grad_ctx *g, msc_op *op) { return grad_extremum(g, op, MSC_GT); }
bool grad_min(msc_grad_ctx *g, msc_op *op) { return grad_extremum(g, op, MSC_LT); }

/* da = dy b a^(b-1), 0 where b = 0; db = dy y log a, 0 where a = 0 and b >= 0 */
bool grad_pow(msc_grad_ctx *g, msc_op *op) {
  msc_value *a = in(op, 0), *b = in(op, 1), *zero = number(&g->b, a, 0);
  if (g->wanted[0]) {
    msc_value *slope = msc_compute(&g->b, "b * pow(a, b - 1)", a, b);
    MSC_TRY(
        give_gradient(g, op, 0, times(&g->b, dy_of(g), choose(&g->b, compare(&g->b, MSC_EQ, b, zero), zero, slope))));
  }
  if (!g->wanted[1]) return true;
  msc_value *one = number(&g->b, a, 1), *base = choose(&g->b, compare(&g->b, MSC_EQ, a, zero), one, a);
  msc_value *slope = msc_compute(&g->b, "a * log(b)", &op->out[0], base);
  msc_value *pole =
      compare(&g->b, MSC_LT, choose(&g->b, compare(&g->b, MSC_EQ, a, zero), b, zero), zero); /* a = 0, b < 0: -inf */
  return give_gradient(g, op, 1,
                       times(&g->b, dy_of(g), choose(&g->b, pole, msc_compute(&g->b, "-a", &op->out[0]), slope)));
}

bool grad_select(msc_grad_ctx *g, msc_op *op) {
  msc_value *c = in(op, 0), *zero = number(&g->b, dy_of(g), 0);
  MSC_TRY(!g->wanted[1] || give_gradient(g, op, 1, choose(&g->b, c, dy_of(g), zero)));
  return !g->wanted[2] || give_gradient(g, op, 2, choose(&g->b, c, zero, dy_of(g)));
}

/* ---- elementwise with one operand: dx = dy * slope(x, y) ---- */

/* Sets the gradient of operand 0 to a formula of dy (a), x (b) and y (c). */
static bool give_formula(msc_grad_ctx *g, const msc_op *op, const char *text) {
  return give_gradient(g, op, 0, msc_compute(&g->b, text, dy_of(g), in(op, 0), &op->out[0]));
}

bool grad_neg(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "-a"); }
bool grad_exp(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * c"); }
bool grad_log(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / b"); }
bool grad_sqrt(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * 0.5 / c"); }
bool grad_abs(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * sign(b)"); }

bool grad_rsqrt(msc_grad_ctx *g, msc_op *op) {
  msc_value *cube = msc_compute(&g->b, "a * (a * a)", &op->out[0]);
  return give_gradient(g, op, 0, msc_compute(&g->b, "a * -0.5 * b", dy_of(g), cube));
}

bool grad_sin(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * cos(b)"); }
bool grad_cos(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "-(a * sin(b))"); }

bool grad_tanh(msc_grad_ctx *g, msc_op *op) {
  msc_value *square = msc_compute(&g->b, "a * a", &op->out[0]);
  return give_gradient(g, op, 0, msc_compute(&g->b, "a * (1 - b)", dy_of(g), square));
}

bool grad_tan(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * (c * c + 1)"); }
bool grad_atan(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / (b * b + 1)"); }
bool grad_asin(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / sqrt((1 - b) * (1 + b))"); }
bool grad_acos(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "-(a / sqrt((1 - b) * (1 + b)))"); }
bool grad_asinh(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / sqrt(b * b + 1)"); }
bool grad_acosh(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / (sqrt(b - 1) * sqrt(b + 1))"); }
bool grad_atanh(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / ((1 - b) * (1 + b))"); }
bool grad_expm1(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * (c + 1)"); }
bool grad_log1p(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / (b + 1)"); }
bool grad_exp2(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * (c * 0.6931471805599453)"); }
bool grad_log2(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / (b * 0.6931471805599453)"); }
bool grad_log10(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a / (b * 2.302585092994046)"); }
bool grad_cosh(msc_grad_ctx *g, msc_op *op) {
  return give_gradient(g, op, 0, msc_compute(&g->b, "a * sinh(b)", dy_of(g), in(op, 0)));
}
bool grad_sinh(msc_grad_ctx *g, msc_op *op) {
  return give_gradient(g, op, 0, msc_compute(&g->b, "a * cosh(b)", dy_of(g), in(op, 0)));
}

bool grad_atan2(msc_grad_ctx *g, msc_op *op) {
  msc_value *a = in(op, 0), *b = in(op, 1), *dy = dy_of(g);
  if (g->wanted[0]) MSC_TRY(give_gradient(g, op, 0, msc_compute(&g->b, "a * c / (b * b + c * c)", dy, a, b)));
  return !g->wanted[1] || give_gradient(g, op, 1, msc_compute(&g->b, "-(a * b / (b * b + c * c))", dy, a, b));
}

/* dy 2/sqrt(pi) exp(-x^2) */
bool grad_erf(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * (exp(-(b * b)) * 1.1283791670955126)"); }
bool grad_erfc(msc_grad_ctx *g, msc_op *op) {
  return give_formula(g, op, "-(a * (exp(-(b * b)) * 1.1283791670955126))");
}
bool grad_erfcx(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * (2 * b * c - 1.1283791670955126)"); }
bool grad_erfinv(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * (exp(c * c) * 0.88622692545275801)"); }
bool grad_lgamma(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * digamma(b)"); }
bool grad_digamma(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * polygamma(b)"); }

bool grad_polygamma(msc_grad_ctx *g, msc_op *op) {
  msc_value *x = in(op, 0);
  msc_attr n = msc_named(formula_ctx(&g->b), "n", msc_int(msc_op_int(op, "n") + 1));
  return give_gradient(g, op, 0, times(&g->b, dy_of(g), with_attrs(&g->b, OP_polygamma, 1, &x, 1, &n)));
}

bool grad_i0(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * i1(b)"); }
bool grad_i0e(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * (i1e(b) - sign(b) * c)"); }
bool grad_i1(msc_grad_ctx *g, msc_op *op) {
  return give_formula(g, op, "a * (i0(b) - select(less(0, abs(b)), c / b, 0.5))");
}
bool grad_i1e(msc_grad_ctx *g, msc_op *op) {
  return give_formula(g, op, "a * (i0e(b) - select(less(0, abs(b)), c * (sign(b) + 1 / b), 0.5))");
}

bool grad_hypot(msc_grad_ctx *g, msc_op *op) {
  for (size_t i = 0; i < 2; i++)
    MSC_TRY(!g->wanted[i] ||
            give_gradient(g, op, i, msc_compute(&g->b, "a * (b / c)", dy_of(g), in(op, i), &op->out[0])));
  return true;
}

bool grad_logaddexp(msc_grad_ctx *g, msc_op *op) {
  for (size_t i = 0; i < 2; i++)
    MSC_TRY(!g->wanted[i] ||
            give_gradient(g, op, i, msc_compute(&g->b, "a * sigmoid(b - c)", dy_of(g), in(op, i), in(op, 1 - i))));
  return true;
}

bool grad_sigmoid(msc_grad_ctx *g, msc_op *op) { return give_formula(g, op, "a * (c * (1 - c))"); }

/* Selects by the sign of y, as relu(x) > 0 exactly where x > 0: so x need not be kept. */
bool grad_relu(msc_grad_ctx *g, msc_op *op) {
  msc_value *y = &op->out[0], *zero = number(&g->b, y, 0);
  return give_gradient(g, op, 0, choose(&g->b, compare(&g->b, MSC_GT, y, zero), dy_of(g), zero));
}

/* x s: slope s (1 + x (1 - s)) */
bool grad_silu(msc_grad_ctx *g, msc_op *op) {
  msc_value *x = in(op, 0), *one = number(&g->b, x, 1);
  msc_value *s = msc_compute(&g->b, "sigmoid(a)", x);
  msc_value *inner = plus(&g->b, times(&g->b, x, minus(&g->b, one, s)), one);
  return give_gradient(g, op, 0, times(&g->b, dy_of(g), times(&g->b, s, inner)));
}

/* x Phi(x): slope Phi(x) + x phi(x) */
static msc_value *gelu_erf_slope(msc_grad_ctx *g, msc_value *x) {
  return msc_compute(&g->b, "(erf(a * 0.70710678118654752) + 1) * 0.5 + a * (exp(a * a * -0.5) * 0.39894228040143268)",
                     x);
}

/* 0.5 x (1 + t), t = tanh(u), u = c (x + k x^3): slope 0.5 (1 + t) + 0.5 x (1 - t^2) c (1 + 3 k x^2) */
static msc_value *gelu_tanh_slope(msc_grad_ctx *g, msc_value *x) {
  const double c = 0.79788456080286536, k = 0.044715;
  msc_value *one = number(&g->b, x, 1), *square = times(&g->b, x, x);
  msc_value *stretch = plus(&g->b, scale_by(&g->b, square, k), one), *u = times(&g->b, scale_by(&g->b, x, c), stretch);
  msc_value *t = msc_compute(&g->b, "tanh(a)", u);
  msc_value *du = scale_by(&g->b, plus(&g->b, scale_by(&g->b, square, 3 * k), one), c);
  msc_value *bend = times(&g->b, times(&g->b, x, minus(&g->b, one, times(&g->b, t, t))), du);
  return scale_by(&g->b, plus(&g->b, plus(&g->b, t, one), bend), 0.5);
}

bool grad_gelu(msc_grad_ctx *g, msc_op *op) {
  bool exact = msc_op_gelu_form(op) == MSC_GELU_ERF;
  msc_value *slope = exact ? gelu_erf_slope(g, in(op, 0)) : gelu_tanh_slope(g, in(op, 0));
  return give_gradient(g, op, 0, times(&g->b, dy_of(g), slope));
}

bool grad_cast(msc_grad_ctx *g, msc_op *op) {
  return give_gradient(g, op, 0, cast(&g->b, dy_of(g), in(op, 0)->type->dtype));
}

/* ---- data movement ---- */

bool grad_broadcast_to(msc_grad_ctx *g, msc_op *op) { return give_gradient(g, op, 0, dy_of(g)); }

bool grad_reshape(msc_grad_ctx *g, msc_op *op) {
  const msc_type *x = in(op, 0)->type;
  return give_gradient(g, op, 0, reshape(&g->b, dy_of(g), x->rank, x->dim));
}

bool grad_transpose(msc_grad_ctx *g, msc_op *op) {
  int64_t perm[MSC_MAX_RANK], inverse[MSC_MAX_RANK];
  int rank = msc_op_ints(op, "perm", perm, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++) inverse[perm[d]] = d;
  return give_gradient(g, op, 0, transpose(&g->b, dy_of(g), inverse));
}

bool grad_concat(msc_grad_ctx *g, msc_op *op) {
  msc_context *ctx = formula_ctx(&g->b);
  int64_t at = msc_op_int(op, "dim"), *size = msc_new_array(msc_context_arena(ctx), int64_t, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) size[i] = in(op, i)->type->dim[at];
  msc_attr attrs[] = {msc_named(ctx, "dim", msc_int(at)), msc_named(ctx, "sizes", msc_ints(ctx, op->num_in, size))};
  msc_value *dy = dy_of(g);
  msc_op *parts = msc_build_with(&g->b, OP_split, 1, &dy, op->num_in, 2, attrs);
  if (!parts) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (g->wanted[i]) g->doperand[i] = &parts->out[i];
  return true;
}

bool grad_split(msc_grad_ctx *g, msc_op *op) {
  msc_context *ctx = formula_ctx(&g->b);
  msc_value **part = msc_new_array(msc_context_arena(ctx), msc_value *, op->num_out);
  for (size_t i = 0; i < op->num_out; i++) part[i] = g->dresult[i] ? g->dresult[i] : zeros_like(g, &op->out[i]);
  return give_gradient(g, op, 0, join_along(&g->b, (int)msc_op_int(op, "dim"), op->num_out, part));
}

/* Reads attribute `name`, one entry per dimension; `fill` when absent. */
static void per_dim(const msc_op *op, const char *name, int rank, int64_t fill, int64_t *out_v) {
  if (msc_op_ints(op, name, out_v, rank) < 0)
    for (int d = 0; d < rank; d++) out_v[d] = fill;
}

/* Returns how many elements lie from the first to one past the last of n, `stride` apart. */
static int64_t span(int64_t n, int64_t stride) { return n ? (n - 1) * stride + 1 : 0; }

bool grad_slice(msc_grad_ctx *g, msc_op *op) {
  const msc_type *x = in(op, 0)->type, *y = op->out[0].type;
  int64_t start[MSC_MAX_RANK], stride[MSC_MAX_RANK], high[MSC_MAX_RANK];
  per_dim(op, MSC_FACT(start), x->rank, 0, start);
  per_dim(op, "stride", x->rank, 1, stride);
  for (int d = 0; d < x->rank; d++) high[d] = x->dim[d] - start[d] - span(y->dim[d], stride[d]);
  return give_gradient(g, op, 0, pad_with(&g->b, dy_of(g), start, high, msc_op_attr(op, "stride") ? stride : NULL, 0));
}

bool grad_pad(msc_grad_ctx *g, msc_op *op) {
  const msc_type *x = in(op, 0)->type;
  int64_t low[MSC_MAX_RANK], stride[MSC_MAX_RANK], limit[MSC_MAX_RANK];
  per_dim(op, "low", x->rank, 0, low);
  per_dim(op, "stride", x->rank, 1, stride);
  for (int d = 0; d < x->rank; d++) limit[d] = low[d] + span(x->dim[d], stride[d]);
  return give_gradient(g, op, 0, slice_of(&g->b, dy_of(g), low, limit, msc_op_attr(op, "stride") ? stride : NULL));
}

bool grad_gather(msc_grad_ctx *g, msc_op *op) {
  msc_context *ctx = formula_ctx(&g->b);
  int64_t axis = msc_op_int(op, "axis");
  msc_attr attrs[4] = {msc_named(ctx, "rows", msc_int(in(op, 0)->type->dim[axis]))};
  size_t num = 1;
  if (axis) attrs[num++] = msc_named(ctx, "axis", msc_int(axis));
  if (msc_op_bool(op, MSC_FACT(aligned)) && msc_op_attr(op, MSC_FACT(manual_split))) {
    attrs[num++] = msc_named(ctx, MSC_FACT(manual_split), *msc_op_attr(op, MSC_FACT(manual_split)));
    attrs[num++] = msc_fact_aligned(true);
  }
  return give_gradient(g, op, 0,
                       with_attrs(&g->b, OP_scatter_add, 2, (msc_value *[]){in(op, 1), dy_of(g)}, num, attrs));
}

bool grad_scatter_add(msc_grad_ctx *g, msc_op *op) {
  return give_gradient(g, op, 1, gather(&g->b, dy_of(g), in(op, 0), msc_op_int(op, "axis")));
}

static msc_attr axis_attr(const msc_grad_ctx *g, const msc_op *op) {
  return msc_named(formula_ctx(&g->b), "axis", msc_int(msc_op_int(op, "axis")));
}

/* Adds dy to the elements that the indices took from x. */
static bool give_back(msc_grad_ctx *g, msc_op *op, msc_value *indices) {
  const msc_type *x = in(op, 0)->type;
  msc_attr attrs[] = {msc_named(formula_ctx(&g->b), "rows", msc_int(x->dim[axis_of(op, "axis", x->rank)])),
                      axis_attr(g, op)};
  return give_gradient(g, op, 0, with_attrs(&g->b, OP_add_along, 2, (msc_value *[]){indices, dy_of(g)}, 2, attrs));
}

bool grad_take_along(msc_grad_ctx *g, msc_op *op) { return give_back(g, op, in(op, 1)); }

bool grad_add_along(msc_grad_ctx *g, msc_op *op) {
  return give_gradient(g, op, 1, take_along(&g->b, dy_of(g), in(op, 0), msc_op_int(op, "axis")));
}

bool grad_gather_nd(msc_grad_ctx *g, msc_op *op) {
  const msc_type *x = in(op, 0)->type;
  msc_context *ctx = formula_ctx(&g->b);
  msc_attr shape = msc_fact_shape(ctx, (size_t)x->rank, x->dim);
  return give_gradient(g, op, 0,
                       with_attrs(&g->b, OP_scatter_nd_add, 2, (msc_value *[]){in(op, 1), dy_of(g)}, 1, &shape));
}

bool grad_scatter_nd_add(msc_grad_ctx *g, msc_op *op) {
  return give_gradient(g, op, 1, msc_compute(&g->b, "gather_nd(a, b)", dy_of(g), in(op, 0)));
}

/* Builds, for each update, whether it is the last one of its row: each update writes its position to its row and reads
 * it again. The result has the shape in which it broadcasts to updates. */
static msc_value *last_of_rows(msc_grad_ctx *g, const msc_op *op) {
  const msc_type *x = in(op, 0)->type, *indices = in(op, 1)->type;
  int64_t axis = msc_op_int(op, "axis"), num = msc_type_elems(indices), dim[MSC_MAX_RANK];
  msc_value *place = reshape(&g->b, count_up(&g->b, MSC_I64, num), indices->rank, indices->dim);
  msc_value *zero = msc_build_scalar(&g->b, MSC_I64, 0);
  msc_value *none = broadcast(&g->b, zero, 1, &x->dim[axis]);
  if (!place || !none) return NULL;
  msc_value *last = replace_rows(&g->b, none, in(op, 1), place, 0);
  msc_value *mine = compare(&g->b, MSC_EQ, msc_compute(&g->b, "gather(a, b)", last, in(op, 1)), place);
  int rank = indices->rank;
  for (int d = 0; d < rank; d++) dim[d] = indices->dim[d];
  for (int d = (int)axis + 1; d < x->rank; d++) dim[rank++] = 1;
  return reshape(&g->b, mine, rank, dim);
}

/* Replaced elements have no gradient; of several updates of a row only the last one has. */
bool grad_scatter_update(msc_grad_ctx *g, msc_op *op) {
  msc_value *dy = dy_of(g), *zero = number(&g->b, dy, 0);
  if (g->wanted[0]) {
    msc_value *zeros = stretch_to(g, zero, in(op, 2)->type);
    MSC_TRY(zeros && give_gradient(g, op, 0, replace_rows(&g->b, dy, in(op, 1), zeros, msc_op_int(op, "axis"))));
  }
  if (!g->wanted[2]) return true;
  msc_value *rows = gather(&g->b, dy, in(op, 1), msc_op_int(op, "axis")), *mine = last_of_rows(g, op);
  return rows && mine && give_gradient(g, op, 2, choose(&g->b, mine, rows, zero));
}

/* ---- along one dimension ---- */

/* sort and topk: the values were taken from x by the indices. */
bool grad_sort(msc_grad_ctx *g, msc_op *op) { return !g->dresult[0] || give_back(g, op, &op->out[1]); }

static msc_value *cumulate(msc_grad_ctx *g, const msc_op *op, msc_op_kind kind, size_t num, msc_value *const *operands,
                           bool reverse) {
  msc_context *ctx = formula_ctx(&g->b);
  msc_attr attrs[] = {axis_attr(g, op), msc_named(ctx, "exclusive", msc_bool(msc_op_bool(op, "exclusive"))),
                      msc_named(ctx, "reverse", msc_bool(reverse))};
  return with_attrs(&g->b, kind, num, operands, 3, attrs);
}

bool grad_cumsum(msc_grad_ctx *g, msc_op *op) {
  msc_value *dy = dy_of(g);
  return give_gradient(g, op, 0, cumulate(g, op, OP_cumsum, 1, &dy, !msc_op_bool(op, "reverse")));
}

bool grad_cumprod(msc_grad_ctx *g, msc_op *op) {
  return give_gradient(
      g, op, 0, cumulate(g, op, OP_cumprod_grad, 2, (msc_value *[]){in(op, 0), dy_of(g)}, msc_op_bool(op, "reverse")));
}

/* dx(i) = exp(x(i)) times the sum of dy(j) exp(-y(j)) over j from i on: sums of its positive and negative terms as
 * logarithms, as exp(-y) may overflow. */
bool grad_logcumsumexp(msc_grad_ctx *g, msc_op *op) {
  msc_builder *b = &g->b;
  msc_value *dy = dy_of(g), *y = &op->out[0], *none = number(b, y, -INFINITY), *zero = number(b, y, 0), *sum[2];
  msc_attr attrs[] = {axis_attr(g, op), msc_named(formula_ctx(b), "reverse", msc_bool(!msc_op_bool(op, "reverse")))};
  for (int i = 0; i < 2; i++) {
    msc_value *mine = compare(b, i ? MSC_LT : MSC_GT, dy, zero), *size = msc_compute(b, "log(abs(a)) - b", dy, y);
    msc_value *term = choose(b, mine, size, none), *all = with_attrs(b, OP_logcumsumexp, 1, &term, 2, attrs);
    sum[i] = msc_compute(b, "exp(a + b)", all, in(op, 0));
  }
  return give_gradient(g, op, 0, minus(b, sum[0], sum[1]));
}

/* ---- random ---- */

/* Drops the elements of dy that the forward drops of x. */
bool grad_dropout(msc_grad_ctx *g, msc_op *op) {
  msc_context *ctx = formula_ctx(&g->b);
  if (op->num_in == 1) return give_gradient(g, op, 0, dy_of(g));
  msc_attr attrs[] = {msc_named(ctx, "rate", msc_float(msc_op_float(op, "rate"))),
                      msc_named(ctx, "salt", msc_int(msc_op_int(op, "salt")))};
  return give_gradient(g, op, 0,
                       with_attrs(&g->b, OP_dropout, 3, (msc_value *[]){dy_of(g), in(op, 1), in(op, 2)}, 2, attrs));
}

/* Sets the gradient to an op of the same kind on dy whose attributes undo the forward op. */
static bool give_same_op(msc_grad_ctx *g, msc_op *op, const char *name, msc_attr_value v, const char *other) {
  msc_attr attrs[2] = {msc_named(formula_ctx(&g->b), name, v)};
  size_t num = 1;
  if (other) attrs[num++] = msc_named(formula_ctx(&g->b), other, msc_int(msc_op_int(op, other)));
  msc_value *dy = dy_of(g);
  return give_gradient(g, op, 0, with_attrs(&g->b, (msc_op_kind)op->kind, 1, &dy, num, attrs));
}

bool grad_reverse(msc_grad_ctx *g, msc_op *op) { return give_same_op(g, op, "dims", *msc_op_attr(op, "dims"), NULL); }
bool grad_roll(msc_grad_ctx *g, msc_op *op) {
  const msc_type *x = in(op, 0)->type;
  int64_t n = x->dim[axis_of(op, "dim", x->rank)];
  return give_same_op(g, op, "shift", msc_int(n ? -(msc_op_int(op, "shift") % n) : 0), "dim");
}

/* ---- matrix products ---- */

static msc_value *gradient_product(msc_grad_ctx *g, msc_op_kind kind, msc_value *a, bool transpose_a, msc_value *b,
                                   bool transpose_b) {
  msc_context *ctx = formula_ctx(&g->b);
  msc_attr attrs[2];
  size_t num = 0;
  if (transpose_a) attrs[num++] = msc_named(ctx, "transpose_a", msc_bool(true));
  if (transpose_b) attrs[num++] = msc_named(ctx, "transpose_b", msc_bool(true));
  return with_attrs(&g->b, kind, 2, (msc_value *[]){a, b}, num, attrs);
}

/* Y = A B: dA = dY B^T, dB = A^T dY; the gradient of a transposed operand is the transpose of that, which exchanges the
 * factors. */
bool grad_matmul(msc_grad_ctx *g, msc_op *op) {
  msc_value *a = in(op, 0), *b = in(op, 1), *dy = dy_of(g);
  bool ta = msc_op_bool(op, "transpose_a"), tb = msc_op_bool(op, "transpose_b");
  msc_op_kind kind = (msc_op_kind)op->kind;
  /* db is a sum over all dimensions that only `a` has: one op matmul_weight_grad. */
  bool sums = a->type->rank > 2 && b->type->rank == 2 && !ta;
  if (g->wanted[0])
    MSC_TRY(give_gradient(
        g, op, 0, ta ? gradient_product(g, kind, b, tb, dy, true) : gradient_product(g, kind, dy, false, b, !tb)));
  if (!g->wanted[1]) return true;
  if (sums)
    return give_gradient(g, op, 1, gradient_product(g, OP_matmul_weight_grad, tb ? dy : a, false, tb ? a : dy, false));
  return give_gradient(g, op, 1,
                       tb ? gradient_product(g, kind, dy, true, a, ta) : gradient_product(g, kind, a, !ta, dy, false));
}

bool grad_batch_matmul(msc_grad_ctx *g, msc_op *op) { return grad_matmul(g, op); }

/* dW = X^T dY over the leading dimensions: of X it is dY (d dW)^T, of dY it is X (d dW). */
bool grad_weight_grad(msc_grad_ctx *g, msc_op *op) {
  msc_op_kind kind = in(op, 0)->type->rank > 2 ? OP_batch_matmul : OP_matmul;
  if (g->wanted[0]) MSC_TRY(give_gradient(g, op, 0, gradient_product(g, kind, in(op, 1), false, dy_of(g), true)));
  return !g->wanted[1] || give_gradient(g, op, 1, gradient_product(g, kind, in(op, 0), false, dy_of(g), false));
}

/* ---- reductions ---- */

/* Returns the dimensions that op reduces, as a mask; out_count: the number of elements reduced to one. */
static unsigned reduced_dims(const msc_op *op, int64_t *out_count) {
  const msc_type *x = in(op, 0)->type;
  int64_t dims[MSC_MAX_RANK] = {0};
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  unsigned mask = 0;
  *out_count = 1;
  for (int i = 0; i < num; i++) {
    mask |= 1u << dims[i];
    *out_count *= x->dim[dims[i]];
  }
  return mask;
}

/* Stretches v, which has the shape of a reduction's result, to the shape of its operand. */
static msc_value *stretch_reduced(msc_grad_ctx *g, const msc_op *op, msc_value *v) {
  const msc_type *x = in(op, 0)->type;
  int64_t count, dim[MSC_MAX_RANK];
  unsigned gone = reduced_dims(op, &count);
  for (int d = 0; d < x->rank; d++) dim[d] = gone >> d & 1 ? 1 : x->dim[d];
  bool leading = !(gone & (gone + 1)); /* dimensions 0, 1, ..: broadcasting restores them by itself */
  if (!leading) v = reshape(&g->b, v, x->rank, dim);
  return stretch_to(g, v, x);
}

bool grad_reduce_sum(msc_grad_ctx *g, msc_op *op) { return give_gradient(g, op, 0, stretch_reduced(g, op, dy_of(g))); }

bool grad_reduce_mean(msc_grad_ctx *g, msc_op *op) {
  int64_t count;
  reduced_dims(op, &count);
  msc_value *part = over(&g->b, dy_of(g), number(&g->b, dy_of(g), (double)count));
  return give_gradient(g, op, 0, stretch_reduced(g, op, part));
}

/* The elements that equal the extremum share its gradient. */
bool grad_reduce_max(msc_grad_ctx *g, msc_op *op) {
  msc_value *x = in(op, 0), *dy = dy_of(g);
  msc_value *hit = cast(&g->b, compare(&g->b, MSC_EQ, x, stretch_reduced(g, op, &op->out[0])), x->type->dtype);
  int64_t dims[MSC_MAX_RANK] = {0};
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  msc_value *ties = sum_over(&g->b, hit, num, dims, msc_op_bool(op, "keep_dims"));
  return give_gradient(g, op, 0, times(&g->b, hit, stretch_reduced(g, op, over(&g->b, dy, ties))));
}

/* dy times the product of the other elements.  Without zeros that is y / x; with one zero, the product of the rest for
 * the zero, and 0 for the others. */
bool grad_reduce_prod(msc_grad_ctx *g, msc_op *op) {
  msc_value *x = in(op, 0), *zero = number(&g->b, x, 0), *one = number(&g->b, x, 1),
            *hit = compare(&g->b, MSC_EQ, x, zero);
  int64_t dims[MSC_MAX_RANK] = {0};
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  bool keep = msc_op_bool(op, "keep_dims");
  msc_value *filled = choose(&g->b, hit, one, x),
            *num_zeros = sum_over(&g->b, choose(&g->b, hit, one, zero), num, dims, keep);
  msc_value *rest = times(&g->b, dy_of(g), reduce_by(&g->b, MSC_PROD, filled, num, dims, keep));
  msc_value *without = choose(&g->b, compare(&g->b, MSC_EQ, num_zeros, zero), rest, zero),
            *with_one = choose(&g->b, compare(&g->b, MSC_EQ, num_zeros, one), rest, zero);
  msc_value *usual = over(&g->b, stretch_reduced(g, op, without), filled);
  return give_gradient(g, op, 0, choose(&g->b, hit, stretch_reduced(g, op, with_one), usual));
}

/* ---- rows ---- */

static msc_value *row_sum(msc_grad_ctx *g, const msc_op *op, msc_value *v) {
  int64_t axis = axis_of(op, "axis", in(op, 0)->type->rank);
  return sum_over(&g->b, v, 1, &axis, true);
}

/* y (dy - sum(dy y)) */
bool grad_softmax(msc_grad_ctx *g, msc_op *op) {
  msc_value *y = &op->out[0];
  msc_value *mean = row_sum(g, op, times(&g->b, dy_of(g), y));
  return give_gradient(g, op, 0, times(&g->b, y, minus(&g->b, dy_of(g), mean)));
}

/* dy - exp(y) sum(dy) */
bool grad_log_softmax(msc_grad_ctx *g, msc_op *op) {
  msc_value *total = row_sum(g, op, dy_of(g));
  return give_gradient(g, op, 0, minus(&g->b, dy_of(g), msc_compute(&g->b, "exp(a) * b", &op->out[0], total)));
}

/* dlabels = -log_softmax(logits) dloss, divided by the number of rows for mean */
static msc_value *label_gradient(msc_grad_ctx *g, const msc_op *op) {
  msc_value *logits = in(op, 0), *dloss = dy_of(g);
  const msc_type *t = logits->type;
  int64_t dim[MSC_MAX_RANK], rows = 1;
  for (int d = 0; d < t->rank; d++) dim[d] = d < t->rank - 1 ? t->dim[d] : 1;
  for (int d = 0; d < t->rank - 1; d++) rows *= t->dim[d];
  msc_loss_reduction reduction = msc_op_loss_reduction(op);
  if (reduction == MSC_LOSS_MEAN) dloss = over(&g->b, dloss, number(&g->b, dloss, (double)rows));
  if (reduction == MSC_LOSS_NONE) dloss = reshape(&g->b, dloss, t->rank, dim);
  return msc_compute(&g->b, "-log_softmax(a) * b", logits, dloss);
}

bool grad_cross_entropy(msc_grad_ctx *g, msc_op *op) {
  msc_context *ctx = formula_ctx(&g->b);
  if (msc_counts_kept_rows(op) || msc_op_float(op, "label_smoothing") != 0) return grad_composite(g, op);
  if (g->wanted[0]) {
    msc_loss_reduction reduction = msc_op_loss_reduction(op);
    const msc_attr_value *ignored = msc_op_attr(op, "ignore_index");
    msc_attr attrs[2];
    size_t num = 0;
    if (reduction != MSC_LOSS_MEAN) attrs[num++] = msc_loss_reduction_attr(ctx, reduction);
    if (ignored) attrs[num++] = msc_named(ctx, "ignore_index", *ignored);
    msc_value *operands[] = {in(op, 0), in(op, 1), dy_of(g)};
    MSC_TRY(give_gradient(g, op, 0, with_attrs(&g->b, OP_softmax_cross_entropy_grad, 3, operands, num, attrs)));
  }
  return !g->wanted[1] || give_gradient(g, op, 1, label_gradient(g, op));
}
