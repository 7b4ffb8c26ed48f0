/* status.c: a failure of the runtime in; its diagnostic code out. */
#include <stdlib.h>

#include "tools/status.h"

static msc_code status_code(const mscrt_status *s, msc_code of_input) {
  switch (mscrt_status_code(s)) {
    case MSCRT_UNSUPPORTED: return MSC_E_UNSUPPORTED;
    case MSCRT_ENVIRONMENT: return MSC_E_TARGET;
    case MSCRT_NO_MEMORY: return MSC_E_OUT_OF_MEMORY;
    case MSCRT_PEER:
    case MSCRT_STUCK: return MSC_E_PEER;
    case MSCRT_CANCELLED: return MSC_E_CANCELLED;
    case MSCRT_BUG: return MSC_E_INTERNAL;
    default: return of_input;
  }
}

int status_debug_level(void) {
  const char *debug = getenv("MSC_DEBUG");
  return debug ? atoi(debug) : 0;
}

int status_of_rank(cli *c, const launcher_line *line, msc_code of_input, mscrt_status *s) {
  if (!s) return CLI_OK;
  int exit = mscrt_status_exit(s);
  if (status_debug_level() >= 1) fprintf(stderr, "%s", mscrt_status_trail(s));
  report_to_launcher(c, line, status_code(s, of_input), mscrt_status_text(s));
  c->at_once = mscrt_status_code(s) == MSCRT_STUCK;
  mscrt_status_free(s);
  return exit;
}

int status_report(cli *c, const char *path, const char *what, mscrt_status *s) {
  if (!s) return CLI_OK;
  int exit = mscrt_status_exit(s);
  msc_error(c->ctx, status_code(s, MSC_E_PLAN), path ? cli_loc(c, path) : NULL, "%s%s", what, mscrt_status_text(s));
  c->at_once = mscrt_status_code(s) == MSCRT_STUCK;
  mscrt_status_free(s);
  return exit;
}
