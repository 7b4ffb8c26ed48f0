/* launch.h: n ranks as processes.  The launcher is never a rank: it watches, reports, and ends what is left over. */
#ifndef MSC_TOOLS_LAUNCH_H
#define MSC_TOOLS_LAUNCH_H

#include "tools/cli.h"

/* The connection of a rank to its launcher. */
typedef struct launch_line launch_line;

/* What a rank runs; its result is the exit code.  It reports failures through launch_report, not to stderr. */
typedef int launch_rank(void *arg, int rank, const launch_line *line);

/* Called after a signal ended process `ended`, in whose place another may run already, or after others began (-1), with
 * which processes are alive. Returns false if the rest cannot go on. */
typedef bool launch_decide(void *arg, const bool *alive, int ended);

typedef struct {
  int ranks;
  int servers, copies; /* of parameters, behind the ranks, and their copies behind them: 0 or 1, there are none */
  int grace_ms;        /* for the others to end after the first failure; 0: a few seconds */
  int replaced;        /* so many times in all a rank that a signal ended is started once more, while others stay */
  launch_rank *fn;
  launch_decide *decide; /* not NULL: the others may go on without it, too, and SIGUSR2 starts processes in the places
                          * of all that signals have ended */
  void *arg;             /* of both */
} launch_job;

/* Forks ranks, and behind them servers, whose numbers go on. Returns the exit code of the whole: that of the rank that
 * failed first, 3 when it was killed, 128 + n when the launcher itself was told to end by signal n. A server that is
 * killed is not missed while its copy goes on. Messages of the ranks become diagnostics of `c`, equal ones once. */
int launch(cli *c, const launch_job *job);

/* Sends a message to the launcher; line NULL (this process was not launched): reports a diagnostic. */
void launch_report(cli *c, const launch_line *line, msc_code code, const char *text);

#endif
