/* host_memory.h: memory of this host, within the limit of the control group that the process runs in. */
#ifndef MSC_TOOLS_HOST_MEMORY_H
#define MSC_TOOLS_HOST_MEMORY_H

#include <stdint.h>

/* Bytes that processes here may use in all. */
int64_t host_memory(void);
/* Bytes that can be allocated now without swapping. */
int64_t host_memory_left(void);

#endif
