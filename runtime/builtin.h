/* builtin.h: the kernels of ir/abi/builtin.h, called as those of a plan are. */
#ifndef MSCRT_BUILTIN_H
#define MSCRT_BUILTIN_H

#include "ir/abi/builtin.h"
#include "runtime/plan/plan.h"

mscrt_kernel *mscrt_builtin(uint32_t number);
/* Do the buffers hold what the kernel touches?  Their bytes, in its order; `items` is the call's extent.  False: no
 * such call is possible. */
bool mscrt_builtin_fits(uint32_t number, uint32_t num_buffers, const uint64_t *bytes, uint32_t num_dims,
                        const int64_t *dims, uint64_t items);

#endif
