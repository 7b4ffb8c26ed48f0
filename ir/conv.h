/* conv.h: ops whose windows slide over the two last dimensions of [n,c,h,w]: convolutions, pools and their gradients.
 * x is the tensor the windows slide over, y the one with an element per window, whichever of them the op makes. */
#ifndef MSC_IR_CONV_H
#define MSC_IR_CONV_H

#include "ir/ir.h"

/* One dimension: y[o] sees x[o * stride + k * dilation - low] for k below kernel. */
typedef struct {
  int64_t kernel, stride, dilation, low, high;
  int64_t x, y; /* sizes */
} msc_window;

typedef struct {
  msc_window dim[2];   /* h, w */
  int64_t n, c, o;     /* c: channels of x, o: of y */
  int64_t groups;      /* o / groups channels of y see c / groups of x */
  bool of_x_result;    /* true if the op makes x (conv2d_transpose and the gradients of pools) */
} msc_conv;

/* ---- shape/conv.c ---- */

bool msc_is_windowed(const msc_op *op);
msc_value *msc_window_images(const msc_op *op);  /* x, or its gradient that the op makes */
msc_value *msc_window_weights(const msc_op *op); /* or their gradient; NULL: windows are pooled or copied */
/* Reads the sizes of a convolution from an op whose types are known, global or local. */
msc_conv msc_conv_of(const msc_op *op);
/* Returns the number of multiplications, or of elements of windows that are read, as a double, so that any size
 * fits. */
double msc_conv_work(const msc_op *op);
/* True if each image has one window, which is the whole image. */
bool msc_sees_whole_images(const msc_conv *c);
/* True if windows are the elements of the image, one each. */
bool msc_sees_single_elements(const msc_conv *c);
/* Tells how many rows of operand `tensor` the op's windows reach before and behind the ones that its part stands over
 * when dimension `dim` is cut; false: windows do not slide over the operand.  Part i of y stands over x from
 * i * step, and part i of x, which begins at a multiple of the stride, under y from i * step. */
bool msc_halo_of(const msc_op *op, size_t tensor, int dim, int64_t *out_lo, int64_t *out_hi);
/* Returns the step of these parts, in rows of the operand; the op has the sizes of one rank's part. */
int64_t msc_halo_step(const msc_op *op, int dim);
/* True if the dimension may be cut: there are windows, and the first one reaches an element of x. */
bool msc_window_may_be_cut(const msc_window *w);

#endif
