/* safetensors.c: reads the safetensors format: header length (u64), JSON that maps names to {dtype, shape,
 * data_offsets}, and data that the tensors cover exactly. Other readers have been careless with these ranges, so
 * every rule of the format is checked. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/json.h"

#define MAX_HEADER 100000000

bool mscrt_is_safetensors(const uint8_t *head, size_t bytes, uint64_t file_bytes) {
  if (bytes < 9 || head[8] != '{') return false;
  uint64_t num = 0;
  for (int i = 0; i < 8; i++) num |= (uint64_t)head[i] << 8 * i;
  return num >= 2 && num <= MAX_HEADER && file_bytes >= 8;
}

/* ---- one tensor ---- */

typedef struct {
  char *name, *dtype;
  bool has_shape, has_offsets;
  uint64_t elems, begin, end;
  int rank;
  int64_t dim[MSCRT_MAX_RANK];
} entry;

/* Reads a shape. Sizes may be zero, but the product of the others must fit: another reader may multiply in another
 * order. */
static bool take_json_shape(mscrt_json *r, entry *e) {
  e->elems = 1;
  bool empty = false;
  if (!mscrt_json_token(r, '[')) return false;
  if (mscrt_json_token(r, ']')) return true;
  do {
    uint64_t dim;
    if (!mscrt_json_number(r, &dim) || dim > INT64_MAX || e->rank == INT32_MAX) return false;
    if (e->rank < MSCRT_MAX_RANK) e->dim[e->rank] = (int64_t)dim;
    e->rank++;
    if (dim == 0) empty = true;
    else if (__builtin_mul_overflow(e->elems, dim, &e->elems) || e->elems >> 58) return false;
  } while (mscrt_json_token(r, ','));
  if (empty) e->elems = 0;
  return mscrt_json_token(r, ']');
}

static mscrt_status *take_tensor_entry(mscrt_json *r, entry *e) {
  if (!mscrt_json_token(r, '{')) return mscrt_bad_json(r, "a tensor is not described by an object");
  bool first = true;
  while (first || mscrt_json_token(r, ',')) {
    char *key;
    first = false;
    if (!mscrt_json_string(r, &key) || !mscrt_json_token(r, ':')) return mscrt_bad_json(r, "a key is expected");
    if (!strcmp(key, "dtype") && !e->dtype) {
      if (!mscrt_json_string(r, &e->dtype)) return mscrt_bad_json(r, "the element type is not a string");
    } else if (!strcmp(key, "shape") && !e->has_shape) {
      if (!take_json_shape(r, e)) return mscrt_bad_json(r, "the shape is not a list of sizes whose product fits");
      e->has_shape = true;
    } else if (!strcmp(key, "data_offsets") && !e->has_offsets) {
      if (!mscrt_json_token(r, '[') || !mscrt_json_number(r, &e->begin) || !mscrt_json_token(r, ',') ||
          !mscrt_json_number(r, &e->end) || !mscrt_json_token(r, ']'))
        return mscrt_bad_json(r, "data_offsets is not [begin, end]");
      e->has_offsets = true;
    } else {
      return mscrt_bad_json(r, "a key is unknown or doubled");
    }
  }
  if (!mscrt_json_token(r, '}')) return mscrt_bad_json(r, "'}' is expected");
  if (!e->dtype || !e->has_shape || !e->has_offsets)
    return mscrt_bad_json(r, "a tensor lacks dtype, shape or data_offsets");
  return NULL;
}

static const char *const type_names[MSCRT_NUM_DTYPES] = {"F32", "F16", "BF16", "F64", "BOOL", "I8", "I16",
                                                         "I32", "I64", "U8",   "U16", "U32",  "U64"};

const char *mscrt_safetensors_dtype(mscrt_dtype d) { return type_names[d]; }

bool mscrt_dtype_of_safetensors(const char *text, mscrt_dtype *out_dtype) {
  for (int i = 0; i < MSCRT_NUM_DTYPES; i++)
    if (!strcmp(text, type_names[i])) {
      *out_dtype = (mscrt_dtype)i;
      return true;
    }
  return false;
}

/* The element types of the format; MSCRT_NUM_DTYPES for those that msc does not have. */
static bool element_type(const char *text, mscrt_dtype *out_dtype, uint64_t *out_bits) {
  static const struct {
    const char *text;
    uint8_t bits;
  } others[] = {
      {"C64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
  };
  if (mscrt_dtype_of_safetensors(text, out_dtype)) {
    *out_bits = 8 * mscrt_dtype_bytes(*out_dtype);
    return true;
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(text, others[i].text)) {
      *out_dtype = MSCRT_NUM_DTYPES;
      *out_bits = others[i].bits;
      return true;
    }
  return false;
}

static mscrt_status *set_named_array(const mscrt_blob *b, const entry *e, uint64_t data_at, mscrt_named_array *out) {
  char clean[96], other[32];
  mscrt_clean_text(e->name, SIZE_MAX, clean, sizeof clean);
  mscrt_dtype dtype;
  uint64_t bits, data_bytes = b->bytes - data_at;
  if (!element_type(e->dtype, &dtype, &bits))
    return mscrt_bad_file(b, "safetensors: tensor '%s': unknown element type '%s'", clean,
                          mscrt_clean_text(e->dtype, SIZE_MAX, other, sizeof other));
  if (e->begin > e->end || e->end > data_bytes)
    return mscrt_bad_file(
        b, "safetensors: tensor '%s': bytes %" PRIu64 " .. %" PRIu64 " are not inside the %" PRIu64 " bytes of data",
        clean, e->begin, e->end, data_bytes);
  if (e->elems * bits % 8 || e->elems * bits / 8 != e->end - e->begin)
    return mscrt_bad_file(b, "safetensors: tensor '%s': shape and type need %" PRIu64 " bytes, its range has %" PRIu64,
                          clean, e->elems * bits / 8, e->end - e->begin);
  *out = (mscrt_named_array){.name = e->name, .known = dtype != MSCRT_NUM_DTYPES && e->rank <= MSCRT_MAX_RANK};
  out->array = (mscrt_array){
      .dtype = out->known ? dtype : MSCRT_U8, .rank = e->rank, .at = data_at + e->begin, .bytes = e->end - e->begin};
  memcpy(out->array.dim, e->dim, sizeof e->dim);
  return NULL;
}

/* ---- the whole header ---- */

static int compare_offsets(const void *a, const void *b) {
  const mscrt_array *x = &((const mscrt_named_array *)a)->array, *y = &((const mscrt_named_array *)b)->array;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int compare_tensor_names(const void *a, const void *b) {
  return strcmp(((const mscrt_named_array *)a)->name, ((const mscrt_named_array *)b)->name);
}

static void sort_tensors(mscrt_safetensors *t, int (*compare)(const void *, const void *)) {
  if (t->num) qsort(t->tensor, t->num, sizeof *t->tensor, compare);
}

static mscrt_status *check_data_cover(const mscrt_blob *b, mscrt_safetensors *t, uint64_t data_at) {
  char clean[96];
  uint64_t at = data_at;
  sort_tensors(t, compare_offsets);
  for (size_t i = 0; i < t->num; i++) {
    const mscrt_named_array *n = &t->tensor[i];
    if (n->array.at != at)
      return mscrt_bad_file(b, "safetensors: tensor '%s' %s the one before it",
                            mscrt_clean_text(n->name, SIZE_MAX, clean, sizeof clean),
                            n->array.at < at ? "overlaps" : "leaves a gap after");
    at += n->array.bytes;
  }
  if (at != b->bytes)
    return mscrt_bad_file(b, "safetensors: %" PRIu64 " bytes at the end belong to no tensor", b->bytes - at);
  sort_tensors(t, compare_tensor_names);
  for (size_t i = 1; i < t->num; i++)
    if (!strcmp(t->tensor[i - 1].name, t->tensor[i].name))
      return mscrt_bad_file(b, "safetensors: two tensors are called '%s'",
                            mscrt_clean_text(t->tensor[i].name, SIZE_MAX, clean, sizeof clean));
  return NULL;
}

/* Reads the metadata, of which only the checksums of a checkpoint's own files are used. */
static mscrt_status *take_checksums(mscrt_json *r, mscrt_safetensors *t) {
  char *key, *value;
  if (!mscrt_json_token(r, '{')) return mscrt_bad_json(r, "__metadata__ is not an object");
  if (mscrt_json_token(r, '}')) return NULL;
  do {
    if (!mscrt_json_string(r, &key) || !mscrt_json_token(r, ':') || !mscrt_json_string(r, &value))
      return mscrt_bad_json(r, "__metadata__ must map strings to strings");
    if (!strcmp(key, MSCRT_CHECKSUMS)) t->checksums = value;
  } while (mscrt_json_token(r, ','));
  return mscrt_json_token(r, '}') ? NULL : mscrt_bad_json(r, "'}' is expected");
}

static mscrt_status *add_tensor(mscrt_json *r, char *name, uint64_t data_at, mscrt_safetensors *t, int64_t *room) {
  entry e = {.name = name};
  MSCRT_CHECK(take_tensor_entry(r, &e));
  MSCRT_CHECK(mscrt_grow(&t->tensor, (int64_t)t->num, room, sizeof *t->tensor));
  return set_named_array(r->blob, &e, data_at, &t->tensor[t->num++]);
}

static mscrt_status *parse_json_header(mscrt_json *r, uint64_t data_at, mscrt_safetensors *t) {
  int64_t room = 0;
  bool has_metadata = false;
  if (!mscrt_json_token(r, '{')) return mscrt_bad_json(r, "'{' is expected");
  if (!mscrt_json_token(r, '}')) {
    do {
      char *name;
      if (!mscrt_json_string(r, &name) || !mscrt_json_token(r, ':')) return mscrt_bad_json(r, "a name is expected");
      if (strcmp(name, "__metadata__")) {
        MSCRT_CHECK(add_tensor(r, name, data_at, t, &room));
      } else {
        if (has_metadata) return mscrt_bad_json(r, "__metadata__ is doubled");
        has_metadata = true;
        MSCRT_CHECK(take_checksums(r, t));
      }
    } while (mscrt_json_token(r, ','));
    if (!mscrt_json_token(r, '}')) return mscrt_bad_json(r, "'}' is expected");
  }
  mscrt_json_blanks(r);
  return r->at == r->end ? check_data_cover(r->blob, t, data_at) : mscrt_bad_json(r, "something follows the object");
}

mscrt_status *mscrt_safetensors_parse(const mscrt_blob *b, mscrt_safetensors *out_tensors) {
  uint8_t head[8];
  uint64_t bytes = 0;
  mscrt_safetensors t = {0};
  MSCRT_CHECK(mscrt_blob_read(b, 0, head, 8));
  for (int i = 0; i < 8; i++) bytes |= (uint64_t)head[i] << 8 * i;
  if (bytes > MAX_HEADER)
    return mscrt_bad_file(
        b, "is no safetensors file: its first 8 bytes would be a header of %" PRIu64 " bytes, at most %d are allowed",
        bytes, MAX_HEADER);
  if (bytes > b->bytes - 8)
    return mscrt_bad_file(b, "truncated: the header claims %" PRIu64 " bytes, %" PRIu64 " follow", bytes, b->bytes - 8);
  MSCRT_CHECK(mscrt_new_array(&t.text, bytes + 1));
  mscrt_status *s = mscrt_blob_read(b, 8, t.text, (size_t)bytes);
  if (!s)
    s = parse_json_header(&(mscrt_json){b, "safetensors", "header", t.text, t.text, t.text + bytes}, 8 + bytes, &t);
  if (s) mscrt_safetensors_free(&t);
  *out_tensors = t;
  return s;
}

void mscrt_safetensors_free(mscrt_safetensors *t) {
  free(t->tensor);
  free(t->text);
  *t = (mscrt_safetensors){0};
}

const mscrt_named_array *mscrt_safetensors_find(const mscrt_safetensors *t, const char *name) {
  mscrt_named_array key = {.name = (char *)(uintptr_t)name};
  return t->num ? bsearch(&key, t->tensor, t->num, sizeof key, compare_tensor_names) : NULL;
}
