/* unfold: convolutions -> matrix products over unfolded images, in which an element is stored once for each window
 * that it lies in.
 *
 *   y[n]  = w [o, c k l]  *  unfolded x [n, c k l, h w]          the product's columns are the windows
 *   x     = convolution of y with w turned                       in steps of 1: an element sums what its windows show
 *   x[n]  = fold of  w^T  *  y[n]                                else: each element sums the windows that it lies in
 *   dw    = dy [o, n h w] *  unfolded x [c k l, n h w]^T
 *
 * With windows of one element the unfolded image is the image itself.  Where each image has one window, which is all of
 * it, images are rows of plain products:
 *
 *   y = x [n, c k l] * w^T          x = y [n, o] * w          dw = y^T * x
 *
 * Later passes treat the products like all others (library.c).  Convolutions that a GPU's library computes are marked
 * and stay, and so are those on a CPU whose windows the runtime unfolds part by part (ir/abi/windows.h). */
#include "ir/conv.h"
#include "ir/formula.h"
#include "passes/7_lower/choose.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/check.h"
#include "passes/pass.h"

typedef struct {
  msc_builder b;
  msc_op *op;
  msc_conv c;
  int64_t taps, windows; /* elements of a window in all channels; windows of an image */
  msc_op *made;          /* a convolution instead, which is still to be lowered */
} unfolder;

/* Builds a transpose [a,b,c] -> [b,a,c]. */
static msc_value *build_swap(unfolder *u, msc_value *x) { return transpose(&u->b, x, (int64_t[]){1, 0, 2}); }

/* Builds an unfold or fold over the same windows as the op. */
static msc_value *build_windows(unfolder *u, msc_op_kind kind, msc_value *x, bool images_last) {
  static const char *const names[] = {"stride", "dilation", "padding", "size"};
  msc_context *ctx = formula_ctx(&u->b);
  int64_t kernel[2] = {u->c.dim[0].kernel, u->c.dim[1].kernel};
  msc_attr attrs[6];
  size_t num = 0;
  for (size_t i = 0; i < 3u + (kind == OP_fold); i++) {
    const msc_attr_value *v = msc_op_attr(u->op, names[i]);
    if (v) attrs[num++] = msc_named(ctx, names[i], *v);
  }
  if (kind == OP_unfold) attrs[num++] = msc_named(ctx, "kernel", msc_ints(ctx, 2, kernel));
  if (images_last) attrs[num++] = msc_named(ctx, "images_last", msc_bool(true));
  return with_attrs(&u->b, kind, 1, &x, num, attrs);
}

/* Builds y as [n, o, windows]. */
static msc_value *flatten_y(unfolder *u, msc_value *y) {
  return reshape(&u->b, y, 3, (int64_t[]){u->c.n, u->c.o, u->windows});
}
static msc_value *flatten_weights(unfolder *u) {
  return reshape(&u->b, u->op->in[1].value, 2, (int64_t[]){u->c.o, u->taps});
}

/* Builds the op over images that are rows of matrices. */
static msc_value *build_rows_product(unfolder *u) {
  msc_value *in[2] = {u->op->in[0].value, u->op->in[1].value};
  bool of_x = u->c.of_x_result, gradient = u->op->kind == OP_conv2d_weight_grad;
  const int64_t x[2] = {u->c.n, u->taps}, y[2] = {u->c.n, u->c.o};
  msc_value *images = reshape(&u->b, in[0], 2, of_x ? y : x),
            *other = gradient ? reshape(&u->b, in[1], 2, y) : flatten_weights(u);
  msc_value *made =
      gradient ? matrix_product(&u->b, other, true, images, false) : matrix_product(&u->b, images, false, other, !of_x);
  return reshape(&u->b, made, 4, u->op->out[0].type->dim);
}

static msc_value *build_conv2d(unfolder *u) {
  msc_value *x = u->op->in[0].value,
            *seen = msc_sees_single_elements(&u->c) ? x : build_windows(u, OP_unfold, x, false);
  msc_value *y = matrix_product(&u->b, flatten_weights(u), false,
                                reshape(&u->b, seen, 3, (int64_t[]){u->c.n, u->taps, u->windows}), false);
  return reshape(&u->b, y, 4, u->op->out[0].type->dim);
}

/* The windows, in steps of 1, that lie over y as x's elements do. */
static bool find_windows_over_y(const msc_conv *c, int64_t padding[4]) {
  for (int i = 0; i < 2; i++) {
    const msc_window *w = &c->dim[i];
    int64_t reach = (w->kernel - 1) * w->dilation;
    padding[2 * i] = reach - w->low, padding[2 * i + 1] = w->x - w->y + w->low;
    if (w->stride != 1 || padding[2 * i] < 0 || padding[2 * i + 1] < 0) return false;
  }
  return true;
}

/* Builds x as a convolution of y, with the last elements of its windows first. */
static msc_value *build_seen_from_x(unfolder *u, const int64_t padding[4]) {
  msc_context *ctx = formula_ctx(&u->b);
  const msc_window *w = u->c.dim;
  int64_t o = u->c.o, c = u->c.c, k[2] = {w[0].kernel, w[1].kernel};
  msc_attr turn[2] = {msc_named(ctx, "turned", msc_bool(true)), msc_named(ctx, "kernel", msc_ints(ctx, 2, k))};
  msc_attr windows[2] = {msc_named(ctx, "padding", msc_ints(ctx, 4, padding)),
                         msc_named(ctx, "dilation", msc_ints(ctx, 2, (int64_t[]){w[0].dilation, w[1].dilation}))};
  msc_op *turned = msc_build_with(&u->b, OP_unfold, 1, &u->op->in[1].value, 1, 2, turn);
  if (!turned) return NULL;
  msc_value *weights = build_swap(u, reshape(&u->b, &turned->out[0], 3, (int64_t[]){o, c, k[0] * k[1]}));
  msc_value *in[2] = {u->op->in[0].value, reshape(&u->b, weights, 4, (int64_t[]){c, o, k[0], k[1]})};
  u->made = in[1] ? msc_build_with(&u->b, OP_conv2d, 2, in, 1, 2, windows) : NULL;
  if (u->made && msc_op_bool(u->op, MSC_FACT(narrow))) msc_op_put(u->made, msc_fact_narrow(true));
  return u->made ? &u->made->out[0] : NULL;
}

static msc_value *build_conv2d_transpose(unfolder *u) {
  const msc_window *w = u->c.dim;
  int64_t padding[4];
  if (!msc_sees_single_elements(&u->c) && find_windows_over_y(&u->c, padding)) return build_seen_from_x(u, padding);
  msc_value *given = matrix_product(&u->b, flatten_weights(u), true, flatten_y(u, u->op->in[0].value), false);
  if (msc_sees_single_elements(&u->c)) return reshape(&u->b, given, 4, u->op->out[0].type->dim);
  return build_windows(u, OP_fold,
                       reshape(&u->b, given, 6, (int64_t[]){u->c.n, u->c.c, w[0].kernel, w[1].kernel, w[0].y, w[1].y}),
                       false);
}

static msc_value *build_weight_grad(unfolder *u) {
  msc_value *x = u->op->in[0].value, *seen;
  if (msc_sees_single_elements(&u->c))
    seen = build_swap(u, reshape(&u->b, x, 3, (int64_t[]){u->c.n, u->c.c, u->windows}));
  else seen = build_windows(u, OP_unfold, x, true);
  seen = reshape(&u->b, seen, 2, (int64_t[]){u->taps, u->c.n * u->windows});
  msc_value *dy =
      reshape(&u->b, build_swap(u, flatten_y(u, u->op->in[1].value)), 2, (int64_t[]){u->c.o, u->c.n * u->windows});
  return reshape(&u->b, matrix_product(&u->b, dy, false, seen, true), 4, u->op->out[0].type->dim);
}

/* Replaces a convolution by products; *out_made: by another convolution. */
static bool unfold_op(msc_op *op, msc_op **out_made) {
  unfolder u = {.b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc, .name = op->name},
                .op = op,
                .c = msc_conv_of(op)};
  u.taps = u.c.c * u.c.dim[0].kernel * u.c.dim[1].kernel;
  u.windows = u.c.dim[0].y * u.c.dim[1].y;
  msc_value *made = msc_sees_whole_images(&u.c)       ? build_rows_product(&u)
                    : op->kind == OP_conv2d           ? build_conv2d(&u)
                    : op->kind == OP_conv2d_transpose ? build_conv2d_transpose(&u)
                                                      : build_weight_grad(&u);
  MSC_TRY(made);
  msc_replace_uses(&op->out[0], made);
  msc_op_erase(op);
  *out_made = u.made;
  return true;
}

static bool lower_convolution(msc_pass_ctx *pass, msc_op *op, const msc_choices *choices) {
  for (msc_op *made = NULL; op; op = made, made = NULL) {
    msc_chosen chosen = msc_choose(pass->scratch, op, choices);
    if (*chosen.declined) msc_remark(pass, op, "%s", chosen.declined);
    if (chosen.by == MSC_BY_LIBRARY || chosen.by == MSC_BY_WINDOWS) msc_graph_mark(pass, op);
    msc_stat(pass, "convolutions over windows", chosen.by == MSC_BY_WINDOWS);
    if (chosen.by != MSC_BY_PRODUCT) break;
    MSC_TRY(unfold_op(op, &made));
    msc_stat(pass, "convolutions as products", !made);
  }
  return true;
}

bool pass_unfold(msc_pass_ctx *pass, msc_module *m) {
  msc_choices choices = msc_choices_of(pass, m);
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (!msc_window_weights(op) || !msc_is_windowed(op)) continue;
      op = msc_widen_product(pass->scratch, op, &choices), next = op->next;
      MSC_TRY(lower_convolution(pass, op, &choices));
    }
  msc_record_reads(m);
  return true;
}
