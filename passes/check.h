/* check.h: what holds between any two passes: what the verifier of ir/ knows of any module, and what was decided since,
 * while lowering it: who sends what to whom, and where everything lies. */
#ifndef MSC_PASSES_CHECK_H
#define MSC_PASSES_CHECK_H

#include "ir/ir.h"

/* Checks everything; every fault is reported. */
bool msc_check_module(msc_module *m);

/* Below, of a module that went through msc_verify. */

/* ---- 6_pipeline/check_messages.c ---- */

/* What one section sends another one receives: the same value of the same micro-batch, in the same order; what sections
 * leave for each other somebody sets.  Functions of no program pass. */
bool msc_check_messages(msc_module *m);

/* ---- 7_lower/check_layouts.c ---- */

/* After pass localize: shapes, collectives, arguments and results are still those of the layouts. */
bool msc_check_layouts(msc_module *m);
/* For passes that replace an op by several: records the wholes of operands, in `reads`, of ops whose results have no
 * recorded whole. */
void msc_record_reads(msc_module *m);

/* ---- 8_memory/check_places.c ---- */

/* Every value lies inside its space, apart from all that is still to be read; so whoever
 * reads finds what was made for it.  Functions without places pass. */
bool msc_check_places(msc_module *m);

#endif
