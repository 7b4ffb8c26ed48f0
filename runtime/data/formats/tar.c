/* tar.c: a tar archive as WebDataset writes it in; its samples out.
 *
 * Members KEY.EXTENSION that stand one after the other with the same KEY are one sample; KEY ends at the first point of
 * the name behind its last slash.  Members are listed once, and read when a sample is wanted: images (PNG, JPEG), .npy
 * arrays of the input's shape, or text that is a number.  Formats: POSIX.1-1988 (ustar), with names of GNU tar ('L')
 * and of pax ('x', path), and sizes in base 256. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"

enum { BLOCK = 512, MAX_NAME = 4096, MAX_HEADER = 1 << 20, MAX_MEMBER = 1 << 30 };

typedef enum { PICTURES, ARRAYS, NUMBERS } content;

typedef struct {
  uint64_t at, bytes;
} member;

typedef struct {
  mscrt_records records;
  mscrt_blob blob;
  const mscrt_wanted *w; /* while it is opened */
  content content;
  bool whole; /* numbers are integers */
  mscrt_picture picture;
  mscrt_array array; /* of one sample, of ARRAYS */
  int64_t num;
  member *member;
} archive;

/* ---- headers ---- */

/* Reads a number: octal digits, or with the first bit set in base 256; false: neither, or too large. */
static bool read_number(const uint8_t *p, size_t num, uint64_t *out) {
  *out = 0;
  if (p[0] & 0x80) {
    for (size_t i = 1; i < num; i++) {
      if (*out >> 54) return false;
      *out = *out << 8 | p[i];
    }
    return !(p[0] & 0x7f);
  }
  size_t i = 0;
  while (i < num && p[i] == ' ') i++;
  for (; i < num && p[i] >= '0' && p[i] <= '7'; i++) *out = *out << 3 | (uint64_t)(p[i] - '0');
  return i == num || !p[i] || p[i] == ' ';
}

static bool has_right_sum(const uint8_t head[BLOCK]) {
  uint64_t want, sum = 8 * ' ';
  for (int i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? 0 : head[i];
  return read_number(head + 148, 8, &want) && want == sum;
}

bool mscrt_is_tar(const mscrt_blob *b) {
  uint8_t head[BLOCK];
  if (b->bytes < BLOCK) return false;
  mscrt_status *s = mscrt_blob_read(b, 0, head, BLOCK);
  bool is = !s && !memcmp(head + 257, "ustar", 5) && has_right_sum(head);
  mscrt_status_free(s);
  return is;
}

static bool is_zero(const uint8_t head[BLOCK]) {
  for (int i = 0; i < BLOCK; i++)
    if (head[i]) return false;
  return true;
}

/* Finds the name in a pax header's records "LENGTH path=NAME\n", the last one; without one it stays as it was. */
static void find_pax_path(const char *text, size_t num, const char **name, size_t *name_bytes) {
  for (const char *p = text, *end = text + num; p < end;) {
    char *blank;
    unsigned long length = strtoul(p, &blank, 10);
    if (blank == p || *blank != ' ' || length > (size_t)(end - p) || length < (size_t)(blank + 1 - p)) return;
    size_t left = length - (size_t)(blank + 1 - p);
    if (left > 6 && !memcmp(blank + 1, "path=", 5)) *name = blank + 6, *name_bytes = left - 6;
    p += length;
  }
}

/* Reads the name that a header of kind L or x holds for the member behind it; `name` stays if it holds none. */
static mscrt_status *read_long_name(const archive *a, uint64_t at, uint64_t bytes, bool pax, char name[MAX_NAME]) {
  char *text = NULL;
  if (bytes > MAX_HEADER)
    return mscrt_bad_file(&a->blob, "a header of %" PRIu64 " bytes, %d are the most", bytes, MAX_HEADER);
  MSCRT_CHECK(mscrt_allocate((void **)&text, (size_t)bytes + 1, 1));
  mscrt_status *s = mscrt_blob_read(&a->blob, at, text, (size_t)bytes);
  const char *found = text;
  size_t num = pax ? 0 : strlen(text);
  if (!s && pax) find_pax_path(text, (size_t)bytes, &found, &num);
  if (!s && num >= MAX_NAME)
    s = mscrt_bad_file(&a->blob, "a name of %zu bytes, %d are the most", num, MAX_NAME - 1);
  if (!s && num) memcpy(name, found, num), name[num] = 0;
  free(text);
  return s;
}

static void name_of_header(const uint8_t head[BLOCK], char name[MAX_NAME]) {
  size_t prefix = strnlen((const char *)head + 345, 155), own = strnlen((const char *)head, 100);
  bool has_prefix = prefix && !memcmp(head + 257, "ustar\0", 6);
  size_t at = 0;
  if (has_prefix) memcpy(name, head + 345, prefix), name[prefix] = '/', at = prefix + 1;
  memcpy(name + at, head, own);
  name[at + own] = 0;
}

/* ---- listing ---- */

typedef struct {
  archive *a;
  const char *extension;
  char key[MAX_NAME]; /* of the sample that members are being listed of */
  bool found;         /* it has a member with the extension */
  int64_t samples;
  int64_t room;
} listing;

static mscrt_status *end_sample(const listing *l) {
  if (l->samples && !l->found)
    return mscrt_bad_file(&l->a->blob, "sample %" PRId64 ", '%s', has no member .%s", l->samples - 1, l->key,
                          l->extension);
  return NULL;
}

static mscrt_status *list_member(listing *l, const char *name, uint64_t at, uint64_t bytes) {
  archive *a = l->a;
  const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *point = strchr(base, '.');
  if (*base == '.' || !point) return NULL;
  size_t length = (size_t)(point - name);
  if (!l->samples || strlen(l->key) != length || memcmp(l->key, name, length)) {
    MSCRT_CHECK(end_sample(l));
    memcpy(l->key, name, length);
    l->key[length] = 0;
    l->found = false;
    l->samples++;
  }
  if (strcmp(point + 1, l->extension)) return NULL;
  if (l->found) return mscrt_bad_file(&a->blob, "sample '%s' has two members .%s", l->key, l->extension);
  if (bytes > MAX_MEMBER) return mscrt_bad_file(&a->blob, "'%s' has more than %d bytes", name, MAX_MEMBER);
  MSCRT_CHECK(mscrt_grow(&a->member, a->num, &l->room, sizeof *a->member));
  a->member[a->num++] = (member){at, bytes};
  l->found = true;
  return NULL;
}

static mscrt_status *list_members(archive *a, const char *extension) {
  listing l = {.a = a, .extension = extension};
  uint8_t head[BLOCK];
  char name[MAX_NAME], long_name[MAX_NAME] = "";
  for (uint64_t at = 0;;) {
    uint64_t bytes;
    if (at + BLOCK > a->blob.bytes) /* a block of zeros is the end */
      return mscrt_bad_file(&a->blob, "the tar archive is cut at byte %" PRIu64, a->blob.bytes);
    MSCRT_CHECK(mscrt_blob_read(&a->blob, at, head, BLOCK));
    if (is_zero(head)) break;
    if (!has_right_sum(head) || !read_number(head + 124, 12, &bytes) || bytes > INT64_MAX)
      return mscrt_bad_file(&a->blob, "the tar archive is damaged at byte %" PRIu64, at);
    char kind = (char)head[156];
    if (kind == 'L' || kind == 'x') {
      MSCRT_CHECK(read_long_name(a, at + BLOCK, bytes, kind == 'x', long_name));
    } else {
      name_of_header(head, name);
      if (kind == '0' || kind == 0) MSCRT_CHECK(list_member(&l, *long_name ? long_name : name, at + BLOCK, bytes));
      *long_name = 0;
    }
    at += BLOCK + (bytes + BLOCK - 1) / BLOCK * BLOCK; /* a file that was cut short has no block there */
  }
  MSCRT_CHECK(end_sample(&l));
  return a->num ? NULL : mscrt_bad_file(&a->blob, "has no members .%s", extension);
}

/* ---- samples ---- */

static mscrt_status *name_sample(const archive *a, int64_t number, mscrt_status *s) {
  if (!s) return NULL;
  mscrt_status *named = mscrt_bad_file(&a->blob, "sample %" PRId64 ": %s", number, mscrt_status_text(s));
  mscrt_status_free(s);
  return named;
}

static mscrt_status *decode_array(const archive *a, const mscrt_blob *b, void *line) {
  mscrt_array have;
  MSCRT_CHECK(mscrt_npy_parse(b, &have));
  bool same = have.dtype == a->array.dtype && have.big_endian == a->array.big_endian && have.rank == a->array.rank;
  for (int d = 0; same && d < have.rank; d++) same = have.dim[d] == a->array.dim[d];
  if (!same) return mscrt_fail(MSCRT_INPUT, "its shape or element type is not that of the first sample");
  return mscrt_blob_read(b, have.at, line, (size_t)have.bytes);
}

static mscrt_status *decode_number(const archive *a, const uint8_t *bytes, size_t num, void *line) {
  char text[64] = "", *end;
  if (num >= sizeof text) return mscrt_fail(MSCRT_INPUT, "text of %zu bytes is no number", num);
  memcpy(text, bytes, num);
  bool fits = true;
  errno = 0;
  if (a->whole) *(int64_t *)line = strtoll(text, &end, 10), fits = !errno;
  else fits = mscrt_read_decimal(text, &end, line);
  size_t blank = strspn(end, " \r\n\t");
  if (end != text && !end[blank] && fits) return NULL;
  return mscrt_fail(MSCRT_INPUT, "'%.40s' is no %s", text, a->whole ? "integer of 64 bits" : "number within f64");
}

static mscrt_status *decode_bytes(const archive *a, const uint8_t *bytes, size_t num, void *line) {
  mscrt_blob b;
  if (a->content == PICTURES) return mscrt_picture_decode("image", bytes, num, &a->picture, line);
  if (a->content == NUMBERS) return decode_number(a, bytes, num, line);
  MSCRT_CHECK(mscrt_blob_of(bytes, num, &b));
  mscrt_status *s = decode_array(a, &b, line);
  mscrt_blob_close(&b);
  return s;
}

static mscrt_status *read_member(const archive *a, int64_t number, uint8_t **out, size_t *out_bytes) {
  *out = NULL;
  *out_bytes = (size_t)a->member[number].bytes;
  MSCRT_CHECK(mscrt_allocate((void **)out, *out_bytes + 1, 1));
  return mscrt_blob_read(&a->blob, a->member[number].at, *out, *out_bytes);
}

static mscrt_status *decode_member(const mscrt_records *r, int64_t number, void *line) {
  const archive *a = (const archive *)r;
  uint8_t *bytes;
  size_t num;
  mscrt_status *s = read_member(a, number, &bytes, &num);
  if (!s) s = name_sample(a, number, decode_bytes(a, bytes, num, line));
  free(bytes);
  return s;
}

static void free_archive(mscrt_records *r) {
  archive *a = (archive *)r;
  mscrt_blob_close(&a->blob);
  free(a->member);
  free(a);
}

/* ---- opening ---- */

/* Finds out from the first member what all members are. */
static mscrt_status *look_at_first(archive *a, const uint8_t *bytes, size_t num, mscrt_array *out) {
  const mscrt_wanted *w = a->w;
  *out = (mscrt_array){.rank = 1, .dim = {a->num}};
  if (mscrt_is_image(bytes, num)) {
    a->content = PICTURES, out->dtype = MSCRT_U8, a->records.slow = true;
    if (!mscrt_picture_of(w, &a->picture))
      return mscrt_bad_file(&a->blob, "images do not fit the samples of input '%s'", w->name);
    out->rank += mscrt_sample_shape(w, out->dim + 1);
  } else if (mscrt_is_npy(bytes, num)) {
    mscrt_blob b;
    a->content = ARRAYS;
    MSCRT_CHECK(mscrt_blob_of(bytes, num, &b));
    mscrt_status *s = name_sample(a, 0, mscrt_npy_parse(&b, &a->array));
    mscrt_blob_close(&b);
    if (s) return s;
    if (a->array.rank >= MSCRT_MAX_RANK) return mscrt_bad_file(&a->blob, "%s", "its arrays have too many dimensions");
    out->dtype = a->array.dtype, out->big_endian = a->array.big_endian, out->rank += a->array.rank;
    memcpy(out->dim + 1, a->array.dim, (size_t)a->array.rank * sizeof *out->dim);
  } else {
    a->content = NUMBERS, a->whole = !mscrt_is_float(w->dtype), out->dtype = a->whole ? MSCRT_I64 : MSCRT_F64;
  }
  return NULL;
}

static mscrt_status *open_archive(archive *a, const char *extension, mscrt_array *out) {
  uint8_t *bytes;
  size_t num;
  if (!extension)
    return mscrt_bad_file(&a->blob, "which members are meant? Choose with FILE:EXTENSION, as in %s:jpg", a->blob.path);
  MSCRT_CHECK(list_members(a, extension));
  mscrt_status *s = read_member(a, 0, &bytes, &num);
  if (!s) s = look_at_first(a, bytes, num, out);
  free(bytes);
  return s;
}

mscrt_status *mscrt_tar_open(mscrt_blob *b, const mscrt_wanted *w, const char *extension, mscrt_array *out_array,
                             mscrt_records **out_records) {
  archive *a = NULL;
  MSCRT_CHECK(mscrt_new_array(&a, 1));
  a->records = (mscrt_records){.decode = decode_member, .free = free_archive, .apart = true};
  a->blob = *b, a->w = w;
  *b = (mscrt_blob){.fd = -1};
  mscrt_status *s = open_archive(a, extension, out_array);
  a->w = NULL;
  if (s) free_archive(&a->records);
  else *out_records = &a->records;
  return s;
}
