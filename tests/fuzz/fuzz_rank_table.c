/* fuzz_rank_table: any bytes as a rank table, read by rank 1 of whatever job it describes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cluster/startup.c"

static const char *get_one(void *user, const char *name) {
  (void)user;
  return !strcmp(name, "RANK_TABLE_FILE") ? "table.json" : !strcmp(name, "RANK_ID") ? "1" : NULL;
}

static char *read_bytes(void *user, const char *path) {
  (void)path;
  return strdup(user);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const char *const own[] = {"10.0.0.1", NULL};
  startup s;
  char *text = malloc(bytes + 1);
  if (!text) return 0;
  memcpy(text, data, bytes);
  text[bytes] = 0;
  bool ok = startup_read(&(startup_environment){get_one, read_bytes, own, 1, text}, &s);
  if (ok != !s.error[0] || (ok && (s.rank != 1 || s.ranks < 2))) abort();
  free(text);
  return 0;
}
