/* nest.h: one kernel as a loop nest.  In: ops with local shapes that shall be one kernel.  Out: a small program over
 * loop axes, free of ops, which codegen/emit turns into code for a target; or the reason why these ops cannot be one
 * kernel.
 *
 * Attributes that lowering leaves on ops with local shapes, where one rank's shape does not say everything:
 *   blocks int  products and sums: parts of what is summed that are summed one by one and added as a tree
 *               (msc_sum_blocks); it divides the local size.  Absent: the order does not matter
 *   count  int  the divisor of a mean (reduce_mean, softmax_cross_entropy and its gradient); absent: from the local
 *               shape
 *   whole  int  gather, scatter_add, softmax_cross_entropy and its gradient: the global size of the indexed dimension,
 *               for the index check; absent: the local one
 *   part   int  gather: minus the number of rows of this rank's part, an offset like `start`; other rows are a fault
 *   start  int  iota, one_hot, gather, scatter_add: this rank's part of the indexed dimension begins at an offset that
 *               the loader computes; the number is the caller's own and comes back in a launch.  With `start`,
 *               rows of other ranks gather zeros, scatter nothing.
 *   any_order bool  scatter_add, add_along, scatter_nd_add: a GPU adds in whatever order, atomically
 *   starts, whole_shape  ints  random ops: per dimension such a number (-1: whole), and the global shape */
#ifndef MSC_PASSES_NEST_H
#define MSC_PASSES_NEST_H

#include "passes/7_lower/target.h"

enum {
  MSC_NEST_OPS = 64,
  MSC_NEST_AXES = 12,
  MSC_NEST_INSTRS = 640,
  MSC_NEST_BUFFERS = 128,
  MSC_STRAND_BUFFERS = 32, /* of a kernel whose parts depend on each other */
  MSC_NEST_DIMS = 128,
  MSC_NEST_SCALARS = 64,
};

/* ---- for the fusion pass ---- */

typedef struct msc_nester msc_nester; /* working memory, to be reused from region to region */

/* How the iteration space is walked; a region keeps its kind or moves from MAP to one of the others as it grows. */
typedef enum {
  MSC_NEST_MAP,       /* every element by itself: elementwise, broadcasts, copies, gathers */
  MSC_NEST_ROW,       /* reductions along the contiguous axis, and what follows from them: softmax, losses, norms */
  MSC_NEST_COLUMN,    /* reductions across it: bias gradients, matmuls without a library */
  MSC_NEST_TRANSPOSE, /* MAP whose operand is contiguous along another axis: in square blocks */
  MSC_NEST_SCATTER,   /* scatter_add, add_along, scatter_nd_add */
} msc_nest_kind;

/* What a kernel writes to its error flag, which is 0 before. */
typedef enum {
  MSC_FAULT_NONE,
  MSC_FAULT_INDEX /* out of range */,
  MSC_FAULT_DIVISION /* of an integer by zero */
} msc_kernel_fault;

typedef struct {
  msc_nest_kind kind;
  int num_launches;
  uint64_t elems;         /* points of the iteration space */
  uint64_t bytes, flops;  /* memory traffic of operands and results; operations, repeated ones included */
  uint64_t scratch_bytes;
  bool checks;
} msc_nest_info;

/* Makes a maker of kernels in the arena; it has a quarter of a megabyte. */
msc_nester *msc_nester_new(msc_context *ctx, msc_arena *arena, const msc_target *target);

/* May these ops of one block, in their order, be one kernel?  Results used outside the set are its results.  A fused op
 * may stand alone.  It takes microseconds, so callers ask for each op that they consider to add.  False: *out_why
 * (valid until the next call) says why not. */
bool msc_nest_fits(msc_nester *nester, size_t num_ops, const msc_op *const *ops, msc_nest_info *out_info,
                   const char **out_why);

/* Is this op a generated kernel, or a part of one?  (no collective, no product by the library, no constant of many
 * values) */
bool msc_nest_can_fuse(const msc_op *op);
/* The bytes of scratch that an op's kernels need, known before any code is made, since memory is planned first. */
uint64_t msc_scratch_bytes(msc_nester *nester, const msc_op *op);
/* May result `out` lie in the buffer of operand `in`?  (every element is read before, or by, the item
 * that writes it) */
bool msc_may_overwrite(msc_nester *nester, const msc_op *op, size_t in, size_t out);
/* May result `out`, the new value of an argument, lie in the buffer of operand `in`? It must, if at all possible: so
 * here it is also enough that the operand is read to its end before the result, reduced from it, is stored. */
bool msc_may_update(msc_nester *nester, const msc_op *op, size_t in, size_t out);

#endif
