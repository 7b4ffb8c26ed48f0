/* decimal.c: a text that begins with a number in; the number, and where it ends, out.  The point is a point, whatever
 * the locale of the host program is. */
#include <locale.h>
#include <stdlib.h>

#include "runtime/data/data.h"

double mscrt_read_decimal(const char *text, char **out_end) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* none that costs anything: the C library has it */
  *out_end = (char *)text;
  if (!c) return 0;
  double number = strtod_l(text, out_end, c);
  freelocale(c);
  return number;
}
