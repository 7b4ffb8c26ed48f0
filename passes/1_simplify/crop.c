/* crop: a convolution of small images, whose kernel's edges see nothing but padding wherever it lies -> the same with
 * the rest of the kernel, a slice of its weights, and less padding.
 *
 *   conv2d(x [n,c,1,1], w [o,c,3,3]) {padding = 1} -> conv2d(x, w[:,:,1:2,1:2])
 *
 * The last stages of networks made for large images do eight ninths of their work on padding where images are small.
 * The gradient of what is cut off is 0, as the slice's gradient says. */
#include "ir/conv.h"
#include "ir/formula.h"
#include "passes/pass.h"

/* True if element k of the kernel lies on x in at least one of the windows. */
static bool sees_images(const msc_window *w, int64_t k) {
  int64_t at = k * w->dilation - w->low;
  int64_t first = at < 0 ? (-at + w->stride - 1) / w->stride : 0; /* window in which the element is not in front of x */
  return first < w->y && at + first * w->stride < w->x;
}

/* Cuts off elements of the kernel that see only padding, in one dimension: [*from, *to) remain, at least one. The
 * padding in w shrinks with them, behind x to what the windows still see. */
static void crop_dimension(msc_window *w, int64_t *from, int64_t *to) {
  *from = 0, *to = w->kernel;
  while (*to - *from > 1 && w->low >= w->dilation && !sees_images(w, 0)) w->low -= w->dilation, w->kernel--, ++*from;
  while (*to - *from > 1 && w->high >= w->dilation && !sees_images(w, w->kernel - 1))
    w->high -= w->dilation, w->kernel--, --*to;
  int64_t seen = (w->y - 1) * w->stride + (w->kernel - 1) * w->dilation + 1 - w->low - w->x;
  w->high = seen > 0 ? seen : 0;
}

/* Builds the slice [from, to) of the weights. A single element is sliced from the kernel's lines joined into one
 * dimension, so that its gradient is written in long runs. */
static msc_value *slice_kernel(msc_builder *b, msc_value *w, const int64_t from[2], const int64_t to[2]) {
  const int64_t *dim = w->type->dim, o = dim[0], c = dim[1], lines = dim[2], line = dim[3];
  if (to[0] - from[0] == 1 && to[1] - from[1] == 1) {
    int64_t at = from[0] * line + from[1];
    return reshape(b, part_of(b, reshape(b, w, 3, (int64_t[]){o, c, lines * line}), 2, at, at + 1), 4,
                   (int64_t[]){o, c, 1, 1});
  }
  msc_context *ctx = formula_ctx(b);
  const int64_t start[4] = {0, 0, from[0], from[1]}, limit[4] = {o, c, to[0], to[1]};
  msc_attr attrs[] = {msc_named(ctx, "start", msc_ints(ctx, 4, start)),
                      msc_named(ctx, "limit", msc_ints(ctx, 4, limit))};
  return with_attrs(b, OP_slice, 1, &w, 2, attrs);
}

static msc_value *slice_weights(msc_op *op, msc_value *w, const int64_t from[2], const int64_t to[2]) {
  msc_builder b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
  msc_value *made = slice_kernel(&b, w, from, to);
  for (msc_value *v = made; v && v != w; v = v->def->in[0].value) msc_copy_marks(op, v->def);
  return made;
}

static bool crop_kernel(msc_op *op, bool *out_cropped) {
  msc_conv c = msc_conv_of(op);
  msc_value *w = op->in[1].value;
  int64_t from[2], to[2], taps = c.dim[0].kernel * c.dim[1].kernel;
  for (int i = 0; i < 2; i++) crop_dimension(&c.dim[i], &from[i], &to[i]);
  *out_cropped = c.dim[0].kernel * c.dim[1].kernel < taps;
  if (!*out_cropped) return true;
  int64_t padding[4] = {c.dim[0].low, c.dim[0].high, c.dim[1].low, c.dim[1].high};
  MSC_TRY(w = slice_weights(op, w, from, to));
  msc_op_set(op, "padding", msc_ints(msc_op_ctx(op), 4, padding));
  msc_set_operand(op, 1, w);
  return msc_infer(op);
}

bool pass_crop(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first; op; op = op->next) {
      if ((op->kind != OP_conv2d && op->kind != OP_conv2d_transpose) || msc_has_user_constraint(op)) continue;
      bool cropped;
      MSC_TRY(crop_kernel(op, &cropped));
      num += cropped;
    }
  msc_stat(pass, "kernels without what sees padding only", num);
  return true;
}
