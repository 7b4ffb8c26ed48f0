/* engines.h: a plan in; the same with cuDNN's engines for its graphs out, so that they need not be chosen when the plan
 * is loaded. */
#ifndef MSC_TOOLS_ENGINES_H
#define MSC_TOOLS_ENGINES_H

#include "codegen/compile.h"
#include "tools/cli.h"

/* The first line that `msc engines` prints: the library's version, the GPU's architecture.  A line for each graph
 * follows: the engine, which begins with {, or why there is none. */
#define ENGINES_HEAD "cuDNN %zu sm_%d"

/* Puts engines into a plan for a GPU that is named and that the cluster describes, where cuDNN is installed.  *out_why,
 * when graphs remain without one: why, a line; else NULL.  False after a report. */
bool engines_put(const msc_compile_options *o, msc_plan *p, const char **out_why);

#endif
