/* check.c: a module in; true, or every fault of it reported, out (see check.h). */
#include "passes/check.h"

/* What comes later walks what was found right before. */
bool msc_check_module(msc_module *m) {
  return msc_verify(m) && msc_check_messages(m) && msc_check_layouts(m) && msc_check_places(m);
}
