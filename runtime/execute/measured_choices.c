/* measured_choices.c: the file of measured choices and a key in; the text that the file has for the key out. Or a line
 * in; the file with one line more out. */
#include "runtime/execute/measured_choices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool mscrt_choice_find(const char *path, const char *key, bool (*read)(const char *text, void *out), void *out) {
  char line[2 * MSCRT_CHOICE_KEY];
  size_t length = strlen(key);
  bool found = false;
  FILE *f = path ? fopen(path, "re") : NULL;
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, key, length)) found = read(line + length, out) || found;
  if (f) fclose(f);
  return found;
}

mscrt_status *mscrt_choice_append(const char *path, const char *line) {
  size_t n = strlen(line);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool written = fd >= 0 && write(fd, line, n) == (ssize_t)n;
  int error = errno;
  if (fd >= 0) close(fd);
  return written ? NULL
                 : mscrt_fail(MSCRT_ENVIRONMENT, "cannot write measured choices to %s: %s", path, strerror(error));
}
