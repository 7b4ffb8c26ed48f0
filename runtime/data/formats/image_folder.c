/* image_folder.c: a folder of images, or of folders of images that are classes, in; its images, or for a label their
 * classes, as samples out.  Samples are in the order of their names, folder after folder; classes count from 0 in that
 * order.  Files whose names begin with a point are passed over. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"

enum { MAX_FILE = 1 << 30 };

typedef struct {
  char *path;
  int64_t class;
} entry;

typedef struct {
  mscrt_records records;
  mscrt_picture picture;
  bool classes; /* samples are numbers of classes */
  int64_t num, room;
  entry *file;
} folder;

/* ---- listing ---- */

static int is_shown(const struct dirent *e) { return e->d_name[0] != '.'; }

static mscrt_status *add_file(folder *f, char *path, int64_t class) {
  mscrt_status *s = mscrt_grow(&f->file, f->num, &f->room, sizeof *f->file);
  if (s) return free(path), s;
  f->file[f->num++] = (entry){path, class};
  return NULL;
}

/* The files of a folder, or with out_folders those of its folders, each of which is a class. */
static mscrt_status *list_folder(folder *f, const char *path, int64_t class, int64_t *out_folders) {
  struct dirent **name;
  int num = scandir(path, &name, is_shown, alphasort);
  if (num < 0) return mscrt_fail(MSCRT_INPUT, "%s: cannot be listed: %s", path, strerror(errno));
  mscrt_status *s = NULL;
  for (int i = 0; i < num && !s; i++) {
    char *full = NULL;
    if (asprintf(&full, "%s/%s", path, name[i]->d_name) < 0) s = mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
    else if (!mscrt_is_folder(full)) s = add_file(f, full, class);
    else if (!out_folders)
      s = mscrt_fail(MSCRT_INPUT, "%s: a folder within a class; classes hold images only", full), free(full);
    else s = list_folder(f, full, (*out_folders)++, NULL), free(full);
  }
  for (int i = 0; i < num; i++) free(name[i]);
  free(name);
  return s;
}

/* ---- samples ---- */

static mscrt_status *read_file(const char *path, uint8_t **out, size_t *out_bytes) {
  mscrt_blob b;
  *out = NULL;
  MSCRT_CHECK(mscrt_blob_open(path, &b));
  mscrt_status *s = b.bytes > MAX_FILE ? mscrt_bad_file(&b, "has more than %d bytes", MAX_FILE) : NULL;
  if (!s) s = mscrt_allocate((void **)out, (size_t)b.bytes + 1, 1);
  if (!s) s = mscrt_blob_read(&b, 0, *out, (size_t)b.bytes);
  *out_bytes = (size_t)b.bytes;
  mscrt_blob_close(&b);
  return s;
}

static mscrt_status *decode_file(const mscrt_records *r, int64_t number, void *line) {
  const folder *f = (const folder *)r;
  const entry *e = &f->file[number];
  uint8_t *bytes;
  size_t num = 0;
  if (f->classes) return memcpy(line, &e->class, sizeof e->class), NULL;
  mscrt_status *s = read_file(e->path, &bytes, &num);
  if (!s) s = mscrt_picture_decode(e->path, bytes, num, &f->picture, line);
  free(bytes);
  return s;
}

static void free_folder(mscrt_records *r) {
  folder *f = (folder *)r;
  for (int64_t i = 0; i < f->num; i++) free(f->file[i].path);
  free(f->file);
  free(f);
}

static mscrt_status *open_listed(folder *f, const char *path, const mscrt_wanted *w, mscrt_array *out) {
  int64_t folders = 0;
  MSCRT_CHECK(list_folder(f, path, 0, &folders));
  if (!f->num) return mscrt_fail(MSCRT_INPUT, "%s: has no images", path);
  if (f->classes) {
    if (!folders)
      return mscrt_fail(MSCRT_INPUT, "%s: has no folders, which would be the classes of label '%s'", path, w->name);
    *out = (mscrt_array){.dtype = MSCRT_I64, .rank = 1, .dim = {f->num}};
    return NULL;
  }
  if (!mscrt_picture_of(w, &f->picture))
    return mscrt_fail(MSCRT_INPUT,
                      "%s: images go to inputs whose samples are [height,width], or these with 1 or 3 channels "
                      "before or behind them, which those of '%s' are not",
                      path, w->name);
  *out = (mscrt_array){.dtype = MSCRT_U8, .rank = 1, .dim = {f->num}};
  out->rank += mscrt_sample_shape(w, out->dim + 1);
  return NULL;
}

mscrt_status *mscrt_image_folder_open(const char *path, const mscrt_wanted *w, mscrt_array *out_array,
                                      mscrt_records **out_records) {
  folder *f = NULL;
  MSCRT_CHECK(mscrt_new_array(&f, 1));
  f->records = (mscrt_records){.decode = decode_file, .free = free_folder, .apart = true};
  f->classes = w->role == MSCRT_LABEL;
  f->records.slow = !f->classes;
  mscrt_status *s = open_listed(f, path, w, out_array);
  if (s) free_folder(&f->records);
  else *out_records = &f->records;
  return s;
}
