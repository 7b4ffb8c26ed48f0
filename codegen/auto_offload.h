/* auto_offload.h: key auto_offload: what leaves the device so that a plan fits. */
#ifndef MSC_CODEGEN_AUTO_OFFLOAD_H
#define MSC_CODEGEN_AUTO_OFFLOAD_H

#include "codegen/compile.h"

/* True if the key asks for it, and nobody has chosen for this module yet. */
bool msc_offload_is_auto(const msc_module *m, const msc_config *config);

/* Returns a plan that keeps within memory_limit, the fastest by what is predicted; among plans as fast the one that
 * moves least. `p` is the plan with what the user has offloaded and nothing more; `text` is the module that it was made
 * from. Returns p if it stays; NULL after a report. */
msc_plan *msc_offload_until_fits(msc_context *ctx, const msc_compile_options *o, const char *text, size_t bytes,
                                 msc_plan *p);

#endif
