/* verify.h: the part of the verifier that is about layouts, shared by verify.c and verify_layout.c. */
#ifndef MSC_IR_VERIFY_H
#define MSC_IR_VERIFY_H

#include "ir/ir.h"

/* Is the layout, if any, one of this rank on this mesh, with no digit used twice? */
bool msc_verify_type(const msc_module *m, const msc_loc *loc, const msc_type *t);
/* Layouts of the op's tensors: each by itself, and together as its rule or its verb demands. */
bool msc_verify_layouts(const msc_op *op, msc_arena *arena);
/* After partitioning: results are as `in_layout` of return says; no op waits for its expansion. */
bool msc_verify_partitioned(const msc_func *f, msc_arena *arena);

#endif
