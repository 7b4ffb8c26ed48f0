/* checkpoints.c: finds, names and removes the files of --ckpt-dir. */
#include "tools/checkpoints.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORM "step-%012" PRId64 ".safetensors"

bool checkpoint_path(const char *folder, int64_t step, char out[CHECKPOINT_PATH]) {
  return snprintf(out, CHECKPOINT_PATH, "%s/" FORM, folder, step) < CHECKPOINT_PATH;
}

/* The steps that a file's name says; -1: it is no checkpoint. */
static int64_t steps_of_name(const char *name) {
  char same[64];
  if (strncmp(name, "step-", 5)) return -1;
  int64_t step = strtoll(name + 5, NULL, 10);
  snprintf(same, sizeof same, FORM, step);
  return step >= 0 && !strcmp(name, same) ? step : -1;
}

/* The largest number of steps below `bound`; -1: none. */
static int64_t newest_below(const char *folder, int64_t bound) {
  int64_t newest = -1;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    int64_t step = steps_of_name(e->d_name);
    if (step > newest && step < bound) newest = step;
  }
  if (d) closedir(d);
  return newest;
}

int64_t checkpoint_newest(const char *folder) { return newest_below(folder, INT64_MAX); }

void checkpoint_prune(const char *folder, int64_t keep) {
  char path[CHECKPOINT_PATH];
  int64_t step = INT64_MAX;
  for (int64_t i = 0; (step = newest_below(folder, step)) >= 0; i++)
    if (i >= keep && checkpoint_path(folder, step, path)) unlink(path);
}
