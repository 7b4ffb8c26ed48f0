/* objective.h: a model of inference and options in; the model with a loss and an optimizer out. */
#ifndef MSC_TOOLS_OBJECTIVE_H
#define MSC_TOOLS_OBJECTIVE_H

#include "tools/cli.h"

/* Adds the loss of --loss KIND:OUTPUT[,NAME=VALUE...] to the function "forward", with labels as a new input, and the
 * optimizer of --optimizer KIND:NAME=VALUE,...  False after a report. */
bool cli_add_objective(cli *c, msc_module *m, int *out_code);

#endif
