/* make_plan.h: from a module whose layouts have been propagated to its plan. */
#ifndef MSC_CODEGEN_MAKE_PLAN_H
#define MSC_CODEGEN_MAKE_PLAN_H

#include "codegen/compile.h"

/* Makes the plan of a module at the checkpoint `propagated`; NULL after a report. It may need more memory than there
 * is, where no plan is found that fits. */
msc_plan *msc_make_plan(msc_context *ctx, msc_module *m, const msc_compile_options *options);

/* Parses the text of a module again. Ops that have no location of the user's have none here either. */
msc_module *msc_reparse(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes);

#endif
