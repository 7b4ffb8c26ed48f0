/* choose_recompute.h: recompute=auto. */
#ifndef MSC_CODEGEN_CHOOSE_RECOMPUTE_H
#define MSC_CODEGEN_CHOOSE_RECOMPUTE_H

#include "codegen/compile.h"

/* A program at the checkpoint `partitioned` -> marks on its ops, or what pass recompute is to
 * save, such that the plan keeps within memory_limit and takes least; where nothing fits, such that it needs least.
 * Nothing where the configuration does not ask. */
void msc_choose_recompute(msc_context *ctx, const msc_compile_options *o, msc_module *m);

#endif
