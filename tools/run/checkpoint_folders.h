/* checkpoint_folders.h: the folder of --ckpt-dir: a folder per checkpoint, named by the steps done. */
#ifndef MSC_TOOLS_CHECKPOINT_FOLDERS_H
#define MSC_TOOLS_CHECKPOINT_FOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#define CHECKPOINT_PATH 4200

/* Writes the name of the checkpoint of a step, DIR/step-000000000100; false: the name is too long. */
bool checkpoint_path(const char *folder, int64_t step, char out[CHECKPOINT_PATH]);
/* The largest step below `bound` that has a checkpoint; -1: none, or there is no such folder. */
int64_t checkpoint_below(const char *folder, int64_t bound);
/* The newest checkpoint in a folder of --ckpt-dir, its name in `room`; of any other path the path itself. */
const char *checkpoint_newest(const char *path, char room[CHECKPOINT_PATH]);
/* Removes all checkpoints but the newest `keep`. */
void checkpoint_prune(const char *folder, int64_t keep);
/* Renames the checkpoints above `step`, which are damaged, to names with the ending .damaged, so that they do not count
 * as the newest ones. */
void checkpoint_set_aside(const char *folder, int64_t step);
/* Removes incomplete checkpoints of a run that was killed. */
void checkpoint_sweep(const char *folder);

#endif
