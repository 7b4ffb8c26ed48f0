/* status.h: a status of the runtime in; a diagnostic and an exit code of the program out. */
#ifndef MSC_TOOLS_STATUS_H
#define MSC_TOOLS_STATUS_H

#include "runtime/mscrt.h"
#include "tools/run/start_ranks.h"

/* The number in the environment variable MSC_DEBUG; 0 where it is absent. */
int status_debug_level(void);
/* Reports a status of the rank whose output goes to `line`, or of the only rank if `line` is NULL, and frees it.
 * Returns the exit code, 0 if s is NULL. of_input: the diagnostic's code if the user's files are wrong. With
 * MSC_DEBUG=1 the trail is printed, too. */
int status_of_rank(cli *c, const launcher_line *line, msc_code of_input, mscrt_status *s);
/* Reports a status about the plan `path`, or about the command if path is NULL, and frees it; returns the exit code. */
int status_report(cli *c, const char *path, const char *what, mscrt_status *s);

#endif
