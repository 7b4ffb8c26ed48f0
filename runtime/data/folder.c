/* folder.c: makes a folder of files that gets its name only when it is complete. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/data.h"

static bool is_there(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0;
}

/* True for a folder with a file of this name, which the new one replaces, and for an empty folder. */
static bool may_replace(const char *path, const char *marker) {
  char *file = NULL;
  struct stat st;
  if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || asprintf(&file, "%s/%s", path, marker ? marker : "") < 0)
    return false;
  bool is = marker && is_there(file);
  free(file);
  return is || rmdir(path) == 0;
}

mscrt_status *mscrt_folder_name(const char *path, mscrt_folder *f) {
  size_t n = strlen(path);
  *f = (mscrt_folder){0};
  if (!n) return mscrt_fail(MSCRT_INPUT, "a folder that is written needs a name");
  while (n > 1 && path[n - 1] == '/') n--;
  *f = (mscrt_folder){.path = strndup(path, n)};
  if (f->path && asprintf(&f->partial, "%s.tmp", f->path) < 0) f->partial = NULL;
  if (f->path && f->partial) return NULL;
  mscrt_folder_free(f);
  return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
}

mscrt_status *mscrt_folder_make(const mscrt_folder *f, const char *marker) {
  if (is_there(f->path) && !may_replace(f->path, marker))
    return mscrt_fail(MSCRT_INPUT, "%s: is there already, with other content; give another name", f->path);
  if (is_there(f->partial)) MSCRT_CHECK(mscrt_remove_folder(f->partial));
  return mkdir(f->partial, 0777) == 0 ? NULL : mscrt_fail_path(f->partial, "cannot create");
}

mscrt_status *mscrt_folder_begin(const char *path, const char *marker, mscrt_folder *f) {
  MSCRT_CHECK(mscrt_folder_name(path, f));
  mscrt_status *s = mscrt_folder_make(f, marker);
  if (s) mscrt_folder_free(f);
  return s;
}

mscrt_status *mscrt_folder_place(const mscrt_folder *f) {
  mscrt_sync_folder(f->partial);
  bool replaces = is_there(f->path);
  int failed =
      replaces ? renameat2(AT_FDCWD, f->partial, AT_FDCWD, f->path, RENAME_EXCHANGE) : rename(f->partial, f->path);
  if (failed) return mscrt_fail(MSCRT_ENVIRONMENT, "%s: cannot rename: %s", f->path, strerror(errno));
  mscrt_sync_folder_of(f->path);
  return replaces ? mscrt_remove_folder(f->partial) : NULL;
}

mscrt_status *mscrt_folder_end(const mscrt_folder *f, mscrt_status *s) {
  if (!s) s = mscrt_folder_place(f);
  if (s) mscrt_status_free(mscrt_remove_folder(f->partial));
  return s;
}

void mscrt_folder_free(mscrt_folder *f) {
  free(f->path);
  free(f->partial);
  *f = (mscrt_folder){0};
}
