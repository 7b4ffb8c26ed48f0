/* autotune.h: a plan in; measured choices for its products on this machine, in a file in the user's cache folder,
 * out. */
#ifndef MSC_TOOLS_AUTOTUNE_H
#define MSC_TOOLS_AUTOTUNE_H

#include "codegen/compile.h"
#include "tools/cli.h"

/* The path of the file of choices in the user's cache folder, for adding to it. False after a report. */
bool autotune_file(cli *c, char out_path[4200]);
/* The path of that file for reading; NULL: nothing was ever measured. */
const char *autotune_measured(char path[4200]);
/* Measures the products of a compiled plan that are not in the file, on this machine; returns the exit code. */
int autotune_plan(cli *c, const msc_compiled *made);

#endif
