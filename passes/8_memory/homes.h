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
/* Returns where argument i lives, as passes cached, host and offload recorded it. */
msc_home msc_home_said(const msc_func *f, size_t i);
/* True if the op that makes v leaves it in memory of the host that lies beside the device's: it runs there, or puts v
 * off to there. */
bool msc_is_made_on_host(const msc_value *v);
/* Returns the nanoseconds that a transfer of so many bytes takes between the device and `home`. */
uint64_t msc_home_ns(const msc_cluster *cluster, msc_home home, uint64_t bytes);

#endif
