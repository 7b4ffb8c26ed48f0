/* explain.h: a function whose strategies are decided (after the pass `search`) in; for every op why it is cut as it is,
 * out: what its choice costs, and the next best choice with all other ops as they are; of one op also what the whole
 * step would cost if it were cut otherwise and all others were free to follow; and what the user's strategies and the
 * memory limit cost. */
#ifndef MSC_PASSES_3_SHARD_EXPLAIN_H
#define MSC_PASSES_3_SHARD_EXPLAIN_H

#include "passes/3_shard/explain/origins.h"

/* One way to cut an op and its gradient ops, on the described cluster. */
typedef struct {
  const char *cuts;   /* "m {dp}, n {tp}"; "whole" */
  const char *layouts; /* of the op's operands and results: "[{dp},{}] [{},{tp}] -> [{dp},{tp}]" */
  int64_t work_ns;    /* kernels of a step, and layout changes among these ops themselves */
  int64_t move_ns;    /* layout changes between them and their neighbours, forward and backward */
  int64_t bytes;      /* kept in memory by one rank: parameters, their gradients and state, activations */
} shard_way;

/* The step of least time when one op is cut this way. All other ops may be cut otherwise than decided, except those
 * that the user decided. */
typedef struct {
  shard_way way;
  /* the time of all kernels and layout changes of a micro-batch, one after the other; memory kept */
  int64_t step_ns, bytes;
  int64_t work_ns, move_ns; /* how much more time kernels, and layout changes, take than as decided */
  size_t num_changed;
  const char **changed; /* the other ops that are cut otherwise, and how: "dense2: m {dp}" */
} shard_instead;

typedef struct {
  const msc_op *op;        /* the leader of a group */
  const char *by;          /* user, default, propagation, search */
  /* the rule, and the sizes and parts of its letters: "Amk,kn->Amn, A 128 in 8 parts, k 64 summed" */
  const char *letters;
  double imbalance;        /* size of the largest part divided by the mean size: 1 if all are equal */
  size_t num_others;       /* gradient and update ops that share its choice */
  shard_way chosen, next;  /* next.cuts NULL: there is no other way */
  /* ways that the rule, the sizes and the mesh allow; 0: too many to compare; -1: the chosen way is not among them */
  int num_ways;
  bool own_order;          /* the digits are in an order that only the user can give: the way is not compared */
  size_t num_chains, num_conflicts;
  shard_chain *chain;       /* digits that propagation brought, from where and by which way */
  shard_conflict *conflict; /* where propagation met other digits */
  size_t num_instead;
  shard_instead *instead; /* of the op asked for: the best of its other ways by the whole step, best first */
} shard_reason;

/* Costs of the whole step: as decided; the least with the user's strategies kept; the least with all strategies free,
 * whatever memory that takes. 0: not known, because there are too many ways. */
typedef struct {
  int64_t step_ns, kept_ns, free_ns;
  int64_t bytes, kept_bytes; /* kept in memory as decided, and at kept_ns */
} shard_figures;

typedef struct {
  size_t num;
  shard_reason *reason; /* in program order, of the ops that the user named: forward ops with operands */
  shard_figures figures;
} shard_explanation;

/* Explains op `op`, or all ops when it is NULL; `cuts`: another way to cut it, in the text form of a way, that is
 * compared too, or NULL. Results are in the pass's scratch arena. False after a report. The function loses the copies
 * that the search made, so it must not be compiled afterwards. */
bool shard_explain(msc_pass_ctx *pass, msc_func *f, const char *op, const char *cuts, shard_explanation *out);

#endif
