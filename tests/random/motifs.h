/* motifs.h: builds parts of models as users write them, from primitives: norms, rotary, attention, gates, windows,
 * losses. Each takes a value and returns another one, or NULL where it does not fit; dimension 0 is the batch. */
#ifndef MSC_TESTS_RANDOM_MOTIFS_H
#define MSC_TESTS_RANDOM_MOTIFS_H

#define RANDOM_GRAPH_ELEMS 4096

#include "tests/passes/random_graph.h"

/* The order in which a compiler evaluates arguments is open, so at most one argument of a call builds or draws
 * something. */

/* ---- single ops ---- */

static inline msc_value *shaped(random_graph *g, msc_value *x, int rank, const int64_t *dim) {
  msc_attr shape = ints(g, "shape", rank, dim);
  return x ? op_with(g, OP_reshape, 1, &x, 1, &shape) : NULL;
}

static inline msc_value *turned(random_graph *g, msc_value *x, const int64_t *perm) {
  if (!x) return NULL;
  msc_attr attr = ints(g, "perm", x->type->rank, perm);
  return op_with(g, OP_transpose, 1, &x, 1, &attr);
}

static inline msc_value *swapped(random_graph *g, msc_value *x, int a, int b) {
  int64_t perm[MSC_MAX_RANK];
  for (int d = 0; d < MSC_MAX_RANK; d++) perm[d] = d == a ? b : d == b ? a : d;
  return turned(g, x, perm);
}

static inline msc_value *reduced_along(random_graph *g, msc_op_kind kind, msc_value *x, int dim, bool keep) {
  if (!x) return NULL;
  msc_attr attrs[] = {ints(g, "dims", 1, (int64_t[]){dim}), boolean(g, "keep_dims", keep)};
  return op_with(g, kind, 1, &x, 2, attrs);
}

static inline msc_value *sliced(random_graph *g, msc_value *x, int dim, int64_t from, int64_t to) {
  int64_t start[MSC_MAX_RANK] = {0}, limit[MSC_MAX_RANK];
  if (!x) return NULL;
  memcpy(limit, x->type->dim, sizeof limit);
  start[dim] = from, limit[dim] = to;
  msc_attr attrs[] = {ints(g, "start", x->type->rank, start), ints(g, "limit", x->type->rank, limit)};
  return op_with(g, OP_slice, 1, &x, 2, attrs);
}

static inline msc_value *padded(random_graph *g, msc_value *x, int dim, int64_t before, int64_t behind) {
  int64_t low[MSC_MAX_RANK] = {0}, high[MSC_MAX_RANK] = {0};
  if (!x) return NULL;
  low[dim] = before, high[dim] = behind;
  msc_attr attrs[] = {ints(g, "low", x->type->rank, low), ints(g, "high", x->type->rank, high)};
  return op_with(g, OP_pad, 1, &x, 2, attrs);
}

static inline msc_value *joined(random_graph *g, msc_value *a, msc_value *b, int dim) {
  msc_attr at = integer(g, "dim", dim);
  return op_with(g, OP_concat, 2, (msc_value *[]){a, b}, 1, &at);
}

static inline msc_value *broadcast(random_graph *g, msc_value *x, int rank, const int64_t *dim) {
  msc_attr shape = ints(g, "shape", rank, dim);
  return op_with(g, OP_broadcast_to, 1, &x, 1, &shape);
}

static inline msc_value *plus(random_graph *g, msc_value *a, msc_value *b) { return binary(g, OP_add, a, b); }
static inline msc_value *minus(random_graph *g, msc_value *a, msc_value *b) { return binary(g, OP_sub, a, b); }
static inline msc_value *times(random_graph *g, msc_value *a, msc_value *b) { return binary(g, OP_mul, a, b); }
static inline msc_value *over(random_graph *g, msc_value *a, msc_value *b) { return binary(g, OP_div, a, b); }
static inline msc_value *scaled(random_graph *g, msc_value *x, double c) { return times(g, x, scalar(g, c)); }
static inline msc_value *raised(random_graph *g, msc_value *x, double c) { return plus(g, x, scalar(g, c)); }

static inline int last_of(const msc_value *x) { return x->type->rank - 1; }
static inline int64_t width_of(const msc_value *x) { return x->type->dim[last_of(x)]; }

static inline int64_t wide_size(random_graph *g) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 8, 10, 12, 16, 16, 17, 20, 24, 32, 33, 36, 48, 64, 100};
  return sizes[below(g, sizeof sizes / sizeof *sizes)];
}

/* x w + b, w stored either way. */
static inline msc_value *linear(random_graph *g, msc_value *x, int64_t n) {
  if (!x || x->type->rank < 2 || x->type->rank > 4 || width_of(x) * n > 2 * MAX_ELEMS ||
      msc_type_elems(x->type) / width_of(x) * n > 2 * MAX_ELEMS)
    return NULL;
  bool tb = chance(g, 40);
  msc_attr transpose = boolean(g, "transpose_b", tb);
  msc_op_kind kind = x->type->rank == 2 ? OP_matmul : OP_batch_matmul;
  msc_value *y = op_with(g, kind, 2, (msc_value *[]){x, weight(g, width_of(x), n, tb)}, 1, &transpose);
  return chance(g, 60) ? plus(g, y, new_parameter(g, 1, &n)) : y;
}

/* ---- forms of values ---- */

/* [b, s, h], or NULL. */
static inline msc_value *as_tokens(random_graph *g, msc_value *x) {
  const msc_type *t = x->type;
  if (t->rank == 3) return x;
  if (t->rank == 4 && chance(g, 50)) return shaped(g, x, 3, (int64_t[]){t->dim[0], t->dim[1], t->dim[2] * t->dim[3]});
  if (t->rank == 4) return swapped(g, shaped(g, x, 3, (int64_t[]){t->dim[0], t->dim[1], t->dim[2] * t->dim[3]}), 1, 2);
  if (t->rank != 2) return NULL;
  for (int64_t s = 2 + below(g, 5); s > 1; s--)
    if (t->dim[1] % s == 0 && t->dim[1] > s) return shaped(g, x, 3, (int64_t[]){t->dim[0], s, t->dim[1] / s});
  return NULL;
}

/* [b, c, h, w], often with few channels, or NULL. */
static inline msc_value *as_image(random_graph *g, msc_value *x) {
  int64_t rest = 1, c = 1 + below(g, 4);
  if (x->type->rank == 4) return x;
  for (int d = 1; d < x->type->rank; d++) rest *= x->type->dim[d];
  while (rest % c) c--;
  rest /= c;
  int64_t h = 1;
  for (int64_t k = 2; k * k <= rest; k++)
    if (rest % k == 0) h = k;
  return x->type->rank > 1 && rest > 3 ? shaped(g, x, 4, (int64_t[]){x->type->dim[0], c, rest / h, h}) : NULL;
}

/* ---- norms ---- */

static inline msc_value *with_eps(random_graph *g, msc_value *x) {
  return raised(g, x, (double[]){1e-5, 1e-3, 0.125}[below(g, 3)]);
}

static inline msc_value *rms_norm(random_graph *g, msc_value *x) {
  int d = last_of(x);
  msc_value *mean = reduced_along(g, OP_reduce_mean, times(g, x, x), d, true);
  msc_value *y = chance(g, 60) ? times(g, x, unary(g, OP_rsqrt, with_eps(g, mean)))
                               : over(g, x, unary(g, OP_sqrt, with_eps(g, mean)));
  return chance(g, 60) ? times(g, y, new_parameter(g, 1, &x->type->dim[d])) : y;
}

static inline msc_value *centred(random_graph *g, msc_value *x, int d) {
  return minus(g, x, reduced_along(g, OP_reduce_mean, x, d, true));
}

static inline msc_value *layer_norm(random_graph *g, msc_value *x) {
  int d = last_of(x);
  msc_value *c = centred(g, x, d), *variance = reduced_along(g, OP_reduce_mean, times(g, c, c), d, true);
  msc_value *root = unary(g, OP_sqrt, with_eps(g, variance)), *y = over(g, c, root);
  if (chance(g, 40)) return y;
  y = times(g, y, new_parameter(g, 1, &x->type->dim[d]));
  return plus(g, y, new_parameter(g, 1, &x->type->dim[d]));
}

static inline msc_value *make_written_norm(random_graph *g, msc_value *x) {
  if (x->type->rank < 2 || width_of(x) < 2) return NULL;
  return chance(g, 50) ? rms_norm(g, x) : layer_norm(g, x);
}

/* Per channel of an image or per column, over all the rest, the batch included. */
static inline msc_value *written_batch_norm(random_graph *g, msc_value *x) {
  int64_t dims[3] = {0, 2, 3}, one[4] = {1, x->type->dim[1], 1, 1};
  bool image = x->type->rank == 4;
  msc_attr attrs[] = {ints(g, "dims", image ? 3 : 1, dims), boolean(g, "keep_dims", true)};
  msc_value *mean = op_with(g, OP_reduce_mean, 1, &x, 2, attrs), *c = minus(g, x, mean), *square = times(g, c, c);
  msc_value *variance = op_with(g, OP_reduce_mean, 1, &square, 2, attrs);
  msc_value *y = times(g, c, unary(g, OP_rsqrt, with_eps(g, variance)));
  msc_value *gamma = image ? shaped(g, new_parameter(g, 1, one + 1), 4, one) : new_parameter(g, 1, one + 1);
  y = times(g, y, gamma);
  return plus(g, y, image ? new_parameter(g, 4, one) : new_parameter(g, 1, one + 1));
}

/* The composite, with running statistics or fixed ones. */
static inline msc_value *batch_norm(random_graph *g, msc_value *x, bool training) {
  msc_value *in[5] = {x};
  for (int i = 1; i < 5; i++) in[i] = new_parameter(g, 1, &x->type->dim[1]);
  if (!in[1] || !in[2] || !in[3] || !in[4]) return NULL;
  for (int i = 3; i < 5; i++) msc_arg_set(g->f, in[i]->index, "msc.trainable", msc_bool(false));
  msc_attr attrs[] = {msc_named(g->ctx, "eps", msc_float(chance(g, 50) ? 1e-5 : 0.125)),
                      boolean(g, "training", training)};
  msc_op *op = built(g, OP_batch_norm, 5, in, 3, 2, attrs);
  for (int i = 1; op && training && i < 3 && g->num_renewed < 8; i++) {
    g->renewed[g->num_renewed].parameter = in[i + 2];
    g->renewed[g->num_renewed++].by = &op->out[i];
  }
  return op ? &op->out[0] : NULL;
}

static inline msc_value *make_batch_norm(random_graph *g, msc_value *x) {
  if (x->type->rank != 4 && x->type->rank != 2 && !(x = as_image(g, x))) return NULL;
  if (g->keep_batch || chance(g, 20)) return batch_norm(g, x, false);
  return chance(g, 60) ? written_batch_norm(g, x) : batch_norm(g, x, true);
}

static inline msc_value *make_group_norm(random_graph *g, msc_value *x) {
  if (!(x = as_image(g, x))) return NULL;
  int64_t c = x->type->dim[1], groups = c % 2 == 0 && chance(g, 60) ? 2 : 1;
  msc_attr attrs[] = {integer(g, "groups", groups), msc_named(g->ctx, "eps", msc_float(0.01))};
  msc_value *gamma = new_parameter(g, 1, &c), *beta = new_parameter(g, 1, &c);
  return op_with(g, OP_group_norm, 3, (msc_value *[]){x, gamma, beta}, 2, attrs);
}

/* ---- activations ---- */

static inline msc_value *written_gelu(random_graph *g, msc_value *x, bool by_tanh) {
  msc_value *y = by_tanh ? times(g, x, times(g, x, x)) : x;
  if (by_tanh) y = plus(g, x, scaled(g, y, 0.044715));
  y = raised(g, unary(g, by_tanh ? OP_tanh : OP_erf, scaled(g, y, by_tanh ? 0.7978845608 : 0.70710678)), 1);
  return chance(g, 50) ? times(g, scaled(g, x, 0.5), y) : scaled(g, times(g, x, y), 0.5);
}

static inline msc_value *make_written_activation(random_graph *g, msc_value *x) {
  msc_value *y;
  switch (below(g, 7)) {
    case 0: return written_gelu(g, x, true);
    case 1: return written_gelu(g, x, false);
    case 2: return times(g, x, unary(g, OP_sigmoid, x));
    case 3: return over(g, x, raised(g, unary(g, OP_exp, unary(g, OP_neg, x)), 1));
    case 4: return times(g, x, unary(g, OP_sigmoid, scaled(g, x, 1.702)));
    case 5: y = unary(g, OP_relu, x); return times(g, y, y);
    default: return unary(g, OP_log, raised(g, unary(g, OP_exp, x), 1));
  }
}

/* A factor or a term that is taken as given: with detach, or under no_grad. */
static inline msc_value *make_detached(random_graph *g, msc_value *x) {
  msc_value *y = unary(g, OP_stop_gradient, chance(g, 50) ? make_unary(g, x) : x);
  return chance(g, 50) ? times(g, x, y) : plus(g, x, scaled(g, y, 0.5));
}

/* Halves of a product: a(first) * second. */
static inline msc_value *make_gated(random_graph *g, msc_value *x) {
  int64_t n = wide_size(g);
  msc_value *y = linear(g, x, 2 * n);
  if (!y) return NULL;
  int d = last_of(y);
  msc_value *gate = sliced(g, y, d, 0, n), *up = sliced(g, y, d, n, 2 * n);
  return times(g, chance(g, 50) ? unary(g, OP_silu, gate) : make_written_activation(g, gate), up);
}

static inline msc_value *make_feed_forward(random_graph *g, msc_value *x) {
  msc_value *h = linear(g, x, wide_size(g));
  h = h ? chance(g, 50) ? make_unary(g, h) : make_written_activation(g, h) : NULL;
  msc_value *y = h ? linear(g, h, width_of(x)) : NULL;
  return y && chance(g, 60) ? plus(g, x, y) : y;
}

/* ---- large products ---- */

/* Tokens enough that one of their products is large for a CPU with AMX, or just too small: [b, s, k] of [b, ..], each
 * token differs. `rows`, `k`: about how many tokens, and their width. */
static inline msc_value *many_tokens(random_graph *g, msc_value *x, int64_t rows, int64_t k) {
  int64_t b = x->type->dim[0], width = msc_type_elems(x->type) / b, s = (rows + b - 1) / b;
  if (width > 100) return NULL;
  msc_value *flat = shaped(g, x, 2, (int64_t[]){b, width}), *w = weight(g, width, k, false);
  msc_value *row = op_with(g, OP_matmul, 2, (msc_value *[]){flat, w}, 0, NULL);
  msc_value *factor = new_parameter(g, 2, (int64_t[]){s, 1}),
            *y = times(g, shaped(g, row, 3, (int64_t[]){b, 1, k}), factor);
  return chance(g, 50) ? unary(g, OP_tanh, plus(g, y, new_parameter(g, 1, &k))) : unary(g, OP_relu, y);
}

/* [b, s, k] by a weight: as a batch of matrices, or as one, which may be stored transposed. */
static inline msc_value *product_of_tokens(random_graph *g, msc_value *x, int64_t n) {
  int64_t rows = x->type->dim[0] * x->type->dim[1], k = width_of(x);
  bool ta = chance(g, 25), tb = chance(g, 40);
  msc_attr transpose[] = {boolean(g, "transpose_a", ta), boolean(g, "transpose_b", tb)};
  msc_value *w = weight(g, k, n, tb);
  if (!ta && chance(g, 50)) return op_with(g, OP_batch_matmul, 2, (msc_value *[]){x, w}, 1, transpose + 1);
  msc_value *flat = shaped(g, x, 2, (int64_t[]){rows, k});
  if (ta) flat = swapped(g, flat, 0, 1);
  msc_value *y = op_with(g, OP_matmul, 2, (msc_value *[]){flat, w}, 2, transpose);
  return shaped(g, y, 3, (int64_t[]){x->type->dim[0], x->type->dim[1], n});
}

/* What follows a product in its loop: a bias, an activation, a residual. */
static inline msc_value *with_epilogue(random_graph *g, msc_value *x) {
  int64_t n = width_of(x);
  msc_value *y = chance(g, 60) ? plus(g, x, new_parameter(g, 1, &n)) : x;
  if (y && chance(g, 60)) y = chance(g, 50) ? unary(g, OP_relu, y) : make_written_activation(g, y);
  return y && chance(g, 30) ? plus(g, y, x) : y;
}

/* A product whose sizes lie around those from which on a CPU multiplies by AMX, its own or its weight's gradient's;
 * then a small value of it. */
static inline msc_value *make_large_product(random_graph *g, msc_value *x) {
  static const int64_t rows[] = {511, 512, 513, 530, 544, 600}, widths[] = {255, 256, 257, 270, 288},
                       few_rows[] = {255, 256, 257, 290, 320}, few_widths[] = {127, 128, 129, 150, 160},
                       columns[] = {63, 64, 65, 80, 97};
  if (x->type->rank < 2 || x->type->dim[0] != g->batch) return NULL;
  bool few = chance(g, 60), summed = !g->keep_batch && chance(g, 15);
  int64_t s = few ? few_rows[below(g, 5)] : rows[below(g, 6)], k = few ? few_widths[below(g, 5)] : widths[below(g, 5)],
          n = columns[below(g, 5)];
  msc_value *tokens = many_tokens(g, x, s, k), *y = tokens ? product_of_tokens(g, tokens, n) : NULL;
  if (!y || !(y = with_epilogue(g, y))) return NULL;
  if (summed) { /* over all tokens, of the batch, too: no gradient of a weight, but of its form */
    s = y->type->dim[0] * y->type->dim[1];
    msc_attr transpose = boolean(g, "transpose_a", true);
    msc_value *a = shaped(g, tokens, 2, (int64_t[]){s, k}), *b = shaped(g, y, 2, (int64_t[]){s, n});
    msc_value *all = op_with(g, OP_matmul, 2, (msc_value *[]){a, b}, 1, &transpose);
    all = reduced_along(g, OP_reduce_mean, scaled(g, all, 1.0 / (double)s), 0, true);
    y = plus(g, y, shaped(g, all, 1, &n));
  }
  if (chance(g, 40)) return product_of_tokens(g, y, 2 + below(g, 3));
  return reduced_along(g, chance(g, 70) ? OP_reduce_mean : OP_reduce_max, y, 1, false);
}

/* ---- a token for all, gates and shifts along a row ---- */

static inline msc_value *make_class_token(random_graph *g, msc_value *x) {
  if (!(x = as_tokens(g, x))) return NULL;
  const msc_type *t = x->type;
  msc_value *token = new_parameter(g, 3, (int64_t[]){1, 1, t->dim[2]}),
            *all = token ? broadcast(g, token, 3, (int64_t[]){t->dim[0], 1, t->dim[2]}) : NULL;
  return chance(g, 50) ? joined(g, all, x, 1) : joined(g, x, all, 1);
}

/* h OP h[:, a:a+1, ..]. */
static inline msc_value *make_first_to_all(random_graph *g, msc_value *x) {
  int d = free_dim(g, x);
  if (d < 0 || x->type->dim[d] < 2) return NULL;
  int64_t at = chance(g, 60) ? 0 : below(g, (int)x->type->dim[d]);
  msc_value *one = sliced(g, x, d, at, at + 1);
  switch (below(g, 5)) {
    case 0: return plus(g, x, one);
    case 1: return minus(g, x, one);
    case 2: return times(g, x, unary(g, OP_sigmoid, one));
    case 3: return times(g, x, chance(g, 50) ? one : unary(g, OP_tanh, one));
    default: one = reduced_along(g, chance(g, 50) ? OP_reduce_sum : OP_reduce_max, x, d, true);
  }
  return plus(g, x, padded(g, one, d, at, x->type->dim[d] - 1 - at));
}

/* x C + (x turned by n) S along a dimension: a rotary by halves, a window's shift. */
static inline msc_value *rolled(random_graph *g, msc_value *x, int d, int64_t by, bool negate) {
  int64_t n = x->type->dim[d];
  msc_value *low = sliced(g, x, d, 0, by), *high = sliced(g, x, d, by, n);
  return joined(g, negate ? unary(g, OP_neg, high) : high, low, d);
}

static inline msc_value *written_rotary(random_graph *g, msc_value *x) {
  int d = last_of(x), from = x->type->rank > 2 ? d - 1 : d;
  int64_t n = width_of(x);
  if (n % 2) return x;
  msc_value *c = table(g, x->type->rank - from, x->type->dim + from),
            *s = table(g, x->type->rank - from, x->type->dim + from);
  msc_value *turn = times(g, rolled(g, x, d, n / 2, chance(g, 80)), s), *y = times(g, x, c);
  return plus(g, y, turn);
}

static inline msc_value *make_rotary(random_graph *g, msc_value *x) {
  if (x->type->rank < 2 || width_of(x) % 2) return NULL;
  msc_value *y = chance(g, 60) ? make_written_norm(g, x) : x;
  return y ? written_rotary(g, y) : NULL;
}

static inline msc_value *make_roll(random_graph *g, msc_value *x) {
  int d = free_dim(g, x);
  if (d < 0 || x->type->dim[d] < 2) return NULL;
  msc_value *y = rolled(g, x, d, 1 + below(g, (int)x->type->dim[d] - 1), chance(g, 20));
  return chance(g, 50) ? y : chance(g, 50) ? plus(g, x, y) : times(g, x, y);
}

/* y[t] = sum of w[i] x[t - i], as causal convolutions and recurrences are written. */
static inline msc_value *make_shifted_sum(random_graph *g, msc_value *x) {
  if (!(x = as_tokens(g, x)) || x->type->dim[1] < 3) return NULL;
  int64_t n = x->type->dim[1], k = 2 + below(g, 2);
  msc_value *w = new_parameter(g, 2, (int64_t[]){k, x->type->dim[2]}), *sum = NULL, *all = padded(g, x, 1, k - 1, 0);
  for (int64_t i = 0; w && i < k; i++) {
    msc_value *factor = shaped(g, sliced(g, w, 0, i, i + 1), 1, (int64_t[]){x->type->dim[2]});
    msc_value *term = times(
        g,
        chance(g, 70) ? sliced(g, all, 1, i, i + n) : padded(g, sliced(g, x, 1, 0, n - (k - 1 - i)), 1, k - 1 - i, 0),
        factor);
    sum = sum ? plus(g, sum, term) : term;
  }
  return sum;
}

/* A few steps of h = a h + x[t], stacked. */
static inline msc_value *make_recurrence(random_graph *g, msc_value *x) {
  if (!(x = as_tokens(g, x)) || x->type->dim[1] > 6) return NULL;
  const msc_type *t = x->type;
  msc_value *decay = unary(g, OP_sigmoid, new_parameter(g, 1, t->dim + 2)), *h = NULL, *all = NULL;
  for (int64_t i = 0; i < t->dim[1]; i++) {
    msc_value *now = shaped(g, sliced(g, x, 1, i, i + 1), 2, (int64_t[]){t->dim[0], t->dim[2]});
    h = h ? plus(g, times(g, h, decay), now) : now;
    msc_value *row = shaped(g, h, 3, (int64_t[]){t->dim[0], 1, t->dim[2]});
    all = all ? joined(g, all, row, 1) : row;
  }
  return all;
}

/* ---- attention ---- */

static inline msc_value *written_softmax(random_graph *g, msc_value *x) {
  int d = last_of(x);
  if (chance(g, 30)) return unary(g, OP_softmax, x);
  msc_value *e = unary(g, OP_exp, chance(g, 70) ? minus(g, x, reduced_along(g, OP_reduce_max, x, d, true)) : x);
  return over(g, e, reduced_along(g, OP_reduce_sum, e, d, true));
}

/* [b, s, heads, e] of x, in the order of attention, normalised and turned as the drawn model does. */
static inline msc_value *heads_of(random_graph *g, msc_value *x, int64_t heads, int64_t e, bool norm, bool rotary) {
  const msc_type *t = x->type;
  msc_value *y = shaped(g, x, 4, (int64_t[]){t->dim[0], t->dim[1], heads, e});
  if (y && norm) y = rms_norm(g, y);
  y = y ? swapped(g, y, 1, 2) : NULL;
  return y && rotary ? written_rotary(g, y) : y;
}

/* What is added to scores [.., s, s]: 0, or so much less that nothing is seen. */
static inline msc_value *causal_mask(random_graph *g, int64_t s) {
  msc_tensor t = msc_tensor_new(g->arena, float_type(g, 2, (int64_t[]){s, s}));
  for (int64_t i = 0; i < s * s; i++) msc_tensor_set(&t, i, i % s > i / s ? -1e4 : 0);
  msc_attr value =
      msc_named(g->ctx, "value",
                (msc_attr_value){.kind = MSC_ATTR_DENSE, .dense = {t.type, t.data, (size_t)msc_type_bytes(t.type)}});
  return op_with(g, OP_constant, 0, NULL, 1, &value);
}

static inline msc_value *attended(random_graph *g, msc_value *q, msc_value *k, msc_value *v) {
  msc_attr tb = boolean(g, "transpose_b", true), causal = boolean(g, "causal", chance(g, 50));
  if (!q || !k || !v) return NULL;
  if (chance(g, 25)) return op_with(g, OP_attention, 3, (msc_value *[]){q, k, v}, 1, &causal);
  msc_value *s = chance(g, 60) ? op_with(g, OP_batch_matmul, 2, (msc_value *[]){q, k}, 1, &tb)
                               : op_with(g, OP_batch_matmul, 2, (msc_value *[]){q, swapped(g, k, 2, 3)}, 0, NULL);
  s = s ? scaled(g, s, 0.5) : NULL;
  if (s && chance(g, 50)) s = plus(g, s, causal_mask(g, width_of(s)));
  return s ? op_with(g, OP_batch_matmul, 2, (msc_value *[]){written_softmax(g, s), v}, 0, NULL) : NULL;
}

static inline msc_value *make_attention(random_graph *g, msc_value *x) {
  if (!(x = as_tokens(g, x)) || x->type->dim[1] > 12) return NULL;
  int64_t heads = 1 + below(g, 3), e = (int64_t[]){2, 4, 4, 8, 3}[below(g, 5)], n = heads * e;
  bool norm = chance(g, 40), rotary = chance(g, 40), together = chance(g, 50);
  const msc_type *t = x->type;
  msc_value *part[3], *all = together ? linear(g, x, 3 * n) : NULL;
  for (int i = 0; i < 3; i++) part[i] = together ? all ? sliced(g, all, 2, i * n, (i + 1) * n) : NULL : linear(g, x, n);
  if (!part[0] || !part[1] || !part[2]) return NULL;
  for (int i = 0; i < 3; i++) part[i] = heads_of(g, part[i], heads, e, norm && i < 2, rotary && i < 2);
  msc_value *y = attended(g, part[0], part[1], part[2]);
  y = y ? shaped(g, swapped(g, y, 1, 2), 3, (int64_t[]){t->dim[0], t->dim[1], n}) : NULL;
  y = y ? linear(g, y, t->dim[2]) : NULL;
  return y && chance(g, 60) ? plus(g, x, y) : y;
}

/* ---- images ---- */

static inline msc_value *make_convolved(random_graph *g, msc_value *x) {
  if (!(x = as_image(g, x)) || x->type->dim[2] * x->type->dim[3] > 150) return NULL;
  const int64_t *d = x->type->dim;
  int64_t k = (int64_t[]){1, 1, 2, 3, 3}[below(g, 5)], step = k > 1 && chance(g, 25) ? 2 : 1, pad = k / 2,
          o = (int64_t[]){1, 2, 3, 4, 6, 8, 20}[below(g, 7)];
  bool each = chance(g, 20);
  if (each) o = d[1];
  if (d[2] + 2 * pad < k || d[3] + 2 * pad < k) return NULL;
  int64_t stride[2] = {step, step}, padding[4] = {pad, pad, pad, pad}, w[4] = {o, each ? 1 : d[1], k, k};
  msc_attr attrs[] = {ints(g, "stride", 2, stride), ints(g, "padding", 4, padding),
                      integer(g, "groups", each ? d[1] : 1)};
  msc_value *y = op_with(g, OP_conv2d, 2, (msc_value *[]){x, new_parameter(g, 4, w)}, 3, attrs);
  return y && chance(g, 40) ? plus(g, y, shaped(g, new_parameter(g, 1, &o), 4, (int64_t[]){1, o, 1, 1})) : y;
}

static inline msc_value *make_pooled(random_graph *g, msc_value *x) {
  if (!(x = as_image(g, x)) || x->type->dim[2] < 2 || x->type->dim[3] < 2) return NULL;
  int64_t k = x->type->dim[2] > 2 && x->type->dim[3] > 2 && chance(g, 40) ? 3 : 2, pad = k == 3 && chance(g, 50),
          step = 1 + chance(g, 60);
  int64_t kernel[2] = {k, k}, stride[2] = {step, step}, padding[4] = {pad, pad, pad, pad};
  msc_attr attrs[] = {ints(g, "kernel", 2, kernel), ints(g, "stride", 2, stride), ints(g, "padding", 4, padding),
                      boolean(g, "count_include_pad", chance(g, 60))};
  bool max = chance(g, 50);
  return op_with(g, max ? OP_max_pool : OP_avg_pool, 1, &x, max ? 3 : 4, attrs);
}

/* Channels weighed by what their means say. */
static inline msc_value *make_squeezed(random_graph *g, msc_value *x) {
  if (!(x = as_image(g, x))) return NULL;
  int64_t c = x->type->dim[1], dims[2] = {2, 3}, few = 1 + below(g, 3);
  bool by_convolution = chance(g, 50);
  msc_attr attrs[] = {ints(g, "dims", 2, dims), boolean(g, "keep_dims", by_convolution)};
  msc_value *mean = op_with(g, OP_reduce_mean, 1, &x, 2, attrs), *y;
  if (by_convolution) {
    y = unary(g, OP_relu,
              op_with(g, OP_conv2d, 2, (msc_value *[]){mean, new_parameter(g, 4, (int64_t[]){few, c, 1, 1})}, 0, NULL));
    y = op_with(g, OP_conv2d, 2, (msc_value *[]){y, new_parameter(g, 4, (int64_t[]){c, few, 1, 1})}, 0, NULL);
  } else {
    y = linear(g, unary(g, OP_silu, linear(g, mean, few)), c);
    y = shaped(g, y, 4, (int64_t[]){x->type->dim[0], c, 1, 1});
  }
  return y ? times(g, x, unary(g, OP_sigmoid, y)) : NULL;
}

/* Pixels to tokens of windows and back, something done there in between. */
static inline msc_value *make_windowed(random_graph *g, msc_value *x) {
  if (!(x = as_image(g, x)) || x->type->dim[2] % 2 || x->type->dim[3] % 2) return NULL;
  const int64_t *d = x->type->dim;
  int64_t apart[6] = {d[0], d[1], d[2] / 2, 2, d[3] / 2, 2}, perm[6] = {0, 2, 4, 3, 5, 1}, back[6] = {0, 5, 1, 3, 2, 4};
  msc_value *y = turned(g, shaped(g, x, 6, apart), perm);
  y = y ? shaped(g, y, 4, (int64_t[]){d[0], d[2] * d[3] / 4, 4, d[1]}) : NULL;
  y = y ? chance(g, 50) ? linear(g, y, d[1]) : make_written_norm(g, y) : NULL;
  y = y ? turned(g, shaped(g, y, 6, (int64_t[]){d[0], d[2] / 2, d[3] / 2, 2, 2, d[1]}), back) : NULL;
  return y ? shaped(g, y, 4, d) : NULL;
}

/* ---- parameters and constants in other forms ---- */

/* A parameter that is reshaped, turned, cut or normalised before it is used. */
static inline msc_value *make_reformed_parameter(random_graph *g, msc_value *x) {
  if (x->type->rank < 2) return NULL;
  int64_t k = width_of(x), n = (int64_t[]){2, 4, 6, 8, 12}[below(g, 5)];
  msc_op_kind kind = x->type->rank == 2 ? OP_matmul : OP_batch_matmul;
  msc_value *w = NULL;
  switch (below(g, 6)) {
    case 0: w = shaped(g, new_parameter(g, 3, (int64_t[]){k, n / 2, 2}), 2, (int64_t[]){k, n}); break;
    case 1: w = shaped(g, new_parameter(g, 1, (int64_t[]){k * n}), 2, (int64_t[]){k, n}); break;
    case 2: w = swapped(g, new_parameter(g, 2, (int64_t[]){n, k}), 0, 1); break;
    case 3: w = sliced(g, new_parameter(g, 2, (int64_t[]){k + 2, n}), 0, 1, k + 1); break;
    case 4:
      w = unary(g, OP_tanh, shaped(g, new_parameter(g, 2, (int64_t[]){k * n / 2, 2}), 2, (int64_t[]){k, n}));
      break;
    default:
      w = new_parameter(g, 2, (int64_t[]){k, n});
      w = over(g, w, unary(g, OP_sqrt, raised(g, reduced_along(g, OP_reduce_sum, times(g, w, w), 1, true), 0.125)));
  }
  return op_with(g, kind, 2, (msc_value *[]){x, w}, 0, NULL);
}

/* A constant that meets a product: as its operand, or reshaped. */
static inline msc_value *make_constant_product(random_graph *g, msc_value *x) {
  if (x->type->rank < 2) return NULL;
  int64_t k = width_of(x), n = (int64_t[]){2, 4, 8}[below(g, 3)], m = 2 + 2 * below(g, 8),
          rows = x->type->dim[x->type->rank - 2];
  msc_op_kind kind = x->type->rank == 2 ? OP_matmul : OP_batch_matmul;
  int pick = below(g, 4);
  if (pick == 0)
    return op_with(g, kind, 2,
                   (msc_value *[]){x, shaped(g, table(g, 3, (int64_t[]){k, 2, n / 2}), 2, (int64_t[]){k, n})}, 0, NULL);
  if (pick == 3) return times(g, x, shaped(g, table(g, 2, (int64_t[]){1, k}), 1, &k));
  msc_value *w = new_parameter(g, 2, (int64_t[]){m, k}), *c, *p;
  if (pick == 1 && x->type->rank == 3) { /* the positions' own part */
    c = table(g, 3, (int64_t[]){1, rows, m});
    return plus(g, x, op_with(g, OP_batch_matmul, 2, (msc_value *[]){c, w}, 0, NULL));
  }
  c = shaped(g, table(g, 1, &m), 2, (int64_t[]){1, m});
  p = op_with(g, OP_matmul, 2, (msc_value *[]){c, w}, 0, NULL);
  return plus(g, x, shaped(g, p, 1, &k));
}

/* [n, t, c] -> [nt, c], rows made there -> [n, t, ..]. */
static inline msc_value *make_merged_rows(random_graph *g, msc_value *x) {
  if (!(x = as_tokens(g, x))) return NULL;
  const int64_t *d = x->type->dim;
  msc_value *y = shaped(g, x, 2, (int64_t[]){d[0] * d[1], d[2]});
  bool keep = g->keep_batch;
  y = y ? chance(g, 50)           ? linear(g, y, chance(g, 50) ? d[2] : wide_size(g))
                    : chance(g, 50) || keep ? make_written_norm(g, y)
                                  : make_batch_norm(g, y)
        : NULL;
  return y ? shaped(g, y, 3, (int64_t[]){d[0], d[1], width_of(y)}) : NULL;
}

/* Rows of a table, and of a second one their positions. */
static inline msc_value *make_embedded(random_graph *g, msc_value *x) {
  int64_t s = 2 + below(g, 5), h = (int64_t[]){4, 6, 8, 16}[below(g, 4)], dim[2] = {g->batch, s}, rows = random_size(g);
  (void)x;
  msc_value *t = new_parameter(g, 2, (int64_t[]){rows, h}), *i = new_indices(g, 2, dim, rows, "data");
  msc_value *y = binary(g, OP_gather, t, i), *p = new_parameter(g, 2, (int64_t[]){s + 2, h});
  return y && p && chance(g, 60) ? plus(g, y, sliced(g, p, 0, 0, s)) : y;
}

/* Tokens to one: the first, the last, their mean or largest. */
static inline msc_value *make_one_token(random_graph *g, msc_value *x) {
  if (!(x = as_tokens(g, x))) return NULL;
  int64_t n = x->type->dim[1], at = chance(g, 50) ? 0 : n - 1, two[2] = {x->type->dim[0], x->type->dim[2]};
  switch (below(g, 4)) {
    case 0: return reduced_along(g, OP_reduce_mean, x, 1, false);
    case 1: return reduced_along(g, OP_reduce_max, x, 1, false);
    default: return shaped(g, sliced(g, x, 1, at, at + 1), 2, two);
  }
}

/* Experts, all computed, weighed by a softmax. */
static inline msc_value *make_mixture(random_graph *g, msc_value *x) {
  if (!(x = as_tokens(g, x))) return NULL;
  int64_t experts = 2 + below(g, 2), n = (int64_t[]){3, 4, 8}[below(g, 3)];
  msc_value *gate = linear(g, x, experts), *weights = gate ? written_softmax(g, gate) : NULL;
  msc_value *w = new_parameter(g, 3, (int64_t[]){experts, width_of(x), n});
  msc_attr up = text(g, "equation", "bsh,ehn->bsen"), down = text(g, "equation", "bsen,bse->bsn");
  msc_value *y = op_with(g, OP_einsum, 2, (msc_value *[]){x, w}, 1, &up);
  return op_with(g, OP_einsum, 2, (msc_value *[]){unary(g, OP_relu, y), weights}, 1, &down);
}

/* ---- losses ---- */

static inline msc_value *all_reduced(random_graph *g, msc_op_kind kind, msc_value *x) {
  return x ? reduced(g, kind, x) : NULL;
}

/* The mean as people write it. */
static inline msc_value *written_mean(random_graph *g, msc_value *x) {
  if (!x || chance(g, 60)) return all_reduced(g, OP_reduce_mean, x);
  double n = (double)msc_type_elems(x->type);
  return chance(g, 50) ? over(g, all_reduced(g, OP_reduce_sum, x), scalar(g, n))
                       : scaled(g, all_reduced(g, OP_reduce_sum, x), 1 / n);
}

static inline msc_value *log_likelihoods(random_graph *g, msc_value *x) {
  int d = last_of(x);
  msc_value *labels = new_indices(g, d, x->type->dim, width_of(x), "label");
  msc_attr attrs[] = {integer(g, "depth", width_of(x)), text(g, "dtype", msc_dtype_name(g->dtype))};
  msc_value *one = labels ? op_with(g, OP_one_hot, 1, &labels, 2, attrs) : NULL;
  if (chance(g, 40)) return times(g, one, unary(g, OP_log_softmax, x));
  msc_value *c = minus(g, x, reduced_along(g, OP_reduce_max, x, d, true));
  msc_value *sum = reduced_along(g, OP_reduce_sum, unary(g, OP_exp, c), d, true);
  return times(g, minus(g, c, unary(g, OP_log, sum)), one);
}

static inline msc_value *written_loss(random_graph *g, msc_value *x) {
  msc_value *d, *y;
  int pick = x->type->rank > 1 ? below(g, 5) : 2 + below(g, 3);
  if (pick == 0)
    return unary(g, OP_neg, written_mean(g, reduced_along(g, OP_reduce_sum, log_likelihoods(g, x), last_of(x), false)));
  if (pick == 1 && width_of(x) > 1) return unary(g, OP_neg, written_mean(g, log_likelihoods(g, x)));
  y = new_arg(g, x->type, "y", "label");
  if (!y) return NULL;
  d = minus(g, x, y);
  if (pick == 3) {
    msc_value *far = unary(g, OP_log, raised(g, unary(g, OP_exp, unary(g, OP_neg, unary(g, OP_abs, x))), 1));
    far = plus(g, far, unary(g, OP_relu, x));
    return written_mean(g, minus(g, far, times(g, x, unary(g, OP_sigmoid, y))));
  }
  if (pick == 4) {
    msc_attr predicate = text(g, "predicate", "lt");
    msc_value *size = unary(g, OP_abs, d),
              *near = op_with(g, OP_compare, 2, (msc_value *[]){size, scalar(g, 0.5)}, 1, &predicate);
    msc_value *square = times(g, d, d), *line = raised(g, size, -0.25);
    return written_mean(g, op_with(g, OP_select, 3, (msc_value *[]){near, square, line}, 0, NULL));
  }
  return written_mean(g, times(g, d, d));
}

#endif
