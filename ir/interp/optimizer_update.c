/* optimizer_update.c: an optimizer's update op and its operands on one rank in; the new parameters and states out.
 *
 * sgd       torch.optim.SGD with momentum 0:  g' = g + wd w;  w -= lr g'
 * momentum  torch.optim.SGD:  g' = g + wd w;  m = mu m + (1 - dampening) g';  w -= lr (nesterov ? g' + mu m : m)
 *           m starts as zeros, so the first m is (1 - dampening) g'.  torch starts with m = g' whatever the
 *           dampening: the same for dampening 0, its default; with another, the first step is smaller here by that
 *           factor.
 * adam      torch.optim.Adam (Kingma and Ba 2015, algorithm 1; wd added to the gradient):  g' = g + wd w;
 *           m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2;  w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 * adamw     torch.optim.AdamW (Loshchilov and Hutter 2019):  w *= 1 - lr wd;  then adam's step without wd
 * adagrad   torch.optim.Adagrad without lr_decay:  g' = g + wd w;  v += g'^2;  w -= lr g' / (sqrt(v) + eps)
 * rmsprop   torch.optim.RMSprop (Hinton 2012, lecture 6e), not centered:  g' = g + wd w;  v = a v + (1 - a) g'^2;
 *           w -= lr g' / (sqrt(v) + eps)
 * rmsprop_momentum  the same with:  m = mu m + g' / (sqrt(v) + eps);  w -= lr m
 * lamb      You et al. 2020, algorithm 2:  m, v as adam's without wd;  r = m^ / (sqrt(v^) + eps) + wd w;
 *           w -= lr trust r
 *
 * lazy_...  the same for the rows that were looked up, with the sums of their gradients; adam as that of
 *           torch.optim.SparseAdam:  w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)
 *
 * t is the number of this step, from 1; with ok = false all stays as it was. */
#include <math.h>
#include <string.h>

#include "ir/hypers.h"
#include "ir/interp/kernel.h"

/* Returns a hyper-parameter: from the operand rate if that has all of them, else the attribute. */
static double get_rate(const msc_eval *e, const char *name) {
  if (!msc_reads_hypers(e->op)) return msc_op_float(e->op, name);
  int64_t place = msc_place_of_hyper(msc_info(e->op), name);
  return msc_piece_get((msc_eval *)(uintptr_t)e, (size_t)msc_operand_called(e->op, "rate"), &place).f;
}
/* Returns the operand rate if there is one, else the attribute lr. */
static double get_lr(msc_eval *e, const int64_t *index) {
  int i = msc_operand_called(e->op, "rate");
  return i < 0 || msc_reads_hypers(e->op) ? get_rate(e, "lr") : msc_piece_get(e, (size_t)i, index).f;
}
static void put_f64(msc_eval *e, size_t i, const int64_t *index, double v) {
  msc_piece_put(e, i, index, (msc_scalar){.f = v});
}
static double get_f64(msc_eval *e, size_t i, const int64_t *index) { return msc_piece_get(e, i, index).f; }

static void step_momentum(msc_eval *e, const int64_t *index) {
  double w = get_f64(e, 0, index), mu = get_rate(e, "momentum");
  double g = get_f64(e, 2, index) + get_rate(e, "weight_decay") * w;
  double m = mu * get_f64(e, 1, index) + (1 - get_rate(e, "dampening")) * g;
  put_f64(e, 0, index, w - get_lr(e, index) * (msc_op_bool(e->op, "nesterov") ? g + mu * m : m));
  put_f64(e, 1, index, m);
}

/* Reads 1 - b1^t and 1 - b2^t: computed from the operand t, or contained in it. */
static void read_bias(msc_eval *e, double *out_left1, double *out_left2) {
  size_t at = (size_t)msc_operand_called(e->op, "t");
  if (e->in[at].rank) {
    *out_left1 = get_f64(e, at, (int64_t[]){0});
    *out_left2 = get_f64(e, at, (int64_t[]){1});
    return;
  }
  double t = get_f64(e, at, NULL);
  *out_left1 = 1 - pow(get_rate(e, "beta1"), t), *out_left2 = 1 - pow(get_rate(e, "beta2"), t);
}

/* Puts the moments of the gradient g into results 1 and 2; returns the step along them, with bias correction. */
static double update_moments(msc_eval *e, const int64_t *index, double g) {
  double b1 = get_rate(e, "beta1"), b2 = get_rate(e, "beta2"), left1, left2;
  read_bias(e, &left1, &left2);
  double m = b1 * get_f64(e, 1, index) + (1 - b1) * g;
  double v = b2 * get_f64(e, 2, index) + (1 - b2) * g * g;
  put_f64(e, 1, index, m);
  put_f64(e, 2, index, v);
  return m / left1 / (sqrt(v / left2) + get_rate(e, "eps"));
}

static void step_sgd(msc_eval *e, const int64_t *index) {
  double w = get_f64(e, 0, index);
  put_f64(e, 0, index, w - get_lr(e, index) * (get_f64(e, 1, index) + get_rate(e, "weight_decay") * w));
}

static void step_adam(msc_eval *e, const int64_t *index) {
  double w = get_f64(e, 0, index), g = get_f64(e, 3, index) + get_rate(e, "weight_decay") * w;
  put_f64(e, 0, index, w - get_lr(e, index) * update_moments(e, index, g));
}

static void step_adamw(msc_eval *e, const int64_t *index) {
  double w = get_f64(e, 0, index) * (1 - get_lr(e, index) * get_rate(e, "weight_decay"));
  put_f64(e, 0, index, w - get_lr(e, index) * update_moments(e, index, get_f64(e, 3, index)));
}

static void step_lamb_moments(msc_eval *e, const int64_t *index) {
  double decay = get_rate(e, "weight_decay") * get_f64(e, 0, index);
  put_f64(e, 0, index, update_moments(e, index, get_f64(e, 3, index)) + decay);
}

static void step_lamb_apply(msc_eval *e, const int64_t *index) {
  put_f64(e, 0, index, get_f64(e, 0, index) - get_lr(e, index) * get_f64(e, 2, index) * get_f64(e, 1, index));
}

static void step_adagrad(msc_eval *e, const int64_t *index) {
  double w = get_f64(e, 0, index), g = get_f64(e, 2, index) + get_rate(e, "weight_decay") * w,
         v = get_f64(e, 1, index) + g * g;
  put_f64(e, 0, index, w - get_lr(e, index) * g / (sqrt(v) + get_rate(e, "eps")));
  put_f64(e, 1, index, v);
}

/* Returns the gradient divided by the root of the mean of its squares, which is result and operand v. */
static double scale_by_mean_square(msc_eval *e, const int64_t *index, size_t v) {
  double g = get_f64(e, v + 1, index) + get_rate(e, "weight_decay") * get_f64(e, 0, index);
  double alpha = get_rate(e, "alpha"), mean = alpha * get_f64(e, v, index) + (1 - alpha) * g * g;
  put_f64(e, v, index, mean);
  return g / (sqrt(mean) + get_rate(e, "eps"));
}

static void step_rmsprop(msc_eval *e, const int64_t *index) {
  put_f64(e, 0, index, get_f64(e, 0, index) - get_lr(e, index) * scale_by_mean_square(e, index, 1));
}

static void step_rmsprop_momentum(msc_eval *e, const int64_t *index) {
  double m = get_rate(e, "momentum") * get_f64(e, 1, index) + scale_by_mean_square(e, index, 2);
  put_f64(e, 0, index, get_f64(e, 0, index) - get_lr(e, index) * m);
  put_f64(e, 1, index, m);
}

static void step_assign(msc_eval *e, const int64_t *index) { put_f64(e, 0, index, get_f64(e, 1, index)); }

/* Skips the update: each result that is the new value of an operand gets the old value. */
static void keep_states(msc_eval *e, const int64_t *index) {
  const msc_op_info *info = msc_info(e->op);
  for (int i = 0; i < info->num_operands; i++)
    if (info->operand[i].tied >= 0) put_f64(e, (size_t)info->operand[i].tied, index, get_f64(e, (size_t)i, index));
}

static void update_each(msc_eval *e, void step(msc_eval *e, const int64_t *index)) {
  int ok = msc_operand_called(e->op, "ok");
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index)) {
    step(e, index);
    if (ok >= 0 && !msc_piece_get(e, (size_t)ok, index).i) keep_states(e, index);
  }
}

void eval_sgd(msc_eval *e) { update_each(e, step_sgd); }
void eval_momentum(msc_eval *e) { update_each(e, step_momentum); }
void eval_adam(msc_eval *e) { update_each(e, step_adam); }
void eval_adamw(msc_eval *e) { update_each(e, step_adamw); }
void eval_lamb_moments(msc_eval *e) { update_each(e, step_lamb_moments); }
void eval_lamb_apply(msc_eval *e) { update_each(e, step_lamb_apply); }
void eval_assign(msc_eval *e) { update_each(e, step_assign); }
void eval_adagrad(msc_eval *e) { update_each(e, step_adagrad); }
void eval_rmsprop(msc_eval *e) { update_each(e, step_rmsprop); }
void eval_rmsprop_momentum(msc_eval *e) { update_each(e, step_rmsprop_momentum); }

/* ---- updates of the rows that were looked up ---- */

static msc_scalar get_named(msc_eval *e, const char *name, const int64_t *index) {
  return msc_piece_get(e, (size_t)msc_operand_called(e->op, name), index);
}

/* Returns the step of w per unit of the learning rate, from the gradient g with weight decay, and puts the new state.
 */
typedef double lazy_step(msc_eval *e, const int64_t *index, double g);

static double step_lazy_sgd(msc_eval *e, const int64_t *index, double g) {
  (void)e, (void)index; /* it has no state */
  return g;
}

static double step_lazy_momentum(msc_eval *e, const int64_t *index, double g) {
  double mu = get_rate(e, "momentum"), m = mu * get_f64(e, 1, index) + (1 - get_rate(e, "dampening")) * g;
  put_f64(e, 1, index, m);
  return msc_op_bool(e->op, "nesterov") ? g + mu * m : m;
}

static double step_lazy_adagrad(msc_eval *e, const int64_t *index, double g) {
  double v = get_f64(e, 1, index) + g * g;
  put_f64(e, 1, index, v);
  return g / (sqrt(v) + get_rate(e, "eps"));
}

static double step_lazy_adam(msc_eval *e, const int64_t *index, double g) {
  double b1 = get_rate(e, "beta1"), b2 = get_rate(e, "beta2"), left1, left2;
  double m = b1 * get_f64(e, 1, index) + (1 - b1) * g, v = b2 * get_f64(e, 2, index) + (1 - b2) * g * g;
  read_bias(e, &left1, &left2);
  put_f64(e, 1, index, m);
  put_f64(e, 2, index, v);
  return sqrt(left2) / left1 * m / (sqrt(v) + get_rate(e, "eps"));
}

/* Returns the sum of the gradients of one element of a row, over the entries [from, to) of `indices` that name this
 * row. */
static double sum_numbered(msc_eval *e, int64_t from, int64_t to, const int64_t *index) {
  double sum = 0;
  int64_t at[MSC_MAX_RANK];
  memcpy(at, index, sizeof at);
  for (int64_t i = from; i < to; i++) {
    at[0] = get_named(e, "order", &i).i;
    sum += get_named(e, "g", at).f;
  }
  return sum;
}

/* Updates the row that entries [from, to) of `indices` name, if the rank holds it. */
static void step_row(msc_eval *e, lazy_step *step, int64_t from, int64_t to) {
  const msc_piece *y = &e->out[0];
  int64_t row = get_named(e, "indices", &from).i - (e->start > 0 ? e->start : 0), index[MSC_MAX_RANK];
  int ok = msc_operand_called(e->op, "ok");
  if (row < y->box.begin[0] || row >= y->box.begin[0] + y->box.size[0]) return;
  if (ok >= 0 && !msc_piece_get(e, (size_t)ok, NULL).i) return;
  msc_piece part = *y;
  part.box.begin[0] = row, part.box.size[0] = 1;
  for (bool more = msc_first_index(&part, index); more; more = msc_next_index(&part, index)) {
    double w = get_f64(e, 0, index), g = sum_numbered(e, from, to, index) + get_rate(e, "weight_decay") * w;
    put_f64(e, 0, index, w - get_lr(e, index) * step(e, index, g));
  }
}

static void update_lazily(msc_eval *e, lazy_step *step) {
  const msc_piece *indices = &e->in[msc_operand_called(e->op, "indices")];
  int64_t n = indices->box.size[0], index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], index); more; more = msc_next_index(&e->out[0], index))
    keep_states(e, index);
  for (int64_t from = 0, to; from < n; from = to) {
    int64_t row = get_named(e, "indices", &from).i;
    for (to = from + 1; to < n && get_named(e, "indices", &to).i == row;) to++;
    step_row(e, step, from, to);
  }
}

void eval_lazy_sgd(msc_eval *e) { update_lazily(e, step_lazy_sgd); }
void eval_lazy_momentum(msc_eval *e) { update_lazily(e, step_lazy_momentum); }
void eval_lazy_adagrad(msc_eval *e) { update_lazily(e, step_lazy_adagrad); }
void eval_lazy_adam(msc_eval *e) { update_lazily(e, step_lazy_adam); }
