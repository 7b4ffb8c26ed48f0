/* launch.h: n ranks as processes.  The launcher is never a rank: it watches, reports, and ends what is left over. */
#ifndef MSC_TOOLS_LAUNCH_H
#define MSC_TOOLS_LAUNCH_H

#include "tools/cli.h"

/* How a rank speaks to its launcher. */
typedef struct launch_line launch_line;

/* What a rank runs; its result is the exit code.  It reports failures through launch_report, not to stderr. */
typedef int launch_rank(void *arg, int rank, const launch_line *line);

/* Forks ranks, and behind them servers, whose numbers go on; `replaced` times in all a rank that a signal ended is
 * started once more, while the others stay. Returns the exit code of the whole: that of the rank that failed first, 3
 * when it was killed, 128 + n when the launcher itself was told to end by signal n. Messages of the ranks become
 * diagnostics of `c`, equal ones once. */
int launch(cli *c, int ranks, int servers, int grace_ms, int replaced, launch_rank *fn, void *arg);

/* Sends a message to the launcher; line NULL (this process was not launched): reports a diagnostic. */
void launch_report(cli *c, const launch_line *line, msc_code code, const char *text);

#endif
