/* builtin.h: ops whose kernel is part of the runtime. */
#ifndef MSC_PASSES_BUILTIN_H
#define MSC_PASSES_BUILTIN_H

#include "ir/abi/builtin.h"
#include "passes/7_lower/nest/program.h"

/* The launch of such an op.  Its buffers are the op's operands and results, working memory if it needs any, then the
 * error flag if it checks. */
typedef struct {
  msc_builtin number;
  bool checks;
  uint64_t extent, grain, bytes, flops;
  uint64_t scratch_bytes;
  size_t num_dims, num_scalars, num_starts;
  int64_t dims[MSC_MOST_BUILTIN_DIMS];
  double scalars[MSC_LAZY_SCALARS];
  msc_start start[1];
} msc_builtin_launch;

/* How a GPU sorts: it puts runs of MSC_SORT_RUN elements in order, then merges them in pairs, launch by launch, until a
 * row is one run.  Between two launches a set of all elements and their indices lies in working memory, or in the
 * results if these have room for it. */
enum { MSC_SORT_RUN = 128 };
typedef struct {
  int num_merges, num_sets;       /* sets in working memory */
  uint64_t set_bytes, indices_at; /* indices begin so many bytes behind the elements of their set */
} msc_sort_merges;
msc_sort_merges msc_merges_of_sort(const msc_builtin_launch *sort);

/* How a GPU finds distinct values: it sorts them into working memory, then the threads of one block count and place
 * those that differ from the one before, each in a part of the sorted elements.  Behind the sets lies a number for each
 * of these threads. */
enum { MSC_UNIQUE_THREADS = 1024 };
/* Returns the launch of that sort. */
msc_builtin_launch msc_sort_of_unique(const msc_builtin_launch *unique);

/* How a GPU adds up the gradients of a row that a lazy update steps: in parts of so many, then the parts.  Behind
 * fewer numbers there is no launch for parts. */
enum { MSC_LAZY_PART = 64 };

/* Fills in the launch; false: the op has another kernel.  out_launch may be NULL. */
bool msc_builtin_of(const msc_op *op, msc_builtin_launch *out_launch);

#endif
