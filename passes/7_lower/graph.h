/* graph.h: ops that a GPU's library computes in one call, as a graph of its own operations: attention and convolutions
 * that are marked for it. */
#ifndef MSC_PASSES_GRAPH_H
#define MSC_PASSES_GRAPH_H

#include "passes/cost.h"
#include "passes/pass.h"

/* The library computes it: attribute `library`; in any order of sums, where the configuration
 * allows that: `any_order`. */
void msc_graph_mark(const msc_pass_ctx *pass, msc_op *op);
bool msc_is_graph(const msc_op *op);
/* Arithmetic and memory traffic of a marked op. */
double msc_graph_flops(const msc_op *op);
double msc_graph_bytes(const msc_op *op);
int64_t msc_graph_ns(const msc_op *op, const msc_cost *cost);

#endif
