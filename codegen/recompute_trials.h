/* recompute_trials.h: a partitioned program in; its ops marked for recomputation, as recompute=auto asks, out. */
#ifndef MSC_CODEGEN_RECOMPUTE_TRIALS_H
#define MSC_CODEGEN_RECOMPUTE_TRIALS_H

#include "codegen/compile.h"

/* Takes a program at the checkpoint `partitioned` and marks ops, or sets what pass recompute is to save, so that the
 * plan keeps within memory_limit and takes the least time; where nothing fits, so that it needs the least memory. Does
 * nothing unless the configuration says recompute=auto. */
void msc_try_recompute(msc_context *ctx, const msc_compile_options *o, msc_module *m);

#endif
