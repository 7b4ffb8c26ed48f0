/* measured_trace.h: the events of ranks in; a file in Chrome's trace format out: a process for each rank, with threads
 * for calls and collectives. */
#ifndef MSC_TOOLS_MEASURED_TRACE_H
#define MSC_TOOLS_MEASURED_TRACE_H

#include "runtime/mscrt.h"
#include "tools/cli.h"

enum { TRACE_EVENTS = 1 << 16 }; /* kept per thread of a rank */

/* Reports where a rank could not write its part; an exit code. Before training the error costs no steps. */
int trace_check(cli *c, const char *path, int rank);
/* A rank writes its part beside `path`; times count from begin_ns.  False: it could not be written (errno). */
bool trace_part(const char *path, int rank, const mscrt_context *ctx, int64_t begin_ns);
/* Joins the parts of ranks first .. first + num - 1 into `path`; an exit code. */
int trace_join(cli *c, const char *path, int first, int num);
/* Removes the parts of a run that failed. */
void trace_drop_parts(const char *path, int first, int num);

#endif
