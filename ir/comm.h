/* comm.h: a lowered change of layout, value by value: a `comm` carries several where collectives travel together. */
#ifndef MSC_IR_COMM_H
#define MSC_IR_COMM_H

#include "ir/ir.h"

/* The part of one operand and its result in a collective, as the op's attributes say. */
typedef struct {
  const msc_layout *from, *to;
  int64_t shape[MSC_MAX_RANK]; /* global */
  const msc_layout *order;     /* digits, major first, that number a reduction's terms; NULL: ranks do */
} msc_comm_part;

/* The rows of dimension `dim` that a halo gives a rank with part i of it: from i * step - lo up to, not including,
 * (i + 1) * step + hi.  Rows beside the whole are the identity of the comm's reduction. */
typedef struct {
  int dim;
  int64_t lo, hi, step;
} msc_comm_halo;

/* Reads the attribute `halo`; false: the comm has none, or a wrong one. */
bool msc_comm_halo_of(const msc_op *comm, msc_comm_halo *out_halo);

/* Lists the parts of a collective, one for each value, in `arena`; NULL after a report: the attributes do not describe
 * each value. */
const msc_comm_part *msc_comm_parts(const msc_op *comm, msc_arena *arena);
/* Sets the attributes from parts: the inverse of msc_comm_parts. */
void msc_comm_set_parts(msc_op *comm, size_t num, const msc_comm_part *part);

#endif
