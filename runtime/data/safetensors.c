/* safetensors.c: reads the safetensors format: header length (u64), JSON that maps names to {dtype, shape,
 * data_offsets}, and data that the tensors cover exactly. Other readers have been careless with these ranges, so
 * every rule of the format is checked. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"

#define MAX_HEADER 100000000

bool mscrt_is_safetensors(const uint8_t *head, size_t bytes, uint64_t file_bytes) {
  if (bytes < 9 || head[8] != '{') return false;
  uint64_t num = 0;
  for (int i = 0; i < 8; i++) num |= (uint64_t)head[i] << 8 * i;
  return num >= 2 && num <= MAX_HEADER && file_bytes >= 8;
}

/* ---- the JSON that occurs in headers; strings are decoded in place ---- */

typedef struct {
  const mscrt_blob *blob;
  char *start, *at, *end;
} reader;

#define bad_header(r, what) \
  mscrt_bad_file((r)->blob, "safetensors: %s at byte %td of the header", (what), (r)->at - (r)->start)

static void skip_json_blanks(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool take_token(reader *r, char want) {
  skip_json_blanks(r);
  if (r->at == r->end || *r->at != want) return false;
  r->at++;
  return true;
}

static bool take_hex(reader *r, uint32_t *out) {
  if (r->end - r->at < 4) return false;
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) {
    char c = *r->at++;
    uint32_t digit = c >= '0' && c <= '9'                 ? (uint32_t)(c - '0')
                     : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a' + 10)
                                                          : 16;
    if (digit == 16) return false;
    v = v << 4 | digit;
  }
  *out = v;
  return true;
}

/* Decodes \uXXXX, surrogate pairs included, to UTF-8, which is never longer than the escape. */
static bool take_unicode(reader *r, char **to) {
  uint32_t c, low;
  if (!take_hex(r, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000)) return false;
  if (c >= 0xd800 && c < 0xdc00) {
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') return false;
    r->at += 2;
    if (!take_hex(r, &low) || low < 0xdc00 || low >= 0xe000) return false;
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  char *o = *to;
  if (c < 0x80) *o++ = (char)c;
  else if (c < 0x800) *o++ = (char)(0xc0 | c >> 6);
  else if (c < 0x10000) *o++ = (char)(0xe0 | c >> 12);
  else *o++ = (char)(0xf0 | c >> 18);
  if (c >= 0x10000) *o++ = (char)(0x80 | (c >> 12 & 63));
  if (c >= 0x800) *o++ = (char)(0x80 | (c >> 6 & 63));
  if (c >= 0x80) *o++ = (char)(0x80 | (c & 63));
  *to = o;
  return true;
}

/* Decodes a string in place and ends it with NUL. */
static bool take_json_string(reader *r, char **out) {
  static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  if (!take_token(r, '"')) return false;
  char *to = r->at;
  *out = to;
  while (r->at < r->end && *r->at != '"') {
    char c = *r->at++;
    if ((unsigned char)c < 0x20) return false;
    if (c != '\\') {
      *to++ = c;
      continue;
    }
    if (r->at == r->end) return false;
    c = *r->at++;
    const char *known = c ? strchr(plain, c) : NULL;
    if (known) *to++ = meant[known - plain];
    else if (c != 'u' || !take_unicode(r, &to)) return false;
  }
  if (r->at == r->end) return false;
  r->at++;
  *to = 0;
  return true;
}

static bool take_json_number(reader *r, uint64_t *out) {
  skip_json_blanks(r);
  uint64_t v = 0;
  if (r->at == r->end || *r->at < '0' || *r->at > '9') return false;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*r->at - '0'), &v)) return false;
  *out = v;
  return true;
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
static bool take_json_shape(reader *r, entry *e) {
  e->elems = 1;
  bool empty = false;
  if (!take_token(r, '[')) return false;
  if (take_token(r, ']')) return true;
  do {
    uint64_t dim;
    if (!take_json_number(r, &dim) || dim > INT64_MAX || e->rank == INT32_MAX) return false;
    if (e->rank < MSCRT_MAX_RANK) e->dim[e->rank] = (int64_t)dim;
    e->rank++;
    if (dim == 0) empty = true;
    else if (__builtin_mul_overflow(e->elems, dim, &e->elems) || e->elems >> 58) return false;
  } while (take_token(r, ','));
  if (empty) e->elems = 0;
  return take_token(r, ']');
}

static mscrt_status *take_entry(reader *r, entry *e) {
  if (!take_token(r, '{')) return bad_header(r, "a tensor is not described by an object");
  bool first = true;
  while (first || take_token(r, ',')) {
    char *key;
    first = false;
    if (!take_json_string(r, &key) || !take_token(r, ':')) return bad_header(r, "a key is expected");
    if (!strcmp(key, "dtype") && !e->dtype) {
      if (!take_json_string(r, &e->dtype)) return bad_header(r, "the element type is not a string");
    } else if (!strcmp(key, "shape") && !e->has_shape) {
      if (!take_json_shape(r, e)) return bad_header(r, "the shape is not a list of sizes whose product fits");
      e->has_shape = true;
    } else if (!strcmp(key, "data_offsets") && !e->has_offsets) {
      if (!take_token(r, '[') || !take_json_number(r, &e->begin) || !take_token(r, ',') ||
          !take_json_number(r, &e->end) || !take_token(r, ']'))
        return bad_header(r, "data_offsets is not [begin, end]");
      e->has_offsets = true;
    } else {
      return bad_header(r, "a key is unknown or doubled");
    }
  }
  if (!take_token(r, '}')) return bad_header(r, "'}' is expected");
  if (!e->dtype || !e->has_shape || !e->has_offsets)
    return bad_header(r, "a tensor lacks dtype, shape or data_offsets");
  return NULL;
}

/* The element types of the format; MSCRT_NUM_DTYPES for those that msc does not have. */
static bool safetensors_dtype(const char *text, mscrt_dtype *out_dtype, uint64_t *out_bits) {
  static const struct { const char *text; uint8_t dtype, bits; } kinds[] = {
    {"F64", MSCRT_F64, 64}, {"F32", MSCRT_F32, 32}, {"F16", MSCRT_F16, 16}, {"BF16", MSCRT_BF16, 16},
    {"I64", MSCRT_I64, 64}, {"I32", MSCRT_I32, 32}, {"I16", MSCRT_I16, 16}, {"I8", MSCRT_I8, 8},
    {"U64", MSCRT_U64, 64}, {"U32", MSCRT_U32, 32}, {"U16", MSCRT_U16, 16}, {"U8", MSCRT_U8, 8}, {"BOOL", MSCRT_I1, 8},
    {"C64", MSCRT_NUM_DTYPES, 64}, {"F8_E4M3", MSCRT_NUM_DTYPES, 8}, {"F8_E5M2", MSCRT_NUM_DTYPES, 8}, {"F8_E8M0",
     MSCRT_NUM_DTYPES, 8},
    {"F6_E2M3", MSCRT_NUM_DTYPES, 6}, {"F6_E3M2", MSCRT_NUM_DTYPES, 6}, {"F4", MSCRT_NUM_DTYPES, 4},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(text, kinds[i].text)) {
      *out_dtype = (mscrt_dtype)kinds[i].dtype;
      *out_bits = kinds[i].bits;
      return true;
    }
  return false;
}

static mscrt_status *set_named_array(const mscrt_blob *b, const entry *e, uint64_t data_at, mscrt_named_array *out) {
  char clean[96], other[32];
  mscrt_clean(e->name, SIZE_MAX, clean, sizeof clean);
  mscrt_dtype dtype;
  uint64_t bits, data_bytes = b->bytes - data_at;
  if (!safetensors_dtype(e->dtype, &dtype, &bits))
    return mscrt_bad_file(b, "safetensors: tensor '%s': unknown element type '%s'", clean,
                          mscrt_clean(e->dtype, SIZE_MAX, other, sizeof other));
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

static mscrt_status *check_cover(const mscrt_blob *b, mscrt_safetensors *t, uint64_t data_at) {
  char clean[96];
  uint64_t at = data_at;
  sort_tensors(t, compare_offsets);
  for (size_t i = 0; i < t->num; i++) {
    const mscrt_named_array *n = &t->tensor[i];
    if (n->array.at != at)
      return mscrt_bad_file(b, "safetensors: tensor '%s' %s the one before it",
                            mscrt_clean(n->name, SIZE_MAX, clean, sizeof clean),
                            n->array.at < at ? "overlaps" : "leaves a gap after");
    at += n->array.bytes;
  }
  if (at != b->bytes)
    return mscrt_bad_file(b, "safetensors: %" PRIu64 " bytes at the end belong to no tensor", b->bytes - at);
  sort_tensors(t, compare_tensor_names);
  for (size_t i = 1; i < t->num; i++)
    if (!strcmp(t->tensor[i - 1].name, t->tensor[i].name))
      return mscrt_bad_file(b, "safetensors: two tensors are called '%s'",
                            mscrt_clean(t->tensor[i].name, SIZE_MAX, clean, sizeof clean));
  return NULL;
}

static mscrt_status *skip_metadata(reader *r) {
  char *key, *value;
  if (!take_token(r, '{')) return bad_header(r, "__metadata__ is not an object");
  if (take_token(r, '}')) return NULL;
  do {
    if (!take_json_string(r, &key) || !take_token(r, ':') || !take_json_string(r, &value))
      return bad_header(r, "__metadata__ must map strings to strings");
  } while (take_token(r, ','));
  return take_token(r, '}') ? NULL : bad_header(r, "'}' is expected");
}

static mscrt_status *add_tensor(reader *r, char *name, uint64_t data_at, mscrt_safetensors *t, size_t *room) {
  entry e = {.name = name};
  MSCRT_CHECK(take_entry(r, &e));
  if (t->num == *room) {
    size_t more = *room ? 2 * *room : 64;
    mscrt_named_array *tensor = realloc(t->tensor, more * sizeof *tensor);
    if (!tensor) return mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", r->blob->path);
    t->tensor = tensor;
    *room = more;
  }
  return set_named_array(r->blob, &e, data_at, &t->tensor[t->num++]);
}

static mscrt_status *parse_json_header(reader *r, uint64_t data_at, mscrt_safetensors *t) {
  size_t room = 0;
  bool has_metadata = false;
  if (!take_token(r, '{')) return bad_header(r, "'{' is expected");
  if (!take_token(r, '}')) {
    do {
      char *name;
      if (!take_json_string(r, &name) || !take_token(r, ':')) return bad_header(r, "a name is expected");
      if (strcmp(name, "__metadata__")) {
        MSCRT_CHECK(add_tensor(r, name, data_at, t, &room));
      } else {
        if (has_metadata) return bad_header(r, "__metadata__ is doubled");
        has_metadata = true;
        MSCRT_CHECK(skip_metadata(r));
      }
    } while (take_token(r, ','));
    if (!take_token(r, '}')) return bad_header(r, "'}' is expected");
  }
  skip_json_blanks(r);
  return r->at == r->end ? check_cover(r->blob, t, data_at) : bad_header(r, "something follows the object");
}

mscrt_status *mscrt_safetensors_parse(const mscrt_blob *b, mscrt_safetensors *out_tensors) {
  uint8_t head[8];
  uint64_t bytes = 0;
  mscrt_safetensors t = {0};
  MSCRT_CHECK(mscrt_blob_read(b, 0, head, 8));
  for (int i = 0; i < 8; i++) bytes |= (uint64_t)head[i] << 8 * i;
  if (bytes > MAX_HEADER)
    return mscrt_bad_file(b, "safetensors: the header claims %" PRIu64 " bytes, at most %d are allowed", bytes,
                          MAX_HEADER);
  if (bytes > b->bytes - 8)
    return mscrt_bad_file(b, "truncated: the header claims %" PRIu64 " bytes, %" PRIu64 " follow", bytes, b->bytes - 8);
  MSCRT_CHECK(mscrt_new_array(&t.text, bytes + 1));
  mscrt_status *s = mscrt_blob_read(b, 8, t.text, (size_t)bytes);
  if (!s) s = parse_json_header(&(reader){b, t.text, t.text, t.text + bytes}, 8 + bytes, &t);
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
