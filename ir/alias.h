/* alias.h: a value in; the value whose memory it shares, and where in it, out.  Passes that move ops, place values or
 * overwrite them all ask these functions. */
#ifndef MSC_ALIAS_H
#define MSC_ALIAS_H

#include "ir/ir.h"

typedef struct {
  const msc_value *root; /* an argument of the function, or the result of an op, also of a constant */
  int64_t shift;         /* where the value begins in `root`'s memory, in elements */
} msc_memory;

/* Returns the memory that v is stored in, which is found through the ops that move no data. A reshape lies in its
 * operand, and an argument of a region in the operand that it stands for. With the attribute `view`, a transpose or
 * slice lies in its operand, and the operands of a concat in its result. */
msc_memory msc_memory_of(const msc_value *v);
static inline bool msc_share_memory(const msc_value *a, const msc_value *b) {
  return msc_memory_of(a).root == msc_memory_of(b).root;
}
/* True if the value lies in memory that holds a constant, which nobody may overwrite. */
static inline bool msc_is_constant(const msc_value *v) {
  const msc_op *def = msc_memory_of(v).root->def;
  return def && msc_is_constant_op(def);
}

/* True if the op's result is its operand's memory, read with another shape or strides. */
bool msc_is_view(const msc_op *op);
/* True if the op is a transpose, slice or concat with the attribute `view`, which moves no data. */
bool msc_moves_nothing(const msc_op *op);
/* Writes, for each dimension of a value, how many elements lie between neighbours in its memory. */
void msc_strides(const msc_value *v, int64_t out_stride[MSC_MAX_RANK]);

/* Returns the number of the result that is the new value of operand i and lies in its memory; -1: none. A region
 * overwrites those of its operands that an update inside it overwrites. */
int msc_tied_result(const msc_op *op, size_t i);
/* Returns the number of the argument whose new value is result i of the function; -1: none. */
int64_t msc_tied_argument(const msc_func *f, size_t i);
/* Returns for each argument the op that computes its new value and may write it into the argument's memory; NULL: no
 * op. */
const msc_op **msc_writers(msc_arena *arena, const msc_func *f);

#endif
