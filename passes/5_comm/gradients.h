/* gradients.h: which collectives of a function serve its parameters: sums of gradients, gathered
 * parts of parameters. */
#ifndef MSC_PASSES_5_COMM_GRADIENTS_H
#define MSC_PASSES_5_COMM_GRADIENTS_H

#include "ir/ir.h"

typedef struct {
  msc_op *op;          /* all_reduce, reduce_scatter or all_gather of one value */
  bool serves;         /* a parameter; else it is here for its user's sake, who gave it an id */
  bool at_once;        /* a parameter's parts, which are there before anything runs */
  int64_t id;          /* what the user wants it fused with: -1 not said, 0 nothing */
  int64_t ready_ns;    /* when its operand is there */
  size_t number;       /* of those of its kind without an id, in ready order */
} comm_candidate;

/* In program order, untimed. */
comm_candidate *comm_candidates(msc_arena *arena, msc_func *f, size_t *out_num);

#endif
