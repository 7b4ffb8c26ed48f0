/* open_archive.c: a path in; the tensors of the checkpoint, file or folder there, of whatever format its content is,
 * out. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/archive.h"
#include "runtime/data/foreign.h"

static bool has_ending(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n >= k && !strcmp(text + n - k, end);
}

static mscrt_status *parse_manifest(mscrt_blob *b, mscrt_archive *a) { return mscrt_manifest_parse(b, true, a); }

/* Reads a single file, which is opened again under its name. */
static mscrt_status *parse_single(mscrt_blob *b, mscrt_archive *a) {
  MSCRT_CHECK(mscrt_archive_add_file(a, strrchr(b->path, '/') ? strrchr(b->path, '/') + 1 : b->path, 0));
  return mscrt_archive_add_safetensors(a, 0);
}

static mscrt_status *parse_torch_single(mscrt_blob *b, mscrt_archive *a) {
  MSCRT_CHECK(mscrt_archive_add_file(a, strrchr(b->path, '/') + 1, 0));
  return mscrt_parse_torch(a, 0);
}

/* The files by which a folder is known, in order of preference. */
static const struct {
  const char *name, *kind;
  mscrt_status *(*parse)(mscrt_blob *b, mscrt_archive *a);
} formats[] = {
    {MSCRT_MANIFEST, "checkpoint of msc", parse_manifest},
    {"model.safetensors.index.json", "sharded safetensors of Hugging Face", mscrt_parse_index},
    {"model.safetensors", "safetensors", parse_single},
    {".metadata", "distributed checkpoint of PyTorch", mscrt_parse_dcp},
    {"pytorch_model.bin", "file of torch.save", parse_torch_single},
};

static mscrt_status *open_with(const char *path, size_t format, const char *file, mscrt_archive *a) {
  mscrt_blob b;
  bool own = file == path;
  MSCRT_CHECK(mscrt_blob_open(file, &b));
  mscrt_status *s = mscrt_archive_new(path, own, formats[format].kind, a);
  if (!s) s = formats[format].parse(&b, a);
  mscrt_blob_close(&b);
  return s ? s : mscrt_archive_sort(a);
}

static mscrt_status *open_folder(const char *path, mscrt_archive *a) {
  char *file = NULL;
  if (mscrt_is_megatron(path)) return mscrt_open_megatron(path, a);
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (asprintf(&file, "%s/%s", path, formats[i].name) < 0) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
    bool there = access(file, F_OK) == 0;
    mscrt_status *s = there ? open_with(path, i, file, a) : NULL;
    free(file);
    if (there) return s;
  }
  return mscrt_fail(MSCRT_INPUT,
                    "%s: neither a checkpoint (%s), nor a folder of safetensors (model.safetensors or "
                    "model.safetensors.index.json) of PyTorch (.metadata or pytorch_model.bin) "
                    "or of Megatron-LM (mp_rank_00)",
                    path, MSCRT_MANIFEST);
}

static mscrt_status *open_any(const char *path, mscrt_archive *a) {
  if (mscrt_is_folder(path)) return open_folder(path, a);
  if (has_ending(path, ".index.json")) return open_with(path, 1, path, a);
  if (has_ending(path, "/" MSCRT_MANIFEST) || !strcmp(path, MSCRT_MANIFEST)) return open_with(path, 0, path, a);
  mscrt_blob b;
  MSCRT_CHECK(mscrt_blob_open(path, &b));
  return mscrt_archive_of_file(&b, a);
}

mscrt_status *mscrt_archive_open(const char *path, mscrt_archive *a) {
  *a = (mscrt_archive){0};
  mscrt_status *s = open_any(path, a);
  if (s) mscrt_archive_close(a);
  return s;
}
