/* log.c: lines for the log of the caller. */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/trace/trace.h"

void mscrt_log_line(const mscrt_context *c, mscrt_log_level level, const char *fmt, ...) {
  char text[256];
  va_list ap;
  if (!c->o.log) return;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  c->o.log(c->o.log_user, level, text);
}
