/* torch_file.c: what torch.save wrote in; the tensors of its pickle and their places in the file out. */
#include "runtime/data/formats/torch_file.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/data/foreign.h"

#define MAX_PICKLE ((uint64_t)1 << 28)
#define MAX_DEPTH  32
#define MAX_VISITS (1u << 20)

static const struct {
  const char *torch, *storage;
  mscrt_dtype dtype;
} types[] = {
    {"torch.float32", "torch.FloatStorage", MSCRT_F32},
    {"torch.float16", "torch.HalfStorage", MSCRT_F16},
    {"torch.bfloat16", "torch.BFloat16Storage", MSCRT_BF16},
    {"torch.float64", "torch.DoubleStorage", MSCRT_F64},
    {"torch.bool", "torch.BoolStorage", MSCRT_I1},
    {"torch.int8", "torch.CharStorage", MSCRT_I8},
    {"torch.int16", "torch.ShortStorage", MSCRT_I16},
    {"torch.int32", "torch.IntStorage", MSCRT_I32},
    {"torch.int64", "torch.LongStorage", MSCRT_I64},
    {"torch.uint8", "torch.ByteStorage", MSCRT_U8},
    {"torch.uint16", "", MSCRT_U16},
    {"torch.uint32", "", MSCRT_U32},
    {"torch.uint64", "", MSCRT_U64},
};

bool mscrt_dtype_of_torch(const char *name, mscrt_dtype *out_dtype) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(name, types[i].torch) || !strcmp(name, types[i].storage)) {
      *out_dtype = types[i].dtype;
      return true;
    }
  return false;
}

/* ---- the file ---- */

/* Finds the folder of the archive: that of the first member named data.pkl. */
static mscrt_status *find_top(mscrt_torch_file *f) {
  for (size_t i = 0; i < f->zip.num; i++) {
    char *name = f->zip.member[i].name, *last = strrchr(name, '/');
    if (!last || strcmp(last, "/data.pkl")) continue;
    char *top = strndup(name, (size_t)(last - name) + 1);
    f->top = top;
    return top ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  }
  return mscrt_bad_file(f->zip.b, "zip: %s", "no data.pkl: torch.save did not write this");
}

static mscrt_status *find_zip_member(const mscrt_torch_file *f, const char *folder, const char *name, uint64_t *out_at,
                                     uint64_t *out_bytes) {
  char *path = NULL;
  if (asprintf(&path, "%s%s%s", f->top, folder, name) < 0) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  mscrt_status *s = mscrt_zip_find(&f->zip, path, out_at, out_bytes);
  free(path);
  return s;
}

static mscrt_status *check_byte_order(const mscrt_torch_file *f) {
  char order[8] = "";
  uint64_t at, bytes;
  mscrt_status *s = find_zip_member(f, "", "byteorder", &at, &bytes);
  if (s) { /* older files do not say: they are little */
    mscrt_status_free(s);
    return NULL;
  }
  MSCRT_CHECK(mscrt_blob_read(f->zip.b, at, order, bytes < 7 ? (size_t)bytes : 7));
  return strcmp(order, "little") ? mscrt_bad_file(f->zip.b, "%s", "its numbers are big endian") : NULL;
}

static mscrt_status *read_pickle(mscrt_torch_file *f) {
  uint64_t at, bytes;
  uint8_t *data = NULL;
  MSCRT_CHECK(find_zip_member(f, "", "data.pkl", &at, &bytes));
  if (bytes > MAX_PICKLE) return mscrt_bad_file(f->zip.b, "a pickle of %" PRIu64 " bytes", bytes);
  MSCRT_CHECK(mscrt_new_array(&data, bytes + 1));
  mscrt_status *s = mscrt_blob_read(f->zip.b, at, data, (size_t)bytes);
  if (!s) s = mscrt_pickle_parse(f->zip.b, data, (size_t)bytes, &f->pickle);
  free(data);
  return s;
}

mscrt_status *mscrt_torch_open(const mscrt_blob *b, uint64_t at, uint64_t bytes, mscrt_torch_file *f) {
  *f = (mscrt_torch_file){0};
  mscrt_status *s = mscrt_zip_open(b, at, bytes, &f->zip);
  if (!s) s = find_top(f);
  if (!s) s = check_byte_order(f);
  if (!s) s = read_pickle(f);
  if (s) mscrt_torch_close(f);
  return s;
}

void mscrt_torch_close(mscrt_torch_file *f) {
  mscrt_pickle_free(&f->pickle);
  mscrt_zip_close(&f->zip);
  free((void *)(uintptr_t)f->top);
  *f = (mscrt_torch_file){0};
}

/* ---- tensors ---- */

static bool is_python_number(const mscrt_py *v) { return v && v->kind == MSCRT_PY_INT && v->number >= 0; }

/* Is a tensor row major without gaps? The stride of a dimension of one element does not count. */
static bool is_row_major(int rank, const int64_t *size, const int64_t *stride) {
  int64_t want = 1;
  for (int d = rank - 1; d >= 0; d--) {
    if (size[d] != 1 && stride[d] != want) return false;
    if (__builtin_mul_overflow(want, size[d], &want)) return false;
    if (!size[d]) return true;
  }
  return true;
}

/* Finds the bytes of a storage, ('storage', class, key, device, elements). */
static mscrt_status *find_storage(const mscrt_torch_file *f, const mscrt_py *storage, const char **out_class,
                                  uint64_t *out_at, uint64_t *out_bytes) {
  const mscrt_py *t = storage->kind == MSCRT_PY_PERSISTENT ? storage->args : NULL;
  if (!t || t->kind != MSCRT_PY_TUPLE || t->num < 3 || t->item[1]->kind != MSCRT_PY_GLOBAL ||
      t->item[2]->kind != MSCRT_PY_TEXT)
    return mscrt_bad_file(f->zip.b, "pickle: %s", "a tensor has no storage");
  *out_class = t->item[1]->text;
  return find_zip_member(f, "data/", t->item[2]->text, out_at, out_bytes);
}

static mscrt_status *take_torch_tensor(const mscrt_torch_file *f, const mscrt_py *args, mscrt_array *out) {
  const char *class = "", *type;
  uint64_t at = 0, have = 0, begin, bytes;
  int strides;
  int64_t stride[MSCRT_MAX_RANK];
  if (args->num < 4 || !is_python_number(args->item[1]) || !mscrt_py_sizes(args->item[2], &out->rank, out->dim) ||
      !mscrt_py_sizes(args->item[3], &strides, stride) || strides != out->rank)
    return mscrt_bad_file(f->zip.b, "pickle: %s", "a tensor has no shape, or too many dimensions");
  MSCRT_CHECK(find_storage(f, args->item[0], &class, &at, &have));
  type = args->num > 6 && args->item[6]->kind == MSCRT_PY_GLOBAL ? args->item[6]->text : class;
  if (!mscrt_dtype_of_torch(type, &out->dtype))
    return mscrt_bad_file(f->zip.b, "elements of type %s are not supported", type);
  if (!is_row_major(out->rank, out->dim, stride))
    return mscrt_bad_file(f->zip.b, "%s", "a tensor is not contiguous; save it with .contiguous()");
  size_t elem = mscrt_dtype_bytes(out->dtype);
  if (!mscrt_shape_bytes(out->rank, out->dim, elem, &bytes) ||
      __builtin_mul_overflow((uint64_t)args->item[1]->number, (uint64_t)elem, &begin) || begin > have ||
      bytes > have - begin)
    return mscrt_bad_file(f->zip.b, "pickle: %s", "a tensor leaves its storage");
  out->at = at + begin;
  out->bytes = bytes;
  return NULL;
}

bool mscrt_torch_tensor(const mscrt_torch_file *f, const mscrt_py *v, mscrt_array *out, mscrt_status **out_status) {
  *out = (mscrt_array){0};
  *out_status = NULL;
  for (int i = 0;
       i < 4 && v->kind == MSCRT_PY_OBJECT && v->args->num && !strncmp(v->of->text, "torch._utils._rebuild_param", 27);
       i++)
    v = v->args->item[0];
  if (!mscrt_py_is(v, "torch._utils._rebuild_tensor_v2") && !mscrt_py_is(v, "torch._utils._rebuild_tensor_v3"))
    return false;
  *out_status = take_torch_tensor(f, v->args, out);
  return true;
}

/* ---- all tensors of a file, in nested dictionaries ---- */

typedef struct {
  mscrt_archive *a;
  uint32_t file;
  const mscrt_torch_file *f;
  uint32_t visits; /* a dictionary may stand in many places */
} collecting;

static mscrt_status *collect(collecting *c, const mscrt_py *v, const char *name, int depth);

static mscrt_status *add_torch_tensor(collecting *c, const char *name, const mscrt_array *t) {
  char *text = strdup(name);
  if (!text) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  MSCRT_CHECK(mscrt_archive_add_text(c->a, text));
  mscrt_stored one = {.name = text, .known = true, .dtype = t->dtype, .rank = t->rank, .view_rank = t->rank};
  mscrt_shard shard = {.file = c->file, .at = t->at};
  memcpy(one.shape, t->dim, sizeof one.shape);
  memcpy(one.view, t->dim, sizeof one.view);
  memcpy(shard.box.size, t->dim, sizeof t->dim);
  MSCRT_CHECK(mscrt_archive_add_tensor(c->a, &one));
  return t->bytes ? mscrt_archive_add_shard(c->a, &shard) : NULL;
}

static mscrt_status *collect_member(collecting *c, const mscrt_py *key, const mscrt_py *v, const char *name,
                                    int depth) {
  char *path = NULL;
  int made = key->kind == MSCRT_PY_TEXT  ? asprintf(&path, "%s%s%s", name, *name ? "." : "", key->text)
             : key->kind == MSCRT_PY_INT ? asprintf(&path, "%s%s%" PRId64, name, *name ? "." : "", key->number)
                                         : 0;
  if (made < 0) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  mscrt_status *s = made ? collect(c, v, path, depth) : NULL;
  free(path);
  return s;
}

static mscrt_status *collect(collecting *c, const mscrt_py *v, const char *name, int depth) {
  mscrt_array t;
  mscrt_status *s;
  if (mscrt_torch_tensor(c->f, v, &t, &s))
    return s ? mscrt_add_prefix(s, "tensor '%s'", name) : add_torch_tensor(c, name, &t);
  bool dict = v->kind == MSCRT_PY_DICT || mscrt_py_is(v, "collections.OrderedDict");
  if (!dict) return NULL;
  if (++c->visits > MAX_VISITS) return mscrt_bad_file(c->f->zip.b, "pickle: %s", "too many dictionaries");
  if (depth > MAX_DEPTH) return mscrt_bad_file(c->f->zip.b, "pickle: %s", "dictionaries are nested too deeply");
  for (uint32_t i = 0; i + 1 < v->num; i += 2)
    MSCRT_CHECK(collect_member(c, v->item[i], v->item[i + 1], name, depth + 1));
  return NULL;
}

mscrt_status *mscrt_parse_torch(mscrt_archive *a, uint32_t file) {
  mscrt_torch_file f;
  MSCRT_CHECK(mscrt_archive_open_file(a, file));
  const mscrt_blob *b = &a->file[file].blob;
  MSCRT_CHECK(mscrt_torch_open(b, 0, b->bytes, &f));
  mscrt_status *s = collect(&(collecting){.a = a, .file = file, .f = &f}, f.pickle.root, "", 0);
  mscrt_torch_close(&f);
  return s;
}

mscrt_status *mscrt_torch_flag(const mscrt_archive *a, const char *object, const char *name, bool *out) {
  mscrt_torch_file f;
  const mscrt_blob *b = &a->file[0].blob;
  MSCRT_CHECK(mscrt_torch_open(b, 0, b->bytes, &f));
  const mscrt_py *v = mscrt_py_get(mscrt_py_get(f.pickle.root, object), name);
  *out = v && v->kind == MSCRT_PY_BOOL && v->number;
  mscrt_torch_close(&f);
  return NULL;
}
