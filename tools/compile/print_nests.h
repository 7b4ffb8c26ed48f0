/* print_nests.h: a lowered module in; the programs of its kernels as text, out. */
#ifndef MSC_TOOLS_PRINT_NESTS_H
#define MSC_TOOLS_PRINT_NESTS_H

#include "ir/text/text.h"

/* Appends the program of each launch of each op of the module's functions that is a kernel, behind a comment with what
 * the launch brings along.  False after reporting a program that is wrong, or that does not come back from its text. */
bool print_nests(msc_context *ctx, const msc_module *m, msc_text *out);

#endif
