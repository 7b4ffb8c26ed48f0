/* explain.h: a function whose strategies are decided (after the pass `search`) in; for every op why it is cut as it is, out:
 * what its choice costs, and the next best choice with all other ops as they are. */
#ifndef MSC_PASSES_3_SHARD_EXPLAIN_H
#define MSC_PASSES_3_SHARD_EXPLAIN_H

#include "passes/3_shard/shard.h"

/* One way to cut an op and its gradient ops, on the described cluster. */
typedef struct {
  const char *cuts;   /* "m {dp}, n {tp}"; "whole" */
  const char *layouts; /* of the op's operands and results: "[{dp},{}] [{},{tp}] -> [{dp},{tp}]" */
  int64_t work_ns;    /* kernels of a step, and layout changes among these ops themselves */
  int64_t move_ns;    /* layout changes between them and their neighbours, forward and backward */
  int64_t bytes;      /* kept in memory by one rank: parameters, their gradients and state, activations */
} shard_way;

typedef struct {
  const msc_op *op;        /* the leader of a group */
  const char *by;          /* user, default, propagation, search */
  const char *letters;     /* what letters there are, with sizes, and into how many parts: "Amk,kn->Amn, A 128 in 8 parts, k 64 summed" */
  double imbalance;        /* its largest part by the mean one: 1 where all are equal */
  size_t num_others;       /* gradient and update ops that share its choice */
  shard_way chosen, next;  /* next.cuts NULL: there is no other way */
  int num_ways;            /* that its rule, sizes and the mesh allow; 0: too many to compare */
} shard_reason;

/* In program order, of the ops that the user named: forward ops with operands.  In the pass's scratch arena. */
bool shard_explain(msc_pass_ctx *pass, msc_func *f, size_t *out_num, shard_reason **out_reason);

#endif
