/* decimal.c: a text that begins with a number in; the number, and where it ends, out.  The point is a point, whatever
 * the locale of the host program is. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/data/data.h"

bool mscrt_read_decimal(const char *text, char **out_end, double *out_number) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* none that costs anything: the C library has it */
  *out_end = (char *)text;
  *out_number = 0;
  if (!c) return true;
  errno = 0; /* of a number near 0 it says that bits were lost, which is no reason to refuse it */
  *out_number = strtod_l(text, out_end, c);
  bool fits = !(errno == ERANGE && isinf(*out_number));
  freelocale(c);
  return fits;
}
