/* checkpoint_folders.c: the folder of --ckpt-dir in; finds, names and removes the checkpoints in it. */
#include "tools/run/checkpoint_folders.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORM "step-%012" PRId64
#define LEFT ".tmp"

bool checkpoint_path(const char *folder, int64_t step, char out[CHECKPOINT_PATH]) {
  return snprintf(out, CHECKPOINT_PATH, "%s/" FORM, folder, step) < (int)(CHECKPOINT_PATH - sizeof LEFT);
}

/* The steps that a name says, before the ending; -1: it is no checkpoint. */
static int64_t steps_of_name(const char *name, const char *ending) {
  char same[64];
  if (strncmp(name, "step-", 5)) return -1;
  int64_t step = strtoll(name + 5, NULL, 10);
  snprintf(same, sizeof same, FORM "%s", step, ending);
  return step >= 0 && !strcmp(name, same) ? step : -1;
}

int64_t checkpoint_below(const char *folder, int64_t bound) {
  int64_t newest = -1;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    int64_t step = steps_of_name(e->d_name, "");
    if (step > newest && step < bound) newest = step;
  }
  if (d) closedir(d);
  return newest;
}

const char *checkpoint_newest(const char *path, char room[CHECKPOINT_PATH]) {
  int64_t step = checkpoint_below(path, INT64_MAX);
  return step >= 0 && checkpoint_path(path, step, room) ? room : path;
}

static void remove_files(const char *path) {
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlinkat(dirfd(d), e->d_name, 0);
  if (d) closedir(d);
  rmdir(path);
}

/* Renames a checkpoint before it is removed, so that nobody takes a half removed folder for a checkpoint. */
static void remove_checkpoint(const char *path) {
  char left[CHECKPOINT_PATH + sizeof LEFT];
  snprintf(left, sizeof left, "%s" LEFT, path);
  if (rename(path, left) == 0) remove_files(left);
}

void checkpoint_prune(const char *folder, int64_t keep) {
  char path[CHECKPOINT_PATH];
  int64_t step = INT64_MAX;
  for (int64_t i = 0; (step = checkpoint_below(folder, step)) >= 0; i++)
    if (i >= keep && checkpoint_path(folder, step, path)) remove_checkpoint(path);
}

void checkpoint_set_aside(const char *folder, int64_t step) {
  char path[CHECKPOINT_PATH], aside[CHECKPOINT_PATH + 24];
  for (int64_t bound = INT64_MAX; (bound = checkpoint_below(folder, bound)) > step;) {
    if (!checkpoint_path(folder, bound, path)) continue;
    int renamed = -1;
    for (int i = 0; i < 100 && renamed; i++) { /* a name that nothing has */
      snprintf(aside, sizeof aside, i ? "%s.damaged-%d" : "%s.damaged", path, i);
      renamed = access(aside, F_OK) == 0 ? -1 : rename(path, aside);
    }
  }
}

void checkpoint_sweep(const char *folder) {
  char path[CHECKPOINT_PATH];
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (steps_of_name(e->d_name, LEFT) >= 0 &&
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path)
      remove_files(path);
  if (d) closedir(d);
}
