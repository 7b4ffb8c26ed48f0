/* checkpoints.h: the folder of --ckpt-dir: a file per checkpoint, named by the steps done. */
#ifndef MSC_TOOLS_CHECKPOINTS_H
#define MSC_TOOLS_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#define CHECKPOINT_PATH 4200

/* DIR/step-000000000100.safetensors; false: the name is too long. */
bool checkpoint_path(const char *folder, int64_t step, char out[CHECKPOINT_PATH]);
/* The number of steps of the newest one; -1: there is none, or no such folder. */
int64_t checkpoint_newest(const char *folder);
/* Removes all but the newest `keep`. */
void checkpoint_prune(const char *folder, int64_t keep);

#endif
