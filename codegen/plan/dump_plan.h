/* dump_plan.h: a plan.bin in; text for people out. */
#ifndef MSC_CODEGEN_DUMP_PLAN_H
#define MSC_CODEGEN_DUMP_PLAN_H

#include "ir/ir.h"

/* Prints a plan. `file` must have been verified (mscrt_plan_open does that). `rank`: also prints the position of this
 * rank and its parts of all values; -1: of no rank. */
void msc_dump_plan(const void *file, int64_t rank, msc_write_fn *write, void *user);
/* Returns the configuration that a verified plan was compiled with, as JSON (msc_config_json), with the model's
 * name. */
const char *msc_plan_config_text(const void *file);
const char *msc_plan_model_name(const void *file);

#endif
