/* graph.h: ops that a GPU's library computes in one call, as a graph of its own operations: attention and convolutions that are
 * marked for it; and what lies in its operand's place. */
#ifndef MSC_PASSES_GRAPH_H
#define MSC_PASSES_GRAPH_H

#include "passes/cost.h"
#include "passes/pass.h"

/* The library computes it: attribute `library`; in any order of sums, where the configuration allows that: `any_order`. */
void msc_graph_mark(const msc_pass_ctx *pass, msc_op *op);
bool msc_is_graph(const msc_op *op);
/* Its result is its operand, seen otherwise: a reshape, or a transpose or a slice with the attribute `view` (views.c). */
bool msc_is_view(const msc_op *op);
/* A transpose, slice or concat with that attribute: nothing is moved. */
bool msc_moves_nothing(const msc_op *op);
/* The value in whose place v lies, from element *out_shift on: what v is a slice of, or a concat that it is part of; else v itself. */
const msc_value *msc_view_whole(const msc_value *v, int64_t *out_shift);
/* Elements between neighbours in each dimension of an operand or result of a marked op. */
void msc_graph_strides(const msc_value *v, int64_t out_stride[MSC_MAX_RANK]);
/* Arithmetic and memory traffic of a marked op. */
double msc_graph_flops(const msc_op *op);
double msc_graph_bytes(const msc_op *op);
int64_t msc_graph_ns(const msc_op *op, const msc_cost *cost);

#endif
