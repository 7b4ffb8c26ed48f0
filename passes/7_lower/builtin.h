/* builtin.h: ops whose kernel is part of the runtime. */
#ifndef MSC_PASSES_BUILTIN_H
#define MSC_PASSES_BUILTIN_H

#include "ir/abi/builtin.h"
#include "passes/7_lower/nest/program.h"

/* The one launch of such an op.  Its buffers are the op's operands and results, then the error flag if it checks. */
typedef struct {
  msc_builtin number;
  bool checks;
  uint64_t extent, grain, bytes, flops;
  size_t num_dims, num_scalars, num_starts;
  int64_t dims[MSC_MOST_BUILTIN_DIMS];
  double scalars[MSC_LAZY_SCALARS];
  msc_start start[1];
} msc_builtin_launch;

/* Fills in the launch; false: the op has another kernel.  out_launch may be NULL. */
bool msc_builtin_of(const msc_op *op, msc_builtin_launch *out_launch);

#endif
