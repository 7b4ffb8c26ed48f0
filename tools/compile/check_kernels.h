/* check_kernels.h: a lowered module in; whether its kernels, as code for this machine, compute the interpreter's
 * numbers, out. */
#ifndef MSC_TOOLS_CHECK_KERNELS_H
#define MSC_TOOLS_CHECK_KERNELS_H

#include "ir/ir.h"

/* Executes every fused op by itself on random operands.  Those that are for a GPU, or that depend on their rank, are
 * left out.  false after reporting those that differ, or write beside their results. */
bool check_kernels(msc_context *ctx, msc_module *m);

#endif
