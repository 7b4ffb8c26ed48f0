/* target.h: what a module is lowered for: its attribute msc.target, "cpu" when it has none. */
#ifndef MSC_PASSES_TARGET_H
#define MSC_PASSES_TARGET_H

#include "ir/ir.h"
#include "passes/config/config.h"

typedef enum { MSC_TARGET_CPU, MSC_TARGET_CUDA, MSC_NUM_TARGETS } msc_target;

/* Sets of targets, as rows of pass.def and kernel.def name them. */
enum {
  MSC_ON_CPU = 1 << MSC_TARGET_CPU,
  MSC_ON_CUDA = 1 << MSC_TARGET_CUDA,
  MSC_ON_ANY = (1 << MSC_NUM_TARGETS) - 1
};

const char *msc_target_name(msc_target t); /* "cpu", "cuda" */
/* False: there is no such target. */
bool msc_target_named(const char *name, msc_target *out_target);
msc_target msc_target_of(const msc_module *m);
/* The key `deterministic`; when it is absent, CPUs are. */
bool msc_is_deterministic(const msc_module *m, const msc_config *config);

#endif
