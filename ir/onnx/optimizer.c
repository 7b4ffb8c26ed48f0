/* optimizer.c: a node that updates parameters, of the domain ai.onnx.preview.training, in; its arithmetic out.  Inputs
 * are the rate R and the number T of earlier updates, then all parameters, all gradients, and each kind of state of all
 * parameters; results are the new parameters and the new state in the same order. */
#include <string.h>

#include "ir/onnx/onnx.h"

enum { MAX_STATES = 2 };

/* One parameter: what an update reads, then what it becomes. */
typedef struct {
  msc_value *rate, *count; /* both of x's type */
  msc_value *x, *gradient, *state[MAX_STATES];
} updated;

/* a + c b. */
static msc_value *plus_scaled(msc_builder *b, msc_value *x, msc_value *y, double c) {
  return x && y ? msc_compute(b, "a + c * b", x, y, number(b, y, c)) : NULL;
}

/* x if there were updates before, else y. */
static msc_value *unless_first(msc_builder *b, const updated *u, msc_value *x, msc_value *y) {
  return choose(b, compare(b, MSC_GT, u->count, number(b, u->count, 0)), x, y);
}

static msc_value *over_root(onnx_node *n, msc_value *x, msc_value *square, double epsilon) {
  return msc_compute(n->b, "a / (sqrt(b) + c)", x, square, number(n->b, square, onnx_float(n, "epsilon", epsilon)));
}

typedef bool update_fn(onnx_node *n, updated *u);

static bool adagrad(onnx_node *n, updated *u) {
  msc_builder *b = n->b;
  msc_value *by = plus_scaled(b, number(b, u->count, 1), u->count, onnx_float(n, "decay_factor", 0));
  u->state[0] = msc_compute(b, "a + b * b", u->state[0], u->gradient);
  msc_value *step = over_root(n, u->gradient, u->state[0], (double)1e-6F);
  u->x = minus(b, u->x, times(b, over(b, u->rate, by), step));
  return true;
}

static bool adam(onnx_node *n, updated *u) {
  msc_builder *b = n->b;
  double alpha = onnx_float(n, "alpha", (double)0.9F), beta = onnx_float(n, "beta", (double)0.999F);
  u->state[0] = plus_scaled(b, scale_by(b, u->state[0], alpha), u->gradient, 1 - alpha);
  u->state[1] = plus_scaled(b, scale_by(b, u->state[1], beta), times(b, u->gradient, u->gradient), 1 - beta);
  msc_value *first = msc_compute(b, "1 - pow(b, a)", u->count, number(b, u->count, alpha));
  msc_value *second = msc_compute(b, "sqrt(1 - pow(b, a))", u->count, number(b, u->count, beta));
  msc_value *rate = unless_first(b, u, times(b, u->rate, over(b, second, first)), u->rate);
  u->x = minus(b, u->x, times(b, rate, over_root(n, u->state[0], u->state[1], 0)));
  u->x = scale_by(b, u->x, 1 - onnx_float(n, "norm_coefficient_post", 0));
  return true;
}

static bool momentum(onnx_node *n, updated *u) {
  msc_builder *b = n->b;
  const char *mode = onnx_text(n, "mode", "");
  double alpha = onnx_float(n, "alpha", 0), beta = onnx_float(n, "beta", 1);
  if (!onnx_is_one_of(mode, "standard nesterov")) return onnx_refuse(n, "mode '%s' is unknown", mode);
  msc_value *share = unless_first(b, u, number(b, u->count, beta), number(b, u->count, 1));
  u->state[0] = plus_scaled(b, times(b, share, u->gradient), u->state[0], alpha);
  msc_value *step = mode[0] == 's' ? u->state[0] : plus_scaled(b, u->gradient, u->state[0], alpha);
  u->x = minus(b, u->x, times(b, u->rate, step));
  return true;
}

/* Builds the update of every parameter, each with `states` kinds of state. */
static bool update_all(onnx_node *n, size_t states, update_fn *update) {
  size_t kinds = 2 + states, num = n->num_in > 2 ? (n->num_in - 2) / kinds : 0;
  if (!num || n->num_in != 2 + num * kinds)
    return onnx_refuse(n, "takes R, T and %zu tensors for each parameter, not %zu inputs", kinds, n->num_in);
  msc_value *rate = onnx_in(n, 0), *count = onnx_in(n, 1);
  double decay = onnx_float(n, "norm_coefficient", 0);
  for (size_t i = 0; i < num && rate && count; i++) {
    updated u = {.x = onnx_in(n, 2 + i), .gradient = onnx_in(n, 2 + num + i)};
    for (size_t k = 0; k < states; k++) u.state[k] = onnx_in(n, 2 + (2 + k) * num + i);
    if (!u.x || !u.gradient || !u.state[0] || (states > 1 && !u.state[1])) return false;
    msc_dtype type = u.x->type->dtype;
    u.rate = reshape(n->b, cast(n->b, rate, type), 0, NULL), u.count = reshape(n->b, cast(n->b, count, type), 0, NULL);
    u.gradient = plus_scaled(n->b, u.gradient, u.x, decay);
    MSC_TRY(update(n, &u) && onnx_set(n, i, u.x));
    for (size_t k = 0; k < states; k++) MSC_TRY(onnx_set(n, (1 + k) * num + i, u.state[k]));
  }
  return rate && count;
}

bool onnx_build_adagrad(onnx_node *n) { return update_all(n, 1, adagrad); }
bool onnx_build_adam(onnx_node *n) { return update_all(n, 2, adam); }
bool onnx_build_momentum(onnx_node *n) { return update_all(n, 1, momentum); }
