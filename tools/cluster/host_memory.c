/* host_memory.c: files of the system and of control groups in; bytes of memory out (see host_memory.h). */
#include "tools/cluster/host_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Reads a file that holds one number, as those of a control group do; 0 if there is none. */
static int64_t number_in(const char *path) {
  long long v = 0;
  FILE *f = fopen(path, "re");
  if (f && fscanf(f, "%lld", &v) != 1) v = 0;
  if (f) fclose(f);
  return v > 0 ? v : 0;
}

/* The limit of the control group, and what of it is in use; 0: there is none. */
static int64_t group_limit(int64_t *out_used) {
  int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  *out_used = number_in("/sys/fs/cgroup/memory.current");
  if (limit) return limit;
  *out_used = number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes");
  return number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

int64_t host_memory(void) {
  int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), used, limit = group_limit(&used);
  return limit && limit < bytes ? limit : bytes;
}

int64_t host_memory_left(void) {
  int64_t kilobytes, left = INT64_MAX, used, limit = group_limit(&used);
  char line[128];
  FILE *f = fopen("/proc/meminfo", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %" SCNd64, &kilobytes) == 1) left = kilobytes * 1024;
  if (f) fclose(f);
  return limit && limit - used < left ? limit - used : left;
}
