/* gradients.h: the collectives of a function that serve its parameters: they sum gradients or gather parts of
 * parameters. */
#ifndef MSC_PASSES_5_COMM_GRADIENTS_H
#define MSC_PASSES_5_COMM_GRADIENTS_H

#include "ir/ir.h"

typedef struct {
  msc_op *op;          /* a collective that comm_fusion joins with others, of one value */
  bool serves;         /* carries a gradient or a parameter; false: it is a candidate because the user gave it an id */
  bool at_once;        /* gathers parts of a parameter, which are ready before anything runs */
  int64_t id;          /* the number of the bucket that the user wants: -1 not given, 0 none */
  int64_t ready_ns;    /* when its operand is ready */
  size_t number;       /* index in ready order among those of its kind without an id */
} comm_candidate;

/* Returns the candidates in program order; ready_ns and number are not set yet. */
comm_candidate *comm_candidates(msc_arena *arena, msc_func *f, size_t *out_num);

#endif
