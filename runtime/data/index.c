/* index.c: model.safetensors.index.json of Hugging Face's in; the tensors of the files that it names out. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/foreign.h"
#include "runtime/data/json.h"

#define MAX_INDEX ((uint64_t)256 << 20)
#define MAX_DEPTH 32

typedef struct {
  const char *tensor, *file;
} place;

typedef struct {
  uint32_t num;
  int64_t room;
  place *place;
} places;

static mscrt_status *add_place(places *p, const char *tensor, const char *file) {
  MSCRT_CHECK(mscrt_grow(&p->place, p->num, &p->room, sizeof *p->place));
  p->place[p->num++] = (place){tensor, file};
  return NULL;
}

static mscrt_status *take_weight_map(mscrt_json *r, places *p) {
  if (!mscrt_json_token(r, '{')) return mscrt_bad_json(r, "weight_map is not an object");
  if (mscrt_json_token(r, '}')) return NULL;
  do {
    char *tensor, *file;
    if (!mscrt_json_string(r, &tensor) || !mscrt_json_token(r, ':') || !mscrt_json_string(r, &file))
      return mscrt_bad_json(r, "weight_map must map names to files");
    MSCRT_CHECK(add_place(p, tensor, file));
  } while (mscrt_json_token(r, ','));
  return mscrt_json_token(r, '}') ? NULL : mscrt_bad_json(r, "'}' is expected");
}

static mscrt_status *take_index(mscrt_json *r, places *p) {
  bool has_map = false;
  if (!mscrt_json_token(r, '{')) return mscrt_bad_json(r, "'{' is expected");
  do {
    char *key;
    if (!mscrt_json_string(r, &key) || !mscrt_json_token(r, ':')) return mscrt_bad_json(r, "a key is expected");
    if (!strcmp(key, "weight_map") && !has_map) {
      has_map = true;
      MSCRT_CHECK(take_weight_map(r, p));
    } else if (!mscrt_json_skip(r, MAX_DEPTH)) {
      return mscrt_bad_json(r, "a value is expected");
    }
  } while (mscrt_json_token(r, ','));
  if (!mscrt_json_token(r, '}')) return mscrt_bad_json(r, "'}' is expected");
  mscrt_json_blanks(r);
  if (r->at != r->end) return mscrt_bad_json(r, "something follows the object");
  return has_map ? NULL : mscrt_bad_json(r, "weight_map is missing");
}

static int compare_files(const void *a, const void *b) {
  const place *x = a, *y = b;
  int order = strcmp(x->file, y->file);
  return order ? order : strcmp(x->tensor, y->tensor);
}

static int compare_by_name(const void *a, const void *b) {
  return strcmp(((const mscrt_stored *)a)->name, ((const mscrt_stored *)b)->name);
}

/* Adds a file, whose tensors must be those that the map says. */
static mscrt_status *add_file(mscrt_archive *a, const place *p, size_t num) {
  char clean[96];
  uint32_t before = a->num;
  MSCRT_CHECK(mscrt_archive_add_file(a, p->file, 0));
  MSCRT_CHECK(mscrt_archive_add_safetensors(a, a->num_files - 1));
  qsort(a->tensor + before, a->num - before, sizeof *a->tensor, compare_by_name);
  for (size_t i = 0; i < num; i++)
    if (i >= a->num - before || strcmp(a->tensor[before + i].name, p[i].tensor))
      return mscrt_fail(MSCRT_INPUT, "%s: the index and the file do not have the same tensors; see '%s'",
                        a->file[a->num_files - 1].path, mscrt_clean_text(p[i].tensor, SIZE_MAX, clean, sizeof clean));
  if (num == a->num - before) return NULL;
  return mscrt_fail(MSCRT_INPUT, "%s: has tensors of which the index does not know, as '%s'",
                    a->file[a->num_files - 1].path,
                    mscrt_clean_text(a->tensor[before + num].name, SIZE_MAX, clean, sizeof clean));
}

mscrt_status *mscrt_parse_index(mscrt_blob *b, mscrt_archive *a) {
  places p = {0};
  char *text = NULL;
  mscrt_status *s = NULL;
  if (b->bytes > MAX_INDEX) return mscrt_bad_file(b, "an index of %" PRIu64 " bytes", b->bytes);
  MSCRT_CHECK(mscrt_new_array(&text, b->bytes + 1));
  MSCRT_CHECK(mscrt_archive_add_text(a, text));
  MSCRT_CHECK(mscrt_blob_read(b, 0, text, (size_t)b->bytes));
  s = take_index(&(mscrt_json){b, "index", "text", text, text, text + b->bytes}, &p);
  if (!s && p.num) qsort(p.place, p.num, sizeof *p.place, compare_files);
  for (size_t i = 0, end; i < p.num && !s; i = end) {
    for (end = i + 1; end < p.num && !strcmp(p.place[end].file, p.place[i].file);) end++;
    s = add_file(a, &p.place[i], end - i);
  }
  free(p.place);
  return s;
}
