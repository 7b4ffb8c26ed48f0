/* check.c: a module in; true, or every fault of it reported, out (see check.h). */
#include "passes/check.h"

/* Each check relies on what those before it found right. */
bool msc_check_module(msc_module *m) {
  return msc_verify(m) && msc_check_messages(m) && msc_check_layouts(m) && msc_check_places(m);
}
