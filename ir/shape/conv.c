/* conv.c: an op whose windows slide over h and w in; its result types, its windows, and the elements that a part needs
 * of its neighbours out.  All tensors are [n,c,h,w], weights [o,c/groups,h,w]. */
#include "ir/conv.h"
#include "ir/op_table.h"
#include "ir/shape/shape.h"

#define LARGEST (INT64_C(1) << 30) /* value of an attribute: sums and products of two do not overflow */

bool msc_is_windowed(const msc_op *op) { return msc_form_of(op) == MSC_FORM_WINDOW; }

static void pair_attr(const msc_op *op, const char *name, int64_t fill, int64_t out[2]) {
  if (msc_op_ints(op, name, out, 2) < 0) out[0] = out[1] = fill;
}

static void read_windows(const msc_op *op, msc_conv *c) {
  int64_t stride[2], dilation[2], padding[4] = {0};
  pair_attr(op, "stride", 1, stride);
  pair_attr(op, "dilation", 1, dilation);
  msc_op_ints(op, "padding", padding, 4);
  for (int i = 0; i < 2; i++) {
    c->dim[i].stride = stride[i], c->dim[i].dilation = dilation[i];
    c->dim[i].low = padding[2 * i], c->dim[i].high = padding[2 * i + 1];
  }
}

/* The operand for images and that for weights, by their names in the row. */
msc_value *msc_window_images(const msc_op *op) {
  msc_value *dx = msc_named_value(op, "dx");
  return dx ? dx : msc_named_value(op, "x");
}

msc_value *msc_window_weights(const msc_op *op) {
  msc_value *dw = msc_named_value(op, "dw");
  return dw ? dw : msc_named_value(op, "w");
}

/* The tensor with an element per window. */
static const msc_value *windows_value(const msc_op *op) {
  static const char *const name[] = {"y", "dy", "index"};
  for (size_t i = 0; i < 3; i++) {
    const msc_value *v = msc_named_value(op, name[i]);
    if (v) return v;
  }
  return NULL;
}

msc_conv msc_conv_of(const msc_op *op) {
  msc_conv c = {.groups = 1};
  const msc_value *images = msc_window_images(op), *weights = msc_window_weights(op);
  const msc_type *x = images->type, *y = windows_value(op)->type;
  int64_t kernel[2] = {1, 1};
  c.of_x_result = images->def == op;
  read_windows(op, &c);
  if (weights) c.groups = msc_op_int(op, "groups");
  c.n = x->dim[0], c.c = x->dim[1], c.o = y->dim[1];
  int at = y->rank == 6 ? 4 : 2; /* of unfold and fold: [n,c,kernel,windows] */
  if (msc_op_ints(op, "kernel", kernel, 2) < 0)
    for (int i = 0; i < 2; i++) kernel[i] = weights ? weights->type->dim[2 + i] : y->dim[2 + i];
  for (int i = 0; i < 2; i++) {
    c.dim[i].kernel = kernel[i];
    c.dim[i].x = x->dim[2 + i], c.dim[i].y = y->dim[at + i];
  }
  return c;
}

double msc_conv_work(const msc_op *op) {
  msc_conv c = msc_conv_of(op);
  bool product = msc_info(op)->cost == MSC_COST_FLOPS;
  double windows = (double)c.n * (double)c.o * (double)c.dim[0].y * (double)c.dim[1].y;
  return windows * (double)c.dim[0].kernel * (double)c.dim[1].kernel * (product ? (double)(c.c / c.groups) : 1);
}

bool msc_sees_single_elements(const msc_conv *c) {
  for (int i = 0; i < 2; i++)
    if (c->dim[i].kernel != 1 || c->dim[i].stride != 1 || c->dim[i].low || c->dim[i].high) return false;
  return true;
}

bool msc_sees_whole_images(const msc_conv *c) {
  for (int i = 0; i < 2; i++) {
    const msc_window *w = &c->dim[i];
    if (w->y != 1 || w->kernel != w->x || w->low || w->dilation > 1) return false;
  }
  return true;
}

/* ---- what a part needs of its neighbours ---- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* The distance between the first and the last element that a window sees. */
static int64_t reach(const msc_window *w) { return (w->kernel - 1) * w->dilation; }

/* Windows [a, b) see x from a * stride - lo to b * stride + hi. */
static void halo_of_x(const msc_window *w, int64_t *lo, int64_t *hi) {
  *lo = w->low;
  *hi = msc_max(0, reach(w) - w->low + 1 - w->stride);
}

/* Elements [a * stride, b * stride) of x are seen by windows from a - lo to b + hi. */
static void halo_of_y(const msc_window *w, int64_t *lo, int64_t *hi) {
  *lo = floor_div(reach(w) - w->low, w->stride);
  *hi = (w->low + w->stride - 1) / w->stride;
}

bool msc_window_may_be_cut(const msc_window *w) { return w->y > 0 && w->x > 0 && w->low <= reach(w); }

bool msc_halo_of(const msc_op *op, size_t tensor, int dim, int64_t *out_lo, int64_t *out_hi) {
  *out_lo = *out_hi = 0;
  if (!msc_is_windowed(op) || dim < 2 || tensor >= op->num_in) return false;
  if (msc_window_weights(op) && tensor > 0) return false; /* weights; the gradient of y is needed where it is */
  msc_conv c = msc_conv_of(op);
  if (c.of_x_result) halo_of_y(&c.dim[dim - 2], out_lo, out_hi);
  else halo_of_x(&c.dim[dim - 2], out_lo, out_hi);
  return true;
}

int64_t msc_halo_step(const msc_op *op, int dim) {
  msc_conv c = msc_conv_of(op);
  const msc_window *w = &c.dim[dim - 2];
  return c.of_x_result ? w->x / w->stride : w->y * w->stride;
}

/* ---- checks ---- */

/* Checks an attribute, if it is there: `num` integers from `least` to LARGEST. */
static bool check_ints(msc_op *op, const char *name, int num, int64_t least) {
  int64_t v[4];
  int n = msc_op_ints(op, name, v, 4);
  if (n < 0) return true;
  if (n != num) return shape_wrong(op, "%s must have %d entries, not %d", name, num, n);
  for (int i = 0; i < n; i++)
    if (v[i] < least || v[i] > LARGEST)
      return shape_wrong(op, "%s %" D " is not in %" D "..%" D, name, v[i], least, LARGEST);
  return true;
}

static bool check_window_attrs(msc_op *op) {
  return check_ints(op, "stride", 2, 1) && check_ints(op, "dilation", 2, 1) && check_ints(op, "padding", 4, 0) &&
         check_ints(op, "kernel", 2, 1);
}

/* Reads attribute `kernel`, which must be there. */
static bool kernel_attr(msc_op *op, int64_t *out_kernel) {
  return msc_op_ints(op, "kernel", out_kernel, 2) == 2 ||
         shape_wrong(op, "kernel must have 2 entries, height and width");
}

static bool must_be_image(msc_op *op, size_t i, const char *dims) {
  const msc_type *t = shape_in(op, i);
  if (t->rank == 4) return true;
  return shape_wrong(op, "operand %zu must be %s, not %s", i, dims, shape_text(op, t));
}

/* Computes w->y, the number of windows over x in dimension i; reports when no window fits. */
static bool set_num_windows(msc_op *op, msc_window *w, int i) {
  static const char *const names[] = {"height", "width"};
  if (w->x > INT64_MAX / 4 || w->kernel > LARGEST) return shape_wrong(op, "%s %" D " is too large", names[i], w->x);
  int64_t rest = w->x + w->low + w->high - reach(w) - 1;
  w->y = rest / w->stride + 1;
  if (rest >= 0 && w->kernel > 0) return true;
  return shape_wrong(op,
                     "a window of %" D " elements %" D " apart does not fit into %s %" D " with padding %" D " and %" D,
                     w->kernel, w->dilation, names[i], w->x, w->low, w->high);
}

/* Reads attribute `size` as the height and width of x. False after a report, also if x has not as many windows as y. */
static bool size_attr(msc_op *op, msc_conv *c, const int64_t *windows) {
  int64_t size[2];
  int n = msc_op_ints(op, "size", size, 2);
  if (n != 2) return shape_wrong(op, "size must have 2 entries, height and width, not %d", n);
  for (int i = 0; i < 2; i++) {
    msc_window *w = &c->dim[i];
    w->x = size[i];
    if (size[i] < 0) return shape_wrong(op, "size %" D " is negative", size[i]);
    MSC_TRY(set_num_windows(op, w, i));
    if (w->y != windows[i])
      return shape_wrong(op, "windows over size %" D " are %" D ", not %" D, size[i], w->y, windows[i]);
  }
  return true;
}

/* Checks the weights [o, c/groups, h, w] against the channels of the images; a count < 0 is not known yet. */
static bool check_channels(msc_op *op, const msc_type *w, int64_t c, int64_t o, int64_t groups) {
  if (groups < 1 || groups > LARGEST) return shape_wrong(op, "groups %" D " is not in 1..%" D, groups, LARGEST);
  if (w->dim[0] % groups)
    return shape_wrong(op, "%" D " output channels do not divide into %" D " groups", w->dim[0], groups);
  if (o >= 0 && w->dim[0] != o)
    return shape_wrong(op, "the weights have %" D " output channels, the images %" D, w->dim[0], o);
  if (c >= 0 && (c % groups || w->dim[1] != c / groups))
    return shape_wrong(op, "the weights have %" D " channels in each of %" D " groups, the images %" D " in all",
                       w->dim[1], groups, c);
  if (c < 0 && w->dim[1] > LARGEST) return shape_wrong(op, "%" D " channels are too many", w->dim[1]);
  return true;
}

/* ---- functions of op.def ---- */

bool shape_conv2d(msc_op *op) {
  MSC_TRY(shape_must_be_float(op, 0) && shape_same_dtype(op, 0, 1) && must_be_image(op, 0, "images [n,c,h,w]") &&
          must_be_image(op, 1, "weights [o,c,h,w]") && check_window_attrs(op));
  const msc_type *x = shape_in(op, 0), *w = shape_in(op, 1);
  msc_conv c = {0};
  read_windows(op, &c);
  MSC_TRY(check_channels(op, w, x->dim[1], -1, msc_op_int(op, "groups")));
  for (int i = 0; i < 2; i++) {
    c.dim[i].kernel = w->dim[2 + i], c.dim[i].x = x->dim[2 + i];
    MSC_TRY(set_num_windows(op, &c.dim[i], i));
  }
  return shape_set(op, 0, x->dtype, 4, (int64_t[]){x->dim[0], w->dim[0], c.dim[0].y, c.dim[1].y});
}

bool shape_biased_conv2d(msc_op *op) {
  MSC_TRY(shape_conv2d(op) && shape_same_dtype(op, 0, 2));
  const msc_type *bias = shape_in(op, 2), *y = op->out[0].type;
  bool fits = bias->rank == 4 && bias->dim[1] == y->dim[1] && bias->dim[0] * bias->dim[2] * bias->dim[3] == 1;
  return fits || shape_wrong(op, "'bias' must be [1,%" D ",1,1], not %s", y->dim[1], shape_text(op, bias));
}

bool shape_conv2d_transpose(msc_op *op) {
  MSC_TRY(shape_must_be_float(op, 0) && shape_same_dtype(op, 0, 1) && must_be_image(op, 0, "images [n,o,h,w]") &&
          must_be_image(op, 1, "weights [o,c,h,w]") && check_window_attrs(op));
  const msc_type *y = shape_in(op, 0), *w = shape_in(op, 1);
  int64_t groups = msc_op_int(op, "groups");
  msc_conv c = {0};
  read_windows(op, &c);
  MSC_TRY(check_channels(op, w, -1, y->dim[1], groups));
  for (int i = 0; i < 2; i++) c.dim[i].kernel = w->dim[2 + i];
  MSC_TRY(size_attr(op, &c, y->dim + 2));
  return shape_set(op, 0, y->dtype, 4, (int64_t[]){y->dim[0], w->dim[1] * groups, c.dim[0].x, c.dim[1].x});
}

bool shape_conv2d_weight_grad(msc_op *op) {
  MSC_TRY(shape_must_be_float(op, 0) && shape_same_dtype(op, 0, 1) && must_be_image(op, 0, "images [n,c,h,w]") &&
          must_be_image(op, 1, "gradients [n,o,h,w]") && check_window_attrs(op));
  const msc_type *x = shape_in(op, 0), *y = shape_in(op, 1);
  int64_t groups = msc_op_int(op, "groups"), kernel[2];
  msc_conv c = {0};
  read_windows(op, &c);
  MSC_TRY(kernel_attr(op, kernel));
  if (groups < 1 || x->dim[1] % groups)
    return shape_wrong(op, "%" D " channels do not divide into %" D " groups", x->dim[1], groups);
  if (y->dim[1] % groups)
    return shape_wrong(op, "%" D " output channels do not divide into %" D " groups", y->dim[1], groups);
  if (x->dim[0] != y->dim[0]) return shape_wrong(op, "operands have %" D " and %" D " images", x->dim[0], y->dim[0]);
  for (int i = 0; i < 2; i++) {
    c.dim[i].kernel = kernel[i], c.dim[i].x = x->dim[2 + i];
    MSC_TRY(set_num_windows(op, &c.dim[i], i));
    if (c.dim[i].y != y->dim[2 + i])
      return shape_wrong(op, "windows over size %" D " are %" D ", not %" D, c.dim[i].x, c.dim[i].y, y->dim[2 + i]);
  }
  return shape_set(op, 0, x->dtype, 4, (int64_t[]){y->dim[1], x->dim[1] / groups, kernel[0], kernel[1]});
}

/* Sets the result type of a pooling: one element per window. */
static bool set_pooled(msc_op *op, msc_dtype dtype) {
  const msc_type *x = shape_in(op, 0);
  int64_t kernel[2];
  msc_conv c = {0};
  MSC_TRY(must_be_image(op, 0, "images [n,c,h,w]") && check_window_attrs(op));
  MSC_TRY(kernel_attr(op, kernel));
  read_windows(op, &c);
  for (int i = 0; i < 2; i++) {
    c.dim[i].kernel = kernel[i], c.dim[i].x = x->dim[2 + i];
    MSC_TRY(set_num_windows(op, &c.dim[i], i));
    if (c.dim[i].low > reach(&c.dim[i]) || c.dim[i].high > reach(&c.dim[i]))
      return shape_wrong(op, "padding must be smaller than the window: some would see nothing else");
  }
  return shape_set(op, 0, dtype, 4, (int64_t[]){x->dim[0], x->dim[1], c.dim[0].y, c.dim[1].y});
}

bool shape_max_pool(msc_op *op) { return shape_must_be_number(op, 0) && set_pooled(op, shape_in(op, 0)->dtype); }
bool shape_avg_pool(msc_op *op) { return shape_must_be_float(op, 0) && set_pooled(op, shape_in(op, 0)->dtype); }

bool shape_max_pool_index(msc_op *op) {
  MSC_TRY(shape_must_be_number(op, 0) && set_pooled(op, MSC_I32));
  int64_t kernel[2];
  msc_op_ints(op, "kernel", kernel, 2);
  return kernel[0] * kernel[1] <= INT32_MAX || shape_wrong(op, "a window has more than 2^31 elements");
}

/* Sets the result type of a pooling's gradient: images of attribute `size`, over which the windows have y's shape. */
static bool set_unpooled(msc_op *op, const msc_type *y) {
  msc_conv c = {0};
  int64_t kernel[2];
  MSC_TRY(check_window_attrs(op));
  MSC_TRY(kernel_attr(op, kernel));
  read_windows(op, &c);
  for (int i = 0; i < 2; i++) c.dim[i].kernel = kernel[i];
  MSC_TRY(size_attr(op, &c, y->dim + 2));
  return shape_set(op, 0, y->dtype, 4, (int64_t[]){y->dim[0], y->dim[1], c.dim[0].x, c.dim[1].x});
}

bool shape_avg_pool_grad(msc_op *op) {
  return shape_must_be_float(op, 0) && must_be_image(op, 0, "images [n,c,h,w]") && set_unpooled(op, shape_in(op, 0));
}

bool shape_max_pool_grad(msc_op *op) {
  const msc_type *index = shape_in(op, 0), *dy = shape_in(op, 1);
  MSC_TRY(must_be_image(op, 0, "positions [n,c,h,w]") && must_be_image(op, 1, "gradients [n,c,h,w]") &&
          shape_must_be_float(op, 1));
  if (index->dtype != MSC_I32)
    return shape_wrong(op, "'index' must have i32 elements, not %s", msc_dtype_name(index->dtype));
  for (int d = 0; d < 4; d++)
    if (index->dim[d] != dy->dim[d])
      return shape_wrong(op, "dimension %d of the operands differs: %" D " and %" D, d, index->dim[d], dy->dim[d]);
  return set_unpooled(op, dy);
}

bool shape_unfold(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t k[2];
  msc_conv c = {0};
  MSC_TRY(must_be_image(op, 0, "images [n,c,h,w]") && check_window_attrs(op));
  MSC_TRY(kernel_attr(op, k));
  read_windows(op, &c);
  for (int i = 0; i < 2; i++) {
    c.dim[i].kernel = k[i], c.dim[i].x = x->dim[2 + i];
    MSC_TRY(set_num_windows(op, &c.dim[i], i));
  }
  int64_t n = x->dim[0], ch = x->dim[1], h = c.dim[0].y, w = c.dim[1].y;
  if (msc_op_bool(op, "images_last")) return shape_set(op, 0, x->dtype, 6, (int64_t[]){ch, k[0], k[1], n, h, w});
  return shape_set(op, 0, x->dtype, 6, (int64_t[]){n, ch, k[0], k[1], h, w});
}

bool shape_fold(msc_op *op) {
  const msc_type *y = shape_in(op, 0);
  msc_conv c = {0};
  MSC_TRY(shape_must_be_float(op, 0) && check_window_attrs(op));
  if (y->rank != 6) return shape_wrong(op, "operand 0 must be [n,c,k,l,h,w], not %s", shape_text(op, y));
  read_windows(op, &c);
  for (int i = 0; i < 2; i++) c.dim[i].kernel = y->dim[2 + i];
  return size_attr(op, &c, y->dim + 4) &&
         shape_set(op, 0, y->dtype, 4, (int64_t[]){y->dim[0], y->dim[1], c.dim[0].x, c.dim[1].x});
}

bool shape_resize(msc_op *op) {
  const msc_type *x = shape_in(op, 0);
  int64_t size[2];
  MSC_TRY(shape_must_be_float(op, 0) && must_be_image(op, 0, "images [n,c,h,w]"));
  if (msc_op_ints(op, "size", size, 2) != 2) return shape_wrong(op, "size must have 2 entries, height and width");
  for (int i = 0; i < 2; i++) {
    if (size[i] < 1 || x->dim[2 + i] < 1)
      return shape_wrong(op, "nothing can be made of %" D " elements, or of others %" D, x->dim[2 + i], size[i]);
    if (x->dim[2 + i] > LARGEST || size[i] > LARGEST || x->dim[2 + i] * size[i] > 1 << 26)
      return shape_wrong(op, "from %" D " to %" D " is too far", x->dim[2 + i], size[i]);
  }
  return shape_set(op, 0, x->dtype, 4, (int64_t[]){x->dim[0], x->dim[1], size[0], size[1]});
}
