/* builtin.h: kernels that no loop nest expresses and that the runtime therefore brings along.  Compiler and runtime
 * share what their `dims` mean; they are called as generated kernels are, and need no memory but their buffers.
 *
 * Tensors are seen as [outer, n, inner], n along the op's axis; a row is one (outer, inner).  Order of elements: NaN is
 * the largest, -0 equals 0, equal ones go by index. */
#ifndef MSC_IR_BUILTIN_H
#define MSC_IR_BUILTIN_H

#include <stdint.h>

typedef enum {
  MSC_BUILTIN_NONE,
  MSC_BUILTIN_SCAN,   /* x (, dy) -> y; items: rows */
  MSC_BUILTIN_SORT,   /* x -> values, indices: the first k of each row in order; items: rows */
  MSC_BUILTIN_UNIQUE, /* x [n] -> values [n] ascending, the last repeated; inverse [n]; count; one item */
  MSC_BUILTIN_UPDATE, /* x, indices, updates -> y (, flag): x with rows replaced, in order of position; items: outer */
  MSC_BUILTIN_POOLING,   /* x -> y or index; or index, dy -> dx, of f32: the largest of windows; items: planes */
  /* w, state, numbers of rows ascending, order, g, (t, ok, rate,) new values of w and state: see MSC_LAZY; items: n */
  MSC_BUILTIN_LAZY,
  MSC_BUILTIN_SEGMENTS, /* numbers of rows ascending, order, updates -> y, flag: see MSC_SEGMENTS; items: rows of y */
  MSC_NUM_BUILTINS
} msc_builtin;

enum { MSC_SCAN_DTYPE, MSC_SCAN_N, MSC_SCAN_INNER, MSC_SCAN_KIND, MSC_SCAN_EXCLUSIVE, MSC_SCAN_REVERSE, MSC_SCAN_DIMS };
/* Values of MSC_SCAN_KIND. The gradient has the further operand dy. */
enum { MSC_SCAN_SUM, MSC_SCAN_PROD, MSC_SCAN_PROD_GRAD, MSC_NUM_SCANS };
enum {
  MSC_SORT_DTYPE,
  MSC_SORT_INDEX_DTYPE,
  MSC_SORT_N,
  MSC_SORT_INNER,
  MSC_SORT_K,
  MSC_SORT_DESCENDING,
  MSC_SORT_DIMS
};
enum { MSC_UNIQUE_DTYPE, MSC_UNIQUE_INDEX_DTYPE, MSC_UNIQUE_N, MSC_UNIQUE_DIMS };
/* x has n rows of inner elements, which begin at row `start` of `whole`; rows of other ranks are left out. */
enum {
  MSC_UPDATE_DTYPE,
  MSC_UPDATE_INDEX_DTYPE,
  MSC_UPDATE_N,
  MSC_UPDATE_INNER,
  MSC_UPDATE_NUM,
  MSC_UPDATE_START,
  MSC_UPDATE_WHOLE,
  MSC_UPDATE_DIMS
};
enum { MSC_POOLING_MAX, MSC_POOLING_INDEX, MSC_POOLING_BACK, MSC_NUM_POOLINGS };
/* The dims of a pooling kernel, for each dimension of the windows; element k of window o lies at o * stride + k *
 * dilation - low. */
enum {
  MSC_POOLING_KERNEL,
  MSC_POOLING_STRIDE,
  MSC_POOLING_DILATION,
  MSC_POOLING_LOW,
  MSC_POOLING_X,
  MSC_POOLING_Y,
  MSC_POOLING_OF_WINDOW
};
enum {
  MSC_POOLING_KIND,
  MSC_POOLING_H,
  MSC_POOLING_W = MSC_POOLING_H + MSC_POOLING_OF_WINDOW,
  MSC_POOLING_DIMS = MSC_POOLING_W + MSC_POOLING_OF_WINDOW
};
/* Updates of the rows of a table that were looked up: w has n rows of inner elements, which begin at row `start`. Of g
 * the rows order[i] that have one number are added in ascending order of i. New values lie where the old ones did.
 * Items are places in the sorted numbers: a range of them stands for the rows whose number first occurs in it. */
enum {
  MSC_LAZY_DTYPE,
  MSC_LAZY_INDEX_DTYPE,
  MSC_LAZY_KIND,
  MSC_LAZY_N,
  MSC_LAZY_INNER,
  MSC_LAZY_START,
  MSC_LAZY_GIVEN, /* bits of MSC_LAZY_OK ... */
  MSC_LAZY_NUM,   /* how many row numbers there are; `order` has as many entries */
  MSC_LAZY_ROWS,  /* of g */
  MSC_LAZY_HYPERS, /* what `rate` has, see msc_lazy_place; 0: the learning rate alone */
  MSC_LAZY_DIMS
};
enum { MSC_LAZY_SGD, MSC_LAZY_MOMENTUM, MSC_LAZY_ADAGRAD, MSC_LAZY_ADAM, MSC_NUM_LAZY };
/* MSC_LAZY_PAIR: t is not the step but 1 - beta1^t and 1 - beta2^t. */
enum { MSC_LAZY_OK = 1, MSC_LAZY_RATE = 2, MSC_LAZY_NESTEROV = 4, MSC_LAZY_PAIR = 8 };
/* scalars; `rate`, where it is given, stands in place of lr, or of all scalars that MSC_LAZY_HYPERS names */
enum {
  MSC_LAZY_LR,
  MSC_LAZY_DECAY,
  MSC_LAZY_MOMENTUM_RATE,
  MSC_LAZY_DAMPENING,
  MSC_LAZY_BETA1,
  MSC_LAZY_BETA2,
  MSC_LAZY_EPS,
  MSC_LAZY_SCALARS
};
/* MSC_LAZY_HYPERS has four bits for each scalar: one more than its place in the list `rate`, 0 where it has none. */
static inline int64_t msc_lazy_hyper(int scalar, int place) { return ((int64_t)place + 1) << 4 * scalar; }
/* The place of a scalar in the list `rate`; -1: it is not there. */
static inline int msc_lazy_place(int64_t hypers, int scalar) { return (int)(hypers >> 4 * scalar & 15) - 1; }
/* Updates added to the rows that their numbers name: y has n rows of inner elements, which begin at row `start` of
 * `whole`; the updates of other ranks' rows are left out, and rows without any are zeros.  Of the num updates those of
 * one row are added as a tree over `blocks` equal parts of them, inside a part in ascending order. */
enum {
  MSC_SEGMENTS_DTYPE,
  MSC_SEGMENTS_INDEX_DTYPE,
  MSC_SEGMENTS_N,
  MSC_SEGMENTS_INNER,
  MSC_SEGMENTS_NUM,
  MSC_SEGMENTS_BLOCKS, /* at most MSC_SEGMENTS_MOST_BLOCKS */
  MSC_SEGMENTS_START,
  MSC_SEGMENTS_WHOLE,
  MSC_SEGMENTS_DIMS
};
enum { MSC_SEGMENTS_MOST_BLOCKS = 64, MSC_SEGMENTS_Y = 3 }; /* Y: the buffer of y */
enum { MSC_MOST_BUILTIN_DIMS = 16, MSC_MOST_BUILTIN_BUFFERS = 12 }; /* of any */

#endif
