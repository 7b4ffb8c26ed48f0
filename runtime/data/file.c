/* file.c: writes a file that gets its name only when it is complete. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/data.h"

mscrt_status *mscrt_file_write(const mscrt_file *f, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = write(f->fd, (const char *)data + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return mscrt_fail(MSCRT_ENVIRONMENT, "%s: cannot write: %s", f->path, strerror(errno));
    done += (size_t)n;
  }
  return NULL;
}

/* Follows links to the file to be replaced; refuses anything but a regular file or a new name. */
static mscrt_status *follow_links(const char *path, char **out_path) {
  struct stat st;
  *out_path = NULL;
  if (!*path) return mscrt_fail(MSCRT_INPUT, "a file that is written needs a name");
  *out_path = realpath(path, NULL);
  if (!*out_path && lstat(path, &st) == 0) return mscrt_fail(MSCRT_INPUT, "%s: a link to nothing; give the file", path);
  if (*out_path && (stat(*out_path, &st) != 0 || !S_ISREG(st.st_mode)))
    return mscrt_fail(MSCRT_INPUT, "%s: not a regular file", path);
  if (!*out_path) *out_path = strdup(path);
  return *out_path ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
}

mscrt_status *mscrt_file_begin(const char *path, mscrt_file *f) {
  *f = (mscrt_file){.fd = -1};
  mscrt_status *s = follow_links(path, &f->path);
  if (!s && asprintf(&f->temporary, "%s.%d.tmp", f->path, getpid()) < 0) {
    f->temporary = NULL;
    s = mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  }
  if (!s) f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (!s && f->fd < 0) s = mscrt_fail_path(path, "cannot create");
  if (!s) return NULL;
  free(f->temporary);
  free(f->path);
  *f = (mscrt_file){.fd = -1};
  return s;
}

void mscrt_sync_folder(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  close(fd);
}

void mscrt_sync_folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  if (folder) mscrt_sync_folder(folder);
  free(folder);
}

bool mscrt_is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

mscrt_status *mscrt_remove_folder(const char *path) {
  DIR *d = opendir(path);
  if (!d && errno == ENOENT) return NULL;
  for (struct dirent *e; d && (e = readdir(d));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlinkat(dirfd(d), e->d_name, 0);
  if (d) closedir(d);
  return rmdir(path) ? mscrt_fail(MSCRT_ENVIRONMENT, "%s: cannot remove: %s", path, strerror(errno)) : NULL;
}

mscrt_status *mscrt_file_end(mscrt_file *f, mscrt_status *s) {
  if (!s && f->fd >= 0 && fsync(f->fd) != 0)
    s = mscrt_fail(MSCRT_ENVIRONMENT, "%s: cannot write: %s", f->path, strerror(errno));
  if (f->fd >= 0 && close(f->fd) != 0 && !s)
    s = mscrt_fail(MSCRT_ENVIRONMENT, "%s: cannot write: %s", f->path, strerror(errno));
  if (!s && rename(f->temporary, f->path) != 0)
    s = mscrt_fail(MSCRT_ENVIRONMENT, "%s: cannot rename: %s", f->path, strerror(errno));
  if (s && f->temporary && f->fd >= 0) unlink(f->temporary);
  if (!s) mscrt_sync_folder_of(f->path);
  free(f->temporary);
  free(f->path);
  return s;
}

mscrt_status *mscrt_check_save(const char *path) {
  MSCRT_NEEDS(path);
  mscrt_file f;
  MSCRT_CHECK(mscrt_file_begin(path, &f));
  close(f.fd);
  unlink(f.temporary);
  free(f.temporary);
  free(f.path);
  return NULL;
}
