/* homes.h: where parameters and state live: on the device, in host memory or on disk. */
#ifndef MSC_PASSES_HOMES_H
#define MSC_PASSES_HOMES_H

#include "passes/pass.h"

/* Smaller values stay on the device: a transfer of less than a page saves nothing. */
enum { MSC_LEAST_OFFLOADED_BYTES = 4096 };

/* Returns where the key offload puts argument i of a lowered function. */
msc_home msc_home_of(const msc_config *config, const msc_func *f, size_t i);
/* Returns where the key offload puts values that a step makes and does not need for a while. */
msc_home msc_home_of_values(const msc_config *config);
/* Returns where argument i lives after pass offload, as that pass recorded it. */
msc_home msc_home_said(const msc_func *f, size_t i);
/* Returns the nanoseconds that a transfer of so many bytes takes between the device and `home`. */
uint64_t msc_home_ns(const msc_cluster *cluster, msc_home home, uint64_t bytes);

#endif
