/* verify.h: the part of the verifier that is about layouts, shared by verify.c and verify_layout.c. */
#ifndef MSC_IR_VERIFY_H
#define MSC_IR_VERIFY_H

#include "ir/ir.h"

/* Checks that t's layout, if it has any, has t's rank and digits of this mesh, none of them used twice. */
bool msc_verify_type(const msc_module *m, const msc_loc *loc, const msc_type *t);
/* Checks the layouts of the op's tensors: each by itself, and together as the op's rule or verb demands. */
bool msc_verify_layouts(const msc_op *op, msc_arena *arena);
/* Checks, after partitioning, that results have the layouts in_layout of the return op, and that no op waits for its
 * expansion. */
bool msc_verify_partitioned(const msc_func *f, msc_arena *arena);

#endif
