/* op_cost.h: what the kernel of one member costs on one device, and what it leaves in memory. */
#ifndef MSC_PASSES_3_SHARD_OP_COST_H
#define MSC_PASSES_3_SHARD_OP_COST_H

#include "passes/3_shard/step_time_search/model.h"
#include "passes/time_model.h"

/* The type of a tensor of the member, without layout; operands come first, then results. */
const msc_type *shard_tensor_type(msc_context *ctx, const shard_variable *v, const shard_member *m, int tensor);
/* The time of the member's kernel on one device. `parts`: by letter of the variable. */
int64_t shard_work_ns(const shard_model *of, const msc_cost *cost, const shard_variable *v, const shard_member *m,
                      const int64_t *parts);
/* The time in which an update's gradient is added to those of earlier micro-batches; 0 of other members, and where a
 * step has one micro-batch. */
int64_t shard_accumulate_ns(const shard_model *of, const msc_cost *cost, const shard_variable *v, const shard_member *m,
                            const int64_t *parts);
/* A lower bound on the time of every plan of the function on so many devices, whatever is overlapped or fused: the
 * arithmetic of its products, shared evenly. */
int64_t shard_least_ns(const shard_model *of, const msc_cost *cost, int64_t devices);
/* Bytes of the member's operands that stay in memory over the step (its `kept`), on one device; *out_parameters: they
 * are parameters with their state and gradient, not values that the backward reads. */
double shard_kept_bytes(const shard_model *of, const shard_zero *zero, const shard_variable *v, const shard_member *m,
                        const int64_t *parts, bool *out_parameters);

#endif
