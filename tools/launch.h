/* launch.h: n ranks as processes.  The launcher is never a rank: it watches, reports, and ends what is left over. */
#ifndef MSC_TOOLS_LAUNCH_H
#define MSC_TOOLS_LAUNCH_H

#include "tools/cli.h"

/* What a rank runs; its result is the exit code.  It reports failures through launch_report, not to stderr. */
typedef int launch_rank(void *arg, int rank);

/* Forks; returns the exit code of the whole: that of the rank that failed first, 3 when it was killed, 128 + n when the
 * launcher itself was told to end by signal n.  Messages of the ranks become diagnostics of `c`, equal ones once. */
int launch(cli *c, int ranks, launch_rank *fn, void *arg);

/* In a rank: a message for the launcher.  In a process that was not launched: a diagnostic. */
void launch_report(cli *c, msc_code code, const char *text);

#endif
