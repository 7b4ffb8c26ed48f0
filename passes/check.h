/* check.h: what holds between any two passes: what the verifier of ir/ knows of any module, and what was decided since, while
 * lowering it: who sends what to whom, and where everything lies. */
#ifndef MSC_PASSES_CHECK_H
#define MSC_PASSES_CHECK_H

#include "ir/ir.h"

/* All of it; every fault is reported. */
bool msc_check_module(msc_module *m);

/* ---- 8_memory/check_places.c ---- */

/* Of a module that went through msc_verify: every value lies inside its space, apart from all that is still to be read; so whoever
 * reads finds what was made for it.  Functions without places pass. */
bool msc_check_places(msc_module *m);

#endif
