/* dcp.c: the .metadata of a distributed checkpoint of PyTorch in; its tensors and the places of their chunks out. A
 * chunk is what torch.save wrote to a range of a .distcp file. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/foreign.h"
#include "runtime/data/formats/torch_file.h"

#define META         "torch.distributed.checkpoint.metadata."
#define MAX_METADATA ((uint64_t)1 << 28)

/* Where the bytes of a chunk are. */
typedef struct {
  const char *name, *path;
  int rank;
  int64_t offset[MSCRT_MAX_RANK];
  uint64_t at, bytes;
} stored_chunk;

typedef struct {
  mscrt_archive *a;
  const mscrt_blob *b;
  uint32_t num;
  stored_chunk *chunk; /* sorted */
} distributed;

#define bad_metadata(d, what) mscrt_bad_file((d)->b, "metadata: %s", (what))

static int compare_chunks(const void *x, const void *y) {
  const stored_chunk *a = x, *b = y;
  int order = strcmp(a->name, b->name);
  if (order || a->rank != b->rank) return order ? order : a->rank - b->rank;
  for (int d = 0; d < a->rank; d++)
    if (a->offset[d] != b->offset[d]) return a->offset[d] < b->offset[d] ? -1 : 1;
  return 0;
}

/* Reads the place of a chunk, an entry MetadataIndex -> _StorageInfo of the dictionary. */
static mscrt_status *take_place(distributed *d, const mscrt_py *key, const mscrt_py *v) {
  const mscrt_py *name = mscrt_py_get(key, "fqn"), *offset = mscrt_py_get(key, "offset"),
                 *path = mscrt_py_get(v, "relative_path"), *at = mscrt_py_get(v, "offset"),
                 *length = mscrt_py_get(v, "length"), *changed = mscrt_py_get(v, "transform_descriptors");
  stored_chunk c = {0};
  if (!name || name->kind != MSCRT_PY_TEXT || !path || path->kind != MSCRT_PY_TEXT || !at || at->kind != MSCRT_PY_INT ||
      !length || length->kind != MSCRT_PY_INT || at->number < 0 || length->number < 0)
    return bad_metadata(d, "a place is not (name, offset) -> (file, offset, length)");
  if (offset && offset->kind != MSCRT_PY_NONE && !mscrt_py_sizes(offset, &c.rank, c.offset))
    return bad_metadata(d, "an offset is no list of numbers");
  if (changed && changed->kind != MSCRT_PY_NONE && changed->num)
    return mscrt_bad_file(d->b, "metadata: '%s' is compressed, or changed in another way", name->text);
  c.name = name->text;
  c.path = path->text;
  c.at = (uint64_t)at->number;
  c.bytes = (uint64_t)length->number;
  d->chunk[d->num++] = c;
  return NULL;
}

static mscrt_status *take_places(distributed *d, const mscrt_py *places) {
  if (!places || places->kind != MSCRT_PY_DICT) return bad_metadata(d, "no storage_data");
  MSCRT_CHECK(mscrt_new_array(&d->chunk, places->num / 2 + 1));
  for (uint32_t i = 0; i + 1 < places->num; i += 2) MSCRT_CHECK(take_place(d, places->item[i], places->item[i + 1]));
  qsort(d->chunk, d->num, sizeof *d->chunk, compare_chunks);
  return NULL;
}

static mscrt_status *file_of(distributed *d, const char *path, uint32_t *out_file) {
  for (*out_file = 0; *out_file < d->a->num_files; ++*out_file)
    if (!strcmp(d->a->file[*out_file].name, path)) return NULL;
  return mscrt_archive_add_file(d->a, path, 0);
}

/* Checks that the tensor that torch.save wrote at the place is the chunk, and adds it as a shard. */
static mscrt_status *take_chunk(distributed *d, const mscrt_stored *t, const mscrt_py *v) {
  stored_chunk key = {.name = t->name};
  mscrt_shard s = {0};
  mscrt_torch_file f;
  mscrt_array tensor;
  mscrt_status *status = NULL;
  int sizes;
  uint64_t elems = 0;
  if (!mscrt_py_sizes(mscrt_py_get(v, "offsets"), &key.rank, key.offset) ||
      !mscrt_py_sizes(mscrt_py_get(v, "sizes"), &sizes, s.box.size) || key.rank != t->rank || sizes != t->rank ||
      !mscrt_shape_bytes(sizes, s.box.size, 1, &elems))
    return mscrt_bad_file(d->b, "metadata: a chunk of '%s' has no offsets and sizes", t->name);
  if (!elems) return NULL;
  memcpy(s.box.begin, key.offset, sizeof key.offset);
  const stored_chunk *c = d->num ? bsearch(&key, d->chunk, d->num, sizeof key, compare_chunks) : NULL;
  if (!c) return mscrt_bad_file(d->b, "metadata: a chunk of '%s' is in no file", t->name);
  MSCRT_CHECK(file_of(d, c->path, &s.file));
  MSCRT_CHECK(mscrt_archive_open_file(d->a, s.file));
  const mscrt_blob *b = &d->a->file[s.file].blob;
  MSCRT_CHECK(mscrt_torch_open(b, c->at, c->bytes, &f));
  if (!mscrt_torch_tensor(&f, f.pickle.root, &tensor, &status))
    status = mscrt_bad_file(b, "what stands for '%s' is no tensor", t->name);
  if (!status && (tensor.dtype != t->dtype || tensor.rank != t->rank ||
                  memcmp(tensor.dim, s.box.size, sizeof *tensor.dim * (size_t)t->rank)))
    status = mscrt_bad_file(b, "the chunk of '%s' has another shape or type than .metadata says", t->name);
  s.at = tensor.at;
  mscrt_torch_close(&f);
  return status ? status : mscrt_archive_add_shard(d->a, &s);
}

/* The element type among a tensor's properties: the first of them, or a member. */
static const char *type_of_properties(const mscrt_py *v) {
  const mscrt_py *p = mscrt_py_get(v, "properties"), *type = mscrt_py_get(p, "dtype");
  if (!type && p && p->kind == MSCRT_PY_OBJECT && p->state && p->state->kind == MSCRT_PY_TUPLE && p->state->num)
    type = p->state->item[0];
  return type && type->kind == MSCRT_PY_GLOBAL ? type->text : "none";
}

static mscrt_status *take_dcp_entry(distributed *d, const mscrt_py *name, const mscrt_py *v) {
  mscrt_stored t = {.known = true};
  const mscrt_py *chunks = mscrt_py_get(v, "chunks");
  if (mscrt_py_is(v, META "BytesStorageMetadata")) return NULL; /* an object of Python's, no tensor */
  if (name->kind != MSCRT_PY_TEXT || !mscrt_py_is(v, META "TensorStorageMetadata") || !chunks ||
      chunks->kind != MSCRT_PY_LIST)
    return bad_metadata(d, "an entry is neither a tensor nor an object");
  char *text = strdup(name->text);
  if (!text) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  MSCRT_CHECK(mscrt_archive_add_text(d->a, text));
  t.name = text;
  t.state = !strncmp(text, "optim", 5);
  t.known = mscrt_dtype_of_torch(type_of_properties(v), &t.dtype);
  if (!mscrt_py_sizes(mscrt_py_get(v, "size"), &t.rank, t.shape))
    return mscrt_bad_file(d->b, "metadata: '%s' has no shape, or too many dimensions", text);
  t.view_rank = t.rank;
  memcpy(t.view, t.shape, sizeof t.view);
  MSCRT_CHECK(mscrt_archive_add_tensor(d->a, &t));
  for (uint32_t i = 0; i < chunks->num && t.known; i++) MSCRT_CHECK(take_chunk(d, &t, chunks->item[i]));
  return NULL;
}

static mscrt_status *take_dcp_metadata(distributed *d, const mscrt_py *root) {
  const mscrt_py *entries = mscrt_py_get(root, "state_dict_metadata");
  if (!mscrt_py_is(root, META "Metadata") || !entries || entries->kind != MSCRT_PY_DICT)
    return bad_metadata(d, "this is no distributed checkpoint of PyTorch");
  MSCRT_CHECK(take_places(d, mscrt_py_get(root, "storage_data")));
  for (uint32_t i = 0; i + 1 < entries->num; i += 2)
    MSCRT_CHECK(take_dcp_entry(d, entries->item[i], entries->item[i + 1]));
  return NULL;
}

mscrt_status *mscrt_parse_dcp(mscrt_blob *b, mscrt_archive *a) {
  distributed d = {.a = a, .b = b};
  mscrt_pickle p = {0};
  uint8_t *data = NULL;
  if (b->bytes > MAX_METADATA) return mscrt_bad_file(b, "metadata of %" PRIu64 " bytes", b->bytes);
  MSCRT_CHECK(mscrt_new_array(&data, b->bytes + 1));
  mscrt_status *s = mscrt_blob_read(b, 0, data, (size_t)b->bytes);
  if (!s) s = mscrt_pickle_parse(b, data, (size_t)b->bytes, &p);
  if (!s) s = take_dcp_metadata(&d, p.root);
  mscrt_pickle_free(&p);
  free(d.chunk);
  free(data);
  return s;
}
