/* manifest.c: the manifest of a checkpoint, read and written:
 *
 *   {"format":"msc checkpoint","version":1,
 *   "step":7,"seed":1,"samples":448,"ranks":2,"plan":"0123456789abcdef","model":"0123456789abcdef",
 *   "files":[
 *   {"name":"rank-00000.safetensors","bytes":1234}],
 *   "tensors":{
 *   "w":{"dtype":"F32","shape":[4,6],"view":[4,2,3],"state":true,"shards":[
 *     {"file":0,"at":64,"begin":[0,0,0],"size":[4,1,3],"xxh3":"0123456789abcdef"}]}},
 *   "xxh3":"0123456789abcdef"}
 *
 * A tensor is `shape`; the boxes of its shards are those of `view` (absent: shape), other dimensions of the same
 * elements. The last checksum is that of all bytes before the comma in front of it. Members have this order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/data/archive.h"
#include "runtime/data/json.h"

#define VERSION      1
#define MAX_MANIFEST ((uint64_t)1 << 30)
#define SEAL         ",\n\"xxh3\":\"0123456789abcdef\"}\n"

/* ---- reading ---- */

/* Reads the key of the next member, which must have this name. first: no comma stands before it. */
static bool read_key(mscrt_json *r, const char *want, bool first) {
  char *key;
  return (first || mscrt_json_token(r, ',')) && mscrt_json_string(r, &key) && !strcmp(key, want) &&
         mscrt_json_token(r, ':');
}

/* Reads the key of a member that may be absent; then nothing is read. */
static bool read_optional_key(mscrt_json *r, const char *want) {
  char *at = r->at;
  size_t n = strlen(want);
  if (!mscrt_json_token(r, ',')) return false;
  mscrt_json_blanks(r);
  bool is = (size_t)(r->end - r->at) > n + 2 && *r->at == '"' && !memcmp(r->at + 1, want, n) && r->at[n + 1] == '"';
  if (is) r->at += n + 2;
  if (is && mscrt_json_token(r, ':')) return true;
  r->at = at;
  return false;
}

static mscrt_status *take_head(mscrt_json *r, mscrt_archive *a) {
  char *format;
  uint64_t version, ranks;
  mscrt_progress *p = &a->progress;
  if (!mscrt_json_token(r, '{') || !read_key(r, "format", true) || !mscrt_json_string(r, &format) ||
      strcmp(format, "msc checkpoint"))
    return mscrt_bad_json(r, "this is no checkpoint of msc");
  if (!read_key(r, "version", false) || !mscrt_json_number(r, &version)) return mscrt_bad_json(r, "no version");
  if (version != VERSION)
    return mscrt_bad_file(r->blob, "version %" PRIu64 " of the format; this msc reads version %d", version, VERSION);
  if (!read_key(r, "step", false) || !mscrt_json_number(r, &p->step) || p->step > INT64_MAX ||
      !read_key(r, "seed", false) || !mscrt_json_number(r, &p->seed) || !read_key(r, "samples", false) ||
      !mscrt_json_number(r, &p->samples) || !read_key(r, "ranks", false) || !mscrt_json_number(r, &ranks) ||
      ranks > INT32_MAX || !read_key(r, "plan", false) || !mscrt_json_hex(r, &p->plan) ||
      !read_key(r, "model", false) || !mscrt_json_hex(r, &p->model))
    return mscrt_bad_json(r, "step, seed, samples, ranks, plan and model are expected");
  p->ranks = (uint32_t)ranks;
  a->is_checkpoint = true;
  return NULL;
}

static mscrt_status *take_file_names(mscrt_json *r, mscrt_archive *a) {
  if (!read_key(r, "files", false) || !mscrt_json_token(r, '[')) return mscrt_bad_json(r, "files are expected");
  if (mscrt_json_token(r, ']')) return NULL;
  do {
    char *name;
    uint64_t bytes;
    if (!mscrt_json_token(r, '{') || !read_key(r, "name", true) || !mscrt_json_string(r, &name) ||
        !read_key(r, "bytes", false) || !mscrt_json_number(r, &bytes) || !bytes || !mscrt_json_token(r, '}'))
      return mscrt_bad_json(r, "a file is not {name, bytes}");
    MSCRT_CHECK(mscrt_archive_add_file(a, name, bytes));
  } while (mscrt_json_token(r, ','));
  return mscrt_json_token(r, ']') ? NULL : mscrt_bad_json(r, "']' is expected");
}

static mscrt_status *take_shard(mscrt_json *r, mscrt_archive *a, const mscrt_stored *t) {
  mscrt_shard s = {.hashed = true};
  uint64_t file, elems, bytes;
  int begins, sizes;
  if (!mscrt_json_token(r, '{') || !read_key(r, "file", true) || !mscrt_json_number(r, &file) ||
      !read_key(r, "at", false) || !mscrt_json_number(r, &s.at) || !read_key(r, "begin", false) ||
      !mscrt_json_sizes(r, &begins, s.box.begin) || !read_key(r, "size", false) ||
      !mscrt_json_sizes(r, &sizes, s.box.size) || !read_key(r, "xxh3", false) || !mscrt_json_hex(r, &s.xxh3) ||
      !mscrt_json_token(r, '}'))
    return mscrt_bad_json(r, "a shard is not {file, at, begin, size, xxh3}");
  if (file >= a->num_files || begins != t->view_rank || sizes != t->view_rank)
    return mscrt_bad_json(r, "a shard is in no file, or has another number of dimensions than its tensor");
  s.file = (uint32_t)file;
  uint64_t of = a->file[file].bytes;
  if (!mscrt_shape_bytes(t->view_rank, s.box.size, 1, &elems) ||
      !mscrt_shape_bytes(t->view_rank, s.box.size, mscrt_dtype_bytes(t->dtype), &bytes) || !elems || s.at > of ||
      bytes > of - s.at)
    return mscrt_bad_json(r, "a shard is empty or leaves its file");
  return mscrt_archive_add_shard(a, &s);
}

static mscrt_status *take_tensor(mscrt_json *r, mscrt_archive *a) {
  mscrt_stored t = {.known = true};
  char *name, *dtype;
  if (!mscrt_json_string(r, &name) || !mscrt_json_token(r, ':') || !mscrt_json_token(r, '{') ||
      !read_key(r, "dtype", true) || !mscrt_json_string(r, &dtype) || !mscrt_dtype_of_safetensors(dtype, &t.dtype) ||
      !read_key(r, "shape", false) || !mscrt_json_sizes(r, &t.rank, t.shape))
    return mscrt_bad_json(r, "a tensor has no element type or no shape");
  t.name = name;
  t.view_rank = t.rank;
  memcpy(t.view, t.shape, sizeof t.view);
  if (read_optional_key(r, "view") && !mscrt_json_sizes(r, &t.view_rank, t.view)) return mscrt_bad_json(r, "no view");
  if (read_optional_key(r, "state") && !mscrt_json_bool(r, &t.state))
    return mscrt_bad_json(r, "true or false is expected");
  if (!read_key(r, "shards", false) || !mscrt_json_token(r, '[')) return mscrt_bad_json(r, "shards are expected");
  MSCRT_CHECK(mscrt_archive_add_tensor(a, &t));
  if (!mscrt_json_token(r, ']')) {
    do MSCRT_CHECK(take_shard(r, a, &t));
    while (mscrt_json_token(r, ','));
    if (!mscrt_json_token(r, ']')) return mscrt_bad_json(r, "']' is expected");
  }
  return mscrt_json_token(r, '}') ? NULL : mscrt_bad_json(r, "'}' is expected");
}

static mscrt_status *take_manifest(mscrt_json *r, mscrt_archive *a) {
  uint64_t seal;
  MSCRT_CHECK(take_head(r, a));
  MSCRT_CHECK(take_file_names(r, a));
  if (!read_key(r, "tensors", false) || !mscrt_json_token(r, '{')) return mscrt_bad_json(r, "tensors are expected");
  if (!mscrt_json_token(r, '}')) {
    do MSCRT_CHECK(take_tensor(r, a));
    while (mscrt_json_token(r, ','));
    if (!mscrt_json_token(r, '}')) return mscrt_bad_json(r, "'}' is expected");
  }
  if (!read_key(r, "xxh3", false) || !mscrt_json_hex(r, &seal) || !mscrt_json_token(r, '}'))
    return mscrt_bad_json(r, "the manifest does not end with its checksum");
  mscrt_json_blanks(r);
  return r->at == r->end ? NULL : mscrt_bad_json(r, "something follows the object");
}

/* True if the checksum at the end is that of the text before it. */
static bool is_sealed(const char *text, size_t bytes) {
  size_t seal = sizeof SEAL - 1;
  char want[sizeof SEAL];
  if (bytes < seal) return false;
  snprintf(want, sizeof want, ",\n\"xxh3\":\"%016" PRIx64 "\"}\n", (uint64_t)XXH3_64bits(text, bytes - seal));
  return !memcmp(text + bytes - seal, want, seal);
}

mscrt_status *mscrt_manifest_parse(const mscrt_blob *b, bool sealed, mscrt_archive *a) {
  char *text = NULL;
  if (b->bytes > MAX_MANIFEST) return mscrt_bad_file(b, "a manifest of %" PRIu64 " bytes", b->bytes);
  MSCRT_CHECK(mscrt_new_array(&text, b->bytes + 1));
  MSCRT_CHECK(mscrt_archive_add_text(a, text));
  MSCRT_CHECK(mscrt_blob_read(b, 0, text, (size_t)b->bytes));
  bool right = is_sealed(text, (size_t)b->bytes);
  MSCRT_CHECK(take_manifest(&(mscrt_json){b, "manifest", "text", text, text, text + b->bytes}, a));
  return right || !sealed ? NULL
                          : mscrt_bad_file(b, "is damaged: its checksum is wrong, of %" PRIu64 " bytes", b->bytes);
}

/* ---- writing ---- */

static void put_shape(FILE *f, const char *key, int num, const int64_t *size) {
  fprintf(f, ",\"%s\":[", key);
  for (int d = 0; d < num; d++) fprintf(f, "%s%" PRId64, d ? "," : "", size[d]);
  fputc(']', f);
}

static void put_manifest_tensor(FILE *f, const mscrt_archive *a, const mscrt_stored *t) {
  mscrt_json_put(f, t->name);
  fprintf(f, ":{\"dtype\":\"%s\"", mscrt_safetensors_dtype(t->dtype));
  put_shape(f, "shape", t->rank, t->shape);
  if (t->rank != t->view_rank || memcmp(t->shape, t->view, sizeof *t->view * (size_t)t->rank))
    put_shape(f, "view", t->view_rank, t->view);
  if (t->state) fputs(",\"state\":true", f);
  fputs(",\"shards\":[", f);
  for (uint32_t i = 0; i < t->num; i++) {
    const mscrt_shard *s = &a->shard[t->first + i];
    fprintf(f, "%s\n  {\"file\":%u,\"at\":%" PRIu64, i ? "," : "", s->file, s->at);
    put_shape(f, "begin", t->view_rank, s->box.begin);
    put_shape(f, "size", t->view_rank, s->box.size);
    fprintf(f, ",\"xxh3\":\"%016" PRIx64 "\"}", s->xxh3);
  }
  fputs("]}", f);
}

static void put_manifest(FILE *f, const mscrt_archive *a) {
  const mscrt_progress *p = &a->progress;
  fprintf(f,
          "{\"format\":\"msc checkpoint\",\"version\":%d,\n\"step\":%" PRIu64 ",\"seed\":%" PRIu64
          ",\"samples\":%" PRIu64 ",\"ranks\":%u,\"plan\":\"%016" PRIx64 "\",\"model\":\"%016" PRIx64
          "\",\n\"files\":[",
          VERSION, p->step, p->seed, p->samples, p->ranks, p->plan, p->model);
  for (uint32_t i = 0; i < a->num_files; i++) {
    fputs(i ? ",\n{\"name\":" : "\n{\"name\":", f);
    mscrt_json_put(f, a->file[i].name);
    fprintf(f, ",\"bytes\":%" PRIu64 "}", a->file[i].bytes);
  }
  fputs("],\n\"tensors\":{\n", f);
  for (uint32_t i = 0; i < a->num; i++) {
    if (i) fputs(",\n", f);
    put_manifest_tensor(f, a, &a->tensor[i]);
  }
  fputc('}', f);
}

mscrt_status *mscrt_manifest_write(const mscrt_archive *a, const char *folder) {
  char *text = NULL, *path = NULL;
  size_t bytes = 0;
  mscrt_file out;
  FILE *f = open_memstream(&text, &bytes);
  if (f) put_manifest(f, a);
  bool written = f && fflush(f) == 0;
  if (written) fprintf(f, ",\n\"xxh3\":\"%016" PRIx64 "\"}\n", (uint64_t)XXH3_64bits(text, bytes));
  if (f && (fclose(f) != 0 || !text)) written = false;
  mscrt_status *s = written && asprintf(&path, "%s/%s", folder, MSCRT_MANIFEST) >= 0
                        ? mscrt_file_begin(path, &out)
                        : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  if (!s) s = mscrt_file_end(&out, mscrt_file_write(&out, text, bytes));
  free(text);
  free(path);
  return s;
}
