/* status.h: what the runtime reports, as diagnostics of the program. */
#ifndef MSC_TOOLS_STATUS_H
#define MSC_TOOLS_STATUS_H

#include "runtime/mscrt.h"
#include "tools/run/launch.h"

/* The number in the environment variable MSC_DEBUG; 0 where it is absent. */
int status_debug_level(void);
/* Reports a status from a rank, or of the only one where line is NULL, and frees it; the exit code, 0 where it is NULL.
 * `of_input` is the code of what is wrong with the user's own files. With MSC_DEBUG=1 its trail is printed, too. */
int status_of_rank(cli *c, const launch_line *line, msc_code of_input, mscrt_status *s);
/* Reports a status about a plan, or about the command where path is NULL, and frees it; the exit code. */
int status_report(cli *c, const char *path, const char *what, mscrt_status *s);

#endif
