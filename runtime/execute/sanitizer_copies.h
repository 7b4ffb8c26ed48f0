/* sanitizer_copies.h: in a build with the address sanitizer every call on a CPU works on copies of its buffers, each in
 * memory of its own, so that the sanitizer sees what a kernel touches outside of them, whatever the plan placed there;
 * kernels of that build check their accesses (codegen/emit/sanitize.c). In other builds calls work on the buffers
 * themselves. */
#ifndef MSC_RUNTIME_GUARD_H
#define MSC_RUNTIME_GUARD_H

#include "ir/sanitized.h"
#include "runtime/context.h"

typedef struct mscrt_guard mscrt_guard;

/* Copies the buffers of the record, which lie at `buffers`, and those of its epilogue, if it has one. The guard has the
 * addresses of the copies; mscrt_guard_close frees it. */
mscrt_status *mscrt_guard_open(const mscrt_record *r, void *const *buffers, void *const *epilogue,
                               mscrt_guard **out_guard);
void *const *mscrt_guard_buffers(const mscrt_guard *g);
void *const *mscrt_guard_epilogue(const mscrt_guard *g);
/* Ends the guard: copies back what the call may write; fails if it wrote to anything else. */
mscrt_status *mscrt_guard_close(mscrt_guard *g, const mscrt_context *c, int64_t step);

#endif
