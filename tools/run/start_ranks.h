/* start_ranks.h: starts ranks as processes of this host. The launcher, which starts them, is no rank: it watches them,
 * reports what they tell it, and ends those that are left over. */
#ifndef MSC_TOOLS_START_RANKS_H
#define MSC_TOOLS_START_RANKS_H

#include "tools/cli.h"

/* The connection of a rank to its launcher. */
typedef struct launcher_line launcher_line;

/* What a rank runs; its result is the exit code.  It reports failures through report_to_launcher, not to stderr. */
typedef int rank_main(void *arg, int rank, const launcher_line *line);

/* Called after a signal ended process `ended`, in whose place another may run already, or after others began (-1), with
 * which processes are alive. Returns false if the rest cannot go on. */
typedef bool ranks_decide(void *arg, const bool *alive, int ended);

typedef struct {
  int ranks;
  int servers;  /* of parameters; their numbers follow those of the ranks */
  int copies;   /* of servers; 0 or 1: there are none. Their numbers follow those of the servers */
  int grace_ms; /* how long the others may take to end after the first failure; 0: a few seconds */
  int replaced; /* how often in all a rank that a signal ended is started once more, while others stay */
  rank_main *fn;
  ranks_decide *decide; /* NULL: ranks cannot go on with fewer. Else they may, and SIGUSR2 starts a process in the place
                         * of each that a signal has ended */
  void *arg;            /* of both functions */
} ranks_job;

/* Forks ranks, and behind them servers, whose numbers go on. Returns the exit code of the whole: that of the rank that
 * failed first, 3 when it was killed, 128 + n when the launcher itself was told to end by signal n. A server that is
 * killed is not missed while its copy goes on. Messages of the ranks become diagnostics of `c`, equal ones once. */
int start_ranks(cli *c, const ranks_job *job);

/* Sends a message to the launcher; line NULL (this process was not launched): reports a diagnostic. */
void report_to_launcher(cli *c, const launcher_line *line, msc_code code, const char *text);

#endif
