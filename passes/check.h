/* check.h: a module between any two passes in; reports of everything that does not hold out: the rules of ir/'s
 * verifier, and after lowering those of messages, layouts and places in memory. */
#ifndef MSC_PASSES_CHECK_H
#define MSC_PASSES_CHECK_H

#include "ir/ir.h"

/* Checks everything; every fault is reported. */
bool msc_check_module(msc_module *m);

/* The checks below expect a module that has passed msc_verify. */

/* ---- 6_pipeline/check_messages.c ---- */

/* Checks that another section receives every value that a section sends, of the same micro-batch and in the same order,
 * and that every value that sections carry on for each other is set by one.  Functions that are in no program pass. */
bool msc_check_messages(msc_module *m);

/* ---- 7_lower/check_layouts.c ---- */

/* Checks, after pass localize, that shapes, collectives, arguments and results still follow from the layouts. */
bool msc_check_layouts(msc_module *m);
/* For passes that replace an op by several: records the wholes of operands, in `reads`, of ops whose results have no
 * recorded whole. */
void msc_record_reads(msc_module *m);
/* For passes that change what an op computes: its results, and the operands it reads, are parts of no known whole. */
void msc_forget_wholes(msc_op *op);

/* ---- 8_memory/check_places.c ---- */

/* Checks that every value lies inside its space, apart from all values that are still to be read.  Functions without
 * places pass. */
bool msc_check_places(msc_module *m);

#endif
