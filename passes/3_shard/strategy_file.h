/* strategy_file.h: strategies and layouts of a model as JSON, the form of strategy_ckpt_save_file and _load_file. */
#ifndef MSC_PASSES_STRATEGY_FILE_H
#define MSC_PASSES_STRATEGY_FILE_H

#include "ir/ir.h"

/* Of a function whose values have layouts (after the pass `layouts`); text in `arena`. */
const char *msc_strategy_file(const msc_func *f, msc_arena *arena);

/* Puts the layouts of a file on the ops it names, as if the user had written them (`in_layout`, and `by` as recorded).  False after
 * reporting every difference: other device count, ops or parameters that only one side has, other shapes. */
bool msc_strategy_load(msc_func *f, const char *path);

#endif
