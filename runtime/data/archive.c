/* archive.c: files, tensors and shards in, one after the other; the archive that lists them, checked and sorted,
 * out. */
#include "runtime/data/archive.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { FILES, TENSORS, SHARDS, TEXTS };

/* ---- building ---- */

mscrt_status *mscrt_archive_new(const char *path, bool is_file, const char *kind, mscrt_archive *a) {
  const char *slash = strrchr(path, '/');
  *a = (mscrt_archive){.kind = kind, .path = strdup(path)};
  a->folder = !is_file ? strdup(path) : slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  mscrt_status *s = a->path && a->folder ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  if (s) mscrt_archive_close(a);
  return s;
}

mscrt_status *mscrt_archive_add_text(mscrt_archive *a, char *text) {
  mscrt_status *s = mscrt_grow(&a->text, a->num_texts, &a->room[TEXTS], sizeof *a->text);
  if (s) free(text);
  else a->text[a->num_texts++] = text;
  return s;
}

mscrt_status *mscrt_archive_add_path(mscrt_archive *a, const char *path) {
  MSCRT_CHECK(mscrt_grow(&a->file, a->num_files, &a->room[FILES], sizeof *a->file));
  mscrt_archive_file f = {.path = strdup(path), .blob.fd = -1};
  if (!f.path) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  f.name = strrchr(f.path, '/') ? strrchr(f.path, '/') + 1 : f.path;
  a->file[a->num_files++] = f;
  return NULL;
}

mscrt_status *mscrt_archive_add_file(mscrt_archive *a, const char *name, uint64_t bytes) {
  char clean[96];
  if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
    return mscrt_fail(MSCRT_INPUT, "%s: '%s' is no file of this folder", a->path,
                      mscrt_clean_text(name, SIZE_MAX, clean, sizeof clean));
  char *path = NULL;
  if (asprintf(&path, "%s/%s", a->folder, name) < 0) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  mscrt_status *s = mscrt_archive_add_path(a, path);
  free(path);
  if (!s) a->file[a->num_files - 1].bytes = bytes;
  return s;
}

mscrt_status *mscrt_archive_add_tensor(mscrt_archive *a, const mscrt_stored *t) {
  MSCRT_CHECK(mscrt_grow(&a->tensor, a->num, &a->room[TENSORS], sizeof *a->tensor));
  mscrt_stored *to = &a->tensor[a->num++];
  *to = *t;
  to->first = a->num_shards;
  to->num = 0;
  return NULL;
}

mscrt_status *mscrt_archive_add_shard(mscrt_archive *a, const mscrt_shard *s) {
  MSCRT_CHECK(mscrt_grow(&a->shard, a->num_shards, &a->room[SHARDS], sizeof *a->shard));
  a->shard[a->num_shards++] = *s;
  a->tensor[a->num - 1].num++;
  return NULL;
}

mscrt_status *mscrt_archive_open_file(mscrt_archive *a, uint32_t file) {
  mscrt_archive_file *f = &a->file[file];
  if (f->open) return NULL;
  MSCRT_CHECK(mscrt_blob_open(f->path, &f->blob));
  f->open = true;
  if (f->bytes && f->blob.bytes != f->bytes)
    return mscrt_bad_file(&f->blob, "is damaged: it has %" PRIu64 " bytes, the manifest says %" PRIu64, f->blob.bytes,
                          f->bytes);
  return NULL;
}

mscrt_status *mscrt_archive_add_safetensors(mscrt_archive *a, uint32_t file) {
  mscrt_safetensors t;
  MSCRT_CHECK(mscrt_archive_open_file(a, file));
  MSCRT_CHECK(mscrt_safetensors_parse(&a->file[file].blob, &t));
  mscrt_status *s = mscrt_archive_add_text(a, t.text);
  t.text = NULL;
  for (size_t i = 0; i < t.num && !s; i++) {
    const mscrt_array *array = &t.tensor[i].array;
    mscrt_stored one = {.name = t.tensor[i].name,
                        .known = t.tensor[i].known,
                        .dtype = array->dtype,
                        .rank = array->rank,
                        .view_rank = array->rank};
    mscrt_shard shard = {.file = file, .at = array->at};
    memcpy(one.shape, array->dim, sizeof one.shape);
    memcpy(one.view, array->dim, sizeof one.view);
    memcpy(shard.box.size, array->dim, sizeof array->dim);
    s = mscrt_archive_add_tensor(a, &one);
    if (!s && one.known) s = mscrt_archive_add_shard(a, &shard);
  }
  mscrt_safetensors_free(&t);
  return s;
}

/* ---- checking ---- */

uint64_t mscrt_stored_elems(const mscrt_stored *t) {
  uint64_t elems = 0;
  mscrt_shape_bytes(t->rank, t->shape, 1, &elems);
  return elems;
}

static int compare_stored(const void *a, const void *b) {
  return strcmp(((const mscrt_stored *)a)->name, ((const mscrt_stored *)b)->name);
}

static int compare_shards(const void *a, const void *b) {
  const msc_box *x = &((const mscrt_shard *)a)->box, *y = &((const mscrt_shard *)b)->box;
  for (int d = 0; d < MSCRT_MAX_RANK; d++)
    if (x->begin[d] != y->begin[d]) return x->begin[d] < y->begin[d] ? -1 : 1;
  return 0;
}

/* Shards that are sorted by their first row: each is compared with those that begin before it ends. */
static mscrt_status *check_cover(const mscrt_archive *a, const mscrt_stored *t) {
  char clean[96];
  const mscrt_shard *s = t->num ? &a->shard[t->first] : NULL;
  uint64_t elems = 0;
  msc_box common;
  mscrt_clean_text(t->name, SIZE_MAX, clean, sizeof clean);
  for (uint32_t i = 0; i < t->num; i++) {
    for (int d = 0; d < t->view_rank; d++)
      if (s[i].box.begin[d] > t->view[d] || s[i].box.size[d] > t->view[d] - s[i].box.begin[d])
        return mscrt_fail(MSCRT_INPUT, "%s: a shard of '%s' leaves the tensor", a->path, clean);
    elems += (uint64_t)msc_box_elems(t->view_rank, &s[i].box);
    for (uint32_t j = i + 1; j < t->num; j++) {
      if (t->view_rank && s[j].box.begin[0] >= s[i].box.begin[0] + s[i].box.size[0]) break;
      if (msc_box_intersect(t->view_rank, &s[i].box, &s[j].box, &common))
        return mscrt_fail(MSCRT_INPUT, "%s: shards of '%s' overlap", a->path, clean);
    }
  }
  return elems == mscrt_stored_elems(t)
             ? NULL
             : mscrt_fail(MSCRT_INPUT, "%s: the shards of '%s' have %" PRIu64 " of its %" PRIu64 " elements", a->path,
                          clean, elems, mscrt_stored_elems(t));
}

mscrt_status *mscrt_archive_sort(mscrt_archive *a) {
  char clean[96];
  for (uint32_t i = 0; i < a->num; i++) {
    mscrt_stored *t = &a->tensor[i];
    uint64_t bytes, viewed;
    if (!t->known) continue;
    if (!mscrt_shape_bytes(t->rank, t->shape, mscrt_dtype_bytes(t->dtype), &bytes) ||
        !mscrt_shape_bytes(t->view_rank, t->view, mscrt_dtype_bytes(t->dtype), &viewed) || bytes != viewed)
      return mscrt_fail(MSCRT_INPUT, "%s: tensor '%s' has no shape that fits", a->path,
                        mscrt_clean_text(t->name, SIZE_MAX, clean, sizeof clean));
    if (t->num) qsort(&a->shard[t->first], t->num, sizeof *a->shard, compare_shards);
    MSCRT_CHECK(check_cover(a, t));
  }
  if (a->num) qsort(a->tensor, a->num, sizeof *a->tensor, compare_stored);
  for (uint32_t i = 1; i < a->num; i++)
    if (!compare_stored(&a->tensor[i - 1], &a->tensor[i]))
      return mscrt_fail(MSCRT_INPUT, "%s: two tensors are called '%s'", a->path,
                        mscrt_clean_text(a->tensor[i].name, SIZE_MAX, clean, sizeof clean));
  return NULL;
}

const mscrt_stored *mscrt_archive_find(const mscrt_archive *a, const char *name) {
  mscrt_stored key = {.name = name};
  return a->num ? bsearch(&key, a->tensor, a->num, sizeof key, compare_stored) : NULL;
}

void mscrt_archive_close(mscrt_archive *a) {
  for (uint32_t i = 0; i < a->num_files; i++) {
    mscrt_blob_close(&a->file[i].blob);
    free(a->file[i].path);
  }
  for (uint32_t i = 0; i < a->num_texts; i++) free(a->text[i]);
  XXH3_freeState(a->hash);
  free(a->line);
  free(a->text);
  free(a->file);
  free(a->tensor);
  free(a->shard);
  free(a->path);
  free(a->folder);
  *a = (mscrt_archive){0};
}
