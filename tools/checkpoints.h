/* checkpoints.h: the folder of --ckpt-dir: a folder per checkpoint, named by the steps done. */
#ifndef MSC_TOOLS_CHECKPOINTS_H
#define MSC_TOOLS_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#define CHECKPOINT_PATH 4200

/* DIR/step-000000000100; false: the name is too long. */
bool checkpoint_path(const char *folder, int64_t step, char out[CHECKPOINT_PATH]);
/* The largest number of steps below `bound` of which there is one; -1: none, or no such folder. */
int64_t checkpoint_below(const char *folder, int64_t bound);
/* Removes all but the newest `keep`. */
void checkpoint_prune(const char *folder, int64_t keep);
/* Gives those above `step`, which are damaged, the ending .damaged: they do not count as the newest to keep. */
void checkpoint_set_aside(const char *folder, int64_t step);
/* Removes what a run that was killed left incomplete. */
void checkpoint_sweep(const char *folder);

#endif
