/* hosts.h: a file of hosts in; the commands that start the ranks of each over ssh out.
 *
 * A line is HOST, USER@HOST, or either with slots=N, the ranks that it has room for; what follows a # is for people. */
#ifndef MSC_TOOLS_HOSTS_H
#define MSC_TOOLS_HOSTS_H

#include "tools/cli.h"

typedef struct {
  const char *name; /* for ssh: may have a user */
  const char *address; /* without the user */
  int slots;        /* 0: not said */
} launch_host;

/* False after a report. */
bool hosts_read(cli *c, const char *path, size_t *out_num, launch_host **out_host);
/* The token that ranks of several hosts show each other: of the file MSC_TOKEN_FILE, or a new one.  NULL after a
 * report. */
const char *hosts_token(cli *c);
/* The words, ended by NULL, that run `msc launch` with these options, and the program behind them, in this folder on
 * the host.  It reads the token from its standard input first, and then one byte for each signal that its ranks are to
 * get; the end of the input is SIGTERM. */
const char *const *hosts_command(cli *c, const launch_host *host, const char *options);

#endif
