/* homes.h: where parameters and state live: on the device, in host memory or on disk. */
#ifndef MSC_PASSES_HOMES_H
#define MSC_PASSES_HOMES_H

#include "passes/pass.h"

/* Smaller values stay on the device: a transfer of less than a page saves nothing. */
enum { MSC_LEAST_OFFLOADED_BYTES = 4096 };

/* Returns where the key offload puts argument i of a lowered function. */
msc_home msc_home_of(const msc_config *config, const msc_func *f, size_t i);

/* How values that a step makes and does not need for a while are put off: so many parts of all that can be, in bytes,
 * to `home` as far as there is room, else to `beyond`; the device: they stay. */
enum { MSC_PUT_OFF_PARTS = 8 };
typedef struct {
  int64_t parts, room;
  msc_home home, beyond;
} msc_put_off;
/* Returns what the key offload says, or what auto_offload has chosen for the module. */
msc_put_off msc_put_off_of(const msc_config *config, const msc_module *m);

/* Returns where the other end of a transfer lies. */
msc_home msc_home_of_transfer(const msc_func *f, const msc_op *op);
/* Returns where argument i lives, as passes cached, host and offload recorded it. */
msc_home msc_home_said(const msc_func *f, size_t i);
/* True if the op that makes v leaves it in memory of the host that lies beside the device's: it runs there, or puts v
 * off to there. */
bool msc_is_made_on_host(const msc_value *v);
/* Returns the nanoseconds that a transfer of so many bytes takes between the device and `home`. */
uint64_t msc_home_ns(const msc_cluster *cluster, msc_home home, uint64_t bytes);

#endif
