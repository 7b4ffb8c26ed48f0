/* library.h: attention and convolutions that one call computes: a GPU's library, as a graph of its own operations,
 * or on a CPU the runtime, by kernels of products. */
#ifndef MSC_PASSES_7_LOWER_GPU_LIBRARY_H
#define MSC_PASSES_7_LOWER_GPU_LIBRARY_H

#include "ir/abi/attention.h"
#include "ir/abi/windows.h"
#include "passes/time_model.h"
#include "passes/pass.h"

/* Marks an op for the library by the attribute `library`, and by `any_order` if the configuration lets sums be in any
 * order. */
void msc_graph_mark(const msc_pass_ctx *pass, msc_op *op);
bool msc_is_graph(const msc_op *op);
/* Describe a marked op for the runtime's kernels on a CPU, whose panels have `width` columns. msc_windows_of_op returns
 * false if no such kernel computes the op. */
bool msc_windows_of_op(const msc_op *op, int width, msc_windows *out);
msc_attention msc_attention_of_op(const msc_op *op, int width);
/* Arithmetic and memory traffic of a marked op. */
double msc_graph_bytes(const msc_op *op);
int64_t msc_graph_ns(const msc_op *op, const msc_cost *cost, msc_arena *arena);

#endif
