/* guard.h: in a build with the address sanitizer every call of a CPU works on copies of its buffers, each in memory of
 * its own, so that the sanitizer sees what a kernel touches beside them, whatever else the plan lays there; the
 * compiler of that build makes kernels whose accesses are checked (codegen/emit/sanitize.c).  Elsewhere calls work
 * where their buffers lie. */
#ifndef MSC_RUNTIME_GUARD_H
#define MSC_RUNTIME_GUARD_H

#include "ir/sanitized.h"
#include "runtime/context.h"

typedef struct mscrt_guard mscrt_guard;

/* Copies of what the record and its epilogue, if there is one, have at these addresses. */
mscrt_status *mscrt_guard_open(const mscrt_record *r, void *const *buffers, void *const *epilogue,
                               mscrt_guard **out_guard);
void *const *mscrt_guard_buffers(const mscrt_guard *g);
void *const *mscrt_guard_epilogue(const mscrt_guard *g);
/* Ends the guard.  What the call may write goes where it belongs; fails if it wrote to anything else. */
mscrt_status *mscrt_guard_close(mscrt_guard *g, const mscrt_context *c, int64_t step);

#endif
