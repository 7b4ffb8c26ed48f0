/* expand_conv.c: ops whose windows slide over h and w -> instructions. The elements of a window are axes of their own:
 * those of the weights, or of the op alone. Elements in the padding are 0 and are skipped. */
#include <math.h>

#include "ir/conv.h"
#include "passes/7_lower/nest/expand.h"

typedef struct {
  msc_conv c;
  int kernel[2]; /* axes; -1: one element */
  uint16_t over; /* their mask */
} sliding_window;

static uint16_t mask_of_axis(int axis) { return axis >= 0 ? (uint16_t)(1u << axis) : 0; }

static bool is_outside(msc_nester *n, int v) {
  if (!n->value[v].def) return true;
  msc_nest_refuse(n, "what windows see would be computed again for each of them");
  return false;
}

/* The coordinate c + factor * axis. */
static uint16_t step_along(msc_nester *n, uint16_t c, int axis, int64_t factor) {
  msc_coord m = n->coord[c];
  if (axis >= 0) m.a.coef[axis] += factor;
  return msc_nest_coord(n, &m);
}

/* The position in x of element k of window o; *ok: it is inside x. */
static uint16_t find_element(msc_nester *n, const msc_window *w, int axis, uint16_t o, uint16_t *ok) {
  uint16_t c = step_along(n, msc_nest_move_coord(n, o, w->stride, -w->low), axis, w->dilation);
  bool beyond = (w->y - 1) * w->stride + (w->kernel - 1) * w->dilation - w->low >= w->x;
  if (w->low || beyond) *ok = msc_nest_and(n, *ok, msc_nest_is_inside(n, c, w->x));
  return c;
}

/* The window whose element k is at position i; *ok: there is one. */
static uint16_t find_window(msc_nester *n, const msc_window *w, int axis, uint16_t i, uint16_t *ok) {
  uint16_t c = step_along(n, msc_nest_move_coord(n, i, 1, w->low), axis, -w->dilation);
  if (w->stride > 1) {
    uint16_t at = msc_nest_coord_value(n, c), s = msc_nest_dim(n, w->stride);
    *ok = msc_nest_and(n, *ok, msc_nest_compare(n, NEST_BELOW, at, msc_nest_dim(n, (w->y - 1) * w->stride + 1)));
    *ok = msc_nest_and(n, *ok,
                       msc_nest_compare(n, NEST_EQ, msc_nest_op(n, NEST_REM, at, s), msc_nest_number(n, MSC_I64, 0)));
    return msc_nest_coord_of(n, msc_nest_op(n, NEST_DIV, at, s));
  }
  *ok = msc_nest_and(n, *ok, msc_nest_is_inside(n, c, w->y));
  return c;
}

/* Can only every stride-th element of a window lie on an element of x? */
static bool skips_elements(const msc_window *w) { return w->stride > 1 && w->dilation == 1; }

/* How many windows, along this dimension, may lie on an element of x. */
static int64_t windows_over(const msc_window *w) {
  return skips_elements(w) ? (w->kernel + w->stride - 1) / w->stride : w->kernel;
}

/* Finds the window that is number `axis` of those that lie on element i, counted from the last; *out_k: the place of i
 * in it. */
static uint16_t find_window_over(msc_nester *n, const msc_window *w, int axis, uint16_t i, uint16_t *ok,
                                 uint16_t *out_k) {
  *out_k = msc_nest_coord_of_axis(n, axis);
  if (!skips_elements(w)) return find_window(n, w, axis, i, ok);
  uint16_t at = msc_nest_coord_value(n, msc_nest_move_coord(n, i, 1, w->low)), s = msc_nest_dim(n, w->stride);
  uint16_t o = step_along(n, msc_nest_coord_of(n, msc_nest_op(n, NEST_DIV, at, s)), axis, -1);
  *out_k = step_along(n, msc_nest_coord_of(n, msc_nest_op(n, NEST_REM, at, s)), axis, w->stride);
  *ok = msc_nest_and(n, *ok, msc_nest_is_inside(n, o, w->y));
  if (w->kernel % w->stride) *ok = msc_nest_and(n, *ok, msc_nest_is_inside(n, *out_k, w->kernel));
  return o;
}

static uint16_t add_coords(msc_nester *n, uint16_t a, uint16_t b) {
  msc_coord sum = n->coord[a], more = n->coord[b];
  for (int i = 0; i < MSC_NEST_AXES; i++) sum.a.coef[i] += more.a.coef[i];
  sum.a.c0 += more.a.c0;
  if (more.instr) sum.instr = sum.instr ? msc_nest_op(n, NEST_ADD, sum.instr, more.instr) : more.instr;
  return msc_nest_coord(n, &sum);
}

/* Evaluates v where `ok` holds, and `fill` elsewhere. */
static uint16_t read_or_fill(msc_nester *n, int v, const msc_view *view, uint16_t ok, double fill) {
  uint16_t x = msc_nest_eval_where(n, ok, v, view);
  if (!ok || fill == 0) return x; /* such loads are 0 */
  return msc_nest_select(n, ok, x, msc_nest_number(n, (msc_dtype)n->instr[x].dtype, fill));
}

/* ---- convolutions ---- */

/* c / per as a coordinate. */
static uint16_t divide_coord(msc_nester *n, uint16_t c, int64_t per) {
  return per == 1 ? c
                  : msc_nest_coord_of(n, msc_nest_op(n, NEST_DIV, msc_nest_coord_value(n, c), msc_nest_dim(n, per)));
}

static uint16_t rest_of_coord(msc_nester *n, uint16_t c, int64_t per) {
  if (per == 1) return 0;
  return msc_nest_coord_of(n, msc_nest_op(n, NEST_REM, msc_nest_coord_value(n, c), msc_nest_dim(n, per)));
}

/* Channel number `at` of the group that channel o belongs to, as a channel of the whole image with `per` channels in
 * each group. */
static uint16_t channel(msc_nester *n, const msc_conv *c, uint16_t o, int64_t per_o, int64_t per, int axis) {
  if (c->groups == 1) return msc_nest_coord_of_axis(n, axis);
  return step_along(n, msc_nest_move_coord(n, divide_coord(n, o, per_o), per, 0), axis, 1);
}

/* The sum over these axes of x, where ok holds, times w, for a result that is wanted at the view. */
static uint16_t sum_products(msc_nester *n, const msc_view *view, uint16_t over, int x, const msc_view *at, uint16_t ok,
                             int w, const msc_view *at_w) {
  msc_inside outer = msc_nest_open_reduction(n, over, view, 4, 0);
  uint16_t a = read_or_fill(n, x, at, ok, 0), b = msc_nest_eval(n, w, at_w);
  if (n->failed) return 0;
  uint16_t sum = msc_nest_reduce(n, MSC_SUM, msc_nest_op(n, NEST_MUL, a, b), over);
  msc_nest_close_reduction(n, outer);
  return sum;
}

static sliding_window slide_over(msc_nester *n, const msc_op *op, int weights) {
  sliding_window s = {.c = msc_conv_of(op)};
  for (int i = 0; i < 2; i++) {
    s.kernel[i] = msc_nest_axis(n, weights, 2 + i);
    s.over |= mask_of_axis(s.kernel[i]);
  }
  return s;
}

/* y[n,o,h,w] = sum over c and the window of x[n, group's c, h.., w..] weights[o,c,..] */
uint16_t loop_conv2d(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), w = msc_nest_find_value(n, op->in[1].value);
  if (!is_outside(n, x) || !is_outside(n, w)) return 0;
  sliding_window s = slide_over(n, op, w);
  int c = msc_nest_axis(n, w, 1);
  uint16_t ok = 0;
  msc_view at = {.at = {view->at[0], channel(n, &s.c, view->at[1], s.c.o / s.c.groups, s.c.c / s.c.groups, c)}};
  msc_view at_w = {.at = {view->at[1], msc_nest_coord_of_axis(n, c), msc_nest_coord_of_axis(n, s.kernel[0]),
                          msc_nest_coord_of_axis(n, s.kernel[1])}};
  for (int i = 0; i < 2; i++) at.at[2 + i] = find_element(n, &s.c.dim[i], s.kernel[i], view->at[2 + i], &ok);
  return sum_products(n, view, s.over | mask_of_axis(c), x, &at, ok, w, &at_w);
}

/* x[n,c,i,j] = sum over o of the group and the windows over i, j of y[n,o,..] weights[o,c,..] */
uint16_t loop_conv2d_transpose(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int y = msc_nest_find_value(n, op->in[0].value), w = msc_nest_find_value(n, op->in[1].value);
  if (!is_outside(n, y) || !is_outside(n, w)) return 0;
  sliding_window s = slide_over(n, op, w);
  int64_t per_c = s.c.c / s.c.groups, per_o = s.c.o / s.c.groups;
  int o = s.c.groups == 1 ? msc_nest_axis(n, w, 0) : msc_nest_own_axis(n, y, 0, per_o);
  uint16_t ok = 0, from = channel(n, &s.c, view->at[1], per_c, per_o, o);
  msc_view at = {.at = {view->at[0], from}};
  msc_view at_w = {.at = {from, s.c.groups == 1 ? view->at[1] : rest_of_coord(n, view->at[1], per_c),
                          msc_nest_coord_of_axis(n, s.kernel[0]), msc_nest_coord_of_axis(n, s.kernel[1])}};
  for (int i = 0; i < 2; i++) at.at[2 + i] = find_window(n, &s.c.dim[i], s.kernel[i], view->at[2 + i], &ok);
  return sum_products(n, view, s.over | mask_of_axis(o), y, &at, ok, w, &at_w);
}

/* dw[o,c,k,l] = sum over images and windows of x[n, group's c, ..] dy[n,o,..] */
uint16_t loop_conv2d_weight_grad(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), dy = msc_nest_find_value(n, op->in[1].value);
  if (!is_outside(n, x) || !is_outside(n, dy)) return 0;
  msc_conv c = msc_conv_of(op);
  uint16_t ok = 0, reduced = 0, image = msc_nest_coord_of_dim(n, dy, 0), from = view->at[1];
  if (c.groups > 1) {
    msc_coord sum =
                  n->coord[msc_nest_move_coord(n, divide_coord(n, view->at[1 - 1], c.o / c.groups), c.c / c.groups, 0)],
              own = n->coord[view->at[1]];
    for (int i = 0; i < MSC_NEST_AXES; i++) sum.a.coef[i] += own.a.coef[i];
    sum.a.c0 += own.a.c0;
    if (own.instr) sum.instr = sum.instr ? msc_nest_op(n, NEST_ADD, sum.instr, own.instr) : own.instr;
    from = msc_nest_coord(n, &sum);
  }
  msc_view at = {.at = {image, from}}, at_dy = {.at = {image, view->at[0]}};
  reduced |= mask_of_axis(msc_nest_axis(n, dy, 0));
  for (int i = 0; i < 2; i++) {
    const msc_window *w = &c.dim[i];
    uint16_t o = msc_nest_coord_of_dim(n, dy, 2 + i), k = msc_nest_move_coord(n, view->at[2 + i], w->dilation, -w->low);
    int axis = msc_nest_axis(n, dy, 2 + i);
    bool beyond = (w->y - 1) * w->stride + (w->kernel - 1) * w->dilation - w->low >= w->x;
    at.at[2 + i] = step_along(n, k, axis, w->stride), at_dy.at[2 + i] = o;
    if (w->low || beyond) ok = msc_nest_and(n, ok, msc_nest_is_inside(n, at.at[2 + i], w->x));
    reduced |= mask_of_axis(axis);
  }
  return sum_products(n, view, reduced, x, &at, ok, dy, &at_dy);
}

/* ---- pools ---- */

/* Makes the axes of a window's elements, or with `over` of the windows that may lie on an element. */
static sliding_window slide_pool(msc_nester *n, const msc_op *op, int seen_value, bool over) {
  sliding_window s = {.c = msc_conv_of(op)};
  for (int i = 0; i < 2; i++) {
    const msc_window *w = &s.c.dim[i];
    s.kernel[i] = msc_nest_own_axis(n, seen_value, i, over ? windows_over(w) : w->kernel);
    s.over |= mask_of_axis(s.kernel[i]);
  }
  return s;
}

static double lowest_of(msc_dtype d) {
  int bits = (int)msc_dtype_bytes(d) * 8;
  if (msc_is_float(d)) return -(double)INFINITY;
  return msc_dtype_class_of(d) == MSC_CLASS_INT ? -ldexp(1, bits - 1) : 0;
}

/* The number of an element in its window, as i64. */
static uint16_t element_number(msc_nester *n, const sliding_window *s) {
  msc_affine a = {0};
  if (s->kernel[0] >= 0) a.coef[s->kernel[0]] = s->c.dim[1].kernel;
  if (s->kernel[1] >= 0) a.coef[s->kernel[1]] = 1;
  return msc_nest_add(n, (msc_instr){.code = NEST_INDEX, .dtype = MSC_I64}, &a, 0);
}

/* Finds the first element that is the largest, or NaN. */
static uint16_t find_first_largest(msc_nester *n, const sliding_window *s, uint16_t x, uint16_t ok) {
  uint16_t most = msc_nest_reduce(n, MSC_MAX, x, s->over), at = element_number(n, s);
  uint16_t none = msc_nest_dim(n, s->c.dim[0].kernel * s->c.dim[1].kernel);
  uint16_t first = msc_nest_select(n, msc_nest_compare(n, NEST_EQ, x, most), at, none);
  if (msc_is_float((msc_dtype)n->instr[x].dtype))
    first = msc_nest_select(n, msc_nest_compare(n, NEST_NE, x, x), at, first);
  if (ok) first = msc_nest_select(n, ok, first, none);
  return msc_nest_cast(n, msc_nest_reduce(n, MSC_MIN, first, s->over), MSC_I32);
}

/* How many elements of window o, along this dimension, lie inside the image. */
static uint16_t count_inside(msc_nester *n, const msc_window *w, uint16_t o) {
  uint16_t at = msc_nest_coord_value(n, msc_nest_move_coord(n, o, w->stride, -w->low)),
           d = msc_nest_dim(n, w->dilation);
  uint16_t before = msc_nest_op(n, NEST_SUB, msc_nest_dim(n, w->dilation - 1), at);
  uint16_t first = msc_nest_op(n, NEST_MAX, msc_nest_op(n, NEST_DIV, before, d), msc_nest_number(n, MSC_I64, 0));
  uint16_t room = msc_nest_op(n, NEST_DIV, msc_nest_op(n, NEST_SUB, msc_nest_dim(n, w->x - 1), at), d);
  uint16_t last = msc_nest_op(n, NEST_MIN, room, msc_nest_dim(n, w->kernel - 1));
  return msc_nest_op(n, NEST_ADD, msc_nest_op(n, NEST_SUB, last, first), msc_nest_number(n, MSC_I64, 1));
}

/* An element that a window sees, inside the loops over the window. */
typedef struct {
  sliding_window s;
  msc_inside outer;
  uint16_t x, ok; /* ok: it lies in the image; 0: all do */
} seen;

/* Opens the loops over the window and reads an element of it, what a sum or maximum does not count where there is none;
 * false: the op is refused. */
static bool open_window(msc_nester *n, const msc_op *op, const msc_view *view, seen *out) {
  int x = msc_nest_find_value(n, op->in[0].value);
  if (!is_outside(n, x)) return false;
  *out = (seen){.s = slide_pool(n, op, x, false)};
  msc_view at = *view;
  for (int i = 0; i < 2; i++)
    at.at[2 + i] = find_element(n, &out->s.c.dim[i], out->s.kernel[i], view->at[2 + i], &out->ok);
  bool adds = msc_info(op)->facts.reduction == MSC_SUM;
  out->outer = msc_nest_open_reduction(n, out->s.over, view, 4, 0);
  out->x = read_or_fill(n, x, &at, out->ok, adds ? 0 : lowest_of(n->value[x].value->type->dtype));
  return !n->failed;
}

uint16_t loop_max_pool(msc_nester *n, const msc_value *result, const msc_view *view) {
  seen e;
  if (!open_window(n, result->def, view, &e)) return 0;
  uint16_t most = msc_nest_reduce(n, MSC_MAX, e.x, e.s.over);
  msc_nest_close_reduction(n, e.outer);
  return most;
}

uint16_t loop_max_pool_index(msc_nester *n, const msc_value *result, const msc_view *view) {
  seen e;
  if (!open_window(n, result->def, view, &e)) return 0;
  uint16_t number = find_first_largest(n, &e.s, e.x, e.ok);
  msc_nest_close_reduction(n, e.outer);
  return number;
}

uint16_t loop_avg_pool(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  seen e;
  if (!open_window(n, op, view, &e)) return 0;
  const sliding_window s = e.s;
  uint16_t found = msc_nest_reduce(n, MSC_SUM, e.x, s.over);
  msc_nest_close_reduction(n, e.outer);
  msc_dtype d = (msc_dtype)n->instr[found].dtype;
  if (!e.ok || msc_op_bool(op, "count_include_pad"))
    return msc_nest_op(n, NEST_DIV, found, msc_nest_scalar(n, d, (double)(s.c.dim[0].kernel * s.c.dim[1].kernel)));
  uint16_t count =
      msc_nest_op(n, NEST_MUL, count_inside(n, &s.c.dim[0], view->at[2]), count_inside(n, &s.c.dim[1], view->at[3]));
  return msc_nest_op(n, NEST_DIV, found, msc_nest_cast(n, count, d));
}

/* The sum of the gradients of the windows that see an element; by_index: of those whose largest it is, by the numbers
 * in operand 0. */
static uint16_t sum_windows(msc_nester *n, const msc_op *op, const msc_view *view, bool by_index) {
  int index = msc_nest_find_value(n, op->in[0].value), dy = msc_nest_find_value(n, op->in[by_index].value);
  if (!is_outside(n, dy) || !is_outside(n, index)) return 0;
  sliding_window s = slide_pool(n, op, index, true);
  uint16_t ok = 0, k[2];
  msc_view at = *view;
  for (int i = 0; i < 2; i++) at.at[2 + i] = find_window_over(n, &s.c.dim[i], s.kernel[i], view->at[2 + i], &ok, &k[i]);
  msc_inside outer = msc_nest_open_reduction(n, s.over, view, 4, 0);
  uint16_t v = read_or_fill(n, dy, &at, ok, 0);
  if (n->failed) return 0;
  msc_dtype d = (msc_dtype)n->instr[v].dtype;
  if (by_index) {
    uint16_t own = msc_nest_cast(n, read_or_fill(n, index, &at, ok, 0), MSC_I64);
    uint16_t number = add_coords(n, msc_nest_move_coord(n, k[0], s.c.dim[1].kernel, 0), k[1]);
    v = msc_nest_select(n, msc_nest_compare(n, NEST_EQ, own, msc_nest_coord_value(n, number)), v,
                        msc_nest_number(n, d, 0));
  }
  uint16_t sum = msc_nest_reduce(n, MSC_SUM, v, s.over);
  msc_nest_close_reduction(n, outer);
  return by_index
             ? sum
             : msc_nest_op(n, NEST_DIV, sum, msc_nest_scalar(n, d, (double)(s.c.dim[0].kernel * s.c.dim[1].kernel)));
}

uint16_t loop_max_pool_grad(msc_nester *n, const msc_value *result, const msc_view *view) {
  return sum_windows(n, result->def, view, true);
}

uint16_t loop_avg_pool_grad(msc_nester *n, const msc_value *result, const msc_view *view) {
  return sum_windows(n, result->def, view, false);
}

/* ---- windows in memory ---- */

uint16_t loop_unfold(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value), image = msc_op_bool(op, "images_last") ? 3 : 0, ch = image ? 0 : 1;
  if (!is_outside(n, x)) return 0;
  bool turned = msc_op_bool(op, "turned");
  msc_conv c = msc_conv_of(op);
  msc_view at = {.at = {view->at[image], view->at[ch]}};
  uint16_t ok = 0;
  for (int i = 0; i < 2; i++) {
    const msc_window *w = &c.dim[i];
    uint16_t o = msc_nest_move_coord(n, view->at[4 + i], w->stride, 0),
             k = turned ? msc_nest_move_coord(n, view->at[ch + 1 + i], -w->dilation,
                                              (w->kernel - 1) * w->dilation - w->low)
                        : msc_nest_move_coord(n, view->at[ch + 1 + i], w->dilation, -w->low);
    at.at[2 + i] = add_coords(n, o, k);
    bool beyond = (w->y - 1) * w->stride + (w->kernel - 1) * w->dilation - w->low >= w->x;
    if (w->low || beyond) ok = msc_nest_and(n, ok, msc_nest_is_inside(n, at.at[2 + i], w->x));
  }
  return read_or_fill(n, x, &at, ok, 0);
}

uint16_t loop_fold(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int y = msc_nest_find_value(n, op->in[0].value);
  if (!is_outside(n, y)) return 0;
  msc_conv c = msc_conv_of(op);
  msc_view at = {.at = {view->at[0], view->at[1]}};
  uint16_t ok = 0, reduced = 0;
  for (int i = 0; i < 2; i++) {
    int axis = msc_nest_own_axis(n, y, i, windows_over(&c.dim[i]));
    at.at[4 + i] = find_window_over(n, &c.dim[i], axis, view->at[2 + i], &ok, &at.at[2 + i]);
    reduced |= mask_of_axis(axis);
  }
  msc_inside outer = msc_nest_open_reduction(n, reduced, view, 4, 0);
  uint16_t v = read_or_fill(n, y, &at, ok, 0);
  if (n->failed) return 0;
  v = msc_nest_reduce(n, MSC_SUM, v, reduced);
  msc_nest_close_reduction(n, outer);
  return v;
}
