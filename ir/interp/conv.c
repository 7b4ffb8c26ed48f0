/* conv.c: an op whose windows slide over h and w, and its operands on one rank, in; its results out, by plain loops
 * over global indexes.  Reading an element that the rank does not hold is a fault (msc_piece_get). */
#include "ir/conv.h"
#include "ir/interp/kernel.h"

/* Computes x's index under element k of window o along one dimension; false: it lies in the padding. */
static bool index_under_window(const msc_window *w, int64_t o, int64_t k, int64_t *out_x) {
  *out_x = o * w->stride + k * w->dilation - w->low;
  return *out_x >= 0 && *out_x < w->x;
}

/* Finds the window whose element k is x's element i; false: there is none. */
static bool find_window_over(const msc_window *w, int64_t i, int64_t k, int64_t *out_o) {
  int64_t at = i + w->low - k * w->dilation;
  *out_o = at / w->stride;
  return at >= 0 && at % w->stride == 0 && *out_o < w->y;
}

/* Returns the op's windows with the sizes of whole tensors; msc_conv_of gives those of a rank's part in a lowered
 * function. */
static msc_conv conv_of(const msc_eval *e) {
  msc_conv c = msc_conv_of(e->op);
  const msc_piece *x = &e->in[0], *y = e->op->kind == OP_conv2d_weight_grad ? &e->in[1] : &e->out[0];
  if (c.of_x_result) y = &e->in[0], x = &e->out[0];
  c.n = x->full[0], c.c = x->full[1], c.o = y->full[1];
  int at = y->rank == 6 ? 4 : 2;
  for (int i = 0; i < 2; i++) c.dim[i].x = x->full[2 + i], c.dim[i].y = y->full[at + i];
  return c;
}

/* Goes over the elements of one window: returns the next element number (row by row) with its place in x, or -1. */
static int64_t next_under(const msc_conv *c, int64_t k, const int64_t *y, int64_t *out_x) {
  int64_t num = c->dim[0].kernel * c->dim[1].kernel;
  while (++k < num)
    if (index_under_window(&c->dim[0], y[2], k / c->dim[1].kernel, &out_x[2]) &&
        index_under_window(&c->dim[1], y[3], k % c->dim[1].kernel, &out_x[3]))
      return k;
  return -1;
}

/* Goes over the windows that have one element of x: returns the next one's number for that element, with its place in
 * y, or -1. */
static int64_t next_over(const msc_conv *c, int64_t k, const int64_t *x, int64_t *out_y) {
  int64_t num = c->dim[0].kernel * c->dim[1].kernel;
  while (++k < num)
    if (find_window_over(&c->dim[0], x[2], k / c->dim[1].kernel, &out_y[2]) &&
        find_window_over(&c->dim[1], x[3], k % c->dim[1].kernel, &out_y[3]))
      return k;
  return -1;
}

static msc_scalar add_term(const msc_eval *e, msc_scalar sum, msc_scalar a, msc_scalar b) {
  msc_dtype d = e->out[0].dtype;
  return msc_arithmetic(SCALAR_add, d, sum, msc_arithmetic(SCALAR_mul, d, a, b));
}

/* Sets the range of group g's channels, in dimension 1 of p, that the rank holds. */
static void find_held_channels(const msc_piece *p, int64_t g, int64_t per_group, int64_t *out_begin, int64_t *out_end) {
  int64_t begin = g * per_group, end = begin + per_group, have = p->box.begin[1], have_end = have + p->box.size[1];
  *out_begin = begin > have ? begin : have;
  *out_end = end < have_end ? end : have_end;
}

void eval_conv2d(msc_eval *e) {
  msc_conv c = conv_of(e);
  int64_t y[MSC_MAX_RANK], per_c = c.c / c.groups, per_o = c.o / c.groups, begin, end;
  for (bool more = msc_first_index(&e->out[0], y); more && !e->fault; more = msc_next_index(&e->out[0], y)) {
    msc_scalar sum = {.f = 0};
    find_held_channels(&e->in[0], y[1] / per_o, per_c, &begin, &end);
    for (int64_t ch = begin; ch < end; ch++) {
      int64_t x[4] = {y[0], ch};
      for (int64_t k = -1; (k = next_under(&c, k, y, x)) >= 0;) {
        int64_t w[4] = {y[1], ch % per_c, k / c.dim[1].kernel, k % c.dim[1].kernel};
        sum = add_term(e, sum, msc_piece_get(e, 0, x), msc_piece_get(e, 1, w));
      }
    }
    msc_piece_put(e, 0, y, sum);
  }
}

void eval_conv2d_transpose(msc_eval *e) {
  msc_conv c = conv_of(e);
  int64_t x[MSC_MAX_RANK], per_c = c.c / c.groups, per_o = c.o / c.groups, begin, end;
  for (bool more = msc_first_index(&e->out[0], x); more && !e->fault; more = msc_next_index(&e->out[0], x)) {
    msc_scalar sum = {.f = 0};
    find_held_channels(&e->in[0], x[1] / per_c, per_o, &begin, &end);
    for (int64_t o = begin; o < end; o++) {
      int64_t y[4] = {x[0], o};
      for (int64_t k = -1; (k = next_over(&c, k, x, y)) >= 0;) {
        int64_t w[4] = {o, x[1] % per_c, k / c.dim[1].kernel, k % c.dim[1].kernel};
        sum = add_term(e, sum, msc_piece_get(e, 0, y), msc_piece_get(e, 1, w));
      }
    }
    msc_piece_put(e, 0, x, sum);
  }
}

/* Sums over the images and windows of dy that the rank holds: the result is partial if dy is cut. */
void eval_conv2d_weight_grad(msc_eval *e) {
  msc_conv c = conv_of(e);
  int64_t w[MSC_MAX_RANK], y[MSC_MAX_RANK], per_c = c.c / c.groups, per_o = c.o / c.groups;
  for (bool more = msc_first_index(&e->out[0], w); more && !e->fault; more = msc_next_index(&e->out[0], w)) {
    msc_scalar sum = {.f = 0};
    msc_piece channel = e->in[1];
    channel.box.begin[1] = w[0], channel.box.size[1] = 1;
    for (bool in = msc_first_index(&channel, y); in; in = msc_next_index(&channel, y)) {
      int64_t x[4] = {y[0], w[0] / per_o * per_c + w[1]};
      if (!index_under_window(&c.dim[0], y[2], w[2], &x[2]) || !index_under_window(&c.dim[1], y[3], w[3], &x[3]))
        continue;
      sum = add_term(e, sum, msc_piece_get(e, 0, x), msc_piece_get(e, 1, y));
    }
    msc_piece_put(e, 0, w, sum);
  }
}

/* ---- pools ---- */

static bool is_nan(msc_dtype d, msc_scalar v) { return msc_is_float(d) && v.f != v.f; }

/* Computes the largest element of each window; for max_pool_index its number in the window. Rows of a halo beyond the
 * edge of the image hold the smallest value. */
void eval_max_pool(msc_eval *e) {
  msc_conv c = conv_of(e);
  msc_dtype d = e->in[0].dtype;
  int64_t y[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], y); more && !e->fault; more = msc_next_index(&e->out[0], y)) {
    int64_t x[4] = {y[0], y[1]}, best = -1;
    msc_scalar largest = msc_identity(MSC_MAX, d);
    for (int64_t k = -1; (k = next_under(&c, k, y, x)) >= 0;) {
      msc_scalar v = msc_piece_get(e, 0, x);
      if (best < 0 || msc_scalar_less(d, largest, v) || (is_nan(d, v) && !is_nan(d, largest))) largest = v, best = k;
    }
    msc_piece_put(e, 0, y, e->op->kind == OP_max_pool ? largest : (msc_scalar){.i = best < 0 ? 0 : best});
  }
}

void eval_max_pool_grad(msc_eval *e) {
  msc_conv c = conv_of(e);
  int64_t x[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], x); more && !e->fault; more = msc_next_index(&e->out[0], x)) {
    int64_t y[4] = {x[0], x[1]};
    msc_scalar sum = {.f = 0};
    for (int64_t k = -1; (k = next_over(&c, k, x, y)) >= 0;)
      if (msc_piece_get(e, 0, y).i == k) sum = msc_arithmetic(SCALAR_add, e->out[0].dtype, sum, msc_piece_get(e, 1, y));
    msc_piece_put(e, 0, x, sum);
  }
}

void eval_avg_pool(msc_eval *e) {
  msc_conv c = conv_of(e);
  bool all = msc_op_bool(e->op, "count_include_pad");
  int64_t y[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], y); more && !e->fault; more = msc_next_index(&e->out[0], y)) {
    int64_t x[4] = {y[0], y[1]}, count = 0;
    msc_scalar sum = {.f = 0};
    for (int64_t k = -1; (k = next_under(&c, k, y, x)) >= 0; count++)
      sum = msc_arithmetic(SCALAR_add, e->out[0].dtype, sum, msc_piece_get(e, 0, x));
    sum.f /= (double)(all ? c.dim[0].kernel * c.dim[1].kernel : count);
    msc_piece_put(e, 0, y, sum);
  }
}

void eval_avg_pool_grad(msc_eval *e) {
  msc_conv c = conv_of(e);
  int64_t x[MSC_MAX_RANK];
  for (bool more = msc_first_index(&e->out[0], x); more && !e->fault; more = msc_next_index(&e->out[0], x)) {
    int64_t y[4] = {x[0], x[1]};
    msc_scalar sum = {.f = 0};
    for (int64_t k = -1; (k = next_over(&c, k, x, y)) >= 0;)
      sum = msc_arithmetic(SCALAR_add, e->out[0].dtype, sum, msc_piece_get(e, 0, y));
    sum.f /= (double)(c.dim[0].kernel * c.dim[1].kernel);
    msc_piece_put(e, 0, x, sum);
  }
}

/* ---- after lowering ---- */

void eval_unfold(msc_eval *e) {
  msc_conv c = conv_of(e);
  int64_t y[MSC_MAX_RANK];
  int n = msc_op_bool(e->op, "images_last") ? 3 : 0, ch = n ? 0 : 1;
  bool turned = msc_op_bool(e->op, "turned");
  for (bool more = msc_first_index(&e->out[0], y); more && !e->fault; more = msc_next_index(&e->out[0], y)) {
    int64_t x[4] = {y[n], y[ch]}, k[2];
    for (int i = 0; i < 2; i++) k[i] = turned ? c.dim[i].kernel - 1 - y[ch + 1 + i] : y[ch + 1 + i];
    bool seen = index_under_window(&c.dim[0], y[4], k[0], &x[2]) && index_under_window(&c.dim[1], y[5], k[1], &x[3]);
    msc_piece_put(e, 0, y, seen ? msc_piece_get(e, 0, x) : (msc_scalar){.u = 0});
  }
}

void eval_fold(msc_eval *e) {
  msc_conv c = conv_of(e);
  int64_t x[MSC_MAX_RANK], window[4];
  for (bool more = msc_first_index(&e->out[0], x); more && !e->fault; more = msc_next_index(&e->out[0], x)) {
    msc_scalar sum = {.f = 0};
    for (int64_t k = -1; (k = next_over(&c, k, x, window)) >= 0;) {
      int64_t y[6] = {x[0], x[1], k / c.dim[1].kernel, k % c.dim[1].kernel, window[2], window[3]};
      sum = msc_arithmetic(SCALAR_add, e->out[0].dtype, sum, msc_piece_get(e, 0, y));
    }
    msc_piece_put(e, 0, x, sum);
  }
}
