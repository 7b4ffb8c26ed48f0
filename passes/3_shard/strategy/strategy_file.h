/* strategy_file.h: strategies and layouts of a model as JSON, the form of strategy_ckpt_save_file and _load_file.
 * An op's key is its name; of several with one name the second has "#2" behind it, and so on.  One without a name is
 * called "%" and its kind. */
#ifndef MSC_PASSES_STRATEGY_FILE_H
#define MSC_PASSES_STRATEGY_FILE_H

#include "ir/ir.h"
#include "passes/3_shard/shard.h"

/* The strategy file of a function whose values have layouts (after the pass `layouts`), as text in `arena`. */
const char *msc_strategy_file(const msc_func *f, msc_arena *arena);

/* Sets `in_layout`, `out_layout` and `by` of the ops that a file names, in place of the user's annotations, with a
 * warning where the two differ; `adds`: the file may cut what the user left whole.  False after reporting every
 * difference: another device count or mesh, ops or parameters that only one side has, other shapes. */
bool msc_strategy_load(shard_graph *g, bool adds, const char *path);
/* The mesh that a strategy file names, for a caller without one; NULL: it names none, or cannot be read, which
 * msc_strategy_load reports. */
const char *msc_strategy_mesh(msc_arena *arena, const char *path);
/* msc_strategy_load of text in memory; `name` is the file's, for messages. */
bool msc_strategy_read(shard_graph *g, bool adds, const char *name, const char *text, size_t bytes);

#endif
